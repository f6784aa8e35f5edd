/* Runs every x.expect table; see README.md here. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "decision/reason.h"
#include "tests/tables/decide.h"

#define PATH_LEN 512
#define MADE_UP "lease made-up\nguest require source\nguest source 192.0.2.1\nmode allowlist\n"

static size_t rows_run;

static void say_difference(const char *file, unsigned line, const char *what, const char *expected, const char *found)
{
	cr_expect_fail("%s:%u: %s: expected %s, decided %s", file, line, what, expected, found);
}

/* One line, cut into words. */
static void run_row(const char *root_path, bool report_allowed, const struct decide_root *root, bool is_ceiling,
		    const char *file, unsigned line, char *text)
{
	char *words[8] = { NULL }, *rest = NULL;
	const char *addresses = "", *action;
	struct decide_root *own = NULL;
	struct verdict verdict;
	char made_up[PATH_LEN];
	size_t count = 0, at = 2;

	for (char *w = strtok_r(text, " \t\n", &rest); w != NULL && w[0] != '#' && count < 8; w = strtok_r(NULL, " \t\n", &rest))
		words[count++] = w;
	if (count == 0)
		return;
	if (count > 2 && words[2][0] == '@')
		addresses = words[at++] + 1;
	if (count < at + 2 || count > at + 3) {
		cr_expect_fail("%s:%u: expected LEASE TARGET [@ADDRESSES] allow|deny REASON [RULE]", file, line);
		return;
	}
	if (is_ceiling) {
		snprintf(made_up, sizeof(made_up), MADE_UP "allow %s\n", words[1]);
		own = decide_open(root_path, report_allowed, made_up);
		cr_assert_not_null(own, "%s:%u", file, line);
		root = own;
	}
	rows_run++;
	if (!decide(root, words[0], words[1], addresses, &verdict)) {
		cr_expect_fail("%s:%u: there is no such lease, target or address", file, line);
	} else {
		action = verdict.allow ? "allow" : "deny";
		if (strcmp(action, words[at]) != 0 || strcmp(reason_word(verdict.reason), words[at + 1]) != 0) {
			char expected[128], found[128];

			snprintf(expected, sizeof(expected), "%s %s", words[at], words[at + 1]);
			snprintf(found, sizeof(found), "%s %s", action, reason_word(verdict.reason));
			say_difference(file, line, words[1], expected, found);
		}
		if (count > at + 2 && strcmp(strcmp(words[at + 2], "-") == 0 ? "" : words[at + 2], verdict.rule_id) != 0)
			say_difference(file, line, "rule", words[at + 2], verdict.rule_id[0] == '\0' ? "-" : verdict.rule_id);
	}
	if (own != NULL)
		decide_close(own);
}

/* The table beside one policy; it must exist and hold something. */
static void run_table(const char *root_path, bool report_allowed, const char *folder, const char *name)
{
	char path[PATH_LEN * 2], line_text[1024], made_up[PATH_LEN];
	bool is_preset = strcmp(folder, "presets") == 0, is_ceiling = folder[0] == '\0';
	size_t before = rows_run;
	struct decide_root *root;
	unsigned line = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s%s%.*s.expect", root_path, folder, is_ceiling ? "" : "/",
		 (int)(strlen(name) - strlen(".policy")), name);
	file = fopen(path, "r");
	cr_assert_not_null(file, "%s is missing: every policy has a table of what it decides", path);
	snprintf(made_up, sizeof(made_up), MADE_UP "use %.*s\n", (int)(strlen(name) - strlen(".policy")), name);
	root = decide_open(root_path, report_allowed, is_preset ? made_up : NULL);
	cr_assert_not_null(root, "%s does not compile", root_path);
	while (fgets(line_text, sizeof(line_text), file) != NULL)
		run_row(root_path, report_allowed, root, is_ceiling, path, ++line, line_text);
	cr_expect_gt(rows_run, before, "%s expects nothing", path);
	decide_close(root);
	fclose(file);
}

static int is_policy(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name), end = strlen(".policy");

	return entry->d_name[0] != '.' && len > end && strcmp(entry->d_name + len - end, ".policy") == 0;
}

static void run_folder(const char *root_path, bool report_allowed, const char *folder)
{
	struct dirent **entries = NULL;
	char path[PATH_LEN];
	int count;

	snprintf(path, sizeof(path), "%s/%s", root_path, folder);
	count = scandir(path, &entries, is_policy, alphasort);
	for (int i = 0; i < count; i++) {
		run_table(root_path, report_allowed, folder, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
}

static void run_root(const char *path)
{
	char mark[PATH_LEN];
	bool report_allowed;

	snprintf(mark, sizeof(mark), "%s/report_allowed", path);
	report_allowed = access(mark, F_OK) == 0;
	run_folder(path, report_allowed, "");
	run_folder(path, report_allowed, "leases");
	run_folder(path, report_allowed, "presets");
}

static const char *top(void)
{
	const char *path = getenv("EGRESS_SRCDIR");

	return path == NULL ? "." : path;
}

Test(tables, the_policies_of_the_repository_decide_as_written)
{
	char path[PATH_LEN];

	snprintf(path, sizeof(path), "%s/policy", top());
	run_root(path);
	cr_assert_gt(rows_run, 20);
}

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

Test(tables, the_roots_of_the_tests_decide_as_written)
{
	struct dirent **entries = NULL;
	char path[PATH_LEN];
	int count;

	snprintf(path, sizeof(path), "%s/tests/tables/roots", top());
	count = scandir(path, &entries, is_visible, alphasort);
	cr_assert_gt(count, 0);
	for (int i = 0; i < count; i++) {
		char root_path[PATH_LEN * 2];

		snprintf(root_path, sizeof(root_path), "%s/%s", path, entries[i]->d_name);
		run_root(root_path);
		free(entries[i]);
	}
	free(entries);
	cr_assert_gt(rows_run, 40);
}
