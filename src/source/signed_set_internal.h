/* What the files of signed_set share: the shelf of documents, their examination, what of them is in force. */
#ifndef EGRESS_SOURCE_SIGNED_SET_INTERNAL_H
#define EGRESS_SOURCE_SIGNED_SET_INTERNAL_H

#include "base/hash.h"
#include "base/htab.h"
#include "base/list.h"
#include "base/log.h"
#include "source/segment_store.h"
#include "source/signed_set.h"

#define SIGNED_WHY_MAX 200
#define SIGNED_POINTER_MAX 160
#define SIGNED_CODE_MAX 32

/* An envelope as it came. */
struct stored {
	char *bytes; /* owned; NULL: none */
	size_t len;
};

/* What is wrong: of the bad document, or of compiling the good one. */
struct signed_words {
	char code[SIGNED_CODE_MAX], pointer[SIGNED_POINTER_MAX], why[SIGNED_WHY_MAX];
};

enum force { FORCE_NONE, FORCE_GOOD, FORCE_QUARANTINED };

/* Each lease has the last document that was good, and the last that was put if it was not. Without any it is gone from the store. */
struct signed_lease {
	struct htab_node node;
	struct list_node pending; /* in shelf.pending: put and not examined */
	struct list_node faulty;  /* in shelf.faulty: it has a bad document */
	struct list_node dirty;   /* in shelf.dirty: what it shall be is to be looked at when the set matches */
	struct list_node less;    /* in shelf.less: compiled without a ruleset that it names */
	struct list_node worded;  /* in shelf.worded: something is wrong with it */
	struct list_node changed; /* in shelf.changed: what is in force is not what was offered last */
	uint64_t snapshot;        /* the last that held it */
	struct stored put, good, bad; /* put: not examined yet */
	uint64_t good_rev, bad_rev;
	uint8_t good_sha256[32], bad_sha256[32];
	bool bad_claims;             /* it is JSON that says a revision */
	enum accept_result bad_result;
	struct signed_words *words;  /* owned; NULL: nothing is wrong, or none could be kept */

	enum force force;
	bool needs_compile;
	uint8_t compiled_sha256[32];    /* payload that the segment was made of */
	struct stored_segment *segment; /* used; in force, NULL: none is */
	uint8_t (*rulesets)[32];        /* owned: documents that it names */
	size_t ruleset_count;
	char id[];
};

struct signed_ruleset {
	struct htab_node node;
	struct list_node pending; /* in shelf.pending_rulesets */
	uint8_t sha256[32];
	uint64_t snapshot;
	struct stored stored;
	struct stored_segment *segment; /* used; NULL: not usable */
};

/* All documents, and where to begin with each kind of work. */
struct signed_shelf {
	struct hash_key key;
	struct htab leases;   /* of struct signed_lease, owned, by id */
	struct htab rulesets; /* of struct signed_ruleset, owned, by digest */
	struct signed_lease **ordered; /* owned array, borrowed members: by id, but for what came since it was sorted */
	size_t ordered_count, sorted_count, room;
	struct list pending, faulty, dirty, less, worded, changed;
	struct list pending_rulesets;
	uint64_t bytes;
	uint64_t snapshot; /* grows with each */
};

enum err signed_shelf_init(struct signed_shelf *s) ATTR_MUST_CHECK;
/* Segments must have been given up. */
void signed_shelf_finish(struct signed_shelf *s);
struct signed_lease *signed_shelf_lease(const struct signed_shelf *s, struct text id);
struct signed_ruleset *signed_shelf_ruleset(const struct signed_shelf *s, const uint8_t sha256[32]);
/* Find or add; NULL: beyond the limits, or no memory. */
struct signed_lease *signed_shelf_add_lease(struct signed_shelf *s, struct text id);
struct signed_ruleset *signed_shelf_add_ruleset(struct signed_shelf *s, const uint8_t sha256[32]);
/* Forget it, its documents and places in lists; its segment was given up. */
void signed_shelf_forget_lease(struct signed_shelf *s, struct signed_lease *lease);
void signed_shelf_forget_ruleset(struct signed_shelf *s, struct signed_ruleset *ruleset);
/* Put `ordered` in order. */
void signed_shelf_sort(struct signed_shelf *s);
/* Keep a copy; false: beyond the limits, or no memory. */
bool signed_shelf_store(struct signed_shelf *s, struct stored *stored, struct text bytes) ATTR_MUST_CHECK;
void signed_shelf_drop(struct signed_shelf *s, struct stored *stored);
/* Put it into a list of the shelf, once. */
void signed_shelf_mark(struct list *list, struct list_node *node);

struct signed_set {
	struct accept *accept;   /* borrowed */
	struct ceiling *ceiling; /* borrowed */
	struct signed_shelf shelf;
	struct segment_store store; /* of all that is in force, and of rulesets at hand */
	uint64_t dropped;
	struct log_limit complaint;

	bool is_match, is_match_due; /* due: the shelf changed since it was compared */
	uint8_t matched[32];         /* with this hash */
	uint8_t *listed;         /* owned: room for comparing */
	size_t list_room;

	uint64_t receipt;        /* of the holding that was taken last; 0: none, so the next is complete */
	bool is_frame_changed;   /* the ceiling */
	struct holding_lease *offered;           /* owned: of the last holding */
	const struct emitted **offered_rulesets; /* owned */
};

/* False: it was refused. */
bool signed_examine_lease(struct signed_set *s, struct signed_lease *lease, struct stored *from);
void signed_examine_ruleset(struct signed_set *s, struct signed_ruleset *ruleset);
/* Say what is wrong with a lease, or with NULL that nothing is. */
void signed_examine_say(struct signed_set *s, struct signed_lease *lease, const char *code, const char *pointer, const char *why);
/* What is in force of a lease ends at once. */
void signed_force_end(struct signed_set *s, struct signed_lease *lease);

#endif
