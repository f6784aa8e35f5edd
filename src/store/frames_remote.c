/* Which store, with which credentials; see frames_remote.h. The password is in memory here only while the source copies it. */
#include "store/frames_remote.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "store/driver_etcd.h"
#include "store/driver_https.h"
#include "store/endpoints.h"
#include "store/etcd_client.h"

#define AWAY_MS 30000 /* longer than a restart takes */
#define SPREAD_MS 5000
#define PATH_ROOM 4096

/* Does every part of a list name `scheme`; with NULL: none at all? */
static bool is_list_of(const char *list, const char *scheme)
{
	for (;; list++) {
		size_t len = strcspn(list, ",");

		if (scheme != NULL ? strncmp(list, scheme, strlen(scheme)) != 0 : memmem(list, len, "://", 3) != NULL)
			return false;
		list += len;
		if (*list == '\0')
			return true;
	}
}

/*
 * How long to wait before the first question. A thousand machines whose power came back must not all list their cells in the same second;
 * a first start, and one that takes over within the bounds of the one before it, has guests who wait. When floors were last written, each
 * second while control is heard, tells these apart.
 */
static uint64_t first_wait_ms(const char *state)
{
	char path[PATH_ROOM];
	uint64_t now_ms = clock_wall_ms(), seen_ms, wait_ms;
	struct stat st;

	snprintf(path, sizeof(path), "%s/floors", state == NULL ? "" : state);
	if (stat(path, &st) != 0 || st.st_mtim.tv_sec < 0)
		return 0;
	seen_ms = (uint64_t)st.st_mtim.tv_sec * 1000;
	if (now_ms < seen_ms + AWAY_MS)
		return 0;
	wait_ms = endpoints_spread(SPREAD_MS);
	log_line(LOG_LEVEL_INFO, "first_list_waits ms=%llu why=\"control was last heard %llu s ago: others may start with us\"",
		 (unsigned long long)wait_ms, (unsigned long long)((now_ms - seen_ms) / 1000));
	return wait_ms;
}

static enum err open_etcd(struct loop *loop, const struct sidecar_options *o, const struct http_options *tls,
			  struct frames_source **out_source)
{
	char password[ETCD_CLIENT_PASSWORD_MAX + 1] = "";
	struct driver_etcd_options options = {
		.members = o->source.text, .cell = o->cell, .user = o->etcd_user, .password = password, .tls = *tls,
		.first_wait_ms = first_wait_ms(o->state)
	};
	enum err e = o->etcd_password == NULL ? ERR_OK : etcd_client_read_password(o->etcd_password, password);

	if (e == ERR_OK)
		e = driver_etcd_open(loop, &options, out_source);
	crypto_wipe(password, sizeof(password));
	return e;
}

enum err frames_remote_open(struct loop *loop, const struct sidecar_options *options, struct frames_source **out_source)
{
	struct http_options tls = { options->tls_ca, options->tls_certificate, options->tls_key };
	struct driver_https_options https = { .urls = options->source.text, .cell = options->cell, .tls = tls };

	if (options->source.kind == OPTION_SOURCE_HTTPS) {
		https.first_wait_ms = first_wait_ms(options->state);
		return is_list_of(options->source.text, "https://") ? driver_https_open(loop, &https, out_source) : ERR_INVALID;
	}
	if (options->source.kind == OPTION_SOURCE_ETCD)
		return !is_list_of(options->source.text, NULL) ? ERR_INVALID : open_etcd(loop, options, &tls, out_source);
	return ERR_UNSUPPORTED;
}
