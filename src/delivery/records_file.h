/*
 * The file (or FIFO) of the option `records`: whole lines, in order, each once. Opened again when it was moved away or on demand; waits for a
 * full pipe or disk instead of losing. Knows nothing of the ring; told by drain.
 */
#ifndef EGRESS_DELIVERY_RECORDS_FILE_H
#define EGRESS_DELIVERY_RECORDS_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "net/loop.h"

struct records_file;

/* `on_ready` may come once records_file_write said false, when it is worth another try; it is never called from a function here. */
enum err records_file_create(struct loop *loop, loop_fn *on_ready, void *arg, struct records_file **out_file) ATTR_MUST_CHECK;
/* Accepts NULL. */
void records_file_destroy(struct records_file *f);
/* Copied; NULL or "": no file is wanted. */
enum err records_file_set_path(struct records_file *f, const char *path) ATTR_MUST_CHECK;
bool records_file_is_wanted(const struct records_file *f);
/* It could not be opened or written. */
bool records_file_has_failed(const struct records_file *f);
/* Look whether another file stands at the path now. Each second. */
void records_file_tick(struct records_file *f);
/* Open it again (it was moved away). */
void records_file_reopen(struct records_file *f);
/* Write these lines; false: not all of them yet, come again with the same ones. The process must ignore SIGPIPE. */
bool records_file_write(struct records_file *f, const char *lines, size_t len);
/* The lines in hand will not come again; a file loses the part of one that it has. */
void records_file_break_off(struct records_file *f);

/*
 * Does the file end with this line, put there before we started? Whoever wrote it may have died before it could say so to the ring. After
 * records_file_forget_end no more.
 */
bool records_file_ends_with(const struct records_file *f, const char *line, size_t len);
void records_file_forget_end(struct records_file *f);

#endif
