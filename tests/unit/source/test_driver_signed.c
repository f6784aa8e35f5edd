/* Frames to holdings: what a store may tell, in which order, and what comes of it; a hostile one changes nothing. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/attr.h"
#include "base/crypto.h"
#include "base/sink.h"
#include "fixture.h"
#include "image/segment.h"
#include "replay.h"
#include "source/driver_signed.h"
#include "signed_fixture.h"

#define RULE "{\"allow\":\"https://a.example\"}"

struct fake_source {
	struct frames_source source;
	const struct frames_events *events;
	void *arg;
	unsigned relists;
};

struct scene {
	char folder[64];
	struct loop *loop;
	struct fake_source source;
	struct driver *driver;
	unsigned holdings, beats, missings;
	bool is_halted, is_refusing;
	struct replay replay;
	uint64_t allocations; /* that the driver asked for when it offered last */
	char held[256]; /* "a:3 b:bad" */
};

static enum err on_start(struct frames_source *source, const struct frames_events *events, void *arg)
{
	struct fake_source *f = CONTAINER_OF(source, struct fake_source, source);

	f->events = events;
	f->arg = arg;
	return ERR_OK;
}

static void on_relist(struct frames_source *source)
{
	CONTAINER_OF(source, struct fake_source, source)->relists++;
}

static void on_close(struct frames_source *source)
{
}

static const struct frames_ops ops = { on_start, on_relist, on_close };

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

static enum err on_holding(void *arg, const struct holding *holding, uint64_t *out_receipt)
{
	struct scene *s = arg;
	enum err e;

	/* What the test itself allocates does not fail. */
	s->allocations = alloc_count();
	alloc_fail_at(0);
	s->holdings++;
	if (s->is_refusing) {
		s->replay.receipt = 0;
		return ERR_NO_MEMORY;
	}
	e = replay_take(&s->replay, holding, out_receipt);
	replay_words(&s->replay, word_of, s->held, sizeof(s->held));
	return e;
}

static void on_beat(void *arg, uint64_t beat_ns)
{
	((struct scene *)arg)->beats++;
}

static void on_missing(void *arg, uint64_t beat_ns)
{
	((struct scene *)arg)->missings++;
}

static void on_halt(void *arg, bool is_halted)
{
	((struct scene *)arg)->is_halted = is_halted;
}

static void on_time(void *arg, uint64_t wall_ms, uint64_t mono_ns)
{
}

static const struct driver_events events = { on_holding, on_beat, on_missing, on_halt, on_time };

static void begin(struct scene *s)
{
	struct driver_signed_options options = { .source = &s->source.source, .cell = SIGNED_CELL, .refuse_after_ms = 10000 };
	struct fault_list faults;
	struct arena arena;

	cr_assert_eq(crypto_init(), ERR_OK);
	signed_clock_start();
	fixture_make_folder(s->folder);
	fixture_write(fixture_path(s->folder, "ceiling.policy"), "allow any\n");
	fixture_write(fixture_path(s->folder, "keys"), signed_root());
	s->source.source.ops = &ops;
	s->loop = loop_create();
	options.ceiling = fixture_path(s->folder, "ceiling.policy");
	options.keys = fixture_path(s->folder, "keys");
	options.state = s->folder;
	arena_init(&arena, 0);
	fault_list_init(&faults, &arena);
	cr_assert_eq(driver_signed_open(s->loop, &options, &faults, &s->driver), ERR_OK, "%s",
		     faults.first == NULL ? "" : faults.first->text);
	arena_finish(&arena);
	cr_assert_eq(driver_start(s->driver, &events, s), ERR_OK);
}

static void end(struct scene *s)
{
	driver_close(s->driver);
	replay_finish(&s->replay);
	loop_destroy(s->loop);
	fixture_remove_folder(s->folder);
	signed_forget();
}

static void put_signed(struct scene *s, const char *key, enum envelope_type type, const char *payload, enum signed_key by)
{
	const enum signed_key keys[] = { by, SIGNED_R2 };

	s->source.events->on_put(s->source.arg, text_of(key),
				 signed_envelope(type, payload, keys, type == ENVELOPE_KEYSET ? 2 : type != ENVELOPE_RULESET));
}

static void put_lease(struct scene *s, const char *id, const char *payload)
{
	char key[80];

	snprintf(key, sizeof(key), "l/%s", id);
	put_signed(s, key, ENVELOPE_LEASE, payload, SIGNED_LEASE);
}

static void mark(struct scene *s, const char *payload)
{
	static const enum signed_key key = SIGNED_BEAT;

	s->source.events->on_mark(s->source.arg, signed_envelope(ENVELOPE_BEAT, payload, &key, 1));
}

static void settled(struct scene *s)
{
	s->source.events->on_settled(s->source.arg);
}

static const char *const lease_a = "a", *const lease_b = "b";

/* Two leases, manifest 5, beat 10: in force. */
static void bring_up(struct scene *s, const char **out_a, const char **out_b)
{
	static char a[8192], b[8192];
	struct manifest_doc_entry entries[2];
	const char *manifest;

	snprintf(a, sizeof(a), "%s", signed_lease(SIGNED_CELL, "a", 3, 3, RULE));
	snprintf(b, sizeof(b), "%s", signed_lease(SIGNED_CELL, "b", 3, 7, RULE));
	entries[0] = signed_entry(lease_a, 3, a);
	entries[1] = signed_entry(lease_b, 7, b);
	manifest = signed_manifest(SIGNED_CELL, 3, 5, entries, 2);
	s->source.events->on_snap_begin(s->source.arg);
	put_lease(s, "b", b);
	put_lease(s, "a", a);
	put_signed(s, "m", ENVELOPE_MANIFEST, manifest, SIGNED_MANIFEST);
	cr_assert_eq(s->holdings, 0);
	/* Whoever signs may come last. */
	put_signed(s, "keyset", ENVELOPE_KEYSET, signed_keyset(4, 3, SIGNED_NOW_MS + 7200000), SIGNED_R1);
	s->source.events->on_snap_end(s->source.arg);
	cr_assert_str_eq(s->held, "a:3 b:7");
	cr_assert_eq(s->beats, 0);
	mark(s, signed_beat(SIGNED_CELL, 3, 10, SIGNED_NOW_MS, 4, 5, manifest));
	cr_assert_eq(s->beats, 1);
	cr_assert_eq(s->missings, 0);
	*out_a = a;
	*out_b = b;
}

/* Nothing that is in force changed, and beats that name manifest 5 still count. */
static void nothing_changed(struct scene *s, const char *a, const char *b, unsigned beats)
{
	const struct manifest_doc_entry entries[] = { signed_entry(lease_a, 3, a), signed_entry(lease_b, 7, b) };

	cr_assert_str_eq(s->held, "a:3 b:7");
	mark(s, signed_beat(SIGNED_CELL, 3, 11 + beats, SIGNED_NOW_MS, 4, 5, signed_manifest(SIGNED_CELL, 3, 5, entries, 2)));
	cr_assert_eq(s->beats, 2 + beats);
	cr_assert_eq(s->missings, 0);
}

Test(driver_signed, a_set_is_in_force_only_when_it_is_what_the_manifest_says)
{
	static struct scene s;
	const char *a, *b, *next, *manifest;
	struct manifest_doc_entry entries[2];

	begin(&s);
	bring_up(&s, &a, &b);
	/* A new revision waits for its manifest. */
	next = signed_lease(SIGNED_CELL, "a", 3, 4, RULE);
	put_lease(&s, "a", next);
	settled(&s);
	cr_assert_str_eq(s.held, "a:3 b:7");
	entries[0] = signed_entry(lease_a, 4, next);
	entries[1] = signed_entry(lease_b, 7, b);
	manifest = signed_manifest(SIGNED_CELL, 3, 6, entries, 2);
	put_signed(&s, "m", ENVELOPE_MANIFEST, manifest, SIGNED_MANIFEST);
	settled(&s);
	cr_assert_str_eq(s.held, "a:4 b:7");
	mark(&s, signed_beat(SIGNED_CELL, 3, 12, SIGNED_NOW_MS, 4, 6, manifest));
	/* A beat that names a manifest which we do not have does not count, */
	mark(&s, signed_beat(SIGNED_CELL, 3, 13, SIGNED_NOW_MS, 4, 7, "x"));
	cr_assert_eq(s.missings > 0, true);
	cr_assert_eq(s.beats, 3);
	/* nor one that names another of the same number, nor a keyset that we do not have. */
	mark(&s, signed_beat(SIGNED_CELL, 3, 14, SIGNED_NOW_MS, 4, 6, "x"));
	mark(&s, signed_beat(SIGNED_CELL, 3, 15, SIGNED_NOW_MS, 5, 6, manifest));
	cr_assert_eq(s.beats, 3);
	mark(&s, signed_beat(SIGNED_CELL, 3, 16, SIGNED_NOW_MS, 4, 6, manifest));
	cr_assert_eq(s.beats, 4);
	end(&s);
}

Test(driver_signed, a_hostile_store_changes_nothing)
{
	static struct scene s;
	const char *a, *b;
	unsigned beats = 0;

	begin(&s);
	bring_up(&s, &a, &b);
	/* An old revision, signed once. */
	put_lease(&s, "a", signed_lease(SIGNED_CELL, "a", 3, 2, RULE));
	settled(&s);
	nothing_changed(&s, a, b, beats++);
	/* Another document of the same revision. */
	put_lease(&s, "a", signed_lease(SIGNED_CELL, "a", 3, 3, ""));
	settled(&s);
	nothing_changed(&s, a, b, beats++);
	/* A lease of another cell, and one of ours under another name. */
	put_lease(&s, "a", signed_lease("c-2", "a", 3, 9, RULE));
	put_lease(&s, "c", signed_lease(SIGNED_CELL, "b", 3, 7, RULE));
	settled(&s);
	nothing_changed(&s, a, b, beats++);
	/* A signature of nobody, and rubbish. */
	put_signed(&s, "l/a", ENVELOPE_LEASE, signed_lease(SIGNED_CELL, "a", 3, 9, RULE), SIGNED_STRANGER);
	s.source.events->on_put(s.source.arg, text_of("l/b"), text_of("\xff\n"));
	s.source.events->on_put(s.source.arg, text_of("m"), text_of(""));
	s.source.events->on_put(s.source.arg, text_of("keyset"), text_of("{}\n{}"));
	s.source.events->on_put(s.source.arg, text_of("l/../x"), text_of("{}\n{}"));
	settled(&s);
	nothing_changed(&s, a, b, beats++);
	/* The old manifest, the manifest of another cell. */
	put_signed(&s, "m", ENVELOPE_MANIFEST, signed_manifest(SIGNED_CELL, 3, 4, NULL, 0), SIGNED_MANIFEST);
	put_signed(&s, "m", ENVELOPE_MANIFEST, signed_manifest("c-2", 3, 9, NULL, 0), SIGNED_MANIFEST);
	settled(&s);
	nothing_changed(&s, a, b, beats++);
	/* A lease that control once signed, but that no manifest names now. */
	put_lease(&s, "d", signed_lease(SIGNED_CELL, "d", 3, 1, RULE));
	settled(&s);
	cr_assert_str_eq(s.held, "a:3 b:7");
	cr_assert_eq(s.missings, 1, "the set is not the manifest's: time runs");
	end(&s);
}

Test(driver_signed, what_is_gone_from_the_store_leaves_at_once)
{
	static struct scene s;
	const char *a, *b;

	begin(&s);
	bring_up(&s, &a, &b);
	s.source.events->on_del(s.source.arg, text_of("l/a"));
	settled(&s);
	cr_assert_str_eq(s.held, "b:7");
	cr_assert_eq(s.missings, 1);
	/* It comes back with the same bytes, and is what the manifest says. */
	put_lease(&s, "a", a);
	settled(&s);
	cr_assert_str_eq(s.held, "a:3 b:7");
	cr_assert_eq(s.beats, 2);
	/* A list that omits one is a deletion too. */
	s.source.events->on_snap_begin(s.source.arg);
	put_lease(&s, "a", a);
	s.source.events->on_snap_end(s.source.arg);
	cr_assert_str_eq(s.held, "a:3");
	end(&s);
}

Test(driver_signed, a_withheld_delete_ends_in_no_match)
{
	static struct scene s;
	const char *a, *b, *manifest;
	struct manifest_doc_entry entry;

	begin(&s);
	bring_up(&s, &a, &b);
	entry = signed_entry(lease_b, 7, b);
	manifest = signed_manifest(SIGNED_CELL, 3, 6, &entry, 1);
	put_signed(&s, "m", ENVELOPE_MANIFEST, manifest, SIGNED_MANIFEST);
	settled(&s);
	mark(&s, signed_beat(SIGNED_CELL, 3, 11, SIGNED_NOW_MS, 4, 6, manifest));
	cr_assert_eq(s.beats, 1);
	cr_assert_gt(s.missings, 0u);
	s.source.events->on_del(s.source.arg, text_of("l/a"));
	settled(&s);
	cr_assert_str_eq(s.held, "b:7");
	cr_assert_eq(s.beats, 2);
	end(&s);
}

static void note_fault(void *arg, const struct fault *fault)
{
	fault_print(fault, arg, 512);
}

Test(driver_signed, a_faulty_lease_that_the_manifest_names_is_quarantined_alone)
{
	static struct scene s;
	static char faulty[8192];
	const char *a, *b, *manifest;
	struct manifest_doc_entry entries[2];
	char text[512] = "";

	begin(&s);
	bring_up(&s, &a, &b);
	snprintf(faulty, sizeof(faulty), "%s", signed_lease(SIGNED_CELL, "a", 3, 4, "{\"allow\":\"https://a.example\",\"pot\":1}"));
	put_lease(&s, "a", faulty);
	entries[0] = signed_entry(lease_a, 4, faulty);
	entries[1] = signed_entry(lease_b, 7, b);
	manifest = signed_manifest(SIGNED_CELL, 3, 6, entries, 2);
	put_signed(&s, "m", ENVELOPE_MANIFEST, manifest, SIGNED_MANIFEST);
	settled(&s);
	cr_assert_str_eq(s.held, "a:bad b:7");
	mark(&s, signed_beat(SIGNED_CELL, 3, 11, SIGNED_NOW_MS, 4, 6, manifest));
	cr_assert_eq(s.beats, 2);
	driver_visit_faults(s.driver, note_fault, text);
	cr_assert_not_null(strstr(text, "/network/rules/0/pot"), "%s", text);
	cr_assert_not_null(strstr(text, "unknown_key"), "%s", text);
	end(&s);
}

Test(driver_signed, a_rule_that_does_not_parse_is_quarantined_too)
{
	static struct scene s;
	static char faulty[8192];
	const char *a, *b;
	struct manifest_doc_entry entries[2];

	begin(&s);
	bring_up(&s, &a, &b);
	snprintf(faulty, sizeof(faulty), "%s", signed_lease(SIGNED_CELL, "a", 3, 4, "{\"allow\":\"https://*\"}"));
	put_lease(&s, "a", faulty);
	entries[0] = signed_entry(lease_a, 4, faulty);
	entries[1] = signed_entry(lease_b, 7, b);
	put_signed(&s, "m", ENVELOPE_MANIFEST, signed_manifest(SIGNED_CELL, 3, 6, entries, 2), SIGNED_MANIFEST);
	settled(&s);
	cr_assert_str_eq(s.held, "a:bad b:7");
	end(&s);
}

Test(driver_signed, a_ruleset_that_is_not_there_makes_its_lease_less)
{
	static const char rules[] = "{\"typ\":\"egress.ruleset/1\",\"rules\":[{\"allow\":\"https://r.example\"}]}";
	static struct scene s;
	static char lease[8192], key[80];
	const char *a, *b;
	struct manifest_doc_entry entries[2];
	char hex[65], *at;

	begin(&s);
	bring_up(&s, &a, &b);
	text_from_bytes_hex(signed_entry("", 0, rules).sha256, 32, hex);
	snprintf(key, sizeof(key), "r/%s", hex);
	snprintf(lease, sizeof(lease), "%s", signed_lease(SIGNED_CELL, "a", 3, 4, ""));
	at = strstr(lease, "\"rulesets\":[]");
	snprintf(at, 512, "\"rulesets\":[\"sha256:%s\"],\"rules\":[]}}", hex);
	put_lease(&s, "a", lease);
	entries[0] = signed_entry(lease_a, 4, lease);
	entries[1] = signed_entry(lease_b, 7, b);
	put_signed(&s, "m", ENVELOPE_MANIFEST, signed_manifest(SIGNED_CELL, 3, 6, entries, 2), SIGNED_MANIFEST);
	settled(&s);
	cr_assert_str_eq(s.held, "a:less b:7");
	/* Other rules under that name are not it. */
	put_signed(&s, key, ENVELOPE_RULESET, "{\"typ\":\"egress.ruleset/1\",\"rules\":[]}", SIGNED_LEASE);
	settled(&s);
	cr_assert_str_eq(s.held, "a:less b:7");
	put_signed(&s, key, ENVELOPE_RULESET, rules, SIGNED_LEASE);
	settled(&s);
	cr_assert_str_eq(s.held, "a:4 b:7");
	s.source.events->on_del(s.source.arg, text_of(key));
	settled(&s);
	cr_assert_str_eq(s.held, "a:less b:7");
	end(&s);
}

Test(driver_signed, a_key_that_the_keyset_drops_takes_its_leases_along)
{
	static struct scene s;
	static char keyset[8192];
	const char *a, *b;
	char *at;

	begin(&s);
	bring_up(&s, &a, &b);
	snprintf(keyset, sizeof(keyset), "%s", signed_keyset(5, 3, SIGNED_NOW_MS + 7200000));
	at = strstr(keyset, "\"lease\":[\"ls\"]");
	memcpy(at, "\"lease\":[    ]", 14);
	put_signed(&s, "keyset", ENVELOPE_KEYSET, keyset, SIGNED_R1);
	settled(&s);
	cr_assert_str_eq(s.held, "a:bad b:bad");
	end(&s);
}

Test(driver_signed, halts_when_the_keyset_ends_or_the_disk_fails)
{
	static struct scene s;
	const char *a, *b;

	begin(&s);
	bring_up(&s, &a, &b);
	cr_assert_not(s.is_halted);
	signed_clock_move_ms(7200000);
	settled(&s);
	cr_assert(s.is_halted);
	put_signed(&s, "keyset", ENVELOPE_KEYSET, signed_keyset(5, 3, SIGNED_NOW_MS + 9900000), SIGNED_R1);
	settled(&s);
	cr_assert_not(s.is_halted);
	mkdir(fixture_path(s.folder, "floors.new"), 0700);
	put_signed(&s, "keyset", ENVELOPE_KEYSET, signed_keyset(6, 3, SIGNED_NOW_MS + 9900000), SIGNED_R1);
	settled(&s);
	cr_assert(s.is_halted);
	end(&s);
}

/* One more document for a lease that is there, and its manifest. */
struct batch {
	struct text lease, manifest;
};

static struct batch batch_of_a(unsigned rev, const char *b)
{
	static const enum signed_key by_lease = SIGNED_LEASE, by_manifest = SIGNED_MANIFEST;
	static char a[8192];
	struct manifest_doc_entry entries[2];
	struct batch batch;

	snprintf(a, sizeof(a), "%s", signed_lease(SIGNED_CELL, "a", 3, rev, RULE));
	batch.lease = signed_envelope(ENVELOPE_LEASE, a, &by_lease, 1);
	entries[0] = signed_entry(lease_a, rev, a);
	entries[1] = signed_entry(lease_b, 7, b);
	batch.manifest = signed_envelope(ENVELOPE_MANIFEST, signed_manifest(SIGNED_CELL, 3, 2 + rev, entries, 2), &by_manifest, 1);
	return batch;
}

static void put_batch(struct scene *s, const struct batch *batch)
{
	s->source.events->on_put(s->source.arg, text_of("l/a"), batch->lease);
	s->source.events->on_put(s->source.arg, text_of("m"), batch->manifest);
	settled(s);
}

static void replace_a(struct scene *s, unsigned rev, const char *b)
{
	struct batch batch = batch_of_a(rev, b);

	put_batch(s, &batch);
}

Test(driver_signed, a_change_is_offered_alone_and_everything_after_one_that_was_not_taken)
{
	static struct scene s;
	const char *a, *b;

	begin(&s);
	bring_up(&s, &a, &b);
	cr_assert(s.replay.is_last_complete);
	replace_a(&s, 4, b);
	cr_assert_str_eq(s.held, "a:4 b:7");
	cr_assert_not(s.replay.is_last_complete);
	cr_assert_eq(s.replay.last_count, 1);
	s.source.events->on_del(s.source.arg, text_of("l/a"));
	settled(&s);
	cr_assert_str_eq(s.held, "b:7");
	cr_assert_eq(s.replay.last_count, 1);
	/* Back, and away again before that was offered. */
	put_lease(&s, "a", a);
	s.source.events->on_del(s.source.arg, text_of("l/a"));
	settled(&s);
	cr_assert_str_eq(s.held, "b:7");
	replace_a(&s, 5, b);
	cr_assert_str_eq(s.held, "a:5 b:7");
	s.is_refusing = true;
	replace_a(&s, 6, b);
	cr_assert_str_eq(s.held, "a:5 b:7");
	s.is_refusing = false;
	settled(&s);
	cr_assert_str_eq(s.held, "a:6 b:7");
	cr_assert(s.replay.is_last_complete);
	/* A receiver that lost track is told everything at once. */
	s.replay.receipt = 99;
	replace_a(&s, 7, b);
	cr_assert_str_eq(s.held, "a:7 b:7");
	cr_assert(s.replay.is_last_complete);
	end(&s);
}

/* The value of a figure of the driver. */
static unsigned figure(struct scene *s, const char *name)
{
	static char text[65536];
	struct sink out = sink_over(text, sizeof(text) - 1);
	const char *at;

	driver_figures(s->driver, &out);
	text[out.len] = '\0';
	at = strstr(text, name);
	cr_assert_not_null(at, "%s", name);
	return (unsigned)strtoul(at + strlen(name) + 1, NULL, 10);
}

Test(driver_signed, only_documents_that_came_are_examined)
{
	static const char *const count = "egress_control_documents_total{type=\"lease\",result=\"ok\"}";
	static struct scene s;
	const char *a, *b;

	begin(&s);
	bring_up(&s, &a, &b);
	cr_assert_eq(figure(&s, count), 2);
	replace_a(&s, 4, b);
	cr_assert_eq(figure(&s, count), 3);
	for (unsigned i = 0; i < 5; i++)
		settled(&s);
	put_lease(&s, "b", b);
	settled(&s);
	cr_assert_eq(figure(&s, count), 3, "the same bytes as before");
	end(&s);
}

Test(driver_signed, every_allocation_may_fail_and_the_next_batch_mends_it)
{
	static struct scene s;
	const char *a, *b;
	uint64_t nth = 0;
	bool has_failed = true;

	begin(&s);
	bring_up(&s, &a, &b);
	for (unsigned rev = 4; has_failed && rev < 1000; rev++) {
		struct batch batch = batch_of_a(rev, b);
		char want[32];

		nth += 1 + nth / 40;
		s.allocations = 0;
		alloc_fail_at(nth);
		put_batch(&s, &batch);
		has_failed = (s.allocations > 0 ? s.allocations : alloc_count()) >= nth;
		alloc_fail_at(0);
		snprintf(want, sizeof(want), "a:%u b:7", rev);
		put_batch(&s, &batch);
		settled(&s);
		cr_assert_str_eq(s.held, want, "\"%s\" after allocation %u failed", s.held, (unsigned)nth);
		signed_forget();
	}
	cr_assert_not(has_failed);
	end(&s);
}
