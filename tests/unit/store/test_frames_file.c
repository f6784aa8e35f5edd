/* A folder as a store: what is there is told once, what changed again, what is gone as gone; odd names and kinds are left alone. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/crypto.h"
#include "fixture.h"
#include "store/frames_file.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct scene {
	char folder[64];
	struct loop *loop;
	struct frames_source *source;
	char told[8192];
	bool is_settled;
};

static void tell(struct scene *s, const char *what, struct text a, struct text b)
{
	size_t len = strlen(s->told);

	snprintf(s->told + len, sizeof(s->told) - len, "%s%.*s%s%.*s ", what, (int)a.len, a.len == 0 ? "" : a.at,
		 b.len == 0 ? "" : "=", (int)b.len, b.len == 0 ? "" : b.at);
}

static const struct text nothing = { "", 0 };

static void on_snap_begin(void *arg)
{
	tell(arg, "begin", nothing, nothing);
}

static void on_put(void *arg, struct text key, struct text envelope)
{
	tell(arg, "+", key, envelope);
}

static void on_del(void *arg, struct text key)
{
	tell(arg, "-", key, nothing);
}

static void on_snap_end(void *arg)
{
	tell(arg, "end", nothing, nothing);
}

static void on_mark(void *arg, struct text envelope)
{
	tell(arg, "mark:", envelope, nothing);
}

static void on_settled(void *arg)
{
	((struct scene *)arg)->is_settled = true;
}

static void on_break(void *arg, enum frames_break why)
{
	tell(arg, "break", nothing, nothing);
}

static const struct frames_events events = { on_snap_begin, on_put, on_del, on_snap_end, on_mark, on_settled, on_break };

static void begin(struct scene *s)
{
	cr_assert_eq(crypto_init(), ERR_OK);
	fixture_make_folder(s->folder);
	mkdir(fixture_path(s->folder, "l"), 0700);
	mkdir(fixture_path(s->folder, "r"), 0700);
	s->loop = loop_create();
	cr_assert_eq(frames_file_open(s->loop, s->folder, NULL, &s->source), ERR_OK);
}

static void end(struct scene *s)
{
	frames_close(s->source);
	loop_destroy(s->loop);
	fixture_remove_folder(s->folder);
}

/* What is told from now on, until it has settled. */
static const char *next(struct scene *s)
{
	s->told[0] = '\0';
	s->is_settled = false;
	cr_assert(fixture_turn_until(s->loop, &s->is_settled), "%s", s->told);
	return s->told;
}

static void publish(struct scene *s, const char *name, const char *text)
{
	char path[160];

	snprintf(path, sizeof(path), "%s", fixture_path(s->folder, "fresh"));
	fixture_write(path, text);
	cr_assert_eq(rename(path, fixture_path(s->folder, name)), 0);
}

Test(frames_file, a_folder_is_told_whole_and_then_what_differs)
{
	static struct scene s;

	begin(&s);
	publish(&s, "l/a", "A1");
	publish(&s, "r/" HEX, "R");
	publish(&s, "m", "M1");
	publish(&s, "keyset", "K");
	publish(&s, "beat", "B1");
	publish(&s, "other", "x");
	publish(&s, "l/-bad", "x");
	publish(&s, "r/short", "x");
	mkdir(fixture_path(s.folder, "l/folder"), 0700);
	cr_assert_eq(symlink("a", fixture_path(s.folder, "l/link")), 0);
	cr_assert_eq(frames_start(s.source, &events, &s), ERR_OK);
	cr_assert_str_eq(s.told, "begin +m=M1 +keyset=K +r/" HEX "=R +l/a=A1 end mark:B1 ");
	publish(&s, "l/b", "B");
	publish(&s, "m", "M2");
	cr_assert_str_eq(next(&s), "+m=M2 +l/b=B ");
	publish(&s, "beat", "B2");
	cr_assert_str_eq(next(&s), "mark:B2 ");
	remove(fixture_path(s.folder, "l/a"));
	cr_assert_str_eq(next(&s), "-l/a ");
	/* Asked to, it tells everything again. */
	frames_relist(s.source);
	cr_assert_str_eq(next(&s), "begin +m=M2 +keyset=K +r/" HEX "=R +l/b=B end mark:B2 ");
	end(&s);
}

Test(frames_file, a_replaced_folder_and_more_names_than_are_kept_are_seen_whole)
{
	static struct scene s;
	unsigned puts = 0;
	char path[160];

	begin(&s);
	publish(&s, "l/a", "A");
	publish(&s, "l/b", "B");
	cr_assert_eq(frames_start(s.source, &events, &s), ERR_OK);
	cr_assert_str_eq(s.told + strlen(s.told) - 4, "end ");
	/* Other files under the same names, of which no event tells. */
	mkdir(fixture_path(s.folder, "next"), 0700);
	fixture_write(fixture_path(s.folder, "next/a"), "other");
	snprintf(path, sizeof(path), "%s", fixture_path(s.folder, "l"));
	cr_assert_eq(rename(path, fixture_path(s.folder, "aside")), 0);
	cr_assert_eq(rename(fixture_path(s.folder, "next"), path), 0);
	cr_assert_str_eq(next(&s), "+l/a=other -l/b ");
	for (unsigned i = 0; i < 400; i++) {
		char name[32];

		snprintf(name, sizeof(name), "l/m%03u", i);
		publish(&s, name, "");
	}
	next(&s);
	for (const char *at = s.told; (at = strstr(at, "+l/m")) != NULL; at++)
		puts++;
	cr_assert_eq(puts, 400u);
	end(&s);
}

Test(frames_file, a_folder_that_comes_later_is_found)
{
	static struct scene s;
	char later[160];

	begin(&s);
	frames_close(s.source);
	snprintf(later, sizeof(later), "%s", fixture_path(s.folder, "later"));
	cr_assert_eq(frames_file_open(s.loop, later, NULL, &s.source), ERR_OK);
	cr_assert_eq(frames_start(s.source, &events, &s), ERR_OK);
	cr_assert_str_eq(s.told, "");
	mkdir(later, 0700);
	fixture_write(fixture_path(later, "m"), "M");
	cr_assert_str_eq(next(&s), "begin +m=M end ");
	end(&s);
}
