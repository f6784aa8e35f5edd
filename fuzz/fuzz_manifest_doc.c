/* Manifest payloads: any bytes give a value within its bounds, or at least one fault with a pointer. */
#include "document/manifest_doc.h"

#include "require.h"

static void check(const struct manifest_doc *doc)
{
	REQUIRE(doc->cell[0] != 0 && doc->seq >= 1 && doc->leases <= MANIFEST_DOC_LEASES_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_faults faults;
	struct manifest_doc doc;
	struct arena arena;
	enum err err;

	arena_init(&arena, 0);
	json_faults_init(&faults, &arena);
	err = manifest_doc_read((struct text){ (const char *)data, size }, &faults, &doc);
	REQUIRE((err == ERR_OK) == (faults.count == 0) && (err == ERR_OK || err == ERR_INVALID));
	if (err == ERR_OK)
		check(&doc);
	for (const struct json_fault *f = faults.first; f != NULL; f = f->next)
		REQUIRE(f->pointer[0] == '\0' || f->pointer[0] == '/');
	arena_finish(&arena);
	return 0;
}
