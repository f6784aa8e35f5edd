/*
 * Strict JSON: what a parser may shrug at refuses here (duplicate and unknown keys, reals, depth, ranges, wrong kinds), each fault with a
 * JSON pointer, all at once. The only includer of jansson. Hostile input: fuzzed.
 */
#ifndef EGRESS_DOCUMENT_JSON_H
#define EGRESS_DOCUMENT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"

#define JSON_DOCUMENT_MAX (256u << 10) /* bytes */
#define JSON_DEPTH_MAX 16
#define JSON_FAULTS_MAX 64 /* kept; more are only counted */
#define JSON_POINTER_MAX 256

/* One thing wrong, in the list's arena. */
struct json_fault {
	struct json_fault *next;
	const char *pointer; /* RFC 6901; "" is the whole document */
	const char *code;    /* static text: "unknown_key", … */
	const char *text;    /* one sentence, no final dot, printable ASCII */
};

struct json_faults {
	struct arena *arena; /* borrowed */
	struct json_fault *first, *last;
	size_t count;        /* all, also those not kept */
	bool out_of_memory;  /* something could not be kept: the document was not read whole */
};

void json_faults_init(struct json_faults *faults, struct arena *arena);
void json_fault_add(struct json_faults *faults, const char *pointer, const char *code, const char *format, ...)
	ATTR_PRINTF(4, 5);

struct json; /* a parsed document */

/* As json_open, for what stores wrap documents in: at most `max` bytes. */
enum err json_open_long(struct text text, size_t max, struct json_faults *faults, struct json **out_json) ATTR_MUST_CHECK;

/* A value inside a document, with the way to it. Copies; borrowed from the document. */
struct json_value {
	const void *node;             /* NULL: absent or of the wrong kind (a fault was added) */
	const struct json_value *parent; /* NULL at the top; must outlive this value */
	const char *key;              /* member name, or NULL for an element */
	size_t index;
};

/* Parse; INVALID with faults, NO_MEMORY. The caller closes *out_json. */
enum err json_open(struct text text, struct json_faults *faults, struct json **out_json) ATTR_MUST_CHECK;
/* As json_open, but duplicate keys, reals and depth pass: to find out which document a faulty one claims to be, never to act on it. */
enum err json_open_loose(struct text text, struct json **out_json) ATTR_MUST_CHECK;
/* Accepts NULL. */
void json_close(struct json *json);
struct json_value json_top(const struct json *json);

/* A key that an object may have. */
struct json_key {
	const char *name;
	bool is_required;
};
/* Must be an object with these keys only, and all required ones. Unknown ones are faults that list the known. */
bool json_object_check(struct json_faults *faults, const struct json_value *v, const struct json_key *keys, size_t key_count);
bool json_is_present(const struct json_value *v);
bool json_is_text(const struct json_value *v);
/* Member of an object; node NULL when absent. `v` must outlive the result. */
struct json_value json_member(const struct json_value *v, const char *name);
/* Elements of an array; a value that is not an array of at most `max` is a fault and has none. */
size_t json_array_count(struct json_faults *faults, const struct json_value *v, size_t max);
struct json_value json_element(const struct json_value *v, size_t index);
/* Members of an object whose names are free; a value that is not an object of at most `max` is a fault and has none. */
size_t json_member_count(struct json_faults *faults, const struct json_value *v, size_t max);
/* Walk them in the order written: start with *cursor NULL; false at the end. `v` must outlive the results. */
bool json_member_next(const struct json_value *v, const void **cursor, struct json_value *out_member);

/* Typed readers: false with a fault when the kind or range is wrong; absent values return false without a fault and leave the output. */
bool json_u64(struct json_faults *faults, const struct json_value *v, uint64_t min, uint64_t max, uint64_t *out_value);
bool json_bool(struct json_faults *faults, const struct json_value *v, bool *out_value);
/* Text of min to max bytes, copied into the faults' arena; zero bytes refuse. Without memory: false, and out_of_memory. */
bool json_text(struct json_faults *faults, const struct json_value *v, size_t min, size_t max, const char **out_text);
/* The pointer of `v`, in the faults' arena; NULL only without memory. */
const char *json_pointer(struct json_faults *faults, const struct json_value *v);

#endif
