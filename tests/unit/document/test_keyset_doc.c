/* Keysets: every key of the seed is read; each change refuses, alone, at its pointer. */
#include <criterion/criterion.h>

#include "doc_fixture.h"

#define ROOT "/" "root" "/"

Test(keyset_doc, every_key_is_read)
{
	static struct doc_fixture f;
	struct keyset_doc *doc = &f.doc.keyset;

	doc_fixture_load(&f, DOC_KEYSET);
	cr_assert_eq(doc_fixture_read(&f), ERR_OK);
	cr_assert_eq(doc->version, 7);
	cr_assert_eq(doc->exp_ms, 1830000000000u);
	cr_assert_eq(doc->epoch_min, 3);
	cr_assert_eq(doc->root.threshold, 2);
	cr_assert_eq(doc->root.key_count, 3);
	cr_assert_str_eq(doc->root.keys[2].id, "r3");
	cr_assert_eq(doc->root.keys[2].public_key[0], 0xed);
	cr_assert_eq(doc->key_count, 4);
	cr_assert_not_null(keyset_doc_find(doc, "ls-2026-12", KEYSET_DOC_LEASE));
	cr_assert_null(keyset_doc_find(doc, "ls-2026-12", KEYSET_DOC_MANIFEST));
	cr_assert_null(keyset_doc_find(doc, "r1", KEYSET_DOC_LEASE));
	cr_assert_eq(keyset_doc_find(doc, "bt-2026-11", KEYSET_DOC_BEAT)[0], 0xca);
	arena_finish(&f.arena);
}

Test(keyset_doc, a_bare_root_is_read_and_needs_a_key)
{
	struct json_faults faults;
	struct keyset_doc_root root;
	struct arena arena;

	arena_init(&arena, 0);
	json_faults_init(&faults, &arena);
	cr_assert_eq(keyset_doc_root_read(text_of("{\"threshold\":1,\"keys\":{\"r1\":\"iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w\"}}"),
					  &faults, &root),
		     ERR_OK);
	cr_assert_eq(root.key_count, 1);
	cr_assert_eq(keyset_doc_root_read(text_of("{\"threshold\":1,\"keys\":{}}"), &faults, &root), ERR_INVALID);
	cr_assert_str_eq(faults.first->code, "empty");
	arena_finish(&arena);
}

static const struct doc_row rows[] = {
	{ "\"typ\":\"egress.keyset/1\"", "\"typ\":\"egress.beat/1\"", "unknown_word", "/typ" },
	{ "\"ver\":7,", "", "missing_key", "" },
	{ "\"ver\":7", "\"ver\":0", "out_of_range", "/ver" },
	{ "\"ver\":7", "\"ver\":7.0", "not_whole", "/ver" },
	{ "\"ver\":7", "\"ver\":7,\"extra\":1", "unknown_key", "/extra" },
	{ "\"epoch_min\":3", "\"epoch_min\":-1", "out_of_range", "/epoch_min" },
	{ "\"exp_ms\":1830000000000", "\"exp_ms\":0", "out_of_range", "/exp_ms" },
	{ "\"threshold\":2", "\"threshold\":4", "out_of_range", ROOT "threshold" },
	{ "\"threshold\":2", "\"threshold\":0", "out_of_range", ROOT "threshold" },
	{ "\"threshold\":2", "\"threshold\":2,\"k\":1", "unknown_key", ROOT "k" },
	/* One key under two ids would meet a threshold of two alone. */
	{ "\"r2\":\"gTl3Dqh9F19Wo1Rmw0x-zMuNipG07jeiXfYPW4_Js5Q\"", "\"r2\":\"iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w\"",
	  "duplicate_word", ROOT "keys/r2" },
	{ "Js5Q\"", "Js5\"", "bad_digest", ROOT "keys/r2" },
	{ "\"r1\":", "\"r 1\":", "bad_word", ROOT "keys/r 1" },
	{ "\"beat\":[\"bt-2026-11\"]", "\"beat\":[\"bt\"]", "unknown_word", "/roles/beat/0" },
	{ "\"beat\":[\"bt-2026-11\"]", "\"beat\":[\"bt-2026-11\",\"bt-2026-11\"]", "duplicate_word", "/roles/beat/1" },
	{ "\"beat\":[\"bt-2026-11\"],", "", "missing_key", "/roles" },
	{ "\"beat\":[\"bt-2026-11\"]", "\"beat\":\"bt-2026-11\"", "wrong_kind", "/roles/beat" },
};

Test(keyset_doc, each_fault_refuses_alone_at_its_pointer)
{
	doc_fixture_refuses_each(DOC_KEYSET, rows, ARRAY_LEN(rows));
}

Test(keyset_doc, no_prefix_is_read_and_no_lack_of_memory_passes)
{
	doc_fixture_refuses_prefixes(DOC_KEYSET);
}
