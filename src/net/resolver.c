/*
 * From a name and a family to one answer: a question (shared by the equal lookups of one owner) is tried at one server after
 * another until an answer is final, all servers have failed, or its deadline has passed. Channels go round the owners, so that
 * one with many slow names delays no other. Judges no name and no address. Called by proxy/establish.
 */
#include "net/resolver.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/hash.h"
#include "base/htab.h"
#include "base/list.h"
#include "base/log.h"
#include "base/pool.h"

#define TOTAL_MS_DEFAULT 5000
#define TRY_MS_DEFAULT 1000
#define WAITING_MAX_DEFAULT 4096
#define PER_OWNER_MAX_DEFAULT 64
#define ASKING_MAX_DEFAULT 16
#define QUESTION_AT 12 /* in a query: behind the header */
#define LINE_FEW 16    /* lookups that an owner may have although the line is full */

/* Who asks. Exists while it has lookups. */
struct owner {
	struct htab_node node;
	struct list_node turn;   /* in resolver->turns while it has a question waiting and may ask */
	struct list waiting;     /* of struct question, not asking */
	uint32_t id;
	unsigned lookup_count;
	unsigned asking_count;   /* questions that hold a channel */
	bool is_held;            /* by finish(), whose callbacks may take the last lookup away */
};

struct question {
	struct htab_node node;
	struct list_node waiting;     /* in owner->waiting */
	struct resolver *resolver;    /* borrowed */
	struct owner *owner;          /* borrowed; outlives the question */
	struct list lookups;          /* of struct resolver_lookup, owned */
	bool is_finished;             /* on its way to its lookups */
	struct dname name;
	enum dns_type type;
	struct dns_query query;       /* of the current try */
	struct ares_link_query *asking; /* NULL while waiting */
	struct name_servers_round round;
	size_t server;                /* of the current try, in generation round.generation */
	uint64_t asked_at_ms, deadline_ms;
	uint64_t started_ns;
	enum dns_outcome failure;     /* what to say when no server is left */
	uint8_t failure_rcode;
	struct loop_timer deadline;
};

struct resolver_lookup {
	struct list_node node; /* in question->lookups */
	struct question *question;
	resolver_done_fn *on_done;
	void *arg;             /* borrowed until done or cancelled */
};

struct resolver {
	struct loop *loop;       /* borrowed */
	struct ares_link *link;  /* borrowed */
	struct metrics *metrics; /* borrowed */
	struct resolver_options options;
	struct name_servers servers;
	struct hash_key key;
	struct htab questions, owners;
	struct list turns;       /* of struct owner: the first may ask next */
	size_t waiting_count;
	uint64_t misfits_told;   /* of the link's, already in the metrics */
	struct pool question_pool, owner_pool, lookup_pool;
	struct loop_deferred pump;
};

/* --- questions and owners by key --- */

struct question_key {
	uint32_t owner;
	enum dns_type type;
	const struct dname *name;
};

static uint64_t question_hash(const struct resolver *r, const struct question_key *key)
{
	uint64_t name = hash_bytes(&r->key, key->name->text, key->name->len);
	uint64_t all[3] = { name, key->owner, (uint64_t)key->type };

	return hash_bytes(&r->key, all, sizeof(all));
}

static bool is_question(const struct htab_node *node, const void *key)
{
	const struct question *q = CONTAINER_OF(node, const struct question, node);
	const struct question_key *k = key;

	return q->owner->id == k->owner && q->type == k->type && dname_equal(&q->name, k->name);
}

static bool is_owner(const struct htab_node *node, const void *key)
{
	return CONTAINER_OF(node, const struct owner, node)->id == *(const uint32_t *)key;
}

static struct owner *take_owner(struct resolver *r, uint32_t id)
{
	uint64_t hash = hash_bytes(&r->key, &id, sizeof(id));
	struct htab_node *node = htab_find(&r->owners, hash, is_owner, &id);
	struct owner *o;

	if (node != NULL)
		return CONTAINER_OF(node, struct owner, node);
	o = pool_take(&r->owner_pool);
	if (o == NULL)
		return NULL;
	o->id = id;
	list_init(&o->waiting);
	if (htab_insert(&r->owners, &o->node, hash) != ERR_OK) {
		pool_give(&r->owner_pool, o);
		return NULL;
	}
	return o;
}

static void release_owner(struct resolver *r, struct owner *o)
{
	if (o->lookup_count > 0 || o->is_held)
		return;
	list_remove(&r->turns, &o->turn);
	htab_remove(&r->owners, &o->node);
	pool_give(&r->owner_pool, o);
}

/* --- taking turns --- */

/*
 * Channels that each owner may hold now: as if one more wanted its part, so that who comes next finds some free, however long the names of
 * the others stay silent. Two at least, so that one family's silence does not hold up the other.
 */
static unsigned share(const struct resolver *r)
{
	unsigned part = ares_link_channel_count(r->link) / (unsigned)(r->owners.count + 1);

	if (part < 2)
		part = 2;
	return part < r->options.asking_max ? part : r->options.asking_max;
}

/* Line up, or leave the line, after anything changed. */
static void update_turn(struct resolver *r, struct owner *o)
{
	bool wants = o->waiting.count > 0 && o->asking_count < share(r);

	if (!wants)
		list_remove(&r->turns, &o->turn);
	else if (!list_node_is_linked(&o->turn))
		list_push_back(&r->turns, &o->turn);
}

static void start_waiting(struct question *q)
{
	list_push_back(&q->owner->waiting, &q->waiting);
	q->resolver->waiting_count++;
	update_turn(q->resolver, q->owner);
}

static void stop_waiting(struct question *q)
{
	if (!list_node_is_linked(&q->waiting))
		return;
	list_remove(&q->owner->waiting, &q->waiting);
	q->resolver->waiting_count--;
	update_turn(q->resolver, q->owner);
}

static void stop_asking(struct question *q)
{
	if (q->asking == NULL)
		return;
	q->asking = NULL;
	q->owner->asking_count--;
	update_turn(q->resolver, q->owner);
}

static void on_pump(void *arg);

static void schedule_pump(struct resolver *r)
{
	loop_defer(r->loop, &r->pump, on_pump, r);
}

/* --- the end of a question --- */

static void tell_misfits(struct resolver *r)
{
	uint64_t seen = ares_link_misfit_count(r->link);

	metrics_add(r->metrics, METRIC_DNS_MISFITS, seen - r->misfits_told);
	r->misfits_told = seen;
}

static void tell_metrics(struct question *q, enum dns_outcome outcome)
{
	static const enum metric ids[2][4] = {
		{ METRIC_DNS_A_OK, METRIC_DNS_A_NEGATIVE, METRIC_DNS_A_FAILED, METRIC_DNS_A_TIMEOUT },
		{ METRIC_DNS_AAAA_OK, METRIC_DNS_AAAA_NEGATIVE, METRIC_DNS_AAAA_FAILED, METRIC_DNS_AAAA_TIMEOUT },
	};
	unsigned column = 2;

	if (outcome == DNS_OUTCOME_ADDRESSES)
		column = 0;
	else if (outcome == DNS_OUTCOME_NO_ADDRESS || outcome == DNS_OUTCOME_NXDOMAIN)
		column = 1;
	else if (outcome == DNS_OUTCOME_TIMEOUT)
		column = 3;
	metrics_add(q->resolver->metrics, ids[q->type == DNS_TYPE_AAAA][column], 1);
	metrics_observe_us(q->resolver->metrics, HISTOGRAM_DNS, (clock_mono_ns() - q->started_ns) / 1000);
}

/* Take the question out of everything but its lookups. */
static void unlink_question(struct question *q)
{
	struct resolver *r = q->resolver;

	if (q->asking != NULL)
		ares_link_cancel(q->asking);
	stop_asking(q);
	stop_waiting(q);
	loop_timer_cancel(&q->deadline);
	htab_remove(&r->questions, &q->node);
	tell_misfits(r);
	schedule_pump(r);
}

static void finish(struct question *q, const struct dns_answer *answer)
{
	struct resolver *r = q->resolver;
	struct owner *o = q->owner;
	struct list_node *node;

	unlink_question(q);
	tell_metrics(q, answer->outcome);
	o->is_held = true;
	q->is_finished = true;
	while ((node = list_pop_front(&q->lookups)) != NULL) {
		struct resolver_lookup *l = CONTAINER_OF(node, struct resolver_lookup, node);
		resolver_done_fn *on_done = l->on_done;
		void *arg = l->arg;

		pool_give(&r->lookup_pool, l);
		o->lookup_count--;
		on_done(arg, answer);
	}
	pool_give(&r->question_pool, q);
	o->is_held = false;
	release_owner(r, o);
}

static void finish_without_answer(struct question *q, enum dns_outcome outcome, uint8_t rcode)
{
	struct dns_answer answer = { .outcome = outcome, .rcode = rcode, .canonical = q->name };

	finish(q, &answer);
}

static void on_deadline(void *arg)
{
	finish_without_answer(arg, DNS_OUTCOME_TIMEOUT, 0);
}

/* --- tries --- */

static void on_try_done(void *arg, enum ares_link_status status, const uint8_t *bytes, size_t len, bool case_echoed);

static bool make_query(struct question *q)
{
	struct {
		uint16_t id;
		uint8_t case_bits[32];
	} chance;

	if (crypto_random(&chance, sizeof(chance)) != ERR_OK)
		return false;
	dns_query_build(&q->name, q->type, chance.id, chance.case_bits, &q->query);
	return true;
}

/* Did the query hold both cases, so that only an echo can bring its letters back? */
static bool proves_echo(const struct dns_query *query)
{
	bool upper = false, lower = false;

	for (size_t i = 0; i < query->question_len; i++) {
		uint8_t c = query->bytes[QUESTION_AT + i];

		upper = upper || (c >= 'A' && c <= 'Z');
		lower = lower || (c >= 'a' && c <= 'z');
	}
	return upper && lower;
}

static uint64_t try_ms(const struct question *q, uint64_t now_ms)
{
	uint64_t left_ms = q->deadline_ms > now_ms ? q->deadline_ms - now_ms : 0;

	return left_ms < q->resolver->options.try_ms ? left_ms : q->resolver->options.try_ms;
}

/* Start the next try, or finish when there is no server left for one. */
static void ask(struct question *q)
{
	struct resolver *r = q->resolver;
	uint64_t now_ms = loop_now_ms(r->loop);

	while (name_servers_pick(&r->servers, &q->round, now_ms, &q->server)) {
		const struct name_server *server = &r->servers.list[q->server];
		enum err err = ERR_SYSTEM;

		if (make_query(q))
			err = ares_link_ask(r->link, &server->at, &q->query, try_ms(q, now_ms), server->echoes_case,
					    on_try_done, q, &q->asking);
		if (err == ERR_OK) {
			q->asked_at_ms = now_ms;
			q->owner->asking_count++;
			update_turn(r, q->owner);
			return;
		}
		name_servers_rule_out(&q->round, q->server);
	}
	finish_without_answer(q, q->failure, q->failure_rcode);
}

/* Give the channels that are idle to the owners in their turn. Callbacks under ask() may change everything but this loop. */
static void on_pump(void *arg)
{
	struct resolver *r = arg;
	size_t budget = r->waiting_count; /* what callbacks add must wait, or they could keep us here */

	while (budget-- > 0 && r->turns.count > 0 && ares_link_has_room(r->link)) {
		struct owner *o = CONTAINER_OF(list_pop_front(&r->turns), struct owner, turn);
		struct question *q = CONTAINER_OF(list_first(&o->waiting), struct question, waiting);

		/* It lined up when there were fewer owners; the end of a question of its own brings it back. */
		if (o->asking_count >= share(r))
			continue;
		stop_waiting(q);
		ask(q);
	}
	if (r->turns.count > 0 && ares_link_has_room(r->link))
		schedule_pump(r);
}

/* One server has failed this question for good. Words of a server tell more than its absence. */
static void note_failure(struct question *q, enum dns_outcome outcome, uint8_t rcode)
{
	name_servers_rule_out(&q->round, q->server);
	if (outcome == DNS_OUTCOME_UNREACHABLE && q->failure != DNS_OUTCOME_UNREACHABLE)
		return;
	q->failure = outcome;
	q->failure_rcode = rcode;
}

/* Say once that a server fell silent or came back. */
static void tell_health(const struct name_server *server, bool was_dead)
{
	static _Thread_local struct log_limit limit = { .burst = 10, .interval_ms = 60000 };
	char at[ENDPOINT_TEXT_MAX];

	if (server->is_dead == was_dead)
		return;
	log_limited(&limit, server->is_dead ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "%s server=%s",
		    server->is_dead ? "name_server_silent" : "name_server_back", endpoint_print(&server->at, at));
}

static void note_health(struct question *q, enum ares_link_status status, bool case_echoed)
{
	struct name_servers *servers = &q->resolver->servers;
	uint64_t now_ms = loop_now_ms(q->resolver->loop);
	bool was_dead;

	if (q->round.generation != servers->generation)
		return;
	was_dead = servers->list[q->server].is_dead;
	switch (status) {
	case ARES_LINK_ANSWER:
		name_servers_heard(servers, q->server, case_echoed && proves_echo(&q->query), now_ms);
		break;
	case ARES_LINK_TIMEOUT:
		name_servers_missed(servers, q->server, q->asked_at_ms, now_ms);
		break;
	case ARES_LINK_FAILED:
		name_servers_lost(servers, q->server, now_ms);
		break;
	}
	tell_health(&servers->list[q->server], was_dead);
}

/* Returns true when the answer is final and was delivered. */
static bool take_answer(struct question *q, const uint8_t *bytes, size_t len)
{
	struct dns_answer answer;

	dns_answer_read(&q->query, bytes, len, &answer);
	switch (answer.outcome) {
	case DNS_OUTCOME_ADDRESSES:
	case DNS_OUTCOME_NO_ADDRESS:
	case DNS_OUTCOME_NXDOMAIN:
		finish(q, &answer);
		return true;
	case DNS_OUTCOME_TRUNCATED: /* over TCP, or nothing would have come */
		answer.outcome = DNS_OUTCOME_MALFORMED;
		break;
	case DNS_OUTCOME_SERVER_FAILURE:
	case DNS_OUTCOME_MALFORMED:
	case DNS_OUTCOME_TIMEOUT:
	case DNS_OUTCOME_UNREACHABLE:
		break;
	}
	note_failure(q, answer.outcome, answer.rcode);
	return false;
}

static void on_try_done(void *arg, enum ares_link_status status, const uint8_t *bytes, size_t len, bool case_echoed)
{
	struct question *q = arg;
	struct resolver *r = q->resolver;

	stop_asking(q);
	note_health(q, status, case_echoed);
	if (status == ARES_LINK_ANSWER && take_answer(q, bytes, len))
		return;
	if (status == ARES_LINK_FAILED)
		note_failure(q, DNS_OUTCOME_UNREACHABLE, 0);
	if (!name_servers_is_open(&r->servers, &q->round)) {
		finish_without_answer(q, q->failure, q->failure_rcode);
		return;
	}
	/* To the end of the line, also behind its owner's other questions; the deadline goes on. */
	start_waiting(q);
	schedule_pump(r);
}

/* --- from outside --- */

static uint64_t or_default(uint64_t given, uint64_t otherwise)
{
	return given != 0 ? given : otherwise;
}

void resolver_set_times(struct resolver *r, uint64_t total_ms, uint64_t try_ms)
{
	r->options.total_ms = or_default(total_ms, TOTAL_MS_DEFAULT);
	r->options.try_ms = or_default(try_ms, TRY_MS_DEFAULT);
}

enum err resolver_create(struct loop *loop, struct ares_link *link, struct metrics *metrics,
			 const struct resolver_options *options, struct resolver **out_resolver)
{
	static const struct resolver_options defaults;
	const struct resolver_options *o = options != NULL ? options : &defaults;
	struct resolver *r = alloc_zeroed(sizeof(*r));

	if (r == NULL)
		return ERR_NO_MEMORY;
	if (crypto_random(&r->key, sizeof(r->key)) != ERR_OK) {
		alloc_free(r);
		return ERR_SYSTEM;
	}
	r->loop = loop;
	r->link = link;
	r->metrics = metrics;
	r->misfits_told = ares_link_misfit_count(link);
	r->options = (struct resolver_options){
		.waiting_max = (unsigned)or_default(o->waiting_max, WAITING_MAX_DEFAULT),
		.per_owner_max = (unsigned)or_default(o->per_owner_max, PER_OWNER_MAX_DEFAULT),
		.asking_max = (unsigned)or_default(o->asking_max, ASKING_MAX_DEFAULT),
	};
	resolver_set_times(r, o->total_ms, o->try_ms);
	htab_init(&r->questions);
	htab_init(&r->owners);
	list_init(&r->turns);
	pool_init(&r->question_pool, "dns_question", sizeof(struct question), 0);
	pool_init(&r->owner_pool, "dns_owner", sizeof(struct owner), 0);
	pool_init(&r->lookup_pool, "dns_lookup", sizeof(struct resolver_lookup), 0);
	*out_resolver = r;
	return ERR_OK;
}

void resolver_destroy(struct resolver *r)
{
	if (r == NULL)
		return;
	loop_deferred_cancel(r->loop, &r->pump);
	pool_finish(&r->question_pool);
	pool_finish(&r->owner_pool);
	pool_finish(&r->lookup_pool);
	htab_finish(&r->questions);
	htab_finish(&r->owners);
	alloc_free(r);
}

enum err resolver_set_servers(struct resolver *r, const struct endpoint *servers, size_t count)
{
	return name_servers_set(&r->servers, servers, count);
}

static struct question *create_question(struct resolver *r, struct owner *o, const struct question_key *key, uint64_t hash)
{
	struct question *q = pool_take(&r->question_pool);

	if (q == NULL)
		return NULL;
	q->resolver = r;
	q->owner = o;
	q->name = *key->name;
	q->type = key->type;
	q->failure = DNS_OUTCOME_UNREACHABLE;
	q->started_ns = clock_mono_ns();
	q->deadline_ms = loop_now_ms(r->loop) + r->options.total_ms;
	list_init(&q->lookups);
	loop_timer_init(&q->deadline, r->loop, on_deadline, q);
	if (loop_timer_start(&q->deadline, r->options.total_ms) != ERR_OK)
		goto out;
	if (htab_insert(&r->questions, &q->node, hash) != ERR_OK)
		goto out;
	return q;
out:
	loop_timer_cancel(&q->deadline);
	pool_give(&r->question_pool, q);
	return NULL;
}

/* A full line keeps out whoever fills it, not one that has next to nothing in it. */
static bool is_crowded(const struct resolver *r, const struct owner *o)
{
	return r->waiting_count >= r->options.waiting_max && o->lookup_count >= LINE_FEW;
}

enum err resolver_start(struct resolver *r, uint32_t owner, const struct dname *name, enum dns_type type,
			resolver_done_fn *on_done, void *arg, struct resolver_lookup **out_lookup)
{
	const struct question_key key = { .owner = owner, .type = type, .name = name };
	uint64_t hash = question_hash(r, &key);
	struct htab_node *node = htab_find(&r->questions, hash, is_question, &key);
	struct question *q = node == NULL ? NULL : CONTAINER_OF(node, struct question, node);
	struct resolver_lookup *l = NULL;
	struct owner *o;
	enum err err = ERR_NO_MEMORY;

	if (type != DNS_TYPE_A && type != DNS_TYPE_AAAA)
		return ERR_INVALID;
	o = take_owner(r, owner);
	if (o == NULL)
		return ERR_NO_MEMORY;
	if (o->lookup_count >= r->options.per_owner_max || (q == NULL && is_crowded(r, o))) {
		err = ERR_LIMIT;
		goto out;
	}
	l = pool_take(&r->lookup_pool);
	if (l == NULL)
		goto out;
	if (q == NULL) {
		q = create_question(r, o, &key, hash);
		if (q == NULL)
			goto out;
		start_waiting(q);
		schedule_pump(r);
	}
	*l = (struct resolver_lookup){ .question = q, .on_done = on_done, .arg = arg };
	list_push_back(&q->lookups, &l->node);
	o->lookup_count++;
	*out_lookup = l;
	return ERR_OK;
out:
	pool_give(&r->lookup_pool, l);
	release_owner(r, o);
	return err;
}

void resolver_cancel(struct resolver_lookup *l)
{
	struct question *q;
	struct resolver *r;
	struct owner *o;

	if (l == NULL)
		return;
	q = l->question;
	r = q->resolver;
	o = q->owner;
	list_remove(&q->lookups, &l->node);
	pool_give(&r->lookup_pool, l);
	o->lookup_count--;
	if (q->is_finished || q->lookups.count > 0)
		return;
	unlink_question(q);
	pool_give(&r->question_pool, q);
	release_owner(r, o);
}

size_t resolver_question_count(const struct resolver *r)
{
	return r->question_pool.live;
}

size_t resolver_lookup_count(const struct resolver *r)
{
	return r->lookup_pool.live;
}
