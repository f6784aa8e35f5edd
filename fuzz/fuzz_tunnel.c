/*
 * One open tunnel of a whole worker between a scripted guest and origin, under each kind of rule, with policies that change on the way. What
 * came out at either end is read a second time, by a reader of its own. Checked after every step:
 * - what the origin got is the front of what the guest said, what the guest got the front of what the origin said, and words of ours behind it;
 * - nothing reaches either side before the first flight was judged, nothing reaches the origin after a refusal, nothing passes after a cut;
 * - hellos, first and second, name the host that was asked for, and so does every HTTP request; heads pass whole;
 * - no redirect, refresh or switch that the lease does not allow reaches the guest, and our words never stand inside an answer;
 * - a tunnel is refused once and ends once; nothing is held or open at the end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/log.h"
#include "require.h"
#include "tests/fake/proxy_fake.h"
#include "tests/fake/socket_fake.h"
#include "wire/tls_hello.h"

#define HOST "d.test"
#define STEPS_MAX 96
#define SAID_MAX 400000
#define ASKED_MAX 512

static const struct rules {
	const char *text;
	uint16_t port;
	bool https, http, ws, ssh, tcp;
} rules[] = {
	{ "allow https://d.test", 443, .https = true },
	{ "allow http://d.test\nallow http://ok.test\nallow https://ok.test", 80, .http = true },
	{ "allow http://d.test\nallow ws://d.test:80\nallow http://ok.test", 80, .http = true, .ws = true },
	{ "allow ws://d.test:80", 80, .ws = true },
	{ "allow ssh://d.test", 22, .ssh = true },
	{ "allow tcp://d.test:99", 99, .tcp = true },
	{ "allow https://d.test\nallow http://d.test:443\nallow ssh://d.test:443", 443, .https = true, .http = true, .ssh = true },
	{ "allow https://d.test ech=refuse", 443, .https = true },
};

struct stream {
	uint8_t *bytes; /* owned */
	size_t len;
};

struct asked {
	bool head, upgrade, websocket;
	bool in_doubt; /* it waits for 100-continue, and its body is not whole */
};

static struct {
	const uint8_t *at, *end; /* the input not yet read */
	struct proxy_fake proxy;
	const struct rules *rules;
	int guest_fd, origin_fd; /* the guest's is owned; -1 */
	struct stream guest_said, guest_got, origin_said, origin_got;
	bool is_refused, has_ended, is_cut; /* is_cut: under a lease without rules */
	size_t passed_at_refusal, got_at_cut, passed_at_cut;
	struct asked asked[ASKED_MAX];
	size_t asked_count, answered_count;
	size_t passed_at_doubt; /* 0: no body was left in doubt by a final answer instead of 100 */
} w;

static uint8_t take(void)
{
	return w.at < w.end ? *w.at++ : 0;
}

static void append(struct stream *s, const void *bytes, size_t len)
{
	REQUIRE(s->len + len <= SAID_MAX);
	memcpy(s->bytes + s->len, bytes, len);
	s->len += len;
}

static struct text rest_of(const struct stream *s, size_t at)
{
	return (struct text){ (const char *)s->bytes + at, s->len - at };
}

static bool starts_with(struct text t, const char *word, size_t len)
{
	return t.len >= len && memcmp(t.at, word, len) == 0;
}

/* --- a second reader of HTTP --- */

/* The end of the line or head at the front, behind `mark`; 0: not there. */
static size_t end_of(struct text t, const char *mark)
{
	const char *at = t.len == 0 ? NULL : memmem(t.at, t.len, mark, strlen(mark));

	return at == NULL ? 0 : (size_t)(at - t.at) + strlen(mark);
}

/* How often is the field there; *out_value is the last one. */
static unsigned find_field(struct text head, const char *name, struct text *out_value)
{
	unsigned count = 0;
	size_t len = strlen(name);

	for (size_t at = end_of(head, "\r\n"), line; at < head.len; at += line) {
		struct text rest = { head.at + at, head.len - at };

		line = end_of(rest, "\r\n");
		if (line < len + 3 || strncasecmp(rest.at, name, len) != 0 || rest.at[len] != ':')
			continue;
		*out_value = (struct text){ rest.at + len + 1, line - len - 3 };
		while (out_value->len > 0 && (out_value->at[0] == ' ' || out_value->at[0] == '\t'))
			out_value->at++, out_value->len--;
		while (out_value->len > 0 && (out_value->at[out_value->len - 1] == ' ' || out_value->at[out_value->len - 1] == '\t'))
			out_value->len--;
		count++;
	}
	return count;
}

enum where { AT_HEAD, IN_BODY, AT_END }; /* where a stream stops: between messages, inside one, or behind one without an end */

/* Step over a chunked body; the length of it, or as much as is there. */
static size_t skip_chunks(struct text t, enum where *out_where)
{
	size_t at = 0;

	*out_where = IN_BODY;
	for (;;) {
		struct text rest = { t.at + at, t.len - at };
		size_t line = end_of(rest, "\r\n"), size;

		REQUIRE(line > 0 || rest.len == 0); /* lines pass whole */
		if (line == 0)
			return at;
		size = strtoul(rest.at, NULL, 16);
		at += line;
		if (size == 0)
			break;
		if (t.len - at < size + 2)
			return t.len;
		at += size + 2;
		REQUIRE(t.at[at - 2] == '\r' && t.at[at - 1] == '\n');
	}
	for (size_t line = 0; line != 2; at += line) { /* trailers */
		struct text rest = { t.at + at, t.len - at };

		line = end_of(rest, "\r\n");
		REQUIRE(line > 0 || rest.len == 0);
		if (line == 0)
			return at;
		REQUIRE(strncasecmp(rest.at, "host:", 5) != 0 && strncasecmp(rest.at, "location:", 9) != 0);
	}
	*out_where = AT_HEAD;
	return at;
}

static size_t skip_length(struct text t, size_t len, enum where *out_where)
{
	*out_where = t.len < len ? IN_BODY : AT_HEAD;
	return t.len < len ? t.len : len;
}

static bool names_host(struct text value)
{
	char host[32], with_port[32];

	snprintf(host, sizeof(host), "%s", HOST);
	snprintf(with_port, sizeof(with_port), "%s:%u", HOST, w.rules->port);
	if (value.len > 0 && value.at[value.len - 1] == '.')
		value.len--; /* one final dot is no other name */
	return (w.rules->port == 80 && text_equal_nocase(value, text_of(host))) || text_equal_nocase(value, text_of(with_port)) ||
	       (w.rules->port == 80 && text_equal_nocase(value, text_of(HOST ".:80")));
}

/* Every request names the host; what each asked for is noted for the answers. `switched`: behind a websocket's request nothing is HTTP. */
static void read_requests(struct text t, bool switched)
{
	w.asked_count = 0;
	while (t.len > 0) {
		size_t len = end_of(t, "\r\n\r\n"), body;
		struct text head = { t.at, len }, host, value, target;
		struct asked *a = &w.asked[w.asked_count++];
		enum where where = AT_HEAD;

		REQUIRE(len > 0 && w.asked_count < ASKED_MAX); /* heads pass whole */
		REQUIRE(find_field(head, "host", &host) == 1);
		REQUIRE(names_host(host) || starts_with(host, HOST ".:", strlen(HOST) + 2));
		REQUIRE(!starts_with(head, "CONNECT ", 8) && !starts_with(head, "PRI ", 4));
		target = (struct text){ head.at + end_of(head, " "), 0 };
		target.len = len - (size_t)(target.at - head.at);
		REQUIRE(target.at[0] == '/' || target.at[0] == '*' || strncasecmp(target.at, "http://" HOST, 7 + strlen(HOST)) == 0);
		a->head = starts_with(head, "HEAD ", 5);
		a->upgrade = find_field(head, "connection", &value) > 0 && memmem(value.at, value.len, "pgrade", 6) != NULL;
		a->websocket = find_field(head, "upgrade", &value) > 0 && memmem(value.at, value.len, "ebsocke", 7) != NULL;
		if (switched && a->websocket)
			return;
		t = (struct text){ t.at + len, t.len - len };
		if (find_field(head, "transfer-encoding", &value) > 0)
			body = skip_chunks(t, &where);
		else
			body = skip_length(t, find_field(head, "content-length", &value) > 0 ? strtoul(value.at, NULL, 10) : 0, &where);
		t = (struct text){ t.at + body, t.len - body };
		a->in_doubt = where == IN_BODY && find_field(head, "expect", &value) > 0;
	}
}

/* Where a browser would go with a reference: to a host that a rule lists, or it stays. */
static void follow(struct text ref)
{
	size_t at = 0, len = 0;

	while (at < ref.len && (text_is_digit(ref.at[at]) || (text_lower(ref.at[at]) >= 'a' && text_lower(ref.at[at]) <= 'z')))
		at++;
	if (at > 0 && at < ref.len && ref.at[at] == ':')
		REQUIRE(strncasecmp(ref.at, "http:", 5) == 0 || strncasecmp(ref.at, "https:", 6) == 0);
	else if (ref.len >= 2 && (ref.at[0] == '/' || ref.at[0] == '\\') && (ref.at[1] == '/' || ref.at[1] == '\\'))
		at = 0;
	else
		return;
	while (at < ref.len && (ref.at[at] == ':' || ref.at[at] == '/' || ref.at[at] == '\\'))
		at++;
	ref = (struct text){ ref.at + at, ref.len - at };
	while (len < ref.len && strchr("/\\?#", ref.at[len]) == NULL)
		len++;
	REQUIRE(memchr(ref.at, '@', len) == NULL);
	for (size_t i = 0; i < len; i++) {
		if (ref.at[i] == ':')
			len = i;
	}
	if (len > 0 && ref.at[len - 1] == '.')
		len--;
	ref.len = len;
	REQUIRE(text_equal_nocase(ref, text_of(HOST)) || text_equal_nocase(ref, text_of("ok.test")));
}

static void check_leads(struct text head, unsigned status)
{
	struct text value;

	if (status >= 300 && status < 400 && status != 304 && find_field(head, "location", &value) > 0)
		follow(value);
	if (find_field(head, "refresh", &value) > 0) {
		size_t at = end_of(value, "=");

		if (at > 0)
			follow((struct text){ value.at + at, value.len - at });
	}
}

/* Every answer belongs to a request and leads nowhere else; false: a switch of protocol, and nobody reads on. */
static bool read_answers(struct text t, enum where *out_where)
{
	w.answered_count = 0;
	*out_where = AT_HEAD;
	while (t.len > 0) {
		size_t len = end_of(t, "\r\n\r\n"), body;
		struct text head = { t.at, len }, value;
		struct asked *a = &w.asked[w.answered_count];
		unsigned status;

		REQUIRE(len > 13 && w.answered_count < w.asked_count && *out_where == AT_HEAD);
		status = (unsigned)strtoul(head.at + 9, NULL, 10);
		check_leads(head, status);
		t = (struct text){ t.at + len, t.len - len };
		if (status == 101) {
			REQUIRE(w.rules->ws && a->websocket);
			return false;
		}
		if (status == 100)
			a->in_doubt = false;
		if (status < 200)
			continue;
		w.answered_count++;
		if (a->in_doubt && w.passed_at_doubt == 0)
			w.passed_at_doubt = w.origin_got.len;
		if (a->head || status == 204 || status == 304)
			body = 0;
		else if (find_field(head, "transfer-encoding", &value) > 0)
			body = skip_chunks(t, out_where);
		else if (find_field(head, "content-length", &value) > 0)
			body = skip_length(t, strtoul(value.at, NULL, 10), out_where);
		else
			body = t.len, *out_where = AT_END;
		t = (struct text){ t.at + body, t.len - body };
	}
	return true;
}

/* --- what may stand at either end --- */

static bool is_word_of_ours(struct text t)
{
	return starts_with(t, "HTTP/1.1 403 Forbidden\r\nContent-Type: application/problem+json", 62) ||
	       starts_with(t, "\x15\x03\x03\x00\x02\x02", 6) || starts_with(t, "egress: refused", 15);
}

/* How much of what the guest got is the origin's; behind it our words. */
static size_t split_words(void)
{
	size_t same = 0, least = w.guest_got.len < w.origin_said.len ? w.guest_got.len : w.origin_said.len;

	while (same < least && w.guest_got.bytes[same] == w.origin_said.bytes[same])
		same++;
	if (same == w.guest_got.len)
		return same;
	REQUIRE(w.is_refused);
	for (size_t at = same + 1; at-- > 0;) {
		if (is_word_of_ours(rest_of(&w.guest_got, at)))
			return at;
	}
	REQUIRE(!"bytes that nobody sent");
	return 0;
}

static void check_tls(void)
{
	struct tls_hello hello;
	enum tls_hello_fault fault;
	enum tls_first_answer answer;
	size_t len;

	REQUIRE(tls_hello_read(w.origin_got.bytes, w.origin_got.len, &hello, &fault) == PARSED_OK);
	REQUIRE(hello.sni == TLS_HELLO_SNI_NAME && text_is(text_of(hello.name.text), HOST) && hello.offers_tls12);
	REQUIRE(!hello.has_ech || w.rules != &rules[7]);
	len = hello.len;
	if (w.origin_got.len == len)
		return;
	/* More passes only once the server has answered, or will never. */
	if (tls_hello_read_answer(w.origin_said.bytes, w.origin_said.len, &answer) != PARSED_OK || answer != TLS_ANSWER_RETRY_REQUEST)
		return;
	REQUIRE(tls_hello_read_second(w.origin_got.bytes + len, w.origin_got.len - len, &hello, &fault) == PARSED_OK);
	REQUIRE(hello.sni == TLS_HELLO_SNI_NAME && text_is(text_of(hello.name.text), HOST));
}

static void check_http(size_t theirs)
{
	bool switched = memmem(w.guest_got.bytes, theirs, "HTTP/1.1 101 ", 13) != NULL;
	enum where where;

	read_requests(rest_of(&w.origin_got, 0), switched);
	if (read_answers((struct text){ (const char *)w.guest_got.bytes, theirs }, &where))
		REQUIRE(theirs == w.guest_got.len || where == AT_HEAD);
	/* Behind an offered upgrade the next bytes may be another protocol, behind a body in doubt another request. */
	for (size_t i = 0; i + 1 < w.asked_count; i++)
		REQUIRE(!w.asked[i].upgrade || i < w.answered_count);
	REQUIRE(w.passed_at_doubt == 0 || w.passed_at_doubt == w.origin_got.len);
}

static void check(void)
{
	size_t theirs;

	REQUIRE(w.origin_got.len <= w.guest_said.len && memcmp(w.origin_got.bytes, w.guest_said.bytes, w.origin_got.len) == 0);
	theirs = split_words();
	if (w.is_cut)
		REQUIRE(w.origin_got.len == w.passed_at_cut && w.guest_got.len == w.got_at_cut);
	if (w.is_refused)
		REQUIRE(w.origin_got.len == w.passed_at_refusal);
	if (w.rules->tcp)
		return;
	REQUIRE(theirs == 0 || w.origin_got.len > 0 || (w.rules->ssh && !w.rules->https));
	if (w.origin_got.len == 0)
		return;
	if (w.origin_got.bytes[0] == 0x16 && w.rules->https)
		check_tls();
	else if (w.rules->ssh && starts_with(rest_of(&w.origin_got, 0), "SSH-2.0-", 8))
		return;
	else {
		REQUIRE(w.rules->http || w.rules->ws);
		check_http(theirs);
	}
}

static void on_record(void *arg, const struct record *r)
{
	REQUIRE(!w.has_ended);
	if (r->event != RECORD_DECISION) {
		w.has_ended = true;
		return;
	}
	if (r->verdict.allow)
		return;
	REQUIRE(!w.is_refused);
	w.is_refused = true;
	w.passed_at_refusal = SIZE_MAX; /* settle says, once all that passed is here */
}

/* --- steps --- */

static void read_all(int fd, struct stream *s)
{
	uint8_t bytes[65536];
	ssize_t n;

	while (fd >= 0 && (n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		append(s, bytes, (size_t)n);
}

static void settle(uint64_t ms)
{
	size_t before;

	proxy_fake_advance(&w.proxy, ms);
	do { /* what was full may go on */
		before = w.guest_got.len + w.origin_got.len;
		read_all(w.guest_fd, &w.guest_got);
		read_all(w.origin_fd, &w.origin_got);
		proxy_fake_advance(&w.proxy, 0);
	} while (before != w.guest_got.len + w.origin_got.len);
	if (w.is_refused && w.passed_at_refusal == SIZE_MAX)
		w.passed_at_refusal = w.origin_got.len;
	check();
}

static void say(int fd, struct stream *said, const void *bytes, size_t len, bool by_bytes)
{
	const uint8_t *at = bytes;

	while (len > 0 && fd >= 0) {
		ssize_t n;

		if (said->len + len > SAID_MAX / 2)
			return;
		n = send(fd, at, by_bytes ? 1 : len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n <= 0)
			return;
		append(said, at, (size_t)n);
		at += n;
		len -= (size_t)n;
		if (by_bytes)
			settle(0);
	}
}

/* A ClientHello for `name`; returns its length. */
static size_t put_hello(const char *name, bool with_ech, uint8_t *out)
{
	size_t name_len = strlen(name), at = 0, extensions = 9 + name_len + 7 + (with_ech ? 8 : 0), body = 2 + 32 + 1 + 4 + 2 + 2 + extensions;
	const uint8_t head[] = { 0x16, 3, 1, (uint8_t)((body + 4) >> 8), (uint8_t)(body + 4), 1, 0, (uint8_t)(body >> 8), (uint8_t)body, 3, 3 };
	const uint8_t middle[] = { 0, 0, 2, 0x13, 1, 1, 0, (uint8_t)(extensions >> 8), (uint8_t)extensions,
				   0, 0, 0, (uint8_t)(name_len + 5), 0, (uint8_t)(name_len + 3), 0, 0, (uint8_t)name_len };

	memcpy(out, head, sizeof(head));
	at += sizeof(head);
	memset(out + at, 7, 32);
	at += 32;
	memcpy(out + at, middle, sizeof(middle));
	at += sizeof(middle);
	memcpy(out + at, name, name_len);
	at += name_len;
	memcpy(out + at, "\0\x2b\0\3\2\3\4", 7);
	at += 7;
	if (with_ech)
		memcpy(out + at, "\xfe\x0d\0\4abcd", 8);
	return at + (with_ech ? 8 : 0);
}

static void say_hello(uint8_t how, bool by_bytes)
{
	static const char *const names[] = { HOST, "evil.test", "D.Test", "d.test." };
	uint8_t bytes[256];

	say(w.guest_fd, &w.guest_said, bytes, put_hello(names[how & 3], how & 4, bytes), by_bytes);
}

static const char *const guest_lines[] = {
	"GET / HTTP/1.1\r\nHost: d.test\r\n\r\n",
	"GET /a HTTP/1.1\r\nHost: d.test:443\r\n\r\n",
	"HEAD / HTTP/1.1\r\nHost: d.test\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: d.test\r\nContent-Length: 5\r\n\r\nhello",
	"POST / HTTP/1.1\r\nHost: d.test\r\nContent-Length: 37\r\nExpect: 100-continue\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: d.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: d.test\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
	"GET / HTTP/1.1\r\nHost: d.test\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: d.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
	"GET http://d.test/ HTTP/1.1\r\nHost: d.test\r\n\r\n",
	"GET http://evil.test/ HTTP/1.1\r\nHost: d.test\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: d.test\r\nX",
	"GET / HTTP/1.1\r\nHost: d.test.:80\r\n\r\n",
	"SSH-2.0-guest\r\n",
	"\x14\x03\x03\0\x01\x01", /* six bytes: change_cipher_spec */
};

static const char *const origin_lines[] = {
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
	"HTTP/1.1 200 OK\r\n\r\nto the end",
	"HTTP/1.1 302 Found\r\nLocation: http://evil.test/\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 302 Found\r\nLocation: //ok.test/\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nRefresh: 0; url=http://evil.test/\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 100 Continue\r\n\r\n",
	"HTTP/1.1 103 Early Hints\r\n\r\n",
	"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nframes",
	"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\nframes",
	"HTTP/1.1 204 No Content\r\n\r\n",
	"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\nLocation: http://evil.test/\r\n\r\n",
	"SSH-2.0-origin\r\n",
};

/* Enough of a ServerHello to tell which one it is. */
static void say_server_hello(bool is_retry)
{
	static const uint8_t random[32] = { 0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
					    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c };
	uint8_t bytes[47] = { 0x16, 3, 3, 0, 42, 2, 0, 0, 38, 3, 3 };

	memcpy(bytes + 11, random, sizeof(random));
	if (!is_retry)
		bytes[11] ^= 1;
	say(w.origin_fd, &w.origin_said, bytes, sizeof(bytes), false);
}

/* Bytes of the input itself, as often as it says. */
static void say_raw(int fd, struct stream *said)
{
	size_t len = take(), times = len == 255 ? take() * 8u : 1, left = (size_t)(w.end - w.at);

	len = len < left ? len : left;
	for (size_t i = 0; i < times; i++)
		say(fd, said, w.at, len, false);
	w.at += len;
}

static void adopt(const char *lease_rules)
{
	char text[512];
	const char *leases[] = { text };
	struct world *world;

	snprintf(text, sizeof(text), "lease guest\nguest require listener\nguest listener main\nmode allowlist\n%s\n", lease_rules);
	world = proxy_fake_world(&w.proxy, "allow any\n", leases, 1);
	REQUIRE(world != NULL);
	proxy_fake_adopt(&w.proxy, world);
}

static void step_policy(uint8_t how)
{
	char noted[512];
	bool had_ended = w.has_ended, was_refused = w.is_refused;

	if (how & 1) {
		size_t got = w.guest_got.len, passed = w.origin_got.len;

		adopt("deny " HOST);
		settle(0);
		/* One that was refused may still say so. */
		w.is_cut = had_ended || !was_refused;
		w.got_at_cut = w.guest_got.len;
		w.passed_at_cut = w.origin_got.len;
		if (!was_refused)
			REQUIRE(w.has_ended && got == w.got_at_cut && passed == w.passed_at_cut);
		return;
	}
	if (w.is_cut)
		return;
	settle(0);
	had_ended = w.has_ended;
	snprintf(noted, sizeof(noted), "%s note \"again\"", w.rules->text);
	adopt(noted);
	settle(0);
	REQUIRE(w.has_ended == had_ended);
}

static void step_end(uint8_t how)
{
	int fd = how & 1 ? w.guest_fd : w.origin_fd;

	if (fd < 0)
		return;
	if (how & 2) {
		shutdown(fd, SHUT_WR);
	} else if (how & 1) {
		close(fd);
		w.guest_fd = -1;
	} else {
		shutdown(fd, SHUT_RDWR);
	}
}

static void step(void)
{
	uint8_t what = take(), how = take();
	bool by_bytes = how & 0x80;

	switch (what % 12) {
	case 0:
	case 1:
		say(w.guest_fd, &w.guest_said, guest_lines[how % 16], how % 16 == 15 ? 6 : strlen(guest_lines[how % 16]), by_bytes);
		break;
	case 2:
		say_hello(how, by_bytes);
		break;
	case 3:
		say_raw(w.guest_fd, &w.guest_said);
		break;
	case 4:
	case 5:
		say(w.origin_fd, &w.origin_said, origin_lines[how % 16], strlen(origin_lines[how % 16]), by_bytes);
		break;
	case 6:
		say_server_hello(how & 1);
		break;
	case 7:
		say_raw(w.origin_fd, &w.origin_said);
		break;
	case 8:
		step_end(how);
		break;
	case 9:
		step_policy(how);
		return;
	case 10:
		settle(how);
		return;
	default:
		settle(how * 200u);
		return;
	}
	settle(0);
}

/* --- one input --- */

static void answer(const char *name, const struct addr *at)
{
	struct proxy_fake_answer *a = &w.proxy.answers[w.proxy.answer_count++];

	*a = (struct proxy_fake_answer){ .type = 1, .ttl_s = 3600, .addr_count = 1, .addrs = { *at } };
	snprintf(a->name, sizeof(a->name), "%s", name);
	w.proxy.answers[w.proxy.answer_count] = (struct proxy_fake_answer){ .type = 28, .act = PROXY_FAKE_NXDOMAIN };
	snprintf(w.proxy.answers[w.proxy.answer_count++].name, sizeof(a->name), "%s", name);
}

/* The handshake, and whatever of the stream comes in the same segment. */
static void open_tunnel(uint8_t surplus)
{
	uint8_t bytes[256] = { 5, 1, 0, 5, 1, 0, 3, 6, 'd', '.', 't', 'e', 's', 't', (uint8_t)(w.rules->port >> 8), (uint8_t)w.rules->port };
	struct endpoint at = { .port = w.rules->port };
	size_t len = 16;

	REQUIRE(addr_parse(text_of("93.184.216.34"), &at.addr));
	answer(HOST, &at.addr);
	w.proxy.origins[w.proxy.origin_count++] = (struct proxy_fake_origin){ .at = at };
	w.guest_fd = proxy_fake_guest(&w.proxy, 1);
	if (surplus & 1) {
		const char *line = guest_lines[surplus >> 1 & 15];

		memcpy(bytes + len, line, strlen(line));
		append(&w.guest_said, line, strlen(line));
		len += strlen(line);
	}
	REQUIRE(send(w.guest_fd, bytes, len, 0) == (ssize_t)len);
	proxy_fake_advance(&w.proxy, 100);
	REQUIRE(recv(w.guest_fd, bytes, 12, MSG_DONTWAIT) == 12 && memcmp(bytes, "\5\0\5\0", 4) == 0);
	w.origin_fd = socket_fake_origin(&at);
	REQUIRE(w.origin_fd >= 0);
	settle(0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stream *streams[] = { &w.guest_said, &w.guest_got, &w.origin_said, &w.origin_got };

	log_init("fuzz", LOG_LEVEL_ERROR);
	REQUIRE(crypto_init() == ERR_OK);
	memset(&w, 0, sizeof(w));
	for (size_t i = 0; i < ARRAY_LEN(streams); i++)
		REQUIRE((streams[i]->bytes = malloc(SAID_MAX)) != NULL);
	w.guest_fd = w.origin_fd = -1;
	w.at = data;
	w.end = data + size;
	w.proxy.on_record = on_record;
	proxy_fake_begin(&w.proxy);
	w.rules = &rules[take() % ARRAY_LEN(rules)];
	adopt(w.rules->text);
	proxy_fake_advance(&w.proxy, 0);
	open_tunnel(take());
	for (unsigned i = 0; i < STEPS_MAX && w.at < w.end; i++)
		step();
	settle(0);
	if (w.guest_fd >= 0)
		close(w.guest_fd);
	proxy_fake_end(&w.proxy);
	for (size_t i = 0; i < ARRAY_LEN(streams); i++)
		free(streams[i]->bytes);
	return 0;
}
