/*
 * What tools ask of the sidecar, through the daemon: revoke a lease by hand, and how it is doing. Promises that a
 * revocation is in force before it is written down, and that one that could not be written down says so.
 */
#include "sidecar/sidecar_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "control/command.h"
#include "source/sticky.h"

#define FAULTS_SHOWN 50

/* Keep it beyond a restart. */
static enum err keep_revocation(struct sidecar *s, const char *lease)
{
	struct sticky_state state = { 0 };

	/* A lease whose text cannot be read now is lifted only by a revision. */
	if (!publish_find(s->publish, lease, &state.rev))
		return ERR_NOT_FOUND;
	if (!driver_print(s->driver, lease, state.print))
		memset(state.print, 0, sizeof(state.print));
	return sticky_add(s->sticky, lease, &state);
}

static void say_revoked(struct command_call *call, const char *lease, bool is_known, uint64_t closed)
{
	if (call->json)
		command_print(call, "{\"lease\":\"%s\",\"state\":\"revoked\",\"closed\":%llu}\n", lease,
			      (unsigned long long)closed);
	else
		command_print(call, "%s revoked, %llu sessions closed\n", lease,
			      (unsigned long long)closed);
	command_done(call, is_known ? 0 : 2, is_known ? NULL : "the daemon went away meanwhile");
}

static void run_revoke(void *arg, struct command_call *call)
{
	struct sidecar *s = arg;
	const char *lease = call->args[1];
	char message[256];
	uint64_t rev;
	bool awaits;
	enum err e;

	if (!publish_find(s->publish, lease, &rev)) {
		command_done(call, 2, "there is no such lease");
		return;
	}
	e = publish_set_by_hand(s->publish, lease, true, &awaits);
	if (e == ERR_OK)
		e = keep_revocation(s, lease);
	if (e != ERR_OK) {
		snprintf(message, sizeof(message),
			 "revoked now, but a restart of the sidecar would lift it: %s", err_text(e));
		command_done(call, 2, message);
		return;
	}
	log_line(LOG_LEVEL_WARN, "lease_revoked_by_hand lease=%s", lease);
	if (awaits)
		list_push_back(&s->calls, &call->node);
	else
		say_revoked(call, lease, true, 0);
}

void sidecar_on_revoked(void *arg, const char *lease, bool is_known, uint64_t closed)
{
	struct sidecar *s = arg;
	struct list_node *node, *next;

	LIST_FOREACH (node, next, &s->calls) {
		struct command_call *call = CONTAINER_OF(node, struct command_call, node);

		if (strcmp(call->args[1], lease) != 0)
			continue;
		list_remove(&s->calls, node);
		say_revoked(call, lease, is_known, closed);
	}
}

void sidecar_forget_calls(struct sidecar *s)
{
	struct list_node *node;

	while ((node = list_pop_front(&s->calls)) != NULL) {
		struct command_call *call = CONTAINER_OF(node, struct command_call, node);

		command_forget_channel(call);
		command_done(call, 2, NULL);
	}
}

struct faults_shown {
	struct command_call *call;
	size_t count;
};

static void show_fault(void *arg, const struct fault *fault)
{
	struct faults_shown *shown = arg;
	char text[FAULT_TEXT_MAX + 256];

	if (shown->count++ >= FAULTS_SHOWN || shown->call->json)
		return;
	fault_print(fault, text, sizeof(text));
	command_print(shown->call, "  %s\n", text);
}

static void run_sidecar(void *arg, struct command_call *call)
{
	struct sidecar *s = arg;
	uint64_t now_ns = clock_mono_ns(), age_ms = 0;
	enum gate_control state = freshness_state(&s->freshness, now_ns);
	struct faults_shown shown = { .call = call };
	struct publish_counts counts;
	struct drain_counts records;
	size_t not_opened = hand_over_failures(s->hand_over) + drain_failures(s->drain);

	publish_count(s->publish, &counts);
	drain_count(s->drain, &records);
	if (s->freshness.has_beat)
		age_ms = (now_ns - s->freshness.beat_ns) / 1000000;
	if (!call->json) {
		command_print(call, "state        %s\nbeat age     %llu ms\nadopted      %s\n",
			      freshness_word(state), (unsigned long long)age_ms,
			      publish_is_adopted(s->publish) ? "yes" : "no");
		command_print(call, "leases       %zu active, %zu suspended, %zu revoked, %zu quarantined\n",
			      counts.active, counts.suspended, counts.revoked, counts.quarantined);
		command_print(call, "records      %llu delivered, %llu spooled, %llu lost\n", (unsigned long long)records.sent,
			      (unsigned long long)records.spool.records, (unsigned long long)records.dropped);
		command_print(call, "by hand      %zu revoked\nnot opened   %zu\nfaults and warnings\n",
			      sticky_count(s->sticky), not_opened);
	}
	driver_visit_faults(s->driver, show_fault, &shown);
	if (call->json)
		command_print(call,
			      "{\"state\":\"%s\",\"beat_age_ms\":%llu,\"adopted\":%s,\"active\":%zu,"
			      "\"suspended\":%zu,\"revoked\":%zu,\"quarantined\":%zu,\"by_hand\":%zu,"
			      "\"not_opened\":%zu,\"faults\":%zu,\"records_sent\":%llu,\"records_spooled\":%llu,\"records_lost\":%llu}\n",
			      freshness_word(state), (unsigned long long)age_ms,
			      publish_is_adopted(s->publish) ? "true" : "false", counts.active,
			      counts.suspended, counts.revoked, counts.quarantined,
			      sticky_count(s->sticky), not_opened, shown.count, (unsigned long long)records.sent,
			      (unsigned long long)records.spool.records, (unsigned long long)records.dropped);
	else if (shown.count == 0)
		command_print(call, "  none\n");
	command_done(call, state == GATE_LIVE || state == GATE_LAG ? 0 : 1, NULL);
}

void sidecar_run_command(struct sidecar *s, const struct ctl_msg *msg)
{
	static const struct command_row rows[] = {
		{ "revoke", 1, 1, false, run_revoke },
		{ "sidecar", 0, 0, false, run_sidecar },
	};

	/* The daemon has checked who asks. */
	command_run(rows, ARRAY_LEN(rows), s, s->channel, msg, channel_peer(s->channel)->uid);
}
