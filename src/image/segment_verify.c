/*
 * Every bound, enumerator, text and cross-reference of a segment, once. What passes needs no further check: an index that lost a rule would
 * fail open, so it is also proved that every rule can be found where the reader looks for it. Refuses to repair.
 */
#include "image/segment_internal.h"

#include <string.h>

#include "base/dname.h"
#include "decision/record.h"
#include "decision/verdict.h"

#define RULE_TABLES                                                                               \
	(BIT(LAYOUT_STRINGS) | BIT(LAYOUT_RULES) | BIT(LAYOUT_PORTS) | BIT(LAYOUT_PLACES) |       \
	 BIT(LAYOUT_LABEL_SLOTS) | BIT(LAYOUT_LABEL_ENTRIES) | BIT(LAYOUT_PREFIX_GROUPS) |        \
	 BIT(LAYOUT_PREFIXES) | BIT(LAYOUT_RULE_REFS))

/* The tables each kind may fill. */
static const unsigned kind_tables[] = {
	[LAYOUT_RULESET] = RULE_TABLES,
	[LAYOUT_LEASE] = RULE_TABLES | BIT(LAYOUT_LEASES) | BIT(LAYOUT_SOURCES) |
			 BIT(LAYOUT_TOKENS) | BIT(LAYOUT_RULESETS),
	[LAYOUT_CEILING] = RULE_TABLES | BIT(LAYOUT_ANY_REFS) | BIT(LAYOUT_EXCEPTIONS),
	[LAYOUT_ROOT] = BIT(LAYOUT_STRINGS) | BIT(LAYOUT_ROOT_LEASES) | BIT(LAYOUT_ROOT_INFO),
};

static const char *verify_tables(const struct segment *s)
{
	const struct layout_header *h = segment_header(s);
	uint64_t end = sizeof(*h);

	if (h->magic != LAYOUT_MAGIC || h->abi != LAYOUT_ABI)
		return "it is no segment of this format";
	if (h->size != s->size || h->reserved != 0)
		return "the header lies about the size";
	if (h->kind < LAYOUT_RULESET || h->kind > LAYOUT_ROOT)
		return "the kind is unknown";
	for (unsigned t = 0; t < LAYOUT_TABLE_COUNT; t++) {
		const struct layout_span *span = &h->table[t];
		uint64_t len = (uint64_t)span->count * layout_record_size(t);

		if (span->count == 0) {
			if (span->offset != 0)
				return "an empty table has a place";
			continue;
		}
		if ((kind_tables[h->kind] & BIT(t)) == 0)
			return "a table does not belong to this kind";
		if (span->offset % 8 != 0 || span->offset < end || len > s->size ||
		    span->offset > s->size - len)
			return "a table lies outside, or over another";
		end = span->offset + len;
	}
	return NULL;
}

/* Is `t` a text of the strings table, at most `max` bytes, without a zero byte inside? */
static bool text_holds(const struct segment *s, struct layout_text t, size_t max)
{
	uint32_t count;
	const char *strings = segment_table(s, LAYOUT_STRINGS, &count);

	if (t.len == 0)
		return t.offset == 0;
	return t.len <= max && t.offset < count && t.len < count - t.offset &&
	       strings[t.offset + t.len] == '\0' &&
	       memchr(strings + t.offset, '\0', t.len) == NULL;
}

/* Also printable ASCII without a blank, and without `/`, which ends a lease id in a user name. */
static bool word_holds(const struct segment *s, struct layout_text t, size_t max)
{
	struct text word;

	if (t.len == 0 || !text_holds(s, t, max))
		return false;
	word = segment_text(s, t);
	for (size_t i = 0; i < word.len; i++) {
		if (word.at[i] <= ' ' || word.at[i] > '~' || word.at[i] == '/')
			return false;
	}
	return true;
}

static bool name_holds(const struct segment *s, struct layout_text t)
{
	struct dname name;

	if (!text_holds(s, t, DNAME_MAX))
		return false;
	return dname_parse(segment_text(s, t), DNAME_FINAL_DOT_REFUSE, &name) == DNAME_OK &&
	       text_equal(text_of(name.text), segment_text(s, t));
}

static bool span_holds(const struct segment *s, struct layout_span span, enum layout_table table)
{
	uint32_t count = segment_header(s)->table[table].count;

	return span.count == 0 ? span.offset == 0 :
				 span.offset < count && span.count <= count - span.offset;
}

static bool all_zero(const void *bytes, size_t len)
{
	const uint8_t *at = bytes;
	uint8_t any = 0;

	for (size_t i = 0; i < len; i++)
		any |= at[i];
	return any == 0;
}

/* A family, a length, and no bit set beyond it. */
static bool prefix_holds(uint8_t family, uint8_t len, const uint8_t octets[16])
{
	struct prefix whole = { .addr = { .family = family }, .len = len };
	uint8_t part;

	if ((family != ADDR_V4 && family != ADDR_V6) || len > addr_len(&whole.addr) * 8)
		return false;
	part = (uint8_t)(len % 8 == 0 ? 0 : 0xff >> (len % 8));
	if (len % 8 != 0 && (octets[len / 8] & part) != 0)
		return false;
	return all_zero(octets + (len + 7) / 8, 16u - (len + 7u) / 8u);
}

static bool ports_hold(const struct segment *s, struct layout_span span)
{
	uint32_t count, before = 0;
	const struct layout_ports *ports = segment_table(s, LAYOUT_PORTS, &count);

	if (!span_holds(s, span, LAYOUT_PORTS) || span.count > RULE_PORTS_MAX)
		return false;
	for (uint32_t i = 0; i < span.count; i++) {
		const struct layout_ports *p = &ports[span.offset + i];

		if (p->first <= before || p->first > p->last)
			return false;
		before = p->last;
	}
	return true;
}

static bool is_country_letter(uint8_t c)
{
	return c >= 'A' && c <= 'Z';
}

static const char *verify_places(const struct segment *s)
{
	uint32_t count;
	const struct layout_place *places = segment_table(s, LAYOUT_PLACES, &count);

	for (uint32_t i = 0; i < count; i++) {
		bool country = is_country_letter(places[i].country[0]) &&
			       is_country_letter(places[i].country[1]) && places[i].asn == 0;
		bool asn = all_zero(places[i].country, 2) && places[i].asn != 0;

		if ((!country && !asn) || places[i].reserved != 0)
			return "a place is neither a country nor an AS number";
	}
	return NULL;
}

static bool host_holds(const struct segment *s, const struct layout_rule *r)
{
	bool addressless = r->family == 0 && r->prefix_len == 0 && all_zero(r->octets, 16);

	switch (r->host) {
	case RULE_HOST_NAME:
	case RULE_HOST_WILDCARD:
		return addressless && name_holds(s, r->name);
	case RULE_HOST_PREFIX:
		return r->name.len == 0 && r->name.offset == 0 &&
		       prefix_holds(r->family, r->prefix_len, r->octets);
	case RULE_HOST_ANY:
		return addressless && r->name.len == 0 && r->name.offset == 0;
	default:
		return false;
	}
}

static const char *verify_rule(const struct segment *s, const struct layout_rule *r)
{
	const unsigned known = LAYOUT_RULE_DENY | LAYOUT_RULE_REPORT | LAYOUT_RULE_ECH_REFUSE |
			       LAYOUT_RULE_SCHEME_KNOWN;
	bool deny = (r->flags & LAYOUT_RULE_DENY) != 0;
	bool typed = (r->flags & LAYOUT_RULE_SCHEME_KNOWN) != 0;

	if (!text_holds(s, r->id, RULE_ID_MAX) || !text_holds(s, r->note, LAYOUT_SEGMENT_MAX) ||
	    !text_holds(s, r->origin, LAYOUT_SEGMENT_MAX))
		return "a rule's text does not hold";
	if ((r->flags & ~known) != 0 || r->reserved != 0 || r->pin > RULE_PIN_LEASE)
		return "a rule has an unknown flag";
	if (!host_holds(s, r))
		return "a rule's host does not hold";
	if (!ports_hold(s, r->ports) || !span_holds(s, r->places, LAYOUT_PLACES))
		return "a rule's ports or places do not hold";
	/* An allow that names neither scheme nor ports would open everything: only `allow any` may. */
	if (typed == (deny || r->host == RULE_HOST_ANY) || (deny && r->host == RULE_HOST_ANY))
		return "a rule has a scheme it may not have, or none";
	if (typed ? r->scheme >= SCHEME_COUNT || r->ports.count == 0 : r->scheme != 0)
		return "a rule's scheme does not hold";
	if (typed && r->host == RULE_HOST_PREFIX &&
	    !scheme_row((enum scheme)r->scheme)->takes_addresses)
		return "a rule's scheme takes no addresses";
	return NULL;
}

/* Do the references of one use ascend and name rules? Adds them to *found. */
static bool refs_hold(const struct segment *s, struct layout_span span, uint64_t *found)
{
	uint32_t ref_count, rule_count;
	const uint32_t *refs = segment_table(s, LAYOUT_RULE_REFS, &ref_count);

	(void)segment_table(s, LAYOUT_RULES, &rule_count);
	if (!span_holds(s, span, LAYOUT_RULE_REFS))
		return false;
	for (uint32_t i = 0; i < span.count; i++) {
		uint32_t ref = refs[span.offset + i];

		if (ref >= rule_count || (i > 0 && ref <= refs[span.offset + i - 1]))
			return false;
	}
	*found += span.count;
	return true;
}

static bool refs_name(const struct segment *s, struct layout_span span, uint8_t host, struct text name)
{
	uint32_t count;
	const struct layout_rule *rules = segment_table(s, LAYOUT_RULES, &count);
	const uint32_t *refs = segment_table(s, LAYOUT_RULE_REFS, &count);

	for (uint32_t i = 0; i < span.count; i++) {
		const struct layout_rule *r = &rules[refs[span.offset + i]];

		if (r->host != host || !text_equal(segment_text(s, r->name), name))
			return false;
	}
	return true;
}

static const char *verify_slots(const struct segment *s)
{
	uint32_t slot_count, entry_count, used = 0;
	const struct layout_label_slot *slots = segment_table(s, LAYOUT_LABEL_SLOTS, &slot_count);

	(void)segment_table(s, LAYOUT_LABEL_ENTRIES, &entry_count);
	if ((slot_count & (slot_count - 1)) != 0)
		return "the label index is no power of two";
	for (uint32_t i = 0; i < slot_count; i++) {
		if (slots[i].entry > entry_count || (slots[i].entry == 0 && slots[i].tag != 0))
			return "a label slot points outside";
		used += slots[i].entry != 0;
	}
	return used == entry_count ? NULL : "the label index and its entries differ in number";
}

static const char *verify_labels(const struct segment *s, uint64_t *found)
{
	uint32_t count;
	const struct layout_label_entry *entries = segment_table(s, LAYOUT_LABEL_ENTRIES, &count);
	const char *fault = verify_slots(s);

	for (uint32_t i = 0; fault == NULL && i < count; i++) {
		const struct layout_label_entry *e = &entries[i];
		struct text name;

		if (!name_holds(s, e->name))
			return "a label entry's name is not canonical";
		name = segment_text(s, e->name);
		if (segment_label_entry(s, name) != e)
			return "a label entry cannot be found";
		if (!refs_hold(s, e->exact, found) || !refs_hold(s, e->wildcard, found) ||
		    !refs_name(s, e->exact, RULE_HOST_NAME, name) ||
		    !refs_name(s, e->wildcard, RULE_HOST_WILDCARD, name))
			return "a label entry names rules of another host";
	}
	return fault;
}

static bool prefix_refs_hold(const struct segment *s, const struct layout_prefix_group *g,
			     const struct layout_prefix *p, uint64_t *found)
{
	uint32_t count;
	const struct layout_rule *rules = segment_table(s, LAYOUT_RULES, &count);
	const uint32_t *refs = segment_table(s, LAYOUT_RULE_REFS, &count);

	if (!refs_hold(s, p->rules, found))
		return false;
	for (uint32_t i = 0; i < p->rules.count; i++) {
		const struct layout_rule *r = &rules[refs[p->rules.offset + i]];

		if (r->host != RULE_HOST_PREFIX || r->family != g->family ||
		    r->prefix_len != g->len || memcmp(r->octets, p->octets, 16) != 0)
			return false;
	}
	return true;
}

static const char *verify_prefixes(const struct segment *s, uint64_t *found)
{
	uint32_t group_count, prefix_count, next = 0;
	const struct layout_prefix_group *groups =
		segment_table(s, LAYOUT_PREFIX_GROUPS, &group_count);
	const struct layout_prefix *prefixes = segment_table(s, LAYOUT_PREFIXES, &prefix_count);

	for (uint32_t i = 0; i < group_count; i++) {
		const struct layout_prefix_group *g = &groups[i];

		if (i > 0 && (g->family < g[-1].family ||
			      (g->family == g[-1].family && g->len <= g[-1].len)))
			return "the prefix groups are not in order";
		if (g->first != next || g->count == 0 || g->count > prefix_count - next ||
		    g->reserved != 0)
			return "the prefix groups do not cover the prefixes";
		next += g->count;
		for (uint32_t k = g->first; k < next; k++) {
			if (!prefix_holds(g->family, g->len, prefixes[k].octets) ||
			    (k > g->first &&
			     memcmp(prefixes[k].octets, prefixes[k - 1].octets, 16) <= 0))
				return "a prefix is not in order";
			if (!prefix_refs_hold(s, g, &prefixes[k], found))
				return "a prefix names rules of another host";
		}
	}
	return next == prefix_count ? NULL : "the prefix groups do not cover the prefixes";
}

static const char *verify_any(const struct segment *s, uint64_t *found)
{
	uint32_t rule_count, count;
	const struct layout_rule *rules = segment_table(s, LAYOUT_RULES, &rule_count);
	const uint32_t *refs = segment_table(s, LAYOUT_ANY_REFS, &count);

	for (uint32_t i = 0; i < count; i++) {
		if (refs[i] >= rule_count || rules[refs[i]].host != RULE_HOST_ANY ||
		    (i > 0 && refs[i] <= refs[i - 1]))
			return "a reference to `any` does not hold";
	}
	*found += count;
	return NULL;
}

static const char *verify_rules(const struct segment *s)
{
	uint32_t rule_count, ref_count, any_count;
	const struct layout_rule *rules = segment_table(s, LAYOUT_RULES, &rule_count);
	const char *fault = verify_places(s);
	uint64_t found = 0;

	(void)segment_table(s, LAYOUT_RULE_REFS, &ref_count);
	(void)segment_table(s, LAYOUT_ANY_REFS, &any_count);
	for (uint32_t i = 0; fault == NULL && i < rule_count; i++)
		fault = verify_rule(s, &rules[i]);
	if (fault == NULL)
		fault = verify_labels(s, &found);
	if (fault == NULL)
		fault = verify_prefixes(s, &found);
	if (fault == NULL)
		fault = verify_any(s, &found);
	/* References ascend and name rules of their own host only, so no rule was counted twice: equal numbers mean that all are found. */
	if (fault == NULL && (found != rule_count || found != (uint64_t)ref_count + any_count))
		fault = "a rule cannot be found through the indexes";
	return fault;
}

static const char *verify_guests(const struct segment *s, const struct layout_lease *l)
{
	uint32_t source_count, token_count;
	const struct layout_source *sources = segment_table(s, LAYOUT_SOURCES, &source_count);
	const struct layout_token *tokens = segment_table(s, LAYOUT_TOKENS, &token_count);
	const unsigned known = LAYOUT_REQUIRE_LISTENER | LAYOUT_REQUIRE_SOURCE |
			       LAYOUT_REQUIRE_TOKEN;

	if (l->require == 0 || (l->require & ~known) != 0)
		return "a lease identifies nobody";
	if (l->listener.len == 0 ? (l->require & LAYOUT_REQUIRE_LISTENER) != 0 || l->listener.offset != 0 :
				   !word_holds(s, l->listener, RECORD_WORD_MAX))
		return "a lease's listener does not hold";
	if ((l->require & LAYOUT_REQUIRE_SOURCE) != 0 && source_count == 0)
		return "a lease requires a source and has none";
	for (uint32_t i = 0; i < source_count; i++) {
		if (!prefix_holds(sources[i].family, sources[i].len, sources[i].octets) ||
		    !all_zero(sources[i].reserved, sizeof(sources[i].reserved)))
			return "a lease's source does not hold";
	}
	for (uint32_t i = 0; i < token_count; i++) {
		if (!text_holds(s, tokens[i].id, RECORD_WORD_MAX))
			return "a token's text does not hold";
	}
	return NULL;
}

static const char *verify_lease(const struct segment *s)
{
	const unsigned options = LAYOUT_OPTION_RESOLVE | LAYOUT_OPTION_WHY | LAYOUT_OPTION_NAMES_ONLY |
				 LAYOUT_OPTION_ECH_REFUSE | LAYOUT_OPTION_REPORT;
	const struct layout_lease *l;
	uint32_t count;

	l = segment_table(s, LAYOUT_LEASES, &count);
	if (count != 1)
		return "a lease segment has not exactly one lease";
	if (!word_holds(s, l->id, RECORD_LEASE_MAX))
		return "a lease's id does not hold";
	if (!text_holds(s, l->tenant, RECORD_WORD_MAX) || !text_holds(s, l->run, RECORD_WORD_MAX) ||
	    !text_holds(s, l->environment_class, RECORD_WORD_MAX))
		return "a lease's text does not hold";
	if (l->state < LAYOUT_LEASE_ACTIVE || l->state > LAYOUT_LEASE_RULESET_MISSING ||
	    l->scope < LAYOUT_SCOPE_UNDECLARED || l->scope > LAYOUT_SCOPE_DECLARED || l->claimed_scope > LAYOUT_SCOPE_DECLARED)
		return "a lease's state or scope is unknown";
	if ((l->options & ~options) != 0)
		return "a lease has an unknown option";
	if (!span_holds(s, l->places, LAYOUT_PLACES))
		return "a lease's places do not hold";
	return verify_guests(s, l);
}

static const char *verify_exceptions(const struct segment *s)
{
	uint32_t count;
	const struct layout_exception *x = segment_table(s, LAYOUT_EXCEPTIONS, &count);

	for (uint32_t i = 0; i < count; i++) {
		bool named = x[i].host == RULE_HOST_NAME || x[i].host == RULE_HOST_WILDCARD;

		if (!named && x[i].host != RULE_HOST_PREFIX)
			return "an exception's host is unknown";
		if (named ? !name_holds(s, x[i].name) : x[i].name.len != 0 || x[i].name.offset != 0)
			return "an exception's name does not hold";
		if (!all_zero(x[i].reserved, sizeof(x[i].reserved)) || x[i].reserved2 != 0)
			return "an exception has reserved fields set";
		/* A length of 0 would re-open a whole family. */
		if (named && x[i].family == 0 ?
			    x[i].prefix_len != 0 || !all_zero(x[i].octets, 16) :
			    x[i].prefix_len == 0 ||
				    !prefix_holds(x[i].family, x[i].prefix_len, x[i].octets))
			return "an exception's prefix does not hold";
	}
	return NULL;
}

int segment_compare_ids(struct text a, struct text b)
{
	size_t both = a.len < b.len ? a.len : b.len;
	int order = both == 0 ? 0 : memcmp(a.at, b.at, both);

	if (order != 0)
		return order;
	return a.len == b.len ? 0 : a.len < b.len ? -1 : 1;
}

static const char *verify_root(const struct segment *s)
{
	uint32_t info_count, count;
	const struct layout_root *info = segment_table(s, LAYOUT_ROOT_INFO, &info_count);
	const struct layout_root_lease *leases = segment_table(s, LAYOUT_ROOT_LEASES, &count);

	if (info_count != 1)
		return "a root segment has not exactly one root";
	if ((info->flags & ~(uint32_t)LAYOUT_ROOT_REPORT_ALLOWED) != 0 || info->reserved != 0)
		return "a root has an unknown flag";
	if (info->base != 0 && info->base >= info->version)
		return "a root's base is not older than itself";
	for (uint32_t i = 0; i < count; i++) {
		if (!word_holds(s, leases[i].id, RECORD_LEASE_MAX))
			return "a lease's id does not hold";
		if (i > 0 && segment_compare_ids(segment_text(s, leases[i - 1].id),
						 segment_text(s, leases[i].id)) >= 0)
			return "the leases of a root are not in order";
		if (info->base == 0 && layout_id_is_none(&leases[i].segment))
			return "a complete root has a lease that is gone";
	}
	return NULL;
}

const char *segment_verify(const struct segment *s)
{
	const char *fault = verify_tables(s);

	if (fault != NULL)
		return fault;
	switch (segment_kind(s)) {
	case LAYOUT_RULESET:
		return verify_rules(s);
	case LAYOUT_LEASE:
		fault = verify_lease(s);
		return fault != NULL ? fault : verify_rules(s);
	case LAYOUT_CEILING:
		fault = verify_exceptions(s);
		return fault != NULL ? fault : verify_rules(s);
	case LAYOUT_ROOT:
		return verify_root(s);
	}
	return "the kind is unknown";
}
