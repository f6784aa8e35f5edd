/*
 * What tools may ask of a running daemon. Each command is a row; what concerns workers is asked of each on its own thread; what
 * concerns the sidecar is forwarded to it and answered by it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/daemon.h"
#include "daemon/report.h"

static const char *control_word(enum gate_control state)
{
	static const char *const words[] = {
		[GATE_COLD] = "COLD", [GATE_SYNC] = "SYNC",   [GATE_LIVE] = "LIVE", [GATE_LAG] = "LAG",
		[GATE_STALE] = "STALE", [GATE_CUT] = "CUT", [GATE_HALT] = "HALT",
	};

	return state < ARRAY_LEN(words) ? words[state] : "HALT";
}

static void on_sessions(void *arg, struct command_call *call)
{
	report_start(arg, call, report_sessions,
		     "LEASE                    STATE        SOURCE                 TARGET                               "
		     "UPSTREAM                    AGE_S           UP         DOWN");
}

static void on_pins(void *arg, struct command_call *call)
{
	if (call->arg_count > 1 && strcmp(call->args[1], "flush") == 0)
		report_start(arg, call, report_flush_pins, NULL);
	else if (call->arg_count > 2)
		command_done(call, 2, "pins takes a lease, or flush and a lease");
	else
		report_start(arg, call, report_pins,
			     "LEASE                    NAME                                     TYPE  OUTCOME           LEFT_S ADDRESSES");
}

static void on_why(void *arg, struct command_call *call)
{
	report_start(arg, call, report_why, NULL);
}

static const char *lease_state_word(const struct daemon *d, const struct lease_table_entry *entry)
{
	enum reason why = gate_check(d->gate, entry->slot, gate_generation(d->gate, entry->slot), clock_mono_ns());

	if (why == REASON_ALLOWED)
		why = lease_table_is_live(entry, clock_wall_ms());
	return why == REASON_ALLOWED ? "live" : reason_word(why);
}

static int compare_leases(const void *a, const void *b)
{
	const struct snapshot_lease *const *x = a, *const *y = b;

	return segment_compare_ids((*x)->id, (*y)->id);
}

struct lease_list {
	const struct snapshot_lease **at;
	size_t count;
};

static void on_listed(void *arg, const struct snapshot_lease *lease)
{
	struct lease_list *list = arg;

	list->at[list->count++] = lease;
}

static void print_lease(struct daemon *d, struct command_call *call, const struct lease_table_entry *entry)
{
	struct lease l;

	lease_table_read(entry, &l);
	if (call->json)
		command_print(call, "{\"lease\":\"%s\",\"state\":\"%s\",\"rev\":%" PRIu64 ",\"slot\":%u,\"tenant\":\"%s\"}\n", l.id,
			      lease_state_word(d, entry), l.rev, entry->slot, l.tenant);
	else
		command_print(call, "%-32s %-18s %8" PRIu64 " %6u %s\n", l.id, lease_state_word(d, entry), l.rev, entry->slot,
			      l.tenant);
}

static void on_leases(void *arg, struct command_call *call)
{
	struct daemon *d = arg;
	struct snapshot *s = d->table == NULL ? NULL : lease_table_snapshot(d->table);
	struct lease_list list = { .at = alloc_array(s == NULL ? 0 : snapshot_lease_count(s), sizeof(*list.at)) };

	if (list.at == NULL) {
		command_done(call, 1, "out of memory");
		return;
	}
	if (s != NULL)
		snapshot_visit(s, on_listed, &list);
	if (list.count > 1)
		qsort(list.at, list.count, sizeof(*list.at), compare_leases);
	if (!call->json)
		command_print(call, "%-32s %-18s %8s %6s %s\n", "LEASE", "STATE", "REV", "SLOT", "TENANT");
	for (size_t i = 0; i < list.count; i++)
		print_lease(d, call, lease_table_find(d->table, list.at[i]->id));
	alloc_free(list.at);
	command_done(call, 0, NULL);
}

/* "in 9869 ms unless control confirms", or since when not. */
static const char *print_deadline(int64_t in_ms, bool was_confirmed, char out_text[64])
{
	if (!was_confirmed)
		return "already: control never confirmed";
	if (in_ms > 0)
		snprintf(out_text, 64, "in %" PRId64 " ms unless control confirms", in_ms);
	else
		snprintf(out_text, 64, "since %" PRId64 " ms, until control confirms", -in_ms);
	return out_text;
}

static void on_health(void *arg, struct command_call *call)
{
	struct daemon *d = arg;
	uint64_t refuse_at, cut_at, now = clock_mono_ns();
	bool ready = daemon_is_ready(d), alive = daemon_is_alive(d);
	size_t leases = d->table == NULL ? 0 : snapshot_lease_count(lease_table_snapshot(d->table));
	int64_t refuse_in, cut_in;
	char refuses[64], cuts[64];

	gate_deadlines(d->gate, &refuse_at, &cut_at);
	refuse_in = ((int64_t)refuse_at - (int64_t)now) / 1000000;
	cut_in = ((int64_t)cut_at - (int64_t)now) / 1000000;
	if (call->json)
		command_print(call,
			      "{\"ready\":%s,\"alive\":%s,\"control\":\"%s\",\"sidecar\":%s,\"snapshot\":%" PRIu64
			      ",\"leases\":%zu,\"workers\":%u,\"refuse_in_ms\":%" PRId64 ",\"cut_in_ms\":%" PRId64 "}\n",
			      ready ? "true" : "false", alive ? "true" : "false", control_word(gate_control(d->gate)),
			      d->sidecar != NULL ? "true" : "false", d->adopted_version, leases, d->shared.count, refuse_in,
			      cut_in);
	else
		command_print(call,
			      "ready      %s\nalive      %s\ncontrol    %s%s%s\nsidecar    %s\nsnapshot   %" PRIu64
			      "\nleases     %zu\nworkers    %u\nrefuses    %s\ncuts       %s\n",
			      ready ? "yes" : "no", alive ? "yes" : "no", control_word(gate_control(d->gate)),
			      d->sidecar_state[0] == '\0' ? "" : ", sidecar says ", d->sidecar_state,
			      d->sidecar != NULL ? "connected" : "not connected", d->adopted_version, leases, d->shared.count,
			      print_deadline(refuse_in, refuse_at != 0, refuses), print_deadline(cut_in, cut_at != 0, cuts));
	command_done(call, ready && alive ? 0 : 1, NULL);
}

static void on_top(void *arg, struct command_call *call)
{
	struct daemon *d = arg;
	static const struct {
		const char *word;
		enum metric id;
	} rows[] = {
		{ "accepted", METRIC_ACCEPTED },	 { "rejected", METRIC_REJECTED },
		{ "handshake", METRIC_OPEN_HANDSHAKE },	 { "resolving", METRIC_OPEN_RESOLVING },
		{ "connecting", METRIC_OPEN_CONNECTING }, { "relaying", METRIC_OPEN_RELAYING },
		{ "bytes_up", METRIC_BYTES_UP },	 { "bytes_down", METRIC_BYTES_DOWN },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t sum = 0;

		for (unsigned k = 0; k < d->shared.count; k++)
			sum += atomic_load_explicit(&d->shared.worker[k]->metrics->value[rows[i].id], memory_order_relaxed);
		if (call->json)
			command_print(call, "%s\"%s\":%" PRIu64 "%s", i == 0 ? "{" : ",", rows[i].word, sum,
				      i + 1 == ARRAY_LEN(rows) ? "}\n" : "");
		else
			command_print(call, "%-12s %" PRIu64 "\n", rows[i].word, sum);
	}
	command_done(call, 0, NULL);
}

static void on_drain(void *arg, struct command_call *call)
{
	daemon_drain(arg);
	command_done(call, 0, "draining");
}

/* Hand a command to the sidecar; its OUTPUT and DONE come back by commands_answered. */
static void on_forward(void *arg, struct command_call *call)
{
	struct daemon *d = arg;
	char line[1024];
	size_t len = 0;
	struct ctl_msg msg = { .type = CTL_COMMAND };

	if (d->sidecar == NULL || d->calls.count >= CALLS_MAX) {
		command_done(call, 2, d->sidecar == NULL ? "no sidecar is connected; it does this" : "too many commands at once");
		return;
	}
	for (unsigned i = 0; i < call->arg_count && len < sizeof(line); i++)
		len += (size_t)snprintf(line + len, sizeof(line) - len, "%s%s", i == 0 ? "" : "\t", call->args[i]);
	if (len >= sizeof(line)) {
		command_done(call, 2, "the command is too long");
		return;
	}
	msg.field[0].number = ++d->next_request;
	msg.field[1].bytes = (struct text){ .at = line, .len = len };
	msg.field[2].number = call->json;
	if (channel_send(d->sidecar->channel, &msg, -1) != ERR_OK) {
		command_done(call, 2, "the sidecar does not listen");
		return;
	}
	call->state = (void *)(uintptr_t)d->next_request; /* a number, so that an answer finds its call */
	list_push_back(&d->calls, &call->node);
}

static const struct command_row rows[] = {
	{ "sessions", 0, 1, false, on_sessions },
	{ "leases", 0, 0, false, on_leases },
	{ "pins", 0, 2, false, on_pins },
	{ "why", 0, 1, false, on_why },
	{ "health", 0, 0, false, on_health },
	{ "top", 0, 0, false, on_top },
	{ "drain", 0, 0, true, on_drain },
	{ "revoke", 1, 1, true, on_forward },
	{ "sidecar", 0, 0, false, on_forward },
};

void commands_run(struct peer *p, const struct ctl_msg *msg)
{
	command_run(rows, ARRAY_LEN(rows), p->daemon, p->channel, msg, geteuid());
}

void commands_answered(struct daemon *d, const struct ctl_msg *msg)
{
	struct list_node *n, *next;

	LIST_FOREACH (n, next, &d->calls) {
		struct command_call *call = CONTAINER_OF(n, struct command_call, node);
		char message[256];
		struct text text;

		if ((uintptr_t)call->state != msg->field[0].number || call->state == NULL)
			continue;
		if (msg->type == CTL_OUTPUT) {
			command_write(call, msg->field[1].bytes.at, msg->field[1].bytes.len);
			return;
		}
		text = msg->field[2].bytes;
		snprintf(message, sizeof(message), "%.*s", (int)text.len, text.at);
		list_remove(&d->calls, n);
		command_done(call, msg->field[1].number > 2 ? 2 : (unsigned)msg->field[1].number, message);
		return;
	}
}

void commands_forget(struct daemon *d, struct peer *gone)
{
	struct list_node *n, *next;

	LIST_FOREACH (n, next, &d->calls) {
		struct command_call *call = CONTAINER_OF(n, struct command_call, node);

		if (call->channel == gone->channel)
			command_forget_channel(call);
	}
}

void commands_sidecar_lost(struct daemon *d)
{
	struct list_node *n, *next;

	LIST_FOREACH (n, next, &d->calls) {
		struct command_call *call = CONTAINER_OF(n, struct command_call, node);

		if (call->state == NULL)
			continue;
		list_remove(&d->calls, n);
		command_done(call, 2, "the sidecar went away before it answered");
	}
}
