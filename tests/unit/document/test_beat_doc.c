/* Beats: every key of the seed is read; each change refuses, alone, at its pointer. */
#include <criterion/criterion.h>

#include "doc_fixture.h"

Test(beat_doc, every_key_is_read)
{
	static struct doc_fixture f;
	struct beat_doc *doc = &f.doc.beat;

	doc_fixture_load(&f, DOC_BEAT);
	cr_assert_eq(doc_fixture_read(&f), ERR_OK);
	cr_assert_eq(doc->epoch, 3);
	cr_assert_eq(doc->group, 5);
	cr_assert_eq(doc->seq, 8412093);
	cr_assert_eq(doc->iat_ms, 1796051200123u);
	cr_assert_eq(doc->exp_ms, 1796051230123u);
	cr_assert_eq(doc->keyset, 7);
	cr_assert_eq(doc->cell_count, 2);
	cr_assert_eq(beat_doc_find(doc, "c-0162")->seq, 411);
	cr_assert_neq(beat_doc_find(doc, "c-0161")->manifest_sha256[0], 0);
	cr_assert_null(beat_doc_find(doc, "c-016"));
	arena_finish(&f.arena);
}

static const struct doc_row rows[] = {
	{ "\"typ\":\"egress.beat/1\"", "\"typ\":\"egress.lease/1\"", "unknown_word", "/typ" },
	{ "\"group\":5", "\"group\":32", "out_of_range", "/group" },
	{ "\"seq\":8412093", "\"seq\":0", "out_of_range", "/seq" },
	{ "\"seq\":8412093", "\"seq\":\"1\"", "wrong_kind", "/seq" },
	{ "\"keyset\":7,", "", "missing_key", "" },
	{ "\"exp_ms\":1796051230123", "\"exp_ms\":1796051200123", "out_of_range", "/exp_ms" },
	{ "[411,", "[411,1,", "too_many", "/cells/c-0162" },
	{ "[411,", "[", "missing_key", "/cells/c-0162" },
	{ "[411,", "[-1,", "out_of_range", "/cells/c-0162/0" },
	{ "\"c-0162\"", "\"\"", "bad_word", "/cells/" },
	{ "\"cells\":{", "\"cells\":[{", "bad_json", "" },
	{ "\"epoch\":3", "\"epoch\":3,\"epoch\":3", "duplicate_key", "" },
};

Test(beat_doc, each_fault_refuses_alone_at_its_pointer)
{
	doc_fixture_refuses_each(DOC_BEAT, rows, ARRAY_LEN(rows));
}

Test(beat_doc, no_prefix_is_read_and_no_lack_of_memory_passes)
{
	doc_fixture_refuses_prefixes(DOC_BEAT);
}
