/* See etcd_client.h. The password is wiped with the client; it is in memory, for a token has to be asked for again and again. */
#include "store/etcd_client.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/crypto.h"
#include "store/etcd_request.h"

#define LOGIN_MS 10000
#define SILENCE_S 10 /* a beat comes each second */

static bool is_set(const char *text)
{
	return text != NULL && text[0] != '\0';
}

static enum err keep_login(struct etcd_client *c, const struct etcd_client_options *o)
{
	char body[ETCD_BODY_MAX];
	size_t len;
	enum err e;

	if (!is_set(o->user))
		return ERR_OK;
	if (!is_set(o->password))
		return ERR_INVALID;
	e = etcd_login_body(o->user, o->password, body, &len);
	crypto_wipe(body, sizeof(body));
	if (e != ERR_OK)
		return e;
	c->user = alloc_copy(o->user, strlen(o->user));
	c->password = alloc_copy(o->password, strlen(o->password));
	return c->user == NULL || c->password == NULL ? ERR_NO_MEMORY : ERR_OK;
}

enum err etcd_client_init(struct etcd_client *c, struct loop *loop, const struct etcd_client_options *options)
{
	bool is_tls = is_set(options->tls.ca) || is_set(options->tls.certificate);
	enum err e;

	*c = (struct etcd_client){ .http = NULL };
	e = endpoints_init(&c->endpoints, options->members, is_tls ? "https://" : "http://");
	if (e == ERR_OK)
		e = http_create(loop, &options->tls, &c->http);
	return e == ERR_OK ? keep_login(c, options) : e;
}

void etcd_client_finish(struct etcd_client *c)
{
	http_destroy(c->http);
	endpoints_finish(&c->endpoints);
	alloc_free(c->user);
	if (c->password != NULL)
		crypto_wipe(c->password, strlen(c->password));
	alloc_free(c->password);
	crypto_wipe(c->token, sizeof(c->token));
}

bool etcd_client_needs_token(const struct etcd_client *c)
{
	return c->user != NULL && c->token[0] == '\0';
}

enum err etcd_client_login(struct etcd_client *c, const struct http_events *events, void *arg, struct http_request **out_request)
{
	char body[ETCD_BODY_MAX];
	size_t len;
	enum err e = etcd_login_body(c->user, c->password, body, &len);

	if (e == ERR_OK)
		e = etcd_client_post(c, "/v3/auth/authenticate", (struct text){ body, len }, LOGIN_MS, events, arg, out_request);
	crypto_wipe(body, sizeof(body));
	return e;
}

enum err etcd_client_take_token(struct etcd_client *c, struct text body)
{
	const char *token;
	struct arena arena;
	enum err e;

	arena_init(&arena, 4 * (size_t)ETCD_PAGE_MAX);
	e = etcd_token_read(body, &arena, &token);
	if (e == ERR_OK)
		snprintf(c->token, sizeof(c->token), "Authorization: %s", token);
	arena_finish(&arena);
	return e;
}

void etcd_client_drop_token(struct etcd_client *c)
{
	c->token[0] = '\0';
}

enum err etcd_client_post(struct etcd_client *c, const char *path, struct text body, unsigned total_ms, const struct http_events *events,
			  void *arg, struct http_request **out_request)
{
	char url[ENDPOINTS_URL_MAX + 32];
	struct http_request_options options = {
		.url = url,
		/* Without this header a member that lost its quorum goes on as if nothing had happened. */
		.headers = { "Content-Type: application/json", "Grpc-Metadata-hasleader: true", c->token[0] == '\0' ? NULL : c->token },
		.body = body,
		.line_max = ETCD_LINE_MAX,
		.body_max = ETCD_PAGE_MAX,
		.connect_ms = ETCD_CLIENT_CONNECT_MS,
		.total_ms = total_ms,
		.silence_s = SILENCE_S,
	};

	snprintf(url, sizeof(url), "%s%s", endpoints_url(&c->endpoints), path);
	return http_start(c->http, &options, events, arg, out_request);
}

enum frames_break etcd_client_break_of(enum etcd_refusal refusal, enum frames_break otherwise)
{
	switch (refusal) {
	case ETCD_REFUSAL_TOKEN:
		return FRAMES_BREAK_DENIED;
	case ETCD_REFUSAL_COMPACTED:
		return FRAMES_BREAK_COMPACTED;
	case ETCD_REFUSAL_NO_LEADER:
		return FRAMES_BREAK_NO_LEADER;
	case ETCD_REFUSAL_FUTURE:
		return FRAMES_BREAK_ROLLBACK;
	default:
		return otherwise;
	}
}

enum frames_break etcd_client_break(const struct http_outcome *outcome)
{
	if (outcome->end == HTTP_END_TIMEOUT)
		return FRAMES_BREAK_TIMEOUT;
	if (outcome->end == HTTP_END_FAILED)
		return FRAMES_BREAK_CLOSED;
	return etcd_client_break_of(etcd_refusal_read(outcome->status, outcome->body), FRAMES_BREAK_ERROR);
}

enum err etcd_client_read_password(const char *path, char out_text[ETCD_CLIENT_PASSWORD_MAX + 1])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t len;

	if (fd < 0)
		return ERR_SYSTEM;
	len = read(fd, out_text, ETCD_CLIENT_PASSWORD_MAX + 1);
	close(fd);
	if (len < 0)
		return ERR_SYSTEM;
	out_text[len > ETCD_CLIENT_PASSWORD_MAX ? 0 : len] = '\0';
	out_text[strcspn(out_text, "\r\n")] = '\0';
	return out_text[0] == '\0' ? ERR_INVALID : ERR_OK;
}
