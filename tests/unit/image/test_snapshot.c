/* Snapshots: what a root must find, what it refuses, and which leases changed. */
#include "image/snapshot.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "segment_builder.h"

#define LEASE_A "lease ls_a\nallow https://a.test\n"
#define LEASE_B "lease ls_b\nruleset\nallow https://b.test\nend\nruleset\ndeny c.test\nend\n"
#define LEASE_BB "lease ls_bb\n"

static const char *const three[] = { LEASE_B, LEASE_A, LEASE_BB, NULL };

struct seen {
	const struct snapshot *snapshot;
	size_t count;
};

static void on_seen(void *arg, const struct snapshot_lease *l)
{
	struct seen *seen = arg;

	cr_expect(text_equal(l->id, segment_text(l->segment, segment_lease(l->segment)->id)));
	cr_expect_eq(snapshot_lease_find(seen->snapshot, l->id), l);
	seen->count++;
}

Test(snapshot, finds_every_lease_by_id_and_no_other)
{
	static struct built_store store;
	static const char *const absent[] = { "", "ls_", "ls_c", "ls_aa", "LS_A", "ls_b ", "zz", "\xff" };
	struct seen seen = { .count = 0 };
	struct snapshot *s;

	built_store_init(&store);
	s = built_snapshot(&store, 9, LAYOUT_ROOT_REPORT_ALLOWED, "allow any\n", three);
	built_store_finish(&store);
	cr_expect_eq(snapshot_version(s), 9);
	cr_expect(snapshot_report_allowed(s));
	cr_expect_eq(segment_kind(snapshot_ceiling(s)), LAYOUT_CEILING);
	cr_assert_eq(snapshot_lease_count(s), 3);
	seen.snapshot = s;
	snapshot_visit(s, on_seen, &seen);
	cr_expect_eq(seen.count, 3);
	cr_expect_eq(snapshot_lease_find(s, text_of("ls_b"))->ruleset_count, 2);
	cr_expect_eq(segment_kind(snapshot_lease_find(s, text_of("ls_b"))->rulesets[1]), LAYOUT_RULESET);
	for (size_t i = 0; i < ARRAY_LEN(absent); i++)
		cr_expect_null(snapshot_lease_find(s, text_of(absent[i])), "%s", absent[i]);
	cr_expect_eq(snapshot_ref(s), s);
	snapshot_unref(s);
	snapshot_unref(s);
	snapshot_unref(NULL);
}

Test(snapshot, says_which_leases_changed)
{
	static struct built_store store;
	static const char *const a2[] = { "lease ls_a\nallow https://a2.test\n", LEASE_B, NULL };
	static const char *const b2[] = { LEASE_A,
					  "lease ls_b\nruleset\nallow https://b.test\nend\n", NULL };
	static const char *const ab[] = { LEASE_A, LEASE_B, NULL };
	struct text a = text_of("ls_a"), b = text_of("ls_b"), c = text_of("ls_c");
	struct snapshot *first, *same, *other, *rulesets, *ceiling, *flags;

	built_store_init(&store);
	first = built_snapshot(&store, 1, 0, "allow any\n", ab);
	same = built_snapshot(&store, 2, 0, "allow any\n", ab);
	other = built_snapshot(&store, 3, 0, "allow any\n", a2);
	rulesets = built_snapshot(&store, 4, 0, "allow any\n", b2);
	ceiling = built_snapshot(&store, 5, 0, "allow any\ndeny x.test\n", ab);
	flags = built_snapshot(&store, 6, LAYOUT_ROOT_REPORT_ALLOWED, "allow any\n", ab);
	cr_expect_not(snapshot_lease_changed(first, same, a));
	cr_expect_not(snapshot_lease_changed(first, same, b));
	cr_expect(snapshot_lease_changed(first, other, a));
	cr_expect_not(snapshot_lease_changed(first, other, b));
	cr_expect_not(snapshot_lease_changed(first, rulesets, a));
	cr_expect(snapshot_lease_changed(first, rulesets, b));
	cr_expect(snapshot_lease_changed(first, ceiling, a));
	cr_expect(snapshot_lease_changed(first, flags, a));
	cr_expect(snapshot_lease_changed(NULL, first, a));
	cr_expect(snapshot_lease_changed(first, NULL, a));
	cr_expect_not(snapshot_lease_changed(first, same, c));
	snapshot_unref(first);
	snapshot_unref(same);
	snapshot_unref(other);
	snapshot_unref(rulesets);
	snapshot_unref(ceiling);
	snapshot_unref(flags);
	built_store_finish(&store);
}

/* Finds all but the segment that was hidden, or hands out another one in its place. */
struct liar {
	struct built_store *store;
	const uint8_t *hidden;
	struct segment *instead;
};

static struct segment *find_or_lie(void *arg, const uint8_t id[LAYOUT_ID_LEN])
{
	struct liar *liar = arg;

	return memcmp(id, liar->hidden, LAYOUT_ID_LEN) == 0 ? liar->instead :
							      built_find(liar->store, id);
}

Test(snapshot, refuses_a_root_whose_segments_are_missing_or_others)
{
	static struct built_store store;
	static uint8_t bytes[BUILT_BYTES_MAX];
	struct liar liar = { .store = &store };
	const char *fault = NULL;
	struct snapshot *s;
	struct segment *root;
	size_t len, named;

	built_store_init(&store);
	len = built_root_bytes(&store, 1, 0, "allow any\n", three, bytes);
	named = store.count;
	cr_assert_eq(segment_open_bytes(bytes, len, &root, &fault), ERR_OK, "%s", fault);
	cr_expect_eq(named, 6);
	for (size_t hide = 0; hide < named; hide++) {
		liar.hidden = segment_id(store.segments[hide]);
		liar.instead = NULL;
		cr_expect_eq(snapshot_create(root, find_or_lie, &liar, &s, &fault), ERR_NOT_FOUND,
			     "without %zu", hide);
		for (size_t lie = 0; lie < named; lie++) {
			liar.instead = store.segments[lie];
			if (lie != hide)
				cr_expect_eq(snapshot_create(root, find_or_lie, &liar, &s, &fault),
					     ERR_INVALID, "%zu for %zu", lie, hide);
		}
	}
	cr_expect_eq(snapshot_create(store.segments[0], built_find, &store, &s, &fault), ERR_INVALID);
	segment_unref(root);
	built_store_finish(&store);
}

Test(snapshot, refuses_a_lease_segment_under_another_id)
{
	static struct built_store store;
	static uint8_t bytes[BUILT_BYTES_MAX];
	static const char *const one[] = { LEASE_A, NULL };
	const char *fault = NULL;
	struct layout_header *h;
	struct snapshot *s;
	struct segment *root;
	size_t len;

	built_store_init(&store);
	len = built_root_bytes(&store, 1, 0, "allow any\n", one, bytes);
	h = (struct layout_header *)(void *)bytes;
	memcpy(bytes + h->table[LAYOUT_STRINGS].offset, "ls_x", 4);
	cr_assert_eq(segment_open_bytes(bytes, len, &root, &fault), ERR_OK, "%s", fault);
	cr_expect_eq(snapshot_create(root, built_find, &store, &s, &fault), ERR_INVALID);
	segment_unref(root);
	built_store_finish(&store);
}

/* Three leases in two versions each, a ceiling in two, and roots over them. */
struct ground {
	struct built_store store;
	struct segment *a[2], *b[2], *bb[2], *ceiling[2];
};

static void ground_init(struct ground *g)
{
	built_store_init(&g->store);
	g->ceiling[0] = built_segment(&g->store, LAYOUT_CEILING, "allow any\n");
	g->ceiling[1] = built_segment(&g->store, LAYOUT_CEILING, "allow any\ndeny x.test\n");
	g->a[0] = built_segment(&g->store, LAYOUT_LEASE, LEASE_A);
	g->a[1] = built_segment(&g->store, LAYOUT_LEASE, "lease ls_a\nallow https://a2.test\n");
	g->b[0] = built_segment(&g->store, LAYOUT_LEASE, LEASE_B);
	g->b[1] = built_segment(&g->store, LAYOUT_LEASE, "lease ls_b\n");
	g->bb[0] = built_segment(&g->store, LAYOUT_LEASE, LEASE_BB);
	g->bb[1] = built_segment(&g->store, LAYOUT_LEASE, "lease ls_bb\ndeny a.test\n");
}

static struct segment *root_of(uint64_t version, uint64_t base, uint32_t flags, const struct segment *ceiling,
			       const struct built_named *named, size_t count)
{
	static uint8_t bytes[BUILT_BYTES_MAX];
	const char *fault = NULL;
	struct segment *root;
	size_t len = built_root_naming(version, base, flags, ceiling, named, count, bytes);

	cr_assert_eq(segment_open_bytes(bytes, len, &root, &fault), ERR_OK, "%s", fault);
	return root;
}

static enum err follow(struct ground *g, struct snapshot *before, struct segment *root, struct snapshot **out_snapshot)
{
	const char *fault = NULL;
	enum err e = snapshot_follow(before, root, built_find, &g->store, out_snapshot, &fault);

	segment_unref(root);
	cr_assert(e == ERR_OK || fault != NULL);
	return e;
}

struct differences {
	size_t count;
	char ids[64];
};

static void on_difference(void *arg, const struct snapshot_lease *was, const struct snapshot_lease *is)
{
	struct differences *d = arg;
	struct text id = (was != NULL ? was : is)->id;
	size_t len = strlen(d->ids);

	cr_assert_neq(was, is);
	d->count++;
	snprintf(d->ids + len, sizeof(d->ids) - len, "%c%.*s", was == NULL ? '+' : is == NULL ? '-' : '*', (int)id.len, id.at);
}

Test(snapshot, follows_another_by_changes_and_shares_the_rest)
{
	static struct ground g;
	struct snapshot *first, *second, *third;
	const struct snapshot_lease *kept;
	struct differences d = { .count = 0 };

	ground_init(&g);
	cr_assert_eq(follow(&g, NULL,
			    root_of(1, 0, 0, g.ceiling[0], (struct built_named[]){ { "ls_a", g.a[0] }, { "ls_b", g.b[0] } }, 2),
			    &first),
		     ERR_OK);
	cr_assert_eq(follow(&g, first,
			    root_of(2, 1, LAYOUT_ROOT_REPORT_ALLOWED, g.ceiling[1],
				    (struct built_named[]){ { "ls_a", NULL }, { "ls_bb", g.bb[0] } }, 2),
			    &second),
		     ERR_OK);
	kept = snapshot_lease_find(first, text_of("ls_b"));
	cr_expect_eq(snapshot_version(second), 2);
	cr_expect(snapshot_report_allowed(second));
	cr_expect_eq(snapshot_ceiling(second), g.ceiling[1]);
	cr_expect_eq(snapshot_lease_count(second), 2);
	cr_expect_null(snapshot_lease_find(second, text_of("ls_a")));
	cr_expect_eq(snapshot_lease_find(second, text_of("ls_b")), kept);
	cr_expect_eq(snapshot_lease_find(second, text_of("ls_bb"))->segment, g.bb[0]);
	cr_expect(snapshot_is_kin(first, second));
	snapshot_diff(first, second, on_difference, &d);
	cr_expect_eq(d.count, 2);
	/* The one before is as it was. */
	cr_expect_eq(snapshot_lease_count(first), 2);
	cr_expect_eq(snapshot_lease_find(first, text_of("ls_a"))->segment, g.a[0]);
	cr_expect_null(snapshot_lease_find(first, text_of("ls_bb")));
	/* That a lease is gone which was not there, or is what it was, is no change. */
	cr_assert_eq(follow(&g, second,
			    root_of(3, 2, LAYOUT_ROOT_REPORT_ALLOWED, g.ceiling[1],
				    (struct built_named[]){ { "ls_a", NULL }, { "ls_b", g.b[0] } }, 2),
			    &third),
		     ERR_OK);
	d.count = 0;
	snapshot_diff(second, third, on_difference, &d);
	cr_expect_eq(d.count, 0);
	snapshot_unref(first);
	snapshot_unref(second);
	cr_expect_eq(snapshot_lease_find(third, text_of("ls_b")), kept);
	snapshot_unref(third);
	built_store_finish(&g.store);
}

Test(snapshot, takes_over_what_is_the_same_from_a_complete_root)
{
	static struct ground g;
	struct built_named all[2];
	struct differences d = { .count = 0 };
	struct snapshot *first, *second;

	ground_init(&g);
	all[0] = (struct built_named){ "ls_a", g.a[0] };
	all[1] = (struct built_named){ "ls_b", g.b[0] };
	cr_assert_eq(follow(&g, NULL, root_of(1, 0, 0, g.ceiling[0], all, 2), &first), ERR_OK);
	all[0] = (struct built_named){ "ls_bb", g.bb[1] };
	cr_assert_eq(follow(&g, first, root_of(7, 0, 0, g.ceiling[0], all, 2), &second), ERR_OK);
	cr_expect_eq(snapshot_lease_count(second), 2);
	snapshot_diff(first, second, on_difference, &d);
	cr_expect(strcmp(d.ids, "-ls_a+ls_bb") == 0 || strcmp(d.ids, "+ls_bb-ls_a") == 0, "%s", d.ids);
	cr_expect_eq(snapshot_lease_find(first, text_of("ls_b")), snapshot_lease_find(second, text_of("ls_b")));
	snapshot_unref(first);
	snapshot_unref(second);
	built_store_finish(&g.store);
}

Test(snapshot, follows_no_root_of_another_base_or_with_a_fault_in_it)
{
	static struct ground g;
	static const uint64_t bases[] = { 4, 6 };
	struct snapshot *first, *s = NULL;
	struct liar liar = { .store = &g.store };
	const char *fault = NULL;
	struct segment *root;

	ground_init(&g);
	cr_assert_eq(follow(&g, NULL, root_of(5, 0, 0, g.ceiling[0], &(struct built_named){ "ls_a", g.a[0] }, 1), &first),
		     ERR_OK);
	for (size_t i = 0; i < ARRAY_LEN(bases); i++)
		cr_expect_eq(follow(&g, first, root_of(9, bases[i], 0, g.ceiling[0], NULL, 0), &s), ERR_NOT_FOUND);
	cr_expect_eq(follow(&g, NULL, root_of(9, 5, 0, g.ceiling[0], NULL, 0), &s), ERR_NOT_FOUND);
	cr_expect_eq(follow(&g, first, root_of(9, 5, 0, g.ceiling[0], &(struct built_named){ "ls_b", g.a[0] }, 1), &s),
		     ERR_INVALID);
	cr_expect_eq(follow(&g, first, root_of(9, 5, 0, g.a[0], NULL, 0), &s), ERR_INVALID);
	root = root_of(9, 5, 0, g.ceiling[0], &(struct built_named){ "ls_a", g.a[1] }, 1);
	liar.hidden = segment_id(g.a[1]);
	cr_expect_eq(snapshot_follow(first, root, find_or_lie, &liar, &s, &fault), ERR_NOT_FOUND);
	segment_unref(root);
	cr_expect_null(s);
	cr_expect_eq(snapshot_lease_find(first, text_of("ls_a"))->segment, g.a[0]);
	snapshot_unref(first);
	built_store_finish(&g.store);
}

Test(snapshot, changes_nothing_when_memory_fails_on_the_way)
{
	static struct ground g;
	struct snapshot *first, *s = NULL;
	const char *fault = NULL;

	ground_init(&g);
	cr_assert_eq(follow(&g, NULL,
			    root_of(1, 0, 0, g.ceiling[0], (struct built_named[]){ { "ls_a", g.a[0] }, { "ls_b", g.b[1] } }, 2),
			    &first),
		     ERR_OK);
	for (uint64_t base = 0; base < 2; base++) {
		struct built_named named[] = { { "ls_a", base == 0 ? g.a[1] : NULL }, { "ls_b", g.b[0] }, { "ls_bb", g.bb[0] } };
		struct segment *root = root_of(2, base, 0, g.ceiling[0], named, 3);
		uint64_t failures = 0;

		for (;; failures++) {
			alloc_fail_at(failures + 1);
			if (snapshot_follow(first, root, built_find, &g.store, &s, &fault) == ERR_OK)
				break;
			cr_expect_null(s);
			cr_expect_eq(snapshot_lease_count(first), 2);
			cr_expect_eq(snapshot_lease_find(first, text_of("ls_b"))->segment, g.b[1]);
		}
		alloc_fail_at(0);
		cr_expect_gt(failures, 3);
		snapshot_unref(s);
		s = NULL;
		segment_unref(root);
	}
	snapshot_unref(first);
	built_store_finish(&g.store);
}

Test(snapshot, fails_whole_when_memory_fails)
{
	static struct built_store store;
	static uint8_t bytes[BUILT_BYTES_MAX];
	const char *fault = NULL;
	struct snapshot *s = NULL;
	struct segment *root;
	uint64_t failures = 0;
	size_t len;

	built_store_init(&store);
	len = built_root_bytes(&store, 1, 0, "allow any\n", three, bytes);
	cr_assert_eq(segment_open_bytes(bytes, len, &root, &fault), ERR_OK, "%s", fault);
	for (;; failures++) {
		alloc_fail_at(failures + 1);
		if (snapshot_create(root, built_find, &store, &s, &fault) == ERR_OK)
			break;
		cr_expect_null(s);
	}
	alloc_fail_at(0);
	cr_expect_geq(failures, 5); /* itself, its leases, what holds them together */
	snapshot_unref(s);
	segment_unref(root);
	built_store_finish(&store);
}
