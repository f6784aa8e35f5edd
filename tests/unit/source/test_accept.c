/* The acceptance rules: every check fails alone; of every adjacent pair the first decides; floors rise only after the last. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/attr.h"
#include "base/crypto.h"
#include "fixture.h"
#include "source/accept.h"
#include "store/frames.h"
#include "signed_fixture.h"

struct scene {
	char folder[64];
	struct floors *floors;
	struct accept *accept;
};

static void open_accept(struct scene *s)
{
	struct json_faults faults;
	struct arena arena;
	struct accept_options options = { .cell = SIGNED_CELL,
					  .group = frames_group_of(SIGNED_CELL),
					  .root = text_of(signed_root()),
					  .floors = s->floors,
					  .refuse_after_ms = 10000 };

	arena_init(&arena, 0);
	json_faults_init(&faults, &arena);
	cr_assert_eq(accept_create(&options, &faults, &s->accept), ERR_OK);
	arena_finish(&arena);
}

static void begin(struct scene *s)
{
	cr_assert_eq(crypto_init(), ERR_OK);
	signed_clock_start();
	fixture_make_folder(s->folder);
	cr_assert_eq(floors_open(s->folder, SIGNED_CELL, &s->floors), ERR_OK);
	open_accept(s);
}

/* As after a restart. */
static void again(struct scene *s)
{
	accept_destroy(s->accept);
	floors_close(s->floors);
	cr_assert_eq(floors_open(s->folder, SIGNED_CELL, &s->floors), ERR_OK);
	open_accept(s);
}

static void end(struct scene *s)
{
	accept_destroy(s->accept);
	floors_close(s->floors);
	fixture_remove_folder(s->folder);
	signed_forget();
}

static enum accept_result examine(struct scene *s, enum envelope_type type, const char *name, struct text bytes)
{
	uint64_t before[ACCEPT_RESULT_COUNT];
	enum accept_result result;
	struct accept_doc doc;

	for (unsigned i = 0; i < ACCEPT_RESULT_COUNT; i++)
		before[i] = accept_count(s->accept, type, (enum accept_result)i);
	accept_doc_init(&doc, type, name, bytes);
	result = accept_examine(s->accept, &doc);
	accept_doc_finish(&doc);
	for (unsigned i = 0; i < ACCEPT_RESULT_COUNT; i++)
		cr_assert_eq(accept_count(s->accept, type, (enum accept_result)i), before[i] + (i == (unsigned)result));
	return result;
}

static enum accept_result take(struct scene *s, enum envelope_type type, const char *name, const char *payload)
{
	static const enum signed_key root[] = { SIGNED_R1, SIGNED_R3 }, beat[] = { SIGNED_BEAT }, manifest[] = { SIGNED_MANIFEST },
				     lease[] = { SIGNED_LEASE };
	static const enum signed_key *const keys[] = { root, beat, manifest, lease, lease };
	static const size_t counts[] = { 2, 1, 1, 1, 0 };

	return examine(s, type, name, signed_envelope(type, payload, keys[type], counts[type]));
}

/* What can be wrong with a document, in the order of the checks. */
enum wrong { WRONG_SIZE, WRONG_HEADER, WRONG_TYPE, WRONG_SIGNATURE, WRONG_SCHEMA, WRONG_CELL, WRONG_EPOCH, WRONG_NUMBER, WRONG_TIME, WRONG_COUNT };

static const char *payload_of(enum envelope_type type, unsigned wrong)
{
	static char text[8192];
	const char *cell = wrong & 1u << WRONG_CELL ? "c-2" : SIGNED_CELL;
	uint64_t epoch = wrong & 1u << WRONG_EPOCH ? 2 : 3, number = wrong & 1u << WRONG_NUMBER ? 4 : 6;
	const char *payload;

	if (type == ENVELOPE_KEYSET)
		payload = signed_keyset(number, epoch, wrong & 1u << WRONG_TIME ? SIGNED_NOW_MS : SIGNED_NOW_MS + 1);
	else if (type == ENVELOPE_BEAT)
		payload = signed_beat(cell, epoch, number, wrong & 1u << WRONG_TIME ? SIGNED_NOW_MS - 10001 : SIGNED_NOW_MS, 5, 1, "x");
	else if (type == ENVELOPE_MANIFEST)
		payload = signed_manifest(cell, epoch, number, NULL, 0);
	else
		payload = signed_lease(cell, "a", epoch, number, "{\"allow\":\"https://a.example\"}");
	snprintf(text, sizeof(text), "%s", payload);
	if (wrong & 1u << WRONG_SCHEMA)
		snprintf(text + strlen(text) - 1, 16, ",\"new\":1}");
	return text;
}

/* A document of `type` with all of `wrong` in it. */
static struct text spoiled(enum envelope_type type, unsigned wrong)
{
	static char bytes[ENVELOPE_MAX + 2];
	static const enum signed_key strangers[] = { SIGNED_STRANGER, SIGNED_R1 }, root[] = { SIGNED_R1, SIGNED_R2 };
	enum signed_key key = type == ENVELOPE_BEAT ? SIGNED_BEAT : type == ENVELOPE_MANIFEST ? SIGNED_MANIFEST : SIGNED_LEASE;
	bool is_strange = (wrong & 1u << WRONG_SIGNATURE) != 0;
	/* As another type that the same key may not sign either. */
	enum envelope_type as = wrong & 1u << WRONG_TYPE ? ENVELOPE_RULESET : type;
	struct text text = type == ENVELOPE_KEYSET ? signed_envelope(as, payload_of(type, wrong), is_strange ? strangers : root, 2) :
						     signed_envelope(as, payload_of(type, wrong), is_strange ? strangers : &key, 1);

	if (!(wrong & (1u << WRONG_SIZE | 1u << WRONG_HEADER)))
		return text;
	memset(bytes, ' ', sizeof(bytes));
	memcpy(bytes, text.at, text.len);
	if (wrong & 1u << WRONG_HEADER)
		bytes[0] = '[';
	return (struct text){ bytes, wrong & 1u << WRONG_SIZE ? sizeof(bytes) : text.len };
}

Test(accept, every_check_fails_alone_and_of_every_two_in_a_row_the_first_decides)
{
	static const enum accept_result results[] = { ACCEPT_SIZE, ACCEPT_HEADER, ACCEPT_TYPE,	   ACCEPT_SIGNATURE, ACCEPT_SCHEMA,
						      ACCEPT_CELL, ACCEPT_EPOCH,  ACCEPT_ROLLBACK, ACCEPT_CLOCK };
	struct scene s;

	for (unsigned type = ENVELOPE_KEYSET; type <= ENVELOPE_LEASE; type++) {
		unsigned last = WRONG_COUNT;

		begin(&s);
		cr_assert_eq(take(&s, ENVELOPE_KEYSET, NULL, signed_keyset(5, 3, SIGNED_NOW_MS + 9)), ACCEPT_OK);
		if (type == ENVELOPE_BEAT)
			cr_assert_eq(take(&s, ENVELOPE_BEAT, NULL, signed_beat(SIGNED_CELL, 3, 5, SIGNED_NOW_MS, 5, 1, "x")), ACCEPT_OK);
		if (type == ENVELOPE_MANIFEST)
			cr_assert_eq(take(&s, ENVELOPE_MANIFEST, NULL, signed_manifest(SIGNED_CELL, 3, 5, NULL, 0)), ACCEPT_OK);
		if (type == ENVELOPE_LEASE)
			cr_assert_eq(take(&s, ENVELOPE_LEASE, "a", signed_lease(SIGNED_CELL, "a", 3, 5, "")), ACCEPT_OK);
		for (unsigned i = WRONG_COUNT; i-- > 0;) {
			enum accept_result want = results[i];

			if ((i == WRONG_CELL && type == ENVELOPE_KEYSET) ||
			    (i == WRONG_TIME && type != ENVELOPE_KEYSET && type != ENVELOPE_BEAT))
				continue;
			if (i == WRONG_TIME && type == ENVELOPE_KEYSET)
				want = ACCEPT_EXPIRED;
			cr_assert_eq(examine(&s, (enum envelope_type)type, "a", spoiled((enum envelope_type)type, 1u << i)), want,
				     "type %u, wrong %u", type, i);
			if (last != WRONG_COUNT)
				cr_assert_eq(examine(&s, (enum envelope_type)type, "a",
						     spoiled((enum envelope_type)type, 1u << i | 1u << last)),
					     want, "type %u, wrong %u and %u", type, i, last);
			last = i;
		}
		/* None of it moved a floor: number 5 is still the last one, and 6 is taken. */
		cr_assert_eq(examine(&s, (enum envelope_type)type, "a", spoiled((enum envelope_type)type, 0)), ACCEPT_OK, "%u", type);
		cr_assert_eq(examine(&s, (enum envelope_type)type, "a", spoiled((enum envelope_type)type, 0)), ACCEPT_OK);
		end(&s);
	}
}

Test(accept, an_equal_number_must_be_the_same_payload)
{
	struct scene s;

	begin(&s);
	cr_assert_eq(take(&s, ENVELOPE_KEYSET, NULL, signed_keyset(5, 3, SIGNED_NOW_MS + 9)), ACCEPT_OK);
	cr_assert_eq(take(&s, ENVELOPE_KEYSET, NULL, signed_keyset(5, 3, SIGNED_NOW_MS + 8)), ACCEPT_EQUIVOCATION);
	cr_assert_eq(take(&s, ENVELOPE_BEAT, NULL, signed_beat(SIGNED_CELL, 3, 5, SIGNED_NOW_MS, 5, 1, "x")), ACCEPT_OK);
	cr_assert_eq(take(&s, ENVELOPE_BEAT, NULL, signed_beat(SIGNED_CELL, 3, 5, SIGNED_NOW_MS, 5, 1, "y")), ACCEPT_EQUIVOCATION);
	cr_assert_eq(take(&s, ENVELOPE_MANIFEST, NULL, signed_manifest(SIGNED_CELL, 3, 5, NULL, 0)), ACCEPT_OK);
	cr_assert_eq(take(&s, ENVELOPE_MANIFEST, NULL, signed_manifest(SIGNED_CELL, 4, 5, NULL, 0)), ACCEPT_EQUIVOCATION);
	cr_assert_eq(take(&s, ENVELOPE_LEASE, "a", signed_lease(SIGNED_CELL, "a", 3, 5, "")), ACCEPT_OK);
	cr_assert_eq(take(&s, ENVELOPE_LEASE, "a", signed_lease(SIGNED_CELL, "a", 3, 5, "{\"deny\":\"a.example\"}")), ACCEPT_EQUIVOCATION);
	/* Another lease has a floor of its own. */
	cr_assert_eq(take(&s, ENVELOPE_LEASE, "b", signed_lease(SIGNED_CELL, "b", 3, 1, "")), ACCEPT_OK);
	end(&s);
}

Test(accept, floors_outlive_a_restart_and_a_lost_beat_key_cannot_lower_them)
{
	struct scene s;

	begin(&s);
	cr_assert_eq(take(&s, ENVELOPE_KEYSET, NULL, signed_keyset(5, 3, SIGNED_NOW_MS + 9)), ACCEPT_OK);
	cr_assert_eq(take(&s, ENVELOPE_BEAT, NULL, signed_beat(SIGNED_CELL, 3, 5, SIGNED_NOW_MS, 5, 1, "x")), ACCEPT_OK);
	cr_assert_eq(take(&s, ENVELOPE_MANIFEST, NULL, signed_manifest(SIGNED_CELL, 3, 5, NULL, 0)), ACCEPT_OK);
	cr_assert_eq(take(&s, ENVELOPE_LEASE, "a", signed_lease(SIGNED_CELL, "a", 3, 5, "")), ACCEPT_OK);
	again(&s);
	/* Without a keyset nobody holds a role. */
	cr_assert_eq(take(&s, ENVELOPE_BEAT, NULL, signed_beat(SIGNED_CELL, 3, 6, SIGNED_NOW_MS, 5, 1, "x")), ACCEPT_SIGNATURE);
	cr_assert_eq(take(&s, ENVELOPE_KEYSET, NULL, signed_keyset(4, 3, SIGNED_NOW_MS + 9)), ACCEPT_ROLLBACK);
	cr_assert_eq(take(&s, ENVELOPE_KEYSET, NULL, signed_keyset(5, 3, SIGNED_NOW_MS + 9)), ACCEPT_OK);
	cr_assert_eq(take(&s, ENVELOPE_BEAT, NULL, signed_beat(SIGNED_CELL, 3, 4, SIGNED_NOW_MS, 5, 1, "x")), ACCEPT_ROLLBACK);
	cr_assert_eq(take(&s, ENVELOPE_MANIFEST, NULL, signed_manifest(SIGNED_CELL, 3, 4, NULL, 0)), ACCEPT_ROLLBACK);
	cr_assert_eq(take(&s, ENVELOPE_LEASE, "a", signed_lease(SIGNED_CELL, "a", 3, 4, "")), ACCEPT_ROLLBACK);
	cr_assert_eq(take(&s, ENVELOPE_LEASE, "a", signed_lease(SIGNED_CELL, "a", 3, 5, "{\"deny\":\"a.example\"}")), ACCEPT_EQUIVOCATION);
	cr_assert_eq(take(&s, ENVELOPE_LEASE, "a", signed_lease(SIGNED_CELL, "a", 3, 5, "")), ACCEPT_OK);
	/* A higher epoch alone does not let the numbers fall. */
	cr_assert_eq(take(&s, ENVELOPE_MANIFEST, NULL, signed_manifest(SIGNED_CELL, 4, 1, NULL, 0)), ACCEPT_ROLLBACK);
	/* The root says that epoch 3 is over: counting begins again. */
	cr_assert_eq(take(&s, ENVELOPE_KEYSET, NULL, signed_keyset(6, 4, SIGNED_NOW_MS + 9)), ACCEPT_OK);
	cr_assert_eq(take(&s, ENVELOPE_MANIFEST, NULL, signed_manifest(SIGNED_CELL, 4, 1, NULL, 0)), ACCEPT_OK);
	cr_assert_eq(take(&s, ENVELOPE_MANIFEST, NULL, signed_manifest(SIGNED_CELL, 3, 9, NULL, 0)), ACCEPT_EPOCH);
	end(&s);
}

Test(accept, the_root_hands_over_only_when_old_and_new_both_sign)
{
	static const enum signed_key all[] = { SIGNED_R1, SIGNED_R2, SIGNED_STRANGER, SIGNED_LEASE }, one[] = { SIGNED_R1 },
				     twice[] = { SIGNED_R1, SIGNED_BEAT }, fresh[] = { SIGNED_STRANGER, SIGNED_LEASE };
	static char handing_over[16384], next[8192];
	char *at;
	struct scene s;

	begin(&s);
	/* One of three, or one and a key of another role, is no threshold of two. */
	cr_assert_eq(examine(&s, ENVELOPE_KEYSET, NULL, signed_envelope(ENVELOPE_KEYSET, signed_keyset(5, 3, SIGNED_NOW_MS + 9), one, 1)),
		     ACCEPT_SIGNATURE);
	cr_assert_eq(examine(&s, ENVELOPE_KEYSET, NULL, signed_envelope(ENVELOPE_KEYSET, signed_keyset(5, 3, SIGNED_NOW_MS + 9), twice, 2)),
		     ACCEPT_SIGNATURE);
	cr_assert_eq(take(&s, ENVELOPE_KEYSET, NULL, signed_keyset(5, 3, SIGNED_NOW_MS + 9)), ACCEPT_OK);
	snprintf(handing_over, sizeof(handing_over), "%s", signed_keyset(6, 3, SIGNED_NOW_MS + 9));
	at = strstr(handing_over, "\"root\":");
	snprintf(next, sizeof(next), "%s", strstr(at, ",\"roles\""));
	snprintf(at, 12000, "\"root\":{\"threshold\":2,\"keys\":{\"no\":\"%s\",\"ls\":\"%s\"}}%s", signed_public(SIGNED_STRANGER),
		 signed_public(SIGNED_LEASE), next);
	/* The old root alone, and the new root alone, are not enough. */
	cr_assert_eq(examine(&s, ENVELOPE_KEYSET, NULL, signed_envelope(ENVELOPE_KEYSET, handing_over, all, 2)), ACCEPT_SIGNATURE);
	cr_assert_eq(examine(&s, ENVELOPE_KEYSET, NULL, signed_envelope(ENVELOPE_KEYSET, handing_over, fresh, 2)), ACCEPT_SIGNATURE);
	cr_assert_eq(examine(&s, ENVELOPE_KEYSET, NULL, signed_envelope(ENVELOPE_KEYSET, handing_over, all, 4)), ACCEPT_OK);
	/* The old root is nobody now, also after a restart. */
	again(&s);
	cr_assert_eq(take(&s, ENVELOPE_KEYSET, NULL, signed_keyset(7, 3, SIGNED_NOW_MS + 9)), ACCEPT_SIGNATURE);
	cr_assert_eq(examine(&s, ENVELOPE_KEYSET, NULL, signed_envelope(ENVELOPE_KEYSET, handing_over, fresh, 2)), ACCEPT_OK);
	end(&s);
}

Test(accept, clock_steps_make_beats_unacceptable_and_never_lengthen_anything)
{
	struct scene s;

	begin(&s);
	cr_assert_eq(take(&s, ENVELOPE_KEYSET, NULL, signed_keyset(5, 3, SIGNED_NOW_MS + 7200000)), ACCEPT_OK);
	cr_assert_eq(take(&s, ENVELOPE_BEAT, NULL, signed_beat(SIGNED_CELL, 3, 5, SIGNED_NOW_MS + 5000, 5, 1, "x")), ACCEPT_OK);
	cr_assert_eq(take(&s, ENVELOPE_BEAT, NULL, signed_beat(SIGNED_CELL, 3, 6, SIGNED_NOW_MS + 5001, 5, 1, "x")), ACCEPT_CLOCK);
	cr_assert_eq(take(&s, ENVELOPE_BEAT, NULL, signed_beat(SIGNED_CELL, 3, 6, SIGNED_NOW_MS - 5001, 5, 1, "x")), ACCEPT_CLOCK);
	cr_assert_eq(take(&s, ENVELOPE_BEAT, NULL, signed_beat(SIGNED_CELL, 3, 6, SIGNED_NOW_MS - 5000, 5, 1, "x")), ACCEPT_OK);
	cr_assert_eq(take(&s, ENVELOPE_BEAT, NULL, signed_beat(SIGNED_CELL, 3, 7, SIGNED_NOW_MS, 5, 1, "x")), ACCEPT_OK);
	signed_clock_step_wall_ms(-3600000);
	cr_assert_eq(accept_wall_ms(s.accept), SIGNED_NOW_MS + 5000);
	cr_assert_eq(take(&s, ENVELOPE_BEAT, NULL, signed_beat(SIGNED_CELL, 3, 8, SIGNED_NOW_MS, 5, 1, "x")), ACCEPT_CLOCK);
	signed_clock_move_ms(1000);
	cr_assert_eq(accept_wall_ms(s.accept), SIGNED_NOW_MS + 6000);
	signed_clock_step_wall_ms(7200000);
	cr_assert_eq(take(&s, ENVELOPE_BEAT, NULL, signed_beat(SIGNED_CELL, 3, 8, SIGNED_NOW_MS, 5, 1, "x")), ACCEPT_CLOCK);
	cr_assert_not(accept_keyset_is_expired(s.accept));
	signed_clock_step_wall_ms(3600000);
	cr_assert(accept_keyset_is_expired(s.accept));
	end(&s);
}

Test(accept, a_clock_that_is_set_back_does_not_make_a_held_back_beat_young)
{
	struct scene s;

	begin(&s);
	cr_assert_eq(take(&s, ENVELOPE_KEYSET, NULL, signed_keyset(5, 3, SIGNED_NOW_MS + 7200000)), ACCEPT_OK);
	cr_assert_eq(take(&s, ENVELOPE_BEAT, NULL, signed_beat(SIGNED_CELL, 3, 5, SIGNED_NOW_MS, 5, 1, "x")), ACCEPT_OK);
	signed_clock_move_ms(8000);
	signed_clock_step_wall_ms(-8000);
	/* A second later there, eight here: seven seconds old, and taking it does not turn the time back. */
	cr_assert_eq(take(&s, ENVELOPE_BEAT, NULL, signed_beat(SIGNED_CELL, 3, 6, SIGNED_NOW_MS + 1000, 5, 1, "x")), ACCEPT_OK);
	cr_assert_eq(accept_wall_ms(s.accept), SIGNED_NOW_MS + 8000);
	signed_clock_move_ms(4000);
	signed_clock_step_wall_ms(-4000);
	cr_assert_eq(take(&s, ENVELOPE_BEAT, NULL, signed_beat(SIGNED_CELL, 3, 7, SIGNED_NOW_MS + 1999, 5, 1, "x")), ACCEPT_CLOCK);
	cr_assert_eq(take(&s, ENVELOPE_BEAT, NULL, signed_beat(SIGNED_CELL, 3, 7, SIGNED_NOW_MS + 2000, 5, 1, "x")), ACCEPT_OK);
	end(&s);
}

Test(accept, a_ruleset_is_what_its_name_says)
{
	static const char payload[] = "{\"typ\":\"egress.ruleset/1\",\"rules\":[]}";
	char name[65];
	struct scene s;

	begin(&s);
	text_from_bytes_hex(signed_entry("", 0, payload).sha256, 32, name);
	cr_assert_eq(take(&s, ENVELOPE_RULESET, name, payload), ACCEPT_OK);
	name[0] = name[0] == '0' ? '1' : '0';
	cr_assert_eq(take(&s, ENVELOPE_RULESET, name, payload), ACCEPT_SIGNATURE);
	end(&s);
}

Test(accept, an_unwritable_disk_keeps_nothing)
{
	struct scene s;

	begin(&s);
	mkdir(fixture_path(s.folder, "floors.new"), 0700);
	cr_assert_eq(take(&s, ENVELOPE_KEYSET, NULL, signed_keyset(5, 3, SIGNED_NOW_MS + 9)), ACCEPT_NOT_KEPT);
	cr_assert(floors_is_broken(s.floors));
	cr_assert_eq(accept_keyset_version(s.accept), 0);
	remove(fixture_path(s.folder, "floors.new"));
	floors_flush(s.floors);
	cr_assert_not(floors_is_broken(s.floors));
	cr_assert_eq(take(&s, ENVELOPE_KEYSET, NULL, signed_keyset(5, 3, SIGNED_NOW_MS + 9)), ACCEPT_OK);
	cr_assert_eq(accept_keyset_version(s.accept), 5);
	end(&s);
}
