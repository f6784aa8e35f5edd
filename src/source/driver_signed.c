/*
 * From frames to holdings and beats. Promises that nothing is in force that the manifest in hand does not name, that what is gone from the
 * store leaves at once, and that a beat counts only while what it names is held. Knows no store. Called through driver.h.
 */
#include "source/driver_signed.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/sink.h"
#include "compiler/source.h"
#include "delivery/report.h"
#include "source/accept.h"
#include "source/ceiling.h"
#include "source/floors.h"
#include "source/signed_set.h"

#define TICK_MS 1000
#define NACK_ROOM 2048          /* bytes that one takes in a report at most, and the end */
#define RELIST_NS 1000000000ULL /* so long a mismatch is given before everything is listed again */
#define KEYS_MAX 8192           /* bytes of the `keys` file */

/* A document that there is one of: the last that was put, and whether it was looked at. */
struct single {
	char *bytes; /* owned; NULL: none */
	size_t len;
	bool is_due;
};

/* What a beat said of our cell. */
struct beat {
	uint64_t ns;              /* our clock when control was alive */
	uint64_t seq, iat_ms, keyset, manifest_seq;
	uint8_t manifest_sha256[32];
};

struct driver_signed {
	struct driver driver;
	const struct driver_events *events; /* borrowed, static */
	void *arg;                          /* borrowed */
	struct frames_source *source;       /* owned */
	struct loop_timer tick;
	struct floors *floors;              /* owned, as all that follow */
	struct accept *accept;
	struct ceiling *ceiling;
	struct signed_set *set;
	char cell[LEASE_DOC_ID_MAX + 1];
	uint64_t refuse_after_ms;

	struct single keyset, manifest, mark;
	bool in_snapshot, has_listed;
	bool has_manifest;
	struct manifest_doc held;           /* without its cell */
	uint8_t held_sha256[32];
	bool is_match;                      /* what is in force is what `held` says */
	uint64_t mismatch_since_ns;         /* 0: none */
	bool has_beat, is_named_held, is_halted;
	struct beat beat;
	uint64_t breaks[FRAMES_BREAK_COUNT], relists;
	struct log_limit complaint;
};

static struct driver_signed *of(struct driver *d)
{
	return CONTAINER_OF(d, struct driver_signed, driver);
}

static void keep_single(struct driver_signed *d, struct single *single, struct text bytes)
{
	char *copy;

	if (bytes.len > ENVELOPE_MAX)
		bytes.len = ENVELOPE_MAX + 1;
	copy = alloc_copy(bytes.len == 0 ? "" : bytes.at, bytes.len);
	if (copy == NULL) {
		log_limited(&d->complaint, LOG_LEVEL_ERROR, "document_not_kept error=\"%s\"", err_text(ERR_NO_MEMORY));
		return;
	}
	alloc_free(single->bytes);
	*single = (struct single){ copy, bytes.len, true };
}

static enum accept_result examine(struct driver_signed *d, struct single *single, enum envelope_type type, struct accept_doc *doc)
{
	enum accept_result result;

	single->is_due = false;
	accept_doc_init(doc, type, NULL, (struct text){ single->bytes, single->len });
	result = accept_examine(d->accept, doc);
	if (result != ACCEPT_OK)
		log_limited(&d->complaint, LOG_LEVEL_WARN, "document_refused key=%s result=%s pointer=%s", envelope_type_word(type),
			    accept_result_word(result), doc->faults.first == NULL ? "" : doc->faults.first->pointer);
	return result;
}

/* True when another keyset is in use now. */
static bool examine_keyset(struct driver_signed *d)
{
	uint64_t before = accept_keyset_version(d->accept);
	struct accept_doc doc;

	if (!d->keyset.is_due)
		return false;
	/* Tried again each second: the disk may come back. */
	if (examine(d, &d->keyset, ENVELOPE_KEYSET, &doc) == ACCEPT_NOT_KEPT)
		d->keyset.is_due = true;
	accept_doc_finish(&doc);
	return accept_keyset_version(d->accept) != before;
}

static void examine_manifest(struct driver_signed *d)
{
	struct accept_doc doc;

	if (!d->manifest.is_due)
		return;
	switch (examine(d, &d->manifest, ENVELOPE_MANIFEST, &doc)) {
	case ACCEPT_OK:
		d->has_manifest = true;
		d->held = doc.is.manifest;
		d->held.cell = d->cell;
		memcpy(d->held_sha256, doc.sha256, 32);
		break;
	case ACCEPT_NOT_KEPT:
		d->manifest.is_due = true;
		break;
	default:
		break;
	}
	accept_doc_finish(&doc);
}

/* When control was alive, by our clock; earlier by what the beat's own life is shorter than refuse_after, so that it ends with it. */
static uint64_t beat_time(const struct driver_signed *d, const struct beat_doc *doc, uint64_t now_ns)
{
	uint64_t wall_ms = accept_wall_ms(d->accept), life_ms = doc->exp_ms - doc->iat_ms;
	uint64_t age_ms = wall_ms > doc->iat_ms ? wall_ms - doc->iat_ms : 0;

	if (life_ms < d->refuse_after_ms)
		age_ms += d->refuse_after_ms - life_ms;
	return now_ns > age_ms * 1000000 ? now_ns - age_ms * 1000000 : 0;
}

static void take_beat(struct driver_signed *d, const struct beat_doc *doc)
{
	const struct beat_doc_cell *cell = beat_doc_find(doc, d->cell);
	uint64_t now_ns = clock_mono_ns();

	d->beat = (struct beat){ .ns = beat_time(d, doc, now_ns),
				 .seq = doc->seq,
				 .iat_ms = doc->iat_ms,
				 .keyset = doc->keyset,
				 .manifest_seq = cell->seq };
	memcpy(d->beat.manifest_sha256, cell->manifest_sha256, 32);
	d->has_beat = true;
	d->events->on_time(d->arg, doc->iat_ms, now_ns);
}

/* True when a beat was accepted that is to be told. */
static bool examine_mark(struct driver_signed *d)
{
	enum accept_result result;
	struct accept_doc doc;

	if (!d->mark.is_due)
		return false;
	result = examine(d, &d->mark, ENVELOPE_BEAT, &doc);
	if (result == ACCEPT_OK)
		take_beat(d, &doc.is.beat);
	accept_doc_finish(&doc);
	return result == ACCEPT_OK;
}

/* Is what the last beat names what is in force? A manifest may be ahead of the beat. */
static bool is_named_held(const struct driver_signed *d)
{
	const struct beat *beat = &d->beat;

	return d->has_beat && d->is_match && accept_keyset_version(d->accept) >= beat->keyset &&
	       (d->held.seq > beat->manifest_seq ||
		(d->held.seq == beat->manifest_seq && memcmp(d->held_sha256, beat->manifest_sha256, 32) == 0));
}

static void match(struct driver_signed *d)
{
	d->is_match = d->has_manifest && signed_set_match(d->set, d->held.root);
	if (d->is_match)
		d->mismatch_since_ns = 0;
	else if (d->mismatch_since_ns == 0)
		d->mismatch_since_ns = clock_mono_ns();
}

/* Offer what changed, and once more all of it when the receiver wants that. */
static enum err offer_holding(struct driver_signed *d)
{
	struct holding holding = { .base = 0 };
	uint64_t receipt;
	enum err e;

	do {
		e = signed_set_holding(d->set, &holding);
		if (e == ERR_OK)
			e = d->events->on_holding(d->arg, &holding, &receipt);
		signed_set_taken(d->set, e == ERR_OK ? receipt : 0);
	} while (e == ERR_NOT_FOUND && holding.base != 0);
	return e;
}

static void offer(struct driver_signed *d)
{
	enum err e = signed_set_is_changed(d->set) ? offer_holding(d) : ERR_OK;

	if (e != ERR_OK)
		log_limited(&d->complaint, LOG_LEVEL_ERROR, "policy_not_taken error=\"%s\"", err_text(e));
}

static void tell_beat(struct driver_signed *d, bool is_new)
{
	bool is_held = is_named_held(d) && !signed_set_is_changed(d->set);

	if (d->has_beat && (is_new || is_held != d->is_named_held)) {
		if (is_held)
			d->events->on_beat(d->arg, d->beat.ns);
		else
			d->events->on_missing(d->arg, d->beat.ns);
	}
	d->is_named_held = is_held;
}

static void tell_halt(struct driver_signed *d)
{
	bool is_halted = floors_is_broken(d->floors) || accept_keyset_is_expired(d->accept);

	if (is_halted == d->is_halted)
		return;
	d->is_halted = is_halted;
	log_line(is_halted ? LOG_LEVEL_ERROR : LOG_LEVEL_WARN, "control_halt on=%d floors_broken=%d keyset_expired=%d", is_halted,
		 floors_is_broken(d->floors), accept_keyset_is_expired(d->accept));
	d->events->on_halt(d->arg, is_halted);
}

/* All that was put has been put: believe what can be believed. */
static void settle(struct driver_signed *d)
{
	bool is_other = examine_keyset(d), is_new;

	if (is_other) {
		d->manifest.is_due = d->manifest.bytes != NULL;
		d->mark.is_due = d->mark.bytes != NULL;
		/* Signed by whom the new keyset may not know. */
		d->has_manifest = false;
	}
	examine_manifest(d);
	signed_set_examine(d->set, is_other);
	is_new = examine_mark(d);
	match(d);
	offer(d);
	tell_beat(d, is_new);
	tell_halt(d);
}

static void on_snap_begin(void *arg)
{
	struct driver_signed *d = arg;

	d->in_snapshot = true;
	signed_set_begin(d->set);
}

static void on_put(void *arg, struct text key, struct text envelope)
{
	struct driver_signed *d = arg;

	if (text_is(key, "keyset"))
		keep_single(d, &d->keyset, envelope);
	else if (text_is(key, "m"))
		keep_single(d, &d->manifest, envelope);
	else
		signed_set_put(d->set, key, envelope);
}

static void on_del(void *arg, struct text key)
{
	struct driver_signed *d = arg;

	/* A keyset or manifest that is gone changes nothing: what is held stays what was signed, and time decides. */
	signed_set_del(d->set, key);
}

static void on_snap_end(void *arg)
{
	struct driver_signed *d = arg;

	d->in_snapshot = false;
	d->has_listed = true;
	signed_set_end(d->set);
	settle(d);
}

static void on_settled(void *arg)
{
	struct driver_signed *d = arg;

	if (!d->in_snapshot && d->has_listed)
		settle(d);
}

static void on_mark(void *arg, struct text envelope)
{
	struct driver_signed *d = arg;

	keep_single(d, &d->mark, envelope);
	on_settled(d);
}

static void on_break(void *arg, enum frames_break why)
{
	struct driver_signed *d = arg;

	d->in_snapshot = false;
	d->breaks[why]++;
	log_limited(&d->complaint, LOG_LEVEL_WARN, "store_lost why=%s", frames_break_word(why));
}

static const struct frames_events frames_events = { on_snap_begin, on_put,     on_del,  on_snap_end,
						    on_mark,	   on_settled, on_break };

static void on_tick(void *arg)
{
	struct driver_signed *d = arg;

	if (loop_timer_start(&d->tick, TICK_MS) != ERR_OK)
		log_limited(&d->complaint, LOG_LEVEL_ERROR, "timer_not_started");
	floors_flush(d->floors);
	if (ceiling_refresh(d->ceiling)) {
		signed_set_recompile(d->set);
		log_line(ceiling_is_sound(d->ceiling) ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR, "ceiling_read sound=%d",
			 ceiling_is_sound(d->ceiling));
	}
	if (d->has_listed && !d->in_snapshot)
		settle(d);
	tell_halt(d);
	if (d->mismatch_since_ns != 0 && d->has_manifest && clock_mono_ns() - d->mismatch_since_ns > RELIST_NS) {
		d->mismatch_since_ns = clock_mono_ns();
		d->relists++;
		frames_relist(d->source);
	}
}

static enum err on_start(struct driver *driver, const struct driver_events *events, void *arg)
{
	struct driver_signed *d = of(driver);
	enum err e = loop_timer_start(&d->tick, TICK_MS);

	d->events = events;
	d->arg = arg;
	if (e == ERR_OK)
		tell_halt(d);
	return e == ERR_OK ? frames_start(d->source, &frames_events, d) : e;
}

static void on_close(struct driver *driver)
{
	struct driver_signed *d = of(driver);

	loop_timer_cancel(&d->tick);
	frames_close(d->source);
	signed_set_destroy(d->set);
	accept_destroy(d->accept);
	ceiling_close(d->ceiling);
	floors_close(d->floors);
	alloc_free(d->keyset.bytes);
	alloc_free(d->manifest.bytes);
	alloc_free(d->mark.bytes);
	alloc_free(d);
}

static bool on_print(struct driver *driver, const char *lease, uint8_t out_print[STICKY_PRINT_LEN])
{
	return signed_set_print(of(driver)->set, lease, out_print);
}

static void on_visit_faults(struct driver *driver, void (*visit)(void *arg, const struct fault *fault), void *arg)
{
	signed_set_visit_faults(of(driver)->set, visit, arg);
}

static uint64_t count_metric(const struct driver_signed *d, enum envelope_type type, unsigned result)
{
	const char *metric = accept_result_metric((enum accept_result)result);
	uint64_t count = 0;

	for (unsigned i = 0; i < ACCEPT_RESULT_COUNT; i++)
		if (strcmp(accept_result_metric((enum accept_result)i), metric) == 0)
			count += accept_count(d->accept, type, (enum accept_result)i);
	return count;
}

static void on_figures(struct driver *driver, struct sink *out)
{
	struct driver_signed *d = of(driver);

	sink_text(out, "# HELP egress_control_documents_total Documents examined, by what came of them.\n"
		       "# TYPE egress_control_documents_total counter\n");
	for (unsigned type = 0; type < ENVELOPE_TYPE_COUNT; type++) {
		for (unsigned i = 0; i < ACCEPT_RESULT_COUNT; i++) {
			const char *metric = accept_result_metric((enum accept_result)i);

			/* Several results in a row share a word. */
			if (i > 0 && strcmp(metric, accept_result_metric((enum accept_result)(i - 1))) == 0)
				continue;
			sink_format(out, "egress_control_documents_total{type=\"%s\",result=\"%s\"} %llu\n",
				    envelope_type_word((enum envelope_type)type), metric,
				    (unsigned long long)count_metric(d, (enum envelope_type)type, i));
		}
	}
	sink_format(out,
		    "# HELP egress_control_beat_sequence Number of the last beat taken.\n# TYPE egress_control_beat_sequence gauge\n"
		    "egress_control_beat_sequence %llu\n"
		    "# HELP egress_control_manifest_sequence Number of the manifest in hand.\n"
		    "# TYPE egress_control_manifest_sequence gauge\negress_control_manifest_sequence %llu\n"
		    "# HELP egress_control_epoch Epoch that documents must not be behind.\n# TYPE egress_control_epoch gauge\n"
		    "egress_control_epoch %llu\n"
		    "# HELP egress_control_keyset_expiry_timestamp_seconds When the keyset ends, and with it all service; 0: there is none.\n"
		    "# TYPE egress_control_keyset_expiry_timestamp_seconds gauge\negress_control_keyset_expiry_timestamp_seconds %llu\n",
		    (unsigned long long)d->beat.seq, (unsigned long long)(d->has_manifest ? d->held.seq : 0),
		    (unsigned long long)floors_state(d->floors)->epoch, (unsigned long long)accept_keyset_exp_ms(d->accept) / 1000);
	sink_text(out, "# HELP egress_control_reconnects_total Times the stream of documents was lost.\n"
		       "# TYPE egress_control_reconnects_total counter\n");
	for (unsigned i = 0; i < FRAMES_BREAK_COUNT; i++)
		sink_format(out, "egress_control_reconnects_total{cause=\"%s\"} %llu\n", frames_break_word((enum frames_break)i),
			    (unsigned long long)d->breaks[i]);
	sink_format(out,
		    "# HELP egress_control_resyncs_total Times everything was listed again because it did not fit its manifest.\n"
		    "# TYPE egress_control_resyncs_total counter\negress_control_resyncs_total %llu\n"
		    "# HELP egress_control_not_stored_total Documents dropped: beyond a limit, or under a key of no meaning.\n"
		    "# TYPE egress_control_not_stored_total counter\negress_control_not_stored_total %llu\n",
		    (unsigned long long)d->relists, (unsigned long long)signed_set_dropped(d->set));
}

static void write_nack(void *arg, const struct signed_nack *nack)
{
	struct sink *out = arg;
	char key[LEASE_DOC_ID_MAX + 3];

	/* What is beyond a report's size is told by the next one, when these are mended. */
	if (out->capacity - out->len < NACK_ROOM)
		return;
	snprintf(key, sizeof(key), "l/%s", nack->lease);
	sink_format(out, "%s{\"k\":", out->bytes[out->len - 1] == '[' ? "" : ",");
	report_string(out, key);
	sink_format(out, ",\"rev\":%llu,\"type\":", (unsigned long long)nack->rev);
	report_string(out, nack->type);
	sink_text(out, ",\"pointer\":");
	report_string(out, nack->pointer);
	sink_text(out, "}");
}

static void on_report(struct driver *driver, struct sink *out)
{
	struct driver_signed *d = of(driver);

	sink_text(out, ",\"caps\":[");
	for (unsigned type = 0; type < ENVELOPE_TYPE_COUNT; type++)
		sink_format(out, "%s\"%s\"", type == 0 ? "" : ",", envelope_type_name((enum envelope_type)type));
	sink_text(out, "],\"cell\":");
	report_string(out, d->cell);
	sink_format(out, ",\"epoch\":%llu,\"keyset\":%llu,\"manifest_seq\":%llu,\"manifest_held\":%s,\"nack\":[",
		    (unsigned long long)floors_state(d->floors)->epoch, (unsigned long long)accept_keyset_version(d->accept),
		    (unsigned long long)(d->has_manifest ? d->held.seq : 0), d->is_named_held ? "true" : "false");
	signed_set_visit_nacks(d->set, write_nack, out);
	sink_text(out, "]");
}

static const struct driver_ops ops = { on_start, on_close, on_print, on_visit_faults, on_figures, on_report };

/* The `keys` file: as trusted as the ceiling, for it decides who may speak. */
static enum err read_keys(const char *path, struct arena *arena, struct fault_list *faults, struct text *out_text)
{
	const struct source_options options = { .trust_check = true };
	const char *slash = strrchr(path, '/');
	char folder[4096] = ".", reason[SOURCE_REASON_MAX];
	struct source_stamp stamp;
	enum err e;

	if (slash != NULL)
		snprintf(folder, sizeof(folder), "%.*s", slash == path ? 1 : (int)(slash - path), path);
	e = source_read(folder, slash == NULL ? path : slash + 1, KEYS_MAX, &options, arena, out_text, &stamp, reason);
	if (e == ERR_OK || e == ERR_NO_MEMORY)
		return e;
	fault_add(faults, (struct fault_place){ .file = path }, FAULT_ERROR, "unreadable", "%s", reason);
	return ERR_INVALID;
}

static enum err open_accept(struct driver_signed *d, const struct driver_signed_options *options, struct fault_list *faults)
{
	struct accept_options accept_options = { .cell = d->cell,
						 .group = frames_group_of(d->cell),
						 .floors = d->floors,
						 .refuse_after_ms = options->refuse_after_ms };
	struct json_faults json_faults;
	struct arena arena;
	enum err e;

	arena_init(&arena, 0);
	json_faults_init(&json_faults, &arena);
	e = read_keys(options->keys, &arena, faults, &accept_options.root);
	if (e == ERR_OK)
		e = accept_create(&accept_options, &json_faults, &d->accept);
	for (const struct json_fault *f = json_faults.first; f != NULL; f = f->next)
		fault_add(faults, (struct fault_place){ .file = options->keys, .pointer = f->pointer }, FAULT_ERROR, f->code, "%s",
			  f->text);
	arena_finish(&arena);
	return e;
}

enum err driver_signed_open(struct loop *loop, const struct driver_signed_options *options, struct fault_list *faults,
			    struct driver **out_driver)
{
	struct driver_signed *d = alloc_zeroed(sizeof(*d));
	enum err e;

	if (d == NULL) {
		frames_close(options->source);
		return ERR_NO_MEMORY;
	}
	d->driver.ops = &ops;
	d->source = options->source;
	d->complaint = (struct log_limit){ .burst = 10, .interval_ms = 60000 };
	loop_timer_init(&d->tick, loop, on_tick, d);
	snprintf(d->cell, sizeof(d->cell), "%s", options->cell);
	d->refuse_after_ms = options->refuse_after_ms;
	e = lease_doc_id_is_valid(text_of(options->cell)) ? ERR_OK : ERR_INVALID;
	if (e != ERR_OK)
		fault_add(faults, (struct fault_place){ .file = NULL }, FAULT_ERROR, "bad_word", "cell: not a name");
	if (e == ERR_OK)
		e = ceiling_open(options->ceiling, options->report_allowed, faults, &d->ceiling);
	if (e == ERR_OK)
		e = floors_open(options->state, d->cell, &d->floors);
	if (e == ERR_OK)
		e = open_accept(d, options, faults);
	if (e == ERR_OK)
		e = signed_set_create(d->accept, d->ceiling, &d->set);
	if (e != ERR_OK) {
		on_close(&d->driver);
		return e;
	}
	*out_driver = &d->driver;
	return ERR_OK;
}
