/*
 * Files below one folder, read whole and never through a link; with the trust check, only where nobody else could have written. Notices
 * every replacement: identity is device, inode, size and both times.
 */
#ifndef EGRESS_COMPILER_SOURCE_H
#define EGRESS_COMPILER_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"

#define SOURCE_REASON_MAX 320

/* What tells one state of a file from another. All zero: it does not exist. */
struct source_stamp {
	uint64_t device, inode, size;
	int64_t mtime_ns, ctime_ns;
	uint32_t mode, uid;
	bool is_young; /* read so soon after it changed that another change may look the same: it equals no stamp */
};

struct source_options {
	bool trust_check; /* refuse what others could have written */
};

/* Stamp of `name` below `folder` (both paths); zeros when it does not exist. */
enum err source_stamp(const char *folder, const char *name, struct source_stamp *out_stamp) ATTR_MUST_CHECK;
/* The same below an open folder. */
enum err source_stamp_at(int folder, const char *name, struct source_stamp *out_stamp) ATTR_MUST_CHECK;
bool source_stamp_is_equal(const struct source_stamp *a, const struct source_stamp *b);
/*
 * Read `name` below `folder` into `arena`, at most `max` bytes. NOT_FOUND, LIMIT, DENIED (link, not a plain file, or others may write),
 * SYSTEM, AGAIN (it changed while being read); each with a sentence in out_reason.
 */
enum err source_read(const char *folder, const char *name, size_t max, const struct source_options *options, struct arena *arena,
		     struct text *out_text, struct source_stamp *out_stamp, char out_reason[SOURCE_REASON_MAX]) ATTR_MUST_CHECK;
/* Was what is kept as `text` young, and is the file the same still? Then *io_stamp is that of now. Any failure is a no. */
bool source_is_same(const char *folder, const char *name, size_t max, const struct source_options *options, struct text text,
		    struct source_stamp *io_stamp);
/* Are `path` and all its parents writable by nobody but root and us (a sticky folder such as /tmp counts as safe above it)? DENIED with a sentence. */
enum err source_trust(const char *path, char out_reason[SOURCE_REASON_MAX]) ATTR_MUST_CHECK;
/* May `name` be a preset's? Lower-case letters, digits, - and _; 1 to 64; so it cannot leave its folder. */
bool source_preset_name_is_valid(struct text name);

#endif
