/* Which store, with which credentials; see frames_remote.h. The password is in memory here only while the source copies it. */
#include "sidecar/frames_remote.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/crypto.h"
#include "sidecar/driver_etcd.h"
#include "sidecar/driver_https.h"

#define PASSWORD_MAX 512

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

/* The first line of a file. */
static enum err read_password(const char *path, char out_text[PASSWORD_MAX + 1])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t len;

	if (fd < 0)
		return ERR_SYSTEM;
	len = read(fd, out_text, PASSWORD_MAX + 1);
	close(fd);
	if (len < 0)
		return ERR_SYSTEM;
	out_text[len > PASSWORD_MAX ? 0 : len] = '\0';
	out_text[strcspn(out_text, "\r\n")] = '\0';
	return out_text[0] == '\0' ? ERR_INVALID : ERR_OK;
}

static enum err open_etcd(struct loop *loop, const struct sidecar_options *o, const struct http_options *tls,
			  struct frames_source **out_source)
{
	char password[PASSWORD_MAX + 1] = "";
	struct driver_etcd_options options = {
		.members = o->source.text, .cell = o->cell, .user = o->etcd_user, .password = password, .tls = *tls
	};
	enum err e = o->etcd_password == NULL ? ERR_OK : read_password(o->etcd_password, password);

	if (e == ERR_OK)
		e = driver_etcd_open(loop, &options, out_source);
	crypto_wipe(password, sizeof(password));
	return e;
}

enum err frames_remote_open(struct loop *loop, const struct sidecar_options *options, struct frames_source **out_source)
{
	struct http_options tls = { options->tls_ca, options->tls_certificate, options->tls_key };
	struct driver_https_options https = { .urls = options->source.text, .cell = options->cell, .tls = tls };

	if (options->source.kind == OPTION_SOURCE_HTTPS)
		return is_list_of(options->source.text, "https://") ? driver_https_open(loop, &https, out_source) : ERR_INVALID;
	if (options->source.kind == OPTION_SOURCE_ETCD)
		return !is_list_of(options->source.text, NULL) ? ERR_INVALID : open_etcd(loop, options, &tls, out_source);
	return ERR_UNSUPPORTED;
}
