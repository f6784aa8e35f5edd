/* Tables that grow, rules as records, and the final layout of a segment; see emit_internal.h. */
#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "compiler/emit_internal.h"

#define ALIGN 8u

void emitter_init(struct emitter *e, enum layout_kind kind)
{
	*e = (struct emitter){ .kind = kind, .failed = ERR_OK };
}

void emitter_finish(struct emitter *e)
{
	for (unsigned t = 0; t < LAYOUT_TABLE_COUNT; t++)
		alloc_free(e->table[t].bytes);
	alloc_free(e->hosts);
}

/* Room for `count` more in a block that doubles; the block may move. */
static void *grow(struct emitter *e, void *block, size_t used, size_t count, size_t len, size_t *capacity)
{
	size_t want = used + count, next = *capacity == 0 ? 16 : *capacity;
	void *moved;

	if (want * len > LAYOUT_SEGMENT_MAX) {
		e->failed = ERR_LIMIT;
		return NULL;
	}
	if (want <= *capacity)
		return block;
	while (next < want)
		next *= 2;
	moved = alloc_resize(block, next, len);
	if (moved == NULL) {
		e->failed = ERR_NO_MEMORY;
		return NULL;
	}
	*capacity = next;
	return moved;
}

uint32_t emitter_add(struct emitter *e, enum layout_table table, const void *records, size_t count)
{
	struct emitter_table *t = &e->table[table];
	size_t first = t->count;
	void *bytes;

	if (e->failed != ERR_OK || count == 0)
		return 0;
	bytes = grow(e, t->bytes, t->count, count, layout_record_size(table), &t->capacity);
	if (bytes == NULL)
		return 0;
	t->bytes = bytes;
	memcpy(t->bytes + first * layout_record_size(table), records, count * layout_record_size(table));
	t->count += count;
	return (uint32_t)first;
}

struct layout_text emitter_text(struct emitter *e, const char *text)
{
	size_t len = strlen(text);

	if (len == 0)
		return (struct layout_text){ 0, 0 };
	return (struct layout_text){ emitter_add(e, LAYOUT_STRINGS, text, len + 1), (uint32_t)len };
}

struct layout_span emitter_places(struct emitter *e, const struct policy_place *places, size_t count)
{
	struct layout_span span = { .count = (uint32_t)count };

	for (size_t i = 0; i < count; i++) {
		struct layout_place place = { .asn = places[i].asn };
		uint32_t number;

		memcpy(place.country, places[i].country, sizeof(place.country));
		number = emitter_add(e, LAYOUT_PLACES, &place, 1);
		if (i == 0)
			span.offset = number;
	}
	return span;
}

static struct layout_span add_ports(struct emitter *e, const struct rule *r)
{
	struct layout_ports ports[RULE_PORTS_MAX];

	for (unsigned i = 0; i < r->port_count; i++)
		ports[i] = (struct layout_ports){ r->ports[i].first, r->ports[i].last };
	return (struct layout_span){ emitter_add(e, LAYOUT_PORTS, ports, r->port_count), r->port_count };
}

static uint8_t flags_of(const struct policy_rule *r)
{
	return (uint8_t)((r->rule.action == RULE_DENY ? LAYOUT_RULE_DENY : 0) | (r->report ? LAYOUT_RULE_REPORT : 0) |
			 (r->ech_refuse ? LAYOUT_RULE_ECH_REFUSE : 0) | (r->rule.scheme_known ? LAYOUT_RULE_SCHEME_KNOWN : 0));
}

static void add_rule(struct emitter *e, const struct policy_rule *r, struct layout_text origin)
{
	struct emitter_host host = { .rule = &r->rule };
	/* One after the other: the order of texts is part of the bytes, and initialisers have none. */
	struct layout_text id = emitter_text(e, r->id);
	struct layout_text note = emitter_text(e, r->note);
	struct layout_rule record = {
		.id = id,
		.note = note,
		.origin = origin,
		.line = r->place.line,
		.number = r->number,
		.flags = flags_of(r),
		.scheme = (uint8_t)(r->rule.scheme_known ? r->rule.scheme : 0),
		.host = (uint8_t)r->rule.host,
		.pin = (uint8_t)r->pin,
		.ports = add_ports(e, &r->rule),
		.places = emitter_places(e, r->places, r->place_count),
	};
	void *hosts;

	if (r->rule.host == RULE_HOST_PREFIX) {
		record.family = r->rule.prefix.addr.family;
		record.prefix_len = r->rule.prefix.len;
		memcpy(record.octets, r->rule.prefix.addr.octets, sizeof(record.octets));
	} else if (r->rule.host != RULE_HOST_ANY) {
		record.name = host.name = emitter_text(e, r->rule.name.text);
	}
	host.number = emitter_add(e, LAYOUT_RULES, &record, 1);
	if (r->rule.host == RULE_HOST_ANY)
		emitter_add(e, LAYOUT_ANY_REFS, &host.number, 1);
	if (e->failed != ERR_OK)
		return;
	hosts = grow(e, e->hosts, e->host_count, 1, sizeof(host), &e->host_capacity);
	if (hosts == NULL)
		return;
	e->hosts = hosts;
	e->hosts[e->host_count++] = host;
}

void emitter_add_rules(struct emitter *e, const struct policy *policy, const char *origin)
{
	struct layout_text text = emitter_text(e, policy->rules == NULL ? "" : origin);

	for (const struct policy_rule *r = policy->rules; r != NULL && e->failed == ERR_OK; r = r->next)
		add_rule(e, r, text);
}

static size_t aligned(size_t len)
{
	return (len + ALIGN - 1) / ALIGN * ALIGN;
}

enum err emitter_seal(struct emitter *e, struct emitted *out_segment)
{
	struct layout_header header = {
		.magic = LAYOUT_MAGIC,
		.abi = LAYOUT_ABI,
		.kind = (uint16_t)e->kind,
		.seed0 = e->seed0,
		.seed1 = e->seed1,
	};
	struct emitted segment = { 0 };
	size_t size = aligned(sizeof(header));
	enum err err;

	if (e->failed != ERR_OK)
		return e->failed;
	for (unsigned t = 0; t < LAYOUT_TABLE_COUNT; t++) {
		if (e->table[t].count == 0)
			continue;
		header.table[t] = (struct layout_span){ (uint32_t)size, (uint32_t)e->table[t].count };
		size += aligned(e->table[t].count * layout_record_size(t));
		if (size > LAYOUT_SEGMENT_MAX)
			return ERR_LIMIT;
	}
	header.size = (uint32_t)size;
	segment.bytes = alloc_zeroed(size + sizeof(unsigned));
	if (segment.bytes == NULL)
		return ERR_NO_MEMORY;
	segment.len = size;
	segment.is_counted = true;
	memcpy(segment.bytes, &header, sizeof(header));
	for (unsigned t = 0; t < LAYOUT_TABLE_COUNT; t++)
		if (e->table[t].count > 0)
			memcpy(segment.bytes + header.table[t].offset, e->table[t].bytes, e->table[t].count * layout_record_size(t));
	err = crypto_sha256(segment.bytes, segment.len, segment.id);
	if (err != ERR_OK) {
		emitted_finish(&segment);
		return err;
	}
	*out_segment = segment;
	return ERR_OK;
}
