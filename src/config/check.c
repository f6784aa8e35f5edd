/* Compares options with each other: deadlines, listeners, the admin address, what a source needs; see check_internal.h. */
#include <inttypes.h>
#include <string.h>

#include "config/check_internal.h"

struct checker {
	const struct config *c;
	const struct config_seen *seen;
	struct fault_list *faults;
	const char *file;
};

/* The line of a key in its section; the section's own when the key has its default. */
static struct fault_place line_of(const struct checker *k, const char *section, const char *key)
{
	bool is_daemon = strcmp(section, "daemon") == 0, is_serve = strcmp(section, "serve") == 0;
	const uint32_t *lines = is_daemon ? k->seen->daemon : is_serve ? k->seen->serve : k->seen->sidecar;
	uint32_t line = is_daemon ? k->seen->daemon_line : is_serve ? k->seen->serve_line : k->seen->sidecar_line;
	size_t count;
	const struct option_row *rows = option_table(text_of(section), &count);

	for (size_t i = 0; i < count; i++)
		if (strcmp(rows[i].name, key) == 0 && lines[i] != 0)
			line = lines[i];
	return (struct fault_place){ .file = k->file, .line = line, .column = line == 0 ? 0 : 1 };
}

static struct fault_place line_of_listener(const struct checker *k, size_t nth)
{
	return (struct fault_place){ .file = k->file, .line = k->seen->listener_line[nth], .column = 1 };
}

static void check_deadlines(const struct checker *k)
{
	const struct daemon_options *d = &k->c->daemon;

	if (d->cut_after_s < d->refuse_after_s)
		fault_add(k->faults, line_of(k, "daemon", "cut_after_s"), FAULT_ERROR, "deadline_order",
			  "cut_after_s (%" PRIu64 ") must not be below refuse_after_s (%" PRIu64 ")", d->cut_after_s,
			  d->refuse_after_s);
	if (d->dns_try_ms > d->dns_total_ms)
		fault_add(k->faults, line_of(k, "daemon", "dns_try_ms"), FAULT_ERROR, "deadline_order",
			  "dns_try_ms (%" PRIu64 ") must not be above dns_total_ms (%" PRIu64 ")", d->dns_try_ms,
			  d->dns_total_ms);
	if (strlen(d->control) > OPTION_UNIX_PATH_MAX)
		fault_add(k->faults, line_of(k, "daemon", "control"), FAULT_ERROR, "bad_value",
			  "control: the path of a unix socket has at most %d bytes", OPTION_UNIX_PATH_MAX);
}

static bool is_any(const struct addr *a)
{
	static const uint8_t zeros[16];

	return memcmp(a->octets, zeros, sizeof(zeros)) == 0;
}

/* Could both be bound to, or reached at, one address? The IPv6 any-address takes IPv4 too. */
static bool addresses_overlap(const struct addr *a, const struct addr *b)
{
	if (addr_equal(a, b))
		return true;
	if (is_any(a) && (a->family == ADDR_V6 || b->family == ADDR_V4))
		return true;
	return is_any(b) && (b->family == ADDR_V6 || a->family == ADDR_V4);
}

static bool binds_collide(const struct option_bind *a, const struct option_bind *b)
{
	if (a->kind != b->kind || a->kind == OPTION_BIND_NONE)
		return false;
	if (a->kind == OPTION_BIND_UNIX)
		return strcmp(a->path, b->path) == 0;
	return a->port_first <= b->port_last && b->port_first <= a->port_last && addresses_overlap(&a->addr, &b->addr);
}

static void check_listeners(const struct checker *k)
{
	const struct config *c = k->c;

	if (c->listener_count == 0)
		fault_add(k->faults, (struct fault_place){ .file = k->file }, FAULT_ERROR, "no_listener",
			  "no guest could arrive: add a [listener NAME] section with bind");
	for (size_t i = 0; i < c->listener_count; i++) {
		const struct option_bind *bind = &c->listeners[i].bind;

		if (bind->kind == OPTION_BIND_NONE)
			fault_add(k->faults, line_of_listener(k, i), FAULT_ERROR, "missing_key", "listener %s has no bind",
				  c->listeners[i].name);
		if (bind->kind == OPTION_BIND_UNIX && !bind->is_template && strcmp(bind->path, c->daemon.control) == 0)
			fault_add(k->faults, line_of_listener(k, i), FAULT_ERROR, "bind_collision",
				  "listener %s would stand on the control socket", c->listeners[i].name);
		for (size_t j = 0; j < i; j++)
			if (binds_collide(bind, &c->listeners[j].bind))
				fault_add(k->faults, line_of_listener(k, i), FAULT_ERROR, "bind_collision",
					  "listeners %s and %s want the same address", c->listeners[j].name,
					  c->listeners[i].name);
	}
}

/* Guests must not reach the admin interface (contract section 8). */
static void check_admin(const struct checker *k)
{
	const struct daemon_options *d = &k->c->daemon;
	const struct option_bind *admin = &d->admin;
	struct fault_place place = line_of(k, "daemon", "admin");

	if (admin->is_template)
		fault_add(k->faults, place, FAULT_ERROR, "bad_value", "admin is one socket: no {listener}, one port");
	if (admin->kind == OPTION_BIND_UNIX && strcmp(admin->path, d->control) == 0)
		fault_add(k->faults, place, FAULT_ERROR, "bind_collision", "admin and control want the same socket");
	for (size_t i = 0; i < k->c->listener_count; i++) {
		const struct option_bind *bind = &k->c->listeners[i].bind;

		if (admin->kind == OPTION_BIND_TCP && bind->kind == OPTION_BIND_TCP &&
		    addresses_overlap(&admin->addr, &bind->addr))
			fault_add(k->faults, place, FAULT_ERROR, "admin_exposed",
				  "guests of listener %s reach the admin address; use unix:PATH or an address of its own",
				  k->c->listeners[i].name);
		if (admin->kind == OPTION_BIND_UNIX && binds_collide(admin, bind))
			fault_add(k->faults, place, FAULT_ERROR, "bind_collision", "admin and listener %s want the same socket",
				  k->c->listeners[i].name);
	}
	for (size_t i = 0; admin->kind == OPTION_BIND_TCP && i < d->guest_networks.count; i++)
		if (prefix_contains(&d->guest_networks.at[i], &admin->addr) || is_any(&admin->addr)) {
			fault_add(k->faults, place, FAULT_ERROR, "admin_exposed",
				  "the admin address is inside guest_networks; use unix:PATH or another address");
			return;
		}
}

static void need_key(const struct checker *k, bool is_there, const char *key, const char *when)
{
	if (!is_there)
		fault_add(k->faults, line_of(k, "sidecar", key), FAULT_ERROR, "missing_key", "[sidecar] needs %s %s", key, when);
}

static void need_serve_key(const struct checker *k, bool is_there, const char *key, const char *when)
{
	if (!is_there)
		fault_add(k->faults, line_of(k, "serve", key), FAULT_ERROR, "missing_key", "[serve] needs %s %s", key, when);
}

/* One that feeds a daemon believes signatures alone; one that serves believes its folder. They share no process. */
static void check_serve_is_alone(const struct checker *k, enum config_reader reader)
{
	struct fault_place place = { .file = k->file, .line = k->seen->serve_line, .column = 1 };

	if (reader == CONFIG_FOR_DAEMON)
		fault_add(k->faults, place, FAULT_ERROR, "serve_alone", "[serve] is for egress-sidecar; no daemon runs on this file");
	else if (k->seen->daemon_line != 0 || k->seen->sidecar_line != 0 || k->c->listener_count > 0)
		fault_add(k->faults, place, FAULT_ERROR, "serve_alone",
			  "a sidecar that serves feeds no daemon: give [serve] a file of its own, without other sections");
}

static void check_serve(const struct checker *k, enum config_reader reader)
{
	const struct serve_options *s = &k->c->serve;

	check_serve_is_alone(k, reader);
	need_serve_key(k, s->folder != NULL, "folder", "to know what to serve");
	need_serve_key(k, s->https.kind != OPTION_BIND_NONE || s->etcd.kind != OPTION_SOURCE_NONE, "https",
		       "or etcd, to know to whom");
	if (s->https.kind == OPTION_BIND_UNIX || s->https.is_template)
		fault_add(k->faults, line_of(k, "serve", "https"), FAULT_ERROR, "bad_value", "https is one address: tcp:ADDRESS:PORT");
	if (s->https.kind != OPTION_BIND_NONE) {
		need_serve_key(k, s->certificate != NULL, "certificate", "with https");
		need_serve_key(k, s->key != NULL, "key", "with https");
	}
	if (s->client_cells == OPTION_CLIENT_CELLS_NAMED)
		need_serve_key(k, s->client_ca != NULL, "client_ca", "with client_cells = named: who shows no certificate has no cell");
	if (s->etcd.kind != OPTION_SOURCE_NONE && s->etcd.kind != OPTION_SOURCE_ETCD)
		fault_add(k->faults, line_of(k, "serve", "etcd"), FAULT_ERROR, "bad_value", "expected etcd://HOST:PORT,…");
	if ((s->tls_certificate == NULL) != (s->tls_key == NULL))
		need_serve_key(k, false, s->tls_key == NULL ? "tls_key" : "tls_certificate", "because the other one is given");
	if ((s->etcd_user == NULL) != (s->etcd_password == NULL))
		need_serve_key(k, false, s->etcd_user == NULL ? "etcd_user" : "etcd_password", "because the other one is given");
}

static void check_sidecar(const struct checker *k, enum config_reader reader)
{
	const struct sidecar_options *s = &k->c->sidecar;
	bool is_local = s->trust == OPTION_TRUST_LOCAL;

	if (reader == CONFIG_FOR_DAEMON && k->seen->sidecar_line == 0)
		return;
	need_key(k, s->source.kind != OPTION_SOURCE_NONE, "source", "to know where policy comes from");
	if (is_local && s->source.kind != OPTION_SOURCE_NONE && s->source.kind != OPTION_SOURCE_FILE)
		fault_add(k->faults, line_of(k, "sidecar", "trust"), FAULT_ERROR, "bad_value",
			  "trust = local is for file: sources; what comes over a network must be signed");
	if (!is_local) {
		need_key(k, s->cell != NULL, "cell", "with trust = signed");
		need_key(k, s->keys != NULL, "keys", "with trust = signed");
		need_key(k, s->ceiling != NULL, "ceiling", "with trust = signed: the operator's own bounds are never sent");
	}
	if ((s->tls_certificate == NULL) != (s->tls_key == NULL))
		need_key(k, false, s->tls_key == NULL ? "tls_key" : "tls_certificate", "because the other one is given");
	if (s->reports != NULL)
		need_key(k, s->proxy != NULL, "proxy", "to say in its reports who it is");
	if (s->reports != NULL && strncmp(s->reports, "https://", 8) != 0)
		fault_add(k->faults, line_of(k, "sidecar", "reports"), FAULT_ERROR, "bad_value", "expected https://HOST…");
	if (s->decisions != NULL)
		need_key(k, s->proxy != NULL, "proxy", "to say whose decisions they are");
	if (s->decisions != NULL && strncmp(s->decisions, "https://", 8) != 0)
		fault_add(k->faults, line_of(k, "sidecar", "decisions"), FAULT_ERROR, "bad_value", "expected https://HOST…");
	if (k->c->daemon.audit == OPTION_AUDIT_REQUIRED && k->c->daemon.records == NULL && s->decisions == NULL)
		fault_add(k->faults, line_of(k, "daemon", "audit"), FAULT_ERROR, "missing_key",
			  "audit = required needs somewhere to keep records: records in [daemon] or decisions in [sidecar]");
	if ((s->etcd_user == NULL) != (s->etcd_password == NULL))
		need_key(k, false, s->etcd_user == NULL ? "etcd_user" : "etcd_password", "because the other one is given");
}

void config_check(const struct config *c, enum config_reader reader, const char *file, const struct config_seen *seen,
		  struct fault_list *faults)
{
	struct checker k = { .c = c, .seen = seen, .faults = faults, .file = file };

	if (c->has_serve) {
		check_serve(&k, reader);
		return;
	}
	check_deadlines(&k);
	check_listeners(&k);
	check_admin(&k);
	check_sidecar(&k, reader);
}
