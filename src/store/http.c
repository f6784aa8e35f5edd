/*
 * libcurl's multi interface on net/loop. Promises that it never blocks a turn, that a cancelled request never calls back, and that no
 * line, body or error text grows beyond its limit. Refuses to know what is asked. Called by driver_https, driver_etcd.
 */
#include "store/http.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"

#define ERROR_BODY_MAX 4096 /* of an answer that is not 2xx */

struct http {
	struct loop *loop;           /* borrowed */
	char *ca, *certificate, *key; /* owned; NULL: not set */
	CURLM *multi;                /* owned */
	struct loop_timer timer;     /* libcurl's own */
	struct list requests;        /* of struct http_request */
	bool is_inside;              /* libcurl is on the stack: handles cannot be removed now */
};

/* One socket of libcurl's. */
struct http_socket {
	struct http *http; /* borrowed */
	struct loop_watch watch;
};

struct http_request {
	struct list_node node;
	struct http *http;                /* borrowed */
	CURL *easy;                       /* owned */
	struct curl_slist *headers;       /* owned */
	char *body;                       /* owned: what is posted */
	const struct http_events *events; /* borrowed, static */
	void *arg;                        /* borrowed */
	struct buf answer;                /* the unfinished line, or the body */
	size_t line_max;
	bool is_cancelled, is_too_long;
	char error[CURL_ERROR_SIZE];
};

static void release(struct http_request *r)
{
	list_remove(&r->http->requests, &r->node);
	if (r->easy != NULL)
		curl_multi_remove_handle(r->http->multi, r->easy);
	curl_easy_cleanup(r->easy);
	curl_slist_free_all(r->headers);
	buf_finish(&r->answer);
	alloc_free(r->body);
	alloc_free(r);
}

unsigned http_status(const struct http_request *r)
{
	long status = 0;

	curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
	return status > 0 && status < 1000 ? (unsigned)status : 0;
}

static void finish_request(struct http_request *r, CURLcode code)
{
	const struct http_events *events = r->events;
	void *arg = r->arg;
	struct http_outcome outcome = { .end = HTTP_END_ANSWERED, .status = http_status(r), .error = "" };
	struct buf answer = r->answer;
	char error[CURL_ERROR_SIZE];

	if (code != CURLE_OK) {
		outcome.end = code == CURLE_OPERATION_TIMEDOUT ? HTTP_END_TIMEOUT : HTTP_END_FAILED;
		snprintf(error, sizeof(error), "%s", r->error[0] != '\0' ? r->error : curl_easy_strerror(code));
		outcome.error = error;
	}
	if (r->is_too_long)
		outcome = (struct http_outcome){ HTTP_END_TOO_LONG, outcome.status, { "", 0 }, "longer than its limit" };
	outcome.body = (struct text){ answer.len == 0 ? "" : (const char *)buf_data(&answer), answer.len };
	/* The answer outlives the request for one call. */
	buf_init(&r->answer, 1);
	release(r);
	events->on_done(arg, &outcome);
	buf_finish(&answer);
}

/* What ended, and what was cancelled while libcurl was on the stack. */
static void reap(struct http *h)
{
	struct list_node *node, *next;
	CURLMsg *msg;
	int left;

	LIST_FOREACH(node, next, &h->requests) {
		struct http_request *r = CONTAINER_OF(node, struct http_request, node);

		if (r->is_cancelled)
			release(r);
	}
	while ((msg = curl_multi_info_read(h->multi, &left)) != NULL) {
		struct http_request *r;
		CURLcode code = msg->data.result;

		if (msg->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&r);
		finish_request(r, code);
	}
}

static void act(struct http *h, curl_socket_t fd, int what)
{
	int running;

	h->is_inside = true;
	curl_multi_socket_action(h->multi, fd, what, &running);
	h->is_inside = false;
	reap(h);
}

static void on_ready(void *arg, int fd, unsigned what)
{
	struct http_socket *s = arg;
	int action = ((what & LOOP_READ) != 0 ? CURL_CSELECT_IN : 0) | ((what & LOOP_WRITE) != 0 ? CURL_CSELECT_OUT : 0);

	act(s->http, fd, action);
}

static void on_timer(void *arg)
{
	act(arg, CURL_SOCKET_TIMEOUT, 0);
}

static int on_timer_wanted(CURLM *multi, long wait_ms, void *arg)
{
	struct http *h = arg;

	loop_timer_cancel(&h->timer);
	if (wait_ms < 0)
		return 0;
	return loop_timer_start(&h->timer, (uint64_t)wait_ms) == ERR_OK ? 0 : -1;
}

static int on_socket_wanted(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
	struct http *h = arg;
	struct http_socket *s = socket_arg;
	unsigned wanted = ((what & CURL_POLL_IN) != 0 ? LOOP_READ : 0u) | ((what & CURL_POLL_OUT) != 0 ? LOOP_WRITE : 0u);

	if (s != NULL)
		loop_watch_stop(&s->watch);
	if (what == CURL_POLL_REMOVE) {
		curl_multi_assign(h->multi, fd, NULL);
		alloc_free(s);
		return 0;
	}
	if (s == NULL) {
		s = alloc_zeroed(sizeof(*s));
		if (s == NULL)
			return -1;
		s->http = h;
		if (curl_multi_assign(h->multi, fd, s) != CURLM_OK) {
			alloc_free(s);
			return -1;
		}
	}
	loop_watch_init(&s->watch, h->loop, fd, wanted, on_ready, s);
	return wanted == 0 || loop_watch_start(&s->watch) == ERR_OK ? 0 : -1;
}

static bool keep(struct http_request *r, const char *bytes, size_t len)
{
	if (buf_append(&r->answer, bytes, len) == ERR_OK)
		return true;
	r->is_too_long = true;
	return false;
}

/* Hand over each line that is complete now. */
static bool take_lines(struct http_request *r, const char *bytes, size_t len)
{
	while (len > 0 && !r->is_cancelled) {
		const char *end = memchr(bytes, '\n', len);
		size_t part = end == NULL ? len : (size_t)(end - bytes);

		if (r->answer.len + part > r->line_max) {
			r->is_too_long = true;
			return false;
		}
		if (end == NULL)
			return keep(r, bytes, len);
		if (r->answer.len == 0) {
			r->events->on_line(r->arg, (struct text){ bytes, part });
		} else {
			if (!keep(r, bytes, part))
				return false;
			r->events->on_line(r->arg, (struct text){ (const char *)buf_data(&r->answer), r->answer.len });
			buf_consume(&r->answer, r->answer.len);
			buf_trim(&r->answer);
		}
		bytes += part + 1;
		len -= part + 1;
	}
	return true;
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *arg)
{
	struct http_request *r = arg;
	unsigned status = http_status(r);
	size_t len = size * count;

	if (r->is_cancelled)
		return 0;
	if (status / 100 != 2) {
		size_t room = r->answer.len < ERROR_BODY_MAX ? ERROR_BODY_MAX - r->answer.len : 0;

		return keep(r, bytes, len < room ? len : room) ? len : 0;
	}
	if (r->events->on_line != NULL)
		return take_lines(r, bytes, len) && !r->is_cancelled ? len : 0;
	return keep(r, bytes, len) ? len : 0;
}

#define SET(option, value) (set = set && curl_easy_setopt(r->easy, option, value) == CURLE_OK)

static bool set_tls(struct http_request *r, const struct http *h)
{
	bool set = true;

	SET(CURLOPT_SSL_VERIFYPEER, 1L);
	SET(CURLOPT_SSL_VERIFYHOST, 2L);
	SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (h->ca != NULL) {
		SET(CURLOPT_CAINFO, h->ca);
		SET(CURLOPT_CAPATH, NULL);
	}
	if (h->certificate != NULL) {
		SET(CURLOPT_SSLCERT, h->certificate);
		SET(CURLOPT_SSLKEY, h->key);
	}
	return set;
}

static bool set_limits(struct http_request *r, const struct http_request_options *o)
{
	bool set = true;

	SET(CURLOPT_CONNECTTIMEOUT_MS, (long)o->connect_ms);
	SET(CURLOPT_TIMEOUT_MS, (long)o->total_ms);
	SET(CURLOPT_LOW_SPEED_LIMIT, o->silence_s == 0 ? 0L : 1L);
	SET(CURLOPT_LOW_SPEED_TIME, (long)o->silence_s);
	return set;
}

static bool set_up(struct http_request *r, const struct http_request_options *o)
{
	bool set = true;

	SET(CURLOPT_URL, o->url);
	SET(CURLOPT_PRIVATE, r);
	SET(CURLOPT_ERRORBUFFER, r->error);
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_NOPROXY, "*");
	SET(CURLOPT_PROXY, "");
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	SET(CURLOPT_TCP_NODELAY, 1L);
	SET(CURLOPT_TCP_KEEPALIVE, 1L);
	SET(CURLOPT_USERAGENT, PACKAGE_NAME "/" PACKAGE_VERSION);
	SET(CURLOPT_WRITEFUNCTION, on_bytes);
	SET(CURLOPT_WRITEDATA, r);
	SET(CURLOPT_HTTPHEADER, r->headers);
	if (o->body.at != NULL) {
		SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)o->body.len);
		SET(CURLOPT_POSTFIELDS, r->body);
	}
	return set_limits(r, o) && set_tls(r, r->http) && set;
}

#undef SET

static enum err copy_headers(struct http_request *r, const struct http_request_options *o)
{
	for (size_t i = 0; i < HTTP_HEADERS_MAX && o->headers[i] != NULL; i++) {
		struct curl_slist *longer;

		/* A line end would begin another header. */
		if (strpbrk(o->headers[i], "\r\n") != NULL)
			return ERR_INVALID;
		longer = curl_slist_append(r->headers, o->headers[i]);
		if (longer == NULL)
			return ERR_NO_MEMORY;
		r->headers = longer;
	}
	return ERR_OK;
}

enum err http_start(struct http *h, const struct http_request_options *options, const struct http_events *events, void *arg,
		    struct http_request **out_request)
{
	struct http_request *r = alloc_zeroed(sizeof(*r));
	size_t max = events->on_line != NULL ? options->line_max : options->body_max;
	enum err e = ERR_NO_MEMORY;
	CURL *easy;

	if (r == NULL)
		return e;
	r->http = h;
	r->events = events;
	r->arg = arg;
	r->line_max = options->line_max;
	buf_init(&r->answer, max > ERROR_BODY_MAX ? max : ERROR_BODY_MAX);
	list_push_back(&h->requests, &r->node);
	e = copy_headers(r, options);
	if (e == ERR_OK && options->body.at != NULL) {
		r->body = alloc_copy(options->body.at, options->body.len);
		e = r->body == NULL ? ERR_NO_MEMORY : ERR_OK;
	}
	if (e != ERR_OK)
		goto out;
	easy = curl_easy_init();
	r->easy = easy;
	e = ERR_NO_MEMORY;
	if (easy == NULL || !set_up(r, options) || curl_multi_add_handle(h->multi, easy) != CURLM_OK)
		goto out;
	*out_request = r;
	return ERR_OK;
out:
	release(r);
	return e;
}

void http_cancel(struct http_request *r)
{
	if (r == NULL)
		return;
	r->is_cancelled = true;
	if (!r->http->is_inside)
		release(r);
}

static bool is_set(const char *text)
{
	return text != NULL && text[0] != '\0';
}

static bool keep_path(const char *path, char **out_copy)
{
	if (!is_set(path))
		return true;
	*out_copy = alloc_copy(path, strlen(path));
	return *out_copy != NULL;
}

void http_destroy(struct http *h)
{
	if (h == NULL)
		return;
	curl_multi_cleanup(h->multi);
	loop_timer_cancel(&h->timer);
	alloc_free(h->ca);
	alloc_free(h->certificate);
	alloc_free(h->key);
	alloc_free(h);
	curl_global_cleanup();
}

enum err http_create(struct loop *loop, const struct http_options *options, struct http **out_http)
{
	struct http *h;

	if (is_set(options->certificate) != is_set(options->key))
		return ERR_INVALID;
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return ERR_UNSUPPORTED;
	h = alloc_zeroed(sizeof(*h));
	if (h == NULL) {
		curl_global_cleanup();
		return ERR_NO_MEMORY;
	}
	h->loop = loop;
	list_init(&h->requests);
	loop_timer_init(&h->timer, loop, on_timer, h);
	h->multi = curl_multi_init();
	if (h->multi == NULL || !keep_path(options->ca, &h->ca) || !keep_path(options->certificate, &h->certificate) ||
	    !keep_path(options->key, &h->key) || curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, on_socket_wanted) != CURLM_OK ||
	    curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h) != CURLM_OK ||
	    curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, on_timer_wanted) != CURLM_OK ||
	    curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h) != CURLM_OK ||
	    curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, 4L) != CURLM_OK)
		goto out;
	*out_http = h;
	return ERR_OK;
out:
	http_destroy(h);
	return ERR_NO_MEMORY;
}
