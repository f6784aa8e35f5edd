/* Records of every kind of event, for the encoding's test and for the schema's. */
#ifndef EGRESS_TESTS_DECISION_SAMPLES_H
#define EGRESS_TESTS_DECISION_SAMPLES_H

#include <stdio.h>
#include <string.h>

#include "decision/record_json.h"

#define SAMPLE_COUNT 12

static const struct record_observer sample_observer = { .proxy_uid = "px-0161-a",
							.version = "0.3.0" };

static inline void sample_copy(char *out_text, size_t cap, const char *text)
{
	snprintf(out_text, cap, "%s", text);
}

static inline struct endpoint sample_endpoint(const char *text)
{
	struct endpoint e = { 0 };

	return endpoint_parse(text_of(text), 0, &e) ? e : (struct endpoint){ 0 };
}

/* An allowed request for api.example.org from a guest over TCP. */
static inline struct record sample_allowed(void)
{
	struct record r = { .event = RECORD_DECISION,
			    .wall_ms = 1796051201456,
			    .sequence = 882113,
			    .rev = 17,
			    .worker = 3,
			    .target_known = true,
			    .scheme_plus_one = SCHEME_HTTPS + 1,
			    .phase = PHASE_ADDRESS,
			    .judge_us = 7,
			    .dns_ms = 2,
			    .connect_ms = 31 };

	record_make_id(r.wall_ms, (const uint8_t[10]){ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, r.id);
	sample_copy(r.lease, sizeof(r.lease), "ls_01JDX8M3");
	sample_copy(r.tenant, sizeof(r.tenant), "ws_acme");
	sample_copy(r.run, sizeof(r.run), "run_881");
	sample_copy(r.environment_class, sizeof(r.environment_class), "code");
	r.scope = RECORD_SCOPE_DECLARED;
	r.claimed_scope = RECORD_SCOPE_NONE;
	sample_copy(r.listener, sizeof(r.listener), "vm-7f3a");
	r.source = sample_endpoint("10.200.4.7:41822");
	r.upstream = sample_endpoint("198.51.100.9:443");
	(void)!target_from_host(text_of("api.example.org"), 443, &r.target);
	r.verdict = (struct verdict){ .allow = true, .source = VERDICT_BY_LEASE, .snapshot = 551 };
	sample_copy(r.verdict.rule_id, sizeof(r.verdict.rule_id), "r1");
	return r;
}

static inline struct record sample_denied(enum reason why, enum facts_phase phase)
{
	struct record r = sample_allowed();

	r.verdict = verdict_refuse(why);
	r.verdict.snapshot = 551;
	r.phase = phase;
	r.upstream = (struct endpoint){ 0 };
	r.connect_ms = 0;
	return r;
}

static inline struct record sample_ended(enum record_event event, enum reason why)
{
	struct record r = sample_allowed();

	r.event = event;
	r.verdict.reason = why;
	r.verdict.allow = why == REASON_ALLOWED;
	r.bytes_up = 1200;
	r.bytes_down = 98304;
	r.duration_ms = 5321;
	return r;
}

static inline struct record sample_record(unsigned index)
{
	struct record r;

	switch (index) {
	case 0:
		return sample_allowed();
	case 1:
		return sample_denied(REASON_NO_RULE, PHASE_REQUEST);
	case 2: /* a literal, folded, from a unix socket, before a lease is known */
		r = sample_denied(REASON_METADATA_ADDRESS, PHASE_REQUEST);
		r.lease[0] = r.tenant[0] = r.run[0] = r.environment_class[0] = '\0';
		r.rev = 0;
		r.scope = r.claimed_scope = RECORD_SCOPE_UNSAID;
		r.source = (struct endpoint){ 0 };
		r.target = (struct target){ .kind = TARGET_ADDRESS,
					    .addr = { ADDR_V4, { 169, 254, 169, 254 } },
					    .port = 80 };
		r.refused_addr = r.target.addr;
		r.addr_class = ADDR_CLASS_METADATA;
		r.count = 57;
		r.first_wall_ms = 1796051200000;
		return r;
	case 3: /* a name that was none */
		r = sample_denied(REASON_NAME_INVALID, PHASE_REQUEST);
		r.target_known = false;
		r.target = (struct target){ 0 };
		r.scheme_plus_one = 0;
		sample_copy(r.target_raw, sizeof(r.target_raw), "evil.test\\x00.wild.\"test\"");
		sample_copy(r.tag, sizeof(r.tag), "job \"7\" \x1b[2J \xff");
		return r;
	case 4:
		r = sample_denied(REASON_TLS_SNI_MISMATCH, PHASE_STREAM);
		r.upstream = sample_endpoint("[2001:db8::9]:443");
		sample_copy(r.server_name, sizeof(r.server_name), "other.example.org");
		r.ech = true;
		return r;
	case 5:
		r = sample_denied(REASON_REDIRECT_DENIED, PHASE_REDIRECT);
		r.inferred = true;
		sample_copy(r.redirect_from, sizeof(r.redirect_from), r.id);
		sample_copy(r.redirect_to, sizeof(r.redirect_to), "http://169.254.169.254/latest");
		return r;
	case 6:
		return sample_denied(REASON_UPSTREAM_REFUSED, PHASE_ADDRESS);
	case 7: /* report-only */
		r = sample_allowed();
		r.verdict.reason = REASON_NO_RULE;
		r.verdict.would_deny = true;
		r.verdict.source = VERDICT_BY_NOTHING;
		r.verdict.rule_id[0] = '\0';
		r.nat64_dropped = r.pin_failed = true;
		return r;
	case 8:
		return sample_ended(RECORD_CLOSE, REASON_ALLOWED);
	case 9:
		return sample_ended(RECORD_CLOSE, REASON_IDLE_TIMEOUT);
	case 10:
		r = sample_ended(RECORD_CUT, REASON_LEASE_REVOKED);
		r.verdict.source = VERDICT_BY_CEILING;
		r.verdict.rule_id[0] = '\0';
		r.bytes_up = UINT64_MAX;
		return r;
	default: /* a literal of the other family, dialled */
		r = sample_allowed();
		r.target = (struct target){ .kind = TARGET_ADDRESS,
					    .addr = { ADDR_V6, { 0x20, 1, 0xd, 0xb8 } },
					    .port = 22 };
		r.upstream = (struct endpoint){ r.target.addr, 22 };
		r.scheme_plus_one = SCHEME_SSH + 1;
		r.verdict.source = VERDICT_BY_RULESET;
		return r;
	}
}

#endif
