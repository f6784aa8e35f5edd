/*
 * A small random policy and random questions against a slow second reading of the contract: lists of rules, filtered, with no index and
 * no shared code. Layout: flags, places, counts of ceiling, own and shared rules, four bytes each rule; then five bytes each question.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "policy/match.h"
#include "require.h"
#include "segment_builder.h"

#define RULES_MAX 16
#define QUESTIONS_MAX 24

static const char *const names[] = { "a.test",	 "b.a.test",	 "c.b.a.test", "xa.test",
				     "b.test",	 "box.internal", "a.box.internal", "zz.example" };
static const char *const addresses[] = { "9.9.9.9", "9.9.9.10", "9.9.8.1", "2620:fe::9",
					 "10.1.0.1", "10.2.0.1", "127.0.0.1", "169.254.169.254" };
static const char *const prefixes[] = { "9.9.9.9", "9.9.9.8/30", "9.9.8.0/23", "[2620:fe::/32]" };
static const uint16_t ports[] = { 0, 22, 80, 443, 444 };

struct line { /* one rule, as the second reading sees it */
	bool deny, report, ech, any;
	enum scheme scheme;
	bool wildcard, address;
	const char *host; /* a name, or the text of a prefix */
	uint16_t first, last; /* 0-65535: all */
	enum rule_pin pin;
	const char *country; /* NULL: anywhere */
};

struct policy {
	struct line ceiling[RULES_MAX], own[2 * RULES_MAX];
	size_t ceiling_count, own_count;
	bool reports, names_only, ech, place;
	unsigned exceptions; /* BIT: 10.1/16 for a.test, for address; name box.internal; 10.2/16 for *.a.test */
};

struct bytes {
	const uint8_t *at;
	size_t len;
};

static uint8_t take(struct bytes *b)
{
	if (b->len == 0)
		return 0;
	b->len--;
	return *b->at++;
}

static struct line take_line(struct bytes *b, bool ceiling)
{
	static const uint16_t ranges[][2] = { { 443, 443 }, { 80, 80 }, { 22, 443 }, { 1, 65535 } };
	uint8_t what = take(b), host = take(b), range = take(b), options = take(b);
	struct line l = {
		.deny = (what & 0x01) != 0, .report = (what & 0x06) == 0x06, .any = ceiling && (what & 0xf8) == 0x80,
		.wildcard = (host & 0x40) != 0, .address = (host & 0x80) != 0,
		.scheme = (enum scheme)((what >> 3) % SCHEME_COUNT),
		.first = ranges[range % 4][0], .last = ranges[range % 4][1],
		.pin = (enum rule_pin)(options % 4), .ech = (options & 0x10) != 0,
		.country = (options & 0xc0) == 0x40 ? "DE" : (options & 0xc0) == 0x80 ? "US" : NULL,
	};

	l.host = l.address ? prefixes[host % ARRAY_LEN(prefixes)] : names[host % ARRAY_LEN(names)];
	if (l.address && !scheme_row(l.scheme)->takes_addresses)
		l.scheme = SCHEME_TCP;
	if (l.any)
		l = (struct line){ .any = true, .first = 0, .last = 65535 };
	if (l.deny && (range & 0x80) != 0)
		l.first = 0, l.last = 65535;
	if (l.deny)
		l.country = NULL;
	return l;
}

static size_t print_line(const struct line *l, char *out, size_t cap)
{
	static const char *const pins[] = { "", " pin=connection", " pin=ttl", " pin=lease" };
	char range[16] = "";

	if (l->any)
		return (size_t)snprintf(out, cap, "allow any\n");
	if (l->last != 65535 || l->first != 0)
		snprintf(range, sizeof(range), ":%u-%u", l->first, l->last);
	return (size_t)snprintf(out, cap, "%s %s%s%s%s%s%s%s%s%s%s\n", l->deny ? "deny" : "allow",
				l->deny ? "" : scheme_row(l->scheme)->word, l->deny ? "" : "://",
				l->wildcard && !l->address ? "*." : "", l->host, range,
				l->deny ? "" : pins[l->pin], l->ech && !l->deny ? " ech=refuse" : "",
				l->country != NULL ? " country=" : "", l->country != NULL ? l->country : "",
				l->report ? " report" : "");
}

static struct snapshot *build(struct bytes *b, struct policy *p, struct built_store *store)
{
	static char ceiling[RULES_MAX * 128], lease[2 * RULES_MAX * 128];
	const char *leases[] = { lease, NULL };
	uint8_t flags = take(b), places = take(b);
	size_t counts[3] = { take(b) % RULES_MAX, take(b) % RULES_MAX, take(b) % RULES_MAX };
	size_t c = 0, l;

	p->reports = (flags & 0x03) == 0x03;
	p->names_only = (flags & 0x0c) == 0x0c;
	p->ech = (flags & 0x30) == 0x30;
	p->place = (places & 0x0f) == 0x0f;
	p->exceptions = places >> 4;
	ceiling[0] = '\0';
	if (p->exceptions & 1)
		c += (size_t)snprintf(ceiling + c, 128, "exception 10.1.0.0/16 for a.test\n");
	if (p->exceptions & 2)
		c += (size_t)snprintf(ceiling + c, 128, "exception 10.1.0.0/16 for address\n");
	if (p->exceptions & 4)
		c += (size_t)snprintf(ceiling + c, 128, "exception name for box.internal\n");
	if (p->exceptions & 8)
		c += (size_t)snprintf(ceiling + c, 128, "exception 10.2.0.0/16 for *.a.test\n");
	l = (size_t)snprintf(lease, sizeof(lease), "lease ls_1\n%s%s%s%s", flags & 0x01 ? "option report\n" : "",
			     p->names_only ? "option names_only\n" : "", p->ech ? "option ech_refuse\n" : "",
			     p->place ? "places country=DE\n" : "");
	for (size_t i = 0; i < counts[0]; i++) {
		p->ceiling[p->ceiling_count] = take_line(b, true);
		c += print_line(&p->ceiling[p->ceiling_count++], ceiling + c, sizeof(ceiling) - c);
	}
	for (size_t shared = 0; shared < 2; shared++) {
		l += (size_t)snprintf(lease + l, sizeof(lease) - l, "%s", shared ? "ruleset\n" : "");
		for (size_t i = 0; i < counts[1 + shared]; i++) {
			p->own[p->own_count] = take_line(b, false);
			l += print_line(&p->own[p->own_count++], lease + l, sizeof(lease) - l);
		}
		l += (size_t)snprintf(lease + l, sizeof(lease) - l, "%s", shared ? "end\n" : "");
	}
	return built_snapshot(store, 7, flags & 0x02 ? LAYOUT_ROOT_REPORT_ALLOWED : 0, ceiling, leases);
}

/* --- the second reading --- */

static bool text_contains(const char *prefix_text, const struct addr *a)
{
	char bare[64];
	struct prefix p;
	bool bracketed = prefix_text[0] == '[';

	snprintf(bare, sizeof(bare), "%s", prefix_text + bracketed);
	if (bracketed)
		bare[strlen(bare) - 1] = '\0';
	REQUIRE(prefix_parse(text_of(bare), &p));
	return prefix_contains(&p, a);
}

static bool host_covered(const struct line *l, const struct target *t)
{
	size_t len, name_len;

	if (l->any)
		return true;
	if (l->address || t->kind == TARGET_ADDRESS)
		return l->address && t->kind == TARGET_ADDRESS && text_contains(l->host, &t->addr);
	len = strlen(l->host);
	name_len = t->name.len;
	if (!l->wildcard)
		return strcmp(l->host, t->name.text) == 0;
	return name_len > len + 1 && t->name.text[name_len - len - 1] == '.' &&
	       strcmp(t->name.text + name_len - len, l->host) == 0;
}

static bool port_covered(const struct line *l, const struct target *t)
{
	return t->port >= l->first && t->port <= l->last;
}

static bool denies(const struct line *l, const struct facts *f)
{
	if (!l->deny || !port_covered(l, &f->target))
		return false;
	return host_covered(l, &f->target) ||
	       (f->address_known && l->address && text_contains(l->host, &f->address));
}

static bool is_denied(const struct line *lines, size_t count, const struct facts *f, bool report, bool both)
{
	for (size_t i = 0; i < count; i++) {
		if (denies(&lines[i], f) && (both || lines[i].report == report))
			return true;
	}
	return false;
}

/* Does an allow line of this kind cover host and port? */
static bool is_candidate(const struct line *l, const struct facts *f, bool report, bool opaque)
{
	return !l->deny && !l->any && l->report == report && (l->scheme == SCHEME_TCP) == opaque &&
	       host_covered(l, &f->target) && port_covered(l, &f->target);
}

static bool has_candidate(const struct policy *p, const struct facts *f, bool report, bool opaque)
{
	for (size_t i = 0; i < p->own_count; i++) {
		if (is_candidate(&p->own[i], f, report, opaque))
			return true;
	}
	return false;
}

static bool is_listed(const struct policy *p, const struct facts *f, bool report)
{
	for (size_t i = 0; i < p->own_count; i++) {
		if (!p->own[i].deny && p->own[i].report == report && host_covered(&p->own[i], &f->target))
			return true;
	}
	return false;
}

struct answer {
	bool allow, would_deny, ech, place;
	enum reason reason;
	unsigned schemes;
	enum rule_pin pin;
};

static struct answer no(enum reason why)
{
	return (struct answer){ .reason = why };
}

static enum reason unlisted(const struct facts *f, bool listed)
{
	if (listed)
		return REASON_PORT_NOT_ALLOWED;
	return f->target.kind == TARGET_ADDRESS ? REASON_LITERAL_NOT_LISTED : REASON_NO_RULE;
}

static enum reason special(const struct policy *p, const struct facts *f)
{
	const char *name = f->target.kind == TARGET_NAME ? f->target.name.text : "";
	bool below = strcmp(name, "b.a.test") == 0 || strcmp(name, "c.b.a.test") == 0;

	if (strcmp(name, "a.box.internal") == 0 ||
	    (strcmp(name, "box.internal") == 0 && (p->exceptions & 4) == 0))
		return REASON_NAME_SPECIAL;
	if (!f->address_known)
		return REASON_ALLOWED;
	switch (f->address.family == ADDR_V4 ? f->address.octets[0] : 0) {
	case 127:
		return REASON_SPECIAL_ADDRESS;
	case 169:
		return REASON_METADATA_ADDRESS;
	case 10:
		if (f->address.octets[1] == 1 && ((strcmp(name, "a.test") == 0 && (p->exceptions & 1)) ||
						  (name[0] == '\0' && (p->exceptions & 2))))
			return REASON_ALLOWED;
		if (f->address.octets[1] == 2 && below && (p->exceptions & 8))
			return REASON_ALLOWED;
		return REASON_SPECIAL_ADDRESS;
	}
	return REASON_ALLOWED;
}

/* The lines that count as candidates, as bits of the own list. */
static uint64_t candidates(const struct policy *p, const struct facts *f, bool *out_reported)
{
	/* Which kinds are looked at together, first come first: enforced typed (with reported typed), tcp, then the reported ones. */
	bool typed = has_candidate(p, f, false, false), opaque = has_candidate(p, f, false, true);
	bool soft_typed = has_candidate(p, f, true, false);
	uint64_t bits = 0;

	*out_reported = !typed && !opaque;
	for (size_t i = 0; i < p->own_count; i++) {
		bool hard_t = is_candidate(&p->own[i], f, false, false);
		bool hard_o = is_candidate(&p->own[i], f, false, true);
		bool soft_t = is_candidate(&p->own[i], f, true, false);
		bool soft_o = is_candidate(&p->own[i], f, true, true);

		if ((typed && (hard_t || soft_t)) || (!typed && opaque && hard_o) ||
		    (!typed && !opaque && soft_typed && soft_t) || (!typed && !opaque && !soft_typed && soft_o))
			bits |= 1ull << i;
	}
	return bits;
}

static unsigned fitting(const struct facts *f, unsigned schemes)
{
	if (!f->scheme_known || schemes == BIT(SCHEME_TCP) || schemes == 0)
		return schemes;
	if (schemes & BIT(f->scheme))
		return BIT(f->scheme);
	return f->scheme == SCHEME_HTTP ? schemes & BIT(SCHEME_WS) : 0;
}

struct conditions {
	enum rule_pin pin;
	bool ech, place, place_unknown, place_wrong;
};

static void add_country(struct conditions *c, const struct facts *f, const char *country)
{
	if (country == NULL)
		return;
	c->place = true;
	if (f->address_known && !f->place.country_known)
		c->place_unknown = true;
	else if (f->address_known && strcmp(f->place.country, country) != 0)
		c->place_wrong = true;
}

static unsigned ceiling_schemes(const struct policy *p, const struct facts *f, unsigned wanted,
				struct conditions *c)
{
	unsigned covered = 0;

	for (size_t i = 0; i < p->ceiling_count; i++) {
		const struct line *l = &p->ceiling[i];
		unsigned mine = l->any || l->scheme == SCHEME_TCP ? BIT(SCHEME_COUNT) - 1 : BIT(l->scheme);

		if (l->deny || l->report || !host_covered(l, &f->target) || !port_covered(l, &f->target))
			continue;
		covered |= mine;
		if ((mine & wanted) == 0)
			continue;
		c->pin = l->pin > c->pin ? l->pin : c->pin;
		c->ech |= l->ech;
		add_country(c, f, l->country);
	}
	return covered;
}

static bool enforced_has_scheme(const struct policy *p, const struct facts *f, unsigned schemes)
{
	for (size_t i = 0; i < p->own_count; i++) {
		if (is_candidate(&p->own[i], f, false, false) && (schemes & BIT(p->own[i].scheme)))
			return true;
	}
	return false;
}

static enum reason own_answer(const struct policy *p, const struct facts *f, unsigned all, unsigned schemes)
{
	if (is_denied(p->own, p->own_count, f, false, false))
		return REASON_RULE_DENY;
	if (p->names_only && f->target.kind == TARGET_ADDRESS)
		return REASON_LITERAL_NOT_LISTED;
	if (all == 0)
		return unlisted(f, is_listed(p, f, false) || is_listed(p, f, true));
	return schemes == 0 ? REASON_SCHEME_NOT_ALLOWED : REASON_ALLOWED;
}

static struct answer second_reading(const struct policy *p, const struct facts *f)
{
	struct conditions c = { .ech = p->ech };
	struct answer a = { .allow = true };
	unsigned all = 0, schemes, wanted, covered;
	enum reason why = special(p, f), would = REASON_ALLOWED;
	bool reported;
	uint64_t mine = candidates(p, f, &reported);

	if (why != REASON_ALLOWED)
		return no(why);
	for (size_t i = 0; i < p->own_count; i++) {
		const struct line *l = &p->own[i];
		enum rule_pin pin = l->pin == RULE_PIN_DEFAULT ? RULE_PIN_TTL : l->pin;

		if ((mine >> i & 1) == 0)
			continue;
		all |= BIT(l->scheme);
		c.pin = pin > c.pin ? pin : c.pin;
		c.ech |= l->ech;
		add_country(&c, f, l->country);
	}
	add_country(&c, f, p->place ? "DE" : NULL);
	schemes = fitting(f, all);
	why = own_answer(p, f, all, schemes);
	wanted = schemes != 0 ? schemes : f->scheme_known ? BIT(f->scheme) : BIT(SCHEME_COUNT) - 1;
	covered = ceiling_schemes(p, f, wanted, &c);
	if (why == REASON_RULE_DENY && !p->reports)
		return no(why);
	if (is_denied(p->ceiling, p->ceiling_count, f, false, true) || (covered & wanted) == 0)
		return no(REASON_CEILING_DENY);
	if (why != REASON_ALLOWED && (!p->reports || f->target.port == 0))
		return no(why);
	if (c.place_unknown)
		return no(REASON_GEO_UNAVAILABLE);
	if (c.place_wrong)
		return no(REASON_GEO_DENIED);
	if (why != REASON_ALLOWED)
		would = why;
	else if (is_denied(p->own, p->own_count, f, true, false))
		would = REASON_RULE_DENY;
	else if (reported)
		would = unlisted(f, is_listed(p, f, false));
	else if (f->scheme_known && has_candidate(p, f, false, false) && !enforced_has_scheme(p, f, schemes))
		would = REASON_SCHEME_NOT_ALLOWED;
	a.reason = would;
	a.would_deny = would != REASON_ALLOWED;
	a.schemes = covered & wanted;
	if (a.schemes & BIT(SCHEME_TCP))
		a.schemes = BIT(SCHEME_TCP);
	a.pin = c.pin == RULE_PIN_DEFAULT ? RULE_PIN_TTL : c.pin;
	a.ech = c.ech;
	a.place = c.place;
	return a;
}

/* --- questions --- */

static struct facts take_question(struct bytes *b)
{
	uint8_t what = take(b), host = take(b), port = take(b), address = take(b), place = take(b);
	struct facts f = { .phase = (enum facts_phase)(what % 4), .slot = 2, .generation = 3 };
	const char *text = host & 0x80 ? addresses[host % ARRAY_LEN(addresses)] : names[host % ARRAY_LEN(names)];

	REQUIRE(target_from_host(text_of(text), ports[port % ARRAY_LEN(ports)], &f.target) == TARGET_OK);
	f.scheme_known = f.phase == PHASE_STREAM || f.phase == PHASE_REDIRECT;
	f.scheme = (enum scheme)((what >> 2) % SCHEME_COUNT);
	f.address_known = f.phase == PHASE_ADDRESS || f.target.kind == TARGET_ADDRESS;
	if (f.target.kind == TARGET_ADDRESS)
		f.address = f.target.addr;
	else
		f.name_class = special_names_classify(&f.target.name);
	if (f.phase == PHASE_ADDRESS && f.target.kind == TARGET_NAME)
		REQUIRE(addr_parse(text_of(addresses[address % ARRAY_LEN(addresses)]), &f.address));
	if (f.address_known)
		addr_classify(&f.address, NULL, &f.finding);
	f.place.country_known = place % 3 != 0;
	snprintf(f.place.country, sizeof(f.place.country), "%s", place % 3 == 1 ? "DE" : "US");
	return f;
}

static void compare(const struct policy *p, const struct snapshot *s, const struct facts *f)
{
	struct permit permit = { .slot = UINT32_MAX };
	struct verdict v = policy_match(s, snapshot_lease_find(s, text_of("ls_1")), f, NULL, &permit);
	struct answer a = second_reading(p, f);

	REQUIRE(v.allow == a.allow && v.reason == a.reason && v.would_deny == a.would_deny);
	REQUIRE((permit.slot != UINT32_MAX) == (v.allow && f->phase == PHASE_ADDRESS));
	if (!v.allow)
		return;
	REQUIRE(v.schemes == a.schemes && v.pin == a.pin);
	REQUIRE(v.ech_refuse == a.ech && v.place_required == a.place);
	if (f->phase == PHASE_ADDRESS)
		REQUIRE(addr_equal(&permit.to.addr, &f->address) && permit.to.port == f->target.port &&
			permit.slot == 2 && permit.generation == 3 && permit.snapshot == 7);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct built_store store;
	struct bytes b = { data, size };
	struct policy policy = { 0 };
	struct snapshot *s;

	built_store_init(&store);
	s = build(&b, &policy, &store);
	for (size_t i = 0; i < QUESTIONS_MAX && b.len > 0; i++) {
		struct facts f = take_question(&b);

		compare(&policy, s, &f);
	}
	snapshot_unref(s);
	built_store_finish(&store);
	return 0;
}
