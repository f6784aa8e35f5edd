/* Log lines as they arrive at the other end of standard error. */
#include "base/log.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"

static uint64_t now_ms = 1796040000123ULL;

static uint64_t fake_mono_ns(void)
{
	return now_ms * 1000000ULL;
}

static uint64_t fake_wall_ms(void)
{
	return 1796040000123ULL;
}

static int written = -1, old_stderr = -1;

static void catch_stderr(void)
{
	static const struct clock_source fake = { fake_mono_ns, fake_wall_ms };

	clock_use(&fake);
	written = memfd_create("stderr", MFD_CLOEXEC);
	old_stderr = dup(STDERR_FILENO);
	cr_assert(written >= 0 && old_stderr >= 0);
	dup2(written, STDERR_FILENO);
	log_init("egressd", LOG_LEVEL_INFO);
}

/* Puts standard error back and returns all that was written to it. */
static const char *caught(void)
{
	static char text[1 << 20];
	ssize_t len;

	dup2(old_stderr, STDERR_FILENO);
	close(old_stderr);
	len = pread(written, text, sizeof(text) - 1, 0);
	close(written);
	cr_assert(len >= 0);
	text[len] = '\0';
	return text;
}

Test(log, a_line_has_time_level_program_and_thread, .init = catch_stderr)
{
	log_line(LOG_LEVEL_WARN, "sandbox landlock=%s", "absent");
	log_thread_name("w0");
	log_line(LOG_LEVEL_ERROR, "x");
	log_thread_name("a-name-that-is-far-too-long");
	log_line(LOG_LEVEL_INFO, "y");
	log_thread_name(NULL);
	log_line(LOG_LEVEL_INFO, "z");
	cr_expect_str_eq(caught(),
			 "2026-11-30T12:00:00.123Z warn egressd sandbox landlock=absent\n"
			 "2026-11-30T12:00:00.123Z error egressd/w0 x\n"
			 "2026-11-30T12:00:00.123Z info egressd/a-name-that-is- y\n"
			 "2026-11-30T12:00:00.123Z info egressd z\n");
}

Test(log, levels_below_the_chosen_one_are_silent, .init = catch_stderr)
{
	struct log_limit limit = { .burst = 10, .interval_ms = 1000 };

	log_line(LOG_LEVEL_DEBUG, "hidden");
	log_limited(&limit, LOG_LEVEL_DEBUG, "hidden");
	log_init("egressd", LOG_LEVEL_DEBUG);
	log_line(LOG_LEVEL_DEBUG, "seen");
	cr_expect_str_eq(caught(), "2026-11-30T12:00:00.123Z debug egressd seen\n");
}

Test(log, no_value_can_forge_a_line, .init = catch_stderr)
{
	log_line(LOG_LEVEL_INFO, "name=%s", "a\nb\r\x1b[31m\x7f\xc3\xa9");
	cr_expect_str_eq(caught(), "2026-11-30T12:00:00.123Z info egressd name=a?b??[31m???\n");
}

Test(log, a_line_has_at_most_1024_bytes_and_says_that_it_was_cut, .init = catch_stderr)
{
	struct log_limit limit = { .burst = 1, .interval_ms = 10 };
	char value[3000];
	const char *text;

	memset(value, 'v', sizeof(value));
	value[sizeof(value) - 1] = '\0';
	for (int len = 900; len <= 1100; len++)
		log_line(LOG_LEVEL_INFO, "%.*s", len, value);
	log_limited(&limit, LOG_LEVEL_INFO, "%s", value);
	log_limited(&limit, LOG_LEVEL_INFO, "%s", value);
	now_ms += 10;
	log_limited(&limit, LOG_LEVEL_INFO, "%s", value);
	text = caught();
	for (int i = 0; i < 203; i++) {
		size_t len = strcspn(text, "\n") + 1;
		size_t full = 38 + 900 + (size_t)i + 1;
		bool cut = strncmp(text + len - 4, "...\n", 4) == 0;

		cr_expect(len <= 1024, "%zu", len);
		if (i <= 200) {
			cr_expect_eq(len, full < 1024 ? full : 1024, "line %d: %zu", i, len);
			cr_expect_eq(cut, full > 1024, "line %d", i);
		}
		if (i == 202)
			cr_expect_eq(strncmp(text + len - 16, "... held_back=1\n", 16), 0);
		text += len;
	}
	cr_expect_str_eq(text, "");
}

Test(log, a_limit_holds_lines_back_and_says_how_many, .init = catch_stderr)
{
	struct log_limit limit = { .burst = 2, .interval_ms = 1000 };
	const char *text;
	int lines = 0;

	for (int i = 0; i < 10; i++)
		log_limited(&limit, LOG_LEVEL_INFO, "n=%d", i);
	now_ms += 999;
	log_limited(&limit, LOG_LEVEL_INFO, "n=still");
	now_ms += 1;
	log_limited(&limit, LOG_LEVEL_INFO, "n=again");
	log_limited(&limit, LOG_LEVEL_INFO, "n=more");
	text = caught();
	cr_expect_not_null(strstr(text, " n=0\n"));
	cr_expect_not_null(strstr(text, " n=1\n"));
	cr_expect_null(strstr(text, " n=2\n"));
	cr_expect_null(strstr(text, "still"));
	cr_expect_not_null(strstr(text, " n=again held_back=9\n"));
	cr_expect_not_null(strstr(text, " n=more\n"), "what was said is not said again");
	for (; *text != '\0'; text++)
		lines += *text == '\n';
	cr_expect_eq(lines, 4);
}
