/* Beat payloads: any bytes give a value within its bounds, or at least one fault with a pointer. */
#include "document/beat_doc.h"

#include "require.h"

static void check(const struct beat_doc *doc)
{
	REQUIRE(doc->exp_ms > doc->iat_ms && doc->group < BEAT_DOC_GROUPS && doc->seq >= 1);
	for (size_t i = 0; i < doc->cell_count; i++)
		REQUIRE(beat_doc_find(doc, doc->cells[i].id) == &doc->cells[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_faults faults;
	struct beat_doc doc;
	struct arena arena;
	enum err err;

	arena_init(&arena, 0);
	json_faults_init(&faults, &arena);
	err = beat_doc_read((struct text){ (const char *)data, size }, &faults, &doc);
	REQUIRE((err == ERR_OK) == (faults.count == 0) && (err == ERR_OK || err == ERR_INVALID));
	if (err == ERR_OK)
		check(&doc);
	for (const struct json_fault *f = faults.first; f != NULL; f = f->next)
		REQUIRE(f->pointer[0] == '\0' || f->pointer[0] == '/');
	arena_finish(&arena);
	return 0;
}
