/* Options: from the configuration to what workers look at; what applies at once, and what waits for a restart. */
#include <string.h>

#include "base/log.h"
#include "daemon/daemon.h"

#define HANDSHAKES_PER_SOURCE 1024
#define HOLD_BYTES_MAX (32u << 20) /* first flights that one worker holds, in all */

static enum world_family family_of(unsigned option)
{
	static const enum world_family families[] = {
		[OPTION_FAMILY_PREFER6] = WORLD_PREFER_V6,
		[OPTION_FAMILY_PREFER4] = WORLD_PREFER_V4,
		[OPTION_FAMILY_ONLY4] = WORLD_ONLY_V4,
		[OPTION_FAMILY_ONLY6] = WORLD_ONLY_V6,
	};

	return option < ARRAY_LEN(families) ? families[option] : WORLD_PREFER_V6;
}

void reload_world_options(const struct daemon *d, struct world_options *out_options)
{
	const struct daemon_options *o = &d->config->daemon;

	*out_options = (struct world_options){
		.handshake_ms = o->handshake_ms,
		.first_flight_ms = o->first_flight_ms,
		.connect_ms = o->connect_ms,
		.dns_total_ms = o->dns_total_ms,
		.dns_try_ms = o->dns_try_ms,
		.half_closed_ms = o->half_closed_idle_ms,
		.idle_ms = o->idle_ms,
		.lifetime_ms = o->lifetime_ms,
		.connections = o->connections_per_lease,
		.connects_per_s = o->connects_per_s,
		.lookups_per_s = o->lookups_per_s,
		.lookup_failures_per_s = o->lookup_failures_per_s,
		.names = o->names_per_lease,
		.handshakes_per_source = HANDSHAKES_PER_SOURCE,
		.hold_bytes_max = HOLD_BYTES_MAX,
		.connections_max = d->connections_max,
		.family = family_of(o->family),
		.source4 = o->source4,
		.source6 = o->source6,
		.audit_required = o->audit == OPTION_AUDIT_REQUIRED,
		.truthful_bound_address = o->bound_address == OPTION_BOUND_TRUTHFUL,
		.splice = o->splice,
	};
	for (size_t i = 0; i < o->name_servers.count && i < WORLD_SERVERS_MAX; i++)
		out_options->servers[out_options->server_count++] = o->name_servers.at[i];
}

static void say_change(void *arg, const struct option_row *row)
{
	bool *any = arg;

	*any = true;
	log_line(row->reload == OPTION_LIVE ? LOG_LEVEL_INFO : LOG_LEVEL_WARN, "event=option_changed option=%s applies=%s",
		 row->name, row->reload == OPTION_LIVE ? "now" : "after a restart of egressd");
}

void reload_take_options(struct daemon *d, struct text text)
{
	static const enum log_level levels[] = { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
	struct arena arena;
	struct fault_list faults;
	struct config *fresh = NULL;
	bool changed = false;

	arena_init(&arena, 1 << 20);
	fault_list_init(&faults, &arena);
	if (config_parse("options of the sidecar", text, CONFIG_FOR_DAEMON, &faults, &fresh) != ERR_OK) {
		log_line(LOG_LEVEL_ERROR, "event=options_refused faults=%zu", faults.error_count);
		goto out;
	}
	config_compare_daemon(d->config, fresh, say_change, &changed);
	config_unref(d->config);
	d->config = fresh;
	record_stream_set_required(d->records, fresh->daemon.audit == OPTION_AUDIT_REQUIRED);
	daemon_forget_own_set(d);
	log_init("egressd", levels[fresh->daemon.log_level]);
	if (changed && daemon_publish(d, 0) != ERR_OK)
		log_line(LOG_LEVEL_ERROR, "event=options_not_published");
out:
	arena_finish(&arena);
}
