/* Commands by table, asked by the real client over a real socket pair, answered at once or later. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "control/client.h"
#include "control/command.h"
#include "fixture.h"

/* A daemon as far as a tool sees it. */
struct server {
	struct loop *loop;
	int listening;
	struct channel *channel;
	struct command_call *kept;
	struct loop_watch accepting;
	char folder[64], path[100];
	bool bad_greeting;
	unsigned ran;
	uid_t own_uid;
};

static void run_echo(void *arg, struct command_call *call)
{
	struct server *s = arg;

	s->ran++;
	for (unsigned i = 0; i < call->arg_count; i++)
		command_print(call, "%u:%s\n", i, call->args[i]);
	command_done(call, 1, call->json ? "as json" : "as text");
}

static void run_big(void *arg, struct command_call *call)
{
	char *text = alloc_zeroed(200000);

	memset(text, 'b', 199999);
	command_write(call, text, 100);
	command_print(call, "%s", text);
	command_done(call, 0, NULL);
	alloc_free(text);
}

static void run_nul(void *arg, struct command_call *call)
{
	command_write(call, "a\0b", 3);
	command_done(call, 0, NULL);
}

static void run_keep(void *arg, struct command_call *call)
{
	struct server *s = arg;

	s->kept = call;
}

static const struct command_row rows[] = {
	{ "echo", 0, 2, false, run_echo }, { "big", 0, 0, false, run_big },
	{ "nul", 0, 0, false, run_nul },   { "keep", 0, 0, false, run_keep },
	{ "secret", 0, 0, true, run_echo },
};

static void on_message(void *arg, struct channel *c, const struct ctl_msg *msg, int fd)
{
	struct server *s = arg;

	if (msg->type == CTL_HELLO) {
		struct ctl_msg welcome = { .type = CTL_WELCOME_TOOL };

		cr_assert(text_is(msg->field[1].bytes, "tool"));
		welcome.field[0].number = s->bad_greeting ? 99 : CTL_MSG_VERSION;
		welcome.field[1].bytes = text_of("0");
		cr_assert_eq(channel_send(c, &welcome, -1), ERR_OK);
		return;
	}
	command_run(rows, ARRAY_LEN(rows), s, c, msg, s->own_uid);
}

static void on_closed(void *arg, struct channel *c, enum err why)
{
	struct server *s = arg;

	if (s->kept != NULL)
		command_forget_channel(s->kept);
	channel_close(c);
	s->channel = NULL;
}

static void on_accept(void *arg, int fd, unsigned what)
{
	struct server *s = arg;
	int accepted;

	cr_assert_eq(channel_accept(fd, &accepted), ERR_OK);
	cr_assert_eq(channel_open(s->loop, accepted, CTL_FROM_TOOL, 1 << 20, on_message, on_closed,
				  s, &s->channel),
		     ERR_OK);
}

static void *serve(void *arg)
{
	struct server *s = arg;

	loop_run(s->loop);
	return NULL;
}

static void server_start(struct server *s, pthread_t *out_thread)
{
	fixture_make_folder(s->folder);
	snprintf(s->path, sizeof(s->path), "%s/control", s->folder);
	s->loop = loop_create();
	s->own_uid = getuid();
	cr_assert_eq(channel_listen(s->path, &s->listening), ERR_OK);
	loop_watch_init(&s->accepting, s->loop, s->listening, LOOP_READ, on_accept, s);
	cr_assert_eq(loop_watch_start(&s->accepting), ERR_OK);
	cr_assert_eq(pthread_create(out_thread, NULL, serve, s), 0);
}

static void server_stop(struct server *s, pthread_t thread)
{
	loop_stop(s->loop);
	pthread_join(thread, NULL);
	fixture_settle(s->loop);
	loop_watch_stop(&s->accepting);
	close(s->listening);
	channel_close(s->channel);
	loop_destroy(s->loop);
	fixture_remove_folder(s->folder);
}

struct output {
	char text[300000];
	size_t len;
};

static void on_output(void *arg, const char *text, size_t len)
{
	struct output *o = arg;

	cr_assert_lt(o->len + len, sizeof(o->text));
	memcpy(o->text + o->len, text, len);
	o->len += len;
}

Test(command, answers_a_tool_once_for_each_command)
{
	static const struct {
		const char *line, *output, *message;
		unsigned status;
		bool json;
	} cases[] = {
		{ "echo", "0:echo\n", "as text", 1, false },
		{ "echo\ta b\t", "0:echo\n1:a b\n2:\n", "as json", 1, true },
		{ "echo\t1\t2\t3", "", "wrong number of arguments: echo", 2, false },
		{ "", "", "unknown command: ", 2, false },
		{ "ech\x01", "", "unknown command: ech\\x01", 2, false },
		{ "1\t2\t3\t4\t5\t6\t7\t8\t9", "", "too many arguments", 2, false },
		{ "nul", "", "the answer was cut short", 2, false },
		{ "secret", "0:secret\n", "as text", 1, false },
	};
	static struct output out;
	struct server s = { 0 };
	struct client *c;
	const char *fault;
	pthread_t thread;

	server_start(&s, &thread);
	cr_assert_eq(client_open(s.path, 5000, &c, &fault), ERR_OK);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		unsigned status = 9;
		char message[512];

		out.len = 0;
		cr_assert_eq(client_ask(c, cases[i].line, cases[i].json, on_output, &out, &status,
					message),
			     ERR_OK);
		cr_expect_eq(status, cases[i].status, "%s", cases[i].line);
		cr_expect_str_eq(message, cases[i].message);
		cr_expect_eq(out.len, strlen(cases[i].output), "%s", cases[i].line);
		cr_expect_arr_eq(out.text, cases[i].output, out.len);
	}
	client_close(c);
	server_stop(&s, thread);
}

Test(command, splits_long_output_and_loses_none)
{
	static struct output out;
	struct server s = { 0 };
	struct client *c;
	const char *fault;
	char message[512];
	unsigned status;
	pthread_t thread;

	server_start(&s, &thread);
	cr_assert_eq(client_open(s.path, 5000, &c, &fault), ERR_OK);
	cr_assert_eq(client_ask(c, "big", false, on_output, &out, &status, message), ERR_OK);
	cr_assert_eq(status, 0);
	cr_assert_eq(out.len, 200099);
	for (size_t i = 0; i < out.len; i++)
		cr_assert_eq(out.text[i], 'b');
	client_close(c);
	server_stop(&s, thread);
}

Test(command, lets_only_root_and_the_owner_ask_what_is_theirs)
{
	struct loop *l = loop_create();
	struct server s = { .loop = l, .own_uid = getuid() + 1 };
	struct ctl_msg msg = { .type = CTL_COMMAND }, got;
	uint8_t packet[CTL_MSG_MAX];
	ssize_t n;
	int fds[2];

	/* Root may, so be somebody else while the socket is made. */
	cr_assert_eq(seteuid(4711), 0);
	fixture_packet_pair(fds);
	cr_assert_eq(seteuid(0), 0);
	cr_assert_eq(channel_open(l, fds[0], CTL_FROM_TOOL, 4096, on_message, on_closed, &s,
				  &s.channel),
		     ERR_OK);
	for (unsigned i = 0; i < 2; i++) {
		s.own_uid = i == 0 ? 4712 : 4711;
		msg.field[1].bytes = text_of("secret");
		n = (ssize_t)ctl_msg_write(&msg, packet, sizeof(packet));
		fixture_send_packet(fds[1], packet, (size_t)n, NULL, 0);
		fixture_settle(l);
		cr_assert_eq(s.ran, i);
	}
	n = recv(fds[1], packet, sizeof(packet), 0);
	cr_assert_gt(n, 0);
	cr_assert_eq(ctl_msg_read(packet, (size_t)n, &got), PARSED_OK);
	cr_assert_eq(got.type, CTL_DONE);
	cr_assert_eq(got.field[1].number, 2);
	channel_close(s.channel);
	close(fds[1]);
	loop_destroy(l);
}

Test(command, outlives_a_tool_that_went_away)
{
	struct loop *l = loop_create();
	struct server s = { .loop = l };
	struct ctl_msg msg = { .type = CTL_COMMAND };
	uint8_t packet[256];
	size_t len;
	int fds[2];

	fixture_packet_pair(fds);
	cr_assert_eq(channel_open(l, fds[0], CTL_FROM_TOOL, 4096, on_message, on_closed, &s,
				  &s.channel),
		     ERR_OK);
	msg.field[1].bytes = text_of("keep");
	len = ctl_msg_write(&msg, packet, sizeof(packet));
	fixture_send_packet(fds[1], packet, len, NULL, 0);
	fixture_settle(l);
	cr_assert_not_null(s.kept);
	close(fds[1]);
	fixture_settle(l);
	cr_assert_null(s.channel);
	command_print(s.kept, "nobody reads this\n");
	command_done(s.kept, 0, NULL);
	loop_destroy(l);
}

Test(command, says_that_an_answer_was_cut_short)
{
	struct loop *l = loop_create();
	struct server s = { .loop = l };
	struct ctl_msg msg = { .type = CTL_COMMAND }, got;
	static uint8_t packet[CTL_MSG_MAX];
	size_t len;
	ssize_t n;
	int fds[2];

	fixture_packet_pair(fds);
	cr_assert_eq(channel_open(l, fds[0], CTL_FROM_TOOL, 4096, on_message, on_closed, &s,
				  &s.channel),
		     ERR_OK);
	msg.field[1].bytes = text_of("keep");
	len = ctl_msg_write(&msg, packet, sizeof(packet));
	fixture_send_packet(fds[1], packet, len, NULL, 0);
	fixture_settle(l);
	for (unsigned i = 0; i < 1000 && !s.kept->cut_short; i++)
		command_print(s.kept, "%01000u", i);
	cr_assert(s.kept->cut_short);
	command_done(s.kept, 0, NULL);
	do {
		loop_turn(l, 0);
		n = recv(fds[1], packet, sizeof(packet), 0);
		cr_assert_gt(n, 0);
		cr_assert_eq(ctl_msg_read(packet, (size_t)n, &got), PARSED_OK);
	} while (got.type != CTL_DONE);
	cr_assert_eq(got.field[1].number, 2);
	channel_close(s.channel);
	close(fds[1]);
	loop_destroy(l);
}

Test(client, says_why_nobody_answers)
{
	struct server s = { .bad_greeting = true };
	struct client *c;
	const char *fault = NULL;
	pthread_t thread;
	char silent[120];
	int listening;
	size_t before;

	server_start(&s, &thread);
	before = fixture_fd_count();
	cr_assert_eq(client_open(s.path, 5000, &c, &fault), ERR_INVALID);
	cr_assert_str_eq(fault, "egressd speaks another version of the control protocol");
	cr_assert_eq(client_open("/nonexistent/socket", 10, &c, &fault), ERR_NOT_FOUND);
	cr_assert_str_eq(fault, "there is no such socket; is egressd running?");
	snprintf(silent, sizeof(silent), "%s/silent", s.folder);
	cr_assert_eq(channel_listen(silent, &listening), ERR_OK);
	cr_assert_eq(client_open(silent, 30, &c, &fault), ERR_AGAIN);
	close(listening);
	cr_assert_eq(client_open(silent, 30, &c, &fault), ERR_CLOSED);
	server_stop(&s, thread);
	/* Loop (3 descriptors) and listening socket went with the server. */
	cr_assert_leq(fixture_fd_count(), before);
}
