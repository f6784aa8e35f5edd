/*
 * From an asked target to a connected origin: judge the request, resolve the name (pins first), judge every address, connect to permits
 * only, answer. Contract section 2 in steps:
 *   1. A and AAAA are asked apart. A family is usable when its answer is complete and all of it passes.
 *   2. After the first usable family the other has 50 ms.
 *   3. A special address in any answer that arrived refuses the name; failure of one family does not.
 *   4. Undeclared NAT64 answers beside a passing A set are dropped and recorded; alone they are special.
 *   5. Every permit is checked again in the turn of connect and once connected.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "net/connector.h"
#include "net/pins.h"
#include "net/resolver.h"
#include "proxy/worker_internal.h"
#include "wire/socks5.h"

#define FAMILY_GRACE_MS 50
#define RESOLVING_MAX_MS 90000 /* above every deadline that the resolver may have; this one only must exist */

enum family_index { FAMILY_V4, FAMILY_V6, FAMILIES };

enum family_state {
	FAMILY_UNASKED, /* options leave it out */
	FAMILY_WAITING,
	FAMILY_USABLE,
	FAMILY_UNUSABLE,
};

struct family {
	enum family_state state;
	enum reason reason;     /* UNUSABLE: why */
	bool forbids_name;      /* UNUSABLE: a special address refuses the name, whatever the other family says */
	bool only_nat64;        /* UNUSABLE: nothing but undeclared NAT64 spoke against it */
	bool from_pin;          /* nobody was asked */
	struct resolver_lookup *lookup; /* owned while WAITING for the resolver */
	uint8_t permit_count;
	struct permit permits[DNS_ANSWER_ADDRS_MAX];
};

struct establish {
	struct family family[FAMILIES];
	struct loop_timer grace;
	struct connector *connector; /* owned while connecting */
	uint64_t since_ms;           /* of the step under way */
	bool has_asked;              /* some question went to the name servers */
	bool from_pins;              /* some address came from a pin */
	bool asked_again;            /* a failing pin was dropped and asked for once */
};

static const enum dns_type types[FAMILIES] = { DNS_TYPE_A, DNS_TYPE_AAAA };

static void progress(struct session *s);
static void resolve(struct session *s);

static enum reason outcome_reason(enum dns_outcome o)
{
	switch (o) {
	case DNS_OUTCOME_NXDOMAIN:
		return REASON_DNS_NXDOMAIN;
	case DNS_OUTCOME_NO_ADDRESS:
		return REASON_DNS_NO_ADDRESS;
	case DNS_OUTCOME_TRUNCATED:
	case DNS_OUTCOME_MALFORMED:
		return REASON_DNS_MALFORMED;
	case DNS_OUTCOME_TIMEOUT:
		return REASON_DNS_TIMEOUT;
	case DNS_OUTCOME_SERVER_FAILURE:
	case DNS_OUTCOME_UNREACHABLE:
	case DNS_OUTCOME_ADDRESSES: /* without addresses: cannot be */
		break;
	}
	return REASON_DNS_FAILED;
}

/* Judge one address. True: it passed, and *out_permit stands. */
static bool judge_one(struct session *s, const struct addr *addr, struct family *f, struct permit *out_permit)
{
	struct judge j = session_judge(s);
	struct addr_finding finding;
	uint64_t before_ns = clock_mono_ns();
	struct verdict v = judge_address(&j, &s->target, &s->verdict, addr, &finding, out_permit);

	s->judge_us += (uint32_t)((clock_mono_ns() - before_ns) / 1000);
	if (v.allow) {
		/* What an address narrows, or is only let through for, goes on into the stream and the record. */
		s->verdict = v;
		return true;
	}
	if (f->reason == REASON_ALLOWED || reason_stronger(v.reason, f->reason) == v.reason) {
		if (f->reason != v.reason || s->refused_addr.family == ADDR_NONE) {
			s->refused_addr = *addr;
			s->addr_class = finding.class;
		}
		f->reason = v.reason;
	}
	if (finding.class == ADDR_CLASS_NAT64)
		return false;
	f->only_nat64 = false;
	if (v.reason == REASON_SPECIAL_ADDRESS || v.reason == REASON_METADATA_ADDRESS || v.reason == REASON_OWN_ADDRESS)
		f->forbids_name = true;
	return false;
}

/* Step 1 for one family: all addresses pass, or the family is unusable. */
static void settle(struct session *s, struct family *f, const struct dns_answer *answer)
{
	bool all_pass = true;

	f->permit_count = 0;
	f->reason = REASON_ALLOWED;
	if (answer->outcome != DNS_OUTCOME_ADDRESSES || answer->addr_count == 0) {
		f->state = FAMILY_UNUSABLE;
		f->reason = outcome_reason(answer->outcome);
		return;
	}
	f->only_nat64 = true;
	s->phase = PHASE_ADDRESS;
	for (size_t i = 0; i < answer->addr_count; i++) {
		if (judge_one(s, &answer->addrs[i], f, &f->permits[f->permit_count]))
			f->permit_count++;
		else
			all_pass = false;
	}
	f->state = all_pass ? FAMILY_USABLE : FAMILY_UNUSABLE;
	if (all_pass)
		f->only_nat64 = false;
}

/* Keep an answer for a while; under pin=connection only what is not an address. One that cannot be stored is only slower. */
static void keep(struct session *s, enum family_index i, const struct dns_answer *answer)
{
	struct pins *pins = lease_home_pins(s->home, &s->worker->world->options);

	if (pins != NULL && (s->verdict.pin != RULE_PIN_CONNECTION || answer->outcome != DNS_OUTCOME_ADDRESSES))
		(void)!pins_put(pins, &s->target.name, types[i], answer, false, loop_now_ms(s->worker->loop));
}

/* Does it hold just what this family is about to dial? */
static bool is_set_of(const struct pin *pin, const struct family *f)
{
	if (pin == NULL || pin->outcome != DNS_OUTCOME_ADDRESSES || pin->addr_count != f->permit_count)
		return false;
	for (uint8_t i = 0; i < pin->addr_count; i++) {
		if (!addr_equal(&pin->addrs[i], &f->permits[i].to.addr))
			return false;
	}
	return true;
}

/*
 * Keep the set that is about to be dialled until the lease ends. It is whole from then on: a family that had no part in it is not asked. Where
 * there is no room, what could move later is refused.
 */
static enum reason keep_for_lease(struct session *s, enum family_index i)
{
	struct pins *pins = lease_home_pins(s->home, &s->worker->world->options);
	const struct family *f = &s->establish->family[i];
	uint64_t now_ms = loop_now_ms(s->worker->loop);
	struct dns_answer answer = { .outcome = DNS_OUTCOME_ADDRESSES, .canonical = s->target.name };
	const struct pin *pin;
	enum err e;

	if (pins == NULL)
		return REASON_RESOURCE;
	pin = pins_find(pins, &s->target.name, types[i], now_ms);
	if (pin != NULL && pin->for_lease)
		return REASON_ALLOWED;
	if (is_set_of(pin, f)) {
		pin_answer(pin, &answer);
	} else { /* flushed meanwhile, or never stored */
		while (answer.addr_count < f->permit_count) {
			answer.addrs[answer.addr_count] = f->permits[answer.addr_count].to.addr;
			answer.addr_count++;
		}
	}
	e = pins_put(pins, &s->target.name, types[i], &answer, true, now_ms);
	if (e == ERR_OK)
		return REASON_ALLOWED;
	return e == ERR_LIMIT ? REASON_DNS_BUDGET : REASON_RESOURCE;
}

/*
 * A family without addresses beside one that has some is absent for as long as those are kept at least, whatever its zone says: or each
 * connection would be a question, which costs time and budget and tells the zone what the pins of the other family keep back.
 */
static void keep_absence(struct session *s, enum family_index i)
{
	struct dns_answer answer = { .outcome = DNS_OUTCOME_NO_ADDRESS, .canonical = s->target.name, .ttl_s = PINS_TTL_MIN_S };
	struct pins *pins = lease_home_pins(s->home, &s->worker->world->options);
	uint64_t now_ms = loop_now_ms(s->worker->loop);
	const struct pin *pin = pins == NULL ? NULL : pins_find(pins, &s->target.name, types[i], now_ms);

	if (pin != NULL && s->verdict.pin != RULE_PIN_CONNECTION && pin->outcome == DNS_OUTCOME_NO_ADDRESS && pin->ttl_s < PINS_TTL_MIN_S)
		(void)!pins_put(pins, &s->target.name, types[i], &answer, false, now_ms);
}

static void on_answer(struct session *s, enum family_index i, const struct dns_answer *answer)
{
	struct establish *e = s->establish;

	e->family[i].lookup = NULL;
	s->dns_ms = (uint32_t)(loop_now_ms(s->worker->loop) - e->since_ms);
	keep(s, i, answer);
	settle(s, &e->family[i], answer);
	progress(s);
}

static void on_answer_v4(void *arg, const struct dns_answer *answer)
{
	on_answer(arg, FAMILY_V4, answer);
}

static void on_answer_v6(void *arg, const struct dns_answer *answer)
{
	on_answer(arg, FAMILY_V6, answer);
}

static bool is_wanted(const struct session *s, enum family_index i)
{
	enum world_family family = s->worker->world->options.family;

	return i == FAMILY_V4 ? family != WORLD_ONLY_V6 : family != WORLD_ONLY_V4;
}

/* The live pin of this family, if it may be used. */
static const struct pin *usable_pin(struct session *s, enum family_index i)
{
	struct pins *pins = lease_home_pins(s->home, &s->worker->world->options);
	const struct pin *pin =
		pins == NULL ? NULL : pins_find(pins, &s->target.name, types[i], loop_now_ms(s->worker->loop));

	if (pin != NULL && s->verdict.pin == RULE_PIN_CONNECTION && pin->outcome == DNS_OUTCOME_ADDRESSES)
		return NULL;
	return pin;
}

/* Settle the families that have a pin; is one of them the lease's? */
static bool settle_from_pins(struct session *s)
{
	bool is_whole = false;

	for (int i = 0; i < FAMILIES; i++) {
		const struct pin *pin = is_wanted(s, (enum family_index)i) ? usable_pin(s, (enum family_index)i) : NULL;
		struct dns_answer answer;

		if (pin == NULL)
			continue;
		is_whole = is_whole || pin->for_lease;
		pin_answer(pin, &answer);
		metrics_add(s->worker->metrics, METRIC_DNS_PIN_HITS, 1);
		if (answer.outcome == DNS_OUTCOME_ADDRESSES)
			s->establish->from_pins = true;
		s->establish->family[i].from_pin = true;
		settle(s, &s->establish->family[i], &answer);
	}
	return is_whole;
}

/* Ask for what the pins do not hold. False: the session was refused. */
static bool ask(struct session *s, enum family_index i, bool *budget_taken)
{
	static resolver_done_fn *const done[FAMILIES] = { on_answer_v4, on_answer_v6 };
	struct worker *w = s->worker;
	struct family *f = &s->establish->family[i];
	enum reason why = REASON_ALLOWED;
	enum err e;

	if (!*budget_taken)
		why = lease_home_admit_lookup(s->home, &w->world->options, &s->target.name, s->verdict.free_len,
					      loop_now_ms(w->loop));
	if (why != REASON_ALLOWED) {
		session_refuse(s, why);
		return false;
	}
	*budget_taken = s->establish->has_asked = true;
	f->state = FAMILY_WAITING;
	e = resolver_start(w->resolver, s->slot, &s->target.name, types[i], done[i], s, &f->lookup);
	if (e == ERR_OK)
		return true;
	session_refuse(s, e == ERR_LIMIT ? REASON_DNS_BUDGET : e == ERR_NO_MEMORY ? REASON_RESOURCE : REASON_DNS_FAILED);
	return false;
}

static void resolve(struct session *s)
{
	struct establish *e = s->establish;
	bool budget_taken = false, is_whole;

	e->since_ms = loop_now_ms(s->worker->loop);
	e->from_pins = false;
	session_enter(s, SESSION_RESOLVING, RESOLVING_MAX_MS);
	for (int i = 0; i < FAMILIES; i++)
		e->family[i] = (struct family){ .state = FAMILY_UNASKED, .reason = REASON_DNS_NO_ADDRESS };
	is_whole = settle_from_pins(s);
	for (int i = 0; i < FAMILIES && !is_whole; i++) {
		bool is_open = e->family[i].state == FAMILY_UNASKED && is_wanted(s, (enum family_index)i);

		if (is_open && !ask(s, (enum family_index)i, &budget_taken))
			return;
	}
	progress(s);
}

/* The permit is checked in the turn of connect and once connected; judged again when the world changed since. */
static enum reason check_permit(void *arg, const struct permit *permit)
{
	struct session *s = arg;
	struct snapshot *now = world_snapshot(s->worker->world);
	enum reason why = session_check_lease(s);
	struct judge j;
	struct verdict v;
	struct addr_finding finding;
	struct permit fresh;

	if (why != REASON_ALLOWED)
		return why;
	if (permit->slot != s->slot || permit->generation != s->generation)
		return REASON_INTERNAL;
	if (now != NULL && permit->snapshot == snapshot_version(now))
		return REASON_ALLOWED;
	j = session_judge(s);
	v = judge_request(&j, &s->target);
	/* Both must allow it: what was promised then decides how the bytes are judged. */
	if (v.allow)
		v = judge_address(&j, &s->target, &s->verdict, &permit->to.addr, &finding, &fresh);
	if (!v.allow)
		return v.reason;
	s->verdict = v;
	return REASON_ALLOWED;
}

static void on_connected(void *arg, const struct connector_result *result)
{
	struct session *s = arg;
	struct establish *e = s->establish;
	uint64_t now_ms = loop_now_ms(s->worker->loop);

	e->connector = NULL;
	s->connect_ms = (uint32_t)(now_ms - e->since_ms);
	metrics_observe_us(s->worker->metrics, HISTOGRAM_CONNECT, (now_ms - e->since_ms) * 1000);
	if (result->reason == REASON_ALLOWED) {
		s->origin_fd = result->fd;
		s->upstream = result->permit.to;
		tunnel_start(s, &result->local);
		return;
	}
	if (e->from_pins && !e->asked_again && reason_fault(result->reason) == REASON_FAULT_UPSTREAM) {
		enum reason why = session_check_lease(s);

		/* The pinned set fails: forget it, ask again, judge again; but nobody is asked for a lease that has ended. */
		if (why != REASON_ALLOWED) {
			session_refuse(s, why);
			return;
		}
		e->asked_again = true;
		s->pin_failed = true;
		pins_drop(s->home->pins, &s->target.name);
		resolve(s);
		return;
	}
	session_refuse_with(s, result->reason, result->socks_reply);
}

static void dial(struct session *s, const struct permit *permits, size_t count)
{
	struct worker *w = s->worker;
	struct establish *e = s->establish;
	const struct world_options *o = &w->world->options;
	struct connector_options options = {
		.prefer = o->family == WORLD_PREFER_V4 ? RACE_PREFER_V4 : RACE_PREFER_V6,
		.deadline_ms = o->connect_ms,
		.source4 = o->source4,
		.source6 = o->source6,
	};
	enum err failed;

	e->since_ms = loop_now_ms(w->loop);
	s->refused_addr = (struct addr){ .family = ADDR_NONE };
	/* The connector's own deadline answers first, with what it knows. */
	session_enter(s, SESSION_CONNECTING, o->connect_ms + 1000);
	failed = connector_start(w->loop, permits, count, &options, check_permit, on_connected, s, &e->connector);
	if (failed != ERR_OK)
		session_refuse(s, failed == ERR_INVALID ? REASON_INTERNAL : REASON_RESOURCE);
}

static void dial_usable(struct session *s)
{
	struct establish *e = s->establish;
	struct permit all[FAMILIES * DNS_ANSWER_ADDRS_MAX];
	enum reason why = REASON_ALLOWED;
	size_t count = 0;

	loop_timer_cancel(&e->grace);
	for (int i = 0; i < FAMILIES; i++) {
		struct family *f = &e->family[i];

		resolver_cancel(f->lookup);
		f->lookup = NULL;
		if (f->state == FAMILY_USABLE) {
			memcpy(&all[count], f->permits, f->permit_count * sizeof(all[0]));
			count += f->permit_count;
			if (s->verdict.pin == RULE_PIN_LEASE)
				why = reason_stronger(why, keep_for_lease(s, (enum family_index)i));
		} else if (f->only_nat64) {
			s->nat64_dropped = true; /* step 4 */
		} else if (f->state == FAMILY_UNUSABLE && f->reason == REASON_DNS_NO_ADDRESS && !f->from_pin) {
			keep_absence(s, (enum family_index)i);
		}
	}
	if (why == REASON_ALLOWED)
		dial(s, all, count);
	else
		session_refuse(s, why);
}

static void on_grace_over(void *arg)
{
	dial_usable(arg);
}

/* What all families together say when none is usable. A name has no address when no family has one: a failure of the other goes before. */
static enum reason combined_reason(const struct establish *e)
{
	enum reason why = REASON_ALLOWED;

	for (int i = 0; i < FAMILIES; i++) {
		if (e->family[i].state == FAMILY_UNUSABLE && e->family[i].reason != REASON_DNS_NO_ADDRESS)
			why = reason_stronger(why, e->family[i].reason);
	}
	return why == REASON_ALLOWED ? REASON_DNS_NO_ADDRESS : why;
}

/* A name that is there without addresses did not fail. */
static bool is_failed_lookup(enum reason why)
{
	return why == REASON_DNS_NXDOMAIN || why == REASON_DNS_MALFORMED || why == REASON_DNS_FAILED || why == REASON_DNS_TIMEOUT;
}

static void progress(struct session *s)
{
	struct establish *e = s->establish;
	bool waiting = false, usable = false;

	for (int i = 0; i < FAMILIES; i++) {
		const struct family *f = &e->family[i];

		if (f->state == FAMILY_UNUSABLE && f->forbids_name) { /* step 3 */
			session_refuse(s, f->reason);
			return;
		}
		waiting = waiting || f->state == FAMILY_WAITING;
		usable = usable || f->state == FAMILY_USABLE;
	}
	if (usable && !waiting) {
		dial_usable(s);
	} else if (usable && !e->grace.started) { /* step 2 */
		if (loop_timer_start(&e->grace, FAMILY_GRACE_MS) != ERR_OK)
			dial_usable(s);
	} else if (!usable && !waiting) {
		enum reason why = combined_reason(e);

		if (e->has_asked && is_failed_lookup(why))
			lease_home_lookup_failed(s->home, &s->worker->world->options, loop_now_ms(s->worker->loop));
		session_refuse(s, why);
	}
}

/* A literal: its class and rules were judged with the request; the address is judged like any other. */
static void establish_address(struct session *s)
{
	struct family f = { .reason = REASON_ALLOWED };
	struct permit permit;

	s->phase = PHASE_ADDRESS;
	if (judge_one(s, &s->target.addr, &f, &permit))
		dial(s, &permit, 1);
	else
		session_refuse(s, f.reason);
}

void establish_start(struct session *s)
{
	struct worker *w = s->worker;
	struct judge j = session_judge(s);
	uint64_t before_ns = clock_mono_ns();
	struct establish *e;

	s->verdict = judge_request(&j, &s->target);
	s->judge_us = (uint32_t)((clock_mono_ns() - before_ns) / 1000);
	metrics_observe_us(w->metrics, HISTOGRAM_DECIDE, s->judge_us);
	if (!s->verdict.allow) {
		session_refuse(s, s->verdict.reason);
		return;
	}
	e = pool_take(&w->establishes);
	if (e == NULL) {
		session_refuse(s, REASON_RESOURCE);
		return;
	}
	loop_timer_init(&e->grace, w->loop, on_grace_over, s);
	s->establish = e;
	if (s->target.kind == TARGET_ADDRESS)
		establish_address(s);
	else
		resolve(s);
}

void establish_release(struct session *s)
{
	struct establish *e = s->establish;

	if (e == NULL)
		return;
	s->establish = NULL;
	loop_timer_cancel(&e->grace);
	for (int i = 0; i < FAMILIES; i++)
		resolver_cancel(e->family[i].lookup);
	connector_cancel(e->connector);
	pool_give(&s->worker->establishes, e);
}

enum reason establish_judge_again(const struct session *s, const struct verdict *request)
{
	struct judge j = session_judge(s);
	enum reason why = REASON_ALLOWED;

	for (int i = 0; i < FAMILIES; i++) {
		const struct family *f = &s->establish->family[i];

		for (uint8_t n = 0; f->state == FAMILY_USABLE && n < f->permit_count; n++) {
			struct addr_finding finding;
			struct permit permit;
			struct verdict v = judge_address(&j, &s->target, request, &f->permits[n].to.addr, &finding, &permit);

			if (!v.allow)
				why = reason_stronger(why, v.reason);
		}
	}
	return why;
}

enum reason establish_deadline_reason(const struct session *s)
{
	return s->establish == NULL ? REASON_INTERNAL : REASON_DNS_TIMEOUT;
}

size_t establish_size(void)
{
	return sizeof(struct establish);
}
