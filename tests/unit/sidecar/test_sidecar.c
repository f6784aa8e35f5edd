/*
 * The whole sidecar against a scripted daemon on a real socket, with a real policy root: the order of a first meeting, whose page it may
 * write and when, commands, a daemon that restarts or breaks the protocol, and configurations that change.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "fixture.h"
#include "lease/gate.h"
#include "sidecar/sidecar.h"

struct daemon {
	struct loop *loop;
	char folder[64];
	struct arena arena;
	struct sidecar *sidecar;
	struct config *config;
	char config_path[100];

	int listening;
	struct loop_watch accepting;
	struct channel *channel;
	struct gate *page;
	uint64_t adopted_version;
	char story[8192];
	char options[8192], output[8192], message[512], state[32];
	uint64_t done_status;
	bool acks;      /* adopts what comes */
	bool breaks;    /* answers HELLO with nonsense */
	const char *awaited;
	bool came;
	unsigned hellos;
};

static struct daemon *d;
static struct daemon the_daemon;

static void copy(struct text t, char *out, size_t cap)
{
	snprintf(out, cap, "%.*s", (int)t.len, t.len == 0 ? "" : t.at);
}

static void say(enum ctl_type type, uint64_t a, const char *text, int fd)
{
	struct ctl_msg msg = { .type = type };

	msg.field[0].number = a;
	msg.field[1].bytes = text_of(text);
	cr_assert_eq(channel_send(d->channel, &msg, fd), ERR_OK);
}

static void welcome(void)
{
	struct ctl_msg msg = { .type = CTL_WELCOME };

	d->hellos++;
	msg.field[0].number = d->breaks ? 77 : CTL_MSG_VERSION;
	msg.field[1].number = 2;
	msg.field[2].number = gate_slot_count(d->page);
	msg.field[3].number = d->adopted_version;
	cr_assert_eq(channel_send(d->channel, &msg, gate_fd(d->page)), ERR_OK);
}

static void adopt(uint64_t version)
{
	say(CTL_SLOTS, version, "0 1 ls_a\n1 1 ls_b\n", -1);
	d->adopted_version = version;
	say(CTL_ACK, version, "", -1);
}

static void on_message(void *arg, struct channel *c, const struct ctl_msg *msg, int fd)
{
	const char *word = ctl_row(msg->type)->word;

	if (fd >= 0)
		close(fd);
	switch (msg->type) {
	case CTL_HELLO:
		welcome();
		break;
	case CTL_OPTIONS:
		copy(msg->field[0].bytes, d->options, sizeof(d->options));
		break;
	case CTL_ROOT:
		if (d->acks)
			adopt(msg->field[0].number);
		break;
	case CTL_OUTPUT:
		copy(msg->field[1].bytes, d->output, sizeof(d->output));
		break;
	case CTL_DONE:
		d->done_status = msg->field[1].number;
		copy(msg->field[2].bytes, d->message, sizeof(d->message));
		break;
	case CTL_STATUS:
		copy(msg->field[1].bytes, d->state, sizeof(d->state));
		return; /* comes whenever it likes */
	default:
		break;
	}
	if (d->story[0] != '\0')
		strcat(d->story, " ");
	strcat(d->story, word);
	d->came = d->awaited != NULL && strcmp(word, d->awaited) == 0;
}

static void on_closed(void *arg, struct channel *c, enum err why)
{
	channel_close(c);
	if (d->channel == c)
		d->channel = NULL;
}

static void on_accept(void *arg, int fd, unsigned what)
{
	int accepted;

	cr_assert_eq(channel_accept(fd, &accepted), ERR_OK);
	cr_assert_eq(channel_open(d->loop, accepted, CTL_FROM_SIDECAR, 1 << 20, on_message,
				  on_closed, NULL, &d->channel),
		     ERR_OK);
}

static void await(const char *word)
{
	d->awaited = word;
	d->came = false;
	cr_assert(fixture_turn_until(d->loop, &d->came), "no %s, but: %s", word, d->story);
	fixture_settle(d->loop);
}

static void write_config(const char *more)
{
	char text[2048];

	snprintf(text, sizeof(text),
		 "[daemon]\ncontrol = %s/control.sock\nname_servers = 127.0.0.1:5353\n%s"
		 "[listener box]\nbind = unix:%s/box.sock\n"
		 "[sidecar]\nsource = file:%s/root\ntrust = local\nstate = %s/state\n",
		 d->folder, more, d->folder, d->folder, d->folder);
	fixture_write(d->config_path, text);
}

static void write_lease(const char *name, const char *id, const char *rules)
{
	char text[1024], path[200];

	snprintf(path, sizeof(path), "%s/root/leases/%s.policy", d->folder, name);
	snprintf(text, sizeof(text),
		 "lease %s\nguest require source\nguest source 10.0.0.%u/32\nmode allowlist\n%s", id,
		 (unsigned)id[3], rules);
	fixture_write(path, text);
}

static void make_root(void)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/root", d->folder);
	cr_assert_eq(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/root/leases", d->folder);
	cr_assert_eq(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/root/presets", d->folder);
	cr_assert_eq(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/state", d->folder);
	cr_assert_eq(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/root/ceiling.policy", d->folder);
	fixture_write(path, "allow any\n");
	write_lease("a", "ls_a", "allow https://a.example.org\n");
	write_lease("b", "ls_b", "allow https://b.example.org\n");
}

static void start_sidecar(void)
{
	struct sidecar_parts parts = { .config_path = d->config_path };
	struct fault_list faults;
	char state[100];

	fault_list_init(&faults, &d->arena);
	cr_assert_eq(config_load(d->config_path, CONFIG_FOR_SIDECAR, &faults, &d->config), ERR_OK);
	snprintf(state, sizeof(state), "%s/state", d->folder);
	cr_assert_eq(sticky_open(state, &parts.sticky), ERR_OK);
	cr_assert_eq(sidecar_open_driver(d->loop, d->config, &faults, &parts.driver), ERR_OK);
	parts.config = d->config;
	cr_assert_eq(sidecar_create(d->loop, &parts, &d->sidecar), ERR_OK);
}

static void stop_sidecar(void)
{
	sidecar_destroy(d->sidecar);
	d->sidecar = NULL;
	config_unref(d->config);
	d->config = NULL;
	fixture_settle(d->loop);
	d->story[0] = '\0';
}

static void bench_start(void)
{
	char path[100];

	the_daemon = (struct daemon){ .acks = true };
	d = &the_daemon;
	/* What these tests provoke is said at every level. */
	log_init("test", LOG_LEVEL_ERROR);
	umask(022);
	cr_assert_eq(crypto_init(), ERR_OK);
	d->loop = loop_create();
	arena_init(&d->arena, 0);
	fixture_make_folder(d->folder);
	snprintf(d->config_path, sizeof(d->config_path), "%s/conf", d->folder);
	make_root();
	write_config("");
	cr_assert_eq(gate_create(4, &d->page), ERR_OK);
	snprintf(path, sizeof(path), "%s/control.sock", d->folder);
	cr_assert_eq(channel_listen(path, &d->listening), ERR_OK);
	loop_watch_init(&d->accepting, d->loop, d->listening, LOOP_READ, on_accept, NULL);
	cr_assert_eq(loop_watch_start(&d->accepting), ERR_OK);
}

static void bench_stop(void)
{
	stop_sidecar();
	loop_watch_stop(&d->accepting);
	close(d->listening);
	channel_close(d->channel);
	gate_destroy(d->page);
	loop_destroy(d->loop);
	arena_finish(&d->arena);
	fixture_remove_folder(d->folder);
}

static uint64_t refuse_at(void)
{
	uint64_t refuse, cut;

	gate_deadlines(d->page, &refuse, &cut);
	return refuse;
}

Test(sidecar, meets_a_new_daemon_in_the_order_of_the_protocol)
{
	size_t before = fixture_fd_count();

	bench_start();
	start_sidecar();
	await("root");
	cr_expect_str_eq(d->story, "hello options listener ready segment segment segment root");
	cr_expect_not_null(strstr(d->options, "name_servers = 127.0.0.1:5353"));
	cr_expect_null(strstr(d->options, "[sidecar]"), "the daemon need not know");
	cr_expect_eq(gate_control(d->page), GATE_LIVE);
	cr_expect_gt(refuse_at(), clock_mono_ns() + 8000000000ULL);
	cr_expect_eq(gate_slot_state(d->page, 0), GATE_SLOT_OPEN);
	cr_expect_eq(gate_slot_state(d->page, 1), GATE_SLOT_OPEN);
	cr_expect_str_eq(d->state, "live");
	bench_stop();
	cr_expect_eq(fixture_fd_count(), before);
}

Test(sidecar, leaves_the_page_of_its_predecessor_alone_until_its_first_ack)
{
	uint64_t soon = clock_mono_ns() + 5000000000ULL;

	bench_start();
	d->acks = false;
	d->adopted_version = 40;
	gate_set_deadlines(d->page, soon, soon + 1);
	gate_set_control(d->page, GATE_LAG);
	gate_set_slot(d->page, 0, GATE_SLOT_OPEN);
	start_sidecar();
	await("root");
	for (unsigned i = 0; i < 1300 / 5; i++)
		loop_turn(d->loop, 5);
	cr_expect_eq(refuse_at(), soon);
	cr_expect_eq(gate_control(d->page), GATE_LAG);
	cr_expect_eq(gate_slot_state(d->page, 0), GATE_SLOT_OPEN);
	cr_expect_eq(gate_slot_state(d->page, 1), GATE_SLOT_CLOSED);
	adopt(41);
	fixture_settle(d->loop);
	cr_expect_gt(refuse_at(), soon);
	cr_expect_eq(gate_control(d->page), GATE_LIVE);
	cr_expect_eq(gate_slot_state(d->page, 1), GATE_SLOT_OPEN);
	bench_stop();
}

Test(sidecar, moves_deadlines_only_while_what_is_held_is_adopted)
{
	uint64_t first, second;

	bench_start();
	start_sidecar();
	await("root");
	first = refuse_at();
	for (unsigned i = 0; i < 400 && refuse_at() == first; i++)
		loop_turn(d->loop, 5);
	second = refuse_at();
	cr_expect_gt(second, first, "the next beat");
	d->acks = false;
	write_lease("a", "ls_a", "allow https://other.example.org\n");
	await("root");
	for (unsigned i = 0; i < 1500 / 5; i++)
		loop_turn(d->loop, 5);
	cr_expect_leq(refuse_at(), second + 5000000000ULL, "no beat helps");
	second = refuse_at();
	adopt(d->adopted_version + 1);
	fixture_settle(d->loop);
	cr_expect_gt(refuse_at(), second);
	bench_stop();
}

Test(sidecar, revokes_by_hand_for_good_and_says_what_it_closed)
{
	bench_start();
	start_sidecar();
	await("root");
	say(CTL_COMMAND, 7, "revoke\tls_a", -1);
	await("revoke");
	cr_expect_eq(gate_slot_state(d->page, 0), GATE_SLOT_REVOKED);
	{
		struct ctl_msg msg = { .type = CTL_REVOKED };

		msg.field[1].number = 2;
		msg.field[2].number = 3;
		cr_assert_eq(channel_send(d->channel, &msg, -1), ERR_OK);
	}
	await("done");
	cr_expect_eq(d->done_status, 0);
	cr_expect_str_eq(d->output, "ls_a revoked, 3 sessions closed\n");
	say(CTL_COMMAND, 8, "revoke\tls_none", -1);
	await("done");
	cr_expect_eq(d->done_status, 2);
	cr_expect_str_eq(d->message, "there is no such lease");
	/* A successor holds to it. */
	stop_sidecar();
	start_sidecar();
	await("root");
	cr_expect_eq(gate_slot_state(d->page, 0), GATE_SLOT_REVOKED);
	cr_expect_eq(gate_slot_state(d->page, 1), GATE_SLOT_OPEN);
	/* Until its text is another. */
	write_lease("a", "ls_a", "# again\nallow https://a.example.org\n");
	for (unsigned i = 0; i < 2000 && gate_slot_state(d->page, 0) != GATE_SLOT_OPEN; i++)
		loop_turn(d->loop, 5);
	cr_expect_eq(gate_slot_state(d->page, 0), GATE_SLOT_OPEN);
	bench_stop();
}

Test(sidecar, tells_how_it_is_doing)
{
	bench_start();
	write_lease("c", "ls_c", "allow nonsense\n");
	start_sidecar();
	await("root");
	say(CTL_COMMAND, 1, "sidecar", -1);
	await("done");
	cr_expect_eq(d->done_status, 0);
	cr_expect_not_null(strstr(d->output, "state        live"));
	cr_expect_not_null(strstr(d->output, "2 active, 0 suspended, 0 revoked, 1 quarantined"));
	cr_expect_not_null(strstr(d->output, "leases/c.policy:5:"));
	say(CTL_COMMAND, 2, "what", -1);
	await("done");
	cr_expect_eq(d->done_status, 2);
	bench_stop();
}

Test(sidecar, comes_back_to_a_daemon_that_went_away_or_broke_the_protocol)
{
	bench_start();
	start_sidecar();
	await("root");
	channel_close(d->channel);
	d->channel = NULL;
	gate_destroy(d->page);
	cr_assert_eq(gate_create(4, &d->page), ERR_OK);
	d->story[0] = '\0';
	await("root");
	cr_expect_str_eq(d->story, "hello options listener ready segment segment segment root");
	cr_expect_eq(gate_slot_state(d->page, 0), GATE_SLOT_OPEN);
	say(CTL_ACK, 99, "", -1);
	d->story[0] = '\0';
	await("root");
	cr_expect_str_eq(d->story, "hello options listener ready segment segment segment root");
	d->breaks = true;
	channel_close(d->channel);
	d->channel = NULL;
	d->story[0] = '\0';
	d->hellos = 0;
	for (unsigned i = 0; i < 400 && d->hellos < 3; i++)
		loop_turn(d->loop, 5);
	cr_expect_geq(d->hellos, 3);
	cr_expect_null(strstr(d->story, "options"));
	bench_stop();
}

Test(sidecar, writes_nothing_into_the_page_of_a_new_daemon_before_it_adopted)
{
	bench_start();
	start_sidecar();
	await("root");
	channel_close(d->channel);
	d->channel = NULL;
	gate_destroy(d->page);
	cr_assert_eq(gate_create(4, &d->page), ERR_OK);
	d->acks = false;
	await("root");
	/* Beats go on meanwhile. */
	for (unsigned i = 0; i < 2200 / 5; i++)
		loop_turn(d->loop, 5);
	cr_expect_eq(refuse_at(), 0);
	cr_expect_eq(gate_control(d->page), GATE_COLD);
	bench_stop();
}

Test(sidecar, sends_what_a_new_configuration_says_and_keeps_the_old_for_a_faulty_one)
{
	bench_start();
	start_sidecar();
	await("root");
	d->story[0] = '\0';
	write_config("idle_ms = 4000\n");
	sidecar_reload(d->sidecar);
	await("options");
	cr_expect_not_null(strstr(d->options, "idle_ms = 4000"));
	cr_expect_str_eq(d->story, "options");
	write_config("idle_ms = many\n");
	sidecar_reload(d->sidecar);
	fixture_settle(d->loop);
	cr_expect_str_eq(d->story, "options", "nothing more");
	/* Without a signal as well. */
	write_config("idle_ms = 5000\n");
	await("options");
	cr_expect_not_null(strstr(d->options, "idle_ms = 5000"));
	cr_expect_eq(gate_control(d->page), GATE_LIVE);
	/* Report-only becomes part of the root: a new source, which holds the same leases. */
	write_config("report_allowed = on\n");
	sidecar_reload(d->sidecar);
	await("root");
	fixture_settle(d->loop);
	cr_expect_eq(gate_slot_state(d->page, 0), GATE_SLOT_OPEN);
	cr_expect_eq(gate_control(d->page), GATE_LIVE);
	bench_stop();
}
