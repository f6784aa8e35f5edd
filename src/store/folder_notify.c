/* One inotify instance and who watches what with it; see folder_notify.h. Called by frames_file. */
#include "store/folder_notify.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/htab.h"

/* A folder that is watched. */
struct watched {
	struct htab_node node;
	int wd;
	struct folder_watcher *watcher; /* borrowed */
};

struct folder_notify {
	int fd;               /* owned */
	struct loop_watch readable;
	struct list watchers; /* of struct folder_watcher, borrowed */
	struct htab watched;  /* of struct watched, owned */
};

static bool is_wd(const struct htab_node *node, const void *wd)
{
	return CONTAINER_OF(node, const struct watched, node)->wd == *(const int *)wd;
}

/* The kernel counts them up: they spread by themselves. */
static struct watched *find(const struct folder_notify *n, int wd)
{
	struct htab_node *node = htab_find(&n->watched, (uint64_t)wd, is_wd, &wd);

	return node == NULL ? NULL : CONTAINER_OF(node, struct watched, node);
}

static void forget(struct folder_notify *n, struct watched *w)
{
	htab_remove(&n->watched, &w->node);
	alloc_free(w);
}

static void tell(struct folder_notify *n, const struct inotify_event *event)
{
	struct watched *w = find(n, event->wd);
	struct list_node *node, *next;

	if (event->wd != -1) {
		if (w != NULL)
			w->watcher->on_event(w->watcher->arg, event);
		if (w != NULL && (event->mask & IN_IGNORED) != 0)
			forget(n, w);
		return;
	}
	LIST_FOREACH(node, next, &n->watchers) {
		struct folder_watcher *watcher = CONTAINER_OF(node, struct folder_watcher, node);

		watcher->on_event(watcher->arg, event);
	}
}

void folder_notify_drain(struct folder_notify *n)
{
	_Alignas(struct inotify_event) char bytes[16384];
	ssize_t len;

	while ((len = read(n->fd, bytes, sizeof(bytes))) > 0) {
		for (ssize_t at = 0; at < len;) {
			const struct inotify_event *event = (const void *)(bytes + at);

			tell(n, event);
			at += (ssize_t)(sizeof(*event) + event->len);
		}
	}
}

static void on_readable(void *arg, int fd, unsigned what)
{
	folder_notify_drain(arg);
}

enum err folder_notify_create(struct loop *loop, struct folder_notify **out_notify)
{
	struct folder_notify *n = alloc_zeroed(sizeof(*n));
	enum err e = ERR_SYSTEM;

	if (n == NULL)
		return ERR_NO_MEMORY;
	list_init(&n->watchers);
	htab_init(&n->watched);
	n->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (n->fd >= 0) {
		loop_watch_init(&n->readable, loop, n->fd, LOOP_READ, on_readable, n);
		e = loop_watch_start(&n->readable);
	}
	if (e != ERR_OK) {
		folder_notify_destroy(n);
		return e;
	}
	*out_notify = n;
	return ERR_OK;
}

void folder_notify_destroy(struct folder_notify *n)
{
	if (n == NULL)
		return;
	if (n->fd >= 0) {
		loop_watch_stop(&n->readable);
		close(n->fd);
	}
	htab_finish(&n->watched);
	alloc_free(n);
}

void folder_notify_join(struct folder_notify *n, struct folder_watcher *w)
{
	list_push_back(&n->watchers, &w->node);
}

void folder_notify_leave(struct folder_notify *n, struct folder_watcher *w)
{
	struct htab_node *node = htab_next(&n->watched, NULL);

	list_remove(&n->watchers, &w->node);
	while (node != NULL) {
		struct watched *one = CONTAINER_OF(node, struct watched, node);

		node = htab_next(&n->watched, node);
		if (one->watcher != w)
			continue;
		inotify_rm_watch(n->fd, one->wd);
		forget(n, one);
	}
}

int folder_notify_add(struct folder_notify *n, struct folder_watcher *w, const char *path, uint32_t events)
{
	int wd = inotify_add_watch(n->fd, path, events);
	struct watched *one = wd < 0 ? NULL : find(n, wd);

	if (wd < 0)
		return wd;
	if (one == NULL) {
		one = alloc_zeroed(sizeof(*one));
		if (one == NULL || htab_insert(&n->watched, &one->node, (uint64_t)wd) != ERR_OK) {
			alloc_free(one);
			inotify_rm_watch(n->fd, wd);
			return -1;
		}
	}
	one->wd = wd;
	one->watcher = w;
	return wd;
}

void folder_notify_remove(struct folder_notify *n, int wd)
{
	struct watched *one = find(n, wd);

	inotify_rm_watch(n->fd, wd);
	if (one != NULL)
		forget(n, one);
}
