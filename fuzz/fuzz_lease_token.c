/*
 * User name and password as a guest sends them: the first byte says where the name ends. A claim that is well formed gives the name back; one
 * that is not holds nothing but the digest, and the digest is always of the whole password.
 */
#include <string.h>

#include "base/crypto.h"
#include "lease/lease_token.h"
#include "require.h"

static void check_printable(const char *text, size_t max)
{
	size_t len = strlen(text);

	REQUIRE(len <= max);
	for (size_t i = 0; i < len; i++)
		REQUIRE(text[i] >= ' ' && text[i] <= '~');
}

static void check_claim(const struct lease_claim *claim, struct text user, struct text password)
{
	char again[RECORD_LEASE_MAX + RECORD_TAG_MAX + 2];
	size_t id_len = strlen(claim->id), tag_len = strlen(claim->tag);

	check_printable(claim->id, RECORD_LEASE_MAX);
	check_printable(claim->tag, RECORD_TAG_MAX);
	if (!claim->well_formed) {
		REQUIRE(id_len == 0 && tag_len == 0);
		return;
	}
	REQUIRE(id_len > 0 && password.len > 0);
	REQUIRE(strchr(claim->id, '/') == NULL && strchr(claim->id, ' ') == NULL);
	memcpy(again, claim->id, id_len);
	again[id_len] = '/';
	memcpy(again + id_len + 1, claim->tag, tag_len);
	/* Without a tag the slash may be missing. */
	REQUIRE(user.len == id_len + 1 + tag_len || (tag_len == 0 && user.len == id_len));
	REQUIRE(memcmp(user.at, again, user.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = exact_copy(data, size), digest[CRYPTO_SHA256_LEN];
	size_t cut = size > 0 ? cut_at(size - 1, data[0]) : 0, from = size > 0;
	struct text user = { (const char *)copy + from, cut };
	struct text password = { (const char *)copy + from + cut, size - from - cut };
	struct lease_claim claim;

	REQUIRE(crypto_init() == ERR_OK);
	REQUIRE(lease_token_claim(user, password, &claim) == ERR_OK);
	REQUIRE(crypto_sha256(password.at, password.len, digest) == ERR_OK);
	REQUIRE(memcmp(digest, claim.digest, sizeof(digest)) == 0);
	check_claim(&claim, user, password);
	free(copy);
	return 0;
}
