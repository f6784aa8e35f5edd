/*
 * Thousands of random changes to a table of leases, each compared with a snapshot and a table that were built whole: what is found by id,
 * who a guest is by arrival and by token, and which leases changed. And the cost of one change.
 */
#include "lease/lease_table.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "segment_builder.h"

#define IDS 24
#define VARIANTS 8
#define CEILINGS 2
#define KEPT 4 /* older versions that are looked at again */

static struct built_store store;
static struct segment *variants[IDS][VARIANTS], *ceilings[CEILINGS];
static char ids[IDS][8];
static uint32_t random_state = 1;

static uint32_t draw(uint32_t below)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (random_state >> 8) % below;
}

/* What is in force, as plain values. */
struct model {
	int variant[IDS]; /* -1: no such lease */
	unsigned ceiling;
	uint32_t flags;
	uint64_t version;
};

static void build_segments(void)
{
	static const char *const requires[] = { "source", "listener", "listener source", "token", "source token", "listener token" };

	built_store_init(&store);
	for (unsigned i = 0; i < CEILINGS; i++)
		ceilings[i] = built_segment(&store, LAYOUT_CEILING, i == 0 ? "allow any\n" : "allow any\ndeny x.test\n");
	for (unsigned i = 0; i < IDS; i++) {
		snprintf(ids[i], sizeof(ids[i]), "l%u", i);
		for (unsigned v = 0; v < VARIANTS; v++) {
			char text[300];

			/* The same source twice is no fault; few prefixes and listeners, so that leases meet. */
			snprintf(text, sizeof(text),
				 "lease l%u\nrev %u\nrequire %s\nlistener vm-%u\nsource 10.0.%u.0/%u\nsource 10.0.0.%u/32\nsource 10.0.0.%u/32\n"
				 "source 2001:db8:%u::/48\ntoken t%u\n%s",
				 i, v, requires[draw(ARRAY_LEN(requires))], draw(5), 4 * draw(4), 22 + draw(3), i, i, draw(3), draw(4),
				 draw(2) == 0 ? "" : "ruleset\nallow https://r.test\nend\n");
			variants[i][v] = built_segment(&store, LAYOUT_LEASE, text);
		}
	}
}

static uint32_t slot_of(void *arg, struct text id)
{
	(void)arg;
	return (uint32_t)id.at[1] * 7 + (id.len > 2 ? (uint32_t)id.at[2] : 0);
}

static struct segment *root_of(const struct model *m, uint64_t base, const struct built_named *named, size_t count)
{
	static uint8_t bytes[BUILT_BYTES_MAX];
	const char *fault = NULL;
	struct segment *root;
	size_t len = built_root_naming(m->version, base, m->flags, ceilings[m->ceiling], named, count, bytes);

	cr_assert_eq(segment_open_bytes(bytes, len, &root, &fault), ERR_OK, "%s", fault);
	return root;
}

static struct segment *complete_root(const struct model *m)
{
	struct built_named named[IDS];
	size_t count = 0;

	for (unsigned i = 0; i < IDS; i++) {
		if (m->variant[i] >= 0)
			named[count++] = (struct built_named){ ids[i], variants[i][m->variant[i]] };
	}
	return root_of(m, 0, named, count);
}

static struct segment *changes_root(const struct model *before, const struct model *m)
{
	struct built_named named[IDS];
	size_t count = 0;

	for (unsigned i = 0; i < IDS; i++) {
		if (m->variant[i] != before->variant[i] || draw(20) == 0)
			named[count++] = (struct built_named){ ids[i], m->variant[i] < 0 ? NULL : variants[i][m->variant[i]] };
	}
	return root_of(m, before->version, named, count);
}

/* The table that `root` (dropped) makes of `before`. */
static struct lease_table *follow(struct lease_table *before, struct segment *root)
{
	struct snapshot *snapshot;
	struct lease_table *table;
	const char *fault = NULL;

	cr_assert_eq(snapshot_follow(before == NULL ? NULL : lease_table_snapshot(before), root, built_find, &store, &snapshot, &fault),
		     ERR_OK, "%s", fault);
	cr_assert_eq(lease_table_follow(before, snapshot, slot_of, NULL, &table), ERR_OK);
	snapshot_unref(snapshot);
	segment_unref(root);
	return table;
}

static void expect_same_entry(const struct lease_table_entry *a, const struct lease_table_entry *b)
{
	cr_assert_eq(a == NULL, b == NULL);
	if (a == NULL)
		return;
	cr_assert_eq(a->lease->segment, b->lease->segment);
	cr_assert_eq(a->slot, b->slot);
	cr_assert_eq(a->lease->ruleset_count, b->lease->ruleset_count);
	for (uint32_t i = 0; i < a->lease->ruleset_count; i++)
		cr_assert_eq(a->lease->rulesets[i], b->lease->rulesets[i]);
}

static void compare_arrival(const struct lease_table *a, const struct lease_table *b, const struct lease_arrival *arrival)
{
	struct lease_arrival_options x, y;

	lease_table_arrive(a, arrival, &x);
	lease_table_arrive(b, arrival, &y);
	cr_assert_eq(x.alone, y.alone);
	cr_assert_eq(x.token_may_help, y.token_may_help);
	expect_same_entry(x.entry, y.entry);
	cr_assert(x.entry == NULL || lease_table_find(a, x.entry->lease->id) == x.entry);
	for (unsigned n = 0; n < 3; n++) {
		const struct lease_table_entry *p = NULL, *q = NULL;
		struct lease_claim claim;
		char token[3] = { 't', (char)('0' + draw(5)), '\0' };
		enum reason why;

		cr_assert_eq(lease_token_claim(text_of(ids[draw(IDS)]), text_of(token), &claim), ERR_OK);
		why = lease_table_claim(a, arrival, &claim, 1000, &p);
		cr_assert_eq(why, lease_table_claim(b, arrival, &claim, 1000, &q));
		expect_same_entry(p, q);
	}
}

static void compare(const struct lease_table *a, const struct lease_table *b, const struct model *m)
{
	static const char *const listeners[] = { "vm-0", "vm-1", "vm-2", "vm-3", "vm-4", "vm-5", "" };
	size_t count = 0;

	for (unsigned i = 0; i < IDS; i++) {
		const struct lease_table_entry *entry = lease_table_find(a, text_of(ids[i]));

		count += m->variant[i] >= 0;
		cr_assert_eq(entry == NULL, m->variant[i] < 0);
		cr_assert(entry == NULL || entry->lease->segment == variants[i][m->variant[i]]);
		cr_assert(entry == NULL || entry->lease == snapshot_lease_find(lease_table_snapshot(a), entry->lease->id));
		expect_same_entry(entry, lease_table_find(b, text_of(ids[i])));
	}
	cr_assert_eq(snapshot_lease_count(lease_table_snapshot(a)), count);
	for (size_t i = 0; i < ARRAY_LEN(listeners); i++) {
		for (unsigned n = 0; n < 4; n++) {
			struct lease_arrival arrival = { .listener = listeners[i] };
			char source[32];

			snprintf(source, sizeof(source), n == 3 ? "2001:db8:%u::1" : "10.0.%u.%u", n == 0 ? 0 : draw(16), draw(IDS));
			if (draw(10) > 0)
				cr_assert(addr_parse(text_of(source), &arrival.source.addr));
			compare_arrival(a, b, &arrival);
		}
	}
}

struct differences {
	const struct model *before, *after;
	bool told[IDS];
};

static void on_difference(void *arg, const struct lease_table_entry *was, const struct lease_table_entry *is)
{
	struct differences *d = arg;
	const struct snapshot_lease *lease = (was != NULL ? was : is)->lease;
	unsigned i = 0;

	while (!text_is(lease->id, ids[i]))
		i++;
	cr_assert_not(d->told[i]);
	d->told[i] = true;
	cr_assert_eq(was == NULL, d->before->variant[i] < 0);
	cr_assert_eq(is == NULL, d->after->variant[i] < 0);
}

/* What changed and changed back between versions that are far apart may be told, too. */
static void compare_differences(const struct lease_table *before, const struct lease_table *after, const struct model *was,
				const struct model *is, bool are_neighbours)
{
	struct differences d = { .before = was, .after = is };
	bool all = was->ceiling != is->ceiling || was->flags != is->flags;

	lease_table_diff(before, after, on_difference, &d);
	for (unsigned i = 0; i < IDS; i++) {
		bool there = was->variant[i] >= 0 && is->variant[i] >= 0;

		bool differs = was->variant[i] != is->variant[i];

		cr_assert(d.told[i] == differs || (!are_neighbours && d.told[i]), "lease %u", i);
		cr_assert_eq(snapshot_lease_changed(lease_table_snapshot(before), lease_table_snapshot(after), text_of(ids[i])),
			     differs || (there && all));
	}
	cr_assert_eq(snapshot_ceiling_changed(lease_table_snapshot(before), lease_table_snapshot(after)), all);
}

static void change(struct model *m)
{
	for (unsigned n = 1 + draw(draw(10) == 0 ? IDS : 3); n > 0; n--)
		m->variant[draw(IDS)] = (int)draw(VARIANTS + 3) - 3 < 0 ? -1 : (int)draw(VARIANTS);
	if (draw(15) == 0)
		m->ceiling ^= 1;
	if (draw(15) == 0)
		m->flags ^= LAYOUT_ROOT_REPORT_ALLOWED;
	m->version += 1 + draw(3);
}

Test(lease_follow, thousands_of_changes_end_where_a_table_built_whole_stands)
{
	struct model model = { .version = 1 }, kept_model[KEPT] = { { .version = 0 } };
	struct lease_table *table = NULL, *kept[KEPT] = { NULL };

	build_segments();
	for (unsigned i = 0; i < IDS; i++)
		model.variant[i] = -1;
	for (unsigned round = 0; round < 3000; round++) {
		struct model before = model;
		struct lease_table *next, *whole;
		unsigned k = draw(KEPT);

		change(&model);
		next = follow(table, table == NULL || draw(10) == 0 ? complete_root(&model) : changes_root(&before, &model));
		whole = follow(NULL, complete_root(&model));
		compare(next, whole, &model);
		if (table != NULL)
			compare_differences(table, next, &before, &model, true);
		if (kept[k] != NULL) {
			struct lease_table *again = follow(NULL, complete_root(&kept_model[k]));

			compare(kept[k], again, &kept_model[k]);
			compare_differences(kept[k], next, &kept_model[k], &model, false);
			lease_table_unref(again);
		}
		if (draw(20) == 0) {
			lease_table_unref(kept[k]);
			kept[k] = lease_table_ref(next);
			kept_model[k] = model;
		}
		lease_table_unref(whole);
		lease_table_unref(table);
		table = next;
	}
	for (unsigned k = 0; k < KEPT; k++)
		lease_table_unref(kept[k]);
	lease_table_unref(table);
	built_store_finish(&store);
}

static void on_stranger(void *arg, const struct lease_table_entry *was, const struct lease_table_entry *is)
{
	unsigned *counts = arg;

	counts[was == NULL ? 0 : is == NULL ? 1 : 2]++;
}

Test(lease_follow, tables_that_share_nothing_differ_by_every_entry)
{
	struct model a = { .version = 1 }, b = { .version = 2 };
	struct lease_table *x, *y;
	unsigned counts[3] = { 0 };

	build_segments();
	a.variant[0] = b.variant[1] = -1;
	x = follow(NULL, complete_root(&a));
	y = follow(NULL, complete_root(&b));
	cr_expect_not(snapshot_is_kin(lease_table_snapshot(x), lease_table_snapshot(y)));
	lease_table_diff(x, y, on_stranger, counts);
	cr_expect(counts[0] == 1 && counts[1] == 1 && counts[2] == IDS - 2);
	lease_table_unref(x);
	lease_table_unref(y);
	built_store_finish(&store);
}

static uint32_t slots_left;

static uint32_t scarce_slot_of(void *arg, struct text id)
{
	return slots_left == 0 ? LEASE_TABLE_NO_SLOT : (slots_left--, slot_of(arg, id));
}

static size_t slotless_count(const struct lease_table *t)
{
	size_t count = 0;

	for (unsigned i = 0; i < IDS; i++)
		count += lease_table_find(t, text_of(ids[i]))->slot == LEASE_TABLE_NO_SLOT;
	return count;
}

Test(lease_follow, asks_again_for_slots_that_were_missing_and_for_no_others)
{
	struct model model = { .version = 1 };
	struct segment *root;
	struct snapshot *snapshot;
	struct lease_table *first, *second, *third;
	const char *fault = NULL;

	build_segments();
	root = complete_root(&model);
	cr_assert_eq(snapshot_create(root, built_find, &store, &snapshot, &fault), ERR_OK);
	slots_left = 10;
	cr_assert_eq(lease_table_follow(NULL, snapshot, scarce_slot_of, NULL, &first), ERR_OK);
	cr_expect_eq(slotless_count(first), IDS - 10);
	slots_left = 4;
	cr_assert_eq(lease_table_follow(first, snapshot, scarce_slot_of, NULL, &second), ERR_OK);
	cr_expect_eq(slotless_count(second), IDS - 14);
	slots_left = 100;
	cr_assert_eq(lease_table_follow(second, snapshot, scarce_slot_of, NULL, &third), ERR_OK);
	cr_expect_eq(slotless_count(third), 0);
	cr_expect_eq(slots_left, 100 - (IDS - 14));
	cr_expect_eq(slotless_count(first), IDS - 10);
	lease_table_unref(first);
	lease_table_unref(second);
	lease_table_unref(third);
	snapshot_unref(snapshot);
	segment_unref(root);
	built_store_finish(&store);
}

Test(lease_follow, changes_nothing_when_memory_fails)
{
	struct model model = { .version = 1 }, before;
	struct lease_table *table, *whole;

	build_segments();
	table = follow(NULL, complete_root(&model));
	for (unsigned round = 0; round < 40; round++) {
		struct lease_table *next = NULL;
		struct snapshot *snapshot;
		const char *fault = NULL;
		struct segment *root;

		before = model;
		change(&model);
		root = changes_root(&before, &model);
		cr_assert_eq(snapshot_follow(lease_table_snapshot(table), root, built_find, &store, &snapshot, &fault), ERR_OK);
		for (uint64_t nth = 1;; nth++) {
			alloc_fail_at(nth);
			if (lease_table_follow(table, snapshot, slot_of, NULL, &next) == ERR_OK)
				break;
			cr_assert_null(next);
		}
		alloc_fail_at(0);
		whole = follow(NULL, complete_root(&before));
		compare(table, whole, &before);
		lease_table_unref(whole);
		whole = follow(NULL, complete_root(&model));
		compare(next, whole, &model);
		lease_table_unref(whole);
		lease_table_unref(table);
		snapshot_unref(snapshot);
		segment_unref(root);
		table = next;
	}
	lease_table_unref(table);
	built_store_finish(&store);
}
