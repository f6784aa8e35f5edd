/*
 * Log lines for operators on standard error: time, level, program, then `event key=value …`. Rate-limited per call site by
 * the caller's log_limit. Values from guests and servers go through text_escape first. Secrets never get here.
 */
#ifndef EGRESS_BASE_LOG_H
#define EGRESS_BASE_LOG_H

#include <stdint.h>

#include "base/attr.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* At most `burst` lines per `interval_ms`; what was held back is said with the next line. */
struct log_limit {
	uint32_t burst;
	uint32_t interval_ms;
	uint32_t sent, held_back;
	uint64_t since_ms;
};

/* Name the program (static text) and choose the least important level to print. */
void log_init(const char *program, enum log_level level);
void log_line(enum log_level level, const char *format, ...) ATTR_PRINTF(2, 3);
/* As log_line, but under `limit`. */
void log_limited(struct log_limit *limit, enum log_level level, const char *format, ...)
	ATTR_PRINTF(3, 4);
/* Prefix every line of this thread ("w0", "sidecar"); at most 15 characters; NULL removes it. */
void log_thread_name(const char *name);

#endif
