#include <errno.h>
#include <fcntl.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "compiler/root.h"
#include "image/segment.h"
#include "image/snapshot.h"
#include "tests/unit/compiler/tree.h"

#define GUEST "guest require source\nguest source 10.0.0.1\nmode allowlist\n"
#define LEASE(id) "lease " id "\n" GUEST

struct fixture {
	struct tree tree;
	struct root *root;
};

static const struct root_options trusting = { .trust_check = false };

static void start(struct fixture *f)
{
	cr_assert_eq(crypto_init(), ERR_OK);
	tree_create(&f->tree);
	f->root = NULL;
}

static void open_root(struct fixture *f)
{
	cr_assert_eq(root_open(f->tree.path, &trusting, NULL, &f->root), ERR_OK);
}

static void finish(struct fixture *f)
{
	root_close(f->root);
	tree_destroy(&f->tree);
}

static bool refresh(struct fixture *f)
{
	bool changed = false;

	cr_assert_eq(root_refresh(f->root, &changed), ERR_OK);
	return changed;
}

/* Open a segment as the daemon would. */
static struct segment *verified(const struct emitted *e)
{
	struct segment *s = NULL;
	const char *fault = "";

	cr_assert_eq(segment_open_bytes(e->bytes, e->len, &s, &fault), ERR_OK, "%s", fault);
	cr_assert_eq(memcmp(segment_id(s), e->id, LAYOUT_ID_LEN), 0);
	return s;
}

static enum layout_lease_state state_of(const struct fixture *f, const char *id)
{
	const struct root_lease *lease = root_lease_find(f->root, id);
	struct segment *s;
	enum layout_lease_state state;

	cr_assert_not_null(lease, "%s", id);
	s = verified(lease->segment);
	state = (enum layout_lease_state)segment_lease(s)->state;
	cr_assert(text_is(segment_text(s, segment_lease(s)->id), id));
	cr_assert_eq(lease->is_quarantined, state == LAYOUT_LEASE_INVALID);
	segment_unref(s);
	return state;
}

struct store {
	struct segment *held[16];
	size_t count;
};

static struct segment *find_held(void *arg, const uint8_t id[LAYOUT_ID_LEN])
{
	struct store *store = arg;

	for (size_t i = 0; i < store->count; i++)
		if (memcmp(segment_id(store->held[i]), id, LAYOUT_ID_LEN) == 0)
			return store->held[i];
	return NULL;
}

/* Everything that a root emits must make a snapshot. */
static struct snapshot *snapshot_of(const struct fixture *f, uint64_t version)
{
	struct store store = { .count = 0 };
	struct snapshot *snapshot = NULL;
	struct emitted emitted;
	struct segment *root;
	const char *fault = "";

	cr_assert_eq(root_emit(f->root, version, &emitted), ERR_OK);
	root = verified(&emitted);
	store.held[store.count++] = verified(root_ceiling(f->root));
	for (size_t i = 0; i < root_lease_count(f->root); i++)
		store.held[store.count++] = verified(root_lease_at(f->root, i)->segment);
	for (size_t i = 0; i < root_ruleset_count(f->root); i++)
		store.held[store.count++] = verified(root_ruleset_at(f->root, i));
	cr_assert_eq(snapshot_create(root, find_held, &store, &snapshot, &fault), ERR_OK, "%s", fault);
	for (size_t i = 0; i < store.count; i++) {
		cr_assert_not_null(root_segment(f->root, segment_id(store.held[i])));
		segment_unref(store.held[i]);
	}
	segment_unref(root);
	emitted_finish(&emitted);
	return snapshot;
}

Test(root, leases_share_the_presets_that_they_use)
{
	struct fixture f;
	struct snapshot *snapshot;

	start(&f);
	tree_write(&f.tree, "presets/python.policy", "allow https://pypi.example as index\nuse more\n");
	tree_write(&f.tree, "presets/more.policy", "deny stats.example\nuse python\n");
	tree_write(&f.tree, "presets/unused.policy", "nonsense\n");
	tree_write(&f.tree, "leases/a.policy", LEASE("a") "use python\nallow https://a.example\n");
	tree_write(&f.tree, "leases/b.policy", LEASE("b") "use more\n");
	tree_write(&f.tree, "leases/c.json",
		   "{\"typ\":\"egress.lease/1\",\"lease\":\"c\",\"state\":\"active\",\"guest\":{\"require\":[\"source\"],"
		   "\"sources\":[\"10.0.0.3\"]},\"network\":{\"mode\":\"deny_all\",\"rules\":[]}}");
	tree_write(&f.tree, "leases/.hidden.policy", LEASE("hidden"));
	tree_write(&f.tree, "leases/readme.txt", "nonsense");
	open_root(&f);
	cr_assert_eq(root_lease_count(f.root), 3);
	cr_assert_eq(root_ruleset_count(f.root), 2);
	cr_assert_str_eq(root_lease_at(f.root, 0)->id, "a");
	cr_assert_str_eq(root_lease_at(f.root, 0)->file, "leases/a.policy");
	cr_assert_eq(state_of(&f, "a"), LAYOUT_LEASE_ACTIVE);
	cr_assert_eq(state_of(&f, "c"), LAYOUT_LEASE_ACTIVE);
	snapshot = snapshot_of(&f, 7);
	cr_assert_eq(snapshot_version(snapshot), 7);
	cr_assert_eq(snapshot_lease_find(snapshot, text_of("a"))->ruleset_count, 2);
	cr_assert_eq(snapshot_lease_find(snapshot, text_of("b"))->ruleset_count, 2);
	cr_assert_eq(snapshot_lease_find(snapshot, text_of("c"))->ruleset_count, 0);
	snapshot_unref(snapshot);
	cr_assert_not(refresh(&f));
	finish(&f);
}

Test(root, a_refresh_follows_every_kind_of_change)
{
	struct fixture f;
	uint8_t before[LAYOUT_ID_LEN];

	start(&f);
	tree_write(&f.tree, "presets/p.policy", "allow https://p.example\n");
	tree_write(&f.tree, "leases/a.policy", LEASE("a") "use p\n");
	tree_write(&f.tree, "leases/b.policy", LEASE("b") "allow https://b.example\n");
	open_root(&f);
	cr_assert_not(refresh(&f));

	memcpy(before, root_lease_find(f.root, "b")->segment->id, sizeof(before));
	tree_write(&f.tree, "presets/p.policy", "allow https://q.example\n");
	cr_assert(refresh(&f));
	cr_assert_eq(memcmp(before, root_lease_find(f.root, "b")->segment->id, sizeof(before)), 0);
	cr_assert_not(refresh(&f));

	tree_write(&f.tree, "leases/b.policy", LEASE("b") "allow https://c.example\n");
	cr_assert(refresh(&f));
	cr_assert_neq(memcmp(before, root_lease_find(f.root, "b")->segment->id, sizeof(before)), 0);

	tree_write(&f.tree, "leases/d.policy", LEASE("d") "allow https://d.example\n");
	cr_assert(refresh(&f));
	cr_assert_eq(root_lease_count(f.root), 3);
	tree_remove(&f.tree, "leases/a.policy");
	cr_assert(refresh(&f));
	cr_assert_eq(root_lease_count(f.root), 2);
	cr_assert_eq(root_ruleset_count(f.root), 0);
	cr_assert_null(root_lease_find(f.root, "a"));

	memcpy(before, root_ceiling(f.root)->id, sizeof(before));
	tree_write(&f.tree, "ceiling.policy", "allow any\nlimit connections 9\n");
	cr_assert(refresh(&f));
	cr_assert_eq(state_of(&f, "b"), LAYOUT_LEASE_ACTIVE);
	cr_assert_not(refresh(&f));
	/* The same words again: a new file, but nothing that decides has changed. */
	tree_write(&f.tree, "leases/b.policy", LEASE("b") "allow https://c.example\n");
	cr_assert_not(refresh(&f));
	finish(&f);
}

static bool refresh_some(struct fixture *f, const char *one, const char *two)
{
	const char *const names[] = { one, two };
	bool changed;

	cr_assert_eq(root_refresh_some(f->root, names, two == NULL ? 1 : 2, &changed), ERR_OK);
	return changed;
}

/* Into the file that is there. Kernels before 6.13 may give both states the same times. */
static void rewrite(const struct fixture *f, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", f->tree.path, name);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	cr_assert_geq(fputs(text, file), 0);
	cr_assert_eq(fclose(file), 0);
}

Test(root, what_changes_twice_within_a_tick_of_the_clock_is_read_twice)
{
	static const struct {
		const char *file, *texts[2]; /* of one length */
	} rows[] = {
		{ "leases/a.policy", { LEASE("a") "use p\nallow https://a.example\n", LEASE("a") "use p\nallow https://b.example\n" } },
		{ "presets/p.policy", { "allow https://a.example\n", "allow https://b.example\n" } },
		{ "ceiling.policy", { "allow any\ndeny a.example\n", "allow any\ndeny b.example\n" } },
	};
	struct fixture f;

	start(&f);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		tree_write(&f.tree, rows[i].file, rows[i].texts[0]);
	open_root(&f);
	for (size_t i = 0; i < 20 * ARRAY_LEN(rows); i++) {
		rewrite(&f, rows[i % 3].file, rows[i % 3].texts[1]);
		cr_assert(refresh(&f), "%s", rows[i % 3].file);
		rewrite(&f, rows[i % 3].file, rows[i % 3].texts[0]);
		cr_assert(refresh(&f), "%s", rows[i % 3].file);
		cr_assert_not(refresh(&f));
	}
	finish(&f);
}

Test(root, a_look_at_some_names_follows_these_and_nothing_else)
{
	struct fixture f;

	start(&f);
	tree_write(&f.tree, "leases/a.policy", LEASE("a") "allow https://a.example\n");
	tree_write(&f.tree, "leases/c.policy", LEASE("c") "allow https://c.example\n");
	open_root(&f);
	cr_assert_not(refresh_some(&f, "a.policy", "nobody.policy"));
	cr_assert_not(refresh_some(&f, ".hidden.policy", "../ceiling.policy"));
	tree_write(&f.tree, "leases/a.policy", LEASE("a") "allow https://b.example\n");
	tree_write(&f.tree, "leases/b.policy", LEASE("b") "allow https://b.example\n");
	tree_remove(&f.tree, "leases/c.policy");
	cr_assert_not(refresh_some(&f, "nobody.policy", NULL));
	cr_assert(refresh_some(&f, "b.policy", "b.policy"));
	cr_assert_eq(root_lease_count(f.root), 3);
	cr_assert_str_eq(root_lease_at(f.root, 1)->id, "b");
	cr_assert_not_null(root_lease_find(f.root, "c"));
	cr_assert(refresh_some(&f, "c.policy", NULL));
	cr_assert_null(root_lease_find(f.root, "c"));
	cr_assert(refresh_some(&f, "a.policy", "c.policy"));
	cr_assert_not(refresh(&f));
	finish(&f);
}

/* "0 2": leases that may be others; "any". */
static const char *others(const struct fixture *f)
{
	static char text[512];
	const size_t *numbers;
	size_t count;

	if (!root_others(f->root, &numbers, &count))
		return "any";
	text[0] = '\0';
	for (size_t i = 0; i < count; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%zu", i > 0 ? " " : "", numbers[i]);
	return text;
}

Test(root, who_may_be_another_is_told_by_number_unless_it_may_be_anybody)
{
	struct fixture f;
	char name[32], text[128];

	start(&f);
	for (unsigned i = 0; i < 70; i++) {
		snprintf(name, sizeof(name), "leases/%02u.policy", i);
		snprintf(text, sizeof(text), "lease l%02u\n" GUEST, i);
		tree_write(&f.tree, name, text);
	}
	open_root(&f);
	cr_assert_str_eq(others(&f), "any");
	root_note_taken(f.root);
	cr_assert_str_eq(others(&f), "");
	tree_write(&f.tree, "leases/02.policy", LEASE("l02") "allow https://b.example\n");
	cr_assert(refresh_some(&f, "02.policy", NULL));
	tree_write(&f.tree, "leases/00.policy", LEASE("l00") "allow nonsense\n");
	cr_assert(refresh_some(&f, "00.policy", "02.policy"));
	cr_assert_not(refresh_some(&f, "02.policy", NULL));
	cr_assert_str_eq(others(&f), "2 0");
	cr_assert(root_lease_at(f.root, 0)->is_quarantined);
	/* A look at everything that finds nothing changes nothing. */
	cr_assert_not(refresh(&f));
	cr_assert_str_eq(others(&f), "2 0");
	root_note_taken(f.root);
	tree_write(&f.tree, "leases/02.policy", LEASE("l02"));
	cr_assert(refresh(&f));
	cr_assert_str_eq(others(&f), "any", "looking at all");
	root_note_taken(f.root);
	tree_remove(&f.tree, "leases/03.policy");
	cr_assert(refresh_some(&f, "03.policy", NULL));
	cr_assert_str_eq(others(&f), "any", "one less");
	root_note_taken(f.root);
	tree_write(&f.tree, "leases/04.policy", LEASE("l05"));
	cr_assert(refresh_some(&f, "04.policy", NULL));
	cr_assert_str_eq(others(&f), "any", "a rival elsewhere");
	tree_write(&f.tree, "leases/04.policy", LEASE("l04"));
	cr_assert(refresh_some(&f, "04.policy", NULL));
	root_note_taken(f.root);
	for (unsigned i = 4; i < 69; i++) {
		snprintf(name, sizeof(name), "leases/%02u.policy", i);
		snprintf(text, sizeof(text), "lease l%02u\n" GUEST "allow https://c.example\n", i);
		tree_write(&f.tree, name, text);
		cr_assert(refresh_some(&f, name + strlen("leases/"), NULL));
	}
	cr_assert_str_eq(others(&f), "any", "too many");
	tree_write(&f.tree, "ceiling.policy", "allow https://*.example\n");
	root_note_taken(f.root);
	cr_assert(refresh(&f));
	cr_assert_str_eq(others(&f), "any");
	finish(&f);
}

Test(root, files_that_come_go_and_change_their_ids_stand_in_order_however_they_are_looked_at)
{
	static const struct {
		const char *file, *id; /* id NULL: the file goes */
		const char *ids;       /* sound ones, in order */
	} rows[] = {
		{ "m.policy", "m", "m" },	 { "a.policy", "z", "m z" },	   { "z.policy", "a", "a m z" },
		{ "a.policy", "n", "a m n" },	 { "k.policy", "m", "a n" },	   { "m.policy", "b", "a b m n" },
		{ "z.policy", NULL, "b m n" },	 { "k.policy", "n", "b" },	   { "a.policy", NULL, "b n" },
		{ "k.policy", NULL, "b" },	 { "m.policy", NULL, "" },	   { "x.policy", "x", "x" },
	};

	for (int some = 0; some < 2; some++) {
		struct fixture f;

		start(&f);
		open_root(&f);
		for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
			char path[64], text[256], ids[64] = "";

			snprintf(path, sizeof(path), "leases/%s", rows[i].file);
			snprintf(text, sizeof(text), LEASE("%s") "allow https://a.example\n", rows[i].id == NULL ? "" : rows[i].id);
			if (rows[i].id == NULL)
				tree_remove(&f.tree, path);
			else
				tree_write(&f.tree, path, text);
			cr_assert(some ? refresh_some(&f, rows[i].file, NULL) : refresh(&f), "row %zu", i);
			for (size_t k = 0; k < root_lease_count(f.root); k++) {
				const struct root_lease *lease = root_lease_at(f.root, k);

				cr_assert_eq(root_lease_find(f.root, lease->id), lease, "row %zu", i);
				if (!lease->is_quarantined)
					snprintf(ids + strlen(ids), sizeof(ids) - strlen(ids), "%s%s", ids[0] == '\0' ? "" : " ", lease->id);
			}
			cr_assert_str_eq(ids, rows[i].ids, "row %zu", i);
		}
		finish(&f);
	}
}

static void write_numbered(struct fixture *f, int number, const char *rules)
{
	char path[64], text[256];

	snprintf(path, sizeof(path), "leases/f%d.policy", number);
	snprintf(text, sizeof(text), LEASE("l%d") "%s", number, rules);
	tree_write(&f->tree, path, text);
}

Test(root, a_pass_confirms_what_is_there_at_its_end_whatever_was_looked_at_meanwhile)
{
	/* After so many single steps the leases 2 (gone), 3 (other) and 9 (new, or new and gone again) are looked at alone. */
	for (int step = 0; step < 9; step++) {
		for (int is_gone_again = 0; is_gone_again < 2; is_gone_again++) {
			struct fixture f;
			bool is_listed = false, changed;
			uint8_t before[LAYOUT_ID_LEN];

			start(&f);
			for (int i = 0; i < 6; i++)
				write_numbered(&f, i, "allow https://a.example\n");
			open_root(&f);
			memcpy(before, root_lease_find(f.root, "l3")->segment->id, sizeof(before));
			cr_assert_eq(root_pass_begin(f.root), ERR_OK);
			for (int i = 0; i < step && !is_listed; i++)
				cr_assert_eq(root_pass_go_on(f.root, 1, &is_listed), ERR_OK);
			tree_remove(&f.tree, "leases/f2.policy");
			write_numbered(&f, 3, "allow https://b.example\n");
			write_numbered(&f, 9, "allow https://a.example\n");
			cr_assert(refresh_some(&f, "f2.policy", "f3.policy"));
			cr_assert(refresh_some(&f, "f9.policy", NULL));
			if (is_gone_again) {
				tree_remove(&f.tree, "leases/f9.policy");
				cr_assert(refresh_some(&f, "f9.policy", NULL));
			}
			tree_remove(&f.tree, "leases/f5.policy");
			write_numbered(&f, 2, "allow https://b.example\n");
			cr_assert(refresh_some(&f, "f5.policy", "f2.policy"));
			while (!is_listed)
				cr_assert_eq(root_pass_go_on(f.root, 1, &is_listed), ERR_OK);
			changed = true;
			cr_assert_eq(root_pass_finish(f.root, &changed), ERR_OK);
			cr_assert_not(changed, "step %d", step);
			cr_assert_eq(root_lease_count(f.root), is_gone_again ? 5 : 6, "step %d", step);
			cr_assert_null(root_lease_find(f.root, "l5"));
			cr_assert_not_null(root_lease_find(f.root, "l2"));
			cr_assert_neq(memcmp(before, root_lease_find(f.root, "l3")->segment->id, sizeof(before)), 0);
			for (size_t i = 0; i < root_lease_count(f.root); i++)
				cr_assert_not(root_lease_at(f.root, i)->is_quarantined);
			cr_assert_not(refresh(&f));
			finish(&f);
		}
	}
}

Test(root, a_pass_that_was_dropped_or_failed_can_be_begun_again)
{
	struct fixture f;
	bool is_listed, changed;

	start(&f);
	write_numbered(&f, 1, "allow https://a.example\n");
	open_root(&f);
	cr_assert_eq(root_pass_go_on(f.root, 1, &is_listed), ERR_INVALID);
	cr_assert_eq(root_pass_finish(f.root, &changed), ERR_INVALID);
	cr_assert_eq(root_pass_begin(f.root), ERR_OK);
	root_pass_drop(f.root);
	cr_assert_eq(root_pass_begin(f.root), ERR_OK);
	cr_assert_eq(root_pass_begin(f.root), ERR_OK);
	write_numbered(&f, 2, "allow https://a.example\n");
	cr_assert_eq(root_pass_go_on(f.root, 100, &is_listed), ERR_OK);
	cr_assert(is_listed);
	cr_assert_eq(root_pass_finish(f.root, &changed), ERR_OK);
	cr_assert(changed);
	cr_assert_eq(root_lease_count(f.root), 2);
	cr_assert_eq(root_pass_begin(f.root), ERR_OK);
	finish(&f);
}

Test(root, a_faulty_lease_is_quarantined_under_its_last_id_and_the_others_stay)
{
	struct fixture f;

	start(&f);
	tree_write(&f.tree, "leases/a.policy", LEASE("a") "allow https://a.example\n");
	tree_write(&f.tree, "leases/b.policy", LEASE("b") "allow https://b.example\n");
	tree_write(&f.tree, "leases/new.policy", "allow nothing\n");
	tree_write(&f.tree, "leases/cut.json", "{\"lease\":\"cut\"");
	tree_write(&f.tree, "leases/known.json", "{\"lease\":\"known\"}");
	open_root(&f);
	cr_assert_eq(root_lease_count(f.root), 3);
	cr_assert_eq(state_of(&f, "known"), LAYOUT_LEASE_INVALID);
	tree_write(&f.tree, "leases/a.policy", LEASE("a") "allow https://*\n");
	cr_assert(refresh(&f));
	cr_assert_eq(state_of(&f, "a"), LAYOUT_LEASE_INVALID);
	cr_assert_eq(state_of(&f, "b"), LAYOUT_LEASE_ACTIVE);
	cr_assert_eq(root_lease_find(f.root, "a")->faults->error_count, 1);
	cr_assert_str_eq(root_lease_find(f.root, "a")->faults->first->code, "host_star");
	cr_assert_eq(root_lease_find(f.root, "a")->faults->first->place.line, 5);
	tree_write(&f.tree, "leases/a.policy", "");
	refresh(&f);
	cr_assert_eq(state_of(&f, "a"), LAYOUT_LEASE_INVALID);
	tree_write(&f.tree, "leases/a.policy", LEASE("a") "allow https://a.example\n");
	cr_assert(refresh(&f));
	cr_assert_eq(state_of(&f, "a"), LAYOUT_LEASE_ACTIVE);
	cr_assert_eq(root_lease_find(f.root, "a")->faults->error_count, 0);
	snapshot_unref(snapshot_of(&f, 1));
	finish(&f);
}

Test(root, a_missing_or_faulty_preset_quarantines_who_uses_it_until_it_is_mended)
{
	struct fixture f;

	start(&f);
	tree_write(&f.tree, "leases/a.policy", LEASE("a") "use p\n");
	tree_write(&f.tree, "leases/b.policy", LEASE("b") "allow https://b.example\n");
	open_root(&f);
	cr_assert_eq(state_of(&f, "a"), LAYOUT_LEASE_INVALID);
	cr_assert_str_eq(root_lease_find(f.root, "a")->faults->first->code, "preset_missing");
	tree_write(&f.tree, "presets/p.policy", "use q\n");
	refresh(&f);
	cr_assert_eq(state_of(&f, "a"), LAYOUT_LEASE_INVALID);
	tree_write(&f.tree, "presets/q.policy", "allow https://q.example\n");
	cr_assert(refresh(&f));
	cr_assert_eq(state_of(&f, "a"), LAYOUT_LEASE_ACTIVE);
	cr_assert_eq(root_ruleset_count(f.root), 2);
	tree_write(&f.tree, "presets/q.policy", "allow https://*.example\n");
	cr_assert(refresh(&f));
	cr_assert_eq(state_of(&f, "a"), LAYOUT_LEASE_INVALID);
	cr_assert_str_eq(root_lease_find(f.root, "a")->faults->first->code, "preset_faulty");
	cr_assert_eq(state_of(&f, "b"), LAYOUT_LEASE_ACTIVE);
	tree_remove(&f.tree, "presets/q.policy");
	refresh(&f);
	cr_assert_str_eq(root_lease_find(f.root, "a")->faults->first->code, "preset_missing");
	finish(&f);
}

Test(root, one_id_in_two_files_refuses_both)
{
	struct fixture f;

	start(&f);
	tree_write(&f.tree, "leases/a.policy", LEASE("a") "allow https://a.example\n");
	tree_write(&f.tree, "leases/z.policy", LEASE("z") "allow https://z.example\n");
	open_root(&f);
	tree_write(&f.tree, "presets/p.policy", "allow https://p.example\n");
	tree_write(&f.tree, "leases/b.policy", LEASE("a") "use p\n");
	cr_assert(refresh(&f));
	/* What only refused leases use is not sent. */
	cr_assert_eq(root_ruleset_count(f.root), 0);
	cr_assert_eq(root_lease_count(f.root), 2);
	cr_assert_eq(state_of(&f, "a"), LAYOUT_LEASE_INVALID);
	cr_assert_eq(state_of(&f, "z"), LAYOUT_LEASE_ACTIVE);
	cr_assert_str_eq(root_lease_find(f.root, "a")->faults->first->code, "duplicate_lease");
	tree_remove(&f.tree, "leases/a.policy");
	cr_assert(refresh(&f));
	cr_assert_eq(state_of(&f, "a"), LAYOUT_LEASE_ACTIVE);
	cr_assert_str_eq(root_lease_find(f.root, "a")->file, "leases/b.policy");
	finish(&f);
}

Test(root, without_a_sound_ceiling_nothing_starts)
{
	static const char *const ceilings[] = { "", "# only a comment\n", "allow everything\n", "lease a\n", "use nowhere\n",
						"provisioning nowhere\nallow any\n" };
	struct fixture f;

	start(&f);
	for (size_t i = 0; i <= ARRAY_LEN(ceilings); i++) {
		struct fault_list faults;
		struct arena arena;

		if (i < ARRAY_LEN(ceilings))
			tree_write(&f.tree, "ceiling.policy", ceilings[i]);
		else
			tree_remove(&f.tree, "ceiling.policy");
		arena_init(&arena, 0);
		fault_list_init(&faults, &arena);
		cr_assert_eq(root_open(f.tree.path, &trusting, &faults, &f.root), ERR_INVALID, "row %zu", i);
		cr_assert_geq(faults.error_count, 1);
		arena_finish(&arena);
	}
	finish(&f);
}

Test(root, a_ceiling_that_breaks_quarantines_every_lease)
{
	struct fixture f;

	start(&f);
	tree_write(&f.tree, "leases/a.policy", LEASE("a") "allow https://a.example\n");
	open_root(&f);
	for (int i = 0; i < 2; i++) {
		if (i == 0)
			tree_write(&f.tree, "ceiling.policy", "allow any\nnonsense\n");
		else
			tree_remove(&f.tree, "ceiling.policy");
		refresh(&f);
		cr_assert_not(root_ceiling_is_sound(f.root));
		cr_assert_eq(state_of(&f, "a"), LAYOUT_LEASE_INVALID);
		snapshot_unref(snapshot_of(&f, 2));
	}
	tree_write(&f.tree, "ceiling.policy", "allow any\n");
	cr_assert(refresh(&f));
	cr_assert(root_ceiling_is_sound(f.root));
	cr_assert_eq(state_of(&f, "a"), LAYOUT_LEASE_ACTIVE);
	finish(&f);
}

Test(root, provisioning_adds_the_presets_of_the_ceiling)
{
	struct fixture f;

	start(&f);
	tree_write(&f.tree, "presets/deps.policy", "allow https://deps.example\n");
	tree_write(&f.tree, "ceiling.policy", "allow any\nprovisioning deps\n");
	tree_write(&f.tree, "leases/a.policy", LEASE("a") "allow https://a.example\n");
	tree_write(&f.tree, "leases/b.policy",
		   "lease b\nguest require source\nguest source 10.0.0.2\nmode dependency_provisioning\n");
	open_root(&f);
	cr_assert_eq(root_ruleset_count(f.root), 1);
	struct snapshot *snapshot = snapshot_of(&f, 1);
	cr_assert_eq(snapshot_lease_find(snapshot, text_of("a"))->ruleset_count, 0);
	cr_assert_eq(snapshot_lease_find(snapshot, text_of("b"))->ruleset_count, 1);
	snapshot_unref(snapshot);
	finish(&f);
}

Test(root, the_ceiling_follows_its_presets_however_deep)
{
	uint8_t before[LAYOUT_ID_LEN];
	struct fixture f;

	start(&f);
	tree_write(&f.tree, "ceiling.policy", "allow any\nuse outer\nprovisioning deps\n");
	tree_write(&f.tree, "presets/outer.policy", "use inner\n");
	tree_write(&f.tree, "presets/inner.policy", "deny a.example\n");
	tree_write(&f.tree, "presets/deps.policy", "use deeper\n");
	tree_write(&f.tree, "presets/deeper.policy", "allow https://a.example\n");
	open_root(&f);
	memcpy(before, root_ceiling(f.root)->id, sizeof(before));
	tree_write(&f.tree, "presets/inner.policy", "deny b.example\n");
	cr_assert(refresh(&f));
	cr_assert_neq(memcmp(before, root_ceiling(f.root)->id, sizeof(before)), 0);
	tree_remove(&f.tree, "presets/inner.policy");
	cr_assert(refresh(&f));
	cr_assert_not(root_ceiling_is_sound(f.root));
	tree_write(&f.tree, "presets/inner.policy", "deny a.example\n");
	cr_assert(refresh(&f));
	cr_assert(root_ceiling_is_sound(f.root));
	cr_assert_eq(memcmp(before, root_ceiling(f.root)->id, sizeof(before)), 0);
	tree_write(&f.tree, "presets/deeper.policy", "nonsense\n");
	cr_assert(refresh(&f));
	cr_assert_not(root_ceiling_is_sound(f.root));
	tree_write(&f.tree, "presets/deeper.policy", "allow https://b.example\n");
	cr_assert(refresh(&f));
	cr_assert(root_ceiling_is_sound(f.root));
	finish(&f);
}

Test(root, a_replaced_folder_is_noticed)
{
	struct fixture f;
	char path[128], aside[128];

	start(&f);
	tree_write(&f.tree, "leases/a.policy", LEASE("a") "allow https://a.example\n");
	open_root(&f);
	snprintf(path, sizeof(path), "%s/leases", f.tree.path);
	snprintf(aside, sizeof(aside), "%s/old", f.tree.path);
	cr_assert_eq(rename(path, aside), 0);
	bool changed = false;
	cr_assert_eq(root_refresh(f.root, &changed), ERR_NOT_FOUND);
	cr_assert_gt(strlen(root_reason(f.root)), 0);
	cr_assert_eq(root_lease_count(f.root), 1);
	tree_folder(&f.tree, "leases");
	cr_assert(refresh(&f));
	cr_assert_eq(root_lease_count(f.root), 0);
	cr_assert_str_eq(root_reason(f.root), "");
	finish(&f);
}

Test(root, the_trust_check_refuses_what_others_could_write)
{
	const struct root_options strict = { .trust_check = true };
	struct fixture f;
	char path[128];
	bool changed;

	start(&f);
	tree_write(&f.tree, "leases/a.policy", LEASE("a") "allow https://a.example\n");
	cr_assert_eq(root_open(f.tree.path, &strict, NULL, &f.root), ERR_OK);
	snprintf(path, sizeof(path), "%s/leases/a.policy", f.tree.path);
	cr_assert_eq(chmod(path, 0664), 0);
	refresh(&f);
	cr_assert_eq(state_of(&f, "a"), LAYOUT_LEASE_INVALID);
	cr_assert_eq(chmod(path, 0644), 0);
	refresh(&f);
	cr_assert_eq(state_of(&f, "a"), LAYOUT_LEASE_ACTIVE);
	snprintf(path, sizeof(path), "%s/leases", f.tree.path);
	cr_assert_eq(chmod(path, 0777), 0);
	cr_assert_eq(root_refresh(f.root, &changed), ERR_DENIED);
	cr_assert_not_null(strstr(root_reason(f.root), "leases"));
	cr_assert_eq(chmod(path, 0755), 0);
	cr_assert_eq(chmod(f.tree.path, 0775), 0);
	cr_assert_eq(root_refresh(f.root, &changed), ERR_DENIED);
	root_close(f.root);
	f.root = NULL;
	cr_assert_eq(root_open(f.tree.path, &strict, NULL, &f.root), ERR_DENIED);
	finish(&f);
}

Test(root, links_are_not_followed)
{
	struct fixture f;
	char path[128];

	start(&f);
	tree_write(&f.tree, "outside.policy", LEASE("a") "allow https://a.example\n");
	snprintf(path, sizeof(path), "%s/leases/a.policy", f.tree.path);
	cr_assert_eq(symlink("../outside.policy", path), 0);
	open_root(&f);
	cr_assert_eq(root_lease_count(f.root), 0);
	finish(&f);
}

Test(root, a_ceiling_may_stand_elsewhere)
{
	struct root_options options = { .trust_check = false };
	struct fixture f;
	char path[128];

	start(&f);
	tree_write(&f.tree, "other", "allow any\n");
	tree_remove(&f.tree, "ceiling.policy");
	snprintf(path, sizeof(path), "%s/other", f.tree.path);
	options.ceiling = path;
	cr_assert_eq(root_open(f.tree.path, &options, NULL, &f.root), ERR_OK);
	root_close(f.root);
	f.root = NULL;
	options.ceiling = "relative";
	cr_assert_eq(root_open(f.tree.path, &options, NULL, &f.root), ERR_INVALID);
	finish(&f);
}

static void count_fault(void *arg, const struct fault *fault)
{
	(*(size_t *)arg)++;
	cr_assert_gt(strlen(fault->text), 0);
}

Test(root, all_faults_can_be_visited)
{
	struct fixture f;
	size_t count = 0;

	start(&f);
	tree_write(&f.tree, "presets/p.policy", "nonsense\n");
	tree_write(&f.tree, "leases/a.policy", LEASE("a") "use p\n");
	tree_write(&f.tree, "leases/b.policy", "nonsense\n");
	open_root(&f);
	root_visit_faults(f.root, count_fault, &count);
	/* the preset's; a's; b: unknown, no lease, no guest, no mode */
	cr_assert_eq(count, 6);
	finish(&f);
}

Test(root, without_memory_nothing_is_held_and_nothing_leaks)
{
	struct fixture f;
	bool succeeded = false;

	start(&f);
	tree_write(&f.tree, "presets/p.policy", "allow https://p.example as x\n");
	tree_write(&f.tree, "leases/a.policy", LEASE("a") "use p\nallow tcp://192.0.2.0/24:22 note \"n\"\n");
	tree_write(&f.tree, "leases/b.policy", LEASE("b") "nonsense\n");
	for (uint64_t nth = 1; !succeeded; nth++) {
		enum err err;

		f.root = NULL;
		alloc_fail_at(nth);
		err = root_open(f.tree.path, &trusting, NULL, &f.root);
		alloc_fail_at(0);
		succeeded = err == ERR_OK;
		if (!succeeded) {
			cr_assert_eq(err, ERR_NO_MEMORY, "at %llu", (unsigned long long)nth);
			cr_assert_null(f.root);
		}
		cr_assert_lt(nth, 2000);
	}
	for (uint64_t nth = 1;; nth++) {
		bool changed;
		enum err err;

		tree_write(&f.tree, "leases/a.policy", nth % 2 == 0 ? LEASE("a") "use p\n" : LEASE("a"));
		alloc_fail_at(nth);
		err = root_refresh(f.root, &changed);
		alloc_fail_at(0);
		if (err == ERR_OK)
			break;
		cr_assert_eq(err, ERR_NO_MEMORY);
		cr_assert(root_lease_count(f.root) == 0 || strlen(root_reason(f.root)) > 0);
		cr_assert_eq(root_refresh(f.root, &changed), ERR_OK);
		cr_assert_eq(root_lease_count(f.root), 2);
	}
	finish(&f);
}
