/*
 * One write(2) per line to standard error, at most 1,024 bytes, no allocation, no lock: lines of threads do not mix.
 * Every byte outside printable ASCII is replaced, so that no value can forge a line. Levels are set once, at boot.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define LINE_MAX_BYTES 1024

static const char *program_name = "-";
static enum log_level least = LOG_LEVEL_INFO;
static _Thread_local char thread_name[16];

void log_init(const char *program, enum log_level level)
{
	program_name = program;
	least = level;
}

void log_thread_name(const char *name)
{
	snprintf(thread_name, sizeof(thread_name), "%s", name != NULL ? name : "");
}

static const char *level_word(enum log_level level)
{
	static const char *const words[] = {
		[LOG_LEVEL_ERROR] = "error",
		[LOG_LEVEL_WARN] = "warn",
		[LOG_LEVEL_INFO] = "info",
		[LOG_LEVEL_DEBUG] = "debug",
	};

	return words[level];
}

/* Bytes that snprintf really left in a space of `cap`. */
static size_t printed(int wanted, size_t cap)
{
	if (wanted < 0)
		return 0;
	return (size_t)wanted < cap ? (size_t)wanted : cap - 1;
}

static void write_line(enum log_level level, uint32_t held_back, const char *format, va_list args)
{
	char line[LINE_MAX_BYTES];
	char time_text[25], tail[48] = "";
	size_t tail_len, room, len;
	ssize_t ignored;
	int wanted, saved_errno = errno;
	bool cut;

	if (held_back > 0)
		snprintf(tail, sizeof(tail), " held_back=%u", (unsigned)held_back);
	tail_len = strlen(tail);
	room = sizeof(line) - tail_len; /* one byte for the newline: where snprintf puts its zero */
	clock_print_wall(clock_wall_ms(), time_text);
	len = printed(snprintf(line, room, "%s %s %s%s%s ", time_text, level_word(level),
			       program_name, thread_name[0] != '\0' ? "/" : "", thread_name),
		      room);
	wanted = vsnprintf(line + len, room - len, format, args);
	cut = wanted >= 0 && (size_t)wanted >= room - len;
	len += printed(wanted, room - len);
	if (cut)
		memcpy(line + len - 3, "...", 3);
	memcpy(line + len, tail, tail_len);
	len += tail_len;
	for (size_t i = 0; i < len; i++) {
		if (line[i] < 0x20 || line[i] > 0x7e)
			line[i] = '?';
	}
	line[len++] = '\n';
	ignored = write(STDERR_FILENO, line, len);
	(void)ignored;
	errno = saved_errno;
}

void log_line(enum log_level level, const char *format, ...)
{
	va_list args;

	if (level > least)
		return;
	va_start(args, format);
	write_line(level, 0, format, args);
	va_end(args);
}

void log_limited(struct log_limit *limit, enum log_level level, const char *format, ...)
{
	uint64_t now_ms;
	va_list args;

	if (level > least)
		return;
	now_ms = clock_mono_ms();
	if (now_ms - limit->since_ms >= limit->interval_ms) {
		limit->since_ms = now_ms;
		limit->sent = 0;
	}
	if (limit->sent >= limit->burst) {
		limit->held_back++;
		return;
	}
	limit->sent++;
	va_start(args, format);
	write_line(level, limit->held_back, format, args);
	va_end(args);
	limit->held_back = 0;
}
