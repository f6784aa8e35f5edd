/* The publisher before a gateway that is scripted: what it writes, in which order, with which guards; and who loses reads again. */
#include "serve/serve_etcd.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/crypto.h"
#include "fixture.h"
#include "signed_fixture.h"
#include "store/base64.h"
#include "web.h"

#define DONE(revision) WEB_OK("{\"header\":{\"revision\":\"" revision "\"},\"succeeded\":true}")
#define NOT_DONE(revision) WEB_OK("{\"header\":{\"revision\":\"" revision "\"}}")
#define EMPTY(revision) WEB_OK("{\"header\":{\"revision\":\"" revision "\"}}")
#define RANGE "POST /v3/kv/range HTTP/1.1"
#define TXN "POST /v3/kv/txn HTTP/1.1"
#define M "/egress/v1/c/" SIGNED_CELL "/m"

struct scene {
	char folder[64], manifest[1024];
	struct loop *loop;
	struct serve_cell *cell;
	struct serve_etcd *publisher;
	struct manifest_doc_entry entry;
};

static void on_edition(void *arg, struct serve_cell *c)
{
	struct scene *s = arg;

	cr_assert_eq(serve_etcd_offer(s->publisher, c), ERR_OK);
}

static void on_beat(void *arg, struct serve_cell *c)
{
	serve_etcd_beat(((struct scene *)arg)->publisher, c);
}

static const struct serve_cell_events events = { on_edition, on_beat };

static void put(struct scene *s, const char *key, enum envelope_type type, const char *payload, enum signed_key by)
{
	struct text bytes = signed_envelope(type, payload, &by, 1);
	FILE *file = fopen(fixture_path(s->folder, ".fresh"), "w");

	cr_assert_not_null(file);
	fwrite(bytes.at, 1, bytes.len, file);
	fclose(file);
	cr_assert_eq(rename(fixture_path(s->folder, ".fresh"), fixture_path(s->folder, key)), 0);
}

/* Revision `seq` of everything: one lease, its manifest, a beat. */
static void put_all(struct scene *s, uint64_t seq)
{
	const char *lease = signed_lease(SIGNED_CELL, "a", 1, seq, "");

	s->entry = signed_entry("a", seq, lease);
	put(s, "l/a", ENVELOPE_LEASE, lease, SIGNED_LEASE);
	snprintf(s->manifest, sizeof(s->manifest), "%s", signed_manifest(SIGNED_CELL, 1, seq, &s->entry, 1));
	put(s, "m", ENVELOPE_MANIFEST, s->manifest, SIGNED_MANIFEST);
	put(s, "beat", ENVELOPE_BEAT, signed_beat(SIGNED_CELL, 1, seq, SIGNED_NOW_MS, 1, seq, s->manifest), SIGNED_BEAT);
}

static void begin(struct scene *s, struct web *w, const struct web_answer *answers, size_t count, const char *user)
{
	struct etcd_client_options options = { .user = user, .password = "secret" };

	signal(SIGPIPE, SIG_IGN);
	cr_assert_eq(crypto_init(), ERR_OK);
	fixture_make_folder(s->folder);
	mkdir(fixture_path(s->folder, "l"), 0755);
	mkdir(fixture_path(s->folder, "r"), 0755);
	put(s, "keyset", ENVELOPE_KEYSET, signed_keyset(1, 1, SIGNED_NOW_MS + 1000000), SIGNED_R1);
	put_all(s, 7);
	web_open(w, answers, count);
	s->loop = loop_create();
	options.members = w->url + strlen("http://");
	cr_assert_eq(serve_etcd_open(s->loop, &options, &s->publisher), ERR_OK);
	cr_assert_eq(serve_cell_open(s->loop, s->folder, NULL, &events, s, &s->cell), ERR_OK);
}

/* Turn until so many requests were read, and a little on: there are no more. */
static void turn(struct scene *s, struct web *w, size_t count)
{
	for (unsigned i = 0; i < 1000 && w->asked < count; i++)
		loop_turn(s->loop, 10);
	for (unsigned i = 0; i < 10; i++)
		loop_turn(s->loop, 5);
	cr_assert_eq(w->asked, count);
}

static void end(struct scene *s, struct web *w)
{
	serve_etcd_close(s->publisher);
	serve_cell_close(s->cell);
	web_close(w);
	loop_destroy(s->loop);
	signed_forget();
	fixture_remove_folder(s->folder);
}

static const char *coded(const char *text)
{
	static char rooms[4][2048];
	static unsigned at;
	char *room = rooms[at++ % 4];

	base64_encode(text, strlen(text), room);
	return room;
}

/* Where a guard of `key` at `revision` stands in a request; NULL: it has none. */
static const char *guard(const struct web *w, size_t nth, const char *key, const char *revision)
{
	char text[512];

	snprintf(text, sizeof(text), "{\"key\":\"%s\",\"target\":\"MOD\",\"result\":\"EQUAL\",\"mod_revision\":\"%s\"}", coded(key), revision);
	return strstr(w->requests[nth], text);
}

static const char *put_of(const struct web *w, size_t nth, const char *key)
{
	char text[512];

	snprintf(text, sizeof(text), "{\"request_put\":{\"key\":\"%s\"", coded(key));
	return strstr(w->requests[nth], text);
}

Test(serve_etcd, an_empty_store_is_filled_under_guards_and_the_beat_comes_last)
{
	static const struct web_answer answers[] = { { EMPTY("1"), 0, false }, { DONE("2"), 0, false }, { EMPTY("2"), 0, false },
						     { DONE("3"), 0, false }, { DONE("4"), 0, false } };
	static struct scene s;
	static struct web w;

	begin(&s, &w, answers, ARRAY_LEN(answers), NULL);
	turn(&s, &w, 5);
	cr_assert_not_null(strstr(w.requests[0], RANGE));
	cr_assert_not_null(strstr(w.requests[0], coded("/egress/v1/keyset")));
	cr_assert_not_null(guard(&w, 1, "/egress/v1/keyset", "0"));
	cr_assert_not_null(put_of(&w, 1, "/egress/v1/keyset"));
	cr_assert_not_null(strstr(w.requests[2], RANGE));
	cr_assert_not_null(guard(&w, 3, M, "0"));
	cr_assert_not_null(put_of(&w, 3, "/egress/v1/c/" SIGNED_CELL "/l/a"));
	cr_assert(put_of(&w, 3, "/egress/v1/c/" SIGNED_CELL "/l/a") < put_of(&w, 3, M));
	/* The beat is guarded by the manifest that was just written. */
	cr_assert_not_null(guard(&w, 4, M, "3"));
	cr_assert_null(put_of(&w, 4, M));
	for (size_t i = 0; i < 5; i++)
		cr_assert_not_null(strstr(w.requests[i], "\r\nGrpc-Metadata-hasleader: true\r\n"));
	end(&s, &w);
}

Test(serve_etcd, a_change_names_the_manifest_that_it_replaces_and_nothing_that_stays)
{
	static const struct web_answer answers[] = { { EMPTY("1"), 0, false }, { DONE("2"), 0, false }, { EMPTY("2"), 0, false }, { DONE("3"), 0, false },
						     { DONE("4"), 0, false }, { DONE("9"), 0, false }, { DONE("10"), 0, false } };
	static struct scene s;
	static struct web w;

	begin(&s, &w, answers, ARRAY_LEN(answers), NULL);
	turn(&s, &w, 5);
	put_all(&s, 8);
	turn(&s, &w, 7);
	cr_assert_not_null(guard(&w, 5, M, "3"));
	cr_assert_not_null(put_of(&w, 5, M));
	cr_assert_null(put_of(&w, 5, "/egress/v1/keyset"));
	cr_assert_not_null(guard(&w, 6, M, "9"));
	end(&s, &w);
}

/* What a list says when somebody else's manifest of `seq` is there. */
static const char *page_with(struct scene *s, uint64_t seq, const char *revision)
{
	static char page[8192], value[4096];
	enum signed_key by = SIGNED_MANIFEST;
	struct text bytes = signed_envelope(ENVELOPE_MANIFEST, signed_manifest(SIGNED_CELL, 1, seq, &s->entry, 1), &by, 1);

	base64_encode(bytes.at, bytes.len, value);
	snprintf(page, sizeof(page), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"header\":{\"revision\":\"%s\"},\"kvs\":[{\"key\":\"%s\","
				     "\"mod_revision\":\"5\",\"value\":\"%s\"}]}",
		 revision, coded(M), value);
	return page;
}

Test(serve_etcd, who_loses_reads_again_and_leaves_a_newer_manifest_alone)
{
	static struct web_answer answers[] = { { EMPTY("1"), 0, false }, { DONE("2"), 0, false }, { EMPTY("2"), 0, false },
					       { NOT_DONE("5"), 0, false }, { NULL, 0, false }, { DONE("6"), 0, false } };
	static struct scene s;
	static struct web w;

	cr_assert_eq(crypto_init(), ERR_OK);
	s.entry.id = "a";
	answers[4].bytes = page_with(&s, 99, "5");
	begin(&s, &w, answers, ARRAY_LEN(answers), NULL);
	turn(&s, &w, 5);
	cr_assert_not_null(strstr(w.requests[4], RANGE));
	cr_assert_not_null(strstr(w.requests[4], "\"revision\":\"0\""));
	end(&s, &w);
}

Test(serve_etcd, an_older_manifest_is_replaced_under_its_guard_and_one_of_the_same_number_is_not)
{
	static struct web_answer older[] = { { EMPTY("1"), 0, false }, { DONE("2"), 0, false }, { NULL, 0, false }, { DONE("6"), 0, false },
					     { DONE("7"), 0, false } };
	static struct web_answer same[] = { { EMPTY("1"), 0, false }, { DONE("2"), 0, false }, { NULL, 0, false }, { DONE("6"), 0, false } };
	static struct scene s, t;
	static struct web w;

	cr_assert_eq(crypto_init(), ERR_OK);
	s.entry.id = t.entry.id = "a";
	older[2].bytes = page_with(&s, 6, "5");
	begin(&s, &w, older, ARRAY_LEN(older), NULL);
	turn(&s, &w, 5);
	cr_assert_not_null(guard(&w, 3, M, "5"));
	end(&s, &w);
	same[2].bytes = page_with(&t, 7, "5");
	begin(&t, &w, same, ARRAY_LEN(same), NULL);
	turn(&t, &w, 3);
	end(&t, &w);
}

Test(serve_etcd, a_store_that_went_back_in_time_is_read_again)
{
	static const struct web_answer answers[] = { { EMPTY("1"), 0, false }, { DONE("2"), 0, false }, { EMPTY("2"), 0, false }, { DONE("30"), 0, false },
						     { DONE("4"), 0, false }, { EMPTY("4"), 0, false }, { DONE("5"), 0, false }, { EMPTY("5"), 0, false },
						     { DONE("6"), 0, false } };
	static struct scene s;
	static struct web w;

	begin(&s, &w, answers, ARRAY_LEN(answers), NULL);
	turn(&s, &w, 9);
	cr_assert_not_null(strstr(w.requests[5], RANGE));
	cr_assert_not_null(guard(&w, 6, "/egress/v1/keyset", "0"));
	cr_assert_not_null(guard(&w, 8, M, "0"));
	end(&s, &w);
}

Test(serve_etcd, a_token_is_asked_for_first_and_again_when_it_is_refused)
{
	static const struct web_answer answers[] = { { WEB_OK("{\"token\":\"t1\"}"), 0, false },
						     { "HTTP/1.1 401 Unauthorized\r\nConnection: close\r\n\r\n{\"error\":\"etcdserver: invalid auth token\"}", 0, false },
						     { WEB_OK("{\"token\":\"t2\"}"), 0, false },
						     { EMPTY("1"), 0, false } };
	static struct scene s;
	static struct web w;

	begin(&s, &w, answers, ARRAY_LEN(answers), "writer");
	for (unsigned i = 0; i < 1000 && w.asked < 4; i++)
		loop_turn(s.loop, 10);
	cr_assert_eq(w.asked, 4);
	cr_assert_not_null(strstr(w.requests[0], "POST /v3/auth/authenticate"));
	cr_assert_not_null(strstr(w.requests[1], "Authorization: t1"));
	cr_assert_not_null(strstr(w.requests[2], "POST /v3/auth/authenticate"));
	cr_assert_not_null(strstr(w.requests[3], "Authorization: t2"));
	end(&s, &w);
}
