/*
 * One thread's holdings and its life: created before the sandbox, ordered about by posts, ticking through deadlines, limits and the
 * gate. Knows when things happen to sessions, not what a session does.
 */
#include "proxy/worker.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "proxy/worker_internal.h"

#define TICK_MS 100
#define SCAN_EVERY_TICKS 10
#define LOOKUPS_PER_LEASE 512 /* under way; a browser opens many names at once, and each asks for two families */

struct worker_listener {
	struct list_node peers;    /* in the worker's list */
	struct listener *listener; /* owned */
	uint64_t epoch;            /* of the sidecar that handed it over */
};

static void on_tick(void *arg);

static enum err set_up_resolver(struct worker *w)
{
	const struct world_options *o = &w->world->options;

	resolver_set_times(w->resolver, o->dns_total_ms, o->dns_try_ms);
	return resolver_set_servers(w->resolver, o->servers, o->server_count);
}

enum err worker_create(struct worker_shared *shared, const struct worker_options *options, struct world *world,
		       struct worker **out_worker)
{
	struct ares_link_options link = { .channels = options->channels, .sockets = options->dns_sockets };
	struct resolver_options lookups = { .per_owner_max = LOOKUPS_PER_LEASE };
	struct worker *w = alloc_zeroed(sizeof(*w));
	enum err e = ERR_NO_MEMORY;

	if (w == NULL)
		return ERR_NO_MEMORY;
	w->index = options->index;
	w->shared = shared;
	w->world = world_ref(world);
	pool_init(&w->sessions, "session", sizeof(struct session), 0);
	pool_init(&w->handshakes, "handshake", handshake_size(), 0);
	pool_init(&w->establishes, "establish", establish_size(), 0);
	pool_init(&w->tunnels, "tunnel", tunnel_size(), 0);
	for (int i = 0; i < SESSION_STATE_COUNT; i++)
		list_init(&w->in_state[i]);
	htab_init(&w->homes);
	list_init(&w->home_list);
	list_init(&w->listeners);
	list_init(&w->dead);
	w->loop = loop_create();
	w->metrics = metrics_create();
	if (w->loop == NULL || w->metrics == NULL)
		goto out;
	e = ares_link_create(w->loop, &link, &w->ares);
	if (e == ERR_OK)
		e = resolver_create(w->loop, w->ares, w->metrics, &lookups, &w->resolver);
	if (e == ERR_OK)
		e = set_up_resolver(w);
	if (e == ERR_OK)
		e = pump_worker_init(&w->pump, options->pipes);
	if (e == ERR_OK) {
		loop_timer_init(&w->tick, w->loop, on_tick, w);
		e = loop_timer_start(&w->tick, TICK_MS);
	}
out:
	if (e != ERR_OK) {
		worker_destroy(w);
		return e;
	}
	*out_worker = w;
	return ERR_OK;
}

static void close_listener(struct worker *w, struct worker_listener *l)
{
	list_remove(&w->listeners, &l->peers);
	listener_destroy(l->listener);
	alloc_free(l);
}

static void close_listeners(struct worker *w)
{
	struct list_node *n;

	while ((n = list_first(&w->listeners)) != NULL)
		close_listener(w, CONTAINER_OF(n, struct worker_listener, peers));
}

static void bury_dead(void *arg)
{
	struct worker *w = arg;
	struct list_node *n;

	while ((n = list_pop_front(&w->dead)) != NULL)
		pool_give(&w->sessions, CONTAINER_OF(n, struct session, in_state));
}

static void cut_all(struct worker *w, enum reason why)
{
	struct list_node *n, *next;

	for (int i = 0; i < SESSION_STATE_COUNT; i++) {
		LIST_FOREACH (n, next, &w->in_state[i])
			session_cut(CONTAINER_OF(n, struct session, in_state), why);
	}
}

void worker_destroy(struct worker *w)
{
	struct list_node *n;

	if (w == NULL)
		return;
	if (w->loop != NULL) {
		loop_turn(w->loop, 0); /* sessions that were on their way here */
		cut_all(w, REASON_DRAINING);
		close_listeners(w);
		loop_timer_cancel(&w->tick);
		loop_deferred_cancel(w->loop, &w->bury);
	}
	bury_dead(w);
	while ((n = list_pop_front(&w->home_list)) != NULL)
		lease_home_destroy(CONTAINER_OF(n, struct lease_home, peers));
	recent_finish(&w->refused);
	htab_finish(&w->homes);
	resolver_destroy(w->resolver);
	ares_link_destroy(w->ares);
	pump_worker_finish(&w->pump);
	pool_finish(&w->sessions);
	pool_finish(&w->handshakes);
	pool_finish(&w->establishes);
	pool_finish(&w->tunnels);
	metrics_destroy(w->metrics);
	loop_destroy(w->loop);
	world_unref(w->world);
	alloc_free(w);
}

void worker_run(struct worker *w)
{
	char name[16];

	snprintf(name, sizeof(name), "w%u", w->index);
	log_thread_name(name);
	loop_run(w->loop);
}

void worker_stop(struct worker *w)
{
	loop_stop(w->loop);
}

uint64_t worker_wall_ms(struct worker *w)
{
	uint64_t mono_ms = clock_mono_ms(), wall_ms = clock_wall_ms();
	uint64_t least_ms = w->wall_ms + (mono_ms - w->wall_at_mono_ms);

	if (w->wall_ms != 0 && wall_ms < least_ms)
		wall_ms = least_ms; /* set back: time goes on all the same */
	w->wall_ms = wall_ms;
	w->wall_at_mono_ms = mono_ms;
	return wall_ms;
}

struct worker *worker_home_of(const struct worker_shared *shared, struct text lease_id)
{
	return shared->worker[hash_bytes(&shared->home_key, lease_id.at, lease_id.len) % shared->count];
}

static bool home_is(const struct htab_node *node, const void *key)
{
	return CONTAINER_OF(node, struct lease_home, node)->slot == *(const uint32_t *)key;
}

struct lease_home *worker_find_home(const struct worker *w, uint32_t slot)
{
	struct htab_node *n = htab_find(&w->homes, hash_bytes(&w->shared->home_key, &slot, sizeof(slot)), home_is, &slot);

	return n == NULL ? NULL : CONTAINER_OF(n, struct lease_home, node);
}

static bool is_home_of(const struct lease_home *h, const struct lease_table_entry *entry)
{
	const struct segment *segment = entry->lease->segment;

	return text_equal(text_of(h->lease.id), segment_text(segment, segment_lease(segment)->id));
}

struct lease_home *worker_home(struct worker *w, const struct lease_table_entry *entry)
{
	struct lease_home *h = worker_find_home(w, entry->slot);

	if (h != NULL && is_home_of(h, entry))
		return h;
	if (h != NULL) { /* the slot's lease before this one: it only waits to be forgotten */
		htab_remove(&w->homes, &h->node);
		lease_home_follow(h, NULL, worker_wall_ms(w), loop_now_ms(w->loop));
	}
	h = lease_home_create(entry, worker_wall_ms(w), loop_now_ms(w->loop));
	if (h == NULL)
		return NULL;
	if (htab_insert(&w->homes, &h->node, hash_bytes(&w->shared->home_key, &h->slot, sizeof(h->slot))) != ERR_OK) {
		lease_home_destroy(h);
		return NULL;
	}
	list_push_back(&w->home_list, &h->peers);
	return h;
}

static void forget_home(struct worker *w, struct lease_home *h)
{
	if (worker_find_home(w, h->slot) == h)
		htab_remove(&w->homes, &h->node);
	list_remove(&w->home_list, &h->peers);
	lease_home_destroy(h);
}

void worker_record(struct worker *w, const struct record *record)
{
	w->shared->on_record(w->shared->record_arg, record);
}

/* Most records that the sessions of this worker can still cause; one on its way to another worker is asked about where it arrives. */
static size_t records_to_come(const struct worker *w)
{
	static const uint8_t each[SESSION_STATE_COUNT] = {
		[SESSION_GREETING] = 1,
		[SESSION_CREDENTIALS] = 1,
		[SESSION_DELAYED] = 1,
		[SESSION_REQUEST] = 1,
		[SESSION_RESOLVING] = WORKER_RECORDS_ADMITTED,
		[SESSION_CONNECTING] = WORKER_RECORDS_ADMITTED,
		[SESSION_FIRST_FLIGHT] = WORKER_RECORDS_ADMITTED - 1,
		[SESSION_RELAYING] = WORKER_RECORDS_ADMITTED - 1,
	};
	size_t sum = 0;

	for (unsigned i = 0; i < SESSION_STATE_COUNT; i++)
		sum += each[i] * w->in_state[i].count;
	return sum;
}

bool worker_has_record_room(const struct worker *w, size_t more, bool spare)
{
	const struct worker_shared *s = w->shared;

	return !w->world->options.audit_required || s->has_record_room == NULL ||
	       s->has_record_room(s->record_arg, w->index, records_to_come(w) + more, spare);
}

void worker_bury(struct worker *w, struct session *s)
{
	list_push_back(&w->dead, &s->in_state);
	loop_defer(w->loop, &w->bury, bury_dead, w);
}

void worker_descriptor_freed(struct worker *w)
{
	struct list_node *n, *next;

	LIST_FOREACH (n, next, &w->listeners)
		listener_wake(CONTAINER_OF(n, struct worker_listener, peers)->listener);
}

size_t worker_session_count(const struct worker *w)
{
	return w->sessions.live - w->dead.count;
}

static void pass_deadlines(struct worker *w, uint64_t now_ms)
{
	struct list_node *n, *next;

	for (int i = 0; i < SESSION_STATE_COUNT; i++) {
		LIST_FOREACH (n, next, &w->in_state[i]) {
			struct session *s = CONTAINER_OF(n, struct session, in_state);

			if (s->deadline_ms <= now_ms)
				session_on_deadline(s);
		}
	}
}

static void scan_tunnels(struct worker *w, uint64_t now_ms)
{
	static const enum session_state open[] = { SESSION_FIRST_FLIGHT, SESSION_RELAYING };
	struct list_node *n, *next;

	for (size_t i = 0; i < ARRAY_LEN(open); i++) {
		LIST_FOREACH (n, next, &w->in_state[open[i]])
			tunnel_scan(CONTAINER_OF(n, struct session, in_state), now_ms);
	}
}

static uint64_t cut_home(struct lease_home *h, enum reason why)
{
	struct list_node *n, *next;
	uint64_t count = 0;

	LIST_FOREACH (n, next, &h->sessions) {
		session_cut(CONTAINER_OF(n, struct session, in_home), why);
		count++;
	}
	return count;
}

/* Close what belongs to a lease; a handshake goes on, so that its guest hears why. */
static void cut_homes(struct worker *w, enum reason why)
{
	struct list_node *n, *next;

	LIST_FOREACH (n, next, &w->home_list)
		cut_home(CONTAINER_OF(n, struct lease_home, peers), why);
}

/* How long the lease still has, by whichever clock ends it first; 0: it is over. */
static uint64_t left_ms(const struct lease_home *h, uint64_t wall_ms, uint64_t now_ms)
{
	uint64_t left = h->expires_mono_ms > now_ms ? h->expires_mono_ms - now_ms : 0, by_wall;

	if (h->lease.exp_ms == 0)
		return left;
	by_wall = h->lease.exp_ms > wall_ms ? h->lease.exp_ms - wall_ms : 0;
	return by_wall < left ? by_wall : left;
}

/* Leases that ended, or have used their bytes. Returns when the next one ends, from now; UINT64_MAX: none does. */
static uint64_t scan_homes(struct worker *w, uint64_t now_ms)
{
	struct list_node *n, *next, *m, *next_m;
	uint64_t wall_ms = worker_wall_ms(w), soonest_ms = UINT64_MAX;

	LIST_FOREACH (n, next, &w->home_list) {
		struct lease_home *h = CONTAINER_OF(n, struct lease_home, peers);
		uint64_t limit = h->lease.limits.bytes, used = h->bytes_closed, left;

		if (h->sessions.count == 0) {
			if (h->entry == NULL)
				forget_home(w, h);
			continue;
		}
		left = left_ms(h, wall_ms, now_ms);
		if (left == 0) {
			if (h->pins != NULL)
				pins_flush(h->pins);
			cut_home(h, REASON_LEASE_EXPIRED);
			continue;
		}
		soonest_ms = left < soonest_ms ? left : soonest_ms;
		if (limit == 0 || limit == UINT64_MAX)
			continue;
		LIST_FOREACH (m, next_m, &h->sessions) {
			struct session *s = CONTAINER_OF(m, struct session, in_home);
			struct relay_counts counts = { .bytes = { 0 } };

			if (s->relay != NULL)
				relay_count(s->relay, &counts);
			used += counts.bytes[RELAY_UP] + counts.bytes[RELAY_DOWN];
		}
		if (used >= limit)
			cut_home(h, REASON_LIMIT_BYTES);
	}
	return soonest_ms;
}

static void on_tick(void *arg)
{
	struct worker *w = arg;
	uint64_t now_ms = loop_now_ms(w->loop), next_ms;
	enum reason cut = gate_check_cut(w->shared->gate, clock_mono_ns());

	if (cut != REASON_ALLOWED)
		cut_homes(w, cut);
	pass_deadlines(w, now_ms);
	next_ms = scan_homes(w, now_ms);
	if (w->ticks++ % SCAN_EVERY_TICKS == 0)
		scan_tunnels(w, now_ms);
	if (w->shared->on_record_tick != NULL)
		w->shared->on_record_tick(w->shared->record_arg, w->index);
	metrics_set(w->metrics, METRIC_LOOP_TURNS, loop_turn_count(w->loop));
	metrics_set(w->metrics, METRIC_DNS_MISFITS, ares_link_misfit_count(w->ares));
	/* A lease ends by its own time, not by ours. */
	if (loop_timer_start(&w->tick, next_ms < TICK_MS ? next_ms : TICK_MS) != ERR_OK) {
		/* Without a tick nothing expires: better none than one that forgets. */
		cut_all(w, REASON_INTERNAL);
		loop_stop(w->loop);
	}
}

static void on_accept(void *arg, struct listener *l, int fd, const struct endpoint *source)
{
	session_accept(arg, fd, listener_name(l), source);
}

bool worker_add_listener(struct worker *w, const char *name, int fd, uint64_t epoch)
{
	struct listener_options options = { .name = name };
	struct worker_listener *l = alloc_zeroed(sizeof(*l));

	if (l == NULL || w->draining ||
	    listener_create(w->loop, w->metrics, fd, &options, on_accept, w, &l->listener) != ERR_OK) {
		alloc_free(l);
		close(fd);
		return false;
	}
	l->epoch = epoch;
	list_push_back(&w->listeners, &l->peers);
	return true;
}

uint64_t worker_remove_listeners(struct worker *w, const char *name)
{
	struct list_node *n, *next;
	uint64_t count = 0;

	LIST_FOREACH (n, next, &w->listeners) {
		struct worker_listener *l = CONTAINER_OF(n, struct worker_listener, peers);

		if (strcmp(listener_name(l->listener), name) != 0)
			continue;
		close_listener(w, l);
		count++;
	}
	return count;
}

uint64_t worker_remove_older_listeners(struct worker *w, uint64_t epoch)
{
	struct list_node *n, *next;
	uint64_t count = 0;

	LIST_FOREACH (n, next, &w->listeners) {
		struct worker_listener *l = CONTAINER_OF(n, struct worker_listener, peers);

		if (l->epoch >= epoch)
			continue;
		listener_take_waiting(l->listener);
		close_listener(w, l);
		count++;
	}
	return count;
}

uint64_t worker_begin_drain(struct worker *w)
{
	static const enum session_state unfinished[] = { SESSION_GREETING, SESSION_CREDENTIALS, SESSION_DELAYED };
	struct list_node *n, *next;

	w->draining = true;
	close_listeners(w); /* an open one would take guests that another process could serve */
	for (size_t i = 0; i < ARRAY_LEN(unfinished); i++) {
		LIST_FOREACH (n, next, &w->in_state[unfinished[i]])
			session_cut(CONTAINER_OF(n, struct session, in_state), REASON_DRAINING);
	}
	return worker_session_count(w);
}

uint64_t worker_close_slot(struct worker *w, uint32_t slot, enum reason why)
{
	struct lease_home *h = worker_find_home(w, slot);

	if (h == NULL)
		return 0;
	if (h->pins != NULL)
		pins_flush(h->pins);
	return cut_home(h, why);
}

/* What a session that is judged again dies of: lease and control words stand, anything else is a change of policy. */
static enum reason change_reason(enum reason why)
{
	enum reason_fault fault = reason_fault(why);

	if (why >= REASON_LEASE_UNKNOWN && why <= REASON_SCOPE_NONE)
		return why;
	return fault == REASON_FAULT_CONTROL || fault == REASON_FAULT_LOCAL ? why : REASON_POLICY_CHANGED;
}

static uint64_t judge_home_again(struct lease_home *h)
{
	struct list_node *n, *next;
	uint64_t count = 0;

	LIST_FOREACH (n, next, &h->sessions) {
		struct session *s = CONTAINER_OF(n, struct session, in_home);
		enum reason why = s->state == SESSION_ENDING ? REASON_ALLOWED : session_judge_again(s);

		if (why == REASON_ALLOWED)
			continue;
		count++;
		if (s->was_open)
			session_cut(s, change_reason(why));
		else
			session_refuse(s, why);
	}
	return count;
}

static bool parts_differ(const struct world *before, const struct world *after)
{
	return before->own != after->own || before->geoip != after->geoip ||
	       before->site.nat64_count != after->site.nat64_count ||
	       memcmp(before->nat64, after->nat64, sizeof(before->nat64)) != 0;
}

/* One adoption on this worker. */
struct follow {
	struct worker *worker;
	struct snapshot *old, *new; /* borrowed from the worlds; NULL before the first */
	bool all;                   /* something changed that decides for every lease */
	uint64_t ended;
};

static void follow_home(struct follow *f, struct lease_home *h, const struct lease_table_entry *entry)
{
	struct worker *w = f->worker;

	/* The same name, but another life of it; and what was put out of its slot never comes back, for nobody would find it to go on. */
	if (entry != NULL && (entry->slot != h->slot || worker_find_home(w, h->slot) != h))
		entry = NULL;
	lease_home_follow(h, entry, worker_wall_ms(w), loop_now_ms(w->loop));
	if (entry == NULL)
		f->ended += cut_home(h, REASON_LEASE_REVOKED);
	else if (f->all || snapshot_lease_changed(f->old, f->new, text_of(h->lease.id)))
		f->ended += judge_home_again(h);
}

static void follow_home_at(struct follow *f, const struct lease_table_entry *at, const struct lease_table_entry *is)
{
	struct lease_home *h = worker_find_home(f->worker, at->slot);

	if (h != NULL && is_home_of(h, at))
		follow_home(f, h, is);
}

static void on_entry_changed(void *arg, const struct lease_table_entry *was, const struct lease_table_entry *is)
{
	struct follow *f = arg;

	if (was != NULL)
		follow_home_at(f, was, is);
	/* One that left and came back before its slot was taken back finds its home again. */
	if (is != NULL && (was == NULL || was->slot != is->slot))
		follow_home_at(f, is, is);
}

uint64_t worker_take_world(struct worker *w, struct world *world)
{
	struct world *before = w->world;
	struct follow f = { .worker = w, .old = world_snapshot(before), .new = world_snapshot(world) };
	struct list_node *n, *next;

	w->world = world; /* the order's reference is ours now */
	f.all = parts_differ(before, world) || f.old == NULL || f.new == NULL || snapshot_ceiling_changed(f.old, f.new);
	if (!f.all) {
		/* Every home whose lease is in force is found by its slot; the others stay as they are. */
		lease_table_diff(before->table, world->table, on_entry_changed, &f);
	} else {
		LIST_FOREACH (n, next, &w->home_list) {
			struct lease_home *h = CONTAINER_OF(n, struct lease_home, peers);

			follow_home(&f, h, world->table == NULL ? NULL : lease_table_find(world->table, text_of(h->lease.id)));
		}
	}
	if (set_up_resolver(w) != ERR_OK)
		log_line(LOG_LEVEL_ERROR, "event=servers_not_taken");
	world_unref(before);
	return f.ended;
}
