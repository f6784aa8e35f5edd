/*
 * One request at a time, whatever is most urgent: a token, the keyset, a beat, a list of what is there, the next transaction of a change.
 * Promises that every write is guarded by the manifest (or keyset) that was there when it was decided, so that of two publishers one
 * loses, reads again and never puts an older manifest above a newer one. Refuses to know what a lease says. Called by serve.
 */
#include "serve/serve_etcd.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/crypto.h"
#include "base/log.h"
#include "document/beat_doc.h"
#include "document/envelope.h"
#include "document/keyset_doc.h"
#include "serve/serve_shelf.h"

#define ANSWER_MS 10000
#define BEAT_ANSWER_MS 2000     /* on its way to a leader that died it is lost: another member takes the next one well before guests notice */
#define TICK_MS 1000
#define BEHIND_AGAIN_MS 5000    /* a newer manifest may go away again (a restored store) */
#define LIST_AGAIN_MS 300000    /* what others broke is mended that late */
#define BEAT_PATIENCE_MS 2000   /* a beat waits so long for the change that it names */
#define LEFT_OUT_BEFORE_WORDS 5
#define SAID_MAX 200             /* bytes of a refusal that are logged */
#define BODY_MAX (4u << 20)

enum task { TASK_NONE, TASK_LOGIN, TASK_KEYSET_READ, TASK_KEYSET_WRITE, TASK_BEAT, TASK_LIST, TASK_CHANGE };

/* Beats of one group. */
struct group {
	uint64_t put_seq, put_at_ms;
	uint64_t asked_seq; /* on its way */
};

struct keyset_state {
	bool is_read;
	uint64_t revision, version; /* 0: there is none */
	uint8_t sha256[32], payload_sha256[32];
	uint8_t asked_sha256[32];   /* on its way */
};

struct serve_etcd {
	struct loop *loop;            /* borrowed */
	struct etcd_client client;
	struct http_request *request; /* owned; NULL between two */
	struct loop_timer again, tick;
	struct list shelves;          /* of struct serve_shelf, owned */
	struct group groups[BEAT_DOC_GROUPS];
	struct keyset_state keyset;
	enum task task;               /* of the request */
	struct serve_shelf *shelf;    /* likewise; borrowed */
	unsigned group;
	size_t end;
	unsigned page_limit;
	uint64_t revision_high;       /* highest that the store ever showed */
	struct log_limit complaint;
};

static void go_on(struct serve_etcd *p);

#define FOREACH_SHELF(p, s)                                                                                              \
	for (struct list_node *shelf_node = (p)->shelves.head.next;                                                      \
	     shelf_node != &(p)->shelves.head && ((s) = CONTAINER_OF(shelf_node, struct serve_shelf, node)) != NULL;    \
	     shelf_node = shelf_node->next)

static void doubt_all(struct serve_etcd *p)
{
	struct serve_shelf *s;

	p->keyset.is_read = false;
	FOREACH_SHELF(p, s)
		serve_shelf_doubt(s);
}

/* A store that goes back in time holds none of what we know. */
static void note_revision(struct serve_etcd *p, uint64_t revision)
{
	if (revision < p->revision_high) {
		log_line(LOG_LEVEL_ERROR, "store_rolled_back revision=%" PRIu64 " before=%" PRIu64, revision, p->revision_high);
		doubt_all(p);
	}
	p->revision_high = revision;
}

static void wait_after_failure(struct serve_etcd *p)
{
	if (loop_timer_start(&p->again, endpoints_fail(&p->client.endpoints)) != ERR_OK)
		log_limited(&p->complaint, LOG_LEVEL_ERROR, "timer_not_started name=again");
}

static void fail(struct serve_etcd *p, enum frames_break why, const char *error)
{
	log_limited(&p->complaint, LOG_LEVEL_WARN, "store_not_written why=%s member=%s error=\"%s\"", frames_break_word(why),
		    endpoints_url(&p->client.endpoints), error);
	if (why == FRAMES_BREAK_DENIED)
		etcd_client_drop_token(&p->client);
	/* A list goes on at one revision of one member; half of it is none. */
	if (p->task == TASK_LIST)
		serve_shelf_doubt(p->shelf);
	wait_after_failure(p);
}

/* --- the keyset --- */

/* The highest keyset of all cells; NULL: none. */
static struct serve_doc *our_keyset(const struct serve_etcd *p, uint64_t *out_version)
{
	struct serve_doc *best = NULL;
	struct serve_shelf *s;

	*out_version = 0;
	FOREACH_SHELF(p, s) {
		const struct serve_edition *edition = serve_cell_edition(s->cell);

		if (best != NULL && edition->keyset_version <= *out_version)
			continue;
		best = serve_edition_find(edition, "keyset");
		*out_version = edition->keyset_version;
	}
	return best;
}

static void take_keyset(struct serve_etcd *p, const struct etcd_page *page)
{
	struct keyset_state *k = &p->keyset;
	const struct etcd_pair *pair = page->count > 0 ? &page->pairs[0] : NULL;
	struct keyset_doc doc;
	struct envelope envelope;
	struct json_faults faults;
	struct arena arena;

	arena_init(&arena, 0);
	json_faults_init(&faults, &arena);
	*k = (struct keyset_state){ .is_read = true, .revision = pair == NULL ? 0 : pair->revision };
	if (pair != NULL && crypto_sha256(pair->value.at, pair->value.len, k->sha256) == ERR_OK &&
	    envelope_read(pair->value, &envelope) == ENVELOPE_GOOD && envelope.type == ENVELOPE_KEYSET &&
	    keyset_doc_read(envelope.payload, &faults, &doc) == ERR_OK &&
	    crypto_sha256(envelope.payload.at, envelope.payload.len, k->payload_sha256) == ERR_OK)
		k->version = doc.version;
	arena_finish(&arena);
}

/* Is ours to be written? Of one version only another set of signatures may differ. */
static bool is_keyset_due(const struct serve_etcd *p)
{
	const struct keyset_state *k = &p->keyset;
	uint64_t version;
	const struct serve_doc *ours = our_keyset(p, &version);

	return k->is_read && ours != NULL && memcmp(ours->sha256, k->sha256, 32) != 0 &&
	       (version > k->version || (version == k->version && memcmp(ours->payload_sha256, k->payload_sha256, 32) == 0));
}

/* --- beats --- */

/* The newest beat of a group that names what the store has of at least one of its cells; NULL: none is to be put now. */
static struct serve_shelf *beat_due(const struct serve_etcd *p, unsigned g, uint64_t *out_seq)
{
	const struct group *group = &p->groups[g];
	struct serve_shelf *best = NULL, *s;
	bool is_waiting = false;
	uint64_t seq;

	*out_seq = 0;
	FOREACH_SHELF(p, s) {
		if (s->group != g || serve_cell_beat(s->cell, &seq).len == 0)
			continue;
		if (serve_shelf_is_current(s) && seq > *out_seq) {
			best = s;
			*out_seq = seq;
		}
		is_waiting = is_waiting || (!serve_shelf_is_current(s) && (!s->is_listed || serve_shelf_is_due(s)));
	}
	if (best == NULL || *out_seq <= group->put_seq ||
	    (is_waiting && loop_now_ms(p->loop) < group->put_at_ms + BEAT_PATIENCE_MS))
		return NULL;
	return best;
}

/* --- what is asked for --- */

static void on_done(void *arg, const struct http_outcome *outcome);
static const struct http_events events = { NULL, on_done };

static enum err post(struct serve_etcd *p, const char *path, struct text body)
{
	unsigned total_ms = p->task == TASK_BEAT ? BEAT_ANSWER_MS : ANSWER_MS;

	return etcd_client_post(&p->client, path, body, total_ms, &events, p, &p->request);
}

static enum err post_txn(struct serve_etcd *p, struct etcd_txn *txn)
{
	enum err e = etcd_txn_end(txn);

	if (e == ERR_OK)
		e = post(p, "/v3/kv/txn", (struct text){ (const char *)buf_data(&txn->body), txn->body.len });
	buf_finish(&txn->body);
	return e;
}

static enum err ask_keyset(struct serve_etcd *p)
{
	const struct serve_shelf *any = CONTAINER_OF(list_first(&p->shelves), struct serve_shelf, node);
	char body[ETCD_BODY_MAX];
	size_t len = etcd_page_body(&any->ranges[ETCD_PART_KEYSET], (struct text){ "", 0 }, 0, 1, body);

	return post(p, "/v3/kv/range", (struct text){ body, len });
}

static enum err write_keyset(struct serve_etcd *p)
{
	const struct serve_shelf *any = CONTAINER_OF(list_first(&p->shelves), struct serve_shelf, node);
	struct text key = text_of(any->ranges[ETCD_PART_KEYSET].key);
	uint64_t version;
	const struct serve_doc *ours = our_keyset(p, &version);
	struct etcd_txn txn;

	memcpy(p->keyset.asked_sha256, ours->sha256, 32);
	etcd_txn_begin(&txn, BODY_MAX);
	etcd_txn_compare(&txn, key, p->keyset.revision);
	etcd_txn_put(&txn, key, ours->envelope);
	return post_txn(p, &txn);
}

/* A store has one beat for a group: cells of one group need one authority that names them all. */
static void note_left_out(struct serve_shelf *s, bool is_left_out)
{
	s->left_out = is_left_out ? s->left_out + 1 : 0;
	if (s->left_out == LEFT_OUT_BEFORE_WORDS)
		log_line(LOG_LEVEL_ERROR, "cell_without_beats cell=%s group=%u why=\"another authority beats for its group; let one have both, with --cells\"",
			 serve_cell_name(s->cell), s->group);
}

/* Guard with the manifest of every cell that the beat rightly names: who was overtaken finds out with its next beat. */
static enum err add_guards(struct serve_etcd *p, unsigned group, struct text beat, struct etcd_txn *txn)
{
	struct json_faults faults;
	struct envelope envelope;
	struct serve_shelf *s;
	struct beat_doc doc;
	struct arena arena;
	size_t guards = 0;
	enum err e = envelope_read(beat, &envelope) == ENVELOPE_GOOD ? ERR_OK : ERR_INVALID;

	arena_init(&arena, 0);
	json_faults_init(&faults, &arena);
	if (e == ERR_OK)
		e = beat_doc_read(envelope.payload, &faults, &doc);
	FOREACH_SHELF(p, s) {
		const struct beat_doc_cell *named;
		char key[ETCD_KEY_MAX + 2];

		if (e != ERR_OK || s->group != group || !serve_shelf_is_current(s))
			continue;
		named = beat_doc_find(&doc, serve_cell_name(s->cell));
		note_left_out(s, named == NULL);
		/* As many as a transaction takes. */
		if (named == NULL || guards == SERVE_PLAN_OPS_MAX || named->seq != s->seq || memcmp(named->manifest_sha256, s->manifest_sha256, 32) != 0)
			continue;
		snprintf(key, sizeof(key), "%sm", s->ranges[ETCD_PART_CELL].key);
		etcd_txn_compare(txn, text_of(key), s->manifest_revision);
		guards++;
	}
	arena_finish(&arena);
	return e;
}

static enum err write_beat(struct serve_etcd *p, const struct serve_shelf *from, uint64_t seq)
{
	uint64_t its_seq;
	struct text beat = serve_cell_beat(from->cell, &its_seq);
	struct etcd_txn txn;
	enum err e;

	p->groups[from->group].asked_seq = seq;
	etcd_txn_begin(&txn, BODY_MAX);
	e = add_guards(p, from->group, beat, &txn);
	if (e != ERR_OK) {
		buf_finish(&txn.body);
		return e;
	}
	etcd_txn_put(&txn, text_of(from->ranges[ETCD_PART_BEAT].key), beat);
	return post_txn(p, &txn);
}

static enum err ask_page(struct serve_etcd *p, const struct serve_shelf *s)
{
	char body[ETCD_BODY_MAX];
	size_t len = serve_shelf_page_body(s, p->page_limit, body);

	return post(p, "/v3/kv/range", (struct text){ body, len });
}

static enum err write_change(struct serve_etcd *p, struct serve_shelf *s)
{
	struct etcd_txn txn;
	enum err e;

	etcd_txn_begin(&txn, BODY_MAX);
	e = serve_shelf_write(s, &txn, &p->end);
	if (e != ERR_OK) {
		buf_finish(&txn.body);
		return e;
	}
	return post_txn(p, &txn);
}

/* What is most urgent now. */
static enum task choose(struct serve_etcd *p, uint64_t *out_beat_seq)
{
	struct serve_shelf *s;

	if (p->shelves.count == 0)
		return TASK_NONE;
	if (etcd_client_needs_token(&p->client))
		return TASK_LOGIN;
	if (!p->keyset.is_read)
		return TASK_KEYSET_READ;
	if (is_keyset_due(p))
		return TASK_KEYSET_WRITE;
	for (p->group = 0; p->group < BEAT_DOC_GROUPS; p->group++)
		if ((p->shelf = beat_due(p, p->group, out_beat_seq)) != NULL)
			return TASK_BEAT;
	FOREACH_SHELF(p, s) {
		p->shelf = s;
		if (serve_shelf_is_due(s))
			return TASK_CHANGE;
	}
	FOREACH_SHELF(p, s) {
		p->shelf = s;
		if (!s->is_listed)
			return TASK_LIST;
	}
	return TASK_NONE;
}

static void go_on(struct serve_etcd *p)
{
	uint64_t beat_seq = 0;
	enum err e = ERR_OK;

	if (p->request != NULL || p->again.started)
		return;
	p->task = choose(p, &beat_seq);
	switch (p->task) {
	case TASK_NONE:
		return;
	case TASK_LOGIN:
		e = etcd_client_login(&p->client, &events, p, &p->request);
		break;
	case TASK_KEYSET_READ:
		e = ask_keyset(p);
		break;
	case TASK_KEYSET_WRITE:
		e = write_keyset(p);
		break;
	case TASK_BEAT:
		e = write_beat(p, p->shelf, beat_seq);
		break;
	case TASK_LIST:
		e = ask_page(p, p->shelf);
		break;
	case TASK_CHANGE:
		e = write_change(p, p->shelf);
		break;
	}
	if (e != ERR_OK)
		fail(p, FRAMES_BREAK_ERROR, err_text(e));
}

/* --- what is answered --- */

static void say_behind(struct serve_etcd *p, struct serve_shelf *s)
{
	const struct serve_edition *ours = serve_cell_edition(s->cell);
	bool is_behind = serve_shelf_is_behind(s);

	s->list_again_ms = loop_now_ms(p->loop) + (is_behind ? BEHIND_AGAIN_MS : LIST_AGAIN_MS);
	if (is_behind && !s->is_behind_told)
		log_line(LOG_LEVEL_ERROR, "store_is_newer cell=%s epoch=%" PRIu64 " seq=%" PRIu64 " ours=%" PRIu64 " why=\"%s\"",
			 serve_cell_name(s->cell), s->epoch, s->seq, ours->seq,
			 s->seq == ours->seq ? "the same number says something else" : "another authority writes this cell");
	s->is_behind_told = is_behind;
}

static enum err on_page(struct serve_etcd *p, const struct etcd_page *page)
{
	enum err e;

	if (p->task == TASK_KEYSET_READ) {
		note_revision(p, page->revision);
		take_keyset(p, page);
		return ERR_OK;
	}
	/* Pages after the first are of its revision. */
	if (p->shelf->list_revision == 0)
		note_revision(p, page->revision);
	e = serve_shelf_take_page(p->shelf, page);
	if (e == ERR_OK && p->shelf->is_listed)
		say_behind(p, p->shelf);
	return e;
}

/* Somebody else wrote meanwhile: whose guard it was is found out by reading. */
static void on_overtaken(struct serve_etcd *p)
{
	struct serve_shelf *s;

	log_limited(&p->complaint, LOG_LEVEL_WARN, "store_changed_by_another task=%s",
		    p->task == TASK_BEAT ? "beat" : p->task == TASK_CHANGE ? "change" : "keyset");
	if (p->task == TASK_CHANGE)
		serve_shelf_doubt(p->shelf);
	else if (p->task == TASK_KEYSET_WRITE)
		p->keyset.is_read = false;
	else
		FOREACH_SHELF(p, s)
			if (s->group == p->group)
				serve_shelf_doubt(s);
}

static enum err on_written(struct serve_etcd *p, uint64_t revision)
{
	struct serve_shelf *s = p->shelf;
	enum err e;

	if (p->task == TASK_KEYSET_WRITE) {
		uint64_t version;
		const struct serve_doc *ours = our_keyset(p, &version);

		/* Ours may be another one by now; then what is there is read. */
		p->keyset = (struct keyset_state){ .is_read = memcmp(ours->sha256, p->keyset.asked_sha256, 32) == 0,
						   .revision = revision,
						   .version = version };
		memcpy(p->keyset.sha256, ours->sha256, 32);
		memcpy(p->keyset.payload_sha256, ours->payload_sha256, 32);
		return ERR_OK;
	}
	if (p->task == TASK_BEAT) {
		p->groups[p->group].put_seq = p->groups[p->group].asked_seq;
		p->groups[p->group].put_at_ms = loop_now_ms(p->loop);
		return ERR_OK;
	}
	e = serve_shelf_took(s, p->end, revision);
	if (e == ERR_OK && s->published != NULL)
		log_line(LOG_LEVEL_INFO, "store_holds cell=%s seq=%" PRIu64 " documents=%zu revision=%" PRIu64, serve_cell_name(s->cell),
			 s->published->seq, s->published->count, revision);
	return e;
}

static enum err take_answer(struct serve_etcd *p, struct text body)
{
	struct etcd_page page;
	struct arena arena;
	uint64_t revision;
	bool is_done;
	enum err e;

	if (p->task == TASK_LOGIN)
		return etcd_client_take_token(&p->client, body);
	arena_init(&arena, 4 * (size_t)ETCD_PAGE_MAX);
	if (p->task == TASK_KEYSET_READ || p->task == TASK_LIST) {
		e = etcd_page_read(body, &arena, &page);
		if (e == ERR_OK)
			e = on_page(p, &page);
	} else {
		e = etcd_txn_read(body, &arena, &is_done, &revision);
		if (e == ERR_OK && is_done)
			e = on_written(p, revision);
		else if (e == ERR_OK)
			on_overtaken(p);
		if (e == ERR_OK)
			note_revision(p, revision);
	}
	arena_finish(&arena);
	return e;
}

static void on_done(void *arg, const struct http_outcome *outcome)
{
	struct serve_etcd *p = arg;
	enum err e;

	p->request = NULL;
	if (outcome->end == HTTP_END_TOO_LONG) {
		if (p->task == TASK_LIST && p->page_limit > 1)
			p->page_limit = p->page_limit / 4 == 0 ? 1 : p->page_limit / 4;
		fail(p, FRAMES_BREAK_TOO_LONG, outcome->error);
	} else if (outcome->end != HTTP_END_ANSWERED) {
		fail(p, etcd_client_break(outcome), outcome->error);
	} else if (outcome->status != 200) {
		char said[SAID_MAX];

		text_escape(outcome->body, said, sizeof(said));
		fail(p, etcd_client_break(outcome), said);
	} else {
		e = take_answer(p, outcome->body);
		if (e != ERR_OK) {
			if (p->shelf != NULL)
				serve_shelf_doubt(p->shelf);
			fail(p, FRAMES_BREAK_MALFORMED, err_text(e));
		} else {
			endpoints_succeed(&p->client.endpoints);
		}
	}
	go_on(p);
}

/* --- what is offered --- */

static void on_again(void *arg)
{
	go_on(arg);
}

static void on_tick(void *arg)
{
	struct serve_etcd *p = arg;
	uint64_t now_ms = loop_now_ms(p->loop);
	struct serve_shelf *s;

	if (loop_timer_start(&p->tick, TICK_MS) != ERR_OK)
		log_limited(&p->complaint, LOG_LEVEL_ERROR, "timer_not_started name=tick");
	FOREACH_SHELF(p, s) {
		if (!s->is_listed || now_ms < s->list_again_ms || (p->request != NULL && p->shelf == s))
			continue;
		serve_shelf_doubt(s);
		p->keyset.is_read = p->keyset.is_read && p->request != NULL;
	}
	go_on(p);
}

static struct serve_shelf *find_shelf(const struct serve_etcd *p, const struct serve_cell *cell)
{
	struct serve_shelf *s;

	FOREACH_SHELF(p, s)
		if (s->cell == cell)
			return s;
	return NULL;
}

enum err serve_etcd_offer(struct serve_etcd *p, struct serve_cell *cell)
{
	struct serve_shelf *s = find_shelf(p, cell);

	if (s == NULL) {
		enum err e = serve_shelf_create(cell, &s);

		if (e != ERR_OK)
			return e;
		list_push_back(&p->shelves, &s->node);
	}
	go_on(p);
	return ERR_OK;
}

void serve_etcd_beat(struct serve_etcd *p, struct serve_cell *cell)
{
	go_on(p);
}

enum err serve_etcd_open(struct loop *loop, const struct etcd_client_options *options, struct serve_etcd **out_publisher)
{
	struct serve_etcd *p = alloc_zeroed(sizeof(*p));
	enum err e;

	if (p == NULL)
		return ERR_NO_MEMORY;
	p->loop = loop;
	p->page_limit = ETCD_PAGE_KEYS_MAX;
	p->complaint = (struct log_limit){ .burst = 5, .interval_ms = 60000 };
	list_init(&p->shelves);
	loop_timer_init(&p->again, loop, on_again, p);
	loop_timer_init(&p->tick, loop, on_tick, p);
	e = etcd_client_init(&p->client, loop, options);
	if (e == ERR_OK)
		e = loop_timer_start(&p->tick, TICK_MS);
	if (e != ERR_OK) {
		serve_etcd_close(p);
		return e;
	}
	*out_publisher = p;
	return ERR_OK;
}

void serve_etcd_close(struct serve_etcd *p)
{
	struct list_node *node;

	if (p == NULL)
		return;
	loop_timer_cancel(&p->again);
	loop_timer_cancel(&p->tick);
	http_cancel(p->request);
	etcd_client_finish(&p->client);
	while ((node = list_pop_front(&p->shelves)) != NULL)
		serve_shelf_destroy(CONTAINER_OF(node, struct serve_shelf, node));
	alloc_free(p);
}
