/*
 * A ring that a broken or hostile daemon left: what the page says of itself, head, tail and the bytes between. Whatever it is, the reader maps it
 * within its file or not at all, ends, stays behind the head, and gives nothing but lines of printable ASCII.
 */
#include <unistd.h>

#include "base/crypto.h"
#include "control/record_ring.h"
#include "require.h"

#define HEAD_AT 64 /* of the first lane; its tail is 64 bytes behind */
#define DATA_AT 4096

static void check_line(const struct record_ring_line *line)
{
	REQUIRE(line->len >= 3 && line->len <= RECORD_JSON_MAX && line->text[0] == '{' && line->text[line->len - 1] == '\n');
	for (size_t i = 0; i < line->len - 1; i++)
		REQUIRE(line->text[i] >= ' ' && line->text[i] <= '~');
}

static void read_out(struct record_ring *ring, uint64_t head)
{
	uint64_t at = record_ring_tail(ring, 0), from = at;
	struct record_ring_line line;
	enum record_ring_seen seen;
	unsigned lines = 0;

	while ((seen = record_ring_look(ring, 0, &at, &line)) == RECORD_RING_LINE) {
		check_line(&line);
		REQUIRE(at - from >= record_ring_need(line.len) && head - at <= RECORD_RING_LANE_MIN);
		REQUIRE(++lines <= RECORD_RING_LANE_MIN / record_ring_need(3));
	}
	REQUIRE(seen == RECORD_RING_DAMAGED || at == head);
	REQUIRE(record_ring_take(ring, 0, from, at));
	record_ring_skip(ring, 0);
	REQUIRE(head - record_ring_tail(ring, 0) < 16);
}

static void scribble(const struct record_ring *ring, size_t offset, const void *bytes, size_t len)
{
	REQUIRE(pwrite(record_ring_fd(ring), bytes, len, (off_t)offset) == (ssize_t)len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct record_ring *ring, *mapped;
	uint64_t places[2];

	if (size < sizeof(places) || size > sizeof(places) + RECORD_RING_LANE_MIN)
		return 0;
	REQUIRE(crypto_init() == ERR_OK && record_ring_create(1, 1, &ring) == ERR_OK);
	memcpy(places, data, sizeof(places));
	scribble(ring, HEAD_AT, &places[0], sizeof(places[0]));
	scribble(ring, HEAD_AT + 64, &places[1], sizeof(places[1]));
	for (size_t i = 0; i < size - sizeof(places); i++) /* from where reading starts, around the end */
		scribble(ring, DATA_AT + (places[1] + i) % RECORD_RING_LANE_MIN, data + sizeof(places) + i, 1);
	REQUIRE(record_ring_map(record_ring_fd(ring), &mapped) == ERR_OK);
	read_out(mapped, places[0]);
	record_ring_destroy(mapped);
	/* The same bytes as what the ring says of itself. */
	scribble(ring, 0, data, size < 64 ? size : 64);
	if (record_ring_map(record_ring_fd(ring), &mapped) == ERR_OK) {
		REQUIRE(record_ring_lanes(mapped) == 1 && record_ring_lane_size(mapped) == RECORD_RING_LANE_MIN);
		record_ring_destroy(mapped);
	}
	record_ring_destroy(ring);
	return 0;
}
