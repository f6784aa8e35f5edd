/* Lines of the control plane's stream: good ones, and everything that is none. */
#include "store/https_frame.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/alloc.h"

static enum err take(const char *line, size_t len, struct https_frame *out_frame, struct arena *arena)
{
	arena_init(arena, 0);
	return https_frame_read((struct text){ line, len }, arena, out_frame);
}

static const char *const good[] = {
	"{\"f\":\"snap_begin\",\"cursor\":\"e3.9120\"}",
	"{\"f\":\"snap_begin\"}",
	"{\"f\":\"put\",\"k\":\"l/ls_1\",\"env\":\"Zm9v\"}",
	"{\"f\":\"put\",\"k\":\"m\",\"env\":\"Zm9v\",\"cursor\":\"e3.1\"}",
	"{\"f\":\"snap_end\",\"cursor\":\"e3.9120\"}",
	"{\"f\":\"del\",\"k\":\"l/ls_1\",\"cursor\":\"e3.9121\"}",
	"{\"f\":\"mark\",\"cursor\":\"e3.9121\",\"env\":\"YmVhdA==\"}",
	"{\"f\":\"bye\",\"retry_ms\":800,\"why\":\"drain\"}",
	"{\"f\":\"bye\"}",
};

Test(https_frame, each_kind_is_read_with_its_members)
{
	struct https_frame frame;
	struct arena arena;

	cr_assert_eq(take(good[3], strlen(good[3]), &frame, &arena), ERR_OK);
	cr_assert_eq(frame.kind, HTTPS_FRAME_PUT);
	cr_assert(text_is(frame.key, "m"));
	cr_assert(text_is(frame.envelope, "foo"));
	cr_assert_str_eq(frame.cursor, "e3.1");
	arena_finish(&arena);
	cr_assert_eq(take(good[7], strlen(good[7]), &frame, &arena), ERR_OK);
	cr_assert_eq(frame.kind, HTTPS_FRAME_BYE);
	cr_assert_eq(frame.retry_ms, 800);
	arena_finish(&arena);
}

Test(https_frame, every_prefix_of_a_good_line_is_no_frame)
{
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		for (size_t len = 0; len <= strlen(good[i]); len++) {
			enum err expected = len == strlen(good[i]) ? ERR_OK : ERR_INVALID;
			struct https_frame frame;
			struct arena arena;

			cr_assert_eq(take(good[i], len, &frame, &arena), expected, "%zu bytes of %s", len, good[i]);
			arena_finish(&arena);
		}
	}
}

Test(https_frame, what_is_not_exactly_a_frame_is_refused)
{
	static const char *const bad[] = {
		"[]", "null", "\"put\"", "{}", "{\"f\":1}", "{\"f\":\"nap\"}", "{\"f\":\"PUT\",\"k\":\"m\",\"env\":\"\"}",
		"{\"f\":\"put\",\"k\":\"m\"}", "{\"f\":\"put\",\"env\":\"Zm9v\"}", "{\"f\":\"put\",\"k\":\"\",\"env\":\"Zm9v\"}",
		"{\"f\":\"put\",\"k\":\"m\",\"env\":\"\"}", "{\"f\":\"put\",\"k\":\"m\",\"env\":\"Zm9\"}",
		"{\"f\":\"put\",\"k\":\"m\",\"env\":\"Zm9v\",\"x\":1}", "{\"f\":\"put\",\"f\":\"put\",\"k\":\"m\",\"env\":\"Zm9v\"}",
		"{\"f\":\"put\",\"k\":\"a b\",\"env\":\"Zm9v\"}", "{\"f\":\"put\",\"k\":\"\\u0000\",\"env\":\"Zm9v\"}",
		"{\"f\":\"put\",\"k\":\"\xc3\xa4\",\"env\":\"Zm9v\"}", "{\"f\":\"put\",\"k\":\"m\",\"env\":\"Zm9v\"} {}",
		"{\"f\":\"snap_end\"}", "{\"f\":\"snap_end\",\"cursor\":\"a b\"}", "{\"f\":\"snap_end\",\"cursor\":\"a&b=1\"}",
		"{\"f\":\"snap_end\",\"cursor\":\"\"}", "{\"f\":\"snap_end\",\"cursor\":12}", "{\"f\":\"bye\",\"retry_ms\":-1}",
		"{\"f\":\"bye\",\"retry_ms\":1.5}", "{\"f\":\"bye\",\"retry_ms\":99999999999}", "{\"f\":\"mark\",\"cursor\":\"a\"}",
		"{\"f\":\"mark\",\"k\":\"m\",\"env\":\"Zm9v\"}",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct https_frame frame;
		struct arena arena;

		cr_assert_eq(take(bad[i], strlen(bad[i]), &frame, &arena), ERR_INVALID, "%s", bad[i]);
		arena_finish(&arena);
	}
}

Test(https_frame, without_memory_nothing_is_taken_for_read)
{
	for (uint64_t nth = 1;; nth++) {
		struct https_frame frame;
		struct arena arena;
		bool has_failed;
		enum err e;

		alloc_fail_at(nth);
		e = take(good[3], strlen(good[3]), &frame, &arena);
		has_failed = alloc_count() >= nth;
		alloc_fail_at(0);
		cr_assert_eq(e, has_failed ? ERR_NO_MEMORY : ERR_OK, "allocation %llu", (unsigned long long)nth);
		arena_finish(&arena);
		if (!has_failed)
			break;
	}
}
