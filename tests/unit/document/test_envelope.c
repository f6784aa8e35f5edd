/* Envelopes: what is written is read back, the encoding is DSSE's, and each fault decides alone and in its order. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "document/envelope.h"

static const uint8_t key_a[32] = { 1 }, key_b[32] = { 2 };

static enum envelope_fault read_bytes(const char *bytes, size_t len, struct envelope *out)
{
	return envelope_read((struct text){ bytes, len }, out);
}

static enum envelope_fault read_header(const char *header)
{
	char text[4096];
	struct envelope e;
	int len = snprintf(text, sizeof(text), "%s\n{}", header);

	return read_bytes(text, (size_t)len, &e);
}

Test(envelope, written_ones_are_read_back_and_verify_for_their_keys_only)
{
	const struct envelope_signer signers[] = { { "ls-1", key_a }, { "ls-2", key_b } };
	uint8_t public_a[32], public_b[32], *bytes;
	struct envelope e;
	size_t len;

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(crypto_ed25519_public(key_a, public_a), ERR_OK);
	cr_assert_eq(crypto_ed25519_public(key_b, public_b), ERR_OK);
	for (unsigned type = 0; type < ENVELOPE_TYPE_COUNT; type++) {
		cr_assert_eq(envelope_write((enum envelope_type)type, text_of("{\"a\":1}"), signers, 2, &bytes, &len), ERR_OK);
		cr_assert_eq(read_bytes((char *)bytes, len, &e), ENVELOPE_GOOD);
		cr_assert_eq(e.type, type);
		cr_assert_eq(e.signature_count, 2);
		cr_assert_str_eq(e.signatures[1].key_id, "ls-2");
		cr_assert(text_is(e.payload, "{\"a\":1}"));
		cr_assert(envelope_is_signed_by(&e, 0, public_a) && envelope_is_signed_by(&e, 1, public_b));
		cr_assert_not(envelope_is_signed_by(&e, 0, public_b));
		/* The same bytes as another type are not signed. */
		e.type = (enum envelope_type)((type + 1) % ENVELOPE_TYPE_COUNT);
		cr_assert_not(envelope_is_signed_by(&e, 0, public_a));
		alloc_free(bytes);
	}
}

Test(envelope, the_signature_is_over_the_pre_authentication_encoding)
{
	static const char encoding[] = "DSSEv1 13 egress.beat/1 7 {\"a\":1}";
	const struct envelope_signer signer = { "k", key_a };
	uint8_t sig[64], *bytes;
	struct envelope e;
	size_t len;

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(crypto_ed25519_sign(key_a, encoding, strlen(encoding), sig), ERR_OK);
	cr_assert_eq(envelope_write(ENVELOPE_BEAT, text_of("{\"a\":1}"), &signer, 1, &bytes, &len), ERR_OK);
	cr_assert_eq(read_bytes((char *)bytes, len, &e), ENVELOPE_GOOD);
	cr_assert_arr_eq(e.signatures[0].bytes, sig, 64);
	alloc_free(bytes);
}

Test(envelope, no_prefix_and_no_changed_byte_verifies)
{
	const struct envelope_signer signer = { "k", key_a };
	uint8_t public_a[32], *bytes;
	struct envelope e;
	size_t len;

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(crypto_ed25519_public(key_a, public_a), ERR_OK);
	cr_assert_eq(envelope_write(ENVELOPE_LEASE, text_of("{\"a\":1}"), &signer, 1, &bytes, &len), ERR_OK);
	for (size_t i = 0; i < len; i++) {
		char *prefix = malloc(i + 1);

		memcpy(prefix, bytes, i);
		cr_assert(read_bytes(prefix, i, &e) != ENVELOPE_GOOD || !envelope_is_signed_by(&e, 0, public_a), "%zu", i);
		free(prefix);
		bytes[i] ^= 1;
		/* Another key id is the same signature: the id only narrows which keys to try. */
		cr_assert(read_bytes((char *)bytes, len, &e) != ENVELOPE_GOOD || e.signature_count != 1 ||
				  e.signatures[0].key_id[0] != 'k' || !envelope_is_signed_by(&e, 0, public_a),
			  "%zu", i);
		bytes[i] ^= 1;
	}
	alloc_free(bytes);
}

#define SIG "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

Test(envelope, each_fault_of_the_header_refuses_alone)
{
	static const struct {
		const char *header;
		enum envelope_fault fault;
	} rows[] = {
		{ "{\"typ\":\"egress.lease/1\",\"sigs\":[{\"kid\":\"a\",\"sig\":\"" SIG "\"}]}", ENVELOPE_GOOD },
		{ "{\"typ\":\"egress.ruleset/1\",\"sigs\":[]}", ENVELOPE_GOOD },
		{ "{\"typ\":\"egress.lease/2\",\"sigs\":[]}", ENVELOPE_UNKNOWN_TYPE },
		{ "", ENVELOPE_BAD_HEADER },
		{ "[]", ENVELOPE_BAD_HEADER },
		{ "{\"typ\":\"egress.lease/1\"}", ENVELOPE_BAD_HEADER },
		{ "{\"sigs\":[]}", ENVELOPE_BAD_HEADER },
		{ "{\"typ\":1,\"sigs\":[]}", ENVELOPE_BAD_HEADER },
		{ "{\"typ\":\"egress.lease/1\",\"sigs\":{}}", ENVELOPE_BAD_HEADER },
		{ "{\"typ\":\"egress.lease/1\",\"sigs\":[],\"alg\":\"none\"}", ENVELOPE_BAD_HEADER },
		{ "{\"typ\":\"egress.lease/1\",\"typ\":\"egress.lease/1\",\"sigs\":[]}", ENVELOPE_BAD_HEADER },
		{ "{\"typ\":\"egress.lease/1\",\"sigs\":[{\"kid\":\"a\"}]}", ENVELOPE_BAD_HEADER },
		{ "{\"typ\":\"egress.lease/1\",\"sigs\":[{\"kid\":\"\",\"sig\":\"" SIG "\"}]}", ENVELOPE_BAD_HEADER },
		{ "{\"typ\":\"egress.lease/1\",\"sigs\":[{\"kid\":\"a b\",\"sig\":\"" SIG "\"}]}", ENVELOPE_BAD_HEADER },
		{ "{\"typ\":\"egress.lease/1\",\"sigs\":[{\"kid\":\"a\",\"sig\":\"" SIG "A\"}]}", ENVELOPE_BAD_HEADER },
		{ "{\"typ\":\"egress.lease/1\",\"sigs\":[{\"kid\":\"a\",\"sig\":\"" SIG "\",\"x\":1}]}", ENVELOPE_BAD_HEADER },
		{ "{\"typ\":\"egress.lease/1\",\"sigs\":[{\"kid\":\"a\",\"sig\":\"" SIG "\"},{\"kid\":\"a\",\"sig\":\"" SIG "\"}]}",
		  ENVELOPE_BAD_HEADER },
		{ "{\"typ\":\"egress.lease/1\",\"sigs\":[]} x", ENVELOPE_BAD_HEADER },
		/* The header's faults come before the type's. */
		{ "{\"typ\":\"egress.lease/2\",\"sigs\":[{}]}", ENVELOPE_BAD_HEADER },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		cr_assert_eq(read_header(rows[i].header), rows[i].fault, "%zu: %s", i, rows[i].header);
}

Test(envelope, sizes_are_checked_at_their_edges_and_first)
{
	static char bytes[ENVELOPE_MAX + 2];
	static const char header[] = "{\"typ\":\"egress.ruleset/1\",\"sigs\":[]}";
	struct envelope e;
	size_t len = strlen(header);

	memset(bytes, ' ', sizeof(bytes));
	memcpy(bytes, header, len);
	bytes[ENVELOPE_HEADER_MAX] = '\n';
	cr_assert_eq(read_bytes(bytes, ENVELOPE_MAX, &e), ENVELOPE_GOOD);
	cr_assert_eq(e.payload.len, ENVELOPE_PAYLOAD_MAX);
	cr_assert_eq(read_bytes(bytes, ENVELOPE_MAX + 1, &e), ENVELOPE_BAD_SIZE);
	bytes[ENVELOPE_HEADER_MAX] = ' ';
	bytes[ENVELOPE_HEADER_MAX + 1] = '\n';
	cr_assert_eq(read_bytes(bytes, ENVELOPE_HEADER_MAX + 2, &e), ENVELOPE_BAD_SIZE);
	/* A short header does not buy a longer payload. */
	bytes[len] = '\n';
	cr_assert_eq(read_bytes(bytes, len + 1 + ENVELOPE_PAYLOAD_MAX, &e), ENVELOPE_GOOD);
	cr_assert_eq(read_bytes(bytes, len + 1 + ENVELOPE_PAYLOAD_MAX + 1, &e), ENVELOPE_BAD_SIZE);
	/* Too long comes before every other fault. */
	bytes[0] = 'x';
	cr_assert_eq(read_bytes(bytes, len + 1 + ENVELOPE_PAYLOAD_MAX + 1, &e), ENVELOPE_BAD_SIZE);
	cr_assert_eq(read_bytes(bytes, len + 1, &e), ENVELOPE_BAD_HEADER);
}

Test(envelope, a_lack_of_memory_is_a_fault_and_leaks_nothing)
{
	const struct envelope_signer signer = { "k", key_a };
	uint8_t *bytes;
	struct envelope e;
	size_t len;

	cr_assert_eq(crypto_init(), ERR_OK);
	for (uint64_t nth = 1; nth < 4; nth++) {
		alloc_fail_at(nth);
		if (envelope_write(ENVELOPE_LEASE, text_of("{}"), &signer, 1, &bytes, &len) == ERR_OK)
			alloc_free(bytes);
	}
	alloc_fail_at(0);
	cr_assert_eq(envelope_write(ENVELOPE_LEASE, text_of("{}"), &signer, 1, &bytes, &len), ERR_OK);
	alloc_fail_at(1);
	cr_assert_neq(read_bytes((char *)bytes, len, &e), ENVELOPE_GOOD);
	alloc_fail_at(0);
	alloc_free(bytes);
}
