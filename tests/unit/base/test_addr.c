/* Addresses: one spelling in, one spelling out, octets between. */
#include "base/addr.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>

static struct addr addr(const char *text)
{
	struct addr a;

	cr_assert(addr_parse(text_of(text), &a), "%s", text);
	return a;
}

static struct prefix prefix(const char *text)
{
	struct prefix p;

	cr_assert(prefix_parse(text_of(text), &p), "%s", text);
	return p;
}

Test(addr, text_is_parsed_to_octets_and_printed_canonically)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{ "0.0.0.0", "0.0.0.0" },
		{ "255.255.255.255", "255.255.255.255" },
		{ "192.0.2.1", "192.0.2.1" },
		{ "::", "::" },
		{ "::1", "::1" },
		{ "2001:DB8:0:0:0:0:0:1", "2001:db8::1" },
		{ "2001:0db8::0001:0", "2001:db8::1:0" },
		{ "1:0:0:2:0:0:0:3", "1:0:0:2::3" },
		{ "1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7" },
		{ "::ffff:1.2.3.4", "::ffff:1.2.3.4" },
		{ "::ffff:102:304", "::ffff:1.2.3.4" },
		{ "64:ff9b::192.0.2.1", "64:ff9b::c000:201" },
		{ "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255",
		  "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" },
	};
	char text[ADDR_TEXT_MAX];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct addr a = addr(rows[i].in);

		cr_expect_str_eq(addr_print(&a, text), rows[i].out);
		cr_expect_eq(addr_len(&a), strchr(rows[i].in, ':') != NULL ? 16 : 4);
	}
	cr_expect_str_eq(addr_print(&(struct addr){ 0 }, text), "-");
}

Test(addr, no_other_spelling_is_an_address)
{
	static const char *const bad[] = {
		"", "1", "127.1", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.04", "1.2.3.256", "0x7f.0.0.1",
		"0x7f000001", "2130706433", "1.2.3.4 ", " 1.2.3.4", "1.2.3.4.", "1..2.3", "+1.2.3.4",
		"1.2.3.4x", "1.2.3.-4", "[::1]", "::1%1", "fe80::1%eth0", ":", ":::", "1::2::3", "1:2",
		"1:2:3:4:5:6:7:8:9", "::12345", "::g", "::1.2.3", "::1.2.3.256", "::01.2.3.4", "1:2:3:4:5:6:7:",
		":1:2:3:4:5:6:7", "::1/128", "1.2.3.4/32", "::1 ", "a.b.c.d", "localhost",
		"0000:0000:0000:0000:0000:0000:0000:0000:0000:0000",
	};
	struct addr a = { .family = 77 };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		cr_expect(!addr_parse(text_of(bad[i]), &a), "%s", bad[i]);
	cr_expect(!addr_parse((struct text){ "1.2.3.4\0", 8 }, &a));
	cr_expect(!addr_parse((struct text){ "::1\0evil", 8 }, &a));
	cr_expect(!addr_parse((struct text){ NULL, 0 }, &a));
	cr_expect_eq(a.family, 77, "written only on success");
}

Test(addr, octets_make_the_same_value_as_text)
{
	static const uint8_t v6[16] = { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 };
	struct addr from_text = addr("2001:db8::1"), from_octets = addr_v6(v6);

	cr_expect(addr_equal(&from_text, &from_octets));
	from_text = addr("32.1.13.184");
	from_octets = addr_v4(v6);
	cr_expect(addr_equal(&from_text, &from_octets));
}

Test(addr, a_view_is_read_to_its_end_and_not_beyond)
{
	struct addr a;
	char text[ADDR_TEXT_MAX];

	cr_assert(addr_parse((struct text){ "1.2.3.45", 7 }, &a));
	cr_expect_str_eq(addr_print(&a, text), "1.2.3.4");
}

Test(addr, the_order_is_family_then_octets)
{
	static const char *const ascending[] = { "0.0.0.0", "1.2.3.4", "1.2.3.5", "128.0.0.0",
						 "255.255.255.255", "::", "::1", "8000::", "ffff::" };

	for (size_t i = 0; i < ARRAY_LEN(ascending); i++) {
		for (size_t j = 0; j < ARRAY_LEN(ascending); j++) {
			struct addr a = addr(ascending[i]), b = addr(ascending[j]);
			int order = addr_compare(&a, &b);

			cr_expect_eq((order > 0) - (order < 0), (i > j) - (i < j));
			cr_expect_eq(addr_equal(&a, &b), i == j);
		}
	}
}

Test(addr, socket_addresses_come_back_as_they_went)
{
	static const char *const texts[] = { "192.0.2.1:1", "[2001:db8::1]:65535", "[::ffff:1.2.3.4]:80" };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct endpoint e, back;
		struct sockaddr_storage sa;
		socklen_t len;
		char text[ENDPOINT_TEXT_MAX];

		cr_assert(endpoint_parse(text_of(texts[i]), 0, &e));
		len = endpoint_to_sockaddr(&e, &sa);
		cr_expect_eq(len, e.addr.family == ADDR_V4 ? sizeof(struct sockaddr_in) :
							      sizeof(struct sockaddr_in6));
		cr_assert(addr_from_sockaddr((struct sockaddr *)&sa, &back));
		cr_expect(endpoint_equal(&e, &back));
		cr_expect_str_eq(endpoint_print(&back, text), texts[i]);
	}
}

Test(addr, only_a_peer_of_ours_is_unwrapped_and_scopes_are_refused)
{
	struct endpoint e = { addr("::ffff:192.0.2.7"), 9 }, out = { { 77, { 0 } }, 7 };
	struct sockaddr_storage sa;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&sa;
	char text[ENDPOINT_TEXT_MAX];

	endpoint_to_sockaddr(&e, &sa);
	cr_assert(addr_from_sockaddr((struct sockaddr *)&sa, &out));
	cr_expect_eq(out.addr.family, ADDR_V6);
	cr_assert(addr_from_peer((struct sockaddr *)&sa, &out));
	cr_expect_str_eq(endpoint_print(&out, text), "192.0.2.7:9");
	in6->sin6_scope_id = 2;
	cr_expect(!addr_from_sockaddr((struct sockaddr *)&sa, &out));
	cr_expect(!addr_from_peer((struct sockaddr *)&sa, &out));
	memset(&sa, 0, sizeof(sa));
	sa.ss_family = AF_UNIX;
	cr_expect(!addr_from_sockaddr((struct sockaddr *)&sa, &out));
	cr_expect_eq(out.port, 9, "written only on success");
	cr_expect_eq(endpoint_to_sockaddr(&(struct endpoint){ 0 }, &sa), 0);
}

Test(endpoint, ports_are_explicit_or_given_and_never_zero)
{
	static const struct {
		const char *in;
		uint16_t default_port;
		const char *out; /* NULL: refused */
	} rows[] = {
		{ "1.2.3.4:53", 0, "1.2.3.4:53" },
		{ "1.2.3.4", 53, "1.2.3.4:53" },
		{ "[::1]:53", 0, "[::1]:53" },
		{ "[::1]", 53, "[::1]:53" },
		{ "::1", 53, "[::1]:53" },
		{ "1.2.3.4", 0, NULL },
		{ "::1", 0, NULL },
		{ "1.2.3.4:", 53, NULL },
		{ "1.2.3.4:0", 53, NULL },
		{ "1.2.3.4:053", 0, NULL },
		{ "1.2.3.4:65536", 0, NULL },
		{ "1.2.3.4:53x", 0, NULL },
		{ "1.2.3.4:53:", 0, NULL },
		{ "[1.2.3.4]:53", 0, NULL },
		{ "[::1", 53, NULL },
		{ "[::1]53", 53, NULL },
		{ "[::1]:", 53, NULL },
		{ "[]:53", 0, NULL },
		{ ":53", 0, NULL },
		{ "localhost:53", 0, NULL },
		{ "", 53, NULL },
	};
	char text[ENDPOINT_TEXT_MAX];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct endpoint e;
		bool ok = endpoint_parse(text_of(rows[i].in), rows[i].default_port, &e);

		cr_expect_eq(ok, rows[i].out != NULL, "%s", rows[i].in);
		if (ok && rows[i].out != NULL)
			cr_expect_str_eq(endpoint_print(&e, text), rows[i].out);
	}
}

Test(prefix, text_round_trips_and_host_bits_refuse)
{
	static const char *const good[] = { "0.0.0.0/0", "10.0.0.0/8", "192.0.2.1/32", "::/0",
					    "fd00::/8", "2001:db8::1/128", "64:ff9b::/96", "2000::/3" };
	static const char *const bad[] = { "10.0.0.1/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/08", "::/129",
					   "fd00::1/8", "3000::/3", "10/8", "/8", "", "10.0.0.0/8/8", "10.0.0.0/-1",
					   "10.0.0.0 /8" };
	char text[PREFIX_TEXT_MAX];
	struct prefix p;

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		p = prefix(good[i]);
		cr_expect_str_eq(prefix_print(&p, text), good[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		cr_expect(!prefix_parse(text_of(bad[i]), &p), "%s", bad[i]);
	p = prefix("192.0.2.9");
	cr_expect_eq(p.len, 32);
	p = prefix("::1");
	cr_expect_eq(p.len, 128);
}

Test(prefix, contains_its_first_and_last_address_and_no_neighbour)
{
	for (unsigned len = 0; len <= 128; len++) {
		struct prefix p = { .addr = { .family = ADDR_V6 }, .len = (uint8_t)len };
		struct addr last = { .family = ADDR_V6 };

		for (unsigned bit = 0; bit < len; bit++)
			p.addr.octets[bit / 8] |= (uint8_t)((bit % 3 == 0) << (7 - bit % 8));
		last = p.addr;
		for (unsigned bit = len; bit < 128; bit++)
			last.octets[bit / 8] |= (uint8_t)(1 << (7 - bit % 8));
		cr_expect(prefix_contains(&p, &p.addr));
		cr_expect(prefix_contains(&p, &last));
		for (unsigned bit = 0; bit < len; bit++) {
			struct addr other = last;

			other.octets[bit / 8] ^= (uint8_t)(1 << (7 - bit % 8));
			cr_expect(!prefix_contains(&p, &other), "/%u bit %u", len, bit);
		}
	}
}

Test(prefix, families_never_mix)
{
	struct prefix all4 = prefix("0.0.0.0/0"), all6 = prefix("::/0");
	struct addr v4 = addr("1.2.3.4"), v6 = addr("::ffff:1.2.3.4");

	cr_expect(prefix_contains(&all4, &v4) && !prefix_contains(&all4, &v6));
	cr_expect(prefix_contains(&all6, &v6) && !prefix_contains(&all6, &v4));
	cr_expect(!prefix_contains(&(struct prefix){ 0 }, &(struct addr){ 0 }));
}
