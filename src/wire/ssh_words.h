/*
 * What an SSH server says that will not serve: a line, its identification, and a disconnect message before any key exchange
 * (RFC 4253 sections 4.2, 6 and 11.1). Clients show the last of these to people. Only written here, never read.
 */
#ifndef EGRESS_WIRE_SSH_WORDS_H
#define EGRESS_WIRE_SSH_WORDS_H

#include <stddef.h>
#include <stdint.h>

#define SSH_WORDS_TEXT_MAX 200
#define SSH_WORDS_MAX 512

/* Write `text` (printable ASCII, at most SSH_WORDS_TEXT_MAX bytes count) as a line and as a reason to disconnect; returns the length. */
size_t ssh_words_put(const char *text, uint8_t out_bytes[SSH_WORDS_MAX]);

#endif
