/*
 * One stream of frames between where documents are kept and who believes them. A source (driver_file's signed form, driver_https,
 * driver_etcd) tells what is stored, in order, and understands none of it; the listener verifies every byte and trusts no order.
 *
 * Keys are short: "keyset", "m", "l/<lease>", "r/<64 hex digits>". A beat has no key: it is a mark.
 */
#ifndef EGRESS_STORE_FRAMES_H
#define EGRESS_STORE_FRAMES_H

#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"

#define FRAMES_KEY_MAX 160 /* bytes; a source drops longer ones */

/* Why a source lost its stream and begins again; the order of the words in frames_break_word. */
#define FRAMES_BREAKS(X)                                                          \
	X(CLOSED, "closed")         /* ended or could not be reached */           \
	X(TIMEOUT, "timeout")       /* nothing was heard for too long */          \
	X(BYE, "bye")               /* the store asked for it */                  \
	X(CANCELED, "canceled")     /* the watch ended inside an open stream */   \
	X(COMPACTED, "compacted")   /* the history that was asked for is gone */  \
	X(ROLLBACK, "rollback")     /* the store is older than it was */          \
	X(NO_LEADER, "no_leader")   /* the member lost its quorum */              \
	X(DENIED, "denied")         /* credentials were not taken, or ran out */  \
	X(TOO_LONG, "too_long")     /* a line or a list beyond its limit */       \
	X(MALFORMED, "malformed")   /* a line that is no frame */                 \
	X(ERROR, "error")           /* the store reported an error */             \
	X(RELIST, "relist")         /* the listener asked for it */

#define FRAMES_BREAK_AS_ENUM(sym, word) FRAMES_BREAK_##sym,
enum frames_break { FRAMES_BREAKS(FRAMES_BREAK_AS_ENUM) FRAMES_BREAK_COUNT };
#undef FRAMES_BREAK_AS_ENUM

/*
 * From the loop or from frames_start. Texts are borrowed for the call. Between snap_begin and snap_end come puts and marks alone; what was
 * held before and not put again is gone with snap_end. A break inside a snapshot voids it: the next frame is a snap_begin. Any event may
 * call frames_relist, none may call frames_close.
 */
struct frames_events {
	void (*on_snap_begin)(void *arg);
	void (*on_put)(void *arg, struct text key, struct text envelope);
	void (*on_del)(void *arg, struct text key);
	void (*on_snap_end)(void *arg);
	void (*on_mark)(void *arg, struct text envelope);
	/* All frames of one change of the store have been told: the moment to compare what is held with the manifest. */
	void (*on_settled)(void *arg);
	/* The stream is lost; it comes back by itself. What is held stays held: time alone decides. */
	void (*on_break)(void *arg, enum frames_break why);
};

struct frames_source;

struct frames_ops {
	enum err (*start)(struct frames_source *s, const struct frames_events *events, void *arg);
	void (*relist)(struct frames_source *s);
	void (*close)(struct frames_source *s);
};

/* Embedded as the first member of each source. */
struct frames_source {
	const struct frames_ops *ops;
};

/* Begin; `events` is static, `arg` borrowed until close. */
static inline enum err frames_start(struct frames_source *s, const struct frames_events *events, void *arg)
{
	return s->ops->start(s, events, arg);
}
/* What is held does not fit its manifest: list everything again, soon (sources space this out by themselves). */
static inline void frames_relist(struct frames_source *s)
{
	s->ops->relist(s);
}
/* Accepts NULL. No event comes after it. */
static inline void frames_close(struct frames_source *s)
{
	if (s != NULL)
		s->ops->close(s);
}

/* "closed", …: for metrics and logs. */
const char *frames_break_word(enum frames_break why);
/* The beat group of a cell: the first byte of the SHA-256 of its id, modulo 32. The authority spreads cells the same way. */
unsigned frames_group_of(const char *cell);

#endif
