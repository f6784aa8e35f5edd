/*
 * A refusing record to sentences for people and to the narrowest rule that would have helped. Only explains: every fact comes from the record,
 * and the ceiling is asked whether a wider lease could work at all. Called by proxy (403 bodies, `egress.invalid`), analysis and the tools.
 */
#include "judge/refusal.h"

#include <stdio.h>
#include <string.h>

#include "base/sink.h"
#include "policy/match.h"

#define SUBJECT_MAX (RULE_TEXT_MAX + 2)

static const struct {
	const char *kind, *label;
} labels[] = {
	{ "lease", "Network policy" },	{ "ruleset", "Shared rules" },
	{ "ceiling", "Operator ceiling" }, { "address", "Address safety" },
	{ "control", "Policy control" },   { "identity", "Guest identity" },
	{ "limits", "Lease limits" },	   { "protocol", "Protocol" },
	{ "network", "Network" },	   { "proxy", "Proxy" },
};

static const char *kind_of_reason(enum reason r)
{
	if (r >= REASON_SOCKS_VERSION && r <= REASON_PROXY_HEADER_BAD)
		return "protocol";
	if (r >= REASON_RESOURCE && r <= REASON_INTERNAL)
		return "proxy";
	if (r >= REASON_NOT_READY && r <= REASON_AUDIT_BACKPRESSURE)
		return "control";
	if (r >= REASON_AUTH_REQUIRED && r <= REASON_LEASE_AMBIGUOUS)
		return "identity";
	if (r >= REASON_LIMIT_CONNECTIONS && r <= REASON_LIFETIME)
		return "limits";
	if (r >= REASON_NAME_INVALID && r <= REASON_SPECIAL_ADDRESS)
		return "address";
	if (r >= REASON_DNS_NXDOMAIN && r <= REASON_DNS_TIMEOUT)
		return "network";
	if (r >= REASON_UPSTREAM_REFUSED && r <= REASON_UPSTREAM_TIMEOUT)
		return "network";
	if (r >= REASON_FIRST_FLIGHT_TIMEOUT && r <= REASON_RESPONSE_MALFORMED &&
	    r != REASON_REDIRECT_DENIED)
		return "protocol";
	return "lease";
}

/* Whose rule spoke; a verdict that something else spoilt later still names the rule that had allowed it. */
static const char *kind_of(const struct verdict *v)
{
	const char *kind = kind_of_reason(v->reason);

	if (strcmp(kind, "lease") != 0 || v->source == VERDICT_BY_NOTHING)
		return kind;
	if (v->source == VERDICT_BY_CEILING)
		return "ceiling";
	return v->source == VERDICT_BY_RULESET ? "ruleset" : "lease";
}

/* The scheme that asks for least: what was seen, else what the port is for, else opaque bytes. */
static enum scheme narrowest_scheme(const struct record *r)
{
	static const enum scheme usual[] = { SCHEME_HTTPS, SCHEME_HTTP, SCHEME_SSH };
	bool literal = r->target.kind == TARGET_ADDRESS;

	if (r->scheme_plus_one > 0 && r->scheme_plus_one <= SCHEME_COUNT) {
		enum scheme seen = (enum scheme)(r->scheme_plus_one - 1);

		if (!literal || scheme_row(seen)->takes_addresses)
			return seen;
	}
	for (size_t i = 0; i < ARRAY_LEN(usual); i++) {
		const struct scheme_row *row = scheme_row(usual[i]);

		if (row->default_port == r->target.port && (!literal || row->takes_addresses))
			return usual[i];
	}
	return SCHEME_TCP;
}

static void narrowest_rule(const struct record *r, struct rule *out_rule)
{
	struct rule rule = {
		.action = RULE_ALLOW,
		.scheme_known = true,
		.scheme = narrowest_scheme(r),
		.host = r->target.kind == TARGET_NAME ? RULE_HOST_NAME : RULE_HOST_PREFIX,
		.port_count = 1,
		.ports = { { .first = r->target.port, .last = r->target.port } },
	};

	if (r->target.kind == TARGET_NAME) {
		rule.name = r->target.name;
	} else {
		rule.prefix.addr = r->target.addr;
		rule.prefix.len = (uint8_t)(addr_len(&r->target.addr) * 8);
	}
	*out_rule = rule;
}

static bool lease_takes_literals(const struct record *r, const struct snapshot *snapshot)
{
	const struct snapshot_lease *lease = snapshot_lease_find(snapshot, text_of(r->lease));

	return lease != NULL &&
	       (segment_lease(lease->segment)->options & LAYOUT_OPTION_NAMES_ONLY) == 0;
}

/* Would the narrowest rule in the lease have let this through? */
static bool rule_would_help(const struct record *r, const struct rule *rule,
			    const struct snapshot *snapshot)
{
	struct facts facts = { .phase = PHASE_REQUEST, .scheme_known = true, .scheme = rule->scheme };

	if (snapshot == NULL || !r->target_known || r->target.port == 0)
		return false;
	switch (r->verdict.reason) {
	case REASON_NO_RULE:
	case REASON_PORT_NOT_ALLOWED:
	case REASON_SCHEME_NOT_ALLOWED:
		break;
	case REASON_LITERAL_NOT_LISTED:
		if (!lease_takes_literals(r, snapshot))
			return false;
		break;
	case REASON_SCHEME_MISMATCH:
		/* A tcp rule would stay hidden behind the typed one that did not fit. */
		if (rule->scheme == SCHEME_TCP)
			return false;
		break;
	default:
		return false;
	}
	facts.target = r->target;
	return policy_ceiling_allows(snapshot, &facts);
}

static void describe_subject(const struct record *r, char out_subject[SUBJECT_MAX])
{
	struct rule rule;

	if (r->target_known) {
		narrowest_rule(r, &rule);
		rule_print(&rule, out_subject);
	} else if (r->target_raw[0] != '\0') {
		snprintf(out_subject, SUBJECT_MAX, "'%s'", r->target_raw);
	} else {
		snprintf(out_subject, SUBJECT_MAX, "a destination");
	}
}

static void say_what(const struct record *r, const char *subject, struct refusal *out)
{
	size_t cap = sizeof(out->what);

	if (r->verdict.reason == REASON_REDIRECT_DENIED && r->redirect_to[0] != '\0') {
		snprintf(out->what, cap,
			 "The run was redirected to %s, which its network policy does not allow.",
			 r->redirect_to);
		return;
	}
	switch (reason_fault(r->verdict.reason)) {
	case REASON_FAULT_POLICY:
		snprintf(out->what, cap,
			 "The run tried to reach %s, which its network policy does not allow.", subject);
		break;
	case REASON_FAULT_GUEST:
		snprintf(out->what, cap,
			 "The run tried to reach %s in a way that cannot be let through.", subject);
		break;
	case REASON_FAULT_UPSTREAM:
		snprintf(out->what, cap, "The run tried to reach %s, which did not work out.",
			 subject);
		break;
	case REASON_FAULT_CONTROL:
	case REASON_FAULT_LOCAL:
	case REASON_FAULT_NOBODY:
		snprintf(out->what, cap, "The run tried to reach %s while the proxy could not serve it.",
			 subject);
		break;
	}
}

static void say_why(const struct record *r, const char *host, struct refusal *out)
{
	size_t cap = sizeof(out->why);
	unsigned long long rev = r->rev;
	char *why = out->why;

	switch (r->verdict.reason) {
	case REASON_NO_RULE:
		snprintf(why, cap, "No rule of lease %s (revision %llu) matches %s.", r->lease, rev, host);
		break;
	case REASON_PORT_NOT_ALLOWED:
		snprintf(why, cap, "Lease %s (revision %llu) lists %s, but not with port %u.", r->lease,
			 rev, host, (unsigned)r->target.port);
		break;
	case REASON_LITERAL_NOT_LISTED:
		snprintf(why, cap, "Lease %s (revision %llu) does not list the address %s.", r->lease,
			 rev, host);
		break;
	case REASON_RULE_DENY:
		snprintf(why, cap, "Rule %s of lease %s (revision %llu) denies %s.",
			 r->verdict.rule_id[0] != '\0' ? r->verdict.rule_id : "without an id", r->lease,
			 rev, host);
		break;
	case REASON_CEILING_DENY:
		snprintf(why, cap, "The operator's ceiling does not let any lease reach %s here.", host);
		break;
	default:
		snprintf(why, cap, "%s.", reason_text(r->verdict.reason));
		if (why[0] >= 'a' && why[0] <= 'z')
			why[0] = (char)(why[0] - ('a' - 'A'));
		break;
	}
}

/* What to do where a wider lease is no help. */
static const char *advice(enum reason r, const char *kind)
{
	static const struct {
		const char *kind, *text;
	} rows[] = {
		{ "ceiling", "Ask the operator; no lease can go beyond the ceiling." },
		{ "address", "Use a public host name; private destinations are the operator's to open." },
		{ "control", "Try again when the proxy has a confirmed policy." },
		{ "identity", "Check the credentials and the way the run reaches the proxy." },
		{ "limits", "Slow down, or ask for higher limits of the lease." },
		{ "protocol", "Use the protocol, and the host name, that the rule is for." },
		{ "network", "Check the destination; the network policy is not the cause." },
		{ "proxy", "Try again; tell the operator if it goes on." },
	};

	if (r == REASON_RULE_DENY)
		return "Use another destination, or have the deny rule taken back.";
	if (r == REASON_OWN_ADDRESS || r == REASON_METADATA_ADDRESS)
		return "Use another destination; this one is never opened.";
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (strcmp(rows[i].kind, kind) == 0)
			return rows[i].text;
	}
	return "Ask whoever gave the run its lease.";
}

void refusal_from_record(const struct record *record, const struct snapshot *snapshot,
			 struct refusal *out_refusal)
{
	struct refusal r = { .reason = record->verdict.reason, .rev = record->rev };
	char subject[SUBJECT_MAX], host[TARGET_TEXT_MAX] = "it";
	struct rule rule;

	r.rule_kind = kind_of(&record->verdict);
	memcpy(r.rule_id, record->verdict.rule_id, sizeof(r.rule_id));
	memcpy(r.environment_class, record->environment_class, sizeof(r.environment_class));
	memcpy(r.lease, record->lease, sizeof(r.lease));
	memcpy(r.decision, record->id, sizeof(r.decision));
	describe_subject(record, subject);
	if (record->target_known)
		target_print_host(&record->target, host);
	say_what(record, subject, &r);
	say_why(record, host, &r);
	narrowest_rule(record, &rule);
	r.has_fix = rule_would_help(record, &rule, snapshot);
	if (r.has_fix) {
		rule_print(&rule, r.fix_rule);
		snprintf(r.suggested_fix, sizeof(r.suggested_fix),
			 "Add %s to the Worker's network limits.", r.fix_rule);
	} else {
		snprintf(r.suggested_fix, sizeof(r.suggested_fix), "%s",
			 advice(r.reason, r.rule_kind));
	}
	*out_refusal = r;
}

static void put_string(struct sink *s, const char *text)
{
	sink_u8(s, '"');
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			sink_format(s, "\\%c", c);
		else if (c < ' ' || c > '~')
			sink_format(s, "\\u%04x", (unsigned)c);
		else
			sink_u8(s, c);
	}
	sink_u8(s, '"');
}

static void put_member(struct sink *s, const char *key, const char *text)
{
	if (s->len > 1 && s->bytes[s->len - 1] != '{')
		sink_u8(s, ',');
	put_string(s, key);
	sink_u8(s, ':');
	if (text == NULL)
		sink_text(s, "null");
	else
		put_string(s, text);
}

static const char *or_null(const char *text)
{
	return text[0] == '\0' ? NULL : text;
}

static const char *label_of(const char *kind)
{
	for (size_t i = 0; i < ARRAY_LEN(labels); i++) {
		if (strcmp(labels[i].kind, kind) == 0)
			return labels[i].label;
	}
	return NULL;
}

size_t refusal_json(const struct refusal *r, bool with_fix, char *out_json, size_t cap)
{
	struct sink s = sink_over(out_json, cap == 0 ? 0 : cap - 1);

	sink_u8(&s, '{');
	put_member(&s, "code", "network_destination_denied");
	put_member(&s, "reason", reason_word(r->reason));
	put_member(&s, "what", r->what);
	put_member(&s, "why", r->why);
	if (with_fix) {
		put_member(&s, "suggested_fix", r->suggested_fix);
		if (r->has_fix) {
			sink_text(&s, ",\"fix_action\":{");
			put_member(&s, "action", "widen_network_policy");
			put_member(&s, "rule", r->fix_rule);
			sink_u8(&s, '}');
		}
		sink_text(&s, ",\"rule_reference\":{");
		put_member(&s, "kind", r->rule_kind);
		put_member(&s, "id", or_null(r->rule_id));
		put_member(&s, "label", label_of(r->rule_kind));
		sink_u8(&s, '}');
		put_member(&s, "environment_class", or_null(r->environment_class));
		put_member(&s, "lease", or_null(r->lease));
		sink_format(&s, ",\"rev\":%llu", (unsigned long long)r->rev);
	}
	put_member(&s, "decision", or_null(r->decision));
	put_member(&s, "set_by", "egress");
	sink_u8(&s, '}');
	if (cap == 0 || !sink_ok(&s)) {
		if (cap > 0)
			out_json[0] = '\0';
		return 0;
	}
	out_json[s.len] = '\0';
	return s.len;
}
