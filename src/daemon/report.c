/* Reports: gathered on the workers' threads into one buffer each, printed on the main thread. Lines are JSON objects or columns. */
#include "daemon/report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "judge/refusal.h"

struct report {
	struct daemon *daemon;
	struct command_call *call; /* kept: ends with command_done */
	report_fn *fn;
	struct report_question question[WORKER_MAX];
	struct buf out[WORKER_MAX];
	unsigned remaining;
};

static void line(struct buf *out, const char *format, ...) ATTR_PRINTF(2, 3);
static void line(struct buf *out, const char *format, ...)
{
	char text[REFUSAL_JSON_MAX + 512];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (len <= 0 || (size_t)len >= sizeof(text))
		return;
	(void)!buf_append(out, text, (size_t)len); /* beyond its limit a report ends */
}

static uint64_t ask(void *arg, struct worker *w)
{
	struct report *r = arg;

	r->fn(w, &r->question[w->index]);
	return 0;
}

static void on_asked(void *arg, unsigned worker, uint64_t result)
{
	struct report *r = arg;

	if (--r->remaining > 0)
		return;
	list_remove(&r->daemon->calls, &r->call->node);
	for (unsigned i = 0; i < r->daemon->shared.count; i++) {
		command_write(r->call, (const char *)buf_data(&r->out[i]), r->out[i].len);
		buf_finish(&r->out[i]);
	}
	command_done(r->call, 0, NULL);
	alloc_free(r);
}

void report_start(struct daemon *d, struct command_call *call, report_fn *fn, const char *heading)
{
	struct report *r = alloc_zeroed(sizeof(*r));
	struct worker_reply reply = { .loop = d->loop, .on_done = on_asked, .arg = r };
	const char *lease = call->arg_count > 1 ? call->args[call->arg_count - 1] : "";

	if (r == NULL || d->calls.count >= CALLS_MAX) {
		alloc_free(r);
		command_done(call, 2, r == NULL ? "out of memory" : "too many commands at once");
		return;
	}
	r->daemon = d;
	r->call = call;
	r->fn = fn;
	r->remaining = 1;
	if (heading != NULL && !call->json)
		command_print(call, "%s\n", heading);
	list_push_back(&d->calls, &call->node);
	for (unsigned i = 0; i < d->shared.count; i++) {
		buf_init(&r->out[i], REPORT_BYTES_MAX);
		r->question[i] = (struct report_question){ .json = call->json, .out = &r->out[i] };
		strncpy(r->question[i].lease, lease, sizeof(r->question[i].lease) - 1);
		if (worker_call(d->shared.worker[i], ask, r, &reply) == ERR_OK)
			r->remaining++;
	}
	on_asked(r, 0, 0);
}

static bool is_asked_for(const struct lease_home *h, const struct report_question *q)
{
	return q->lease[0] == '\0' || (h != NULL && strcmp(h->lease.id, q->lease) == 0);
}

static void report_session(const struct session *s, const struct report_question *q, uint64_t now_ms)
{
	char target[TARGET_TEXT_MAX] = "-", source[ENDPOINT_TEXT_MAX] = "unix", upstream[ENDPOINT_TEXT_MAX] = "-";
	const char *lease = s->home == NULL ? "-" : s->home->lease.id;
	struct relay_counts counts = { .bytes = { 0 } };

	if (s->target_known)
		target_print(&s->target, target);
	if (s->source.addr.family != ADDR_NONE)
		endpoint_print(&s->source, source);
	if (s->upstream.addr.family != ADDR_NONE)
		endpoint_print(&s->upstream, upstream);
	if (s->relay != NULL)
		relay_count(s->relay, &counts);
	if (q->json)
		line(q->out,
		     "{\"id\":\"%s\",\"lease\":\"%s\",\"state\":\"%s\",\"listener\":\"%s\",\"source\":\"%s\",\"target\":\"%s\","
		     "\"upstream\":\"%s\",\"age_ms\":%" PRIu64 ",\"bytes_up\":%" PRIu64 ",\"bytes_down\":%" PRIu64 ",\"worker\":%u}\n",
		     s->id, lease, session_state_word(s->state), s->listener, source, target, upstream,
		     now_ms - s->accepted_ms, counts.bytes[RELAY_UP], counts.bytes[RELAY_DOWN], s->worker->index);
	else
		line(q->out, "%-24s %-12s %-22s %-36s %-24s %8" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n", lease,
		     session_state_word(s->state), source, target, upstream, (now_ms - s->accepted_ms) / 1000,
		     counts.bytes[RELAY_UP], counts.bytes[RELAY_DOWN]);
}

void report_sessions(struct worker *w, const struct report_question *q)
{
	struct list_node *n, *next;

	for (int i = 0; i < SESSION_STATE_COUNT; i++) {
		LIST_FOREACH (n, next, &w->in_state[i]) {
			const struct session *s = CONTAINER_OF(n, struct session, in_state);

			if (is_asked_for(s->home, q))
				report_session(s, q, loop_now_ms(w->loop));
		}
	}
}

static void report_pin(const struct lease_home *h, const struct pin *pin, const struct report_question *q, uint64_t now_ms)
{
	char left[32] = "lease", addrs[DNS_ANSWER_ADDRS_MAX * ADDR_TEXT_MAX] = "";
	size_t len = 0;

	if (!pin->for_lease)
		snprintf(left, sizeof(left), "%" PRIu64, pin->expires_ms > now_ms ? (pin->expires_ms - now_ms) / 1000 : 0);
	for (unsigned i = 0; i < pin->addr_count && len < sizeof(addrs); i++) {
		char text[ADDR_TEXT_MAX];

		len += (size_t)snprintf(addrs + len, sizeof(addrs) - len, q->json ? "%s\"%s\"" : "%s%s", i == 0 ? "" : ",",
					addr_print(&pin->addrs[i], text));
	}
	if (q->json)
		line(q->out, "{\"lease\":\"%s\",\"name\":\"%s\",\"type\":\"%s\",\"outcome\":\"%s\",\"left_s\":\"%s\",\"addresses\":[%s]}\n",
		     h->lease.id, pin->name, pin->type == DNS_TYPE_A ? "A" : "AAAA",
		     dns_outcome_word((enum dns_outcome)pin->outcome), left, addrs);
	else
		line(q->out, "%-24s %-40s %-5s %-15s %8s %s\n", h->lease.id, pin->name, pin->type == DNS_TYPE_A ? "A" : "AAAA",
		     dns_outcome_word((enum dns_outcome)pin->outcome), left, addrs);
}

/* What is used up of the lease's names. */
static void report_budget(const struct lease_home *h, const struct world_options *o, const struct report_question *q)
{
	uint64_t names_max = lease_home_dns_limits(h, o).names, again = h->dns.again_milli / 1000;

	if (q->json)
		line(q->out,
		     "{\"lease\":\"%s\",\"names\":%zu,\"names_max\":%" PRIu64 ",\"label_bits\":%" PRIu64 ",\"label_bits_max\":%" PRIu64
		     ",\"again_bits\":%" PRIu64 ",\"again_bits_max\":%" PRIu64 ",\"lookups_refused\":%" PRIu64 "}\n",
		     h->lease.id, h->dns.name_count, names_max, h->dns.bits, names_max * DNS_BUDGET_BITS_PER_NAME, again,
		     names_max * DNS_BUDGET_BITS_AGAIN, h->dns.refused);
	else
		line(q->out,
		     "%-24s %zu of %" PRIu64 " names, %" PRIu64 " of %" PRIu64 " bits in labels, %" PRIu64 " of %" PRIu64
		     " in asking again, %" PRIu64 " lookups refused\n",
		     h->lease.id, h->dns.name_count, names_max, h->dns.bits, names_max * DNS_BUDGET_BITS_PER_NAME, again,
		     names_max * DNS_BUDGET_BITS_AGAIN, h->dns.refused);
}

void report_pins(struct worker *w, const struct report_question *q)
{
	struct list_node *n, *next;

	LIST_FOREACH (n, next, &w->home_list) {
		const struct lease_home *h = CONTAINER_OF(n, struct lease_home, peers);
		const struct pin *pin = NULL;

		if (h->pins == NULL || !is_asked_for(h, q))
			continue;
		report_budget(h, &w->world->options, q);
		while ((pin = pins_next(h->pins, pin)) != NULL)
			report_pin(h, pin, q, loop_now_ms(w->loop));
	}
}

void report_flush_pins(struct worker *w, const struct report_question *q)
{
	struct list_node *n, *next;

	LIST_FOREACH (n, next, &w->home_list) {
		struct lease_home *h = CONTAINER_OF(n, struct lease_home, peers);

		if (h->pins == NULL || (strcmp(q->lease, "flush") != 0 && !is_asked_for(h, q)))
			continue;
		if (!q->json)
			line(q->out, "%s: %zu pins flushed\n", h->lease.id, pins_count(h->pins));
		else
			line(q->out, "{\"lease\":\"%s\",\"flushed\":%zu}\n", h->lease.id, pins_count(h->pins));
		pins_flush(h->pins);
	}
}

static void report_refusal(struct worker *w, const struct record *record, const struct report_question *q)
{
	struct refusal refusal;
	char json[REFUSAL_JSON_MAX], when[25], source[ENDPOINT_TEXT_MAX] = "a unix socket";
	size_t len;

	refusal_from_record(record, world_snapshot(w->world), &refusal);
	if (q->json) {
		len = refusal_json(&refusal, true, json, sizeof(json));
		line(q->out, "%.*s\n", (int)len, json);
		return;
	}
	clock_print_wall(record->wall_ms, when);
	if (record->source.addr.family != ADDR_NONE)
		endpoint_print(&record->source, source);
	line(q->out, "%s  %s  %s  from %s\n  %s\n  %s\n", when, refusal.lease[0] == '\0' ? "(no lease)" : refusal.lease,
	     reason_word(refusal.reason), source, refusal.what, refusal.why);
	if (refusal.has_fix)
		line(q->out, "  to allow it: allow %s\n", refusal.fix_rule);
	line(q->out, "  decision %s\n", refusal.decision);
}

static void report_recent(struct worker *w, const struct recent *r, const struct report_question *q)
{
	const struct record *record;
	uint64_t at = 0;

	while ((record = recent_next(r, &at)) != NULL)
		report_refusal(w, record, q);
}

void report_why(struct worker *w, const struct report_question *q)
{
	struct list_node *n, *next;

	LIST_FOREACH (n, next, &w->home_list) {
		const struct lease_home *h = CONTAINER_OF(n, struct lease_home, peers);

		if (is_asked_for(h, q))
			report_recent(w, &h->refused, q);
	}
	if (is_asked_for(NULL, q))
		report_recent(w, &w->refused, q);
}
