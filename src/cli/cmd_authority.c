/* Control for a fleet without one, by hand or as a process: keys, keysets, and the signed documents of cells, with a beat each second. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "authority/authority.h"
#include "base/clock.h"
#include "base/text.h"
#include "cli/cli.h"
#include "config/fault.h"

#define BEAT_MS 1000
#define GATHER_MS 5      /* events of one change come in bursts */
#define RENEW_MS 30000   /* leases without an end of their own are looked at so often */
#define NAMES_MAX 64
#define DAY_MS 86400000ULL
#define EVENTS (IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE)

/* A number from an option; false with a message when it is none. */
static bool take_number(struct cli *cli, const char *name, uint64_t min, uint64_t max, uint64_t *out_value)
{
	const char *text;

	if (!cli_take_value(cli, name, &text))
		return true;
	if (text != NULL && text_to_u64(text_of(text), max, out_value) && *out_value >= min)
		return true;
	cli_fail(cli, "%s needs a number from %llu to %llu", name, (unsigned long long)min, (unsigned long long)max);
	return false;
}

static int keygen(struct cli *cli)
{
	static const char *const online[] = { "beat", "manifest", "lease" };
	uint64_t root_count = 3, threshold = 2;
	char reason[KEYRING_REASON_MAX], id[ENVELOPE_KEY_ID_MAX + 1];
	const char *role = NULL, *folder;

	cli_take_value(cli, "--role", &role);
	if (!take_number(cli, "--root-keys", 1, 8, &root_count) || !take_number(cli, "--threshold", 1, 8, &threshold) ||
	    !cli_args_hold(cli, 2, 2))
		return CLI_FAILED;
	folder = cli->args[1];
	if (role != NULL && strcmp(role, "root") != 0) {
		if (strcmp(role, "beat") != 0 && strcmp(role, "manifest") != 0 && strcmp(role, "lease") != 0)
			return cli_fail(cli, "roles are root, beat, manifest and lease");
		if (keyring_add(folder, role, id, reason) != ERR_OK)
			return cli_fail(cli, "%s", reason);
		printf("%s\n", id);
		return CLI_DONE;
	}
	/* A second root is no accident: proxies follow it only when the first one signs it. */
	if (role == NULL && keyring_has_root(folder))
		return cli_fail(cli, "%s has a root: --role root makes the next one, --role beat, manifest or lease a new key", folder);
	for (uint64_t i = 0; i < root_count; i++) {
		if (keyring_add(folder, "root", id, reason) != ERR_OK)
			return cli_fail(cli, "%s", reason);
		printf("%s\n", id);
	}
	for (size_t i = 0; role == NULL && i < ARRAY_LEN(online); i++) {
		if (keyring_add(folder, online[i], id, reason) != ERR_OK)
			return cli_fail(cli, "%s", reason);
		printf("%s\n", id);
	}
	if (keyring_write_root(folder, (size_t)root_count, (size_t)threshold, reason) != ERR_OK)
		return cli_fail(cli, "%s", reason);
	return CLI_DONE;
}

static int sign(struct cli *cli)
{
	bool is_proposal = cli_take_flag(cli, "--propose"), is_added = cli_take_flag(cli, "--add");
	uint64_t days = 365;
	struct keyring_keyset keyset = { .epoch_min = 0 };
	char reason[KEYRING_REASON_MAX], until[25];
	enum err e;

	if (is_proposal && is_added)
		return cli_fail(cli, "--propose begins and --add goes on: one of them");
	if (!take_number(cli, "--days", 1, 3650, &days) || !take_number(cli, "--epoch", 0, 1000000, &keyset.epoch_min) ||
	    !cli_args_hold(cli, 3, 3))
		return CLI_FAILED;
	keyset.exp_ms = clock_wall_ms() + days * DAY_MS;
	e = is_added	? keyring_countersign(cli->args[1], cli->args[2], &keyset, reason) :
	    is_proposal ? keyring_propose(cli->args[1], cli->args[2], &keyset, reason) :
			  keyring_sign(cli->args[1], cli->args[2], &keyset, reason);
	if (e != ERR_OK)
		return cli_fail(cli, "%s", reason);
	clock_print_wall(keyset.exp_ms, until);
	printf("keyset %llu, epoch %llu, until %s", (unsigned long long)keyset.version, (unsigned long long)keyset.epoch_min, until);
	if (keyset.missing > 0)
		printf(", signatures missing: %zu", keyset.missing);
	printf("\n");
	return CLI_DONE;
}

/* What `run` waits for. */
struct runner {
	struct cli *cli;
	struct authority *authority;
	const char *root;
	bool has_cells;   /* the root has a folder for each */
	int notify, signals;
	bool has_failed; /* the last try, which was said */
	/* Files that events named since the last round; more than that, or something else: all are looked at. */
	char names[NAMES_MAX][NAME_MAX + 1];
	size_t name_count;
	bool is_all;
};

static void say_faults(const struct fault_list *faults)
{
	for (const struct fault *f = faults->first; f != NULL; f = f->next) {
		char text[FAULT_TEXT_MAX + 256];

		fault_print(f, text, sizeof(text));
		fprintf(stderr, "%s\n", text);
	}
}

static void say_failure(struct runner *r, enum err e, const char *reason)
{
	if (e != ERR_OK && !r->has_failed)
		cli_fail(r->cli, "%s", reason);
	r->has_failed = e != ERR_OK;
}

static void publish(struct runner *r)
{
	char reason[KEYRING_REASON_MAX];
	struct authority_counts counts;
	struct fault_list faults;
	const char *names[NAMES_MAX];
	struct authority_changes changes = { names, r->name_count };
	struct arena arena;
	uint64_t began_ms = clock_mono_ms();
	enum err e;

	arena_init(&arena, 0);
	fault_list_init(&faults, &arena);
	for (size_t i = 0; i < r->name_count; i++)
		names[i] = r->names[i];
	e = authority_publish(r->authority, clock_wall_ms(), r->is_all ? NULL : &changes, &faults, &counts, reason);
	/* What failed is not known to be done. */
	r->is_all = e != ERR_OK;
	r->name_count = 0;
	say_failure(r, e, reason);
	if (e == ERR_OK && (counts.written > 0 || counts.withdrawn > 0)) {
		say_faults(&faults);
		fprintf(stderr, "published leases=%zu written=%zu withdrawn=%zu faulty=%zu ms=%llu\n", counts.leases, counts.written,
			counts.withdrawn, counts.faulty, (unsigned long long)(clock_mono_ms() - began_ms));
	}
	arena_finish(&arena);
}

static void beat(struct runner *r)
{
	char reason[KEYRING_REASON_MAX];

	say_failure(r, authority_beat(r->authority, clock_wall_ms(), reason), reason);
}

/* A folder that is not there has nothing in it. */
static bool watch_folder(const struct runner *r, const char *name, uint32_t events)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s%s", r->root, name);
	return inotify_add_watch(r->notify, path, events) >= 0 || errno == ENOENT || errno == ENOTDIR;
}

/* Again after each change: folders may have come. */
static bool watch_folders(const struct runner *r)
{
	static const char *const folders[] = { "", "/leases", "/presets", "/rulesets" };
	const struct dirent *entry;
	char path[4096];
	bool good = true;
	DIR *dir;

	for (size_t i = 0; i < ARRAY_LEN(folders); i++)
		good = watch_folder(r, folders[i], EVENTS) && good;
	if (!r->has_cells)
		return good;
	good = watch_folder(r, "/cells", EVENTS | IN_CREATE) && good;
	snprintf(path, sizeof(path), "%s/cells", r->root);
	dir = opendir(path);
	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/cells/%s", entry->d_name);
		good = watch_folder(r, path, EVENTS | IN_CREATE) && good;
		snprintf(path, sizeof(path), "/cells/%s/leases", entry->d_name);
		good = watch_folder(r, path, EVENTS) && good;
	}
	if (dir != NULL)
		closedir(dir);
	return good;
}

static bool open_waits(struct runner *r)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	r->notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
		return false;
	r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return r->notify >= 0 && r->signals >= 0 && watch_folders(r);
}

/* Take note of what changed; false: nothing that matters did. */
static bool read_events(struct runner *r)
{
	_Alignas(struct inotify_event) char bytes[16384];
	bool any = false;
	ssize_t len;

	while ((len = read(r->notify, bytes, sizeof(bytes))) > 0) {
		for (ssize_t at = 0; at < len;) {
			const struct inotify_event *event = (const void *)(bytes + at);

			at += (ssize_t)(sizeof(*event) + event->len);
			/* Files aside begin with a dot; nothing reads them. */
			if (event->len > 0 && event->name[0] == '.')
				continue;
			any = true;
			if (event->len == 0 || (event->mask & IN_ISDIR) != 0 || r->name_count == NAMES_MAX)
				r->is_all = true;
			else
				snprintf(r->names[r->name_count++], NAME_MAX + 1, "%s", event->name);
		}
	}
	return any;
}

/* Until a signal: publish what changes, beat each second. */
static void turn(struct runner *r)
{
	uint64_t beat_at_ms = 0, renew_at_ms = 0;
	bool has_changed = false;

	for (;;) {
		struct pollfd waits[2] = { { .fd = r->notify, .events = POLLIN }, { .fd = r->signals, .events = POLLIN } };
		uint64_t now_ms = clock_mono_ms();
		bool is_due = has_changed || now_ms >= renew_at_ms || (now_ms >= beat_at_ms && authority_has_new_keyset(r->authority));

		if (now_ms >= renew_at_ms) {
			r->is_all = true;
			renew_at_ms = now_ms + RENEW_MS;
		}
		if (is_due)
			publish(r);
		has_changed = false;
		if (is_due || now_ms >= beat_at_ms) {
			beat(r);
			beat_at_ms = now_ms + BEAT_MS;
		}
		now_ms = clock_mono_ms();
		if (poll(waits, 2, now_ms >= beat_at_ms ? 0 : (int)(beat_at_ms - now_ms)) < 0 && errno != EINTR)
			return;
		if ((waits[1].revents & POLLIN) != 0)
			return;
		if ((waits[0].revents & POLLIN) == 0)
			continue;
		poll(NULL, 0, GATHER_MS);
		has_changed = read_events(r);
		if (!watch_folders(r))
			cli_fail(r->cli, "cannot watch all of %s: %s", r->root, strerror(errno));
	}
}

static int run(struct cli *cli)
{
	struct authority_options options = { .keys = NULL };
	static struct runner runner = { .notify = -1, .signals = -1, .is_all = true };
	uint64_t lifetime_s = 86400;
	char reason[KEYRING_REASON_MAX];
	bool is_once = cli_take_flag(cli, "--once"), is_ready;

	runner.cli = cli;
	runner.has_cells = cli_take_flag(cli, "--cells");
	options.report_allowed = cli_take_flag(cli, "--report-allowed");
	cli_take_value(cli, "--cell", &options.cell);
	if (!take_number(cli, "--lifetime", 60, 31536000, &lifetime_s) || !cli_args_hold(cli, 4, 4))
		return CLI_FAILED;
	if ((options.cell == NULL) != runner.has_cells)
		return cli_fail(cli, "--cell NAME is needed, or --cells for one below each folder of ROOT/cells");
	options.keys = cli->args[1];
	options.root = runner.root = cli->args[2];
	options.out = cli->args[3];
	options.lifetime_ms = lifetime_s * 1000;
	if (authority_open(&options, reason, &runner.authority) != ERR_OK)
		return cli_fail(cli, "%s", reason);
	is_ready = is_once || open_waits(&runner);
	if (is_once) {
		publish(&runner);
		beat(&runner);
	} else if (is_ready) {
		turn(&runner);
	}
	if (runner.notify >= 0)
		close(runner.notify);
	if (runner.signals >= 0)
		close(runner.signals);
	authority_close(runner.authority);
	if (!is_ready)
		return cli_fail(cli, "cannot watch %s: %s", options.root, strerror(errno));
	return runner.has_failed ? CLI_FAILED : CLI_DONE;
}

int cmd_authority(struct cli *cli)
{
	if (cli->arg_count > 0 && strcmp(cli->args[0], "keygen") == 0)
		return keygen(cli);
	if (cli->arg_count > 0 && strcmp(cli->args[0], "sign") == 0)
		return sign(cli);
	if (cli->arg_count > 0 && strcmp(cli->args[0], "run") == 0)
		return run(cli);
	return cli_fail(cli, "authority keygen KEYS, authority sign KEYS OUT [--propose | --add], authority run KEYS ROOT OUT --cell NAME | --cells");
}
