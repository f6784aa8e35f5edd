/*
 * Which lease is this guest? The ways to arrive, of leases that need no token and of those that do; a claim is answered at one cost
 * whether its lease exists or not. Looks at no target. Called by proxy/handshake; built by daemon and tools.
 */
#include "lease/lease_table.h"

#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "base/refcount.h"
#include "base/trie.h"
#include "lease/ways.h"

/* At least so many digests are compared for every claim, so that time tells neither a lease's existence nor its tokens. */
#define COMPARISONS_MIN 4

struct lease_table {
	struct refcount refs;
	struct snapshot *snapshot; /* counted */
	struct trie entries;       /* of struct lease_table_entry, by the hashes of the snapshot */
	size_t slotless_count;     /* entries without a slot */
	struct ways alone;         /* of leases that require no token */
	struct ways token;         /* of leases that do */
	struct ways listeners;     /* every required listener, whatever else its lease requires */
	struct ways sources;       /* every required source, likewise */
};

static struct lease_table_entry *entry_of(struct trie_item *item)
{
	return item == NULL ? NULL : CONTAINER_OF(item, struct lease_table_entry, item);
}

static const void *entry_key(const struct trie_item *item)
{
	return &CONTAINER_OF(item, const struct lease_table_entry, item)->lease->id;
}

static bool entry_is(const struct trie_item *item, const void *id)
{
	return text_equal(CONTAINER_OF(item, const struct lease_table_entry, item)->lease->id, *(const struct text *)id);
}

static void entry_destroy(struct trie_item *item)
{
	struct lease_table_entry *entry = entry_of(item);

	snapshot_lease_unref(entry->lease);
	alloc_free(entry);
}

static const struct trie_ops entry_ops = { entry_key, entry_is, entry_destroy };

static struct prefix layout_source_prefix(const struct layout_source *s)
{
	struct prefix p = { .addr = { .family = s->family }, .len = s->len };

	memcpy(p.addr.octets, s->octets, 16);
	return p;
}

/* A change to one set of ways. */
typedef enum err way_fn(struct ways *w, const struct way *way, struct trie_item *entry);

static enum err add_way(struct ways *w, const struct way *way, struct trie_item *entry)
{
	return ways_add(w, way, entry);
}

static enum err drop_way(struct ways *w, const struct way *way, struct trie_item *entry)
{
	return ways_drop(w, way, entry);
}

/* Change all ways of one lease. */
static enum err change_ways(struct lease_table *t, struct lease_table_entry *entry, way_fn *change)
{
	const struct segment *s = entry->lease->segment;
	const struct layout_lease *l = segment_lease(s);
	uint32_t count;
	const struct layout_source *sources = segment_table(s, LAYOUT_SOURCES, &count);
	struct ways *w = (l->require & LAYOUT_REQUIRE_TOKEN) != 0 ? &t->token : &t->alone;
	struct way way = { .listener = { .at = "", .len = 0 } };
	enum err e = ERR_OK;

	if ((l->require & LAYOUT_REQUIRE_LISTENER) != 0) {
		way.listener = segment_text(s, l->listener);
		e = change(&t->listeners, &way, &entry->item);
	}
	if (e == ERR_OK && (l->require & LAYOUT_REQUIRE_SOURCE) == 0)
		return change(w, &way, &entry->item);
	for (uint32_t i = 0; e == ERR_OK && i < count && (l->require & LAYOUT_REQUIRE_SOURCE) != 0; i++) {
		struct way source = { .source = layout_source_prefix(&sources[i]), .listener = { .at = "", .len = 0 } };

		way.source = source.source;
		e = change(w, &way, &entry->item);
		if (e == ERR_OK)
			e = change(&t->sources, &source, &entry->item);
	}
	return e;
}

static void destroy(struct lease_table *t)
{
	ways_finish(&t->alone);
	ways_finish(&t->token);
	ways_finish(&t->listeners);
	ways_finish(&t->sources);
	trie_finish(&t->entries);
	snapshot_unref(t->snapshot);
	alloc_free(t);
}

static enum err begin(struct lease_table *before, struct snapshot *snapshot, struct lease_table **out_table)
{
	struct lease_table *t = alloc_zeroed(sizeof(*t));
	struct hash_key key = { 0 };
	enum err e = ERR_OK;

	if (t == NULL)
		return ERR_NO_MEMORY;
	refcount_init(&t->refs);
	t->snapshot = snapshot_ref(snapshot);
	if (before != NULL) {
		trie_copy(&t->entries, &before->entries);
		t->slotless_count = before->slotless_count;
		ways_copy(&t->alone, &before->alone);
		ways_copy(&t->token, &before->token);
		ways_copy(&t->listeners, &before->listeners);
		ways_copy(&t->sources, &before->sources);
	} else {
		e = crypto_random(&key, sizeof(key));
		trie_init(&t->entries, &entry_ops);
		ways_init(&t->alone, &entry_ops, &key);
		ways_init(&t->token, &entry_ops, &key);
		ways_init(&t->listeners, &entry_ops, &key);
		ways_init(&t->sources, &entry_ops, &key);
	}
	if (e != ERR_OK) {
		destroy(t);
		return e;
	}
	*out_table = t;
	return ERR_OK;
}

/* A table under construction. */
struct builder {
	struct lease_table *table;
	lease_table_slot_fn *slot_of;
	void *arg;
	enum err err;
};

static enum err drop_entry(struct lease_table *t, struct lease_table_entry *entry)
{
	enum err e = change_ways(t, entry, drop_way);
	bool is_slotless = entry->slot == LEASE_TABLE_NO_SLOT;

	if (e == ERR_OK)
		e = trie_remove(&t->entries, entry->item.hash, &entry->lease->id);
	if (e == ERR_OK && is_slotless)
		t->slotless_count--;
	return e;
}

static enum err add_entry(struct builder *b, const struct snapshot_lease *lease)
{
	struct lease_table *t = b->table;
	struct lease_table_entry *entry = alloc_zeroed(sizeof(*entry));
	enum err e;

	if (entry == NULL)
		return ERR_NO_MEMORY;
	trie_item_init(&entry->item, lease->item.hash);
	entry->lease = snapshot_lease_ref(lease);
	entry->slot = b->slot_of(b->arg, lease->id);
	t->slotless_count += entry->slot == LEASE_TABLE_NO_SLOT;
	e = trie_put(&t->entries, &entry->item);
	if (e == ERR_OK)
		e = change_ways(t, entry, add_way);
	trie_item_unref(&entry_ops, &entry->item);
	return e;
}

static void on_change(void *arg, const struct snapshot_lease *was, const struct snapshot_lease *is)
{
	struct builder *b = arg;
	struct lease_table_entry *entry;

	if (b->err == ERR_OK && was != NULL) {
		entry = entry_of(trie_find(&b->table->entries, was->item.hash, &was->id));
		b->err = entry == NULL ? ERR_OK : drop_entry(b->table, entry);
	}
	if (b->err == ERR_OK && is != NULL)
		b->err = add_entry(b, is);
}

static void on_lease(void *arg, const struct snapshot_lease *lease)
{
	on_change(arg, NULL, lease);
}

static bool on_perhaps_slotless(void *arg, struct trie_item *item)
{
	struct builder *b = arg;
	const struct lease_table_entry *entry = entry_of(item);

	if (entry->slot == LEASE_TABLE_NO_SLOT)
		on_change(b, entry->lease, snapshot_lease_find(b->table->snapshot, entry->lease->id));
	return b->err == ERR_OK;
}

enum err lease_table_follow(struct lease_table *before, struct snapshot *snapshot, lease_table_slot_fn *slot_of, void *arg,
			    struct lease_table **out_table)
{
	struct builder b = { .slot_of = slot_of, .arg = arg, .err = ERR_OK };
	enum err e;

	if (before != NULL && !snapshot_is_kin(before->snapshot, snapshot))
		before = NULL;
	e = begin(before, snapshot, &b.table);
	if (e != ERR_OK)
		return e;
	if (before == NULL)
		snapshot_visit(snapshot, on_lease, &b);
	else
		snapshot_diff(before->snapshot, snapshot, on_change, &b);
	if (before != NULL && before->slotless_count > 0 && b.err == ERR_OK)
		(void)trie_visit(&before->entries, on_perhaps_slotless, &b);
	if (b.err != ERR_OK) {
		destroy(b.table);
		return b.err;
	}
	*out_table = b.table;
	return ERR_OK;
}

enum err lease_table_create(struct snapshot *snapshot, lease_table_slot_fn *slot_of, void *arg,
			    struct lease_table **out_table)
{
	return lease_table_follow(NULL, snapshot, slot_of, arg, out_table);
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
	return entry_of(trie_find(&t->entries, snapshot_hash(t->snapshot, id.at, id.len), &id));
}

struct diff {
	const struct lease_table *before, *after;
	lease_table_diff_fn *visit;
	void *arg;
};

static void on_difference(void *arg, struct trie_item *was, struct trie_item *is)
{
	struct diff *d = arg;

	d->visit(d->arg, entry_of(was), entry_of(is));
}

static bool on_stranger_before(void *arg, struct trie_item *was)
{
	struct diff *d = arg;

	on_difference(d, was, (struct trie_item *)(uintptr_t)lease_table_find(d->after, entry_of(was)->lease->id));
	return true;
}

static bool on_stranger_after(void *arg, struct trie_item *is)
{
	struct diff *d = arg;

	if (lease_table_find(d->before, entry_of(is)->lease->id) == NULL)
		on_difference(d, NULL, is);
	return true;
}

void lease_table_diff(const struct lease_table *before, const struct lease_table *after, lease_table_diff_fn *visit, void *arg)
{
	struct diff d = { .before = before, .after = after, .visit = visit, .arg = arg };

	if (snapshot_is_kin(before->snapshot, after->snapshot)) {
		trie_diff(&before->entries, &after->entries, on_difference, &d);
		return;
	}
	(void)trie_visit(&before->entries, on_stranger_before, &d);
	(void)trie_visit(&after->entries, on_stranger_after, &d);
}

struct sole { /* the one entry that was visited, however often */
	bool several;
	const struct lease_table_entry *entry;
};

static bool on_sole(void *arg, struct trie_item *item)
{
	struct sole *sole = arg;

	sole->several = sole->entry != NULL && sole->entry != entry_of(item);
	sole->entry = entry_of(item);
	return !sole->several;
}

static bool on_any(void *arg, struct trie_item *item)
{
	*(bool *)arg = true;
	(void)item;
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
	} else if (sole.entry != NULL) {
		options.alone = REASON_ALLOWED;
		options.entry = sole.entry;
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
		.claimed_scope = (enum layout_scope)l->claimed_scope,
		.options = l->options,
		.limits = l->limits,
	};
	copy_text(s, l->id, out_lease->id, sizeof(out_lease->id));
	copy_text(s, l->tenant, out_lease->tenant, sizeof(out_lease->tenant));
	copy_text(s, l->run, out_lease->run, sizeof(out_lease->run));
	copy_text(s, l->environment_class, out_lease->environment_class,
		  sizeof(out_lease->environment_class));
}

static unsigned scope_in_force(const struct layout_lease *l)
{
	_Static_assert(LAYOUT_SCOPE_UNDECLARED < LAYOUT_SCOPE_NONE && LAYOUT_SCOPE_NONE < LAYOUT_SCOPE_DECLARED,
		       "the stricter scope is the smaller number");
	return l->claimed_scope != 0 && l->claimed_scope < l->scope ? l->claimed_scope : l->scope;
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
	if (scope_in_force(l) == LAYOUT_SCOPE_DECLARED)
		return REASON_ALLOWED;
	return scope_in_force(l) == LAYOUT_SCOPE_NONE ? REASON_SCOPE_NONE : REASON_SCOPE_UNDECLARED;
}
