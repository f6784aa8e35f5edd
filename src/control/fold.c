/*
 * Folds repeated denials by a 128-bit keyed hash of lease, target and reason. Promises that counts add up: what comes out
 * counts exactly what went in. Refuses to hold more than its limit; beyond it denials pass one by one.
 */
#include "control/fold_internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "base/sink.h"

struct fold_entry {
	struct htab_node node; /* by the first half of the hash */
	struct list_node age;
	uint64_t second;       /* the other half */
	uint64_t since_ms;
	uint32_t count;        /* kept so far */
	uint64_t first_wall_ms;
	struct record *last;   /* owned; NULL while nothing repeated */
};

enum err fold_init(struct fold *f, size_t entries_max, fold_done_fn *on_done, void *arg)
{
	*f = (struct fold){ .on_done = on_done, .arg = arg };
	f->entries_max = entries_max < FOLD_ENTRIES_MAX ? entries_max : FOLD_ENTRIES_MAX;
	htab_init(&f->entries);
	list_init(&f->by_age);
	return crypto_random(f->keys, sizeof(f->keys));
}

void fold_finish(struct fold *f)
{
	fold_flush(f);
	htab_finish(&f->entries);
}

static bool can_repeat(const struct record *r)
{
	return r->event == RECORD_DECISION && !r->verdict.allow && r->count <= 1;
}

static void hash_record(const struct fold *f, const struct record *r, uint64_t out_hash[2])
{
	uint8_t bytes[RECORD_LEASE_MAX + DNAME_MAX + TARGET_TEXT_MAX + 64];
	struct sink s = sink_over(bytes, sizeof(bytes));

	/* Lengths stand in front, so that no text can spill over into its neighbour. */
	sink_be16(&s, (uint16_t)strlen(r->lease));
	sink_text(&s, r->lease);
	sink_be16(&s, (uint16_t)r->verdict.reason);
	sink_u8(&s, r->target_known);
	if (r->target_known) {
		sink_u8(&s, (uint8_t)r->target.kind);
		sink_be16(&s, r->target.port);
	}
	if (r->target_known && r->target.kind == TARGET_NAME) {
		sink_bytes(&s, r->target.name.text, r->target.name.len);
	} else if (r->target_known) {
		sink_u8(&s, r->target.addr.family);
		sink_bytes(&s, r->target.addr.octets, sizeof(r->target.addr.octets));
	} else {
		sink_text(&s, r->target_raw);
	}
	out_hash[0] = hash_bytes(&f->keys[0], bytes, s.len);
	out_hash[1] = hash_bytes(&f->keys[1], bytes, s.len);
}

static bool is_same(const struct htab_node *node, const void *key)
{
	return CONTAINER_OF(node, const struct fold_entry, node)->second == *(const uint64_t *)key;
}

static void end(struct fold *f, struct fold_entry *entry)
{
	htab_remove(&f->entries, &entry->node);
	list_remove(&f->by_age, &entry->age);
	if (entry->last != NULL) {
		f->held--;
		f->repeats -= entry->count;
		if (entry->count > 1) {
			entry->last->count = entry->count;
			entry->last->first_wall_ms = entry->first_wall_ms;
		}
		f->on_done(f->arg, entry->last);
		alloc_free(entry->last);
	}
	alloc_free(entry);
}

static void begin(struct fold *f, const uint64_t hash[2], uint64_t now_ms)
{
	struct fold_entry *entry;

	if (f->entries.count >= f->entries_max)
		return;
	entry = alloc_zeroed(sizeof(*entry));
	if (entry == NULL)
		return;
	entry->second = hash[1];
	entry->since_ms = now_ms;
	if (htab_insert(&f->entries, &entry->node, hash[0]) != ERR_OK) {
		alloc_free(entry);
		return;
	}
	list_push_back(&f->by_age, &entry->age);
}

static enum fold_result keep(struct fold *f, struct fold_entry *entry, const struct record *record)
{
	if (entry->last == NULL) {
		entry->last = alloc_zeroed(sizeof(*entry->last));
		if (entry->last == NULL)
			return FOLD_PASS;
		entry->first_wall_ms = record->wall_ms;
		f->held++;
	}
	*entry->last = *record;
	entry->count++;
	f->repeats++;
	return FOLD_KEPT;
}

enum fold_result fold_offer(struct fold *f, const struct record *record, uint64_t now_ms)
{
	uint64_t hash[2];
	struct htab_node *node;

	if (!can_repeat(record))
		return FOLD_PASS;
	fold_expire(f, now_ms);
	hash_record(f, record, hash);
	node = htab_find(&f->entries, hash[0], is_same, &hash[1]);
	if (node != NULL)
		return keep(f, CONTAINER_OF(node, struct fold_entry, node), record);
	begin(f, hash, now_ms);
	return FOLD_PASS;
}

void fold_expire(struct fold *f, uint64_t now_ms)
{
	struct list_node *oldest;

	while ((oldest = list_first(&f->by_age)) != NULL) {
		struct fold_entry *entry = CONTAINER_OF(oldest, struct fold_entry, age);

		if (now_ms - entry->since_ms < FOLD_WINDOW_MS)
			return;
		end(f, entry);
	}
}

void fold_flush(struct fold *f)
{
	struct list_node *oldest;

	while ((oldest = list_first(&f->by_age)) != NULL)
		end(f, CONTAINER_OF(oldest, struct fold_entry, age));
}

size_t fold_count(const struct fold *f)
{
	return f->entries.count;
}

size_t fold_held(const struct fold *f)
{
	return f->held;
}

uint64_t fold_repeats(const struct fold *f)
{
	return f->repeats;
}
