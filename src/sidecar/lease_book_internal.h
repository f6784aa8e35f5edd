/*
 * Who is in the holdings that are wanted, under way or adopted, and what each of them must show by now: as control says, by hand, by the
 * clocks. Knows no daemon and sends nothing. For publish only.
 */
#ifndef EGRESS_SIDECAR_LEASE_BOOK_INTERNAL_H
#define EGRESS_SIDECAR_LEASE_BOOK_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/htab.h"
#include "base/list.h"
#include "lease/gate.h"
#include "source/segment_store.h"

#define LEASE_ID_MAX 64

struct lease_entry {
	struct htab_node node;
	struct list_node staged;    /* in book.staged: named by the offer that is looked at */
	struct list_node changed;   /* in book.changed: wanted is not adopted */
	struct list_node under_way; /* in book.under_way: named by the root that is under way */
	struct stored_segment *offered, *wanted;  /* each used; NULL: not in that holding */
	struct stored_segment *shipped, *adopted; /* each held, likewise */
	enum gate_slot_state counted; /* as what the book counts it; CLOSED: not at all */
	bool by_hand;        /* revoked by hand */
	bool is_expired;     /* as wanted says; stays, whatever clocks do */
	bool awaits_revoked; /* by hand, and the daemon has not answered */
	bool owes_word;      /* it is shut, and whether the daemon was told to close its sessions is not known */
	bool has_slot;
	uint32_t slot, generation;
	char id[];
};

struct lease_book {
	struct hash_key key;
	struct htab entries; /* of struct lease_entry, owned */
	struct list staged, changed, under_way;
	size_t counts[GATE_SLOT_EXPIRED + 1]; /* of what is wanted, by lease_book_state */
	uint64_t soonest_expiry_ms; /* of those that are active, when each was last looked at; 0: none */
	uint64_t listeners_serial;  /* another number when other listener names may be wanted */
	uint64_t said_ms, said_ns;  /* it was at least said_ms at said_ns; 0: nobody says */
};

enum err lease_book_init(struct lease_book *b) ATTR_MUST_CHECK;
/* Every entry must have given up its segments. */
void lease_book_finish(struct lease_book *b);
struct lease_entry *lease_book_find(const struct lease_book *b, const char *id);
/* NULL: no memory, or an id that is none. */
struct lease_entry *lease_book_find_or_add(struct lease_book *b, const char *id);
/* Forget it if nothing is said of it any more. */
void lease_book_tidy(struct lease_book *b, struct lease_entry *entry);
/* Walk: NULL begins; `before` may be forgotten only after the next one was asked for. */
struct lease_entry *lease_book_next(const struct lease_book *b, const struct lease_entry *before);

/* What a slot must show by now, as far as holding, clocks and hand go. OPEN still waits for its root. */
enum gate_slot_state lease_book_state(const struct lease_entry *entry);
/* This is wanted from now on, in place of what was; takes over the use of `segment`. What it replaces is the caller's to give up. */
struct stored_segment *lease_book_want(struct lease_book *b, struct lease_entry *entry, struct stored_segment *segment);
/* `adopted` is another now. */
void lease_book_note_adopted(struct lease_book *b, struct lease_entry *entry);
void lease_book_set_by_hand(struct lease_book *b, struct lease_entry *entry, bool is_revoked);
/* Look at the clocks for one entry, and for all. */
void lease_book_expire(struct lease_book *b, struct lease_entry *entry);
void lease_book_expire_all(struct lease_book *b);

/* The wall clock, unless it is behind what it must be. */
uint64_t lease_book_wall_ms(const struct lease_book *b);
/* At `mono_ns` it was at least `wall_ms`. */
void lease_book_set_time(struct lease_book *b, uint64_t wall_ms, uint64_t mono_ns);
/* The end of a lease on the monotonic clock, if it were first seen now. */
uint64_t lease_book_end_ns(const struct lease_book *b, uint64_t exp_ms);

#endif
