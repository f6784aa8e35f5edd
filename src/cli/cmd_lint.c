/*
 * `lint`: every fault and warning of leases, presets, ceilings, or of a whole root, as the sidecar would find them.
 * Promises the compiler's own words: it is the compiler that reads.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cli/candidate.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "compiler/compile.h"
#include "compiler/lint.h"
#include "compiler/parse.h"
#include "compiler/source.h"

#define FILE_MAX (1u << 20)
#define PATH_MAX_LEN 4096

struct lint_run {
	const struct cli *cli;
	const char *root;      /* borrowed; NULL: around each file */
	size_t errors, warnings;
	bool failed;
};

/* One file with what it leans on; its texts live until it is done. */
struct lint_file {
	struct arena arena;
	struct fault_list faults;
	char root[PATH_MAX_LEN]; /* "": none */
};

static void show(struct lint_run *run, const struct fault *f)
{
	char text[FAULT_TEXT_MAX + 256];

	if (f->severity == FAULT_ERROR)
		run->errors++;
	else
		run->warnings++;
	if (!run->cli->json) {
		fault_print(f, text, sizeof(text));
		puts(text);
		return;
	}
	putchar('{');
	print_json_member("file", f->place.file, true);
	print_json_number("line", f->place.line, false);
	print_json_number("column", f->place.column, false);
	print_json_member("pointer", f->place.pointer, false);
	print_json_member("severity", f->severity == FAULT_ERROR ? "error" : "warning", false);
	print_json_member("code", f->code, false);
	print_json_member("text", f->text, false);
	puts("}");
}

static void on_fault(void *arg, const struct fault *fault)
{
	show(arg, fault);
}

static bool read_whole(struct arena *arena, const char *path, struct text *out_text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *bytes = arena_take(arena, FILE_MAX + 1);
	size_t len = 0;
	ssize_t n = 1;

	while (fd >= 0 && bytes != NULL && n > 0 && len <= FILE_MAX) {
		n = read(fd, bytes + len, FILE_MAX + 1 - len);
		len += n > 0 ? (size_t)n : 0;
	}
	if (fd >= 0)
		close(fd);
	*out_text = (struct text){ bytes, len };
	if (len > FILE_MAX)
		errno = EFBIG;
	return fd >= 0 && bytes != NULL && n == 0 && len <= FILE_MAX;
}

static enum err read_preset(void *arg, const char *name, struct text *out_text)
{
	struct lint_file *file = arg;
	char path[PATH_MAX_LEN + 128];

	if (file->root[0] == '\0' || !source_preset_name_is_valid(text_of(name)))
		return ERR_NOT_FOUND;
	snprintf(path, sizeof(path), "%s/presets/%s.policy", file->root, name);
	return read_whole(&file->arena, path, out_text) ? ERR_OK : ERR_NOT_FOUND;
}

static bool ends_in(const char *path, const char *end)
{
	size_t len = strlen(path), end_len = strlen(end);

	return len >= end_len && strcmp(path + len - end_len, end) == 0;
}

static bool is_preset(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL && slash - path >= 7 && strncmp(slash - 7, "presets", 7) == 0;
}

static enum err lint_preset(struct lint_file *file, const char *path, struct text text)
{
	const char *slash = strrchr(path, '/');
	size_t len = strlen(slash + 1) - (ends_in(path, ".policy") ? strlen(".policy") : 0);
	struct parse_as as = { .kind = POLICY_PRESET,
			       .name = arena_text(&file->arena, slash + 1, len),
			       .report_allowed = true };
	struct policy *policy = NULL;
	struct lint_context context = { 0 };
	enum err e;

	if (as.name == NULL)
		return ERR_NO_MEMORY;
	e = parse_policy(&file->arena, path, text, &as, &file->faults, &policy);
	if (e != ERR_OK)
		return e == ERR_INVALID ? ERR_OK : e;
	context.policy = policy;
	context.wall_ms = clock_wall_ms();
	lint_policy(&context, &file->faults);
	return ERR_OK;
}

static enum err lint_text(struct lint_file *file, const char *path, struct text text)
{
	struct compile_context context = { .preset = read_preset,
					   .arg = file,
					   .report_allowed = true,
					   .wall_ms = clock_wall_ms() };
	struct compiled compiled = { 0 };
	struct emitted ceiling = { 0 };
	char ceiling_path[PATH_MAX_LEN + 32];
	enum err e;

	if (ends_in(path, "ceiling.policy")) {
		e = compile_ceiling_text(path, text, &context, &file->faults, &ceiling);
		emitted_finish(&ceiling);
		return e == ERR_INVALID ? ERR_OK : e;
	}
	if (is_preset(path))
		return lint_preset(file, path, text);
	snprintf(ceiling_path, sizeof(ceiling_path), "%s/ceiling.policy", file->root);
	if (file->root[0] == '\0' || !read_whole(&file->arena, ceiling_path, &context.ceiling))
		context.ceiling = (struct text){ NULL, 0 };
	e = compile_lease_text(path, text, &context, &file->faults, &compiled);
	compiled_finish(&compiled);
	return e;
}

static void lint_one(struct lint_run *run, const char *path)
{
	struct lint_file file = { .root = "" };
	struct text text;
	enum err e = ERR_SYSTEM;

	arena_init(&file.arena, 0);
	fault_list_init(&file.faults, &file.arena);
	if (run->root != NULL)
		snprintf(file.root, sizeof(file.root), "%s", run->root);
	else if (!candidate_root_of(path, file.root, sizeof(file.root)))
		file.root[0] = '\0';
	if (read_whole(&file.arena, path, &text))
		e = lint_text(&file, path, text);
	else
		cli_fail(run->cli, "%s: %s", path, strerror(errno));
	if (e != ERR_OK && e != ERR_SYSTEM)
		cli_fail(run->cli, "%s: %s", path, err_text(e));
	run->failed = run->failed || e != ERR_OK;
	for (const struct fault *f = file.faults.first; f != NULL; f = f->next)
		show(run, f);
	arena_finish(&file.arena);
}

/* A whole root, as the sidecar would open it. */
static void lint_root(struct lint_run *run, const char *path)
{
	struct root_options options = { .report_allowed = true };
	struct fault_list faults;
	struct root *root = NULL;
	struct arena arena;
	char whole[PATH_MAX];
	enum err e = ERR_NOT_FOUND;

	arena_init(&arena, 0);
	fault_list_init(&faults, &arena);
	if (realpath(path, whole) != NULL)
		e = root_open(whole, &options, &faults, &root);
	if (e == ERR_OK) {
		root_visit_faults(root, on_fault, run);
	} else {
		for (const struct fault *f = faults.first; f != NULL; f = f->next)
			show(run, f);
		if (faults.error_count == 0) {
			cli_fail(run->cli, "%s: %s", path, err_text(e));
			run->failed = true;
		}
	}
	root_close(root);
	arena_finish(&arena);
}

int cmd_lint(struct cli *cli)
{
	struct lint_run run = { .cli = cli };

	if (cli_take_value(cli, "--root", &run.root) && run.root == NULL)
		return cli_fail(cli, "--root needs a folder");
	if (!cli_args_hold(cli, 1, CLI_ARGS_MAX))
		return CLI_FAILED;
	for (int i = 0; i < cli->arg_count; i++) {
		struct stat st;

		if (stat(cli->args[i], &st) == 0 && S_ISDIR(st.st_mode))
			lint_root(&run, cli->args[i]);
		else
			lint_one(&run, cli->args[i]);
	}
	if (!cli->json)
		fprintf(stderr, "%zu faults, %zu warnings\n", run.errors, run.warnings);
	if (run.failed)
		return CLI_FAILED;
	return run.errors + run.warnings > 0 ? CLI_FINDINGS : CLI_DONE;
}
