/*
 * Lookups against hostile name servers: real resolver, c-ares and answer parser over invented descriptors and time. The input is
 * a programme of steps (ask, cancel, wait, change servers, break sockets) and of recipes by which the servers reply. Checked:
 * - a query holds one question, and that is the canonical name (case aside) and family of somebody who waits;
 * - an address comes only with a message that was delivered for that question and in which the asked name owns it by its chain;
 * - every lookup ends once, within its deadline, never inside a call, never after its cancel; nothing spins or asks without end;
 * - pins give back what was put and no longer than they may; sockets, channels, timers and memory return to zero.
 */
#include <stdio.h>
#include <strings.h>

#include "base/crypto.h"
#include "base/log.h"
#include "net/pins.h"
#include "net/resolver.h"
#include "require.h"
#include "tests/fake/dns_message.h"
#include "tests/fake/dns_net.h"
#include "tests/fake/loop_fake.h"

#define SERVERS 3
#define REPLIES_MAX 4
#define LOOKUPS_MAX 24
#define STEPS_MAX 48
#define DELIVERED_MAX 512
#define TOTAL_MS 5000
#define TURNS_MAX 100000
#define PINS_MAX 4

/* Behind the acts of dns_message: what a recipe can do besides. */
enum { REPLY_RECORDS = DNS_ACT_COUNT, REPLY_CHAIN, REPLY_RAW_ID, REPLY_RAW, REPLY_END, REPLY_COUNT };

struct reply {
	uint8_t kind, chunk, step_ms, lie;
	uint16_t after_ms;
	const uint8_t *body; /* borrowed from the input */
	size_t body_len;
};

struct recipe {
	struct reply replies[REPLIES_MAX];
	size_t count;
};

struct lookup {
	struct resolver_lookup *token;
	unsigned name;
	enum dns_type type;
	uint32_t owner;
	uint64_t started_ms;
	bool started, done, cancelled;
};

/* A message on its way to the resolver, and the query that it was made for. */
struct delivered {
	uint8_t *bytes; /* owned */
	size_t len;
	uint8_t query[DNS_QUERY_MAX];
	size_t query_len;
};

static const char *const names[] = { "allowed.test", "a.b", "xn--bcher-kva.wild.test", "0-0.example" };

static struct {
	const uint8_t *at, *end; /* the input not yet read */
	uint64_t random_state;
	bool in_call; /* of resolver_start: no callback may come */
	struct loop *loop;
	struct dns_net *net;
	struct ares_link_sockets sockets;
	struct ares_link *link;
	struct metrics *metrics;
	struct resolver *resolver;
	struct pins *pins;
	struct recipe recipes[SERVERS];
	struct lookup lookups[LOOKUPS_MAX];
	size_t lookup_count, query_count, server_changes;
	struct delivered delivered[DELIVERED_MAX];
	size_t delivered_count;
} w;

/* Instead of libbase's, so that an input means the same in every run. */
enum err crypto_random(void *out_bytes, size_t len)
{
	uint8_t *at = out_bytes;

	for (size_t i = 0; i < len; i++) {
		w.random_state = w.random_state * 6364136223846793005u + 1442695040888963407u;
		at[i] = (uint8_t)(w.random_state >> 56);
	}
	return ERR_OK;
}

static uint8_t take(void)
{
	return w.at < w.end ? *w.at++ : 0;
}

static struct dname name_at(unsigned i)
{
	struct dname name;

	REQUIRE(dname_parse(text_of(names[i]), DNAME_FINAL_DOT_REFUSE, &name) == DNAME_OK);
	return name;
}

/* --- the oracle: a reader of its own, simple and slow --- */

struct oracle_name {
	size_t len;
	uint8_t bytes[256]; /* labels with their lengths, lower case */
};

static bool oracle_read_name(const uint8_t *m, size_t len, size_t *io_at, struct oracle_name *out)
{
	size_t at = *io_at;
	bool jumped = false;

	out->len = 0;
	for (unsigned jumps = 0; jumps < 200;) {
		uint8_t label;

		if (at >= len)
			return false;
		label = m[at];
		if (label >= 0xc0) {
			if (at + 1 >= len)
				return false;
			if (!jumped)
				*io_at = at + 2;
			jumped = true;
			jumps++;
			at = (size_t)(label & 0x3f) << 8 | m[at + 1];
			continue;
		}
		if (label > 63 || at + 1 + label > len || out->len + 1 + label > 255)
			return false;
		out->bytes[out->len++] = label;
		for (size_t i = 1; i <= label; i++)
			out->bytes[out->len++] = (uint8_t)text_lower((char)m[at + i]);
		at += 1u + label;
		if (label > 0)
			continue;
		if (!jumped)
			*io_at = at;
		return true;
	}
	return false;
}

static bool oracle_same(const struct oracle_name *a, const struct oracle_name *b)
{
	return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

#define ORACLE_NAMES 64

/* Is `addr` owned, in the answer section of `m`, by the asked name or by one that its aliases lead to? */
static bool oracle_owns(const uint8_t *m, size_t len, enum dns_type type, const struct addr *addr)
{
	static struct oracle_name reached[ORACLE_NAMES];
	size_t reached_count = 1, question_end = 12;

	if (len < 12 || !oracle_read_name(m, len, &question_end, &reached[0]))
		return false;
	for (unsigned pass = 0; pass < 2 * ORACLE_NAMES; pass++) {
		size_t at = question_end + 4, before = reached_count;

		for (unsigned i = 0; i < (unsigned)(m[6] << 8 | m[7]); i++) {
			struct oracle_name owner, target;
			bool is_reached = false;
			size_t data, data_len;
			unsigned record_type;

			if (!oracle_read_name(m, len, &at, &owner) || at + 10 > len)
				break;
			record_type = (unsigned)(m[at] << 8 | m[at + 1]);
			data_len = (size_t)(m[at + 8] << 8 | m[at + 9]);
			data = at + 10;
			at = data + data_len;
			for (size_t n = 0; n < reached_count; n++)
				is_reached = is_reached || oracle_same(&reached[n], &owner);
			if (at > len)
				break;
			if (!is_reached || m[data - 8] != 0 || m[data - 7] != 1)
				continue;
			if (record_type == type && data_len == addr_len(addr) && memcmp(m + data, addr->octets, data_len) == 0)
				return true;
			if (record_type == DNS_TYPE_CNAME && reached_count < ORACLE_NAMES &&
			    oracle_read_name(m, len, &data, &target))
				reached[reached_count++] = target;
		}
		if (reached_count == before)
			break;
	}
	return false;
}

/* --- servers --- */

static void remember(const uint8_t *bytes, size_t len, const uint8_t *query, size_t query_len)
{
	struct delivered *d = &w.delivered[w.delivered_count];

	if (w.delivered_count == DELIVERED_MAX || query_len > sizeof(d->query))
		return;
	d->bytes = exact_copy(bytes, len);
	d->len = len;
	memcpy(d->query, query, query_len);
	d->query_len = query_len;
	w.delivered_count++;
}

/* The question, and records of the input behind it: two bytes of flags, three of counts. */
static size_t make_records(const struct reply *r, const uint8_t *query, size_t question_len, uint8_t *out)
{
	size_t at = 12 + question_len, left = r->body_len;

	memcpy(out, query, at);
	memset(out + 2, 0, 10);
	out[5] = 1;
	out[2] = 0x80;
	if (left < 5)
		return at;
	out[2] = (uint8_t)(0x80 | (r->body[0] & 7));
	out[3] = r->body[1];
	out[7] = r->body[2];
	out[9] = r->body[3];
	out[11] = r->body[4];
	left -= 5;
	if (left > DNS_MESSAGE_MAX - at)
		left = DNS_MESSAGE_MAX - at;
	memcpy(out + at, r->body + 5, left);
	return at + left;
}

static size_t put_name(uint8_t *out, unsigned which)
{
	struct dname name;

	if (which % 8 >= ARRAY_LEN(names)) {
		out[0] = 0xc0;
		out[1] = 12;
		return 2;
	}
	name = name_at(which % 8);
	return dname_to_wire(&name, out);
}

/* Well-formed records over a few names, three bytes of input each: chains, loops, strangers. */
static size_t make_chain(const struct reply *r, const uint8_t *query, size_t question_len, uint8_t *out)
{
	static const uint8_t types[] = { 1, 28, 5, 5 };
	size_t at = 12 + question_len, count = 0;

	memcpy(out, query, at);
	memset(out + 2, 0, 10);
	out[2] = 0x81;
	out[5] = 1;
	for (size_t i = 0; i + 3 <= r->body_len && at + 600 < DNS_MESSAGE_MAX && count < 40; i += 3, count++) {
		uint8_t type = types[r->body[i] >> 6];
		size_t data;

		at += put_name(out + at, r->body[i] & 7);
		memcpy(out + at, (const uint8_t[8]){ 0, type, 0, 1, 0, 0, r->body[i + 1], 60 }, 8);
		data = at + 10;
		at = data;
		if (type == 5) {
			at += put_name(out + at, r->body[i + 2] & 7);
		} else {
			size_t len = type == 1 ? 4 : 16;

			memset(out + at, 9, len);
			out[at + len - 1] = r->body[i + 2];
			at += len;
		}
		out[data - 2] = 0;
		out[data - 1] = (uint8_t)(at - data);
	}
	out[7] = (uint8_t)count;
	return at;
}

static size_t make_reply(const struct reply *r, const uint8_t *query, size_t query_len, uint8_t *out)
{
	size_t question_len = dns_message_question_len(query, query_len);
	size_t len = r->body_len < DNS_MESSAGE_MAX ? r->body_len : DNS_MESSAGE_MAX;

	switch (r->kind) {
	case REPLY_RECORDS:
		return make_records(r, query, question_len, out);
	case REPLY_CHAIN:
		return make_chain(r, query, question_len, out);
	case REPLY_RAW_ID:
	case REPLY_RAW:
		memcpy(out, r->body, len);
		if (r->kind == REPLY_RAW_ID && len >= 2)
			memcpy(out, query, 2);
		return len;
	default:
		return dns_message_make((enum dns_act)r->kind, query, query_len, 1 + r->chunk % 40, out);
	}
}

/* `lie` spoils the length in front; pieces of `chunk` bytes come every step_ms. */
static void send_stream(const struct reply *r, int fd, uint8_t *bytes, size_t len)
{
	size_t length = len - 2 + (r->lie & 3), chunk = r->chunk == 0 ? len : r->chunk, at = 0;

	bytes[0] = (uint8_t)(length >> 8);
	bytes[1] = (uint8_t)length;
	for (unsigned piece = 0; at < len; piece++) {
		size_t n = len - at < chunk ? len - at : chunk;

		dns_net_arrive(w.net, fd, NULL, bytes + at, n, r->after_ms + (uint64_t)piece * r->step_ms);
		at += n;
	}
}

static bool is_asked_for(const uint8_t *query, size_t len)
{
	for (size_t i = 0; i < w.lookup_count; i++) {
		struct lookup *l = &w.lookups[i];
		struct dname name = name_at(l->name);
		struct dns_query ours;

		if (!l->started || l->done || l->cancelled)
			continue;
		dns_query_build(&name, l->type, (uint16_t)(query[0] << 8 | query[1]), NULL, &ours);
		if (len == ours.len && text_equal_nocase((struct text){ (const char *)query, len },
							 (struct text){ (const char *)ours.bytes, len }))
			return true;
	}
	return false;
}

static void on_query(void *arg, struct dns_net *net, int fd, bool over_tcp, const struct endpoint *server, const uint8_t *query,
		     size_t len)
{
	const struct recipe *recipe = &w.recipes[server->addr.octets[3] % SERVERS];
	uint8_t out[DNS_MESSAGE_MAX + 2];

	REQUIRE(is_asked_for(query, len));
	tell("asked over %s", over_tcp ? "tcp" : "udp");
	w.query_count++;
	for (size_t i = 0; i < recipe->count; i++) {
		const struct reply *r = &recipe->replies[i];
		struct endpoint from = *server;
		size_t n;

		if (r->kind == REPLY_END) {
			dns_net_end(net, fd, over_tcp ? r->lie % 2 * 104 : 111, r->after_ms);
			continue;
		}
		n = make_reply(r, query, len, out + 2);
		if (r->lie & 0x80)
			from.port++;
		if (!(r->lie & 0x80) || over_tcp)
			remember(out + 2, n, query, len);
		if (over_tcp)
			send_stream(r, fd, out, n + 2);
		else
			dns_net_arrive(net, fd, &from, out + 2, n, r->after_ms);
	}
}

static void take_recipe(void)
{
	struct recipe *recipe = &w.recipes[take() % SERVERS];

	recipe->count = take() % (REPLIES_MAX + 1);
	for (size_t i = 0; i < recipe->count; i++) {
		struct reply *r = &recipe->replies[i];
		size_t left;

		*r = (struct reply){ .kind = take() % REPLY_COUNT, .chunk = take(), .step_ms = take() };
		r->after_ms = (uint16_t)(take() * 8);
		r->lie = take();
		r->body_len = r->kind >= DNS_ACT_COUNT && r->kind != REPLY_END ? take() : 0;
		left = (size_t)(w.end - w.at);
		if (r->body_len > left)
			r->body_len = left;
		r->body = w.at;
		w.at += r->body_len;
	}
}

/* --- callers --- */

static void check_pins(const struct lookup *l, const struct dns_answer *answer)
{
	struct dname name = name_at(l->name);
	uint64_t now_ms = loop_now_ms(w.loop);
	const struct pin *before = pins_find(w.pins, &name, l->type, now_ms);
	bool stands = before != NULL && before->for_lease;
	struct dns_answer old, back;
	const struct pin *pin;
	enum err err;

	if (stands)
		pin_answer(before, &old);
	err = pins_put(w.pins, &name, l->type, answer, take() & 1, now_ms);
	REQUIRE(pins_count(w.pins) <= PINS_MAX);
	REQUIRE(err == ERR_OK || err == ERR_LIMIT);
	pin = pins_find(w.pins, &name, l->type, now_ms);
	REQUIRE((pin != NULL) == (err == ERR_OK));
	if (pin == NULL)
		return;
	pin_answer(pin, &back);
	if (stands) {
		REQUIRE(back.addr_count == old.addr_count && memcmp(back.addrs, old.addrs, sizeof(old.addrs)) == 0);
		return;
	}
	REQUIRE(back.outcome == answer->outcome && back.addr_count == answer->addr_count && back.ttl_s == answer->ttl_s);
	REQUIRE(memcmp(back.addrs, answer->addrs, sizeof(back.addrs[0]) * back.addr_count) == 0);
	REQUIRE(dname_equal(&back.canonical, &answer->canonical));
	REQUIRE(pin->for_lease ? answer->outcome == DNS_OUTCOME_ADDRESSES : pin->expires_ms <= now_ms + 3600000);
	REQUIRE(answer->outcome == DNS_OUTCOME_ADDRESSES || pin->expires_ms <= now_ms + 60000);
}

static bool is_backed(const struct lookup *l, const struct addr *addr)
{
	struct dname name = name_at(l->name);

	for (size_t i = 0; i < w.delivered_count; i++) {
		const struct delivered *d = &w.delivered[i];
		struct dns_query ours;

		dns_query_build(&name, l->type, (uint16_t)(d->query[0] << 8 | d->query[1]), NULL, &ours);
		if (d->query_len == ours.len &&
		    strncasecmp((const char *)d->query + 12, (const char *)ours.bytes + 12, ours.question_len) == 0 && d->len > 12 &&
		    memcmp(d->bytes, d->query, 2) == 0 && (d->bytes[2] & 0x80) && oracle_owns(d->bytes, d->len, l->type, addr))
			return true;
	}
	return false;
}

static void start_lookup(void);
static void cancel_lookup(void);

static void tell_done(const struct lookup *l, const struct dns_answer *answer)
{
	char text[ADDR_TEXT_MAX] = "no address";

	if (answer->addr_count > 0)
		addr_print(&answer->addrs[0], text);
	tell("%s %s: %s, %u aliases, %s, %u in all, after %llu ms", names[l->name], l->type == DNS_TYPE_A ? "A" : "AAAA",
	     dns_outcome_word(answer->outcome), answer->chain_count, text, answer->addr_count,
	     (unsigned long long)(loop_now_ms(w.loop) - l->started_ms));
}

static void on_done(void *arg, const struct dns_answer *answer)
{
	struct lookup *l = arg;

	REQUIRE(!w.in_call && l->started && !l->done && !l->cancelled);
	l->done = true;
	tell_done(l, answer);
	REQUIRE(loop_now_ms(w.loop) <= l->started_ms + TOTAL_MS);
	REQUIRE((answer->outcome == DNS_OUTCOME_ADDRESSES) == (answer->addr_count > 0));
	REQUIRE(answer->outcome != DNS_OUTCOME_TRUNCATED);
	for (unsigned i = 0; i < answer->addr_count; i++)
		REQUIRE(w.delivered_count == DELIVERED_MAX || is_backed(l, &answer->addrs[i]));
	check_pins(l, answer);
	switch (take() % 8) {
	case 0:
		start_lookup();
		break;
	case 1:
		cancel_lookup();
		break;
	}
}

static void start_lookup(void)
{
	struct lookup *l = &w.lookups[w.lookup_count];
	uint8_t how = take();
	struct dname name;
	enum err err;

	if (w.lookup_count == LOOKUPS_MAX)
		return;
	w.lookup_count++;
	l->name = how % ARRAY_LEN(names);
	l->type = how & 8 ? DNS_TYPE_AAAA : DNS_TYPE_A;
	l->owner = how >> 5 & 3;
	l->started_ms = loop_now_ms(w.loop);
	name = name_at(l->name);
	w.in_call = true;
	err = resolver_start(w.resolver, l->owner, &name, l->type, on_done, l, &l->token);
	w.in_call = false;
	REQUIRE(err == ERR_OK || err == ERR_LIMIT);
	l->started = err == ERR_OK;
}

static void cancel_lookup(void)
{
	struct lookup *l = &w.lookups[take() % LOOKUPS_MAX];

	if (!l->started || l->done || l->cancelled)
		return;
	l->cancelled = true;
	resolver_cancel(l->token);
}

static void change_servers(void)
{
	struct endpoint at[SERVERS];
	uint8_t how = take();
	size_t count = 0;

	for (uint8_t i = 0; i < SERVERS; i++) {
		if (how & (1 << i))
			at[count++] = (struct endpoint){ .addr = addr_v4((const uint8_t[4]){ 10, 0, 0, i }), .port = 53 };
	}
	if (how & 0x80 && count > 0)
		at[0].addr = addr_v6((const uint8_t[16]){ [0] = 0x20, [1] = 1, [3] = 1 });
	w.server_changes++;
	REQUIRE(resolver_set_servers(w.resolver, at, count) == ERR_OK);
}

static void break_sockets(void)
{
	struct dns_net_faults *f = dns_net_faults(w.net);
	uint8_t how = take();

	*f = (struct dns_net_faults){
		.open = how & 1 ? 24 : 0,
		.connect_udp = how & 2 ? 101 : 0,
		.connect_tcp = how & 4 ? 111 : 0,
		.send = how & 8 ? 105 : 0,
		.half_sends = how & 16,
		.connect_tcp_ms = how & 32 ? 700 : 0,
	};
}

static void advance(uint64_t ms)
{
	REQUIRE(loop_fake_advance(w.loop, ms, TURNS_MAX));
}

static void step(void)
{
	uint8_t what = take();

	switch (what % 8) {
	case 0:
	case 1:
		start_lookup();
		break;
	case 2:
		take_recipe();
		break;
	case 3:
		advance((uint64_t)take() * 10);
		break;
	case 4:
		cancel_lookup();
		break;
	case 5:
		change_servers();
		break;
	case 6:
		break_sockets();
		break;
	case 7:
		advance(0);
		break;
	}
}

/* --- one run --- */

static void begin(void)
{
	struct resolver_options options = { .total_ms = TOTAL_MS, .per_owner_max = 6, .waiting_max = 10, .asking_max = 2 };
	struct ares_link_options link_options = { .channels = 1 + take() % 8, .misfits_max = 4, .sockets = &w.sockets };

	w.random_state = take() + 1u;
	w.loop = loop_create();
	REQUIRE(w.loop != NULL);
	loop_fake_drive_clock(w.loop);
	w.net = dns_net_create(w.loop, on_query, NULL);
	w.metrics = metrics_create();
	w.pins = pins_create(PINS_MAX);
	REQUIRE(w.net != NULL && w.metrics != NULL && w.pins != NULL);
	w.sockets = dns_net_sockets(w.net);
	REQUIRE(ares_link_create(w.loop, &link_options, &w.link) == ERR_OK);
	REQUIRE(resolver_create(w.loop, w.link, w.metrics, &options, &w.resolver) == ERR_OK);
	change_servers();
}

static void end(void)
{
	size_t started = 0;

	advance(TOTAL_MS);
	for (size_t i = 0; i < w.lookup_count; i++) {
		started += w.lookups[i].started;
		/* One begun in the last moment may have a while to go; its own callbacks may have begun others. */
		if (w.lookups[i].started && !w.lookups[i].done && !w.lookups[i].cancelled) {
			w.lookups[i].cancelled = true;
			REQUIRE(loop_now_ms(w.loop) < w.lookups[i].started_ms + TOTAL_MS);
			resolver_cancel(w.lookups[i].token);
		}
	}
	advance(0);
	/* Five tries a second apart, and each server once more per list, over UDP and TCP. */
	REQUIRE(w.query_count <= started * 2 * (6 + SERVERS * w.server_changes));
	REQUIRE(resolver_question_count(w.resolver) == 0 && resolver_lookup_count(w.resolver) == 0);
	REQUIRE(ares_link_busy_count(w.link) == 0);
	REQUIRE(dns_net_open_count(w.net) == 0);
	REQUIRE(loop_fake_watch_count(w.loop) == 0 && loop_fake_timer_count(w.loop) == 0);
	REQUIRE(loop_fake_deferred_count(w.loop) == 0);
	resolver_destroy(w.resolver);
	ares_link_destroy(w.link);
	pins_destroy(w.pins);
	metrics_destroy(w.metrics);
	dns_net_destroy(w.net);
	loop_destroy(w.loop);
	for (size_t i = 0; i < w.delivered_count; i++)
		free(w.delivered[i].bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	log_init("fuzz", LOG_LEVEL_ERROR);
	memset(&w, 0, sizeof(w));
	w.at = data;
	w.end = data + size;
	begin();
	for (unsigned i = 0; i < STEPS_MAX && w.at < w.end; i++)
		step();
	end();
	return 0;
}
