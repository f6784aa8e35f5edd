/* Lines, frames and batches of them; see records_fixture.h. */
#include "records_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

struct text records_line(uint64_t number, size_t len)
{
	static char lines[64][RECORD_JSON_MAX];
	static unsigned next;
	char *line = lines[next++ % 64];
	int head = snprintf(line, RECORD_JSON_MAX, "{\"n\":%llu,", (unsigned long long)number);

	memset(line + head, ' ', len - (size_t)head);
	memcpy(line + len - 2, "}\n", 2);
	return (struct text){ line, len };
}

struct spool_frame records_frame(uint64_t boot, uint64_t number, size_t len)
{
	return (struct spool_frame){
		.kind = SPOOL_FRAME_LINE, .boot = boot, .sequence = number, .position = number + 1, .line = records_line(number, len)
	};
}

void records_append(struct spool *s, uint64_t boot, uint64_t from, uint64_t to, size_t len)
{
	for (uint64_t n = from; n <= to; n++) {
		struct spool_frame f = records_frame(boot, n, len);

		cr_assert_eq(spool_append(s, &f, 1), ERR_OK);
	}
}

bool records_batch_is(const struct spool_batch *b, uint64_t from, uint64_t to, size_t len)
{
	if (b->count != to - from + 1 || b->sequence != from || b->len != b->count * len)
		return false;
	for (uint64_t n = from; n <= to; n++) {
		if (memcmp(b->lines + (n - from) * len, records_line(n, len).at, len) != 0)
			return false;
	}
	return true;
}
