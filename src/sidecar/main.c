/* egress-sidecar: arguments, configuration, what it needs to start at all, then turn until told to stop. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "base/log.h"
#include "serve/serve.h"
#include "sidecar/confine.h"
#include "sidecar/sidecar.h"
#include "sidecar/state_lock.h"

static const char usage[] = "usage: egress-sidecar --config FILE [--check-config] [--without-sandbox]\n"
			    "       egress-sidecar --version | --help\n";

struct program {
	const char *config_path;
	bool check_only, without_sandbox;
	struct loop *loop;          /* owned */
	struct config *config;      /* counted */
	struct sidecar_parts parts; /* owned until handed over */
	struct sidecar *sidecar;    /* owned; NULL in one that serves */
	struct serve *serve;        /* owned; NULL in one that feeds a daemon */
	int state_lock;             /* owned; -1 before it is taken */
	int signals;                /* owned; -1 before it is open */
	struct loop_watch signalled;
};

/* 0: go on; else the exit status plus one. */
static int read_arguments(int argc, char **argv, struct program *p)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--config") == 0 && i + 1 < argc) {
			p->config_path = argv[++i];
		} else if (strcmp(argv[i], "--check-config") == 0) {
			p->check_only = true;
		} else if (strcmp(argv[i], "--without-sandbox") == 0) {
			p->without_sandbox = true;
		} else if (strcmp(argv[i], "--version") == 0) {
			printf("egress-sidecar %s\n", PACKAGE_VERSION);
			return 1;
		} else if (strcmp(argv[i], "--help") == 0) {
			fputs(usage, stdout);
			return 1;
		} else {
			fprintf(stderr, "egress-sidecar: unknown or incomplete argument: %s\n%s", argv[i],
				usage);
			return 3;
		}
	}
	if (p->config_path == NULL) {
		fprintf(stderr, "egress-sidecar: --config FILE is needed\n%s", usage);
		return 3;
	}
	return 0;
}

static void print_faults(const struct fault_list *faults)
{
	for (const struct fault *f = faults->first; f != NULL; f = f->next) {
		char text[FAULT_TEXT_MAX + 256];

		fault_print(f, text, sizeof(text));
		fprintf(stderr, "%s\n", text);
	}
}

static enum err read_config(struct program *p, struct fault_list *faults)
{
	enum err e = config_load(p->config_path, CONFIG_FOR_SIDECAR, faults, &p->config);

	print_faults(faults);
	if (e == ERR_SYSTEM)
		fprintf(stderr, "egress-sidecar: cannot read %s: %s\n", p->config_path,
			strerror(errno));
	else if (e != ERR_OK)
		fprintf(stderr, "egress-sidecar: %s has %zu faults; nothing was started\n",
			p->config_path, faults->error_count);
	return e;
}

static enum err lock_state(struct program *p, const char *folder)
{
	long holder = 0;
	enum err e = state_lock_take(folder, &p->state_lock, &holder);

	if (e == ERR_AGAIN)
		fprintf(stderr,
			"egress-sidecar: %s/" STATE_LOCK_NAME " is held by process %ld: another sidecar works on this state folder; "
			"stop it, or give this one a folder of its own\n",
			folder, holder);
	return e;
}

/* What must survive: it was prepared, and is ours alone to write or we do not start. */
static enum err open_state(struct program *p)
{
	const char *folder = p->config->sidecar.state;
	enum err e = lock_state(p, folder);

	if (e == ERR_AGAIN)
		return e;
	if (e == ERR_OK)
		e = sticky_open(folder, &p->parts.sticky);

	if (e == ERR_OK && access(folder, W_OK) != 0)
		e = ERR_SYSTEM;
	if (e == ERR_INVALID)
		fprintf(stderr, "egress-sidecar: %s/revoked cannot be understood; repair or remove it\n",
			folder);
	else if (e != ERR_OK)
		fprintf(stderr, "egress-sidecar: state folder %s: %s\n", folder,
			e == ERR_SYSTEM ? strerror(errno) : err_text(e));
	return e;
}

/* From here on we are nobody special. */
static enum err enter_sandbox(struct program *p)
{
	if (p->without_sandbox) {
		log_line(LOG_LEVEL_WARN, "sandbox_off why=\"--without-sandbox was given\"");
		return ERR_OK;
	}
	return confine_enter(p->config, p->config_path);
}

static enum err open_source(struct program *p, struct fault_list *faults)
{
	enum err e = sidecar_open_driver(p->loop, p->config, faults, &p->parts.driver);

	if (e == ERR_OK)
		return e;
	print_faults(faults);
	fprintf(stderr, "egress-sidecar: policy source %s: %s; nothing was started\n", p->config->sidecar.source.text, err_text(e));
	return e;
}

static void on_signal(void *arg, int fd, unsigned what)
{
	struct program *p = arg;
	struct signalfd_siginfo info;

	if (read(fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP && p->sidecar != NULL)
		sidecar_reload(p->sidecar);
	else if (info.ssi_signo == SIGHUP)
		serve_reload(p->serve, p->config_path);
	else if (p->sidecar != NULL)
		sidecar_leave(p->sidecar);
	else
		loop_stop(p->loop);
}

static enum err watch_signals(struct program *p)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
		return ERR_SYSTEM;
	p->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (p->signals < 0)
		return ERR_SYSTEM;
	loop_watch_init(&p->signalled, p->loop, p->signals, LOOP_READ, on_signal, p);
	return loop_watch_start(&p->signalled);
}

/* What feeds a daemon, with all that it holds. */
static enum err start_sidecar(struct program *p, struct fault_list *faults)
{
	struct sidecar_parts parts;
	enum err e = open_state(p);

	if (e == ERR_OK)
		e = open_source(p, faults);
	if (e != ERR_OK)
		return e;
	parts = p->parts;
	parts.config = p->config;
	parts.config_path = p->config_path;
	p->parts = (struct sidecar_parts){ 0 };
	return sidecar_create(p->loop, &parts, &p->sidecar);
}

static enum err start(struct program *p, struct fault_list *faults)
{
	enum err e = crypto_init();

	if (e == ERR_OK && !p->config->has_serve)
		e = sidecar_complete_config(p->config);
	if (e == ERR_OK) {
		p->loop = loop_create();
		e = p->loop == NULL ? ERR_NO_MEMORY : watch_signals(p);
	}
	if (e == ERR_OK)
		e = confine_prepare(p->config, !p->without_sandbox);
	if (e == ERR_OK)
		e = enter_sandbox(p);
	if (e == ERR_OK)
		e = p->config->has_serve ? serve_open(p->loop, p->config, &p->serve) : start_sidecar(p, faults);
	if (e != ERR_OK)
		fprintf(stderr, "egress-sidecar: cannot start: %s\n", err_text(e));
	return e;
}

static void stop(struct program *p)
{
	sidecar_destroy(p->sidecar);
	serve_close(p->serve);
	driver_close(p->parts.driver);
	sticky_close(p->parts.sticky);
	/* Last of what lies in the folder. */
	if (p->state_lock >= 0)
		close(p->state_lock);
	if (p->signals >= 0) {
		loop_watch_stop(&p->signalled);
		close(p->signals);
	}
	loop_destroy(p->loop);
	config_unref(p->config);
}

int main(int argc, char **argv)
{
	static const enum log_level levels[] = { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO,
						 LOG_LEVEL_DEBUG };
	struct program program = { .state_lock = -1, .signals = -1 };
	struct fault_list faults;
	struct arena arena;
	int status = read_arguments(argc, argv, &program);

	if (status != 0)
		return status - 1;
	arena_init(&arena, 0);
	fault_list_init(&faults, &arena);
	status = read_config(&program, &faults) == ERR_OK ? 0 : 2;
	if (status == 0 && program.check_only) {
		printf("%s: no faults\n", program.config_path);
	} else if (status == 0) {
		log_init("egress-sidecar", levels[program.config->has_serve ? program.config->serve.log_level :
									     program.config->sidecar.log_level]);
		fault_list_init(&faults, &arena);
		status = start(&program, &faults) == ERR_OK ? 0 : 2;
		if (status == 0)
			loop_run(program.loop);
	}
	stop(&program);
	arena_finish(&arena);
	return status;
}
