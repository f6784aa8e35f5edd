/* One question to one server, against a real server on loopback: what comes back, what is dropped, what is left behind. */
#include "net/ares_link.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "dns_server.h"
#include "fixture.h"

struct result {
	bool done;
	unsigned calls;
	enum ares_link_status status;
	uint8_t answer[4096];
	size_t len;
	bool case_echoed;
};

static struct loop *loop;
static struct ares_link *ares;
static int open_sockets; /* of the link: the server's own come and go in the same process */

static int counted_open(void *arg, int domain, int type, int protocol)
{
	int fd = socket(domain, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);

	open_sockets += fd >= 0;
	return fd;
}

static int counted_close(void *arg, int fd)
{
	open_sockets--;
	return close(fd);
}

static const struct ares_link_sockets counted = { .open = counted_open, .close = counted_close };

static void open_link(unsigned channels, const struct ares_link_sockets *sockets)
{
	struct ares_link_options o = { .channels = channels, .sockets = sockets != NULL ? sockets : &counted };

	open_sockets = 0;
	cr_assert_eq(crypto_init(), ERR_OK);
	loop = loop_create();
	cr_assert_not_null(loop);
	cr_assert_eq(ares_link_create(loop, &o, &ares), ERR_OK);
}

static void close_link(void)
{
	cr_expect_eq(ares_link_busy_count(ares), 0);
	ares_link_destroy(ares);
	loop_destroy(loop);
	cr_expect_eq(open_sockets, 0, "%d sockets are left", open_sockets);
}

static void on_done(void *arg, enum ares_link_status status, const uint8_t *answer, size_t len, bool case_echoed)
{
	struct result *r = arg;

	r->done = true;
	r->calls++;
	r->status = status;
	r->len = len;
	r->case_echoed = case_echoed;
	cr_assert(len <= sizeof(r->answer));
	cr_assert_eq(answer != NULL, status == ARES_LINK_ANSWER);
	if (answer != NULL)
		memcpy(r->answer, answer, len);
}

/* "Files.eXample.test" in mixed letters, an id of its own. */
static struct dns_query query_of(enum dns_type type)
{
	static const uint8_t case_bits[32] = { 0x41 };
	static uint16_t id = 0x4321;
	struct dns_query q;
	struct dname name;

	cr_assert_eq(dname_parse(text_of("files.example.test"), DNAME_FINAL_DOT_DROP, &name), DNAME_OK);
	dns_query_build(&name, type, id++, case_bits, &q);
	return q;
}

static struct result ask(const struct endpoint *server, uint64_t timeout_ms, bool require_case)
{
	struct dns_query q = query_of(DNS_TYPE_A);
	struct ares_link_query *token;
	struct result r = { 0 };

	cr_assert_eq(ares_link_ask(ares, server, &q, timeout_ms, require_case, on_done, &r, &token), ERR_OK);
	cr_assert_not(r.done, "called back before the call returned");
	cr_assert(fixture_turn_until(loop, &r.done));
	cr_assert_eq(r.calls, 1);
	return r;
}

static unsigned rcode_of(const struct result *r)
{
	return r->answer[3] & 15u;
}

Test(ares_link, brings_back_the_raw_bytes_whatever_the_rcode)
{
	static const struct {
		enum dns_act act;
		unsigned rcode;
	} rows[] = {
		{ DNS_ACT_ANSWER, 0 },	 { DNS_ACT_NO_DATA, 0 }, { DNS_ACT_NXDOMAIN, 3 }, { DNS_ACT_SERVFAIL, 2 },
		{ DNS_ACT_REFUSED, 5 }, { DNS_ACT_GARBAGE, 0 }, { DNS_ACT_FORMERR, 2 },
	};
	struct dns_script script = { .act_count = 1 };
	struct dns_server *server = dns_server_start(&script);
	struct endpoint at = dns_server_at(server);

	open_link(2, NULL);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct result r;

		script.acts[0] = rows[i].act;
		dns_server_script(server, &script);
		r = ask(&at, 5000, true);
		cr_expect_eq(r.status, ARES_LINK_ANSWER, "row %zu", i);
		cr_expect_eq(rcode_of(&r), rows[i].rcode, "row %zu", i);
		cr_expect(r.case_echoed);
	}
	cr_expect_eq(dns_server_asked_count(server), ARRAY_LEN(rows));
	cr_expect_eq(ares_link_misfit_count(ares), 0);
	close_link();
	dns_server_stop(server);
}

Test(ares_link, drops_every_datagram_that_is_no_answer_and_goes_on_waiting)
{
	struct dns_script script = {
		.acts = { DNS_ACT_WRONG_ID, DNS_ACT_WRONG_QUESTION, DNS_ACT_REFLECT, DNS_ACT_EMPTY, DNS_ACT_SHORT,
			  DNS_ACT_LOWER_CASE, DNS_ACT_ANSWER },
		.act_count = 7,
	};
	struct dns_server *server = dns_server_start(&script);
	struct endpoint at = dns_server_at(server);
	struct result r;

	open_link(1, NULL);
	r = ask(&at, 5000, true);
	cr_expect_eq(r.status, ARES_LINK_ANSWER);
	cr_expect(r.case_echoed);
	cr_expect_eq(ares_link_misfit_count(ares), 6);
	r = ask(&at, 5000, false);
	cr_expect_eq(r.status, ARES_LINK_ANSWER);
	cr_expect_not(r.case_echoed, "without the demand the small letters are an answer");
	cr_expect_eq(ares_link_misfit_count(ares), 11);
	close_link();
	dns_server_stop(server);
}

Test(ares_link, fails_a_query_that_is_flooded_with_misfits)
{
	struct dns_script script = { .acts = { DNS_ACT_WRONG_ID }, .act_count = 1, .repeat = 500 };
	struct dns_server *server = dns_server_start(&script);
	struct endpoint at = dns_server_at(server);
	struct result r;

	open_link(1, NULL);
	r = ask(&at, 20000, false);
	cr_expect_eq(r.status, ARES_LINK_FAILED);
	cr_expect_eq(ares_link_misfit_count(ares), 64);
	close_link();
	dns_server_stop(server);
}

Test(ares_link, asks_again_over_tcp_when_truncated_and_checks_what_comes)
{
	static const struct {
		enum dns_tcp tcp;
		enum ares_link_status status;
		unsigned rcode;
		unsigned timeout_ms;
	} rows[] = {
		{ DNS_TCP_ANSWER, ARES_LINK_ANSWER, 0, 5000 },	 { DNS_TCP_BYTES, ARES_LINK_ANSWER, 0, 5000 },
		{ DNS_TCP_TRICKLE, ARES_LINK_TIMEOUT, 0, 300 },	 { DNS_TCP_SILENCE, ARES_LINK_TIMEOUT, 0, 200 },
		{ DNS_TCP_CUT, ARES_LINK_FAILED, 0, 5000 },	 { DNS_TCP_CLOSE, ARES_LINK_FAILED, 0, 5000 },
		{ DNS_TCP_EMPTY, ARES_LINK_TIMEOUT, 0, 200 },	 { DNS_TCP_WRONG_ID, ARES_LINK_ANSWER, 0, 5000 },
		{ DNS_TCP_LOWER_CASE, ARES_LINK_FAILED, 0, 5000 }, { DNS_TCP_REFLECT, ARES_LINK_FAILED, 0, 5000 },
		{ DNS_TCP_FORMERR, ARES_LINK_ANSWER, 2, 5000 },	 { DNS_TCP_TRUNCATED, ARES_LINK_ANSWER, 0, 5000 },
	};
	struct dns_script script = { .acts = { DNS_ACT_TRUNCATED }, .act_count = 1, .addr_count = 30 };
	struct dns_server *server = dns_server_start(&script);
	struct endpoint at = dns_server_at(server);

	open_link(1, NULL);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct result r;

		script.tcp = rows[i].tcp;
		dns_server_script(server, &script);
		r = ask(&at, rows[i].timeout_ms, true);
		cr_expect_eq(r.status, rows[i].status, "row %zu: %d", i, (int)r.status);
		if (rows[i].status == ARES_LINK_ANSWER)
			cr_expect_eq(rcode_of(&r), rows[i].rcode, "row %zu", i);
		cr_expect_eq(open_sockets, 0, "row %zu leaves a socket", i);
	}
	close_link();
	dns_server_stop(server);
}

Test(ares_link, asks_servers_over_ipv6_too)
{
	struct dns_script script = { .acts = { DNS_ACT_WRONG_ID, DNS_ACT_TRUNCATED }, .act_count = 2, .on_v6 = true };
	struct dns_server *server = dns_server_start(&script);
	struct endpoint at = dns_server_at(server);
	struct result r;

	open_link(1, NULL);
	cr_assert_eq(at.addr.family, ADDR_V6);
	r = ask(&at, 5000, true);
	cr_expect_eq(r.status, ARES_LINK_ANSWER);
	cr_expect(dns_server_asked(server, 1).over_tcp);
	close_link();
	dns_server_stop(server);
}

/* The library itself would go on without EDNS for ever, and fetch this answer of 900 bytes over TCP. */
Test(ares_link, keeps_edns_on_a_channel_that_met_an_old_server)
{
	struct dns_script script = { .act_count = 1, .addr_count = 30 };
	struct dns_server *server = dns_server_start(&script);
	struct endpoint at = dns_server_at(server);
	struct result r;

	open_link(1, NULL);
	for (unsigned over_tcp = 0; over_tcp < 2; over_tcp++) {
		size_t before;

		script.acts[0] = over_tcp ? DNS_ACT_TRUNCATED : DNS_ACT_FORMERR;
		script.tcp = DNS_TCP_FORMERR;
		dns_server_script(server, &script);
		r = ask(&at, 5000, true);
		cr_expect_eq(r.status, ARES_LINK_ANSWER);
		script.acts[0] = DNS_ACT_ANSWER;
		dns_server_script(server, &script);
		before = dns_server_asked_count(server);
		r = ask(&at, 5000, true);
		cr_expect_eq(r.status, ARES_LINK_ANSWER);
		cr_expect_gt(r.len, 500);
		cr_expect_eq(dns_server_asked_count(server), before + 1);
		cr_expect_not(dns_server_asked(server, before).over_tcp);
		cr_expect(dns_server_asked(server, before).has_opt);
	}
	close_link();
	dns_server_stop(server);
}

Test(ares_link, ends_by_itself_when_nobody_answers)
{
	struct dns_script script = { .act_count = 0 };
	struct dns_server *server = dns_server_start(&script);
	struct endpoint at = dns_server_at(server);
	struct result r;

	open_link(1, NULL);
	r = ask(&at, 50, false);
	cr_expect_eq(r.status, ARES_LINK_TIMEOUT);
	cr_expect_eq(dns_server_asked_count(server), 1, "one question is one datagram");
	dns_server_stop(server);
	r = ask(&at, 5000, false);
	cr_expect_eq(r.status, ARES_LINK_FAILED, "a closed port is told by the kernel");
	close_link();
	dns_server_stop(NULL);
}

static int no_route(void *arg, int fd, const struct sockaddr *to, socklen_t len)
{
	errno = ENETUNREACH;
	return -1;
}

static int no_socket(void *arg, int domain, int type, int protocol)
{
	errno = EMFILE;
	return -1;
}

/* A number that no epoll accepts. */
static int stray_number(void *arg, int domain, int type, int protocol)
{
	return 19999;
}

static int close_nothing(void *arg, int fd)
{
	return 0;
}

static int connect_nothing(void *arg, int fd, const struct sockaddr *to, socklen_t len)
{
	return 0;
}

static ssize_t send_nothing(void *arg, int fd, const struct iovec *parts, int count)
{
	return (ssize_t)parts[0].iov_len;
}

static ssize_t no_buffers(void *arg, int fd, const struct iovec *parts, int count)
{
	errno = ENOBUFS;
	return -1;
}

Test(ares_link, never_calls_back_at_once_even_when_the_library_does)
{
	static const struct ares_link_sockets rows[] = {
		{ .connect = no_route },
		{ .open = no_socket },
		{ .send = no_buffers },
		{ .open = stray_number, .close = close_nothing, .connect = connect_nothing, .send = send_nothing },
	};
	struct endpoint at = { .addr = addr_v4((const uint8_t[4]){ 192, 0, 2, 1 }), .port = 53 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		open_link(1, &rows[i]);
		cr_expect_eq(ask(&at, 5000, false).status, ARES_LINK_FAILED);
		close_link();
	}
}

Test(ares_link, takes_a_fresh_port_for_every_query_and_refuses_more_than_its_channels)
{
	enum { CHANNELS = 8, ROUNDS = 40 };
	struct dns_script script = { .acts = { DNS_ACT_ANSWER }, .act_count = 1 };
	struct dns_server *server = dns_server_start(&script);
	struct endpoint at = dns_server_at(server);
	struct dns_query queries[CHANNELS];
	struct ares_link_query *token;
	static bool seen[65536];
	unsigned distinct = 0;

	open_link(CHANNELS, NULL);
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct result r[CHANNELS] = { 0 };

		for (unsigned i = 0; i < CHANNELS; i++) {
			cr_assert(ares_link_has_room(ares));
			queries[i] = query_of(i % 2 ? DNS_TYPE_A : DNS_TYPE_AAAA);
			cr_assert_eq(ares_link_ask(ares, &at, &queries[i], 5000, true, on_done, &r[i], &token), ERR_OK);
		}
		cr_expect_not(ares_link_has_room(ares));
		cr_expect_eq(ares_link_ask(ares, &at, &queries[0], 5000, true, on_done, NULL, &token), ERR_AGAIN);
		cr_expect_eq(ares_link_busy_count(ares), CHANNELS);
		for (unsigned i = 0; i < CHANNELS; i++) {
			cr_assert(fixture_turn_until(loop, &r[i].done));
			cr_expect_eq(r[i].status, ARES_LINK_ANSWER);
		}
	}
	for (size_t i = 0; i < dns_server_asked_count(server); i++) {
		uint16_t port = dns_server_asked(server, i).from_port;

		distinct += !seen[port];
		seen[port] = true;
	}
	cr_expect_gt(distinct, CHANNELS * ROUNDS * 9 / 10, "%u ports for %d queries", distinct, CHANNELS * ROUNDS);
	close_link();
	dns_server_stop(server);
}

Test(ares_link, does_not_look_at_the_environment)
{
	struct dns_script script = { .acts = { DNS_ACT_NXDOMAIN }, .act_count = 1 };
	struct dns_server *server = dns_server_start(&script);
	struct endpoint at = dns_server_at(server);
	struct result r;

	setenv("RES_OPTIONS", "ndots:9 retrans:1 retry:9 rotate", 1);
	setenv("LOCALDOMAIN", "corp.test", 1);
	setenv("HOSTALIASES", "/dev/null", 1);
	open_link(1, NULL);
	r = ask(&at, 5000, true);
	cr_expect_eq(r.status, ARES_LINK_ANSWER);
	cr_expect_eq(rcode_of(&r), 3);
	dns_server_script(server, &(struct dns_script){ 0 });
	r = ask(&at, 200, true);
	cr_expect_eq(r.status, ARES_LINK_TIMEOUT);
	cr_expect_eq(dns_server_asked_count(server), 2, "no retries and no suffixes of the library's own");
	for (size_t i = 0; i < 2; i++)
		cr_expect_eq(strcasecmp(dns_server_asked(server, i).name, "files.example.test"), 0);
	close_link();
	dns_server_stop(server);
}

static void cancel_now(void *arg)
{
	ares_link_cancel(arg);
}

/* Turn `turns` times before cancelling; the answers come in the meantime or not. */
Test(ares_link, cancels_exactly_one_query_at_any_moment)
{
	static const enum dns_tcp ways[] = { DNS_TCP_ANSWER, DNS_TCP_BYTES, DNS_TCP_TRICKLE, DNS_TCP_SILENCE };
	struct dns_script script = { .act_count = 1 };
	struct dns_server *server = dns_server_start(&script);
	struct endpoint at = dns_server_at(server);

	open_link(2, NULL);
	for (unsigned i = 0; i < 2 * ARRAY_LEN(ways) * 6; i++) {
		struct dns_query q[2] = { query_of(DNS_TYPE_A), query_of(DNS_TYPE_AAAA) };
		struct result cancelled = { 0 }, other = { 0 };
		struct ares_link_query *token, *other_token;
		unsigned turns = i / (2 * ARRAY_LEN(ways));

		script.acts[0] = i % 2 ? DNS_ACT_TRUNCATED : DNS_ACT_ANSWER;
		script.tcp = ways[i / 2 % ARRAY_LEN(ways)];
		dns_server_script(server, &script);
		cr_assert_eq(ares_link_ask(ares, &at, &q[0], 400, true, on_done, &cancelled, &token), ERR_OK);
		cr_assert_eq(ares_link_ask(ares, &at, &q[1], 400, true, on_done, &other, &other_token), ERR_OK);
		for (unsigned t = 0; t < turns && !cancelled.done; t++)
			loop_turn(loop, 5);
		if (!cancelled.done) {
			ares_link_cancel(token);
			cr_expect_eq(ares_link_busy_count(ares), other.done ? 0 : 1);
		}
		cr_assert(fixture_turn_until(loop, &other.done));
		cr_expect_eq(other.calls, 1);
		for (unsigned t = 0; t < 3; t++)
			loop_turn(loop, 1);
		cr_expect_leq(cancelled.calls, 1);
		cr_expect_eq(ares_link_busy_count(ares), 0);
	}
	close_link();
	dns_server_stop(server);
}

/* The answer has been read and waits for the end of the turn: the cancel before it must still win. */
Test(ares_link, cancels_between_the_answer_and_its_delivery)
{
	struct endpoint at = { .addr = addr_v4((const uint8_t[4]){ 192, 0, 2, 1 }), .port = 53 };
	static const struct ares_link_sockets unreachable = { .connect = no_route };
	struct dns_query q = query_of(DNS_TYPE_A);
	struct loop_deferred first = { 0 };
	struct ares_link_query *token;
	struct result r = { 0 };

	open_link(1, &unreachable);
	/* Deferred in this order: the cancel runs, and then the delivery would. */
	cr_assert_eq(ares_link_ask(ares, &at, &q, 5000, true, on_done, &r, &token), ERR_OK);
	ares_link_cancel(token);
	loop_turn(loop, 0);
	cr_expect_eq(r.calls, 0);
	loop_defer(loop, &first, cancel_now, NULL);
	cr_assert_eq(ares_link_ask(ares, &at, &q, 5000, true, on_done, &r, &token), ERR_OK);
	first.arg = token;
	loop_turn(loop, 0);
	loop_turn(loop, 0);
	cr_expect_eq(r.calls, 0);
	close_link();
}

Test(ares_link, makes_real_sockets_when_none_are_given)
{
	struct dns_script script = { .acts = { DNS_ACT_TRUNCATED }, .act_count = 1, .tcp = DNS_TCP_CLOSE };
	struct dns_server *server = dns_server_start(&script);
	struct endpoint at = dns_server_at(server);
	static const struct ares_link_sockets none;
	size_t fds_before;

	open_link(1, &none);
	fds_before = fixture_fd_count();
	cr_expect_eq(ask(&at, 5000, true).status, ARES_LINK_FAILED);
	dns_server_stop(server);
	cr_expect_eq(fixture_fd_count(), fds_before - 3, "only the server's three are gone");
	close_link();
}

Test(ares_link, survives_a_failing_allocation_at_every_point)
{
	struct dns_script script = { .acts = { DNS_ACT_TRUNCATED }, .act_count = 1 };
	struct dns_server *server = dns_server_start(&script);
	struct endpoint at = dns_server_at(server);
	struct ares_link_options o = { .channels = 2 };
	bool answered = false;
	uint64_t allocations;

	open_link(1, NULL);
	alloc_fail_at(0);
	cr_expect_eq(ask(&at, 5000, true).status, ARES_LINK_ANSWER);
	allocations = alloc_count();
	cr_assert_gt(allocations, 4);
	for (uint64_t nth = 1; nth <= allocations + 1; nth++) {
		struct dns_query q = query_of(DNS_TYPE_A);
		struct ares_link_query *token;
		struct result r = { 0 };
		enum err err;

		alloc_fail_at(nth);
		err = ares_link_ask(ares, &at, &q, 300, true, on_done, &r, &token);
		if (err == ERR_OK)
			cr_assert(fixture_turn_until(loop, &r.done));
		alloc_fail_at(0);
		cr_expect(err == ERR_OK || err == ERR_NO_MEMORY);
		answered = err == ERR_OK && r.status == ARES_LINK_ANSWER;
		cr_expect_eq(ares_link_busy_count(ares), 0);
	}
	cr_expect(answered, "the last round failed nothing");
	cr_expect_eq(ask(&at, 5000, true).status, ARES_LINK_ANSWER);
	for (uint64_t nth = 1;; nth++) {
		struct ares_link *another;
		enum err err;

		alloc_fail_at(nth);
		err = ares_link_create(loop, &o, &another);
		alloc_fail_at(0);
		if (err == ERR_OK) {
			ares_link_destroy(another);
			break;
		}
	}
	close_link();
	dns_server_stop(server);
}

Test(ares_link, recovers_after_descriptors_ran_out)
{
	struct dns_script script = { .acts = { DNS_ACT_ANSWER }, .act_count = 1 };
	struct dns_server *server = dns_server_start(&script);
	struct endpoint at = dns_server_at(server);
	struct rlimit before, none;

	open_link(1, NULL);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ .rlim_cur = 3, .rlim_max = before.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	cr_expect_eq(ask(&at, 5000, true).status, ARES_LINK_FAILED);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	cr_expect_eq(ask(&at, 5000, true).status, ARES_LINK_ANSWER);
	close_link();
	dns_server_stop(server);
}

Test(ares_link, refuses_a_server_without_an_address_or_a_port)
{
	struct endpoint rows[] = { { .port = 53 }, { .addr = addr_v4((const uint8_t[4]){ 127, 0, 0, 1 }) } };
	struct dns_query q = query_of(DNS_TYPE_A);
	struct ares_link_query *token;

	open_link(1, NULL);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		cr_expect_eq(ares_link_ask(ares, &rows[i], &q, 100, false, on_done, NULL, &token), ERR_INVALID);
	ares_link_cancel(NULL);
	close_link();
}
