/*
 * Ties source, daemon and clock together. Promises: deadlines move only for a beat whose holding every worker adopted;
 * a daemon that was there before keeps its states and deadlines until then; a reload that fails changes nothing.
 * Called by main.
 */
#include "sidecar/sidecar.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "control/channel.h"
#include "control/command.h"
#include "sidecar/freshness.h"
#include "sidecar/hand_over.h"
#include "sidecar/name_servers.h"
#include "sidecar/publish.h"
#include "sidecar/sidecar_internal.h"
#include "source/driver_signed.h"
#include "store/frames_file.h"
#include "store/frames_remote.h"

#define TICK_MS 1000
#define DIAL_WAIT_MS 1000
#define BACKOFF_FIRST_MS 50
#define BACKOFF_MAX_MS 2000
#define QUEUE_MAX (4u << 20)
#define LEAVE_LOOK_MS 50
#define LEAVE_LOOKS 6 /* for a daemon that is told to end at the same time to say so */

static void set_deadlines(struct sidecar *s)
{
	uint64_t refuse_at, cut_at;

	if (s->gate == NULL || !s->has_matched)
		return;
	freshness_deadlines(&s->freshness, &refuse_at, &cut_at);
	gate_set_deadlines(s->gate, refuse_at, cut_at);
	gate_set_control(s->gate, freshness_state(&s->freshness, clock_mono_ns()));
}

static void send_status(struct sidecar *s)
{
	static char figures[STATUS_TEXT_MAX];
	struct ctl_msg msg = { .type = CTL_STATUS };

	if (s->channel == NULL || channel_queued(s->channel) > 0)
		return;
	msg.field[0].bytes = (struct text){ figures, status_figures(s, figures, sizeof(figures)) };
	msg.field[1].bytes = text_of(freshness_word(freshness_state(&s->freshness, clock_mono_ns())));
	if (channel_send(s->channel, &msg, -1) != ERR_OK)
		return; /* the next one is a second away */
}

/* What guests notice is in the log, with the reason in the lines before it. */
static void say_state(struct sidecar *s)
{
	uint64_t now_ns = clock_mono_ns();
	enum gate_control state = freshness_state(&s->freshness, now_ns);

	if (state == s->state_said)
		return;
	s->state_said = state;
	log_line(state > GATE_LAG ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "control_state state=%s guests=%s beat_age_ms=%llu", freshness_word(state),
		 state == GATE_LIVE || state == GATE_LAG ? "served" : state == GATE_CUT || state == GATE_HALT ? "closed" : "refused",
		 s->freshness.has_beat ? (unsigned long long)(now_ns - s->freshness.beat_ns) / 1000000 : 0);
}

static void send_report(struct sidecar *s)
{
	static char body[REPORT_MAX];
	size_t len = s->report == NULL ? 0 : status_report(s, body, sizeof(body));

	if (len > 0)
		report_say(s->report, (struct text){ body, len });
}

static void on_adopted(void *arg)
{
	struct sidecar *s = arg;

	if (!s->is_named_missing)
		freshness_match(&s->freshness);
	s->has_matched = s->has_matched || s->freshness.has_match;
	set_deadlines(s);
	send_status(s);
	send_report(s);
	log_line(LOG_LEVEL_INFO, "policy_adopted");
}

static void on_refused(void *arg, uint64_t version, struct text why)
{
	struct sidecar *s = arg;
	char reason[256];

	text_escape(why, reason, sizeof(reason));
	s->refusals++;
	log_line(LOG_LEVEL_ERROR, "policy_refused version=%llu why=\"%s\"", (unsigned long long)version,
		 reason);
}

static const struct publish_events publish_events = { on_adopted, on_refused, sidecar_on_revoked };

static void visit_listener(void *arg, struct text listener)
{
	struct sidecar *s = arg;

	if (hand_over_names_add(s->hand_over, listener) == ERR_OK)
		return;
	log_line(LOG_LEVEL_ERROR, "listener_not_added error=\"%s\"", err_text(ERR_NO_MEMORY));
	/* With the next holding again. */
	s->listeners_serial = 0;
}

static void refresh_listeners(struct sidecar *s)
{
	s->listeners_serial = publish_listeners_serial(s->publish);
	hand_over_names_begin(s->hand_over);
	publish_visit_listeners(s->publish, visit_listener, s);
	hand_over_names_end(s->hand_over);
}

static enum err on_holding(void *arg, const struct holding *holding, uint64_t *out_receipt)
{
	struct sidecar *s = arg;
	enum err e = publish_offer(s->publish, holding, out_receipt);

	if (!publish_is_adopted(s->publish))
		freshness_miss(&s->freshness, clock_mono_ns());
	if (e == ERR_OK && publish_listeners_serial(s->publish) != s->listeners_serial)
		refresh_listeners(s);
	return e;
}

/* Does control say something newer about leases that were revoked by hand? */
static void review_sticky(struct sidecar *s)
{
	size_t i = sticky_count(s->sticky);

	while (i-- > 0) {
		const char *lease = sticky_at(s->sticky, i);
		struct sticky_state state;
		char id[STICKY_ID_MAX + 1];
		bool awaits;

		if (!publish_find(s->publish, lease, &state.rev) ||
		    !driver_print(s->driver, lease, state.print))
			continue;
		snprintf(id, sizeof(id), "%s", lease);
		if (!sticky_review(s->sticky, id, &state))
			continue;
		log_line(LOG_LEVEL_INFO, "revocation_lifted lease=%s", id);
		if (publish_set_by_hand(s->publish, id, false, &awaits) != ERR_OK)
			log_line(LOG_LEVEL_ERROR, "revocation_not_lifted lease=%s", id);
	}
}

static void on_beat(void *arg, uint64_t beat_ns)
{
	struct sidecar *s = arg;

	review_sticky(s);
	s->is_named_missing = false;
	freshness_beat(&s->freshness, beat_ns, publish_is_adopted(s->publish), clock_mono_ns());
	s->has_matched = s->has_matched || publish_is_adopted(s->publish);
	set_deadlines(s);
}

static void on_missing(void *arg, uint64_t beat_ns)
{
	struct sidecar *s = arg;

	s->is_named_missing = true;
	freshness_beat(&s->freshness, beat_ns, false, clock_mono_ns());
	set_deadlines(s);
}

static void on_halt(void *arg, bool is_halted)
{
	struct sidecar *s = arg;

	freshness_halt(&s->freshness, is_halted, clock_mono_ns());
	set_deadlines(s);
}

static void on_time(void *arg, uint64_t wall_ms, uint64_t mono_ns)
{
	struct sidecar *s = arg;

	publish_set_time(s->publish, wall_ms, mono_ns);
}

static const struct driver_events driver_events = { on_holding, on_beat, on_missing, on_halt, on_time };

static void hang_up(struct sidecar *s)
{
	publish_disconnect(s->publish);
	hand_over_disconnect(s->hand_over);
	drain_detach(s->drain);
	sidecar_forget_calls(s);
	channel_close(s->channel);
	s->channel = NULL;
	gate_destroy(s->gate);
	s->gate = NULL;
	s->has_matched = false;
	freshness_miss(&s->freshness, clock_mono_ns());
}

static void dial_later(struct sidecar *s)
{
	if (loop_timer_start(&s->dial, s->backoff_ms) != ERR_OK)
		log_line(LOG_LEVEL_ERROR, "timer_not_started name=dial");
	s->backoff_ms = s->backoff_ms * 2 < BACKOFF_MAX_MS ? s->backoff_ms * 2 : BACKOFF_MAX_MS;
}

static void lose(struct sidecar *s, const char *why)
{
	log_line(LOG_LEVEL_WARN, "daemon_lost why=\"%s\"", why);
	s->reconnects++;
	hang_up(s);
	dial_later(s);
}

static void on_closed(void *arg, struct channel *c, enum err why)
{
	lose(arg, err_text(why));
}

static void on_drained(void *arg, struct channel *c)
{
	struct sidecar *s = arg;

	if (s->gate == NULL)
		return;
	hand_over_on_drained(s->hand_over);
	publish_on_drained(s->publish);
}

/* The daemon's greeting: map the page, hand over, publish. */
static bool on_welcome(struct sidecar *s, const struct ctl_msg *msg, int page)
{
	struct gate *gate;
	enum err e;

	if (s->gate != NULL || msg->field[0].number != CTL_MSG_VERSION ||
	    msg->field[1].number == 0 || msg->field[1].number > 1024) {
		close(page);
		return false;
	}
	e = gate_map(page, &gate);
	close(page);
	if (e != ERR_OK || gate_slot_count(gate) != msg->field[2].number) {
		if (e == ERR_OK)
			gate_destroy(gate);
		return false;
	}
	s->gate = gate;
	s->backoff_ms = BACKOFF_FIRST_MS;
	log_line(LOG_LEVEL_INFO, "daemon_connected workers=%u slots=%u",
		 (unsigned)msg->field[1].number, gate_slot_count(gate));
	hand_over_connect(s->hand_over, s->channel, (unsigned)msg->field[1].number);
	publish_connect(s->publish, s->channel, gate, msg->field[3].number);
	return true;
}

/* The daemon's ring of records. Without memory for it they stay there. */
static bool on_records(struct sidecar *s, const struct ctl_msg *msg, int fd)
{
	struct record_ring *ring;
	enum err e = record_ring_map(fd, &ring);

	close(fd);
	if (e == ERR_OK)
		e = drain_attach(s->drain, ring, msg->field[0].number);
	if (e != ERR_OK)
		log_line(LOG_LEVEL_ERROR, "records_not_attached error=\"%s\"", err_text(e));
	return e != ERR_INVALID;
}

/* False: the daemon broke the protocol. */
static bool dispatch(struct sidecar *s, const struct ctl_msg *msg, int fd)
{
	if (msg->type == CTL_WELCOME)
		return on_welcome(s, msg, fd);
	if (s->gate == NULL)
		return false;
	switch (msg->type) {
	case CTL_RECORDS:
		return on_records(s, msg, fd);
	case CTL_SLOTS:
		return publish_on_slots(s->publish, msg->field[0].number, msg->field[1].bytes);
	case CTL_ACK:
		return publish_on_ack(s->publish, msg->field[0].number);
	case CTL_NACK:
		return publish_on_nack(s->publish, msg->field[0].number, msg->field[1].bytes);
	case CTL_REVOKED:
		publish_on_revoked(s->publish, msg->field[0].number, msg->field[1].number,
				   msg->field[2].number);
		return true;
	case CTL_COMMAND:
		sidecar_run_command(s, msg);
		return true;
	default:
		return false;
	}
}

static void on_message(void *arg, struct channel *c, const struct ctl_msg *msg, int fd)
{
	struct sidecar *s = arg;

	if (!dispatch(s, msg, fd))
		lose(s, "it broke the protocol");
}

static enum err greet(struct sidecar *s)
{
	struct ctl_msg msg = { .type = CTL_HELLO };

	msg.field[0].number = CTL_MSG_VERSION;
	msg.field[1].bytes = text_of("sidecar");
	msg.field[2].bytes = text_of(PACKAGE_VERSION);
	return channel_send(s->channel, &msg, -1);
}

static void on_dial(void *arg)
{
	struct sidecar *s = arg;
	const char *path = s->config->daemon.control;
	enum err e;
	int fd;

	e = channel_dial(path, DIAL_WAIT_MS, &fd);
	if (e == ERR_OK)
		e = channel_open(s->loop, fd, CTL_FROM_DAEMON, QUEUE_MAX, on_message, on_closed, s,
				 &s->channel);
	if (e != ERR_OK) {
		log_limited(&s->complaint, LOG_LEVEL_WARN, "daemon_not_reached path=%s error=\"%s\"",
			    path, err_text(e));
		dial_later(s);
		return;
	}
	channel_tell_drained(s->channel, on_drained);
	if (greet(s) != ERR_OK)
		lose(s, "it hung up");
}

/* Was the configuration file, or the machine's list of name servers, replaced? */
static bool is_config_replaced(struct sidecar *s)
{
	struct file_mark now[2] = { 0 };
	const char *paths[2] = { s->config_path, "/etc/resolv.conf" };
	bool differs;

	for (unsigned i = 0; i < 2; i++) {
		struct stat st;

		if (stat(paths[i], &st) == 0)
			now[i] = (struct file_mark){ st.st_dev, st.st_ino, st.st_size,
						     st.st_mtim.tv_sec, st.st_mtim.tv_nsec };
	}
	differs = memcmp(now, s->marks, sizeof(now)) != 0;
	memcpy(s->marks, now, sizeof(now));
	return differs;
}

static void on_tick(void *arg)
{
	struct sidecar *s = arg;

	if (loop_timer_start(&s->tick, TICK_MS) != ERR_OK)
		log_line(LOG_LEVEL_ERROR, "timer_not_started name=tick");
	if (is_config_replaced(s))
		sidecar_reload(s);
	publish_tick(s->publish);
	hand_over_tick(s->hand_over);
	drain_tick(s->drain);
	set_deadlines(s);
	say_state(s);
	send_status(s);
	send_report(s);
}

/* Where signed documents come from. */
static enum err open_frames(struct loop *loop, const struct config *config, struct frames_source **out_source)
{
	if (config->sidecar.source.kind == OPTION_SOURCE_FILE)
		return frames_file_open(loop, config->sidecar.source.text, NULL, out_source);
	return frames_remote_open(loop, &config->sidecar, out_source);
}

static enum err open_signed(struct loop *loop, const struct config *config, struct fault_list *faults, struct driver **out_driver)
{
	struct driver_signed_options options = { .cell = config->sidecar.cell,
						 .ceiling = config->sidecar.ceiling,
						 .keys = config->sidecar.keys,
						 .state = config->sidecar.state,
						 .refuse_after_ms = config->daemon.refuse_after_s * 1000,
						 .report_allowed = config->daemon.report_allowed };
	enum err e = open_frames(loop, config, &options.source);

	return e == ERR_OK ? driver_signed_open(loop, &options, faults, out_driver) : e;
}

enum err sidecar_open_driver(struct loop *loop, const struct config *config, struct fault_list *faults,
			     struct driver **out_driver)
{
	const struct sidecar_options *options = &config->sidecar;
	struct driver_file_options file = { .root = options->source.text,
					    .ceiling = options->ceiling,
					    .report_allowed = config->daemon.report_allowed };

	if (options->source.kind == OPTION_SOURCE_FILE && options->trust == OPTION_TRUST_LOCAL)
		return driver_file_open(loop, &file, faults, out_driver);
	return open_signed(loop, config, faults, out_driver);
}

enum err sidecar_complete_config(struct config *config)
{
	struct endpoint servers[NAME_SERVERS_MAX], *copy;
	size_t count;

	if (config->daemon.name_servers.count > 0)
		return ERR_OK;
	count = name_servers_read(servers);
	if (count == 0) {
		log_line(LOG_LEVEL_WARN, "no_name_servers why=\"neither configured nor in /etc/resolv.conf\"");
		return ERR_OK;
	}
	copy = arena_take_array(&config->arena, count, sizeof(*copy));
	if (copy == NULL)
		return ERR_NO_MEMORY;
	memcpy(copy, servers, count * sizeof(*copy));
	config->daemon.name_servers = (struct option_endpoints){ copy, count };
	return ERR_OK;
}

static enum err revoke_sticky(struct sidecar *s)
{
	for (size_t i = 0; i < sticky_count(s->sticky); i++) {
		bool awaits;
		enum err e = publish_set_by_hand(s->publish, sticky_at(s->sticky, i), true, &awaits);

		if (e != ERR_OK)
			return e;
	}
	return ERR_OK;
}

static enum err open_report(struct sidecar *s)
{
	const struct sidecar_options *o = &s->config->sidecar;
	struct report_options options = { .urls = o->reports != NULL ? o->reports : o->source.text,
					  .proxy = o->proxy,
					  .tls = { o->tls_ca, o->tls_certificate, o->tls_key } };

	if (o->proxy == NULL || (o->reports == NULL && o->source.kind != OPTION_SOURCE_HTTPS))
		return ERR_OK;
	return report_open(s->loop, &options, &s->report);
}

static struct drain_options drain_options_of(const struct config *config)
{
	const struct sidecar_options *o = &config->sidecar;

	return (struct drain_options){
		.records = config->daemon.records,
		.is_audit_required = config->daemon.audit == OPTION_AUDIT_REQUIRED,
		.decisions = o->decisions,
		.proxy = o->proxy,
		.tls = { o->tls_ca, o->tls_certificate, o->tls_key },
		.state = o->state,
		.spool_bytes_max = o->spool_mb << 20,
	};
}

static enum err open_drain(struct sidecar *s)
{
	struct drain_options options = drain_options_of(s->config);

	return drain_open(s->loop, &options, &s->drain);
}

static void on_leave(void *arg)
{
	struct sidecar *s = arg;

	if (s->channel == NULL || (++s->leave_looks >= LEAVE_LOOKS && !drain_is_daemon_draining(s->drain)) ||
	    loop_timer_start(&s->leave, LEAVE_LOOK_MS) != ERR_OK)
		loop_stop(s->loop);
}

void sidecar_leave(struct sidecar *s)
{
	if (s->leave.started)
		loop_stop(s->loop);
	else
		on_leave(s);
}

enum err sidecar_create(struct loop *loop, const struct sidecar_parts *parts, struct sidecar **out_sidecar)
{
	struct sidecar *s = alloc_zeroed(sizeof(*s));
	enum err e = ERR_NO_MEMORY;

	if (s == NULL) {
		driver_close(parts->driver);
		sticky_close(parts->sticky);
		return e;
	}
	s->loop = loop;
	s->config = config_ref(parts->config);
	s->config_path = parts->config_path;
	s->driver = parts->driver;
	s->sticky = parts->sticky;
	s->backoff_ms = BACKOFF_FIRST_MS;
	s->complaint = (struct log_limit){ .burst = 3, .interval_ms = 60000 };
	list_init(&s->calls);
	freshness_init(&s->freshness, s->config->daemon.refuse_after_s, s->config->daemon.cut_after_s);
	loop_timer_init(&s->dial, loop, on_dial, s);
	loop_timer_init(&s->tick, loop, on_tick, s);
	loop_timer_init(&s->leave, loop, on_leave, s);
	is_config_replaced(s);
	e = open_report(s);
	if (e == ERR_OK)
		e = open_drain(s);
	if (e == ERR_OK)
		e = hand_over_create(s->config, &s->hand_over);
	if (e == ERR_OK)
		e = publish_create(&publish_events, s, &s->publish);
	if (e == ERR_OK)
		e = revoke_sticky(s);
	if (e == ERR_OK)
		e = loop_timer_start(&s->tick, TICK_MS);
	if (e == ERR_OK)
		e = loop_timer_start(&s->dial, 0);
	if (e == ERR_OK)
		e = driver_start(s->driver, &driver_events, s);
	if (e != ERR_OK) {
		sidecar_destroy(s);
		return e;
	}
	*out_sidecar = s;
	return ERR_OK;
}

void sidecar_destroy(struct sidecar *s)
{
	if (s == NULL)
		return;
	loop_timer_cancel(&s->dial);
	loop_timer_cancel(&s->tick);
	loop_timer_cancel(&s->leave);
	driver_close(s->driver);
	if (s->publish != NULL && s->hand_over != NULL)
		hang_up(s);
	drain_close(s->drain);
	publish_destroy(s->publish);
	hand_over_destroy(s->hand_over);
	report_close(s->report);
	sticky_close(s->sticky);
	config_unref(s->config);
	alloc_free(s);
}

static bool needs_new_driver(const struct config *a, const struct config *b)
{
	const char *ceiling_a = a->sidecar.ceiling, *ceiling_b = b->sidecar.ceiling;

	return a->daemon.report_allowed != b->daemon.report_allowed ||
	       (a->sidecar.trust == OPTION_TRUST_SIGNED && a->daemon.refuse_after_s != b->daemon.refuse_after_s) ||
	       strcmp(ceiling_a == NULL ? "" : ceiling_a, ceiling_b == NULL ? "" : ceiling_b) != 0;
}

static void say_restart(void *arg, const struct option_row *row)
{
	if (row->reload == OPTION_RESTART)
		log_line(LOG_LEVEL_WARN, "option_waits_for_restart name=%s", row->name);
}

static void adopt_config(struct sidecar *s, struct config *config, struct driver *driver)
{
	struct config *before = s->config;
	struct drain_options records = drain_options_of(config);

	config_compare_daemon(before, config, say_restart, NULL);
	s->config = config;
	freshness_set_bounds(&s->freshness, config->daemon.refuse_after_s, config->daemon.cut_after_s);
	if (hand_over_set_config(s->hand_over, config) != ERR_OK)
		log_line(LOG_LEVEL_ERROR, "listeners_incomplete error=\"%s\"", err_text(ERR_NO_MEMORY));
	refresh_listeners(s);
	drain_set_options(s->drain, &records);
	config_unref(before);
	if (driver == NULL)
		return;
	driver_close(s->driver);
	s->driver = driver;
	if (driver_start(driver, &driver_events, s) != ERR_OK)
		log_line(LOG_LEVEL_ERROR, "policy_source_not_started");
}

void sidecar_reload(struct sidecar *s)
{
	struct config *config = NULL;
	struct driver *driver = NULL;
	struct fault_list faults;
	struct arena arena;
	enum err e;

	arena_init(&arena, 0);
	fault_list_init(&faults, &arena);
	e = config_load(s->config_path, CONFIG_FOR_SIDECAR, &faults, &config);
	if (e == ERR_OK)
		e = sidecar_complete_config(config);
	if (e == ERR_OK && needs_new_driver(s->config, config))
		e = sidecar_open_driver(s->loop, config, &faults, &driver);
	for (const struct fault *f = faults.first; f != NULL; f = f->next) {
		char text[FAULT_TEXT_MAX + 256];

		fault_print(f, text, sizeof(text));
		log_line(LOG_LEVEL_ERROR, "configuration_fault text=\"%s\"", text);
	}
	arena_finish(&arena);
	if (e != ERR_OK) {
		s->config_failures++;
		log_line(LOG_LEVEL_ERROR, "configuration_kept why=\"the new one is not sound: %s\"",
			 err_text(e));
		config_unref(config);
		return;
	}
	adopt_config(s, config, driver);
	drain_reopen(s->drain);
	log_line(LOG_LEVEL_INFO, "configuration_read");
}
