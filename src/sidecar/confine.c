/*
 * From options to sandbox: read the policy and what stands around it, write state, records and sockets, nothing else.
 * Promises that what works at start works after a reload as well. Called by main.
 */
#include "sidecar/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "sandbox/sandbox.h"

#define FOLDER_MAX 4096

/* Folders for one list of the sandbox's options; texts live here. */
struct folders {
	char text[SANDBOX_PATHS_MAX][FOLDER_MAX];
	size_t count;
	bool is_full;
};

/* Two dozen paths are more than a stack wants. */
static struct folders to_read, to_write;

static bool is_set(const char *path)
{
	return path != NULL && path[0] != '\0';
}

static void add(struct folders *f, const char *path, size_t len)
{
	struct stat st;

	if (len == 0 || len >= FOLDER_MAX)
		return;
	for (size_t i = 0; i < f->count; i++) {
		if (strlen(f->text[i]) == len && memcmp(f->text[i], path, len) == 0)
			return;
	}
	/* One is left for the end of the list. */
	if (f->count + 1 >= SANDBOX_PATHS_MAX) {
		f->is_full = true;
		return;
	}
	memcpy(f->text[f->count], path, len);
	f->text[f->count][len] = '\0';
	if (stat(f->text[f->count], &st) == 0)
		f->count++;
	else
		log_line(LOG_LEVEL_WARN, "path_out_of_reach path=%s errno=%d", f->text[f->count], errno);
}

/* The folder that `path` lies in, so that a replaced file is found; never the whole machine for a path at its top. */
static void add_around(struct folders *f, const char *path)
{
	const char *slash;

	if (!is_set(path))
		return;
	slash = strrchr(path, '/');
	if (slash == NULL)
		add(f, ".", 1);
	else
		add(f, path, slash == path ? strlen(path) : (size_t)(slash - path));
}

static void add_bind(struct folders *f, const struct option_bind *bind)
{
	if (bind->kind == OPTION_BIND_UNIX)
		add_around(f, bind->path);
}

static void gather_serve(const struct serve_options *serve)
{
	/* Not what is around it: private keys may be there. */
	add(&to_read, serve->folder, strlen(serve->folder));
	add_around(&to_read, serve->certificate);
	add_around(&to_read, serve->key);
	add_around(&to_read, serve->client_ca);
	add_around(&to_read, serve->etcd_password);
	add_around(&to_read, serve->tls_ca);
	add_around(&to_read, serve->tls_certificate);
	add_around(&to_read, serve->tls_key);
	if (is_set(serve->reports))
		add(&to_write, serve->reports, strlen(serve->reports));
}

static void gather(const struct config *config, const char *config_path)
{
	to_read.count = to_write.count = 0;
	to_read.is_full = to_write.is_full = false;
	add_around(&to_read, config_path);
	if (config->has_serve) {
		gather_serve(&config->serve);
		return;
	}
	if (config->sidecar.source.kind == OPTION_SOURCE_FILE)
		add_around(&to_read, config->sidecar.source.text);
	add_around(&to_read, config->sidecar.ceiling);
	add_around(&to_read, config->sidecar.keys);
	add_around(&to_read, config->sidecar.tls_ca);
	add_around(&to_read, config->sidecar.tls_certificate);
	add_around(&to_read, config->sidecar.tls_key);
	add_around(&to_read, config->sidecar.etcd_password);
	add_around(&to_read, config->daemon.geo_country);
	add_around(&to_read, config->daemon.geo_asn);
	add(&to_write, config->sidecar.state, strlen(config->sidecar.state));
	add_around(&to_write, config->daemon.records);
	add_bind(&to_write, &config->daemon.admin);
	for (size_t i = 0; i < config->listener_count; i++)
		add_bind(&to_write, &config->listeners[i].bind);
}

static struct sandbox_options options_of(const struct config *config)
{
	return (struct sandbox_options){ .role = SANDBOX_ROLE_SIDECAR, .user = config->has_serve ? config->serve.user : config->sidecar.user };
}

static enum err give(const char *what, const char *path, int fd, uid_t uid, gid_t gid)
{
	struct stat st;

	/* What belongs to somebody else already is left as its owner wants it. */
	if (fstat(fd, &st) != 0 ||
	    (st.st_uid == geteuid() && st.st_uid != uid && fchown(fd, uid, gid) != 0)) {
		log_line(LOG_LEVEL_ERROR, "%s_not_given path=%s errno=%d", what, path, errno);
		return ERR_SYSTEM;
	}
	return ERR_OK;
}

static enum err prepare_state(const char *path, uid_t uid, gid_t gid)
{
	int error, fd;
	enum err e;

	if (mkdir(path, 0700) != 0 && errno != EEXIST) {
		error = errno;
		log_line(LOG_LEVEL_ERROR, "state_not_made path=%s errno=%d", path, error);
		errno = error;
		return ERR_SYSTEM;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		log_line(LOG_LEVEL_ERROR, "state_not_opened path=%s errno=%d", path, errno);
		return ERR_SYSTEM;
	}
	e = give("state", path, fd, uid, gid);
	close(fd);
	return e;
}

/* Best effort: what fails here is said again, and tried again, when the file is opened. */
static enum err prepare_records(const char *path, uid_t uid, gid_t gid)
{
	int fd;
	enum err e;

	if (!is_set(path) || uid == geteuid())
		return ERR_OK;
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0640);
	if (fd < 0)
		return ERR_OK;
	e = give("records", path, fd, uid, gid);
	close(fd);
	return e;
}

enum err confine_prepare(const struct config *config, bool will_enter)
{
	struct sandbox_options options = options_of(config);
	uid_t uid = geteuid();
	gid_t gid = getegid();
	enum err e = will_enter ? sandbox_identity(&options, &uid, &gid) : ERR_OK;

	if (e != ERR_OK) {
		log_line(LOG_LEVEL_ERROR, "user_not_chosen user=%s error=\"%s\"",
			 is_set(options.user) ? options.user : "-", err_text(e));
		return e;
	}
	if (config->has_serve)
		return is_set(config->serve.reports) ? prepare_state(config->serve.reports, uid, gid) : ERR_OK;
	e = prepare_state(config->sidecar.state, uid, gid);
	return e == ERR_OK ? prepare_records(config->daemon.records, uid, gid) : e;
}

enum err confine_enter(const struct config *config, const char *config_path)
{
	struct sandbox_options options = options_of(config);
	struct sandbox_report report;

	gather(config, config_path);
	if (to_read.is_full || to_write.is_full) {
		log_line(LOG_LEVEL_ERROR, "too_many_folders limit=%d", SANDBOX_PATHS_MAX - 1);
		return ERR_LIMIT;
	}
	for (size_t i = 0; i < to_read.count; i++)
		options.read_paths[i] = to_read.text[i];
	for (size_t i = 0; i < to_write.count; i++)
		options.write_paths[i] = to_write.text[i];
	return sandbox_enter(&options, &report);
}
