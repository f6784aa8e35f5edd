/*
 * The configured name servers and what is remembered of each, as arithmetic: which one to ask next, which have lately been
 * mute and when to give them another chance, which echo letter case. No sockets, no clock of its own. For net/resolver.
 */
#ifndef EGRESS_NET_NAME_SERVERS_H
#define EGRESS_NET_NAME_SERVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/attr.h"
#include "base/err.h"

#define NAME_SERVERS_MAX 8
#define NAME_SERVERS_RETRY_FIRST_MS 5000 /* a dead server's next chance; doubles every time it is missed */
#define NAME_SERVERS_RETRY_MAX_MS 60000

struct name_server {
	struct endpoint at;
	bool echoes_case;     /* seen to answer in our letters: from then on it must */
	bool is_dead;
	uint32_t retry_ms;    /* how long from one chance to the next while dead */
	uint64_t chance_at_ms; /* while dead: when one lookup may ask it as if it were not */
	uint64_t heard_at_ms; /* last answer of any kind */
};

struct name_servers {
	struct name_server list[NAME_SERVERS_MAX]; /* in the order of the configuration */
	size_t count;
	uint32_t generation; /* of the list; indexes of another generation mean nothing */
};

/* What one lookup has been through. Zeroed at its start. */
struct name_servers_round {
	uint32_t generation;
	uint32_t ruled_out; /* bit i: server i has failed this lookup for good */
	uint8_t tries[NAME_SERVERS_MAX];
};

/* Use these from now on. What is known of them stays when the list is the same. LIMIT or INVALID change nothing. */
enum err name_servers_set(struct name_servers *s, const struct endpoint *servers, size_t count) ATTR_MUST_CHECK;
/*
 * Choose the server for the next try: fewest tries in this lookup first, then not dead, then the order of the configuration. A
 * dead one whose time has come counts as not dead for one lookup. False when all are ruled out. Counts the try.
 */
bool name_servers_pick(struct name_servers *s, struct name_servers_round *round, uint64_t now_ms, size_t *out_index);
/* Is there a server that this lookup can still ask? */
bool name_servers_is_open(const struct name_servers *s, const struct name_servers_round *round);
/* Server `index` shall not be asked again by this lookup. */
void name_servers_rule_out(struct name_servers_round *round, size_t index);
/* It answered, whatever the answer was. `echoed`: in letters that only an echo explains. */
void name_servers_heard(struct name_servers *s, size_t index, bool echoed, uint64_t now_ms);
/* It stayed silent since `asked_at_ms`. Dead only when it answered nobody else in that time: names can be slow too. */
void name_servers_missed(struct name_servers *s, size_t index, uint64_t asked_at_ms, uint64_t now_ms);
/* It cannot be reached at all. */
void name_servers_lost(struct name_servers *s, size_t index, uint64_t now_ms);

#endif
