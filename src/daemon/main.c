/* egressd: arguments and configuration, then boot and turn. Reads its configuration file and no other. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "daemon/boot.h"

static const char usage[] = "usage: egressd --config FILE [--check-config] [--without-sandbox]\n"
			    "       egressd --version | --help\n";

struct arguments {
	const char *config;
	bool check_only, without_sandbox;
};

/* 0: go on; else the exit status plus one. */
static int read_arguments(int argc, char **argv, struct arguments *out_arguments)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--config") == 0 && i + 1 < argc) {
			out_arguments->config = argv[++i];
		} else if (strcmp(argv[i], "--check-config") == 0) {
			out_arguments->check_only = true;
		} else if (strcmp(argv[i], "--without-sandbox") == 0) {
			out_arguments->without_sandbox = true;
		} else if (strcmp(argv[i], "--version") == 0) {
			printf("egressd %s\n", PACKAGE_VERSION);
			return 1;
		} else if (strcmp(argv[i], "--help") == 0) {
			fputs(usage, stdout);
			return 1;
		} else {
			fprintf(stderr, "egressd: unknown or incomplete argument: %s\n%s", argv[i], usage);
			return 3;
		}
	}
	if (out_arguments->config == NULL) {
		fprintf(stderr, "egressd: --config FILE is needed\n%s", usage);
		return 3;
	}
	return 0;
}

static struct config *read_config(const char *path)
{
	struct config *config = NULL;
	struct fault_list faults;
	struct arena arena;
	char text[FAULT_TEXT_MAX + 256];
	enum err e;

	arena_init(&arena, 1 << 20);
	fault_list_init(&faults, &arena);
	e = config_load(path, CONFIG_FOR_DAEMON, &faults, &config);
	for (const struct fault *f = faults.first; f != NULL; f = f->next) {
		fault_print(f, text, sizeof(text));
		fprintf(stderr, "%s\n", text);
	}
	if (e == ERR_SYSTEM)
		fprintf(stderr, "egressd: cannot read %s: %s\n", path, strerror(errno));
	else if (e != ERR_OK)
		fprintf(stderr, "egressd: %s has %zu faults; nothing was started\n", path, faults.error_count);
	arena_finish(&arena);
	return config;
}

int main(int argc, char **argv)
{
	static const enum log_level levels[] = { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
	struct arguments arguments = { 0 };
	struct daemon *d;
	int stop = read_arguments(argc, argv, &arguments);
	struct config *config;

	if (stop != 0)
		return stop - 1;
	config = read_config(arguments.config);
	if (config == NULL)
		return 2;
	if (arguments.check_only) {
		printf("%s: no faults\n", arguments.config);
		config_unref(config);
		return 0;
	}
	log_init("egressd", levels[config->daemon.log_level]);
	d = alloc_zeroed(sizeof(*d));
	if (d == NULL) {
		config_unref(config);
		return 2;
	}
	d->config = config;
	d->without_sandbox = arguments.without_sandbox;
	d->country_fd = d->asn_fd = d->control_fd = d->signal_fd = -1;
	stop = boot_start(d) == ERR_OK ? 0 : 2;
	if (stop == 0) {
		loop_run(d->loop);
		boot_stop(d);
	}
	config_unref(d->config);
	alloc_free(d);
	return stop;
}
