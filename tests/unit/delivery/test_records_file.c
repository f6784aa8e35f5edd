/* The records file: whole lines through slow, moved, full and missing sinks, and what an earlier writer left at its end. */
#include "delivery/records_file.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "fixture.h"

struct bench {
	struct loop *loop;
	struct records_file *file;
	char folder[64];
	unsigned ready;
};

static void on_ready(void *arg)
{
	((struct bench *)arg)->ready++;
}

static const char *path_of(const struct bench *b)
{
	return fixture_path(b->folder, "records");
}

static void bench_start(struct bench *b)
{
	memset(b, 0, sizeof(*b));
	signal(SIGPIPE, SIG_IGN);
	fixture_make_folder(b->folder);
	b->loop = loop_create();
	cr_assert_eq(records_file_create(b->loop, on_ready, b, &b->file), ERR_OK);
}

static void bench_stop(struct bench *b)
{
	records_file_destroy(b->file);
	loop_destroy(b->loop);
	fixture_remove_folder(b->folder);
}

static void use(struct bench *b)
{
	cr_assert_eq(records_file_set_path(b->file, path_of(b)), ERR_OK);
}

/* Until it is whole, or long enough. */
static bool write_on(struct bench *b, const char *lines)
{
	for (unsigned i = 0; i < 500; i++) {
		if (records_file_write(b->file, lines, strlen(lines)))
			return true;
		loop_turn(b->loop, 10);
	}
	return false;
}

Test(records_file, appends_to_what_is_there_and_follows_a_move)
{
	struct bench b;

	bench_start(&b);
	cr_expect_not(records_file_is_wanted(b.file));
	fixture_write(path_of(&b), "{before}\n");
	use(&b);
	cr_expect(records_file_is_wanted(b.file));
	cr_expect(write_on(&b, "{one}\n"));
	cr_expect_str_eq(fixture_read(path_of(&b)), "{before}\n{one}\n");
	cr_assert_eq(rename(path_of(&b), fixture_path(b.folder, "moved")), 0);
	records_file_tick(b.file);
	cr_expect(write_on(&b, "{two}\n"));
	cr_expect_str_eq(fixture_read(path_of(&b)), "{two}\n");
	cr_assert_eq(rename(path_of(&b), fixture_path(b.folder, "moved")), 0);
	records_file_reopen(b.file);
	cr_expect(write_on(&b, "{three}\n"));
	cr_expect_str_eq(fixture_read(path_of(&b)), "{three}\n");
	cr_assert_eq(records_file_set_path(b.file, ""), ERR_OK);
	cr_expect_not(records_file_is_wanted(b.file));
	bench_stop(&b);
}

Test(records_file, a_line_that_a_killed_writer_left_torn_is_cut_off_and_what_is_whole_is_known)
{
	struct bench b;

	bench_start(&b);
	fixture_write(path_of(&b), "{one}\n{two}\n{\"half");
	use(&b);
	cr_expect_str_eq(fixture_read(path_of(&b)), "{one}\n{two}\n");
	cr_expect(records_file_ends_with(b.file, "{two}\n", 6));
	cr_expect_not(records_file_ends_with(b.file, "{new}\n", 6));
	cr_expect(write_on(&b, "{new}\n"));
	records_file_reopen(b.file);
	cr_expect_not(records_file_ends_with(b.file, "{new}\n", 6), "ours is no earlier end");
	records_file_forget_end(b.file);
	cr_expect_not(records_file_ends_with(b.file, "{two}\n", 6));
	bench_stop(&b);
}

Test(records_file, an_end_that_is_not_ours_is_left_as_it_is)
{
	struct bench b;

	bench_start(&b);
	fixture_write(path_of(&b), "{one}\nsome words");
	use(&b);
	cr_expect_str_eq(fixture_read(path_of(&b)), "{one}\nsome words");
	bench_stop(&b);
}

#define LINE "{0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz}\n"

/* `count` lines in a block of their own. */
static char *many_lines(size_t count)
{
	char *lines = alloc_zeroed(count * strlen(LINE) + 1);

	for (size_t i = 0; i < count; i++)
		memcpy(lines + i * strlen(LINE), LINE, strlen(LINE));
	return lines;
}

Test(records_file, waits_for_a_slow_reader_and_writes_a_torn_line_whole_to_the_next_file)
{
	struct bench b;
	char *lines = many_lines(1200), *read_back = alloc_zeroed(1 << 20);
	size_t len = 0;
	ssize_t n;
	int reader;

	bench_start(&b);
	cr_assert_eq(mkfifo(path_of(&b), 0600), 0);
	use(&b);
	cr_expect_eq(records_file_has_failed(b.file), true, "nobody reads");
	reader = open(path_of(&b), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	records_file_reopen(b.file);
	cr_expect_not(records_file_write(b.file, lines, strlen(lines)));
	cr_expect_not(records_file_write(b.file, lines, strlen(lines)), "it is still full");
	n = read(reader, read_back, 10000);
	cr_assert_eq(n, 10000);
	len = (size_t)n;
	for (unsigned i = 0; i < 100 && b.ready == 0; i++)
		loop_turn(b.loop, 10);
	cr_expect_eq(b.ready, 1);
	cr_expect_not(records_file_write(b.file, lines, strlen(lines)));
	/* The reader is gone with a part of a line; the next one is a file. */
	while ((n = read(reader, read_back + len, (1 << 20) - len)) > 0)
		len += (size_t)n;
	close(reader);
	unlink(path_of(&b));
	records_file_tick(b.file);
	cr_expect(records_file_write(b.file, lines, strlen(lines)));
	cr_expect_eq(strncmp(fixture_read(path_of(&b)), "{0", 2), 0);
	cr_expect_eq(len / strlen(LINE) + strlen(fixture_read(path_of(&b))) / strlen(LINE), 1200);
	alloc_free(lines);
	alloc_free(read_back);
	bench_stop(&b);
}

Test(records_file, goes_on_with_the_same_line_once_a_full_disk_has_room)
{
	struct bench b;
	struct rlimit small = { .rlim_cur = 1000, .rlim_max = RLIM_INFINITY };
	char *lines = many_lines(50);

	signal(SIGXFSZ, SIG_IGN);
	bench_start(&b);
	use(&b);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	cr_expect_not(records_file_write(b.file, lines, strlen(lines)));
	cr_expect(records_file_has_failed(b.file));
	small.rlim_cur = RLIM_INFINITY;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	cr_expect(write_on(&b, lines));
	cr_expect_not(records_file_has_failed(b.file));
	cr_expect_str_eq(fixture_read(path_of(&b)), lines);
	alloc_free(lines);
	bench_stop(&b);
}

Test(records_file, lines_that_are_broken_off_leave_whole_ones_only)
{
	struct bench b;
	struct rlimit small = { .rlim_cur = 1000, .rlim_max = RLIM_INFINITY };
	char *lines = many_lines(50);

	signal(SIGXFSZ, SIG_IGN);
	bench_start(&b);
	use(&b);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	cr_expect_not(records_file_write(b.file, lines, strlen(lines)));
	small.rlim_cur = RLIM_INFINITY;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	records_file_break_off(b.file);
	cr_expect(write_on(&b, "{other}\n"));
	cr_expect_eq(strlen(fixture_read(path_of(&b))), 1000 / strlen(LINE) * strlen(LINE) + strlen("{other}\n"));
	alloc_free(lines);
	bench_stop(&b);
}

Test(records_file, what_cannot_be_opened_is_tried_again)
{
	struct bench b;
	const char *deep;

	bench_start(&b);
	deep = fixture_path(b.folder, "later/records");
	cr_assert_eq(records_file_set_path(b.file, deep), ERR_OK);
	cr_expect(records_file_has_failed(b.file));
	cr_expect_not(records_file_write(b.file, "{a}\n", 4));
	cr_assert_eq(mkdir(fixture_path(b.folder, "later"), 0700), 0);
	cr_expect(write_on(&b, "{a}\n"));
	cr_expect_str_eq(fixture_read(deep), "{a}\n");
	bench_stop(&b);
}
