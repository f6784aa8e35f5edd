/*
 * Strict JSON over jansson; see json.h. The only includer of <jansson.h>. jansson itself refuses duplicate keys, trailing bytes, bad
 * UTF-8, numbers beyond 64 bits and zero bytes; depth, reals, kinds, ranges and keys are looked at here.
 */
#include "document/json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"

struct json {
	json_t *root; /* counted by jansson */
};

#define FAULT_TEXT_MAX 320
#define SHOWN_MAX 80

void json_faults_init(struct json_faults *faults, struct arena *arena)
{
	*faults = (struct json_faults){ .arena = arena };
}

static void add_fault(struct json_faults *faults, const char *pointer, const char *code, const char *format, va_list args)
{
	struct json_fault *fault;
	char text[FAULT_TEXT_MAX];

	faults->count++;
	if (faults->count > JSON_FAULTS_MAX)
		return;
	vsnprintf(text, sizeof(text), format, args);
	fault = arena_take(faults->arena, sizeof(*fault));
	if (fault == NULL) {
		faults->out_of_memory = true;
		return;
	}
	*fault = (struct json_fault){ .code = code };
	fault->pointer = arena_text(faults->arena, pointer, strlen(pointer));
	fault->text = arena_text(faults->arena, text, strlen(text));
	if (fault->pointer == NULL)
		fault->pointer = "";
	if (fault->text == NULL)
		fault->text = "out of memory while this was told";
	if (faults->last == NULL)
		faults->first = fault;
	else
		faults->last->next = fault;
	faults->last = fault;
}

void json_fault_add(struct json_faults *faults, const char *pointer, const char *code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add_fault(faults, pointer, code, format, args);
	va_end(args);
}

/* Append one step of a pointer: / and the key, ~ and / escaped (RFC 6901), unprintable bytes shown. */
static size_t append_step(const struct json_value *v, char *out_text, size_t cap)
{
	char shown[SHOWN_MAX];
	size_t len = 0;

	if (v->key == NULL)
		return (size_t)snprintf(out_text, cap, "/%zu", v->index);
	text_escape(text_of(v->key), shown, sizeof(shown));
	if (cap < 2)
		return 0;
	out_text[len++] = '/';
	for (const char *c = shown; *c != '\0' && len + 3 < cap; c++) {
		if (*c == '~' || *c == '/') {
			out_text[len++] = '~';
			out_text[len++] = *c == '~' ? '0' : '1';
		} else {
			out_text[len++] = *c;
		}
	}
	out_text[len] = '\0';
	return len;
}

static void write_pointer(const struct json_value *v, char out_text[JSON_POINTER_MAX])
{
	const struct json_value *way[JSON_DEPTH_MAX + 2];
	size_t steps = 0, len = 0;

	for (; v != NULL && v->parent != NULL && steps < ARRAY_LEN(way); v = v->parent)
		way[steps++] = v;
	out_text[0] = '\0';
	while (steps > 0 && len < JSON_POINTER_MAX - 1) {
		size_t took = append_step(way[--steps], out_text + len, JSON_POINTER_MAX - len);

		len = took < JSON_POINTER_MAX - len ? len + took : JSON_POINTER_MAX - 1;
	}
}

const char *json_pointer(struct json_faults *faults, const struct json_value *v)
{
	char pointer[JSON_POINTER_MAX];

	write_pointer(v, pointer);
	return arena_text(faults->arena, pointer, strlen(pointer));
}

static void fault_at(struct json_faults *faults, const struct json_value *v, const char *code, const char *format, ...)
	ATTR_PRINTF(4, 5);
static void fault_at(struct json_faults *faults, const struct json_value *v, const char *code, const char *format, ...)
{
	char pointer[JSON_POINTER_MAX];
	va_list args;

	write_pointer(v, pointer);
	va_start(args, format);
	add_fault(faults, pointer, code, format, args);
	va_end(args);
}

static const json_t *node_of(const struct json_value *v)
{
	return v->node;
}

/* Refuse reals and depth everywhere, whatever the keys mean. */
static void check_shape(struct json_faults *faults, const struct json_value *v, unsigned depth)
{
	const json_t *node = node_of(v);
	const char *key;
	json_t *child;

	if (json_is_real(node))
		fault_at(faults, v, "not_whole", "numbers are whole here");
	if (!json_is_object(node) && !json_is_array(node))
		return;
	if (depth == JSON_DEPTH_MAX) {
		fault_at(faults, v, "too_deep", "values nest at most %d deep", JSON_DEPTH_MAX);
		return;
	}
	for (size_t i = 0; i < json_array_size(node); i++) {
		struct json_value element = { .node = json_array_get(node, i), .parent = v, .index = i };

		check_shape(faults, &element, depth + 1);
	}
	json_object_foreach((json_t *)(uintptr_t)node, key, child)
	{
		struct json_value member = { .node = child, .parent = v, .key = key };

		check_shape(faults, &member, depth + 1);
	}
}

/* jansson would otherwise open a file for its seed, at a moment that it chooses. The first call decides. */
static void seed_tables(void)
{
	size_t seed;

	if (crypto_random(&seed, sizeof(seed)) == ERR_OK)
		json_object_seed(seed | 1);
}

static enum err refuse_text(struct json_faults *faults, const json_error_t *error)
{
	char shown[SHOWN_MAX * 2];

	if (json_error_code(error) == json_error_out_of_memory)
		return ERR_NO_MEMORY;
	text_escape(text_of(error->text), shown, sizeof(shown));
	json_fault_add(faults, "", json_error_code(error) == json_error_duplicate_key ? "duplicate_key" : "bad_json",
		       "line %d, column %d: %s", error->line, error->column, shown);
	return ERR_INVALID;
}

enum err json_open(struct text text, struct json_faults *faults, struct json **out_json)
{
	return json_open_long(text, JSON_DOCUMENT_MAX, faults, out_json);
}

enum err json_open_long(struct text text, size_t max, struct json_faults *faults, struct json **out_json)
{
	size_t before = faults->count;
	struct json_value top = { 0 };
	json_error_t error;
	struct json *json;
	enum err err;

	if (text.len > max) {
		json_fault_add(faults, "", "too_long", "the document is longer than %zu KiB", max >> 10);
		return ERR_INVALID;
	}
	json = alloc_zeroed(sizeof(*json));
	if (json == NULL)
		return ERR_NO_MEMORY;
	seed_tables();
	json->root = json_loadb(text.at == NULL ? "" : text.at, text.len, JSON_REJECT_DUPLICATES, &error);
	if (json->root == NULL) {
		err = refuse_text(faults, &error);
		goto out;
	}
	top.node = json->root;
	check_shape(faults, &top, 0);
	err = faults->count == before ? ERR_OK : ERR_INVALID;
out:
	if (err != ERR_OK)
		json_close(json);
	else
		*out_json = json;
	return err;
}

enum err json_open_loose(struct text text, struct json **out_json)
{
	struct json *json;
	json_error_t error;

	if (text.len > JSON_DOCUMENT_MAX)
		return ERR_INVALID;
	json = alloc_zeroed(sizeof(*json));
	if (json == NULL)
		return ERR_NO_MEMORY;
	seed_tables();
	json->root = json_loadb(text.at == NULL ? "" : text.at, text.len, 0, &error);
	if (json->root == NULL) {
		alloc_free(json);
		return json_error_code(&error) == json_error_out_of_memory ? ERR_NO_MEMORY : ERR_INVALID;
	}
	*out_json = json;
	return ERR_OK;
}

void json_close(struct json *json)
{
	if (json == NULL)
		return;
	json_decref(json->root);
	alloc_free(json);
}

struct json_value json_top(const struct json *json)
{
	return (struct json_value){ .node = json->root };
}

static const struct json_key *find_key(const struct json_key *keys, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(keys[i].name, name) == 0)
			return &keys[i];
	return NULL;
}

static void fault_unknown_key(struct json_faults *faults, const struct json_value *member, const struct json_key *keys,
			      size_t key_count)
{
	char known[200] = "";
	size_t len = 0;

	for (size_t i = 0; i < key_count && len < sizeof(known) - 1; i++)
		len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s", i == 0 ? "" : ", ", keys[i].name);
	fault_at(faults, member, "unknown_key", "this key is not known; known here: %s", known);
}

bool json_object_check(struct json_faults *faults, const struct json_value *v, const struct json_key *keys, size_t key_count)
{
	const json_t *node = node_of(v);
	size_t before = faults->count;
	const char *name;
	json_t *child;

	if (node == NULL)
		return false;
	if (!json_is_object(node)) {
		fault_at(faults, v, "wrong_kind", "expected an object");
		return false;
	}
	json_object_foreach((json_t *)(uintptr_t)node, name, child)
	{
		struct json_value member = { .node = child, .parent = v, .key = name };

		if (find_key(keys, key_count, name) == NULL)
			fault_unknown_key(faults, &member, keys, key_count);
	}
	for (size_t i = 0; i < key_count; i++)
		if (keys[i].is_required && json_object_get(node, keys[i].name) == NULL)
			fault_at(faults, v, "missing_key", "%s is missing", keys[i].name);
	return faults->count == before;
}

bool json_is_present(const struct json_value *v)
{
	return v->node != NULL;
}

bool json_is_text(const struct json_value *v)
{
	return json_is_string(node_of(v));
}

struct json_value json_member(const struct json_value *v, const char *name)
{
	return (struct json_value){ .node = json_object_get(node_of(v), name), .parent = v, .key = name };
}

size_t json_array_count(struct json_faults *faults, const struct json_value *v, size_t max)
{
	const json_t *node = node_of(v);

	if (node == NULL)
		return 0;
	if (!json_is_array(node)) {
		fault_at(faults, v, "wrong_kind", "expected a list");
		return 0;
	}
	if (json_array_size(node) > max) {
		fault_at(faults, v, "too_many", "at most %zu are allowed here", max);
		return 0;
	}
	return json_array_size(node);
}

struct json_value json_element(const struct json_value *v, size_t index)
{
	return (struct json_value){ .node = json_array_get(node_of(v), index), .parent = v, .index = index };
}

size_t json_member_count(struct json_faults *faults, const struct json_value *v, size_t max)
{
	const json_t *node = node_of(v);

	if (node == NULL)
		return 0;
	if (!json_is_object(node)) {
		fault_at(faults, v, "wrong_kind", "expected an object");
		return 0;
	}
	if (json_object_size(node) > max) {
		fault_at(faults, v, "too_many", "at most %zu are allowed here", max);
		return 0;
	}
	return json_object_size(node);
}

bool json_member_next(const struct json_value *v, const void **cursor, struct json_value *out_member)
{
	json_t *object = (json_t *)(uintptr_t)v->node;
	void *at = *cursor == NULL ? json_object_iter(object) : json_object_iter_next(object, (void *)(uintptr_t)*cursor);

	if (at == NULL)
		return false;
	*cursor = at;
	*out_member = (struct json_value){ .node = json_object_iter_value(at), .parent = v, .key = json_object_iter_key(at) };
	return true;
}

bool json_u64(struct json_faults *faults, const struct json_value *v, uint64_t min, uint64_t max, uint64_t *out_value)
{
	const json_t *node = node_of(v);
	json_int_t value;

	if (node == NULL)
		return false;
	value = json_integer_value(node);
	if (!json_is_integer(node) || value < 0 || (uint64_t)value < min || (uint64_t)value > max) {
		fault_at(faults, v, json_is_integer(node) ? "out_of_range" : "wrong_kind",
			 "expected a whole number from %" PRIu64 " to %" PRIu64, min, max);
		return false;
	}
	*out_value = (uint64_t)value;
	return true;
}

bool json_bool(struct json_faults *faults, const struct json_value *v, bool *out_value)
{
	const json_t *node = node_of(v);

	if (node == NULL)
		return false;
	if (!json_is_boolean(node)) {
		fault_at(faults, v, "wrong_kind", "expected true or false");
		return false;
	}
	*out_value = json_is_true(node);
	return true;
}

bool json_text(struct json_faults *faults, const struct json_value *v, size_t min, size_t max, const char **out_text)
{
	const json_t *node = node_of(v);
	const char *copy;
	size_t len;

	if (node == NULL)
		return false;
	if (!json_is_string(node)) {
		fault_at(faults, v, "wrong_kind", "expected text");
		return false;
	}
	len = json_string_length(node);
	if (len < min || len > max) {
		fault_at(faults, v, "out_of_range", "expected text of %zu to %zu bytes", min, max);
		return false;
	}
	copy = arena_text(faults->arena, json_string_value(node), len);
	if (copy == NULL) {
		faults->out_of_memory = true;
		return false;
	}
	*out_text = copy;
	return true;
}
