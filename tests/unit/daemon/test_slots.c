/* Slots of the control page: who has one, who gives it back, and which the sidecar is told. */
#include "daemon/slots.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"

#define COUNT 4

static struct gate *gate;
static struct slots slots;

static void begin(void)
{
	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(gate_create(COUNT, &gate), ERR_OK);
	cr_assert_eq(slots_init(&slots, gate), ERR_OK);
}

static void end(void)
{
	slots_finish(&slots);
	gate_destroy(gate);
}

/* The ids that are gone, one after the other. */
static bool is_in(void *arg, struct text id)
{
	const char *gone = arg;

	for (; *gone != '\0'; gone += strlen(gone) + 1) {
		if (text_is(id, gone))
			return true;
	}
	return false;
}

struct told {
	char text[256];
};

static void on_told(void *arg, struct text id, uint32_t slot)
{
	struct told *told = arg;
	size_t len = strlen(told->text);

	cr_expect_eq(slots_find(&slots, id), slot);
	snprintf(told->text + len, sizeof(told->text) - len, "%.*s ", (int)id.len, id.at);
}

static const char *named(void)
{
	static struct told told;

	told.text[0] = '\0';
	slots_visit_named(&slots, on_told, &told);
	return told.text;
}

static uint32_t take(const char *id)
{
	return slots_take(&slots, text_of(id));
}

Test(slots, are_given_once_to_each_lease_while_there_are_any)
{
	char long_id[RECORD_LEASE_MAX + 2];

	begin();
	for (unsigned round = 0; round < 2; round++) {
		cr_expect_eq(take("a"), 0);
		cr_expect_eq(take("b"), 1);
		cr_expect_eq(take("c"), 2);
		cr_expect_eq(take("d"), 3);
		cr_expect_eq(take("e"), SLOTS_NONE);
	}
	cr_expect_eq(slots_count(&slots), COUNT);
	cr_expect_eq(slots_find(&slots, text_of("c")), 2);
	cr_expect_eq(slots_find(&slots, text_of("e")), SLOTS_NONE);
	memset(long_id, 'x', sizeof(long_id) - 1);
	long_id[sizeof(long_id) - 1] = '\0';
	cr_expect_eq(take(long_id), SLOTS_NONE);
	end();
}

Test(slots, are_taken_back_only_from_leases_that_left_or_came_and_are_gone)
{
	begin();
	(void)take("a");
	(void)take("b");
	/* What is new is asked about once: who took it may have failed. */
	cr_expect_eq(slots_sweep(&slots, is_in, (void *)(uintptr_t)"b\0"), 1);
	cr_expect_eq(gate_generation(gate, 1), 1);
	cr_expect_eq(slots_find(&slots, text_of("b")), SLOTS_NONE);
	/* Then only about those that left. */
	cr_expect_eq(slots_sweep(&slots, is_in, (void *)(uintptr_t)"a\0"), 0);
	slots_leave(&slots, text_of("a"));
	slots_leave(&slots, text_of("a"));
	slots_leave(&slots, text_of("nobody"));
	cr_expect_eq(slots_sweep(&slots, is_in, (void *)(uintptr_t)""), 0); /* it came back */
	cr_expect_eq(slots_find(&slots, text_of("a")), 0);
	cr_expect_eq(gate_generation(gate, 0), 0);
	slots_leave(&slots, text_of("a"));
	cr_expect_eq(slots_sweep(&slots, is_in, (void *)(uintptr_t)"a\0"), 1);
	cr_expect_eq(gate_generation(gate, 0), 1);
	cr_expect_eq(slots_count(&slots), 0);
	end();
}

Test(slots, tell_whom_a_revocation_is_about_though_generations_went_on)
{
	begin();
	(void)take("a");
	cr_expect(slots_is_about(&slots, 0, 0));
	cr_expect_not(slots_is_about(&slots, 0, 1), "nobody can know that one");
	/* A revocation, and the lease opened again. */
	cr_expect_eq(gate_next_generation(gate, 0), 1);
	cr_expect(slots_is_about(&slots, 0, 0));
	cr_expect(slots_is_about(&slots, 0, 1));
	cr_expect_not(slots_is_about(&slots, 0, UINT32_MAX));
	cr_expect_not(slots_is_about(&slots, 0, 1ULL << 32));
	cr_expect_eq(slots_sweep(&slots, is_in, (void *)(uintptr_t)"a\0"), 1);
	cr_expect_eq(take("b"), 0);
	cr_expect_not(slots_is_about(&slots, 0, 1), "that was another lease");
	cr_expect(slots_is_about(&slots, 0, 2));
	end();
}

Test(slots, are_not_given_again_while_the_page_calls_them_open)
{
	begin();
	(void)take("a");
	gate_set_slot(gate, 0, GATE_SLOT_OPEN);
	cr_expect_eq(slots_sweep(&slots, is_in, (void *)(uintptr_t)"a\0"), 1);
	cr_expect_eq(take("b"), 1);
	gate_set_slot(gate, 0, GATE_SLOT_CLOSED);
	cr_expect_eq(take("c"), 0);
	end();
}

Test(slots, are_told_once_when_new_or_named_or_all)
{
	begin();
	(void)take("a");
	(void)take("b");
	cr_expect_str_eq(named(), "a b ");
	cr_expect_str_eq(named(), "");
	(void)take("a");
	cr_expect_str_eq(named(), "");
	slots_name(&slots, text_of("b"));
	slots_name(&slots, text_of("b"));
	slots_name(&slots, text_of("nobody"));
	(void)take("c");
	cr_expect_str_eq(named(), "b c ");
	slots_name(&slots, text_of("a"));
	slots_name_all(&slots);
	cr_expect_eq(strlen(named()), strlen("a b c "));
	cr_expect_str_eq(named(), "");
	/* One that is gone is not told. */
	slots_name(&slots, text_of("a"));
	slots_leave(&slots, text_of("a"));
	cr_expect_eq(slots_sweep(&slots, is_in, (void *)(uintptr_t)"a\0"), 1);
	cr_expect_str_eq(named(), "");
	end();
}

Test(slots, stay_free_when_memory_fails)
{
	uint64_t nth = 1;

	begin();
	for (;; nth++) {
		uint32_t slot;

		alloc_fail_at(nth);
		slot = take("a");
		alloc_fail_at(0);
		if (slot != SLOTS_NONE)
			break;
		cr_expect_eq(slots_count(&slots), 0);
		cr_expect_str_eq(named(), "");
	}
	cr_expect_gt(nth, 2);
	cr_expect_eq(take("b") + take("c") + take("d"), 1 + 2 + 3);
	end();
}
