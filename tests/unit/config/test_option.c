#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "config/check_internal.h"
#include "config/load.h"
#include "config/option.h"

static const char *const sections[] = { "daemon", "sidecar", "listener", "serve" };

union options {
	struct daemon_options daemon;
	struct sidecar_options sidecar;
	struct listener_option listener;
	struct serve_options serve;
};

static const struct option_row *find_row(const char *section, const char *name)
{
	size_t count;
	const struct option_row *rows = option_table(text_of(section), &count);

	for (size_t i = 0; i < count; i++)
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	cr_assert_fail("no option %s", name);
	return NULL;
}

Test(option, every_row_is_documented_and_its_default_reads_and_prints_back)
{
	for (size_t s = 0; s < ARRAY_LEN(sections); s++) {
		size_t count;
		const struct option_row *rows = option_table(text_of(sections[s]), &count);

		cr_assert_leq(count, CONFIG_ROWS_MAX);
		for (size_t i = 0; i < count; i++) {
			struct arena arena;
			union options options;
			char text[OPTION_VALUE_MAX], reason[OPTION_REASON_MAX];
			size_t text_len = strlen(rows[i].text);

			arena_init(&arena, 0);
			memset(&options, 0, sizeof(options));
			cr_assert_gt(text_len, 10, "%s", rows[i].name);
			cr_assert_eq(rows[i].text[text_len - 1], '.', "%s", rows[i].name);
			for (size_t j = 0; j < i; j++)
				cr_assert_str_neq(rows[i].name, rows[j].name);
			if (rows[i].standard[0] == '\0') {
				cr_assert_eq(option_print(&rows[i], &options, text), 0, "%s", rows[i].name);
			} else {
				cr_assert_eq(option_parse(&rows[i], text_of(rows[i].standard), &arena, &options, reason),
					     ERR_OK, "%s", rows[i].name);
				option_print(&rows[i], &options, text);
				if (strcmp(rows[i].standard, "off") != 0 || rows[i].type == OPTION_SWITCH)
					cr_assert_str_eq(text, rows[i].standard);
			}
			arena_finish(&arena);
		}
	}
	size_t unused;
	cr_assert_null(option_table(text_of("other"), &unused));
}

Test(option, values_print_in_their_canonical_form)
{
	static const struct {
		const char *section, *name, *written, *printed;
	} rows[] = {
		{ "daemon", "workers", "64", "64" },
		{ "daemon", "splice", "off", "off" },
		{ "daemon", "family", "only4", "only4" },
		{ "daemon", "user", "egressd", "egressd" },
		{ "daemon", "source4", "192.0.2.1", "192.0.2.1" },
		{ "daemon", "source6", "2001:DB8:0::1", "2001:db8::1" },
		{ "daemon", "guest_networks", "10.0.0.0/8, fd00::/8 192.0.2.1", "10.0.0.0/8,fd00::/8,192.0.2.1" },
		{ "daemon", "nat64", "well-known", "64:ff9b::/96" },
		{ "daemon", "nat64", "2001:db8:64::/48,well-known", "2001:db8:64::/48,64:ff9b::/96" },
		{ "daemon", "nat64", "off", "" },
		{ "daemon", "name_servers", "192.0.2.53, [2001:db8::53]:5353 2001:db8::54",
		  "192.0.2.53,[2001:db8::53]:5353,2001:db8::54" },
		{ "daemon", "admin", "tcp:127.0.0.1:9090", "tcp:127.0.0.1:9090" },
		{ "daemon", "admin", "none", "" },
		{ "daemon", "records", "none", "" },
		{ "daemon", "records", "/var/log/e.ndjson", "/var/log/e.ndjson" },
		{ "listener", "bind", "tcp:[::1]:1080", "tcp:[::1]:1080" },
		{ "listener", "bind", "tcp:10.0.0.1:2000-2999", "tcp:10.0.0.1:2000-2999" },
		{ "listener", "bind", "unix:/run/e/{listener}.sock", "unix:/run/e/{listener}.sock" },
		{ "listener", "socket_mode", "660", "0660" },
		{ "sidecar", "source", "file:/etc/egressd/policy", "file:/etc/egressd/policy" },
		{ "sidecar", "source", "https://control.example/v1", "https://control.example/v1" },
		{ "sidecar", "source", "etcd://a.example:2379,b.example:2379", "etcd://a.example:2379,b.example:2379" },
		{ "sidecar", "trust", "local", "local" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct option_row *row = find_row(rows[i].section, rows[i].name);
		struct arena arena;
		union options options, again;
		char text[OPTION_VALUE_MAX], reason[OPTION_REASON_MAX] = "";

		arena_init(&arena, 0);
		memset(&options, 0, sizeof(options));
		memset(&again, 0, sizeof(again));
		cr_assert_eq(option_parse(row, text_of(rows[i].written), &arena, &options, reason), ERR_OK, "%s: %s",
			     rows[i].written, reason);
		option_print(row, &options, text);
		cr_assert_str_eq(text, rows[i].printed);
		if (text[0] != '\0') {
			cr_assert_eq(option_parse(row, text_of(text), &arena, &again, reason), ERR_OK, "%s", text);
			cr_assert(option_is_equal(row, &options, &again));
		}
		arena_finish(&arena);
	}
}

Test(option, values_out_of_range_or_shape_are_refused_with_a_sentence)
{
	static const struct {
		const char *section, *name, *written;
	} rows[] = {
		{ "daemon", "workers", "65" },	     { "daemon", "workers", "-1" },	      { "daemon", "workers", "08" },
		{ "daemon", "leases_max", "0" },     { "daemon", "leases_max", "1000001" },   { "daemon", "cut_after_s", "301" },
		{ "daemon", "refuse_after_s", "121" }, { "daemon", "leases_max", "18446744073709551616" },
		{ "daemon", "splice", "yes" },	     { "daemon", "splice", "ON" },	      { "daemon", "family", "prefer" },
		{ "daemon", "family", "" },	     { "daemon", "user", "a b" },	      { "daemon", "user", "\xc3\xbc" },
		{ "daemon", "control", "relative" }, { "daemon", "source4", "::1" },	      { "daemon", "source4", "0.0.0.0" },
		{ "daemon", "source6", "192.0.2.1" }, { "daemon", "source4", "192.0.2.01" },
		{ "daemon", "guest_networks", "10.0.0.1/8" }, { "daemon", "guest_networks", "10.0.0.0/33" },
		{ "daemon", "guest_networks", ",," }, { "daemon", "nat64", "64:ff9b::/95" },
		{ "daemon", "nat64", "10.0.0.0/32" }, { "daemon", "nat64", "off,well-known" },
		{ "daemon", "name_servers", "dns.example" }, { "daemon", "name_servers", "192.0.2.1:0" },
		{ "daemon", "admin", "127.0.0.1:1" }, { "listener", "bind", "tcp:localhost:1080" },
		{ "listener", "bind", "tcp:::1:1080" }, { "listener", "bind", "tcp:[127.0.0.1]:1080" },
		{ "listener", "bind", "tcp:127.0.0.1:0" }, { "listener", "bind", "tcp:127.0.0.1:2-1" },
		{ "listener", "bind", "tcp:127.0.0.1:" }, { "listener", "bind", "tcp:127.0.0.1" },
		{ "listener", "bind", "unix:relative.sock" }, { "listener", "bind", "unix:/run/" },
		{ "listener", "bind", "unix:/run/{listener}/s" }, { "listener", "bind", "unix:/run/{other}.sock" },
		{ "listener", "bind", "unix:/run/{listener}{listener}" }, { "listener", "socket_mode", "0888" },
		{ "listener", "socket_mode", "07777" }, { "listener", "socket_mode", "1777" },
		{ "sidecar", "source", "file:relative" }, { "sidecar", "source", "http://a.example" },
		{ "sidecar", "source", "https://user:pw@a.example" }, { "sidecar", "source", "https:///x" },
		{ "sidecar", "source", "etcd://a" }, { "sidecar", "source", "etcd://a:1," }, { "sidecar", "source", "etcd://" },
		{ "sidecar", "trust", "none" },
		{ "listener", "bind", "unix:/0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345/s" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct option_row *row = find_row(rows[i].section, rows[i].name);
		struct arena arena;
		union options options, before;
		char reason[OPTION_REASON_MAX] = "";

		arena_init(&arena, 0);
		memset(&options, 0x5a, sizeof(options));
		before = options;
		cr_assert_eq(option_parse(row, text_of(rows[i].written), &arena, &options, reason), ERR_INVALID, "%s = %s",
			     rows[i].name, rows[i].written);
		cr_assert_gt(strlen(reason), 8, "%s = %s", rows[i].name, rows[i].written);
		cr_assert_eq(memcmp(&options, &before, sizeof(options)), 0, "%s", rows[i].name);
		arena_finish(&arena);
	}
}

Test(option, long_values_and_lists_are_bounded)
{
	const struct option_row *row = find_row("daemon", "guest_networks");
	char text[OPTION_VALUE_MAX + 100], reason[OPTION_REASON_MAX];
	struct daemon_options options = { 0 };
	struct arena arena;
	size_t len = 0;

	arena_init(&arena, 0);
	for (int i = 0; i < OPTION_LIST_MAX; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "::ffff:1:%x,", i % 10);
	cr_assert_eq(option_parse(row, (struct text){ text, len - 1 }, &arena, &options, reason), ERR_OK, "%s", reason);
	cr_assert_eq(options.guest_networks.count, OPTION_LIST_MAX);
	cr_assert_lt(option_print(row, &options, text), OPTION_VALUE_MAX - 1);
	memset(text, '1', sizeof(text));
	cr_assert_eq(option_parse(row, (struct text){ text, OPTION_VALUE_MAX }, &arena, &options, reason), ERR_INVALID);
	for (size_t i = 0; i < 4000; i += 4)
		memcpy(text + i, "::1,", 4);
	cr_assert_eq(option_parse(row, (struct text){ text, 3999 }, &arena, &options, reason), ERR_INVALID);
	arena_finish(&arena);
}

Test(option, without_memory_nothing_is_stored)
{
	static const struct {
		const char *section, *name, *written;
	} rows[] = {
		{ "daemon", "user", "x" }, { "daemon", "guest_networks", "10.0.0.0/8" }, { "daemon", "name_servers", "192.0.2.1" },
		{ "daemon", "admin", "unix:/run/x" }, { "sidecar", "source", "file:/x" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct arena arena;
		union options options, zeros;
		char reason[OPTION_REASON_MAX];

		memset(&options, 0, sizeof(options));
		memset(&zeros, 0, sizeof(zeros));
		arena_init(&arena, 0);
		alloc_fail_at(1);
		cr_assert_eq(option_parse(find_row(rows[i].section, rows[i].name), text_of(rows[i].written), &arena, &options,
					  reason), ERR_NO_MEMORY);
		alloc_fail_at(0);
		cr_assert_eq(memcmp(&options, &zeros, sizeof(options)), 0);
		arena_finish(&arena);
	}
}

/* A sample configuration, with a line end in front. */
static char *read_sample(const char *name)
{
	const char *top = getenv("EGRESS_SRCDIR");
	char path[512];
	char *text = alloc_zeroed(65536);
	FILE *file;

	snprintf(path, sizeof(path), "%s/deploy/%s", top == NULL ? "." : top, name);
	file = fopen(path, "r");
	cr_assert_not_null(file, "%s", path);
	text[0] = '\n';
	cr_assert_gt(fread(text + 1, 1, 65534, file), 1000);
	fclose(file);
	return text;
}

/* Where a section of the sample begins, and where the next one does. */
static void find_section(char *sample, const char *title, char **out_from, char **out_to)
{
	*out_from = strstr(sample, title);
	cr_assert_not_null(*out_from, "%s", title);
	*out_to = strstr(*out_from + 1, "\n[");
	if (*out_to == NULL)
		*out_to = *out_from + strlen(*out_from);
}

Test(option, the_sample_file_shows_every_option_with_its_text_and_default)
{
	static const char *const titles[] = { "\n[daemon]", "\n[sidecar]", "\n[listener main]", "\n[serve]" };

	for (size_t s = 0; s < ARRAY_LEN(sections); s++) {
		char *sample = read_sample(strcmp(sections[s], "serve") == 0 ? "egress-serve.conf.example" : "egressd.conf.example");
		char *from, *to, line[512];
		size_t count;
		const struct option_row *rows = option_table(text_of(sections[s]), &count);

		find_section(sample, titles[s], &from, &to);
		for (size_t i = 0; i < count; i++) {
			char *at;

			snprintf(line, sizeof(line), "\n# %s", rows[i].text);
			at = strstr(from, line);
			cr_assert(at != NULL && at < to, "%s: \"%s\" is not in the sample", rows[i].name, rows[i].text);
			at = strchr(at + 1, '\n') + 1;
			at += at[0] == '#';
			snprintf(line, sizeof(line), "%s = ", rows[i].name);
			cr_assert_eq(strncmp(at, line, strlen(line)), 0, "%s does not follow its text", rows[i].name);
			at += strlen(line);
			/* What the sample sets may differ from the default. */
			if (at[-(ptrdiff_t)strlen(line) - 1] == '#' && rows[i].standard[0] != '\0')
				cr_assert(strncmp(at, rows[i].standard, strlen(rows[i].standard)) == 0 && at[strlen(rows[i].standard)] == '\n',
					  "%s: the sample shows another default than %s", rows[i].name, rows[i].standard);
		}
		alloc_free(sample);
	}
}

/* Parse a text as configuration; it must have no fault. */
static void expect_good(const char *text)
{
	struct fault_list faults;
	struct config *config;
	struct arena arena;

	arena_init(&arena, 0);
	fault_list_init(&faults, &arena);
	cr_assert_eq(config_parse("sample", text_of(text), CONFIG_FOR_SIDECAR, &faults, &config), ERR_OK, "line %u: %s",
		     faults.first == NULL ? 0 : faults.first->place.line, faults.first == NULL ? "" : faults.first->text);
	config_unref(config);
	arena_finish(&arena);
}

static void expect_good_sample(const char *name)
{
	char *sample = read_sample(name);
	size_t out = 0;

	expect_good(sample);
	/* Take the # off every #key line. */
	for (size_t in = 0; sample[in] != '\0'; in++)
		if (!(sample[in] == '#' && sample[in - 1] == '\n' && sample[in + 1] != ' '))
			sample[out++] = sample[in];
	sample[out] = '\0';
	expect_good(sample);
	alloc_free(sample);
}

Test(option, the_sample_files_are_good_as_they_are_and_with_everything_switched_on)
{
	expect_good_sample("egressd.conf.example");
	expect_good_sample("egress-serve.conf.example");
}
