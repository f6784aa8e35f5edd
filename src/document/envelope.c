/* Envelopes; see envelope.h. Promises that a header has nothing but the two keys, and that what is verified is byte for byte what came. */
#include "document/envelope.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "base/sink.h"
#include "document/lease_doc.h"

#define SIGNATURE_TEXT_LEN 86
#define ENCODING_HEAD_MAX 128 /* bytes before the payload in what is signed */

static const struct {
	const char *name, *word;
} types[ENVELOPE_TYPE_COUNT] = {
	[ENVELOPE_KEYSET] = { "egress.keyset/1", "keyset" },	   [ENVELOPE_BEAT] = { "egress.beat/1", "beat" },
	[ENVELOPE_MANIFEST] = { "egress.manifest/1", "manifest" }, [ENVELOPE_LEASE] = { "egress.lease/1", "lease" },
	[ENVELOPE_RULESET] = { "egress.ruleset/1", "ruleset" },
};

const char *envelope_type_name(enum envelope_type type)
{
	return types[type].name;
}

const char *envelope_type_word(enum envelope_type type)
{
	return types[type].word;
}

static bool read_signature(struct json_faults *faults, const struct json_value *v, struct envelope *e)
{
	static const struct json_key keys[] = { { "kid", true }, { "sig", true } };
	struct envelope_signature *s = &e->signatures[e->signature_count];
	struct json_value key_id = json_member(v, "kid"), sig = json_member(v, "sig");
	const char *id, *text;

	if (!json_object_check(faults, v, keys, ARRAY_LEN(keys)) ||
	    !json_text(faults, &key_id, 1, ENVELOPE_KEY_ID_MAX, &id) ||
	    !json_text(faults, &sig, SIGNATURE_TEXT_LEN, SIGNATURE_TEXT_LEN, &text) ||
	    !lease_doc_id_is_valid(text_of(id)) ||
	    !crypto_base64url_decode(text, SIGNATURE_TEXT_LEN, s->bytes, sizeof(s->bytes)))
		return false;
	for (size_t i = 0; i < e->signature_count; i++)
		if (strcmp(e->signatures[i].key_id, id) == 0)
			return false;
	snprintf(s->key_id, sizeof(s->key_id), "%s", id);
	e->signature_count++;
	return true;
}

static enum envelope_fault read_top(struct json_faults *faults, const struct json_value *top, struct envelope *e)
{
	static const struct json_key keys[] = { { "typ", true }, { "sigs", true } };
	struct json_value typ = json_member(top, "typ"), sigs = json_member(top, "sigs");
	const char *name;
	size_t count;

	if (!json_object_check(faults, top, keys, ARRAY_LEN(keys)) || !json_text(faults, &typ, 0, 64, &name))
		return ENVELOPE_BAD_HEADER;
	count = json_array_count(faults, &sigs, ENVELOPE_SIGNATURES_MAX);
	if (faults->count > 0)
		return ENVELOPE_BAD_HEADER;
	for (size_t i = 0; i < count; i++) {
		struct json_value v = json_element(&sigs, i);

		if (!read_signature(faults, &v, e))
			return ENVELOPE_BAD_HEADER;
	}
	for (unsigned i = 0; i < ENVELOPE_TYPE_COUNT; i++) {
		if (strcmp(types[i].name, name) == 0) {
			e->type = (enum envelope_type)i;
			return ENVELOPE_GOOD;
		}
	}
	return ENVELOPE_UNKNOWN_TYPE;
}

static enum envelope_fault read_header(struct text line, struct envelope *e)
{
	enum envelope_fault fault = ENVELOPE_BAD_HEADER;
	struct json_faults faults;
	struct json_value top;
	struct arena arena;
	struct json *json;

	arena_init(&arena, 0);
	json_faults_init(&faults, &arena);
	if (json_open(line, &faults, &json) == ERR_OK) {
		top = json_top(json);
		fault = read_top(&faults, &top, e);
		json_close(json);
	}
	arena_finish(&arena);
	return fault;
}

enum envelope_fault envelope_read(struct text bytes, struct envelope *out_envelope)
{
	struct envelope e = { .signature_count = 0 };
	size_t look = bytes.len < ENVELOPE_HEADER_MAX + 1 ? bytes.len : ENVELOPE_HEADER_MAX + 1;
	const char *end = look == 0 ? NULL : memchr(bytes.at, '\n', look);
	enum envelope_fault fault;
	size_t header_len;

	if (bytes.len > ENVELOPE_MAX)
		return ENVELOPE_BAD_SIZE;
	if (end == NULL)
		return bytes.len > ENVELOPE_HEADER_MAX ? ENVELOPE_BAD_SIZE : ENVELOPE_BAD_HEADER;
	header_len = (size_t)(end - bytes.at);
	e.payload = (struct text){ end + 1, bytes.len - header_len - 1 };
	if (e.payload.len > ENVELOPE_PAYLOAD_MAX)
		return ENVELOPE_BAD_SIZE;
	fault = read_header((struct text){ bytes.at, header_len }, &e);
	if (fault == ENVELOPE_GOOD)
		*out_envelope = e;
	return fault;
}

/* DSSE: "DSSEv1", the lengths in decimal, type and payload, single blanks between. NULL without memory. */
static uint8_t *encode(enum envelope_type type, struct text payload, size_t *out_len)
{
	size_t cap = payload.len + ENCODING_HEAD_MAX;
	uint8_t *bytes = alloc_zeroed(cap);
	struct sink s = sink_over(bytes, cap);

	if (bytes == NULL)
		return NULL;
	sink_format(&s, "DSSEv1 %zu %s %zu ", strlen(types[type].name), types[type].name, payload.len);
	sink_bytes(&s, payload.at, payload.len);
	*out_len = s.len;
	return bytes;
}

bool envelope_is_signed_by(const struct envelope *e, size_t nth, const uint8_t public_key[32])
{
	size_t len;
	uint8_t *signed_bytes = encode(e->type, e->payload, &len);
	bool is_valid = signed_bytes != NULL &&
			crypto_ed25519_verify(public_key, signed_bytes, len, e->signatures[nth].bytes);

	alloc_free(signed_bytes);
	return is_valid;
}

static enum err write_header(struct sink *s, enum envelope_type type, const struct envelope_signer *signers, size_t count,
			     const uint8_t *signed_bytes, size_t signed_len)
{
	sink_format(s, "{\"typ\":\"%s\",\"sigs\":[", types[type].name);
	for (size_t i = 0; i < count; i++) {
		char text[SIGNATURE_TEXT_LEN + 1];
		uint8_t sig[64];
		enum err e = crypto_ed25519_sign(signers[i].private_key, signed_bytes, signed_len, sig);

		if (e != ERR_OK)
			return e;
		if (!lease_doc_id_is_valid(text_of(signers[i].key_id)))
			return ERR_INVALID;
		crypto_base64url(sig, sizeof(sig), text, sizeof(text));
		sink_format(s, "%s{\"kid\":\"%s\",\"sig\":\"%s\"}", i == 0 ? "" : ",", signers[i].key_id, text);
	}
	sink_text(s, "]}");
	return sink_ok(s) ? ERR_OK : ERR_LIMIT;
}

enum err envelope_write(enum envelope_type type, struct text payload, const struct envelope_signer *signers, size_t signer_count,
			uint8_t **out_bytes, size_t *out_len)
{
	char header[ENVELOPE_HEADER_MAX];
	struct sink line = sink_over(header, sizeof(header)), whole;
	uint8_t *signed_bytes = NULL, *bytes = NULL;
	size_t signed_len;
	enum err e = ERR_NO_MEMORY;

	if (payload.len > ENVELOPE_PAYLOAD_MAX || signer_count > ENVELOPE_SIGNATURES_MAX)
		return ERR_LIMIT;
	signed_bytes = encode(type, payload, &signed_len);
	if (signed_bytes == NULL)
		goto out;
	e = write_header(&line, type, signers, signer_count, signed_bytes, signed_len);
	if (e != ERR_OK)
		goto out;
	e = ERR_NO_MEMORY;
	bytes = alloc_zeroed(line.len + 1 + payload.len);
	if (bytes == NULL)
		goto out;
	whole = sink_over(bytes, line.len + 1 + payload.len);
	sink_bytes(&whole, header, line.len);
	sink_u8(&whole, '\n');
	sink_bytes(&whole, payload.at, payload.len);
	*out_bytes = bytes;
	*out_len = whole.len;
	e = ERR_OK;
out:
	alloc_free(signed_bytes);
	return e;
}
