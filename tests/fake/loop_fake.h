/*
 * net/loop.h over scripted time: link loop_fake.c and libnet's loop is not pulled in. Time stands still until a turn with a wait
 * moves it, descriptors are ready when the script says so, and everything is on one thread. For scenarios and fuzz targets.
 */
#ifndef EGRESS_TESTS_FAKE_LOOP_FAKE_H
#define EGRESS_TESTS_FAKE_LOOP_FAKE_H

#include <stddef.h>
#include <stdint.h>

#include "net/loop.h"

/* Which of `what` (LOOP_READ, LOOP_WRITE) is `fd` ready for now? */
typedef unsigned loop_fake_ready_fn(void *arg, int fd, unsigned what);
/* When will some descriptor next become ready by itself, in loop time? UINT64_MAX: never. */
typedef uint64_t loop_fake_next_fn(void *arg);

/* Ask these about descriptors at every turn; `next` may be NULL. */
void loop_fake_script(struct loop *l, loop_fake_ready_fn *ready, loop_fake_next_fn *next, void *arg);
/* Make base/clock show this loop's time (monotonic and wall alike); NULL gives the real one back. */
void loop_fake_drive_clock(struct loop *l);
/* The wall clock goes this far ahead of loop time from now on. */
void loop_fake_set_wall_ahead(struct loop *l, uint64_t ahead_ms);
/*
 * Go on until `ms` of loop time have passed, stopping at every timer and every moment the script names; several turns happen
 * in one moment while something is ready, at most `turns_max` in all. False when those did not suffice: something spins.
 */
bool loop_fake_advance(struct loop *l, uint64_t ms, unsigned turns_max);
/* Turn without moving time until nothing is ready, due or deferred; false when `turns_max` did not suffice. */
bool loop_fake_settle(struct loop *l, unsigned turns_max);
/* What is still started; zero once everybody has cleaned up. */
size_t loop_fake_watch_count(const struct loop *l);
size_t loop_fake_timer_count(const struct loop *l);
size_t loop_fake_deferred_count(const struct loop *l);

#endif
