/* The control page: zeros and impossible values refuse, deadlines pass, generations void, slots speak. */
#include "lease/gate.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

#define S 1000000000ull
#define SLOTS 4

static uint64_t now_ns = 1000 * S;

static uint64_t fake_mono(void)
{
	return now_ns;
}

static uint64_t fake_wall(void)
{
	return 0;
}

static struct gate *open_gate(void)
{
	static const struct clock_source fake = { fake_mono, fake_wall };
	struct gate *g;

	clock_use(&fake);
	cr_assert_eq(gate_create(SLOTS, &g), ERR_OK);
	return g;
}

static struct gate *live_gate(void)
{
	struct gate *g = open_gate();

	gate_set_deadlines(g, now_ns + 10 * S, now_ns + 30 * S);
	gate_set_control(g, GATE_LIVE);
	gate_set_slot(g, 1, GATE_SLOT_OPEN);
	return g;
}

Test(gate, refuses_everything_while_it_is_all_zeros)
{
	struct gate *g = open_gate();

	cr_expect_eq(gate_slot_count(g), SLOTS);
	for (uint32_t slot = 0; slot < SLOTS; slot++)
		cr_expect_eq(gate_check(g, slot, 0, now_ns), REASON_NOT_READY);
	cr_expect_eq(gate_check_control(g, now_ns), REASON_NOT_READY);
	cr_expect_eq(gate_check_control(g, 0), REASON_NOT_READY);
	cr_expect_eq(gate_check_cut(g, now_ns), REASON_CONTROL_STALE);
	gate_destroy(g);
	gate_destroy(NULL);
}

Test(gate, needs_control_deadline_slot_and_generation_all_at_once)
{
	struct gate *g = live_gate();

	cr_expect_eq(gate_check(g, 1, 0, now_ns), REASON_ALLOWED);
	cr_expect_eq(gate_check(g, 0, 0, now_ns), REASON_NOT_READY);
	cr_expect_eq(gate_check(g, 1, 1, now_ns), REASON_POLICY_CHANGED);
	cr_expect_eq(gate_check(g, SLOTS, 0, now_ns), REASON_INTERNAL);
	cr_expect_eq(gate_check(g, UINT32_MAX, 0, now_ns), REASON_INTERNAL);
	gate_set_slot(g, SLOTS, GATE_SLOT_OPEN);
	cr_expect_eq(gate_slot_state(g, SLOTS), GATE_SLOT_CLOSED);
	gate_destroy(g);
}

Test(gate, refuses_new_at_one_deadline_and_cuts_at_the_other)
{
	struct gate *g = live_gate();

	cr_expect_eq(gate_check(g, 1, 0, now_ns + 10 * S - 1), REASON_ALLOWED);
	cr_expect_eq(gate_check(g, 1, 0, now_ns + 10 * S), REASON_CONTROL_STALE);
	cr_expect_eq(gate_check_control(g, now_ns + 10 * S), REASON_CONTROL_STALE);
	cr_expect_eq(gate_check_cut(g, now_ns + 30 * S - 1), REASON_ALLOWED);
	cr_expect_eq(gate_check_cut(g, now_ns + 30 * S), REASON_CONTROL_STALE);
	gate_destroy(g);
}

Test(gate, speaks_for_every_state_of_control)
{
	static const struct {
		enum gate_control state;
		enum reason new, cut;
	} rows[] = {
		{ GATE_COLD, REASON_NOT_READY, REASON_ALLOWED },
		{ GATE_SYNC, REASON_NOT_READY, REASON_ALLOWED },
		{ GATE_LIVE, REASON_ALLOWED, REASON_ALLOWED },
		{ GATE_LAG, REASON_ALLOWED, REASON_ALLOWED },
		{ GATE_STALE, REASON_CONTROL_STALE, REASON_ALLOWED },
		{ GATE_CUT, REASON_CONTROL_STALE, REASON_CONTROL_STALE },
		{ GATE_HALT, REASON_CONTROL_HALT, REASON_ALLOWED },
		{ (enum gate_control)(GATE_HALT + 1), REASON_CONTROL_HALT, REASON_ALLOWED },
	};
	struct gate *g = live_gate();

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		gate_set_control(g, rows[i].state);
		cr_expect_eq(gate_check(g, 1, 0, now_ns), rows[i].new, "state %zu", i);
		cr_expect_eq(gate_check_cut(g, now_ns), rows[i].cut, "state %zu", i);
	}
	gate_set_control(g, GATE_HALT);
	cr_expect_eq(gate_check_cut(g, now_ns + 30 * S), REASON_CONTROL_HALT);
	gate_destroy(g);
}

Test(gate, speaks_for_every_state_of_a_slot_before_its_generation)
{
	static const struct {
		enum gate_slot_state state;
		enum reason why;
	} rows[] = {
		{ GATE_SLOT_CLOSED, REASON_NOT_READY },
		{ GATE_SLOT_REVOKED, REASON_LEASE_REVOKED },
		{ GATE_SLOT_SUSPENDED, REASON_LEASE_SUSPENDED },
		{ GATE_SLOT_INVALID, REASON_POLICY_INVALID },
		{ GATE_SLOT_EXPIRED, REASON_LEASE_EXPIRED },
		{ (enum gate_slot_state)99, REASON_NOT_READY },
	};
	struct gate *g = live_gate();

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		gate_set_slot(g, 1, rows[i].state);
		cr_expect_eq(gate_check(g, 1, 0, now_ns), rows[i].why, "row %zu", i);
		cr_expect_eq(gate_check(g, 1, 7, now_ns), rows[i].why, "row %zu", i);
	}
	gate_destroy(g);
}

Test(gate, voids_what_was_permitted_under_an_older_generation)
{
	struct gate *g = live_gate();
	uint32_t before = gate_generation(g, 1);

	cr_expect_eq(gate_next_generation(g, 1), before + 1);
	cr_expect_eq(gate_generation(g, 1), before + 1);
	cr_expect_eq(gate_check(g, 1, before, now_ns), REASON_POLICY_CHANGED);
	cr_expect_eq(gate_check(g, 1, before + 1, now_ns), REASON_ALLOWED);
	cr_expect_eq(gate_generation(g, 0), 0);
	cr_expect_eq(gate_next_generation(g, SLOTS), 0);
	gate_destroy(g);
}

Test(gate, cuts_deadlines_to_the_ceilings_when_they_are_set)
{
	struct gate *g = live_gate();
	uint64_t refuse, cut;

	gate_set_deadlines(g, UINT64_MAX, UINT64_MAX);
	gate_deadlines(g, &refuse, &cut);
	cr_expect_eq(refuse, now_ns + GATE_REFUSE_AFTER_CEILING_S * S);
	cr_expect_eq(cut, now_ns + GATE_CUT_AFTER_CEILING_S * S);
	cr_expect_eq(gate_check(g, 1, 0, now_ns), REASON_ALLOWED);
	gate_set_deadlines(g, 0, 0);
	cr_expect_eq(gate_check(g, 1, 0, now_ns), REASON_CONTROL_STALE);
	gate_destroy(g);
}

Test(gate, halts_on_a_deadline_no_honest_writer_could_have_set)
{
	struct gate *g = live_gate();

	/* Seen from earlier, the same deadlines lie beyond the ceilings. */
	cr_expect_eq(gate_check(g, 1, 0, now_ns - 111 * S), REASON_CONTROL_HALT);
	cr_expect_eq(gate_check(g, 1, 0, now_ns - 110 * S), REASON_ALLOWED);
	cr_expect_eq(gate_check_cut(g, now_ns - 271 * S), REASON_CONTROL_HALT);
	cr_expect_eq(gate_check_cut(g, now_ns - 270 * S), REASON_ALLOWED);
	gate_destroy(g);
}

Test(gate, is_one_page_seen_from_two_sides)
{
	struct gate *g = live_gate(), *other;

	cr_assert_eq(gate_map(gate_fd(g), &other), ERR_OK);
	cr_expect_eq(gate_fd(other), -1);
	cr_expect_eq(gate_slot_count(other), SLOTS);
	gate_set_slot(other, 1, GATE_SLOT_REVOKED);
	cr_expect_eq(gate_check(g, 1, 0, now_ns), REASON_LEASE_REVOKED);
	gate_next_generation(g, 2);
	cr_expect_eq(gate_generation(other, 2), 1);
	gate_set_control(other, GATE_HALT);
	cr_expect_eq(gate_control(g), GATE_HALT);
	gate_destroy(other);
	gate_destroy(g);
}

static void expect_no_page(int fd, const char *what)
{
	struct gate *g;

	cr_expect_eq(gate_map(fd, &g), ERR_INVALID, "%s", what);
	if (fd >= 0)
		close(fd);
}

static int page_like(const void *content, size_t size, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, content, size), (ssize_t)size);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

Test(gate, maps_only_a_page_that_cannot_shrink_and_is_ours)
{
	const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW;
	static uint8_t page[4096], zeros[4096];
	struct gate *g = live_gate(), *other;
	struct stat st;
	size_t size;
	int fd;

	cr_assert_eq(fstat(gate_fd(g), &st), 0);
	size = (size_t)st.st_size;
	cr_assert_eq(pread(gate_fd(g), page, size, 0), (ssize_t)size);
	fd = page_like(page, size, seals);
	cr_assert_eq(gate_map(fd, &other), ERR_OK, "a true copy is a page");
	gate_destroy(other);
	close(fd);
	expect_no_page(-1, "nothing");
	expect_no_page(page_like(zeros, size, seals), "zeros have no magic");
	expect_no_page(page_like(page, size, seals & ~F_SEAL_SHRINK), "it could shrink");
	expect_no_page(page_like(page, size, seals & ~F_SEAL_GROW), "it could grow");
	expect_no_page(page_like(page, size, seals & ~F_SEAL_SEAL), "more seals could come");
	expect_no_page(page_like(page, size + 1, seals), "a slot begun");
	expect_no_page(page_like(page, size - 1, seals), "a slot cut");
	expect_no_page(page_like(page, size + sizeof(struct gate_slot), seals), "a slot more than it says");
	expect_no_page(page_like(page, size - SLOTS * sizeof(struct gate_slot), seals), "no slot");
	expect_no_page(page_like(page, 0, seals), "empty");
	page[0] ^= 1;
	expect_no_page(page_like(page, size, seals), "another magic");
	cr_expect_neq(ftruncate(gate_fd(g), 0), 0);
	cr_expect_neq(ftruncate(gate_fd(g), (off_t)size * 2), 0);
	gate_destroy(g);
}

Test(gate, writes_nothing_behind_its_last_slot)
{
	struct gate *g = live_gate();
	const uint8_t *raw = mmap(NULL, 4096, PROT_READ, MAP_SHARED, gate_fd(g), 0);
	struct stat st;

	cr_assert_neq(raw, MAP_FAILED);
	cr_assert_eq(fstat(gate_fd(g), &st), 0);
	for (uint32_t slot = SLOTS; slot < SLOTS + 2; slot++) {
		gate_set_slot(g, slot, GATE_SLOT_OPEN);
		cr_expect_eq(gate_next_generation(g, slot), 0);
		cr_expect_eq(gate_generation(g, slot), 0);
	}
	for (size_t at = (size_t)st.st_size; at < 4096; at++)
		cr_assert_eq(raw[at], 0, "byte %zu", at);
	munmap((void *)(uintptr_t)raw, 4096);
	gate_destroy(g);
}

Test(gate, is_created_whole_or_not_at_all)
{
	struct gate *g = NULL;

	cr_expect_eq(gate_create(0, &g), ERR_INVALID);
	cr_expect_eq(gate_create(UINT32_MAX, &g), ERR_INVALID);
	alloc_fail_at(1);
	cr_expect_eq(gate_create(SLOTS, &g), ERR_NO_MEMORY);
	cr_expect_null(g);
}
