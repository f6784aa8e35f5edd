/* One file that is copied into a sealed memfd and passed on, and again when it was replaced: a geo database. For hand_over only. */
#ifndef EGRESS_SIDECAR_RESOURCE_INTERNAL_H
#define EGRESS_SIDECAR_RESOURCE_INTERNAL_H

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "base/attr.h"
#include "base/err.h"

struct resource {
	const char *path; /* borrowed from the configuration; NULL or "" : none */
	bool is_due;      /* must be (re)opened and sent */
	/* Which file it was, to notice a replacement. */
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec mtime;
};

/* Use `path` from now on; due when it differs from before. */
void resource_set_path(struct resource *r, const char *path);
/* Copy the file; the caller owns *out_fd. SYSTEM (errno), LIMIT. */
enum err resource_open(struct resource *r, int *out_fd) ATTR_MUST_CHECK;
/* Is another file (or none) at the path now? Then it becomes due. */
void resource_look(struct resource *r);

#endif
