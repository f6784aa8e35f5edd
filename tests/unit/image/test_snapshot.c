/* Snapshots: what a root must find, what it refuses, and which leases changed. */
#include "image/snapshot.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/alloc.h"
#include "segment_builder.h"

#define LEASE_A "lease ls_a\nallow https://a.test\n"
#define LEASE_B "lease ls_b\nruleset\nallow https://b.test\nend\nruleset\ndeny c.test\nend\n"
#define LEASE_BB "lease ls_bb\n"

static const char *const three[] = { LEASE_B, LEASE_A, LEASE_BB, NULL };

static struct text id_of(const struct snapshot_lease *l)
{
	return segment_text(l->segment, segment_lease(l->segment)->id);
}

Test(snapshot, finds_every_lease_by_id_and_no_other)
{
	static struct built_store store;
	static const char *const absent[] = { "", "ls_", "ls_c", "ls_aa", "LS_A", "ls_b ", "zz", "\xff" };
	struct snapshot *s;

	built_store_init(&store);
	s = built_snapshot(&store, 9, LAYOUT_ROOT_REPORT_ALLOWED, "allow any\n", three);
	built_store_finish(&store);
	cr_expect_eq(snapshot_version(s), 9);
	cr_expect(snapshot_report_allowed(s));
	cr_expect_eq(segment_kind(snapshot_ceiling(s)), LAYOUT_CEILING);
	cr_assert_eq(snapshot_lease_count(s), 3);
	for (size_t i = 0; i < 3; i++) {
		const struct snapshot_lease *l = snapshot_lease_at(s, i);

		cr_expect_eq(l->index, i);
		cr_expect_eq(snapshot_lease_find(s, id_of(l)), l);
	}
	cr_expect_null(snapshot_lease_at(s, 3));
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
	cr_expect_eq(failures, 3); /* itself, its leases, the rulesets of one */
	snapshot_unref(s);
	segment_unref(root);
	built_store_finish(&store);
}
