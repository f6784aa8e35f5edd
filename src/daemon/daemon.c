/* Worlds: what workers judge by is built here from leases, addresses, places and options, and handed out whole. Also draining. */
#include "daemon/daemon.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

#define STUCK_MS 2000
#define WATCH_EVERY_MS 500

/* One world on its way to all workers. */
struct adoption {
	struct daemon *daemon;
	struct world *before; /* counted: workers give it up in the middle of their work, so the last reference goes here */
	uint64_t version;     /* of a new snapshot; 0: only other parts changed */
	unsigned remaining;   /* workers that have not answered */
	uint64_t since_ms, ended; /* sessions that it ended */
};

/* Own addresses and networks as one set: the kernel's, those others see us under, and the guests'. */
static struct own_addresses *make_own(const struct daemon *d)
{
	const struct daemon_options *o = &d->config->daemon;
	struct prefix *all = alloc_array(DAEMON_PREFIXES_MAX, sizeof(*all));
	struct own_addresses *own = NULL;
	size_t count = 0;

	if (all == NULL)
		return NULL;
	if (d->own_count + o->nat_addresses.count + o->guest_networks.count > DAEMON_PREFIXES_MAX)
		goto out;
	for (size_t i = 0; i < d->own_count; i++)
		all[count++] = (struct prefix){ .addr = d->own[i], .len = d->own[i].family == ADDR_V4 ? 32 : 128 };
	for (size_t i = 0; i < o->nat_addresses.count; i++)
		all[count++] = o->nat_addresses.at[i];
	for (size_t i = 0; i < o->guest_networks.count; i++)
		all[count++] = o->guest_networks.at[i];
	own = own_addresses_create(all, count);
out:
	alloc_free(all);
	return own;
}

static struct world *make_world(struct daemon *d)
{
	struct addr_nat64 nat64[WORLD_NAT64_MAX];
	struct world_options options;
	struct world_parts parts = { .table = d->table, .geoip = d->geoip, .nat64 = nat64, .options = &options };
	const struct option_prefixes *declared = &d->config->daemon.nat64;

	if (declared->count > WORLD_NAT64_MAX)
		return NULL;
	for (size_t i = 0; i < declared->count; i++)
		nat64[i].prefix = declared->at[i];
	parts.nat64_count = declared->count;
	reload_world_options(d, &options);
	if (d->own_set == NULL)
		d->own_set = make_own(d);
	parts.own = d->own_set;
	if (parts.own == NULL)
		return NULL; /* without it own addresses would pass */
	return world_create(d->world == NULL ? 1 : d->world->number + 1, &parts);
}

void daemon_forget_own_set(struct daemon *d)
{
	own_addresses_unref(d->own_set);
	d->own_set = NULL;
}

static bool is_gone(void *daemon, struct text id)
{
	const struct daemon *d = daemon;

	return lease_table_find(d->table, id) == NULL;
}

static uint32_t slot_of(void *daemon, struct text id)
{
	return slots_take(&((struct daemon *)daemon)->slots, id);
}

static void on_difference(void *daemon, const struct snapshot_lease *was, const struct snapshot_lease *is)
{
	if (is == NULL)
		slots_leave(&((struct daemon *)daemon)->slots, was->id);
}

enum err daemon_take_snapshot(struct daemon *d, struct snapshot *snapshot, uint64_t version)
{
	struct lease_table *table = NULL, *before = d->table;
	struct snapshot *old = daemon_newest_snapshot(d);
	enum err e = lease_table_follow(before, snapshot, slot_of, d, &table);

	if (e != ERR_OK)
		return e;
	d->table = table;
	e = daemon_publish(d, version);
	if (e != ERR_OK) {
		d->table = before;
		lease_table_unref(table);
		return e;
	}
	if (old != snapshot) /* else no root came, only slots */
		segment_store_follow(&d->segments, old, snapshot);
	if (old != NULL)
		snapshot_diff(old, snapshot, on_difference, d);
	lease_table_unref(before);
	return ERR_OK;
}

struct snapshot *daemon_newest_snapshot(const struct daemon *d)
{
	return d->table == NULL ? NULL : lease_table_snapshot(d->table);
}

uint64_t daemon_newest_version(const struct daemon *d)
{
	return d->table == NULL ? 0 : snapshot_version(lease_table_snapshot(d->table));
}

/* Give back what only older snapshots named. Leases that found every slot taken have theirs now: true when that needs another world. */
static bool sweep(struct daemon *d)
{
	struct snapshot *snapshot = lease_table_snapshot(d->table);

	segment_store_sweep(&d->segments);
	return slots_sweep(&d->slots, is_gone, d) > 0 && slots_count(&d->slots) < snapshot_lease_count(snapshot) &&
	       daemon_take_snapshot(d, snapshot, d->version_due) == ERR_OK;
}

static void on_all_adopted(struct adoption *a)
{
	struct daemon *d = a->daemon;

	d->adoptions_pending--;
	metrics_observe_us(d->metrics, HISTOGRAM_APPLY, (loop_now_ms(d->loop) - a->since_ms) * 1000);
	if (a->ended > 0)
		log_line(LOG_LEVEL_INFO, "event=judged_again ended=%llu", (unsigned long long)a->ended);
	if (a->version > d->version_due)
		d->version_due = a->version;
	/* The last one says it for all, when nobody on the way names older slots and segments any more. */
	if (d->adoptions_pending > 0 || d->version_due == 0 || sweep(d))
		return;
	d->adopted_version = d->version_due;
	d->version_due = 0;
	metrics_set(d->metrics, METRIC_SNAPSHOT_VERSION, d->adopted_version);
	metrics_set(d->metrics, METRIC_LEASES, snapshot_lease_count(lease_table_snapshot(d->table)));
	sidecar_link_adopted(d, d->adopted_version);
}

static void on_adopted(void *arg, unsigned worker, uint64_t ended)
{
	struct adoption *a = arg;

	a->ended += ended;
	if (--a->remaining > 0)
		return;
	world_unref(a->before);
	on_all_adopted(a);
	alloc_free(a);
}

enum err daemon_publish(struct daemon *d, uint64_t version)
{
	struct adoption *a = alloc_zeroed(sizeof(*a));
	struct world *w = make_world(d);
	struct worker_reply reply = { .loop = d->loop, .on_done = on_adopted, .arg = a };

	if (a == NULL || w == NULL) {
		alloc_free(a);
		world_unref(w);
		return ERR_NO_MEMORY;
	}
	*a = (struct adoption){ .daemon = d, .version = version, .since_ms = loop_now_ms(d->loop) };
	for (unsigned i = 0; i < d->shared.count; i++) {
		if (worker_adopt(d->shared.worker[i], w, &reply) == ERR_OK) {
			a->remaining++;
			continue;
		}
		/* Some would judge by the new world and some by the old one: nobody may judge at all. */
		log_line(LOG_LEVEL_ERROR, "event=adopt_failed worker=%u why=\"out of memory; stopping\"", i);
		for (unsigned k = 0; k < d->shared.count; k++)
			worker_stop(d->shared.worker[k]);
		loop_stop(d->loop);
		break;
	}
	a->before = d->world;
	d->world = w;
	if (a->remaining == 0) {
		world_unref(a->before);
		alloc_free(a);
		return ERR_NO_MEMORY;
	}
	d->adoptions_pending++;
	return ERR_OK;
}

void daemon_on_addresses(void *daemon, const struct addr *addrs, size_t count)
{
	struct daemon *d = daemon;
	struct addr *copy = alloc_copy(addrs, count * sizeof(*addrs));

	if (count == d->own_count && (count == 0 || memcmp(addrs, d->own, count * sizeof(*addrs)) == 0)) {
		alloc_free(copy);
		return;
	}
	if (copy == NULL) {
		log_line(LOG_LEVEL_ERROR, "event=addresses_lost why=\"out of memory; stopping\"");
		loop_stop(d->loop); /* judging by addresses that are no longer ours would open a door */
		return;
	}
	alloc_free(d->own);
	d->own = copy;
	d->own_count = count;
	daemon_forget_own_set(d);
	if (d->world != NULL && daemon_publish(d, 0) != ERR_OK) {
		log_line(LOG_LEVEL_ERROR, "event=addresses_not_published why=\"out of memory; stopping\"");
		loop_stop(d->loop);
	}
}

enum err daemon_load_geo(struct daemon *d)
{
	struct geoip *fresh = NULL;
	enum err e = ERR_OK;

	if (d->country_fd >= 0 || d->asn_fd >= 0)
		e = geoip_open(d->country_fd, d->asn_fd, &fresh);
	if (e != ERR_OK)
		return e;
	geoip_unref(d->geoip);
	d->geoip = fresh;
	return daemon_publish(d, 0);
}

static void on_drain_tick(void *arg);

static void on_drained(void *arg, unsigned worker, uint64_t left)
{
	struct daemon *d = arg;

	if (left > 0)
		log_line(LOG_LEVEL_INFO, "event=draining worker=%u sessions=%llu", worker, (unsigned long long)left);
	if (!d->drain_timer.started && loop_timer_start(&d->drain_timer, 100) != ERR_OK)
		loop_stop(d->loop);
}

static uint64_t open_sessions(const struct daemon *d)
{
	static const enum metric phases[] = { METRIC_OPEN_HANDSHAKE, METRIC_OPEN_RESOLVING, METRIC_OPEN_CONNECTING,
					      METRIC_OPEN_RELAYING, METRIC_OPEN_CLOSING };
	uint64_t sum = 0;

	for (unsigned i = 0; i < d->shared.count; i++) {
		for (size_t k = 0; k < ARRAY_LEN(phases); k++)
			sum += atomic_load_explicit(&d->shared.worker[i]->metrics->value[phases[k]], memory_order_relaxed);
	}
	return sum;
}

static void on_drain_tick(void *arg)
{
	struct daemon *d = arg;

	if (open_sessions(d) == 0 || loop_now_ms(d->loop) >= d->drain_deadline_ms) {
		log_line(LOG_LEVEL_INFO, "event=drained sessions_left=%llu", (unsigned long long)open_sessions(d));
		loop_stop(d->loop);
		return;
	}
	if (loop_timer_start(&d->drain_timer, 100) != ERR_OK)
		loop_stop(d->loop);
}

void daemon_drain(struct daemon *d)
{
	struct worker_reply reply = { .loop = d->loop, .on_done = on_drained, .arg = d };

	if (d->draining)
		return;
	d->draining = true;
	record_ring_set_draining(record_stream_ring(d->records));
	d->drain_deadline_ms = loop_now_ms(d->loop) + d->config->daemon.drain_ms;
	log_line(LOG_LEVEL_INFO, "event=drain deadline_ms=%llu", (unsigned long long)d->config->daemon.drain_ms);
	loop_timer_init(&d->drain_timer, d->loop, on_drain_tick, d);
	for (unsigned i = 0; i < d->shared.count; i++) {
		if (worker_drain(d->shared.worker[i], &reply) != ERR_OK)
			loop_stop(d->loop);
	}
}

void daemon_watch_loops(void *daemon)
{
	struct daemon *d = daemon;

	for (unsigned i = 0; i < d->shared.count; i++) {
		uint64_t turns = loop_turn_count(d->shared.worker[i]->loop);

		if (turns == d->turns_seen[i] && d->turns_seen_at_ms[i] != 0)
			continue;
		d->turns_seen[i] = turns;
		d->turns_seen_at_ms[i] = loop_now_ms(d->loop);
	}
	metrics_set(d->metrics, METRIC_RECORDS_NO_ROOM, record_ring_dropped(record_stream_ring(d->records)));
	if (loop_timer_start(&d->watch_timer, WATCH_EVERY_MS) != ERR_OK)
		log_line(LOG_LEVEL_ERROR, "event=loops_unwatched");
}

bool daemon_is_alive(const struct daemon *d)
{
	uint64_t now_ms = loop_now_ms(d->loop);

	for (unsigned i = 0; i < d->shared.count; i++) {
		if (now_ms - d->turns_seen_at_ms[i] > STUCK_MS + WATCH_EVERY_MS)
			return false;
	}
	return true;
}

bool daemon_is_ready(const struct daemon *d)
{
	enum gate_control state = gate_control(d->gate);

	return !d->draining && d->adopted_version != 0 && d->adoptions_pending == 0 &&
	       (state == GATE_LIVE || state == GATE_LAG) &&
	       gate_check_control(d->gate, clock_mono_ns()) == REASON_ALLOWED;
}
