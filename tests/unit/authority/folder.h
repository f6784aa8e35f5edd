/* A temporary folder with files in it. */
#ifndef EGRESS_TESTS_UNIT_AUTHORITY_FOLDER_H
#define EGRESS_TESTS_UNIT_AUTHORITY_FOLDER_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static inline void folder_make(char out_path[64])
{
	snprintf(out_path, 64, "/tmp/egress-authority-XXXXXX");
	cr_assert_not_null(mkdtemp(out_path));
}

static inline void folder_remove(const char *path)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", path);
	cr_assert_eq(system(command), 0);
}

static inline const char *folder_path(const char *folder, const char *name)
{
	static char paths[8][256];
	static unsigned at;
	char *path = paths[at++ % 8];

	snprintf(path, 256, "%s/%s", folder, name);
	return path;
}

static inline void folder_write(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	cr_assert_not_null(file, "%s", path);
	fputs(text, file);
	fclose(file);
}

/* Whole file into a static buffer; NULL when it is not there. */
static inline const char *folder_read(const char *path)
{
	static char text[65536];
	FILE *file = fopen(path, "r");
	size_t len;

	if (file == NULL)
		return NULL;
	len = fread(text, 1, sizeof(text) - 1, file);
	text[len] = '\0';
	fclose(file);
	return text;
}

#endif
