/* SOCKS credentials to a claimed lease id, a tag and a token digest; holds the secret for as short as it can and wipes it. */
#ifndef EGRESS_LEASE_LEASE_TOKEN_H
#define EGRESS_LEASE_LEASE_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"
#include "decision/record.h"

#define LEASE_TOKEN_LEN 46 /* "v1." and 43 base64url characters (256 bits) */

struct lease_claim {
	char id[RECORD_LEASE_MAX + 1];
	char tag[RECORD_TAG_MAX + 1]; /* printable ASCII, or "" */
	bool well_formed;             /* user name has the shape of "lease" or "lease/tag", no NUL, and the password is not empty */
	uint8_t digest[32];           /* SHA-256 of the password as sent; computed always, so that time tells nothing */
};

/* Read user and password. The claim holds no secret. */
enum err lease_token_claim(struct text user, struct text password, struct lease_claim *out_claim)
	ATTR_MUST_CHECK;
/* Make a fresh token and its digest in hex (egressctl token new). */
enum err lease_token_new(char out_token[LEASE_TOKEN_LEN + 1], char out_digest_hex[65]) ATTR_MUST_CHECK;

#endif
