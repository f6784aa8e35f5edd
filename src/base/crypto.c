/*
 * libcrypto behind a dozen calls. After crypto_init nothing here opens a file: the digest is fetched once, the
 * signature code has run once and the random generator is seeded. Knows no formats but base64url.
 */
#include "base/crypto.h"

#include <limits.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

static EVP_MD *sha256; /* owned for the life of the process; read-only once crypto_init returned */

enum err crypto_init(void)
{
	static const uint8_t key[32] = { 1 };
	uint8_t bytes[32], public_key[32], sig[64];

	if (sha256 != NULL)
		return ERR_OK;
	/* The default provider reads no configuration; a foreign openssl.cnf must not load modules into us. */
	if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) != 1)
		return ERR_UNSUPPORTED;
	sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	if (sha256 == NULL)
		return ERR_UNSUPPORTED;
	if (crypto_random(bytes, sizeof(bytes)) != ERR_OK ||
	    crypto_ed25519_public(key, public_key) != ERR_OK ||
	    crypto_ed25519_sign(key, bytes, sizeof(bytes), sig) != ERR_OK ||
	    !crypto_ed25519_verify(public_key, bytes, sizeof(bytes), sig)) {
		EVP_MD_free(sha256);
		sha256 = NULL;
		return ERR_UNSUPPORTED;
	}
	return ERR_OK;
}

enum err crypto_sha256(const void *bytes, size_t len, uint8_t out_digest[CRYPTO_SHA256_LEN])
{
	uint8_t digest[EVP_MAX_MD_SIZE];

	if (sha256 == NULL)
		return ERR_UNSUPPORTED;
	if (EVP_Digest(len > 0 ? bytes : "", len, digest, NULL, sha256, NULL) != 1)
		return ERR_NO_MEMORY;
	memcpy(out_digest, digest, CRYPTO_SHA256_LEN);
	return ERR_OK;
}

enum err crypto_random(void *out_bytes, size_t len)
{
	if (sha256 == NULL)
		return ERR_UNSUPPORTED;
	if (len == 0)
		return ERR_OK;
	if (len > INT_MAX)
		return ERR_LIMIT;
	return RAND_bytes(out_bytes, (int)len) == 1 ? ERR_OK : ERR_SYSTEM;
}

bool crypto_equal(const void *a, const void *b, size_t len)
{
	return CRYPTO_memcmp(a, b, len) == 0;
}

void crypto_wipe(void *bytes, size_t len)
{
	if (len > 0)
		OPENSSL_cleanse(bytes, len);
}

enum err crypto_ed25519_public(const uint8_t private_key[32], uint8_t out_public_key[32])
{
	EVP_PKEY *key;
	size_t len = CRYPTO_ED25519_KEY_LEN;
	uint8_t public_key[CRYPTO_ED25519_KEY_LEN];
	enum err e = ERR_INVALID;

	if (sha256 == NULL)
		return ERR_UNSUPPORTED;
	key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, private_key, len);
	if (key == NULL)
		return ERR_NO_MEMORY;
	if (EVP_PKEY_get_raw_public_key(key, public_key, &len) == 1 && len == sizeof(public_key)) {
		memcpy(out_public_key, public_key, len);
		e = ERR_OK;
	}
	EVP_PKEY_free(key);
	return e;
}

enum err crypto_ed25519_sign(const uint8_t private_key[32], const void *bytes, size_t len,
			     uint8_t out_sig[64])
{
	EVP_PKEY *key = NULL;
	EVP_MD_CTX *context = NULL;
	size_t sig_len = CRYPTO_ED25519_SIG_LEN;
	enum err e = ERR_NO_MEMORY;

	if (sha256 == NULL)
		return ERR_UNSUPPORTED;
	key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, private_key,
					   CRYPTO_ED25519_KEY_LEN);
	context = EVP_MD_CTX_new();
	if (key == NULL || context == NULL)
		goto out;
	e = ERR_INVALID;
	if (EVP_DigestSignInit(context, NULL, NULL, NULL, key) == 1 &&
	    EVP_DigestSign(context, out_sig, &sig_len, len > 0 ? bytes : (const void *)"", len) == 1)
		e = ERR_OK;
out:
	EVP_MD_CTX_free(context);
	EVP_PKEY_free(key);
	return e;
}

bool crypto_ed25519_verify(const uint8_t public_key[32], const void *bytes, size_t len,
			   const uint8_t sig[64])
{
	EVP_PKEY *key = NULL;
	EVP_MD_CTX *context = NULL;
	bool valid = false;

	if (sha256 == NULL)
		return false;
	key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public_key,
					  CRYPTO_ED25519_KEY_LEN);
	context = EVP_MD_CTX_new();
	if (key == NULL || context == NULL)
		goto out;
	valid = EVP_DigestVerifyInit(context, NULL, NULL, NULL, key) == 1 &&
		EVP_DigestVerify(context, sig, CRYPTO_ED25519_SIG_LEN,
				 len > 0 ? bytes : (const void *)"", len) == 1;
out:
	EVP_MD_CTX_free(context);
	EVP_PKEY_free(key);
	return valid;
}

static const char base64url_digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void crypto_base64url(const void *bytes, size_t len, char *out_text, size_t cap)
{
	const uint8_t *in = bytes;
	unsigned held = 0, held_bits = 0;
	size_t at = 0;

	if (cap == 0)
		return;
	for (size_t i = 0; i < len; i++) {
		held = (held << 8 | in[i]) & 0xffff;
		for (held_bits += 8; held_bits >= 6 && at < cap - 1; held_bits -= 6)
			out_text[at++] = base64url_digits[held >> (held_bits - 6) & 63];
	}
	if (held_bits > 0 && at < cap - 1)
		out_text[at++] = base64url_digits[held << (6 - held_bits) & 63];
	out_text[at] = '\0';
}

static int base64url_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '-')
		return 62;
	return c == '_' ? 63 : -1;
}

bool crypto_base64url_decode(const char *text, size_t text_len, uint8_t *out_bytes, size_t want)
{
	unsigned held = 0, held_bits = 0;
	size_t at = 0;

	if (want > SIZE_MAX / 4 - 1 || text_len != (want * 4 + 2) / 3)
		return false;
	for (size_t i = 0; i < text_len; i++) {
		if (base64url_value(text[i]) < 0)
			return false;
	}
	/* The bits that the last digit carries beyond the last byte must be zero: one spelling per value. */
	if (text_len > 0) {
		unsigned stray = (unsigned)(text_len * 6 - want * 8);

		if ((unsigned)base64url_value(text[text_len - 1]) & (BIT(stray) - 1))
			return false;
	}
	for (size_t i = 0; i < text_len && at < want; i++) {
		held = (held << 6 | (unsigned)base64url_value(text[i])) & 0xffff;
		held_bits += 6;
		if (held_bits >= 8) {
			held_bits -= 8;
			out_bytes[at++] = (uint8_t)(held >> held_bits);
		}
	}
	return true;
}
