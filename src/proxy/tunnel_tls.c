/*
 * TLS under an https rule: the first hello names the host that was asked for; if the server asks again (HelloRetryRequest, RFC 8446 section
 * 4.1.4), so does the second. Behind them the flow is opaque. Called by tunnel.c's filters.
 */
#include "proxy/tunnel_internal.h"
#include "proxy/worker.h"
#include "wire/tls_hello.h"

static void note_hello(struct session *s, const struct tls_hello *hello)
{
	s->seen = (struct judge_stream){
		.scheme_known = true,
		.scheme = SCHEME_HTTPS,
		.name_known = hello->sni == TLS_HELLO_SNI_NAME,
		.name_missing = hello->sni == TLS_HELLO_SNI_ABSENT,
		.has_ech = hello->has_ech,
		.tls12_offered = hello->offers_tls12,
	};
	if (s->seen.name_known)
		s->seen.name = hello->name;
}

enum parsed tunnel_read_tls(struct session *s, const uint8_t *bytes, size_t len, size_t *out_len, enum reason *out_why)
{
	struct tls_hello hello;
	enum tls_hello_fault fault;
	enum parsed p = tls_hello_read(bytes, len, &hello, &fault);

	if (p == PARSED_BAD)
		*out_why = fault == TLS_HELLO_NOT_TLS ? REASON_SCHEME_MISMATCH : REASON_TLS_MALFORMED;
	if (p != PARSED_OK)
		return p;
	note_hello(s, &hello);
	*out_len = hello.len;
	return PARSED_OK;
}

/* The second hello: legal records may stand before it, and it names the same host. */
static struct relay_filter_answer judge_second(struct session *s, const uint8_t *bytes, size_t len, bool end)
{
	struct tls_hello hello;
	enum tls_hello_fault fault;
	enum reason why;

	switch (tls_hello_read_second(bytes, len, &hello, &fault)) {
	case PARSED_MORE:
		if (end && len > 0)
			return tunnel_refuse(s, REASON_TLS_MALFORMED, false);
		tunnel_expect(s, len > 0);
		return (struct relay_filter_answer){ .action = RELAY_HOLD };
	case PARSED_BAD:
		return tunnel_refuse(s, REASON_TLS_MALFORMED, false);
	case PARSED_OK:
		break;
	}
	note_hello(s, &hello);
	why = tunnel_judge_seen(s);
	if (why != REASON_ALLOWED)
		return tunnel_refuse(s, why, false);
	tunnel_expect(s, false);
	s->tunnel->stage = TUNNEL_OPAQUE;
	return (struct relay_filter_answer){ .action = RELAY_OPAQUE };
}

struct relay_filter_answer tunnel_tls_up(struct session *s, const uint8_t *bytes, size_t len, bool end)
{
	struct tunnel *t = s->tunnel;
	size_t hello_len = t->hello_len;

	if (t->stage == TUNNEL_TLS_SECOND)
		return judge_second(s, bytes, len, end);
	if (hello_len > 0) { /* the first hello, judged a moment ago */
		t->hello_len = 0;
		return (struct relay_filter_answer){ .action = RELAY_PASS, .len = hello_len };
	}
	/* What comes before the server's answer is early data, and waits for it. */
	return (struct relay_filter_answer){ .action = len > 0 || end ? RELAY_STALL : RELAY_HOLD };
}

struct relay_filter_answer tunnel_tls_down(struct session *s, const uint8_t *bytes, size_t len, bool end)
{
	struct tunnel *t = s->tunnel;
	enum tls_first_answer answer = TLS_ANSWER_RETRY_REQUEST;

	if (t->stage == TUNNEL_TLS_ANSWER && tls_hello_read_answer(bytes, len, &answer) != PARSED_OK) {
		if (!end)
			return (struct relay_filter_answer){ .action = RELAY_HOLD };
		answer = TLS_ANSWER_OTHER;
	}
	t->stage = answer == TLS_ANSWER_RETRY_REQUEST ? TUNNEL_TLS_SECOND : TUNNEL_OPAQUE;
	relay_resume(s->relay, RELAY_UP);
	if (t->stage == TUNNEL_OPAQUE)
		return (struct relay_filter_answer){ .action = RELAY_OPAQUE };
	/* Stays in sight, so that it stops when the second hello is refused. */
	return (struct relay_filter_answer){ .action = len > 0 ? RELAY_PASS : RELAY_HOLD, .len = len };
}
