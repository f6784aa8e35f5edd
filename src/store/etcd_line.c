/*
 * The gateway's JSON (protobuf's mapping: 64-bit numbers are texts, bytes are base64, zero and false are left out); see etcd_line.h.
 */
#include "store/etcd_line.h"

#include <string.h>

#include "document/json.h"
#include "store/base64.h"

#define NUMBER_TEXT_MAX 20
#define TOKEN_MAX 4096
#define MESSAGE_MAX 512

/* One answer while it is read. */
struct reading {
	struct json_faults faults;
	struct json *json;
	struct json_value top;
};

static enum err open_reading(struct reading *r, struct text text, size_t max, struct arena *arena)
{
	enum err e;

	json_faults_init(&r->faults, arena);
	e = json_open_long(text, max, &r->faults, &r->json);
	if (e == ERR_OK)
		r->top = json_top(r->json);
	return e;
}

static enum err close_reading(struct reading *r)
{
	json_close(r->json);
	if (r->faults.out_of_memory)
		return ERR_NO_MEMORY;
	return r->faults.count > 0 ? ERR_INVALID : ERR_OK;
}

/* 0 when absent. */
static uint64_t number(struct reading *r, const struct json_value *object, const char *name)
{
	struct json_value value = json_member(object, name);
	const char *text = NULL;
	uint64_t found = 0;

	if (json_text(&r->faults, &value, 1, NUMBER_TEXT_MAX, &text) && !text_to_u64(text_of(text), INT64_MAX, &found))
		json_fault_add(&r->faults, "", "not_a_number", "%s is no number", name);
	return found;
}

static bool flag(struct reading *r, const struct json_value *object, const char *name)
{
	struct json_value value = json_member(object, name);
	bool is_set = false;

	json_bool(&r->faults, &value, &is_set);
	return is_set;
}

static const char *string(struct reading *r, const struct json_value *object, const char *name, size_t max)
{
	struct json_value value = json_member(object, name);
	const char *text = NULL;

	json_text(&r->faults, &value, 0, max, &text);
	return text == NULL ? "" : text;
}

static struct text bytes(struct reading *r, const struct json_value *object, const char *name, size_t max)
{
	const char *coded = string(r, object, name, max);
	char *decoded = arena_take(r->faults.arena, strlen(coded) / 4 * 3 + 1);
	size_t len = 0;

	if (decoded == NULL)
		r->faults.out_of_memory = true;
	else if (!base64_decode(text_of(coded), decoded, &len))
		json_fault_add(&r->faults, "", "not_base64", "%s is not base64", name);
	return (struct text){ decoded == NULL ? "" : decoded, len };
}

static uint64_t header_revision(struct reading *r, const struct json_value *object)
{
	struct json_value header = json_member(object, "header");

	if (!json_is_present(&header)) {
		json_fault_add(&r->faults, "", "no_header", "an answer without a header");
		return 0;
	}
	return number(r, &header, "revision");
}

static struct etcd_pair pair(struct reading *r, const struct json_value *kv, size_t value_max)
{
	struct etcd_pair read = { .key = bytes(r, kv, "key", BASE64_LEN(1024)),
				  .value = bytes(r, kv, "value", value_max),
				  .revision = number(r, kv, "mod_revision") };

	if (read.key.len == 0)
		json_fault_add(&r->faults, "", "no_key", "a pair without a key");
	return read;
}

static struct etcd_pair *room(struct reading *r, size_t count)
{
	struct etcd_pair *pairs = arena_take_array(r->faults.arena, count + 1, sizeof(*pairs));

	if (pairs == NULL)
		r->faults.out_of_memory = true;
	return pairs;
}

enum err etcd_page_read(struct text body, struct arena *arena, struct etcd_page *out_page)
{
	struct etcd_page page = { 0 };
	struct etcd_pair *pairs;
	struct json_value kvs;
	struct reading r;
	enum err e = open_reading(&r, body, ETCD_PAGE_MAX, arena);

	if (e != ERR_OK)
		return e;
	page.revision = header_revision(&r, &r.top);
	page.has_more = flag(&r, &r.top, "more");
	kvs = json_member(&r.top, "kvs");
	page.count = json_array_count(&r.faults, &kvs, ETCD_PAGE_KEYS_MAX);
	page.pairs = pairs = room(&r, page.count);
	for (size_t i = 0; pairs != NULL && i < page.count && !r.faults.out_of_memory; i++) {
		struct json_value kv = json_element(&kvs, i);

		pairs[i] = pair(&r, &kv, ETCD_PAGE_MAX);
	}
	e = close_reading(&r);
	if (e == ERR_OK && (page.revision == 0 || (page.has_more && page.count == 0)))
		e = ERR_INVALID;
	if (e == ERR_OK)
		*out_page = page;
	return e;
}

static enum etcd_refusal refusal_of(const char *message)
{
	static const struct {
		const char *part;
		enum etcd_refusal refusal;
	} known[] = {
		{ "auth token", ETCD_REFUSAL_TOKEN },     { "permission denied", ETCD_REFUSAL_TOKEN },
		{ "user name is empty", ETCD_REFUSAL_TOKEN }, { "no leader", ETCD_REFUSAL_NO_LEADER },
		{ "compacted", ETCD_REFUSAL_COMPACTED },  { "future revision", ETCD_REFUSAL_FUTURE },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strstr(message, known[i].part) != NULL)
			return known[i].refusal;
	return ETCD_REFUSAL_OTHER;
}

static void read_events(struct reading *r, const struct json_value *result, struct etcd_watch *watch)
{
	struct json_value events = json_member(result, "events");
	struct etcd_pair *pairs;

	watch->count = json_array_count(&r->faults, &events, ETCD_EVENTS_MAX);
	watch->pairs = pairs = room(r, watch->count);
	for (size_t i = 0; pairs != NULL && i < watch->count && !r->faults.out_of_memory; i++) {
		struct json_value event = json_element(&events, i);
		struct json_value kv = json_member(&event, "kv");
		const char *type = string(r, &event, "type", 16);

		pairs[i] = pair(r, &kv, ETCD_LINE_MAX);
		pairs[i].is_deleted = strcmp(type, "DELETE") == 0;
		if (!pairs[i].is_deleted && type[0] != '\0' && strcmp(type, "PUT") != 0)
			json_fault_add(&r->faults, "", "bad_event", "an event that is neither PUT nor DELETE");
	}
}

static void read_result(struct reading *r, const struct json_value *result, struct etcd_watch *watch)
{
	const char *reason = string(r, result, "cancel_reason", MESSAGE_MAX);

	watch->revision = header_revision(r, result);
	watch->watch_id = number(r, result, "watch_id");
	/* "canceled" wins: a refused watch is said to be created in the same line. */
	if (flag(r, result, "canceled")) {
		watch->kind = ETCD_WATCH_CANCELED;
		watch->refusal = number(r, result, "compact_revision") > 0 ? ETCD_REFUSAL_COMPACTED : refusal_of(reason);
	} else if (flag(r, result, "created")) {
		watch->kind = ETCD_WATCH_CREATED;
	} else {
		watch->kind = ETCD_WATCH_EVENTS;
		read_events(r, result, watch);
	}
}

enum err etcd_watch_read(struct text line, struct arena *arena, struct etcd_watch *out_watch)
{
	struct etcd_watch watch = { 0 };
	struct json_value result;
	struct reading r;
	enum err e = open_reading(&r, line, ETCD_LINE_MAX, arena);

	if (e != ERR_OK)
		return e;
	result = json_member(&r.top, "result");
	if (json_is_present(&result)) {
		read_result(&r, &result, &watch);
	} else {
		struct json_value error = json_member(&r.top, "error");

		/* Anything without a result is an error, whatever it looks like. */
		watch.kind = ETCD_WATCH_REFUSED;
		watch.refusal = refusal_of(string(&r, json_is_present(&error) && !json_is_text(&error) ? &error : &r.top, "message",
						  MESSAGE_MAX));
	}
	e = close_reading(&r);
	if (e == ERR_OK)
		*out_watch = watch;
	return e;
}

enum err etcd_txn_read(struct text body, struct arena *arena, bool *out_is_done, uint64_t *out_revision)
{
	uint64_t revision;
	bool is_done;
	struct reading r;
	enum err e = open_reading(&r, body, ETCD_LINE_MAX, arena);

	if (e != ERR_OK)
		return e;
	revision = header_revision(&r, &r.top);
	is_done = flag(&r, &r.top, "succeeded");
	e = close_reading(&r);
	if (e == ERR_OK && revision == 0)
		e = ERR_INVALID;
	if (e == ERR_OK) {
		*out_is_done = is_done;
		*out_revision = revision;
	}
	return e;
}

enum err etcd_token_read(struct text body, struct arena *arena, const char **out_token)
{
	const char *token;
	struct reading r;
	enum err e = open_reading(&r, body, ETCD_LINE_MAX, arena);

	if (e != ERR_OK)
		return e;
	token = string(&r, &r.top, "token", TOKEN_MAX);
	for (size_t i = 0; token[i] != '\0'; i++)
		if (token[i] <= ' ' || token[i] > '~')
			json_fault_add(&r.faults, "/token", "not_a_token", "expected printable ASCII");
	e = close_reading(&r);
	if (e == ERR_OK && token[0] == '\0')
		e = ERR_INVALID;
	if (e == ERR_OK)
		*out_token = token;
	return e;
}

enum etcd_refusal etcd_refusal_read(unsigned status, struct text body)
{
	char shown[MESSAGE_MAX];
	enum etcd_refusal refusal;

	text_escape(body, shown, sizeof(shown));
	refusal = refusal_of(shown);
	if (refusal == ETCD_REFUSAL_OTHER && (status == 401 || status == 403))
		refusal = ETCD_REFUSAL_TOKEN;
	return refusal;
}
