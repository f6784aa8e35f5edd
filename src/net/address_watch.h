/* The kernel's address list over rtnetlink, kept current: dump at start, then live changes, dump again when any were lost. */
#ifndef EGRESS_NET_ADDRESS_WATCH_H
#define EGRESS_NET_ADDRESS_WATCH_H

#include <stddef.h>

#include "base/addr.h"
#include "base/attr.h"
#include "base/err.h"
#include "net/loop.h"

struct address_watch;

/* All addresses of all interfaces now; borrowed for the call. Comes at least once after start and after every change. */
typedef void address_watch_fn(void *arg, const struct addr *addrs, size_t count);

/* Open the netlink socket (before the sandbox, which allows no new ones). */
enum err address_watch_open(struct address_watch **out_watch) ATTR_MUST_CHECK;
/* Read the whole list now, blocking at most a second: for boot. */
enum err address_watch_read(struct address_watch *w, address_watch_fn *on_list, void *arg) ATTR_MUST_CHECK;
/* Watch on `loop` from now on. */
enum err address_watch_start(struct address_watch *w, struct loop *loop, address_watch_fn *on_list, void *arg)
	ATTR_MUST_CHECK;
void address_watch_close(struct address_watch *w);

#endif
