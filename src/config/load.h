/*
 * One configuration file for all programs to one immutable, counted struct: all faults at once, with line and column; unknown keys and
 * duplicates refused; what must fit together is compared here. Opens the one file it is given and nothing else.
 */
#ifndef EGRESS_CONFIG_LOAD_H
#define EGRESS_CONFIG_LOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/err.h"
#include "base/refcount.h"
#include "base/text.h"
#include "config/fault.h"
#include "config/option.h"

#define CONFIG_LISTENERS_MAX 64

struct config {
	struct refcount refs;
	struct arena arena;   /* owns everything below */
	const char *file;     /* its name, for messages */
	struct daemon_options daemon;
	struct sidecar_options sidecar;
	struct serve_options serve;
	bool has_serve;       /* [serve] is there, and then alone: this sidecar serves documents and feeds no daemon */
	const struct listener_option *listeners;
	size_t listener_count;
};

/* Who reads: decides what must be there (a sidecar needs its source; a daemon does not). */
enum config_reader { CONFIG_FOR_DAEMON, CONFIG_FOR_SIDECAR };

/* Read the file at `path`. INVALID when `faults` has errors; SYSTEM (errno) when it cannot be read; the reference is the caller's. */
enum err config_load(const char *path, enum config_reader reader, struct fault_list *faults,
		     struct config **out_config) ATTR_MUST_CHECK;
/* As config_load from memory; `file` is only its name. */
enum err config_parse(const char *file, struct text text, enum config_reader reader, struct fault_list *faults,
		      struct config **out_config) ATTR_MUST_CHECK;
struct config *config_ref(struct config *c);
void config_unref(struct config *c);

/* Print all of a section but [serve] that differs from its default as "[section]" and "key = value" lines; config_parse reads it back to the same values.
 * What the sidecar sends to the daemon is this for the daemon and its listeners. Owned by the caller (alloc_free). */
enum err config_print(const struct config *c, bool with_sidecar, char **out_text) ATTR_MUST_CHECK;

/* Called for each option of [daemon] whose value differs. */
typedef void config_change_fn(void *arg, const struct option_row *row);
void config_compare_daemon(const struct config *before, const struct config *after, config_change_fn *change,
			   void *arg);
/* How many workers to start: as configured, or one for each online processor. */
unsigned config_worker_count(const struct config *c);
/* The listener section called `name`; NULL if there is none. */
const struct listener_option *config_listener(const struct config *c, struct text name);

#endif
