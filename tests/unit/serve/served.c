/* See served.h. */
#include "served.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"

struct serve_doc *served_doc(const char *key, const char *text)
{
	size_t key_len = strlen(key), len = strlen(text);
	struct serve_doc *doc = alloc_zeroed(sizeof(*doc) + key_len + 1 + len);
	char *room = (char *)(doc + 1);

	refcount_init(&doc->refs);
	memcpy(room, key, key_len);
	memcpy(room + key_len + 1, text, len);
	doc->key = room;
	doc->envelope = (struct text){ room + key_len + 1, len };
	cr_assert_eq(crypto_sha256(text, len, doc->sha256), ERR_OK);
	return doc;
}

static int by_key(const void *a, const void *b)
{
	const struct serve_doc *const *x = a, *const *y = b;

	return strcmp((*x)->key, (*y)->key);
}

struct serve_edition *served_edition(const char *cursor, const char *const (*docs)[2], size_t count)
{
	struct serve_edition *e = alloc_zeroed(sizeof(*e));

	refcount_init(&e->refs);
	snprintf(e->cursor, sizeof(e->cursor), "%s", cursor);
	e->docs = alloc_array(count + 1, sizeof(struct serve_doc *));
	for (size_t i = 0; i < count; i++)
		e->docs[e->count++] = served_doc(docs[i][0], docs[i][1]);
	qsort(e->docs, e->count, sizeof(struct serve_doc *), by_key);
	return e;
}
