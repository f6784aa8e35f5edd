#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "image/segment.h"
#include "replay.h"

void replay_finish(struct replay *r)
{
	for (size_t i = 0; i < r->count; i++)
		emitted_finish(&r->segments[i]);
	*r = (struct replay){ .count = 0 };
}

static bool find(const struct replay *r, const char *id, size_t *out_at)
{
	size_t at = 0;

	while (at < r->count && strcmp(r->ids[at], id) < 0)
		at++;
	*out_at = at;
	return at < r->count && strcmp(r->ids[at], id) == 0;
}

static void check_rulesets(const struct holding *holding, const struct emitted *emitted)
{
	struct segment *segment;
	const struct layout_id *ids;
	const char *fault;
	uint32_t count;

	cr_assert_eq(segment_open_bytes(emitted->bytes, emitted->len, &segment, &fault), ERR_OK, "%s", fault);
	ids = segment_table(segment, LAYOUT_RULESETS, &count);
	for (uint32_t k = 0; k < count; k++) {
		bool is_there = false;

		for (size_t i = 0; i < holding->ruleset_count; i++)
			is_there = is_there || memcmp(holding->rulesets[i]->id, ids[k].bytes, LAYOUT_ID_LEN) == 0;
		cr_assert(is_there, "a ruleset that is named does not come with it");
	}
	segment_unref(segment);
}

static void take_one(struct replay *r, const struct holding *holding, const struct holding_lease *lease)
{
	size_t at;
	bool is_there = find(r, lease->id, &at);

	if (lease->segment == NULL) {
		cr_assert_neq(holding->base, 0, "a complete holding names nobody who is gone");
		if (!is_there)
			return;
		emitted_finish(&r->segments[at]);
		r->count--;
		memmove(r->ids + at, r->ids + at + 1, (r->count - at) * sizeof(r->ids[0]));
		memmove(r->segments + at, r->segments + at + 1, (r->count - at) * sizeof(r->segments[0]));
		return;
	}
	check_rulesets(holding, lease->segment);
	if (!is_there) {
		cr_assert_lt(r->count, REPLAY_MAX);
		memmove(r->ids + at + 1, r->ids + at, (r->count - at) * sizeof(r->ids[0]));
		memmove(r->segments + at + 1, r->segments + at, (r->count - at) * sizeof(r->segments[0]));
		r->count++;
		snprintf(r->ids[at], sizeof(r->ids[at]), "%s", lease->id);
		r->segments[at].bytes = NULL;
	}
	emitted_finish(&r->segments[at]);
	cr_assert_eq(emitted_share(lease->segment, &r->segments[at]), ERR_OK);
}

enum err replay_take(struct replay *r, const struct holding *holding, uint64_t *out_receipt)
{
	static uint64_t receipts;

	if (holding->base != 0 && holding->base != r->receipt) {
		r->receipt = 0;
		return ERR_NOT_FOUND;
	}
	cr_assert_not_null(holding->ceiling);
	if (holding->base == 0)
		replay_finish(r);
	for (size_t i = 0; i < holding->lease_count; i++) {
		for (size_t k = 0; k < i; k++)
			cr_assert_str_neq(holding->leases[k].id, holding->leases[i].id);
		take_one(r, holding, &holding->leases[i]);
	}
	r->last_count = holding->lease_count;
	r->is_last_complete = holding->base == 0;
	*out_receipt = r->receipt = ++receipts;
	return ERR_OK;
}

void replay_words(const struct replay *r, replay_word_fn *word, char *out_words, size_t cap)
{
	size_t len = 0;

	out_words[0] = '\0';
	for (size_t i = 0; i < r->count; i++) {
		char one[128];

		word(one, sizeof(one), r->ids[i], &r->segments[i]);
		len += (size_t)snprintf(out_words + len, cap - len, "%s%s", i > 0 ? " " : "", one);
		cr_assert_lt(len, cap);
	}
}
