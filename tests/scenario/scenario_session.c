/* Runs session.scn: whole sessions, from greeting to relay, over scripted time, name servers and origins. The file says what its lines mean. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/crypto.h"
#include "net/pins.h"
#include "tests/fake/loop_fake.h"
#include "tests/fake/proxy_fake.h"
#include "tests/fake/socket_fake.h"

#define GUESTS_MAX 300
#define WORDS_MAX 24
#define TEXT_MAX 4096
#define NEVER UINT64_MAX

struct guest {
	char id[32];
	int fd; /* owned; -1 once it left */
	unsigned records;
	enum record_event event;
	struct verdict verdict;
	struct endpoint upstream;
	bool pin_failed;
	uint64_t at_ms;
};

static struct {
	unsigned line;
	bool begun, has_policy;
	struct proxy_fake proxy;
	char ceiling[TEXT_MAX], lease[TEXT_MAX];
	struct guest guests[GUESTS_MAX];
	size_t guest_count;
	unsigned queries;
	char dialled[TEXT_MAX];
} told;

static void expect(bool holds, const char *format, ...) ATTR_PRINTF(2, 3);

static void expect(bool holds, const char *format, ...)
{
	char said[TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(said, sizeof(said), format, args);
	va_end(args);
	cr_expect(holds, "session.scn:%u: %s", told.line, said);
}

static void on_record(void *arg, const struct record *r)
{
	struct guest *g = &told.guests[r->source.port - 1];

	g->records++;
	g->event = r->event;
	g->verdict = r->verdict;
	g->upstream = r->upstream;
	g->pin_failed = r->pin_failed;
	g->at_ms = proxy_fake_now_ms(&told.proxy);
}

static void on_query(void *arg, const char *name, uint16_t type)
{
	told.queries++;
}

static void on_dial(void *arg, const struct endpoint *to)
{
	char text[ENDPOINT_TEXT_MAX];

	snprintf(told.dialled + strlen(told.dialled), sizeof(told.dialled) - strlen(told.dialled), "%s ",
		 endpoint_print(to, text));
}

static void finish(void)
{
	if (!told.begun)
		return;
	for (size_t i = 0; i < told.guest_count; i++) {
		if (told.guests[i].fd >= 0)
			close(told.guests[i].fd);
	}
	proxy_fake_end(&told.proxy);
	told.begun = false;
}

static void line_scenario(char **words, size_t count)
{
	unsigned line = told.line;

	finish();
	memset(&told, 0, sizeof(told));
	told.line = line;
	told.begun = true;
	told.proxy.on_record = on_record;
	told.proxy.on_query = on_query;
	told.proxy.on_dial = on_dial;
	proxy_fake_begin(&told.proxy);
}

static void append(char text[TEXT_MAX], char **words, size_t count)
{
	for (size_t i = 1; i < count; i++)
		snprintf(text + strlen(text), TEXT_MAX - strlen(text), "%s%s", words[i], i + 1 < count ? " " : "\n");
}

static void line_lease(char **words, size_t count)
{
	append(told.lease, words, count);
}

static void line_ceiling(char **words, size_t count)
{
	append(told.ceiling, words, count);
}

static void line_policy(char **words, size_t count)
{
	char text[TEXT_MAX + 128];
	const char *leases[] = { text };
	struct world *world;

	snprintf(text, sizeof(text), "lease guest\nguest require listener\nguest listener main\nmode allowlist\n%s", told.lease);
	world = proxy_fake_world(&told.proxy, told.ceiling[0] == '\0' ? "allow any\n" : told.ceiling, leases, 1);
	cr_assert_not_null(world, "session.scn:%u", told.line);
	proxy_fake_adopt(&told.proxy, world);
	proxy_fake_advance(&told.proxy, 0);
	told.lease[0] = told.ceiling[0] = '\0';
}

static uint64_t number(const char *word)
{
	char *end;
	unsigned long n = strtoul(word, &end, 10);

	cr_assert(*end == '\0', "session.scn:%u: %s is no number", told.line, word);
	return n;
}

static struct addr address(const char *word)
{
	struct addr a = { .family = ADDR_NONE };

	cr_assert(addr_parse(text_of(word), &a), "session.scn:%u: %s", told.line, word);
	return a;
}

static void line_family(char **words, size_t count)
{
	static const char *const family[] = { "prefer6", "prefer4", "only4", "only6" };

	for (size_t i = 0; i < ARRAY_LEN(family); i++) {
		if (strcmp(words[1], family[i]) == 0)
			told.proxy.options.family = (enum world_family)i;
	}
}

static void line_dns(char **words, size_t count)
{
	static const char *const acts[] = { "answer", "nxdomain", "servfail", "silent", "stranger", "closed" };
	struct proxy_fake_answer *a = &told.proxy.answers[told.proxy.answer_count++];

	cr_assert(told.proxy.answer_count < PROXY_FAKE_ANSWERS);
	snprintf(a->name, sizeof(a->name), "%s", words[1]);
	a->type = strcmp(words[2], "A") == 0 ? DNS_TYPE_A : DNS_TYPE_AAAA;
	a->after_ms = number(words[3]);
	for (size_t i = 0; i < ARRAY_LEN(acts); i++) {
		if (strcmp(words[4], acts[i]) == 0)
			a->act = (enum proxy_fake_act)i;
	}
	if (count > 5)
		a->ttl_s = (uint32_t)number(words[5]);
	for (size_t i = 6; i < count; i++)
		a->addrs[a->addr_count++] = address(words[i]);
}

static void line_origin(char **words, size_t count)
{
	struct proxy_fake_origin *o = &told.proxy.origins[told.proxy.origin_count];
	struct endpoint at = { .addr = address(words[1]), .port = (uint16_t)number(words[2]) };

	for (size_t i = 0; i < told.proxy.origin_count; i++) {
		if (endpoint_equal(&told.proxy.origins[i].at, &at))
			o = &told.proxy.origins[i];
	}
	if (o == &told.proxy.origins[told.proxy.origin_count])
		told.proxy.origin_count++;
	*o = (struct proxy_fake_origin){ .at = at, .after_ms = count > 4 ? number(words[4]) : 0 };
	if (strcmp(words[3], "refuses") == 0)
		o->error = ECONNREFUSED;
	else if (strcmp(words[3], "unreachable") == 0)
		o->error = EHOSTUNREACH;
	else if (strcmp(words[3], "mute") == 0)
		o->after_ms = NEVER;
	else
		cr_assert_str_eq(words[3], "accepts");
}

static struct guest *find(const char *id)
{
	for (size_t i = told.guest_count; i-- > 0;) {
		if (strcmp(told.guests[i].id, id) == 0)
			return &told.guests[i];
	}
	cr_assert(false, "session.scn:%u: nobody is called %s", told.line, id);
	return NULL;
}

/* A guest arrives and asks: at the home of its lease, or at another worker (`knocks`), and then its home has not heard of it yet. */
static void ask(const char *id, const char *host, uint16_t port, bool knocks)
{
	uint8_t bytes[300] = { 5, 1, 0, 5, 1, 0, 3, (uint8_t)strlen(host) };
	struct guest *g = &told.guests[told.guest_count++];
	size_t len = 8 + strlen(host);

	cr_assert(told.guest_count < GUESTS_MAX);
	snprintf(g->id, sizeof(g->id), "%s", id);
	memcpy(bytes + 8, host, strlen(host));
	bytes[len++] = (uint8_t)(port >> 8);
	bytes[len++] = (uint8_t)port;
	g->fd = (knocks ? proxy_fake_knock : proxy_fake_guest)(&told.proxy, (uint16_t)told.guest_count);
	cr_assert_eq(send(g->fd, bytes, len, 0), (ssize_t)len);
	if (knocks)
		proxy_fake_let_knock(&told.proxy);
	else
		proxy_fake_advance(&told.proxy, 0);
}

static void line_ask(char **words, size_t count)
{
	ask(words[1], words[2], (uint16_t)number(words[3]), false);
}

static void line_knock(char **words, size_t count)
{
	ask(words[1], words[2], (uint16_t)number(words[3]), true);
}

/* Many guests at once, for names a0.TAIL, a1.TAIL, … */
static void line_flood(char **words, size_t count)
{
	for (uint64_t i = 0; i < number(words[2]); i++) {
		char id[32], name[128];

		snprintf(id, sizeof(id), "%s%lu", words[1], (unsigned long)i);
		snprintf(name, sizeof(name), "a%lu.%s", (unsigned long)i, words[3]);
		ask(id, name, (uint16_t)number(words[4]), false);
	}
}

static void line_leave(char **words, size_t count)
{
	struct guest *g = find(words[1]);

	close(g->fd);
	g->fd = -1;
	proxy_fake_advance(&told.proxy, 0);
}

static void line_at(char **words, size_t count)
{
	uint64_t at = number(words[1]), now = proxy_fake_now_ms(&told.proxy);

	cr_assert(at >= now, "session.scn:%u: back in time, it is %lu", told.line, (unsigned long)now);
	proxy_fake_advance(&told.proxy, at - now);
}

static void line_revoke(char **words, size_t count)
{
	uint32_t slot = proxy_fake_slot(&told.proxy, "guest");
	const char *how = count > 1 ? words[1] : "";

	gate_set_slot(told.proxy.shared.gate, slot, GATE_SLOT_REVOKED);
	if (strcmp(how, "quietly") == 0)
		return;
	cr_assert_eq(worker_revoke(told.proxy.worker, slot, REASON_LEASE_REVOKED, NULL), ERR_OK);
	if (strcmp(how, "unheard") != 0)
		proxy_fake_advance(&told.proxy, 0);
}

static void line_next_generation(char **words, size_t count)
{
	gate_next_generation(told.proxy.shared.gate, proxy_fake_slot(&told.proxy, "guest"));
}

static void line_silence(char **words, size_t count)
{
	told.proxy.control_is_silent = true;
}

static void line_wall(char **words, size_t count)
{
	loop_fake_set_wall_ahead(told.proxy.worker->loop, number(words[1]));
}

static void line_flush(char **words, size_t count)
{
	struct lease_home *home = worker_find_home(told.proxy.worker, proxy_fake_slot(&told.proxy, "guest"));

	if (home != NULL && home->pins != NULL)
		pins_flush(home->pins);
}

static void line_expect(char **words, size_t count)
{
	struct guest *g = find(words[1]);
	char text[ENDPOINT_TEXT_MAX];

	if (strcmp(words[2], "waiting") == 0) {
		expect(g->records == 0, "%s got %s at %lu", g->id, reason_word(g->verdict.reason), (unsigned long)g->at_ms);
	} else if (strcmp(words[2], "open") == 0) {
		expect(g->records == 1 && g->event == RECORD_DECISION && g->verdict.allow, "%s is not open: %s", g->id,
		       reason_word(g->verdict.reason));
		expect(strcmp(endpoint_print(&g->upstream, text), words[3]) == 0, "%s is connected to %s", g->id, text);
		expect(g->at_ms == number(words[4]), "%s was opened at %lu", g->id, (unsigned long)g->at_ms);
	} else {
		expect(g->records > 0 && strcmp(reason_word(g->verdict.reason), words[2]) == 0, "%s: %s after %u records", g->id,
		       reason_word(g->verdict.reason), g->records);
		expect(g->at_ms == number(words[3]), "%s ended at %lu", g->id, (unsigned long)g->at_ms);
	}
}

static void line_again(char **words, size_t count)
{
	struct guest *g = find(words[1]);

	expect(g->pin_failed == (strcmp(words[2], "yes") == 0), "%s: pin_failed is %d", g->id, g->pin_failed);
}

static void line_queries(char **words, size_t count)
{
	expect(told.queries == number(words[1]), "%u queries were sent", told.queries);
}

static void line_dialled(char **words, size_t count)
{
	char expected[TEXT_MAX] = "";

	for (size_t i = 1; i < count; i++)
		snprintf(expected + strlen(expected), sizeof(expected) - strlen(expected), "%s ", words[i]);
	expect(strcmp(expected, told.dialled) == 0, "dialled: %s", told.dialled);
}

static void line_count(char **words, size_t count)
{
	unsigned matching = 0;

	for (size_t i = 0; i < told.guest_count; i++)
		matching += told.guests[i].records > 0 && strcmp(reason_word(told.guests[i].verdict.reason), words[1]) == 0;
	expect(matching == number(words[2]), "%u guests got %s", matching, words[1]);
}

static void line_say(char **words, size_t count)
{
	struct guest *g = find(words[1]);

	cr_assert_eq(send(g->fd, words[2], strlen(words[2]), 0), (ssize_t)strlen(words[2]));
	proxy_fake_advance(&told.proxy, 0);
}

static void line_hears(char **words, size_t count)
{
	struct guest *g = find(words[1]);
	int fd = socket_fake_origin(&g->upstream);
	char text[256] = "";

	expect(fd >= 0 && recv(fd, text, sizeof(text) - 1, 0) >= 0 && strcmp(text, words[2]) == 0, "the origin hears \"%s\"", text);
}

static const struct {
	const char *word;
	size_t least_words;
	void (*run)(char **words, size_t count);
} lines[] = {
	{ "scenario", 2, line_scenario }, { "ceiling", 2, line_ceiling }, { "lease", 2, line_lease },
	{ "policy", 1, line_policy },	  { "family", 2, line_family },	  { "dns", 5, line_dns },
	{ "origin", 4, line_origin },	  { "ask", 4, line_ask },	  { "flood", 5, line_flood },
	{ "knock", 4, line_knock },
	{ "leave", 2, line_leave },	  { "at", 2, line_at },		  { "revoke", 1, line_revoke },
	{ "flush", 1, line_flush },	  { "next_generation", 1, line_next_generation },
	{ "silence", 1, line_silence },	  { "wall", 2, line_wall },
		  { "expect", 3, line_expect },	  { "pin_failed", 3, line_again },
	{ "queries", 2, line_queries },	  { "dialled", 1, line_dialled }, { "count", 3, line_count },
	{ "say", 3, line_say },		  { "hears", 3, line_hears },
};

static void run_line(char *text)
{
	char *words[WORDS_MAX], *save = NULL;
	size_t count = 0;

	for (char *w = strtok_r(text, " \t\n", &save); w != NULL && count < WORDS_MAX; w = strtok_r(NULL, " \t\n", &save))
		words[count++] = w;
	if (count == 0 || words[0][0] == '#')
		return;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		if (strcmp(lines[i].word, words[0]) != 0)
			continue;
		cr_assert(count >= lines[i].least_words, "session.scn:%u: too few words", told.line);
		cr_assert(told.begun || i == 0, "session.scn:%u: no scenario", told.line);
		lines[i].run(words, count);
		return;
	}
	cr_assert(false, "session.scn:%u: no such line: %s", told.line, words[0]);
}

Test(session, goes_as_every_scenario_says)
{
	const char *top = getenv("EGRESS_SRCDIR");
	char path[4096], text[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/tests/scenario/session.scn", top != NULL ? top : ".");
	file = fopen(path, "r");
	cr_assert_not_null(file, "%s", path);
	cr_assert_eq(crypto_init(), ERR_OK);
	while (fgets(text, sizeof(text), file) != NULL) {
		told.line++;
		run_line(text);
	}
	finish();
	cr_assert(told.line > 200);
	fclose(file);
}
