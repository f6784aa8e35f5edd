/*
 * Two half-pipes between a guest and an origin, with back-pressure, half-close both ways, resets passed on as resets, byte
 * counts and a bound on the work of one wakeup. Each direction may carry a filter that sees every byte before it passes; without
 * one the flow is opaque and may be spliced. Knows no protocol and no policy.
 */
#ifndef EGRESS_NET_RELAY_H
#define EGRESS_NET_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "metrics/metrics.h"
#include "net/loop.h"
#include "net/pump.h"

struct relay;

enum relay_way { RELAY_UP, RELAY_DOWN, RELAY_WAYS }; /* guest to origin, origin to guest */

enum relay_filter_action {
	RELAY_HOLD,    /* nothing passes yet: come again with more bytes (or at the end) */
	RELAY_PASS,    /* the first `len` bytes pass; come again at once with the rest, if any */
	RELAY_REPLACE, /* the first `len` bytes are dropped and `instead` passes in their place */
	RELAY_OPAQUE,  /* everything held and to come passes; the filter is removed */
	RELAY_STALL,   /* pass nothing and read no more of this way until relay_resume */
	RELAY_END,     /* refuse: nothing held passes and neither way reads on; relay_inject still works */
};

struct relay_filter_answer {
	enum relay_filter_action action;
	size_t len;             /* PASS, REPLACE: bytes of the input, at least 1; anything else ends like END */
	const uint8_t *instead; /* REPLACE: borrowed until the filter is called again */
	size_t instead_len;
};

/*
 * See the `len` unjudged bytes of one way (all that are held, from the oldest); `end` says that the sender has finished and no
 * more will come: it is called once more then, also with no bytes, and holding any is like END. Holding past `hold_max` is the
 * filter's own to refuse: the relay ends with RELAY_END_HOLD_LIMIT then. May inject and resume, but not destroy the relay.
 */
typedef struct relay_filter_answer relay_filter_fn(void *arg, enum relay_way way, const uint8_t *bytes,
						   size_t len, bool end);

enum relay_end {
	RELAY_END_DONE,       /* both halves ended in order */
	RELAY_END_GUEST_RESET,  /* the guest reset; the origin is reset too when closed */
	RELAY_END_ORIGIN_RESET, /* likewise, the other way round */
	RELAY_END_ERROR,      /* another socket error; both closed with reset */
	RELAY_END_FILTER,     /* a filter said END, or what makes no sense */
	RELAY_END_HOLD_LIMIT, /* a filter held more than it may */
	RELAY_END_MEMORY,     /* no memory for held or unsent bytes */
};

/*
 * The relay has ended by itself: nothing is read any more, descriptors still open. Comes once, from the end of a turn. After
 * FILTER and HOLD_LIMIT what had passed is still being sent and relay_inject works, until relay_destroy; after RESET, ERROR and
 * MEMORY nothing is, and closing the descriptors resets both sides.
 */
typedef void relay_end_fn(void *arg, enum relay_end why);

struct relay_way_options {
	relay_filter_fn *filter; /* NULL: opaque from the start */
	size_t hold_max;         /* bytes a filter may hold */
	bool stalled;            /* start without reading this way, until relay_resume */
};

/*
 * A budget of bytes that all relays of one owner share, both ways together (one lease, on its home worker). Zero-initialised but for
 * bytes_per_s; a change of bytes_per_s counts from the next move on.
 */
struct relay_rate {
	uint64_t bytes_per_s; /* 0: no limit */
	uint64_t milli_bytes; /* thousandths of a byte in hand */
	uint64_t at_ms;       /* loop time when that was true */
};

struct relay_options {
	struct relay_way_options way[RELAY_WAYS];
	void *filter_arg;        /* borrowed */
	size_t unsent_max;       /* bytes read but not yet accepted by the other side, per way, or else one pipe full; 0: 262144 */
	unsigned rounds_per_wakeup; /* a wakeup reads about so often unsent_max; 0: 4 */
	struct relay_rate *rate; /* borrowed, outlives the relay; NULL: no limit */
	bool may_splice;
};

struct relay_counts {
	uint64_t bytes[RELAY_WAYS]; /* accepted by the other side */
	uint64_t last_active_ms;    /* loop time of the last byte, either way */
	bool ended[RELAY_WAYS];     /* FIN passed on */
	bool any_read[RELAY_WAYS];  /* at least one byte was read */
};

/*
 * Start between two connected, non-blocking sockets. Borrows both descriptors until relay_destroy. `worker` holds the scratch
 * buffer and the pipes of this thread. `first` are `first_len` bytes of the guest read before (copied, pass through the filter).
 */
enum err relay_start(struct loop *loop, struct pump_worker *worker, struct metrics *metrics, int guest_fd,
		     int origin_fd, const struct relay_options *options, const uint8_t *first,
		     size_t first_len, relay_end_fn *on_end, void *arg, struct relay **out_relay)
	ATTR_MUST_CHECK;
/* Stop and free; on_end does not come after it. Accepts NULL. */
void relay_destroy(struct relay *r);
/* Look at a stalled way again, at the end of the turn: its filter is called with what is held, and reading goes on. */
void relay_resume(struct relay *r, enum relay_way way);
/*
 * Put `bytes` in front of what passes on `way` next, unfiltered (an alert, a 403): DOWN goes to the guest. All, or LIMIT when too
 * much is unsent there, or CLOSED when that way has ended.
 */
enum err relay_inject(struct relay *r, enum relay_way way, const uint8_t *bytes, size_t len) ATTR_MUST_CHECK;
/* Is everything that passed on `way` accepted by the other side's socket? */
bool relay_is_flushed(const struct relay *r, enum relay_way way);
/*
 * Call back (from the end of a turn) once nothing that passed on `way` is unsent, be it because it was sent or because it cannot
 * be any more; once. One wait at a time: a second call replaces the first.
 */
void relay_when_flushed(struct relay *r, enum relay_way way, loop_fn *on_flushed, void *arg);
/* Does any way still have a filter? */
bool relay_has_filter(const struct relay *r);
void relay_count(const struct relay *r, struct relay_counts *out_counts);

#endif
