/*
 * Queries and their echoes. Sixteen bytes of case bits, then a name, a zero byte, and a message.
 * Every query is one question that reads back as the name; its echo fits, and a message fits only
 * if its question is the same but for case.
 */
#include "require.h"
#include "wire/dns_query.h"

#define CASE_LEN 16

/* Read the question's name back, label by label. */
static void require_question(const struct dns_query *q, const struct dname *name)
{
	char text[DNAME_MAX + 2];
	size_t at = 12, len = 0;
	struct dname again;

	while (q->bytes[at] != 0) {
		if (len > 0)
			text[len++] = '.';
		memcpy(text + len, q->bytes + at + 1, q->bytes[at]);
		len += q->bytes[at];
		at += 1u + q->bytes[at];
	}
	REQUIRE(dname_parse((struct text){ text, len }, DNAME_FINAL_DOT_REFUSE, &again) ==
		DNAME_OK);
	REQUIRE(dname_equal(&again, name));
	REQUIRE(at + 1 + 4 == 12 + q->question_len && q->len == 12 + q->question_len + 11);
	REQUIRE(q->len <= DNS_QUERY_MAX);
}

static void check_message(const struct dns_query *q, const uint8_t *message, size_t len)
{
	enum dns_fit fit = dns_query_fits(q, message, len);

	if (fit == DNS_FIT_MISFIT)
		return;
	REQUIRE(len >= 12 + q->question_len && (message[2] & 0xf8) == 0x80);
	for (size_t i = 12; i < 12 + q->question_len; i++) {
		REQUIRE(fit == DNS_FIT_CASE_DIFFERS || message[i] == q->bytes[i]);
		REQUIRE(text_lower((char)message[i]) == text_lower((char)q->bytes[i]));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t bits[32] = { 0 }, echo[DNS_QUERY_MAX];
	struct dns_query mixed, plain;
	struct dname name;
	size_t name_len;

	if (size < CASE_LEN)
		return 0;
	memcpy(bits, data, CASE_LEN);
	memcpy(bits + CASE_LEN, data, CASE_LEN);
	data += CASE_LEN;
	size -= CASE_LEN;
	name_len = strnlen((const char *)data, size);
	if (dname_parse((struct text){ (const char *)data, name_len }, DNAME_FINAL_DOT_DROP,
			&name) != DNAME_OK)
		return 0;
	dns_query_build(&name, DNS_TYPE_A, 0x4142, bits, &mixed);
	dns_query_build(&name, DNS_TYPE_A, 0x4142, NULL, &plain);
	require_question(&mixed, &name);
	require_question(&plain, &name);
	memcpy(echo, mixed.bytes, mixed.len);
	REQUIRE(dns_query_fits(&mixed, echo, mixed.len) == DNS_FIT_MISFIT);
	echo[2] |= 0x80;
	REQUIRE(dns_query_fits(&mixed, echo, mixed.len) == DNS_FIT_EXACT);
	REQUIRE(dns_query_fits(&plain, echo, mixed.len) != DNS_FIT_MISFIT);
	REQUIRE(dns_query_fits(&plain, echo, 12 + plain.question_len - 1) == DNS_FIT_MISFIT);
	if (name_len < size)
		check_message(&mixed, data + name_len + 1, size - name_len - 1);
	return 0;
}
