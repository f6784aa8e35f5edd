/*
 * The four questions in the order of a request, with what a well-behaved guest would send where bytes are needed. Promises
 * to ask judge and nobody else. Called by cmd_explain.
 */
#include "cli/explain.h"

#include <stdio.h>
#include <string.h>

#include "compiler/pattern.h"

/* Split "host:port"; without a port it is `default_port` (0: then one must stand there). */
static bool split_port(struct text text, uint16_t default_port, struct text *out_host, uint16_t *out_port)
{
	size_t colon = text.len;
	uint64_t port;

	while (colon > 0 && text.at[colon - 1] != ':')
		colon--;
	if (colon > 1 && text_to_u64((struct text){ text.at + colon, text.len - colon }, UINT16_MAX, &port) && port > 0) {
		*out_host = (struct text){ text.at, colon - 1 };
		*out_port = (uint16_t)port;
		return true;
	}
	*out_host = text;
	*out_port = default_port;
	return text.len > 0 && default_port != 0;
}

/* A host that the daemon answers before it looks at a rule: 127.1, 0x7f.1, a..b. */
static bool read_faulty_name(struct text text, uint16_t default_port, struct explain_query *out_query)
{
	struct target ignored;
	struct text host;
	uint16_t port;
	enum target_result result;
	size_t len;

	if (!split_port(text, default_port, &host, &port) || host.len > UINT8_MAX)
		return false;
	/* More likely a slip of who asks. */
	if (memchr(host.at, ':', host.len) != NULL || memchr(host.at, '@', host.len) != NULL)
		return false;
	result = target_from_host(host, port, &ignored);
	if (result == TARGET_OK)
		return false;
	out_query->name_fault = result == TARGET_LITERAL_IN_NAME ? REASON_LITERAL_IN_NAME : REASON_NAME_INVALID;
	text_escape(host, out_query->raw, sizeof(out_query->raw) - sizeof(":65535"));
	len = strlen(out_query->raw);
	snprintf(out_query->raw + len, sizeof(out_query->raw) - len, ":%u", port);
	return true;
}

/* "host:port" without a scheme: only as far as rules and addresses go. */
static enum err read_bare(struct text text, struct explain_query *out_query, char *out_reason, size_t cap)
{
	struct text host;
	uint16_t port;

	if (split_port(text, 0, &host, &port) && target_from_host(host, port, &out_query->target) == TARGET_OK)
		return ERR_OK;
	if (memchr(text.at, '/', text.len) == NULL && read_faulty_name(text, 0, out_query))
		return ERR_OK;
	snprintf(out_reason, cap, "a target is scheme://host:port, a URL, or host:port");
	return ERR_INVALID;
}

/* The length of the part before "://"; text.len when there is none. */
static size_t scheme_len(struct text text)
{
	for (size_t i = 0; i + 2 < text.len; i++) {
		if (memcmp(text.at + i, "://", 3) == 0)
			return i;
	}
	return text.len;
}

/*
 * A host that no rule under this scheme can be written for ("https://192.0.2.1", "http://0x7f.1"): a guest may ask for it, and the rules for
 * addresses, or none, answer.
 */
static bool read_unruly(struct text text, size_t scheme_end, struct explain_query *out_query)
{
	struct text word = { text.at, scheme_end };
	struct text rest = { text.at + scheme_end + 3, text.len - scheme_end - 3 }, host;
	enum scheme scheme;
	uint16_t default_port, port;

	if (!scheme_parse(word, &scheme))
		return false;
	default_port = scheme_row(scheme)->default_port;
	for (size_t i = 0; i < rest.len; i++) {
		if (strchr("/?#", rest.at[i]) != NULL)
			rest.len = i;
	}
	if (target_from_host(rest, default_port, &out_query->target) == TARGET_OK)
		return out_query->target.kind == TARGET_ADDRESS && default_port != 0;
	if (split_port(rest, default_port, &host, &port) && target_from_host(host, port, &out_query->target) == TARGET_OK)
		return out_query->target.kind == TARGET_ADDRESS;
	out_query->scheme_known = read_faulty_name(rest, default_port, out_query);
	out_query->scheme = scheme;
	return out_query->scheme_known;
}

enum err explain_read_target(struct text text, struct explain_query *out_query, char *out_reason, size_t cap)
{
	struct explain_query query = { 0 };
	struct pattern_fault fault;
	struct rule rule;
	enum err e;

	size_t scheme_end = scheme_len(text);

	if (scheme_end == text.len) {
		e = read_bare(text, &query, out_reason, cap);
		if (e == ERR_OK)
			*out_query = query;
		return e;
	}
	e = pattern_parse_target(text, &rule, &fault);
	if (e == ERR_INVALID && read_unruly(text, scheme_end, &query)) {
		*out_query = query;
		return ERR_OK;
	}
	if (e != ERR_OK) {
		snprintf(out_reason, cap, "%s", e == ERR_INVALID ? fault.reason : err_text(e));
		return e;
	}
	query.scheme_known = rule.scheme_known;
	query.scheme = rule.scheme;
	if (rule.host == RULE_HOST_PREFIX) {
		target_from_addr(&rule.prefix.addr, rule.ports[0].first, &query.target);
	} else {
		query.target.kind = TARGET_NAME;
		query.target.name = rule.name;
		query.target.port = rule.ports[0].first;
	}
	*out_query = query;
	return ERR_OK;
}

static void ask_address(struct judge *j, const struct explanation *e, struct explain_address *a)
{
	struct permit permit;

	trace_init(&a->trace);
	j->trace = &a->trace;
	a->verdict = judge_address(j, &e->query.target, &e->request, &a->addr, &a->finding, &permit);
}

/* Contract section 2: an undeclared NAT64 answer beside a passing A set is dropped. */
static void drop_nat64(struct explanation *e)
{
	bool has_v4 = false;

	for (size_t i = 0; i < e->address_count; i++) {
		const struct explain_address *a = &e->addresses[i];

		if (a->addr.family != ADDR_V4)
			continue;
		if (!a->verdict.allow)
			return;
		has_v4 = true;
	}
	for (size_t i = 0; has_v4 && i < e->address_count; i++) {
		struct explain_address *a = &e->addresses[i];

		a->is_dropped = !a->verdict.allow && a->finding.class == ADDR_CLASS_NAT64;
	}
}

/* Of two verdicts on addresses, the one whose word counts: a refusal, else what is only reported, else the first; stronger reason first. */
static bool outweighs(const struct verdict *a, const struct verdict *b)
{
	if (a->allow != b->allow)
		return !a->allow;
	return a->reason != b->reason && reason_stronger(a->reason, b->reason) == a->reason;
}

/* Every address must pass; the strongest refusal speaks. False: some address refused. */
static bool ask_addresses(struct judge *j, struct explanation *e)
{
	unsigned schemes = e->request.schemes;
	bool has_spoken = false;

	if (e->query.target.kind == TARGET_ADDRESS) {
		e->addresses[0].addr = e->query.target.addr;
		e->address_count = 1;
	} else {
		e->address_count = e->query.address_count;
		for (size_t i = 0; i < e->address_count; i++)
			e->addresses[i].addr = e->query.addresses[i];
	}
	for (size_t i = 0; i < e->address_count; i++)
		ask_address(j, e, &e->addresses[i]);
	drop_nat64(e);
	for (size_t i = 0; i < e->address_count; i++) {
		const struct explain_address *a = &e->addresses[i];

		if (a->is_dropped)
			continue;
		schemes &= a->verdict.schemes;
		if (has_spoken && !outweighs(&a->verdict, &e->verdict))
			continue;
		has_spoken = true;
		e->verdict = a->verdict;
		e->decided_by = a->verdict.allow ? NULL : a;
	}
	if (e->verdict.allow)
		e->verdict.schemes = schemes;
	return e->verdict.allow;
}

/* What a guest that keeps to the scheme sends first. */
static struct judge_stream well_behaved(const struct explain_query *q)
{
	struct judge_stream seen = { .scheme_known = q->scheme != SCHEME_TCP,
				     .scheme = q->scheme == SCHEME_WS ? SCHEME_HTTP : q->scheme,
				     .tls12_offered = true };

	if (q->target.kind == TARGET_NAME) {
		seen.name_known = true;
		seen.name = q->target.name;
	} else {
		seen.name_missing = true;
	}
	return seen;
}

const char *explain_print_target(const struct explain_query *query, char *out_text)
{
	if (query->name_fault == REASON_ALLOWED)
		return target_print(&query->target, out_text);
	memcpy(out_text, query->raw, sizeof(query->raw));
	return out_text;
}

/* As the handshake answers: the lease's own state, then the name's fault. */
static struct verdict refuse_name(const struct explain_ground *ground, const struct explanation *e)
{
	enum reason why = lease_table_is_live(e->lease, ground->wall_ms);

	return verdict_refuse(why != REASON_ALLOWED ? why : e->query.name_fault);
}

void explain(const struct explain_ground *ground, const struct lease_table_entry *lease,
	     const struct explain_query *query, struct explanation *out_explanation)
{
	struct explanation *e = out_explanation;
	struct judge j = { .snapshot = ground->snapshot,
			   .lease = lease,
			   .wall_ms = ground->wall_ms,
			   .site = ground->site,
			   .geoip = ground->geoip,
			   .trace = &e->request_trace };
	struct judge_stream seen = well_behaved(query);

	memset(e, 0, sizeof(*e));
	e->query = *query;
	e->lease = lease;
	e->phase = PHASE_REQUEST;
	trace_init(&e->request_trace);
	e->request = e->verdict = query->name_fault != REASON_ALLOWED ? refuse_name(ground, e) : judge_request(&j, &query->target);
	if (!e->request.allow)
		return;
	e->phase = PHASE_ADDRESS;
	if (!ask_addresses(&j, e))
		return;
	e->needs_dns = e->address_count == 0;
	if (!query->scheme_known) {
		e->phase = e->needs_dns ? PHASE_REQUEST : PHASE_ADDRESS;
		return;
	}
	e->has_stream = true;
	e->phase = PHASE_STREAM;
	trace_init(&e->stream_trace);
	j.trace = &e->stream_trace;
	/* What the addresses' phase narrowed goes on. */
	e->stream = judge_stream(&j, &query->target, &e->verdict, &seen);
	/* Of a target the word is what the rules lack; of bytes it is what they are. */
	if (e->stream.reason == REASON_SCHEME_MISMATCH)
		e->stream.reason = REASON_SCHEME_NOT_ALLOWED;
	/* A websocket is HTTP until the answer that switches, and under http alone that answer is refused. */
	if (query->scheme == SCHEME_WS && e->stream.allow && (e->stream.schemes & (BIT(SCHEME_WS) | BIT(SCHEME_TCP))) == 0) {
		e->stream.allow = e->stream.would_deny = false;
		e->stream.reason = REASON_SCHEME_NOT_ALLOWED;
	}
	e->verdict = e->stream;
}

void explain_refusal(const struct explain_ground *ground, const struct explanation *e,
		     struct refusal *out_refusal)
{
	struct record r = { .event = RECORD_DECISION, .wall_ms = ground->wall_ms };
	struct lease lease;

	lease_table_read(e->lease, &lease);
	memcpy(r.lease, lease.id, sizeof(r.lease));
	memcpy(r.tenant, lease.tenant, sizeof(r.tenant));
	memcpy(r.run, lease.run, sizeof(r.run));
	memcpy(r.environment_class, lease.environment_class, sizeof(r.environment_class));
	r.rev = lease.rev;
	r.target_known = e->query.name_fault == REASON_ALLOWED;
	r.target = e->query.target;
	memcpy(r.target_raw, e->query.raw, sizeof(r.target_raw));
	if (e->query.scheme_known)
		r.scheme_plus_one = (uint8_t)(e->query.scheme + 1);
	r.phase = e->phase;
	r.verdict = e->verdict;
	if (e->decided_by != NULL) {
		r.refused_addr = e->decided_by->addr;
		r.addr_class = e->decided_by->finding.class;
	}
	refusal_from_record(&r, ground->snapshot, out_refusal);
}
