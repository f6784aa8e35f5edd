/* Options to sources. */
#include "store/frames_remote.h"

#include <criterion/criterion.h>

#include "base/crypto.h"
#include "fixture.h"

Test(frames_remote, a_source_over_the_network_is_opened_with_its_credentials_or_refused)
{
	char folder[64];
	struct loop *loop = loop_create();
	struct frames_source *source;
	struct {
		struct sidecar_options options;
		const char *password;
		enum err expected;
	} rows[] = {
		{ { .source = { OPTION_SOURCE_HTTPS, "https://a,https://b" }, .cell = "c" }, NULL, ERR_OK },
		{ { .source = { OPTION_SOURCE_HTTPS, "https://a,,https://b" }, .cell = "c" }, NULL, ERR_INVALID },
		{ { .source = { OPTION_SOURCE_HTTPS, "https://a,http://b" }, .cell = "c" }, NULL, ERR_INVALID },
		{ { .source = { OPTION_SOURCE_HTTPS, "https://a,b" }, .cell = "c" }, NULL, ERR_INVALID },
		{ { .source = { OPTION_SOURCE_ETCD, "a:1,http://b:2" }, .cell = "c" }, NULL, ERR_INVALID },
		{ { .source = { OPTION_SOURCE_ETCD, "a:1,b:2" }, .cell = "c" }, NULL, ERR_OK },
		{ { .source = { OPTION_SOURCE_ETCD, "a:1" }, .cell = "c/d" }, NULL, ERR_INVALID },
		{ { .source = { OPTION_SOURCE_ETCD, "a:1" }, .cell = "c", .etcd_user = "u" }, "secret\nmore", ERR_OK },
		{ { .source = { OPTION_SOURCE_ETCD, "a:1" }, .cell = "c", .etcd_user = "u" }, "\nsecret", ERR_INVALID },
		{ { .source = { OPTION_SOURCE_ETCD, "a:1" }, .cell = "c", .etcd_user = "u" }, "", ERR_INVALID },
		{ { .source = { OPTION_SOURCE_ETCD, "a:1" }, .cell = "c", .etcd_user = "u" }, "a\"b", ERR_INVALID },
		{ { .source = { OPTION_SOURCE_ETCD, "a:1" }, .cell = "c", .etcd_password = "/not/there" }, NULL, ERR_SYSTEM },
		{ { .source = { OPTION_SOURCE_FILE, "/x" }, .cell = "c" }, NULL, ERR_UNSUPPORTED },
	};

	cr_assert_eq(crypto_init(), ERR_OK);
	fixture_make_folder(folder);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		enum err e;

		if (rows[i].password != NULL) {
			rows[i].options.etcd_password = fixture_path(folder, "password");
			fixture_write(rows[i].options.etcd_password, rows[i].password);
		}
		e = frames_remote_open(loop, &rows[i].options, &source);
		cr_assert_eq(e, rows[i].expected, "row %zu: %s", i, err_text(e));
		if (e == ERR_OK)
			frames_close(source);
	}
	fixture_remove_folder(folder);
	loop_destroy(loop);
}
