/* Segments from sealed memory and from bytes: what is taken, what is refused, what is read back. */
#include "image/segment.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "decision/verdict.h"
#include "segment_builder.h"

#define SOME_RULES                                                            \
	"lease ls_1\ntenant acme\nrun run_7\nclass code\nrev 17\n"            \
	"require listener token\nlistener vm-1\ntoken secret\n"               \
	"allow https://api.example.org as r1\nallow https://*.example.org\n"  \
	"deny stats.example.org as r3\nallow tcp://192.0.2.0/24:443,8000-8010\n"

static struct built_store store;
static uint8_t bytes[BUILT_BYTES_MAX];

static size_t good_bytes(void)
{
	built_store_init(&store);
	return built_bytes(&store, LAYOUT_LEASE, SOME_RULES, bytes);
}

static int memory_with(const void *content, size_t len, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, content, len), (ssize_t)len);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static bool text_reads(const struct segment *s, struct layout_text t, const char *word)
{
	return text_is(segment_text(s, t), word);
}

Test(segment, reads_back_what_was_written)
{
	const char *fault = NULL;
	const struct layout_rule *rules;
	const struct layout_lease *lease;
	uint8_t digest[LAYOUT_ID_LEN];
	struct segment *s;
	uint32_t count;
	size_t len = good_bytes();

	cr_assert_eq(segment_open_bytes(bytes, len, &s, &fault), ERR_OK, "%s", fault);
	cr_assert_eq(crypto_sha256(bytes, len, digest), ERR_OK);
	cr_expect_arr_eq(segment_id(s), digest, sizeof(digest));
	cr_expect_eq(segment_kind(s), LAYOUT_LEASE);
	cr_expect_eq(segment_size(s), len);
	lease = segment_lease(s);
	cr_expect(text_reads(s, lease->id, "ls_1") && text_reads(s, lease->tenant, "acme"));
	cr_expect(text_reads(s, lease->listener, "vm-1"));
	cr_expect_eq(lease->rev, 17);
	rules = segment_table(s, LAYOUT_RULES, &count);
	cr_expect_eq(count, 4);
	cr_expect(text_reads(s, rules[0].id, "r1") && text_reads(s, rules[0].name, "api.example.org"));
	cr_expect(text_reads(s, rules[1].id, "") && rules[1].host == RULE_HOST_WILDCARD);
	cr_expect_null(segment_table(s, LAYOUT_ANY_REFS, &count));
	cr_expect_eq(count, 0);
	segment_unref(s);
}

Test(segment, finds_the_entries_of_its_label_index_and_no_others)
{
	const char *fault = NULL;
	const struct layout_label_entry *e;
	struct segment *s;
	size_t len = good_bytes();

	cr_assert_eq(segment_open_bytes(bytes, len, &s, &fault), ERR_OK, "%s", fault);
	e = segment_label_entry(s, text_of("example.org"));
	cr_assert_not_null(e);
	cr_expect_eq(e->exact.count, 0);
	cr_expect_eq(e->wildcard.count, 1);
	cr_expect_not_null(segment_label_entry(s, text_of("stats.example.org")));
	cr_expect_null(segment_label_entry(s, text_of("org")));
	cr_expect_null(segment_label_entry(s, text_of("xample.org")));
	cr_expect_null(segment_label_entry(s, (struct text){ .at = "", .len = 0 }));
	segment_unref(s);
}

Test(segment, opens_sealed_memory_small_and_large_alike)
{
	/* A ruleset beyond the size from which a segment stays mapped, then the smallest one. */
	static char text[128 << 10];
	size_t at = 0;

	built_store_init(&store);
	for (unsigned i = 0; i < 500; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at,
				       "allow https://a%u.%s.example.org\n", i,
				       "long-label-to-fill-the-table-of-strings-long-label-long-label");
	for (int large = 0; large < 2; large++) {
		size_t len = built_bytes(&store, LAYOUT_RULESET, large ? text : "", bytes);
		const char *fault = NULL;
		struct segment *s;
		int fd;

		cr_assert_eq(len >= 64 << 10, large == 1, "%zu", len);
		cr_assert_eq(segment_seal(bytes, len, &fd), ERR_OK);
		cr_assert_eq(segment_open(fd, &s, &fault), ERR_OK, "%s", fault);
		close(fd);
		cr_expect_eq(segment_size(s), len);
		cr_expect_eq(segment_label_entry(s, text_of("a1.example.org")), NULL);
		cr_expect_eq(segment_ref(s), s);
		segment_unref(s);
		cr_expect_eq(segment_kind(s), LAYOUT_RULESET);
		segment_unref(s);
	}
	segment_unref(NULL);
}

Test(segment, refuses_memory_that_lacks_any_seal)
{
	static const int seals[] = { F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE };
	const int all = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	size_t len = good_bytes();
	const char *fault = NULL;
	struct segment *s;

	for (size_t i = 0; i < ARRAY_LEN(seals); i++) {
		int fd = memory_with(bytes, len, all & ~seals[i]);

		fault = NULL;
		cr_expect_eq(segment_open(fd, &s, &fault), ERR_DENIED, "seal %zu", i);
		cr_expect_not_null(fault);
		close(fd);
	}
#ifdef F_SEAL_FUTURE_WRITE
	{
		int fd = memory_with(bytes, len,
				     F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);

		cr_expect_eq(segment_open(fd, &s, &fault), ERR_DENIED);
		close(fd);
	}
#endif
}

Test(segment, refuses_what_is_no_memory_file)
{
	char path[] = "/tmp/egress-segment-XXXXXX";
	size_t len = good_bytes();
	const char *fault = NULL;
	int fd = mkstemp(path), pipes[2];
	struct segment *s;

	cr_assert_geq(fd, 0);
	unlink(path);
	cr_assert_eq(write(fd, bytes, len), (ssize_t)len);
	cr_expect_eq(segment_open(fd, &s, &fault), ERR_DENIED);
	close(fd);
	cr_assert_eq(pipe(pipes), 0);
	cr_expect_eq(segment_open(pipes[0], &s, &fault), ERR_DENIED);
	close(pipes[0]);
	close(pipes[1]);
	cr_expect_eq(segment_open(-1, &s, &fault), ERR_DENIED);
}

Test(segment, cannot_be_written_once_sealed)
{
	size_t len = good_bytes();
	int fd;

	cr_assert_eq(segment_seal(bytes, len, &fd), ERR_OK);
	cr_expect_lt(pwrite(fd, "x", 1, 0), 0);
	cr_expect_neq(ftruncate(fd, 0), 0);
	cr_expect_eq(mmap(NULL, len, PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	close(fd);
}

Test(segment, refuses_impossible_sizes)
{
	static uint8_t zeros[sizeof(struct layout_header)];
	const char *fault = NULL;
	struct segment *s;
	int fd;

	cr_expect_eq(segment_open_bytes("", 0, &s, &fault), ERR_INVALID);
	cr_expect_eq(segment_open_bytes(zeros, sizeof(zeros) - 1, &s, &fault), ERR_INVALID);
	cr_expect_eq(segment_open_bytes(zeros, sizeof(zeros), &s, &fault), ERR_INVALID);
	cr_expect_eq(segment_open_bytes(zeros, (size_t)LAYOUT_SEGMENT_MAX + 1, &s, &fault), ERR_INVALID);
	cr_assert_eq(segment_seal(zeros, 0, &fd), ERR_OK);
	cr_expect_eq(segment_open(fd, &s, &fault), ERR_INVALID);
	close(fd);
}

Test(segment, fails_whole_when_memory_fails)
{
	size_t len = good_bytes();
	const char *fault = NULL;
	struct segment *s = NULL;
	int fd;

	cr_assert_eq(segment_seal(bytes, len, &fd), ERR_OK);
	for (uint64_t n = 1;; n++) {
		enum err err;

		alloc_fail_at(n);
		err = segment_open(fd, &s, &fault);
		if (err == ERR_OK)
			break;
		cr_expect_eq(err, ERR_NO_MEMORY);
		cr_expect_null(s);
		alloc_fail_at(n);
		cr_expect_eq(segment_open_bytes(bytes, len, &s, &fault), ERR_NO_MEMORY);
		cr_assert_lt(n, 10);
	}
	alloc_fail_at(0);
	segment_unref(s);
	close(fd);
}
