/* What a source told; see heard.h. */
#include "heard.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void write_down(struct heard *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void write_down(struct heard *h, const char *format, ...)
{
	size_t len = strlen(h->story);
	va_list args;

	va_start(args, format);
	vsnprintf(h->story + len, sizeof(h->story) - len, format, args);
	va_end(args);
	if (h->relist_at != NULL && strstr(h->story, h->relist_at) != NULL) {
		h->relist_at = NULL;
		frames_relist(h->source);
	}
	if (h->until != NULL && strstr(h->story, h->until) != NULL)
		h->is_enough = true;
}

static void on_begin(void *arg)
{
	write_down(arg, "begin ");
}

static void on_put(void *arg, struct text key, struct text envelope)
{
	write_down(arg, "put(%.*s=%.*s) ", (int)key.len, key.at, (int)envelope.len, envelope.at);
}

static void on_del(void *arg, struct text key)
{
	write_down(arg, "del(%.*s) ", (int)key.len, key.at);
}

static void on_end(void *arg)
{
	write_down(arg, "end ");
}

static void on_mark(void *arg, struct text envelope)
{
	write_down(arg, "mark(%.*s) ", (int)envelope.len, envelope.at);
}

static void on_settled(void *arg)
{
	write_down(arg, "settled ");
}

static void on_break(void *arg, enum frames_break why)
{
	write_down(arg, "break(%s) ", frames_break_word(why));
}

const struct frames_events heard_events = { on_begin, on_put, on_del, on_end, on_mark, on_settled, on_break };
