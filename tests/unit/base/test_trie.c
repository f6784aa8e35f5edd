/* Versions of a map against plain arrays, with hashes chosen to share all, most or none of their bits. */
#include "base/trie.h"

#include <criterion/criterion.h>

#include "base/alloc.h"
#include "base/attr.h"

#define KEYS 300

static size_t alive; /* items not destroyed */

struct thing {
	struct trie_item item;
	unsigned key, value;
};

static const void *key_of(const struct trie_item *item)
{
	return &CONTAINER_OF(item, const struct thing, item)->key;
}

static bool is_key(const struct trie_item *item, const void *key)
{
	return CONTAINER_OF(item, const struct thing, item)->key == *(const unsigned *)key;
}

static void destroy(struct trie_item *item)
{
	alive--;
	alloc_free(CONTAINER_OF(item, struct thing, item));
}

static const struct trie_ops ops = { key_of, is_key, destroy };

typedef uint64_t hash_fn(unsigned key);

static uint64_t same_hash(unsigned key)
{
	return 7 + 0 * key;
}

static uint64_t late_hash(unsigned key)
{
	return (uint64_t)(key % 16) << 60 | 5;
}

static uint64_t middle_hash(unsigned key)
{
	return (uint64_t)(key % 64) << 31 | key % 3;
}

static uint64_t good_hash(unsigned key)
{
	uint64_t h = (key + 1) * 0x9e3779b97f4a7c15u;

	return h ^ h >> 29;
}

static hash_fn *const hashes[] = { same_hash, late_hash, middle_hash, good_hash };

static struct thing *thing_create(hash_fn *hash, unsigned key, unsigned value)
{
	struct thing *t = alloc_zeroed(sizeof(*t));

	cr_assert_not_null(t);
	trie_item_init(&t->item, hash(key));
	t->key = key;
	t->value = value;
	alive++;
	return t;
}

static enum err put(struct trie *t, hash_fn *hash, unsigned key, unsigned value)
{
	struct thing *thing = thing_create(hash, key, value);
	enum err e = trie_put(t, &thing->item);

	trie_item_unref(&ops, &thing->item);
	return e;
}

/* The value of a key; 0: none. */
static unsigned value_of(const struct trie *t, hash_fn *hash, unsigned key)
{
	struct trie_item *item = trie_find(t, hash(key), &key);

	return item == NULL ? 0 : CONTAINER_OF(item, struct thing, item)->value;
}

/* A map and what it should hold. */
struct version {
	struct trie trie;
	unsigned value[KEYS];
};

struct seen {
	const struct version *v;
	size_t count;
};

static bool on_seen(void *arg, struct trie_item *item)
{
	struct seen *seen = arg;
	const struct thing *t = CONTAINER_OF(item, struct thing, item);

	cr_assert_eq(seen->v->value[t->key], t->value);
	seen->count++;
	return true;
}

static void expect_whole(const struct version *v, hash_fn *hash)
{
	struct seen seen = { .v = v };
	size_t count = 0;

	for (unsigned key = 0; key < KEYS; key++) {
		cr_assert_eq(value_of(&v->trie, hash, key), v->value[key], "key %u", key);
		count += v->value[key] != 0;
	}
	cr_assert_eq(v->trie.count, count);
	cr_assert(trie_visit(&v->trie, on_seen, &seen));
	cr_assert_eq(seen.count, count);
}

struct differences {
	const struct version *before, *after;
	bool told[KEYS];
};

static void on_difference(void *arg, struct trie_item *was, struct trie_item *is)
{
	struct differences *d = arg;
	const struct thing *a = was == NULL ? NULL : CONTAINER_OF(was, struct thing, item);
	const struct thing *b = is == NULL ? NULL : CONTAINER_OF(is, struct thing, item);
	unsigned key = a != NULL ? a->key : b->key;

	cr_assert(a == NULL || b == NULL || (a != b && a->key == b->key));
	cr_assert_not(d->told[key]);
	d->told[key] = true;
	cr_assert_eq(a == NULL ? 0 : a->value, d->before->value[key]);
	cr_assert_eq(b == NULL ? 0 : b->value, d->after->value[key]);
}

static void expect_differences(const struct version *before, const struct version *after)
{
	struct differences d = { .before = before, .after = after };

	trie_diff(&before->trie, &after->trie, on_difference, &d);
	for (unsigned key = 0; key < KEYS; key++)
		cr_assert_eq(d.told[key], before->value[key] != after->value[key], "key %u", key);
}

static uint32_t draw(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static unsigned next_value;

static void change(struct version *v, hash_fn *hash, uint32_t *state)
{
	unsigned key = draw(state) % KEYS;

	if (draw(state) % 5 < 3) {
		v->value[key] = ++next_value;
		cr_assert_eq(put(&v->trie, hash, key, v->value[key]), ERR_OK);
	} else {
		cr_assert_eq(trie_remove(&v->trie, hash(key), &key), v->value[key] == 0 ? ERR_NOT_FOUND : ERR_OK);
		v->value[key] = 0;
	}
}

Test(trie, keeps_every_version_as_it_was_and_tells_how_any_two_differ)
{
	enum { VERSIONS = 8 };
	static struct version versions[VERSIONS];
	uint32_t state = 4711;

	for (size_t h = 0; h < ARRAY_LEN(hashes); h++) {
		for (unsigned i = 0; i < VERSIONS; i++) {
			versions[i] = (struct version){ 0 };
			trie_init(&versions[i].trie, &ops);
		}
		for (unsigned round = 0; round < 60; round++) {
			struct version *from = &versions[draw(&state) % VERSIONS], *to = &versions[draw(&state) % VERSIONS];

			if (from != to) {
				trie_finish(&to->trie);
				*to = *from;
				trie_copy(&to->trie, &from->trie);
			}
			for (unsigned n = draw(&state) % 60; n > 0; n--)
				change(to, hashes[h], &state);
			for (unsigned i = 0; i < VERSIONS; i++) {
				expect_whole(&versions[i], hashes[h]);
				expect_differences(&versions[i], to);
				expect_differences(to, &versions[i]);
			}
		}
		for (unsigned i = 0; i < VERSIONS; i++)
			trie_finish(&versions[i].trie);
		cr_assert_eq(alive, 0);
	}
}

static bool on_third(void *arg, struct trie_item *item)
{
	(void)item;
	return ++*(unsigned *)arg < 3;
}

Test(trie, ends_a_visit_when_told)
{
	for (size_t h = 0; h < ARRAY_LEN(hashes); h++) {
		struct trie t;
		unsigned count = 0;

		trie_init(&t, &ops);
		cr_expect(trie_visit(&t, on_third, &count));
		cr_expect_eq(count, 0);
		for (unsigned key = 0; key < KEYS; key++)
			cr_assert_eq(put(&t, hashes[h], key, 1), ERR_OK);
		cr_expect_not(trie_visit(&t, on_third, &count));
		cr_expect_eq(count, 3);
		trie_finish(&t);
	}
}

static void on_count(void *arg, struct trie_item *was, struct trie_item *is)
{
	(void)was;
	(void)is;
	++*(size_t *)arg;
}

/* Memory is what tells whether a version was copied whole. */
Test(trie, copies_no_more_than_the_way_to_what_changes)
{
	struct trie before, after;
	unsigned key = 20000;
	size_t count = 0;

	trie_init(&before, &ops);
	for (unsigned k = 0; k < 40000; k++)
		cr_assert_eq(put(&before, good_hash, k, 1), ERR_OK);
	alloc_fail_at(0);
	trie_copy(&after, &before);
	cr_expect_eq(alloc_count(), 0);
	cr_assert_eq(trie_remove(&after, good_hash(key), &key), ERR_OK);
	cr_expect_leq(alloc_count(), 6);
	trie_diff(&before, &after, on_count, &count);
	cr_expect_eq(count, 1);
	trie_finish(&before);
	cr_expect_eq(alive, 39999);
	trie_finish(&after);
	cr_expect_eq(alive, 0);
}

Test(trie, changes_nothing_when_memory_fails)
{
	for (size_t h = 0; h < ARRAY_LEN(hashes); h++) {
		static struct version v, kept;
		uint32_t state = 99;

		v = kept = (struct version){ 0 };
		trie_init(&v.trie, &ops);
		trie_init(&kept.trie, &ops);
		for (unsigned n = 0; n < 400; n++) {
			unsigned key = draw(&state) % KEYS, nth = 0;
			struct thing *thing = thing_create(hashes[h], key, n + 1);
			bool removes = draw(&state) % 3 == 0 && v.value[key] != 0;
			enum err e;

			trie_finish(&kept.trie);
			kept = v;
			trie_copy(&kept.trie, &v.trie);
			do {
				alloc_fail_at(++nth);
				e = removes ? trie_remove(&v.trie, thing->item.hash, &key) : trie_put(&v.trie, &thing->item);
				alloc_fail_at(0);
				cr_assert(e == ERR_OK || e == ERR_NO_MEMORY);
				cr_assert(e == ERR_OK || value_of(&v.trie, hashes[h], key) == v.value[key]);
				cr_assert(e == ERR_OK || v.trie.count == kept.trie.count);
			} while (e != ERR_OK);
			cr_assert_gt(nth, 1); /* shared with `kept`: something must be copied */
			v.value[key] = removes ? 0 : n + 1;
			trie_item_unref(&ops, &thing->item);
			if (n % 10 == 0) {
				expect_whole(&v, hashes[h]);
				expect_whole(&kept, hashes[h]);
			}
		}
		trie_finish(&v.trie);
		trie_finish(&kept.trie);
		cr_expect_eq(alive, 0);
	}
}
