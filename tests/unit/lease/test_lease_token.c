/* Credentials to claims, and fresh tokens. */
#include "lease/lease_token.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/crypto.h"

static struct lease_claim claim_of(struct text user, struct text password)
{
	struct lease_claim claim;

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(lease_token_claim(user, password, &claim), ERR_OK);
	return claim;
}

Test(lease_token, reads_a_lease_id_and_an_optional_tag)
{
	static const char long_id[] = "0123456789012345678901234567890123456789012345678901234567890123";
	static const char tag32[] = "01234567890123456789012345678901";
	static const struct {
		const char *user, *id, *tag; /* id NULL: not well formed */
	} rows[] = {
		{ "ls_1", "ls_1", "" },
		{ "ls_1/build 7~", "ls_1", "build 7~" },
		{ "ls_1/", "ls_1", "" },
		{ "ls_1/a/b", "ls_1", "a/b" },
		{ long_id, long_id, "" },
		{ "ls_1/01234567890123456789012345678901", "ls_1", tag32 },
		{ "ls_1/012345678901234567890123456789012", NULL, NULL },
		{ "01234567890123456789012345678901234567890123456789012345678901234", NULL, NULL },
		{ "", NULL, NULL },
		{ "/tag", NULL, NULL },
		{ "ls 1", NULL, NULL },
		{ "ls\n1", NULL, NULL },
		{ "ls_1/a\tb", NULL, NULL },
		{ "ls_\xc3\xa9", NULL, NULL },
		{ "ls_1\x7f", NULL, NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct lease_claim claim = claim_of(text_of(rows[i].user), text_of("secret"));

		cr_expect_eq(claim.well_formed, rows[i].id != NULL, "row %zu", i);
		cr_expect_str_eq(claim.id, rows[i].id == NULL ? "" : rows[i].id);
		cr_expect_str_eq(claim.tag, rows[i].tag == NULL ? "" : rows[i].tag);
	}
}

Test(lease_token, never_takes_a_name_up_to_a_zero_byte)
{
	struct lease_claim claim = claim_of((struct text){ "ls_1\0x", 6 }, text_of("secret"));

	cr_expect_not(claim.well_formed);
	claim = claim_of((struct text){ "ls_1/t\0", 7 }, text_of("secret"));
	cr_expect_not(claim.well_formed);
}

Test(lease_token, digests_the_whole_password_whatever_the_name_is_worth)
{
	static const char *const users[] = { "ls_1", "", "bad user" };
	static const struct text passwords[] = {
		{ "secret", 6 }, { "", 0 }, { "secret\0more", 11 }, { "\xff\xfe", 2 }
	};
	uint8_t digest[CRYPTO_SHA256_LEN];

	for (size_t u = 0; u < ARRAY_LEN(users); u++) {
		for (size_t p = 0; p < ARRAY_LEN(passwords); p++) {
			struct lease_claim claim = claim_of(text_of(users[u]), passwords[p]);

			cr_assert_eq(crypto_sha256(passwords[p].at, passwords[p].len, digest), ERR_OK);
			cr_expect_arr_eq(claim.digest, digest, sizeof(digest));
			cr_expect_eq(claim.well_formed, u == 0 && passwords[p].len > 0);
		}
	}
}

Test(lease_token, fails_when_no_digest_can_be_had)
{
	struct lease_claim claim = { .well_formed = true };

	/* Without crypto_init, in this process of its own. */
	cr_expect_neq(lease_token_claim(text_of("ls_1"), text_of("x"), &claim), ERR_OK);
	cr_expect(claim.well_formed, "written only on success");
}

Test(lease_token, makes_tokens_that_differ_and_match_their_digest)
{
	char a[LEASE_TOKEN_LEN + 1], b[LEASE_TOKEN_LEN + 1], hex_a[65], hex_b[65], expected[65];
	uint8_t digest[CRYPTO_SHA256_LEN], secret[32];

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(lease_token_new(a, hex_a), ERR_OK);
	cr_assert_eq(lease_token_new(b, hex_b), ERR_OK);
	cr_expect_eq(strlen(a), LEASE_TOKEN_LEN);
	cr_expect_eq(strncmp(a, "v1.", 3), 0);
	cr_expect(crypto_base64url_decode(a + 3, 43, secret, sizeof(secret)));
	cr_expect_str_neq(a, b);
	cr_assert_eq(crypto_sha256(a, strlen(a), digest), ERR_OK);
	text_from_bytes_hex(digest, sizeof(digest), expected);
	cr_expect_str_eq(hex_a, expected);
}
