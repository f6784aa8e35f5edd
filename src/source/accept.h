/*
 * The acceptance rules of the contract (section 3) in their order, first failure decides: size, header, type, signature by a key with the
 * role, strict JSON, own cell, epoch, number not below its floor, times. Raises floors, and only after the last check. Knows no source,
 * no order of arrival and no policy.
 */
#ifndef EGRESS_SOURCE_ACCEPT_H
#define EGRESS_SOURCE_ACCEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"
#include "document/beat_doc.h"
#include "document/envelope.h"
#include "document/keyset_doc.h"
#include "document/lease_doc.h"
#include "document/manifest_doc.h"
#include "source/floors.h"

#define ACCEPT_CLOCK_MS 5000 /* a beat may come from so far in our future */

/* What became of a document: symbol, word for logs and reports, word of the metric. In the order of the checks. */
#define ACCEPT_RESULTS(X)                               \
	X(OK, "ok", "ok")                               \
	X(SIZE, "size", "envelope")                     \
	X(HEADER, "header", "envelope")                 \
	X(TYPE, "type", "envelope")                     \
	X(SIGNATURE, "signature", "signature")          \
	X(SCHEMA, "schema", "schema")                   \
	X(CELL, "cell", "cell")                         \
	X(EPOCH, "epoch", "rollback")                   \
	X(ROLLBACK, "rollback", "rollback")             \
	X(EQUIVOCATION, "equivocation", "equivocation") \
	X(CLOCK, "clock", "clock")                      \
	X(EXPIRED, "expired", "expired")                \
	X(NOT_KEPT, "not_kept", "not_kept") /* the floor could not be written, or memory ran out */

#define ACCEPT_RESULT_AS_ENUM(sym, word, metric) ACCEPT_##sym,
enum accept_result { ACCEPT_RESULTS(ACCEPT_RESULT_AS_ENUM) ACCEPT_RESULT_COUNT };
#undef ACCEPT_RESULT_AS_ENUM

struct accept;

struct accept_options {
	const char *cell;         /* borrowed for good */
	unsigned group;           /* of beats */
	struct text root;         /* the `keys` file; borrowed for the call */
	struct floors *floors;    /* borrowed for good */
	uint64_t refuse_after_ms; /* oldest beat that is taken */
};

/* One document under examination. */
struct accept_doc {
	enum envelope_type type;  /* that it is stored as */
	const char *name;         /* LEASE: the id, RULESET: the digest in hex, that it is stored under; borrowed */
	struct text bytes;        /* borrowed */
	struct envelope envelope; /* from the header check on */
	uint8_t sha256[32];       /* of the payload, likewise */
	struct arena arena;       /* of all below */
	struct json_faults faults; /* of a SCHEMA failure */
	union {
		struct keyset_doc keyset;
		struct beat_doc beat;
		struct manifest_doc manifest;
		struct lease_doc lease;
		struct ruleset_doc ruleset;
	} is;                     /* after OK */
	bool has_envelope;
};

/* INVALID with faults: the root is none. */
enum err accept_create(const struct accept_options *options, struct json_faults *faults, struct accept **out_accept) ATTR_MUST_CHECK;
/* Accepts NULL. */
void accept_destroy(struct accept *a);
void accept_set_refuse_after(struct accept *a, uint64_t refuse_after_ms);

/* Prepare a document: what it is stored as, and its bytes (borrowed until finish). */
void accept_doc_init(struct accept_doc *doc, enum envelope_type type, const char *name, struct text bytes);
void accept_doc_finish(struct accept_doc *doc);
/* Run the checks, count the result, raise the floor on OK. A keyset that is OK is in use from here on. */
enum accept_result accept_examine(struct accept *a, struct accept_doc *doc) ATTR_MUST_CHECK;

/* The keyset in use: its version; 0: none. */
uint64_t accept_keyset_version(const struct accept *a);
/* When it ends; 0: there is none. */
uint64_t accept_keyset_exp_ms(const struct accept *a);
/* Is it expired, by the time that is least in the guest's favour? */
bool accept_keyset_is_expired(const struct accept *a);
/* Wall time, but never behind what control said since: for ends of leases and keysets. */
uint64_t accept_wall_ms(const struct accept *a);
/* How many documents of a type ended so. */
uint64_t accept_count(const struct accept *a, enum envelope_type type, enum accept_result result);
const char *accept_result_word(enum accept_result result);
/* The label of the metric; several results share one. */
const char *accept_result_metric(enum accept_result result);

#endif
