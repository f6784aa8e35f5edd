/* Floors: what was taken is there again after a restart; a file that cannot be understood is never taken for an empty one. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/attr.h"
#include "base/crypto.h"
#include "fixture.h"
#include "source/floors.h"

static const struct keyset_doc_root root = { .threshold = 1, .keys = { { "r1", { 7 } }, { "r2", { 8 } } }, .key_count = 2 };

static void fill(const char *folder)
{
	static const uint8_t anchor[32] = { 9 };
	struct floors *f;

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(floors_open(folder, "c-1", &f), ERR_OK);
	cr_assert_eq(floors_state(f)->keyset.number, 0);
	cr_assert_not(floors_is_broken(f));
	cr_assert_eq(floors_take_keyset(f, anchor, &root, &(struct floor_mark){ 0, 5, { 1 } }, 3), ERR_OK);
	floors_take_beat(f, &(struct floor_mark){ 3, 6, { 2 } });
	floors_take_manifest(f, &(struct floor_mark){ 3, 7, { 3 } });
	floors_close(f);
}

Test(floors, what_was_taken_is_there_again)
{
	char folder[64];
	struct floors *f;

	fixture_make_folder(folder);
	fill(folder);
	cr_assert_eq(floors_open(folder, "c-1", &f), ERR_OK);
	cr_assert_eq(floors_state(f)->anchor[0], 9);
	cr_assert_eq(floors_state(f)->root.threshold, 1);
	cr_assert_eq(floors_state(f)->root.key_count, 2);
	cr_assert_str_eq(floors_state(f)->root.keys[1].id, "r2");
	cr_assert_eq(floors_state(f)->root.keys[1].public_key[0], 8);
	cr_assert_eq(floors_state(f)->epoch, 3);
	cr_assert_eq(floors_state(f)->keyset.number, 5);
	cr_assert_eq(floors_state(f)->beat.number, 6);
	cr_assert_eq(floors_state(f)->manifest.number, 7);
	cr_assert_eq(floors_state(f)->manifest.epoch, 3);
	cr_assert_eq(floors_state(f)->manifest.sha256[0], 3);
	/* An epoch only rises. */
	cr_assert_eq(floors_take_epoch(f, 2), ERR_OK);
	cr_assert_eq(floors_state(f)->epoch, 3);
	floors_close(f);
	/* Another cell counts its own beats and manifests. */
	cr_assert_eq(floors_open(folder, "c-2", &f), ERR_OK);
	cr_assert_eq(floors_state(f)->keyset.number, 5);
	cr_assert_eq(floors_state(f)->beat.number, 0);
	cr_assert_eq(floors_state(f)->manifest.number, 0);
	floors_close(f);
	fixture_remove_folder(folder);
}

Test(floors, no_prefix_and_no_odd_line_is_understood_and_the_file_stays)
{
	static const char *const more[] = { "epoch 9\n", "beat 1 1\n", "x\n", "root-key r1\n", "root-key r1 00\n", "\n" };
	char folder[64], whole[4096], text[8192];
	struct floors *f;

	fixture_make_folder(folder);
	fill(folder);
	snprintf(whole, sizeof(whole), "%s", fixture_read(fixture_path(folder, "floors")));
	for (size_t len = 0; len < strlen(whole) + ARRAY_LEN(more); len++) {
		if (len < strlen(whole))
			memcpy(text, whole, len), text[len] = '\0';
		else
			snprintf(text, sizeof(text), "%s%s", whole, more[len - strlen(whole)]);
		fixture_write(fixture_path(folder, "floors"), text);
		cr_assert_eq(floors_open(folder, "c-1", &f), ERR_OK);
		cr_assert(floors_is_broken(f), "%zu: %s", len, text);
		cr_assert_eq(floors_state(f)->keyset.number, 0);
		cr_assert_eq(floors_take_keyset(f, root.keys[0].public_key, &root, &(struct floor_mark){ 0, 5, { 1 } }, 3), ERR_SYSTEM);
		floors_close(f);
		cr_assert_str_eq(fixture_read(fixture_path(folder, "floors")), text, "%zu", len);
	}
	fixture_remove_folder(folder);
}

Test(floors, what_is_no_file_is_not_waited_for)
{
	static const char *const names[] = { "floors", "floors.new", "floors.log", "floors.log.new" };
	char folder[64];
	struct floors *f;

	cr_assert_eq(crypto_init(), ERR_OK);
	for (size_t i = 0; i < 2 * ARRAY_LEN(names); i++) {
		const char *path;

		fixture_make_folder(folder);
		path = fixture_path(folder, names[i / 2]);
		cr_assert_eq(i % 2 == 0 ? mkfifo(path, 0600) : mkdir(path, 0700), 0);
		cr_assert_eq(floors_open(folder, "c-1", &f), ERR_OK);
		/* What stands in the way of the next file goes, if it can. */
		cr_assert_eq(floors_is_broken(f), i % 2 == 1 || strstr(path, ".new") == NULL, "%s", path);
		floors_close(f);
		fixture_remove_folder(folder);
	}
}

Test(floors, no_folder_is_an_error)
{
	struct floors *f;

	cr_assert_eq(floors_open("/nonexistent/egress", "c-1", &f), ERR_SYSTEM);
}
