/* See signed_fixture.h. */
#include "signed_fixture.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "store/frames.h"

#define ENVELOPES_MAX 512

static const char *const key_ids[SIGNED_KEY_COUNT] = { "r1", "r2", "r3", "bt", "mf", "ls", "no" };
static uint8_t *envelopes[ENVELOPES_MAX];
static size_t envelope_count;
static char texts[16][8192];
static unsigned text_at;
static uint64_t wall_ms, mono_ns;

static const uint8_t *private_key(enum signed_key key)
{
	static uint8_t bytes[SIGNED_KEY_COUNT][32];

	bytes[key][0] = (uint8_t)(key + 1);
	return bytes[key];
}

struct text signed_envelope(enum envelope_type type, const char *payload, const enum signed_key *keys, size_t key_count)
{
	struct envelope_signer signers[ENVELOPE_SIGNATURES_MAX];
	uint8_t *bytes;
	size_t len;

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_lt(envelope_count, (size_t)ENVELOPES_MAX);
	for (size_t i = 0; i < key_count; i++)
		signers[i] = (struct envelope_signer){ key_ids[keys[i]], private_key(keys[i]) };
	cr_assert_eq(envelope_write(type, text_of(payload), signers, key_count, &bytes, &len), ERR_OK);
	envelopes[envelope_count++] = bytes;
	return (struct text){ (char *)bytes, len };
}

void signed_forget(void)
{
	while (envelope_count > 0)
		alloc_free(envelopes[--envelope_count]);
}

static char *room(void)
{
	return texts[text_at++ % ARRAY_LEN(texts)];
}

static const char *print(const char *format, ...) ATTR_PRINTF(1, 2);
static const char *print(const char *format, ...)
{
	char *text = room();
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(text, sizeof(texts[0]), format, args);
	va_end(args);
	cr_assert(len > 0 && (size_t)len < sizeof(texts[0]));
	return text;
}

const char *signed_public(enum signed_key key)
{
	uint8_t public_key[32];
	char *text = room();

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(crypto_ed25519_public(private_key(key), public_key), ERR_OK);
	crypto_base64url(public_key, 32, text, 64);
	return text;
}

const char *signed_root(void)
{
	return print("{\"threshold\":2,\"keys\":{\"r1\":\"%s\",\"r2\":\"%s\",\"r3\":\"%s\"}}", signed_public(SIGNED_R1),
		     signed_public(SIGNED_R2), signed_public(SIGNED_R3));
}

const char *signed_keyset(uint64_t version, uint64_t epoch_min, uint64_t exp_ms)
{
	return print("{\"typ\":\"egress.keyset/1\",\"ver\":%llu,\"exp_ms\":%llu,\"epoch_min\":%llu,\"root\":%s,"
		     "\"roles\":{\"beat\":[\"bt\"],\"manifest\":[\"mf\"],\"lease\":[\"ls\"]},"
		     "\"keys\":{\"bt\":\"%s\",\"mf\":\"%s\",\"ls\":\"%s\"}}",
		     (unsigned long long)version, (unsigned long long)exp_ms, (unsigned long long)epoch_min, signed_root(),
		     signed_public(SIGNED_BEAT), signed_public(SIGNED_MANIFEST), signed_public(SIGNED_LEASE));
}

static const char *base64(const uint8_t sha256[32])
{
	char *text = room();

	crypto_base64url(sha256, 32, text, 64);
	return text;
}

const char *signed_manifest(const char *cell, uint64_t epoch, uint64_t seq, const struct manifest_doc_entry *entries, size_t count)
{
	uint8_t root[32];

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(manifest_doc_root(entries, count, root), ERR_OK);
	return print("{\"typ\":\"egress.manifest/1\",\"epoch\":%llu,\"cell\":\"%s\",\"seq\":%llu,\"iat_ms\":%llu,\"leases\":%zu,"
		     "\"root\":\"%s\"}",
		     (unsigned long long)epoch, cell, (unsigned long long)seq, SIGNED_NOW_MS, count, base64(root));
}

const char *signed_beat(const char *cell, uint64_t epoch, uint64_t seq, uint64_t iat_ms, uint64_t keyset, uint64_t manifest_seq,
			const char *manifest_payload)
{
	uint8_t sha256[32];

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(crypto_sha256(manifest_payload, strlen(manifest_payload), sha256), ERR_OK);
	return print("{\"typ\":\"egress.beat/1\",\"epoch\":%llu,\"group\":%u,\"seq\":%llu,\"iat_ms\":%llu,\"exp_ms\":%llu,"
		     "\"keyset\":%llu,\"cells\":{\"%s\":[%llu,\"%s\"]}}",
		     (unsigned long long)epoch, frames_group_of(SIGNED_CELL), (unsigned long long)seq, (unsigned long long)iat_ms,
		     (unsigned long long)iat_ms + 60000, (unsigned long long)keyset, cell, (unsigned long long)manifest_seq,
		     base64(sha256));
}

const char *signed_lease(const char *cell, const char *lease, uint64_t epoch, uint64_t rev, const char *rule)
{
	return print("{\"typ\":\"egress.lease/1\",\"epoch\":%llu,\"cell\":\"%s\",\"lease\":\"%s\",\"rev\":%llu,\"state\":\"active\","
		     "\"nbf_ms\":1,\"exp_ms\":%llu,\"guest\":{\"require\":[\"source\"],\"sources\":[\"10.0.0.1\"]},"
		     "\"network\":{\"mode\":\"allowlist\",\"claimed_scope\":\"declared\",\"enforcement\":\"enforce\",\"rulesets\":[],"
		     "\"rules\":[%s]}}",
		     (unsigned long long)epoch, cell, lease, (unsigned long long)rev, SIGNED_NOW_MS + 3600000, rule);
}

struct manifest_doc_entry signed_entry(const char *lease, uint64_t rev, const char *payload)
{
	struct manifest_doc_entry entry = { .id = lease, .rev = rev };

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(crypto_sha256(payload, strlen(payload), entry.sha256), ERR_OK);
	return entry;
}

static uint64_t read_wall_ms(void)
{
	return wall_ms;
}

static uint64_t read_mono_ns(void)
{
	return mono_ns;
}

void signed_clock_start(void)
{
	static const struct clock_source source = { read_mono_ns, read_wall_ms };

	wall_ms = SIGNED_NOW_MS;
	mono_ns = 1000000000000ULL;
	clock_use(&source);
}

void signed_clock_move_ms(uint64_t by_ms)
{
	wall_ms += by_ms;
	mono_ns += by_ms * 1000000;
}

void signed_clock_step_wall_ms(int64_t by_ms)
{
	wall_ms = (uint64_t)((int64_t)wall_ms + by_ms);
}
