/* Control messages: every row of the table goes there and back, and nothing that is not in the
 * table passes. */
#include <criterion/criterion.h>

#include "hex.h"
#include "wire/ctl_msg.h"

/* A message of this type whose fields are all different. */
static struct ctl_msg example(enum ctl_type type)
{
	static const char *const texts[CTL_MSG_FIELDS_MAX] = {
		"", "sidecar", "0.1.0", "a\tb\n", "x", "y", "z", "\xff\x80"
	};
	struct ctl_msg msg = { .type = type };

	for (unsigned i = 0; ctl_row(type)->fields[i] != '\0'; i++) {
		if (ctl_row(type)->fields[i] == 'u')
			msg.field[i].number = UINT64_C(0x0102030405060708) * (i + 1);
		else
			msg.field[i].bytes = text_of(texts[i]);
	}
	return msg;
}

static void assert_same(const struct ctl_msg *a, const struct ctl_msg *b)
{
	cr_assert_eq(a->type, b->type);
	for (unsigned i = 0; i < CTL_MSG_FIELDS_MAX; i++) {
		cr_assert_eq(a->field[i].number, b->field[i].number);
		cr_assert(text_equal(a->field[i].bytes, b->field[i].bytes));
	}
}

Test(ctl_msg, every_row_survives_the_way_there_and_back)
{
	for (unsigned t = 0; t < CTL_TYPE_COUNT; t++) {
		struct ctl_msg msg = example((enum ctl_type)t), again;
		uint8_t packet[512];
		size_t len = ctl_msg_write(&msg, packet, sizeof(packet));

		cr_assert_gt(len, 0);
		cr_assert_eq(ctl_msg_read(packet, len, &again), PARSED_OK, "%s",
			     ctl_row(msg.type)->word);
		assert_same(&msg, &again);
	}
}

Test(ctl_msg, a_packet_that_is_not_exactly_one_message_is_bad)
{
	for (unsigned t = 0; t < CTL_TYPE_COUNT; t++) {
		struct ctl_msg msg = example((enum ctl_type)t), again;
		uint8_t packet[512] = { 0 };
		size_t len = ctl_msg_write(&msg, packet, sizeof(packet));

		for (size_t n = 0; n < len; n++) {
			uint8_t *block = exact_copy(packet, n);

			cr_assert_eq(ctl_msg_read(block, n, &again), PARSED_BAD, "%u, %zu", t, n);
			free(block);
		}
		cr_assert_eq(ctl_msg_read(packet, len + 1, &again), PARSED_BAD);
	}
}

Test(ctl_msg, a_packet_that_does_not_fit_is_not_written)
{
	for (unsigned t = 0; t < CTL_TYPE_COUNT; t++) {
		struct ctl_msg msg = example((enum ctl_type)t);
		uint8_t packet[512];
		size_t len = ctl_msg_write(&msg, packet, sizeof(packet));

		for (size_t cap = 0; cap < len; cap++) {
			uint8_t *block = exact_copy(packet, cap);

			cr_assert_eq(ctl_msg_write(&msg, block, cap), 0);
			free(block);
		}
		cr_assert_eq(ctl_msg_write(&msg, packet, len), len);
	}
}

Test(ctl_msg, unknown_types_and_versions_are_bad)
{
	struct ctl_msg msg = example(CTL_ACK), again;
	uint8_t packet[64];
	size_t len = ctl_msg_write(&msg, packet, sizeof(packet));

	for (unsigned version = 0; version < 65536; version++) {
		packet[0] = (uint8_t)(version >> 8);
		packet[1] = (uint8_t)version;
		cr_assert_eq(ctl_msg_read(packet, len, &again),
			     version == CTL_MSG_VERSION ? PARSED_OK : PARSED_BAD);
	}
	packet[0] = 0;
	packet[1] = CTL_MSG_VERSION;
	for (unsigned type = CTL_TYPE_COUNT; type < 65536; type++) {
		packet[2] = (uint8_t)(type >> 8);
		packet[3] = (uint8_t)type;
		cr_assert_eq(ctl_msg_read(packet, len, &again), PARSED_BAD);
	}
	msg.type = CTL_TYPE_COUNT;
	cr_assert_null(ctl_row(msg.type));
	cr_assert_eq(ctl_msg_write(&msg, packet, sizeof(packet)), 0);
}

Test(ctl_msg, text_holds_no_nul_and_bytes_may)
{
	struct ctl_msg text = { .type = CTL_GEO }, bytes = { .type = CTL_SEGMENT }, again;
	uint8_t packet[64];
	size_t len;

	text.field[0].bytes = (struct text){ "as\0n", 4 };
	cr_assert_eq(ctl_msg_write(&text, packet, sizeof(packet)), 0);
	bytes.field[0].bytes = (struct text){ "as\0n", 4 };
	len = ctl_msg_write(&bytes, packet, sizeof(packet));
	cr_assert_eq(ctl_msg_read(packet, len, &again), PARSED_OK);
	assert_same(&bytes, &again);
	packet[3] = CTL_GEO;
	cr_assert_eq(ctl_msg_read(packet, len, &again), PARSED_BAD);
}

Test(ctl_msg, a_field_holds_at_most_65000_bytes)
{
	static char long_text[66000];
	static uint8_t packet[CTL_MSG_MAX + 4096];
	struct ctl_msg msg = { .type = CTL_OPTIONS }, again;
	size_t len;

	memset(long_text, 'x', sizeof(long_text));
	msg.field[0].bytes = (struct text){ long_text, 65000 };
	len = ctl_msg_write(&msg, packet, sizeof(packet));
	cr_assert_eq(len, 65008);
	cr_assert_eq(ctl_msg_read(packet, len, &again), PARSED_OK);
	assert_same(&msg, &again);
	msg.field[0].bytes.len = 65001;
	cr_assert_eq(ctl_msg_write(&msg, packet, sizeof(packet)), 0);
	packet[7]++; /* the length that the reader sees */
	packet[len] = 'x';
	cr_assert_eq(ctl_msg_read(packet, len + 1, &again), PARSED_BAD);
}

Test(ctl_msg, a_message_never_grows_beyond_one_packet)
{
	static char long_text[65000];
	static uint8_t packet[2 * CTL_MSG_MAX];
	struct ctl_msg msg = { .type = CTL_STATUS }, again;
	size_t len;

	memset(long_text, 'x', sizeof(long_text));
	msg.field[0].bytes = (struct text){ long_text, sizeof(long_text) };
	msg.field[1].bytes = (struct text){ long_text, CTL_MSG_MAX - 12 - sizeof(long_text) };
	len = ctl_msg_write(&msg, packet, sizeof(packet));
	cr_assert_eq(len, CTL_MSG_MAX);
	cr_assert_eq(ctl_msg_read(packet, len, &again), PARSED_OK);
	msg.field[1].bytes.len++;
	cr_assert_eq(ctl_msg_write(&msg, packet, sizeof(packet)), 0);
	packet[8 + sizeof(long_text) + 3]++;
	cr_assert_eq(ctl_msg_read(packet, len + 1, &again), PARSED_BAD);
}

Test(ctl_msg, words_are_distinct_and_every_message_has_a_sender)
{
	for (unsigned a = 0; a < CTL_TYPE_COUNT; a++) {
		cr_assert_neq(ctl_row((enum ctl_type)a)->from, 0);
		for (unsigned b = a + 1; b < CTL_TYPE_COUNT; b++)
			cr_assert_str_neq(ctl_row((enum ctl_type)a)->word,
					  ctl_row((enum ctl_type)b)->word);
	}
}
