/*
 * The special-address table and the order of the check. Rows here are written by hand from the
 * registries, not read from the table, so that a slip in the table shows; tests/exhaustive walks
 * the table itself.
 */
#include "facts/addr_class.h"

#include <string.h>

#include <criterion/criterion.h>

#include "base/attr.h"
#include "facts/own_addresses.h"
#include "texts.h"

struct row {
	const char *text;
	enum addr_class class;
};

static void check_rows(const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct addr_finding f = finding_in(rows[i].text);

		cr_expect_eq(f.class, rows[i].class, "%s: %s, expected %s", rows[i].text,
			     addr_class_word(f.class), addr_class_word(rows[i].class));
		cr_expect_neq(f.range, NULL);
		cr_expect_neq(f.reference, NULL);
		cr_expect_eq(f.range[0] == '\0', f.class == ADDR_CLASS_PUBLIC, "%s", rows[i].text);
	}
}

Test(addr_class, ipv4_blocks_are_refused_from_first_to_last_address)
{
	static const struct row rows[] = {
		{ "0.0.0.0", ADDR_CLASS_UNSPECIFIED },
		{ "0.0.0.1", ADDR_CLASS_RESERVED },
		{ "0.255.255.255", ADDR_CLASS_RESERVED },
		{ "10.0.0.0", ADDR_CLASS_PRIVATE },
		{ "10.255.255.255", ADDR_CLASS_PRIVATE },
		{ "100.64.0.0", ADDR_CLASS_SHARED },
		{ "100.64.0.1", ADDR_CLASS_SHARED },
		{ "100.127.255.255", ADDR_CLASS_SHARED },
		{ "127.0.0.0", ADDR_CLASS_LOOPBACK },
		{ "127.0.0.2", ADDR_CLASS_LOOPBACK },
		{ "127.255.255.254", ADDR_CLASS_LOOPBACK },
		{ "127.255.255.255", ADDR_CLASS_LOOPBACK },
		{ "169.254.0.0", ADDR_CLASS_LINK_LOCAL },
		{ "169.254.255.255", ADDR_CLASS_LINK_LOCAL },
		{ "172.16.0.0", ADDR_CLASS_PRIVATE },
		{ "172.31.255.255", ADDR_CLASS_PRIVATE },
		{ "192.0.0.0", ADDR_CLASS_PROTOCOL },
		{ "192.0.0.1", ADDR_CLASS_PROTOCOL },
		{ "192.0.0.7", ADDR_CLASS_PROTOCOL },
		{ "192.0.0.8", ADDR_CLASS_PROTOCOL },
		{ "192.0.0.9", ADDR_CLASS_ANYCAST },
		{ "192.0.0.10", ADDR_CLASS_ANYCAST },
		{ "192.0.0.11", ADDR_CLASS_PROTOCOL },
		{ "192.0.0.169", ADDR_CLASS_PROTOCOL },
		{ "192.0.0.170", ADDR_CLASS_PROTOCOL },
		{ "192.0.0.171", ADDR_CLASS_PROTOCOL },
		{ "192.0.0.172", ADDR_CLASS_PROTOCOL },
		{ "192.0.0.255", ADDR_CLASS_PROTOCOL },
		{ "192.0.2.0", ADDR_CLASS_DOCUMENTATION },
		{ "192.0.2.255", ADDR_CLASS_DOCUMENTATION },
		{ "192.31.196.0", ADDR_CLASS_ANYCAST },
		{ "192.31.196.255", ADDR_CLASS_ANYCAST },
		{ "192.52.193.0", ADDR_CLASS_ANYCAST },
		{ "192.52.193.255", ADDR_CLASS_ANYCAST },
		{ "192.88.99.0", ADDR_CLASS_ANYCAST },
		{ "192.88.99.1", ADDR_CLASS_ANYCAST },
		{ "192.88.99.2", ADDR_CLASS_ANYCAST },
		{ "192.88.99.255", ADDR_CLASS_ANYCAST },
		{ "192.168.0.0", ADDR_CLASS_PRIVATE },
		{ "192.168.255.255", ADDR_CLASS_PRIVATE },
		{ "192.175.48.0", ADDR_CLASS_ANYCAST },
		{ "192.175.48.255", ADDR_CLASS_ANYCAST },
		{ "198.18.0.0", ADDR_CLASS_BENCHMARK },
		{ "198.19.255.255", ADDR_CLASS_BENCHMARK },
		{ "198.51.100.0", ADDR_CLASS_DOCUMENTATION },
		{ "198.51.100.255", ADDR_CLASS_DOCUMENTATION },
		{ "203.0.113.0", ADDR_CLASS_DOCUMENTATION },
		{ "203.0.113.255", ADDR_CLASS_DOCUMENTATION },
		{ "224.0.0.0", ADDR_CLASS_MULTICAST },
		{ "239.255.255.255", ADDR_CLASS_MULTICAST },
		{ "240.0.0.0", ADDR_CLASS_RESERVED },
		{ "255.255.255.254", ADDR_CLASS_RESERVED },
		{ "255.255.255.255", ADDR_CLASS_RESERVED },
	};

	check_rows(rows, ARRAY_LEN(rows));
}

Test(addr_class, ipv4_neighbours_of_every_block_are_public)
{
	static const char *const texts[] = {
		"1.0.0.0",	   "1.0.0.1",	    "9.255.255.255",   "11.0.0.0",
		"100.63.255.255",  "100.128.0.0",   "126.255.255.255", "128.0.0.0",
		"168.63.129.15",   "168.63.129.17", "169.253.255.255", "169.255.0.0",
		"172.15.255.255",  "172.32.0.0",    "191.255.255.255", "192.0.1.0",
		"192.0.1.255",	   "192.0.3.0",	    "192.31.195.255",  "192.31.197.0",
		"192.52.192.255",  "192.52.194.0",  "192.88.98.255",   "192.88.100.0",
		"192.167.255.255", "192.169.0.0",   "192.175.47.255",  "192.175.49.0",
		"198.17.255.255",  "198.20.0.0",    "198.51.99.255",   "198.51.101.0",
		"203.0.112.255",   "203.0.114.0",   "223.255.255.255", "9.9.9.9",
	};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		check_rows(&(struct row){ texts[i], ADDR_CLASS_PUBLIC }, 1);
}

Test(addr_class, ipv6_outside_global_unicast_is_refused)
{
	static const struct row rows[] = {
		{ "::", ADDR_CLASS_UNSPECIFIED },
		{ "::1", ADDR_CLASS_LOOPBACK },
		{ "::1:0:0:0:0", ADDR_CLASS_RESERVED },
		{ "ff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ADDR_CLASS_RESERVED },
		{ "64:ff9a:ffff:ffff:ffff:ffff:ffff:ffff", ADDR_CLASS_RESERVED },
		{ "64:ff9b::1:0:0", ADDR_CLASS_RESERVED },
		{ "64:ff9b:1::", ADDR_CLASS_NAT64 },
		{ "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", ADDR_CLASS_NAT64 },
		{ "64:ff9b:2::", ADDR_CLASS_RESERVED },
		{ "100::", ADDR_CLASS_PROTOCOL },
		{ "100::ffff:ffff:ffff:ffff", ADDR_CLASS_PROTOCOL },
		{ "100:0:0:1::", ADDR_CLASS_PROTOCOL },
		{ "100:0:0:1:ffff:ffff:ffff:ffff", ADDR_CLASS_PROTOCOL },
		{ "100:0:0:2::", ADDR_CLASS_RESERVED },
		{ "200::1", ADDR_CLASS_RESERVED },
		{ "3ff:ffff::1", ADDR_CLASS_RESERVED },
		{ "400::1", ADDR_CLASS_RESERVED },
		{ "800::1", ADDR_CLASS_RESERVED },
		{ "1000::1", ADDR_CLASS_RESERVED },
		{ "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ADDR_CLASS_RESERVED },
		{ "4000::", ADDR_CLASS_RESERVED },
		{ "4000::1", ADDR_CLASS_RESERVED },
		{ "5eff:ffff::", ADDR_CLASS_RESERVED },
		{ "5f00::1", ADDR_CLASS_PROTOCOL },
		{ "5f00:ffff::1", ADDR_CLASS_PROTOCOL },
		{ "5f01::", ADDR_CLASS_RESERVED },
		{ "6000::1", ADDR_CLASS_RESERVED },
		{ "8000::1", ADDR_CLASS_RESERVED },
		{ "a000::1", ADDR_CLASS_RESERVED },
		{ "c000::1", ADDR_CLASS_RESERVED },
		{ "e000::1", ADDR_CLASS_RESERVED },
		{ "f000::1", ADDR_CLASS_RESERVED },
		{ "f800::1", ADDR_CLASS_RESERVED },
		{ "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ADDR_CLASS_RESERVED },
		{ "fc00::", ADDR_CLASS_UNIQUE_LOCAL },
		{ "fc12:3456::1", ADDR_CLASS_UNIQUE_LOCAL },
		{ "fd12:3456:789a::1", ADDR_CLASS_UNIQUE_LOCAL },
		{ "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ADDR_CLASS_UNIQUE_LOCAL },
		{ "fe00::1", ADDR_CLASS_RESERVED },
		{ "fe7f:ffff::1", ADDR_CLASS_RESERVED },
		{ "fe80::1", ADDR_CLASS_LINK_LOCAL },
		{ "fe80:1::1", ADDR_CLASS_LINK_LOCAL },
		{ "febf:ffff::1", ADDR_CLASS_LINK_LOCAL },
		{ "fec0::1", ADDR_CLASS_PRIVATE },
		{ "feff:ffff::1", ADDR_CLASS_PRIVATE },
		{ "ff00::", ADDR_CLASS_MULTICAST },
		{ "ff02::1", ADDR_CLASS_MULTICAST },
		{ "ff0e::1", ADDR_CLASS_MULTICAST },
		{ "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ADDR_CLASS_MULTICAST },
	};

	check_rows(rows, ARRAY_LEN(rows));
}

Test(addr_class, ipv6_blocks_inside_global_unicast_end_where_they_should)
{
	static const struct row rows[] = {
		{ "2000::", ADDR_CLASS_RESERVED },
		{ "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ADDR_CLASS_RESERVED },
		{ "2001:1::", ADDR_CLASS_PROTOCOL },
		{ "2001:1::1", ADDR_CLASS_ANYCAST },
		{ "2001:1::2", ADDR_CLASS_ANYCAST },
		{ "2001:1::3", ADDR_CLASS_ANYCAST },
		{ "2001:1::4", ADDR_CLASS_PROTOCOL },
		{ "2001:1:ffff::", ADDR_CLASS_PROTOCOL },
		{ "2001:2::", ADDR_CLASS_BENCHMARK },
		{ "2001:2:0:ffff:ffff:ffff:ffff:ffff", ADDR_CLASS_BENCHMARK },
		{ "2001:2:1::", ADDR_CLASS_PROTOCOL },
		{ "2001:3::", ADDR_CLASS_ANYCAST },
		{ "2001:4::", ADDR_CLASS_PROTOCOL },
		{ "2001:4:12::", ADDR_CLASS_PROTOCOL },
		{ "2001:4:112::", ADDR_CLASS_ANYCAST },
		{ "2001:4:113::", ADDR_CLASS_PROTOCOL },
		{ "2001:10::", ADDR_CLASS_PROTOCOL },
		{ "2001:20::1", ADDR_CLASS_PROTOCOL },
		{ "2001:30::1", ADDR_CLASS_PROTOCOL },
		{ "2001:40::1", ADDR_CLASS_PROTOCOL },
		{ "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", ADDR_CLASS_PROTOCOL },
		{ "2001:200::", ADDR_CLASS_PUBLIC },
		{ "2001:200::1", ADDR_CLASS_PUBLIC },
		{ "2001:4860:4860::8888", ADDR_CLASS_PUBLIC },
		{ "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", ADDR_CLASS_PUBLIC },
		{ "2001:db8::", ADDR_CLASS_DOCUMENTATION },
		{ "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", ADDR_CLASS_DOCUMENTATION },
		{ "2001:db9::", ADDR_CLASS_PUBLIC },
		{ "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ADDR_CLASS_PUBLIC },
		{ "2003::", ADDR_CLASS_PUBLIC },
		{ "2400::1", ADDR_CLASS_PUBLIC },
		{ "2600::1", ADDR_CLASS_PUBLIC },
		{ "2620:4f:7fff:ffff:ffff:ffff:ffff:ffff", ADDR_CLASS_PUBLIC },
		{ "2620:4f:8000::", ADDR_CLASS_ANYCAST },
		{ "2620:4f:8000:ffff:ffff:ffff:ffff:ffff", ADDR_CLASS_ANYCAST },
		{ "2620:4f:8001::", ADDR_CLASS_PUBLIC },
		{ "2a00::1", ADDR_CLASS_PUBLIC },
		{ "2c00::1", ADDR_CLASS_PUBLIC },
		{ "2cff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ADDR_CLASS_PUBLIC },
		{ "2d00::", ADDR_CLASS_RESERVED },
		{ "2dff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ADDR_CLASS_RESERVED },
		{ "2e00::", ADDR_CLASS_RESERVED },
		{ "2fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ADDR_CLASS_RESERVED },
		{ "3000::", ADDR_CLASS_RESERVED },
		{ "3ffe::1", ADDR_CLASS_RESERVED },
		{ "3fff::1", ADDR_CLASS_DOCUMENTATION },
		{ "3fff:fff:ffff::1", ADDR_CLASS_DOCUMENTATION },
		{ "3fff:1000::", ADDR_CLASS_RESERVED },
		{ "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ADDR_CLASS_RESERVED },
	};

	check_rows(rows, ARRAY_LEN(rows));
}

Test(addr_class, metadata_services_stand_out_of_their_blocks_and_out_of_public_space)
{
	static const struct row rows[] = {
		{ "168.63.129.16", ADDR_CLASS_METADATA },
		{ "169.254.169.254", ADDR_CLASS_METADATA },
		{ "169.254.169.253", ADDR_CLASS_METADATA },
		{ "169.254.169.123", ADDR_CLASS_METADATA },
		{ "169.254.169.252", ADDR_CLASS_LINK_LOCAL },
		{ "169.254.169.255", ADDR_CLASS_LINK_LOCAL },
		{ "169.254.170.2", ADDR_CLASS_METADATA },
		{ "169.254.170.23", ADDR_CLASS_METADATA },
		{ "169.254.42.42", ADDR_CLASS_METADATA },
		{ "169.254.0.23", ADDR_CLASS_METADATA },
		{ "100.100.100.200", ADDR_CLASS_METADATA },
		{ "100.100.100.199", ADDR_CLASS_SHARED },
		{ "100.100.2.136", ADDR_CLASS_METADATA },
		{ "100.100.2.138", ADDR_CLASS_METADATA },
		{ "192.0.0.192", ADDR_CLASS_METADATA },
		{ "fd00:ec2::254", ADDR_CLASS_METADATA },
		{ "fd00:ec2::253", ADDR_CLASS_METADATA },
		{ "fd00:ec2::123", ADDR_CLASS_METADATA },
		{ "fd00:ec2::23", ADDR_CLASS_METADATA },
		{ "fd00:ec2::255", ADDR_CLASS_UNIQUE_LOCAL },
		{ "fd00:42::42", ADDR_CLASS_METADATA },
		{ "fd20:ce::254", ADDR_CLASS_METADATA },
		{ "fd00:c1::a9fe:a9fe", ADDR_CLASS_METADATA },
		{ "fe80::a9fe:a9fe", ADDR_CLASS_METADATA },
	};

	check_rows(rows, ARRAY_LEN(rows));
}

Test(addr_class, embedded_ipv4_is_refused_in_every_form_and_named)
{
	static const struct {
		const char *text, *inner;
		enum addr_class class;
	} rows[] = {
		{ "::ffff:9.9.9.9", "9.9.9.9", ADDR_CLASS_EMBEDDED },
		{ "::ffff:10.0.0.5", "10.0.0.5", ADDR_CLASS_EMBEDDED },
		{ "::ffff:127.0.0.1", "127.0.0.1", ADDR_CLASS_LOOPBACK },
		{ "::ffff:0.0.0.0", "0.0.0.0", ADDR_CLASS_UNSPECIFIED },
		{ "::ffff:169.254.169.254", "169.254.169.254", ADDR_CLASS_METADATA },
		{ "::ffff:168.63.129.16", "168.63.129.16", ADDR_CLASS_METADATA },
		{ "::7f00:1", "127.0.0.1", ADDR_CLASS_LOOPBACK },
		{ "::a9fe:a9fe", "169.254.169.254", ADDR_CLASS_METADATA },
		{ "::909:909", "9.9.9.9", ADDR_CLASS_EMBEDDED },
		{ "::2", "0.0.0.2", ADDR_CLASS_EMBEDDED },
		{ "::ffff:ffff", "255.255.255.255", ADDR_CLASS_EMBEDDED },
		{ "::ffff:0:9.9.9.9", "9.9.9.9", ADDR_CLASS_EMBEDDED },
		{ "::ffff:0:169.254.169.254", "169.254.169.254", ADDR_CLASS_METADATA },
		{ "64:ff9b::909:909", "9.9.9.9", ADDR_CLASS_NAT64 },
		{ "64:ff9b::a00:1", "10.0.0.1", ADDR_CLASS_NAT64 },
		{ "64:ff9b::c000:c0", "192.0.0.192", ADDR_CLASS_METADATA },
		{ "64:ff9b::7f00:1", "127.0.0.1", ADDR_CLASS_LOOPBACK },
		{ "2002:909:909::1", "9.9.9.9", ADDR_CLASS_EMBEDDED },
		{ "2002:a9fe:a9fe::1", "169.254.169.254", ADDR_CLASS_METADATA },
		{ "2002:c0a8:1::", "192.168.0.1", ADDR_CLASS_EMBEDDED },
		{ "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "255.255.255.255",
		  ADDR_CLASS_EMBEDDED },
		/* Teredo inverts the client's octets: 9.9.9.9 and 169.254.169.254. */
		{ "2001::f6f6:f6f6", "9.9.9.9", ADDR_CLASS_EMBEDDED },
		{ "2001:0:4136:e378:8000:63bf:5601:5601", "169.254.169.254", ADDR_CLASS_METADATA },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct addr_finding f = finding_in(rows[i].text);
		struct addr inner = addr_in(rows[i].inner);

		cr_expect_eq(f.class, rows[i].class, "%s: %s", rows[i].text,
			     addr_class_word(f.class));
		cr_expect(f.has_inner && addr_equal(&f.inner, &inner), "%s", rows[i].text);
		cr_expect_not(f.by_declared_nat64);
		cr_expect_not(addr_class_may_reopen(f.class), "%s", rows[i].text);
	}
}

Test(addr_class, isatap_is_judged_by_the_address_it_carries)
{
	static const struct row rows[] = {
		{ "2a00:1::5efe:9.9.9.9", ADDR_CLASS_PUBLIC },
		{ "2a00:1::200:5efe:9.9.9.9", ADDR_CLASS_PUBLIC },
		{ "2a00:1::5efe:10.0.0.1", ADDR_CLASS_EMBEDDED },
		{ "2a00:1::200:5efe:10.0.0.1", ADDR_CLASS_EMBEDDED },
		{ "2a00:1::200:5efe:169.254.169.254", ADDR_CLASS_METADATA },
		{ "2a00:1::5efe:127.0.0.1", ADDR_CLASS_LOOPBACK },
		{ "2a00:1::5efe:224.0.0.1", ADDR_CLASS_EMBEDDED },
		/* Other interface identifiers that look alike carry nothing. */
		{ "2a00:1::100:5efe:10.0.0.1", ADDR_CLASS_PUBLIC },
		{ "2a00:1::1:5efe:10.0.0.1", ADDR_CLASS_PUBLIC },
		{ "2a00:1::5eff:10.0.0.1", ADDR_CLASS_PUBLIC },
		{ "2a00:1::5ffe:10.0.0.1", ADDR_CLASS_PUBLIC },
		{ "2001:db8::5efe:9.9.9.9", ADDR_CLASS_DOCUMENTATION },
		{ "fd00::5efe:9.9.9.9", ADDR_CLASS_UNIQUE_LOCAL },
		/* An exception for the range around it must not re-open what it carries. */
		{ "fd00::5efe:10.0.0.1", ADDR_CLASS_EMBEDDED },
		{ "fd00::200:5efe:169.254.169.254", ADDR_CLASS_METADATA },
		{ "fe80::5efe:127.0.0.1", ADDR_CLASS_LOOPBACK },
		{ "2002:909:909::5efe:10.0.0.1", ADDR_CLASS_EMBEDDED },
		{ "64:ff9b:1::5efe:10.0.0.1", ADDR_CLASS_NAT64 },
	};

	check_rows(rows, ARRAY_LEN(rows));
}

static struct addr_finding classify_behind(const char *prefix, const char *text)
{
	struct addr_nat64 nat64 = { prefix_in(prefix) };
	struct addr_site site = { .nat64 = &nat64, .nat64_count = 1 };
	struct addr a = addr_in(text);
	struct addr_finding f;

	addr_classify(&a, &site, &f);
	return f;
}

Test(addr_class, declared_nat64_is_judged_by_the_inner_address_in_all_six_layouts)
{
	static const struct {
		const char *prefix, *text, *inner;
		enum addr_class class;
	} rows[] = {
		{ "64:ff9b::/96", "64:ff9b::909:909", "9.9.9.9", ADDR_CLASS_PUBLIC },
		{ "64:ff9b::/96", "64:ff9b::a00:1", "10.0.0.1", ADDR_CLASS_PRIVATE },
		{ "64:ff9b::/96", "64:ff9b::a9fe:a9fe", "169.254.169.254", ADDR_CLASS_METADATA },
		{ "64:ff9b::/96", "64:ff9b::c633:6401", "198.51.100.1", ADDR_CLASS_DOCUMENTATION },
		{ "64:ff9b::/96", "64:ff9b::e000:1", "224.0.0.1", ADDR_CLASS_MULTICAST },
		{ "64:ff9b::/96", "64:ff9b::f000:1", "240.0.0.1", ADDR_CLASS_RESERVED },
		{ "64:ff9b:1:fffe::/96", "64:ff9b:1:fffe::909:909", "9.9.9.9", ADDR_CLASS_PUBLIC },
		{ "2001:db8::/32", "2001:db8:909:909::", "9.9.9.9", ADDR_CLASS_PUBLIC },
		{ "2001:db8::/32", "2001:db8:a00:1::", "10.0.0.1", ADDR_CLASS_PRIVATE },
		{ "2001:db8:100::/40", "2001:db8:109:909:9::", "9.9.9.9", ADDR_CLASS_PUBLIC },
		{ "2001:db8:100::/40", "2001:db8:1c0:2:21::", "192.0.2.33",
		  ADDR_CLASS_DOCUMENTATION },
		{ "2001:db8:122::/48", "2001:db8:122:909:9:900::", "9.9.9.9", ADDR_CLASS_PUBLIC },
		{ "2001:db8:122::/48", "2001:db8:122:c000:2:2100::", "192.0.2.33",
		  ADDR_CLASS_DOCUMENTATION },
		{ "2001:db8:122:300::/56", "2001:db8:122:309:9:909::", "9.9.9.9",
		  ADDR_CLASS_PUBLIC },
		{ "2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::", "192.0.2.33",
		  ADDR_CLASS_DOCUMENTATION },
		{ "2001:db8:122:344::/64", "2001:db8:122:344:9:909:900::", "9.9.9.9",
		  ADDR_CLASS_PUBLIC },
		{ "2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::", "192.0.2.33",
		  ADDR_CLASS_DOCUMENTATION },
		{ "2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33", "192.0.2.33",
		  ADDR_CLASS_DOCUMENTATION },
		{ "2001:db8:64::/96", "2001:db8:64::a00:1", "10.0.0.1", ADDR_CLASS_PRIVATE },
		{ "fd00:64::/96", "fd00:64::909:909", "9.9.9.9", ADDR_CLASS_PUBLIC },
		{ "2a00:64::/96", "2a00:64::7f00:1", "127.0.0.1", ADDR_CLASS_LOOPBACK },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct addr_finding f = classify_behind(rows[i].prefix, rows[i].text);
		struct addr inner = addr_in(rows[i].inner);

		cr_expect_eq(f.class, rows[i].class, "%s: %s", rows[i].text,
			     addr_class_word(f.class));
		cr_expect(f.by_declared_nat64, "%s", rows[i].text);
		cr_expect(f.has_inner && addr_equal(&f.inner, &inner), "%s", rows[i].text);
	}
}

Test(addr_class, declared_nat64_with_stray_bits_or_an_odd_length_is_refused_for_good)
{
	static const struct {
		const char *prefix, *text;
	} rows[] = {
		{ "2001:db8::/32", "2001:db8:909:909:100::" }, /* octet 8 */
		{ "2001:db8::/32", "2001:db8:909:909::1" },    /* last bit */
		{ "2001:db8:100::/40", "2001:db8:109:909:109::" },
		{ "2001:db8:100::/40", "2001:db8:109:909:9:1::" },
		{ "2001:db8:122::/48", "2001:db8:122:909:109:900::" },
		{ "2001:db8:122::/48", "2001:db8:122:909:9:901::" },
		{ "2001:db8:122:300::/56", "2001:db8:122:309:109:909::" },
		{ "2001:db8:122:300::/56", "2001:db8:122:309:9:909:1::" },
		{ "2001:db8:122:344::/64", "2001:db8:122:344:109:909:900::" },
		{ "2001:db8:122:344::/64", "2001:db8:122:344:9:909:901::" },
		{ "2001:db8:122:344:100::/96", "2001:db8:122:344:100::9.9.9.9" },
		/* Lengths that have no layout, and addresses that would be 9.9.9.9 if they had. */
		{ "2a00:64::/44", "2a00:64:9:909:9::" },
		{ "2a00:64::/72", "2a00:64::9:909:900:0" },
		{ "2a00::/24", "2a00:9:909:900::" },
		{ "2a00:64::/88", "2a00:64::9:909:900" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct addr_finding f = classify_behind(rows[i].prefix, rows[i].text);

		cr_expect_eq(f.class, ADDR_CLASS_INVALID, "%s: %s", rows[i].text,
			     addr_class_word(f.class));
		cr_expect_not(addr_class_may_reopen(f.class));
	}
}

Test(addr_class, a_declared_prefix_opens_neither_metadata_nor_own_addresses_inside_it)
{
	struct prefix own = prefix_in("2a00:64::909:909");
	struct addr_nat64 nat64[] = { { prefix_in("fd00:ec2::/96") },
				      { prefix_in("2a00:64::/96") } };
	struct addr_site site = { .own = own_addresses_create(&own, 1),
				  .nat64 = nat64,
				  .nat64_count = 2 };
	struct addr a = addr_in("fd00:ec2::254");
	struct addr_finding f;

	addr_classify(&a, &site, &f);
	cr_expect_eq(f.class, ADDR_CLASS_METADATA);
	a = own.addr;
	addr_classify(&a, &site, &f);
	cr_expect_eq(f.class, ADDR_CLASS_OWN);
	cr_expect_not(f.by_declared_nat64);
	a = addr_in("2a00:64::909:908");
	addr_classify(&a, &site, &f);
	cr_expect_eq(f.class, ADDR_CLASS_PUBLIC);
	own_addresses_unref((struct own_addresses *)site.own);
}

Test(addr_class, nat64_recursion_goes_one_level_and_the_longest_prefix_decides)
{
	struct addr_nat64 nat64[] = { { prefix_in("2a00:64::/32") },
				      { prefix_in("2a00:64::/96") } };
	struct addr_site site = { .nat64 = nat64, .nat64_count = 2 };
	struct addr a = addr_in("2a00:64::909:909");
	struct addr_finding f;

	/* By the /32 layout its trailing bits would be stray. */
	addr_classify(&a, &site, &f);
	cr_expect_eq(f.class, ADDR_CLASS_PUBLIC);
	a = addr_in("2a00:65::909:909");
	addr_classify(&a, &site, &f);
	cr_expect_not(f.by_declared_nat64);
	/* Declaring a site's own prefix does not switch the well-known one on. */
	a = addr_in("64:ff9b::909:909");
	addr_classify(&a, &site, &f);
	cr_expect_eq(f.class, ADDR_CLASS_NAT64);
}

Test(addr_class, own_addresses_come_first_and_also_inside_other_forms)
{
	static const struct row rows[] = {
		{ "9.9.9.9", ADDR_CLASS_OWN },
		{ "9.9.9.8", ADDR_CLASS_PUBLIC },
		{ "10.1.2.3", ADDR_CLASS_OWN },
		{ "10.2.0.0", ADDR_CLASS_PRIVATE },
		{ "::ffff:9.9.9.9", ADDR_CLASS_OWN },
		{ "64:ff9b::909:909", ADDR_CLASS_OWN },
		{ "64:ff9b::909:908", ADDR_CLASS_PUBLIC },
		{ "2002:909:909::", ADDR_CLASS_OWN },
		{ "2001::f6f6:f6f6", ADDR_CLASS_OWN },
		{ "2a00:1::5efe:9.9.9.9", ADDR_CLASS_OWN },
		{ "2a00:2::5", ADDR_CLASS_OWN },
		{ "169.254.169.254", ADDR_CLASS_METADATA },
		/* An interface list holds these; they keep their better name. */
		{ "127.0.0.1", ADDR_CLASS_LOOPBACK },
		{ "::1", ADDR_CLASS_LOOPBACK },
		{ "::ffff:127.0.0.1", ADDR_CLASS_LOOPBACK },
	};
	struct prefix own[] = { prefix_in("9.9.9.9"), prefix_in("10.1.0.0/16"),
				prefix_in("2a00:2::/64"), prefix_in("127.0.0.1"),
				prefix_in("::1") };
	struct addr_nat64 nat64 = { prefix_in("64:ff9b::/96") };
	struct addr_site site = { .own = own_addresses_create(own, ARRAY_LEN(own)),
				  .nat64 = &nat64,
				  .nat64_count = 1 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct addr a = addr_in(rows[i].text);
		struct addr_finding f;

		addr_classify(&a, &site, &f);
		cr_expect_eq(f.class, rows[i].class, "%s: %s", rows[i].text,
			     addr_class_word(f.class));
	}
	own_addresses_unref((struct own_addresses *)site.own);
}

Test(addr_class, anything_but_two_families_is_invalid)
{
	for (unsigned family = 0; family < 256; family++) {
		struct addr a = { .family = (uint8_t)family, .octets = { 9, 9, 9, 9 } };
		struct addr_finding f;

		addr_classify(&a, NULL, &f);
		if (family != ADDR_V4 && family != ADDR_V6)
			cr_expect_eq(f.class, ADDR_CLASS_INVALID);
		else
			cr_expect_neq(f.class, ADDR_CLASS_INVALID);
	}
}

Test(addr_class, nothing_of_the_floor_and_no_embedded_form_can_be_reopened)
{
	static const enum addr_class never[] = { ADDR_CLASS_PUBLIC,   ADDR_CLASS_INVALID,
						 ADDR_CLASS_OWN,      ADDR_CLASS_METADATA,
						 ADDR_CLASS_LOOPBACK, ADDR_CLASS_UNSPECIFIED,
						 ADDR_CLASS_EMBEDDED, ADDR_CLASS_NAT64 };
	static const enum addr_class may[] = { ADDR_CLASS_PRIVATE, ADDR_CLASS_SHARED,
					       ADDR_CLASS_LINK_LOCAL, ADDR_CLASS_UNIQUE_LOCAL };

	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		cr_expect_not(addr_class_may_reopen(never[i]), "%s", addr_class_word(never[i]));
	for (size_t i = 0; i < ARRAY_LEN(may); i++)
		cr_expect(addr_class_may_reopen(may[i]), "%s", addr_class_word(may[i]));
	cr_expect_not(addr_class_may_reopen(ADDR_CLASS_COUNT));
	cr_expect_str_eq(addr_class_word((enum addr_class)999), "invalid");
}

static struct addr edge(const struct prefix *p, bool last)
{
	struct addr a = p->addr;

	for (size_t bit = p->len; last && bit < addr_len(&a) * 8; bit++)
		a.octets[bit / 8] |= (uint8_t)(0x80 >> (bit % 8));
	return a;
}

/* The next address up or down; false at the end of the space. */
static bool step(struct addr *a, int by)
{
	for (size_t i = addr_len(a); i-- > 0;) {
		unsigned v = a->octets[i] + (unsigned)by;

		a->octets[i] = (uint8_t)v;
		if (v <= 0xff)
			return true;
	}
	return false;
}

static const struct addr_range *walk(const struct addr *a)
{
	const struct addr_range *best = NULL;
	size_t count;
	const struct addr_range *table = addr_class_table(&count);

	for (size_t i = 0; i < count; i++) {
		if (prefix_contains(&table[i].prefix, a) &&
		    (best == NULL || table[i].prefix.len > best->prefix.len))
			best = &table[i];
	}
	return best;
}

Test(addr_class, first_last_and_both_neighbours_of_every_row_are_what_a_walk_of_the_table_says)
{
	size_t count;
	const struct addr_range *table = addr_class_table(&count);

	cr_assert_gt(count, 90);
	cr_assert_str_eq(addr_class_revision(), "2025-10-09");
	for (size_t i = 0; i < count; i++) {
		for (unsigned at = 0; at < 4; at++) {
			struct addr a = edge(&table[i].prefix, at >= 2);
			const struct addr_range *expected;
			struct addr_finding f;

			if ((at == 1 && !step(&a, -1)) || (at == 3 && !step(&a, 1)))
				continue;
			addr_classify(&a, NULL, &f);
			expected = walk(&a);
			/* The inner address may give the class of an embedded form. */
			if (f.has_inner)
				continue;
			cr_expect_eq(f.class,
				     expected == NULL ? ADDR_CLASS_PUBLIC : expected->class);
			cr_expect_str_eq(f.range, expected == NULL ? "" : expected->name);
		}
		if (i > 0 && table[i].prefix.addr.family == table[i - 1].prefix.addr.family)
			cr_expect_leq(table[i].prefix.len, table[i - 1].prefix.len);
	}
}
