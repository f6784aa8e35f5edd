/*
 * The file source on real folders: first holding and beat, rename, delete, half-written files, replaced folders, losses that last and
 * losses that do not, faults that quarantine.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "fixture.h"
#include "image/segment.h"
#include "replay.h"
#include "source/driver.h"

struct bench {
	struct loop *loop;
	struct driver *driver;
	struct arena arena;
	struct fault_list faults;
	char folder[64], root[80];
	unsigned offers, beats;
	bool is_refusing;
	struct replay replay;
	char held[1024]; /* of the last offer: "ls_a ls_b!" (quarantined) */
	uint64_t beat_ns;
	bool seen;       /* something came */
	const char *awaited;
	bool came;
};

static struct bench *b;
static struct bench bench;

static bool is_quarantined(const struct emitted *emitted)
{
	struct segment *segment;
	const char *fault;
	bool quarantined;

	cr_assert_eq(segment_open_bytes(emitted->bytes, emitted->len, &segment, &fault), ERR_OK, "%s",
		     fault);
	quarantined = segment_lease(segment)->state == LAYOUT_LEASE_INVALID;
	segment_unref(segment);
	return quarantined;
}

static void word_of(char *out_word, size_t cap, const char *id, const struct emitted *segment)
{
	snprintf(out_word, cap, "%s%s", id, is_quarantined(segment) ? "!" : "");
}

static enum err on_holding(void *arg, const struct holding *holding, uint64_t *out_receipt)
{
	enum err e;

	b->offers++;
	if (b->is_refusing) {
		b->replay.receipt = 0;
		return ERR_NO_MEMORY;
	}
	e = replay_take(&b->replay, holding, out_receipt);
	replay_words(&b->replay, word_of, b->held, sizeof(b->held));
	b->came = b->awaited != NULL && strcmp(b->held, b->awaited) == 0;
	return e;
}

static void on_beat(void *arg, uint64_t beat_ns)
{
	cr_assert_leq(beat_ns, clock_mono_ns());
	cr_assert_gt(beat_ns, b->beat_ns);
	b->beat_ns = beat_ns;
	b->beats++;
	b->seen = true;
}

static const struct driver_events events = { .on_holding = on_holding, .on_beat = on_beat };

static const char *in_root(const char *name)
{
	return fixture_path(b->root, name);
}

static void write_lease(const char *file, const char *id, const char *rules)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "lease %s\nguest require source\nguest source 10.0.0.1/32\nmode allowlist\n%s", id,
		 rules);
	fixture_write(in_root(file), text);
}

static void bench_start(void)
{
	bench = (struct bench){ 0 };
	b = &bench;
	log_init("test", LOG_LEVEL_ERROR);
	cr_assert_eq(crypto_init(), ERR_OK);
	umask(022);
	b->loop = loop_create();
	arena_init(&b->arena, 0);
	fault_list_init(&b->faults, &b->arena);
	fixture_make_folder(b->folder);
	snprintf(b->root, sizeof(b->root), "%s/root", b->folder);
	cr_assert_eq(mkdir(b->root, 0755), 0);
	cr_assert_eq(mkdir(in_root("leases"), 0755), 0);
	cr_assert_eq(mkdir(in_root("presets"), 0755), 0);
	fixture_write(in_root("ceiling.policy"), "allow any\n");
}

static enum err open_driver(void)
{
	struct driver_file_options options = { .root = b->root };

	return driver_file_open(b->loop, &options, &b->faults, &b->driver);
}

static void start_driver(void)
{
	cr_assert_eq(open_driver(), ERR_OK, "%s",
		     b->faults.first == NULL ? "" : b->faults.first->text);
	cr_assert_eq(driver_start(b->driver, &events, NULL), ERR_OK);
}

static void bench_stop(void)
{
	driver_close(b->driver);
	replay_finish(&b->replay);
	loop_destroy(b->loop);
	arena_finish(&b->arena);
	fixture_remove_folder(b->folder);
}

/* Turn until the source holds exactly this. */
static void await(const char *held)
{
	b->awaited = held;
	b->came = strcmp(b->held, held) == 0;
	cr_assert(fixture_turn_until(b->loop, &b->came), "holds \"%s\", not \"%s\"", b->held, held);
}

static void await_beat(void)
{
	b->seen = false;
	cr_assert(fixture_turn_until(b->loop, &b->seen));
}

/* Turn for a while; what must not happen has the time to. */
static void turn_for(uint64_t ms)
{
	uint64_t until = clock_mono_ms() + ms;

	while (clock_mono_ms() < until)
		loop_turn(b->loop, 5);
}

Test(driver_file, offers_what_is_there_and_beats_at_once_and_then_each_second)
{
	size_t before = fixture_fd_count();

	bench_start();
	write_lease("leases/a.policy", "ls_a", "allow https://a.example.org\n");
	write_lease("leases/b.policy", "ls_b", "allow nonsense\n");
	start_driver();
	cr_assert_str_eq(b->held, "ls_a ls_b!");
	cr_assert_eq(b->offers, 1);
	cr_assert_eq(b->beats, 1);
	await_beat();
	cr_assert_eq(b->offers, 1);
	cr_assert_eq(b->beats, 2);
	bench_stop();
	cr_assert_eq(fixture_fd_count(), before);
}

Test(driver_file, follows_rename_rewrite_and_delete)
{
	bench_start();
	start_driver();
	cr_assert_str_eq(b->held, "");
	write_lease("a.new", "ls_a", "");
	turn_for(20);
	cr_assert_str_eq(b->held, "", "not in leases/ yet");
	cr_assert_eq(rename(in_root("a.new"), in_root("leases/a.policy")), 0);
	await("ls_a");
	write_lease("leases/b.policy", "ls_b", "");
	await("ls_a ls_b");
	write_lease("leases/a.policy", "ls_other", "");
	await("ls_b ls_other");
	cr_assert_eq(unlink(in_root("leases/b.policy")), 0);
	await("ls_other");
	bench_stop();
}

Test(driver_file, quarantines_a_fault_and_comes_back_when_it_is_mended)
{
	bench_start();
	write_lease("leases/a.policy", "ls_a", "");
	write_lease("leases/b.policy", "ls_b", "");
	start_driver();
	write_lease("leases/a.policy", "ls_a", "allow https://*\n");
	await("ls_a! ls_b");
	write_lease("leases/a.policy", "ls_a", "allow https://a.example.org\n");
	await("ls_a ls_b");
	/* Presets and ceiling count for every lease that leans on them. */
	fixture_write(in_root("presets/p.policy"), "allow https://p.example.org\n");
	write_lease("leases/a.policy", "ls_a", "use p\n");
	turn_for(50);
	cr_assert_str_eq(b->held, "ls_a ls_b");
	fixture_write(in_root("presets/p.policy"), "allow what\n");
	await("ls_a! ls_b");
	fixture_write(in_root("presets/p.policy"), "allow https://p.example.org\n");
	await("ls_a ls_b");
	fixture_write(in_root("ceiling.policy"), "allow what\n");
	await("ls_a! ls_b!");
	await_beat();
	bench_stop();
}

/* Away, seen to be away, and back under the same name: what editors do. Returns how long it was away. */
static uint64_t step_out(void)
{
	uint64_t from_ms = clock_mono_ms();

	cr_assert_eq(unlink(in_root("leases/a.policy")), 0);
	turn_for(8);
	cr_assert_eq(rename(in_root("a.next"), in_root("leases/a.policy")), 0);
	return clock_mono_ms() - from_ms;
}

Test(driver_file, looks_past_a_loss_that_lasts_less_than_30_ms)
{
	bool was_short = false;

	bench_start();
	write_lease("leases/a.policy", "ls_a", "");
	start_driver();
	/* A busy machine may take longer over it, and then the loss is one. */
	for (unsigned i = 0; i < 50 && !was_short; i++) {
		unsigned offers = b->offers;

		write_lease("a.next", "ls_a", i % 2 == 0 ? "allow https://a.example.org\n" : "");
		was_short = step_out() < 20;
		turn_for(60);
		cr_assert_str_eq(b->held, "ls_a");
		if (was_short)
			cr_assert_eq(b->offers, offers + 1, "the loss was never offered");
	}
	cr_assert(was_short);
	bench_stop();
}

Test(driver_file, offers_no_lease_with_a_preset_that_was_another_before_it)
{
	unsigned offers;

	bench_start();
	fixture_write(in_root("presets/p.policy"), "allow https://wide.example\n");
	write_lease("leases/a.policy", "ls_a", "use p\n");
	start_driver();
	await("ls_a");
	await_beat();
	offers = (unsigned)b->offers;
	fixture_write(in_root("presets/p.policy"), "allow https://narrow.example\n");
	write_lease("leases/b.policy", "ls_b", "use p\n");
	await("ls_a ls_b");
	await_beat();
	cr_assert_eq(b->offers, offers + 1, "at first with the wide one");
	/* And a lease alone waits for nothing. */
	write_lease("leases/c.policy", "ls_c", "use p\n");
	await("ls_a ls_b ls_c");
	bench_stop();
}

Test(driver_file, acts_on_a_file_only_once_it_is_closed)
{
	char text[256];
	int fd;

	bench_start();
	write_lease("leases/a.policy", "ls_a", "deny bad.example.org\nallow https://*.example.org\n");
	start_driver();
	snprintf(text, sizeof(text), "%s", fixture_read(in_root("leases/a.policy")));
	fd = open(in_root("leases/a.policy"), O_WRONLY | O_TRUNC | O_CLOEXEC);
	/* Longer than from one beat to the next. */
	for (size_t i = 0; i < strlen(text); i += 4) {
		size_t some = strlen(text) - i < 4 ? strlen(text) - i : 4;

		cr_assert_eq(write(fd, text + i, some), (ssize_t)some);
		turn_for(35);
		cr_assert_eq(b->offers, 1, "after %zu bytes", i);
	}
	close(fd);
	turn_for(50);
	cr_assert_str_eq(b->held, "ls_a");
	await_beat();
	bench_stop();
}

Test(driver_file, notices_folders_that_were_replaced)
{
	char old[100], fresh[100];

	bench_start();
	write_lease("leases/a.policy", "ls_a", "");
	start_driver();
	snprintf(old, sizeof(old), "%s/old", b->folder);
	cr_assert_eq(mkdir(in_root("leases.new"), 0755), 0);
	write_lease("leases.new/b.policy", "ls_b", "");
	cr_assert_eq(rename(in_root("leases"), old), 0);
	cr_assert_eq(rename(in_root("leases.new"), in_root("leases")), 0);
	await("ls_b");
	/* And is awake for what happens in the new one. */
	write_lease("leases/c.policy", "ls_c", "");
	await("ls_b ls_c");
	/* The root itself. */
	snprintf(old, sizeof(old), "%s/old_root", b->folder);
	snprintf(fresh, sizeof(fresh), "%s/fresh", b->folder);
	cr_assert_eq(rename(b->root, old), 0);
	cr_assert_eq(mkdir(fresh, 0755), 0);
	cr_assert_eq(rename(fresh, b->root), 0);
	cr_assert_eq(mkdir(in_root("leases"), 0755), 0);
	cr_assert_eq(mkdir(in_root("presets"), 0755), 0);
	fixture_write(in_root("ceiling.policy"), "allow any\n");
	write_lease("leases/d.policy", "ls_d", "");
	await("ls_d");
	bench_stop();
}

Test(driver_file, does_not_beat_while_the_root_is_gone_or_not_trusted)
{
	char away[100];
	unsigned beats;

	bench_start();
	write_lease("leases/a.policy", "ls_a", "");
	start_driver();
	snprintf(away, sizeof(away), "%s/away", b->folder);
	cr_assert_eq(rename(b->root, away), 0);
	beats = b->beats;
	turn_for(1200);
	cr_assert_eq(b->beats, beats);
	cr_assert_eq(rename(away, b->root), 0);
	await_beat();
	cr_assert_str_eq(b->held, "ls_a");
	cr_assert_eq(chmod(b->root, 0777), 0);
	turn_for(20);
	beats = b->beats;
	turn_for(1200);
	cr_assert_eq(b->beats, beats, "others could write there");
	cr_assert_eq(chmod(b->root, 0755), 0);
	await_beat();
	bench_stop();
}

Test(driver_file, offers_again_what_was_not_taken_and_does_not_beat_until_then)
{
	bench_start();
	write_lease("leases/a.policy", "ls_a", "");
	b->is_refusing = true;
	start_driver();
	cr_assert_eq(b->offers, 1);
	cr_assert_eq(b->beats, 0);
	b->is_refusing = false;
	await("ls_a");
	cr_assert_eq(b->beats, 1);
	bench_stop();
}

Test(driver_file, names_only_what_differs_until_somebody_else_asks_for_everything)
{
	bench_start();
	write_lease("leases/a.policy", "ls_a", "");
	write_lease("leases/b.policy", "ls_b", "");
	write_lease("leases/c.policy", "ls_c", "");
	start_driver();
	cr_assert(b->replay.is_last_complete);
	write_lease("leases/d.policy", "ls_d", "");
	await("ls_a ls_b ls_c ls_d");
	cr_assert_not(b->replay.is_last_complete);
	cr_assert_eq(b->replay.last_count, 1);
	cr_assert_eq(unlink(in_root("leases/b.policy")), 0);
	await("ls_a ls_c ls_d");
	cr_assert_not(b->replay.is_last_complete);
	cr_assert_eq(b->replay.last_count, 1);
	/* As one who took something else since. */
	b->replay.receipt += 7;
	write_lease("leases/a.policy", "ls_a", "allow https://a.example.org\n");
	write_lease("leases/e.policy", "ls_e", "");
	await("ls_a ls_c ls_d ls_e");
	cr_assert(b->replay.is_last_complete);
	cr_assert_eq(b->replay.last_count, 4);
	bench_stop();
}

Test(driver_file, refuses_to_start_without_a_sound_root)
{
	bench_start();
	fixture_write(in_root("ceiling.policy"), "allow what\n");
	cr_assert_eq(open_driver(), ERR_INVALID);
	cr_assert_gt(b->faults.error_count, 0);
	cr_assert_eq(unlink(in_root("ceiling.policy")), 0);
	cr_assert_neq(open_driver(), ERR_OK);
	fixture_write(in_root("ceiling.policy"), "allow any\n");
	cr_assert_eq(chmod(in_root("ceiling.policy"), 0666), 0);
	cr_assert_neq(open_driver(), ERR_OK);
	cr_assert_eq(chmod(in_root("ceiling.policy"), 0644), 0);
	snprintf(b->root, sizeof(b->root), "%s/none", b->folder);
	cr_assert_neq(open_driver(), ERR_OK);
	b->driver = NULL;
	bench_stop();
}

Test(driver_file, prints_a_lease_by_the_text_it_was_read_from)
{
	uint8_t one[STICKY_PRINT_LEN], two[STICKY_PRINT_LEN];

	bench_start();
	write_lease("leases/a.policy", "ls_a", "");
	start_driver();
	cr_assert(driver_print(b->driver, "ls_a", one));
	cr_assert(driver_print(b->driver, "ls_a", two));
	cr_assert_arr_eq(one, two, sizeof(one));
	await_beat();
	write_lease("leases/a.policy", "ls_a", "# a comment\n");
	cr_assert(driver_print(b->driver, "ls_a", two));
	cr_assert_arr_eq(one, two, sizeof(one), "it is not in force yet");
	await_beat();
	cr_assert(driver_print(b->driver, "ls_a", two));
	cr_assert_neq(memcmp(one, two, sizeof(one)), 0);
	cr_assert_not(driver_print(b->driver, "ls_none", two));
	bench_stop();
}
