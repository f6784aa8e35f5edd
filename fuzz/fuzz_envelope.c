/* Envelopes: any bytes give one with a payload that is the rest of the input, or a fault; what we write is read back; only the key that signed verifies. */
#include "document/envelope.h"

#include "base/alloc.h"
#include "base/crypto.h"
#include "require.h"

static void check_read(const uint8_t *data, size_t size)
{
	char *copy = (char *)exact_copy(data, size);
	struct envelope e;

	if (envelope_read((struct text){ copy, size }, &e) == ENVELOPE_GOOD) {
		REQUIRE(e.signature_count <= ENVELOPE_SIGNATURES_MAX && e.payload.len <= ENVELOPE_PAYLOAD_MAX);
		REQUIRE(e.payload.at + e.payload.len == copy + size && e.payload.at[-1] == '\n');
		REQUIRE((size_t)(e.payload.at - copy) <= ENVELOPE_HEADER_MAX + 1);
		for (size_t i = 0; i < e.signature_count; i++)
			REQUIRE(e.signatures[i].key_id[0] != '\0');
	}
	free(copy);
}

/* The input as the payload. */
static void check_written(const uint8_t *data, size_t size)
{
	static const uint8_t key[32] = { 7 }, other[32] = { 8 };
	const struct envelope_signer signers[] = { { "a", key }, { "b", other } };
	uint8_t public_key[32], *bytes;
	struct text payload = { (const char *)data, size };
	struct envelope e;
	size_t len;

	REQUIRE(crypto_init() == ERR_OK && crypto_ed25519_public(key, public_key) == ERR_OK);
	if (envelope_write(ENVELOPE_BEAT, payload, signers, 2, &bytes, &len) != ERR_OK) {
		REQUIRE(size > ENVELOPE_PAYLOAD_MAX);
		return;
	}
	REQUIRE(envelope_read((struct text){ (const char *)bytes, len }, &e) == ENVELOPE_GOOD);
	REQUIRE(e.type == ENVELOPE_BEAT && e.signature_count == 2 && text_equal(e.payload, payload));
	REQUIRE(envelope_is_signed_by(&e, 0, public_key) && !envelope_is_signed_by(&e, 1, public_key));
	e.type = ENVELOPE_LEASE;
	REQUIRE(!envelope_is_signed_by(&e, 0, public_key));
	alloc_free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_read(data, size);
	if (size < 4096)
		check_written(data, size);
	return 0;
}
