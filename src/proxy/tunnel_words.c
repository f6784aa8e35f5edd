/*
 * How a guest that is already connected hears that it was refused: 403, a TLS alert, or what ssh clients show. Only words: when and
 * whether they are said is tunnel.c's. They name no fix, since any clear-HTTP origin could forge them (contract section 5).
 */
#include <stdio.h>

#include "proxy/tunnel_internal.h"
#include "wire/ssh_words.h"
#include "wire/tls_hello.h"

/* Behind what has passed. A guest that cannot be told is only closed. */
static void say(struct session *s, const void *bytes, size_t len)
{
	(void)!relay_inject(s->relay, RELAY_DOWN, bytes, len);
}

static void say_forbidden(struct session *s, enum reason why)
{
	char body[512], answer[1024];
	int len = snprintf(body, sizeof(body),
			   "{\"type\":\"urn:egress:network_destination_denied\",\"title\":\"Refused by the egress proxy\",\"status\":403,"
			   "\"code\":\"network_destination_denied\",\"reason\":\"%s\",\"detail\":\"%s\",\"decision\":\"%s\"}\n",
			   reason_word(why), reason_text(why), s->id);

	len = snprintf(answer, sizeof(answer),
		       "HTTP/1.1 403 Forbidden\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n"
		       "Cache-Control: no-store\r\nConnection: close\r\n\r\n%s",
		       len, body);
	say(s, answer, (size_t)len);
}

static void say_alert(struct session *s, enum reason why)
{
	uint8_t alert[7];
	bool names = why == REASON_TLS_SNI_MISSING || why == REASON_TLS_SNI_MISMATCH;

	say(s, alert, tls_hello_put_alert(names ? TLS_ALERT_UNRECOGNIZED_NAME : TLS_ALERT_ACCESS_DENIED, alert));
}

static void say_ssh(struct session *s, enum reason why)
{
	char text[SSH_WORDS_TEXT_MAX + 1];
	uint8_t bytes[SSH_WORDS_MAX];

	snprintf(text, sizeof(text), "egress: refused (%s): %s; decision %s", reason_word(why), reason_text(why), s->id);
	say(s, bytes, ssh_words_put(text, bytes));
}

void tunnel_say_why(struct session *s, enum reason why)
{
	if (why == REASON_ALLOWED)
		return;
	if (!s->seen.scheme_known) {
		if (why == REASON_TLS_MALFORMED)
			say_alert(s, why);
		return;
	}
	switch (s->seen.scheme) {
	case SCHEME_HTTPS:
		say_alert(s, why);
		return;
	case SCHEME_HTTP:
		say_forbidden(s, why);
		return;
	case SCHEME_SSH:
		say_ssh(s, why);
		return;
	case SCHEME_WS:
	case SCHEME_TCP:
	case SCHEME_COUNT:
		return;
	}
}
