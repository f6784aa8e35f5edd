/* One inotify instance for many: each hears of its own folders alone, nobody after leaving, and all of an overflow. */
#include "store/folder_notify.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"

struct one {
	struct folder_watcher watcher;
	char told[256];
	unsigned count;
};

static void on_event(void *arg, const struct inotify_event *event)
{
	struct one *o = arg;
	size_t len = strlen(o->told);

	o->count++;
	snprintf(o->told + len, sizeof(o->told) - len, "%s ", event->len > 0 ? event->name : "?");
}

static void join(struct folder_notify *n, struct one *o)
{
	*o = (struct one){ .watcher = { .on_event = on_event, .arg = o } };
	folder_notify_join(n, &o->watcher);
}

Test(folder_notify, each_hears_of_its_own_folders)
{
	char folder[64];
	struct loop *loop = loop_create();
	struct folder_notify *n;
	struct one a, b;
	size_t before = fixture_fd_count();
	int wd;

	fixture_make_folder(folder);
	mkdir(fixture_path(folder, "a"), 0755);
	mkdir(fixture_path(folder, "b"), 0755);
	cr_assert_eq(folder_notify_create(loop, &n), ERR_OK);
	join(n, &a);
	join(n, &b);
	wd = folder_notify_add(n, &a.watcher, fixture_path(folder, "a"), IN_CREATE | IN_DELETE_SELF);
	cr_assert_geq(wd, 0);
	cr_assert_eq(folder_notify_add(n, &a.watcher, fixture_path(folder, "a"), IN_CREATE | IN_DELETE_SELF), wd, "twice is once");
	cr_assert_geq(folder_notify_add(n, &b.watcher, fixture_path(folder, "b"), IN_CREATE), 0);
	cr_assert_eq(folder_notify_add(n, &b.watcher, fixture_path(folder, "none"), IN_CREATE), -1);
	fixture_write(fixture_path(folder, "a/x"), "");
	fixture_write(fixture_path(folder, "b/y"), "");
	loop_turn(loop, 1000);
	cr_assert_str_eq(a.told, "x ");
	cr_assert_str_eq(b.told, "y ");
	/* Who has left hears nothing, and others go on. */
	folder_notify_leave(n, &b.watcher);
	fixture_write(fixture_path(folder, "b/z"), "");
	fixture_write(fixture_path(folder, "a/z"), "");
	folder_notify_drain(n);
	cr_assert_str_eq(a.told, "x z ");
	cr_assert_str_eq(b.told, "y ");
	/* A folder that goes takes its watch along. */
	unlink(fixture_path(folder, "a/x"));
	unlink(fixture_path(folder, "a/z"));
	cr_assert_eq(rmdir(fixture_path(folder, "a")), 0);
	folder_notify_drain(n);
	cr_assert_str_eq(a.told, "x z ? ? ");
	folder_notify_remove(n, wd);
	folder_notify_leave(n, &a.watcher);
	folder_notify_destroy(n);
	cr_assert_eq(fixture_fd_count(), before);
	loop_destroy(loop);
	fixture_remove_folder(folder);
}
