/*
 * Time through one pointer that tests replace. Monotonic time is CLOCK_BOOTTIME, so that deadlines in the control
 * page mean the same in every process and keep running while the machine is suspended.
 */
#ifndef EGRESS_BASE_CLOCK_H
#define EGRESS_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/text.h"

struct clock_source {
	uint64_t (*mono_ns)(void); /* nanoseconds since boot */
	uint64_t (*wall_ms)(void); /* milliseconds since 1970, UTC; may step */
};

uint64_t clock_mono_ns(void);
uint64_t clock_mono_ms(void);
uint64_t clock_wall_ms(void);
/* Replace the source (tests); NULL restores the real one. Not thread-safe: call before threads start. */
void clock_use(const struct clock_source *source);
/* Write "2026-11-30T12:00:00.123Z" and a zero byte (25 bytes); later than the year 9999 prints its last moment. */
void clock_print_wall(uint64_t wall_ms, char out_text[25]);
/* Parse "2026-12-01T00:00:00Z" (RFC 3339, UTC only, years 1970-9999, optional fraction cut to milliseconds). */
bool clock_parse_wall(struct text t, uint64_t *out_wall_ms) ATTR_MUST_CHECK;

#endif
