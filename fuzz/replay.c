/*
 * Runs a fuzz target over files without a fuzzer: every argument is a file or a folder of files. Promises to fail
 * when there is nothing to run. Each input gets a block of exactly its size, so that a read beyond its end is seen.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));

static unsigned run_count;

static int run_file(const char *path, size_t size)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data = malloc(size);
	int status = -1;

	if (file == NULL || (data == NULL && size > 0))
		goto out;
	if (size > 0 && fread(data, 1, size, file) != size)
		goto out;
	LLVMFuzzerTestOneInput(data, size);
	run_count++;
	status = 0;
out:
	if (status != 0)
		fprintf(stderr, "%s: cannot be read\n", path);
	if (file != NULL)
		fclose(file);
	free(data);
	return status;
}

static int run_path(const char *path)
{
	struct stat st;
	struct dirent **entries;
	int count, status = 0;

	if (stat(path, &st) != 0) {
		fprintf(stderr, "%s: is not there\n", path);
		return -1;
	}
	if (!S_ISDIR(st.st_mode))
		return run_file(path, (size_t)st.st_size);
	count = scandir(path, &entries, NULL, alphasort);
	if (count < 0)
		return -1;
	for (int i = 0; i < count; i++) {
		char child[4096];

		snprintf(child, sizeof(child), "%s/%s", path, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.' && run_path(child) != 0)
			status = -1;
		free(entries[i]);
	}
	free(entries);
	return status;
}

int main(int argc, char **argv)
{
	int status = 0;

	if (LLVMFuzzerInitialize != NULL)
		LLVMFuzzerInitialize(&argc, &argv);
	LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
	for (int i = 1; i < argc; i++) {
		if (run_path(argv[i]) != 0)
			status = 1;
	}
	printf("%u inputs\n", run_count);
	return run_count == 0 ? 1 : status;
}
