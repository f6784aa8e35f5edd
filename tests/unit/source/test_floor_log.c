/* The log of floors: what was taken is there after a kill, half a line is none, what is not understood is neither believed nor replaced. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/attr.h"
#include "base/crypto.h"
#include "fixture.h"
#include "source/floor_log.h"

#define CELL "c-1"

static struct floor_log *open_as(int folder, const char *cell)
{
	struct floor_log *log;

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(floor_log_open(folder, cell, &log), ERR_OK);
	return log;
}

static int open_folder(char path[64])
{
	int fd;

	fixture_make_folder(path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	return fd;
}

static void take(struct floor_log *log, const char *id, uint64_t rev, uint64_t exp_ms, uint64_t said_ms)
{
	struct floor_mark mark = { 3, rev, { (uint8_t)rev } };

	cr_assert_eq(floor_log_take_lease(log, id, &mark, exp_ms, said_ms), ERR_OK);
}

static uint64_t rev_of(const struct floor_log *log, const char *id)
{
	const struct floor_mark *mark = floor_log_lease(log, id);

	if (mark == NULL)
		return 0;
	cr_assert_eq(mark->epoch, 3);
	cr_assert_eq(mark->sha256[0], (uint8_t)mark->number);
	return mark->number;
}

static off_t file_len(const char *path)
{
	struct stat st;

	return stat(fixture_path(path, "floors.log"), &st) == 0 ? st.st_size : -1;
}

Test(floor_log, what_was_taken_is_in_the_file_before_anything_else_happens)
{
	char path[64];
	int folder = open_folder(path);
	struct floor_log *log = open_as(folder, CELL), *other;

	take(log, "a", 5, 100, 0);
	take(log, "b", 1, 100, 0);
	take(log, "a", 6, 90, 0);
	floor_log_take_manifest(log, &(struct floor_mark){ 3, 8, { 8 } });
	/* As a successor finds it after a kill. */
	other = open_as(folder, CELL);
	cr_assert_not(floor_log_is_broken(other));
	cr_assert_eq(rev_of(other, "a"), 6);
	cr_assert_eq(rev_of(other, "b"), 1);
	cr_assert_eq(rev_of(other, "c"), 0);
	cr_assert_eq(floor_log_manifest(other)->number, 8);
	floor_log_close(other);
	floor_log_close(log);
	/* Another cell has revisions of its own. */
	log = open_as(folder, "c-2");
	cr_assert_eq(rev_of(log, "a"), 0);
	cr_assert_eq(floor_log_manifest(log)->number, 0);
	floor_log_close(log);
	log = open_as(folder, CELL);
	cr_assert_eq(rev_of(log, "a"), 0);
	floor_log_close(log);
	close(folder);
	fixture_remove_folder(path);
}

Test(floor_log, a_line_that_was_being_written_is_none_and_the_next_one_is_whole)
{
	char path[64], whole[4096], text[4096];
	int folder = open_folder(path);
	struct floor_log *log = open_as(folder, CELL);
	const char *second;

	take(log, "a", 5, 100, 0);
	take(log, "a", 6, 100, 0);
	floor_log_close(log);
	snprintf(whole, sizeof(whole), "%s", fixture_read(fixture_path(path, "floors.log")));
	second = strstr(whole, "lease a 3 6");
	for (size_t len = 0; len <= strlen(whole); len++) {
		bool has_head = len >= strlen("egressd floor log 1\ncell c-1\n");

		memcpy(text, whole, len);
		text[len] = '\0';
		fixture_write(fixture_path(path, "floors.log"), text);
		log = open_as(folder, CELL);
		cr_assert_eq(floor_log_is_broken(log), !has_head, "%zu", len);
		if (has_head) {
			cr_assert_eq(rev_of(log, "a"), len == strlen(whole) ? 6 : len >= (size_t)(second - whole) ? 5 : 0, "%zu", len);
			take(log, "b", 2, 100, 0);
			floor_log_close(log);
			log = open_as(folder, CELL);
			cr_assert_eq(rev_of(log, "b"), 2, "%zu", len);
		} else {
			/* Nothing that comes later makes it a file that was understood. */
			take(log, "b", 2, 100, 0);
			floor_log_flush(log);
			cr_assert(floor_log_is_broken(log));
			cr_assert_str_eq(fixture_read(fixture_path(path, "floors.log")), text);
		}
		floor_log_close(log);
	}
	close(folder);
	fixture_remove_folder(path);
}

Test(floor_log, an_odd_line_is_not_understood_and_the_file_stays)
{
	static const char hex[] = "0000000000000000000000000000000000000000000000000000000000000000";
	static const char *const odd[] = { "x\n", "\n", "lease\n", "lease a 3 6 1\n", "lease a 3 -6 1 %s\n", "lease a/b 3 6 1 %s\n",
					   "lease a 3 6 1 %s more\n", "lease a 3 6 1 %s0\n", "manifest 1 %s\n", "manifest 1 2 %s 3\n",
					   "cell c-1\n", "leases a 3 6 1 %s\n" };
	static const char *const heads[] = { "", "egressd floor log 2\ncell c-1\n", "cell c-1\n", "egressd floor log 1\ncell \n",
					     "egressd floor log 1\nsell c-1\n" };
	char path[64], text[4096], line[256];
	int folder = open_folder(path);
	struct floor_log *log;

	for (size_t i = 0; i < ARRAY_LEN(odd) + ARRAY_LEN(heads); i++) {
		if (i < ARRAY_LEN(odd)) {
			/* The format is one of the table's. */
			const char *gap = strstr(odd[i], "%s");

			snprintf(line, sizeof(line), "%.*s%s%s", gap == NULL ? (int)strlen(odd[i]) : (int)(gap - odd[i]), odd[i],
				 gap == NULL ? "" : hex, gap == NULL ? "" : gap + 2);
			snprintf(text, sizeof(text), "egressd floor log 1\ncell c-1\nlease a 3 5 1 %s\n%s", hex, line);
		} else {
			snprintf(text, sizeof(text), "%slease a 3 5 1 %s\n", heads[i - ARRAY_LEN(odd)], hex);
		}
		fixture_write(fixture_path(path, "floors.log"), text);
		log = open_as(folder, CELL);
		cr_assert(floor_log_is_broken(log), "%s", text);
		cr_assert_null(floor_log_lease(log, "a"));
		floor_log_close(log);
		cr_assert_str_eq(fixture_read(fixture_path(path, "floors.log")), text);
	}
	close(folder);
	fixture_remove_folder(path);
}

Test(floor_log, leases_that_ended_are_forgotten_and_the_file_stays_small)
{
	char path[64], id[32];
	int folder = open_folder(path);
	struct floor_log *log = open_as(folder, CELL);

	take(log, "long", 7, 1000000, 0);
	/* A lease that lived longer once is remembered for as long: a copy of that revision may be about. */
	take(log, "shorter", 1, 1000000, 0);
	take(log, "shorter", 2, 10, 0);
	for (unsigned i = 1; i <= 20000; i++) {
		snprintf(id, sizeof(id), "ls_%u", i);
		take(log, id, 1, 1000 + i, i);
	}
	cr_assert_lt(file_len(path), 1000000);
	cr_assert_eq(rev_of(log, "ls_1"), 0);
	cr_assert_eq(rev_of(log, "ls_20000"), 1);
	cr_assert_eq(rev_of(log, "long"), 7);
	cr_assert_eq(rev_of(log, "shorter"), 2);
	/* Many changes of one. */
	for (unsigned rev = 8; rev <= 20000; rev++)
		take(log, "long", rev, 1000000, 0);
	cr_assert_lt(file_len(path), 2000000);
	floor_log_close(log);
	log = open_as(folder, CELL);
	cr_assert_eq(rev_of(log, "long"), 20000);
	cr_assert_eq(rev_of(log, "ls_20000"), 1);
	floor_log_close(log);
	close(folder);
	fixture_remove_folder(path);
}

Test(floor_log, a_file_may_name_more_than_are_remembered_since_some_were_forgotten_meanwhile)
{
	char path[64];
	int folder = open_folder(path);
	FILE *file = fopen(fixture_path(path, "floors.log"), "w");
	struct floor_mark mark = { 3, 1, { 1 } };
	struct floor_log *log;

	cr_assert_not_null(file);
	fprintf(file, "egressd floor log 1\ncell " CELL "\n");
	for (unsigned i = 0; i <= FLOOR_LOG_LEASES_MAX; i++)
		fprintf(file, "lease ls_%u 3 1 %u 01%062d\n", i, i < 10 ? 5 : 1000, 0);
	cr_assert_eq(fclose(file), 0);
	log = open_as(folder, CELL);
	cr_assert_not(floor_log_is_broken(log));
	cr_assert_eq(rev_of(log, "ls_400000"), 1);
	/* One more is too many until some have ended. */
	cr_assert_eq(floor_log_take_lease(log, "new", &mark, 1000, 1), ERR_LIMIT);
	take(log, "new", 1, 1000, 6);
	floor_log_close(log);
	log = open_as(folder, CELL);
	cr_assert_not(floor_log_is_broken(log));
	cr_assert_eq(rev_of(log, "new"), 1);
	floor_log_close(log);
	close(folder);
	fixture_remove_folder(path);
}

Test(floor_log, a_disk_that_is_full_is_said_and_nothing_is_lost_when_it_is_not)
{
	struct rlimit limit = { 2000, RLIM_INFINITY };
	char path[64], id[32];
	int folder = open_folder(path);
	struct floor_log *log = open_as(folder, CELL);
	unsigned count = 0;

	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	while (!floor_log_is_broken(log) && count < 1000) {
		snprintf(id, sizeof(id), "ls_%u", count++);
		take(log, id, 9, 100, 0);
	}
	cr_assert_lt(count, 1000);
	floor_log_flush(log);
	cr_assert(floor_log_is_broken(log));
	limit.rlim_cur = RLIM_INFINITY;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	floor_log_flush(log);
	cr_assert_not(floor_log_is_broken(log));
	floor_log_close(log);
	log = open_as(folder, CELL);
	for (unsigned i = 0; i < count; i++) {
		snprintf(id, sizeof(id), "ls_%u", i);
		cr_assert_eq(rev_of(log, id), 9, "%u", i);
	}
	floor_log_close(log);
	close(folder);
	fixture_remove_folder(path);
}

Test(floor_log, want_of_memory_changes_nothing)
{
	size_t before = fixture_fd_count();
	char path[64];
	int folder = open_folder(path);
	struct floor_log *log;
	struct floor_mark mark = { 3, 6, { 6 } };

	cr_assert_eq(crypto_init(), ERR_OK);
	for (uint64_t nth = 1;; nth++) {
		enum err e;

		alloc_fail_at(nth);
		e = floor_log_open(folder, CELL, &log);
		alloc_fail_at(0);
		if (e != ERR_OK)
			continue;
		/* What could not be read or written for want of memory is broken, not empty. */
		if (floor_log_is_broken(log)) {
			floor_log_close(log);
			continue;
		}
		break;
	}
	take(log, "a", 5, 100, 0);
	alloc_fail_at(1);
	cr_assert_eq(floor_log_take_lease(log, "b", &mark, 100, 0), ERR_NO_MEMORY);
	alloc_fail_at(0);
	cr_assert_eq(rev_of(log, "b"), 0);
	cr_assert_eq(rev_of(log, "a"), 5);
	floor_log_close(log);
	close(folder);
	cr_assert_eq(fixture_fd_count(), before);
	fixture_remove_folder(path);
}
