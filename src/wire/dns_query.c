/*
 * Queries in our own bytes: the caller brings the randomness (id, letter case), so the same call
 * makes the same bytes and tests need no seed. Called by net/resolver; the fit check also by the
 * socket functions of net/ares_link.
 */
#include "wire/dns_query.h"

#include <string.h>

#include "base/sink.h"

#define HEADER_LEN 12
#define FLAG_RECURSION_DESIRED 0x0100
#define FLAG_RESPONSE_HIGH 0x80 /* QR, in the third byte */
#define OPCODE_MASK_HIGH 0x78
#define CLASS_IN 1
#define TYPE_OPT 41
#define TYPE_AND_CLASS_LEN 4

/* Raise the letters that `case_bits` asks for. Length bytes are at most 63 and never look like a
 * letter. */
static void mix_case(uint8_t *wire, size_t len, const uint8_t case_bits[32])
{
	unsigned letter = 0;

	for (size_t i = 0; i < len; i++) {
		if (wire[i] < 'a' || wire[i] > 'z')
			continue;
		if ((case_bits[letter / 8] >> (letter % 8)) & 1)
			wire[i] = (uint8_t)(wire[i] - 'a' + 'A');
		letter++;
	}
}

void dns_query_build(const struct dname *name, enum dns_type type, uint16_t id,
		     const uint8_t case_bits[32], struct dns_query *out_query)
{
	uint8_t wire[255];
	size_t wire_len = dname_to_wire(name, wire);
	struct sink s;

	memset(out_query, 0, sizeof(*out_query));
	if (case_bits != NULL)
		mix_case(wire, wire_len, case_bits);
	s = sink_over(out_query->bytes, sizeof(out_query->bytes));
	sink_be16(&s, id);
	sink_be16(&s, FLAG_RECURSION_DESIRED);
	sink_be16(&s, 1); /* questions */
	sink_be16(&s, 0);
	sink_be16(&s, 0);
	sink_be16(&s, 1); /* additional records: the OPT */
	sink_bytes(&s, wire, wire_len);
	sink_be16(&s, (uint16_t)type);
	sink_be16(&s, CLASS_IN);
	sink_u8(&s, 0); /* OPT: root owner, RFC 6891 section 6.1.2 */
	sink_be16(&s, TYPE_OPT);
	sink_be16(&s, DNS_EDNS_PAYLOAD);
	sink_be32(&s, 0); /* extended rcode, version 0, no flags */
	sink_be16(&s, 0);
	out_query->id = id;
	out_query->type = (uint16_t)type;
	out_query->len = s.len;
	out_query->question_len = wire_len + TYPE_AND_CLASS_LEN;
}

static bool equal_nocase(const uint8_t *a, const uint8_t *b, size_t len)
{
	return text_equal_nocase((struct text){ (const char *)a, len },
				 (struct text){ (const char *)b, len });
}

enum dns_fit dns_query_fits(const struct dns_query *query, const uint8_t *message, size_t len)
{
	const uint8_t *ours = query->bytes + HEADER_LEN, *theirs;
	size_t name_len = query->question_len - TYPE_AND_CLASS_LEN;

	if (len < HEADER_LEN + query->question_len)
		return DNS_FIT_MISFIT;
	theirs = message + HEADER_LEN;
	if (memcmp(message, query->bytes, 2) != 0 || !(message[2] & FLAG_RESPONSE_HIGH) ||
	    (message[2] & OPCODE_MASK_HIGH) != 0 || message[4] != 0 || message[5] != 1)
		return DNS_FIT_MISFIT;
	if (memcmp(theirs, ours, query->question_len) == 0)
		return DNS_FIT_EXACT;
	if (memcmp(theirs + name_len, ours + name_len, TYPE_AND_CLASS_LEN) != 0 ||
	    !equal_nocase(theirs, ours, name_len))
		return DNS_FIT_MISFIT;
	return DNS_FIT_CASE_DIFFERS;
}
