/* Keyset payloads: any bytes give a value within its bounds, or at least one fault with a pointer. */
#include "document/keyset_doc.h"

#include "require.h"

static void check(const struct keyset_doc *doc)
{
	REQUIRE(doc->root.threshold >= 1 && doc->root.threshold <= doc->root.key_count);
	REQUIRE(doc->key_count <= KEYSET_DOC_KEYS_MAX && doc->version >= 1);
	for (size_t i = 0; i < doc->key_count; i++)
		for (unsigned role = 0; role < KEYSET_DOC_ROLE_COUNT; role++)
			REQUIRE((keyset_doc_find(doc, doc->keys[i].id, (enum keyset_doc_role)role) != NULL) ==
				((doc->key_roles[i] >> role & 1) != 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_faults faults;
	struct keyset_doc doc;
	struct arena arena;
	enum err err;

	arena_init(&arena, 0);
	json_faults_init(&faults, &arena);
	err = keyset_doc_read((struct text){ (const char *)data, size }, &faults, &doc);
	REQUIRE((err == ERR_OK) == (faults.count == 0) && (err == ERR_OK || err == ERR_INVALID));
	if (err == ERR_OK)
		check(&doc);
	for (const struct json_fault *f = faults.first; f != NULL; f = f->next)
		REQUIRE(f->pointer[0] == '\0' || f->pointer[0] == '/');
	arena_finish(&arena);
	return 0;
}
