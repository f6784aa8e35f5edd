/* See doc_fixture.h. */
#include "doc_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static const char *const folders[] = { "keyset_doc", "beat_doc", "manifest_doc" };

void doc_fixture_load(struct doc_fixture *f, enum doc_kind kind)
{
	const char *top = getenv("EGRESS_SRCDIR");
	char path[512];
	FILE *file;
	size_t len;

	snprintf(path, sizeof(path), "%s/fuzz/corpus/%s/whole", top == NULL ? "." : top, folders[kind]);
	file = fopen(path, "r");
	cr_assert_not_null(file, "%s", path);
	len = fread(f->text, 1, sizeof(f->text) - 1, file);
	f->text[len] = '\0';
	f->kind = kind;
	fclose(file);
}

enum err doc_fixture_read(struct doc_fixture *f)
{
	arena_init(&f->arena, 0);
	json_faults_init(&f->faults, &f->arena);
	switch (f->kind) {
	case DOC_KEYSET:
		return keyset_doc_read(text_of(f->text), &f->faults, &f->doc.keyset);
	case DOC_BEAT:
		return beat_doc_read(text_of(f->text), &f->faults, &f->doc.beat);
	default:
		return manifest_doc_read(text_of(f->text), &f->faults, &f->doc.manifest);
	}
}

static void replace(struct doc_fixture *f, const char *from, const char *to)
{
	char *at = strstr(f->text, from), rest[8192];

	cr_assert_not_null(at, "%s", from);
	snprintf(rest, sizeof(rest), "%s", at + strlen(from));
	snprintf(at, sizeof(f->text) - (size_t)(at - f->text), "%s%s", to, rest);
}

void doc_fixture_refuses_each(enum doc_kind kind, const struct doc_row *rows, size_t count)
{
	static struct doc_fixture f;

	for (size_t i = 0; i < count; i++) {
		doc_fixture_load(&f, kind);
		replace(&f, rows[i].from, rows[i].to);
		cr_assert_eq(doc_fixture_read(&f), ERR_INVALID, "%zu: %s", i, rows[i].to);
		cr_assert_str_eq(f.faults.first->code, rows[i].code, "%zu: %s", i, rows[i].to);
		cr_assert_str_eq(f.faults.first->pointer, rows[i].pointer, "%zu: %s", i, rows[i].to);
		arena_finish(&f.arena);
	}
}

void doc_fixture_refuses_prefixes(enum doc_kind kind)
{
	static struct doc_fixture f;

	doc_fixture_load(&f, kind);
	for (size_t len = strlen(f.text); len-- > 0;) {
		f.text[len] = '\0';
		cr_assert_eq(doc_fixture_read(&f), ERR_INVALID, "%zu", len);
		arena_finish(&f.arena);
	}
	doc_fixture_load(&f, kind);
	for (uint64_t nth = 1; nth < 4; nth++) {
		enum err err;

		alloc_fail_at(nth);
		err = doc_fixture_read(&f);
		alloc_fail_at(0);
		cr_assert(err == ERR_OK || err == ERR_NO_MEMORY);
		arena_finish(&f.arena);
	}
}
