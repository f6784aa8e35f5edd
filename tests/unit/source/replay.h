/* A receiver of holdings for tests: takes complete ones and what differs as publish would, checks each, and tells what is held by now. */
#ifndef EGRESS_TESTS_UNIT_SOURCE_REPLAY_H
#define EGRESS_TESTS_UNIT_SOURCE_REPLAY_H

#include "source/holding.h"

#define REPLAY_MAX 256

struct replay {
	uint64_t receipt; /* of the last that was taken; 0: none, or one could not be */
	size_t count;     /* of what is held, by id */
	char ids[REPLAY_MAX][65];
	struct emitted segments[REPLAY_MAX]; /* owned */
	size_t last_count; /* leases that the last holding named */
	bool is_last_complete;
};

void replay_finish(struct replay *r);
/* NOT_FOUND for a wrong base; fails the test for a holding that breaks the rules of holding.h. */
enum err replay_take(struct replay *r, const struct holding *holding, uint64_t *out_receipt);
/* Words of what is held: " "-separated "id", or as `word` writes it from the segment. */
typedef void replay_word_fn(char *out_word, size_t cap, const char *id, const struct emitted *segment);
void replay_words(const struct replay *r, replay_word_fn *word, char *out_words, size_t cap);

#endif
