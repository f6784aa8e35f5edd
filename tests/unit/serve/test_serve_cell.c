/* Editions out of a folder: only what adds up to its manifest is told, and a beat only with the manifest that it names. */
#include "serve/serve_cell.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crypto.h"
#include "fixture.h"
#include "signed_fixture.h"

struct scene {
	char folder[64];
	struct loop *loop;
	struct serve_cell *cell;
	unsigned editions, beats;
	bool is_told;
	struct manifest_doc_entry entries[4];
	size_t count;
	char manifest[1024];
};

static void on_edition(void *arg, struct serve_cell *c)
{
	struct scene *s = arg;

	s->editions++;
	s->is_told = true;
}

static void on_beat(void *arg, struct serve_cell *c)
{
	struct scene *s = arg;

	s->beats++;
	s->is_told = true;
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

static void put_lease(struct scene *s, const char *name, uint64_t rev)
{
	char key[32];
	const char *payload = signed_lease(SIGNED_CELL, name, 1, rev, "");

	snprintf(key, sizeof(key), "l/%s", name);
	put(s, key, ENVELOPE_LEASE, payload, SIGNED_LEASE);
	s->entries[s->count++] = signed_entry(name, rev, payload);
}

static void put_manifest(struct scene *s, uint64_t seq)
{
	snprintf(s->manifest, sizeof(s->manifest), "%s", signed_manifest(SIGNED_CELL, 1, seq, s->entries, s->count));
	put(s, "m", ENVELOPE_MANIFEST, s->manifest, SIGNED_MANIFEST);
}

static void put_beat(struct scene *s, uint64_t seq, uint64_t manifest_seq)
{
	put(s, "beat", ENVELOPE_BEAT, signed_beat(SIGNED_CELL, 1, seq, SIGNED_NOW_MS, 1, manifest_seq, s->manifest), SIGNED_BEAT);
}

static void begin(struct scene *s)
{
	cr_assert_eq(crypto_init(), ERR_OK);
	fixture_make_folder(s->folder);
	mkdir(fixture_path(s->folder, "l"), 0755);
	mkdir(fixture_path(s->folder, "r"), 0755);
	s->loop = loop_create();
	put(s, "keyset", ENVELOPE_KEYSET, signed_keyset(1, 1, SIGNED_NOW_MS + 1000000), SIGNED_R1);
	cr_assert_eq(serve_cell_open(s->loop, s->folder, NULL, &events, s, &s->cell), ERR_OK);
}

/* Turn for a while: something is told, or (so far as can be seen) nothing. */
static void turn(struct scene *s, bool until_told)
{
	s->is_told = false;
	if (until_told)
		cr_assert(fixture_turn_until(s->loop, &s->is_told));
	for (unsigned i = 0; i < 20; i++)
		loop_turn(s->loop, 5);
}

static void end(struct scene *s)
{
	serve_cell_close(s->cell);
	loop_destroy(s->loop);
	signed_forget();
	fixture_remove_folder(s->folder);
}

Test(serve_cell, an_edition_is_what_adds_up_and_nothing_in_between)
{
	static struct scene s;
	uint64_t seq;

	begin(&s);
	turn(&s, false);
	cr_assert_null(serve_cell_edition(s.cell));
	put_lease(&s, "a", 1);
	turn(&s, false);
	cr_assert_eq(s.editions, 0, "no manifest");
	put_manifest(&s, 5);
	turn(&s, true);
	cr_assert_eq(s.editions, 1);
	cr_assert_str_eq(serve_cell_name(s.cell), SIGNED_CELL);
	cr_assert_str_eq(serve_cell_edition(s.cell)->cursor, "1.5.1.0");
	cr_assert_eq(serve_cell_edition(s.cell)->count, 3);
	/* A second lease without its manifest is a change that is not finished. */
	put_lease(&s, "b", 1);
	turn(&s, false);
	cr_assert_eq(s.editions, 1);
	put_beat(&s, 9, 5);
	turn(&s, true);
	cr_assert_eq(s.beats, 1, "what is handed on is still the first edition");
	put_manifest(&s, 6);
	turn(&s, true);
	cr_assert_eq(s.editions, 2);
	cr_assert_not_null(serve_edition_find(serve_cell_edition(s.cell), "l/b"));
	/* A ruleset changes no number but the last. */
	put(&s, "r/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", ENVELOPE_RULESET, "{\"typ\":\"egress.ruleset/1\",\"rules\":[]}",
	    SIGNED_LEASE);
	turn(&s, true);
	cr_assert_str_eq(serve_cell_edition(s.cell)->cursor, "1.6.1.1");
	put_beat(&s, 10, 6);
	turn(&s, true);
	cr_assert_gt(serve_cell_beat(s.cell, &seq).len, 0);
	cr_assert_eq(seq, 10);
	end(&s);
}

Test(serve_cell, rubbish_and_beats_of_something_else_are_not_handed_on)
{
	static struct scene s;
	uint64_t seq;

	begin(&s);
	put_lease(&s, "a", 1);
	put_manifest(&s, 5);
	turn(&s, true);
	cr_assert_eq(s.editions, 1);
	put_beat(&s, 9, 4);
	turn(&s, false);
	cr_assert_eq(s.beats, 0);
	cr_assert_eq(serve_cell_beat(s.cell, &seq).len, 0);
	/* A lease that is a manifest, and one that is nothing: the set does not add up. */
	put(&s, "l/a", ENVELOPE_MANIFEST, s.manifest, SIGNED_MANIFEST);
	turn(&s, false);
	fixture_write(fixture_path(s.folder, "l/a"), "rubbish");
	turn(&s, false);
	cr_assert_eq(unlink(fixture_path(s.folder, "m")), 0);
	turn(&s, false);
	cr_assert_eq(s.editions, 1);
	cr_assert_not_null(serve_edition_find(serve_cell_edition(s.cell), "l/a"));
	end(&s);
}
