/* The builder behind answer_build.h (RFC 1035 section 4.1). */
#include "answer_build.h"

#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/sink.h"

void answer_build_init(struct answer_build *b, const struct dns_query *query, uint16_t flags)
{
	memset(b->bytes, 0, sizeof(b->bytes));
	memcpy(b->bytes, query->bytes, 12 + query->question_len);
	b->bytes[2] = (uint8_t)(flags >> 8);
	b->bytes[3] = (uint8_t)flags;
	b->bytes[11] = 0;
	b->len = 12 + query->question_len;
}

size_t answer_build_name(const char *text, uint8_t *out_wire)
{
	size_t len = 0;

	while (*text != '\0' && *text != '@') {
		size_t label = strcspn(text, ".@");

		if (label > 0) {
			out_wire[len++] = (uint8_t)label;
			memcpy(out_wire + len, text, label);
			len += label;
		}
		text += label;
		if (*text == '.')
			text++;
	}
	if (*text == '@') {
		unsigned long to = strtoul(text + 1, NULL, 0);

		out_wire[len++] = (uint8_t)(0xc0 | to >> 8);
		out_wire[len++] = (uint8_t)to;
	} else {
		out_wire[len++] = 0;
	}
	return len;
}

void answer_build_record(struct answer_build *b, enum answer_section section, const char *owner,
			 uint16_t type, uint16_t class, uint32_t ttl_s, const void *data,
			 size_t len)
{
	struct sink s = sink_over(b->bytes + b->len, sizeof(b->bytes) - b->len);
	uint8_t wire[512];
	uint8_t *count = b->bytes + 6 + 2 * (size_t)section;

	sink_bytes(&s, wire, answer_build_name(owner, wire));
	sink_be16(&s, type);
	sink_be16(&s, class);
	sink_be32(&s, ttl_s);
	sink_be16(&s, (uint16_t)len);
	sink_bytes(&s, data, len);
	b->len += s.len;
	if (++count[1] == 0)
		count[0]++;
}

void answer_build_address(struct answer_build *b, const char *owner, uint32_t ttl_s,
			  const char *address)
{
	struct addr addr;

	if (!addr_parse(text_of(address), &addr))
		abort();
	answer_build_record(b, IN_ANSWER, owner,
			    addr.family == ADDR_V4 ? DNS_TYPE_A : DNS_TYPE_AAAA, 1, ttl_s,
			    addr.octets, addr_len(&addr));
}

void answer_build_alias(struct answer_build *b, const char *owner, uint32_t ttl_s,
			const char *target)
{
	uint8_t wire[512];

	answer_build_record(b, IN_ANSWER, owner, DNS_TYPE_CNAME, 1, ttl_s, wire,
			    answer_build_name(target, wire));
}

void answer_build_soa(struct answer_build *b, const char *owner, uint32_t ttl_s, uint32_t minimum_s)
{
	uint8_t data[512];
	size_t len = answer_build_name("ns.test", data);
	struct sink s;

	len += answer_build_name("admin.test", data + len);
	s = sink_over(data + len, sizeof(data) - len);
	sink_be32(&s, 1);
	sink_be32(&s, 2);
	sink_be32(&s, 3);
	sink_be32(&s, 4);
	sink_be32(&s, minimum_s);
	answer_build_record(b, IN_AUTHORITY, owner, 6, 1, ttl_s, data, len + s.len);
}
