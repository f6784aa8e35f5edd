/* What keyring.c (keys) and keyring_sign.c (keysets) share. */
#ifndef EGRESS_AUTHORITY_KEYRING_INTERNAL_H
#define EGRESS_AUTHORITY_KEYRING_INTERNAL_H

#include <stdbool.h>

#include "authority/keyring.h"
#include "base/sink.h"

#define KEYRING_ROOT_FILE_MAX 8192

/* A sentence about what failed; returns `e`. */
enum err keyring_say(char out_reason[KEYRING_REASON_MAX], enum err e, const char *what, const char *name);
/* "id":"public key", with a comma before it unless it is the first. */
void keyring_print_public(struct sink *s, const struct keyring_key *key, bool is_first);

#endif
