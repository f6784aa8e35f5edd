/* What the tests of keysets, beats and manifests share: the seed with every key, changed in one place, and read. */
#ifndef EGRESS_TESTS_UNIT_DOCUMENT_DOC_FIXTURE_H
#define EGRESS_TESTS_UNIT_DOCUMENT_DOC_FIXTURE_H

#include <stddef.h>

#include "document/beat_doc.h"
#include "document/keyset_doc.h"
#include "document/manifest_doc.h"

enum doc_kind { DOC_KEYSET, DOC_BEAT, DOC_MANIFEST };

struct doc_fixture {
	enum doc_kind kind;
	struct arena arena;
	struct json_faults faults;
	char text[8192];
	union {
		struct keyset_doc keyset;
		struct beat_doc beat;
		struct manifest_doc manifest;
	} doc;
};

/* A change that must refuse, and the fault that comes of it. */
struct doc_row {
	const char *from, *to, *code, *pointer;
};

/* Load the seed of a kind into the text. */
void doc_fixture_load(struct doc_fixture *f, enum doc_kind kind);
/* Read the text; the caller finishes the arena. */
enum err doc_fixture_read(struct doc_fixture *f);
/* Each row alone refuses with its code at its pointer. */
void doc_fixture_refuses_each(enum doc_kind kind, const struct doc_row *rows, size_t count);
/* No prefix of the seed is read, and no lack of memory passes for a fault. */
void doc_fixture_refuses_prefixes(enum doc_kind kind);

#endif
