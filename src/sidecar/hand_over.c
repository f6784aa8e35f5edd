/*
 * Opens what the configuration names and passes it on. Promises that a daemon that is new gets everything, that one that
 * stays gets what changed, and that one failure holds up nothing else. Called by the sidecar's main object.
 */
#include "sidecar/hand_over.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "base/hash.h"
#include "base/htab.h"
#include "base/list.h"
#include "base/log.h"
#include "net/open_socket.h"
#include "sidecar/resource_internal.h"

#define NAME_MAX_LEN 64
#define PATH_MAX_LEN 108

/* One listening name: of a section, or of a lease that names a template. */
struct instance {
	struct list_node node;
	struct htab_node named; /* in by_name */
	char name[NAME_MAX_LEN + 1];
	const struct listener_option *section; /* borrowed from the configuration */
	bool is_named;                         /* still wanted; for instances of templates while names are added */
	bool is_sent;
	bool has_failed;
	char path[PATH_MAX_LEN];               /* UNIX */
	struct endpoint at;                    /* TCP */
};

enum { FILE_COUNTRY, FILE_ASN, FILE_COUNT };

struct hand_over {
	struct config *config;   /* counted */
	struct channel *channel; /* borrowed; NULL while no daemon is connected */
	unsigned workers;
	struct list instances;   /* of struct instance, owned */
	struct hash_key key;
	struct htab by_name;     /* the same: with thousands of leases that name listeners none is searched for */
	struct resource files[FILE_COUNT];
	bool failed[FILE_COUNT];
	bool options_due, admin_due, ready_due;
	bool names_known;        /* leases have said which templates they need */
	bool admin_failed;
};

static const char *const file_words[FILE_COUNT] = { [FILE_COUNTRY] = "country", [FILE_ASN] = "asn" };

static void say_failed(const char *what, const char *name, enum err e)
{
	int of_system = e == ERR_SYSTEM ? errno : 0;

	log_line(LOG_LEVEL_ERROR, "%s name=%s error=\"%s\" errno=%d", what, name, e == ERR_SYSTEM ? strerror(of_system) : err_text(e),
		 of_system);
}

static struct instance *instance_of(struct list_node *node)
{
	return CONTAINER_OF(node, struct instance, node);
}

static enum err add_instance(struct hand_over *h, struct text name,
			     const struct listener_option *section, struct instance **out_instance)
{
	struct instance *i = alloc_zeroed(sizeof(*i));

	if (i == NULL || htab_insert(&h->by_name, &i->named, hash_bytes(&h->key, name.at, name.len)) != ERR_OK) {
		alloc_free(i);
		return ERR_NO_MEMORY;
	}
	memcpy(i->name, name.at, name.len);
	i->section = section;
	i->is_named = true;
	list_push_back(&h->instances, &i->node);
	*out_instance = i;
	return ERR_OK;
}

/* Put `name` where the template says {listener}; false when it does not fit. */
static bool expand_path(const char *template, const char *name, char out_path[PATH_MAX_LEN])
{
	const char *mark = strstr(template, "{listener}");
	int len;

	if (mark == NULL)
		len = snprintf(out_path, PATH_MAX_LEN, "%s", template);
	else
		len = snprintf(out_path, PATH_MAX_LEN, "%.*s%s%s", (int)(mark - template), template,
			       name, mark + strlen("{listener}"));
	return len > 0 && len < PATH_MAX_LEN;
}

static bool is_port_used(struct hand_over *h, const struct instance *but, uint16_t port)
{
	struct list_node *node, *next;

	LIST_FOREACH (node, next, &h->instances) {
		struct instance *i = instance_of(node);

		if (i != but && i->section == but->section && i->at.port == port)
			return true;
	}
	return false;
}

/* A free port of the range, the same one for the same name as far as possible; 0: all are taken. */
static uint16_t choose_port(struct hand_over *h, const struct instance *i)
{
	const struct option_bind *bind = &i->section->bind;
	uint32_t count = (uint32_t)(bind->port_last - bind->port_first) + 1, hash = 2166136261U;

	for (const char *c = i->name; *c != '\0'; c++)
		hash = (hash ^ (uint8_t)*c) * 16777619U;
	for (uint32_t n = 0; n < count; n++) {
		uint16_t port = (uint16_t)(bind->port_first + (hash + n) % count);

		if (!is_port_used(h, i, port))
			return port;
	}
	return 0;
}

static bool is_path_used(struct hand_over *h, const struct instance *but, const char *path)
{
	const struct option_bind *admin = &h->config->daemon.admin;
	struct list_node *node, *next;

	if (strcmp(path, h->config->daemon.control) == 0 || (admin->kind == OPTION_BIND_UNIX && strcmp(path, admin->path) == 0))
		return true;
	LIST_FOREACH (node, next, &h->instances) {
		if (instance_of(node) != but && strcmp(instance_of(node)->path, path) == 0)
			return true;
	}
	return false;
}

/* A lease's listener has a path of its own, or none: a socket that stood there would be replaced. */
static bool place_path(struct hand_over *h, struct instance *i)
{
	char path[PATH_MAX_LEN];

	i->path[0] = '\0';
	if (!expand_path(i->section->bind.path, i->name, path) || is_path_used(h, i, path))
		return false;
	memcpy(i->path, path, sizeof(path));
	return true;
}

static bool place(struct hand_over *h, struct instance *i)
{
	const struct option_bind *bind = &i->section->bind;

	if (bind->kind == OPTION_BIND_UNIX)
		return place_path(h, i);
	i->at.addr = bind->addr;
	if (!bind->is_template)
		i->at.port = bind->port_first;
	else if (i->at.port == 0)
		i->at.port = choose_port(h, i);
	return i->at.port != 0;
}

/* Section listeners of the configuration. */
static enum err add_sections(struct hand_over *h)
{
	for (size_t n = 0; n < h->config->listener_count; n++) {
		const struct listener_option *section = &h->config->listeners[n];
		struct instance *i;

		if (section->bind.is_template)
			continue;
		if (add_instance(h, text_of(section->name), section, &i) != ERR_OK)
			return ERR_NO_MEMORY;
		if (!place(h, i))
			say_failed("listener_does_not_fit", i->name, ERR_INVALID);
	}
	return ERR_OK;
}

enum err hand_over_create(struct config *config, struct hand_over **out_hand_over)
{
	struct hand_over *h = alloc_zeroed(sizeof(*h));
	enum err e;

	if (h == NULL)
		return ERR_NO_MEMORY;
	list_init(&h->instances);
	htab_init(&h->by_name);
	h->config = config_ref(config);
	resource_set_path(&h->files[FILE_COUNTRY], config->daemon.geo_country);
	resource_set_path(&h->files[FILE_ASN], config->daemon.geo_asn);
	e = crypto_random(&h->key, sizeof(h->key));
	if (e == ERR_OK)
		e = add_sections(h);
	if (e != ERR_OK) {
		hand_over_destroy(h);
		return e;
	}
	*out_hand_over = h;
	return ERR_OK;
}

void hand_over_destroy(struct hand_over *h)
{
	struct list_node *node;

	if (h == NULL)
		return;
	while ((node = list_pop_front(&h->instances)) != NULL)
		alloc_free(instance_of(node));
	htab_finish(&h->by_name);
	config_unref(h->config);
	alloc_free(h);
}

static enum err send_options(struct hand_over *h)
{
	struct ctl_msg msg = { .type = CTL_OPTIONS };
	char *text;
	enum err e = config_print(h->config, false, &text);

	if (e != ERR_OK)
		return e;
	msg.field[0].bytes = text_of(text);
	e = channel_send(h->channel, &msg, -1);
	alloc_free(text);
	return e;
}

static enum err open_bind(const struct option_bind *bind, const char *path, const struct endpoint *at,
			  uint32_t mode, uint64_t backlog, int *out_fd)
{
	if (bind->kind == OPTION_BIND_UNIX)
		return open_socket_unix(path, mode, (int)backlog, out_fd);
	return open_socket_tcp(at, (int)backlog, true, out_fd);
}

/* Open one socket for worker `worker` and pass it on. */
static enum err send_socket(struct hand_over *h, struct instance *i, uint32_t worker)
{
	const struct option_bind *bind = &i->section->bind;
	struct ctl_msg msg = { .type = CTL_LISTENER };
	enum err e;
	int fd;

	e = open_bind(bind, i->path, &i->at, i->section->socket_mode, i->section->backlog, &fd);
	if (e != ERR_OK)
		return e;
	msg.field[0].bytes = text_of(i->name);
	msg.field[1].bytes = text_of(bind->kind == OPTION_BIND_UNIX ? "unix" : "tcp");
	msg.field[2].number = worker;
	e = channel_send(h->channel, &msg, fd);
	close(fd);
	return e;
}

/* Have the daemon close what it holds under this name. */
static enum err send_gone(struct hand_over *h, const char *name)
{
	struct ctl_msg msg = { .type = CTL_LISTENER_GONE };

	msg.field[0].bytes = text_of(name);
	return channel_send(h->channel, &msg, -1);
}

static enum err send_instance(struct hand_over *h, struct instance *i)
{
	enum err e = ERR_OK;
	uint32_t worker;

	if (!place(h, i))
		return ERR_INVALID;
	if (i->section->bind.kind == OPTION_BIND_UNIX)
		return send_socket(h, i, UINT32_MAX);
	for (worker = 0; worker < h->workers && e == ERR_OK; worker++)
		e = send_socket(h, i, worker);
	/* Some workers with and some without would be sent all of it again. */
	if (e != ERR_OK && worker > 1 && send_gone(h, i->name) != ERR_OK)
		log_line(LOG_LEVEL_WARN, "listener_gone_not_sent name=%s", i->name);
	return e;
}

/* Send a listener; a failure is said once and tried again each second. */
static void try_instance(struct hand_over *h, struct instance *i)
{
	enum err e = send_instance(h, i);
	char at[PATH_MAX_LEN + ENDPOINT_TEXT_MAX];

	if (e != ERR_OK) {
		if (!i->has_failed)
			say_failed("listener_not_opened", i->name, e);
		i->has_failed = true;
		return;
	}
	i->is_sent = true;
	i->has_failed = false;
	if (i->section->bind.kind == OPTION_BIND_UNIX)
		snprintf(at, sizeof(at), "unix:%s", i->path);
	else
		snprintf(at, sizeof(at), "tcp:%s", endpoint_print(&i->at, (char[ENDPOINT_TEXT_MAX]){ 0 }));
	log_line(LOG_LEVEL_INFO, "listener_opened name=%s at=%s", i->name, at);
}

static void try_file(struct hand_over *h, unsigned n)
{
	struct ctl_msg msg = { .type = CTL_GEO };
	int fd;
	enum err e = resource_open(&h->files[n], &fd);

	if (e == ERR_OK) {
		msg.field[0].bytes = text_of(file_words[n]);
		e = channel_send(h->channel, &msg, fd);
		close(fd);
	}
	if (e != ERR_OK) {
		if (!h->failed[n])
			say_failed("file_not_opened", file_words[n], e);
		h->failed[n] = true;
		return;
	}
	h->files[n].is_due = h->failed[n] = false;
}

static void try_admin(struct hand_over *h)
{
	const struct option_bind *bind = &h->config->daemon.admin;
	struct endpoint at = { bind->addr, bind->port_first };
	struct ctl_msg msg = { .type = CTL_ADMIN };
	enum err e = ERR_OK;
	int fd;

	if (bind->kind != OPTION_BIND_NONE) {
		e = open_bind(bind, bind->path, &at, 0660, 64, &fd);
		if (e == ERR_OK) {
			msg.field[0].bytes =
				text_of(bind->kind == OPTION_BIND_UNIX ? "unix" : "tcp");
			e = channel_send(h->channel, &msg, fd);
			close(fd);
		}
	}
	if (e != ERR_OK && !h->admin_failed)
		say_failed("admin_not_opened", "admin", e);
	h->admin_failed = e != ERR_OK;
	h->admin_due = h->admin_failed;
}

/* The next instance that must be sent; those that failed wait for the next second. */
static struct instance *next_due(struct hand_over *h)
{
	struct list_node *node, *next;

	LIST_FOREACH (node, next, &h->instances) {
		struct instance *i = instance_of(node);

		if (!i->is_sent && !i->has_failed)
			return i;
	}
	return NULL;
}

/* Send what is due, in the order of the protocol, until messages begin to queue: each queued one holds a descriptor. */
static void go_on(struct hand_over *h)
{
	struct instance *i;

	if (h->channel == NULL)
		return;
	if (h->options_due) {
		enum err e = send_options(h);

		if (e != ERR_OK) {
			say_failed("options_not_sent", "daemon", e);
			return;
		}
		h->options_due = false;
	}
	while (channel_queued(h->channel) == 0 && (i = next_due(h)) != NULL)
		try_instance(h, i);
	for (unsigned n = 0; n < FILE_COUNT && channel_queued(h->channel) == 0; n++) {
		if (h->files[n].is_due && !h->failed[n])
			try_file(h, n);
	}
	if (channel_queued(h->channel) > 0)
		return;
	if (h->admin_due && !h->admin_failed)
		try_admin(h);
	if (h->ready_due && h->names_known) {
		struct ctl_msg msg = { .type = CTL_READY };

		h->ready_due = channel_send(h->channel, &msg, -1) != ERR_OK;
	}
}

void hand_over_connect(struct hand_over *h, struct channel *channel, unsigned workers)
{
	struct list_node *node, *next;

	h->channel = channel;
	h->workers = workers;
	h->options_due = h->admin_due = h->ready_due = true;
	h->admin_failed = false;
	for (unsigned n = 0; n < FILE_COUNT; n++) {
		h->failed[n] = false;
		h->files[n].is_due = h->files[n].path != NULL && h->files[n].path[0] != '\0';
	}
	LIST_FOREACH (node, next, &h->instances)
		instance_of(node)->is_sent = instance_of(node)->has_failed = false;
	go_on(h);
}

void hand_over_disconnect(struct hand_over *h)
{
	h->channel = NULL;
}

void hand_over_on_drained(struct hand_over *h)
{
	go_on(h);
}

static void remove_socket_file(const char *path)
{
	struct stat st;

	if (path[0] != '\0' && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
		unlink(path);
}

/* Close at the daemon and forget. Others of the name are closed there as well, so they are due again. */
static void drop_instance(struct hand_over *h, struct instance *gone)
{
	struct list_node *node, *next;

	list_remove(&h->instances, &gone->node);
	htab_remove(&h->by_name, &gone->named);
	if (gone->is_sent && gone->section->bind.kind == OPTION_BIND_UNIX)
		remove_socket_file(gone->path);
	if (h->channel != NULL && send_gone(h, gone->name) != ERR_OK)
		log_line(LOG_LEVEL_WARN, "listener_gone_not_sent name=%s", gone->name);
	LIST_FOREACH (node, next, &h->instances) {
		if (strcmp(instance_of(node)->name, gone->name) == 0)
			instance_of(node)->is_sent = false;
	}
	alloc_free(gone);
}

void hand_over_names_begin(struct hand_over *h)
{
	struct list_node *node, *next;

	LIST_FOREACH (node, next, &h->instances)
		instance_of(node)->is_named = !instance_of(node)->section->bind.is_template;
}

static bool may_name_a_socket(struct text name)
{
	if (name.len == 0 || name.len > NAME_MAX_LEN || name.at[0] == '.' || name.at[0] == '-')
		return false;
	for (size_t i = 0; i < name.len; i++) {
		char c = text_lower(name.at[i]);

		if (!(c >= 'a' && c <= 'z') && !text_is_digit(c) && strchr("-_.:", c) == NULL)
			return false;
	}
	return true;
}

struct wanted {
	struct text name;
	const struct listener_option *section;
};

static bool is_wanted(const struct htab_node *node, const void *key)
{
	const struct instance *i = CONTAINER_OF(node, const struct instance, named);
	const struct wanted *wanted = key;

	return i->section == wanted->section && text_is(wanted->name, i->name);
}

static struct instance *find_instance(const struct hand_over *h, struct text name, const struct listener_option *section)
{
	const struct wanted wanted = { name, section };
	struct htab_node *node = htab_find(&h->by_name, hash_bytes(&h->key, name.at, name.len), is_wanted, &wanted);

	return node == NULL ? NULL : CONTAINER_OF(node, struct instance, named);
}

enum err hand_over_names_add(struct hand_over *h, struct text name)
{
	if (!may_name_a_socket(name) || config_listener(h->config, name) != NULL)
		return ERR_OK;
	for (size_t n = 0; n < h->config->listener_count; n++) {
		const struct listener_option *section = &h->config->listeners[n];
		struct instance *i;

		if (!section->bind.is_template)
			continue;
		i = find_instance(h, name, section);
		if (i == NULL && add_instance(h, name, section, &i) != ERR_OK)
			return ERR_NO_MEMORY;
		i->is_named = true;
	}
	return ERR_OK;
}

void hand_over_names_end(struct hand_over *h)
{
	struct list_node *node, *next;

	LIST_FOREACH (node, next, &h->instances) {
		if (!instance_of(node)->is_named)
			drop_instance(h, instance_of(node));
	}
	h->names_known = true;
	go_on(h);
}

static bool is_same_section(const struct listener_option *a, const struct listener_option *b)
{
	size_t count;
	const struct option_row *rows = option_table(text_of("listener"), &count);

	for (size_t n = 0; n < count; n++) {
		if (!option_is_equal(&rows[n], a, b))
			return false;
	}
	return true;
}

/* Instances move over to the section of the same name and binding; the others close. */
static enum err change_sections(struct hand_over *h, struct config *config)
{
	struct list_node *node, *next;

	LIST_FOREACH (node, next, &h->instances) {
		struct instance *i = instance_of(node);
		const struct listener_option *section =
			config_listener(config, text_of(i->section->name));

		if (section != NULL && is_same_section(section, i->section))
			i->section = section;
		else
			drop_instance(h, i);
	}
	for (size_t n = 0; n < config->listener_count; n++) {
		const struct listener_option *section = &config->listeners[n];
		struct instance *i;

		if (section->bind.is_template ||
		    find_instance(h, text_of(section->name), section) != NULL)
			continue;
		if (add_instance(h, text_of(section->name), section, &i) != ERR_OK)
			return ERR_NO_MEMORY;
	}
	return ERR_OK;
}

enum err hand_over_set_config(struct hand_over *h, struct config *config)
{
	struct config *before = h->config;
	enum err e;

	h->config = config_ref(config);
	e = change_sections(h, config);
	resource_set_path(&h->files[FILE_COUNTRY], config->daemon.geo_country);
	resource_set_path(&h->files[FILE_ASN], config->daemon.geo_asn);
	for (unsigned n = 0; n < FILE_COUNT; n++)
		h->failed[n] = false;
	h->options_due = true;
	config_unref(before);
	go_on(h);
	return e;
}

void hand_over_tick(struct hand_over *h)
{
	struct list_node *node, *next;

	if (h->channel == NULL || channel_queued(h->channel) > 0)
		return;
	for (unsigned n = 0; n < FILE_COUNT; n++) {
		resource_look(&h->files[n]);
		if (h->files[n].is_due)
			try_file(h, n);
	}
	if (h->admin_due)
		try_admin(h);
	LIST_FOREACH (node, next, &h->instances) {
		if (!instance_of(node)->is_sent && channel_queued(h->channel) == 0)
			try_instance(h, instance_of(node));
	}
	go_on(h);
}

size_t hand_over_failures(const struct hand_over *h)
{
	size_t count = h->admin_failed ? 1 : 0;
	struct list_node *node, *next;

	for (unsigned n = 0; n < FILE_COUNT; n++)
		count += h->failed[n] ? 1 : 0;
	LIST_FOREACH (node, next, &h->instances)
		count += instance_of(node)->has_failed ? 1 : 0;
	return count;
}
