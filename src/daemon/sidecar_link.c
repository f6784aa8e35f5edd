/*
 * What a sidecar may say to the daemon, message by message: descriptors it opened, options, segments and roots, revocations. Every fault
 * in what it sends is answered with NACK or a log line, and the policy in force stays.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/daemon.h"

#define SLOTS_TEXT_MAX 32768 /* bytes of slot lines in one packet */

static void tell(struct daemon *d, const struct ctl_msg *msg, int fd)
{
	if (d->sidecar != NULL && channel_send(d->sidecar->channel, msg, fd) != ERR_OK)
		log_line(LOG_LEVEL_WARN, "event=sidecar_too_slow message=%s", ctl_row(msg->type)->word);
}

struct slot_lines {
	struct daemon *daemon;
	uint64_t version;
	size_t len;
	char text[SLOTS_TEXT_MAX];
};

static void flush_slots(struct slot_lines *lines)
{
	struct ctl_msg msg = {
		.type = CTL_SLOTS,
		.field = { { .number = lines->version }, { .bytes = { .at = lines->text, .len = lines->len } } },
	};

	if (lines->len > 0)
		tell(lines->daemon, &msg, -1);
	lines->len = 0;
}

static void add_slot(void *arg, struct text id, uint32_t slot)
{
	struct slot_lines *lines = arg;
	int n;

	if (SLOTS_TEXT_MAX - lines->len < RECORD_LEASE_MAX + 32)
		flush_slots(lines);
	n = snprintf(lines->text + lines->len, SLOTS_TEXT_MAX - lines->len, "%u %u %.*s\n", slot,
		     gate_generation(lines->daemon->gate, slot), (int)id.len, id.at);
	lines->len += (size_t)n;
}

/* Tell every slot, or those that are to be told. */
static void tell_slots(struct daemon *d, uint64_t version, bool all)
{
	struct slot_lines *lines = alloc_zeroed(sizeof(*lines));

	if (lines == NULL) {
		log_line(LOG_LEVEL_ERROR, "event=slots_not_told why=\"out of memory\"");
		return; /* unknown slots stay closed */
	}
	lines->daemon = d;
	lines->version = version;
	if (all)
		slots_visit(&d->slots, add_slot, lines);
	else
		slots_visit_named(&d->slots, add_slot, lines);
	flush_slots(lines);
	alloc_free(lines);
}

/* Records are this sidecar's to read from now on. */
static void pass_records(struct daemon *d)
{
	struct record_ring *ring = record_stream_ring(d->records);
	struct ctl_msg msg = { .type = CTL_RECORDS, .field = { { .number = d->sidecar_number } } };

	record_ring_set_reader(ring, d->sidecar_number);
	tell(d, &msg, record_ring_fd(ring));
}

void sidecar_link_hello(struct peer *p, const struct ctl_msg *msg)
{
	struct daemon *d = p->daemon;
	const struct channel_peer *who = channel_peer(p->channel);
	struct ctl_msg welcome = {
		.type = CTL_WELCOME,
		.field = { { .number = CTL_MSG_VERSION },
			   { .number = d->shared.count },
			   { .number = gate_slot_count(d->gate) },
			   { .number = daemon_newest_version(d) } },
	};

	if (who->uid != 0 && who->uid != geteuid()) {
		log_line(LOG_LEVEL_ERROR, "event=sidecar_refused uid=%u why=\"neither root nor the daemon's user\"", who->uid);
		channel_restrict(p->channel, 0);
		return;
	}
	if (msg->field[0].number != CTL_MSG_VERSION) {
		log_line(LOG_LEVEL_ERROR, "event=sidecar_refused version=%llu why=\"another protocol version\"",
			 (unsigned long long)msg->field[0].number);
		channel_restrict(p->channel, 0);
		return;
	}
	if (d->sidecar != NULL) {
		log_line(LOG_LEVEL_WARN, "event=sidecar_replaced pid=%d", (int)channel_peer(d->sidecar->channel)->pid);
		channel_restrict(d->sidecar->channel, 0);
		d->sidecar->is_sidecar = false;
		commands_sidecar_lost(d);
	}
	p->is_sidecar = true;
	d->sidecar = p;
	d->sidecar_number++;
	channel_restrict(p->channel, CTL_FROM_SIDECAR);
	metrics_set(d->metrics, METRIC_CONTROL_CONNECTED, 1);
	log_line(LOG_LEVEL_INFO, "event=sidecar_connected pid=%d", (int)who->pid);
	tell(d, &welcome, gate_fd(d->gate));
	pass_records(d);
	tell_slots(d, 0, true);
}

void sidecar_link_lost(struct peer *p)
{
	struct daemon *d = p->daemon;

	d->sidecar = NULL;
	metrics_set(d->metrics, METRIC_CONTROL_CONNECTED, 0);
	commands_sidecar_lost(d);
	log_line(LOG_LEVEL_WARN, "event=sidecar_lost state=\"deadlines run on\"");
}

static void nack(struct daemon *d, uint64_t version, const char *why)
{
	struct ctl_msg msg = { .type = CTL_NACK, .field = { { .number = version }, { .bytes = text_of(why) } } };

	log_line(LOG_LEVEL_ERROR, "event=snapshot_refused version=%llu why=\"%s\"", (unsigned long long)version, why);
	tell(d, &msg, -1);
}

static void on_segment(struct daemon *d, const struct ctl_msg *msg, int fd)
{
	struct segment *segment = NULL;
	const char *fault = "out of memory";
	struct text id = msg->field[0].bytes;
	enum err e = segment_open(fd, &segment, &fault);

	close(fd);
	if (e != ERR_OK) {
		log_line(LOG_LEVEL_ERROR, "event=segment_refused why=\"%s\"", fault == NULL ? err_text(e) : fault);
		return; /* the root that names it will be refused */
	}
	if (id.len != LAYOUT_ID_LEN || memcmp(id.at, segment_id(segment), LAYOUT_ID_LEN) != 0) {
		log_line(LOG_LEVEL_ERROR, "event=segment_refused why=\"its id is not its digest\"");
		segment_unref(segment);
		return;
	}
	if (segment_store_put(&d->segments, segment) != ERR_OK)
		log_line(LOG_LEVEL_ERROR, "event=segment_not_kept why=\"out of memory\"");
}

/* The sidecar is told the slots of what it named, once that is adopted. */
static void name_slots(struct daemon *d, const struct segment *root)
{
	uint32_t count;
	const struct layout_root_lease *named = segment_table(root, LAYOUT_ROOT_LEASES, &count);

	if (segment_root(root)->base == 0)
		slots_name_all(&d->slots);
	for (uint32_t i = 0; i < count && segment_root(root)->base != 0; i++)
		slots_name(&d->slots, segment_text(root, named[i].id));
}

static void on_root(struct daemon *d, const struct ctl_msg *msg, int fd)
{
	uint64_t version = msg->field[0].number;
	struct segment *root = NULL;
	struct snapshot *snapshot = NULL;
	const char *fault = NULL;
	enum err e = segment_open(fd, &root, &fault);

	close(fd);
	if (e == ERR_OK && (segment_kind(root) != LAYOUT_ROOT || segment_root(root)->version != version)) {
		e = ERR_INVALID;
		fault = "it is no root of this version";
	}
	if (e == ERR_OK && version <= daemon_newest_version(d)) {
		e = ERR_INVALID;
		fault = "its version is not newer"; /* two snapshots of one version could not be told apart */
	}
	if (e == ERR_OK && segment_root(root)->base != 0 && segment_root(root)->base != daemon_newest_version(d)) {
		e = ERR_NOT_FOUND;
		fault = CTL_NACK_BASE;
	}
	if (e == ERR_OK)
		e = snapshot_follow(daemon_newest_snapshot(d), root, segment_store_find, &d->segments, &snapshot, &fault);
	if (e == ERR_OK && snapshot_lease_count(snapshot) > gate_slot_count(d->gate)) {
		e = ERR_LIMIT;
		fault = "more leases than leases_max";
	}
	if (e == ERR_OK)
		e = daemon_take_snapshot(d, snapshot, version);
	if (e == ERR_OK)
		name_slots(d, root);
	else
		nack(d, version, fault == NULL ? err_text(e) : fault);
	segment_unref(root);
	snapshot_unref(snapshot);
}

void sidecar_link_adopted(struct daemon *d, uint64_t version)
{
	struct ctl_msg msg = { .type = CTL_ACK, .field = { { .number = version } } };

	tell_slots(d, version, false);
	tell(d, &msg, -1);
}

/* One revocation on its way through all workers. */
struct revocation {
	struct daemon *daemon;
	uint32_t slot, generation;
	unsigned remaining;
	uint64_t closed, since_ns;
};

static void on_revoked(void *arg, unsigned worker, uint64_t closed)
{
	struct revocation *r = arg;
	struct daemon *d = r->daemon;
	struct ctl_msg msg = {
		.type = CTL_REVOKED,
		.field = { { .number = r->slot }, { .number = r->generation } },
	};

	r->closed += closed;
	if (--r->remaining > 0)
		return;
	msg.field[2].number = r->closed;
	metrics_observe_us(d->metrics, HISTOGRAM_REVOCATION, (clock_mono_ns() - r->since_ns) / 1000);
	tell(d, &msg, -1);
	alloc_free(r);
}

static void on_revoke(struct daemon *d, const struct ctl_msg *msg)
{
	uint64_t slot = msg->field[0].number;
	enum reason why;
	struct revocation *r;
	struct worker_reply reply = { .loop = d->loop, .on_done = on_revoked };

	if (slot >= gate_slot_count(d->gate) || !reason_parse(msg->field[2].bytes, &why) || why == REASON_ALLOWED) {
		log_line(LOG_LEVEL_ERROR, "event=revoke_refused why=\"no such slot or reason\"");
		return;
	}
	r = alloc_zeroed(sizeof(*r));
	if (r == NULL) {
		/* The generation still closes the door to everything new; live sessions fall to the sidecar's deadline. */
		(void)gate_next_generation(d->gate, (uint32_t)slot);
		log_line(LOG_LEVEL_ERROR, "event=revoke_incomplete why=\"out of memory\"");
		return;
	}
	*r = (struct revocation){ .daemon = d, .slot = (uint32_t)slot, .since_ns = clock_mono_ns(), .remaining = 1 };
	reply.arg = r;
	/*
	 * Of a lease that is gone the sessions are, too. But a generation that only an earlier revocation ended, which the sidecar has not heard
	 * of yet, is of this lease still, and it may have been open since.
	 */
	r->generation = gate_generation(d->gate, (uint32_t)slot);
	if (slots_is_about(&d->slots, (uint32_t)slot, msg->field[1].number)) {
		r->generation = gate_next_generation(d->gate, (uint32_t)slot);
		for (unsigned i = 0; i < d->shared.count; i++) {
			r->remaining++;
			if (worker_revoke(d->shared.worker[i], (uint32_t)slot, why, &reply) != ERR_OK) {
				r->remaining--;
				log_line(LOG_LEVEL_ERROR, "event=revoke_incomplete worker=%u why=\"out of memory\"", i);
			}
		}
	}
	on_revoked(r, 0, 0);
}

/* What becomes of a listening socket that was handed to a worker. */
static void on_listening(void *arg, unsigned worker, uint64_t ok)
{
	if (!ok)
		log_line(LOG_LEVEL_ERROR, "event=listener_refused worker=%u", worker);
}

static void on_listener(struct daemon *d, const struct ctl_msg *msg, int fd)
{
	char name[RECORD_WORD_MAX + 1];
	uint64_t index = msg->field[2].number;
	struct text text = msg->field[0].bytes;
	struct worker_reply reply = { .loop = d->loop, .on_done = on_listening };

	if (text.len == 0 || text.len > RECORD_WORD_MAX) {
		log_line(LOG_LEVEL_ERROR, "event=listener_refused why=\"its name has no or over 64 characters\"");
		close(fd);
		return;
	}
	memcpy(name, text.at, text.len);
	name[text.len] = '\0';
	if (fd >= d->listeners_below) {
		log_limited(&d->listener_complaint, LOG_LEVEL_ERROR,
			    "event=listener_refused name=%s why=\"no descriptor is left for it: raise the limit of open files\"", name);
		close(fd);
		return;
	}
	if (index >= d->shared.count) /* any worker: by name, so that many unix listeners spread */
		index = hash_bytes(&d->shared.home_key, name, text.len) % d->shared.count;
	if (worker_listen(d->shared.worker[index], name, fd, d->sidecar_number, &reply) != ERR_OK)
		close(fd);
}

static void on_listener_gone(struct daemon *d, const struct ctl_msg *msg)
{
	char name[RECORD_WORD_MAX + 1] = { 0 };
	struct text text = msg->field[0].bytes;

	memcpy(name, text.at, text.len < sizeof(name) ? text.len : sizeof(name) - 1);
	for (unsigned i = 0; i < d->shared.count; i++) {
		if (worker_unlisten(d->shared.worker[i], name, NULL) != ERR_OK)
			log_line(LOG_LEVEL_ERROR, "event=listener_kept name=%s why=\"out of memory\"", name);
	}
}

/* All listeners of this sidecar are here: those that earlier ones left are closed. */
static void on_ready(struct daemon *d)
{
	for (unsigned i = 0; i < d->shared.count; i++) {
		if (worker_unlisten_older(d->shared.worker[i], d->sidecar_number, NULL) != ERR_OK)
			log_line(LOG_LEVEL_ERROR, "event=listeners_kept worker=%u why=\"out of memory\"", i);
	}
	log_line(LOG_LEVEL_INFO, "event=handed_over");
}

static void on_geo(struct daemon *d, const struct ctl_msg *msg, int fd)
{
	int *held = text_is(msg->field[0].bytes, "country") ? &d->country_fd : &d->asn_fd;
	int before = *held;
	enum err e;

	*held = fd;
	e = daemon_load_geo(d);
	if (e == ERR_OK) {
		if (before >= 0)
			close(before);
		return;
	}
	log_line(LOG_LEVEL_ERROR, "event=geo_refused why=\"%s\"", err_text(e));
	*held = before;
	close(fd);
}

static void on_admin(struct daemon *d, int fd)
{
	struct admin *fresh = NULL;

	if (admin_create(d, fd, &fresh) != ERR_OK) {
		close(fd);
		return;
	}
	admin_destroy(d->admin);
	d->admin = fresh;
}

static void on_status(struct daemon *d, const struct ctl_msg *msg)
{
	struct text state = msg->field[1].bytes;
	size_t len = state.len < sizeof(d->sidecar_state) ? state.len : sizeof(d->sidecar_state) - 1;

	buf_consume(&d->sidecar_metrics, d->sidecar_metrics.len);
	if (buf_append(&d->sidecar_metrics, msg->field[0].bytes.at, msg->field[0].bytes.len) != ERR_OK)
		log_line(LOG_LEVEL_WARN, "event=sidecar_metrics_dropped");
	memcpy(d->sidecar_state, state.at, len);
	d->sidecar_state[len] = '\0';
}

void sidecar_link_message(struct peer *p, const struct ctl_msg *msg, int fd)
{
	struct daemon *d = p->daemon;

	switch (msg->type) {
	case CTL_OPTIONS:
		reload_take_options(d, msg->field[0].bytes);
		return;
	case CTL_LISTENER:
		on_listener(d, msg, fd);
		return;
	case CTL_LISTENER_GONE:
		on_listener_gone(d, msg);
		return;
	case CTL_GEO:
		on_geo(d, msg, fd);
		return;
	case CTL_ADMIN:
		on_admin(d, fd);
		return;
	case CTL_READY:
		on_ready(d);
		return;
	case CTL_SEGMENT:
		on_segment(d, msg, fd);
		return;
	case CTL_ROOT:
		on_root(d, msg, fd);
		return;
	case CTL_REVOKE:
		on_revoke(d, msg);
		return;
	case CTL_STATUS:
		on_status(d, msg);
		return;
	case CTL_OUTPUT:
	case CTL_DONE:
		commands_answered(d, msg);
		return;
	default:
		if (fd >= 0)
			close(fd);
		log_line(LOG_LEVEL_WARN, "event=sidecar_message_ignored message=%s", ctl_row(msg->type)->word);
	}
}
