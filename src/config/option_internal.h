/* Readers and printers of the option types that need more than a line; only option.c calls them. */
#ifndef EGRESS_CONFIG_OPTION_INTERNAL_H
#define EGRESS_CONFIG_OPTION_INTERNAL_H

#include "config/option.h"

/* Each reads `value` (1 to OPTION_VALUE_MAX - 1 bytes), stores into `field` on success, else leaves a sentence in `reason`. */
enum err option_parse_text(struct text value, struct arena *arena, const char **field, char *reason);
enum err option_parse_path(struct text value, struct arena *arena, const char **field, char *reason);
enum err option_parse_prefixes(struct text value, struct arena *arena, struct option_prefixes *field, char *reason);
enum err option_parse_nat64(struct text value, struct arena *arena, struct option_prefixes *field, char *reason);
enum err option_parse_endpoints(struct text value, struct arena *arena, struct option_endpoints *field, char *reason);
enum err option_parse_bind(struct text value, struct arena *arena, struct option_bind *field, char *reason);
enum err option_parse_source(struct text value, struct arena *arena, struct option_source *field, char *reason);

/* Each prints into OPTION_VALUE_MAX bytes; "" when unset. */
void option_print_prefixes(const struct option_prefixes *field, char *out_text);
void option_print_endpoints(const struct option_endpoints *field, char *out_text);
void option_print_bind(const struct option_bind *field, char *out_text);
void option_print_source(const struct option_source *field, char *out_text);

#endif
