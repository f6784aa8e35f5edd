/* Names to answers over real sockets: what is asked, of whom, how often, and what the callers hear. Time itself is tests/scenario's. */
#include "net/resolver.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "dns_server.h"
#include "fixture.h"

#define OWNER 7

struct result {
	bool done;
	unsigned calls;
	struct dns_answer answer;
	struct resolver_lookup *token;
};

static struct loop *loop;
static struct ares_link *ares;
static struct metrics *metrics;
static struct resolver *resolver;
static struct dns_server *servers[4];
static size_t server_count;

static void start(const struct resolver_options *options, unsigned channels)
{
	struct ares_link_options link_options = { .channels = channels };

	cr_assert_eq(crypto_init(), ERR_OK);
	loop = loop_create();
	metrics = metrics_create();
	cr_assert(loop != NULL && metrics != NULL);
	cr_assert_eq(ares_link_create(loop, &link_options, &ares), ERR_OK);
	cr_assert_eq(resolver_create(loop, ares, metrics, options, &resolver), ERR_OK);
}

static void use_servers(void)
{
	struct endpoint at[ARRAY_LEN(servers)];

	for (size_t i = 0; i < server_count; i++)
		at[i] = dns_server_at(servers[i]);
	cr_assert_eq(resolver_set_servers(resolver, at, server_count), ERR_OK);
}

static struct dns_server *add_server(enum dns_act act)
{
	struct dns_script script = { .acts = { act }, .act_count = 1 };

	servers[server_count] = dns_server_start(&script);
	return servers[server_count++];
}

static struct dns_server *add_mute_server(void)
{
	servers[server_count] = dns_server_start(&(struct dns_script){ 0 });
	return servers[server_count++];
}

static void stop(void)
{
	cr_expect_eq(resolver_question_count(resolver), 0);
	cr_expect_eq(resolver_lookup_count(resolver), 0);
	cr_expect_eq(ares_link_busy_count(ares), 0);
	resolver_destroy(resolver);
	ares_link_destroy(ares);
	metrics_destroy(metrics);
	loop_destroy(loop);
	for (size_t i = 0; i < server_count; i++)
		dns_server_stop(servers[i]);
}

static struct dname name_of(const char *text)
{
	struct dname name;

	cr_assert_eq(dname_parse(text_of(text), DNAME_FINAL_DOT_DROP, &name), DNAME_OK);
	return name;
}

static void on_done(void *arg, const struct dns_answer *answer)
{
	struct result *r = arg;

	r->done = true;
	r->calls++;
	r->answer = *answer;
}

static enum err begin(struct result *r, uint32_t owner, const char *name, enum dns_type type)
{
	struct dname n = name_of(name);
	enum err err;

	*r = (struct result){ 0 };
	err = resolver_start(resolver, owner, &n, type, on_done, r, &r->token);
	cr_assert_not(r->done, "called back before the call returned");
	return err;
}

static struct dns_answer look_up(const char *name, enum dns_type type)
{
	struct result r;

	cr_assert_eq(begin(&r, OWNER, name, type), ERR_OK);
	cr_assert(fixture_turn_until(loop, &r.done));
	cr_assert_eq(r.calls, 1);
	return r.answer;
}

static uint64_t metric(enum metric id)
{
	return atomic_load(&metrics->value[id]);
}

static uint64_t histogram_count(void)
{
	uint64_t count = 0;

	for (size_t i = 0; i <= METRICS_BUCKETS; i++)
		count += atomic_load(&metrics->histogram[HISTOGRAM_DNS].bucket[i]);
	return count;
}

Test(resolver, answers_each_family_and_counts_it)
{
	struct dns_server *server = add_server(DNS_ACT_ANSWER);
	struct dns_answer a;

	start(NULL, 4);
	use_servers();
	a = look_up("files.example.test", DNS_TYPE_A);
	cr_expect_eq(a.outcome, DNS_OUTCOME_ADDRESSES);
	cr_expect_eq(a.addr_count, 1);
	cr_expect_eq(a.addrs[0].family, ADDR_V4);
	cr_expect_eq(a.ttl_s, 300);
	cr_expect_str_eq(a.canonical.text, "files.example.test");
	a = look_up("files.example.test", DNS_TYPE_AAAA);
	cr_expect_eq(a.addrs[0].family, ADDR_V6);
	cr_expect_eq(dns_server_asked(server, 0).type, DNS_TYPE_A);
	cr_expect_eq(dns_server_asked(server, 1).type, DNS_TYPE_AAAA);
	cr_expect_eq(metric(METRIC_DNS_A_OK), 1);
	cr_expect_eq(metric(METRIC_DNS_AAAA_OK), 1);
	cr_expect_eq(histogram_count(), 2);
	stop();
}

Test(resolver, says_what_the_server_said_and_nothing_better)
{
	static const struct {
		enum dns_act act;
		enum dns_tcp tcp;
		enum dns_outcome outcome;
		enum metric metric;
	} rows[] = {
		{ DNS_ACT_NXDOMAIN, 0, DNS_OUTCOME_NXDOMAIN, METRIC_DNS_A_NEGATIVE },
		{ DNS_ACT_NO_DATA, 0, DNS_OUTCOME_NO_ADDRESS, METRIC_DNS_A_NEGATIVE },
		{ DNS_ACT_SERVFAIL, 0, DNS_OUTCOME_SERVER_FAILURE, METRIC_DNS_A_FAILED },
		{ DNS_ACT_REFUSED, 0, DNS_OUTCOME_SERVER_FAILURE, METRIC_DNS_A_FAILED },
		{ DNS_ACT_FORMERR, 0, DNS_OUTCOME_SERVER_FAILURE, METRIC_DNS_A_FAILED },
		{ DNS_ACT_GARBAGE, 0, DNS_OUTCOME_MALFORMED, METRIC_DNS_A_FAILED },
		{ DNS_ACT_TRUNCATED, DNS_TCP_ANSWER, DNS_OUTCOME_ADDRESSES, METRIC_DNS_A_OK },
		{ DNS_ACT_TRUNCATED, DNS_TCP_TRUNCATED, DNS_OUTCOME_MALFORMED, METRIC_DNS_A_FAILED },
		{ DNS_ACT_TRUNCATED, DNS_TCP_CUT, DNS_OUTCOME_UNREACHABLE, METRIC_DNS_A_FAILED },
		{ DNS_ACT_TRUNCATED, DNS_TCP_TRICKLE, DNS_OUTCOME_TIMEOUT, METRIC_DNS_A_TIMEOUT },
		{ DNS_ACT_EMPTY, 0, DNS_OUTCOME_TIMEOUT, METRIC_DNS_A_TIMEOUT },
		{ DNS_ACT_REFLECT, 0, DNS_OUTCOME_TIMEOUT, METRIC_DNS_A_TIMEOUT },
	};
	struct resolver_options options = { .total_ms = 600, .try_ms = 400 };
	struct dns_server *server = add_server(DNS_ACT_ANSWER);

	start(&options, 2);
	use_servers();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct dns_script script = { .acts = { rows[i].act }, .act_count = 1, .tcp = rows[i].tcp };
		uint64_t before = metric(rows[i].metric);
		struct dns_answer a;

		dns_server_script(server, &script);
		a = look_up("files.example.test", DNS_TYPE_A);
		cr_expect_eq(a.outcome, rows[i].outcome, "row %zu: %s", i, dns_outcome_word(a.outcome));
		cr_expect_eq(a.addr_count > 0, a.outcome == DNS_OUTCOME_ADDRESSES);
		cr_expect_eq(metric(rows[i].metric), before + 1, "row %zu", i);
	}
	cr_expect_geq(metric(METRIC_DNS_MISFITS), 2);
	stop();
}

Test(resolver, asks_only_the_very_name_in_mixed_letters_with_fresh_ids_and_ports)
{
	enum { COUNT = 300 };
	struct dns_server *server = add_server(DNS_ACT_NXDOMAIN);
	unsigned ids = 0, ports = 0, mixed = 0, bits[16] = { 0 };
	static bool seen_id[65536], seen_port[65536];

	setenv("LOCALDOMAIN", "corp.test", 1);
	setenv("RES_OPTIONS", "ndots:15 retry:5", 1);
	start(NULL, 4);
	use_servers();
	for (unsigned i = 0; i < COUNT; i++)
		look_up(i % 3 ? "allowed.example.test" : "intranet", i % 2 ? DNS_TYPE_A : DNS_TYPE_AAAA);
	cr_assert_eq(dns_server_asked_count(server), COUNT, "no retries, no suffixes");
	for (unsigned i = 0; i < COUNT; i++) {
		const char *name = i % 3 ? "allowed.example.test" : "intranet";
		struct dns_asked q = dns_server_asked(server, i);

		cr_expect_eq(strcasecmp(q.name, name), 0, "%s was asked", q.name);
		cr_expect(q.has_opt);
		mixed += strcmp(q.name, name) != 0;
		ids += !seen_id[q.id];
		ports += !seen_port[q.from_port];
		seen_id[q.id] = seen_port[q.from_port] = true;
		for (unsigned bit = 0; bit < 16; bit++)
			bits[bit] += (q.id >> bit) & 1;
	}
	cr_expect_gt(mixed, COUNT * 95 / 100);
	cr_expect_gt(ids, COUNT * 95 / 100);
	cr_expect_gt(ports, COUNT * 90 / 100);
	/* A bit that is a fair coin leaves these bounds once in ten million runs. */
	for (unsigned bit = 0; bit < 16; bit++)
		cr_expect(bits[bit] > 100 && bits[bit] < 200, "bit %u was set %u times", bit, bits[bit]);
	stop();
}

Test(resolver, goes_to_the_next_server_when_one_fails_and_asks_each_once)
{
	static const enum dns_act failures[] = { DNS_ACT_SERVFAIL, DNS_ACT_REFUSED, DNS_ACT_FORMERR, DNS_ACT_GARBAGE };
	struct dns_server *first = add_server(DNS_ACT_SERVFAIL);
	struct dns_server *second = add_server(DNS_ACT_ANSWER);

	start(NULL, 2);
	use_servers();
	for (size_t i = 0; i < ARRAY_LEN(failures); i++) {
		dns_server_script(first, &(struct dns_script){ .acts = { failures[i] }, .act_count = 1 });
		cr_expect_eq(look_up("a.example.test", DNS_TYPE_A).outcome, DNS_OUTCOME_ADDRESSES, "act %zu", i);
	}
	cr_expect_eq(dns_server_asked_count(first), ARRAY_LEN(failures));
	cr_expect_eq(dns_server_asked_count(second), ARRAY_LEN(failures));
	dns_server_script(second, &(struct dns_script){ .acts = { DNS_ACT_REFUSED }, .act_count = 1 });
	cr_expect_eq(look_up("b.example.test", DNS_TYPE_A).outcome, DNS_OUTCOME_SERVER_FAILURE);
	cr_expect_eq(dns_server_asked_count(first), ARRAY_LEN(failures) + 1);
	cr_expect_eq(dns_server_asked_count(second), ARRAY_LEN(failures) + 1);
	stop();
}

Test(resolver, does_not_ask_elsewhere_for_a_better_no)
{
	struct dns_server *second;

	add_server(DNS_ACT_NXDOMAIN);
	second = add_server(DNS_ACT_ANSWER);
	start(NULL, 2);
	use_servers();
	cr_expect_eq(look_up("a.example.test", DNS_TYPE_A).outcome, DNS_OUTCOME_NXDOMAIN);
	cr_expect_eq(dns_server_asked_count(second), 0);
	stop();
}

Test(resolver, lets_a_mute_server_cost_one_try_and_not_one_per_name)
{
	struct resolver_options options = { .try_ms = 100 };
	struct dns_server *mute = add_mute_server();
	char name[40];

	add_server(DNS_ACT_ANSWER);
	start(&options, 4);
	use_servers();
	for (unsigned i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "n%u.example.test", i);
		cr_expect_eq(look_up(name, DNS_TYPE_A).outcome, DNS_OUTCOME_ADDRESSES);
	}
	cr_expect_leq(dns_server_asked_count(mute), 2, "%zu names met the mute server", dns_server_asked_count(mute));
	stop();
}

Test(resolver, says_unreachable_without_servers_and_when_none_can_be_reached)
{
	struct endpoint closed;

	start(NULL, 2);
	cr_expect_eq(look_up("a.example.test", DNS_TYPE_A).outcome, DNS_OUTCOME_UNREACHABLE);
	closed = dns_server_at(add_mute_server());
	dns_server_stop(servers[--server_count]);
	cr_assert_eq(resolver_set_servers(resolver, &closed, 1), ERR_OK);
	cr_expect_eq(look_up("a.example.test", DNS_TYPE_A).outcome, DNS_OUTCOME_UNREACHABLE);
	cr_expect_eq(metric(METRIC_DNS_A_FAILED), 2);
	stop();
}

Test(resolver, refuses_too_many_servers_and_bad_ones)
{
	struct endpoint many[RESOLVER_SERVERS_MAX + 1];

	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		many[i] = (struct endpoint){ .addr = addr_v4((const uint8_t[4]){ 127, 0, 0, 1 }), .port = 53 };
	start(NULL, 1);
	cr_expect_eq(resolver_set_servers(resolver, many, ARRAY_LEN(many)), ERR_LIMIT);
	many[3].port = 0;
	cr_expect_eq(resolver_set_servers(resolver, many, RESOLVER_SERVERS_MAX), ERR_INVALID);
	cr_expect_eq(resolver_set_servers(resolver, many, 0), ERR_OK);
	stop();
}

Test(resolver, shares_a_question_within_one_owner_and_never_between_two)
{
	struct dns_script late = { .acts = { DNS_ACT_ANSWER }, .act_count = 1, .delay_ms = 50 };
	struct dns_server *server = add_server(DNS_ACT_ANSWER);
	struct result same[5], other_owner, other_type, other_name;

	dns_server_script(server, &late);
	start(NULL, 8);
	use_servers();
	for (size_t i = 0; i < ARRAY_LEN(same); i++)
		cr_assert_eq(begin(&same[i], OWNER, "a.example.test", DNS_TYPE_A), ERR_OK);
	cr_assert_eq(begin(&other_owner, OWNER + 1, "a.example.test", DNS_TYPE_A), ERR_OK);
	cr_assert_eq(begin(&other_type, OWNER, "a.example.test", DNS_TYPE_AAAA), ERR_OK);
	cr_assert_eq(begin(&other_name, OWNER, "b.example.test", DNS_TYPE_A), ERR_OK);
	cr_expect_eq(resolver_question_count(resolver), 4);
	cr_expect_eq(resolver_lookup_count(resolver), 8);
	for (size_t i = 0; i < ARRAY_LEN(same); i++)
		cr_assert(fixture_turn_until(loop, &same[i].done));
	cr_assert(fixture_turn_until(loop, &other_owner.done));
	cr_assert(fixture_turn_until(loop, &other_type.done));
	cr_assert(fixture_turn_until(loop, &other_name.done));
	cr_expect_eq(dns_server_asked_count(server), 4);
	stop();
}

Test(resolver, holds_a_server_to_the_letters_it_once_echoed)
{
	struct resolver_options options = { .total_ms = 300, .try_ms = 100 };
	struct dns_script lower = { .acts = { DNS_ACT_LOWER_CASE }, .act_count = 1 };
	struct dns_server *server = add_server(DNS_ACT_LOWER_CASE);

	start(&options, 2);
	use_servers();
	/* One that never echoed may go on so. */
	for (unsigned i = 0; i < 5; i++)
		cr_expect_eq(look_up("lower.example.test", DNS_TYPE_A).outcome, DNS_OUTCOME_ADDRESSES);
	dns_server_script(server, &(struct dns_script){ .acts = { DNS_ACT_ANSWER }, .act_count = 1 });
	cr_expect_eq(look_up("echo.example.test", DNS_TYPE_A).outcome, DNS_OUTCOME_ADDRESSES);
	dns_server_script(server, &lower);
	cr_expect_eq(look_up("spoofed.example.test", DNS_TYPE_A).outcome, DNS_OUTCOME_TIMEOUT);
	cr_expect_geq(metric(METRIC_DNS_MISFITS), 1);
	stop();
}

Test(resolver, bounds_what_one_owner_and_all_together_may_have_under_way)
{
	struct resolver_options options = { .per_owner_max = 3, .waiting_max = 5, .total_ms = 300, .try_ms = 300 };
	struct result r[9];
	char name[40];

	add_mute_server();
	start(&options, 1);
	use_servers();
	for (unsigned i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "n%u.example.test", i);
		cr_assert_eq(begin(&r[i], 1, name, DNS_TYPE_A), ERR_OK);
	}
	cr_expect_eq(begin(&r[3], 1, "more.example.test", DNS_TYPE_A), ERR_LIMIT);
	cr_expect_eq(begin(&r[3], 1, "n0.example.test", DNS_TYPE_A), ERR_LIMIT, "a share counts too");
	cr_assert_eq(begin(&r[3], 2, "n0.example.test", DNS_TYPE_A), ERR_OK);
	cr_assert_eq(begin(&r[4], 2, "n1.example.test", DNS_TYPE_A), ERR_OK);
	cr_assert_eq(begin(&r[5], 3, "n0.example.test", DNS_TYPE_A), ERR_OK, "five wait already, but none is the third's");
	cr_expect_eq(begin(&r[6], 3, "n0.example.test", DNS_TYPE_CNAME), ERR_INVALID);
	for (unsigned i = 0; i < 6; i++) {
		cr_assert(fixture_turn_until(loop, &r[i].done));
		cr_expect_eq(r[i].answer.outcome, DNS_OUTCOME_TIMEOUT);
	}
	stop();
}

Test(resolver, cancels_at_any_moment_and_leaves_the_others_alone)
{
	struct dns_server *server = add_server(DNS_ACT_ANSWER);

	start(NULL, 2);
	use_servers();
	for (unsigned i = 0; i < 120; i++) {
		static const struct dns_script scripts[] = {
			{ .acts = { DNS_ACT_ANSWER }, .act_count = 1 },
			{ .acts = { DNS_ACT_TRUNCATED }, .act_count = 1, .tcp = DNS_TCP_BYTES },
			{ .acts = { DNS_ACT_ANSWER }, .act_count = 1, .delay_ms = 3 },
		};
		struct result gone, shared, alone, waiting[3];
		unsigned turns = i / 3 % 6;

		dns_server_script(server, &scripts[i % 3]);
		cr_assert_eq(begin(&gone, OWNER, "a.example.test", DNS_TYPE_A), ERR_OK);
		cr_assert_eq(begin(&alone, OWNER, "b.example.test", DNS_TYPE_A), ERR_OK);
		for (unsigned w = 0; w < 3; w++)
			cr_assert_eq(begin(&waiting[w], OWNER + 1 + w, "c.example.test", DNS_TYPE_A), ERR_OK);
		if (i % 2)
			cr_assert_eq(begin(&shared, OWNER, "a.example.test", DNS_TYPE_A), ERR_OK);
		for (unsigned t = 0; t < turns && !gone.done; t++)
			loop_turn(loop, 1);
		if (!gone.done)
			resolver_cancel(gone.token);
		if (!waiting[1].done)
			resolver_cancel(waiting[1].token);
		cr_assert(fixture_turn_until(loop, &alone.done));
		cr_assert(fixture_turn_until(loop, &waiting[0].done));
		cr_assert(fixture_turn_until(loop, &waiting[2].done));
		if (i % 2) {
			cr_assert(fixture_turn_until(loop, &shared.done));
			cr_expect_eq(shared.answer.outcome, DNS_OUTCOME_ADDRESSES);
		}
		cr_expect_leq(gone.calls, 1);
		cr_expect_eq(resolver_question_count(resolver), 0);
	}
	resolver_cancel(NULL);
	stop();
}

struct meddler {
	bool done;
	struct result *victim; /* cancelled from inside the callback */
	struct result again;   /* started from inside the callback */
};

static void on_done_meddle(void *arg, const struct dns_answer *answer)
{
	struct meddler *m = arg;

	m->done = true;
	if (!m->victim->done)
		resolver_cancel(m->victim->token);
	cr_expect_eq(begin(&m->again, OWNER, "a.example.test", DNS_TYPE_A), ERR_OK);
}

Test(resolver, allows_starting_and_cancelling_inside_a_callback)
{
	struct dns_server *server = add_server(DNS_ACT_ANSWER);
	struct dname name = name_of("a.example.test");
	struct resolver_lookup *token;
	struct result victims[2];
	struct meddler m[2];

	start(NULL, 2);
	use_servers();
	/* The victim shares the question in the first round, and has another in the second. */
	for (unsigned round = 0; round < 2; round++) {
		m[round] = (struct meddler){ .victim = &victims[round] };
		cr_assert_eq(resolver_start(resolver, OWNER, &name, DNS_TYPE_A, on_done_meddle, &m[round], &token), ERR_OK);
		cr_assert_eq(begin(&victims[round], OWNER, round ? "b.example.test" : "a.example.test", DNS_TYPE_A), ERR_OK);
		cr_assert(fixture_turn_until(loop, &m[round].done));
		cr_assert(fixture_turn_until(loop, &m[round].again.done));
		cr_expect_eq(m[round].again.answer.outcome, DNS_OUTCOME_ADDRESSES);
	}
	cr_expect_eq(victims[0].calls, 0);
	cr_expect_geq(dns_server_asked_count(server), 4, "what was started inside is a new question");
	stop();
}

Test(resolver, meets_a_storm_of_failures_with_one_query_per_server_and_little_cpu)
{
	enum { NAMES = 400 };
	struct resolver_options options = { .per_owner_max = NAMES };
	struct dns_server *first = add_server(DNS_ACT_SERVFAIL), *second = add_server(DNS_ACT_REFUSED);
	static struct result r[NAMES];
	uint64_t turns;
	char name[40];

	start(&options, 8);
	use_servers();
	turns = loop_turn_count(loop);
	for (unsigned i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "n%u.example.test", i);
		cr_assert_eq(begin(&r[i], OWNER, name, DNS_TYPE_A), ERR_OK);
	}
	for (unsigned i = 0; i < NAMES; i++) {
		cr_assert(fixture_turn_until(loop, &r[i].done));
		cr_expect_eq(r[i].answer.outcome, DNS_OUTCOME_SERVER_FAILURE);
	}
	cr_expect_eq(dns_server_asked_count(first), NAMES);
	cr_expect_eq(dns_server_asked_count(second), NAMES);
	cr_expect_leq(loop_turn_count(loop) - turns, NAMES * 12);
	stop();
}

Test(resolver, gives_a_forked_process_ids_of_its_own)
{
	enum { NAMES = 16 };
	struct dns_server *server = add_server(DNS_ACT_NXDOMAIN);
	unsigned equal = 0;
	int status;
	pid_t pid;

	start(NULL, 2);
	use_servers();
	look_up("before.example.test", DNS_TYPE_A);
	pid = fork();
	cr_assert(pid >= 0);
	if (pid == 0) {
		/* epoll is shared with the parent, so the child brings a loop of its own. */
		start(NULL, 2);
		use_servers();
		for (unsigned i = 0; i < NAMES; i++)
			look_up("child.example.test", DNS_TYPE_A);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	for (unsigned i = 0; i < NAMES; i++)
		look_up("parent.example.test", DNS_TYPE_A);
	cr_assert_eq(dns_server_asked_count(server), 1 + 2 * NAMES);
	for (unsigned i = 0; i < NAMES; i++)
		equal += dns_server_asked(server, 1 + i).id == dns_server_asked(server, 1 + NAMES + i).id;
	cr_expect_leq(equal, 2, "%u of %d ids came twice", equal, NAMES);
	stop();
}

Test(resolver, survives_a_failing_allocation_at_every_point)
{
	add_server(DNS_ACT_ANSWER);
	start(&(struct resolver_options){ .total_ms = 400, .try_ms = 100 }, 2);
	use_servers();
	look_up("warm.example.test", DNS_TYPE_A);
	for (uint64_t nth = 1; nth < 24; nth++) {
		struct result r;
		enum err err;

		alloc_fail_at(nth);
		err = begin(&r, OWNER, "a.example.test", DNS_TYPE_A);
		if (err == ERR_OK)
			cr_assert(fixture_turn_until(loop, &r.done));
		alloc_fail_at(0);
		cr_expect(err == ERR_OK || err == ERR_NO_MEMORY);
		cr_expect_eq(resolver_question_count(resolver), 0);
	}
	cr_expect_eq(look_up("a.example.test", DNS_TYPE_A).outcome, DNS_OUTCOME_ADDRESSES);
	stop();
}

Test(resolver, fails_clean_at_every_allocation_of_its_first_lookup)
{
	unsigned failed = 0;

	add_server(DNS_ACT_ANSWER);
	for (uint64_t nth = 1; nth < 16; nth++) {
		struct resolver *none = NULL;
		struct result r;
		enum err err;

		start(&(struct resolver_options){ .total_ms = 400, .try_ms = 100 }, 1);
		alloc_fail_at(nth);
		err = resolver_create(loop, ares, metrics, NULL, &none);
		alloc_fail_at(0);
		cr_expect_eq(err, nth == 1 ? ERR_NO_MEMORY : ERR_OK);
		resolver_destroy(none);
		use_servers();
		alloc_fail_at(nth);
		err = begin(&r, OWNER, "a.example.test", DNS_TYPE_A);
		alloc_fail_at(0);
		cr_expect(err == ERR_OK || err == ERR_NO_MEMORY);
		failed += err != ERR_OK;
		if (err == ERR_OK)
			cr_assert(fixture_turn_until(loop, &r.done));
		cr_expect_eq(resolver_question_count(resolver), 0);
		resolver_destroy(resolver);
		ares_link_destroy(ares);
		metrics_destroy(metrics);
		loop_destroy(loop);
	}
	cr_expect_geq(failed, 4, "owner, lookup, question and their tables: %u", failed);
	dns_server_stop(servers[0]);
}
