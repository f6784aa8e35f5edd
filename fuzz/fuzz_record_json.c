/*
 * The reader of decision records. What it accepts must be a record that the writer writes the same
 * way again, in printable ASCII; everything else must be refused, whole.
 */
#include <stdint.h>
#include <string.h>

#include "decision/record_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			__builtin_trap();                                                          \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct record_observer observer = { .proxy_uid = "px", .version = "1" };
	char line[RECORD_JSON_MAX], twice[RECORD_JSON_MAX];
	struct record r, again;
	size_t len;

	if (record_json_read((const char *)data, size, &r) != PARSED_OK)
		return 0;
	REQUIRE(size <= RECORD_JSON_MAX && data[0] == '{');
	for (size_t i = 0; i < size; i++)
		REQUIRE((data[i] >= 0x20 && data[i] < 0x7f) || (i == size - 1 && data[i] == '\n'));
	len = record_json_write(&r, &observer, line, sizeof(line));
	REQUIRE(len > 0 && line[len - 1] == '\n');
	REQUIRE(record_json_read(line, len, &again) == PARSED_OK);
	REQUIRE(record_json_write(&again, &observer, twice, sizeof(twice)) == len);
	REQUIRE(memcmp(line, twice, len) == 0);
	return 0;
}
