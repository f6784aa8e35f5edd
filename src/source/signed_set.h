/*
 * The leases and rulesets that a store has told us of, examined, and which of them are in force: only a set whose hash is the manifest's
 * ever is, but for leases that are gone from the store, which leave at once. Knows no beat and no source; driver_signed asks.
 */
#ifndef EGRESS_SOURCE_SIGNED_SET_H
#define EGRESS_SOURCE_SIGNED_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"
#include "config/fault.h"
#include "source/accept.h"
#include "source/ceiling.h"
#include "source/holding.h"

#define SIGNED_LEASES_MAX 100000
#define SIGNED_RULESETS_MAX 16384
#define SIGNED_BYTES_MAX (1ULL << 29) /* of all documents together */

struct signed_set;

/* `accept` and `ceiling` are borrowed for good. */
enum err signed_set_create(struct accept *accept, struct ceiling *ceiling, struct signed_set **out_set) ATTR_MUST_CHECK;
/* Accepts NULL. */
void signed_set_destroy(struct signed_set *s);

/* A snapshot begins: what is not put until its end is gone. */
void signed_set_begin(struct signed_set *s);
void signed_set_end(struct signed_set *s);
/* What is stored under "l/<lease>" or "r/<hex>"; copied. Beyond the limits it is dropped and counted. */
void signed_set_put(struct signed_set *s, struct text key, struct text bytes);
void signed_set_del(struct signed_set *s, struct text key);
/* Examine what was put since; with `all` everything again (the keyset is another). Of many that are refused the rest waits for the next call. */
void signed_set_examine(struct signed_set *s, bool all);
/* The ceiling is another: everything is compiled again. */
void signed_set_recompile(struct signed_set *s);

/*
 * Compare with a manifest's hash: with the faulty documents counted as what they claim to be (then they are what control means: their leases
 * are quarantined), else without them (then they are noise). True: the set is it, and in force from the next holding on. NULL: no manifest.
 */
bool signed_set_match(struct signed_set *s, const uint8_t root[32]);
/* Did what is in force change since the last holding? */
bool signed_set_is_changed(const struct signed_set *s);
/* What differs from the holding that was taken last, or all that is in force; borrowed until the next call here. */
enum err signed_set_holding(struct signed_set *s, struct holding *out_holding) ATTR_MUST_CHECK;
/* What the receiver gave for that holding; 0: it did not take it, so the next is complete. */
void signed_set_taken(struct signed_set *s, uint64_t receipt);

/* Digest of the payload of a lease in force; false: none. */
bool signed_set_print(const struct signed_set *s, const char *lease, uint8_t out_sha256[32]);
/* What is wrong with documents and leases; places are the keys. */
void signed_set_visit_faults(const struct signed_set *s, void (*visit)(void *arg, const struct fault *fault), void *arg);

/* A lease that is not in force as control wants it. */
struct signed_nack {
	const char *lease, *type, *pointer; /* type: the word of the result, or the code of the fault */
	uint64_t rev;                       /* as it claims; 0: it claims none */
};
void signed_set_visit_nacks(const struct signed_set *s, void (*visit)(void *arg, const struct signed_nack *nack), void *arg);

uint64_t signed_set_dropped(const struct signed_set *s);

#endif
