/* Output for programs: JSON texts, escaped. Writes to standard output; main compares at the end whether all of it arrived. */
#ifndef EGRESS_CLI_PRINT_H
#define EGRESS_CLI_PRINT_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* A JSON string with its quotes; every byte outside printable ASCII as \u00NN. */
void print_json_text(struct text t);
/* `"name":"value"`, with a comma in front unless `first`. A NULL value prints null. */
void print_json_member(const char *name, const char *value, bool first);
void print_json_number(const char *name, uint64_t value, bool first);
void print_json_bool(const char *name, bool value, bool first);

#endif
