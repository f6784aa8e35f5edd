/* A policy root in a temporary folder, for tests. */
#ifndef EGRESS_TESTS_COMPILER_TREE_H
#define EGRESS_TESTS_COMPILER_TREE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct tree {
	char path[64];
};

static inline void tree_folder(const struct tree *t, const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", t->path, name);
	cr_assert_eq(mkdir(path, 0755), 0);
}

/* Write a whole file as a publisher does: aside, then renamed. */
static inline void tree_write(const struct tree *t, const char *name, const char *text)
{
	char path[256], aside[300];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", t->path, name);
	snprintf(aside, sizeof(aside), "%s/.aside", t->path);
	file = fopen(aside, "w");
	cr_assert_not_null(file);
	cr_assert_geq(fputs(text, file), 0);
	cr_assert_eq(fclose(file), 0);
	cr_assert_eq(chmod(aside, 0644), 0);
	cr_assert_eq(rename(aside, path), 0);
}

static inline void tree_remove(const struct tree *t, const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", t->path, name);
	cr_assert_eq(unlink(path), 0);
}

static inline void tree_create(struct tree *t)
{
	snprintf(t->path, sizeof(t->path), "/tmp/egress-root-XXXXXX");
	cr_assert_not_null(mkdtemp(t->path));
	cr_assert_eq(chmod(t->path, 0755), 0);
	tree_folder(t, "leases");
	tree_folder(t, "presets");
	tree_write(t, "ceiling.policy", "allow any\n");
}

static inline void tree_destroy(const struct tree *t)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", t->path);
	cr_assert_eq(system(command), 0);
}

#endif
