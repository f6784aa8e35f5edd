/* Orders from other threads to a worker: one post there, one post back. Carries them out by worker_internal.h. */
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "proxy/worker_internal.h"

struct order {
	struct loop_message message;
	struct loop_deferred at_end; /* ADOPT waits for the end of the turn */
	struct worker *worker;       /* borrowed until carried out */
	unsigned index;              /* of the worker */
	uint64_t (*carry_out)(struct order *o);
	struct worker_reply reply;
	uint64_t result;

	struct world *world;         /* counted */
	uint32_t slot;
	enum reason why;
	int fd;                      /* owned until carried out */
	uint64_t epoch;
	char name[RECORD_WORD_MAX + 1];
	worker_call_fn *fn;
	void *fn_arg;
};

static void on_reply(void *arg)
{
	struct order *o = arg;

	o->reply.on_done(o->reply.arg, o->index, o->result);
	alloc_free(o);
}

static void finish(struct order *o)
{
	if (o->reply.loop == NULL)
		alloc_free(o);
	else
		loop_post(o->reply.loop, &o->message, on_reply, o);
}

static void run_now(void *arg)
{
	struct order *o = arg;

	o->result = o->carry_out(o);
	finish(o);
}

static void run_at_end(void *arg)
{
	struct order *o = arg;

	loop_defer(o->worker->loop, &o->at_end, run_now, o);
}

static struct order *order_create(struct worker *w, uint64_t (*carry_out)(struct order *o), const struct worker_reply *reply)
{
	struct order *o = alloc_zeroed(sizeof(*o));

	if (o == NULL)
		return NULL;
	o->worker = w;
	o->index = w->index;
	o->carry_out = carry_out;
	o->fd = -1;
	if (reply != NULL)
		o->reply = *reply;
	return o;
}

static uint64_t carry_adopt(struct order *o)
{
	return worker_take_world(o->worker, o->world);
}

static uint64_t carry_revoke(struct order *o)
{
	return worker_close_slot(o->worker, o->slot, o->why);
}

static uint64_t carry_listen(struct order *o)
{
	return worker_add_listener(o->worker, o->name, o->fd, o->epoch);
}

static uint64_t carry_unlisten(struct order *o)
{
	return worker_remove_listeners(o->worker, o->name);
}

static uint64_t carry_unlisten_older(struct order *o)
{
	return worker_remove_older_listeners(o->worker, o->epoch);
}

static uint64_t carry_drain(struct order *o)
{
	return worker_begin_drain(o->worker);
}

static uint64_t carry_call(struct order *o)
{
	return o->fn(o->fn_arg, o->worker);
}

enum err worker_adopt(struct worker *w, struct world *world, const struct worker_reply *reply)
{
	struct order *o = order_create(w, carry_adopt, reply);

	if (o == NULL)
		return ERR_NO_MEMORY;
	o->world = world_ref(world);
	loop_post(w->loop, &o->message, run_at_end, o);
	return ERR_OK;
}

enum err worker_revoke(struct worker *w, uint32_t slot, enum reason why, const struct worker_reply *reply)
{
	struct order *o = order_create(w, carry_revoke, reply);

	if (o == NULL)
		return ERR_NO_MEMORY;
	o->slot = slot;
	o->why = why;
	loop_post(w->loop, &o->message, run_now, o);
	return ERR_OK;
}

enum err worker_listen(struct worker *w, const char *name, int fd, uint64_t epoch, const struct worker_reply *reply)
{
	struct order *o = order_create(w, carry_listen, reply);

	if (o == NULL)
		return ERR_NO_MEMORY;
	o->fd = fd;
	o->epoch = epoch;
	strncpy(o->name, name, sizeof(o->name) - 1);
	loop_post(w->loop, &o->message, run_now, o);
	return ERR_OK;
}

enum err worker_unlisten(struct worker *w, const char *name, const struct worker_reply *reply)
{
	struct order *o = order_create(w, carry_unlisten, reply);

	if (o == NULL)
		return ERR_NO_MEMORY;
	strncpy(o->name, name, sizeof(o->name) - 1);
	loop_post(w->loop, &o->message, run_now, o);
	return ERR_OK;
}

enum err worker_unlisten_older(struct worker *w, uint64_t epoch, const struct worker_reply *reply)
{
	struct order *o = order_create(w, carry_unlisten_older, reply);

	if (o == NULL)
		return ERR_NO_MEMORY;
	o->epoch = epoch;
	loop_post(w->loop, &o->message, run_now, o);
	return ERR_OK;
}

enum err worker_drain(struct worker *w, const struct worker_reply *reply)
{
	struct order *o = order_create(w, carry_drain, reply);

	if (o == NULL)
		return ERR_NO_MEMORY;
	loop_post(w->loop, &o->message, run_now, o);
	return ERR_OK;
}

enum err worker_call(struct worker *w, worker_call_fn *fn, void *fn_arg, const struct worker_reply *reply)
{
	struct order *o = order_create(w, carry_call, reply);

	if (o == NULL)
		return ERR_NO_MEMORY;
	o->fn = fn;
	o->fn_arg = fn_arg;
	loop_post(w->loop, &o->message, run_now, o);
	return ERR_OK;
}
