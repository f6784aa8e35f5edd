/*
 * Thousands of random offers, answers, refusals, losses and clock steps against publish, and a daemon that believes nothing: it replays what
 * was shipped into a table of its own, gives slots, and after each step the page, the table and the source are compared.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "fixture.h"
#include "image/segment.h"
#include "segment_builder.h"
#include "sidecar/publish.h"

#define LEASES 250
#define SLOTS (LEASES + 20)
#define NONE (-1)
#define HELD_MAX 4096
#define START_MS 1796050000000ULL

/* What a lease may be: the last ends, each at its own time. */
enum variant { PLAIN, OTHER, SHARING, SUSPENDED, ENDING, VARIANTS };

static uint64_t now_ms;

static uint64_t fake_mono_ns(void)
{
	return (5000000 + now_ms) * 1000000;
}

static uint64_t fake_wall_ms(void)
{
	return START_MS + now_ms;
}

static const struct clock_source fake = { fake_mono_ns, fake_wall_ms };

static struct world {
	uint64_t seed;
	struct fixture_link link;
	struct publish *publish;
	struct built_store store;
	struct emitted segments[LEASES][VARIANTS], rulesets[2], ceilings[2];
	char ids[LEASES][8];

	/* The source, and what of it publish took. */
	int source[LEASES], taken[LEASES];
	unsigned ceiling, taken_ceiling;
	uint64_t receipt;
	bool by_hand[LEASES], is_ended[LEASES], is_bad, has_taken;

	/* The daemon. */
	struct gate *page; /* NULL: not connected */
	uint8_t held[HELD_MAX][LAYOUT_ID_LEN];
	size_t held_count;
	int snapshot[LEASES];
	unsigned snapshot_ceiling;
	uint64_t version;          /* of the snapshot; 0: none on this connection */
	struct segment *root;      /* under way; NULL: none */
	uint32_t slot_of[LEASES];  /* SLOTS: none */
	int owner[SLOTS];
	bool was_open[SLOTS];      /* after the last step */
	unsigned generation[SLOTS];
	unsigned roots, deltas, refused;
} *w;

static unsigned draw(unsigned below)
{
	w->seed = w->seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(w->seed >> 33) % below;
}

static void on_adopted(void *arg)
{
}

static void on_refused(void *arg, uint64_t version, struct text why)
{
	w->refused++;
}

static void on_revoked(void *arg, const char *lease, bool is_known, uint64_t closed)
{
}

static const struct publish_events events = { on_adopted, on_refused, on_revoked };

static void build(struct emitted *e, enum layout_kind kind, const char *text)
{
	static uint8_t bytes[BUILT_BYTES_MAX];

	if (w->store.count > 200) {
		built_store_finish(&w->store);
		built_store_init(&w->store);
	}
	e->len = built_bytes(&w->store, kind, text, bytes);
	e->bytes = alloc_copy(bytes, e->len);
	cr_assert_eq(crypto_sha256(e->bytes, e->len, e->id), ERR_OK);
}

static uint64_t end_ms(unsigned lease)
{
	return START_MS + 2000 * (lease + 1);
}

static void build_all(void)
{
	static const char *const lines[VARIANTS] = { "", "allow https://a.example.org\n",
						     "ruleset\nallow https://r0.example.org\nend\n",
						     "state suspended\nruleset\nallow https://r1.example.org\nend\n", "exp " };

	build(&w->ceilings[0], LAYOUT_CEILING, "allow any\n");
	build(&w->ceilings[1], LAYOUT_CEILING, "allow https://*.example.org\n");
	build(&w->rulesets[0], LAYOUT_RULESET, "allow https://r0.example.org\n");
	build(&w->rulesets[1], LAYOUT_RULESET, "allow https://r1.example.org\n");
	for (unsigned i = 0; i < LEASES; i++) {
		snprintf(w->ids[i], sizeof(w->ids[i]), "l%03u", i);
		for (unsigned v = 0; v < VARIANTS; v++) {
			char text[300];
			int len = snprintf(text, sizeof(text), "lease %s\nrequire source\nsource 10.0.0.1/32\n%s", w->ids[i], lines[v]);

			if (v == ENDING)
				snprintf(text + len, sizeof(text) - (size_t)len, "%llu\n", (unsigned long long)end_ms(i));
			build(&w->segments[i][v], LAYOUT_LEASE, text);
		}
		w->source[i] = w->taken[i] = w->snapshot[i] = NONE;
		w->slot_of[i] = SLOTS;
	}
}

static void world_start(uint64_t seed)
{
	w = alloc_zeroed(sizeof(*w));
	w->seed = seed;
	now_ms = 0;
	log_init("test", LOG_LEVEL_ERROR);
	cr_assert_eq(crypto_init(), ERR_OK);
	clock_use(&fake);
	built_store_init(&w->store);
	build_all();
	w->link.loop = loop_create();
	cr_assert_eq(publish_create(&events, NULL, &w->publish), ERR_OK);
}

static void lose(void)
{
	if (w->page == NULL)
		return;
	publish_disconnect(w->publish);
	fixture_link_close(&w->link);
	gate_destroy(w->page);
	w->page = NULL;
	segment_unref(w->root);
	w->root = NULL;
}

static void world_stop(void)
{
	lose();
	publish_destroy(w->publish);
	for (unsigned i = 0; i < LEASES; i++)
		for (unsigned v = 0; v < VARIANTS; v++)
			alloc_free(w->segments[i][v].bytes);
	for (unsigned i = 0; i < 2; i++) {
		alloc_free(w->rulesets[i].bytes);
		alloc_free(w->ceilings[i].bytes);
	}
	built_store_finish(&w->store);
	loop_destroy(w->link.loop);
	alloc_free(w);
	clock_use(NULL);
}

/* A new daemon, or (with a page that has history) the same one again; it keeps no segment. */
static void welcome(void)
{
	lose();
	fixture_link_open(&w->link);
	cr_assert_eq(gate_create(SLOTS, &w->page), ERR_OK);
	w->held_count = 0;
	w->version = 0;
	for (unsigned i = 0; i < LEASES; i++) {
		w->snapshot[i] = NONE;
		w->slot_of[i] = SLOTS;
	}
	for (unsigned i = 0; i < SLOTS; i++)
		w->owner[i] = NONE;
	memset(w->was_open, 0, sizeof(w->was_open));
	publish_connect(w->publish, w->link.channel, w->page, draw(2) == 0 ? 0 : w->roots + 1);
}

/* --- the daemon --- */

static bool holds(const uint8_t id[LAYOUT_ID_LEN])
{
	for (size_t i = 0; i < w->held_count; i++)
		if (memcmp(w->held[i], id, LAYOUT_ID_LEN) == 0)
			return true;
	return false;
}

static void keep(const uint8_t id[LAYOUT_ID_LEN])
{
	if (holds(id))
		return;
	cr_assert_lt(w->held_count, HELD_MAX);
	memcpy(w->held[w->held_count++], id, LAYOUT_ID_LEN);
}

static void keep_variant(unsigned lease, int v)
{
	keep(w->segments[lease][v].id);
	if (v == SHARING || v == SUSPENDED)
		keep(w->rulesets[v == SUSPENDED].id);
}

static int variant_of(unsigned lease, const uint8_t id[LAYOUT_ID_LEN])
{
	int v = 0;

	while (v < VARIANTS && memcmp(w->segments[lease][v].id, id, LAYOUT_ID_LEN) != 0)
		v++;
	cr_assert_lt(v, VARIANTS);
	return v;
}

static unsigned lease_number(struct text id)
{
	cr_assert_eq(id.len, 4);
	return (unsigned)((id.at[1] - '0') * 100 + (id.at[2] - '0') * 10 + (id.at[3] - '0'));
}

/* What a root may name: what is held, and whom it may call gone: who was there. */
static void check_root(const struct segment *root)
{
	const struct layout_root *info = segment_root(root);
	const struct layout_root_lease *rows;
	uint32_t count;

	cr_assert(info->base == 0 || info->base == w->version, "base %llu, have %llu", (unsigned long long)info->base,
		  (unsigned long long)w->version);
	cr_assert(holds(info->ceiling.bytes));
	rows = segment_table(root, LAYOUT_ROOT_LEASES, &count);
	for (uint32_t i = 0; i < count; i++) {
		unsigned lease = lease_number(segment_text(root, rows[i].id));

		if (layout_id_is_none(&rows[i].segment)) {
			cr_assert_neq(w->snapshot[lease], NONE, "%u is called gone and was not there", lease);
			continue;
		}
		cr_assert(holds(rows[i].segment.bytes), "the segment of %u was not sent", lease);
		switch (variant_of(lease, rows[i].segment.bytes)) {
		case SHARING:
			cr_assert(holds(w->rulesets[0].id));
			break;
		case SUSPENDED:
			cr_assert(holds(w->rulesets[1].id));
			break;
		default:
			break;
		}
	}
	w->roots++;
	w->deltas += info->base != 0;
}

/* Read at most `most` messages. */
static void receive(unsigned most)
{
	struct ctl_msg msg;
	int fd;

	if (w->page == NULL)
		return;
	fixture_settle(w->link.loop);
	while (most-- > 0 && fixture_link_next(&w->link, &msg, &fd)) {
		struct segment *segment = NULL;
		const char *fault = "";

		switch (msg.type) {
		case CTL_SEGMENT:
			cr_assert_eq(segment_open(fd, &segment, &fault), ERR_OK, "%s", fault);
			keep(segment_id(segment));
			segment_unref(segment);
			break;
		case CTL_ROOT:
			cr_assert_null(w->root, "one root at a time");
			cr_assert_eq(segment_open(fd, &w->root, &fault), ERR_OK, "%s", fault);
			check_root(w->root);
			break;
		default:
			cr_assert_eq(msg.type, CTL_REVOKE);
			if (w->generation[msg.field[0].number] == msg.field[1].number)
				w->generation[msg.field[0].number]++;
			publish_on_revoked(w->publish, msg.field[0].number, w->generation[msg.field[0].number], 1);
		}
		if (fd >= 0)
			close(fd);
		fixture_settle(w->link.loop);
		if (channel_queued(w->link.channel) == 0)
			publish_on_drained(w->publish);
	}
}

static void free_slot(unsigned lease)
{
	uint32_t slot = w->slot_of[lease];

	if (slot == SLOTS)
		return;
	w->generation[slot]++;
	w->owner[slot] = NONE;
	w->slot_of[lease] = SLOTS;
}

static void take_slot(unsigned lease)
{
	uint32_t slot = draw(SLOTS);

	if (w->slot_of[lease] != SLOTS)
		return;
	while (w->owner[slot] != NONE || gate_slot_state(w->page, slot) == GATE_SLOT_OPEN)
		slot = (slot + 1) % SLOTS;
	w->owner[slot] = (int)lease;
	w->slot_of[lease] = slot;
}

static void tell_slot(unsigned lease)
{
	char line[64];

	take_slot(lease);
	snprintf(line, sizeof(line), "%u %u %s\n", w->slot_of[lease], w->generation[w->slot_of[lease]], w->ids[lease]);
	cr_assert(publish_on_slots(w->publish, w->version, text_of(line)));
}

/* Every worker adopted the root: the table is what it says, slots are told, only what is named is kept. */
static void adopt(void)
{
	const struct layout_root_lease *rows;
	bool is_named[LEASES] = { false };
	uint32_t count;

	rows = segment_table(w->root, LAYOUT_ROOT_LEASES, &count);
	for (unsigned i = 0; i < LEASES && segment_root(w->root)->base == 0; i++)
		w->snapshot[i] = NONE;
	for (uint32_t i = 0; i < count; i++) {
		unsigned lease = lease_number(segment_text(w->root, rows[i].id));

		is_named[lease] = true;
		w->snapshot[lease] = layout_id_is_none(&rows[i].segment) ? NONE : variant_of(lease, rows[i].segment.bytes);
	}
	w->snapshot_ceiling = memcmp(segment_root(w->root)->ceiling.bytes, w->ceilings[0].id, LAYOUT_ID_LEN) != 0;
	w->version = segment_root(w->root)->version;
	w->held_count = 0;
	keep(w->ceilings[w->snapshot_ceiling].id);
	for (unsigned i = 0; i < LEASES; i++) {
		if (w->snapshot[i] == NONE)
			free_slot(i);
		else
			keep_variant(i, w->snapshot[i]);
	}
	for (unsigned i = 0; i < LEASES; i++)
		if (is_named[i] && w->snapshot[i] != NONE)
			tell_slot(i);
	segment_unref(w->root);
	w->root = NULL;
	cr_assert(publish_on_ack(w->publish, w->version));
}

static void refuse(void)
{
	bool is_base = segment_root(w->root)->base != 0 && draw(2) == 0;
	uint64_t version = segment_root(w->root)->version;

	segment_unref(w->root);
	w->root = NULL;
	/* Nobody says what it keeps of a refused one. */
	w->held_count = 0;
	for (unsigned i = 0; i < LEASES; i++)
		if (w->snapshot[i] != NONE)
			keep_variant(i, w->snapshot[i]);
	if (w->version != 0)
		keep(w->ceilings[w->snapshot_ceiling].id);
	cr_assert(publish_on_nack(w->publish, version, text_of(is_base ? CTL_NACK_BASE : "no")));
}

/* --- the source --- */

static void note_ends(void)
{
	for (unsigned i = 0; i < LEASES; i++)
		w->is_ended[i] = w->is_ended[i] || (w->taken[i] == ENDING && fake_wall_ms() >= end_ms(i));
}

static void note_taken(const bool *is_named)
{
	for (unsigned i = 0; i < LEASES; i++) {
		if (!is_named[i])
			continue;
		if (w->taken[i] != w->source[i])
			w->is_ended[i] = false;
		w->taken[i] = w->source[i];
		w->is_ended[i] = w->is_ended[i] || (w->taken[i] == ENDING && fake_wall_ms() >= end_ms(i));
	}
	w->taken_ceiling = w->ceiling;
	w->is_bad = false;
	w->has_taken = true;
}

/* Offer what `is_named` says, or with NULL all; `spoil` puts a segment in that does not verify. */
static enum err offer(const bool *is_named, uint64_t base, bool spoil)
{
	struct holding_lease leases[LEASES + 1];
	const struct emitted *rulesets[] = { &w->rulesets[0], &w->rulesets[1], &w->rulesets[0] };
	struct holding holding = { .base = base, .leases = leases, .rulesets = rulesets, .ruleset_count = 3,
				   .ceiling = &w->ceilings[w->ceiling] };
	struct emitted spoilt = w->segments[0][PLAIN];
	bool all[LEASES];
	enum err e;

	for (unsigned i = 0; i < LEASES; i++) {
		all[i] = is_named == NULL || is_named[i];
		if (all[i] && (base != 0 || w->source[i] != NONE))
			leases[holding.lease_count++] = (struct holding_lease){
				w->ids[i], w->source[i] == NONE ? NULL : &w->segments[i][w->source[i]]
			};
	}
	if (spoil) {
		spoilt.id[0] ^= 1;
		leases[holding.lease_count++] = (struct holding_lease){ "l999", &spoilt };
	}
	e = publish_offer(w->publish, &holding, &w->receipt);
	if (e == ERR_OK) {
		note_taken(all);
	} else {
		w->is_bad = true;
		w->receipt = 0;
	}
	return e;
}

static void change(unsigned most)
{
	bool is_named[LEASES] = { false };
	unsigned count = 1 + draw(most);

	for (unsigned i = 0; i < count; i++) {
		unsigned lease = draw(LEASES);

		is_named[lease] = true;
		w->source[lease] = (int)draw(VARIANTS + 1) - 1;
	}
	if (draw(30) == 0)
		w->ceiling ^= 1;
	if (w->receipt == 0 || draw(20) == 0)
		cr_assert_eq(offer(NULL, 0, false), ERR_OK);
	else
		cr_assert_eq(offer(is_named, w->receipt, false), ERR_OK);
}

/* Offers that cannot be taken change nothing; only a complete one may follow. */
static void change_in_vain(void)
{
	bool is_named[LEASES] = { false };
	uint64_t nth;
	enum err e;

	is_named[draw(LEASES)] = true;
	switch (draw(4)) {
	case 0:
		cr_assert_eq(offer(is_named, w->receipt + 1 + draw(3), false), ERR_NOT_FOUND);
		break;
	case 1:
		cr_assert_neq(offer(w->receipt == 0 ? NULL : is_named, w->receipt, true), ERR_OK);
		break;
	default:
		nth = 1 + draw(400);
		alloc_fail_at(nth);
		e = offer(w->receipt == 0 ? NULL : is_named, w->receipt, false);
		alloc_fail_at(0);
		cr_assert(e == ERR_OK || e == ERR_NO_MEMORY);
	}
}

/* --- comparing --- */

static enum gate_slot_state wanted_state(unsigned lease)
{
	if (w->by_hand[lease] || w->taken[lease] == NONE)
		return GATE_SLOT_REVOKED;
	if (w->is_ended[lease])
		return GATE_SLOT_EXPIRED;
	return w->taken[lease] == SUSPENDED ? GATE_SLOT_SUSPENDED : GATE_SLOT_OPEN;
}

static void check_counts(void)
{
	struct publish_counts counts, want = { .active = 0 };

	for (unsigned i = 0; i < LEASES; i++) {
		if (w->taken[i] == NONE)
			continue;
		switch (wanted_state(i)) {
		case GATE_SLOT_OPEN:
			want.active++;
			break;
		case GATE_SLOT_SUSPENDED:
			want.suspended++;
			break;
		default:
			want.revoked++;
		}
	}
	publish_count(w->publish, &counts);
	cr_assert_eq(counts.active, want.active);
	cr_assert_eq(counts.suspended, want.suspended);
	cr_assert_eq(counts.revoked, want.revoked);
	cr_assert_eq(counts.quarantined, 0);
}

static void check(void)
{
	bool is_adopted = publish_is_adopted(w->publish);

	check_counts();
	cr_assert_not(is_adopted && (w->is_bad || w->page == NULL || w->version == 0));
	if (w->page == NULL)
		return;
	for (uint32_t slot = 0; slot < SLOTS; slot++) {
		int lease = w->owner[slot];

		bool was_open = w->was_open[slot];

		w->was_open[slot] = gate_slot_state(w->page, slot) == GATE_SLOT_OPEN;
		if (!w->was_open[slot])
			continue;
		cr_assert_neq(lease, NONE, "slot %u is open and nobody's", slot);
		cr_assert_eq(wanted_state((unsigned)lease), GATE_SLOT_OPEN, "%d is open", lease);
		cr_assert_neq(w->snapshot[lease], NONE);
		/* What changes while it is open stays open, and is judged again with the next root. */
		if (!was_open)
			cr_assert_eq(w->snapshot[lease], w->taken[lease], "%d opened for what was not adopted", lease);
	}
	if (!is_adopted)
		return;
	cr_assert_eq(w->snapshot_ceiling, w->taken_ceiling);
	for (unsigned i = 0; i < LEASES; i++) {
		cr_assert_eq(w->snapshot[i], w->taken[i], "%u", i);
		if (w->taken[i] != NONE)
			cr_assert_eq(gate_slot_state(w->page, w->slot_of[i]), wanted_state(i), "%u", i);
	}
}

static void step(void)
{
	unsigned lease;
	bool awaits;

	switch (draw(16)) {
	case 0:
	case 1:
	case 2:
		change(4);
		break;
	case 3:
		change(LEASES);
		break;
	case 4:
		change_in_vain();
		break;
	case 5:
		if (draw(6) == 0)
			lose();
		else if (w->page == NULL || draw(6) == 0)
			welcome();
		break;
	case 6:
		if (w->root != NULL && draw(3) == 0)
			refuse();
		break;
	case 7:
		lease = draw(LEASES);
		w->by_hand[lease] = !w->by_hand[lease];
		cr_assert_eq(publish_set_by_hand(w->publish, w->ids[lease], w->by_hand[lease], &awaits), ERR_OK);
		break;
	case 8:
		now_ms += draw(2000);
		publish_tick(w->publish);
		note_ends();
		break;
	case 9:
	case 10:
		if (w->root != NULL)
			adopt();
		break;
	default:
		receive(draw(3) == 0 ? 500 : draw(20));
	}
}

/* Until everything is in force. */
static void settle(void)
{
	if (w->receipt == 0)
		cr_assert_eq(offer(NULL, 0, false), ERR_OK);
	if (w->page == NULL)
		welcome();
	for (unsigned i = 0; i < 10 && !publish_is_adopted(w->publish); i++) {
		now_ms += 1100;
		publish_tick(w->publish);
		note_ends();
		receive(10000);
		if (w->root != NULL)
			adopt();
	}
	cr_assert(publish_is_adopted(w->publish));
	check();
}

Test(publish_random, what_the_daemon_replays_is_what_the_source_holds)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		world_start(seed);
		for (unsigned n = 0; n < 1500; n++) {
			step();
			check();
			if (n % 300 == 299)
				settle();
		}
		settle();
		cr_assert_gt(w->deltas, 20u, "seed %u: %u of %u", (unsigned)seed, w->deltas, w->roots);
		cr_assert_gt(w->roots, w->deltas);
		cr_assert_gt(w->refused, 0u);
		world_stop();
	}
}
