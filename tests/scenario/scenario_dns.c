/* Runs dns.scn: real resolver, real c-ares, scripted time and network. The file says what its lines mean. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "net/resolver.h"
#include "tests/fake/dns_message.h"
#include "tests/fake/dns_net.h"
#include "tests/fake/loop_fake.h"

#define SERVERS 4
#define LOOKUPS_MAX 64
#define WORDS_MAX 24
#define TURNS_MAX 100000 /* for one step; a spin is found by it */

struct lookup {
	char id[32];
	struct resolver_lookup *token;
	unsigned calls;
	bool cancelled;
	enum dns_outcome outcome;
	uint64_t at_ms;
};

struct server {
	char words[WORDS_MAX][24];
	size_t word_count;
	bool closed;
	unsigned asked;
};

static struct {
	unsigned line;
	bool started; /* the parts below exist */
	struct resolver_options options;
	struct ares_link_options link_options;
	uint64_t from_ms;
	struct loop *loop;
	struct dns_net *net;
	struct ares_link_sockets sockets;
	struct ares_link *link;
	struct metrics *metrics;
	struct resolver *resolver;
	struct server servers[SERVERS];
	struct lookup lookups[LOOKUPS_MAX];
	size_t lookup_count;
} world;

#define EXPECT(condition, ...)                                                                        \
	do {                                                                                          \
		char text[200];                                                                       \
		snprintf(text, sizeof(text), __VA_ARGS__);                                            \
		cr_expect(condition, "dns.scn:%u: %s", world.line, text);                             \
	} while (0)

static uint64_t now(void)
{
	return loop_now_ms(world.loop) - world.from_ms;
}

static struct endpoint server_at(size_t n)
{
	return (struct endpoint){ .addr = addr_v4((const uint8_t[4]){ 10, 0, 0, (uint8_t)n }), .port = 53 };
}

/* --- the servers --- */

static const char *const act_words[DNS_ACT_COUNT] = {
	[DNS_ACT_ANSWER] = "answer",	   [DNS_ACT_NXDOMAIN] = "nxdomain",
	[DNS_ACT_NO_DATA] = "no_data",	   [DNS_ACT_SERVFAIL] = "servfail",
	[DNS_ACT_REFUSED] = "refused",	   [DNS_ACT_FORMERR] = "formerr",
	[DNS_ACT_TRUNCATED] = "truncated", [DNS_ACT_WRONG_ID] = "wrong_id",
	[DNS_ACT_LOWER_CASE] = "lower_case", [DNS_ACT_WRONG_QUESTION] = "wrong_question",
	[DNS_ACT_REFLECT] = "reflect",	   [DNS_ACT_EMPTY] = "empty",
	[DNS_ACT_SHORT] = "short",	   [DNS_ACT_GARBAGE] = "garbage",
};

static size_t make(const char *word, const uint8_t *query, size_t len, uint8_t *out)
{
	for (size_t i = 0; i < DNS_ACT_COUNT; i++) {
		if (strcmp(act_words[i], word) == 0)
			return dns_message_make((enum dns_act)i, query, len, 1, out);
	}
	EXPECT(false, "no such reply: %s", word);
	return 0;
}

/* Over TCP, by what stands behind "tcp_". */
static void reply_tcp(int fd, const char *word, uint64_t after_ms, const uint8_t *query, size_t len)
{
	uint8_t out[DNS_MESSAGE_MAX + 2];
	bool is_way = strcmp(word, "bytes") == 0 || strcmp(word, "trickle") == 0 || strcmp(word, "cut") == 0;
	size_t n;

	if (strcmp(word, "silent") == 0)
		return;
	n = make(is_way ? "answer" : word, query, len, out + 2);
	out[0] = (uint8_t)(n >> 8);
	out[1] = (uint8_t)n;
	if (strcmp(word, "cut") == 0) {
		dns_net_arrive(world.net, fd, NULL, out, 2, after_ms);
		dns_net_end(world.net, fd, 0, after_ms);
	} else if (strcmp(word, "bytes") == 0) {
		for (size_t i = 0; i < n + 2; i++)
			dns_net_arrive(world.net, fd, NULL, out + i, 1, after_ms + i * 2);
	} else if (strcmp(word, "trickle") == 0) {
		out[0] = out[1] = 0xff;
		for (size_t i = 0; i < n + 2; i++)
			dns_net_arrive(world.net, fd, NULL, out + i, 1, after_ms + i * 100);
	} else {
		dns_net_arrive(world.net, fd, NULL, out, n + 2, after_ms);
	}
}

static void on_query(void *arg, struct dns_net *net, int fd, bool over_tcp, const struct endpoint *at, const uint8_t *query,
		     size_t len)
{
	struct server *s = &world.servers[at->addr.octets[3]];
	uint8_t out[DNS_MESSAGE_MAX];
	uint64_t after_ms = 0;
	struct endpoint elsewhere = { .addr = at->addr, .port = (uint16_t)(at->port + 1) };

	s->asked++;
	EXPECT(dns_message_question_len(query, len) != 0, "a query without a question");
	if (s->closed)
		dns_net_end(net, fd, ECONNREFUSED, 0);
	if (strncasecmp((const char *)query + 13, "mute", 4) == 0)
		return;
	for (size_t i = 0; i < s->word_count; i++) {
		const char *word = s->words[i];

		if (strcmp(word, "after") == 0)
			after_ms = strtoul(s->words[++i], NULL, 10);
		else if (strcmp(word, "elsewhere") == 0 && !over_tcp)
			dns_net_arrive(net, fd, &elsewhere, out, make("answer", query, len, out), after_ms);
		else if (strncmp(word, "tcp_", 4) == 0 && over_tcp)
			reply_tcp(fd, word + 4, after_ms, query, len);
		else if (strncmp(word, "tcp_", 4) != 0 && !over_tcp)
			dns_net_arrive(net, fd, at, out, make(word, query, len, out), after_ms);
	}
}

/* --- the world --- */

static void use(const size_t *which, size_t count)
{
	struct endpoint at[SERVERS];

	for (size_t i = 0; i < count; i++)
		at[i] = server_at(which[i]);
	EXPECT(resolver_set_servers(world.resolver, at, count) == ERR_OK, "servers refused");
}

static void start(void)
{
	static const size_t both[] = { 0, 1 };

	if (world.started)
		return;
	world.started = true;
	world.loop = loop_create();
	cr_assert_not_null(world.loop);
	loop_fake_drive_clock(world.loop);
	world.from_ms = loop_now_ms(world.loop);
	world.net = dns_net_create(world.loop, on_query, NULL);
	cr_assert_not_null(world.net);
	world.sockets = dns_net_sockets(world.net);
	world.link_options.sockets = &world.sockets;
	world.metrics = metrics_create();
	cr_assert_not_null(world.metrics);
	cr_assert_eq(ares_link_create(world.loop, &world.link_options, &world.link), ERR_OK);
	cr_assert_eq(resolver_create(world.loop, world.link, world.metrics, &world.options, &world.resolver), ERR_OK);
	use(both, 2);
}

static void advance(uint64_t ms)
{
	EXPECT(loop_fake_advance(world.loop, ms, TURNS_MAX), "something spins");
}

static void finish(void)
{
	if (!world.started)
		return;
	advance(20000);
	for (size_t i = 0; i < world.lookup_count; i++) {
		struct lookup *l = &world.lookups[i];

		EXPECT(l->calls == !l->cancelled, "%s was called back %u times", l->id, l->calls);
	}
	EXPECT(resolver_question_count(world.resolver) == 0 && resolver_lookup_count(world.resolver) == 0, "questions are left");
	EXPECT(ares_link_busy_count(world.link) == 0, "channels are left");
	EXPECT(dns_net_open_count(world.net) == 0, "sockets are left");
	EXPECT(loop_fake_watch_count(world.loop) == 0 && loop_fake_timer_count(world.loop) == 0 &&
		       loop_fake_deferred_count(world.loop) == 0,
	       "watches, timers or work are left");
	resolver_destroy(world.resolver);
	ares_link_destroy(world.link);
	metrics_destroy(world.metrics);
	dns_net_destroy(world.net);
	loop_destroy(world.loop);
}

static void on_done(void *arg, const struct dns_answer *answer)
{
	struct lookup *l = arg;

	EXPECT(!l->cancelled, "%s came after its cancel", l->id);
	l->calls++;
	l->outcome = answer->outcome;
	l->at_ms = now();
	EXPECT((answer->addr_count > 0) == (answer->outcome == DNS_OUTCOME_ADDRESSES), "%s has addresses", l->id);
}

/* --- the lines --- */

static struct lookup *find(const char *id)
{
	for (size_t i = 0; i < world.lookup_count; i++) {
		if (strcmp(world.lookups[i].id, id) == 0)
			return &world.lookups[i];
	}
	cr_assert(false, "dns.scn:%u: no lookup %s", world.line, id);
	return NULL;
}

static size_t number(const char *word)
{
	char *end;
	size_t n = strtoul(word, &end, 10);

	cr_assert(*word != '\0' && *end == '\0', "dns.scn:%u: %s is no number", world.line, word);
	return n;
}

static void line_scenario(char **words, size_t count)
{
	unsigned line = world.line;

	finish();
	memset(&world, 0, sizeof(world));
	world.line = line;
}

static void line_option(char **words, size_t count)
{
	unsigned value = (unsigned)number(words[2]);

	EXPECT(!world.started, "an option in the middle");
	if (strcmp(words[1], "total") == 0)
		world.options.total_ms = value;
	else if (strcmp(words[1], "try") == 0)
		world.options.try_ms = value;
	else if (strcmp(words[1], "per_owner") == 0)
		world.options.per_owner_max = value;
	else if (strcmp(words[1], "waiting") == 0)
		world.options.waiting_max = value;
	else if (strcmp(words[1], "asking") == 0)
		world.options.asking_max = value;
	else if (strcmp(words[1], "channels") == 0)
		world.link_options.channels = value;
	else if (strcmp(words[1], "misfits") == 0)
		world.link_options.misfits_max = value;
	else
		EXPECT(false, "no such option: %s", words[1]);
}

static void line_server(char **words, size_t count)
{
	struct server *s = &world.servers[number(words[1])];

	s->word_count = 0;
	for (size_t i = 2; i < count; i++)
		snprintf(s->words[s->word_count++], sizeof(s->words[0]), "%s", words[i]);
}

static void line_closed(char **words, size_t count)
{
	world.servers[number(words[1])].closed = true;
}

static void line_connecting(char **words, size_t count)
{
	dns_net_faults(world.net)->connect_tcp_ms = number(words[1]);
}

static void line_use(char **words, size_t count)
{
	size_t which[SERVERS];

	for (size_t i = 1; i < count; i++)
		which[i - 1] = number(words[i]);
	use(which, count - 1);
}

static void line_ask(char **words, size_t count)
{
	struct lookup *l = &world.lookups[world.lookup_count++];
	enum dns_type type = strcmp(words[4], "A") == 0 ? DNS_TYPE_A : DNS_TYPE_AAAA;
	struct dname name;

	cr_assert(world.lookup_count < LOOKUPS_MAX);
	snprintf(l->id, sizeof(l->id), "%s", words[1]);
	cr_assert_eq(dname_parse(text_of(words[3]), DNAME_FINAL_DOT_REFUSE, &name), DNAME_OK);
	EXPECT(resolver_start(world.resolver, (uint32_t)number(words[2]), &name, type, on_done, l, &l->token) == ERR_OK,
	       "%s was refused", l->id);
	EXPECT(l->calls == 0, "%s came at once", l->id);
}

static void line_refused(char **words, size_t count)
{
	enum dns_type type = strcmp(words[3], "A") == 0 ? DNS_TYPE_A : DNS_TYPE_AAAA;
	struct resolver_lookup *none = NULL;
	struct dname name;

	cr_assert_eq(dname_parse(text_of(words[2]), DNAME_FINAL_DOT_REFUSE, &name), DNAME_OK);
	EXPECT(resolver_start(world.resolver, (uint32_t)number(words[1]), &name, type, on_done, NULL, &none) == ERR_LIMIT,
	       "%s was taken for %s", words[2], words[1]);
}

static void line_cancel(char **words, size_t count)
{
	struct lookup *l = find(words[1]);

	EXPECT(l->calls == 0, "%s is done", l->id);
	l->cancelled = true;
	resolver_cancel(l->token);
}

static void line_at(char **words, size_t count)
{
	EXPECT(number(words[1]) >= now(), "back in time");
	advance(number(words[1]) - now());
}

static void line_expect(char **words, size_t count)
{
	struct lookup *l = find(words[1]);

	if (strcmp(words[2], "waiting") == 0) {
		EXPECT(l->calls == 0 && !l->cancelled, "%s ended at %lu", l->id, (unsigned long)l->at_ms);
	} else if (strcmp(words[2], "cancelled") == 0) {
		EXPECT(l->calls == 0 && l->cancelled, "%s was called back", l->id);
	} else {
		EXPECT(l->calls == 1, "%s was called back %u times", l->id, l->calls);
		EXPECT(strcmp(dns_outcome_word(l->outcome), words[2]) == 0, "%s: %s", l->id, dns_outcome_word(l->outcome));
		EXPECT(l->at_ms == number(words[3]), "%s ended at %lu", l->id, (unsigned long)l->at_ms);
	}
}

static void line_asked(char **words, size_t count)
{
	unsigned asked = world.servers[number(words[1])].asked;

	EXPECT(asked == number(words[2]), "it was asked %u times", asked);
}

static void line_misfits(char **words, size_t count)
{
	uint64_t seen = ares_link_misfit_count(world.link);

	EXPECT(seen == number(words[1]), "%lu were seen", (unsigned long)seen);
}

static const struct {
	const char *word;
	size_t least_words;
	bool needs_world;
	void (*run)(char **words, size_t count);
} lines[] = {
	{ "scenario", 2, false, line_scenario }, { "option", 3, false, line_option },
	{ "server", 2, true, line_server },	  { "closed", 2, true, line_closed },
	{ "connecting", 2, true, line_connecting }, { "use", 2, true, line_use },
	{ "ask", 5, true, line_ask },		  { "refused", 4, true, line_refused },
	{ "cancel", 2, true, line_cancel },
	{ "at", 2, true, line_at },		  { "expect", 3, true, line_expect },
	{ "asked", 3, true, line_asked },	  { "misfits", 2, true, line_misfits },
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
		cr_assert(count >= lines[i].least_words, "dns.scn:%u: too few words", world.line);
		if (lines[i].needs_world)
			start();
		lines[i].run(words, count);
		return;
	}
	cr_assert(false, "dns.scn:%u: no such line: %s", world.line, words[0]);
}

Test(dns, goes_as_every_scenario_says)
{
	const char *top = getenv("EGRESS_SRCDIR");
	char path[4096], text[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/tests/scenario/dns.scn", top != NULL ? top : ".");
	file = fopen(path, "r");
	cr_assert_not_null(file, "%s", path);
	cr_assert_eq(crypto_init(), ERR_OK);
	while (fgets(text, sizeof(text), file) != NULL) {
		world.line++;
		run_line(text);
	}
	finish();
	cr_assert(world.line > 300);
	fclose(file);
}
