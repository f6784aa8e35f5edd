/* Batches to control: one at a time, the same bytes under the same key until acknowledged, halved when too large. */
#include "delivery/upload.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "fixture.h"
#include "records_fixture.h"
#include "store/gzip.h"
#include "web.h"

#define LEN 100
#define OK { "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", 0, false }
#define NOT_NOW { "HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 0, false }
#define TOO_LARGE { "HTTP/1.1 413 Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 0, false }

struct bench {
	struct web web;
	struct loop *loop;
	struct spool *spool;
	struct upload *upload;
	char folder[64];
};

static void bench_start(struct bench *b, const struct web_answer *answers, size_t count)
{
	struct upload_options options = { .urls = b->web.url, .proxy = "px-1" };

	signal(SIGPIPE, SIG_IGN);
	cr_assert_eq(crypto_init(), ERR_OK);
	web_open(&b->web, answers, count);
	fixture_make_folder(b->folder);
	b->loop = loop_create();
	cr_assert_eq(spool_open(b->folder, 1 << 20, &b->spool), ERR_OK);
	cr_assert_eq(upload_open(b->loop, &options, b->spool, &b->upload), ERR_OK);
}

static void bench_stop(struct bench *b)
{
	upload_close(b->upload);
	spool_close(b->spool);
	loop_destroy(b->loop);
	fixture_remove_folder(b->folder);
	web_close(&b->web);
}

static struct spool_counts counts(const struct bench *b)
{
	struct spool_counts c;

	spool_count(b->spool, &c);
	return c;
}

/* Until the spool is empty and nothing is under way. */
static void empty(struct bench *b)
{
	for (unsigned i = 0; i < 2000 && counts(b).records > 0; i++) {
		upload_go_on(b->upload);
		loop_turn(b->loop, 5);
	}
	cr_assert_eq(counts(b).records, 0);
}

/* Did the nth request carry exactly these lines, under this key? */
static bool request_is(const struct bench *b, unsigned nth, const char *key, uint64_t from, uint64_t to)
{
	const char *request = b->web.requests[nth], *body = strstr(request, "\r\n\r\n");
	char header[128];
	char *lines = alloc_zeroed((to - from + 1) * LEN);
	uint8_t *packed;
	size_t len;
	bool same;

	for (uint64_t n = from; n <= to; n++)
		memcpy(lines + (n - from) * LEN, records_line(n, LEN).at, LEN);
	cr_assert_eq(gzip_pack(lines, (to - from + 1) * LEN, &packed, &len), ERR_OK);
	snprintf(header, sizeof(header), "\r\nIdempotency-Key: %s\r\n", key);
	same = strncmp(request, "POST /v1/decisions HTTP/1.1\r\n", 29) == 0 && strstr(request, header) != NULL &&
	       strstr(request, "\r\nContent-Encoding: gzip\r\n") != NULL && strstr(request, "\r\nContent-Type: application/x-ndjson\r\n") != NULL &&
	       body != NULL && memcmp(body + 4, packed, len) == 0;
	alloc_free(packed);
	alloc_free(lines);
	return same;
}

Test(upload, what_is_not_acknowledged_is_posted_again_as_it_was)
{
	static struct bench b;
	static const struct web_answer answers[] = { NOT_NOW, { NULL, 0, false }, OK, OK };

	bench_start(&b, answers, 4);
	records_append(b.spool, 0x1234, 5, 9, LEN);
	for (unsigned i = 0; i < 400 && upload_failed(b.upload) == 0; i++) {
		upload_go_on(b.upload);
		loop_turn(b.loop, 5);
	}
	records_append(b.spool, 0x1234, 10, 11, LEN); /* to the next one */
	empty(&b);
	cr_expect_eq(upload_sent(b.upload), 7);
	cr_expect_eq(upload_failed(b.upload), 2);
	for (unsigned i = 0; i < 3; i++)
		cr_expect(request_is(&b, i, "px-1/0000000000001234/5", 5, 9), "request %u", i);
	cr_expect(request_is(&b, 3, "px-1/0000000000001234/10", 10, 11));
	cr_expect_eq(counts(&b).dropped, 0);
	bench_stop(&b);
}

Test(upload, a_batch_that_is_too_large_goes_in_halves_and_a_line_that_is_too_large_is_lost)
{
	static struct bench b;
	static const struct web_answer answers[] = { TOO_LARGE, TOO_LARGE, OK, TOO_LARGE, OK };

	bench_start(&b, answers, 5);
	records_append(b.spool, 1, 1, 3, LEN);
	empty(&b);
	cr_expect(request_is(&b, 0, "px-1/0000000000000001/1", 1, 3));
	cr_expect(request_is(&b, 1, "px-1/0000000000000001/1", 1, 1));
	cr_expect(request_is(&b, 2, "px-1/0000000000000001/2", 2, 3));
	cr_expect_eq(counts(&b).dropped, 1);
	cr_expect_eq(upload_sent(b.upload), 2);
	records_append(b.spool, 1, 4, 5, LEN);
	for (unsigned i = 0; i < 400 && b.web.asked < 5; i++) {
		upload_go_on(b.upload);
		loop_turn(b.loop, 5);
	}
	cr_expect(request_is(&b, 3, "px-1/0000000000000001/4", 4, 5));
	cr_expect(request_is(&b, 4, "px-1/0000000000000001/4", 4, 4));
	bench_stop(&b);
}

Test(upload, nothing_is_posted_while_there_is_nothing)
{
	static struct bench b;
	static const struct web_answer answers[] = { OK };

	bench_start(&b, answers, 1);
	for (unsigned i = 0; i < 20; i++) {
		upload_go_on(b.upload);
		loop_turn(b.loop, 2);
	}
	cr_expect_eq(b.web.asked, 0);
	bench_stop(&b);
}

Test(upload, without_memory_the_batch_stays)
{
	static struct bench b;
	static const struct web_answer answers[] = { OK, OK, OK };
	struct upload_options options = { .urls = "https://h", .proxy = "px 1" };
	struct upload *none;

	bench_start(&b, answers, 3);
	cr_expect_eq(upload_open(b.loop, &options, b.spool, &none), ERR_INVALID);
	options.proxy = "px-1";
	for (uint64_t nth = 1; nth <= 3; nth++) {
		alloc_fail_at(nth);
		cr_expect_neq(upload_open(b.loop, &options, b.spool, &none), ERR_OK);
	}
	records_append(b.spool, 1, 1, 3, LEN);
	for (uint64_t nth = 1; nth <= 8; nth++) {
		alloc_fail_at(nth);
		for (unsigned i = 0; i < 150; i++) {
			upload_go_on(b.upload);
			loop_turn(b.loop, 1);
		}
	}
	alloc_fail_at(0);
	empty(&b);
	cr_expect_eq(counts(&b).dropped, 0);
	cr_expect_eq(upload_sent(b.upload), 3);
	bench_stop(&b);
}

Test(gzip, the_same_bytes_give_the_same_member)
{
	uint8_t *a, *b;
	size_t a_len, b_len;

	cr_assert_eq(gzip_pack("hello hello hello hello", 23, &a, &a_len), ERR_OK);
	cr_assert_eq(gzip_pack("hello hello hello hello", 23, &b, &b_len), ERR_OK);
	cr_expect(a_len == b_len && memcmp(a, b, a_len) == 0);
	cr_expect(a[0] == 0x1f && a[1] == 0x8b);
	alloc_free(a);
	alloc_free(b);
	cr_expect_eq(gzip_pack("", GZIP_INPUT_MAX + 1, &a, &a_len), ERR_LIMIT);
	alloc_fail_at(1);
	cr_expect_eq(gzip_pack("a", 1, &a, &a_len), ERR_NO_MEMORY);
	alloc_fail_at(0);
}
