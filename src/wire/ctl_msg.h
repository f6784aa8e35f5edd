/*
 * Control messages between daemon, sidecar and tools: one message is one packet of a SEQPACKET unix socket. The table in
 * ctl_msg.def names every message, its direction and its fields; this codec reads and writes them. Knows no socket.
 */
#ifndef EGRESS_WIRE_CTL_MSG_H
#define EGRESS_WIRE_CTL_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/cursor.h"
#include "base/text.h"

#define CTL_MSG_VERSION 2
#define CTL_MSG_MAX 65536    /* bytes of one packet */
#define CTL_MSG_FIELDS_MAX 8
/* NACK's reason for a root whose base is not the newest snapshot that the daemon took: a complete root is wanted. */
#define CTL_NACK_BASE "its base is not held"

/* Who may send it. */
enum ctl_side { CTL_FROM_DAEMON = 1, CTL_FROM_SIDECAR = 2, CTL_FROM_TOOL = 4 };
/* Field types: u = 64-bit number, t = text up to 65,000 bytes, b = bytes. */

enum ctl_type {
#define CTL_MSG(sym, word, from, fields, fd) CTL_##sym,
#include "wire/ctl_msg.def"
#undef CTL_MSG
	CTL_TYPE_COUNT
};

struct ctl_row {
	const char *word;
	unsigned from;      /* enum ctl_side bits */
	const char *fields; /* one letter each */
	bool takes_fd;      /* exactly one descriptor travels with it */
};

struct ctl_field {
	uint64_t number;   /* 'u' */
	struct text bytes; /* 't', 'b': borrowed from the packet (reading) or the caller (writing) */
};

struct ctl_msg {
	enum ctl_type type;
	struct ctl_field field[CTL_MSG_FIELDS_MAX];
};

const struct ctl_row *ctl_row(enum ctl_type type);
/* Read a whole packet; anything left over, missing or unknown is BAD. Text fields may not hold NUL. */
enum parsed ctl_msg_read(const uint8_t *packet, size_t len, struct ctl_msg *out_msg) ATTR_MUST_CHECK;
/* Write a packet; returns its length, 0 when it does not fit into `cap`. */
size_t ctl_msg_write(const struct ctl_msg *msg, uint8_t *out_packet, size_t cap) ATTR_MUST_CHECK;

#endif
