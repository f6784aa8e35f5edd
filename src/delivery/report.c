/* POST /v1/proxies/{id}/status, one at a time, the newest body always last; see report.h. */
#include "delivery/report.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "store/endpoints.h"

#define EVERY_MS 10000
#define CONNECT_MS 3000
#define TOTAL_MS 8000
#define ANSWER_MAX 4096
#define NAME_MAX_LEN 64

struct report {
	struct loop *loop;            /* borrowed */
	struct endpoints endpoints;
	struct http *http;            /* owned */
	struct http_request *request; /* owned; NULL between two */
	char proxy[NAME_MAX_LEN + 1];
	char *said;                   /* owned: the body that was posted last; NULL: none, or not taken */
	size_t said_len;
	uint64_t said_at_ms, not_before_ms;
	uint64_t sent, failed;
	struct log_limit complaint;
};

static void on_done(void *arg, const struct http_outcome *outcome)
{
	struct report *r = arg;

	r->request = NULL;
	if (outcome->end == HTTP_END_ANSWERED && outcome->status / 100 == 2) {
		endpoints_succeed(&r->endpoints);
		r->sent++;
		return;
	}
	r->failed++;
	log_limited(&r->complaint, LOG_LEVEL_WARN, "report_not_taken endpoint=%s status=%u error=\"%s\"",
		    endpoints_url(&r->endpoints), outcome->status, outcome->error);
	alloc_free(r->said);
	r->said = NULL;
	r->not_before_ms = loop_now_ms(r->loop) + endpoints_fail(&r->endpoints);
}

static const struct http_events events = { NULL, on_done };

static bool is_due(const struct report *r, struct text body)
{
	uint64_t now_ms = loop_now_ms(r->loop);

	if (r->request != NULL || now_ms < r->not_before_ms)
		return false;
	return r->said == NULL || now_ms - r->said_at_ms >= EVERY_MS || r->said_len != body.len ||
	       memcmp(r->said, body.at, body.len) != 0;
}

void report_say(struct report *r, struct text body)
{
	char url[ENDPOINTS_URL_MAX + NAME_MAX_LEN + 32];
	struct http_request_options options = {
		.url = url,
		.headers = { "Content-Type: application/json" },
		.body = body,
		.body_max = ANSWER_MAX,
		.connect_ms = CONNECT_MS,
		.total_ms = TOTAL_MS,
	};

	if (!is_due(r, body))
		return;
	snprintf(url, sizeof(url), "%s/v1/proxies/%s/status", endpoints_url(&r->endpoints), r->proxy);
	alloc_free(r->said);
	r->said = alloc_copy(body.at, body.len);
	r->said_len = body.len;
	r->said_at_ms = loop_now_ms(r->loop);
	if (http_start(r->http, &options, &events, r, &r->request) != ERR_OK)
		r->failed++;
}

const char *report_proxy(const struct report *r)
{
	return r->proxy;
}

uint64_t report_sent(const struct report *r)
{
	return r->sent;
}

uint64_t report_failed(const struct report *r)
{
	return r->failed;
}

void report_string(struct sink *out, const char *text)
{
	sink_u8(out, '"');
	for (; *text != '\0'; text++) {
		if (*text == '"' || *text == '\\')
			sink_u8(out, '\\');
		sink_u8(out, *text < ' ' || *text > '~' ? (uint8_t)'?' : (uint8_t)*text);
	}
	sink_u8(out, '"');
}

/* A name is a part of a path as it is. */
bool report_is_name(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len <= NAME_MAX_LEN &&
	       strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == len;
}

enum err report_open(struct loop *loop, const struct report_options *options, struct report **out_report)
{
	struct report *r;
	enum err e;

	if (!report_is_name(options->proxy))
		return ERR_INVALID;
	r = alloc_zeroed(sizeof(*r));
	if (r == NULL)
		return ERR_NO_MEMORY;
	r->loop = loop;
	r->complaint = (struct log_limit){ .burst = 3, .interval_ms = 60000 };
	snprintf(r->proxy, sizeof(r->proxy), "%s", options->proxy);
	e = endpoints_init(&r->endpoints, options->urls, "https://");
	if (e == ERR_OK)
		e = http_create(loop, &options->tls, &r->http);
	if (e != ERR_OK) {
		report_close(r);
		return e;
	}
	*out_report = r;
	return ERR_OK;
}

void report_close(struct report *r)
{
	if (r == NULL)
		return;
	http_cancel(r->request);
	http_destroy(r->http);
	endpoints_finish(&r->endpoints);
	alloc_free(r->said);
	alloc_free(r);
}
