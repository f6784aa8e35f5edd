/* Lease and ruleset payloads: any bytes give a value or at least one fault with a pointer; what a signed lease allows, a local one does too. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "document/lease_doc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_faults(const struct json_faults *faults, enum err err)
{
	if (err != ERR_OK && err != ERR_INVALID)
		__builtin_trap();
	if ((err == ERR_OK) != (faults->count == 0))
		__builtin_trap();
	for (const struct json_fault *f = faults->first; f != NULL; f = f->next) {
		if (f->pointer[0] != '\0' && f->pointer[0] != '/')
			__builtin_trap();
		for (const char *c = f->pointer; *c != '\0'; c++)
			if (*c < ' ' || *c > '~')
				__builtin_trap();
	}
}

static void check_lease(const struct lease_doc *doc, struct text text)
{
	char id[LEASE_DOC_ID_MAX + 1];

	if (doc->require == 0 || !lease_doc_id_is_valid(text_of(doc->lease)))
		__builtin_trap();
	if (!lease_doc_id(text, id) || strcmp(id, doc->lease) != 0)
		__builtin_trap();
	if ((doc->require & LEASE_DOC_BY_TOKEN) != 0 && doc->token_count == 0)
		__builtin_trap();
	if ((doc->require & LEASE_DOC_BY_SOURCE) != 0 && doc->source_count == 0)
		__builtin_trap();
	if ((doc->require & LEASE_DOC_BY_LISTENER) != 0 && doc->listener[0] == '\0')
		__builtin_trap();
	for (size_t i = 0; i < doc->rule_count; i++)
		if (doc->rules[i].pattern[0] == '\0' || doc->rules[i].pointer[0] != '/')
			__builtin_trap();
}

static enum err read_as(struct text text, enum lease_doc_trust trust)
{
	struct json_faults faults;
	struct lease_doc doc;
	struct arena arena;
	enum err err;

	arena_init(&arena, 0);
	json_faults_init(&faults, &arena);
	err = lease_doc_read(text, trust, &faults, &doc);
	check_faults(&faults, err);
	if (err == ERR_OK)
		check_lease(&doc, text);
	arena_finish(&arena);
	return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text text = { (const char *)data, size };
	struct json_faults faults;
	struct ruleset_doc doc;
	struct arena arena;

	if (read_as(text, LEASE_DOC_SIGNED) == ERR_OK && read_as(text, LEASE_DOC_LOCAL) != ERR_OK)
		__builtin_trap();
	(void)read_as(text, LEASE_DOC_LOCAL);
	arena_init(&arena, 0);
	json_faults_init(&faults, &arena);
	check_faults(&faults, ruleset_doc_read(text, &faults, &doc));
	arena_finish(&arena);
	return 0;
}
