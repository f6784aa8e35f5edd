/*
 * One name and one family to an answer: our own deadline, tries over remembered-healthy servers, equal questions of one lease
 * coalesced, bounded in number, cancellable by token. Judges no name and no address: the caller decided before asking.
 */
#ifndef EGRESS_NET_RESOLVER_H
#define EGRESS_NET_RESOLVER_H

#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/attr.h"
#include "base/dname.h"
#include "base/err.h"
#include "metrics/metrics.h"
#include "net/ares_link.h"
#include "net/loop.h"
#include "net/name_servers.h"
#include "wire/dns_answer.h"

#define RESOLVER_SERVERS_MAX NAME_SERVERS_MAX

struct resolver;        /* one per worker */
struct resolver_lookup; /* token of one caller's wait */

struct resolver_options {
	uint64_t total_ms;       /* deadline of a lookup, waiting for a channel included; 0: 5000 */
	uint64_t try_ms;         /* of one try at one server; 0: 1000 */
	unsigned waiting_max;    /* questions waiting for a channel, but for a few of each owner; 0: 4096 */
	unsigned per_owner_max;  /* lookups under way for one owner; 0: 64 */
	unsigned asking_max;     /* channels that one owner may hold at a time, and never so many that none is left; 0: 16 */
};

/*
 * The answer: outcome may also be TIMEOUT or UNREACHABLE, never TRUNCATED (that over TCP is MALFORMED). Borrowed for the call, in
 * which lookups may be started and others cancelled.
 */
typedef void resolver_done_fn(void *arg, const struct dns_answer *answer);

/* `link` is borrowed and must outlive the resolver. */
enum err resolver_create(struct loop *loop, struct ares_link *link, struct metrics *metrics,
			 const struct resolver_options *options, struct resolver **out_resolver)
	ATTR_MUST_CHECK;
/* All lookups must be done or cancelled. */
void resolver_destroy(struct resolver *r);
/* Use these servers from the next try on; forgets their health when the list differs. At most RESOLVER_SERVERS_MAX. */
/* LIMIT for too many, INVALID for one without port or address; then the old list stays. */
enum err resolver_set_servers(struct resolver *r, const struct endpoint *servers, size_t count)
	ATTR_MUST_CHECK;
/* Take these times for lookups and tries that begin from now on; 0: the defaults above. */
void resolver_set_times(struct resolver *r, uint64_t total_ms, uint64_t try_ms);
/*
 * Look up `type` (A or AAAA) for `name` on behalf of `owner` (a lease's slot: only equal owners share a question, and then the
 * deadline of the first to ask). LIMIT when the owner or the queue is full. on_done comes once, later, unless cancelled. The name
 * is asked as it is: no search list, no file, no special case.
 */
enum err resolver_start(struct resolver *r, uint32_t owner, const struct dname *name, enum dns_type type,
			resolver_done_fn *on_done, void *arg, struct resolver_lookup **out_lookup)
	ATTR_MUST_CHECK;
/* Give up waiting; accepts NULL. A question that nobody waits for any more is taken back at once. */
void resolver_cancel(struct resolver_lookup *l);
/* Questions not yet answered, and lookups waiting for them; zero once all is done. */
size_t resolver_question_count(const struct resolver *r);
size_t resolver_lookup_count(const struct resolver *r);

#endif
