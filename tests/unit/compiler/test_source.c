#include "compiler/source.h"

#include <errno.h>
#include <fcntl.h>

#include "tests/unit/compiler/tree.h"

static const struct source_options trusting = { .trust_check = false }, strict = { .trust_check = true };

static enum err read_name(const struct tree *t, const char *name, size_t max, const struct source_options *options, char out_text[64],
			  char out_reason[SOURCE_REASON_MAX])
{
	struct source_stamp stamp, seen;
	struct arena arena;
	struct text text;
	bool was_young;
	enum err err;

	arena_init(&arena, 0);
	out_reason[0] = '\0';
	err = source_read(t->path, name, max, options, &arena, &text, &stamp, out_reason);
	if (err == ERR_OK) {
		/* When it is new its times may hide a change. */
		cr_assert_eq(source_stamp(t->path, name, &seen), ERR_OK);
		cr_assert_eq(source_stamp_is_equal(&stamp, &seen), !stamp.is_young);
		usleep(25000);
		was_young = stamp.is_young;
		cr_assert_eq(source_is_same(t->path, name, max, options, text, &stamp), was_young);
		cr_assert(source_stamp_is_equal(&stamp, &seen));
		cr_assert_not(source_is_same(t->path, name, max, options, text, &stamp));
		snprintf(out_text, 64, "%.*s", (int)text.len, text.at);
	}
	arena_finish(&arena);
	return err;
}

Test(source, files_are_read_whole_and_refused_with_a_sentence)
{
	struct tree t;
	char path[128], text[64] = "", reason[SOURCE_REASON_MAX];

	tree_create(&t);
	tree_write(&t, "leases/a.policy", "words\n");
	cr_assert_eq(read_name(&t, "leases/a.policy", 6, &trusting, text, reason), ERR_OK);
	cr_assert_str_eq(text, "words\n");
	cr_assert_eq(read_name(&t, "leases/a.policy", 5, &trusting, text, reason), ERR_LIMIT);
	cr_assert_not_null(strstr(reason, "too long"));
	cr_assert_eq(read_name(&t, "leases/b.policy", 6, &trusting, text, reason), ERR_NOT_FOUND);
	cr_assert_not_null(strstr(reason, "leases/b.policy"));
	cr_assert_eq(read_name(&t, "leases", 6, &trusting, text, reason), ERR_DENIED);
	snprintf(path, sizeof(path), "%s/leases/link", t.path);
	cr_assert_eq(symlink("a.policy", path), 0);
	cr_assert_eq(read_name(&t, "leases/link", 6, &trusting, text, reason), ERR_DENIED);
	cr_assert_not_null(strstr(reason, "links"));
	snprintf(path, sizeof(path), "%s/leases/fifo", t.path);
	cr_assert_eq(mkfifo(path, 0644), 0);
	cr_assert_eq(read_name(&t, "leases/fifo", 6, &trusting, text, reason), ERR_DENIED);
	tree_write(&t, "empty", "");
	cr_assert_eq(read_name(&t, "empty", 6, &trusting, text, reason), ERR_OK);
	cr_assert_str_eq(text, "");
	tree_destroy(&t);
}

Test(source, what_others_may_write_is_refused_when_asked_to_look)
{
	static const struct {
		mode_t mode;
		enum err err;
	} rows[] = { { 0600, ERR_OK }, { 0644, ERR_OK }, { 0664, ERR_DENIED }, { 0646, ERR_DENIED }, { 01666, ERR_DENIED } };
	struct tree t;
	char path[128], text[64], reason[SOURCE_REASON_MAX];

	tree_create(&t);
	tree_write(&t, "f", "words");
	snprintf(path, sizeof(path), "%s/f", t.path);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cr_assert_eq(chmod(path, rows[i].mode), 0);
		cr_assert_eq(read_name(&t, "f", 9, &strict, text, reason), rows[i].err, "%o", (unsigned)rows[i].mode);
		cr_assert_eq(read_name(&t, "f", 9, &trusting, text, reason), ERR_OK);
	}
	if (geteuid() == 0) {
		cr_assert_eq(chmod(path, 0644), 0);
		cr_assert_eq(chown(path, 12345, 0), 0);
		cr_assert_eq(read_name(&t, "f", 9, &strict, text, reason), ERR_DENIED);
		cr_assert_not_null(strstr(reason, "user 12345"));
	}
	tree_destroy(&t);
}

Test(source, the_whole_way_to_a_folder_must_be_safe)
{
	struct tree t;
	char inner[128], link_path[128], reason[SOURCE_REASON_MAX];

	tree_create(&t);
	tree_folder(&t, "leases/inner");
	snprintf(inner, sizeof(inner), "%s/leases/inner", t.path);
	cr_assert_eq(source_trust(inner, reason), ERR_OK, "%s", reason);
	cr_assert_eq(chmod(t.path, 0775), 0);
	cr_assert_eq(source_trust(inner, reason), ERR_DENIED);
	cr_assert_not_null(strstr(reason, t.path));
	/* Sticky: others may add, but not replace what is ours. Not for the folder itself, where adding is enough. */
	cr_assert_eq(chmod(t.path, 01777), 0);
	cr_assert_eq(source_trust(inner, reason), ERR_OK);
	cr_assert_eq(source_trust(t.path, reason), ERR_DENIED);
	cr_assert_eq(chmod(t.path, 0755), 0);
	cr_assert_eq(chmod(inner, 0757), 0);
	cr_assert_eq(source_trust(inner, reason), ERR_DENIED);
	cr_assert_eq(chmod(inner, 0755), 0);
	snprintf(link_path, sizeof(link_path), "%s/link", t.path);
	cr_assert_eq(symlink("leases/inner", link_path), 0);
	cr_assert_eq(source_trust(link_path, reason), ERR_OK);
	cr_assert_eq(chmod(inner, 0757), 0);
	cr_assert_eq(source_trust(link_path, reason), ERR_DENIED);
	cr_assert_eq(source_trust("relative", reason), ERR_INVALID);
	cr_assert_eq(source_trust("/nowhere/at/all", reason), ERR_NOT_FOUND);
	tree_destroy(&t);
}

Test(source, stamps_tell_every_replacement)
{
	struct source_stamp a, b, none = { 0 };
	struct tree t;

	tree_create(&t);
	cr_assert_eq(source_stamp(t.path, "f", &a), ERR_OK);
	cr_assert(source_stamp_is_equal(&a, &none));
	cr_assert_eq(source_stamp(t.path, "no/such", &a), ERR_OK);
	cr_assert(source_stamp_is_equal(&a, &none));
	tree_write(&t, "f", "words");
	cr_assert_eq(source_stamp(t.path, "f", &a), ERR_OK);
	cr_assert_not(source_stamp_is_equal(&a, &none));
	tree_write(&t, "f", "words");
	cr_assert_eq(source_stamp(t.path, "f", &b), ERR_OK);
	cr_assert_not(source_stamp_is_equal(&a, &b));
	tree_destroy(&t);
}

Test(source, preset_names_cannot_leave_their_folder)
{
	static const char *const good[] = { "python", "a-b_c", "0" };
	static const char *const wrong[] = { "", "..", "a/b", "A", "a.b", "a b", "\xc3\xbc", "a\n" };
	char longest[66];

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		cr_assert(source_preset_name_is_valid(text_of(good[i])));
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		cr_assert_not(source_preset_name_is_valid(text_of(wrong[i])));
	memset(longest, 'a', sizeof(longest));
	cr_assert(source_preset_name_is_valid((struct text){ longest, 64 }));
	cr_assert_not(source_preset_name_is_valid((struct text){ longest, 65 }));
}
