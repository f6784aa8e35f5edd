/*
 * Which lease is this guest? One sorted list of ways to arrive, for leases that need no token and for those that do; a claim is
 * answered at one cost whether its lease exists or not. Looks at no target. Called by proxy/handshake; built by daemon and tools.
 */
#include "lease/lease_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "base/refcount.h"

/* At least so many digests are compared for every claim, so that time tells neither a lease's existence nor its tokens. */
#define COMPARISONS_MIN 4

/* One way to arrive at a lease: all conditions of a lease but the token. */
struct way {
	struct prefix source;  /* family NONE: any source will do */
	struct text listener;  /* borrowed from the segment; empty: any listener will do */
	uint32_t entry;        /* number in entries */
};

/* Ways sorted by family, length, octets, listener, entry; the distinct pairs of family and length apart. */
struct ways {
	struct way *list; /* owned */
	size_t count;
	struct way_group {
		uint8_t family, len;
	} groups[1 + 33 + 129];
	size_t group_count;
};

struct lease_table {
	struct refcount refs;
	struct snapshot *snapshot;         /* counted */
	struct lease_table_entry *entries; /* owned; in the order of the snapshot */
	struct ways alone;                 /* of leases that require no token */
	struct ways token;                 /* of leases that do */
	struct ways listeners;             /* every required listener, whatever else its lease requires */
	struct ways sources;               /* every required source, likewise */
};

static int compare_keys(const struct way *a, const struct way *b)
{
	int order = (int)a->source.addr.family - (int)b->source.addr.family;

	if (order == 0)
		order = (int)a->source.len - (int)b->source.len;
	if (order == 0)
		order = memcmp(a->source.addr.octets, b->source.addr.octets, 16);
	return order != 0 ? order : segment_compare_ids(a->listener, b->listener);
}

static int compare_ways(const void *a, const void *b)
{
	const struct way *x = a, *y = b;
	int order = compare_keys(x, y);

	if (order != 0)
		return order;
	return x->entry < y->entry ? -1 : x->entry > y->entry;
}

static void ways_sort(struct ways *w)
{
	if (w->count > 1)
		qsort(w->list, w->count, sizeof(*w->list), compare_ways);
	for (size_t i = 0; i < w->count; i++) {
		struct way_group g = { w->list[i].source.addr.family, w->list[i].source.len };

		if (w->group_count == 0 || w->groups[w->group_count - 1].family != g.family ||
		    w->groups[w->group_count - 1].len != g.len)
			w->groups[w->group_count++] = g;
	}
}

static size_t ways_lower_bound(const struct ways *w, const struct way *key)
{
	size_t low = 0, high = w->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_keys(&w->list[middle], key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct prefix source_of(const struct addr *a, uint8_t len)
{
	struct prefix p = { .addr = { .family = a->family }, .len = len };

	memcpy(p.addr.octets, a->octets, len / 8u);
	if (len % 8 != 0)
		p.addr.octets[len / 8] = (uint8_t)(a->octets[len / 8] & ~(0xff >> (len % 8)));
	return p;
}

/* Called for each way that fits; false ends the walk. */
typedef bool way_fn(void *arg, uint32_t entry);

static bool ways_visit_key(const struct ways *w, const struct way *key, way_fn *visit, void *arg)
{
	for (size_t i = ways_lower_bound(w, key);
	     i < w->count && compare_keys(&w->list[i], key) == 0; i++) {
		if (!visit(arg, w->list[i].entry))
			return false;
	}
	return true;
}

/* Visit every way that `source` and `listener` satisfy. */
static void ways_visit(const struct ways *w, const struct addr *source, struct text listener,
		       way_fn *visit, void *arg)
{
	for (size_t i = 0; i < w->group_count; i++) {
		const struct way_group *g = &w->groups[i];
		struct way key = { .listener = { .at = "", .len = 0 } };

		if (g->family != ADDR_NONE && g->family != source->family)
			continue;
		if (g->family != ADDR_NONE)
			key.source = source_of(source, g->len);
		if (!ways_visit_key(w, &key, visit, arg))
			return;
		key.listener = listener;
		if (listener.len > 0 && !ways_visit_key(w, &key, visit, arg))
			return;
	}
}

static struct prefix layout_source_prefix(const struct layout_source *s)
{
	struct prefix p = { .addr = { .family = s->family }, .len = s->len };

	memcpy(p.addr.octets, s->octets, 16);
	return p;
}

static void ways_put(struct ways *w, struct way way)
{
	w->list[w->count++] = way;
}

/* Put all ways of one lease into the lists; the lists have room. */
static void put_lease(struct lease_table *t, uint32_t entry)
{
	const struct segment *s = t->entries[entry].lease->segment;
	const struct layout_lease *l = segment_lease(s);
	uint32_t count;
	const struct layout_source *sources = segment_table(s, LAYOUT_SOURCES, &count);
	struct ways *w = (l->require & LAYOUT_REQUIRE_TOKEN) != 0 ? &t->token : &t->alone;
	struct way way = { .listener = { .at = "", .len = 0 }, .entry = entry };

	if ((l->require & LAYOUT_REQUIRE_LISTENER) != 0) {
		way.listener = segment_text(s, l->listener);
		ways_put(&t->listeners, way);
	}
	if ((l->require & LAYOUT_REQUIRE_SOURCE) == 0) {
		ways_put(w, way);
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct way source = { .listener = { .at = "", .len = 0 }, .entry = entry };

		way.source = source.source = layout_source_prefix(&sources[i]);
		ways_put(w, way);
		ways_put(&t->sources, source);
	}
}

static enum err make_room(struct lease_table *t)
{
	struct ways *all[] = { &t->alone, &t->token, &t->listeners, &t->sources };
	size_t leases = snapshot_lease_count(t->snapshot), room = 0;

	for (size_t i = 0; i < leases; i++) {
		uint32_t sources;

		(void)segment_table(t->entries[i].lease->segment, LAYOUT_SOURCES, &sources);
		room += 1 + (size_t)sources;
	}
	for (size_t i = 0; i < ARRAY_LEN(all) && room > 0; i++) {
		all[i]->list = alloc_array(room, sizeof(struct way));
		if (all[i]->list == NULL)
			return ERR_NO_MEMORY;
	}
	return ERR_OK;
}

static void destroy(struct lease_table *t)
{
	alloc_free(t->alone.list);
	alloc_free(t->token.list);
	alloc_free(t->listeners.list);
	alloc_free(t->sources.list);
	alloc_free(t->entries);
	snapshot_unref(t->snapshot);
	alloc_free(t);
}

enum err lease_table_create(struct snapshot *snapshot, lease_table_slot_fn *slot_of, void *arg,
			    struct lease_table **out_table)
{
	size_t count = snapshot_lease_count(snapshot);
	struct lease_table *t = alloc_zeroed(sizeof(*t));

	if (t == NULL)
		return ERR_NO_MEMORY;
	refcount_init(&t->refs);
	t->snapshot = snapshot_ref(snapshot);
	if (count > 0) {
		t->entries = alloc_array(count, sizeof(*t->entries));
		if (t->entries == NULL)
			goto no_memory;
	}
	for (size_t i = 0; i < count; i++) {
		const struct snapshot_lease *lease = snapshot_lease_at(snapshot, i);

		t->entries[i].lease = lease;
		t->entries[i].slot = slot_of(arg, segment_text(lease->segment,
							       segment_lease(lease->segment)->id));
	}
	if (make_room(t) != ERR_OK)
		goto no_memory;
	for (size_t i = 0; i < count; i++)
		put_lease(t, (uint32_t)i);
	ways_sort(&t->alone);
	ways_sort(&t->token);
	ways_sort(&t->listeners);
	ways_sort(&t->sources);
	*out_table = t;
	return ERR_OK;
no_memory:
	destroy(t);
	return ERR_NO_MEMORY;
}

struct lease_table *lease_table_ref(struct lease_table *t)
{
	refcount_ref(&t->refs);
	return t;
}

void lease_table_unref(struct lease_table *t)
{
	if (t != NULL && refcount_unref(&t->refs))
		destroy(t);
}

struct snapshot *lease_table_snapshot(const struct lease_table *t)
{
	return t->snapshot;
}

const struct lease_table_entry *lease_table_find(const struct lease_table *t, struct text id)
{
	const struct snapshot_lease *lease = snapshot_lease_find(t->snapshot, id);

	return lease == NULL ? NULL : &t->entries[lease->index];
}

struct sole { /* the one entry that was visited, however often */
	bool any, several;
	uint32_t entry;
};

static bool on_sole(void *arg, uint32_t entry)
{
	struct sole *sole = arg;

	sole->several = sole->any && sole->entry != entry;
	sole->any = true;
	sole->entry = entry;
	return !sole->several;
}

static bool on_any(void *arg, uint32_t entry)
{
	*(bool *)arg = true;
	(void)entry;
	return false;
}

static struct text listener_of(const struct lease_arrival *arrival)
{
	return arrival->listener == NULL ? (struct text){ .at = "", .len = 0 } :
					   text_of(arrival->listener);
}

void lease_table_arrive(const struct lease_table *t, const struct lease_arrival *arrival,
			struct lease_arrival_options *out_options)
{
	struct lease_arrival_options options = { .alone = REASON_LEASE_UNKNOWN };
	struct text listener = listener_of(arrival);
	struct sole sole = { 0 };

	ways_visit(&t->alone, &arrival->source.addr, listener, on_sole, &sole);
	ways_visit(&t->token, &arrival->source.addr, listener, on_any, &options.token_may_help);
	if (sole.several) {
		options.alone = REASON_LEASE_AMBIGUOUS;
	} else if (sole.any) {
		options.alone = REASON_ALLOWED;
		options.entry = &t->entries[sole.entry];
	}
	*out_options = options;
}

/* Has the token ended before its lease? One that ends with the lease leaves the word to it: lease_expired says more. */
static bool token_is_over(const struct layout_token *token, const struct layout_lease *lease,
			  uint64_t wall_ms)
{
	return token->exp_ms != 0 && wall_ms >= token->exp_ms &&
	       (lease->exp_ms == 0 || token->exp_ms < lease->exp_ms);
}

/* Do the claim's digest and a live token of `entry` (NULL: no such lease) agree? Compares all, always at least COMPARISONS_MIN. */
static bool token_holds(const struct lease_table_entry *entry, const struct lease_claim *claim,
			uint64_t wall_ms)
{
	static const struct layout_token nobody;
	const struct layout_token *tokens = NULL;
	const struct layout_lease *lease = NULL;
	uint32_t count = 0;
	bool holds = false;

	if (entry != NULL) {
		lease = segment_lease(entry->lease->segment);
		tokens = segment_table(entry->lease->segment, LAYOUT_TOKENS, &count);
	}
	for (uint32_t i = 0; i < count || i < COMPARISONS_MIN; i++) {
		const struct layout_token *token = i < count ? &tokens[i] : &nobody;
		bool equal = crypto_equal(token->digest, claim->digest, sizeof(claim->digest));

		if (equal && i < count && !token_is_over(token, lease, wall_ms))
			holds = true;
	}
	return holds && (lease->require & LAYOUT_REQUIRE_TOKEN) != 0;
}

/* Does the arrival satisfy all that this lease requires beside the token? */
static bool arrives_as(const struct lease_table_entry *entry, const struct lease_arrival *arrival)
{
	const struct segment *s = entry->lease->segment;
	const struct layout_lease *lease = segment_lease(s);
	uint32_t count;
	const struct layout_source *sources = segment_table(s, LAYOUT_SOURCES, &count);

	if ((lease->require & LAYOUT_REQUIRE_LISTENER) != 0 &&
	    !text_equal(segment_text(s, lease->listener), listener_of(arrival)))
		return false;
	if ((lease->require & LAYOUT_REQUIRE_SOURCE) == 0)
		return true;
	for (uint32_t i = 0; i < count; i++) {
		struct prefix p = layout_source_prefix(&sources[i]);

		if (prefix_contains(&p, &arrival->source.addr))
			return true;
	}
	return false;
}

/*
 * The token is right; is the way of arrival this lease's, and nobody else's? What the lease does not require may still
 * be what tells another lease apart: its token has no business there.
 */
static enum reason check_arrival(const struct lease_table *t, const struct lease_table_entry *entry,
				 const struct lease_arrival *arrival)
{
	const struct layout_lease *lease = segment_lease(entry->lease->segment);
	struct text listener = listener_of(arrival);
	bool anothers = false;

	if (!arrives_as(entry, arrival))
		return REASON_IDENTITY_MISMATCH;
	if ((lease->require & LAYOUT_REQUIRE_LISTENER) == 0)
		ways_visit(&t->listeners, &arrival->source.addr, listener, on_any, &anothers);
	if ((lease->require & LAYOUT_REQUIRE_SOURCE) == 0)
		ways_visit(&t->sources, &arrival->source.addr, listener, on_any, &anothers);
	return anothers ? REASON_IDENTITY_MISMATCH : REASON_ALLOWED;
}

enum reason lease_table_claim(const struct lease_table *t, const struct lease_arrival *arrival,
			      const struct lease_claim *claim, uint64_t wall_ms,
			      const struct lease_table_entry **out_entry)
{
	const struct lease_table_entry *entry =
		claim->well_formed ? lease_table_find(t, text_of(claim->id)) : NULL;
	struct lease_arrival_options options;
	enum reason why;

	lease_table_arrive(t, arrival, &options);
	if (token_holds(entry, claim, wall_ms)) {
		why = check_arrival(t, entry, arrival);
		if (why == REASON_ALLOWED)
			*out_entry = entry;
		return why;
	}
	if (options.alone != REASON_ALLOWED)
		return REASON_AUTH_FAILED;
	*out_entry = options.entry;
	return REASON_ALLOWED;
}

static void copy_text(const struct segment *s, struct layout_text from, char *out_text, size_t cap)
{
	struct text t = segment_text(s, from);
	size_t len = t.len < cap ? t.len : cap - 1;

	memcpy(out_text, t.at, len);
	out_text[len] = '\0';
}

void lease_table_read(const struct lease_table_entry *entry, struct lease *out_lease)
{
	const struct segment *s = entry->lease->segment;
	const struct layout_lease *l = segment_lease(s);

	*out_lease = (struct lease){
		.rev = l->rev,
		.nbf_ms = l->nbf_ms,
		.exp_ms = l->exp_ms,
		.state = (enum layout_lease_state)l->state,
		.scope = (enum layout_scope)l->scope,
		.options = l->options,
		.limits = l->limits,
	};
	copy_text(s, l->id, out_lease->id, sizeof(out_lease->id));
	copy_text(s, l->tenant, out_lease->tenant, sizeof(out_lease->tenant));
	copy_text(s, l->run, out_lease->run, sizeof(out_lease->run));
	copy_text(s, l->environment_class, out_lease->environment_class,
		  sizeof(out_lease->environment_class));
}

enum reason lease_table_is_live(const struct lease_table_entry *entry, uint64_t wall_ms)
{
	const struct layout_lease *l = segment_lease(entry->lease->segment);
	enum reason why = REASON_POLICY_INVALID;

	if (l->nbf_ms != 0 && wall_ms < l->nbf_ms)
		return REASON_LEASE_NOT_YET;
	if (l->exp_ms != 0 && wall_ms >= l->exp_ms)
		return REASON_LEASE_EXPIRED;
	switch ((enum layout_lease_state)l->state) {
	case LAYOUT_LEASE_SUSPENDED:
		return REASON_LEASE_SUSPENDED;
	case LAYOUT_LEASE_REVOKED:
		return REASON_LEASE_REVOKED;
	case LAYOUT_LEASE_INVALID:
		return REASON_POLICY_INVALID;
	case LAYOUT_LEASE_RULESET_MISSING:
		return REASON_RULESET_MISSING;
	case LAYOUT_LEASE_ACTIVE:
		break;
	default:
		return why;
	}
	if (l->scope == LAYOUT_SCOPE_DECLARED)
		return REASON_ALLOWED;
	return l->scope == LAYOUT_SCOPE_NONE ? REASON_SCOPE_NONE : REASON_SCOPE_UNDECLARED;
}
