/* SipHash-1-3 against two independent implementations, at every length around the eight-byte step. */
#include "base/hash.h"

#include <criterion/criterion.h>

#include "base/attr.h"

Test(hash, agrees_with_cpython_under_the_zero_key)
{
	/* What CPython 3.11 answers for hash(bytes(range(len))) with PYTHONHASHSEED=0. */
	static const struct {
		size_t len;
		uint64_t hash;
	} rows[] = {
		{ 1, 0x68a914128e01e473ULL },
		{ 2, 0x010bac45c41e3669ULL },
		{ 3, 0x4d4c9a4a8ef6e0adULL },
		{ 4, 0x7cc43f98813e4dbdULL },
		{ 5, 0x5abe2169dff36275ULL },
		{ 6, 0xe3c25f87624f1cdbULL },
		{ 7, 0x2f098ab0c751325aULL },
		{ 8, 0xead411e67ebe2eeaULL },
		{ 9, 0x75927f9d95124362ULL },
		{ 10, 0xaf9f77a65ab51a1dULL },
		{ 11, 0xfe64ce8b6617fcffULL },
		{ 12, 0xa6baf4fb0f9fe1c2ULL },
		{ 13, 0xa0cf3211850f8e0dULL },
		{ 14, 0x7f86049379fbfe67ULL },
		{ 15, 0xf30eb725bb91c9eaULL },
		{ 16, 0x8972188433a5c5b7ULL },
		{ 17, 0x4883c49a2c009c1dULL },
		{ 31, 0x169739443111d49bULL },
		{ 32, 0x31ef8061c910629bULL },
		{ 33, 0x7fb71d24dfa4c9f6ULL },
		{ 63, 0x385d3e39e5f37359ULL },
	};
	static const struct hash_key zero_key;
	uint8_t bytes[64];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		cr_expect_eq(hash_bytes(&zero_key, bytes, rows[i].len), rows[i].hash, "length %zu",
			     rows[i].len);
}

Test(hash, depends_on_both_halves_of_the_key_and_on_alignment_never)
{
	/* The published first output for the key 00 01 .. 0f and no bytes. */
	static const struct hash_key key = { 0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL };
	static const struct hash_key other0 = { 0x0706050403020101ULL, 0x0f0e0d0c0b0a0908ULL };
	static const struct hash_key other1 = { 0x0706050403020100ULL, 0x0f0e0d0c0b0a0909ULL };
	char shifted[32];

	cr_expect_eq(hash_bytes(&key, NULL, 0), 0xabac0158050fc4dcULL);
	cr_expect_neq(hash_bytes(&other0, "x", 1), hash_bytes(&key, "x", 1));
	cr_expect_neq(hash_bytes(&other1, "x", 1), hash_bytes(&key, "x", 1));
	for (size_t shift = 0; shift < 8; shift++) {
		memcpy(shifted + shift, "files.example.org", 17);
		cr_expect_eq(hash_bytes(&key, shifted + shift, 17),
			     hash_bytes(&key, "files.example.org", 17));
	}
}
