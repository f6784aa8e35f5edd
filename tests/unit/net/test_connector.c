/* Over real sockets: who wins, what a failure is called, and that no descriptor stays. */
#include "net/connector.h"

#include <criterion/criterion.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/attr.h"
#include "fixture.h"
#include "net/sockopt.h"

struct attempt_log {
	struct loop *loop;
	struct connector *connector;
	struct connector_result result;
	unsigned checks, refuse_at_check; /* 1 is the first */
	struct loop_deferred cancel;
	bool cancel_at_end;
	unsigned calls;
	bool done;
};

static void on_cancel(void *arg)
{
	struct attempt_log *log = arg;

	connector_cancel(log->connector);
	log->done = true;
}

static enum reason check(void *arg, const struct permit *permit)
{
	struct attempt_log *log = arg;

	cr_expect_eq(permit->slot, 7);
	log->checks++;
	if (log->cancel_at_end && log->checks == 2)
		loop_defer(log->loop, &log->cancel, on_cancel, log);
	return log->checks == log->refuse_at_check ? REASON_LEASE_REVOKED : REASON_ALLOWED;
}

static void on_done(void *arg, const struct connector_result *result)
{
	struct attempt_log *log = arg;

	log->result = *result;
	log->calls++;
	log->done = true;
}

static struct permit permit_for(const char *addr, uint16_t port)
{
	struct permit p = { .to = { .port = port }, .slot = 7 };

	cr_assert(addr_parse(text_of(addr), &p.to.addr));
	return p;
}

static struct permit permit_to(const struct endpoint *to)
{
	return (struct permit){ .to = *to, .slot = 7 };
}

static void run(struct attempt_log *log, const struct permit *permits, size_t count,
		const struct connector_options *options)
{
	log->done = false;
	log->calls = 0;
	cr_assert_eq(connector_start(log->loop, permits, count, options, check, on_done, log,
				     &log->connector),
		     ERR_OK);
	cr_assert_eq(log->calls, 0, "never before it returns");
	cr_assert(fixture_turn_until(log->loop, &log->done));
	loop_turn(log->loop, 0);
}

/* A place that never answers: its queue is full, so the kernel drops what comes. */
static struct endpoint black_hole(int out_fds[3])
{
	struct endpoint at;
	struct sockaddr_storage sa;
	socklen_t len;

	out_fds[0] = fixture_listen(ADDR_V4, 0, &at);
	len = endpoint_to_sockaddr(&at, &sa);
	for (size_t i = 1; i < 3; i++) {
		cr_assert_eq(sockopt_open_tcp(ADDR_V4, &out_fds[i]), ERR_OK);
		connect(out_fds[i], (struct sockaddr *)&sa, len);
	}
	return at;
}

static void close_hole(const int fds[3])
{
	for (size_t i = 0; i < 3; i++)
		close(fds[i]);
}

/* A place where nothing listens. */
static struct endpoint closed_port(void)
{
	struct endpoint at;

	close(fixture_listen(ADDR_V4, 1, &at));
	return at;
}

Test(connector, connects_both_families_and_says_where_from)
{
	enum addr_family families[] = { ADDR_V4, ADDR_V6 };
	size_t fds = fixture_fd_count();

	for (size_t i = 0; i < ARRAY_LEN(families); i++) {
		struct attempt_log log = { .loop = loop_create() };
		struct connector_options options = { .prefer = RACE_PREFER_V6 };
		struct endpoint at, peer;
		int listening = fixture_listen(families[i], 8, &at);
		struct permit permit = permit_to(&at);

		run(&log, &permit, 1, &options);
		cr_expect_eq(log.result.reason, REASON_ALLOWED);
		cr_expect_eq(log.result.socks_reply, 0);
		cr_expect_eq(log.result.attempts, 1);
		cr_expect_eq(log.checks, 2, "before connect and once connected");
		cr_expect(endpoint_equal(&log.result.permit.to, &at));
		cr_assert_eq(sockopt_peer(log.result.fd, &peer), ERR_OK);
		cr_expect(endpoint_equal(&peer, &at));
		cr_assert_eq(sockopt_local(log.result.fd, &peer), ERR_OK);
		cr_expect(endpoint_equal(&peer, &log.result.local));
		close(log.result.fd);
		close(listening);
		loop_destroy(log.loop);
	}
	cr_expect_eq(fixture_fd_count(), fds);
}

Test(connector, moves_on_from_refused_at_once_and_from_silence_after_a_while)
{
	struct attempt_log log = { .loop = loop_create() };
	struct connector_options options = { .prefer = RACE_PREFER_V4 };
	struct endpoint at;
	int listening = fixture_listen(ADDR_V4, 8, &at), hole[3];
	size_t fds;
	struct endpoint mute = black_hole(hole), shut = closed_port();
	struct permit permits[] = { permit_to(&shut), permit_to(&mute), permit_to(&at) };

	fds = fixture_fd_count();
	run(&log, permits, 3, &options);
	cr_expect_eq(log.result.reason, REASON_ALLOWED);
	cr_expect_eq(log.result.attempts, 3);
	cr_expect(endpoint_equal(&log.result.permit.to, &at));
	cr_expect_eq(fixture_fd_count(), fds + 1, "only the winner stays open");
	close(log.result.fd);
	close_hole(hole);
	close(listening);
	loop_destroy(log.loop);
}

Test(connector, gives_back_every_descriptor_of_a_black_hole_at_its_deadline)
{
	struct attempt_log log = { .loop = loop_create() };
	struct connector_options options = { .deadline_ms = 600 };
	int hole[3];
	struct endpoint mute = black_hole(hole), shut = closed_port();
	struct permit permits[] = { permit_to(&mute), permit_to(&mute), permit_to(&mute) };
	size_t fds = fixture_fd_count();

	run(&log, permits, 3, &options);
	cr_expect_eq(log.result.reason, REASON_UPSTREAM_TIMEOUT);
	cr_expect_eq(log.result.socks_reply, 6);
	cr_expect_eq(log.result.fd, -1);
	cr_expect_eq(log.result.attempts, 3);
	cr_expect_eq(log.calls, 1);
	cr_expect_eq(fixture_fd_count(), fds);

	options.deadline_ms = 50;
	permits[0] = permit_to(&shut);
	run(&log, permits, 2, &options);
	cr_expect_eq(log.result.reason, REASON_UPSTREAM_REFUSED, "refused tells more than silence");
	cr_expect_eq(log.result.socks_reply, 5);
	cr_expect_eq(fixture_fd_count(), fds);
	close_hole(hole);
	loop_destroy(log.loop);
}

Test(connector, names_each_failure_that_the_kernel_can_make)
{
	static const struct {
		const char *to;
		unsigned char kind; /* of the route; 0: none */
		enum reason reason;
		uint8_t socks_reply;
	} rows[] = {
		{ "198.51.100.1", 0, REASON_UPSTREAM_UNREACHABLE, 3 },
		{ "198.51.100.2", RTN_UNREACHABLE, REASON_UPSTREAM_UNREACHABLE, 4 },
		{ "198.51.100.3", RTN_PROHIBIT, REASON_UPSTREAM_UNREACHABLE, 2 },
		{ "198.51.100.4", RTN_BLACKHOLE, REASON_INTERNAL, 1 },
		{ "2001:db8::1", 0, REASON_UPSTREAM_UNREACHABLE, 3 },
		{ "127.0.0.1", 0, REASON_UPSTREAM_REFUSED, 5 },
		{ "::1", 0, REASON_UPSTREAM_REFUSED, 5 },
	};
	struct attempt_log log = { 0 };
	struct connector_options options = { .prefer = RACE_PREFER_V6 };
	struct permit permits[ARRAY_LEN(rows)];
	size_t fds;

	fixture_own_network();
	log.loop = loop_create();
	fds = fixture_fd_count();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		permits[i] = permit_for(rows[i].to, 9);
		if (rows[i].kind != 0)
			fixture_add_route(&permits[i].to.addr, rows[i].kind);
		run(&log, &permits[i], 1, &options);
		cr_expect_eq(log.result.reason, rows[i].reason, "%s", rows[i].to);
		cr_expect_eq(log.result.socks_reply, rows[i].socks_reply, "%s", rows[i].to);
	}
	/* Together, the one that tells most: refused, then host, then network. */
	for (size_t from = 0, expect[] = { 5, 4, 4 }; from < 3; from++) {
		run(&log, &permits[from == 0 ? 0 : from - 1], from == 0 ? 6 : 3, &options);
		cr_expect_eq(log.result.socks_reply, expect[from], "group %zu", from);
	}
	/* A source that is not ours leaves no port to be had. */
	options.source4 = permits[0].to.addr;
	run(&log, &permits[5], 1, &options);
	cr_expect_eq(log.result.reason, REASON_RESOURCE);
	cr_expect_eq(log.result.socks_reply, 1);
	cr_expect_eq(fixture_fd_count(), fds);
	loop_destroy(log.loop);
}

Test(connector, leaves_from_the_given_source_and_mark)
{
	struct attempt_log log = { .loop = loop_create() };
	struct connector_options options = { .mark = 9 };
	struct permit source = permit_for("127.0.0.77", 1);
	struct endpoint at;
	int listening = fixture_listen(ADDR_V4, 8, &at);
	struct permit permit = permit_to(&at);
	uint32_t mark = 0;
	socklen_t len = sizeof(mark);

	options.source4 = source.to.addr;
	if (geteuid() == 0) {
		run(&log, &permit, 1, &options);
		cr_assert_eq(log.result.reason, REASON_ALLOWED);
		cr_expect(addr_equal(&log.result.local.addr, &options.source4));
		cr_assert_eq(getsockopt(log.result.fd, SOL_SOCKET, SO_MARK, &mark, &len), 0);
		cr_expect_eq(mark, 9);
		close(log.result.fd);
		cr_assert_eq(seteuid(65534), 0);
	}
	run(&log, &permit, 1, &options);
	cr_expect_eq(log.result.reason, REASON_INTERNAL, "a mark that cannot be set ends it");
	cr_expect_eq(log.result.socks_reply, 1);
	close(listening);
	loop_destroy(log.loop);
}

Test(connector, ends_when_the_permit_no_longer_holds)
{
	struct connector_options options = { 0 };
	struct endpoint at;
	int listening = fixture_listen(ADDR_V4, 8, &at);
	struct permit permits[] = { permit_to(&at), permit_to(&at) };
	size_t fds = fixture_fd_count();

	for (unsigned when = 1; when <= 2; when++) {
		struct attempt_log log = { .loop = loop_create(), .refuse_at_check = when };

		run(&log, permits, 2, &options);
		cr_expect_eq(log.result.reason, REASON_LEASE_REVOKED, "check %u", when);
		cr_expect_eq(log.result.socks_reply, 2);
		cr_expect_eq(log.result.fd, -1);
		cr_expect_eq(log.checks, when);
		loop_destroy(log.loop);
		cr_expect_eq(fixture_fd_count(), fds);
	}
	close(listening);
}

Test(connector, refuses_a_peer_that_is_not_the_permitted_one)
{
	struct attempt_log log = { .loop = loop_create() };
	struct connector_options options = { 0 };
	struct endpoint at;
	int listening = fixture_listen(ADDR_V4, 8, &at);
	struct permit permit = permit_for("0.0.0.0", at.port); /* the kernel takes it for 127.0.0.1 */
	size_t fds = fixture_fd_count();

	run(&log, &permit, 1, &options);
	cr_expect_eq(log.result.reason, REASON_INTERNAL);
	cr_expect_eq(log.result.fd, -1);
	cr_expect_eq(fixture_fd_count(), fds);
	close(listening);
	loop_destroy(log.loop);
}

Test(connector, says_resource_when_descriptors_run_out)
{
	struct attempt_log log = { .loop = loop_create() };
	struct connector_options options = { 0 };
	struct endpoint shut = closed_port();
	struct permit permit = permit_to(&shut);
	struct rlimit limit, old;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	limit = (struct rlimit){ .rlim_cur = 3, .rlim_max = old.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	run(&log, &permit, 1, &options);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	cr_expect_eq(log.result.reason, REASON_RESOURCE);
	cr_expect_eq(log.result.socks_reply, 1);
	loop_destroy(log.loop);
}

Test(connector, forgets_everything_when_cancelled_at_any_time)
{
	struct connector_options options = { 0 };
	int hole[3];
	struct endpoint mute = black_hole(hole);
	size_t fds = fixture_fd_count();

	for (unsigned turns = 0; turns < 3; turns++) {
		struct attempt_log log = { .loop = loop_create() };
		struct permit permits[] = { permit_to(&mute), permit_to(&mute) };

		cr_assert_eq(connector_start(log.loop, permits, 2, &options, check, on_done, &log,
					     &log.connector),
			     ERR_OK);
		for (unsigned n = 0; n < turns; n++)
			loop_turn(log.loop, 0);
		connector_cancel(log.connector);
		loop_turn(log.loop, 0);
		cr_expect_eq(log.calls, 0);
		loop_destroy(log.loop);
		cr_expect_eq(fixture_fd_count(), fds);
	}
	connector_cancel(NULL);
	close_hole(hole);
}

Test(connector, may_be_cancelled_between_winning_and_being_told)
{
	struct attempt_log log = { .loop = loop_create(), .cancel_at_end = true };
	struct connector_options options = { 0 };
	struct endpoint at;
	int listening = fixture_listen(ADDR_V4, 8, &at);
	struct permit permit = permit_to(&at);
	size_t fds = fixture_fd_count();

	run(&log, &permit, 1, &options);
	cr_expect_eq(log.checks, 2);
	cr_expect_eq(log.calls, 0);
	cr_expect_eq(fixture_fd_count(), fds);
	loop_destroy(log.loop);
	close(listening);
}

Test(connector, refuses_to_start_with_no_or_too_many_permits)
{
	static struct permit permits[CONNECTOR_PERMITS_MAX + 1];
	struct connector_options options = { 0 };
	struct loop *l = loop_create();
	struct connector *c = NULL;

	cr_expect_eq(connector_start(l, permits, 0, &options, check, on_done, NULL, &c), ERR_INVALID);
	cr_expect_eq(connector_start(l, permits, CONNECTOR_PERMITS_MAX + 1, &options, check, on_done,
				     NULL, &c),
		     ERR_INVALID);
	cr_expect_null(c);
	loop_destroy(l);
}
