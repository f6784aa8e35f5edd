/*
 * One question to judgement, phase by phase, with a trace of the rules: the answer that the daemon would give, without a network. Pure;
 * prints nothing. Used by `explain` and its batch form.
 */
#ifndef EGRESS_CLI_EXPLAIN_H
#define EGRESS_CLI_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"
#include "judge/judge.h"
#include "judge/refusal.h"

#define EXPLAIN_ADDRESSES_MAX 32

/* What judgement stands on besides the question. Borrowed. */
struct explain_ground {
	const struct snapshot *snapshot;
	const struct addr_site *site;
	const struct geoip *geoip; /* NULL: none */
	uint64_t wall_ms;
};

/* The question. */
struct explain_query {
	enum reason name_fault; /* ALLOWED; else what the host is refused as before any rule: raw stands for it */
	char raw[TARGET_TEXT_MAX]; /* escaped host and port */
	struct target target;   /* when the name has no fault */
	bool scheme_known;
	enum scheme scheme;
	struct addr addresses[EXPLAIN_ADDRESSES_MAX]; /* what the name resolves to */
	size_t address_count;
};

struct explain_address {
	struct addr addr;
	struct addr_finding finding;
	struct verdict verdict;
	bool is_dropped; /* an undeclared NAT64 answer beside a passing IPv4 one */
	struct trace trace;
};

struct explanation {
	struct explain_query query;
	const struct lease_table_entry *lease;
	struct verdict request;
	struct trace request_trace;
	struct explain_address addresses[EXPLAIN_ADDRESSES_MAX];
	size_t address_count;
	bool needs_dns;    /* allowed so far; the name's addresses were not given */
	bool has_stream;
	struct verdict stream;
	struct trace stream_trace;

	enum facts_phase phase; /* the one that decided */
	struct verdict verdict; /* the last word */
	const struct explain_address *decided_by; /* of the address that refused; else NULL */
};

/* Read "scheme://host[:port]", a URL or "host:port"; a host that no guest may ask for is a question too. INVALID with a sentence in out_reason. */
enum err explain_read_target(struct text text, struct explain_query *out_query, char *out_reason, size_t cap) ATTR_MUST_CHECK;
/* Ask every phase. *out_explanation is filled whole. */
void explain(const struct explain_ground *ground, const struct lease_table_entry *lease, const struct explain_query *query,
	     struct explanation *out_explanation);
/* What is asked for as people write it, without its scheme; into TARGET_TEXT_MAX bytes; returns out_text. */
const char *explain_print_target(const struct explain_query *query, char *out_text);
/* The typed refusal of a denied (or only reported) explanation. */
void explain_refusal(const struct explain_ground *ground, const struct explanation *e, struct refusal *out_refusal);

#endif
