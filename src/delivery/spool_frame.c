/* Frames of spool files; see spool_frame.h. The machine's own byte order: a spool does not travel. Called by spool. */
#include "delivery/spool_frame.h"

#include <string.h>

#include "base/hash.h"

#define MAGIC 0x6c6f6f70u

struct head {
	uint32_t magic, len;
	uint64_t sum; /* of everything behind it, and of the line */
	uint64_t boot, sequence, position;
	uint32_t lane, kind;
};

_Static_assert(sizeof(struct head) == SPOOL_FRAME_HEAD, "no holes in what is written");

/* Against what happens to disks, not against people: the folder is ours alone. */
static uint64_t checksum(const struct head *h, const char *line)
{
	static const struct hash_key key = { 0x6567726573736421, 0x73706f6f6c2d3031 };
	struct hash_key second;

	second.k0 = hash_bytes(&key, &h->boot, sizeof(*h) - offsetof(struct head, boot));
	second.k1 = h->len;
	return hash_bytes(&second, line, h->len);
}

size_t spool_frame_size(const struct spool_frame *f)
{
	return SPOOL_FRAME_HEAD + f->line.len;
}

void spool_frame_put(const struct spool_frame *f, uint8_t *out)
{
	struct head h = {
		.magic = MAGIC,
		.len = (uint32_t)f->line.len,
		.boot = f->boot,
		.sequence = f->sequence,
		.position = f->position,
		.lane = f->lane,
		.kind = (uint32_t)f->kind,
	};

	h.sum = checksum(&h, f->line.at);
	memcpy(out, &h, sizeof(h));
	if (f->line.len > 0)
		memcpy(out + sizeof(h), f->line.at, f->line.len);
}

static bool is_possible(const struct head *h)
{
	if (h->magic != MAGIC || h->len > RECORD_JSON_MAX || h->lane >= RECORD_RING_LANES_MAX)
		return false;
	return h->kind == SPOOL_FRAME_LINE ? h->len > 0 : h->kind == SPOOL_FRAME_CUT && h->len == 0;
}

enum parsed spool_frame_take(const uint8_t *bytes, size_t len, struct spool_frame *out_frame)
{
	struct head h;
	const char *line;

	if (len < sizeof(h))
		return PARSED_MORE;
	memcpy(&h, bytes, sizeof(h));
	if (!is_possible(&h))
		return PARSED_BAD;
	if (len - sizeof(h) < h.len)
		return PARSED_MORE;
	line = (const char *)bytes + sizeof(h);
	if (checksum(&h, line) != h.sum || (h.len > 0 && memchr(line, '\n', h.len) != line + h.len - 1))
		return PARSED_BAD;
	*out_frame = (struct spool_frame){
		.kind = (enum spool_frame_kind)h.kind,
		.boot = h.boot,
		.sequence = h.sequence,
		.lane = h.lane,
		.position = h.position,
		.line = { line, h.len },
	};
	return PARSED_OK;
}
