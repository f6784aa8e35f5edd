/*
 * A keyed hash table by name and family, and a binary heap by expiry over those that expire. Promises a bounded number,
 * work that grows with its logarithm at most, and that a pin for the lease is never moved by a later answer. Refuses to
 * know whose pins they are or what may be done with the addresses. Called by proxy/establish.
 */
#include "net/pins.h"

#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "base/hash.h"
#include "base/htab.h"

#define HEAP_FIRST 16
#define NOT_IN_HEAP SIZE_MAX
#define NEGATIVE_MIN_S 1

/* One block: the entry, its addresses, its name, and the canonical name when that is another one. */
struct entry {
	struct htab_node node;
	struct pin pin;
	size_t heap_at; /* index into the heap; NOT_IN_HEAP for the lease's own */
	size_t name_len;
};

struct pins {
	struct htab by_name;
	struct hash_key key;
	struct entry **heap; /* owned array of borrowed entries; the soonest to expire first */
	size_t heap_count, heap_room;
	size_t max;
};

struct wanted {
	const struct dname *name;
	enum dns_type type;
};

struct pins *pins_create(size_t max)
{
	struct pins *p = alloc_zeroed(sizeof(*p));

	if (p == NULL)
		return NULL;
	if (crypto_random(&p->key, sizeof(p->key)) != ERR_OK) {
		alloc_free(p);
		return NULL;
	}
	htab_init(&p->by_name);
	p->max = max;
	return p;
}

void pins_destroy(struct pins *p)
{
	if (p == NULL)
		return;
	pins_flush(p);
	htab_finish(&p->by_name);
	alloc_free(p->heap);
	alloc_free(p);
}

void pins_set_max(struct pins *p, size_t max)
{
	p->max = max;
}

static struct entry *entry_of(struct htab_node *node)
{
	return node == NULL ? NULL : CONTAINER_OF(node, struct entry, node);
}

/* --- the heap --- */

static void heap_set(struct pins *p, size_t at, struct entry *e)
{
	p->heap[at] = e;
	e->heap_at = at;
}

static bool expires_before(const struct entry *a, const struct entry *b)
{
	return a->pin.expires_ms < b->pin.expires_ms;
}

/* Find the place of `e`, starting from the free one at `at`, and put it there. */
static void heap_settle(struct pins *p, size_t at, struct entry *e)
{
	while (at > 0 && expires_before(e, p->heap[(at - 1) / 2])) {
		heap_set(p, at, p->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	for (;;) {
		size_t child = at * 2 + 1;

		if (child + 1 < p->heap_count && expires_before(p->heap[child + 1], p->heap[child]))
			child++;
		if (child >= p->heap_count || !expires_before(p->heap[child], e))
			break;
		heap_set(p, at, p->heap[child]);
		at = child;
	}
	heap_set(p, at, e);
}

static enum err heap_make_room(struct pins *p)
{
	size_t room = p->heap_room == 0 ? HEAP_FIRST : p->heap_room * 2;
	struct entry **heap;

	if (p->heap_count < p->heap_room)
		return ERR_OK;
	heap = alloc_resize(p->heap, room, sizeof(*heap));
	if (heap == NULL)
		return ERR_NO_MEMORY;
	p->heap = heap;
	p->heap_room = room;
	return ERR_OK;
}

static void heap_remove(struct pins *p, struct entry *e)
{
	struct entry *last;

	if (e->heap_at == NOT_IN_HEAP)
		return;
	last = p->heap[--p->heap_count];
	if (last != e)
		heap_settle(p, e->heap_at, last);
	e->heap_at = NOT_IN_HEAP;
}

/* --- entries --- */

static uint64_t hash_of(const struct pins *p, const struct dname *name, enum dns_type type)
{
	return hash_bytes(&p->key, name->text, name->len) + (uint64_t)type;
}

static bool is_wanted(const struct htab_node *node, const void *key)
{
	const struct entry *e = CONTAINER_OF(node, const struct entry, node);
	const struct wanted *w = key;

	return e->pin.type == w->type && e->name_len == w->name->len &&
	       memcmp(e->pin.name, w->name->text, e->name_len) == 0;
}

static struct entry *find(const struct pins *p, const struct dname *name, enum dns_type type)
{
	const struct wanted wanted = { .name = name, .type = type };

	return entry_of(htab_find(&p->by_name, hash_of(p, name, type), is_wanted, &wanted));
}

static void drop(struct pins *p, struct entry *e)
{
	heap_remove(p, e);
	htab_remove(&p->by_name, &e->node);
	alloc_free(e);
}

static uint32_t clamp(uint32_t v, uint32_t least, uint32_t most)
{
	return v < least ? least : v > most ? most : v;
}

static uint64_t lifetime_ms(const struct dns_answer *answer)
{
	uint32_t s = PINS_FAILURE_MAX_S;

	switch (answer->outcome) {
	case DNS_OUTCOME_ADDRESSES:
		s = clamp(answer->ttl_s, PINS_TTL_MIN_S, PINS_TTL_MAX_S);
		break;
	case DNS_OUTCOME_NO_ADDRESS:
	case DNS_OUTCOME_NXDOMAIN:
		s = clamp(answer->ttl_s, NEGATIVE_MIN_S, PINS_NEGATIVE_MAX_S);
		break;
	case DNS_OUTCOME_SERVER_FAILURE:
	case DNS_OUTCOME_TRUNCATED:
	case DNS_OUTCOME_MALFORMED:
		break;
	case DNS_OUTCOME_TIMEOUT:
	case DNS_OUTCOME_UNREACHABLE:
		s = PINS_SILENCE_S;
		break;
	}
	return (uint64_t)s * 1000;
}

static struct entry *entry_create(const struct dname *name, enum dns_type type,
				  const struct dns_answer *answer)
{
	size_t addrs_len = answer->addr_count * sizeof(struct addr);
	bool has_alias = answer->canonical.len > 0 && !dname_equal(name, &answer->canonical);
	size_t canonical_len = has_alias ? answer->canonical.len + 1u : 0;
	struct entry *e = alloc_zeroed(sizeof(*e) + addrs_len + name->len + 1u + canonical_len);
	char *at;

	if (e == NULL)
		return NULL;
	at = (char *)(e + 1);
	memcpy(at, answer->addrs, addrs_len);
	memcpy(at + addrs_len, name->text, name->len);
	if (has_alias)
		memcpy(at + addrs_len + name->len + 1, answer->canonical.text, answer->canonical.len);
	e->name_len = name->len;
	e->heap_at = NOT_IN_HEAP;
	e->pin = (struct pin){
		.name = at + addrs_len,
		.canonical = has_alias ? at + addrs_len + name->len + 1 : at + addrs_len,
		.addrs = (const struct addr *)(const void *)at,
		.ttl_s = answer->ttl_s,
		.type = (uint16_t)type,
		.outcome = (uint8_t)answer->outcome,
		.rcode = answer->rcode,
		.chain_count = answer->chain_count,
		.addr_count = answer->addr_count,
	};
	return e;
}

/* --- from outside --- */

const struct pin *pins_find(struct pins *p, const struct dname *name, enum dns_type type, uint64_t now_ms)
{
	struct entry *e = find(p, name, type);

	if (e == NULL)
		return NULL;
	if (e->pin.expires_ms <= now_ms) {
		drop(p, e);
		return NULL;
	}
	return &e->pin;
}

static void set_name(struct dname *name, const char *text)
{
	size_t len = strlen(text);

	memcpy(name->text, text, len);
	name->len = (uint8_t)len;
	name->label_count = 1;
	for (size_t i = 0; i < len; i++)
		name->label_count = (uint8_t)(name->label_count + (text[i] == '.'));
}

void pin_answer(const struct pin *pin, struct dns_answer *out_answer)
{
	*out_answer = (struct dns_answer){
		.outcome = (enum dns_outcome)pin->outcome,
		.rcode = pin->rcode,
		.chain_count = pin->chain_count,
		.addr_count = pin->addr_count,
		.ttl_s = pin->ttl_s,
	};
	set_name(&out_answer->canonical, pin->canonical);
	memcpy(out_answer->addrs, pin->addrs, pin->addr_count * sizeof(pin->addrs[0]));
}

/* Drop what has expired, two at a time so that no call pays for all, and then one more if there is still no room. */
static enum err make_room(struct pins *p, uint64_t now_ms)
{
	for (unsigned i = 0; i < 2 && p->heap_count > 0; i++) {
		if (p->heap[0]->pin.expires_ms > now_ms)
			break;
		drop(p, p->heap[0]);
	}
	if (p->by_name.count < p->max)
		return ERR_OK;
	if (p->heap_count == 0)
		return ERR_LIMIT;
	drop(p, p->heap[0]);
	return ERR_OK;
}

enum err pins_put(struct pins *p, const struct dname *name, enum dns_type type, const struct dns_answer *answer,
		  bool for_lease, uint64_t now_ms)
{
	struct entry *old = find(p, name, type);
	struct entry *e;
	enum err err;

	if (old != NULL && old->pin.for_lease)
		return ERR_OK;
	e = entry_create(name, type, answer);
	if (e == NULL)
		return ERR_NO_MEMORY;
	if (old != NULL)
		drop(p, old);
	err = make_room(p, now_ms);
	if (err == ERR_OK)
		err = heap_make_room(p);
	if (err == ERR_OK)
		err = htab_insert(&p->by_name, &e->node, hash_of(p, name, type));
	if (err != ERR_OK) {
		alloc_free(e);
		return err;
	}
	e->pin.for_lease = for_lease && answer->outcome == DNS_OUTCOME_ADDRESSES;
	e->pin.expires_ms = e->pin.for_lease ? UINT64_MAX : now_ms + lifetime_ms(answer);
	if (!e->pin.for_lease)
		heap_settle(p, p->heap_count++, e);
	return ERR_OK;
}

bool pins_drop(struct pins *p, const struct dname *name)
{
	static const enum dns_type types[] = { DNS_TYPE_A, DNS_TYPE_AAAA };
	bool found = false;

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		struct entry *e = find(p, name, types[i]);

		if (e == NULL)
			continue;
		drop(p, e);
		found = true;
	}
	return found;
}

void pins_flush(struct pins *p)
{
	struct htab_node *node = htab_next(&p->by_name, NULL);

	while (node != NULL) {
		struct htab_node *next = htab_next(&p->by_name, node);

		drop(p, entry_of(node));
		node = next;
	}
}

size_t pins_count(const struct pins *p)
{
	return p->by_name.count;
}

const struct pin *pins_next(const struct pins *p, const struct pin *after)
{
	const struct entry *e = after == NULL ? NULL : CONTAINER_OF(after, const struct entry, pin);
	struct htab_node *node = htab_next(&p->by_name, e == NULL ? NULL : &e->node);

	return node == NULL ? NULL : &entry_of(node)->pin;
}
