/* {"f":"put","k":"l/ls_1","env":"…"}: see https_frame.h. Each kind has its members; an unknown one refuses the line. */
#include "store/https_frame.h"

#include <string.h>

#include "document/json.h"
#include "store/base64.h"
#include "store/frames.h"

#define RETRY_MAX_MS 3600000u
#define WHY_MAX 200

struct shape {
	const char *word;
	enum https_frame_kind kind;
	struct json_key keys[4];
	size_t key_count;
};

static const struct shape shapes[] = {
	{ "snap_begin", HTTPS_FRAME_SNAP_BEGIN, { { "f", true }, { "cursor", false } }, 2 },
	{ "put", HTTPS_FRAME_PUT, { { "f", true }, { "k", true }, { "env", true }, { "cursor", false } }, 4 },
	{ "del", HTTPS_FRAME_DEL, { { "f", true }, { "k", true }, { "cursor", false } }, 3 },
	{ "snap_end", HTTPS_FRAME_SNAP_END, { { "f", true }, { "cursor", true } }, 2 },
	{ "mark", HTTPS_FRAME_MARK, { { "f", true }, { "env", true }, { "cursor", false } }, 3 },
	{ "bye", HTTPS_FRAME_BYE, { { "f", true }, { "retry_ms", false }, { "why", false } }, 3 },
};

static bool is_key(struct text key)
{
	for (size_t i = 0; i < key.len; i++)
		if (key.at[i] <= ' ' || key.at[i] > '~')
			return false;
	return key.len > 0;
}

static bool is_cursor(const char *cursor)
{
	return strspn(cursor, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") == strlen(cursor);
}

static const char *member_text(struct json_faults *faults, const struct json_value *top, const char *name, size_t max)
{
	struct json_value value = json_member(top, name);
	const char *text = NULL;

	json_text(faults, &value, 1, max, &text);
	return text;
}

static void read_envelope(struct json_faults *faults, const struct json_value *top, struct https_frame *frame)
{
	const char *coded = member_text(faults, top, "env", HTTPS_FRAME_LINE_MAX);
	size_t len;
	char *bytes;

	if (coded == NULL)
		return;
	bytes = arena_take(faults->arena, strlen(coded) / 4 * 3 + 1);
	if (bytes == NULL)
		faults->out_of_memory = true;
	else if (!base64_decode(text_of(coded), bytes, &len))
		json_fault_add(faults, "/env", "not_base64", "expected base64 with padding");
	else
		frame->envelope = (struct text){ bytes, len };
}

static void read_members(struct json_faults *faults, const struct json_value *top, struct https_frame *frame)
{
	struct json_value retry = json_member(top, "retry_ms");
	const char *key = member_text(faults, top, "k", FRAMES_KEY_MAX);

	frame->cursor = member_text(faults, top, "cursor", HTTPS_FRAME_CURSOR_MAX);
	if (frame->cursor != NULL && !is_cursor(frame->cursor))
		json_fault_add(faults, "/cursor", "not_a_cursor", "expected letters, digits, - _ and .");
	if (key != NULL)
		frame->key = text_of(key);
	if (key != NULL && !is_key(frame->key))
		json_fault_add(faults, "/k", "not_a_key", "expected printable ASCII without spaces");
	json_u64(faults, &retry, 0, RETRY_MAX_MS, &frame->retry_ms);
	member_text(faults, top, "why", WHY_MAX);
	read_envelope(faults, top, frame);
}

static const struct shape *shape_of(struct json_faults *faults, const struct json_value *top)
{
	const char *word = NULL;

	/* The word first: which members may be there depends on it. */
	if (json_is_present(top))
		word = member_text(faults, top, "f", 16);
	for (size_t i = 0; word != NULL && i < ARRAY_LEN(shapes); i++)
		if (strcmp(shapes[i].word, word) == 0)
			return &shapes[i];
	return NULL;
}

enum err https_frame_read(struct text line, struct arena *arena, struct https_frame *out_frame)
{
	struct https_frame frame = { 0 };
	const struct shape *shape;
	struct json_faults faults;
	struct json_value top;
	struct json *json;
	enum err e;

	json_faults_init(&faults, arena);
	e = json_open_long(line, HTTPS_FRAME_LINE_MAX, &faults, &json);
	if (e != ERR_OK)
		return e;
	top = json_top(json);
	shape = shape_of(&faults, &top);
	if (shape != NULL && json_object_check(&faults, &top, shape->keys, shape->key_count)) {
		frame.kind = shape->kind;
		read_members(&faults, &top, &frame);
	}
	e = shape == NULL || faults.count > 0 ? ERR_INVALID : ERR_OK;
	if (faults.out_of_memory)
		e = ERR_NO_MEMORY;
	json_close(json);
	if (e == ERR_OK)
		*out_frame = frame;
	return e;
}
