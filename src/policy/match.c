/*
 * Facts in, verdict out. One walk over the lease's rules and its rulesets, one over the ceiling; then the reasons in their order. Every verdict
 * starts as a refusal. Allocates nothing, so nothing in here can fail half-way. Called by judge alone; makes the permits.
 */
#include "policy/match.h"

#include <string.h>

#include "policy/label_index.h"
#include "policy/prefix_index.h"

#define ALL_SCHEMES (BIT(SCHEME_COUNT) - 1)

struct place_check { /* does an address lie where a list of places says? */
	bool required, unknown, denied;
};

/* What the allow rules of one sort give together: the strictest of each option. */
struct offer {
	unsigned schemes;               /* BIT(enum scheme); 0: no rule */
	enum rule_pin pin;
	bool ech_refuse;
	uint16_t free_len;              /* of the target's name, by the rule that leaves least open */
	struct place_check place;
	const struct layout_rule *rule; /* the first one */
	const struct segment *segment;
	enum verdict_source source;
};

struct hit { /* the first deny rule of one sort */
	const struct layout_rule *rule;
	const struct segment *segment;
	enum verdict_source source;
};

enum { ENFORCED, REPORTED, SORTS };

/* What the lease and its rulesets, or the ceiling, say of the target. */
struct side {
	bool host_listed[SORTS];    /* some allow rule covers the host, whatever the port */
	struct offer typed[SORTS];
	struct offer opaque[SORTS]; /* tcp, and the ceiling's `any` */
	struct hit deny[SORTS];
	unsigned covered;           /* ceiling: schemes it lets through */
};

struct walk {
	const struct facts *facts;
	struct trace *trace;
	struct side *side;
	const struct segment *segment; /* walked now */
	enum verdict_source source;
	unsigned wanted;               /* ceiling: schemes of the lease's candidates */
	bool denies_only;
};

/* All that is known when a verdict is drawn. */
struct match {
	const struct snapshot *snapshot;
	const struct snapshot_lease *lease;
	const struct facts *facts;
	const struct layout_lease *terms; /* the lease's own record */
	struct trace *trace;
	size_t trace_from;
	struct side own, ceiling;
	struct offer visible; /* the lease's candidates after typed hid tcp and enforce went before report */
	struct place_check option_place;
	bool reported;        /* the candidates of the request only report */
	bool reports;         /* the lease as a whole only reports */
};

static struct place_check check_places(const struct segment *s, struct layout_span span,
				       const struct facts *facts)
{
	uint32_t count;
	const struct layout_place *places = segment_table(s, LAYOUT_PLACES, &count);
	const struct geoip_place *at = &facts->place;
	struct place_check check = { .required = span.count > 0 };
	bool countries = false, asns = false, country_holds = false, asn_holds = false;

	if (!check.required || !facts->address_known)
		return check;
	for (uint32_t i = 0; i < span.count; i++) {
		const struct layout_place *p = &places[span.offset + i];

		if (p->asn != 0) {
			asns = true;
			asn_holds |= at->asn_known && at->asn == p->asn;
		} else {
			countries = true;
			country_holds |= at->country_known &&
					 memcmp(at->country, p->country, sizeof(p->country)) == 0;
		}
	}
	check.unknown = (countries && !at->country_known) || (asns && !at->asn_known);
	check.denied = (countries && !country_holds) || (asns && !asn_holds);
	return check;
}

static void place_add(struct place_check *sum, struct place_check one)
{
	sum->required |= one.required;
	sum->unknown |= one.unknown;
	sum->denied |= one.denied;
}

/* The bytes of the target's name that stand for the rule's wildcard. */
static uint16_t free_len_of(const struct walk *w, const struct layout_rule *r)
{
	size_t len = w->facts->target.kind == TARGET_NAME ? w->facts->target.name.len : 0;

	if (r->host == RULE_HOST_NAME)
		return 0;
	if (r->host == RULE_HOST_WILDCARD)
		len -= segment_text(w->segment, r->name).len + 1u;
	return (uint16_t)len;
}

static void offer_add(struct offer *o, const struct walk *w, const struct layout_rule *r,
		      unsigned schemes, struct place_check place)
{
	enum rule_pin pin = (enum rule_pin)r->pin;
	uint16_t free_len = free_len_of(w, r);

	/* A ceiling rule that says nothing of pins asks for nothing. */
	if (pin == RULE_PIN_DEFAULT && w->source != VERDICT_BY_CEILING)
		pin = RULE_PIN_TTL;
	if (o->rule == NULL) {
		o->rule = r;
		o->segment = w->segment;
		o->source = w->source;
		o->free_len = free_len;
	}
	o->free_len = free_len < o->free_len ? free_len : o->free_len;
	o->schemes |= schemes;
	o->pin = pin > o->pin ? pin : o->pin;
	o->ech_refuse |= (r->flags & LAYOUT_RULE_ECH_REFUSE) != 0;
	place_add(&o->place, place);
}

/* Put the conditions of `more` on top; whose rule decided stays. */
static void offer_tighten(struct offer *o, const struct offer *more)
{
	o->pin = more->pin > o->pin ? more->pin : o->pin;
	o->ech_refuse |= more->ech_refuse;
	place_add(&o->place, more->place);
}

static bool port_holds(const struct walk *w, const struct layout_rule *r)
{
	uint32_t count;
	const struct layout_ports *ports = segment_table(w->segment, LAYOUT_PORTS, &count);
	uint16_t port = w->facts->target.port;

	for (uint32_t i = 0; i < r->ports.count; i++) {
		const struct layout_ports *p = &ports[r->ports.offset + i];

		if (port >= p->first && port <= p->last)
			return true;
	}
	return r->ports.count == 0;
}

static enum trace_result allow_result(const struct layout_rule *r, struct place_check place)
{
	if (place.unknown)
		return TRACE_PLACE_UNKNOWN;
	if (place.denied)
		return TRACE_PLACE_DIFFERS;
	return (r->flags & LAYOUT_RULE_REPORT) != 0 ? TRACE_REPORT_ONLY : TRACE_MATCHED;
}

static void take_deny(struct walk *w, const struct layout_rule *r, uint32_t number)
{
	/* The ceiling is never report-only. */
	bool report = (r->flags & LAYOUT_RULE_REPORT) != 0 && w->source != VERDICT_BY_CEILING;
	struct hit *hit = &w->side->deny[report ? REPORTED : ENFORCED];

	if (hit->rule == NULL)
		*hit = (struct hit){ .rule = r, .segment = w->segment, .source = w->source };
	trace_note(w->trace, w->source, w->segment, number, report ? TRACE_REPORT_ONLY : TRACE_MATCHED);
}

static void take_allow(struct walk *w, const struct layout_rule *r, uint32_t number)
{
	struct place_check place = check_places(w->segment, r->places, w->facts);
	unsigned sort = (r->flags & LAYOUT_RULE_REPORT) != 0 ? REPORTED : ENFORCED;
	bool opaque = r->scheme == SCHEME_TCP;

	offer_add(opaque ? &w->side->opaque[sort] : &w->side->typed[sort], w, r, BIT(r->scheme),
		  place);
	trace_note(w->trace, w->source, w->segment, number, allow_result(r, place));
}

static void take_ceiling_allow(struct walk *w, const struct layout_rule *r, uint32_t number)
{
	bool opaque = r->host == RULE_HOST_ANY || r->scheme == SCHEME_TCP;
	unsigned covers = opaque ? ALL_SCHEMES : BIT(r->scheme);
	struct place_check place = check_places(w->segment, r->places, w->facts);

	/* A ceiling that only reports would be none. */
	if ((r->flags & LAYOUT_RULE_REPORT) != 0) {
		trace_note(w->trace, w->source, w->segment, number, TRACE_REPORT_ONLY);
		return;
	}
	w->side->covered |= covers;
	if ((covers & w->wanted) == 0) {
		trace_note(w->trace, w->source, w->segment, number, TRACE_SCHEME_DIFFERS);
		return;
	}
	offer_add(&w->side->typed[ENFORCED], w, r, covers, place);
	trace_note(w->trace, w->source, w->segment, number, allow_result(r, place));
}

static void on_rule(void *arg, uint32_t number)
{
	struct walk *w = arg;
	uint32_t count;
	const struct layout_rule *rules = segment_table(w->segment, LAYOUT_RULES, &count);
	const struct layout_rule *r = &rules[number];
	bool deny = (r->flags & LAYOUT_RULE_DENY) != 0;

	if (w->denies_only && !deny)
		return;
	if (!deny && w->facts->ech_public && r->host == RULE_HOST_WILDCARD) {
		trace_note(w->trace, w->source, w->segment, number, TRACE_HIDES_A_NAME);
		return;
	}
	w->side->host_listed[(r->flags & LAYOUT_RULE_REPORT) != 0 ? REPORTED : ENFORCED] |= !deny;
	if (!port_holds(w, r))
		trace_note(w->trace, w->source, w->segment, number, TRACE_PORT_DIFFERS);
	else if (deny)
		take_deny(w, r, number);
	else if (w->source == VERDICT_BY_CEILING)
		take_ceiling_allow(w, r, number);
	else
		take_allow(w, r, number);
}

static void visit_addresses(struct walk *w)
{
	const struct facts *f = w->facts;

	if (!f->address_known)
		return;
	/* A denied prefix also applies to what a name resolved to, and to the IPv4 address inside. */
	w->denies_only = true;
	if (f->target.kind == TARGET_NAME)
		prefix_index_visit(w->segment, &f->address, on_rule, w);
	if (f->finding.has_inner)
		prefix_index_visit(w->segment, &f->finding.inner, on_rule, w);
	w->denies_only = false;
}

static void walk_segment(struct walk *w, const struct segment *segment, enum verdict_source source)
{
	uint32_t count;
	const uint32_t *any;

	w->segment = segment;
	w->source = source;
	if (w->facts->target.kind == TARGET_NAME)
		label_index_visit(segment, &w->facts->target.name, on_rule, w);
	else
		prefix_index_visit(segment, &w->facts->target.addr, on_rule, w);
	visit_addresses(w);
	any = segment_table(segment, LAYOUT_ANY_REFS, &count);
	for (uint32_t i = 0; i < count; i++)
		on_rule(w, any[i]);
}

/* Candidates of the request: enforce goes before report, typed before tcp. */
static void choose_visible(struct match *m)
{
	struct side *own = &m->own;

	if (own->typed[ENFORCED].schemes != 0) {
		/* A typed report rule adds what no enforced one allows. */
		m->visible = own->typed[ENFORCED];
		m->visible.schemes |= own->typed[REPORTED].schemes;
		offer_tighten(&m->visible, &own->typed[REPORTED]);
	} else if (own->opaque[ENFORCED].schemes != 0) {
		m->visible = own->opaque[ENFORCED];
	} else if (own->typed[REPORTED].schemes != 0) {
		m->visible = own->typed[REPORTED];
		m->reported = true;
	} else if (own->opaque[REPORTED].schemes != 0) {
		m->visible = own->opaque[REPORTED];
		m->reported = true;
	}
}

/* Of `schemes`, those that bytes of the known scheme may use; HTTP also goes where a WebSocket may be opened. */
static unsigned narrow_to_scheme(const struct facts *f, unsigned schemes)
{
	if (!f->scheme_known || schemes == BIT(SCHEME_TCP))
		return schemes;
	if ((schemes & BIT(f->scheme)) != 0)
		return BIT(f->scheme);
	return f->scheme == SCHEME_HTTP ? schemes & BIT(SCHEME_WS) : 0;
}

/* Does only a report rule stand for what is left of the candidates? */
static bool only_reported(const struct match *m, unsigned schemes)
{
	if (m->reported)
		return true;
	return m->facts->scheme_known && m->own.typed[ENFORCED].schemes != 0 &&
	       (schemes & m->own.typed[ENFORCED].schemes) == 0;
}

/* The ceiling was not walked yet: all steps are of the lease. */
static void retell_trace(struct match *m, unsigned schemes)
{
	for (size_t i = m->trace_from; m->trace != NULL && i < m->trace->count; i++) {
		struct trace_step *step = &m->trace->steps[i];
		uint32_t count;
		const struct layout_rule *rules = segment_table(step->segment, LAYOUT_RULES, &count);
		const struct layout_rule *r = &rules[step->rule_number];

		if ((r->flags & LAYOUT_RULE_DENY) != 0 || step->result != TRACE_MATCHED)
			continue;
		if (r->scheme == SCHEME_TCP && m->visible.schemes != BIT(SCHEME_TCP))
			step->result = TRACE_HIDDEN_BY_TYPED;
		else if ((schemes & BIT(r->scheme)) == 0)
			step->result = TRACE_SCHEME_DIFFERS;
	}
}

/* Why no candidate is there: is the host listed, and is it a name? */
static enum reason unlisted_reason(const struct match *m, bool host_listed)
{
	if (host_listed)
		return REASON_PORT_NOT_ALLOWED;
	return m->facts->target.kind == TARGET_ADDRESS ? REASON_LITERAL_NOT_LISTED : REASON_NO_RULE;
}

/* What the lease's rules say, in the order of the reasons. */
static enum reason own_reason(const struct match *m, unsigned schemes)
{
	if (m->own.deny[ENFORCED].rule != NULL)
		return REASON_RULE_DENY;
	if (m->facts->target.kind == TARGET_ADDRESS &&
	    (m->terms->options & LAYOUT_OPTION_NAMES_ONLY) != 0)
		return REASON_LITERAL_NOT_LISTED;
	if (m->visible.schemes == 0)
		return unlisted_reason(m, m->own.host_listed[ENFORCED] || m->own.host_listed[REPORTED]);
	return schemes == 0 ? REASON_SCHEME_NOT_ALLOWED : REASON_ALLOWED;
}

/* What they would have said without the report-only ones. */
static enum reason enforced_reason(const struct match *m)
{
	if (m->own.typed[ENFORCED].schemes != 0)
		return REASON_SCHEME_NOT_ALLOWED;
	return unlisted_reason(m, m->own.host_listed[ENFORCED]);
}

static void name_rule(struct verdict *v, const struct layout_rule *r, const struct segment *s,
		      enum verdict_source source)
{
	struct text id;

	v->source = source;
	v->rule_id[0] = '\0';
	if (r == NULL)
		return;
	id = segment_text(s, r->id);
	memcpy(v->rule_id, id.at, id.len);
	v->rule_id[id.len] = '\0';
}

static struct verdict refuse(const struct match *m, enum reason why)
{
	struct verdict v = verdict_refuse(why);
	const struct hit *hit = NULL;

	v.snapshot = snapshot_version(m->snapshot);
	if (why == REASON_RULE_DENY)
		hit = &m->own.deny[ENFORCED];
	if (why == REASON_CEILING_DENY) {
		hit = &m->ceiling.deny[ENFORCED];
		v.source = VERDICT_BY_CEILING;
	}
	if (hit != NULL && hit->rule != NULL)
		name_rule(&v, hit->rule, hit->segment, hit->source);
	return v;
}

/* Let through, on the conditions of all candidates, lease options and ceiling rules. */
static struct verdict let_through(const struct match *m, unsigned schemes, enum reason would_say)
{
	const struct offer *by = &m->visible;
	struct offer sum = *by;
	struct verdict v = {
		.allow = true,
		.reason = would_say,
		.would_deny = would_say != REASON_ALLOWED,
		.snapshot = snapshot_version(m->snapshot),
		.schemes = schemes,
	};

	offer_tighten(&sum, &m->ceiling.typed[ENFORCED]);
	place_add(&sum.place, m->option_place);
	v.pin = sum.pin == RULE_PIN_DEFAULT ? RULE_PIN_TTL : sum.pin;
	/* Without a candidate the lease only reports: the whole name is the guest's to choose. */
	if (m->facts->target.kind == TARGET_NAME)
		v.free_len = by->rule != NULL ? by->free_len : (uint16_t)m->facts->target.name.len;
	v.ech_refuse = sum.ech_refuse || (m->terms->options & LAYOUT_OPTION_ECH_REFUSE) != 0;
	v.place_required = sum.place.required;
	if (sum.place.unknown)
		return refuse(m, REASON_GEO_UNAVAILABLE);
	if (sum.place.denied)
		return refuse(m, REASON_GEO_DENIED);
	if (would_say == REASON_RULE_DENY) {
		const struct hit *hit = &m->own.deny[m->own.deny[ENFORCED].rule != NULL ? ENFORCED : REPORTED];

		name_rule(&v, hit->rule, hit->segment, hit->source);
	} else if (by->rule != NULL) {
		name_rule(&v, by->rule, by->segment, by->source);
	}
	return v;
}

/* The reasons of the groups rule and place, in their order. */
static struct verdict conclude(struct match *m)
{
	struct walk ceiling = { .facts = m->facts, .trace = m->trace, .side = &m->ceiling };
	unsigned schemes = narrow_to_scheme(m->facts, m->visible.schemes);
	enum reason why = own_reason(m, schemes), would_say = REASON_ALLOWED;

	retell_trace(m, schemes);
	/* Without a candidate of the lease's own the question is whether the ceiling would have let one in. */
	ceiling.wanted = schemes;
	if (schemes == 0)
		ceiling.wanted = m->facts->scheme_known ? BIT(m->facts->scheme) : ALL_SCHEMES;
	walk_segment(&ceiling, snapshot_ceiling(m->snapshot), VERDICT_BY_CEILING);

	if (why == REASON_RULE_DENY && !m->reports)
		return refuse(m, why);
	if (m->ceiling.deny[ENFORCED].rule != NULL || (m->ceiling.covered & ceiling.wanted) == 0)
		return refuse(m, REASON_CEILING_DENY);
	if (why != REASON_ALLOWED && (!m->reports || m->facts->target.port == 0))
		return refuse(m, why);
	if (why != REASON_ALLOWED)
		would_say = why;
	else if (m->own.deny[REPORTED].rule != NULL)
		would_say = REASON_RULE_DENY;
	else if (only_reported(m, schemes))
		would_say = enforced_reason(m);
	schemes = ceiling.wanted & m->ceiling.covered;
	/* Nothing of the lease says what the bytes must be, so they may be what the ceiling takes: anything, if it can. */
	if ((schemes & BIT(SCHEME_TCP)) != 0)
		schemes = BIT(SCHEME_TCP);
	return let_through(m, schemes, would_say);
}

static bool name_within(const struct layout_exception *x, struct text host, const struct dname *name)
{
	bool within = dname_is_within(name, host);

	return x->host == RULE_HOST_WILDCARD ? within && name->len > host.len :
					       within && name->len == host.len;
}

/* Is the exception written for this target? */
static bool exception_names(const struct segment *s, const struct layout_exception *x,
			    const struct target *target)
{
	if (x->host == RULE_HOST_PREFIX)
		return target->kind == TARGET_ADDRESS;
	return target->kind == TARGET_NAME &&
	       name_within(x, segment_text(s, x->name), &target->name);
}

/* The address that an exception must be written for; NULL when none can help. */
static const struct addr *reopenable_address(const struct facts *f)
{
	/* Only a declared NAT64 prefix makes a wrapped address a way to its inner one; no origin needs the other forms. */
	if (!addr_class_may_reopen(f->finding.class) || f->finding.class == ADDR_CLASS_EMBEDDED)
		return NULL;
	return f->finding.by_declared_nat64 ? &f->finding.inner : &f->address;
}

static bool name_is_reopened(const struct snapshot *snapshot, const struct facts *f)
{
	const struct segment *s = snapshot_ceiling(snapshot);
	uint32_t count;
	const struct layout_exception *x = segment_table(s, LAYOUT_EXCEPTIONS, &count);

	if (f->target.kind != TARGET_NAME || f->name_class != NAME_SPECIAL)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		if (exception_names(s, &x[i], &f->target))
			return true;
	}
	return false;
}

static bool address_is_reopened(const struct snapshot *snapshot, const struct facts *f)
{
	const struct segment *s = snapshot_ceiling(snapshot);
	const struct addr *address = reopenable_address(f);
	uint32_t count;
	const struct layout_exception *x = segment_table(s, LAYOUT_EXCEPTIONS, &count);

	for (uint32_t i = 0; address != NULL && i < count; i++) {
		struct prefix prefix = { .addr = { .family = x[i].family }, .len = x[i].prefix_len };

		memcpy(prefix.addr.octets, x[i].octets, sizeof(prefix.addr.octets));
		if (x[i].family != ADDR_NONE && prefix_contains(&prefix, address) &&
		    exception_names(s, &x[i], &f->target))
			return true;
	}
	return false;
}

bool policy_exception_covers(const struct snapshot *snapshot, const struct facts *facts)
{
	return facts->address_known ? address_is_reopened(snapshot, facts) :
				      name_is_reopened(snapshot, facts);
}

bool policy_ceiling_allows(const struct snapshot *snapshot, const struct facts *facts)
{
	struct side side = { 0 };
	struct walk w = { .facts = facts, .side = &side };

	if (!facts->scheme_known)
		return false;
	w.wanted = BIT(facts->scheme);
	walk_segment(&w, snapshot_ceiling(snapshot), VERDICT_BY_CEILING);
	return side.deny[ENFORCED].rule == NULL && (side.covered & w.wanted) != 0;
}

/* The reasons of the groups name and address. */
static enum reason target_reason(const struct snapshot *snapshot, const struct facts *f)
{
	if (f->target.kind == TARGET_NAME && f->name_class != NAME_ORDINARY &&
	    !name_is_reopened(snapshot, f))
		return REASON_NAME_SPECIAL;
	if (!f->address_known && (f->phase == PHASE_ADDRESS || f->target.kind == TARGET_ADDRESS))
		return REASON_INTERNAL;
	if (!f->address_known)
		return REASON_ALLOWED;
	if (f->target.kind == TARGET_ADDRESS && !addr_equal(&f->address, &f->target.addr))
		return REASON_INTERNAL;
	switch (f->finding.class) {
	case ADDR_CLASS_PUBLIC:
		return REASON_ALLOWED;
	case ADDR_CLASS_OWN:
		return REASON_OWN_ADDRESS;
	case ADDR_CLASS_METADATA:
		return REASON_METADATA_ADDRESS;
	default:
		return address_is_reopened(snapshot, f) ? REASON_ALLOWED : REASON_SPECIAL_ADDRESS;
	}
}

static void permit_make(const struct match *m, struct permit *out_permit)
{
	*out_permit = (struct permit){
		.to = { .addr = m->facts->address, .port = m->facts->target.port },
		.slot = m->facts->slot,
		.generation = m->facts->generation,
		.snapshot = snapshot_version(m->snapshot),
	};
}

struct verdict policy_match(const struct snapshot *snapshot, const struct snapshot_lease *lease,
			    const struct facts *facts, struct trace *trace, struct permit *out_permit)
{
	struct match m = { .snapshot = snapshot, .lease = lease, .facts = facts, .trace = trace };
	struct walk own = { .facts = facts, .trace = trace, .side = &m.own };
	struct verdict v;
	enum reason why = target_reason(snapshot, facts);

	if (why != REASON_ALLOWED)
		return refuse(&m, why);
	m.terms = segment_lease(lease->segment);
	m.trace_from = trace == NULL ? 0 : trace->count;
	m.reports = (m.terms->options & LAYOUT_OPTION_REPORT) != 0 &&
		    snapshot_report_allowed(snapshot);
	m.option_place = check_places(lease->segment, m.terms->places, facts);
	walk_segment(&own, lease->segment, VERDICT_BY_LEASE);
	for (uint32_t i = 0; i < lease->ruleset_count; i++)
		walk_segment(&own, lease->rulesets[i], VERDICT_BY_RULESET);
	choose_visible(&m);
	v = conclude(&m);
	if (v.allow && facts->phase == PHASE_ADDRESS && out_permit != NULL)
		permit_make(&m, out_permit);
	return v;
}
