/* The sidecar's figures in exposition format, for the daemon's /metrics. Closed label sets only; never a lease. */
#include "sidecar/sidecar_internal.h"

#include "base/clock.h"
#include "base/sink.h"

#define RECORDS_TOLD_MS 10000

static void gauge(struct sink *s, const char *name, const char *help, uint64_t value)
{
	sink_format(s, "# HELP %s %s\n# TYPE %s gauge\n%s %llu\n", name, help, name, name,
		    (unsigned long long)value);
}

static void counter(struct sink *s, const char *name, const char *help, uint64_t value)
{
	sink_format(s, "# HELP %s %s\n# TYPE %s counter\n%s %llu\n", name, help, name, name,
		    (unsigned long long)value);
}

static void states(struct sink *out, enum gate_control now)
{
	sink_text(out, "# HELP egress_control_state 1 for the state that control is in.\n"
		       "# TYPE egress_control_state gauge\n");
	for (unsigned i = GATE_COLD; i <= GATE_HALT; i++)
		sink_format(out, "egress_control_state{state=\"%s\"} %d\n",
			    freshness_word((enum gate_control)i), i == (unsigned)now);
}

static void leases(struct sink *out, const struct publish_counts *counts)
{
	sink_format(out,
		    "# HELP egress_control_leases Leases in the newest holding, by state.\n"
		    "# TYPE egress_control_leases gauge\n"
		    "egress_control_leases{state=\"active\"} %zu\n"
		    "egress_control_leases{state=\"suspended\"} %zu\n"
		    "egress_control_leases{state=\"revoked\"} %zu\n"
		    "egress_control_leases{state=\"quarantined\"} %zu\n",
		    counts->active, counts->suspended, counts->revoked, counts->quarantined);
}

static void records(struct sink *out, const struct drain *drain)
{
	struct drain_counts c;
	uint64_t now_ms = clock_wall_ms(), oldest_ms;

	drain_count(drain, &c);
	oldest_ms = c.spool.oldest_wall_ms;
	sink_format(out,
		    "# HELP egress_decision_log_records_total Decision records by what became of them.\n"
		    "# TYPE egress_decision_log_records_total counter\n"
		    "egress_decision_log_records_total{result=\"sent\"} %llu\n"
		    "egress_decision_log_records_total{result=\"spooled\"} %llu\n"
		    "egress_decision_log_records_total{result=\"dropped\"} %llu\n",
		    (unsigned long long)c.sent, (unsigned long long)c.spool.spooled, (unsigned long long)c.dropped);
	counter(out, "egress_decision_log_repeats_lost_total", "Repetitions of denials that a daemon took with it before they were counted in a record.",
		c.repeats_lost);
	counter(out, "egress_decision_log_damaged_files_total", "Spool files that were set aside.", c.spool.damaged_files);
	counter(out, "egress_decision_log_post_failures_total", "Batches that control did not acknowledge.", c.post_failures);
	gauge(out, "egress_decision_log_spool_bytes", "Records on disk that control has not acknowledged.", c.spool.bytes);
	sink_format(out,
		    "# HELP egress_decision_log_oldest_age_seconds Age of the oldest of them.\n"
		    "# TYPE egress_decision_log_oldest_age_seconds gauge\n"
		    "egress_decision_log_oldest_age_seconds %.3f\n",
		    oldest_ms == 0 || now_ms < oldest_ms ? 0.0 : (double)(now_ms - oldest_ms) / 1000);
}

size_t status_figures(const struct sidecar *s, char *out_text, size_t cap)
{
	struct sink out = sink_over(out_text, cap);
	uint64_t now_ns = clock_mono_ns();
	struct publish_counts counts;

	publish_count(s->publish, &counts);
	states(&out, freshness_state(&s->freshness, now_ns));
	leases(&out, &counts);
	sink_format(&out,
		    "# HELP egress_control_beat_age_seconds Age of the last valid beat.\n"
		    "# TYPE egress_control_beat_age_seconds gauge\n"
		    "egress_control_beat_age_seconds %.3f\n",
		    s->freshness.has_beat ? (double)(now_ns - s->freshness.beat_ns) / 1e9 : 0.0);
	gauge(&out, "egress_lease_expiry_soonest_timestamp_seconds",
	      "When the next lease ends; 0: none has an end.", counts.soonest_expiry_ms / 1000);
	gauge(&out, "egress_control_not_opened", "Listeners and files that could not be opened.",
	      hand_over_failures(s->hand_over) + drain_failures(s->drain));
	counter(&out, "egress_control_daemon_losses_total", "Times the daemon went away.", s->reconnects);
	counter(&out, "egress_control_refusals_total", "Policies that the daemon refused.", s->refusals);
	counter(&out, "egress_control_configuration_failures_total",
		"Configurations that were not sound and not taken.", s->config_failures);
	records(&out, s->drain);
	driver_figures(s->driver, &out);
	return sink_ok(&out) ? out.len : 0;
}

/* Losses at once, what moves all the time as often as a report is due anyhow. */
static void look_at_records(struct sidecar *s)
{
	uint64_t now_ms = loop_now_ms(s->loop);
	struct drain_counts now;

	drain_count(s->drain, &now);
	if (s->told_at_ms != 0 && now_ms - s->told_at_ms < RECORDS_TOLD_MS && now.dropped == s->told.dropped &&
	    now.repeats_lost == s->told.repeats_lost && now.spool.damaged_files == s->told.spool.damaged_files)
		return;
	s->told = now;
	s->told_at_ms = now_ms;
}

static void report_records(struct sink *out, const struct drain_counts *c)
{
	sink_format(out, ",\"records\":{\"sent\":%llu,\"lost\":%llu,\"repeats_lost\":%llu",
		    (unsigned long long)c->sent, (unsigned long long)c->dropped, (unsigned long long)c->repeats_lost);
	if (c->has_spool)
		sink_format(out, ",\"spooled\":%llu,\"spool_records\":%llu,\"spool_bytes\":%llu,\"spool_since_ms\":%llu,\"damaged_files\":%llu",
			    (unsigned long long)c->spool.spooled, (unsigned long long)c->spool.records, (unsigned long long)c->spool.bytes,
			    (unsigned long long)c->spool.oldest_wall_ms, (unsigned long long)c->spool.damaged_files);
	sink_text(out, "}");
}

size_t status_report(struct sidecar *s, char *out_text, size_t cap)
{
	struct sink out = sink_over(out_text, cap);
	struct publish_counts counts;

	publish_count(s->publish, &counts);
	sink_text(&out, "{\"proxy\":");
	report_string(&out, report_proxy(s->report));
	sink_format(&out, ",\"sw\":\"%s\",\"state\":\"%s\",\"applied\":%s,\"leases\":{\"active\":%zu,\"quarantined\":%zu}",
		    PACKAGE_VERSION, freshness_word(freshness_state(&s->freshness, clock_mono_ns())),
		    publish_is_adopted(s->publish) ? "true" : "false", counts.active, counts.quarantined);
	look_at_records(s);
	report_records(&out, &s->told);
	driver_report(s->driver, &out);
	sink_text(&out, "}");
	return sink_ok(&out) ? out.len : 0;
}
