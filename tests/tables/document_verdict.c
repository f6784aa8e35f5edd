/* Reads lines "type<TAB>document" and answers each with "ok" or the first fault's code: the C readers' half of check_schema.py. */
#include <stdio.h>
#include <string.h>

#include "base/crypto.h"
#include "document/beat_doc.h"
#include "document/envelope.h"
#include "document/keyset_doc.h"
#include "document/lease_doc.h"
#include "document/manifest_doc.h"

static enum err read_envelope(struct text header, struct json_faults *faults)
{
	static char bytes[ENVELOPE_HEADER_MAX + 1];
	struct envelope e;

	if (header.len >= sizeof(bytes))
		return ERR_LIMIT;
	memcpy(bytes, header.at, header.len);
	bytes[header.len] = '\n';
	if (envelope_read((struct text){ bytes, header.len + 1 }, &e) == ENVELOPE_GOOD)
		return ERR_OK;
	json_fault_add(faults, "", "bad_header", "not a header");
	return ERR_INVALID;
}

static enum err read_as(const char *type, struct text text, struct json_faults *faults)
{
	union {
		struct keyset_doc keyset;
		struct beat_doc beat;
		struct manifest_doc manifest;
		struct lease_doc lease;
		struct ruleset_doc ruleset;
	} doc;

	if (strcmp(type, "envelope") == 0)
		return read_envelope(text, faults);
	if (strcmp(type, "keyset") == 0)
		return keyset_doc_read(text, faults, &doc.keyset);
	if (strcmp(type, "beat") == 0)
		return beat_doc_read(text, faults, &doc.beat);
	if (strcmp(type, "manifest") == 0)
		return manifest_doc_read(text, faults, &doc.manifest);
	if (strcmp(type, "lease") == 0)
		return lease_doc_read(text, LEASE_DOC_SIGNED, faults, &doc.lease);
	return ruleset_doc_read(text, faults, &doc.ruleset);
}

int main(void)
{
	static char line[ENVELOPE_MAX];

	if (crypto_init() != ERR_OK)
		return 2;
	while (fgets(line, sizeof(line), stdin) != NULL) {
		char *tab = strchr(line, '\t');
		struct json_faults faults;
		struct arena arena;
		enum err err;

		if (tab == NULL)
			return 2;
		*tab = '\0';
		tab[1 + strcspn(tab + 1, "\n")] = '\0';
		arena_init(&arena, 0);
		json_faults_init(&faults, &arena);
		err = read_as(line, text_of(tab + 1), &faults);
		puts(err == ERR_OK ? "ok" : faults.first == NULL ? err_text(err) : faults.first->code);
		arena_finish(&arena);
	}
	return 0;
}
