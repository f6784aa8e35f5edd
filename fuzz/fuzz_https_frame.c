/*
 * Lines of the control plane's stream. What is taken as a frame has the members of its kind, a key and a cursor that are safe where they
 * go, and is the same when read again.
 */
#include "require.h"
#include "store/frames.h"
#include "store/https_frame.h"

static void check(const struct https_frame *f)
{
	bool has_key = f->kind == HTTPS_FRAME_PUT || f->kind == HTTPS_FRAME_DEL;
	bool has_envelope = f->kind == HTTPS_FRAME_PUT || f->kind == HTTPS_FRAME_MARK;

	REQUIRE(has_key == (f->key.len > 0) && f->key.len <= FRAMES_KEY_MAX);
	REQUIRE(has_envelope == (f->envelope.len > 0));
	REQUIRE(f->retry_ms == 0 || f->kind == HTTPS_FRAME_BYE);
	REQUIRE(f->kind != HTTPS_FRAME_SNAP_END || f->cursor != NULL);
	if (f->cursor != NULL) {
		REQUIRE(strlen(f->cursor) > 0 && strlen(f->cursor) <= HTTPS_FRAME_CURSOR_MAX);
		REQUIRE(strpbrk(f->cursor, " &?#%/\r\n\"") == NULL);
	}
	for (size_t i = 0; i < f->key.len; i++)
		REQUIRE(f->key.at[i] > ' ' && f->key.at[i] <= '~');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *line = exact_copy(data, size);
	struct https_frame frame, again;
	struct arena arena;

	arena_init(&arena, 0);
	if (https_frame_read((struct text){ (const char *)line, size }, &arena, &frame) == ERR_OK) {
		check(&frame);
		REQUIRE(https_frame_read((struct text){ (const char *)line, size }, &arena, &again) == ERR_OK);
		REQUIRE(again.kind == frame.kind && text_equal(again.key, frame.key) && text_equal(again.envelope, frame.envelope));
	}
	arena_finish(&arena);
	free(line);
	return 0;
}
