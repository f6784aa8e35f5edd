#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "config/load.h"

static const char good[] = "[daemon]\n"
			   "control = /run/e/control.sock\n"
			   "workers=2\n"
			   "name_servers = 192.0.2.53, 192.0.2.54 192.0.2.55\n"
			   "refuse_after_s =5\n"
			   "records = \"/var/log/a \\\"b\\\" \\\\c#d\"\n"
			   "[listener main]\n"
			   "bind = tcp:127.0.0.1:1080\n"
			   "[sidecar]   # who brings the policy\n"
			   "source = \"file:/etc/my policy\"\n"
			   "trust = local\n"
			   "[listener vms]\n"
			   "bind = unix:/run/e/{listener}.sock\n";

struct fixture {
	struct arena arena;
	struct fault_list faults;
	struct config *config;
	enum err err;
};

static void parse(struct fixture *f, const char *text, enum config_reader reader)
{
	arena_init(&f->arena, 0);
	fault_list_init(&f->faults, &f->arena);
	f->config = NULL;
	f->err = config_parse("egressd.conf", text_of(text), reader, &f->faults, &f->config);
}

static void finish(struct fixture *f)
{
	config_unref(f->config);
	arena_finish(&f->arena);
}

Test(load, a_good_file_becomes_one_struct_and_the_rest_has_its_defaults)
{
	struct fixture f;

	parse(&f, good, CONFIG_FOR_SIDECAR);
	cr_assert_eq(f.err, ERR_OK);
	cr_assert_str_eq(f.config->daemon.control, "/run/e/control.sock");
	cr_assert_eq(f.config->daemon.workers, 2);
	cr_assert_eq(f.config->daemon.refuse_after_s, 5);
	cr_assert_eq(f.config->daemon.cut_after_s, 30);
	cr_assert_eq(f.config->daemon.name_servers.count, 3);
	cr_assert_eq(f.config->daemon.family, OPTION_FAMILY_PREFER6);
	cr_assert(f.config->daemon.splice);
	cr_assert_str_eq(f.config->daemon.records, "/var/log/a \"b\" \\c#d");
	cr_assert_eq(f.config->sidecar.source.kind, OPTION_SOURCE_FILE);
	cr_assert_str_eq(f.config->sidecar.source.text, "/etc/my policy");
	cr_assert_eq(f.config->sidecar.trust, OPTION_TRUST_LOCAL);
	cr_assert_eq(f.config->listener_count, 2);
	cr_assert(config_listener(f.config, text_of("vms"))->bind.is_template);
	cr_assert_eq(config_listener(f.config, text_of("vms"))->socket_mode, 0660);
	cr_assert_null(config_listener(f.config, text_of("other")));
	cr_assert_eq(config_worker_count(f.config), 2);
	finish(&f);
}

Test(load, workers_follow_the_machine_when_unset)
{
	struct fixture f;

	parse(&f, "[daemon]\n[listener a]\nbind=tcp:127.0.0.1:1080\n", CONFIG_FOR_DAEMON);
	cr_assert_eq(f.err, ERR_OK);
	cr_assert_geq(config_worker_count(f.config), 1);
	cr_assert_leq(config_worker_count(f.config), 64);
	finish(&f);
}

#define TAIL "\n[listener m]\nbind = tcp:127.0.0.1:1080\n"

Test(load, each_fault_is_told_where_it_is)
{
	static const struct {
		const char *text;
		uint32_t line, column;
		const char *code, *says;
	} rows[] = {
		{ "[daemon]\nworker = 2" TAIL, 2, 1, "unknown_key", "did you mean workers?" },
		{ "[daemon]\n  workers = 99" TAIL, 2, 13, "bad_value", "from 0 to 64" },
		{ "[daemon]\nworkers=99" TAIL, 2, 9, "bad_value", "from 0 to 64" },
		{ "[daemon]\nworkers = 1\nworkers = 1" TAIL, 3, 1, "duplicate_key", "line 2" },
		{ "[daemon]\nworkers =" TAIL, 2, 1, "bad_value", "no value" },
		{ "[daemon]\nworkers = 1 2" TAIL, 2, 13, "bad_value", "one value" },
		{ "[daemon]\nworkers" TAIL, 2, 1, "bad_line", "key = value" },
		{ "[daemon]\nworkers 2" TAIL, 2, 1, "bad_line", "key = value" },
		{ "[daemon]\n= 2" TAIL, 2, 1, "bad_line", "key = value" },
		{ "[daemon]\nsource = file:/x" TAIL, 2, 1, "unknown_key", "belongs to section [sidecar]" },
		{ "[daemon]\nzzzz = 1" TAIL, 2, 1, "unknown_key", "sample configuration" },
		{ "workers = 1\n[daemon]" TAIL, 1, 1, "no_section", "first section" },
		{ "[daemon]\n[daemon]" TAIL, 2, 1, "duplicate_section", "line 1" },
		{ "[deamon]\nworkers = 99" TAIL, 1, 1, "unknown_section", "did you mean [daemon]?" },
		{ "[listner x]" TAIL, 1, 1, "unknown_section", "[listener NAME]?" },
		{ "[daemon x]" TAIL, 1, 1, "unknown_section", "[daemon]" },
		{ "[daemon" TAIL, 1, 1, "bad_section", "[daemon]" },
		{ "[a b c]" TAIL, 1, 1, "bad_section", "alone on the line" },
		{ "[]" TAIL, 1, 1, "bad_section", "[daemon]" },
		{ "[listener]\nbind = tcp:127.0.0.1:1" TAIL, 1, 1, "listener_name", "cannot name" },
		{ "[listener a/b]\nbind = tcp:127.0.0.1:1" TAIL, 1, 1, "listener_name", "cannot name" },
		{ "[listener m]\nbind = tcp:127.0.0.1:1" TAIL, 3, 1, "duplicate_section", "line 1" },
		{ "[daemon]\nuser = \"open" TAIL, 2, 8, "quote_open", "not closed" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture f;

		parse(&f, rows[i].text, CONFIG_FOR_DAEMON);
		cr_assert_eq(f.err, ERR_INVALID, "row %zu: %s", i, rows[i].text);
		cr_assert_null(f.config);
		cr_assert_eq(f.faults.error_count, 1, "row %zu: %s: %zu", i, rows[i].text, f.faults.error_count);
		cr_assert_str_eq(f.faults.first->code, rows[i].code, "row %zu", i);
		cr_assert_not_null(strstr(f.faults.first->text, rows[i].says), "row %zu: %s", i, f.faults.first->text);
		cr_assert_eq(f.faults.first->place.line, rows[i].line, "row %zu: line %u", i, f.faults.first->place.line);
		cr_assert_eq(f.faults.first->place.column, rows[i].column, "row %zu: column %u", i,
			     f.faults.first->place.column);
		finish(&f);
	}
}

Test(load, all_faults_come_at_once)
{
	struct fixture f;

	parse(&f, "[daemon]\nworkers = x\nuser =\nnonsense = 1\n[nope]\nq = 1\n[listener a]\n", CONFIG_FOR_SIDECAR);
	cr_assert_eq(f.err, ERR_INVALID);
	/* three keys, one section, no bind; and a sidecar needs source, cell, keys and ceiling */
	cr_assert_eq(f.faults.error_count, 9);
	finish(&f);
}

Test(load, a_daemon_may_stand_without_a_sidecar_section_but_a_sidecar_may_not)
{
	struct fixture f;

	parse(&f, "[listener m]\nbind = tcp:127.0.0.1:1080\n", CONFIG_FOR_DAEMON);
	cr_assert_eq(f.err, ERR_OK);
	finish(&f);
	parse(&f, "[listener m]\nbind = tcp:127.0.0.1:1080\n", CONFIG_FOR_SIDECAR);
	cr_assert_eq(f.err, ERR_INVALID);
	finish(&f);
}

Test(load, too_many_listeners_refuse)
{
	static char text[CONFIG_LISTENERS_MAX * 64 + 200];
	size_t len = 0;
	struct fixture f;

	for (int i = 0; i <= CONFIG_LISTENERS_MAX; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "[listener l%d]\nbind = tcp:127.0.0.1:%d\n", i, i + 1);
	parse(&f, text, CONFIG_FOR_DAEMON);
	cr_assert_eq(f.err, ERR_INVALID);
	cr_assert_eq(f.faults.error_count, 1);
	cr_assert_str_eq(f.faults.first->code, "too_many_listeners");
	finish(&f);
}

Test(load, what_is_printed_reads_back_to_the_same)
{
	struct fixture f, g;
	char *text = NULL, *again = NULL;

	parse(&f, good, CONFIG_FOR_SIDECAR);
	cr_assert_eq(config_print(f.config, true, &text), ERR_OK);
	cr_assert_not_null(strstr(text, "\nsource = \"file:/etc/my policy\"\n"));
	cr_assert_null(strstr(text, "cut_after_s"));
	parse(&g, text, CONFIG_FOR_SIDECAR);
	cr_assert_eq(g.err, ERR_OK);
	cr_assert_eq(config_print(g.config, true, &again), ERR_OK);
	cr_assert_str_eq(text, again);
	alloc_free(again);
	cr_assert_eq(config_print(f.config, false, &again), ERR_OK);
	cr_assert_null(strstr(again, "[sidecar]"));
	alloc_free(again);
	alloc_free(text);
	finish(&f);
	finish(&g);
}

static void count_change(void *arg, const struct option_row *row)
{
	char *names = arg;

	strcat(names, row->name);
	strcat(names, row->reload == OPTION_RESTART ? "! " : " ");
}

Test(load, a_comparison_names_what_changed)
{
	struct fixture f, g;
	char names[200] = "";

	parse(&f, "[daemon]\nworkers = 2\nname_servers = 192.0.2.1:53" TAIL, CONFIG_FOR_DAEMON);
	parse(&g, "[daemon]\nworkers = 3\nname_servers = 192.0.2.1\nfamily = only4" TAIL, CONFIG_FOR_DAEMON);
	config_compare_daemon(f.config, g.config, count_change, names);
	cr_assert_str_eq(names, "workers! family ");
	finish(&f);
	finish(&g);
}

Test(load, reads_a_file_and_says_when_it_cannot)
{
	char path[] = "/tmp/egress-conf-XXXXXX";
	int fd = mkstemp(path);
	struct fixture f = { 0 };

	cr_assert_eq(write(fd, good, strlen(good)), (ssize_t)strlen(good));
	close(fd);
	arena_init(&f.arena, 0);
	fault_list_init(&f.faults, &f.arena);
	cr_assert_eq(config_load(path, CONFIG_FOR_DAEMON, &f.faults, &f.config), ERR_OK);
	config_unref(config_ref(f.config));
	finish(&f);
	unlink(path);
	arena_init(&f.arena, 0);
	f.config = NULL;
	errno = 0;
	cr_assert_eq(config_load(path, CONFIG_FOR_DAEMON, &f.faults, &f.config), ERR_SYSTEM);
	cr_assert_eq(errno, ENOENT);
	cr_assert_eq(config_load("/", CONFIG_FOR_DAEMON, &f.faults, &f.config), ERR_SYSTEM);
	finish(&f);
}

Test(load, without_memory_there_is_no_config_and_no_leak)
{
	bool succeeded = false;

	for (uint64_t nth = 1; !succeeded; nth++) {
		struct fixture f = { 0 };
		char *text = NULL;

		arena_init(&f.arena, 0);
		fault_list_init(&f.faults, &f.arena);
		alloc_fail_at(nth);
		f.err = config_parse("c", text_of(good), CONFIG_FOR_SIDECAR, &f.faults, &f.config);
		if (f.err == ERR_OK)
			f.err = config_print(f.config, true, &text);
		alloc_fail_at(0);
		succeeded = f.err == ERR_OK;
		if (!succeeded)
			cr_assert_eq(f.err, ERR_NO_MEMORY);
		alloc_free(text);
		finish(&f);
		cr_assert_lt(nth, 1000);
	}
}
