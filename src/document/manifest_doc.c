/* Reads `egress.manifest/1` and makes the hash in it; see manifest_doc.h. */
#include "document/manifest_doc.h"

#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "document/doc_read_internal.h"

_Static_assert(MANIFEST_DOC_ENTRY_MAX == DOC_ID_MAX + 1 + 8 + 32, "an id and a zero byte, a number, a digest");

enum err manifest_doc_read(struct text payload, struct json_faults *faults, struct manifest_doc *out_doc)
{
	static const struct json_key known[] = {
		{ "typ", true },    { "epoch", true },	{ "cell", true }, { "seq", true },
		{ "iat_ms", true }, { "leases", true }, { "root", true },
	};
	struct manifest_doc doc = { .cell = "" };
	size_t before = faults->count;
	struct json_value top, root;
	struct json *json;
	enum err err = json_open(payload, faults, &json);

	if (err != ERR_OK)
		return err;
	top = json_top(json);
	root = json_member(&top, "root");
	if (json_object_check(faults, &top, known, ARRAY_LEN(known))) {
		doc_type(faults, &top, "egress.manifest/1");
		doc.epoch = doc_number(faults, &top, "epoch", 0, DOC_WHOLE_MAX);
		doc.cell = doc_id(faults, &top, "cell");
		doc.seq = doc_number(faults, &top, "seq", 1, DOC_WHOLE_MAX);
		doc.iat_ms = doc_number(faults, &top, "iat_ms", 1, DOC_TIME_MAX_MS);
		doc.leases = doc_number(faults, &top, "leases", 0, MANIFEST_DOC_LEASES_MAX);
		doc_bytes32(faults, &root, doc.root);
	}
	json_close(json);
	err = doc_outcome(faults, before);
	if (err == ERR_OK)
		*out_doc = doc;
	return err;
}

void manifest_doc_put(struct sink *out, const struct manifest_doc_entry *entry)
{
	sink_bytes(out, entry->id, strlen(entry->id) + 1);
	sink_be64(out, entry->rev);
	sink_bytes(out, entry->sha256, 32);
}

enum err manifest_doc_root(const struct manifest_doc_entry *entries, size_t count, uint8_t out_root[32])
{
	uint8_t *bytes;
	struct sink s;
	enum err e;

	if (count > MANIFEST_DOC_LEASES_MAX)
		return ERR_LIMIT;
	bytes = alloc_array(count + 1, MANIFEST_DOC_ENTRY_MAX);
	if (bytes == NULL)
		return ERR_NO_MEMORY;
	s = sink_over(bytes, (count + 1) * MANIFEST_DOC_ENTRY_MAX);
	for (size_t i = 0; i < count; i++)
		manifest_doc_put(&s, &entries[i]);
	e = sink_ok(&s) ? crypto_sha256(bytes, s.len, out_root) : ERR_INVALID;
	alloc_free(bytes);
	return e;
}
