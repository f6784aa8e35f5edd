/* Revocations on disk: what survives, what lifts them, what a damaged file or a failing disk does. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attr.h"
#include "fixture.h"
#include "source/sticky.h"

static struct sticky_state state_of(uint64_t rev, uint8_t print)
{
	struct sticky_state s = { .rev = rev };

	memset(s.print, print, sizeof(s.print));
	return s;
}

static struct sticky *open_in(const char *folder)
{
	struct sticky *s = NULL;

	cr_assert_eq(sticky_open(folder, &s), ERR_OK);
	return s;
}

Test(sticky, survives_a_restart_until_control_says_something_newer)
{
	size_t before = fixture_fd_count();
	char folder[64];
	struct sticky_state at17 = state_of(17, 1), at0 = state_of(0, 1), now;
	struct sticky *s;

	fixture_make_folder(folder);
	s = open_in(folder);
	cr_assert_eq(sticky_count(s), 0);
	cr_assert_eq(sticky_add(s, "ls_a", &at17), ERR_OK);
	cr_assert_eq(sticky_add(s, "ls_b", &at0), ERR_OK);
	cr_assert_eq(sticky_add(s, "ls_c", &at0), ERR_OK);
	sticky_close(s);

	s = open_in(folder);
	cr_assert_eq(sticky_count(s), 3);
	/* The same, an older one, and another text of the same revision lift nothing. */
	now = state_of(17, 2);
	cr_assert_not(sticky_review(s, "ls_a", &now));
	now = state_of(16, 2);
	cr_assert_not(sticky_review(s, "ls_a", &now));
	now = state_of(0, 2);
	cr_assert_not(sticky_review(s, "ls_a", &now));
	cr_assert_not(sticky_review(s, "ls_b", &at0));
	cr_assert_not(sticky_review(s, "ls_unknown", &now));
	now = state_of(18, 1);
	cr_assert(sticky_review(s, "ls_a", &now));
	cr_assert_not(sticky_holds(s, "ls_a"));
	now = state_of(0, 2);
	cr_assert(sticky_review(s, "ls_b", &now));
	now = state_of(1, 1);
	cr_assert(sticky_review(s, "ls_c", &now));
	sticky_close(s);

	s = open_in(folder);
	cr_assert_eq(sticky_count(s), 0);
	sticky_close(s);
	cr_assert_eq(fixture_fd_count(), before);
	fixture_remove_folder(folder);
}

Test(sticky, refuses_a_file_it_cannot_understand)
{
	static const char digest[] =
		"0101010101010101010101010101010101010101010101010101010101010101";
	char folder[64], text[512];
	struct sticky *s;
	size_t len, accepted = 0;

	fixture_make_folder(folder);
	snprintf(text, sizeof(text), "egressd revocations 1\nls_a 17 %s\nls_b 0 %s\n", digest, digest);
	fixture_write(fixture_path(folder, "revoked"), text);
	s = open_in(folder);
	cr_assert_eq(sticky_count(s), 2);
	cr_assert_str_eq(sticky_at(s, 0), "ls_a");
	sticky_close(s);
	/* Only whole lines are a shorter list; every other prefix is damage. */
	len = strlen(text);
	for (size_t cut = 0; cut < len; cut++) {
		char part[512];

		snprintf(part, sizeof(part), "%.*s", (int)cut, text);
		fixture_write(fixture_path(folder, "revoked"), part);
		if (sticky_open(folder, &s) == ERR_OK) {
			cr_assert_eq(part[cut - 1], '\n');
			sticky_close(s);
			accepted++;
		}
	}
	cr_assert_eq(accepted, 2);
	for (size_t i = 0; i < len; i++) {
		char damaged[512];

		memcpy(damaged, text, len + 1);
		damaged[i] = '\n';
		if (text[i] == '\n')
			damaged[i] = ' ';
		fixture_write(fixture_path(folder, "revoked"), damaged);
		cr_assert_eq(sticky_open(folder, &s), ERR_INVALID, "%zu", i);
	}
	fixture_remove_folder(folder);
}

Test(sticky, does_not_read_what_is_no_file_or_no_folder)
{
	char folder[64];
	struct sticky *s;

	fixture_make_folder(folder);
	cr_assert_eq(sticky_open(fixture_path(folder, "missing"), &s), ERR_SYSTEM);
	cr_assert_eq(mkdir(fixture_path(folder, "revoked"), 0700), 0);
	cr_assert_neq(sticky_open(folder, &s), ERR_OK);
	cr_assert_eq(rmdir(fixture_path(folder, "revoked")), 0);
	cr_assert_eq(symlink("/dev/null", fixture_path(folder, "revoked")), 0);
	cr_assert_neq(sticky_open(folder, &s), ERR_OK);
	fixture_remove_folder(folder);
}

Test(sticky, keeps_the_old_list_and_lifts_nothing_when_the_disk_fails)
{
	struct rlimit none = { .rlim_cur = 0, .rlim_max = RLIM_INFINITY };
	char folder[64];
	struct sticky_state then = state_of(1, 1), now = state_of(2, 1);
	struct sticky *s;

	signal(SIGXFSZ, SIG_IGN);
	fixture_make_folder(folder);
	s = open_in(folder);
	cr_assert_eq(sticky_add(s, "ls_a", &then), ERR_OK);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
	cr_assert_eq(sticky_add(s, "ls_b", &then), ERR_SYSTEM);
	cr_assert(sticky_holds(s, "ls_b"), "held in memory");
	cr_assert_not(sticky_review(s, "ls_a", &now));
	cr_assert(sticky_holds(s, "ls_a"));
	none.rlim_cur = RLIM_INFINITY;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
	sticky_close(s);
	s = open_in(folder);
	cr_assert_eq(sticky_count(s), 1);
	cr_assert(sticky_holds(s, "ls_a"));
	sticky_close(s);
	fixture_remove_folder(folder);
}

Test(sticky, refuses_ids_that_no_lease_can_have)
{
	char folder[64], id[70];
	struct sticky_state then = state_of(1, 1);
	struct sticky *s;

	fixture_make_folder(folder);
	s = open_in(folder);
	memset(id, 'a', sizeof(id));
	id[65] = '\0';
	cr_assert_eq(sticky_add(s, id, &then), ERR_INVALID);
	cr_assert_eq(sticky_add(s, "", &then), ERR_INVALID);
	id[64] = '\0';
	cr_assert_eq(sticky_add(s, id, &then), ERR_OK);
	sticky_close(s);
	s = open_in(folder);
	cr_assert(sticky_holds(s, id));
	sticky_close(s);
	fixture_remove_folder(folder);
}
