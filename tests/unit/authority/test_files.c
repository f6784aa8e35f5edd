#include <fcntl.h>

#include "authority/files.h"
#include "folder.h"

Test(files, are_written_whole_read_within_a_limit_and_listed_in_order)
{
	const char *const *names;
	struct arena arena;
	struct text text;
	char folder[64];
	size_t count;
	int fd;

	folder_make(folder);
	arena_init(&arena, 0);
	fd = open(folder, O_RDONLY | O_DIRECTORY);
	cr_assert_eq(files_write(fd, "b.key", "bbb", 3, 0600), ERR_OK);
	cr_assert_eq(files_write(fd, "a.key", "a", 1, 0600), ERR_OK);
	cr_assert_eq(files_write(fd, "a.key", "aa", 2, 0600), ERR_OK);
	cr_assert_eq(files_write(fd, ".key", "x", 1, 0600), ERR_OK);
	cr_assert_eq(files_write(fd, "other", "x", 1, 0600), ERR_OK);
	cr_assert_eq(files_read(fd, "a.key", 2, &arena, &text), ERR_OK);
	cr_assert(text_is(text, "aa"));
	cr_assert_eq(files_read(fd, "a.key", 1, &arena, &text), ERR_LIMIT);
	cr_assert_eq(files_read(fd, "c.key", 1, &arena, &text), ERR_NOT_FOUND);
	cr_assert_eq(files_list(fd, ".", ".key", &arena, &names, &count), ERR_OK);
	cr_assert_eq(count, 2);
	cr_assert_str_eq(names[0], "a");
	cr_assert_str_eq(names[1], "b");
	cr_assert_eq(files_list(fd, "nowhere", "", &arena, &names, &count), ERR_OK);
	cr_assert_eq(count, 0);
	close(fd);
	cr_assert_eq(files_write(-1, "x", "x", 1, 0600), ERR_SYSTEM);
	arena_finish(&arena);
	folder_remove(folder);
}
