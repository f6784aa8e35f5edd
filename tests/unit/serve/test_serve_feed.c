/* What readers are told: all, or what changed since their cursor; each line as driver_https reads it; bounded, however slow they are. */
#include "serve/serve_feed.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/crypto.h"
#include "served.h"
#include "store/https_frame.h"

static const char *const one[][2] = { { "keyset", "k" }, { "l/a", "1" }, { "m", "m1" }, { "r/1", "x" } };
static const char *const two[][2] = { { "keyset", "k" }, { "l/b", "1" }, { "m", "m2" }, { "r/2", "y" } };

static void take(struct serve_hub *h, const char *cursor, const char *const (*docs)[2], size_t count)
{
	struct serve_edition *e = served_edition(cursor, docs, count);

	serve_hub_take_edition(h, e);
	serve_edition_unref(e);
}

/* All that the feed says now, as "+key -key mark [cursor]"; every line must be a frame. */
static const char *told(struct serve_feed *f, size_t enough)
{
	static char text[4096];
	struct buf out;

	text[0] = '\0';
	while (serve_feed_has_news(f)) {
		const char *at;

		buf_init(&out, SERVE_FEED_LINE_MAX);
		cr_assert_eq(serve_feed_write(f, enough, &out), ERR_OK);
		cr_assert_gt(out.len, 0);
		at = (const char *)buf_data(&out);
		while (at < (const char *)buf_data(&out) + out.len) {
			static const char *const words[] = { "{", "+", "-", "}", "mark", "bye" };
			const char *end = memchr(at, '\n', out.len);
			struct https_frame frame;
			struct arena arena;
			size_t len = strlen(text);

			arena_init(&arena, 0);
			cr_assert_eq(https_frame_read((struct text){ at, (size_t)(end - at) }, &arena, &frame), ERR_OK, "%.*s", (int)(end - at), at);
			snprintf(text + len, sizeof(text) - len, "%s%.*s%s%s%s ", words[frame.kind], (int)frame.key.len,
				 frame.key.len == 0 ? "" : frame.key.at, frame.cursor == NULL ? "" : "[", frame.cursor == NULL ? "" : frame.cursor,
				 frame.cursor == NULL ? "" : "]");
			arena_finish(&arena);
			at = end + 1;
		}
		buf_finish(&out);
	}
	return text;
}

static void begin(struct serve_hub *h)
{
	cr_assert_eq(crypto_init(), ERR_OK);
	serve_hub_init(h);
}

Test(serve_feed, all_of_it_then_changes_then_beats_whatever_the_pieces)
{
	static struct serve_hub h;
	struct serve_feed f;

	for (size_t enough = 1; enough < 600; enough += 40) {
		begin(&h);
		cr_assert_eq(serve_feed_init(&f, &h, ""), ERR_AGAIN);
		take(&h, "c1", one, ARRAY_LEN(one));
		cr_assert_eq(serve_hub_take_beat(&h, text_of("beat")), ERR_OK);
		cr_assert_eq(serve_feed_init(&f, &h, ""), ERR_OK);
		cr_assert_str_eq(told(&f, enough), "{ +keyset +l/a +m +r/1 }[c1] mark[c1] ");
		take(&h, "c2", two, ARRAY_LEN(two));
		/* The cursor moves with the last line alone. */
		cr_assert_str_eq(told(&f, enough), "+r/2 +l/b -l/a +m -r/1[c2] ");
		cr_assert_not(serve_feed_has_news(&f));
		cr_assert_eq(serve_hub_take_beat(&h, text_of("beat")), ERR_OK);
		cr_assert(serve_feed_has_news(&f));
		cr_assert_not(serve_feed_has_changes(&f));
		cr_assert_str_eq(told(&f, enough), "mark[c2] ");
		serve_feed_finish(&f);
		serve_hub_finish(&h);
	}
}

Test(serve_feed, a_cursor_goes_on_and_an_unknown_one_does_not)
{
	static struct serve_hub h;
	struct serve_feed f;

	begin(&h);
	take(&h, "c1", one, ARRAY_LEN(one));
	take(&h, "c2", two, ARRAY_LEN(two));
	take(&h, "c3", one, ARRAY_LEN(one));
	cr_assert_eq(serve_feed_init(&f, &h, "c3"), ERR_OK);
	cr_assert_str_eq(told(&f, 1000), "");
	serve_feed_finish(&f);
	cr_assert_eq(serve_feed_init(&f, &h, "c2"), ERR_OK);
	cr_assert_str_eq(told(&f, 1000), "+r/1 +l/a -l/b +m -r/2[c3] ");
	serve_feed_finish(&f);
	cr_assert_eq(serve_feed_init(&f, &h, "c1"), ERR_OK);
	cr_assert_str_eq(told(&f, 1000), "+r/2 +l/b -l/a +m -r/1[c2] +r/1 +l/a -l/b +m -r/2[c3] ");
	serve_feed_finish(&f);
	cr_assert_eq(serve_feed_init(&f, &h, "c0"), ERR_NOT_FOUND);
	serve_feed_finish(&f);
	serve_hub_finish(&h);
}

Test(serve_feed, a_snapshot_that_was_begun_is_told_whole_while_things_change)
{
	static struct serve_hub h;
	struct serve_feed f;
	struct buf out;

	begin(&h);
	take(&h, "c1", one, ARRAY_LEN(one));
	cr_assert_eq(serve_feed_init(&f, &h, ""), ERR_OK);
	buf_init(&out, SERVE_FEED_LINE_MAX);
	cr_assert_eq(serve_feed_write(&f, 1, &out), ERR_OK);
	buf_finish(&out);
	take(&h, "c2", two, ARRAY_LEN(two));
	cr_assert_str_eq(told(&f, 1000), "+keyset +l/a +m +r/1 }[c1] +r/2 +l/b -l/a +m -r/1[c2] ");
	serve_feed_finish(&f);
	serve_hub_finish(&h);
}

Test(serve_feed, who_is_too_slow_is_told_so_and_history_is_bounded)
{
	static struct serve_hub h;
	struct serve_feed f;
	struct buf out;

	begin(&h);
	take(&h, "c0", one, ARRAY_LEN(one));
	cr_assert_eq(serve_feed_init(&f, &h, "c0"), ERR_OK);
	for (unsigned i = 1; i <= SERVE_FEED_CHANGES_MAX + 1; i++) {
		char cursor[16];

		snprintf(cursor, sizeof(cursor), "c%u", i);
		take(&h, cursor, i % 2 == 0 ? one : two, ARRAY_LEN(one));
	}
	cr_assert_eq(h.next - h.first, SERVE_FEED_CHANGES_MAX);
	buf_init(&out, SERVE_FEED_LINE_MAX);
	cr_assert_eq(serve_feed_write(&f, 1000, &out), ERR_NOT_FOUND);
	cr_assert_eq(out.len, 0);
	buf_finish(&out);
	serve_feed_finish(&f);
	cr_assert_eq(serve_feed_init(&f, &h, "c0"), ERR_NOT_FOUND);
	serve_feed_finish(&f);
	cr_assert_eq(serve_feed_init(&f, &h, "c1"), ERR_OK);
	serve_feed_finish(&f);
	serve_hub_finish(&h);
}

Test(serve_feed, bytes_bound_history_too)
{
	static char big[200 << 10];
	const char *docs[][2] = { { "l/a", big } };
	static struct serve_hub h;

	begin(&h);
	memset(big, 'x', sizeof(big) - 1);
	for (unsigned i = 0; i < 400; i++) {
		char cursor[16];

		snprintf(cursor, sizeof(cursor), "c%u", i);
		big[i] = 'y';
		take(&h, cursor, docs, 1);
	}
	cr_assert_leq(h.bytes, SERVE_FEED_BYTES_MAX);
	cr_assert_lt(h.next - h.first, 400);
	serve_hub_finish(&h);
}
