/*
 * Places from sealed memory files, also where every path is denied. The databases are made by
 * make_mmdb.py in the build tree; its rows are the expectations here.
 */
#include "facts/geoip.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "base/alloc.h"
#include "base/attr.h"
#include "texts.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static size_t read_file(const char *name, uint8_t *out_bytes, size_t cap)
{
	const char *folder = getenv("EGRESS_BUILDDIR");
	char path[512];
	FILE *file;
	size_t len;

	snprintf(path, sizeof(path), "%s/tests/unit/facts/%s", folder == NULL ? "." : folder, name);
	file = fopen(path, "rb");
	cr_assert_not_null(file, "%s", path);
	len = fread(out_bytes, 1, cap, file);
	fclose(file);
	cr_assert(len > 0 && len < cap);
	return len;
}

static int memory_file(const uint8_t *bytes, size_t len, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, bytes, len), (ssize_t)len);
	if (seals != 0)
		cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static int database(const char *name)
{
	uint8_t bytes[65536];
	size_t len = read_file(name, bytes, sizeof(bytes));

	return memory_file(bytes, len, SEALS);
}

static struct geoip *open_both(void)
{
	int country = database("country.mmdb"), asn = database("asn.mmdb");
	struct geoip *g = NULL;

	cr_assert_eq(geoip_open(country, asn, &g), ERR_OK);
	/* Borrowed for the call: the library keeps a mapping, not the descriptor. */
	close(country);
	close(asn);
	return g;
}

Test(geoip, finds_country_and_as_number_of_both_families)
{
	static const struct {
		const char *addr, *country;
		uint32_t asn;
	} rows[] = {
		{ "9.9.9.0", "DE", 64500 },
		{ "9.9.9.255", "DE", 64500 },
		{ "2a00:1::1", "FR", 4200000000 },
		{ "2a00:1:ffff:ffff:ffff:ffff:ffff:ffff", "FR", 4200000000 },
	};
	struct geoip *g = open_both();

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct addr a = addr_in(rows[i].addr);
		struct geoip_place place;

		geoip_find(g, &a, &place);
		cr_assert(place.country_known && place.asn_known, "%s", rows[i].addr);
		cr_expect_str_eq(place.country, rows[i].country);
		cr_expect_eq(place.asn, rows[i].asn);
	}
	geoip_unref(g);
}

Test(geoip, what_is_absent_or_of_another_shape_is_unknown)
{
	static const struct {
		const char *addr;
		bool country_known;
	} rows[] = {
		{ "9.9.10.0", false },	    { "9.8.255.255", false }, { "2a00:2::1", false },
		{ "2a00:0:ffff::", false }, { "9.9.8.1", true }, /* its AS number is a string */
		{ "9.9.7.1", false },				 /* only where it is registered */
		{ "9.9.6.1", false },				 /* lower case */
		{ "9.9.5.1", false },				 /* three letters */
		{ "9.9.4.1", false },				 /* a number */
		{ "9.9.3.1", false },				 /* no map */
		{ "9.9.2.1", false },				 /* half lower case */
		{ "9.9.1.1", false },				 /* a digit */
	};
	struct geoip *g = open_both();

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct addr a = addr_in(rows[i].addr);
		struct geoip_place place;

		geoip_find(g, &a, &place);
		cr_expect_eq(place.country_known, rows[i].country_known, "%s", rows[i].addr);
		cr_expect_not(place.asn_known, "%s", rows[i].addr);
		cr_expect_eq(place.country[0] == '\0', !place.country_known);
	}
	geoip_unref(g);
}

Test(geoip, one_database_alone_answers_its_half)
{
	struct addr a = addr_in("9.9.9.9");
	struct geoip_place place;
	struct geoip *g;
	int fd = database("country.mmdb");

	cr_assert_eq(geoip_open(fd, -1, &g), ERR_OK);
	geoip_find(g, &a, &place);
	cr_expect(place.country_known && !place.asn_known);
	geoip_unref(g);
	close(fd);
	fd = database("asn.mmdb");
	cr_assert_eq(geoip_open(-1, fd, &g), ERR_OK);
	geoip_find(g, &a, &place);
	cr_expect(!place.country_known && place.asn_known);
	geoip_unref(g);
	close(fd);
}

Test(geoip, without_a_database_or_an_address_nothing_is_known)
{
	struct addr a = addr_in("9.9.9.9"), none = { 0 };
	struct geoip_place place = { .country_known = true, .asn_known = true };
	struct geoip *g = open_both();

	geoip_find(NULL, &a, &place);
	cr_expect(!place.country_known && !place.asn_known);
	geoip_find(g, &none, &place);
	cr_expect(!place.country_known && !place.asn_known);
	geoip_unref(g);
	cr_assert_eq(geoip_open(-1, -1, &g), ERR_OK);
	geoip_find(g, &a, &place);
	cr_expect(!place.country_known && !place.asn_known);
	geoip_unref(g);
	geoip_unref(NULL);
}

Test(geoip, files_that_could_still_change_are_refused)
{
	uint8_t bytes[65536];
	size_t len = read_file("country.mmdb", bytes, sizeof(bytes));
	static const int too_few[] = { 0, F_SEAL_SHRINK, F_SEAL_WRITE, F_SEAL_GROW | F_SEAL_WRITE };
	struct geoip *g = NULL;
	int pipe_fds[2];

	for (size_t i = 0; i < ARRAY_LEN(too_few); i++) {
		int fd = memory_file(bytes, len, too_few[i]);

		cr_expect_eq(geoip_open(fd, -1, &g), ERR_DENIED);
		cr_expect_eq(geoip_open(-1, fd, &g), ERR_DENIED);
		close(fd);
	}
	cr_assert_eq(pipe(pipe_fds), 0);
	cr_expect_eq(geoip_open(pipe_fds[0], -1, &g), ERR_DENIED);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	cr_expect_null(g);
}

Test(geoip, a_plain_file_is_copied_into_a_sealed_one)
{
	uint8_t bytes[65536];
	size_t len = read_file("country.mmdb", bytes, sizeof(bytes));
	struct addr a = addr_in("9.9.9.9");
	struct geoip_place place;
	struct geoip *g;
	/* Sealed against nothing yet, like any file. */
	int from = memory_file(bytes, len, 0), sealed = -1;

	cr_assert_eq(geoip_seal(from, &sealed), ERR_OK);
	cr_expect_eq(fcntl(sealed, F_GET_SEALS), SEALS);
	cr_expect_eq(ftruncate(from, 0), 0);
	close(from);
	cr_assert_eq(geoip_open(sealed, -1, &g), ERR_OK);
	geoip_find(g, &a, &place);
	cr_expect(place.country_known);
	geoip_unref(g);
	close(sealed);
}

Test(geoip, what_is_no_regular_file_is_not_copied)
{
	int pipe_fds[2], sealed = -7;

	cr_assert_eq(pipe(pipe_fds), 0);
	cr_expect_eq(geoip_seal(pipe_fds[0], &sealed), ERR_SYSTEM);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	cr_expect_eq(geoip_seal(-1, &sealed), ERR_SYSTEM);
	cr_expect_eq(sealed, -7);
}

Test(geoip, every_prefix_of_a_database_is_refused_or_answers_without_harm)
{
	uint8_t bytes[65536];
	size_t len = read_file("country.mmdb", bytes, sizeof(bytes));
	struct addr a = addr_in("9.9.9.9");

	for (size_t cut = 1; cut < len; cut++) {
		int fd = memory_file(bytes, cut, SEALS);
		struct geoip *g = NULL;
		struct geoip_place place;

		if (geoip_open(fd, -1, &g) == ERR_OK) {
			geoip_find(g, &a, &place);
			geoip_unref(g);
		}
		/* Without its metadata's end it is no database. */
		cr_expect(cut > len - 12 || g == NULL, "%zu of %zu", cut, len);
		close(fd);
	}
}

Test(geoip, a_second_database_that_fails_takes_the_first_with_it)
{
	int good = database("country.mmdb"),
	    bad = memory_file((const uint8_t *)"nothing", 7, SEALS);
	struct geoip *g = NULL;

	cr_expect_eq(geoip_open(good, bad, &g), ERR_INVALID);
	cr_expect_null(g);
	alloc_fail_at(1);
	cr_expect_eq(geoip_open(good, -1, &g), ERR_NO_MEMORY);
	alloc_fail_at(0);
	close(good);
	close(bad);
}

Test(geoip, lives_as_long_as_a_reference_does)
{
	struct geoip *g = open_both(), *second = geoip_ref(g);
	struct addr a = addr_in("9.9.9.9");
	struct geoip_place place;

	geoip_unref(g);
	geoip_find(second, &a, &place);
	cr_expect(place.country_known);
	geoip_unref(second);
}

/* Deny opening every path from here on; false where the kernel has no Landlock. */
static bool deny_all_paths(void)
{
	struct landlock_ruleset_attr attr = { .handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE |
								   LANDLOCK_ACCESS_FS_READ_DIR |
								   LANDLOCK_ACCESS_FS_WRITE_FILE |
								   LANDLOCK_ACCESS_FS_EXECUTE };
	int rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	bool denied;

	if (rules < 0)
		return false;
	denied = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
		 syscall(SYS_landlock_restrict_self, rules, 0) == 0;
	close(rules);
	return denied;
}

enum { OPENED, NO_LANDLOCK, NOT_DENIED, NOT_OPENED, NOT_FOUND };

static int open_behind_landlock(int country, int asn)
{
	struct addr a = { ADDR_V4, { 9, 9, 9, 9 } };
	struct geoip_place place;
	struct geoip *g;

	if (!deny_all_paths())
		return NO_LANDLOCK;
	if (open("/etc/passwd", O_RDONLY) >= 0)
		return NOT_DENIED;
	if (geoip_open(country, asn, &g) != ERR_OK)
		return NOT_OPENED;
	geoip_find(g, &a, &place);
	geoip_unref(g);
	return place.country_known && place.asn_known ? OPENED : NOT_FOUND;
}

Test(geoip, a_sealed_memory_file_opens_where_every_path_is_denied)
{
	int country = database("country.mmdb"), asn = database("asn.mmdb"), status;
	/* In a process of its own: the test's needs paths to report to its runner. */
	pid_t child = fork();

	if (child == 0)
		_exit(open_behind_landlock(country, asn));
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_LANDLOCK)
		cr_skip_test("this kernel has no Landlock");
	cr_expect_eq(WEXITSTATUS(status), OPENED, "step %d", WEXITSTATUS(status));
	close(country);
	close(asn);
}
