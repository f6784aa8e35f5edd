/*
 * Start and stop, as a table. Everything that the sandbox forbids (channels, pipes, netlink, the control socket) is made before it is
 * entered; threads start behind it. Only boot may end the process on failure.
 */
#include "daemon/boot.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "base/log.h"
#include "net/sockopt.h"
#include "sandbox/sandbox.h"

#define DESCRIPTORS_RESERVED 128     /* of the process: control, records, databases, …; less where there are few */
#define DESCRIPTORS_PER_WORKER 16
#define DESCRIPTORS_FOR_PIPES 1024   /* below this many in all, no pipes */
#define PIPES_PER_WORKER 32
#define SIDECAR_METRICS_MAX 65536

static unsigned worker_count(const struct daemon *d)
{
	uint64_t wanted = d->config->daemon.workers;
	long online = sysconf(_SC_NPROCESSORS_ONLN);

	if (wanted == 0)
		wanted = online < 1 ? 1 : (uint64_t)online;
	return wanted > WORKER_MAX ? WORKER_MAX : (unsigned)wanted;
}

static enum err start_crypto(struct daemon *d)
{
	return crypto_init();
}

static struct rlimit descriptors(void)
{
	struct rlimit limit = { .rlim_cur = 1024, .rlim_max = 1024 };

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	return limit;
}

static enum err start_descriptors(struct daemon *d)
{
	struct rlimit limit = descriptors();
	uint64_t fixed, most, reserved;

	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
		limit = descriptors();
	d->shared.count = worker_count(d);
	reserved = limit.rlim_cur / 4 < DESCRIPTORS_RESERVED ? limit.rlim_cur / 4 : DESCRIPTORS_RESERVED;
	sockopt_reserve_from(limit.rlim_cur > INT_MAX ? INT_MAX : (int)(limit.rlim_cur - reserved));
	d->listeners_below = limit.rlim_cur > INT_MAX ? INT_MAX : (int)(limit.rlim_cur - reserved / 2);
	fixed = reserved + d->shared.count * (uint64_t)DESCRIPTORS_PER_WORKER;
	if (limit.rlim_cur >= DESCRIPTORS_FOR_PIPES)
		fixed += d->shared.count * (PIPES_PER_WORKER * 2ull + d->config->daemon.dns_channels);
	if (fixed > limit.rlim_cur / 2)
		fixed = limit.rlim_cur / 2;
	most = (limit.rlim_cur - fixed) / 2; /* two descriptors each; tools and probes keep theirs */
	if (d->config->daemon.connections_max != 0 && d->config->daemon.connections_max < most)
		most = d->config->daemon.connections_max;
	d->connections_max = (uint32_t)most;
	log_line(LOG_LEVEL_INFO, "event=descriptors limit=%llu connections_max=%llu", (unsigned long long)limit.rlim_cur,
		 (unsigned long long)most);
	return ERR_OK;
}

static enum err start_loop(struct daemon *d)
{
	d->loop = loop_create();
	d->metrics = metrics_create();
	d->limits = limits_create();
	buf_init(&d->sidecar_metrics, SIDECAR_METRICS_MAX);
	return d->loop == NULL || d->metrics == NULL || d->limits == NULL ? ERR_NO_MEMORY : ERR_OK;
}

static void stop_loop(struct daemon *d)
{
	buf_finish(&d->sidecar_metrics);
	limits_destroy(d->limits);
	metrics_destroy(d->metrics);
	loop_destroy(d->loop);
}

static enum err start_gate(struct daemon *d)
{
	enum err e = gate_create((uint32_t)d->config->daemon.leases_max, &d->gate);

	if (e == ERR_OK)
		e = slots_init(&d->slots, d->gate);
	if (e == ERR_OK)
		e = segment_store_init(&d->segments);
	return e;
}

static void stop_gate(struct daemon *d)
{
	segment_store_finish(&d->segments);
	slots_finish(&d->slots);
	gate_destroy(d->gate);
}

static enum err start_records(struct daemon *d)
{
	const char *name = d->config->sidecar.proxy;
	struct record_observer observer = { .proxy_uid = d->proxy, .version = PACKAGE_VERSION };
	enum err e;

	snprintf(d->proxy, sizeof(d->proxy), "%s", name == NULL ? "egressd" : name);
	e = record_stream_create(d->shared.count, d->config->daemon.records_ring_mb << 20, &observer, &d->records);

	if (e == ERR_OK)
		record_stream_set_required(d->records, d->config->daemon.audit == OPTION_AUDIT_REQUIRED);
	return e;
}

/* What is in the ring now is the sidecar's to write. */
static void stop_records(struct daemon *d)
{
	record_stream_destroy(d->records);
}

static enum err start_addresses(struct daemon *d)
{
	enum err e = address_watch_open(&d->addresses);

	if (e == ERR_OK)
		e = address_watch_read(d->addresses, daemon_on_addresses, d);
	return e;
}

static void stop_addresses(struct daemon *d)
{
	address_watch_close(d->addresses);
	daemon_forget_own_set(d);
	alloc_free(d->own);
	d->own = NULL;
}

static void on_record(void *arg, const struct record *record)
{
	(void)record_stream_put(((struct daemon *)arg)->records, record);
}

static void on_record_tick(void *arg, unsigned worker)
{
	record_stream_tick(((struct daemon *)arg)->records, worker);
}

static bool has_record_room(void *arg, unsigned worker, size_t records, bool spare)
{
	struct record_stream *stream = ((struct daemon *)arg)->records;

	return record_stream_has_room(stream, worker, records, spare ? record_ring_lane_size(record_stream_ring(stream)) / 8 : 0);
}

/* Workers start with a world that knows no lease: everything is refused with not_ready. */
static enum err start_workers(struct daemon *d)
{
	struct world_options options;
	struct world_parts parts = { .options = &options };
	bool few = descriptors().rlim_cur < DESCRIPTORS_FOR_PIPES;
	enum err e = crypto_random(&d->shared.home_key, sizeof(d->shared.home_key));

	d->shared.gate = d->gate;
	d->shared.limits = d->limits;
	d->shared.on_record = on_record;
	d->shared.on_record_tick = on_record_tick;
	d->shared.has_record_room = has_record_room;
	d->shared.record_arg = d;
	reload_world_options(d, &options);
	d->world = world_create(0, &parts);
	if (d->world == NULL)
		return ERR_NO_MEMORY;
	for (unsigned i = 0; e == ERR_OK && i < d->shared.count; i++) {
		struct worker_options worker = {
			.index = i,
			.pipes = few || !d->config->daemon.splice ? 0 : PIPES_PER_WORKER,
			.channels = few ? 4 : (unsigned)d->config->daemon.dns_channels,
		};

		e = worker_create(&d->shared, &worker, d->world, &d->shared.worker[i]);
	}
	return e;
}

static void stop_workers(struct daemon *d)
{
	/* One may still hold a session that is on its way to another: all hear their mail first. */
	for (unsigned i = 0; i < d->shared.count; i++) {
		if (d->shared.worker[i] != NULL)
			loop_turn(d->shared.worker[i]->loop, 0);
	}
	for (unsigned i = 0; i < d->shared.count; i++)
		worker_destroy(d->shared.worker[i]);
	loop_turn(d->loop, 0); /* replies of their last orders */
	world_unref(d->world);
	lease_table_unref(d->table);
	geoip_unref(d->geoip);
	if (d->country_fd >= 0)
		close(d->country_fd);
	if (d->asn_fd >= 0)
		close(d->asn_fd);
}

static enum err start_control(struct daemon *d)
{
	struct sandbox_options options = { .role = SANDBOX_ROLE_DAEMON, .user = d->config->daemon.user };
	uid_t uid;
	gid_t gid;
	enum err e;

	list_init(&d->peers);
	list_init(&d->calls);
	e = channel_listen(d->config->daemon.control, &d->control_fd);
	if (e != ERR_OK || d->without_sandbox)
		return e;
	/* The sidecar is no longer root either when it comes back to this socket. */
	e = sandbox_identity(&options, &uid, &gid);
	if (e != ERR_OK)
		log_line(LOG_LEVEL_ERROR, "event=user_unknown user=%s", options.user == NULL ? "" : options.user);
	/* Not what somebody put there in its place. */
	else if (uid != geteuid() && lchown(d->config->daemon.control, uid, gid) != 0)
		e = ERR_SYSTEM;
	return e;
}

static void stop_control(struct daemon *d)
{
	admin_destroy(d->admin);
	if (d->control_fd >= 0)
		close(d->control_fd);
}

static void on_signal(void *arg, int fd, unsigned what)
{
	struct daemon *d = arg;
	struct signalfd_siginfo info;

	if (read(fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if (d->draining && info.ssi_signo != SIGHUP) {
		log_line(LOG_LEVEL_WARN, "event=stop_now signal=%u", info.ssi_signo);
		loop_stop(d->loop);
		return;
	}
	if (info.ssi_signo == SIGHUP)
		log_line(LOG_LEVEL_INFO, "event=hangup_ignored why=\"options come from the sidecar: send it SIGHUP\"");
	else
		daemon_drain(d);
}

static enum err start_signals(struct daemon *d)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
		return ERR_SYSTEM;
	d->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (d->signal_fd < 0)
		return ERR_SYSTEM;
	loop_watch_init(&d->signal_watch, d->loop, d->signal_fd, LOOP_READ, on_signal, d);
	return loop_watch_start(&d->signal_watch);
}

static void stop_signals(struct daemon *d)
{
	loop_watch_stop(&d->signal_watch);
	if (d->signal_fd >= 0)
		close(d->signal_fd);
}

static enum err start_sandbox(struct daemon *d)
{
	struct sandbox_options options = { .role = SANDBOX_ROLE_DAEMON, .user = d->config->daemon.user };
	struct sandbox_report report;

	if (d->without_sandbox) {
		log_line(LOG_LEVEL_WARN, "event=sandbox state=off why=\"--without-sandbox was given; never serve guests like this\"");
		return ERR_OK;
	}
	return sandbox_enter(&options, &report);
}

static void *worker_thread(void *worker)
{
	worker_run(worker);
	return NULL;
}

static enum err start_threads(struct daemon *d)
{
	for (unsigned i = 0; i < d->shared.count; i++) {
		int failed = pthread_create(&d->threads[i], NULL, worker_thread, d->shared.worker[i]);

		if (failed != 0) {
			errno = failed;
			return ERR_SYSTEM;
		}
		d->threads_running++;
	}
	return ERR_OK;
}

static void stop_threads(struct daemon *d)
{
	for (unsigned i = 0; i < d->threads_running; i++)
		worker_stop(d->shared.worker[i]);
	for (unsigned i = 0; i < d->threads_running; i++)
		pthread_join(d->threads[i], NULL);
	d->threads_running = 0;
}

static enum err start_service(struct daemon *d)
{
	enum err e = peers_start(d);

	if (e == ERR_OK)
		e = address_watch_start(d->addresses, d->loop, daemon_on_addresses, d);
	if (e == ERR_OK)
		e = daemon_publish(d, 0); /* the first with own addresses */
	loop_timer_init(&d->watch_timer, d->loop, daemon_watch_loops, d);
	if (e == ERR_OK)
		e = loop_timer_start(&d->watch_timer, 0);
	return e;
}

static void stop_service(struct daemon *d)
{
	peers_stop(d);
	loop_timer_cancel(&d->watch_timer);
	loop_timer_cancel(&d->drain_timer);
}

/* name; start; stop (NULL: nothing to stop) */
static const struct boot_step {
	const char *name;
	enum err (*start)(struct daemon *d);
	void (*stop)(struct daemon *d);
} steps[] = {
	{ "crypto", start_crypto, NULL },
	{ "descriptors", start_descriptors, NULL },
	{ "loop", start_loop, stop_loop },
	{ "control page", start_gate, stop_gate },
	{ "records", start_records, stop_records },
	{ "own addresses", start_addresses, stop_addresses },
	{ "workers", start_workers, stop_workers },
	{ "control socket", start_control, stop_control },
	{ "signals", start_signals, stop_signals },
	{ "sandbox", start_sandbox, NULL },
	{ "threads", start_threads, stop_threads },
	{ "service", start_service, stop_service },
};

static void stop_from(struct daemon *d, size_t count)
{
	while (count-- > 0) {
		if (steps[count].stop != NULL)
			steps[count].stop(d);
	}
}

enum err boot_start(struct daemon *d)
{
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		enum err e = steps[i].start(d);

		if (e == ERR_OK)
			continue;
		if (e == ERR_SYSTEM)
			log_line(LOG_LEVEL_ERROR, "event=boot_failed step=\"%s\" why=\"%s\"", steps[i].name, strerror(errno));
		else
			log_line(LOG_LEVEL_ERROR, "event=boot_failed step=\"%s\" why=\"%s\"", steps[i].name, err_text(e));
		stop_from(d, i + 1); /* what a failed step left half done is its stop's to undo */
		return e;
	}
	log_line(LOG_LEVEL_INFO, "event=started version=%s workers=%u control=%s", PACKAGE_VERSION, d->shared.count,
		 d->config->daemon.control);
	return ERR_OK;
}

void boot_stop(struct daemon *d)
{
	stop_from(d, ARRAY_LEN(steps));
	log_line(LOG_LEVEL_INFO, "event=stopped");
}
