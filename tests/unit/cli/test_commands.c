/* Commands over a real policy root, with their output caught; and the program's own table. */
#include <criterion/criterion.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "base/crypto.h"
#include "base/text.h"
#include "fixture.h"

static struct fixture_said said;

static bool has(const char *text, const char *part)
{
	return strstr(text, part) != NULL;
}

static size_t lines_of(const char *text)
{
	size_t lines = 0;

	for (; *text != '\0'; text++)
		lines += *text == '\n';
	return lines;
}

Test(lint, finds_what_the_sidecar_would_with_line_and_column)
{
	char folder[64];

	fixture_make_root(folder);
	fixture_run(cmd_lint, false, NULL, &said, "lint", fixture_path(folder, "root/leases/bad.policy"),
		    NULL);
	cr_expect_eq(said.status, CLI_FINDINGS);
	cr_expect(has(said.out, "bad.policy:5:"), "%s", said.out);
	cr_expect(has(said.out, "bad.policy:6:1: error:"), "%s", said.out);
	cr_expect_eq(lines_of(said.out), 2);
	/* The root around a file gives its presets; without them this would be a fault. */
	fixture_run(cmd_lint, false, NULL, &said, "lint",
		    fixture_path(folder, "root/leases/build7.policy"),
		    fixture_path(folder, "root/presets/python.policy"),
		    fixture_path(folder, "root/ceiling.policy"), NULL);
	cr_expect(!has(said.out, "error"), "%s", said.out);
	fixture_run(cmd_lint, true, NULL, &said, "lint", fixture_path(folder, "root"), NULL);
	cr_expect_eq(said.status, CLI_FINDINGS);
	cr_expect(has(said.out, "\"severity\":\"error\""));
	cr_expect(has(said.out, "\"line\":6,\"column\":1"));
	fixture_remove_folder(folder);
}

Test(lint, is_silent_and_done_for_a_sound_file)
{
	char folder[64];

	fixture_make_root(folder);
	fixture_write(fixture_path(folder, "root/leases/good.policy"),
		      "lease ls_good\nguest require source\nguest source 10.0.0.9/32\nmode allowlist\n"
		      "allow https://api.example.org\n");
	fixture_run(cmd_lint, false, NULL, &said, "lint",
		    fixture_path(folder, "root/leases/good.policy"), NULL);
	cr_expect_eq(said.status, CLI_DONE, "%s", said.out);
	cr_expect_str_eq(said.out, "");
	fixture_run(cmd_lint, false, NULL, &said, "lint", fixture_path(folder, "none.policy"), NULL);
	cr_expect_eq(said.status, CLI_FAILED);
	fixture_run(cmd_lint, false, NULL, &said, "lint", NULL);
	cr_expect_eq(said.status, CLI_FAILED);
	fixture_run(cmd_lint, false, NULL, &said, "lint", fixture_path(folder, "root/leases"), NULL);
	cr_expect_neq(said.status, CLI_DONE, "a folder that is no root");
	fixture_remove_folder(folder);
}

/* lease, target, addresses, status, what the output must hold */
static const struct {
	const char *target, *addresses;
	int status;
	const char *verdict;
} explained[] = {
	{ "https://pypi.org", NULL, CLI_DONE, "verdict   allowed, rule pypi-index of the ruleset" },
	{ "https://pypi.org/simple/", "8.8.8.8", CLI_DONE, "address   8.8.8.8 is public: allowed" },
	{ "https://pypi.org", "8.8.8.8,127.0.0.1", CLI_FINDINGS, "verdict   refused: special_address" },
	{ "https://pypi.org", "8.8.8.8,169.254.169.254", CLI_FINDINGS, "verdict   refused: metadata_address" },
	{ "https://pypi.org", "8.8.8.8,64:ff9b::808:808", CLI_DONE, "dropped, undeclared NAT64" },
	{ "https://pypi.org", "64:ff9b::808:808", CLI_FINDINGS, "verdict   refused: special_address" },
	{ "https://pypi.org:8443", NULL, CLI_FINDINGS, "verdict   refused: port_not_allowed" },
	{ "https://files.example.org", NULL, CLI_FINDINGS, "rule      allow https://files.example.org" },
	{ "https://stats.example.org", NULL, CLI_FINDINGS, "verdict   refused: rule_deny" },
	{ "https://forbidden.example.org", NULL, CLI_FINDINGS, "verdict   refused: ceiling_deny" },
	{ "https://registry.corp.example", "10.20.1.1", CLI_DONE, "10.20.1.1 is private" },
	{ "https://registry.corp.example", "10.21.1.1", CLI_FINDINGS, "verdict   refused: special_address" },
	{ "tcp://db.example.org:5432", NULL, CLI_DONE, "verdict   allowed" },
	{ "https://db.example.org:5432", NULL, CLI_DONE, "verdict   allowed" },
	{ "tcp://pypi.org:443", NULL, CLI_FINDINGS, "verdict   refused: scheme_not_allowed" },
	{ "tcp://203.0.114.7:9000", NULL, CLI_DONE, "address   203.0.114.7 is public: allowed" },
	{ "https://203.0.114.8", NULL, CLI_FINDINGS, "verdict   refused: literal_not_listed" },
	{ "203.0.114.7:9000", NULL, CLI_DONE, "verdict   allowed" },
	{ "[2001:4860::1]:9000", NULL, CLI_FINDINGS, "verdict   refused: literal_not_listed" },
	{ "127.0.0.1:80", NULL, CLI_FINDINGS, "verdict   refused: special_address" },
	{ "https://localhost", NULL, CLI_FINDINGS, "verdict   refused: name_special" },
	{ "https://pypi.org", "8.8.8.8,no", CLI_FAILED, "" },
	{ "https://", NULL, CLI_FAILED, "" },
	{ "gopher://pypi.org", NULL, CLI_FAILED, "" },
	{ "pypi.org", NULL, CLI_FAILED, "" },
	{ "https://pypi.org:x", NULL, CLI_FAILED, "" },
	{ "https://me@pypi.org", NULL, CLI_FAILED, "" },
	{ "https://127.1", NULL, CLI_FINDINGS, "target    https://127.1:443" },
	{ "http://0x7f.1/latest", NULL, CLI_FINDINGS, "verdict   refused: literal_in_name" },
	{ "010.0.0.1:80", NULL, CLI_FINDINGS, "what      The run tried to reach '010.0.0.1:80'" },
	{ "https://a..example.org", NULL, CLI_FINDINGS, "verdict   refused: name_invalid" },
	{ "p\xc3\xb6st.example:25", NULL, CLI_FINDINGS, "target    p\\xc3\\xb6st.example:25" },
	{ "tcp://127.1", NULL, CLI_FAILED, "" },
};

Test(explain, says_what_would_happen_for_every_phase)
{
	char folder[64];

	fixture_make_root(folder);
	for (size_t i = 0; i < ARRAY_LEN(explained); i++) {
		const char *root = fixture_path(folder, "root");

		fixture_run(cmd_explain, false, NULL, &said, "explain", "ls_build7", explained[i].target,
			    "--root", root, explained[i].addresses == NULL ? NULL : "--address",
			    explained[i].addresses, NULL);
		cr_expect_eq(said.status, explained[i].status, "%s: %d %s%s", explained[i].target,
			     said.status, said.out, said.err);
		cr_expect(has(said.out, explained[i].verdict), "%s: %s", explained[i].target, said.out);
	}
	fixture_remove_folder(folder);
}

Test(explain, finds_the_lease_by_its_file_and_the_root_around_it)
{
	char folder[64];

	fixture_make_root(folder);
	fixture_run(cmd_explain, false, NULL, &said, "explain",
		    fixture_path(folder, "root/leases/build7.policy"), "https://pypi.org", NULL);
	cr_expect_eq(said.status, CLI_DONE, "%s", said.err);
	cr_expect(has(said.out, "ruleset  allow https://pypi.org"));
	cr_expect(has(said.out, "(python, line 1)"));
	fixture_run(cmd_explain, false, NULL, &said, "explain", "ls_none", "https://pypi.org", "--root",
		    fixture_path(folder, "root"), NULL);
	cr_expect_eq(said.status, CLI_FAILED);
	fixture_run(cmd_explain, false, NULL, &said, "explain", "ls_bad", "https://pypi.org", "--root",
		    fixture_path(folder, "root"), NULL);
	cr_expect_eq(said.status, CLI_FINDINGS);
	cr_expect(has(said.out, "refused: policy_invalid"));
	fixture_write(fixture_path(folder, "root/ceiling.policy"), "allow what\n");
	fixture_run(cmd_explain, false, NULL, &said, "explain", "ls_build7", "https://pypi.org", "--root",
		    fixture_path(folder, "root"), NULL);
	cr_expect_eq(said.status, CLI_FAILED);
	cr_expect(has(said.err, "ceiling.policy:1:"), "%s", said.err);
	fixture_remove_folder(folder);
}

Test(explain, takes_site_and_root_from_a_configuration)
{
	char folder[64], text[512];

	fixture_make_root(folder);
	snprintf(text, sizeof(text),
		 "[daemon]\ncontrol = %s/control.sock\nnat64 = 64:ff9b::/96\nguest_networks = 8.8.8.0/24\n"
		 "[listener main]\nbind = tcp:127.0.0.1:1080\n"
		 "[sidecar]\nsource = file:%s/root\ntrust = local\n",
		 folder, folder);
	fixture_write(fixture_path(folder, "conf"), text);
	fixture_run(cmd_explain, false, NULL, &said, "explain", "ls_build7", "https://pypi.org",
		    "--config", fixture_path(folder, "conf"), "--address=64:ff9b::101:101", NULL);
	cr_expect_eq(said.status, CLI_DONE, "declared NAT64: %s%s", said.out, said.err);
	fixture_run(cmd_explain, false, NULL, &said, "explain", "ls_build7", "https://pypi.org",
		    "--config", fixture_path(folder, "conf"), "--address", "8.8.8.8", NULL);
	cr_expect(has(said.out, "refused: own_address"), "%s%s", said.out, said.err);
	fixture_remove_folder(folder);
}

Test(explain, answers_a_batch_line_by_line)
{
	static char input[140000];
	char folder[64];
	size_t len;

	fixture_make_root(folder);
	len = (size_t)snprintf(input, sizeof(input),
			       "{\"lease\":\"ls_build7\",\"target\":\"https://pypi.org\"}\n"
			       "\r\n"
			       "{\"lease\":\"ls_build7\",\"target\":\"https://pypi.org\",\"addresses\":[\"8.8.8.8\",\"::1\"]}\n"
			       "{\"lease\":\"ls_build7\",\"target\":\"https://pypi.org\",\"extra\":1}\n"
			       "{\"lease\":\"ls_none\",\"target\":\"https://pypi.org\"}\n"
			       "not json\n");
	memset(input + len, 'x', 100000);
	strcpy(input + len + 100000, "\n{\"lease\":\"ls_build7\",\"target\":\"https://no.example.org\"}");
	fixture_run(cmd_explain, false, input, &said, "explain", "--batch", "--root",
		    fixture_path(folder, "root"), NULL);
	cr_expect_eq(said.status, CLI_FAILED);
	cr_expect_eq(lines_of(said.out), 7, "%s", said.out);
	cr_expect(has(said.out, "\"target\":\"pypi.org:443\",\"scheme\":\"https\",\"allow\":true"));
	cr_expect(has(said.out, "\"reason\":\"special_address\""));
	cr_expect(has(said.out, "\"error\":\"there is no such lease\""));
	cr_expect(has(said.out, "\"error\":\"the line is too long\""));
	cr_expect(has(said.out, "\"refusal\":{\"code\":\"network_destination_denied\",\"reason\":\"no_rule\""));
	fixture_remove_folder(folder);
}

Test(explain, gives_one_status_for_a_batch_that_is_understood)
{
	static const struct {
		const char *input;
		int status;
	} cases[] = {
		{ "", CLI_DONE },
		{ "{\"lease\":\"ls_build7\",\"target\":\"https://pypi.org\"}\n", CLI_DONE },
		{ "{\"lease\":\"ls_build7\",\"target\":\"https://no.example.org\"}\n"
		  "{\"lease\":\"ls_build7\",\"target\":\"https://pypi.org\"}\n",
		  CLI_FINDINGS },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char folder[64];

		fixture_make_root(folder);
		fixture_run(cmd_explain, false, cases[i].input, &said, "explain", "--batch", "--root",
			    fixture_path(folder, "root"), NULL);
		cr_expect_eq(said.status, cases[i].status, "%zu", i);
		fixture_remove_folder(folder);
	}
}

Test(token, gives_a_token_of_the_contract_and_its_digest)
{
	uint8_t digest[CRYPTO_SHA256_LEN];
	char token[64], hex[65], first[64], want[65];
	regex_t form;

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(regcomp(&form, "^v1\\.[A-Za-z0-9_-]{43}$", REG_EXTENDED | REG_NOSUB), 0);
	for (unsigned i = 0; i < 2; i++) {
		fixture_run(cmd_token, true, NULL, &said, "token", "new", NULL);
		cr_assert_eq(said.status, CLI_DONE);
		cr_assert_eq(sscanf(said.out, "{\"token\":\"%63[^\"]\",\"sha256\":\"%64[0-9a-f]\"}", token,
				    hex),
			     2);
		cr_assert_eq(regexec(&form, token, 0, NULL, 0), 0, "%s", token);
		cr_assert_eq(crypto_sha256(token, strlen(token), digest), ERR_OK);
		text_from_bytes_hex(digest, sizeof(digest), want);
		cr_assert_str_eq(hex, want);
		if (i == 0)
			strcpy(first, token);
	}
	cr_assert_str_neq(first, token);
	regfree(&form);
	fixture_run(cmd_token, false, NULL, &said, "token", NULL);
	cr_assert_eq(said.status, CLI_FAILED);
	fixture_run(cmd_token, false, NULL, &said, "token", "old", NULL);
	cr_assert_eq(said.status, CLI_FAILED);
}

Test(daemon_commands, fail_when_nobody_is_there)
{
	fixture_run(cmd_daemon, false, NULL, &said, "leases", NULL);
	cr_assert_eq(said.status, CLI_FAILED);
	cr_assert(has(said.err, "is egressd running?"));
	fixture_run(cmd_daemon, false, NULL, &said, "why", "a\tb", NULL);
	cr_assert_eq(said.status, CLI_FAILED);
	cr_assert(has(said.err, "tab"));
	fixture_run(cmd_top, false, NULL, &said, "top", "--once", NULL);
	cr_assert_eq(said.status, CLI_FAILED);
}

Test(program, knows_its_words_and_what_was_meant)
{
	static const struct {
		const char *arguments;
		int status;
		const char *out, *err;
	} cases[] = {
		{ "", CLI_FAILED, "", "usage: egressctl" },
		{ "help", CLI_DONE, "usage: egressctl", "" },
		{ "--help", CLI_DONE, "usage: egressctl", "" },
		{ "help explain", CLI_DONE, "LEASE TARGET", "" },
		{ "--version", CLI_DONE, "egressctl ", "" },
		{ "explian", CLI_FAILED, "", "did you mean \"explain\"?" },
		{ "xyzzy", CLI_FAILED, "", "there is no command \"xyzzy\"" },
		{ "--json token new", CLI_DONE, "{\"token\":\"v1.", "" },
		{ "token new --json", CLI_DONE, "{\"token\":\"v1.", "" },
		{ "health --socket /nonexistent/s", CLI_FAILED, "", "/nonexistent/s: there is no such socket" },
		{ "health --socket", CLI_FAILED, "", "--socket needs a path" },
		{ "token new --fast", CLI_FAILED, "", "there is no option --fast" },
		{ "token new >/dev/full", CLI_FAILED, "", "could not be written" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		fixture_run_program(&said, cases[i].arguments);
		cr_expect_eq(said.status, cases[i].status, "%s: %d %s", cases[i].arguments, said.status,
			     said.err);
		cr_expect(has(said.out, cases[i].out), "%s: %s", cases[i].arguments, said.out);
		cr_expect(has(said.err, cases[i].err), "%s: %s", cases[i].arguments, said.err);
	}
}
