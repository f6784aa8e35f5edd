/*
 * A policy root compiled in this process, for questions without a daemon: the snapshot that the sidecar would publish, and its leases.
 * Uses the compiler and the segments as they are; nothing is decided here.
 */
#ifndef EGRESS_CLI_CANDIDATE_H
#define EGRESS_CLI_CANDIDATE_H

#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"
#include "compiler/root.h"
#include "lease/lease_table.h"

struct candidate;

struct candidate_options {
	const char *root;     /* a folder */
	const char *ceiling;  /* NULL: ceiling.policy in the root */
	bool report_allowed;
};

/* Compile. Faults of root and ceiling go to `faults`; faulty leases are there, quarantined. */
enum err candidate_open(const struct candidate_options *options, struct fault_list *faults,
			struct candidate **out_candidate) ATTR_MUST_CHECK;
/* Accepts NULL. */
void candidate_close(struct candidate *c);
const struct root *candidate_root(const struct candidate *c);
struct snapshot *candidate_snapshot(const struct candidate *c);
/* By id, or by its file ("leases/x.policy", or a path that ends so); NULL if unknown. */
const struct lease_table_entry *candidate_lease(const struct candidate *c, const char *lease);
/* The root that a file of it lies in: the folder above leases/ or presets/, or that of ceiling.policy. False: it lies in none. */
bool candidate_root_of(const char *file, char *out_root, size_t cap);

#endif
