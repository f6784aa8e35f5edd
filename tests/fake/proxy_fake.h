/*
 * A whole worker over scripted time: real sessions, resolver, c-ares, judge, connector and relay between a scripted guest, name server and
 * origins. Policies are `.policy` texts. For scenarios and fuzz targets; one at a time in a process (see socket_fake.h). Link with loop_fake,
 * dns_net and socket_fake.
 */
#ifndef EGRESS_TESTS_FAKE_PROXY_FAKE_H
#define EGRESS_TESTS_FAKE_PROXY_FAKE_H

#include "net/connector.h"
#include "proxy/worker.h"
#include "tests/fake/dns_net.h"

#define PROXY_FAKE_ANSWERS 160
#define PROXY_FAKE_ADDRS 8
#define PROXY_FAKE_ORIGINS 32
#define PROXY_FAKE_DIALS 256
#define PROXY_FAKE_START_MS 1000000 /* loop, monotonic and wall time at the start */

enum proxy_fake_act { PROXY_FAKE_ANSWER, PROXY_FAKE_NXDOMAIN, PROXY_FAKE_SERVFAIL, PROXY_FAKE_SILENT, PROXY_FAKE_STRANGER, PROXY_FAKE_CLOSED };

/* One answer to one question. Several of the same name and type are given in turn; the last one stays. */
struct proxy_fake_answer {
	char name[DNAME_MAX + 1];
	uint16_t type;
	enum proxy_fake_act act; /* STRANGER: the addresses are owned by another name */
	uint64_t after_ms;
	uint32_t ttl_s;
	struct addr addrs[PROXY_FAKE_ADDRS];
	size_t addr_count;
	unsigned used;
};

struct proxy_fake_origin {
	struct endpoint at;
	int error;
	uint64_t after_ms; /* UINT64_MAX: mute */
};

struct proxy_fake {
	struct worker *worker;       /* owned; the home of every lease */
	struct worker *door;         /* owned; where guests that knock arrive; NULL: none did yet */
	struct worker_shared shared;
	struct dns_net *net;         /* owned */
	struct ares_link_sockets sockets;
	struct world_options options;
	unsigned channels;           /* of the resolver; 0: 32 */
	bool control_is_silent;      /* nobody moves the gate's deadlines any more */
	uint64_t world_count;
	char slots[16][RECORD_LEASE_MAX + 1]; /* lease ids */

	struct proxy_fake_answer answers[PROXY_FAKE_ANSWERS];
	size_t answer_count;
	struct proxy_fake_origin origins[PROXY_FAKE_ORIGINS]; /* any other endpoint refuses at once */
	size_t origin_count;
	/* Told by the script's users. */
	void (*on_record)(void *arg, const struct record *record);
	void (*on_query)(void *arg, const char *name, uint16_t type);
	void (*on_dial)(void *arg, const struct endpoint *to);
	void *arg;
};

/* Fill in `p` (zeroed but for callbacks and answers) and start a worker under a world without leases. Aborts without memory. */
void proxy_fake_begin(struct proxy_fake *p);
/* Stop; aborts when a descriptor, timer or watch was left. */
void proxy_fake_end(struct proxy_fake *p);
/* Compile ceiling and leases to a world. NULL when the ceiling does not hold. */
struct world *proxy_fake_world(struct proxy_fake *p, const char *ceiling, const char *const *leases, size_t count);
/* Judge by it from the end of this turn on; takes the reference. */
void proxy_fake_adopt(struct proxy_fake *p, struct world *world);
/* The slot of a lease. */
uint32_t proxy_fake_slot(struct proxy_fake *p, const char *lease);
/* A guest arrives at listener "main" from 198.51.100.1:`port`. Returns its end, non-blocking. */
int proxy_fake_guest(struct proxy_fake *p, uint16_t port);
/*
 * A guest arrives at another worker, which has a loop of its own: what it sends until `proxy_fake_let_knock` is read there. The session is
 * then on its way: its home looks into its mailbox when time goes on. Returns the guest's end.
 */
int proxy_fake_knock(struct proxy_fake *p, uint16_t port);
void proxy_fake_let_knock(struct proxy_fake *p);
/* Go on; aborts when something spins. */
void proxy_fake_advance(struct proxy_fake *p, uint64_t ms);
uint64_t proxy_fake_now_ms(const struct proxy_fake *p);

#endif
