/* Reports on disk: each batch once, whatever a crash left; bounded; the last status of each proxy beside all of them. */
#include "serve/serve_reports.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "fixture.h"
#include "store/gzip.h"

#define FIRST packed("{\"batch\":\"first of them all\"}\n")
#define SECOND packed("{\"batch\":\"second, a bit longer\"}\n")

/* Of one text after the other: good until the next but three. */
static struct text packed(const char *words)
{
	static uint8_t kept[4][4096];
	static unsigned next;
	uint8_t *bytes, *into = kept[next++ % 4];
	size_t len;

	cr_assert_eq(gzip_pack(words, strlen(words), &bytes, &len), ERR_OK);
	cr_assert_leq(len, sizeof(kept[0]));
	memcpy(into, bytes, len);
	alloc_free(bytes);
	return (struct text){ (const char *)into, len };
}

static struct serve_reports *open_in(const char *folder, uint64_t max_bytes, uint64_t file_bytes)
{
	struct serve_reports_options options = { folder, max_bytes, file_bytes };
	struct serve_reports *r;

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(serve_reports_open(&options, &r), ERR_OK);
	return r;
}

static off_t size_of(const char *folder, const char *name)
{
	struct stat st;

	return stat(fixture_path(folder, name), &st) == 0 ? st.st_size : -1;
}

Test(serve_reports, only_one_whole_member_stands_between_others)
{
	struct serve_reports *r;
	struct text good = FIRST;
	char folder[64], bytes[4096], *bomb;
	uint8_t *small;
	size_t len;

	fixture_make_folder(folder);
	r = open_in(folder, 1 << 20, 1 << 20);
	memcpy(bytes, good.at, good.len);
	for (size_t i = 0; i < good.len; i++) {
		cr_assert_eq(serve_reports_decisions(r, "k1", "px", (struct text){ good.at, i }), ERR_INVALID, "%zu", i);
		/* Its header names a time, a system and flags that nobody checks. */
		if (i < 10)
			continue;
		bytes[i] = (char)(bytes[i] ^ 1);
		cr_assert_eq(serve_reports_decisions(r, "k1", "px", (struct text){ bytes, good.len }), ERR_INVALID, "%zu", i);
		bytes[i] = (char)(bytes[i] ^ 1);
	}
	memcpy(bytes + good.len, good.at, good.len);
	cr_assert_eq(serve_reports_decisions(r, "k1", "px", (struct text){ bytes, good.len + 1 }), ERR_INVALID);
	cr_assert_eq(serve_reports_decisions(r, "k1", "px", (struct text){ bytes, 2 * good.len }), ERR_INVALID);
	serve_reports_close(r);
	bomb = alloc_zeroed(GZIP_INPUT_MAX);
	cr_assert_eq(gzip_pack(bomb, GZIP_INPUT_MAX, &small, &len), ERR_OK);
	cr_assert(gzip_is_member(small, len, GZIP_INPUT_MAX));
	cr_assert_not(gzip_is_member(small, len, GZIP_INPUT_MAX - 1));
	alloc_free(bomb);
	alloc_free(small);
	fixture_remove_folder(folder);
}

Test(serve_reports, a_batch_counts_once_also_after_a_restart)
{
	struct serve_reports *r;
	char folder[64];

	fixture_make_folder(folder);
	r = open_in(folder, 1 << 20, 1 << 20);
	cr_assert_eq(serve_reports_decisions(r, "k1", "px", FIRST), ERR_OK);
	cr_assert_eq(serve_reports_decisions(r, "k1", "px", SECOND), ERR_EXISTS);
	cr_assert_eq(serve_reports_decisions(r, "k2", "", text_of("no gzip, but long enough to be")), ERR_INVALID);
	cr_assert_eq(serve_reports_decisions(r, "k2", "", (struct text){ "\x1f\x8b\x08", 3 }), ERR_INVALID);
	serve_reports_close(r);
	r = open_in(folder, 1 << 20, 1 << 20);
	cr_assert_eq(serve_reports_decisions(r, "k1", "px", FIRST), ERR_EXISTS);
	cr_assert_eq(serve_reports_decisions(r, "k2", "", SECOND), ERR_OK);
	cr_assert_eq(size_of(folder, "decisions.ndjson.gz"), (off_t)(FIRST.len + SECOND.len));
	/* Nobody uses up another's keys. */
	cr_assert_eq(serve_reports_decisions(r, "k1", "px 2", FIRST), ERR_OK);
	serve_reports_close(r);
	r = open_in(folder, 1 << 20, 1 << 20);
	cr_assert_eq(serve_reports_decisions(r, "k1", "px 2", FIRST), ERR_EXISTS);
	cr_assert_eq(serve_reports_decisions(r, "k2", "", SECOND), ERR_EXISTS);
	cr_assert_eq(serve_reports_decisions(r, "k2", "px", SECOND), ERR_OK);
	serve_reports_close(r);
	fixture_remove_folder(folder);
}

Test(serve_reports, what_a_crash_left_of_a_batch_is_cut_off_wherever_it_stopped)
{
	/* The data of a second batch is there to `data`, its line in keys to `line`; only a whole line confirms it. */
	char folder[64], keys[128], line[64];
	size_t line_len = (size_t)snprintf(line, sizeof(line), "%zu k2 px\n", FIRST.len + SECOND.len);

	for (size_t cut = 0; cut <= line_len; cut++) {
		struct serve_reports *r;
		FILE *file;

		fixture_make_folder(folder);
		r = open_in(folder, 1 << 20, 1 << 20);
		cr_assert_eq(serve_reports_decisions(r, "k1", "px", FIRST), ERR_OK);
		serve_reports_close(r);
		file = fopen(fixture_path(folder, "decisions.ndjson.gz"), "a");
		fwrite(SECOND.at, 1, SECOND.len, file);
		fclose(file);
		file = fopen(fixture_path(folder, "decisions.keys"), "a");
		fwrite(line, 1, cut, file);
		fclose(file);
		r = open_in(folder, 1 << 20, 1 << 20);
		cr_assert_eq(size_of(folder, "decisions.ndjson.gz"), (off_t)(FIRST.len + (cut == line_len ? SECOND.len : 0)), "%zu", cut);
		cr_assert_eq(serve_reports_decisions(r, "k2", "px", SECOND), cut == line_len ? ERR_EXISTS : ERR_OK, "%zu", cut);
		cr_assert_eq(size_of(folder, "decisions.ndjson.gz"), (off_t)(FIRST.len + SECOND.len));
		serve_reports_close(r);
		fixture_remove_folder(folder);
	}
	/* Lines that are none are passed over. */
	fixture_make_folder(folder);
	snprintf(keys, sizeof(keys), "rubbish\n\n1\n99999999999999999999 k px\n-1 k px\n0  x\n");
	fixture_write(fixture_path(folder, "decisions.keys"), keys);
	serve_reports_close(open_in(folder, 1 << 20, 1 << 20));
	fixture_remove_folder(folder);
}

Test(serve_reports, files_turn_and_the_whole_is_bounded_until_somebody_takes_them_away)
{
	struct serve_reports *r;
	char folder[64], key[16], command[128];
	unsigned kept = 0;
	enum err e = ERR_OK;

	fixture_make_folder(folder);
	r = open_in(folder, 400, 100);
	for (unsigned i = 0; i < 100 && e == ERR_OK; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		e = serve_reports_decisions(r, key, "px", FIRST);
		kept += e == ERR_OK;
		/* Names are times. */
		usleep(2000);
	}
	cr_assert_eq(e, ERR_LIMIT);
	cr_assert_eq(kept, 400 / FIRST.len, "%u", kept);
	cr_assert_eq(serve_reports_decisions(r, "k0", "px", FIRST), ERR_EXISTS);
	serve_reports_close(r);
	r = open_in(folder, 400, 100);
	cr_assert_eq(serve_reports_decisions(r, "other", "px", FIRST), ERR_LIMIT);
	snprintf(command, sizeof(command), "rm %s/decisions.1*.gz", folder);
	cr_assert_eq(system(command), 0);
	cr_assert_eq(serve_reports_decisions(r, "other", "px", FIRST), ERR_OK);
	serve_reports_close(r);
	fixture_remove_folder(folder);
}

Test(serve_reports, the_last_status_of_each_proxy_and_all_in_a_row)
{
	struct serve_reports *r;
	char folder[64];

	fixture_make_folder(folder);
	r = open_in(folder, 1 << 20, 1 << 20);
	cr_assert_eq(serve_reports_status(r, "px-1", "client", 7, text_of("{\"state\":\n\"live\"}\n")), ERR_OK);
	cr_assert_eq(serve_reports_status(r, "px-1", "client", 8, text_of("{\"state\":\"lag\"}")), ERR_OK);
	cr_assert_eq(serve_reports_status(r, "px-2", "client", 9, text_of("{\"state\":\"live\",\"state\":1}")), ERR_INVALID);
	cr_assert_eq(serve_reports_status(r, "px-2", "client", 9, text_of("")), ERR_INVALID);
	serve_reports_close(r);
	cr_assert_str_eq(fixture_read(fixture_path(folder, "status/px-1.json")), "{\"state\":\"lag\"}");
	cr_assert_null(fixture_read(fixture_path(folder, "status/px-2.json")));
	cr_assert_str_eq(fixture_read(fixture_path(folder, "status.ndjson")),
			 "{\"at_ms\":7,\"proxy\":\"px-1\",\"client\":\"client\",\"status\":{\"state\": \"live\"} }\n"
			 "{\"at_ms\":8,\"proxy\":\"px-1\",\"client\":\"client\",\"status\":{\"state\":\"lag\"}}\n");
	fixture_remove_folder(folder);
}
