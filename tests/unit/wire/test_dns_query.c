/* Queries are these bytes, and only a true echo of one is taken for its answer. */
#include <criterion/criterion.h>

#include "hex.h"
#include "wire/dns_query.h"

static struct dname name_of(const char *text)
{
	struct dname name;

	cr_assert_eq(dname_parse(text_of(text), DNAME_FINAL_DOT_DROP, &name), DNAME_OK);
	return name;
}

static struct dns_query query_for(const char *text, enum dns_type type)
{
	struct dname name = name_of(text);
	struct dns_query query;

	dns_query_build(&name, type, 0x1234, NULL, &query);
	return query;
}

Test(dns_query, a_query_is_these_bytes)
{
	struct dns_query q = query_for("allowed.test", DNS_TYPE_AAAA);
	uint8_t want[64];
	size_t len = hex_bytes("1234 0100 0001 0000 0000 0001"
			       "07616c6c6f776564 0474657374 00 001c 0001"
			       "00 0029 04d0 00000000 0000",
			       want);

	cr_assert_eq(q.len, len);
	cr_assert_eq(memcmp(q.bytes, want, len), 0);
	cr_assert_eq(q.id, 0x1234);
	cr_assert_eq(q.type, DNS_TYPE_AAAA);
	cr_assert_eq(q.question_len, 18);
}

Test(dns_query, the_longest_name_fits)
{
	char text[254];
	struct dns_query q;

	memset(text, 'a', 253);
	text[253] = '\0';
	text[63] = text[127] = text[191] = '.';
	q = query_for(text, DNS_TYPE_A);
	cr_assert_eq(q.question_len, 255 + 4);
	cr_assert_eq(q.len, 12 + 255 + 4 + 11);
	cr_assert_leq(q.len, DNS_QUERY_MAX);
}

Test(dns_query, each_letter_follows_its_own_case_bit)
{
	struct dname name = name_of("a1-b.c_d.test");
	uint8_t bits[32] = { 0 };
	struct dns_query q;

	for (unsigned letter = 0; letter < 8; letter++) {
		char want[] = "\4a1-b\3c_d\4test";
		static const size_t at[8] = { 1, 4, 6, 8, 10, 11, 12, 13 };

		memset(bits, 0, sizeof(bits));
		bits[0] = (uint8_t)(1u << letter);
		dns_query_build(&name, DNS_TYPE_A, 1, bits, &q);
		want[at[letter]] = (char)(want[at[letter]] - 'a' + 'A');
		cr_assert_eq(memcmp(q.bytes + 12, want, sizeof(want)), 0, "letter %u", letter);
	}
	memset(bits, 0xff, sizeof(bits));
	dns_query_build(&name, DNS_TYPE_A, 1, bits, &q);
	cr_assert_eq(memcmp(q.bytes + 12, "\4A1-B\3C_D\4TEST", 15), 0);
}

Test(dns_query, the_case_of_the_last_of_many_letters_is_set)
{
	char text[254];
	struct dname name;
	struct dns_query q;
	uint8_t bits[32] = { 0 };

	memset(text, 'z', 253);
	text[253] = '\0';
	text[63] = text[127] = text[191] = '.';
	name = name_of(text);
	bits[249 / 8] = 1u << (249 % 8); /* 250 letters */
	dns_query_build(&name, DNS_TYPE_A, 1, bits, &q);
	for (size_t i = 12; i < 12 + 254; i++)
		cr_assert(q.bytes[i] == (i == 12 + 253 ? 'Z' : 'z') || q.bytes[i] < 64);
}

/* The echo of a query with nothing in it. */
static size_t echo_of(const struct dns_query *q, uint8_t *out_message)
{
	memcpy(out_message, q->bytes, 12 + q->question_len);
	out_message[2] = 0x81;
	out_message[3] = 0x80;
	out_message[11] = 0;
	return 12 + q->question_len;
}

Test(dns_query, only_a_whole_echo_fits)
{
	struct dns_query q = query_for("allowed.test", DNS_TYPE_A);
	uint8_t message[512] = { 0 };
	size_t len = echo_of(&q, message);

	for (size_t n = 0; n <= len; n++) {
		uint8_t *block = exact_copy(message, n);

		cr_assert_eq(dns_query_fits(&q, block, n),
			     n == len ? DNS_FIT_EXACT : DNS_FIT_MISFIT);
		free(block);
	}
	cr_assert_eq(dns_query_fits(&q, message, sizeof(message)), DNS_FIT_EXACT);
	cr_assert_eq(dns_query_fits(&q, q.bytes, q.len), DNS_FIT_MISFIT,
		     "our own query, reflected");
}

/* What one bit of the echo does: the flags that say nothing about whose it is may change, nothing
 * else. */
Test(dns_query, a_changed_bit_of_what_identifies_it_is_a_misfit)
{
	struct dns_query q = query_for("a-1.test", DNS_TYPE_A);
	uint8_t message[64];
	size_t len = echo_of(&q, message);

	for (size_t bit = 0; bit < len * 8; bit++) {
		size_t at = bit / 8;
		uint8_t mask = (uint8_t)(1u << (bit % 8));
		enum dns_fit want = DNS_FIT_MISFIT;

		if ((at == 2 && (mask & 0x87) != 0x80 && (mask & 0x78) == 0) || at == 3 ||
		    (at >= 6 && at < 12))
			want = DNS_FIT_EXACT;
		else if (at > 12 && at < len - 4 && mask == 0x20 &&
			 ((message[at] | 0x20) >= 'a' && (message[at] | 0x20) <= 'z'))
			want = DNS_FIT_CASE_DIFFERS;
		message[at] ^= mask;
		cr_assert_eq(dns_query_fits(&q, message, len), want, "byte %zu mask %x", at, mask);
		message[at] ^= mask;
	}
}

Test(dns_query, an_echo_in_other_case_is_told_apart_from_an_exact_one)
{
	struct dname name = name_of("allowed.test");
	uint8_t bits[32] = { 0x55, 0x01 }, message[64];
	struct dns_query mixed, plain = query_for("allowed.test", DNS_TYPE_A);
	size_t len;

	dns_query_build(&name, DNS_TYPE_A, 0x1234, bits, &mixed);
	len = echo_of(&mixed, message);
	cr_assert_eq(dns_query_fits(&mixed, message, len), DNS_FIT_EXACT);
	cr_assert_eq(dns_query_fits(&plain, message, len), DNS_FIT_CASE_DIFFERS);
	len = echo_of(&plain, message);
	cr_assert_eq(dns_query_fits(&mixed, message, len), DNS_FIT_CASE_DIFFERS);
}
