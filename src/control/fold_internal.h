/*
 * Which denials repeat one another: the first of a (lease, target, reason) passes, those of the next 10 seconds are kept and come out as
 * one, counted. Bounded; knows no descriptor and no loop. For record_stream only.
 */
#ifndef EGRESS_CONTROL_FOLD_INTERNAL_H
#define EGRESS_CONTROL_FOLD_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/htab.h"
#include "base/list.h"
#include "decision/record.h"

#define FOLD_WINDOW_MS 10000
#define FOLD_ENTRIES_MAX 4096

/* A fold is over: the last repetition, counted for all of them; borrowed for the call. */
typedef void fold_done_fn(void *arg, const struct record *last);

struct fold {
	struct hash_key keys[2]; /* random: nobody outside can make two denials look alike */
	struct htab entries;     /* of struct fold_entry, owned */
	struct list by_age;      /* the same, oldest first */
	size_t entries_max, held;
	uint64_t repeats;        /* kept and not come out */
	fold_done_fn *on_done;
	void *arg; /* borrowed */
};

enum fold_result {
	FOLD_PASS, /* not a repetition */
	FOLD_KEPT, /* copied or counted; on_done tells of it */
};

enum err fold_init(struct fold *f, size_t entries_max, fold_done_fn *on_done, void *arg) ATTR_MUST_CHECK;
/* Everything kept must have come out (fold_flush). */
void fold_finish(struct fold *f);
/* Without memory for a copy a repetition passes. */
enum fold_result fold_offer(struct fold *f, const struct record *record, uint64_t now_ms);
/* End the folds that are older than the window. */
void fold_expire(struct fold *f, uint64_t now_ms);
/* End all of them. */
void fold_flush(struct fold *f);
/* Folds that are open. */
size_t fold_count(const struct fold *f);
/* Records that are kept and will come out. */
size_t fold_held(const struct fold *f);
/* Repetitions that those stand for. */
uint64_t fold_repeats(const struct fold *f);

#endif
