/* libcrypto's answers against published vectors, and our own base64url. */
#include "base/crypto.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "base/text.h"

static void init(void)
{
	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(crypto_init(), ERR_OK, "may be called again");
}

static void bytes_of(const char *hex, uint8_t *out_bytes)
{
	cr_assert(text_to_bytes_hex(text_of(hex), out_bytes, strlen(hex) / 2));
}

Test(crypto, nothing_works_before_init)
{
	uint8_t bytes[64] = { 0 };

	cr_expect_eq(crypto_sha256("", 0, bytes), ERR_UNSUPPORTED);
	cr_expect_eq(crypto_random(bytes, 1), ERR_UNSUPPORTED);
	cr_expect_eq(crypto_ed25519_public(bytes, bytes), ERR_UNSUPPORTED);
	cr_expect_eq(crypto_ed25519_sign(bytes, "", 0, bytes), ERR_UNSUPPORTED);
	cr_expect(!crypto_ed25519_verify(bytes, "", 0, bytes));
}

Test(crypto, sha256_agrees_with_the_published_vectors, .init = init)
{
	static const struct {
		const char *text, *digest;
	} rows[] = { /* FIPS 180-4 examples */
		{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint8_t digest[32];
		char text[65];

		cr_assert_eq(crypto_sha256(rows[i].text, strlen(rows[i].text), digest), ERR_OK);
		text_from_bytes_hex(digest, 32, text);
		cr_expect_str_eq(text, rows[i].digest);
	}
}

static void *digest_often(void *arg)
{
	uint8_t digest[32];

	for (int i = 0; i < 2000; i++) {
		if (crypto_sha256("abc", 3, digest) != ERR_OK || digest[0] != 0xba ||
		    crypto_random(digest, 32) != ERR_OK)
			return arg;
	}
	return NULL;
}

Test(crypto, digests_and_random_bytes_come_in_many_threads_at_once, .init = init)
{
	pthread_t threads[4];
	void *failed;

	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, digest_often, threads), 0);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
		pthread_join(threads[i], &failed);
		cr_expect_null(failed);
	}
}

Test(crypto, random_bytes_differ, .init = init)
{
	uint8_t a[32] = { 0 }, b[32] = { 0 };

	cr_assert_eq(crypto_random(a, sizeof(a)), ERR_OK);
	cr_assert_eq(crypto_random(b, sizeof(b)), ERR_OK);
	cr_expect(!crypto_equal(a, b, sizeof(a)));
	cr_expect_eq(crypto_random(NULL, 0), ERR_OK);
}

Test(crypto, equality_looks_at_every_byte_and_wiping_leaves_none)
{
	uint8_t a[40], b[40];

	memset(a, 5, sizeof(a));
	for (size_t i = 0; i < sizeof(a); i++) {
		memcpy(b, a, sizeof(a));
		cr_expect(crypto_equal(a, b, sizeof(a)));
		b[i] ^= 0x80;
		cr_expect(!crypto_equal(a, b, sizeof(a)), "byte %zu", i);
		cr_expect(crypto_equal(a, b, i));
	}
	crypto_wipe(a, sizeof(a));
	memset(b, 0, sizeof(b));
	cr_expect_eq(memcmp(a, b, sizeof(a)), 0);
	crypto_wipe(NULL, 0);
}

/* RFC 8032 section 7.1, tests 1 to 3. */
static const struct {
	const char *private_key, *public_key, *message, *sig;
} signatures[] = {
	{ "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
	  "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
	  "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
	  "d25bf5f0595bbe24655141438e7a100b" },
	{ "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
	  "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
	  "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
	  "387b2eaeb4302aeeb00d291612bb0c00" },
	{ "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
	  "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
	  "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
	  "4a7c15e9716ed28dc027beceea1ec40a" },
};

Test(crypto, ed25519_agrees_with_rfc_8032, .init = init)
{
	for (size_t i = 0; i < ARRAY_LEN(signatures); i++) {
		uint8_t private_key[32], public_key[32], derived[32], message[2], sig[64], made[64];
		size_t len = strlen(signatures[i].message) / 2;

		bytes_of(signatures[i].private_key, private_key);
		bytes_of(signatures[i].public_key, public_key);
		bytes_of(signatures[i].message, message);
		bytes_of(signatures[i].sig, sig);
		cr_assert_eq(crypto_ed25519_public(private_key, derived), ERR_OK);
		cr_expect_eq(memcmp(derived, public_key, 32), 0);
		cr_assert_eq(crypto_ed25519_sign(private_key, message, len, made), ERR_OK);
		cr_expect_eq(memcmp(made, sig, 64), 0);
		cr_expect(crypto_ed25519_verify(public_key, message, len, sig));
	}
}

Test(crypto, one_changed_bit_anywhere_makes_a_signature_false, .init = init)
{
	uint8_t public_key[32], message[2], sig[64];

	bytes_of(signatures[2].public_key, public_key);
	bytes_of(signatures[2].message, message);
	bytes_of(signatures[2].sig, sig);
	for (size_t bit = 0; bit < 512; bit++) {
		sig[bit / 8] ^= (uint8_t)(1 << bit % 8);
		cr_expect(!crypto_ed25519_verify(public_key, message, 2, sig), "bit %zu", bit);
		sig[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (size_t bit = 0; bit < 16; bit++) {
		message[bit / 8] ^= (uint8_t)(1 << bit % 8);
		cr_expect(!crypto_ed25519_verify(public_key, message, 2, sig));
		message[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	public_key[0] ^= 1;
	cr_expect(!crypto_ed25519_verify(public_key, message, 2, sig));
	public_key[0] ^= 1;
	cr_expect(!crypto_ed25519_verify(public_key, message, 1, sig));
	cr_expect(crypto_ed25519_verify(public_key, message, 2, sig));
}

Test(base64url, agrees_with_rfc_4648_and_has_one_spelling)
{
	static const struct {
		const char *plain, *text;
	} rows[] = { { "", "" },	 { "f", "Zg" },		{ "fo", "Zm8" },
		     { "foo", "Zm9v" },	 { "foob", "Zm9vYg" },	{ "fooba", "Zm9vYmE" },
		     { "foobar", "Zm9vYmFy" }, { "\xfb\xff\xbf", "-_-_" } };
	static const char *const bad[] = { "Zh", "Zm9vYh", "Zg==", "Z", "Zg=", "Z+", "Z/", " g", "Zg\n", "Zm9" };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t len = strlen(rows[i].plain);
		char *text = malloc((len * 4 + 2) / 3 + 1);
		uint8_t *bytes = malloc(len);

		crypto_base64url(rows[i].plain, len, text, (len * 4 + 2) / 3 + 1);
		cr_expect_str_eq(text, rows[i].text);
		cr_expect(crypto_base64url_decode(text, strlen(text), bytes, len));
		cr_expect_eq(memcmp(bytes, rows[i].plain, len), 0);
		cr_expect(!crypto_base64url_decode(text, strlen(text), bytes, len + 1));
		free(text);
		free(bytes);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		uint8_t bytes[8] = { 9 };

		for (size_t want = 0; want <= 5; want++)
			cr_expect(!crypto_base64url_decode(bad[i], strlen(bad[i]), bytes, want), "%s %zu",
				  bad[i], want);
		cr_expect_eq(bytes[0], 9, "written only on success");
	}
}

Test(base64url, thirty_two_bytes_round_trip_and_a_short_space_is_kept)
{
	uint8_t bytes[32], back[32];
	char text[44], small[5];

	for (size_t i = 0; i < 32; i++)
		bytes[i] = (uint8_t)(i * 37);
	crypto_base64url(bytes, 32, text, sizeof(text));
	cr_expect_eq(strlen(text), 43);
	cr_expect(crypto_base64url_decode(text, 43, back, 32));
	cr_expect_eq(memcmp(bytes, back, 32), 0);
	crypto_base64url(bytes, 32, small, sizeof(small));
	cr_expect_eq(strlen(small), 4);
}
