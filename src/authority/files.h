/* Whole files in one folder: read with a limit, replaced by rename, so that a reader finds the old one or the new one. */
#ifndef EGRESS_AUTHORITY_FILES_H
#define EGRESS_AUTHORITY_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"

/* Read `name` below `folder` into `arena`; NOT_FOUND, LIMIT, SYSTEM. */
enum err files_read(int folder, const char *name, size_t max, struct arena *arena, struct text *out_text) ATTR_MUST_CHECK;
/* Does `name` belong to root or us, and have others none of these permissions (022: no writing)? */
bool files_is_ours(int folder, const char *name, mode_t others);
/* Write and flush beside, then rename. SYSTEM (errno). */
enum err files_write(int folder, const char *name, const void *bytes, size_t len, mode_t mode) ATTR_MUST_CHECK;
/* Names in `folder`/`sub` that end in `ending` (cut off), sorted; in `arena`. No such folder: none. */
enum err files_list(int folder, const char *sub, const char *ending, struct arena *arena, const char *const **out_names,
		    size_t *out_count) ATTR_MUST_CHECK;

#endif
