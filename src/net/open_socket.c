/* Bind and listen; see open_socket.h. Knows no listener by name. Called by the sidecar and by serve. */
#include "net/open_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/text.h"

/* A fresh name in the folder of `path`, short enough whenever `path` itself is not at the limit. */
static enum err fresh_name(const char *path, struct sockaddr_un *out_sa)
{
	const char *slash = strrchr(path, '/');
	size_t folder_len = slash == NULL ? 0 : (size_t)(slash - path) + 1;
	uint8_t random[4];
	char name[2 * sizeof(random) + 1];
	int len;

	if (strlen(path) >= sizeof(out_sa->sun_path))
		return ERR_INVALID;
	if (crypto_random(random, sizeof(random)) != ERR_OK)
		return ERR_SYSTEM;
	text_from_bytes_hex(random, sizeof(random), name);
	*out_sa = (struct sockaddr_un){ .sun_family = AF_UNIX };
	len = snprintf(out_sa->sun_path, sizeof(out_sa->sun_path), "%.*s.%s", (int)folder_len, path,
		       name);
	return len < 0 || (size_t)len >= sizeof(out_sa->sun_path) ? ERR_INVALID : ERR_OK;
}

enum err open_socket_unix(const char *path, uint32_t mode, int backlog, int *out_fd)
{
	struct sockaddr_un sa;
	struct stat st;
	enum err e = fresh_name(path, &sa);
	int fd, error;

	if (e != ERR_OK)
		return e;
	if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
		return ERR_EXISTS;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	/* The file takes its mode from the socket, so it is never wider than wanted. */
	if (fd < 0 || fchmod(fd, mode) != 0 ||
	    bind(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0)
		goto failed;
	if (chmod(sa.sun_path, mode) == 0 && listen(fd, backlog) == 0 &&
	    rename(sa.sun_path, path) == 0) {
		*out_fd = fd;
		return ERR_OK;
	}
	error = errno;
	unlink(sa.sun_path);
	errno = error;
failed:
	error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	return ERR_SYSTEM;
}

static bool set_on(int fd, int level, int name)
{
	int on = 1;

	return setsockopt(fd, level, name, &on, sizeof(on)) == 0;
}

enum err open_socket_tcp(const struct endpoint *at, int backlog, bool is_shared, int *out_fd)
{
	struct sockaddr_storage sa;
	socklen_t len = endpoint_to_sockaddr(at, &sa);
	int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error;

	if (fd >= 0 && set_on(fd, SOL_SOCKET, SO_REUSEADDR) &&
	    (!is_shared || set_on(fd, SOL_SOCKET, SO_REUSEPORT)) &&
	    (sa.ss_family != AF_INET6 || set_on(fd, IPPROTO_IPV6, IPV6_V6ONLY)) &&
	    bind(fd, (struct sockaddr *)&sa, len) == 0 && listen(fd, backlog) == 0) {
		*out_fd = fd;
		return ERR_OK;
	}
	error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	return error == EADDRINUSE ? ERR_EXISTS : ERR_SYSTEM;
}
