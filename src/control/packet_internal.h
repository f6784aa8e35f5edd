/* One control packet in or out of a socket, with the descriptor its row asks for: shared by channel and client, for this folder only. */
#ifndef EGRESS_CONTROL_PACKET_INTERNAL_H
#define EGRESS_CONTROL_PACKET_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "wire/ctl_msg.h"

/*
 * Receive one packet into `packet`, which the text in *out_msg then points into. *out_fd is the caller's (-1: none). AGAIN, CLOSED, or
 * INVALID for whatever is not a message that one of the sides `from` may send; no descriptor stays open then.
 */
enum err packet_receive(int fd, uint8_t packet[CTL_MSG_MAX], unsigned from, struct ctl_msg *out_msg, int *out_fd)
	ATTR_MUST_CHECK;
/* Send one packet with `passed` (-1: none) as its descriptor. AGAIN, CLOSED, LIMIT. */
enum err packet_send(int fd, const uint8_t *packet, size_t len, int passed) ATTR_MUST_CHECK;

#endif
