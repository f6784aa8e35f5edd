/*
 * The order of the address check: own, floor (loopback, unspecified, metadata), table, embedded
 * forms. The table is made by the build; this file knows no range by heart but 2000::/3, so that a
 * hole in the table cannot open the rest. Called by judge for every literal and every answer, and
 * by the connector's check of the peer.
 */
#include "facts/addr_class.h"

#include <string.h>

#include "base/attr.h"
#include "facts/own_addresses.h"

struct class_row {
	const char *word;
	bool may_reopen;
};

#define CLASS_AS_ROW(sym, class_word, reopen) [ADDR_CLASS_##sym] = { class_word, reopen },
static const struct class_row classes[] = { ADDR_CLASSES(CLASS_AS_ROW) };

#define SPECIAL_RANGE(version, bits, sym, text, source, ...)                                       \
	{ .prefix = { { ADDR_##version, { __VA_ARGS__ } }, bits },                                 \
	  .class = ADDR_CLASS_##sym,                                                               \
	  .name = text,                                                                            \
	  .reference = source },
static const struct addr_range ranges[] = {
#include "facts/special_ranges.def"
};
#undef SPECIAL_RANGE

/* Where a range keeps its IPv4 address. */
struct form {
	uint8_t range, at;
	bool inverted;
};
#define SPECIAL_FORM(row, first_octet, is_inverted, text) { row, first_octet, is_inverted },
static const struct form forms[] = {
#include "facts/special_ranges.def"
};
#undef SPECIAL_FORM

/* The rows that can hold an address are found by its first octet: a part of the candidates, most
 * specific first. */
struct bucket {
	uint8_t start, count;
};
#define SPECIAL_BUCKET_V4(octet, first, len) [octet] = { first, len },
static const struct bucket buckets_v4[256] = {
#include "facts/special_ranges.def"
};
#undef SPECIAL_BUCKET_V4
#define SPECIAL_BUCKET_V6(octet, first, len) [octet] = { first, len },
static const struct bucket buckets_v6[256] = {
#include "facts/special_ranges.def"
};
#undef SPECIAL_BUCKET_V6
#define SPECIAL_CANDIDATE_V4(row) row,
static const uint8_t candidates_v4[] = {
#include "facts/special_ranges.def"
};
#undef SPECIAL_CANDIDATE_V4
#define SPECIAL_CANDIDATE_V6(row) row,
static const uint8_t candidates_v6[] = {
#include "facts/special_ranges.def"
};
#undef SPECIAL_CANDIDATE_V6

static const struct addr_range range_invalid = { .class = ADDR_CLASS_INVALID,
						 .name = "not an address",
						 .reference = "" };
static const struct addr_range range_own = { .class = ADDR_CLASS_OWN,
					     .name = "own address or network",
					     .reference = "this host" };
static const struct addr_range range_outside = { .class = ADDR_CLASS_RESERVED,
						 .name = "outside global unicast",
						 .reference = "RFC 4291" };
static const struct addr_range range_isatap = { .class = ADDR_CLASS_EMBEDDED,
						.name = "ISATAP",
						.reference = "RFC 5214" };
static const struct addr_range range_nat64_bad = {
	.class = ADDR_CLASS_INVALID,
	.name = "declared NAT64 prefix with bits that RFC 6052 wants zero",
	.reference = "RFC 6052"
};

const char *addr_class_word(enum addr_class c)
{
	return (unsigned)c < ADDR_CLASS_COUNT ? classes[c].word : classes[ADDR_CLASS_INVALID].word;
}

bool addr_class_may_reopen(enum addr_class c)
{
	return (unsigned)c < ADDR_CLASS_COUNT && classes[c].may_reopen;
}

const struct addr_range *addr_class_table(size_t *out_count)
{
	*out_count = ARRAY_LEN(ranges);
	return ranges;
}

const char *addr_class_revision(void)
{
#define SPECIAL_REVISION(text) return text;
#include "facts/special_ranges.def"
#undef SPECIAL_REVISION
}

static struct addr_finding finding_of(const struct addr_range *range)
{
	return (struct addr_finding){ .class = range->class,
				      .range = range->name,
				      .reference = range->reference };
}

static const struct addr_range *find_range(const struct addr *a)
{
	bool v4 = a->family == ADDR_V4;
	struct bucket bucket = v4 ? buckets_v4[a->octets[0]] : buckets_v6[a->octets[0]];
	const uint8_t *candidate = (v4 ? candidates_v4 : candidates_v6) + bucket.start;

	for (size_t i = 0; i < bucket.count; i++) {
		const struct addr_range *range = &ranges[candidate[i]];

		if (prefix_contains(&range->prefix, a))
			return range;
	}
	if (!v4 && (a->octets[0] & 0xe0) != 0x20)
		return &range_outside;
	return NULL;
}

/* Steps 2 to 5 of the check, without what may be embedded. `*out_range` is NULL for public and own
 * addresses. */
static struct addr_finding classify_plain(const struct addr *a, const struct addr_site *site,
					  const struct addr_range **out_range)
{
	const struct addr_range *range = find_range(a);

	*out_range = range;
	/* An interface list holds 127.0.0.1 and ::1 too; loopback says more than "own", and nothing
	 * re-opens either. */
	if (range != NULL &&
	    (range->class == ADDR_CLASS_LOOPBACK || range->class == ADDR_CLASS_UNSPECIFIED))
		return finding_of(range);
	if (own_addresses_contain(site->own, a)) {
		*out_range = NULL;
		return finding_of(&range_own);
	}
	if (range != NULL)
		return finding_of(range);
	return (struct addr_finding){ .class = ADDR_CLASS_PUBLIC, .range = "", .reference = "" };
}

/* Is it of a class that no form around it may hide and nothing may re-open? */
static bool is_floor(enum addr_class c)
{
	return c == ADDR_CLASS_OWN || c == ADDR_CLASS_METADATA || c == ADDR_CLASS_LOOPBACK ||
	       c == ADDR_CLASS_UNSPECIFIED;
}

static struct addr_finding classify_v4(const uint8_t octets[4], const struct addr_site *site)
{
	struct addr inner = addr_v4(octets);
	const struct addr_range *range;
	struct addr_finding finding = classify_plain(&inner, site, &range);

	finding.has_inner = true;
	finding.inner = inner;
	return finding;
}

/* RFC 6052 section 2.2: the four octets follow the prefix, stepping over octet 8, which is zero
 * like all that follows. */
static bool extract_nat64(const struct addr *a, uint8_t prefix_len, uint8_t out_octets[4])
{
	size_t at = prefix_len / 8;

	if (prefix_len != 96 && (prefix_len < 32 || prefix_len > 64 || prefix_len % 8 != 0))
		return false;
	if (a->octets[8] != 0)
		return false;
	for (size_t i = 0; i < 4; i++) {
		if (at == 8)
			at++;
		out_octets[i] = a->octets[at++];
	}
	for (; at < 16; at++) {
		if (a->octets[at] != 0)
			return false;
	}
	return true;
}

static const struct addr_nat64 *find_nat64(const struct addr *a, const struct addr_site *site)
{
	const struct addr_nat64 *longest = NULL;

	for (size_t i = 0; i < site->nat64_count; i++) {
		const struct addr_nat64 *nat64 = &site->nat64[i];

		if (prefix_contains(&nat64->prefix, a) &&
		    (longest == NULL || nat64->prefix.len > longest->prefix.len))
			longest = nat64;
	}
	return longest;
}

static struct addr_finding classify_nat64(const struct addr *a, const struct addr_nat64 *nat64,
					  const struct addr_site *site)
{
	uint8_t octets[4];
	struct addr_finding finding;

	if (!extract_nat64(a, nat64->prefix.len, octets))
		return finding_of(&range_nat64_bad);
	finding = classify_v4(octets, site);
	finding.by_declared_nat64 = true;
	return finding;
}

static bool extract_form(const struct addr *a, const struct addr_range *range,
			 uint8_t out_octets[4])
{
	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		if (&ranges[forms[i].range] != range)
			continue;
		for (size_t octet = 0; octet < 4; octet++)
			out_octets[octet] =
				a->octets[forms[i].at + octet] ^ (forms[i].inverted ? 0xff : 0);
		return true;
	}
	return false;
}

/* RFC 5214 section 6.1: the interface identifier is 00-00-5e-fe or 02-00-5e-fe and then the IPv4
 * address. */
static bool is_isatap(const struct addr *a)
{
	return (a->octets[8] & 0xfd) == 0 && a->octets[9] == 0 && a->octets[10] == 0x5e &&
	       a->octets[11] == 0xfe;
}

static struct addr_finding classify_v6(const struct addr *a, const struct addr_site *site)
{
	const struct addr_range *range;
	struct addr_finding finding = classify_plain(a, site, &range);
	const struct addr_nat64 *nat64;
	struct addr_finding inner;
	uint8_t octets[4];

	if (is_floor(finding.class))
		return finding;
	nat64 = find_nat64(a, site);
	if (nat64 != NULL)
		return classify_nat64(a, nat64, site);
	if (range != NULL && extract_form(a, range, octets)) {
		inner = classify_v4(octets, site);
		finding.has_inner = true;
		finding.inner = inner.inner;
		return is_floor(inner.class) ? inner : finding;
	}
	/* Also in a range that an exception may re-open: it would re-open what the identifier
	 * carries. */
	if ((range == NULL || addr_class_may_reopen(range->class)) && is_isatap(a)) {
		inner = classify_v4(a->octets + 12, site);
		if (inner.class == ADDR_CLASS_PUBLIC)
			return finding;
		finding = finding_of(&range_isatap);
		finding.has_inner = true;
		finding.inner = inner.inner;
		return is_floor(inner.class) ? inner : finding;
	}
	return finding;
}

void addr_classify(const struct addr *a, const struct addr_site *site,
		   struct addr_finding *out_finding)
{
	static const struct addr_site nothing_known;
	const struct addr_range *range;

	if (site == NULL)
		site = &nothing_known;
	if (a->family == ADDR_V4)
		*out_finding = classify_plain(a, site, &range);
	else if (a->family == ADDR_V6)
		*out_finding = classify_v6(a, site);
	else
		*out_finding = finding_of(&range_invalid);
}
