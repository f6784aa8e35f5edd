/* SipHash with one compression and three finalisation rounds (Aumasson and Bernstein, 2012), little-endian everywhere. */
#include "base/hash.h"

struct sip {
	uint64_t v0, v1, v2, v3;
};

static uint64_t rotate_left(uint64_t v, unsigned bits)
{
	return (v << bits) | (v >> (64 - bits));
}

static void sip_round(struct sip *s)
{
	s->v0 += s->v1;
	s->v1 = rotate_left(s->v1, 13) ^ s->v0;
	s->v0 = rotate_left(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = rotate_left(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = rotate_left(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = rotate_left(s->v1, 17) ^ s->v2;
	s->v2 = rotate_left(s->v2, 32);
}

static uint64_t read_le(const uint8_t *bytes, size_t len)
{
	uint64_t v = 0;

	for (size_t i = 0; i < len; i++)
		v |= (uint64_t)bytes[i] << (8 * i);
	return v;
}

uint64_t hash_bytes(const struct hash_key *key, const void *bytes, size_t len)
{
	struct sip s = {
		.v0 = key->k0 ^ 0x736f6d6570736575ULL,
		.v1 = key->k1 ^ 0x646f72616e646f6dULL,
		.v2 = key->k0 ^ 0x6c7967656e657261ULL,
		.v3 = key->k1 ^ 0x7465646279746573ULL,
	};
	const uint8_t *at = bytes;
	size_t left = len;
	uint64_t word;

	for (; left >= 8; left -= 8, at += 8) {
		word = read_le(at, 8);
		s.v3 ^= word;
		sip_round(&s);
		s.v0 ^= word;
	}
	word = read_le(at, left) | (uint64_t)len << 56;
	s.v3 ^= word;
	sip_round(&s);
	s.v0 ^= word;
	s.v2 ^= 0xff;
	for (int i = 0; i < 3; i++)
		sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
