/*
 * Random batches of a store, honest and not, against the signed driver, and a reference that keeps every rule in its plainest form: after each
 * batch what a receiver holds must be what the reference says. Keeps to one kind of fault, an unknown key; the others are test_accept's.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/crypto.h"
#include "base/log.h"
#include "fixture.h"
#include "image/segment.h"
#include "replay.h"
#include "source/driver_signed.h"
#include "signed_fixture.h"

#define LEASES 9
#define RULESETS 3
#define PAYLOAD_MAX 1024

/* A lease document; rev 0: there is none. */
struct doc {
	char payload[PAYLOAD_MAX];
	unsigned rev;
	bool is_faulty;
	int ruleset; /* -1: it names none */
};

struct model_lease {
	char id[4];
	struct doc stored;       /* what the store has */
	bool is_put;             /* and has told since the last batch settled */
	struct doc good, bad, floor;
	char in_force[16];       /* word; "" none */
};

struct row {
	unsigned rev;
	char payload[PAYLOAD_MAX];
};

static struct world {
	char folder[64];
	struct loop *loop;
	struct frames_source source;
	const struct frames_events *events;
	void *arg;
	struct driver *driver;
	struct replay replay;
	bool is_refusing;
	uint64_t seed;

	struct model_lease leases[LEASES];
	bool has_ruleset[RULESETS];
	char rulesets[RULESETS][256], ruleset_hex[RULESETS][65];
	struct row manifest[LEASES]; /* rev 0: not in it */
	unsigned seq, keyset, matches, quarantines, lesses;
} *w;

static struct world world;

static unsigned draw(unsigned below)
{
	w->seed = w->seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(w->seed >> 33) % below;
}

/* --- the driver under test --- */

static enum err on_start(struct frames_source *source, const struct frames_events *events, void *arg)
{
	w->events = events;
	w->arg = arg;
	return ERR_OK;
}

static void on_relist(struct frames_source *source)
{
}

static void on_close(struct frames_source *source)
{
}

static const struct frames_ops ops = { on_start, on_relist, on_close };

static enum err on_holding(void *arg, const struct holding *holding, uint64_t *out_receipt)
{
	if (!w->is_refusing)
		return replay_take(&w->replay, holding, out_receipt);
	w->replay.receipt = 0;
	return ERR_NO_MEMORY;
}

static void on_moment(void *arg, uint64_t ns)
{
}

static void on_halt(void *arg, bool is_halted)
{
	cr_assert_not(is_halted);
}

static void on_time(void *arg, uint64_t wall_ms, uint64_t mono_ns)
{
}

static const struct driver_events events = { on_holding, on_moment, on_moment, on_halt, on_time };

static void put_signed(const char *key, enum envelope_type type, const char *payload, enum signed_key by)
{
	const enum signed_key keys[] = { by, SIGNED_R2 };

	w->events->on_put(w->arg, text_of(key),
			  signed_envelope(type, payload, keys, type == ENVELOPE_KEYSET ? 2 : type != ENVELOPE_RULESET));
}

static void put_keyset(void)
{
	put_signed("keyset", ENVELOPE_KEYSET, signed_keyset(++w->keyset, 3, SIGNED_NOW_MS + 7200000), SIGNED_R1);
}

static void world_start(uint64_t seed)
{
	struct driver_signed_options options = { .cell = SIGNED_CELL, .refuse_after_ms = 10000 };
	struct fault_list faults;
	struct arena arena;

	world = (struct world){ .seed = seed };
	w = &world;
	log_init("test", LOG_LEVEL_ERROR);
	cr_assert_eq(crypto_init(), ERR_OK);
	signed_clock_start();
	fixture_make_folder(w->folder);
	fixture_write(fixture_path(w->folder, "ceiling.policy"), "allow any\n");
	fixture_write(fixture_path(w->folder, "keys"), signed_root());
	w->source.ops = &ops;
	w->loop = loop_create();
	options.source = &w->source;
	options.ceiling = fixture_path(w->folder, "ceiling.policy");
	options.keys = fixture_path(w->folder, "keys");
	options.state = w->folder;
	arena_init(&arena, 0);
	fault_list_init(&faults, &arena);
	cr_assert_eq(driver_signed_open(w->loop, &options, &faults, &w->driver), ERR_OK);
	arena_finish(&arena);
	for (unsigned i = 0; i < LEASES; i++)
		snprintf(w->leases[i].id, sizeof(w->leases[i].id), "l%u", (i * 7) % LEASES);
	for (unsigned i = 0; i < RULESETS; i++) {
		snprintf(w->rulesets[i], sizeof(w->rulesets[i]),
			 "{\"typ\":\"egress.ruleset/1\",\"rules\":[{\"allow\":\"https://r%u.example\"}]}", i);
		text_from_bytes_hex(signed_entry("", 0, w->rulesets[i]).sha256, 32, w->ruleset_hex[i]);
	}
	cr_assert_eq(driver_start(w->driver, &events, NULL), ERR_OK);
	w->events->on_snap_begin(w->arg);
	put_keyset();
	w->events->on_snap_end(w->arg);
}

static void world_stop(void)
{
	driver_close(w->driver);
	replay_finish(&w->replay);
	loop_destroy(w->loop);
	fixture_remove_folder(w->folder);
	signed_forget();
}

/* --- the store --- */

static void write_doc(struct doc *doc, const char *id, unsigned rev)
{
	char rulesets[100] = "\"rulesets\":[]";
	const char *text;
	const char *at;

	doc->rev = rev;
	doc->is_faulty = draw(6) == 0;
	doc->ruleset = (int)draw(RULESETS + 2) - 2;
	if (doc->ruleset < 0)
		doc->ruleset = -1;
	else
		snprintf(rulesets, sizeof(rulesets), "\"rulesets\":[\"sha256:%s\"]", w->ruleset_hex[doc->ruleset]);
	text = signed_lease(SIGNED_CELL, id, 3, rev,
			    doc->is_faulty ? "{\"allow\":\"https://a.example\",\"pot\":1}" : "{\"allow\":\"https://a.example\"}");
	at = strstr(text, "\"rulesets\":[]");
	snprintf(doc->payload, sizeof(doc->payload), "%.*s%s%s", (int)(at - text), text, rulesets, at + strlen("\"rulesets\":[]"));
}

static void tell_lease(struct model_lease *lease)
{
	char key[8];

	snprintf(key, sizeof(key), "l/%s", lease->id);
	put_signed(key, ENVELOPE_LEASE, lease->stored.payload, SIGNED_LEASE);
	lease->is_put = true;
}

static void tell_ruleset(unsigned n)
{
	char key[70];

	snprintf(key, sizeof(key), "r/%s", w->ruleset_hex[n]);
	put_signed(key, ENVELOPE_RULESET, w->rulesets[n], SIGNED_LEASE);
	w->has_ruleset[n] = true;
}

/* What is gone leaves at once, but what was accepted once still bounds what may come. */
static void forget(struct model_lease *lease)
{
	lease->stored.rev = lease->good.rev = lease->bad.rev = 0;
	lease->is_put = false;
	lease->in_force[0] = '\0';
}

static void change_lease(void)
{
	struct model_lease *lease = &w->leases[draw(LEASES)];
	char key[8];

	if (lease->stored.rev != 0 && draw(4) == 0) {
		snprintf(key, sizeof(key), "l/%s", lease->id);
		w->events->on_del(w->arg, text_of(key));
		forget(lease);
		return;
	}
	/* Mostly something newer; sometimes an old number, other words under the same one, or the very same. */
	switch (draw(8)) {
	case 0:
		lease->stored = lease->floor.rev == 0 ? lease->stored : lease->floor;
		break;
	case 1:
		write_doc(&lease->stored, lease->id, 1 + draw(lease->floor.rev + 1));
		break;
	default:
		write_doc(&lease->stored, lease->id, lease->floor.rev + 1 + draw(2));
	}
	if (lease->stored.rev != 0)
		tell_lease(lease);
}

static void change_ruleset(void)
{
	unsigned n = draw(RULESETS);
	char key[70];

	if (!w->has_ruleset[n] || draw(3) == 0) {
		tell_ruleset(n);
		return;
	}
	snprintf(key, sizeof(key), "r/%s", w->ruleset_hex[n]);
	w->events->on_del(w->arg, text_of(key));
	w->has_ruleset[n] = false;
}

/* --- the reference --- */

static bool is_same(const struct doc *a, const struct doc *b)
{
	return a->rev != 0 && b->rev != 0 && strcmp(a->payload, b->payload) == 0;
}

static void examine(struct model_lease *lease)
{
	const struct doc *doc = &lease->stored;
	bool is_old = doc->rev < lease->floor.rev || (doc->rev == lease->floor.rev && !is_same(doc, &lease->floor));

	lease->is_put = false;
	if (doc->is_faulty || is_old) {
		lease->bad = *doc;
		return;
	}
	lease->good = lease->floor = *doc;
	lease->bad.rev = 0;
}

/* What a lease is for a manifest: its document, or NULL. */
static const struct doc *counted(const struct model_lease *lease, bool with_bad)
{
	if (with_bad && lease->bad.rev != 0)
		return &lease->bad;
	return lease->good.rev != 0 ? &lease->good : NULL;
}

static bool is_manifest(bool with_bad)
{
	for (unsigned i = 0; i < LEASES; i++) {
		const struct doc *doc = counted(&w->leases[i], with_bad);

		if (doc == NULL ? w->manifest[i].rev != 0 :
				  w->manifest[i].rev != doc->rev || strcmp(w->manifest[i].payload, doc->payload) != 0)
			return false;
	}
	return true;
}

static void enforce(bool with_bad)
{
	w->matches++;
	for (unsigned i = 0; i < LEASES; i++) {
		struct model_lease *lease = &w->leases[i];
		const struct doc *doc = counted(lease, with_bad);
		char word[16] = "";

		if (doc == &lease->bad)
			snprintf(word, sizeof(word), "%.3s:bad", lease->id);
		else if (doc != NULL && doc->ruleset >= 0 && !w->has_ruleset[doc->ruleset])
			snprintf(word, sizeof(word), "%.3s:less", lease->id);
		else if (doc != NULL)
			snprintf(word, sizeof(word), "%.3s:%u", lease->id, doc->rev);
		memcpy(lease->in_force, word, sizeof(word));
		w->quarantines += doc == &lease->bad;
		w->lesses += strstr(lease->in_force, ":less") != NULL;
	}
}

static void settle_model(void)
{
	for (unsigned i = 0; i < LEASES; i++)
		if (w->leases[i].is_put)
			examine(&w->leases[i]);
	if (is_manifest(true))
		enforce(true);
	else if (is_manifest(false))
		enforce(false);
}

/* Everything again, without some of it; it settles by itself. */
static void list_again(void)
{
	w->events->on_snap_begin(w->arg);
	for (unsigned i = 0; i < LEASES; i++) {
		if (w->leases[i].stored.rev == 0 || draw(8) == 0)
			forget(&w->leases[i]);
		else
			tell_lease(&w->leases[i]);
	}
	for (unsigned i = 0; i < RULESETS; i++) {
		bool stays = w->has_ruleset[i] && draw(6) != 0;

		w->has_ruleset[i] = false;
		if (stays)
			tell_ruleset(i);
	}
	settle_model();
	w->events->on_snap_end(w->arg);
}

/* A manifest of what the store has: counting faulty documents, or not, or of something else. */
static void sign_manifest(void)
{
	struct manifest_doc_entry entries[LEASES];
	unsigned how = draw(8);
	size_t count = 0;

	/* Only what was examined is known here; the documents of this batch are as the reference will see them. */
	for (unsigned i = 0; i < LEASES; i++)
		if (w->leases[i].is_put)
			examine(&w->leases[i]);
	for (unsigned i = 0; i < LEASES; i++) {
		const struct doc *doc = counted(&w->leases[i], how < 4);

		w->manifest[i].rev = doc == NULL || (how == 7 && draw(4) == 0) ? 0 : doc->rev;
		snprintf(w->manifest[i].payload, PAYLOAD_MAX, "%s", doc == NULL ? "" : doc->payload);
	}
	for (unsigned n = 0; n < LEASES; n++) {
		unsigned i = 0;
		char id[4];

		snprintf(id, sizeof(id), "l%u", n);
		while (strcmp(w->leases[i].id, id) != 0)
			i++;
		if (w->manifest[i].rev != 0)
			entries[count++] = signed_entry(w->leases[i].id, w->manifest[i].rev, w->manifest[i].payload);
	}
	put_signed("m", ENVELOPE_MANIFEST, signed_manifest(SIGNED_CELL, 3, ++w->seq, entries, count), SIGNED_MANIFEST);
}

static void word_of(char *out_word, size_t cap, const char *id, const struct emitted *e)
{
	struct segment *segment;
	const char *fault;

	cr_assert_eq(segment_open_bytes(e->bytes, e->len, &segment, &fault), ERR_OK);
	switch (segment_lease(segment)->state) {
	case LAYOUT_LEASE_INVALID:
		snprintf(out_word, cap, "%s:bad", id);
		break;
	case LAYOUT_LEASE_RULESET_MISSING:
		snprintf(out_word, cap, "%s:less", id);
		break;
	default:
		snprintf(out_word, cap, "%s:%u", id, (unsigned)segment_lease(segment)->rev);
	}
	segment_unref(segment);
}

static int by_word(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void check(unsigned n)
{
	const char *words[LEASES];
	char want[256] = "", held[256];
	size_t count = 0;

	for (unsigned i = 0; i < LEASES; i++)
		if (w->leases[i].in_force[0] != '\0')
			words[count++] = w->leases[i].in_force;
	qsort(words, count, sizeof(words[0]), by_word);
	for (size_t i = 0; i < count; i++)
		snprintf(want + strlen(want), sizeof(want) - strlen(want), "%s%s", i > 0 ? " " : "", words[i]);
	replay_words(&w->replay, word_of, held, sizeof(held));
	cr_assert_str_eq(held, want, "step %u: holds %s, not %s", n, held, want);
}

static void step(unsigned n)
{
	unsigned changes = draw(4);

	w->is_refusing = draw(10) == 0;
	for (unsigned i = 0; i < changes; i++) {
		if (draw(5) == 0)
			change_ruleset();
		else
			change_lease();
	}
	if (draw(60) == 0)
		put_keyset();
	if (draw(10) == 0)
		list_again();
	else if (draw(3) != 0)
		sign_manifest();
	settle_model();
	w->events->on_settled(w->arg);
	if (w->is_refusing) {
		w->is_refusing = false;
		w->events->on_settled(w->arg);
	}
	check(n);
	signed_forget();
}

Test(signed_random, what_is_held_is_what_the_plainest_reading_of_the_rules_says)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		world_start(seed);
		for (unsigned n = 0; n < 500; n++)
			step(n);
		cr_assert_gt(w->matches, 100u);
		cr_assert_gt(w->quarantines, 20u);
		cr_assert_gt(w->lesses, 20u);
		world_stop();
	}
}
