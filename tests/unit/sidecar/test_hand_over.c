/* What the daemon receives: which messages in which order, working sockets, files that were replaced, templates that come and go. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/log.h"
#include "fixture.h"
#include "sidecar/hand_over.h"

/* Receives like a daemon and notes what came. */
struct peer {
	struct fixture_link link;
	struct hand_over *hand_over;
	struct config *config;
	struct arena arena;
	char folder[64];
	char story[8192]; /* one word a message */
	int last_fd;      /* of the last message with one */
};

static struct config *read_config(struct peer *p, const char *format)
{
	struct fault_list faults;
	struct config *config = NULL;
	char text[2048];

	/* Every %s is the folder. */
	snprintf(text, sizeof(text), format, p->folder, p->folder, p->folder, p->folder);
	fault_list_init(&faults, &p->arena);
	if (config_parse("test.conf", text_of(text), CONFIG_FOR_SIDECAR, &faults, &config) != ERR_OK)
		cr_assert_fail("%s", faults.first == NULL ? "?" : faults.first->text);
	return config;
}

static void peer_start(struct peer *p, const char *format)
{
	*p = (struct peer){ .last_fd = -1 };
	log_init("test", LOG_LEVEL_ERROR);
	cr_assert_eq(crypto_init(), ERR_OK);
	arena_init(&p->arena, 0);
	fixture_make_folder(p->folder);
	p->link.loop = loop_create();
	fixture_link_open(&p->link);
	p->config = read_config(p, format);
	cr_assert_eq(hand_over_create(p->config, &p->hand_over), ERR_OK);
	hand_over_names_begin(p->hand_over);
	hand_over_names_end(p->hand_over); /* no lease names a listener */
}

static void drop_fd(struct peer *p)
{
	if (p->last_fd >= 0)
		close(p->last_fd);
	p->last_fd = -1;
}

static void peer_stop(struct peer *p)
{
	drop_fd(p);
	hand_over_destroy(p->hand_over);
	config_unref(p->config);
	fixture_link_close(&p->link);
	loop_destroy(p->link.loop);
	arena_finish(&p->arena);
	fixture_remove_folder(p->folder);
}

/* Everything that arrived since: "listener(main,tcp,0) … ready". */
static const char *receive(struct peer *p)
{
	struct ctl_msg msg;
	int fd;

	p->story[0] = '\0';
	fixture_settle(p->link.loop);
	while (fixture_link_next(&p->link, &msg, &fd)) {
		char word[256];
		struct text a = msg.field[0].bytes, b = msg.field[1].bytes;

		if (msg.type == CTL_LISTENER)
			snprintf(word, sizeof(word), "listener(%.*s,%.*s,%d)", (int)a.len, a.at,
				 (int)b.len, b.at, (int)(int32_t)msg.field[2].number);
		else if (msg.type == CTL_LISTENER_GONE)
			snprintf(word, sizeof(word), "gone(%.*s)", (int)a.len, a.at);
		else if (msg.type == CTL_GEO || msg.type == CTL_ADMIN)
			snprintf(word, sizeof(word), "%s(%.*s)", ctl_row(msg.type)->word, (int)a.len,
				 a.at);
		else
			snprintf(word, sizeof(word), "%s", ctl_row(msg.type)->word);
		if (p->story[0] != '\0')
			strcat(p->story, " ");
		strcat(p->story, word);
		if (fd >= 0) {
			drop_fd(p);
			p->last_fd = fd;
		}
		fixture_settle(p->link.loop);
		if (channel_queued(p->link.channel) == 0)
			hand_over_on_drained(p->hand_over);
	}
	return p->story;
}

#define HEAD                                                            \
	"[sidecar]\nsource = file:%s\ntrust = local\nstate = %s\n"
/* A guest could arrive somewhere, and nobody does. */
#define UNUSED "[listener unused]\nbind = unix:/tmp/{listener}.sock\n"

static bool can_connect(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool connected;

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	connected = connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0;
	close(fd);
	return connected;
}

static int stat_mode(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? (int)(st.st_mode & 07777) : -1;
}

Test(hand_over, gives_each_worker_a_socket_and_the_unix_listener_one)
{
	size_t before = fixture_fd_count();
	struct peer p;

	peer_start(&p, HEAD "[daemon]\nrecords = %s/records\n"
			    "[listener box]\nbind = unix:%s/box.sock\nsocket_mode = 0666\n"
			    "[listener main]\nbind = tcp:127.0.0.1:21080\n");
	hand_over_connect(p.hand_over, p.link.channel, 3);
	cr_expect_str_eq(receive(&p),
			 "options listener(box,unix,-1) listener(main,tcp,0) listener(main,tcp,1) "
			 "listener(main,tcp,2) ready");
	cr_expect_eq(hand_over_failures(p.hand_over), 0);
	cr_expect_eq(stat_mode(fixture_path(p.folder, "box.sock")), 0666);
	cr_expect_not(can_connect(fixture_path(p.folder, "box.sock")), "the daemon's copy is closed");
	/* A successor daemon gets it all again. */
	hand_over_disconnect(p.hand_over);
	hand_over_connect(p.hand_over, p.link.channel, 1);
	cr_expect_str_eq(receive(&p), "options listener(box,unix,-1) listener(main,tcp,0) ready");
	peer_stop(&p);
	cr_expect_eq(fixture_fd_count(), before);
}

Test(hand_over, takes_the_place_of_a_socket_that_still_works)
{
	struct peer p;
	char path[128];
	int first;

	peer_start(&p, HEAD "[listener box]\nbind = unix:%s/box.sock\n");
	snprintf(path, sizeof(path), "%s/box.sock", p.folder);
	hand_over_connect(p.hand_over, p.link.channel, 1);
	receive(&p);
	/* "ready" came last; the listener's descriptor is kept from the message before. */
	first = p.last_fd;
	p.last_fd = -1;
	cr_assert(first >= 0);
	cr_assert(can_connect(path));
	hand_over_connect(p.hand_over, p.link.channel, 1);
	cr_assert_str_eq(receive(&p), "options listener(box,unix,-1) ready");
	close(first);
	cr_assert(can_connect(path), "the new socket has the name");
	peer_stop(&p);
}

Test(hand_over, refuses_to_replace_what_is_no_socket_and_tries_again)
{
	struct peer p;

	peer_start(&p, HEAD "[listener box]\nbind = unix:%s/box.sock\n");
	fixture_write(fixture_path(p.folder, "box.sock"), "precious");
	hand_over_connect(p.hand_over, p.link.channel, 1);
	cr_expect_str_eq(receive(&p), "options ready");
	cr_expect_eq(hand_over_failures(p.hand_over), 1);
	cr_expect_str_eq(fixture_read(fixture_path(p.folder, "box.sock")), "precious");
	hand_over_tick(p.hand_over);
	cr_expect_str_eq(receive(&p), "");
	unlink(fixture_path(p.folder, "box.sock"));
	hand_over_tick(p.hand_over);
	cr_expect_str_eq(receive(&p), "listener(box,unix,-1)");
	cr_expect_eq(hand_over_failures(p.hand_over), 0);
	peer_stop(&p);
}

static void name(struct peer *p, const char *const *names)
{
	hand_over_names_begin(p->hand_over);
	for (; *names != NULL; names++)
		cr_assert_eq(hand_over_names_add(p->hand_over, text_of(*names)), ERR_OK);
	hand_over_names_end(p->hand_over);
}

Test(hand_over, makes_template_listeners_come_and_go_with_their_leases)
{
	static const char *const two[] = { "vm-1", "vm-2", "vm-1", "main", NULL };
	static const char *const one[] = { "vm-2", NULL };
	static const char *const hostile[] = { "vm-2", "../x", "a/b", "", ".hidden", "-x", "a b", NULL };
	struct peer p;

	peer_start(&p, HEAD "[listener vms]\nbind = unix:%s/{listener}.sock\n"
			    "[listener main]\nbind = unix:%s/main.sock\n");
	name(&p, two);
	hand_over_connect(p.hand_over, p.link.channel, 2);
	cr_expect_str_eq(receive(&p), "options listener(main,unix,-1) listener(vm-1,unix,-1) "
				      "listener(vm-2,unix,-1) ready");
	name(&p, two);
	cr_expect_str_eq(receive(&p), "");
	name(&p, one);
	cr_expect_str_eq(receive(&p), "gone(vm-1)");
	cr_expect_eq(stat_mode(fixture_path(p.folder, "vm-1.sock")), -1, "its file goes too");
	cr_expect_neq(stat_mode(fixture_path(p.folder, "vm-2.sock")), -1);
	name(&p, hostile);
	cr_expect_str_eq(receive(&p), "");
	peer_stop(&p);
}

Test(hand_over, is_ready_only_when_leases_have_named_their_listeners)
{
	static const char *const names[] = { "vm-1", NULL };
	struct peer p;

	peer_start(&p, HEAD "[listener vms]\nbind = unix:%s/{listener}.sock\n");
	hand_over_destroy(p.hand_over);
	cr_assert_eq(hand_over_create(p.config, &p.hand_over), ERR_OK);
	hand_over_connect(p.hand_over, p.link.channel, 1);
	cr_expect_str_eq(receive(&p), "options", "a ready now would have the daemon close vm-1");
	name(&p, names);
	cr_expect_str_eq(receive(&p), "listener(vm-1,unix,-1) ready");
	peer_stop(&p);
}

Test(hand_over, gives_each_name_of_a_port_range_its_own_port)
{
	static const char *const names[] = { "a", "b", "c", NULL };
	struct peer p;

	peer_start(&p, HEAD "[listener vms]\nbind = tcp:127.0.0.1:21090-21091\n");
	hand_over_connect(p.hand_over, p.link.channel, 1);
	receive(&p);
	name(&p, names);
	receive(&p);
	cr_expect_not_null(strstr(p.story, "listener(a,tcp,0)"));
	cr_expect_not_null(strstr(p.story, "listener(b,tcp,0)"));
	cr_expect_null(strstr(p.story, "listener(c"), "two ports, two listeners");
	cr_expect_eq(hand_over_failures(p.hand_over), 1);
	peer_stop(&p);
}

Test(hand_over, sends_what_a_new_configuration_changes_and_nothing_else)
{
	struct peer p;
	struct config *next;

	peer_start(&p, HEAD "[listener a]\nbind = unix:%s/a.sock\n[listener b]\nbind = unix:%s/b.sock\n");
	hand_over_connect(p.hand_over, p.link.channel, 1);
	receive(&p);
	next = read_config(&p, HEAD "[listener a]\nbind = unix:%s/a.sock\n"
				    "[listener b]\nbind = unix:%s/b2.sock\n");
	cr_assert_eq(hand_over_set_config(p.hand_over, next), ERR_OK);
	config_unref(next);
	cr_expect_str_eq(receive(&p), "gone(b) options listener(b,unix,-1)");
	cr_expect_eq(stat_mode(fixture_path(p.folder, "b.sock")), -1);
	cr_expect_neq(stat_mode(fixture_path(p.folder, "b2.sock")), -1);
	peer_stop(&p);
}

Test(hand_over, copies_databases_so_that_they_can_change_no_more)
{
	struct peer p;
	char text[16] = "", path[128];

	peer_start(&p, HEAD "[daemon]\ngeo_country = %s/country.mmdb\n" UNUSED);
	snprintf(path, sizeof(path), "%s/country.mmdb", p.folder);
	hand_over_connect(p.hand_over, p.link.channel, 1);
	cr_expect_str_eq(receive(&p), "options ready");
	cr_expect_eq(hand_over_failures(p.hand_over), 1);
	fixture_write(path, "database");
	hand_over_tick(p.hand_over);
	cr_expect_str_eq(receive(&p), "geo(country)");
	cr_expect_eq(fcntl(p.last_fd, F_GET_SEALS),
		     F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	cr_expect_eq(pread(p.last_fd, text, sizeof(text), 0), 8);
	cr_expect_str_eq(text, "database");
	hand_over_tick(p.hand_over);
	cr_expect_str_eq(receive(&p), "");
	fixture_write(path, "database 2");
	hand_over_tick(p.hand_over);
	cr_expect_str_eq(receive(&p), "geo(country)");
	cr_expect_eq(pread(p.last_fd, text, sizeof(text), 0), 10);
	/* Gone for a moment is not replaced by nothing. */
	unlink(path);
	hand_over_tick(p.hand_over);
	cr_expect_str_eq(receive(&p), "");
	peer_stop(&p);
}

Test(hand_over, opens_no_more_descriptors_than_a_slow_daemon_takes)
{
	static char names[200][16];
	const char *list[201];
	struct peer p;
	size_t before, listeners = 0;

	peer_start(&p, HEAD "[listener vms]\nbind = unix:%s/{listener}.sock\n");
	for (unsigned i = 0; i < 200; i++) {
		snprintf(names[i], sizeof(names[i]), "vm-%u", i);
		list[i] = names[i];
	}
	list[200] = NULL;
	name(&p, list);
	before = fixture_fd_count();
	hand_over_connect(p.hand_over, p.link.channel, 1);
	cr_expect_leq(fixture_fd_count(), before + 2);
	while (receive(&p)[0] != '\0') {
		for (const char *at = p.story; (at = strstr(at, "listener(")) != NULL; at++)
			listeners++;
	}
	cr_expect_eq(listeners, 200);
	peer_stop(&p);
}
