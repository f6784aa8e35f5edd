/* The one reader of host texts: names, addresses, and all that pretends to be one of them. */
#include "facts/target.h"

#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "texts.h"

#define HOST(literal)                                                                              \
	{                                                                                          \
		literal, sizeof(literal) - 1                                                       \
	}

Test(target, names_become_canonical)
{
	static const struct {
		const char *host, *name;
	} rows[] = {
		{ "allowed.test", "allowed.test" },
		{ "allowed.test.", "allowed.test" },
		{ "ALLOWED.Test", "allowed.test" },
		{ "blocked.wild.test.", "blocked.wild.test" },
		{ "xn--bcher-kva.test", "xn--bcher-kva.test" },
		{ "_srv._tcp.example.org", "_srv._tcp.example.org" },
		{ "localhost", "localhost" },
		{ "1.2.3.4.example", "1.2.3.4.example" },
		{ "0x7f", NULL },
		{ "a-", "a-" },
		{ "x", "x" },
		{ "cafe", "cafe" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct target t;
		enum target_result result = target_from_host(text_of(rows[i].host), 443, &t);

		if (rows[i].name == NULL) {
			cr_expect_eq(result, TARGET_LITERAL_IN_NAME, "%s", rows[i].host);
			continue;
		}
		cr_assert_eq(result, TARGET_OK, "%s", rows[i].host);
		cr_expect_eq(t.kind, TARGET_NAME);
		cr_expect_eq(t.port, 443);
		cr_expect_str_eq(t.name.text, rows[i].name);
	}
}

Test(target, the_longest_name_is_read_and_one_octet_more_is_not)
{
	char text[257];
	struct target t;

	memset(text, 'a', sizeof(text));
	for (size_t dot = 63; dot < sizeof(text); dot += 64)
		text[dot] = '.';
	cr_expect_eq(target_from_host((struct text){ text, 253 }, 1, &t), TARGET_OK);
	cr_expect_eq(t.name.len, 253);
	cr_expect_eq(target_from_host((struct text){ text, 254 }, 1, &t), TARGET_NAME_INVALID);
	cr_expect_eq(target_from_host((struct text){ text, 255 }, 1, &t), TARGET_NAME_INVALID);
	text[253] = '.';
	cr_expect_eq(target_from_host((struct text){ text, 254 }, 1, &t), TARGET_OK);
}

Test(target, canonical_addresses_in_the_name_field_are_addresses)
{
	static const struct {
		const char *host, *addr;
	} rows[] = {
		{ "203.0.113.77", "203.0.113.77" },
		{ "0.0.0.0", "0.0.0.0" },
		{ "255.255.255.255", "255.255.255.255" },
		{ "::1", "::1" },
		{ "[::1]", "::1" },
		{ "::", "::" },
		{ "::ffff:127.0.0.1", "::ffff:127.0.0.1" },
		{ "[2001:DB8::1]", "2001:db8::1" },
		{ "2001:db8:0:0:0:0:0:1", "2001:db8::1" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct target t;
		struct addr expected = addr_in(rows[i].addr);

		cr_assert_eq(target_from_host(text_of(rows[i].host), 80, &t), TARGET_OK, "%s",
			     rows[i].host);
		cr_expect_eq(t.kind, TARGET_ADDRESS);
		cr_expect(addr_equal(&t.addr, &expected), "%s", rows[i].host);
		cr_expect_eq(t.port, 80);
	}
}

Test(target, numbers_in_other_spellings_are_neither_name_nor_address)
{
	static const char *const hosts[] = {
		"2130706433", "127.1",
		"10.1.1",     "0",
		"0177.0.0.1", "010.0.0.1",
		"0x7f.0.0.1", "0x7f000001",
		"0X7F.1",     "127.0.0.1.",
		"1.2.3.4.",   "256.0.0.1",
		"1.2.3.4.5",  "foo.0x4",
		"foo.09",     "foo.0x",
		"foo.1",      "foo.1.",
		"127.0.0.01", "1.2.3.256",
		"a.0XFF",     "00000000000000000000000000000000000000000000000000000000000001",
	};
	struct target untouched = { .port = 77 };

	for (size_t i = 0; i < ARRAY_LEN(hosts); i++)
		cr_expect_eq(target_from_host(text_of(hosts[i]), 443, &untouched),
			     TARGET_LITERAL_IN_NAME, "%s", hosts[i]);
	cr_expect_eq(untouched.port, 77);
}

Test(target, everything_else_is_invalid)
{
	static const struct text
		hosts[] = {
			HOST(""),
			HOST("."),
			HOST(".."),
			HOST(".wild.test"),
			HOST("a..wild.test"),
			HOST("allowed.test.."),
			HOST("evil.test\0.wild.test"),
			HOST("allowed.test\0"),
			HOST("\0"),
			HOST("allowed.test\r\nx: y"),
			HOST("a\x1b[2J.wild.test"),
			HOST("a\x7f.wild.test"),
			HOST("a\xff.wild.test"),
			HOST("evil.test\\000.wild.test"),
			HOST("evil\\046test.wild.test"),
			HOST("allowed.test@evil.test"),
			HOST("evil.test@allowed.test"),
			HOST("allowed.test:443"),
			HOST("allowed.test:22"),
			HOST("[allowed.test]"),
			HOST("[blocked.wild.test]"),
			HOST("b\xc3\xbc"
			     "cher.wild.test"),
			HOST("allowed\xe3\x80\x82test"),
			HOST("allowed\xef\xbc\x8etest"),
			HOST("\xe2\x84\xaaiosk.test"),
			HOST("k\xc4\xb1osk.test"),
			HOST("\xe2\x91\xa0\xe2\x91\xa1\xe2\x91\xa6.0.0.1"),
			HOST("127.0.0.1 x.wild.test"),
			HOST(" allowed.test"),
			HOST("allowed.test "),
			HOST("allowed.test\n"),
			HOST("allowed.test/"),
			HOST("https://allowed.test"),
			HOST("allowed%2etest"),
			HOST("*.wild.test"),
			HOST("*"),
			HOST("[127.0.0.1]"),
			HOST("[[::1]]"),
			HOST("[::1"),
			HOST("::1]"),
			HOST("[]"),
			HOST("["),
			HOST("]"),
			HOST("[::1]:443"),
			HOST("[::1] "),
			HOST("::1%lo"),
			HOST("fe80::1%1"),
			HOST("[fe80::1%25eth0]"),
			HOST("::1\0"),
			HOST("127.0.0.1:80"),
			HOST(":::"),
			HOST("1::2::3"),
			HOST("12345::"),
			HOST("::127.1"),
			HOST("::0177.0.0.1"),
			HOST("127.0.0.1\0"),
			HOST("127.0.0.1\0.wild.test"),
			HOST("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa."
			     "test"), /* a
					 label
					 of
					 64
				       */
		};
	struct target t = { .port = 77 };

	for (size_t i = 0; i < ARRAY_LEN(hosts); i++)
		cr_expect_eq(target_from_host(hosts[i], 443, &t), TARGET_NAME_INVALID,
			     "row %zu: %s", i, hosts[i].at);
	cr_expect_eq(target_from_host((struct text){ NULL, 0 }, 443, &t), TARGET_NAME_INVALID);
	cr_expect_eq(t.port, 77);
}

Test(target, what_is_printed_reads_back_as_the_same)
{
	static const struct {
		const char *host, *printed, *printed_host;
	} rows[] = {
		{ "api.example.org", "api.example.org:443", "api.example.org" },
		{ "192.0.2.1", "192.0.2.1:443", "192.0.2.1" },
		{ "[2001:DB8:0::1]", "[2001:db8::1]:443", "2001:db8::1" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[TARGET_TEXT_MAX];
		struct target t, again;

		cr_assert_eq(target_from_host(text_of(rows[i].host), 443, &t), TARGET_OK);
		cr_expect_str_eq(target_print(&t, text), rows[i].printed);
		cr_expect_str_eq(target_print_host(&t, text), rows[i].printed_host);
		cr_assert_eq(target_from_host(text_of(text), 443, &again), TARGET_OK);
		cr_expect(target_equal(&t, &again));
		again.port = 444;
		cr_expect_not(target_equal(&t, &again));
	}
}

Test(target, the_longest_text_fits)
{
	char name[254], text[TARGET_TEXT_MAX];
	struct target t;

	memset(name, 'b', 253);
	for (size_t dot = 63; dot < 253; dot += 64)
		name[dot] = '.';
	cr_assert_eq(target_from_host((struct text){ name, 253 }, 65535, &t), TARGET_OK);
	cr_expect_eq(strlen(target_print(&t, text)), 253 + 6);
}

Test(target, a_name_and_an_address_never_equal)
{
	struct target name, addr;
	struct addr a = addr_in("192.0.2.1");

	cr_assert_eq(target_from_host(text_of("a.test"), 443, &name), TARGET_OK);
	target_from_addr(&a, 443, &addr);
	cr_expect_not(target_equal(&name, &addr));
	cr_expect_not(target_equal(&addr, &name));
	cr_expect(target_equal(&addr, &addr));
}
