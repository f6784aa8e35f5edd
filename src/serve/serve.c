/*
 * See serve.h. A folder is one cell, or has a folder cells/ with one for each, which may come while it runs. Promises that two folders that
 * claim one cell are told and only the first is handed on.
 */
#include "serve/serve.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "base/list.h"
#include "base/log.h"
#include "document/lease_doc.h"
#include "serve/serve_cell.h"
#include "serve/serve_etcd.h"
#include "serve/serve_http.h"
#include "serve/serve_reports.h"

#define LOOK_MS 1000
#define CELLS_MAX 10000
#define PATH_LEN 4096
#define REPORTS_FILE_BYTES (64u << 20)

/* One cell's folder. */
struct served {
	struct list_node node;
	struct serve *serve;     /* borrowed */
	struct serve_cell *cell; /* owned; NULL while it opens */
	bool is_refused;         /* another folder has its name */
	char name[LEASE_DOC_ID_MAX + 1]; /* of the folder; "": the top */
};

struct serve {
	struct loop *loop;       /* borrowed */
	struct config *config;   /* counted */
	struct list cells;       /* of struct served, owned */
	struct folder_notify *notify; /* owned; of all cells */
	struct serve_etcd *etcd; /* owned; NULL: not wanted */
	struct serve_http *http; /* likewise */
	struct serve_reports *reports; /* likewise */
	struct loop_timer look;
	struct log_limit complaint;
};

static bool is_taken(const struct served *v, const struct serve_cell *cell)
{
	struct list_node *node, *next;

	LIST_FOREACH(node, next, &v->serve->cells) {
		const struct served *other = CONTAINER_OF(node, struct served, node);

		if (other != v && other->cell != NULL && strcmp(serve_cell_name(other->cell), serve_cell_name(cell)) == 0)
			return true;
	}
	return false;
}

static void on_edition(void *arg, struct serve_cell *cell)
{
	struct served *v = arg;
	struct serve *s = v->serve;
	enum err e = ERR_OK;

	v->is_refused = v->is_refused || is_taken(v, cell);
	if (v->is_refused) {
		log_limited(&s->complaint, LOG_LEVEL_ERROR, "cell_not_served cell=%s folder=%s why=\"another folder has it\"",
			    serve_cell_name(cell), v->name);
		return;
	}
	if (s->etcd != NULL)
		e = serve_etcd_offer(s->etcd, cell);
	if (e == ERR_OK && s->http != NULL)
		e = serve_http_offer(s->http, cell);
	if (e != ERR_OK)
		log_line(LOG_LEVEL_ERROR, "cell_not_published cell=%s error=\"%s\"", serve_cell_name(cell), err_text(e));
}

static void on_beat(void *arg, struct serve_cell *cell)
{
	struct served *v = arg;
	struct serve *s = v->serve;

	if (v->is_refused)
		return;
	if (s->http != NULL && serve_http_beat(s->http, cell) != ERR_OK)
		log_limited(&s->complaint, LOG_LEVEL_ERROR, "beat_not_served cell=%s error=\"%s\"", serve_cell_name(cell),
			    err_text(ERR_NO_MEMORY));
	if (s->etcd != NULL)
		serve_etcd_beat(s->etcd, cell);
}

static const struct serve_cell_events cell_events = { on_edition, on_beat };

static enum err open_cell(struct serve *s, const char *name)
{
	struct served *v = alloc_zeroed(sizeof(*v));
	char path[PATH_LEN];
	enum err e;

	if (v == NULL)
		return ERR_NO_MEMORY;
	v->serve = s;
	snprintf(v->name, sizeof(v->name), "%s", name);
	snprintf(path, sizeof(path), "%s%s%s", s->config->serve.folder, name[0] == '\0' ? "" : "/cells/", name);
	e = serve_cell_open(s->loop, path, s->notify, &cell_events, v, &v->cell);
	if (e != ERR_OK) {
		alloc_free(v);
		return e;
	}
	list_push_back(&s->cells, &v->node);
	return ERR_OK;
}

static bool is_open(const struct serve *s, const char *name)
{
	struct list_node *node, *next;

	LIST_FOREACH(node, next, &s->cells)
		if (strcmp(CONTAINER_OF(node, struct served, node)->name, name) == 0)
			return true;
	return false;
}

static void look(struct serve *s)
{
	const struct dirent *entry;
	char path[PATH_LEN];
	DIR *dir;

	snprintf(path, sizeof(path), "%s/cells", s->config->serve.folder);
	dir = opendir(path);
	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		enum err e = ERR_OK;

		if (!lease_doc_id_is_valid(text_of(entry->d_name)) || is_open(s, entry->d_name))
			continue;
		e = s->cells.count < CELLS_MAX ? open_cell(s, entry->d_name) : ERR_LIMIT;
		if (e != ERR_OK)
			log_limited(&s->complaint, LOG_LEVEL_ERROR, "cell_not_opened folder=%s error=\"%s\"", entry->d_name, err_text(e));
	}
	if (dir != NULL)
		closedir(dir);
}

static void on_look(void *arg)
{
	struct serve *s = arg;

	if (loop_timer_start(&s->look, LOOK_MS) != ERR_OK)
		log_limited(&s->complaint, LOG_LEVEL_ERROR, "timer_not_started name=look");
	look(s);
}

static enum err open_etcd(struct serve *s)
{
	const struct serve_options *o = &s->config->serve;
	char password[ETCD_CLIENT_PASSWORD_MAX + 1] = "";
	struct etcd_client_options options = { o->etcd.text, o->etcd_user, password, { o->tls_ca, o->tls_certificate, o->tls_key } };
	enum err e = ERR_OK;

	if (o->etcd.kind == OPTION_SOURCE_NONE)
		return ERR_OK;
	if (o->etcd_password != NULL)
		e = etcd_client_read_password(o->etcd_password, password);
	if (e == ERR_OK)
		e = serve_etcd_open(s->loop, &options, &s->etcd);
	crypto_wipe(password, sizeof(password));
	if (e != ERR_OK)
		log_line(LOG_LEVEL_ERROR, "store_not_opened error=\"%s\"", e == ERR_SYSTEM ? strerror(errno) : err_text(e));
	return e;
}

static enum err open_reports(struct serve *s)
{
	const struct serve_options *o = &s->config->serve;
	struct serve_reports_options options = { o->reports, o->reports_mb << 20, REPORTS_FILE_BYTES };
	enum err e = o->reports == NULL ? ERR_OK : serve_reports_open(&options, &s->reports);

	if (e != ERR_OK)
		log_line(LOG_LEVEL_ERROR, "reports_not_opened folder=%s error=\"%s\"", o->reports,
			 e == ERR_SYSTEM ? strerror(errno) : err_text(e));
	return e;
}

static struct serve_tls_options tls_of(const struct serve_options *o)
{
	return (struct serve_tls_options){ o->certificate, o->key, o->client_ca };
}

static enum err open_http(struct serve *s)
{
	const struct serve_options *o = &s->config->serve;
	struct serve_http_options options = { .at = { .addr = o->https.addr, .port = o->https.port_first },
					      .tls = tls_of(o),
					      .only_named_cells = o->client_cells == OPTION_CLIENT_CELLS_NAMED,
					      .clients_max = (unsigned)o->clients_max,
					      .reports = s->reports };
	char reason[SERVE_TLS_REASON_MAX];
	enum err e;

	if (o->https.kind == OPTION_BIND_NONE)
		return ERR_OK;
	e = serve_http_open(s->loop, &options, reason, &s->http);
	if (e != ERR_OK)
		log_line(LOG_LEVEL_ERROR, "https_not_opened why=\"%s\"", reason);
	else if (o->client_ca == NULL)
		log_line(LOG_LEVEL_WARN, "clients_unknown why=\"without client_ca anybody may read policy and send reports\"");
	return e;
}

void serve_reload(struct serve *s, const char *path)
{
	char reason[SERVE_TLS_REASON_MAX] = "it has faults";
	struct config *config = NULL;
	struct fault_list faults;
	struct serve_tls_options tls;
	struct arena arena;
	enum err e;

	arena_init(&arena, 0);
	fault_list_init(&faults, &arena);
	e = config_load(path, CONFIG_FOR_SIDECAR, &faults, &config);
	if (e == ERR_OK && !config->has_serve)
		e = ERR_INVALID;
	if (e == ERR_OK && s->http != NULL && config->serve.certificate != NULL && config->serve.key != NULL) {
		tls = tls_of(&config->serve);
		e = serve_http_renew(s->http, &tls, reason);
	}
	for (const struct fault *f = faults.first; f != NULL; f = f->next) {
		char text[FAULT_TEXT_MAX + 256];

		fault_print(f, text, sizeof(text));
		log_line(LOG_LEVEL_ERROR, "configuration_fault text=\"%s\"", text);
	}
	arena_finish(&arena);
	config_unref(config);
	if (e == ERR_OK)
		log_line(LOG_LEVEL_INFO, "configuration_read");
	else
		log_line(LOG_LEVEL_ERROR, "configuration_kept why=\"%s\"", reason);
}

enum err serve_open(struct loop *loop, struct config *config, struct serve **out_serve)
{
	struct serve *s = alloc_zeroed(sizeof(*s));
	enum err e;

	if (s == NULL)
		return ERR_NO_MEMORY;
	s->loop = loop;
	s->config = config_ref(config);
	s->complaint = (struct log_limit){ .burst = 5, .interval_ms = 60000 };
	list_init(&s->cells);
	loop_timer_init(&s->look, loop, on_look, s);
	e = open_etcd(s);
	if (e == ERR_OK)
		e = open_reports(s);
	if (e == ERR_OK)
		e = open_http(s);
	if (e == ERR_OK)
		e = folder_notify_create(loop, &s->notify);
	if (e == ERR_OK)
		e = open_cell(s, "");
	if (e == ERR_OK)
		e = loop_timer_start(&s->look, 0);
	if (e != ERR_OK) {
		serve_close(s);
		return e;
	}
	*out_serve = s;
	return ERR_OK;
}

void serve_close(struct serve *s)
{
	struct list_node *node;

	if (s == NULL)
		return;
	loop_timer_cancel(&s->look);
	serve_etcd_close(s->etcd);
	serve_http_close(s->http);
	serve_reports_close(s->reports);
	while ((node = list_pop_front(&s->cells)) != NULL) {
		struct served *v = CONTAINER_OF(node, struct served, node);

		serve_cell_close(v->cell);
		alloc_free(v);
	}
	folder_notify_destroy(s->notify);
	config_unref(s->config);
	alloc_free(s);
}
