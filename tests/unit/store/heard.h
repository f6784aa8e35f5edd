/* A listener to frames that writes down what it heard, one word or short line after another. */
#ifndef EGRESS_TESTS_UNIT_STORE_HEARD_H
#define EGRESS_TESTS_UNIT_STORE_HEARD_H

#include <stdbool.h>

#include "store/frames.h"

struct heard {
	char story[8192];            /* "begin put(k=v) mark(v) end settled break(closed) …" */
	const char *until;           /* is_enough once this stands in the story */
	bool is_enough;
	const char *relist_at;       /* ask to list again in the event that first puts this into the story */
	struct frames_source *source; /* borrowed; for relist_at */
};

extern const struct frames_events heard_events;

#endif
