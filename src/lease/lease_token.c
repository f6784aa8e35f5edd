/*
 * SOCKS credentials to a claim without a secret, and fresh tokens. Decides nothing: whether the claim holds is the table's question. Called
 * by proxy/handshake and egressctl.
 */
#include "lease/lease_token.h"

#include <string.h>

#include "base/crypto.h"

#define TOKEN_PREFIX "v1."
#define TOKEN_SECRET_LEN 32

/* Copy printable ASCII of at most `max` characters; blanks only where `blanks`. */
static bool copy_printable(struct text t, bool blanks, char *out_text, size_t max)
{
	if (t.len > max)
		return false;
	for (size_t i = 0; i < t.len; i++) {
		if (t.at[i] < ' ' || t.at[i] > '~' || (t.at[i] == ' ' && !blanks))
			return false;
		out_text[i] = t.at[i];
	}
	out_text[t.len] = '\0';
	return true;
}

static bool split_user(struct text user, struct lease_claim *claim)
{
	const char *slash = user.len == 0 ? NULL : memchr(user.at, '/', user.len);
	struct text id = user, tag = { .at = "", .len = 0 };

	if (slash != NULL) {
		id.len = (size_t)(slash - user.at);
		tag = (struct text){ .at = slash + 1, .len = user.len - id.len - 1 };
	}
	return id.len > 0 && copy_printable(id, false, claim->id, RECORD_LEASE_MAX) &&
	       copy_printable(tag, true, claim->tag, RECORD_TAG_MAX);
}

enum err lease_token_claim(struct text user, struct text password, struct lease_claim *out_claim)
{
	struct lease_claim claim = { 0 };
	enum err err = crypto_sha256(password.at, password.len, claim.digest);

	if (err != ERR_OK)
		return err;
	claim.well_formed = split_user(user, &claim) && password.len > 0;
	if (!claim.well_formed) {
		memset(claim.id, 0, sizeof(claim.id));
		memset(claim.tag, 0, sizeof(claim.tag));
	}
	*out_claim = claim;
	return ERR_OK;
}

enum err lease_token_new(char out_token[LEASE_TOKEN_LEN + 1], char out_digest_hex[65])
{
	char token[LEASE_TOKEN_LEN + 1] = TOKEN_PREFIX;
	uint8_t secret[TOKEN_SECRET_LEN], digest[CRYPTO_SHA256_LEN];
	enum err err = crypto_random(secret, sizeof(secret));

	if (err == ERR_OK) {
		crypto_base64url(secret, sizeof(secret), token + strlen(TOKEN_PREFIX),
				 sizeof(token) - strlen(TOKEN_PREFIX));
		err = crypto_sha256(token, LEASE_TOKEN_LEN, digest);
	}
	if (err == ERR_OK) {
		memcpy(out_token, token, sizeof(token));
		text_from_bytes_hex(digest, sizeof(digest), out_digest_hex);
	}
	crypto_wipe(secret, sizeof(secret));
	crypto_wipe(token, sizeof(token));
	return err;
}
