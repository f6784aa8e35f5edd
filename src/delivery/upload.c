/*
 * One batch at a time: load, pack, post; gone when acknowledged, halved on 413, else posted again later, the same bytes under the same key.
 * A key names what stands first in the batch, so it is of that batch alone. Called by drain.
 */
#include "delivery/upload.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "store/gzip.h"
#include "delivery/report.h"
#include "store/endpoints.h"

#define SETTLE_MS 500
#define CONNECT_MS 3000
#define TOTAL_MS 30000
#define ANSWER_MAX 4096
#define NAME_MAX_LEN 64
#define RETRY_MS 1000 /* after trouble of our own */

struct upload {
	struct loop *loop;            /* borrowed */
	struct spool *spool;          /* borrowed */
	struct endpoints endpoints;
	struct http *http;            /* owned */
	struct http_request *request; /* owned; NULL between two */
	char proxy[NAME_MAX_LEN + 1];
	bool is_loaded;
	struct spool_batch batch;     /* while loaded; its lines go once they are packed */
	uint8_t *packed;              /* owned */
	size_t packed_len;
	uint64_t not_before_ms;
	uint64_t sent, failed;
	struct log_limit complaint;
};

static void forget_batch(struct upload *u)
{
	spool_batch_finish(&u->batch);
	alloc_free(u->packed);
	u->packed = NULL;
	u->is_loaded = false;
}

static void wait_a_bit(struct upload *u, uint64_t wait_ms)
{
	u->not_before_ms = loop_now_ms(u->loop) + wait_ms;
}

static void on_acknowledged(struct upload *u)
{
	endpoints_succeed(&u->endpoints);
	u->sent += u->batch.count;
	/* Sent again it is the same batch under the same key, which control has. */
	if (spool_take(u->spool) != ERR_OK) {
		log_limited(&u->complaint, LOG_LEVEL_ERROR, "decisions_not_removed batch=%" PRIu64, u->batch.sequence);
		wait_a_bit(u, RETRY_MS);
	}
	forget_batch(u);
}

/* Too much for one request. */
static void on_too_large(struct upload *u)
{
	enum err e = spool_split(u->spool);

	if (e == ERR_LIMIT) {
		log_limited(&u->complaint, LOG_LEVEL_ERROR, "decision_too_large sequence=%" PRIu64 " why=\"lost: control takes no shorter request\"",
			    u->batch.sequence);
		spool_give_up(u->spool);
	} else if (e != ERR_OK) {
		wait_a_bit(u, RETRY_MS);
	}
	forget_batch(u);
}

static void on_done(void *arg, const struct http_outcome *outcome)
{
	struct upload *u = arg;

	u->request = NULL;
	if (outcome->end == HTTP_END_ANSWERED && outcome->status / 100 == 2) {
		on_acknowledged(u);
		upload_go_on(u);
		return;
	}
	u->failed++;
	log_limited(&u->complaint, LOG_LEVEL_WARN, "decisions_not_taken endpoint=%s status=%u error=\"%s\"", endpoints_url(&u->endpoints),
		    outcome->status, outcome->error);
	if (outcome->end == HTTP_END_ANSWERED && outcome->status == 413)
		on_too_large(u);
	else
		wait_a_bit(u, endpoints_fail(&u->endpoints));
}

static const struct http_events events = { NULL, on_done };

static enum err load(struct upload *u)
{
	enum err e = spool_load(u->spool, &u->batch);

	if (e != ERR_OK)
		return e;
	u->is_loaded = true;
	e = gzip_pack(u->batch.lines, u->batch.len, &u->packed, &u->packed_len);
	alloc_free(u->batch.lines);
	u->batch.lines = NULL;
	if (e != ERR_OK)
		forget_batch(u);
	return e;
}

static enum err post(struct upload *u)
{
	char url[ENDPOINTS_URL_MAX + 32], key[NAME_MAX_LEN + 80];
	struct http_request_options options = {
		.url = url,
		.headers = { "Content-Type: application/x-ndjson", "Content-Encoding: gzip", key },
		.body = { (const char *)u->packed, u->packed_len },
		.body_max = ANSWER_MAX,
		.connect_ms = CONNECT_MS,
		.total_ms = TOTAL_MS,
	};

	snprintf(url, sizeof(url), "%s/v1/decisions", endpoints_url(&u->endpoints));
	snprintf(key, sizeof(key), "Idempotency-Key: %s/%016" PRIx64 "/%" PRIu64, u->proxy, u->batch.boot, u->batch.sequence);
	return http_start(u->http, &options, &events, u, &u->request);
}

void upload_go_on(struct upload *u)
{
	enum err e = ERR_OK;

	if (u->request != NULL || loop_now_ms(u->loop) < u->not_before_ms)
		return;
	if (!u->is_loaded) {
		if (!spool_has_batch(u->spool, SETTLE_MS))
			return;
		e = load(u);
	}
	if (e == ERR_OK)
		e = post(u);
	if (e == ERR_OK || e == ERR_NOT_FOUND)
		return;
	log_limited(&u->complaint, LOG_LEVEL_ERROR, "decisions_not_posted error=\"%s\"", err_text(e));
	wait_a_bit(u, RETRY_MS);
}

uint64_t upload_sent(const struct upload *u)
{
	return u->sent;
}

uint64_t upload_failed(const struct upload *u)
{
	return u->failed;
}

enum err upload_open(struct loop *loop, const struct upload_options *options, struct spool *spool, struct upload **out_upload)
{
	struct upload *u;
	enum err e;

	if (!report_is_name(options->proxy))
		return ERR_INVALID;
	u = alloc_zeroed(sizeof(*u));
	if (u == NULL)
		return ERR_NO_MEMORY;
	u->loop = loop;
	u->spool = spool;
	u->complaint = (struct log_limit){ .burst = 3, .interval_ms = 60000 };
	snprintf(u->proxy, sizeof(u->proxy), "%s", options->proxy);
	e = endpoints_init(&u->endpoints, options->urls, "https://");
	if (e == ERR_OK)
		e = http_create(loop, &options->tls, &u->http);
	if (e != ERR_OK) {
		upload_close(u);
		return e;
	}
	*out_upload = u;
	return ERR_OK;
}

void upload_close(struct upload *u)
{
	if (u == NULL)
		return;
	http_cancel(u->request);
	http_destroy(u->http);
	endpoints_finish(&u->endpoints);
	forget_batch(u);
	alloc_free(u);
}
