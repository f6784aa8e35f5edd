/* A spool file of any bytes: frames that are taken are written again as they were, lie behind one another, and hold one line or are a cut. */
#include "require.h"
#include "delivery/spool_frame.h"

static void check(const struct spool_frame *f, const uint8_t *bytes, size_t left)
{
	size_t size = spool_frame_size(f);
	uint8_t *again;

	REQUIRE(size <= left && size >= SPOOL_FRAME_HEAD && size <= SPOOL_FRAME_HEAD + RECORD_JSON_MAX);
	REQUIRE(f->lane < RECORD_RING_LANES_MAX);
	REQUIRE(f->kind == SPOOL_FRAME_CUT ? f->line.len == 0 : f->line.len > 0 && f->line.at[f->line.len - 1] == '\n');
	again = malloc(size);
	REQUIRE(again != NULL);
	spool_frame_put(f, again);
	REQUIRE(memcmp(again, bytes, size) == 0);
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = exact_copy(data, size);
	struct spool_frame f;
	size_t at = 0;

	while (at < size && spool_frame_take(copy + at, size - at, &f) == PARSED_OK) {
		check(&f, copy + at, size - at);
		at += spool_frame_size(&f);
	}
	free(copy);
	return 0;
}
