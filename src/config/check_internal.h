/* What must fit together across options, after all lines were read; only load.c calls it. */
#ifndef EGRESS_CONFIG_CHECK_INTERNAL_H
#define EGRESS_CONFIG_CHECK_INTERNAL_H

#include "config/load.h"

#define CONFIG_ROWS_MAX 64 /* of one section; a test compares the tables with it */

/* Lines where things were given; 0: not given. */
struct config_seen {
	uint32_t daemon_line, sidecar_line, serve_line;
	uint32_t daemon[CONFIG_ROWS_MAX], sidecar[CONFIG_ROWS_MAX], serve[CONFIG_ROWS_MAX];
	uint32_t listener_line[CONFIG_LISTENERS_MAX];
	uint32_t listener[CONFIG_LISTENERS_MAX][CONFIG_ROWS_MAX];
};

void config_check(const struct config *c, enum config_reader reader, const char *file, const struct config_seen *seen,
		  struct fault_list *faults);

#endif
