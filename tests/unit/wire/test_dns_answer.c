/* Responses: addresses come only from a whole, consistent message, by the chain that starts at the
 * asked name. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "answer_build.h"
#include "hex.h"
#include "wire/dns_answer.h"

#define OWNER "@12" /* the asked name, where the question has it */
#define ORDINARY 0x8180
#define NO_NAME 0x8183

static struct answer_build b;
static struct dns_query query;

static void start(const char *name, enum dns_type type, uint16_t flags)
{
	struct dname asked;

	cr_assert_eq(dname_parse(text_of(name), DNAME_FINAL_DOT_DROP, &asked), DNAME_OK);
	dns_query_build(&asked, type, 0x1234, NULL, &query);
	answer_build_init(&b, &query, flags);
}

static void start_a(void)
{
	start("allowed.test", DNS_TYPE_A, ORDINARY);
}

static struct dns_answer read_now(void)
{
	uint8_t *block = exact_copy(b.bytes, b.len);
	struct dns_answer answer;

	memset(&answer, 0xee, sizeof(answer));
	dns_answer_read(&query, block, b.len, &answer);
	free(block);
	return answer;
}

static void assert_outcome(enum dns_outcome want, const char *what)
{
	struct dns_answer answer = read_now();

	cr_assert_eq(answer.outcome, want, "%s: %s, not %s", what, dns_outcome_word(answer.outcome),
		     dns_outcome_word(want));
	if (want != DNS_OUTCOME_ADDRESSES)
		cr_assert_eq(answer.addr_count, 0, "%s", what);
}

static void assert_addresses(const char *list, const char *what)
{
	struct dns_answer answer = read_now();
	char text[DNS_ANSWER_ADDRS_MAX * ADDR_TEXT_MAX] = { 0 };

	cr_assert_eq(answer.outcome, DNS_OUTCOME_ADDRESSES, "%s: %s", what,
		     dns_outcome_word(answer.outcome));
	for (unsigned i = 0; i < answer.addr_count; i++) {
		char one[ADDR_TEXT_MAX];

		strcat(text, i > 0 ? " " : "");
		strcat(text, addr_print(&answer.addrs[i], one));
	}
	cr_assert_str_eq(text, list, "%s", what);
}

Test(dns_answer, addresses_come_in_the_order_of_the_message_without_repeats)
{
	struct dns_answer answer;

	start_a();
	answer_build_address(&b, OWNER, 300, "192.0.2.9");
	answer_build_address(&b, "allowed.test", 60, "192.0.2.1");
	answer_build_address(&b, "ALLOWED.Test", 7, "192.0.2.9");
	assert_addresses("192.0.2.9 192.0.2.1", "three owners spelled differently");
	answer = read_now();
	cr_assert_eq(answer.ttl_s, 7, "the least, also of a repeat");
	cr_assert_str_eq(answer.canonical.text, "allowed.test");
	cr_assert_eq(answer.chain_count, 0);
	cr_assert_eq(answer.rcode, 0);
	start("allowed.test", DNS_TYPE_AAAA, ORDINARY);
	answer_build_address(&b, OWNER, 300, "2001:db8::1");
	answer_build_address(&b, OWNER, 300, "::ffff:10.0.0.1");
	assert_addresses("2001:db8::1 ::ffff:10.0.0.1", "AAAA as octets");
}

Test(dns_answer, every_shorter_message_is_malformed_and_so_is_a_longer_one)
{
	size_t len;

	start_a();
	answer_build_alias(&b, OWNER, 60, "edge.example");
	answer_build_address(&b, "edge.example", 60, "192.0.2.1");
	answer_build_soa(&b, "example", 60, 60);
	answer_build_record(&b, IN_ADDITIONAL, ".", 41, 1232, 0, "", 0);
	len = b.len;
	assert_outcome(DNS_OUTCOME_ADDRESSES, "whole");
	for (b.len = 0; b.len < len; b.len++)
		assert_outcome(DNS_OUTCOME_MALFORMED, "cut");
	for (b.len = len + 1; b.len < len + 20; b.len++)
		assert_outcome(DNS_OUTCOME_MALFORMED, "bytes behind the last record");
}

Test(dns_answer, a_message_that_is_not_for_the_query_is_malformed)
{
	for (size_t at = 0; at < 30; at++) {
		start_a();
		answer_build_address(&b, OWNER, 60, "192.0.2.1");
		if (at == 3 || (at >= 6 && at < 12))
			continue;
		b.bytes[at] ^= at == 2 ? 0x80 : 0x10;
		assert_outcome(DNS_OUTCOME_MALFORMED, "changed");
	}
	start_a();
	answer_build_address(&b, OWNER, 60, "192.0.2.1");
	b.bytes[13] = 'A';
	assert_addresses("192.0.2.1", "letter case is the resolver's affair");
}

Test(dns_answer, the_chain_is_followed_whatever_the_order_of_records)
{
	static const unsigned orders[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
					       { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

	for (size_t o = 0; o < 6; o++) {
		struct dns_answer answer;

		start_a();
		for (size_t i = 0; i < 3; i++) {
			switch (orders[o][i]) {
			case 0:
				answer_build_alias(&b, "allowed.TEST", 50, "A.edge.example");
				break;
			case 1:
				answer_build_alias(&b, "a.Edge.example", 40, "b.edge.example");
				break;
			default:
				answer_build_address(&b, "B.edge.example", 90, "192.0.2.5");
			}
		}
		assert_addresses("192.0.2.5", "chain");
		answer = read_now();
		cr_assert_eq(answer.chain_count, 2);
		cr_assert_eq(answer.ttl_s, 40);
		cr_assert_str_eq(answer.canonical.text, "b.edge.example");
	}
}

static void build_chain(unsigned links, bool with_address)
{
	char from[32] = "allowed.test", to[32];

	start_a();
	for (unsigned i = 0; i < links; i++) {
		snprintf(to, sizeof(to), "n%u.example", i);
		answer_build_alias(&b, from, 60, to);
		memcpy(from, to, sizeof(from));
	}
	if (with_address)
		answer_build_address(&b, from, 60, "192.0.2.1");
}

Test(dns_answer, a_chain_has_a_limit_and_a_loop_runs_into_it)
{
	build_chain(DNS_ANSWER_CHAIN_MAX, true);
	assert_addresses("192.0.2.1", "as long as may be");
	cr_assert_eq(read_now().chain_count, DNS_ANSWER_CHAIN_MAX);
	build_chain(DNS_ANSWER_CHAIN_MAX + 1, true);
	assert_outcome(DNS_OUTCOME_MALFORMED, "one too long");
	build_chain(40, true);
	assert_outcome(DNS_OUTCOME_MALFORMED, "C136, long");
	start_a();
	answer_build_alias(&b, OWNER, 60, OWNER);
	assert_outcome(DNS_OUTCOME_MALFORMED, "C136, itself");
	start_a();
	answer_build_alias(&b, OWNER, 60, "b.test");
	answer_build_alias(&b, "b.test", 60, OWNER);
	answer_build_address(&b, "c.test", 60, "192.0.2.1");
	assert_outcome(DNS_OUTCOME_MALFORMED, "two in a circle");
}

Test(dns_answer, records_of_names_off_the_chain_are_ignored)
{
	start_a();
	answer_build_address(&b, "other.example", 60, "10.9.9.9");
	assert_outcome(DNS_OUTCOME_NO_ADDRESS, "C138");
	answer_build_address(&b, "test", 60, "10.9.9.8");
	answer_build_address(&b, "x.allowed.test", 60, "10.9.9.7");
	answer_build_alias(&b, "other.example", 60, OWNER);
	answer_build_address(&b, OWNER, 60, "192.0.2.1");
	answer_build_address(&b, ".", 60, "10.9.9.6");
	assert_addresses("192.0.2.1", "only the asked name's");
}

Test(dns_answer, an_owner_that_is_no_host_name_matches_nothing)
{
	static const char *const owners[] = { "allo\x01wed.test", "allo wed.test", "*.allowed.test",
					      "allowed.1" };

	for (size_t i = 0; i < ARRAY_LEN(owners); i++) {
		start_a();
		answer_build_address(&b, owners[i], 60, "10.0.0.1");
		answer_build_address(&b, OWNER, 60, "192.0.2.1");
		assert_addresses("192.0.2.1", owners[i]);
	}
	/* One label that holds a dot is not two labels. */
	start_a();
	answer_build_address(&b, "allowedXtest", 60, "10.0.0.1");
	*(uint8_t *)memchr(b.bytes, 'X', b.len) = '.';
	answer_build_address(&b, OWNER, 60, "192.0.2.1");
	assert_addresses("192.0.2.1", "a dot inside a label");
}

Test(dns_answer, authority_and_additional_give_no_address)
{
	static const uint8_t octets[16] = { 10, 0, 0, 5 };

	for (unsigned section = IN_AUTHORITY; section <= IN_ADDITIONAL; section++) {
		start_a();
		answer_build_record(&b, (enum answer_section)section, OWNER, DNS_TYPE_A, 1, 60,
				    octets, 4);
		assert_outcome(DNS_OUTCOME_NO_ADDRESS, "C139");
		answer_build_record(&b, (enum answer_section)section, OWNER, DNS_TYPE_CNAME, 1, 60,
				    "", 0);
		answer_build_record(&b, (enum answer_section)section, OWNER, DNS_TYPE_A, 1, 60,
				    octets, 3);
		assert_outcome(DNS_OUTCOME_NO_ADDRESS, "bounds are all that counts there");
	}
}

Test(dns_answer, answers_of_the_other_family_and_other_types_are_ignored)
{
	start_a();
	answer_build_address(&b, OWNER, 60, "fd00::1");
	assert_outcome(DNS_OUTCOME_NO_ADDRESS, "AAAA to A");
	answer_build_record(&b, IN_ANSWER, OWNER, 65, 1, 60, "\0\1\0", 3);
	answer_build_record(&b, IN_ANSWER, OWNER, 46, 1, 60, "sig", 3);
	answer_build_record(&b, IN_ANSWER, "test", 39, 1, 60, "\0", 1);
	answer_build_address(&b, OWNER, 60, "192.0.2.1");
	assert_addresses("192.0.2.1", "C144");
	start("allowed.test", DNS_TYPE_AAAA, ORDINARY);
	answer_build_address(&b, OWNER, 60, "10.0.0.1");
	assert_outcome(DNS_OUTCOME_NO_ADDRESS, "A to AAAA");
}

Test(dns_answer, one_owner_has_one_alias_or_addresses_never_both)
{
	start_a();
	answer_build_alias(&b, OWNER, 60, "b.test");
	answer_build_alias(&b, OWNER, 30, "B.test");
	answer_build_address(&b, "b.test", 60, "192.0.2.1");
	assert_addresses("192.0.2.1", "the same twice");
	cr_assert_eq(read_now().ttl_s, 30);
	cr_assert_eq(read_now().chain_count, 1);
	answer_build_alias(&b, OWNER, 60, "c.test");
	assert_outcome(DNS_OUTCOME_MALFORMED, "two aliases");
	start_a();
	answer_build_address(&b, OWNER, 60, "192.0.2.1");
	answer_build_alias(&b, OWNER, 60, "b.test");
	assert_outcome(DNS_OUTCOME_MALFORMED, "address, then alias");
	start_a();
	answer_build_alias(&b, OWNER, 60, "b.test");
	answer_build_address(&b, OWNER, 60, "2001:db8::1");
	answer_build_address(&b, "b.test", 60, "192.0.2.1");
	assert_outcome(DNS_OUTCOME_MALFORMED, "alias, then an address of the other family");
}

Test(dns_answer, an_alias_leads_to_a_host_name)
{
	static const char *const targets[] = { ".",	    "*.test", "a b.test",
					       "127.0.0.1", "0x7f",   "foo.9" };

	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		start_a();
		answer_build_alias(&b, OWNER, 60, targets[i]);
		assert_outcome(DNS_OUTCOME_MALFORMED, targets[i]);
	}
	start_a();
	answer_build_alias(&b, OWNER, 60, "localhost");
	assert_outcome(DNS_OUTCOME_NO_ADDRESS, "C134");
	start_a();
	answer_build_alias(&b, OWNER, 60, "x@20"); /* x.test, the end compressed */
	assert_outcome(DNS_OUTCOME_NO_ADDRESS, "a pointer at the very end");
	answer_build_address(&b, "x.test", 60, "192.0.2.1");
	assert_addresses("192.0.2.1", "a compressed target");
}

Test(dns_answer, alias_data_is_exactly_one_name)
{
	static const char *const data[] = {
		"",	"01", "0161", "016100 00", "c00c 00", "c0", "0161 c00c 0161 00",
		"c0ff", "ff", "40",   "80",
	};

	for (size_t i = 0; i < ARRAY_LEN(data); i++) {
		uint8_t bytes[32];
		size_t len = hex_bytes(data[i], bytes);

		start_a();
		answer_build_record(&b, IN_ANSWER, OWNER, DNS_TYPE_CNAME, 1, 60, bytes, len);
		assert_outcome(DNS_OUTCOME_MALFORMED, data[i]);
		answer_build_address(&b, "a.test", 60, "192.0.2.1");
		assert_outcome(DNS_OUTCOME_MALFORMED, data[i]);
	}
}

Test(dns_answer, address_data_of_another_length_is_malformed)
{
	static const uint8_t zeros[32] = { 0 };

	for (size_t len = 0; len < sizeof(zeros); len++) {
		start_a();
		answer_build_address(&b, OWNER, 60, "192.0.2.1");
		answer_build_record(&b, IN_ANSWER, OWNER, DNS_TYPE_A, 1, 60, zeros, len);
		assert_outcome(len == 4 ? DNS_OUTCOME_ADDRESSES : DNS_OUTCOME_MALFORMED, "A");
		start("allowed.test", DNS_TYPE_AAAA, ORDINARY);
		answer_build_address(&b, OWNER, 60, "2001:db8::1");
		answer_build_record(&b, IN_ANSWER, OWNER, DNS_TYPE_AAAA, 1, 60, zeros, len);
		assert_outcome(len == 16 ? DNS_OUTCOME_ADDRESSES : DNS_OUTCOME_MALFORMED, "AAAA");
	}
}

Test(dns_answer, records_of_another_class_are_not_used)
{
	static const uint8_t octets[4] = { 192, 0, 2, 1 };

	for (uint16_t class = 0; class < 256; class ++) {
		start_a();
		answer_build_record(&b, IN_ANSWER, OWNER, DNS_TYPE_A, class, 60, octets, 4);
		assert_outcome(class == 1 ? DNS_OUTCOME_ADDRESSES : DNS_OUTCOME_MALFORMED, "class");
		start_a();
		answer_build_record(&b, IN_ANSWER, "other.test", DNS_TYPE_A, class, 60, octets, 4);
		assert_outcome(DNS_OUTCOME_NO_ADDRESS, "class off the chain");
	}
}

Test(dns_answer, a_pointer_leads_strictly_back_or_nowhere)
{
	static const struct {
		const char *owner;
		enum dns_outcome outcome;
	} pointers[] = {
		{ "@12", DNS_OUTCOME_ADDRESSES },
		{ "@20", DNS_OUTCOME_NO_ADDRESS },
		{ "allowed@20", DNS_OUTCOME_ADDRESSES },
		{ "@24", DNS_OUTCOME_MALFORMED },
		{ "@30", DNS_OUTCOME_MALFORMED },    /* itself, C155 */
		{ "@0x3ff", DNS_OUTCOME_MALFORMED }, /* past the end, C156 */
		{ "@31", DNS_OUTCOME_MALFORMED },
		{ "@40", DNS_OUTCOME_MALFORMED },
		{ "@0", DNS_OUTCOME_MALFORMED },
		/* the header */ { "@11", DNS_OUTCOME_MALFORMED },
		{ "x@30", DNS_OUTCOME_MALFORMED }, /* into its own start */
		{ "@25", DNS_OUTCOME_NO_ADDRESS }, /* the root at the end of the question's name */
	};

	for (size_t i = 0; i < ARRAY_LEN(pointers); i++) {
		start_a();
		answer_build_address(&b, pointers[i].owner, 60, "192.0.2.1");
		assert_outcome(pointers[i].outcome, pointers[i].owner);
	}
}

Test(dns_answer, pointers_to_pointers_are_followed_a_bounded_number_of_times)
{
	for (unsigned links = 0; links <= 70; links += 7) {
		char owner[16] = "@12";
		uint8_t pad[256];
		size_t at;

		start_a();
		/* A TXT record whose data is a run of pointers, each to the one before. */
		at = b.len + 2 + 10;
		for (unsigned i = 0; i < links; i++) {
			size_t to = i == 0 ? 12 : at + 2 * (i - 1);

			pad[2 * i] = (uint8_t)(0xc0 | to >> 8);
			pad[2 * i + 1] = (uint8_t)to;
		}
		answer_build_record(&b, IN_ANSWER, "@12", 16, 1, 60, pad, 2 * (size_t)links);
		if (links > 0)
			snprintf(owner, sizeof(owner), "@%zu", at + 2 * (links - 1));
		answer_build_address(&b, owner, 60, "192.0.2.1");
		assert_outcome(links < 64 ? DNS_OUTCOME_ADDRESSES : DNS_OUTCOME_MALFORMED, owner);
	}
}

Test(dns_answer, a_name_is_at_most_255_bytes_however_it_is_put_together)
{
	char longest[256] = { 0 };
	uint8_t wire[300];

	for (size_t over = 0; over <= 1; over++) {
		memset(longest, 'a', 255);
		longest[63] = longest[127] = longest[191] = '.';
		longest[253 + over] = '\0';
		start_a();
		answer_build_record(&b, IN_ANSWER, "other.test", DNS_TYPE_CNAME, 1, 60, wire,
				    answer_build_name(longest, wire));
		answer_build_address(&b, longest, 60, "10.0.0.1");
		answer_build_address(&b, OWNER, 60, "192.0.2.1");
		assert_outcome(over ? DNS_OUTCOME_MALFORMED : DNS_OUTCOME_ADDRESSES,
			       "uncompressed");
	}
	/* 13 bytes of the question behind labels: 255 is reached by 241 bytes in front. */
	for (size_t over = 0; over <= 1; over++) {
		memset(longest, 'b', 255);
		longest[63] = longest[127] = longest[191] = '.';
		memcpy(longest + 240 + over, "@12", 4);
		start_a();
		answer_build_address(&b, longest, 60, "10.0.0.1");
		answer_build_address(&b, OWNER, 60, "192.0.2.1");
		assert_outcome(over ? DNS_OUTCOME_MALFORMED : DNS_OUTCOME_ADDRESSES, "compressed");
	}
}

Test(dns_answer, a_label_is_at_most_63_bytes)
{
	static const uint8_t octets[4] = { 192, 0, 2, 1 };
	char owner[65];

	for (size_t len = 63; len <= 64; len++) {
		memset(owner, 'x', len);
		owner[len] = '\0';
		start_a();
		answer_build_record(&b, IN_ANSWER, owner, DNS_TYPE_A, 1, 60, octets, 4);
		answer_build_address(&b, OWNER, 60, "192.0.2.9");
		assert_outcome(len == 63 ? DNS_OUTCOME_ADDRESSES : DNS_OUTCOME_MALFORMED, owner);
	}
}

Test(dns_answer, hex_cases_of_the_wire_are_malformed)
{
#define QUESTION "07616c6c6f776564047465737400 0001 0001"
	static const char *const cases[] = {
		"1234818000010001 00000000" QUESTION
		"c01e 0001 0001 00000000 0004 0a090906", /* C155 */
		"1234818000010001 00000000" QUESTION
		"c3ff 0001 0001 00000000 0004 0a090906",	 /* C156 */
		"1234818000010001 00000000" QUESTION "03616161", /* C157 */
		"1234818000010001 00000000" QUESTION
		"c00c 0001 0001 00000000 0010 0a090906", /* C158 */
		"12348180000101f4 00000000" QUESTION
		"c00c 0001 0001 00000000 0004 09090909", /* C159 */
		"1234818000000001 00000000" QUESTION "c00c 0001 0001 00000000 0004 09090909",
		"1234818000020001 00000000" QUESTION QUESTION
		"c00c 0001 0001 00000000 0004 09090909",
		"ffff818000010001 00000000" QUESTION
		"c00c 0001 0001 00000000 0004 09090909", /* C150 */
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		start_a();
		b.len = hex_bytes(cases[i], b.bytes);
		assert_outcome(DNS_OUTCOME_MALFORMED, cases[i]);
	}
}

Test(dns_answer, counts_and_addresses_have_limits)
{
	static const uint8_t text[65535];
	char address[32];

	start_a();
	for (unsigned i = 0; i < DNS_ANSWER_ADDRS_MAX; i++) {
		snprintf(address, sizeof(address), "192.0.2.%u", i);
		answer_build_address(&b, OWNER, 60, address);
	}
	answer_build_address(&b, OWNER, 60, "192.0.2.0");
	cr_assert_eq(read_now().addr_count, DNS_ANSWER_ADDRS_MAX);
	assert_outcome(DNS_OUTCOME_ADDRESSES, "as many as may be, and a repeat");
	answer_build_address(&b, OWNER, 60, "192.0.2.99");
	assert_outcome(DNS_OUTCOME_MALFORMED, "one more");
	for (unsigned over = 0; over <= 1; over++) {
		start_a();
		for (unsigned i = 0; i < DNS_ANSWER_RECORDS_MAX + over; i++)
			answer_build_address(&b, OWNER, 60, "192.0.2.1");
		assert_outcome(over ? DNS_OUTCOME_MALFORMED : DNS_OUTCOME_ADDRESSES, "records");
	}
	start_a();
	answer_build_record(&b, IN_ANSWER, OWNER, 16, 1, 60, text, 65000);
	answer_build_address(&b, OWNER, 60, "192.0.2.1");
	assert_outcome(DNS_OUTCOME_ADDRESSES, "a large message");
	answer_build_record(&b, IN_ANSWER, OWNER, 16, 1, 60, text, 65535 - b.len - 12);
	cr_assert_eq(b.len, DNS_ANSWER_MESSAGE_MAX);
	assert_outcome(DNS_OUTCOME_ADDRESSES, "the largest");
	answer_build_record(&b, IN_ANSWER, OWNER, 16, 1, 60, text, 0);
	assert_outcome(DNS_OUTCOME_MALFORMED, "larger than the protocol has");
}

Test(dns_answer, a_ttl_with_the_top_bit_counts_as_zero)
{
	static const struct {
		uint32_t raw, ttl_s;
	} ttls[] = {
		{ 0, 0 },	   { 1, 1 },	      { 0x7fffffff, 0x7fffffff },
		{ 0x80000000, 0 }, { 0xffffffff, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(ttls); i++) {
		start_a();
		answer_build_address(&b, OWNER, ttls[i].raw, "192.0.2.1");
		cr_assert_eq(read_now().ttl_s, ttls[i].ttl_s);
		assert_outcome(DNS_OUTCOME_ADDRESSES, "ttl");
		start("allowed.test", DNS_TYPE_A, NO_NAME);
		answer_build_soa(&b, "test", ttls[i].raw, 0x7fffffff);
		cr_assert_eq(read_now().ttl_s, ttls[i].ttl_s);
		start("allowed.test", DNS_TYPE_A, NO_NAME);
		answer_build_soa(&b, "test", 0x7fffffff, ttls[i].raw);
		cr_assert_eq(read_now().ttl_s, ttls[i].ttl_s);
	}
}

Test(dns_answer, each_rcode_has_its_outcome)
{
	for (unsigned rcode = 0; rcode < 16; rcode++) {
		start("allowed.test", DNS_TYPE_A, (uint16_t)(0x8180 | rcode));
		assert_outcome(rcode == 0   ? DNS_OUTCOME_NO_ADDRESS
			       : rcode == 3 ? DNS_OUTCOME_NXDOMAIN
					    : DNS_OUTCOME_SERVER_FAILURE,
			       "rcode");
		cr_assert_eq(read_now().rcode, rcode);
		answer_build_address(&b, OWNER, 60, "192.0.2.1");
		assert_outcome(rcode == 0   ? DNS_OUTCOME_ADDRESSES
			       : rcode == 3 ? DNS_OUTCOME_MALFORMED
					    : DNS_OUTCOME_SERVER_FAILURE,
			       "rcode beside an address");
	}
}

Test(dns_answer, a_truncated_answer_is_not_read)
{
	start("allowed.test", DNS_TYPE_A, 0x8380);
	answer_build_address(&b, OWNER, 60, "192.0.2.1");
	assert_outcome(DNS_OUTCOME_TRUNCATED, "whole");
	b.len--;
	assert_outcome(DNS_OUTCOME_TRUNCATED, "cut");
	cr_assert_eq(read_now().ttl_s, 0);
}

Test(dns_answer, an_opt_record_stands_once_in_the_additional_section)
{
	start_a();
	answer_build_address(&b, OWNER, 60, "192.0.2.1");
	answer_build_record(&b, IN_ADDITIONAL, ".", 41, 4096, 0x00008000, "\0\12\0\0", 4);
	assert_outcome(DNS_OUTCOME_ADDRESSES, "one");
	answer_build_record(&b, IN_ADDITIONAL, ".", 41, 4096, 0, "", 0);
	assert_outcome(DNS_OUTCOME_MALFORMED, "two");
	start_a();
	answer_build_record(&b, IN_ADDITIONAL, "test", 41, 4096, 0, "", 0);
	assert_outcome(DNS_OUTCOME_MALFORMED, "an owner");
	for (unsigned section = IN_ANSWER; section <= IN_AUTHORITY; section++) {
		start_a();
		answer_build_record(&b, (enum answer_section)section, ".", 41, 4096, 0, "", 0);
		assert_outcome(DNS_OUTCOME_MALFORMED, "elsewhere");
	}
}

Test(dns_answer, an_extended_rcode_is_a_failure)
{
	start_a();
	answer_build_address(&b, OWNER, 60, "192.0.2.1");
	answer_build_record(&b, IN_ADDITIONAL, ".", 41, 1232, 0x01000000, "", 0);
	assert_outcome(DNS_OUTCOME_SERVER_FAILURE, "BADVERS");
	cr_assert_eq(read_now().rcode, 16);
	start("allowed.test", DNS_TYPE_A, 0x8183);
	answer_build_record(&b, IN_ADDITIONAL, ".", 41, 1232, 0xff000000, "", 0);
	assert_outcome(DNS_OUTCOME_SERVER_FAILURE, "more than fits");
	cr_assert_eq(read_now().rcode, 255);
}

Test(dns_answer, absence_lasts_as_long_as_the_zone_says)
{
	static const struct {
		const char *zone;
		uint32_t ttl_s, minimum_s, want_s;
	} zones[] = {
		{ "test", 300, 60, 60 },	{ "test", 60, 300, 60 }, { "TEST", 5, 300, 5 },
		{ "allowed.test", 70, 80, 70 }, { ".", 900, 800, 800 },	 { "other", 300, 60, 0 },
		{ "x.allowed.test", 9, 9, 0 },	{ "wed.test", 9, 9, 0 },
	};
	static const uint16_t flags[] = { ORDINARY, NO_NAME };

	for (size_t i = 0; i < ARRAY_LEN(zones) * 2; i++) {
		size_t z = i / 2;

		start("allowed.test", DNS_TYPE_A, flags[i % 2]);
		cr_assert_eq(read_now().ttl_s, 0, "without an SOA");
		answer_build_soa(&b, zones[z].zone, zones[z].ttl_s, zones[z].minimum_s);
		cr_assert_eq(read_now().ttl_s, zones[z].want_s, "%s", zones[z].zone);
		assert_outcome(i % 2 ? DNS_OUTCOME_NXDOMAIN : DNS_OUTCOME_NO_ADDRESS,
			       zones[z].zone);
	}
}

Test(dns_answer, the_end_of_the_chain_decides_about_absence)
{
	struct dns_answer answer;

	start("allowed.test", DNS_TYPE_A, NO_NAME);
	answer_build_alias(&b, OWNER, 20, "gone.example");
	answer_build_soa(&b, "example", 300, 60);
	answer = read_now();
	cr_assert_eq(answer.outcome, DNS_OUTCOME_NXDOMAIN);
	cr_assert_eq(answer.ttl_s, 20);
	cr_assert_eq(answer.chain_count, 1);
	cr_assert_str_eq(answer.canonical.text, "gone.example");
	start("allowed.test", DNS_TYPE_A, ORDINARY);
	answer_build_alias(&b, OWNER, 2000, "empty.example");
	answer_build_soa(&b, "test", 7, 7);
	answer_build_soa(&b, "example", 300, 60);
	cr_assert_eq(read_now().ttl_s, 60, "the zone of the asked name does not count");
	assert_outcome(DNS_OUTCOME_NO_ADDRESS, "no data at the end");
}

Test(dns_answer, more_soas_than_anybody_needs_are_malformed)
{
	start("allowed.test", DNS_TYPE_A, NO_NAME);
	for (int i = 0; i < 8; i++)
		answer_build_soa(&b, "test", 300, 60);
	assert_outcome(DNS_OUTCOME_NXDOMAIN, "eight");
	answer_build_soa(&b, "test", 300, 60);
	assert_outcome(DNS_OUTCOME_MALFORMED, "nine");
}

/* Each of the longest names once: twelve aliases, and strangers for the rest. */
Test(dns_answer, the_costliest_answer_is_read_right)
{
	char owner[256] = OWNER, target[256];

	start_a();
	for (int i = 0; i < 12; i++) {
		snprintf(target, sizeof(target), "%060d.%060d.%060d.n%d.test", 0, 0, 0, i);
		answer_build_alias(&b, owner, 60, target);
		memcpy(owner, target, sizeof(owner));
	}
	for (int i = 0; i < 100; i++) {
		snprintf(target, sizeof(target), "%060d.%060d.%060d.x%d.test", 0, 0, 0, i);
		answer_build_address(&b, target, 60, "198.51.100.1");
	}
	answer_build_address(&b, owner, 60, "192.0.2.1");
	assert_addresses("192.0.2.1", "one of a hundred");
	cr_assert_eq(read_now().chain_count, 12);
}

Test(dns_answer, a_broken_soa_makes_a_negative_answer_malformed)
{
	static const char *const data[] = {
		"",
		"00",
		"0000",
		"0000 00000001 00000002 00000003 00000004 000000",
		"0000 00000001 00000002 00000003 00000004 00000005 00",
		"ff00 00000001 00000002 00000003 00000004 00000005",
		"0161",
	};

	for (size_t i = 0; i < ARRAY_LEN(data); i++) {
		uint8_t bytes[64];
		size_t len = hex_bytes(data[i], bytes);

		start("allowed.test", DNS_TYPE_A, NO_NAME);
		answer_build_record(&b, IN_AUTHORITY, "test", 6, 1, 60, bytes, len);
		assert_outcome(DNS_OUTCOME_MALFORMED, data[i]);
	}
}

Test(dns_answer, one_changed_byte_gives_no_address_that_is_not_in_the_message)
{
	start_a();
	answer_build_alias(&b, OWNER, 60, "edge@20");
	answer_build_address(&b, "edge.test", 60, "192.0.2.1");
	answer_build_record(&b, IN_ADDITIONAL, ".", 41, 1232, 0, "", 0);
	for (size_t at = 0; at < b.len; at++) {
		uint8_t right = b.bytes[at];

		for (unsigned v = 0; v < 256; v++) {
			struct dns_answer answer;

			b.bytes[at] = (uint8_t)v;
			answer = read_now();
			cr_assert_eq(answer.outcome == DNS_OUTCOME_ADDRESSES,
				     answer.addr_count > 0);
			if (answer.addr_count > 0)
				cr_assert_not_null(
					memmem(b.bytes, b.len, answer.addrs[0].octets, 4));
		}
		b.bytes[at] = right;
	}
}

Test(dns_answer, every_outcome_has_its_own_word)
{
	for (unsigned i = 0; i <= DNS_OUTCOME_UNREACHABLE; i++) {
		for (unsigned j = 0; j < i; j++)
			cr_assert_str_neq(dns_outcome_word((enum dns_outcome)i),
					  dns_outcome_word((enum dns_outcome)j));
	}
	cr_assert_str_eq(dns_outcome_word((enum dns_outcome)99), "unknown");
}
