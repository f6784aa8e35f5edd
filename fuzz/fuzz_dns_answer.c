/*
 * DNS responses. The first byte picks name and type, and whether the bytes are the whole message or
 * what follows an echo of the query. Addresses come only with the outcome that says so, stand in
 * the message, and not in one that is cut or longer.
 */
#include "require.h"
#include "wire/dns_answer.h"

#define ECHO_MAX (12 + 259)

static const char *const names[] = { "allowed.test", "a.b", "x", "xn--bcher-kva.wild.test" };

static void check(const struct dns_query *query, const uint8_t *message, size_t len)
{
	struct dns_answer answer, again;
	struct dname name;
	bool fits = dns_query_fits(query, message, len) != DNS_FIT_MISFIT;

	memset(&answer, 0xaa, sizeof(answer));
	memset(&again, 0x55, sizeof(again));
	dns_answer_read(query, message, len, &answer);
	dns_answer_read(query, message, len, &again);
	tell("%s %u addresses, %u aliases", dns_outcome_word(answer.outcome), answer.addr_count, answer.chain_count);
	REQUIRE(answer.outcome == again.outcome && answer.addr_count == again.addr_count);
	REQUIRE(memcmp(answer.addrs, again.addrs, sizeof(answer.addrs)) == 0);
	REQUIRE(answer.outcome <= DNS_OUTCOME_MALFORMED && answer.ttl_s <= INT32_MAX);
	REQUIRE((answer.outcome == DNS_OUTCOME_ADDRESSES) == (answer.addr_count > 0));
	REQUIRE(fits || answer.outcome == DNS_OUTCOME_MALFORMED);
	REQUIRE(answer.addr_count <= DNS_ANSWER_ADDRS_MAX &&
		answer.chain_count <= DNS_ANSWER_CHAIN_MAX);
	if (fits)
		REQUIRE(dname_parse(text_of(answer.canonical.text), DNAME_FINAL_DOT_REFUSE,
				    &name) == DNAME_OK);
	for (unsigned i = 0; i < answer.addr_count; i++) {
		const struct addr *a = &answer.addrs[i];

		REQUIRE(a->family == (query->type == DNS_TYPE_A ? ADDR_V4 : ADDR_V6));
		REQUIRE(memmem(message, len, a->octets, addr_len(a)) != NULL);
		for (unsigned j = 0; j < i; j++)
			REQUIRE(!addr_equal(a, &answer.addrs[j]));
	}
	if (answer.addr_count > 0) {
		uint8_t *longer = malloc(len + 1);

		REQUIRE(longer != NULL);
		memcpy(longer, message, len);
		longer[len] = 0;
		dns_answer_read(query, longer, len + 1, &again);
		REQUIRE(again.outcome == DNS_OUTCOME_MALFORMED);
		dns_answer_read(query, longer, len - 1, &again);
		REQUIRE(again.outcome == DNS_OUTCOME_MALFORMED);
		free(longer);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dns_query query;
	struct dname name;
	uint8_t *message;
	size_t echo;

	if (size < 1)
		return 0;
	REQUIRE(dname_parse(text_of(names[data[0] % 4]), DNAME_FINAL_DOT_REFUSE, &name) ==
		DNAME_OK);
	dns_query_build(&name, data[0] & 4 ? DNS_TYPE_AAAA : DNS_TYPE_A, 0x1234, NULL, &query);
	if (data[0] & 8) {
		message = exact_copy(data + 1, size - 1);
		check(&query, message, size - 1);
		free(message);
		return 0;
	}
	/* Flags and counts come first in the input, the question is ours. */
	if (size < 1 + 10)
		return 0;
	echo = 12 + query.question_len;
	message = malloc(echo + size - 11);
	REQUIRE(message != NULL);
	memcpy(message, query.bytes, echo);
	memcpy(message + 2, data + 1, 10);
	message[2] = (uint8_t)((message[2] & 0x07) | 0x80);
	message[4] = 0;
	message[5] = 1;
	memcpy(message + echo, data + 11, size - 11);
	check(&query, message, echo + size - 11);
	free(message);
	return 0;
}
