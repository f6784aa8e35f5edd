/* Records on disk: what was appended is there after an end at any byte, in order and once; bounds, damage, splits; and the frames. */
#include "delivery/spool.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "fixture.h"
#include "records_fixture.h"

#define LEN 200
#define SIZE (SPOOL_FRAME_HEAD + LEN)
#define MUCH (64u << 20)

static struct spool *start(const char *folder, uint64_t bytes_max)
{
	struct spool *s;

	cr_assert_eq(spool_open(folder, bytes_max, &s), ERR_OK, "errno %d", errno);
	return s;
}

static struct spool_counts counts(const struct spool *s)
{
	struct spool_counts c;

	spool_count(s, &c);
	return c;
}

static const char *file_path(const char *folder, uint64_t number)
{
	static char path[4][128];
	static unsigned next;
	char *out = path[next++ % 4];

	snprintf(out, 128, "%s/spool/%016llx", folder, (unsigned long long)number);
	return out;
}

/* Load a batch, compare, take it. */
static void expect_batch(struct spool *s, uint64_t from, uint64_t to)
{
	struct spool_batch b;

	cr_assert_eq(spool_load(s, &b), ERR_OK);
	cr_expect(records_batch_is(&b, from, to, LEN), "%zu lines from %u instead of %u to %u", b.count, (unsigned)b.sequence, (unsigned)from,
		  (unsigned)to);
	spool_batch_finish(&b);
	cr_assert_eq(spool_take(s), ERR_OK);
}

static void expect_none(struct spool *s)
{
	struct spool_batch b;

	cr_expect_not(spool_has_batch(s, 0));
	cr_expect_eq(spool_load(s, &b), ERR_NOT_FOUND);
	cr_expect_eq(counts(s).bytes, 0);
	cr_expect_eq(counts(s).records, 0);
}

Test(spool, gives_what_was_appended_and_forgets_it_once_taken)
{
	char folder[64];
	struct spool *s;
	struct spool_batch b;

	fixture_make_folder(folder);
	s = start(folder, MUCH);
	expect_none(s);
	records_append(s, 7, 1, 5, LEN);
	cr_expect_eq(counts(s).spooled, 5);
	cr_expect_eq(counts(s).bytes, 5 * SIZE);
	cr_expect_gt(counts(s).oldest_wall_ms, 1000000000000u);
	cr_expect_not(spool_has_batch(s, 60000), "it may grow");
	cr_expect(spool_has_batch(s, 0));
	cr_assert_eq(spool_load(s, &b), ERR_OK);
	cr_expect(records_batch_is(&b, 1, 5, LEN));
	cr_expect_eq(b.boot, 7);
	spool_batch_finish(&b);
	records_append(s, 7, 6, 7, LEN); /* not to the batch that is on its way */
	cr_assert_eq(spool_take(s), ERR_OK);
	expect_batch(s, 6, 7);
	expect_none(s);
	spool_close(s);
	fixture_remove_folder(folder);
}

Test(spool, a_batch_is_of_one_start_of_the_daemon_and_of_a_bounded_size)
{
	char folder[64];
	struct spool *s;
	uint64_t full = SPOOL_FILE_BYTES / SIZE + 1;

	fixture_make_folder(folder);
	s = start(folder, MUCH);
	records_append(s, 7, 1, full + 3, LEN);
	records_append(s, 8, 1, 2, LEN);
	expect_batch(s, 1, full);
	expect_batch(s, full + 1, full + 3);
	expect_batch(s, 1, 2);
	expect_none(s);
	spool_close(s);
	fixture_remove_folder(folder);
}

Test(spool, survives_an_end_at_every_byte_and_loses_the_torn_frame_alone)
{
	char folder[64];
	struct spool *s;

	fixture_make_folder(folder);
	for (off_t end = 0; end <= 3 * SIZE; end += end % SIZE < 60 || end % SIZE > SIZE - 3 ? 1 : 29) {
		uint64_t whole = (uint64_t)end / SIZE;

		s = start(folder, MUCH);
		records_append(s, 7, 1, 3, LEN);
		spool_close(s);
		cr_assert_eq(truncate(file_path(folder, 0), end), 0);
		s = start(folder, MUCH);
		cr_expect_eq(counts(s).records, whole);
		cr_expect_eq(counts(s).torn, end % SIZE != 0, "%d", (int)end);
		cr_expect_eq(counts(s).damaged_files, 0);
		cr_expect_eq(spool_position(s, 7, 0), whole == 0 ? 0 : whole + 1);
		cr_expect_eq(spool_position(s, 7, 1), 0);
		cr_expect_eq(spool_position(s, 8, 0), 0);
		records_append(s, 7, whole + 1, whole + 2, LEN);
		if (whole > 0)
			expect_batch(s, 1, whole);
		expect_batch(s, whole + 1, whole + 2);
		expect_none(s);
		spool_close(s);
		unlink(file_path(folder, 0));
	}
	fixture_remove_folder(folder);
}

static void flip(const char *path, off_t at)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	uint8_t byte;

	cr_assert_eq(pread(fd, &byte, 1, at), 1);
	byte ^= 0x10;
	cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

Test(spool, a_damaged_file_is_set_aside_and_the_others_go_on)
{
	char folder[64], path[160];
	struct spool *s;
	struct stat st;

	fixture_make_folder(folder);
	for (off_t at = 0; at < 2 * SIZE; at += 7) {
		s = start(folder, MUCH);
		records_append(s, 7, 1, 2, LEN);
		records_append(s, 8, 1, 2, LEN);
		spool_close(s);
		flip(file_path(folder, 0), at);
		s = start(folder, MUCH);
		cr_expect_eq(counts(s).damaged_files + counts(s).torn, 1, "byte %d", (int)at);
		if (counts(s).damaged_files == 1) {
			snprintf(path, sizeof(path), "%s.bad", file_path(folder, 0));
			cr_expect_eq(stat(path, &st), 0);
			unlink(path);
		} else if (counts(s).records > 2) {
			expect_batch(s, 1, 1); /* a length that reaches beyond the end reads like a torn one */
		}
		expect_batch(s, 1, 2);
		expect_none(s);
		spool_close(s);
	}
	fixture_remove_folder(folder);
}

Test(spool, a_file_that_is_damaged_while_we_run_is_lost_and_counted)
{
	char folder[64];
	struct spool *s;

	fixture_make_folder(folder);
	s = start(folder, MUCH);
	records_append(s, 7, 1, 3, LEN);
	records_append(s, 8, 1, 2, LEN);
	cr_assert_eq(truncate(file_path(folder, 0), 2 * SIZE), 0);
	expect_batch(s, 1, 2);
	cr_expect_eq(counts(s).dropped, 3);
	cr_expect_eq(counts(s).damaged_files, 1);
	expect_none(s);
	spool_close(s);
	fixture_remove_folder(folder);
}

Test(spool, rubbish_in_its_folder_is_left_alone_and_undone_renames_are_removed)
{
	char folder[64];
	struct spool *s;
	struct stat st;

	fixture_make_folder(folder);
	spool_close(start(folder, MUCH));
	fixture_write(fixture_path(folder, "spool/notes"), "mine");
	fixture_write(fixture_path(folder, "spool/0000000000000003.new"), "half");
	fixture_write(fixture_path(folder, "spool/0000000000000005"), "");
	cr_assert_eq(symlink("/etc/passwd", fixture_path(folder, "spool/0000000000000006")), 0);
	cr_assert_eq(mkdir(fixture_path(folder, "spool/0000000000000007"), 0700), 0);
	s = start(folder, MUCH);
	expect_none(s);
	cr_expect_eq(counts(s).damaged_files, 2);
	cr_expect_neq(stat(fixture_path(folder, "spool/0000000000000006"), &st), 0);
	cr_expect_eq(stat(fixture_path(folder, "spool/0000000000000007.bad"), &st), 0);
	cr_assert_eq(rmdir(fixture_path(folder, "spool/0000000000000007.bad")), 0);
	cr_expect_eq(stat(fixture_path(folder, "spool/notes"), &st), 0);
	cr_expect_neq(stat(fixture_path(folder, "spool/0000000000000003.new"), &st), 0);
	cr_expect_neq(stat(fixture_path(folder, "spool/0000000000000005"), &st), 0);
	records_append(s, 7, 1, 1, LEN);
	expect_batch(s, 1, 1);
	spool_close(s);
	fixture_remove_folder(folder);
}

Test(spool, a_full_one_drops_its_oldest_batches_but_not_the_one_on_its_way)
{
	char folder[64];
	struct spool *s;
	struct spool_batch b;

	fixture_make_folder(folder);
	s = start(folder, 10 * SIZE);
	for (uint64_t boot = 1; boot <= 5; boot++)
		records_append(s, boot, 1, 2, LEN);
	cr_assert_eq(spool_load(s, &b), ERR_OK);
	cr_expect_eq(b.boot, 1);
	spool_batch_finish(&b);
	records_append(s, 6, 1, 3, LEN);
	cr_expect_eq(counts(s).dropped, 4, "boots 2 and 3");
	cr_expect_leq(counts(s).bytes, 10 * SIZE);
	cr_assert_eq(spool_take(s), ERR_OK);
	cr_assert_eq(spool_load(s, &b), ERR_OK);
	cr_expect_eq(b.boot, 4);
	spool_batch_finish(&b);
	spool_close(s);
	fixture_remove_folder(folder);
}

Test(spool, one_that_may_not_drop_takes_no_more)
{
	char folder[64];
	struct spool *s;
	struct spool_frame two[2] = { records_frame(7, 4, LEN), records_frame(7, 5, LEN) };

	fixture_make_folder(folder);
	s = start(folder, 4 * SIZE);
	spool_set_dropping(s, false);
	records_append(s, 7, 1, 3, LEN);
	cr_expect_eq(spool_append(s, two, 2), ERR_LIMIT);
	cr_expect_eq(counts(s).dropped, 0);
	cr_expect_eq(spool_append(s, two, 1), ERR_OK);
	expect_batch(s, 1, 4);
	cr_expect_eq(spool_append(s, two + 1, 1), ERR_OK);
	expect_batch(s, 5, 5);
	spool_close(s);
	fixture_remove_folder(folder);
}

Test(spool, a_split_is_two_batches_with_the_same_first_line_as_before)
{
	char folder[64];
	struct spool *s;
	struct spool_batch b;

	fixture_make_folder(folder);
	s = start(folder, MUCH);
	records_append(s, 7, 1, 9, LEN);
	cr_assert_eq(spool_load(s, &b), ERR_OK);
	spool_batch_finish(&b);
	cr_assert_eq(spool_split(s), ERR_OK);
	cr_assert_eq(spool_load(s, &b), ERR_OK);
	cr_expect(records_batch_is(&b, 1, 4, LEN));
	spool_batch_finish(&b);
	cr_assert_eq(spool_split(s), ERR_OK);
	/* It stays split over a restart. */
	spool_close(s);
	s = start(folder, MUCH);
	expect_batch(s, 1, 2);
	spool_close(s);
	s = start(folder, MUCH);
	expect_batch(s, 3, 4);
	cr_expect_eq(counts(s).records, 5);
	expect_batch(s, 5, 9);
	records_append(s, 7, 10, 10, LEN);
	cr_assert_eq(spool_load(s, &b), ERR_OK);
	spool_batch_finish(&b);
	cr_expect_eq(spool_split(s), ERR_LIMIT, "one line is one line");
	spool_give_up(s);
	cr_expect_eq(counts(s).dropped, 1);
	expect_none(s);
	spool_close(s);
	fixture_remove_folder(folder);
}

Test(spool, an_append_that_fails_leaves_nothing_behind)
{
	char folder[64];
	struct spool *s;
	struct spool_frame more = records_frame(7, 4, LEN);
	struct rlimit small = { .rlim_cur = 3 * SIZE + 10, .rlim_max = RLIM_INFINITY };

	signal(SIGXFSZ, SIG_IGN);
	fixture_make_folder(folder);
	s = start(folder, MUCH);
	records_append(s, 7, 1, 3, LEN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	cr_expect_eq(spool_append(s, &more, 1), ERR_SYSTEM);
	cr_expect_eq(counts(s).records, 3);
	small.rlim_cur = RLIM_INFINITY;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	cr_expect_eq(spool_append(s, &more, 1), ERR_OK);
	expect_batch(s, 1, 4);
	spool_close(s);
	fixture_remove_folder(folder);
}

Test(spool, survives_want_of_memory_anywhere)
{
	char folder[64];
	struct spool *s = NULL;
	struct spool_batch b;
	struct spool_frame f = records_frame(7, 1, LEN);
	enum err e;

	fixture_make_folder(folder);
	s = start(folder, MUCH);
	records_append(s, 8, 1, 4, LEN);
	spool_close(s);
	for (uint64_t nth = 1; nth < 40; nth++) {
		alloc_fail_at(nth);
		e = spool_open(folder, MUCH, &s);
		cr_expect(e == ERR_OK || e == ERR_NO_MEMORY);
		if (e != ERR_OK)
			continue;
		e = spool_append(s, &f, 1);
		cr_expect(e == ERR_OK || e == ERR_NO_MEMORY);
		if (e == ERR_OK && spool_load(s, &b) == ERR_OK) {
			spool_batch_finish(&b);
			if (spool_split(s) == ERR_OK && spool_load(s, &b) == ERR_OK) {
				spool_batch_finish(&b);
				(void)!spool_take(s);
			}
		}
		alloc_fail_at(0);
		cr_expect_eq(counts(s).damaged_files, 0);
		spool_close(s);
	}
	alloc_fail_at(0);
	spool_close(NULL);
	fixture_remove_folder(folder);
}

Test(spool, leaves_no_descriptor_open_and_needs_its_state_folder)
{
	size_t before = fixture_fd_count();
	char folder[64];
	struct spool *s;

	fixture_make_folder(folder);
	s = start(folder, MUCH);
	records_append(s, 7, 1, 1, LEN);
	spool_close(s);
	cr_expect_eq(fixture_fd_count(), before);
	fixture_remove_folder(folder);
	cr_expect_eq(spool_open(folder, MUCH, &s), ERR_SYSTEM);
}

Test(spool_frame, every_prefix_is_more_and_every_changed_bit_is_noticed)
{
	struct spool_frame f = records_frame(0x0123456789abcdef, 42, 64), again;
	uint8_t bytes[SPOOL_FRAME_HEAD + 64];

	f.lane = 5;
	cr_assert_eq(spool_frame_size(&f), sizeof(bytes));
	spool_frame_put(&f, bytes);
	for (size_t len = 0; len < sizeof(bytes); len++)
		cr_assert_eq(spool_frame_take(bytes, len, &again), PARSED_MORE, "%zu", len);
	cr_assert_eq(spool_frame_take(bytes, sizeof(bytes), &again), PARSED_OK);
	cr_expect(again.boot == f.boot && again.sequence == 42 && again.position == 43 && again.lane == 5 && again.kind == SPOOL_FRAME_LINE);
	cr_expect(again.line.len == 64 && memcmp(again.line.at, f.line.at, 64) == 0);
	for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_assert_neq(spool_frame_take(bytes, sizeof(bytes), &again), PARSED_OK, "bit %zu", bit);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}
