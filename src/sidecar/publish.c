/*
 * Holding to daemon. Promises: a slot opens only after every worker adopted the root that names its lease, and closes
 * before anything else is sent; one root at a time; a new daemon gets everything again. Called by the sidecar's link and
 * drivers; the wording of states is gate.h's.
 */
#include "sidecar/publish.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/hash.h"
#include "base/htab.h"
#include "base/log.h"
#include "image/segment.h"
#include "sidecar/segment_store_internal.h"

#define ID_MAX 64
#define RETRY_NS 1000000000ULL
#define NS_PER_MS 1000000ULL

/* What one holding says about a lease. */
struct said {
	bool is_present;
	struct layout_id segment;
	enum gate_slot_state state; /* never CLOSED when present */
	uint64_t rev;
	uint64_t exp_ms;      /* wall time; 0: no bound */
	uint64_t exp_mono_ns; /* the same on the other clock, from when it was first seen */
	char listener[ID_MAX + 1];
};

struct lease_entry {
	struct htab_node node;
	char id[ID_MAX + 1];
	struct said offered; /* while an offer is looked at */
	struct said wanted, shipped, adopted;
	bool by_hand;        /* revoked by hand */
	bool is_expired;     /* as wanted says; stays, whatever clocks do */
	bool awaits_revoked; /* by hand, and the daemon has not answered */
	bool has_slot;
	uint32_t slot, generation;
};

/* The rest of a holding. */
struct frame {
	struct layout_id ceiling;
	uint32_t flags;
};

enum publish_step { PUBLISH_IDLE, PUBLISH_SHIPPING, PUBLISH_AWAITING };

struct publish {
	struct loop *loop; /* borrowed */
	const struct publish_events *events; /* borrowed, static */
	void *arg;                           /* borrowed */
	struct hash_key key;
	struct htab leases; /* of struct lease_entry, owned */
	struct segment_store store;

	struct channel *channel; /* borrowed; NULL while no daemon is connected */
	struct gate *gate;       /* borrowed, likewise */
	struct lease_entry **by_slot; /* owned array, borrowed members */
	uint32_t slot_count;

	bool has_offer, is_offer_bad;  /* bad: the last one could not be taken, so what is wanted is not the newest */
	struct frame offered, wanted, shipped;
	uint64_t wanted_serial, shipped_serial, adopted_serial; /* of holdings; adopted 0: none by this daemon */
	uint64_t version;         /* of the last root */
	uint64_t adopted_version;
	enum publish_step step;
	uint64_t retry_at_ns;     /* not before, after a refusal */
	struct emitted root;      /* while shipping */
	uint64_t said_ms, said_ns;      /* it was at least said_ms at said_ns; 0: nobody says */
	struct log_limit complaint;
};

static bool has_id(const struct htab_node *node, const void *key)
{
	return strcmp(CONTAINER_OF(node, const struct lease_entry, node)->id, key) == 0;
}

static struct lease_entry *next_lease(const struct publish *p, const struct lease_entry *before)
{
	struct htab_node *node = htab_next(&p->leases, before == NULL ? NULL : &before->node);

	return node == NULL ? NULL : CONTAINER_OF(node, struct lease_entry, node);
}

#define FOR_EACH_LEASE(entry, p) \
	for ((entry) = next_lease((p), NULL); (entry) != NULL; (entry) = next_lease((p), (entry)))

static struct lease_entry *find_lease(const struct publish *p, const char *id)
{
	struct htab_node *node =
		htab_find(&p->leases, hash_bytes(&p->key, id, strlen(id)), has_id, id);

	return node == NULL ? NULL : CONTAINER_OF(node, struct lease_entry, node);
}

static struct lease_entry *find_or_add(struct publish *p, const char *id)
{
	struct lease_entry *entry = find_lease(p, id);
	size_t len = strlen(id);

	if (entry != NULL || len == 0 || len > ID_MAX)
		return entry;
	entry = alloc_zeroed(sizeof(*entry));
	if (entry == NULL)
		return NULL;
	memcpy(entry->id, id, len);
	if (htab_insert(&p->leases, &entry->node, hash_bytes(&p->key, id, len)) != ERR_OK) {
		alloc_free(entry);
		return NULL;
	}
	return entry;
}

/* Forget leases of which nothing is said any more. */
static void sweep_leases(struct publish *p)
{
	struct lease_entry *entry = next_lease(p, NULL);

	while (entry != NULL) {
		struct lease_entry *after = next_lease(p, entry);

		if (!entry->wanted.is_present && !entry->shipped.is_present &&
		    !entry->adopted.is_present && !entry->by_hand && !entry->has_slot) {
			htab_remove(&p->leases, &entry->node);
			alloc_free(entry);
		}
		entry = after;
	}
}

enum err publish_create(struct loop *loop, const struct publish_events *events, void *arg,
			struct publish **out_publish)
{
	struct publish *p = alloc_zeroed(sizeof(*p));
	enum err e;

	if (p == NULL)
		return ERR_NO_MEMORY;
	p->loop = loop;
	p->events = events;
	p->arg = arg;
	p->complaint = (struct log_limit){ .burst = 5, .interval_ms = 60000 };
	htab_init(&p->leases);
	segment_store_init(&p->store);
	e = crypto_random(&p->key, sizeof(p->key));
	if (e != ERR_OK) {
		publish_destroy(p);
		return e;
	}
	*out_publish = p;
	return ERR_OK;
}

void publish_destroy(struct publish *p)
{
	struct lease_entry *entry;

	if (p == NULL)
		return;
	while ((entry = next_lease(p, NULL)) != NULL) {
		htab_remove(&p->leases, &entry->node);
		alloc_free(entry);
	}
	htab_finish(&p->leases);
	segment_store_finish(&p->store);
	emitted_finish(&p->root);
	alloc_free(p->by_slot);
	alloc_free(p);
}

/* What a slot must show by now, as far as holding, clocks and hand go. OPEN still waits for its root. */
static enum gate_slot_state desired_state(const struct lease_entry *entry)
{
	if (entry->by_hand || !entry->wanted.is_present)
		return GATE_SLOT_REVOKED;
	if (entry->is_expired)
		return GATE_SLOT_EXPIRED;
	return entry->wanted.state;
}

static const char *word_of(enum gate_slot_state state)
{
	switch (state) {
	case GATE_SLOT_SUSPENDED:
		return reason_word(REASON_LEASE_SUSPENDED);
	case GATE_SLOT_INVALID:
		return reason_word(REASON_POLICY_INVALID);
	case GATE_SLOT_EXPIRED:
		return reason_word(REASON_LEASE_EXPIRED);
	default:
		return reason_word(REASON_LEASE_REVOKED);
	}
}

/* Shut a slot that may not stay open: the page first, then the word. True when the daemon was told to close sessions. */
static bool enforce(struct publish *p, struct lease_entry *entry)
{
	enum gate_slot_state state = desired_state(entry), shown;
	struct ctl_msg msg = { .type = CTL_REVOKE };

	if (p->gate == NULL || !p->has_offer || !entry->has_slot || state == GATE_SLOT_OPEN)
		return false;
	shown = gate_slot_state(p->gate, entry->slot);
	if (shown == state)
		return false;
	gate_set_slot(p->gate, entry->slot, state);
	if (shown != GATE_SLOT_OPEN)
		return false;
	log_line(LOG_LEVEL_INFO, "lease_shut lease=%s reason=%s", entry->id, word_of(state));
	msg.field[0].number = entry->slot;
	msg.field[1].number = entry->generation;
	msg.field[2].bytes = text_of(word_of(state));
	/* If it cannot be said the channel is gone or hopelessly behind; the page stands, and freshness decays. */
	return channel_send(p->channel, &msg, -1) == ERR_OK;
}

static bool is_same_said(const struct said *a, const struct said *b)
{
	return a->is_present == b->is_present &&
	       (!a->is_present || memcmp(&a->segment, &b->segment, sizeof(a->segment)) == 0);
}

/* After an ACK: show what holds now. A slot opens only for the very lease that was adopted. */
static void settle(struct publish *p, struct lease_entry *entry)
{
	enum gate_slot_state state = desired_state(entry);

	if (!entry->has_slot || !entry->adopted.is_present)
		return;
	if (state == GATE_SLOT_OPEN && !is_same_said(&entry->wanted, &entry->adopted))
		return;
	if (gate_slot_state(p->gate, entry->slot) != state)
		gate_set_slot(p->gate, entry->slot, state);
}

static enum gate_slot_state state_of(uint8_t lease_state)
{
	switch (lease_state) {
	case LAYOUT_LEASE_ACTIVE:
	case LAYOUT_LEASE_RULESET_MISSING: /* the judge has a better word for it */
		return GATE_SLOT_OPEN;
	case LAYOUT_LEASE_SUSPENDED:
		return GATE_SLOT_SUSPENDED;
	case LAYOUT_LEASE_REVOKED:
		return GATE_SLOT_REVOKED;
	default:
		return GATE_SLOT_INVALID;
	}
}

/* The wall clock, unless it is behind what it must be. */
static uint64_t least_wall_ms(const struct publish *p)
{
	uint64_t wall_ms = clock_wall_ms(), now_ns = clock_mono_ns(), at_least = 0;

	if (p->said_ms != 0 && now_ns >= p->said_ns)
		at_least = p->said_ms + (now_ns - p->said_ns) / NS_PER_MS;
	return wall_ms > at_least ? wall_ms : at_least;
}

void publish_set_time(struct publish *p, uint64_t wall_ms, uint64_t mono_ns)
{
	uint64_t held_ms = p->said_ms == 0 || mono_ns < p->said_ns ? 0 : p->said_ms + (mono_ns - p->said_ns) / NS_PER_MS;

	/* It never goes back. */
	if (wall_ms <= held_ms)
		return;
	p->said_ms = wall_ms;
	p->said_ns = mono_ns;
}

static void note_expiry(const struct publish *p, struct said *said, uint64_t exp_ms)
{
	uint64_t wall_ms = least_wall_ms(p), left_ms = exp_ms > wall_ms ? exp_ms - wall_ms : 0;

	said->exp_ms = exp_ms;
	said->exp_mono_ns = clock_mono_ns();
	if (left_ms > (UINT64_MAX - said->exp_mono_ns) / NS_PER_MS)
		said->exp_mono_ns = UINT64_MAX;
	else
		said->exp_mono_ns += left_ms * NS_PER_MS;
}

/* Verify a lease segment, as the daemon will, and read what matters here. */
static enum err read_lease(const struct publish *p, const struct emitted *emitted, const char *id, struct said *out_said)
{
	struct segment *segment;
	const struct layout_lease *lease;
	const char *fault;
	struct said said = { .is_present = true };
	struct text listener;
	enum err e = segment_open_bytes(emitted->bytes, emitted->len, &segment, &fault);

	if (e != ERR_OK)
		return e;
	e = ERR_INVALID;
	if (segment_kind(segment) != LAYOUT_LEASE)
		goto out;
	lease = segment_lease(segment);
	listener = segment_text(segment, lease->listener);
	if (!text_is(segment_text(segment, lease->id), id) || listener.len > ID_MAX)
		goto out;
	memcpy(said.segment.bytes, emitted->id, LAYOUT_ID_LEN);
	said.state = state_of(lease->state);
	said.rev = lease->rev;
	if (lease->exp_ms != 0)
		note_expiry(p, &said, lease->exp_ms);
	memcpy(said.listener, listener.len == 0 ? "" : listener.at, listener.len);
	*out_said = said;
	e = ERR_OK;
out:
	segment_unref(segment);
	return e;
}

static bool is_same_segment(const struct said *said, const struct emitted *emitted)
{
	return said->is_present &&
	       memcmp(said->segment.bytes, emitted->id, LAYOUT_ID_LEN) == 0;
}

static enum err take_lease(struct publish *p, const struct holding_lease *lease)
{
	struct lease_entry *entry = find_or_add(p, lease->id);

	if (entry == NULL)
		return ERR_NO_MEMORY;
	if (entry->offered.is_present)
		return ERR_INVALID;
	if (is_same_segment(&entry->wanted, lease->segment)) {
		entry->offered = entry->wanted;
	} else {
		enum err e = read_lease(p, lease->segment, lease->id, &entry->offered);

		if (e != ERR_OK)
			return e;
	}
	return segment_store_keep(&p->store, lease->segment, SEGMENT_OFFERED);
}

static enum err take_holding(struct publish *p, const struct holding *holding)
{
	enum err e = segment_store_keep(&p->store, holding->ceiling, SEGMENT_OFFERED);

	memcpy(p->offered.ceiling.bytes, holding->ceiling->id, LAYOUT_ID_LEN);
	p->offered.flags = holding->root_flags;
	for (size_t i = 0; i < holding->ruleset_count && e == ERR_OK; i++)
		e = segment_store_keep(&p->store, holding->rulesets[i], SEGMENT_OFFERED);
	for (size_t i = 0; i < holding->lease_count && e == ERR_OK; i++)
		e = take_lease(p, &holding->leases[i]);
	return e;
}

static void note_expired(struct lease_entry *entry, uint64_t wall_ms, uint64_t mono_ns)
{
	if (entry->wanted.is_present && entry->wanted.exp_ms != 0 &&
	    (wall_ms >= entry->wanted.exp_ms || mono_ns >= entry->wanted.exp_mono_ns))
		entry->is_expired = true;
}

/* The offer becomes what is wanted; true when anything differs from before. */
static bool adopt_offer(struct publish *p)
{
	bool differs = !p->has_offer || memcmp(&p->offered, &p->wanted, sizeof(p->wanted)) != 0;
	uint64_t wall_ms = least_wall_ms(p), mono_ns = clock_mono_ns();
	struct lease_entry *entry;

	FOR_EACH_LEASE (entry, p) {
		if (!is_same_said(&entry->offered, &entry->wanted)) {
			differs = true;
			entry->is_expired = false;
		}
		entry->wanted = entry->offered;
		entry->offered = (struct said){ 0 };
		note_expired(entry, wall_ms, mono_ns);
	}
	p->wanted = p->offered;
	p->has_offer = true;
	return differs;
}

static void ship(struct publish *p);

enum err publish_offer(struct publish *p, const struct holding *holding)
{
	struct lease_entry *entry;
	enum err e = take_holding(p, holding);

	if (e != ERR_OK) {
		FOR_EACH_LEASE (entry, p)
			entry->offered = (struct said){ 0 };
		segment_store_clear(&p->store, SEGMENT_OFFERED);
		segment_store_sweep(&p->store);
		sweep_leases(p);
		p->is_offer_bad = true;
		return e;
	}
	p->is_offer_bad = false;
	segment_store_copy_use(&p->store, SEGMENT_OFFERED, SEGMENT_WANTED);
	segment_store_clear(&p->store, SEGMENT_OFFERED);
	if (adopt_offer(p))
		p->wanted_serial++;
	FOR_EACH_LEASE (entry, p)
		enforce(p, entry);
	segment_store_sweep(&p->store);
	sweep_leases(p);
	ship(p);
	return ERR_OK;
}

bool publish_is_adopted(const struct publish *p)
{
	return p->channel != NULL && p->has_offer && !p->is_offer_bad &&
	       p->adopted_serial == p->wanted_serial;
}


static enum err emit_shipped_root(struct publish *p)
{
	struct emit_root_lease *leases = NULL;
	struct lease_entry *entry;
	size_t count = 0;
	enum err e;

	emitted_finish(&p->root);
	p->root = (struct emitted){ 0 };
	if (p->leases.count > 0) {
		leases = alloc_array(p->leases.count, sizeof(*leases));
		if (leases == NULL)
			return ERR_NO_MEMORY;
	}
	FOR_EACH_LEASE (entry, p) {
		if (entry->shipped.is_present)
			leases[count++] =
				(struct emit_root_lease){ entry->id, entry->shipped.segment };
	}
	e = emit_root(p->version, 0, &p->shipped.ceiling, p->shipped.flags, leases, count, &p->root);
	alloc_free(leases);
	return e;
}

static enum err send_sealed(struct publish *p, struct ctl_msg *msg, const uint8_t *bytes, size_t len)
{
	int fd;
	enum err e = segment_seal(bytes, len, &fd);

	if (e != ERR_OK)
		return e;
	e = channel_send(p->channel, msg, fd);
	close(fd);
	return e;
}

/* Send until messages begin to queue: each queued one holds a descriptor. */
static enum err send_segments(struct publish *p)
{
	struct stored_segment *segment = NULL;

	while (channel_queued(p->channel) == 0) {
		struct ctl_msg msg = { .type = CTL_SEGMENT };
		enum err e;

		segment = segment_store_next_unsent(&p->store, SEGMENT_SHIPPED, segment);
		if (segment == NULL)
			return ERR_OK;
		msg.field[0].bytes = (struct text){ (const char *)segment->id, LAYOUT_ID_LEN };
		e = send_sealed(p, &msg, segment->bytes, segment->len);
		if (e != ERR_OK)
			return e;
		segment->is_sent = true;
	}
	return ERR_AGAIN;
}

static void put_off(struct publish *p, enum err e)
{
	p->step = PUBLISH_IDLE;
	p->retry_at_ns = clock_mono_ns() + RETRY_NS;
	log_limited(&p->complaint, LOG_LEVEL_ERROR, "policy_not_sent version=%llu error=\"%s\"",
		    (unsigned long long)p->version, err_text(e));
}

static void go_on(struct publish *p)
{
	struct ctl_msg msg = { .type = CTL_ROOT };
	enum err e = send_segments(p);

	if (e == ERR_AGAIN)
		return;
	if (e == ERR_OK) {
		msg.field[0].number = p->version;
		e = send_sealed(p, &msg, p->root.bytes, p->root.len);
	}
	if (e != ERR_OK) {
		put_off(p, e);
		return;
	}
	p->step = PUBLISH_AWAITING;
}

/* Begin with the newest holding, unless a root is under way or it is too early. */
static void ship(struct publish *p)
{
	struct lease_entry *entry;
	enum err e;

	if (p->channel == NULL || !p->has_offer || p->step == PUBLISH_AWAITING ||
	    p->adopted_serial == p->wanted_serial || clock_mono_ns() < p->retry_at_ns)
		return;
	FOR_EACH_LEASE (entry, p)
		entry->shipped = entry->wanted;
	p->shipped = p->wanted;
	p->shipped_serial = p->wanted_serial;
	segment_store_copy_use(&p->store, SEGMENT_WANTED, SEGMENT_SHIPPED);
	p->version++;
	e = emit_shipped_root(p);
	if (e != ERR_OK) {
		put_off(p, e);
		return;
	}
	p->step = PUBLISH_SHIPPING;
	go_on(p);
}

void publish_on_drained(struct publish *p)
{
	if (p->step == PUBLISH_SHIPPING)
		go_on(p);
}

void publish_connect(struct publish *p, struct channel *channel, struct gate *gate,
		     uint64_t adopted_version)
{
	publish_disconnect(p);
	p->slot_count = gate_slot_count(gate);
	p->by_slot = alloc_array(p->slot_count, sizeof(struct lease_entry *));
	if (p->by_slot == NULL)
		p->slot_count = 0;
	p->channel = channel;
	p->gate = gate;
	if (p->version < adopted_version)
		p->version = adopted_version;
	p->retry_at_ns = 0;
	ship(p);
}

void publish_disconnect(struct publish *p)
{
	struct lease_entry *entry;

	p->channel = NULL;
	p->gate = NULL;
	p->step = PUBLISH_IDLE;
	p->adopted_serial = 0;
	p->adopted_version = 0;
	FOR_EACH_LEASE (entry, p) {
		entry->has_slot = false;
		entry->shipped = entry->adopted = (struct said){ 0 };
		if (entry->awaits_revoked)
			p->events->on_revoked(p->arg, entry->id, false, 0);
		entry->awaits_revoked = false;
	}
	alloc_free(p->by_slot);
	p->by_slot = NULL;
	p->slot_count = 0;
	segment_store_clear(&p->store, SEGMENT_SHIPPED | SEGMENT_ADOPTED);
	segment_store_set_sent(&p->store, 0);
	segment_store_sweep(&p->store);
	sweep_leases(p);
}


static struct text take_until(struct text *rest, char end)
{
	struct text part = { rest->at, 0 };

	while (part.len < rest->len && rest->at[part.len] != end)
		part.len++;
	rest->at += part.len;
	rest->len -= part.len;
	if (rest->len > 0) {
		rest->at++;
		rest->len--;
	}
	return part;
}

/*
 * Only the slots told with the greeting come with a state that holds: the predecessor's. A slot that moves from lease to lease later
 * begins shut, as does one that a lease leaves.
 */
static void give_slot(struct publish *p, struct lease_entry *entry, uint32_t slot, uint32_t generation,
		      bool is_greeting)
{
	struct lease_entry *before = p->by_slot[slot];

	if (before == entry) {
		entry->generation = generation;
		return;
	}
	if (before != NULL)
		before->has_slot = false;
	if (entry->has_slot) {
		p->by_slot[entry->slot] = NULL;
		gate_set_slot(p->gate, entry->slot, GATE_SLOT_CLOSED);
	}
	if ((before != NULL || !is_greeting) && gate_slot_state(p->gate, slot) == GATE_SLOT_OPEN)
		gate_set_slot(p->gate, slot, GATE_SLOT_CLOSED);
	entry->has_slot = true;
	entry->slot = slot;
	entry->generation = generation;
	p->by_slot[slot] = entry;
}

static bool read_slot(struct publish *p, struct text line, bool is_greeting)
{
	struct text slot = take_until(&line, ' '), generation = take_until(&line, ' ');
	uint64_t slot_number, generation_number;
	char id[ID_MAX + 1];
	struct lease_entry *entry;

	if (p->slot_count == 0 || !text_to_u64(slot, p->slot_count - 1, &slot_number) ||
	    !text_to_u64(generation, UINT32_MAX, &generation_number) || line.len == 0 ||
	    line.len > ID_MAX)
		return false;
	memcpy(id, line.at, line.len);
	id[line.len] = '\0';
	entry = find_or_add(p, id);
	if (entry == NULL)
		return false;
	give_slot(p, entry, (uint32_t)slot_number, (uint32_t)generation_number, is_greeting);
	enforce(p, entry);
	return true;
}

bool publish_on_slots(struct publish *p, uint64_t version, struct text lines)
{
	while (lines.len > 0) {
		if (!read_slot(p, take_until(&lines, '\n'), version == 0))
			return false;
	}
	return true;
}

bool publish_on_ack(struct publish *p, uint64_t version)
{
	struct lease_entry *entry;

	if (p->step != PUBLISH_AWAITING || version != p->version)
		return false;
	p->step = PUBLISH_IDLE;
	p->adopted_serial = p->shipped_serial;
	p->adopted_version = version;
	segment_store_copy_use(&p->store, SEGMENT_SHIPPED, SEGMENT_ADOPTED);
	segment_store_set_sent(&p->store, SEGMENT_ADOPTED);
	FOR_EACH_LEASE (entry, p) {
		entry->adopted = entry->shipped;
		settle(p, entry);
		/* A lease that is gone keeps no slot: the daemon may give it to another. */
		if (!entry->adopted.is_present && entry->has_slot) {
			p->by_slot[entry->slot] = NULL;
			entry->has_slot = false;
		}
	}
	segment_store_sweep(&p->store);
	sweep_leases(p);
	if (publish_is_adopted(p))
		p->events->on_adopted(p->arg);
	else
		ship(p);
	return true;
}

bool publish_on_nack(struct publish *p, uint64_t version, struct text why)
{
	if (p->step != PUBLISH_AWAITING || version != p->version)
		return false;
	p->step = PUBLISH_IDLE;
	p->retry_at_ns = clock_mono_ns() + RETRY_NS;
	/* What it kept of the refused one is not known. */
	segment_store_set_sent(&p->store, SEGMENT_ADOPTED);
	p->events->on_refused(p->arg, version, why);
	return true;
}

void publish_on_revoked(struct publish *p, uint64_t slot, uint64_t generation, uint64_t closed)
{
	struct lease_entry *entry = slot < p->slot_count ? p->by_slot[slot] : NULL;

	if (entry == NULL)
		return;
	/* The daemon counted on; an answer that was overtaken by newer slot lines does not count back. */
	if ((int32_t)((uint32_t)generation - entry->generation) > 0)
		entry->generation = (uint32_t)generation;
	if (!entry->awaits_revoked)
		return;
	entry->awaits_revoked = false;
	p->events->on_revoked(p->arg, entry->id, true, closed);
}


enum err publish_set_by_hand(struct publish *p, const char *lease, bool is_revoked, bool *out_awaits)
{
	struct lease_entry *entry = is_revoked ? find_or_add(p, lease) : find_lease(p, lease);
	bool awaits = false;

	if (entry == NULL && is_revoked)
		return ERR_NO_MEMORY;
	if (entry != NULL) {
		entry->by_hand = is_revoked;
		awaits = enforce(p, entry);
		entry->awaits_revoked = awaits;
		/* Without a new root nothing else would open it again. */
		if (!is_revoked && p->gate != NULL)
			settle(p, entry);
	}
	*out_awaits = awaits;
	return ERR_OK;
}

void publish_tick(struct publish *p)
{
	uint64_t wall_ms = least_wall_ms(p), mono_ns = clock_mono_ns();
	struct lease_entry *entry;

	FOR_EACH_LEASE (entry, p) {
		note_expired(entry, wall_ms, mono_ns);
		enforce(p, entry);
	}
	if (p->step == PUBLISH_IDLE)
		ship(p);
}

bool publish_find(const struct publish *p, const char *lease, uint64_t *out_rev)
{
	const struct lease_entry *entry = find_lease(p, lease);

	if (entry == NULL || !entry->wanted.is_present)
		return false;
	*out_rev = entry->wanted.rev;
	return true;
}

void publish_count(const struct publish *p, struct publish_counts *out_counts)
{
	struct publish_counts counts = { .version = p->adopted_version };
	const struct lease_entry *entry;

	FOR_EACH_LEASE (entry, p) {
		if (!entry->wanted.is_present)
			continue;
		switch (desired_state(entry)) {
		case GATE_SLOT_OPEN:
			counts.active++;
			if (entry->wanted.exp_ms != 0 &&
			    (counts.soonest_expiry_ms == 0 ||
			     entry->wanted.exp_ms < counts.soonest_expiry_ms))
				counts.soonest_expiry_ms = entry->wanted.exp_ms;
			break;
		case GATE_SLOT_SUSPENDED:
			counts.suspended++;
			break;
		case GATE_SLOT_INVALID:
			counts.quarantined++;
			break;
		default:
			counts.revoked++;
			break;
		}
	}
	*out_counts = counts;
}

void publish_visit_listeners(const struct publish *p, publish_listener_fn *visit, void *arg)
{
	const struct lease_entry *entry;

	FOR_EACH_LEASE (entry, p) {
		if (entry->wanted.is_present && entry->wanted.listener[0] != '\0')
			visit(arg, text_of(entry->wanted.listener));
	}
}
