/*
 * inotify for many watchers of folders: a kernel lets one user have few instances (128), but many watches. Events go to who watches; an
 * overflow goes to all. Knows no file.
 */
#ifndef EGRESS_STORE_FOLDER_NOTIFY_H
#define EGRESS_STORE_FOLDER_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/inotify.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/list.h"
#include "net/loop.h"

struct folder_notify;

/* Embedded in its owner. */
struct folder_watcher {
	struct list_node node;
	/* Something happened in a folder that is watched, or (wd -1) nobody knows what. May not watch or leave. */
	void (*on_event)(void *arg, const struct inotify_event *event);
	void *arg; /* borrowed */
};

/* SYSTEM (errno): no instance is left; NO_MEMORY. */
enum err folder_notify_create(struct loop *loop, struct folder_notify **out_notify) ATTR_MUST_CHECK;
/* Nobody may watch any more. Accepts NULL. */
void folder_notify_destroy(struct folder_notify *n);

void folder_notify_join(struct folder_notify *n, struct folder_watcher *w);
/* With all its watches. */
void folder_notify_leave(struct folder_notify *n, struct folder_watcher *w);
/* Watch a folder; its number, or -1 (errno). Watched by somebody else before: that one gets no more events of it. */
int folder_notify_add(struct folder_notify *n, struct folder_watcher *w, const char *path, uint32_t events);
void folder_notify_remove(struct folder_notify *n, int wd);
/* Take note of all events that there are. */
void folder_notify_drain(struct folder_notify *n);

#endif
