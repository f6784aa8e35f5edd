/* Digest, MAC, signatures, random bytes, constant-time compare; only includer of libcrypto. */
#ifndef EGRESS_BASE_CRYPTO_H
#define EGRESS_BASE_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

#define CRYPTO_SHA256_LEN 32
#define CRYPTO_ED25519_KEY_LEN 32
#define CRYPTO_ED25519_SIG_LEN 64

/* Initialise libcrypto without configuration files and fetch the digest once; call before the sandbox and
 * before threads. May be called again. Until then everything below that can fail does (UNSUPPORTED, false). */
enum err crypto_init(void) ATTR_MUST_CHECK;
/* SHA-256 of `len` bytes (FIPS 180-4). */
enum err crypto_sha256(const void *bytes, size_t len, uint8_t out_digest[CRYPTO_SHA256_LEN])
	ATTR_MUST_CHECK;
/* Fill with random bytes from RAND_bytes. */
enum err crypto_random(void *out_bytes, size_t len) ATTR_MUST_CHECK;
/* Equal? Takes the same time for every content. */
bool crypto_equal(const void *a, const void *b, size_t len);
/* Overwrite a secret; the compiler may not leave it out. */
void crypto_wipe(void *bytes, size_t len);
/* Ed25519 (RFC 8032): the public key of a private one; sign; verify. */
enum err crypto_ed25519_public(const uint8_t private_key[32], uint8_t out_public_key[32])
	ATTR_MUST_CHECK;
enum err crypto_ed25519_sign(const uint8_t private_key[32], const void *bytes, size_t len,
			     uint8_t out_sig[64]) ATTR_MUST_CHECK;
bool crypto_ed25519_verify(const uint8_t public_key[32], const void *bytes, size_t len,
			   const uint8_t sig[64]) ATTR_MUST_CHECK;
/* base64url without padding (RFC 4648 section 5). Writes a zero byte; cap must be at least (len*4+2)/3+1. */
void crypto_base64url(const void *bytes, size_t len, char *out_text, size_t cap);
/* Decode exactly `want` bytes; false for any other length, padding or stray bits. */
bool crypto_base64url_decode(const char *text, size_t text_len, uint8_t *out_bytes, size_t want)
	ATTR_MUST_CHECK;

#endif
