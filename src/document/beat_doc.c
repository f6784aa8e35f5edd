/* Reads `egress.beat/1`; see beat_doc.h. */
#include "document/beat_doc.h"

#include <string.h>

#include "base/crypto.h"
#include "document/doc_read_internal.h"
#include "document/lease_doc.h"

static void read_cell(struct json_faults *faults, const struct json_value *v, struct beat_doc_cell *cell)
{
	size_t before = faults->count, count = json_array_count(faults, v, 2);
	struct json_value seq = json_element(v, 0), digest = json_element(v, 1);

	if (!lease_doc_id_is_valid(text_of(v->key)))
		doc_fault(faults, v, "bad_word", "expected letters, digits and, after the first, - _ . :");
	cell->id = arena_text(faults->arena, v->key, strlen(v->key));
	if (cell->id == NULL) {
		faults->out_of_memory = true;
		cell->id = "";
	}
	if (count != 2 && faults->count == before)
		doc_fault(faults, v, "missing_key", "expected the manifest's number and its digest");
	if (count != 2)
		return;
	json_u64(faults, &seq, 0, DOC_WHOLE_MAX, &cell->seq);
	doc_bytes32(faults, &digest, cell->manifest_sha256);
}

static void read_cells(struct json_faults *faults, const struct json_value *top, struct beat_doc *doc)
{
	struct json_value object = json_member(top, "cells"), v;
	size_t count = json_member_count(faults, &object, BEAT_DOC_CELLS_MAX), at = 0;
	const void *cursor = NULL;
	struct beat_doc_cell *cells;

	if (count == 0 || (cells = doc_take(faults, count, sizeof(*cells))) == NULL)
		return;
	while (at < count && json_member_next(&object, &cursor, &v))
		read_cell(faults, &v, &cells[at++]);
	doc->cells = cells;
	doc->cell_count = at;
}

enum err beat_doc_read(struct text payload, struct json_faults *faults, struct beat_doc *out_doc)
{
	static const struct json_key known[] = {
		{ "typ", true },    { "epoch", true },	{ "group", true },  { "seq", true },
		{ "iat_ms", true }, { "exp_ms", true }, { "keyset", true }, { "cells", true },
	};
	struct beat_doc doc = { .epoch = 0 };
	size_t before = faults->count;
	struct json_value top, until;
	struct json *json;
	enum err err = json_open(payload, faults, &json);

	if (err != ERR_OK)
		return err;
	top = json_top(json);
	until = json_member(&top, "exp_ms");
	if (json_object_check(faults, &top, known, ARRAY_LEN(known))) {
		doc_type(faults, &top, "egress.beat/1");
		doc.epoch = doc_number(faults, &top, "epoch", 0, DOC_WHOLE_MAX);
		doc.group = doc_number(faults, &top, "group", 0, BEAT_DOC_GROUPS - 1);
		doc.seq = doc_number(faults, &top, "seq", 1, DOC_WHOLE_MAX);
		doc.iat_ms = doc_number(faults, &top, "iat_ms", 1, DOC_TIME_MAX_MS);
		doc.exp_ms = doc_number(faults, &top, "exp_ms", 1, DOC_TIME_MAX_MS);
		doc.keyset = doc_number(faults, &top, "keyset", 1, DOC_WHOLE_MAX);
		read_cells(faults, &top, &doc);
		if (doc.exp_ms != 0 && doc.exp_ms <= doc.iat_ms)
			doc_fault(faults, &until, "out_of_range", "the beat ends before it begins");
	}
	json_close(json);
	err = doc_outcome(faults, before);
	if (err == ERR_OK)
		*out_doc = doc;
	return err;
}

unsigned beat_doc_group_of(const char *cell)
{
	uint8_t digest[CRYPTO_SHA256_LEN] = { 0 };

	/* Without the library every cell is in group 0, where its beat may not be: it stays shut. */
	if (crypto_sha256(cell, strlen(cell), digest) != ERR_OK)
		return 0;
	return digest[0] % BEAT_DOC_GROUPS;
}

const struct beat_doc_cell *beat_doc_find(const struct beat_doc *doc, const char *id)
{
	for (size_t i = 0; i < doc->cell_count; i++)
		if (strcmp(doc->cells[i].id, id) == 0)
			return &doc->cells[i];
	return NULL;
}
