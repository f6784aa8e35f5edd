/*
 * Typed options by table: what a value may be, how it is read, printed and compared, and when a change applies. The tables are
 * daemon_options.def, sidecar_options.def, listener_options.def and serve_options.def.
 */
#ifndef EGRESS_CONFIG_OPTION_H
#define EGRESS_CONFIG_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/arena.h"
#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"

/* When a changed value applies. */
enum option_reload {
	OPTION_LIVE,    /* at the next reload */
	OPTION_RESTART, /* only when the program starts again */
};

struct option_prefixes {
	const struct prefix *at; /* in the configuration's arena */
	size_t count;
};
struct option_endpoints {
	const struct endpoint *at; /* in the configuration's arena */
	size_t count;
};

enum option_bind_kind { OPTION_BIND_NONE, OPTION_BIND_UNIX, OPTION_BIND_TCP };
/* Where to listen. A template makes one listener for each lease that names it. */
struct option_bind {
	enum option_bind_kind kind;
	bool is_template;         /* {listener} in the path, or more than one port */
	const char *path;         /* UNIX: absolute, may hold {listener} once, in its last component */
	struct addr addr;         /* TCP */
	uint16_t port_first, port_last; /* TCP */
};

enum option_source_kind { OPTION_SOURCE_NONE, OPTION_SOURCE_FILE, OPTION_SOURCE_HTTPS, OPTION_SOURCE_ETCD };
/* Where policy comes from. */
struct option_source {
	enum option_source_kind kind;
	const char *text; /* FILE: the root folder; HTTPS: the URL; ETCD: "host:port,host:port" */
};

/* Enumerators of the CHOICE options, in the order of their words. */
enum option_family { OPTION_FAMILY_PREFER6, OPTION_FAMILY_PREFER4, OPTION_FAMILY_ONLY4, OPTION_FAMILY_ONLY6 };
enum option_audit { OPTION_AUDIT_BEST_EFFORT, OPTION_AUDIT_REQUIRED };
enum option_bound_address { OPTION_BOUND_ZEROS, OPTION_BOUND_TRUTHFUL };
enum option_log_level { OPTION_LOG_ERROR, OPTION_LOG_WARN, OPTION_LOG_INFO, OPTION_LOG_DEBUG };
enum option_trust { OPTION_TRUST_SIGNED, OPTION_TRUST_LOCAL };
enum option_client_cells { OPTION_CLIENT_CELLS_ANY, OPTION_CLIENT_CELLS_NAMED };

/* The C type of a field of each option type. */
#define OPTION_FIELD_NUMBER uint64_t
#define OPTION_FIELD_SWITCH bool
#define OPTION_FIELD_CHOICE unsigned
#define OPTION_FIELD_TEXT const char *
#define OPTION_FIELD_PATH const char *
#define OPTION_FIELD_MODE uint32_t
#define OPTION_FIELD_ADDR4 struct addr
#define OPTION_FIELD_ADDR6 struct addr
#define OPTION_FIELD_PREFIXES struct option_prefixes
#define OPTION_FIELD_NAT64 struct option_prefixes
#define OPTION_FIELD_ENDPOINTS struct option_endpoints
#define OPTION_FIELD_BIND struct option_bind
#define OPTION_FIELD_SOURCE struct option_source

#define OPTION(name, type, min, max, standard, unit, reload, text) OPTION_FIELD_##type name;
/* The [daemon] section. */
struct daemon_options {
#include "config/daemon_options.def"
};
/* The [sidecar] section. */
struct sidecar_options {
#include "config/sidecar_options.def"
};
/* The [serve] section. */
struct serve_options {
#include "config/serve_options.def"
};
/* One [listener NAME] section. */
struct listener_option {
	const char *name; /* in the configuration's arena */
#include "config/listener_options.def"
};
#undef OPTION

enum option_type {
	OPTION_NUMBER,
	OPTION_SWITCH,
	OPTION_CHOICE,
	OPTION_TEXT,
	OPTION_PATH,
	OPTION_MODE,
	OPTION_ADDR4,
	OPTION_ADDR6,
	OPTION_PREFIXES,
	OPTION_NAT64,
	OPTION_ENDPOINTS,
	OPTION_BIND,
	OPTION_SOURCE,
	OPTION_TYPE_COUNT,
};

/* One row of a table. All text is static. */
struct option_row {
	const char *name;
	enum option_type type;
	uint64_t min, max;
	const char *words;    /* CHOICE: "first|second|…"; else "" */
	const char *standard; /* default as it would be written; "" means unset */
	const char *unit;
	enum option_reload reload;
	const char *text;     /* for people: sample file, manual */
	size_t offset;        /* of the field in its struct */
};

/* The table of a section ("daemon", "sidecar", "listener", "serve"); NULL for another word. */
const struct option_row *option_table(struct text section, size_t *out_count);

#define OPTION_REASON_MAX 256
#define OPTION_VALUE_MAX 4096 /* bytes of a value as written, and as printed */
#define OPTION_LIST_MAX 256   /* prefixes or endpoints of one option */
#define OPTION_UNIX_PATH_MAX 107 /* bytes: unix(7) */
/*
 * Read `value` as `row` wants it and store it at row->offset of `options`; lists and texts go to `arena`. INVALID with a sentence in
 * out_reason (and nothing stored) when it is not valid; NO_MEMORY.
 */
enum err option_parse(const struct option_row *row, struct text value, struct arena *arena, void *options,
		      char out_reason[OPTION_REASON_MAX]) ATTR_MUST_CHECK;
/* Print the value as option_parse reads it; returns its length, 0 when unset. */
size_t option_print(const struct option_row *row, const void *options, char out_text[OPTION_VALUE_MAX]);
/* Set every field of a section's struct to its default. */
enum err option_set_defaults(struct text section, struct arena *arena, void *options) ATTR_MUST_CHECK;
/* Are values of this type lists, written with commas or blanks between? */
bool option_is_list(const struct option_row *row);
/* Same value in both structs? */
bool option_is_equal(const struct option_row *row, const void *a, const void *b);

#endif
