/* Records by hand; the only compression is a pointer to the question. Promises nothing about bad queries. See dns_message.h. */
#include "dns_message.h"

#include <string.h>

#define HEADER 12

size_t dns_message_question_len(const uint8_t *query, size_t len)
{
	size_t at = HEADER;

	while (at < len && query[at] != 0)
		at += query[at] + 1u;
	return at + 5 <= len ? at + 5 - HEADER : 0;
}

static uint16_t be16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static void put16(uint8_t *at, unsigned v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

/* One record: owner is the question, TTL 300. */
static size_t put_address(uint8_t *at, uint16_t type, unsigned n)
{
	static const uint8_t v6[15] = { 0x20, 0x01, 0x0d, 0xb8 };
	size_t len = type == 1 ? 4 : 16;

	put16(at, 0xc00c);
	put16(at + 2, type);
	put16(at + 4, 1);
	memcpy(at + 6, (const uint8_t[4]){ 0, 0, 1, 44 }, 4);
	put16(at + 10, (unsigned)len);
	if (type == 1)
		memcpy(at + 12, (const uint8_t[3]){ 192, 0, 2 }, 3);
	else
		memcpy(at + 12, v6, sizeof(v6));
	at[12 + len - 1] = (uint8_t)(n + 1);
	return 12 + len;
}

static size_t put_opt(uint8_t *at)
{
	memcpy(at, (const uint8_t[11]){ 0, 0, 41, 4, 208 }, 11);
	return 11;
}

static void lower(uint8_t *name)
{
	for (; *name != 0; name += *name + 1) {
		for (unsigned i = 1; i <= *name; i++)
			name[i] = (uint8_t)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i]);
	}
}

size_t dns_message_make(enum dns_act act, const uint8_t *query, size_t len, unsigned addr_count,
			uint8_t out[DNS_MESSAGE_MAX])
{
	size_t qlen = dns_message_question_len(query, len), at = HEADER + qlen;
	uint16_t type = be16(query + HEADER + qlen - 4);
	unsigned rcode = 0;

	if (act == DNS_ACT_EMPTY)
		return 0;
	memcpy(out, query, len);
	if (act == DNS_ACT_REFLECT)
		return len;
	memset(out + 2, 0, 10);
	out[2] = 0x81;
	put16(out + 4, 1);
	switch (act) {
	case DNS_ACT_ANSWER:
	case DNS_ACT_WRONG_ID:
	case DNS_ACT_WRONG_QUESTION:
	case DNS_ACT_LOWER_CASE:
		put16(out + 6, addr_count);
		for (unsigned i = 0; i < addr_count; i++)
			at += put_address(out + at, type, i);
		break;
	case DNS_ACT_GARBAGE:
		put16(out + 6, 500);
		at += put_address(out + at, type, 0);
		break;
	case DNS_ACT_TRUNCATED:
		out[2] |= 2;
		break;
	case DNS_ACT_NXDOMAIN:
		rcode = 3;
		break;
	case DNS_ACT_SERVFAIL:
		rcode = 2;
		break;
	case DNS_ACT_REFUSED:
		rcode = 5;
		break;
	case DNS_ACT_FORMERR:
		out[3] = 0x81;
		return at;
	case DNS_ACT_SHORT:
		return 5;
	default:
		break;
	}
	out[3] = (uint8_t)(0x80 | rcode);
	put16(out + 10, 1);
	at += put_opt(out + at);
	if (act == DNS_ACT_WRONG_ID)
		out[0] ^= 0x55;
	if (act == DNS_ACT_WRONG_QUESTION)
		out[HEADER + 1] ^= 1;
	if (act == DNS_ACT_LOWER_CASE)
		lower(out + HEADER);
	return at;
}
