/* What the tests of src/cli share: a policy root in a temporary folder, and commands run with their output caught. */
#ifndef EGRESS_TESTS_UNIT_CLI_FIXTURE_H
#define EGRESS_TESTS_UNIT_CLI_FIXTURE_H

#include <stdbool.h>

#include "cli/cli.h"

/* A new folder with a policy root "root": a ceiling, the preset "python", the leases ls_build7 and ls_bad (faulty). */
void fixture_make_root(char out_folder[64]);
void fixture_remove_folder(const char *path);
/* "folder/name" in a static buffer; eight of them at a time. */
const char *fixture_path(const char *folder, const char *name);
void fixture_write(const char *path, const char *text);

/* What a command said. */
struct fixture_said {
	int status;
	char out[65536], err[16384];
};
/* Run a command with arguments (NULL ends them) and `input` (NULL: none) as its standard input. */
void fixture_run(cli_command_fn *run, bool json, const char *input, struct fixture_said *out_said, const char *command, ...);
/* Run the built egressctl with arguments. */
void fixture_run_program(struct fixture_said *out_said, const char *arguments);

#endif
