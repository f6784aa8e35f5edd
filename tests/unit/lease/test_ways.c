/* Ways to arrive in many versions, against a plain list of pairs. */
#include "lease/ways.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define THINGS 12
#define WAYS 40
#define SHAPES 8

static size_t alive;

struct thing {
	struct trie_item item;
	unsigned number;
};

static const void *thing_key(const struct trie_item *item)
{
	return &CONTAINER_OF(item, const struct thing, item)->number;
}

static bool thing_is(const struct trie_item *item, const void *key)
{
	return CONTAINER_OF(item, const struct thing, item)->number == *(const unsigned *)key;
}

static void thing_destroy(struct trie_item *item)
{
	alive--;
	alloc_free(CONTAINER_OF(item, struct thing, item));
}

static const struct trie_ops thing_ops = { thing_key, thing_is, thing_destroy };
static const struct hash_key key = { 3, 4 };
static struct thing *things[THINGS];
static struct way all[WAYS];
static uint32_t random_state = 5;

static uint32_t draw(uint32_t below)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (random_state >> 8) % below;
}

static struct prefix prefix_of(const char *text, uint8_t len)
{
	struct prefix p = { .len = len };

	if (text != NULL)
		cr_assert(addr_parse(text_of(text), &p.addr));
	return p;
}

static void make_things(void)
{
	static const char *const listeners[] = { "", "a", "ab", "b", "" };

	for (unsigned i = 0; i < THINGS; i++) {
		things[i] = alloc_zeroed(sizeof(*things[i]));
		cr_assert_not_null(things[i]);
		trie_item_init(&things[i]->item, i % 5);
		things[i]->number = i;
		alive++;
	}
	for (unsigned i = 0; i < WAYS; i++) {
		const struct prefix shapes[SHAPES] = {
			prefix_of(NULL, 0),	     prefix_of("10.0.0.0", 8),	 prefix_of("10.0.0.0", 16),   prefix_of("10.0.0.1", 32),
			prefix_of("2001:db8::", 32), prefix_of("2001:db8::", 33), prefix_of("2001:db8::1", 128), prefix_of("0.0.0.0", 0),
		};

		all[i] = (struct way){ .source = shapes[i % SHAPES], .listener = text_of(listeners[i / SHAPES]) };
	}
}

static void drop_things(void)
{
	for (unsigned i = 0; i < THINGS; i++)
		trie_item_unref(&thing_ops, &things[i]->item);
	cr_expect_eq(alive, 0);
}

/* Who may arrive how; the first and the last SHAPES ways are the same ones. */
struct model {
	bool may[WAYS][THINGS];
};

static unsigned same_as(unsigned way)
{
	return way >= WAYS - SHAPES ? way - (WAYS - SHAPES) : way;
}

static bool satisfies(const struct way *way, const struct addr *source, struct text listener)
{
	if (way->listener.len > 0 && !text_equal(way->listener, listener))
		return false;
	return way->source.addr.family == ADDR_NONE || prefix_contains(&way->source, source);
}

static bool on_visited(void *arg, struct trie_item *item)
{
	((bool *)arg)[CONTAINER_OF(item, struct thing, item)->number] = true;
	return true;
}

static void compare(const struct ways *w, const struct model *m)
{
	static const char *const sources[] = { "10.0.0.1", "10.0.0.2", "10.1.0.0", "11.0.0.1", "2001:db8::1", "2001:db8:8000::", "2001:db9::1" };
	static const char *const listeners[] = { "", "a", "ab", "b", "abc" };

	for (size_t s = 0; s <= ARRAY_LEN(sources); s++) {
		for (size_t l = 0; l < ARRAY_LEN(listeners); l++) {
			bool expected[THINGS] = { false }, seen[THINGS] = { false };
			struct addr source = { .family = ADDR_NONE };

			if (s < ARRAY_LEN(sources))
				cr_assert(addr_parse(text_of(sources[s]), &source));
			for (unsigned i = 0; i < WAYS; i++) {
				for (unsigned k = 0; k < THINGS && satisfies(&all[i], &source, text_of(listeners[l])); k++)
					expected[k] |= m->may[i][k];
			}
			ways_visit(w, &source, text_of(listeners[l]), on_visited, seen);
			cr_assert_eq(memcmp(expected, seen, sizeof(seen)), 0, "%zu %zu", s, l);
		}
	}
}

static void change(struct ways *w, struct model *m)
{
	unsigned way = draw(WAYS), thing = draw(THINGS);
	bool adds = draw(2) == 0;

	cr_assert_eq(adds ? ways_add(w, &all[way], &things[thing]->item) : ways_drop(w, &all[way], &things[thing]->item), ERR_OK);
	m->may[same_as(way)][thing] = adds;
}

Test(ways, find_who_may_arrive_in_every_version)
{
	struct ways now, before;
	static struct model model, model_before;

	make_things();
	ways_init(&now, &thing_ops, &key);
	ways_init(&before, &thing_ops, &key);
	for (unsigned round = 0; round < 400; round++) {
		ways_finish(&before);
		ways_copy(&before, &now);
		model_before = model;
		for (unsigned n = draw(6); n > 0; n--)
			change(&now, &model);
		compare(&now, &model);
		compare(&before, &model_before);
	}
	for (unsigned i = 0; i < WAYS; i++) {
		for (unsigned k = 0; k < THINGS; k++)
			cr_assert_eq(ways_drop(&now, &all[i], &things[k]->item), ERR_OK);
	}
	cr_expect_eq(now.group_count, 0);
	cr_expect_eq(now.by_way.count, 0);
	ways_finish(&before);
	ways_finish(&now);
	drop_things();
}

Test(ways, have_room_for_every_length_there_is)
{
	struct ways w;
	unsigned found = 0;

	make_things();
	ways_init(&w, &thing_ops, &key);
	for (unsigned len = 0; len <= 128; len++) {
		struct way v4 = { .source = { .addr = { .family = ADDR_V4 }, .len = (uint8_t)len }, .listener = text_of("") };
		struct way v6 = { .source = { .addr = { .family = ADDR_V6 }, .len = (uint8_t)(128 - len) }, .listener = text_of("") };

		if (len <= 32)
			cr_assert_eq(ways_add(&w, &v4, &things[0]->item), ERR_OK);
		cr_assert_eq(ways_add(&w, &v6, &things[1]->item), ERR_OK);
	}
	cr_assert_eq(ways_add(&w, &all[0], &things[2]->item), ERR_OK);
	cr_expect_eq(w.group_count, WAYS_GROUPS_MAX);
	for (size_t i = 0; i < w.group_count; i++)
		found += w.groups[i].count;
	cr_expect_eq(found, WAYS_GROUPS_MAX);
	ways_finish(&w);
	drop_things();
}

static bool on_first(void *arg, struct trie_item *item)
{
	(void)item;
	++*(unsigned *)arg;
	return false;
}

Test(ways, end_a_visit_when_told)
{
	struct addr source;
	struct ways w;
	unsigned count = 0;

	make_things();
	ways_init(&w, &thing_ops, &key);
	for (unsigned i = 0; i < WAYS; i++)
		cr_assert_eq(ways_add(&w, &all[i], &things[i % THINGS]->item), ERR_OK);
	cr_assert(addr_parse(text_of("10.0.0.1"), &source));
	ways_visit(&w, &source, text_of("a"), on_first, &count);
	cr_expect_eq(count, 1);
	ways_finish(&w);
	drop_things();
}

Test(ways, change_nothing_when_memory_fails)
{
	struct ways now, kept;
	static struct model model, before;

	make_things();
	ways_init(&now, &thing_ops, &key);
	for (unsigned round = 0; round < 300; round++) {
		unsigned way = draw(WAYS), thing = draw(THINGS);
		bool adds = draw(2) == 0;
		enum err e;

		ways_copy(&kept, &now); /* shared, so that every change allocates */
		before = model;
		for (uint64_t nth = 1;; nth++) {
			alloc_fail_at(nth);
			e = adds ? ways_add(&now, &all[way], &things[thing]->item) : ways_drop(&now, &all[way], &things[thing]->item);
			alloc_fail_at(0);
			if (e == ERR_OK)
				break;
			cr_assert_eq(e, ERR_NO_MEMORY);
			compare(&now, &before);
		}
		model.may[same_as(way)][thing] = adds;
		compare(&now, &model);
		compare(&kept, &before);
		ways_finish(&kept);
	}
	ways_finish(&now);
	drop_things();
}
