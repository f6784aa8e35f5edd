/* Documents and editions as counted values; see serve_cell.h. Knows no folder. Called by serve_cell and by whoever hands them on. */
#include <string.h>

#include "base/alloc.h"
#include "serve/serve_cell.h"

struct serve_doc *serve_doc_ref(struct serve_doc *doc)
{
	refcount_ref(&doc->refs);
	return doc;
}

void serve_doc_unref(struct serve_doc *doc)
{
	if (doc != NULL && refcount_unref(&doc->refs))
		alloc_free(doc);
}

struct serve_edition *serve_edition_ref(struct serve_edition *e)
{
	refcount_ref(&e->refs);
	return e;
}

void serve_edition_unref(struct serve_edition *e)
{
	if (e == NULL || !refcount_unref(&e->refs))
		return;
	for (size_t i = 0; i < e->count; i++)
		serve_doc_unref(e->docs[i]);
	alloc_free(e->docs);
	alloc_free(e);
}

struct serve_doc *serve_edition_find(const struct serve_edition *e, const char *key)
{
	size_t low = 0, high = e->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(key, e->docs[middle]->key);

		if (order == 0)
			return e->docs[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}
