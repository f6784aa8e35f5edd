/* Write every sample record as its line, for records_match_schema. */
#include <stdio.h>

#include "samples.h"

int main(void)
{
	for (unsigned i = 0; i < SAMPLE_COUNT; i++) {
		char line[RECORD_JSON_MAX];
		struct record r = sample_record(i);
		size_t len = record_json_write(&r, &sample_observer, line, sizeof(line));

		if (len == 0 || fwrite(line, 1, len, stdout) != len)
			return 1;
	}
	return 0;
}
