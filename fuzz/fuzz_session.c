/*
 * Whole sessions on scripted sockets and clock: a real worker between guests, name servers and origins of the input, under policies and a gate
 * that change on the way. A second, tiny reading of those policies says what may happen. Checked:
 * - a question is asked only for a name that a policy in force allowed, and an address dialled only when the name in force owns it by an answer
 *   that was given and passed whole, or a rule lists it, while the lease was open; nothing opens for a guest of an older generation;
 * - what is pinned for the lease stays what it was when the first session opened over it, as long as nothing failed to connect;
 * - a refused session never hears success and never says more; what was allowed is decided once, and its end is told once;
 * - origins get no byte before success, and under typed rules none that does not start as the scheme does;
 * - descriptors, timers, watches and lookups return to zero.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/log.h"
#include "require.h"
#include "tests/fake/loop_fake.h"
#include "tests/fake/proxy_fake.h"
#include "tests/fake/socket_fake.h"

#define GUESTS_MAX 12
#define STEPS_MAX 64

/* What the guest's lease may be, and the same again for the checks: names it allows, by port. */
static const struct policy {
	const char *lease, *ceiling;
	const char *names[5]; /* a leading dot: below it */
	uint16_t ports[5];
	bool denies_217, lists_216; /* deny 93.184.217.0/24; tcp://93.184.216.0/24:22 */
} policies[] = {
	{ "allow tcp://a.test:99\nallow tcp://*.b.test:99\nallow https://c.test\nallow http://d.test\nallow tcp://93.184.216.0/24:22\n"
	  "deny x.b.test\ndeny 93.184.217.0/24\n",
	  "allow any\n", { "a.test", ".b.test", "c.test", "d.test" }, { 99, 99, 443, 80 }, true, true },
	{ "allow tcp://a.test:99 pin=lease\nallow https://c.test pin=connection\n", "allow any\n", { "a.test", "c.test" }, { 99, 443 }, false,
	  false },
	{ "allow tcp://a.test:99\nallow http://d.test\nallow tcp://93.184.216.0/24:22\n", "allow http://d.test\nallow tcp://93.184.0.0/16:22\n",
	  { "d.test" }, { 80 }, false, true },
	{ "", "allow any\n", { NULL }, { 0 }, false, false },
	{ "allow tcp://a.test:99\nallow tcp://*.b.test:99\ndeny x.b.test\nallow https://c.test\nallow https://localhost\nallow https://intranet\n"
	  "allow https://printer.local\nallow https://db.internal\nallow https://abc.onion\nallow https://nas.home.arpa\n"
	  "limit connections 3 names 3 lookups_per_s 2 idle_ms 5000\n",
	  "allow any\n", { "a.test", ".b.test", "c.test" }, { 99, 99, 443 }, false, false },
};

static const char *const names[] = { "a.test", "y.b.test", "c.test", "d.test", "x.b.test", "e.test", "localhost", "93.184.216.7" };
static const uint16_t ports[] = { 99, 443, 80, 22 };

static const struct place {
	const char *text;
	bool passes;
} places[] = {
	{ "93.184.216.34", true }, { "93.184.216.35", true }, { "93.184.217.1", true }, { "10.0.0.1", false },
	{ "127.0.0.1", false },	   { "169.254.169.254", false }, { "0.0.0.0", false },	{ "93.184.218.1", true },
	{ "2600:1406::1", true },  { "2600:1406::2", true },	 { "::1", false },	{ "64:ff9b::5db8:d822", false },
	{ "fd00::1", false },	   { "::ffff:93.184.216.34", false }, { "2600:1406::3", true }, { "2001:db8::1", false },
};

/* More of what an AAAA may hold. */
static const struct place places6[] = {
	{ "::", false }, { "::1", false }, { "::ffff:127.0.0.1", false }, { "::ffff:10.0.0.5", false }, { "::ffff:169.254.169.254", false },
	{ "::ffff:9.9.9.9", false }, { "::7f00:1", false }, { "::a9fe:a9fe", false }, { "64:ff9b::909:909", false }, { "2001:db8:64::a00:1", false },
	{ "fec0::1", false }, { "feff:ffff::1", false }, { "fc12:3456::1", false }, { "fd12:3456:789a::1", false }, { "fdff:ffff::1", false },
	{ "fe80::a9fe:a9fe", false }, { "febf:ffff::1", false }, { "2001:db8::1", false }, { "3fff::1", false }, { "3fff:fff:ffff::1", false },
	{ "200::1", false }, { "4000::1", false }, { "5f00::1", false }, { "8000::1", false }, { "fe00::1", false }, { "ff02::1", false },
	{ "ff0e::1", false }, { "2400:cb00::1", true }, { "2607:f8b0::1", true }, { "2a01:4f8::1", true }, { "2c0f:f248::1", true },
	{ "2002:a00:1::1", false }, { "2001:0:a00:1::1", false },
};

struct guest {
	int fd; /* owned; -1 */
	bool is_plain;   /* its handshake is a whole and honest one */
	bool was_allowed, was_refused, has_ended;
	uint32_t generation; /* of the lease when a plain one asked */
	uint8_t heard[16];
	size_t heard_len;
};

static struct {
	const uint8_t *at, *end; /* the input not yet read */
	uint64_t random_state;
	struct proxy_fake proxy;
	struct guest guests[GUESTS_MAX];
	size_t guest_count;
	const struct policy *now, *before; /* in force; before: until the end of this moment */
	bool is_revoked;
	bool may_move;                     /* a pin for the lease: another policy or life of the lease, or a dial that failed */
	bool has_opened, is_pinned;        /* a session to a.test */
	struct addr pinned[2 * PROXY_FAKE_ADDRS]; /* what a.test had for the lease when its first session opened */
	size_t pinned_count;
} w;

enum err __wrap_crypto_random(void *out_bytes, size_t len);

/* Instead of chance, so that an input means the same in every run. */
enum err __wrap_crypto_random(void *out_bytes, size_t len)
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

static struct addr addr_of(const char *text)
{
	struct addr a;

	REQUIRE(addr_parse(text_of(text), &a));
	return a;
}

static struct addr addr_at(unsigned i)
{
	return addr_of(places[i % ARRAY_LEN(places)].text);
}

/* --- what may happen --- */

static bool name_holds(const char *pattern, const char *name)
{
	size_t len = strlen(pattern), name_len = strlen(name);

	if (pattern[0] != '.')
		return strcmp(pattern, name) == 0;
	return name_len > len && strcmp(name + name_len - len, pattern) == 0 && strcmp(name, "x.b.test") != 0;
}

/* May `name` be asked for under `p`; port 0: with whatever port? */
static bool is_allowed(const struct policy *p, const char *name, uint16_t port)
{
	for (size_t i = 0; p != NULL && i < ARRAY_LEN(p->names) && p->names[i] != NULL; i++) {
		if (name_holds(p->names[i], name) && (port == 0 || p->ports[i] == port))
			return true;
	}
	return false;
}

static bool passes(const struct policy *p, const struct addr *a)
{
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		struct addr at = addr_at((unsigned)i);

		if (addr_equal(&at, a))
			return places[i].passes && !(p->denies_217 && a->family == ADDR_V4 && a->octets[2] == 217);
	}
	for (size_t i = 0; i < ARRAY_LEN(places6); i++) {
		struct addr at = addr_of(places6[i].text);

		if (addr_equal(&at, a))
			return places6[i].passes;
	}
	return false;
}

/* Did a name that is allowed at this port get this address in an answer all of which passes? */
static bool is_owned(const struct policy *p, const struct endpoint *to)
{
	for (size_t i = 0; i < w.proxy.answer_count; i++) {
		const struct proxy_fake_answer *a = &w.proxy.answers[i];
		bool holds = false, whole = true;

		if (a->used == 0 || a->act != PROXY_FAKE_ANSWER || !is_allowed(p, a->name, to->port))
			continue;
		for (size_t n = 0; n < a->addr_count; n++) {
			holds = holds || addr_equal(&a->addrs[n], &to->addr);
			whole = whole && passes(p, &a->addrs[n]);
		}
		if (holds && whole)
			return true;
	}
	return false;
}

static void on_query(void *arg, const char *name, uint16_t type)
{
	tell("asked %s", name);
	REQUIRE(is_allowed(w.now, name, 0) || is_allowed(w.before, name, 0));
}

static bool is_accepted(const struct endpoint *to);

static void on_dial(void *arg, const struct endpoint *to)
{
	bool is_listed = w.now != NULL && w.now->lists_216 && to->port == 22 && to->addr.family == ADDR_V4 &&
			 memcmp(to->addr.octets, "\x5d\xb8\xd8", 3) == 0;
	char text[ADDR_TEXT_MAX];

	addr_print(&to->addr, text);
	tell("dialled %s", text);
	w.may_move |= !is_accepted(to);
	REQUIRE(w.now != NULL && !w.is_revoked);
	REQUIRE(is_listed || is_owned(w.now, to));
}

static uint32_t generation_now(void)
{
	return gate_generation(w.proxy.shared.gate, proxy_fake_slot(&w.proxy, "guest"));
}

static void on_record(void *arg, const struct record *r)
{
	struct guest *g = &w.guests[r->source.port - 1];

	REQUIRE(r->source.port >= 1 && r->source.port <= w.guest_count);
	REQUIRE(!g->has_ended);
	tell("guest %d: %s%s", r->source.port - 1, r->event == RECORD_DECISION ? "" : "ends by ", reason_word(r->verdict.reason));
	if (r->event != RECORD_DECISION) { /* of a stream that was refused, too */
		REQUIRE(g->was_allowed);
		g->has_ended = true;
		return;
	}
	REQUIRE(!g->was_refused && r->verdict.allow == (r->verdict.reason == REASON_ALLOWED));
	if (!r->verdict.allow) {
		g->was_refused = true;
		return;
	}
	/* What was permitted to an older generation never opens. */
	REQUIRE(!g->is_plain || g->generation == generation_now());
	REQUIRE(!g->was_allowed && r->target_known && r->upstream.addr.family != ADDR_NONE);
	g->was_allowed = true;
	w.has_opened |= strcmp(r->target.name.text, "a.test") == 0;
}

/* --- pins for the lease --- */

static void gather_lease_pins(struct addr *out_addrs, size_t *out_count)
{
	const struct lease_home *home = worker_find_home(w.proxy.worker, proxy_fake_slot(&w.proxy, "guest"));
	const struct pin *pin = NULL;

	*out_count = 0;
	while (home != NULL && home->pins != NULL && (pin = pins_next(home->pins, pin)) != NULL) {
		for (size_t i = 0; pin->for_lease && i < pin->addr_count; i++) {
			REQUIRE(strcmp(pin->name, "a.test") == 0 && *out_count < ARRAY_LEN(w.pinned));
			out_addrs[(*out_count)++] = pin->addrs[i];
		}
	}
}

/* Only of runs under the policy with pin=lease, from their start to whatever may move a pin. */
static void look_at_pins(void)
{
	struct addr now[ARRAY_LEN(w.pinned)];
	size_t count;

	if (w.now != &policies[1] || w.may_move)
		return;
	gather_lease_pins(now, &count);
	if (!w.is_pinned && w.has_opened) {
		memcpy(w.pinned, now, sizeof(now));
		w.pinned_count = count;
		w.is_pinned = true;
	}
	if (!w.is_pinned)
		return;
	REQUIRE(count == w.pinned_count);
	for (size_t i = 0; i < count; i++) {
		bool is_old = false;

		for (size_t n = 0; n < count; n++)
			is_old = is_old || addr_equal(&now[i], &w.pinned[n]);
		REQUIRE(is_old);
	}
}

/* Does a dial end well, as far as the script goes? What it said last counts. */
static bool is_accepted(const struct endpoint *to)
{
	bool accepted = false;

	for (size_t i = 0; i < w.proxy.origin_count; i++) {
		const struct proxy_fake_origin *o = &w.proxy.origins[i];

		if (endpoint_equal(&o->at, to))
			accepted = o->error == 0 && o->after_ms != UINT64_MAX;
	}
	return accepted;
}

/* --- what guests hear and origins get --- */

static void listen_to(struct guest *g)
{
	uint8_t bytes[4096];
	ssize_t n;

	while (g->fd >= 0 && (n = recv(g->fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
		for (ssize_t i = 0; i < n && g->heard_len < sizeof(g->heard); i++)
			g->heard[g->heard_len++] = bytes[i];
	}
	/* No method is 00 but "none", so what follows is the reply to the request. */
	if (g->is_plain && g->heard_len >= 4 && g->heard[0] == 5 && g->heard[1] == 0 && g->heard[2] == 5)
		REQUIRE(g->heard[3] != 0 || g->was_allowed);
}

static void look_at_origins(void)
{
	for (size_t i = 0; i < w.proxy.origin_count; i++) {
		const struct endpoint *at = &w.proxy.origins[i].at;
		int fd = socket_fake_origin(at);
		uint8_t first[1];

		if (fd < 0 || recv(fd, first, 1, MSG_PEEK | MSG_DONTWAIT) <= 0)
			continue;
		REQUIRE(at->port != 443 || first[0] == 0x16);
		REQUIRE(at->port != 80 || (first[0] >= 'A' && first[0] <= 'Z') || (first[0] >= 'a' && first[0] <= 'z'));
	}
}

static void settle(void)
{
	look_at_pins();
	for (size_t i = 0; i < w.guest_count; i++)
		listen_to(&w.guests[i]);
	look_at_origins();
}

static void advance(uint64_t ms)
{
	proxy_fake_advance(&w.proxy, ms);
	w.before = w.now;
	settle();
}

/* --- steps --- */

static void say(struct guest *g, const void *bytes, size_t len)
{
	if (g->fd >= 0)
		(void)!send(g->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Some bytes of the input itself. */
static size_t take_raw(const uint8_t **out_bytes)
{
	size_t len = take(), left = (size_t)(w.end - w.at);

	len = len < left ? len : left;
	*out_bytes = w.at;
	w.at += len;
	return len;
}

static void step_guest(void)
{
	struct guest *g = &w.guests[w.guest_count];
	uint8_t how = take(), bytes[64] = { 5, 1, 0, 5, 1, 0, 3 };
	const char *name = names[how & 7];
	uint16_t port = ports[how >> 3 & 3];
	const uint8_t *raw;
	size_t len;

	if (w.guest_count == GUESTS_MAX)
		return;
	w.guest_count++;
	*g = (struct guest){ .is_plain = !(how & 0x80) };
	g->fd = proxy_fake_guest(&w.proxy, (uint16_t)w.guest_count);
	if (!g->is_plain) {
		len = take_raw(&raw);
		say(g, raw, len);
		return;
	}
	bytes[7] = (uint8_t)strlen(name);
	memcpy(bytes + 8, name, strlen(name));
	len = 8 + strlen(name);
	bytes[len++] = (uint8_t)(port >> 8);
	bytes[len++] = (uint8_t)port;
	say(g, bytes, len);
	g->generation = generation_now();
	advance(0);
}

static void step_say(void)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: d.test\r\n\r\n", other[] = "GET / HTTP/1.1\r\nHost: e.test\r\n\r\n";
	struct guest *g = &w.guests[take() % GUESTS_MAX];
	uint8_t what = take();
	const uint8_t *raw;
	size_t len;

	if (g->fd < 0)
		return;
	switch (what % 4) {
	case 0:
		say(g, http, sizeof(http) - 1);
		break;
	case 1:
		say(g, other, sizeof(other) - 1);
		break;
	default:
		len = take_raw(&raw);
		say(g, raw, len);
		break;
	}
}

static void step_answer(void)
{
	struct proxy_fake_answer *a = &w.proxy.answers[w.proxy.answer_count];
	uint8_t how = take(), count = take() % 5;

	if (w.proxy.answer_count == PROXY_FAKE_ANSWERS)
		return;
	w.proxy.answer_count++;
	*a = (struct proxy_fake_answer){ .type = how & 8 ? 28 : 1, .act = how >> 4 & 7, .after_ms = take() * 4u, .ttl_s = take() };
	/* Half of the acts are answers. */
	if (a->act > PROXY_FAKE_CLOSED)
		a->act = PROXY_FAKE_ANSWER;
	snprintf(a->name, sizeof(a->name), "%s", names[how & 7]);
	for (uint8_t i = 0; i < count; i++) {
		uint8_t which = take();

		a->addrs[a->addr_count++] = a->type == 1     ? addr_at(which & 7u) :
					    which & 0x40     ? addr_of(places6[(which & 0x3fu) % ARRAY_LEN(places6)].text) :
							       addr_at((which & 7u) + 8u);
	}
}

static void step_origin(void)
{
	struct proxy_fake_origin *o = &w.proxy.origins[w.proxy.origin_count];
	uint8_t how = take(), what = take();

	if (w.proxy.origin_count == PROXY_FAKE_ORIGINS)
		return;
	w.proxy.origin_count++;
	*o = (struct proxy_fake_origin){
		.at = { .addr = addr_at(how & 15), .port = ports[how >> 4 & 3] },
		.error = (const int[]){ 0, ECONNREFUSED, EHOSTUNREACH, EMFILE }[what & 3],
		.after_ms = what >> 2 == 63 ? UINT64_MAX : (what >> 2) * 20u,
	};
}

static void step_origin_speaks(void)
{
	static const char page[] = "HTTP/1.1 302 Found\r\nLocation: http://e.test/\r\nContent-Length: 0\r\n\r\n";
	uint8_t which = take();
	const uint8_t *raw;
	size_t len;
	int fd;

	if (w.proxy.origin_count == 0)
		return;
	fd = socket_fake_origin(&w.proxy.origins[(which & 31) % w.proxy.origin_count].at);
	if (fd < 0)
		return;
	if (which & 0x80) {
		shutdown(fd, SHUT_WR);
	} else if (which & 0x40) {
		(void)!send(fd, page, sizeof(page) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	} else {
		len = take_raw(&raw);
		(void)!send(fd, raw, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

static void adopt(const struct policy *p)
{
	char text[512];
	const char *leases[] = { text };
	struct world *world;

	snprintf(text, sizeof(text), "lease guest\nguest require listener\nguest listener main\nmode allowlist\n%s", p->lease);
	world = proxy_fake_world(&w.proxy, p->ceiling, leases, 1);
	REQUIRE(world != NULL);
	proxy_fake_adopt(&w.proxy, world);
	w.may_move |= w.now != NULL;
	w.before = w.now;
	w.now = p;
	/* The world changes at the end of this turn; nothing is dialled by the old one from then on. */
	advance(0);
}

static void step_gate(void)
{
	uint32_t slot = proxy_fake_slot(&w.proxy, "guest");
	struct lease_home *home;
	uint8_t how = take();

	w.may_move = true;
	if (how & 1)
		gate_next_generation(w.proxy.shared.gate, slot);
	w.is_revoked = how & 2;
	gate_set_slot(w.proxy.shared.gate, slot, w.is_revoked ? GATE_SLOT_REVOKED : GATE_SLOT_OPEN);
	if (how & 4)
		REQUIRE(worker_revoke(w.proxy.worker, slot, REASON_LEASE_REVOKED, NULL) == ERR_OK);
	home = worker_find_home(w.proxy.worker, slot);
	if (how & 8 && home != NULL && home->pins != NULL)
		pins_flush(home->pins);
}

static void step_leave(void)
{
	uint8_t which = take();
	struct guest *g = &w.guests[which % GUESTS_MAX];

	if (which % GUESTS_MAX >= w.guest_count || g->fd < 0)
		return;
	if (which & 0x80) {
		shutdown(g->fd, SHUT_WR);
		return;
	}
	listen_to(g);
	close(g->fd);
	g->fd = -1;
}

static void step(void)
{
	static void (*const steps[])(void) = { step_guest, step_guest, step_say, step_answer, step_answer, step_origin,
					       step_origin_speaks, step_gate, step_leave };
	uint8_t what = take();

	if (what % 12 < ARRAY_LEN(steps))
		steps[what % 12]();
	else if (what % 12 == 9)
		adopt(&policies[take() % ARRAY_LEN(policies)]);
	else
		advance(what % 12 == 10 ? take() : take() * 100u);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	log_init("fuzz", LOG_LEVEL_ERROR);
	REQUIRE(crypto_init() == ERR_OK);
	memset(&w, 0, sizeof(w));
	for (size_t i = 0; i < GUESTS_MAX; i++)
		w.guests[i].fd = -1;
	w.at = data;
	w.end = data + size;
	w.random_state = 1;
	w.proxy.channels = 3; /* they are most of what a run costs */
	w.proxy.on_record = on_record;
	w.proxy.on_query = on_query;
	w.proxy.on_dial = on_dial;
	proxy_fake_begin(&w.proxy);
	adopt(&policies[take() % ARRAY_LEN(policies)]);
	for (unsigned i = 0; i < STEPS_MAX && w.at < w.end; i++)
		step();
	advance(0);
	for (size_t i = 0; i < w.guest_count; i++) {
		if (w.guests[i].fd >= 0)
			close(w.guests[i].fd);
	}
	proxy_fake_end(&w.proxy);
	return 0;
}
