/* Last words to an SSH client: a line, an identification, and one well-formed disconnect message. */
#include <string.h>

#include <criterion/criterion.h>

#include "base/cursor.h"
#include "wire/ssh_words.h"

/* Read as a client would (RFC 4253 section 6): the text of the message, or NULL. */
static const char *read_disconnect(const uint8_t *bytes, size_t len, char out_text[SSH_WORDS_MAX])
{
	struct cursor c = cursor_over(bytes, len);
	uint32_t packet_len = cursor_be32(&c);
	uint8_t padding = cursor_u8(&c);
	uint32_t text_len;

	if (packet_len + 4 != len || len % 8 != 0 || padding < 4 || cursor_u8(&c) != 1 || cursor_be32(&c) != 1)
		return NULL;
	text_len = cursor_be32(&c);
	if (text_len > cursor_left(&c))
		return NULL;
	memcpy(out_text, cursor_bytes(&c, text_len), text_len);
	out_text[text_len] = '\0';
	return cursor_be32(&c) == 0 && cursor_left(&c) == padding ? out_text : NULL;
}

Test(ssh_words, every_length_of_text_makes_a_line_and_a_message_that_clients_read)
{
	char text[SSH_WORDS_TEXT_MAX + 2] = "", got[SSH_WORDS_MAX];

	for (size_t len = 0; len <= SSH_WORDS_TEXT_MAX; len++) {
		static const char identification[] = "\r\nSSH-2.0-egress\r\n";
		uint8_t bytes[SSH_WORDS_MAX];
		size_t total = ssh_words_put(text, bytes);
		size_t at = len + strlen(identification);

		cr_assert(total > at && memcmp(bytes, text, len) == 0);
		cr_assert(memcmp(bytes + len, identification, strlen(identification)) == 0);
		cr_assert_not_null(read_disconnect(bytes + at, total - at, got), "%zu", len);
		cr_expect_str_eq(got, text);
		text[len] = 'x';
	}
}

Test(ssh_words, a_text_that_is_too_long_is_cut)
{
	char text[1000];
	uint8_t bytes[SSH_WORDS_MAX];

	memset(text, 'y', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	cr_expect_gt(ssh_words_put(text, bytes), 0);
	cr_expect_eq(bytes[SSH_WORDS_TEXT_MAX - 1], 'y');
	cr_expect_eq(bytes[SSH_WORDS_TEXT_MAX], '\r');
}
