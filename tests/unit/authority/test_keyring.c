/* Keys and keysets: made for their owner alone, signed by a threshold, rotated with both roots. */
#include "authority/keyring.h"
#include "base/crypto.h"
#include "document/keyset_doc.h"
#include "folder.h"

static void make(const char *keys, const char *role, const char *want)
{
	char id[ENVELOPE_KEY_ID_MAX + 1], reason[KEYRING_REASON_MAX];

	cr_assert_eq(keyring_add(keys, role, id, reason), ERR_OK, "%s", reason);
	cr_assert_str_eq(id, want);
}

static size_t read_keyset(const char *out, struct arena *arena, struct keyset_doc *doc)
{
	const char *text = folder_read(folder_path(out, "keyset"));
	struct json_faults faults;
	struct envelope envelope;
	size_t good = 0;

	json_faults_init(&faults, arena);
	cr_assert_eq(envelope_read(text_of(text), &envelope), ENVELOPE_GOOD);
	cr_assert_eq(envelope.type, ENVELOPE_KEYSET);
	cr_assert_eq(keyset_doc_read(envelope.payload, &faults, doc), ERR_OK);
	for (size_t i = 0; i < envelope.signature_count; i++)
		for (size_t k = 0; k < doc->root.key_count; k++)
			good += strcmp(envelope.signatures[i].key_id, doc->root.keys[k].id) == 0 &&
				envelope_is_signed_by(&envelope, i, doc->root.keys[k].public_key);
	return good;
}

Test(keyring, two_of_three_sign_and_one_does_not)
{
	struct keyring_keyset keyset = { .epoch_min = 3, .exp_ms = 1830000000000 };
	char folder[64], keys[128], out[128], reason[KEYRING_REASON_MAX];
	struct keyset_doc doc;
	struct arena arena;
	struct stat st;

	cr_assert_eq(crypto_init(), ERR_OK);
	arena_init(&arena, 0);
	folder_make(folder);
	snprintf(keys, sizeof(keys), "%s/keys", folder);
	snprintf(out, sizeof(out), "%s/out", folder);
	make(keys, "root", "root-1");
	make(keys, "root", "root-2");
	make(keys, "root", "root-3");
	make(keys, "lease", "lease-1");
	cr_assert_eq(stat(folder_path(keys, "root-1.key"), &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0600);
	cr_assert_eq(keyring_write_root(keys, 4, 2, reason), ERR_INVALID);
	cr_assert_eq(keyring_write_root(keys, 3, 4, reason), ERR_INVALID);
	cr_assert_eq(keyring_write_root(keys, 3, 2, reason), ERR_OK);
	cr_assert_eq(keyring_sign(keys, out, &keyset, reason), ERR_OK, "%s", reason);
	cr_assert_eq(keyset.version, 1);
	cr_assert_eq(read_keyset(out, &arena, &doc), 3);
	cr_assert_eq(doc.root.threshold, 2);
	cr_assert_eq(doc.epoch_min, 3);
	cr_assert_not_null(keyset_doc_find(&doc, "lease-1", KEYSET_DOC_LEASE));
	cr_assert_null(keyset_doc_find(&doc, "root-1", KEYSET_DOC_LEASE));
	/* Another lease key joins; one root key may be away, and epochs never fall. */
	make(keys, "lease", "lease-2");
	cr_assert_eq(unlink(folder_path(keys, "root-1.key")), 0);
	keyset.epoch_min = 0;
	cr_assert_eq(keyring_sign(keys, out, &keyset, reason), ERR_OK, "%s", reason);
	cr_assert_eq(read_keyset(out, &arena, &doc), 2);
	cr_assert_eq(doc.version, 2);
	cr_assert_eq(doc.epoch_min, 3);
	cr_assert_not_null(keyset_doc_find(&doc, "lease-2", KEYSET_DOC_LEASE));
	cr_assert_eq(unlink(folder_path(keys, "root-2.key")), 0);
	cr_assert_eq(keyring_sign(keys, out, &keyset, reason), ERR_DENIED);
	arena_finish(&arena);
	folder_remove(folder);
}

Test(keyring, a_new_root_needs_the_old_one_too)
{
	struct keyring_keyset keyset = { .exp_ms = 1830000000000 };
	char folder[64], keys[128], out[128], reason[KEYRING_REASON_MAX];
	struct keyset_doc doc;
	struct arena arena;

	cr_assert_eq(crypto_init(), ERR_OK);
	arena_init(&arena, 0);
	folder_make(folder);
	snprintf(keys, sizeof(keys), "%s/keys", folder);
	snprintf(out, sizeof(out), "%s/out", folder);
	make(keys, "root", "root-1");
	cr_assert_eq(keyring_write_root(keys, 1, 1, reason), ERR_OK);
	cr_assert_eq(keyring_sign(keys, out, &keyset, reason), ERR_OK);
	make(keys, "root", "root-2");
	cr_assert_eq(keyring_write_root(keys, 1, 1, reason), ERR_OK);
	cr_assert_eq(rename(folder_path(keys, "root-1.key"), folder_path(folder, "away")), 0);
	cr_assert_eq(keyring_sign(keys, out, &keyset, reason), ERR_DENIED);
	cr_assert_eq(rename(folder_path(folder, "away"), folder_path(keys, "root-1.key")), 0);
	cr_assert_eq(keyring_sign(keys, out, &keyset, reason), ERR_OK, "%s", reason);
	read_keyset(out, &arena, &doc);
	cr_assert_eq(doc.root.key_count, 1);
	cr_assert_str_eq(doc.root.keys[0].id, "root-2");
	arena_finish(&arena);
	folder_remove(folder);
}

Test(keyring, a_new_root_is_signed_by_holders_whose_keys_are_elsewhere)
{
	struct keyring_keyset keyset = { .exp_ms = 1830000000000 };
	char folder[64], keys[128], out[128], holder[128], reason[KEYRING_REASON_MAX];
	struct keyset_doc doc;
	struct arena arena;

	cr_assert_eq(crypto_init(), ERR_OK);
	arena_init(&arena, 0);
	folder_make(folder);
	snprintf(keys, sizeof(keys), "%s/keys", folder);
	snprintf(out, sizeof(out), "%s/out", folder);
	snprintf(holder, sizeof(holder), "%s/holder", folder);
	cr_assert_not(keyring_has_root(keys));
	make(keys, "root", "root-1");
	cr_assert_eq(keyring_write_root(keys, 1, 1, reason), ERR_OK);
	cr_assert(keyring_has_root(keys));
	cr_assert_eq(keyring_sign(keys, out, &keyset, reason), ERR_OK);
	cr_assert_eq(mkdir(holder, 0700), 0);
	cr_assert_eq(rename(folder_path(keys, "root-1.key"), folder_path(holder, "root-1.key")), 0);
	/* Its number stays its own, for root.json knows it. */
	make(keys, "root", "root-2");
	cr_assert_eq(keyring_write_root(keys, 1, 1, reason), ERR_OK);
	cr_assert_eq(keyring_propose(keys, out, &keyset, reason), ERR_OK);
	cr_assert_eq(keyset.missing, 1);
	cr_assert_eq(keyring_countersign(holder, out, &keyset, reason), ERR_OK, "%s", reason);
	cr_assert_eq(keyset.missing, 0);
	read_keyset(out, &arena, &doc);
	cr_assert_str_eq(doc.root.keys[0].id, "root-2");
	/* A key that replaces one is newer than what it replaces, however many are gone. */
	make(keys, "lease", "lease-1");
	make(keys, "lease", "lease-2");
	cr_assert_eq(unlink(folder_path(keys, "lease-1.key")), 0);
	make(keys, "lease", "lease-3");
	arena_finish(&arena);
	folder_remove(folder);
}

Test(keyring, odd_key_files_are_refused_and_the_newest_counts_by_number)
{
	char folder[64], keys[128], reason[KEYRING_REASON_MAX];
	struct keyring ring;

	cr_assert_eq(crypto_init(), ERR_OK);
	folder_make(folder);
	snprintf(keys, sizeof(keys), "%s/keys", folder);
	for (unsigned i = 1; i <= 10; i++) {
		char want[16];

		snprintf(want, sizeof(want), "beat-%u", i);
		make(keys, "beat", want);
	}
	cr_assert_eq(keyring_open(&ring, keys, false, reason), ERR_OK);
	cr_assert_str_eq(keyring_newest(&ring, "beat")->id, "beat-10");
	cr_assert_null(keyring_newest(&ring, "lease"));
	keyring_finish(&ring);
	folder_write(folder_path(keys, "lease-1.key"), "short\n");
	cr_assert_eq(chmod(folder_path(keys, "lease-1.key"), 0600), 0);
	cr_assert_eq(keyring_open(&ring, keys, false, reason), ERR_INVALID);
	keyring_finish(&ring);
	cr_assert_eq(keyring_open(&ring, folder_path(folder, "none"), false, reason), ERR_SYSTEM);
	keyring_finish(&ring);
	folder_remove(folder);
}

Test(keyring, keys_that_others_may_read_or_change_are_refused)
{
	static const struct {
		mode_t folder, key;
		enum err err;
	} rows[] = { { 0700, 0600, ERR_OK },     { 0755, 0440, ERR_OK },     { 0700, 0644, ERR_DENIED }, { 0700, 0660, ERR_DENIED },
		     { 0700, 0602, ERR_DENIED }, { 0770, 0600, ERR_DENIED }, { 01777, 0600, ERR_DENIED } };
	char folder[64], keys[128], reason[KEYRING_REASON_MAX];
	struct keyring ring;
	struct stat st;

	cr_assert_eq(crypto_init(), ERR_OK);
	folder_make(folder);
	snprintf(keys, sizeof(keys), "%s/keys", folder);
	/* Left by one who died, and open to all. */
	cr_assert_eq(mkdir(keys, 0700), 0);
	folder_write(folder_path(keys, ".fresh"), "a longer text than any key can be, by far\n");
	cr_assert_eq(link(folder_path(keys, ".fresh"), folder_path(folder, "other")), 0);
	make(keys, "beat", "beat-1");
	cr_assert_eq(stat(folder_path(folder, "other"), &st), 0);
	cr_assert_eq(st.st_size, 42, "a key was written where others may read it");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cr_assert_eq(chmod(folder_path(keys, "beat-1.key"), rows[i].key), 0);
		cr_assert_eq(chmod(keys, rows[i].folder), 0);
		cr_assert_eq(keyring_open(&ring, keys, false, reason), rows[i].err, "%o %o", (unsigned)rows[i].folder, (unsigned)rows[i].key);
		keyring_finish(&ring);
	}
	folder_remove(folder);
}

Test(keyring, holders_sign_one_after_the_other_each_where_the_key_is)
{
	static const char *const holders[] = { "root-1", "root-3" };
	struct keyring_keyset keyset = { .epoch_min = 3, .exp_ms = 1830000000000 };
	char folder[64], keys[128], out[128], reason[KEYRING_REASON_MAX];
	struct keyset_doc doc;
	struct arena arena;

	cr_assert_eq(crypto_init(), ERR_OK);
	arena_init(&arena, 0);
	folder_make(folder);
	snprintf(keys, sizeof(keys), "%s/keys", folder);
	snprintf(out, sizeof(out), "%s/out", folder);
	make(keys, "root", "root-1");
	make(keys, "root", "root-2");
	make(keys, "root", "root-3");
	make(keys, "lease", "lease-1");
	cr_assert_eq(keyring_write_root(keys, 3, 2, reason), ERR_OK);
	/* Each root key goes to its holder; the online keys stay. */
	for (unsigned i = 1; i <= 3; i++) {
		char name[32], holder[64];

		snprintf(holder, sizeof(holder), "root-%u", i);
		cr_assert_eq(mkdir(folder_path(folder, holder), 0700), 0);
		snprintf(name, sizeof(name), "root-%u.key", i);
		snprintf(holder, sizeof(holder), "root-%u/root-%u.key", i, i);
		cr_assert_eq(rename(folder_path(keys, name), folder_path(folder, holder)), 0);
	}
	cr_assert_eq(keyring_sign(keys, out, &keyset, reason), ERR_DENIED);
	cr_assert_eq(keyring_countersign(keys, out, &keyset, reason), ERR_NOT_FOUND, "nothing is proposed");
	cr_assert_eq(keyring_propose(keys, out, &keyset, reason), ERR_OK, "%s", reason);
	cr_assert_eq(keyset.missing, 2);
	cr_assert_eq(keyring_countersign(keys, out, &keyset, reason), ERR_DENIED, "no root key is here");
	for (size_t i = 0; i < ARRAY_LEN(holders); i++) {
		cr_assert_null(folder_read(folder_path(out, "keyset")));
		cr_assert_eq(keyring_countersign(folder_path(folder, holders[i]), out, &keyset, reason), ERR_OK, "%s", reason);
		cr_assert_eq(keyset.missing, 1 - i);
		cr_assert_eq(keyset.version, 1);
		if (i == 0)
			cr_assert_eq(keyring_countersign(folder_path(folder, holders[i]), out, &keyset, reason), ERR_DENIED, "twice");
	}
	cr_assert_eq(read_keyset(out, &arena, &doc), 2);
	cr_assert_null(folder_read(folder_path(out, KEYRING_PROPOSED)));
	/* What does not follow the keyset that is there is not signed. */
	cr_assert_eq(keyring_propose(keys, out, &keyset, reason), ERR_OK);
	cr_assert_eq(rename(folder_path(out, KEYRING_PROPOSED), folder_path(folder, "old")), 0);
	cr_assert_eq(keyring_propose(keys, out, &keyset, reason), ERR_OK);
	for (size_t i = 0; i < ARRAY_LEN(holders); i++)
		cr_assert_eq(keyring_countersign(folder_path(folder, holders[i]), out, &keyset, reason), ERR_OK);
	cr_assert_eq(rename(folder_path(folder, "old"), folder_path(out, KEYRING_PROPOSED)), 0);
	cr_assert_eq(keyring_countersign(folder_path(folder, "root-2"), out, &keyset, reason), ERR_INVALID);
	folder_write(folder_path(out, KEYRING_PROPOSED), "rubbish");
	cr_assert_eq(keyring_countersign(folder_path(folder, "root-2"), out, &keyset, reason), ERR_INVALID);
	arena_finish(&arena);
	folder_remove(folder);
}

Test(keyring, a_stranger_does_not_sign_and_signatures_that_are_false_do_not_count)
{
	struct keyring_keyset keyset = { .exp_ms = 1830000000000 };
	char folder[64], keys[128], other[128], out[128], reason[KEYRING_REASON_MAX], text[65536], *at;

	cr_assert_eq(crypto_init(), ERR_OK);
	folder_make(folder);
	snprintf(keys, sizeof(keys), "%s/keys", folder);
	snprintf(other, sizeof(other), "%s/other", folder);
	snprintf(out, sizeof(out), "%s/out", folder);
	make(keys, "root", "root-1");
	make(keys, "root", "root-2");
	make(other, "root", "root-1");
	cr_assert_eq(keyring_write_root(keys, 2, 2, reason), ERR_OK);
	cr_assert_eq(rename(folder_path(keys, "root-2.key"), folder_path(folder, "root-2.key")), 0);
	cr_assert_eq(keyring_propose(keys, out, &keyset, reason), ERR_OK);
	cr_assert_eq(keyset.missing, 1);
	cr_assert_eq(keyring_countersign(other, out, &keyset, reason), ERR_DENIED);
	/* The first signature is spoilt: the second alone is not enough. */
	snprintf(text, sizeof(text), "%s", folder_read(folder_path(out, KEYRING_PROPOSED)));
	at = strstr(text, "\"sig\":\"");
	cr_assert_not_null(at);
	at[7] = at[7] == 'A' ? 'B' : 'A';
	folder_write(folder_path(out, KEYRING_PROPOSED), text);
	cr_assert_eq(rename(folder_path(folder, "root-2.key"), folder_path(other, "root-2.key")), 0);
	cr_assert_eq(keyring_countersign(other, out, &keyset, reason), ERR_OK, "%s", reason);
	cr_assert_eq(keyset.missing, 1);
	cr_assert_null(folder_read(folder_path(out, "keyset")));
	folder_remove(folder);
}
