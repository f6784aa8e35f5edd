/* See serve_plan.h. Called by serve_etcd. */
#include "serve/serve_plan.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"

struct known {
	struct htab_node node;
	uint8_t sha256[32];
	char key[FRAMES_KEY_MAX + 1];
};

static bool has_key(const struct htab_node *node, const void *key)
{
	return strcmp(CONTAINER_OF(node, const struct known, node)->key, key) == 0;
}

static struct known *find(const struct serve_stock *s, const char *key)
{
	struct htab_node *node = htab_find(&s->known, hash_bytes(&s->key, key, strlen(key)), has_key, key);

	return node == NULL ? NULL : CONTAINER_OF(node, struct known, node);
}

enum err serve_stock_init(struct serve_stock *s)
{
	htab_init(&s->known);
	return crypto_random(&s->key, sizeof(s->key));
}

void serve_stock_clear(struct serve_stock *s)
{
	struct htab_node *node, *next;

	HTAB_FOREACH (node, next, &s->known) {
		htab_remove(&s->known, node);
		alloc_free(CONTAINER_OF(node, struct known, node));
	}
}

void serve_stock_finish(struct serve_stock *s)
{
	serve_stock_clear(s);
	htab_finish(&s->known);
}

enum err serve_stock_note(struct serve_stock *s, struct text key, const uint8_t sha256[32])
{
	char name[FRAMES_KEY_MAX + 1];
	struct known *known;

	if (key.len > FRAMES_KEY_MAX)
		return ERR_LIMIT;
	snprintf(name, sizeof(name), "%.*s", (int)key.len, key.at);
	known = find(s, name);
	if (sha256 == NULL && known != NULL) {
		htab_remove(&s->known, &known->node);
		alloc_free(known);
	}
	if (sha256 == NULL)
		return ERR_OK;
	if (known == NULL) {
		known = alloc_zeroed(sizeof(*known));
		if (known == NULL)
			return ERR_NO_MEMORY;
		memcpy(known->key, name, sizeof(known->key));
		if (htab_insert(&s->known, &known->node, hash_bytes(&s->key, name, strlen(name))) != ERR_OK) {
			alloc_free(known);
			return ERR_NO_MEMORY;
		}
	}
	memcpy(known->sha256, sha256, 32);
	return ERR_OK;
}

static enum err add(struct serve_plan *p, const struct serve_doc *doc, const char *key)
{
	if (p->count == p->room) {
		size_t room = p->room == 0 ? 64 : 2 * p->room;
		struct serve_op *more = alloc_resize(p->ops, room, sizeof(*more));

		if (more == NULL)
			return ERR_NO_MEMORY;
		p->ops = more;
		p->room = room;
	}
	p->ops[p->count].doc = doc;
	snprintf(p->ops[p->count].key, sizeof(p->ops[p->count].key), "%s", key);
	p->count++;
	return ERR_OK;
}

/* Documents of one kind that the store has not, or has otherwise. */
static enum err add_puts(struct serve_plan *p, const struct serve_stock *stock, const struct serve_edition *edition, const char *kind)
{
	enum err e = ERR_OK;

	for (size_t i = 0; i < edition->count && e == ERR_OK; i++) {
		const struct serve_doc *doc = edition->docs[i];
		const struct known *known;

		if (strncmp(doc->key, kind, strlen(kind)) != 0)
			continue;
		known = find(stock, doc->key);
		if (known == NULL || memcmp(known->sha256, doc->sha256, 32) != 0)
			e = add(p, doc, doc->key);
	}
	return e;
}

/* Is a key of the store one of the leases (or of all else)? Nothing below a cell's prefix is anybody else's. */
static enum err add_deletes(struct serve_plan *p, const struct serve_stock *stock, const struct serve_edition *edition, bool of_leases)
{
	enum err e = ERR_OK;

	for (struct htab_node *node = htab_next(&stock->known, NULL); node != NULL && e == ERR_OK; node = htab_next(&stock->known, node)) {
		const struct known *known = CONTAINER_OF(node, const struct known, node);

		if ((strncmp(known->key, "l/", 2) == 0) == of_leases && serve_edition_find(edition, known->key) == NULL)
			e = add(p, NULL, known->key);
	}
	return e;
}

enum err serve_plan_make(const struct serve_stock *stock, const struct serve_edition *edition, struct serve_plan *out_plan)
{
	struct serve_plan p = { .ops = NULL };
	enum err e = add_puts(&p, stock, edition, "r/");

	p.leases_at = p.count;
	if (e == ERR_OK)
		e = add_puts(&p, stock, edition, "l/");
	if (e == ERR_OK)
		e = add_deletes(&p, stock, edition, true);
	if (e == ERR_OK)
		e = add_puts(&p, stock, edition, "m");
	p.manifest_end = p.count;
	if (e == ERR_OK)
		e = add_deletes(&p, stock, edition, false);
	if (e != ERR_OK) {
		serve_plan_finish(&p);
		return e;
	}
	*out_plan = p;
	return ERR_OK;
}

void serve_plan_finish(struct serve_plan *plan)
{
	alloc_free(plan->ops);
	*plan = (struct serve_plan){ .ops = NULL };
}

/* As far as the limits of one transaction reach; one operation always fits. */
static size_t reach(const struct serve_plan *plan, size_t from)
{
	size_t bytes = 0, to = from;

	while (to < plan->count && to - from < SERVE_PLAN_OPS_MAX) {
		bytes += plan->ops[to].doc == NULL ? 0 : plan->ops[to].doc->envelope.len;
		if (to > from && bytes > SERVE_PLAN_BYTES_MAX)
			break;
		to++;
	}
	return to;
}

size_t serve_plan_cut(const struct serve_plan *plan, size_t from)
{
	size_t to = reach(plan, from);

	/* A change that fits into one transaction is not torn for what goes before it. */
	if (from < plan->leases_at && to > plan->leases_at && to < plan->manifest_end &&
	    reach(plan, plan->leases_at) >= plan->manifest_end)
		return plan->leases_at;
	return to;
}
