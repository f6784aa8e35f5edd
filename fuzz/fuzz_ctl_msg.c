/* Control packets: what is read is written back as the same bytes, and nothing shorter or longer is
 * the same message. */
#include "require.h"
#include "wire/ctl_msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t packet[CTL_MSG_MAX];
	struct ctl_msg msg, again;
	uint8_t *block;

	if (ctl_msg_read(data, size, &msg) != PARSED_OK)
		return 0;
	REQUIRE(size <= CTL_MSG_MAX);
	REQUIRE(ctl_msg_write(&msg, packet, sizeof(packet)) == size);
	REQUIRE(memcmp(packet, data, size) == 0);
	REQUIRE(ctl_msg_write(&msg, packet, size - 1) == 0);
	block = exact_copy(data, size - 1);
	REQUIRE(ctl_msg_read(block, size - 1, &again) == PARSED_BAD);
	free(block);
	return 0;
}
