/* Manifests: every key of the seed is read; each change refuses, alone, at its pointer. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/crypto.h"
#include "doc_fixture.h"

Test(manifest_doc, every_key_is_read)
{
	static struct doc_fixture f;

	doc_fixture_load(&f, DOC_MANIFEST);
	cr_assert_eq(doc_fixture_read(&f), ERR_OK);
	cr_assert_eq(f.doc.manifest.epoch, 3);
	cr_assert_str_eq(f.doc.manifest.cell, "c-0161");
	cr_assert_eq(f.doc.manifest.seq, 9120);
	cr_assert_eq(f.doc.manifest.iat_ms, 1796051199870u);
	cr_assert_eq(f.doc.manifest.leases, 104);
	cr_assert_eq(f.doc.manifest.root[0], 0x2d);
	arena_finish(&f.arena);
}

Test(manifest_doc, the_hash_is_over_id_revision_and_digest_of_each)
{
	const struct manifest_doc_entry entries[] = { { "a", 1, { 0xaa } }, { "ab", 258, { 0xbb } } };
	uint8_t bytes[2 + 8 + 32 + 3 + 8 + 32] = { 'a', 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xaa }, want[32], got[32];

	cr_assert_eq(crypto_init(), ERR_OK);
	memcpy(bytes + 42, "ab\0\0\0\0\0\0\0\1\2\xbb", 12);
	cr_assert_eq(crypto_sha256(bytes, sizeof(bytes), want), ERR_OK);
	cr_assert_eq(manifest_doc_root(entries, 2, got), ERR_OK);
	cr_assert_arr_eq(got, want, 32);
	cr_assert_eq(crypto_sha256("", 0, want), ERR_OK);
	cr_assert_eq(manifest_doc_root(NULL, 0, got), ERR_OK);
	cr_assert_arr_eq(got, want, 32);
}

static const struct doc_row rows[] = {
	{ "\"cell\":\"c-0161\"", "\"cell\":\"\"", "out_of_range", "/cell" },
	{ "\"leases\":104", "\"leases\":100001", "out_of_range", "/leases" },
	{ "\"root\":\"", "\"root\":\"A", "bad_digest", "/root" },
	{ "\"seq\":9120", "\"seq\":9120,\"until\":1", "unknown_key", "/until" },
	{ "\"iat_ms\":1796051199870,", "", "missing_key", "" },
};

Test(manifest_doc, each_fault_refuses_alone_at_its_pointer)
{
	doc_fixture_refuses_each(DOC_MANIFEST, rows, ARRAY_LEN(rows));
}

Test(manifest_doc, no_prefix_is_read_and_no_lack_of_memory_passes)
{
	doc_fixture_refuses_prefixes(DOC_MANIFEST);
}
