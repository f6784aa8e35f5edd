/* Roots and caught output for the tests of src/cli; fails the running test when the machine does not play along. */
#include "fixture.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crypto.h"

const char *fixture_path(const char *folder, const char *name)
{
	static char paths[8][256];
	static unsigned nth;
	char *path = paths[nth++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

void fixture_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	cr_assert(fd >= 0, "%s", path);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	cr_assert_eq(close(fd), 0);
}

void fixture_make_root(char out_folder[64])
{
	cr_assert_eq(crypto_init(), ERR_OK);
	snprintf(out_folder, 64, "/tmp/egress-cli-XXXXXX");
	cr_assert_not_null(mkdtemp(out_folder));
	cr_assert_eq(mkdir(fixture_path(out_folder, "root"), 0755), 0);
	cr_assert_eq(mkdir(fixture_path(out_folder, "root/leases"), 0755), 0);
	cr_assert_eq(mkdir(fixture_path(out_folder, "root/presets"), 0755), 0);
	fixture_write(fixture_path(out_folder, "root/ceiling.policy"),
		      "allow any\n"
		      "deny forbidden.example.org\n"
		      "exception 10.20.0.0/16 for registry.corp.example\n");
	fixture_write(fixture_path(out_folder, "root/presets/python.policy"),
		      "allow https://pypi.org as pypi-index\n"
		      "allow https://*.pythonhosted.org as pypi-files\n");
	fixture_write(fixture_path(out_folder, "root/leases/build7.policy"),
		      "lease    ls_build7\n"
		      "tenant   ws_acme    run run_881    class code\n"
		      "guest    require source\n"
		      "guest    source 10.0.0.1/32\n"
		      "mode     allowlist\n"
		      "use      python\n"
		      "allow    https://registry.corp.example\n"
		      "allow    https://forbidden.example.org\n"
		      "allow    tcp://db.example.org:5432\n"
		      "allow    tcp://203.0.114.7:9000\n"
		      "deny     stats.example.org as no-stats\n");
	fixture_write(fixture_path(out_folder, "root/leases/bad.policy"),
		      "lease ls_bad\n"
		      "guest require source\n"
		      "guest source 10.0.0.2/32\n"
		      "mode allowlist\n"
		      "allow https://*\n"
		      "alow https://x.example.org\n");
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	return remove(path);
}

void fixture_remove_folder(const char *path)
{
	cr_assert_eq(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static void read_back(int fd, char *out, size_t cap)
{
	ssize_t n = pread(fd, out, cap - 1, 0);

	cr_assert(n >= 0);
	out[n] = '\0';
	close(fd);
}

static int swap(int standard, int fd)
{
	int kept = dup(standard);

	cr_assert(kept >= 0);
	cr_assert_eq(dup2(fd, standard), standard);
	return kept;
}

static void swap_back(int standard, int kept)
{
	cr_assert_eq(dup2(kept, standard), standard);
	close(kept);
}

static int make_input(const char *input)
{
	int fd = memfd_create("input", MFD_CLOEXEC);

	cr_assert(fd >= 0);
	if (input != NULL) {
		cr_assert_eq(write(fd, input, strlen(input)), (ssize_t)strlen(input));
		cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
	}
	return fd;
}

void fixture_run(cli_command_fn *run, bool json, const char *input, struct fixture_said *out_said,
		 const char *command, ...)
{
	struct cli cli = { .json = json, .command = command, .socket = "/nonexistent/socket" };
	int in = make_input(input), out = memfd_create("out", MFD_CLOEXEC);
	int err = memfd_create("err", MFD_CLOEXEC), kept[3];
	char *args[64];
	va_list list;

	va_start(list, command);
	while ((args[cli.arg_count] = va_arg(list, char *)) != NULL)
		cli.arg_count++;
	va_end(list);
	cli.args = args;
	fflush(stdout);
	fflush(stderr);
	rewind(stdin);
	kept[0] = swap(0, in);
	kept[1] = swap(1, out);
	kept[2] = swap(2, err);
	out_said->status = run(&cli);
	fflush(stdout);
	fflush(stderr);
	for (int i = 0; i < 3; i++)
		swap_back(i, kept[i]);
	clearerr(stdin);
	close(in);
	read_back(out, out_said->out, sizeof(out_said->out));
	read_back(err, out_said->err, sizeof(out_said->err));
}

void fixture_run_program(struct fixture_said *out_said, const char *arguments)
{
	const char *folder = getenv("EGRESS_BUILDDIR");
	char line[1024], file[] = "/tmp/egress-cli-err-XXXXXX";
	int err = mkstemp(file);
	size_t n;
	FILE *pipe;

	cr_assert(err >= 0);
	snprintf(line, sizeof(line), "%s/egressctl %s 2>%s", folder == NULL ? "." : folder, arguments,
		 file);
	pipe = popen(line, "r");
	cr_assert_not_null(pipe);
	n = fread(out_said->out, 1, sizeof(out_said->out) - 1, pipe);
	out_said->out[n] = '\0';
	out_said->status = WEXITSTATUS(pclose(pipe));
	read_back(err, out_said->err, sizeof(out_said->err));
	unlink(file);
}
