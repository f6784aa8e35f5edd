/*
 * The one canonicaliser of domain names (RFC 1035 section 2.3.4; contract section 1): ASCII letters, digits,
 * hyphen, underscore, dot; lower-cased; one final dot removed; labels 1-63, total at most 253. Serves SOCKS
 * names, rules, TLS server names, HTTP hosts and DNS owner names alike. Repairs nothing else.
 */
#ifndef EGRESS_BASE_DNAME_H
#define EGRESS_BASE_DNAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/text.h"

#define DNAME_MAX 253

struct dname {
	uint8_t len;
	uint8_t label_count;
	char text[DNAME_MAX + 1]; /* canonical, zero-terminated, no final dot */
};

enum dname_result {
	DNAME_OK,
	DNAME_INVALID, /* not a name at all */
	DNAME_NUMERIC, /* well formed, but the last label is a number (digits or 0x-hex): an address attempt */
};

enum dname_final_dot { DNAME_FINAL_DOT_DROP, DNAME_FINAL_DOT_REFUSE };

/* Make `in` canonical. *out_name is written only for DNAME_OK. */
enum dname_result dname_parse(struct text in, enum dname_final_dot dot, struct dname *out_name)
	ATTR_MUST_CHECK;
bool dname_equal(const struct dname *a, const struct dname *b);
/* Is `name` equal to `suffix` or below it, on a label boundary? */
bool dname_is_within(const struct dname *name, struct text suffix);
/* The part of `name` that starts after its first label; empty when there was one label. Start with text_of(name->text). */
struct text dname_parent(struct text name);
/* Wire form (RFC 1035 section 3.1): length-prefixed labels and a zero byte, at most 255 bytes; returns the length. */
size_t dname_to_wire(const struct dname *name, uint8_t out_wire[255]);

#endif
