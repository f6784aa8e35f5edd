/* The tables of a segment under construction. Failures stick: callers write in a straight line and learn at emitter_seal. */
#ifndef EGRESS_COMPILER_EMIT_INTERNAL_H
#define EGRESS_COMPILER_EMIT_INTERNAL_H

#include "compiler/emit.h"

struct emitter_table {
	uint8_t *bytes; /* owned */
	size_t count, capacity; /* records */
};

/* A rule's host, kept beside its record for the indexes. */
struct emitter_host {
	const struct rule *rule; /* borrowed from the tree */
	uint32_t number;         /* in LAYOUT_RULES, from 0 */
	struct layout_text name; /* NAME, WILDCARD */
};

struct emitter {
	enum layout_kind kind;
	struct emitter_table table[LAYOUT_TABLE_COUNT];
	struct emitter_host *hosts; /* owned */
	size_t host_count, host_capacity;
	uint64_t seed0, seed1;
	enum err failed;
};

void emitter_init(struct emitter *e, enum layout_kind kind);
void emitter_finish(struct emitter *e);
/* Append records; returns the number of the first. */
uint32_t emitter_add(struct emitter *e, enum layout_table table, const void *records, size_t count);
struct layout_text emitter_text(struct emitter *e, const char *text);
struct layout_span emitter_places(struct emitter *e, const struct policy_place *places, size_t count);
/* Append a policy's rules. */
void emitter_add_rules(struct emitter *e, const struct policy *policy, const char *origin);
/* Build the indexes over all rules added. */
void emitter_index_labels(struct emitter *e);
void emitter_index_prefixes(struct emitter *e);
/* Lay everything out and hash it. */
enum err emitter_seal(struct emitter *e, struct emitted *out_segment) ATTR_MUST_CHECK;

#endif
