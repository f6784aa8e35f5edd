/* See segment_builder.h. */
#include "segment_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/alloc.h"
#include "base/crypto.h"
#include "base/dname.h"
#include "decision/record.h"
#include "decision/verdict.h"

#define RULES_MAX 512
#define TEXT_MAX (48u << 10)
#define WORDS_MAX 24

struct builder {
	struct built_store *store;
	enum layout_kind kind;
	char strings[TEXT_MAX];
	uint32_t strings_len;
	struct layout_rule rules[RULES_MAX];
	struct layout_ports ports[RULES_MAX * 4];
	struct layout_place places[RULES_MAX];
	struct layout_label_slot slots[RULES_MAX * 4];
	struct layout_label_entry entries[RULES_MAX];
	struct layout_prefix_group groups[162];
	struct layout_prefix prefixes[RULES_MAX];
	uint32_t refs[RULES_MAX], any[RULES_MAX];
	struct layout_lease lease;
	struct layout_source sources[RULES_MAX];
	struct layout_token tokens[RULES_MAX];
	struct layout_id rulesets[RULES_MAX];
	struct layout_exception exceptions[RULES_MAX];
	struct layout_root_lease root_leases[RULES_MAX];
	struct layout_root root;
	uint32_t count[LAYOUT_TABLE_COUNT];
	struct hash_key key;
};

static void wrong(const char *what, const char *text)
{
	fprintf(stderr, "segment builder: %s: %s\n", what, text);
	abort();
}

static struct layout_text put_text(struct builder *b, const char *text, size_t len)
{
	struct layout_text t = { .offset = b->strings_len, .len = (uint32_t)len };

	if (len == 0)
		return (struct layout_text){ 0 };
	if (b->strings_len + len + 1 > TEXT_MAX)
		wrong("too much text", text);
	memcpy(b->strings + b->strings_len, text, len);
	b->strings[b->strings_len + len] = '\0';
	b->strings_len += (uint32_t)len + 1;
	return t;
}

static struct layout_text put_word(struct builder *b, const char *word)
{
	return put_text(b, word, strlen(word));
}

static struct layout_span put_ports(struct builder *b, const char *text)
{
	struct layout_span span = { .offset = b->count[LAYOUT_PORTS] };
	char *end;

	while (*text != '\0') {
		struct layout_ports *p = &b->ports[b->count[LAYOUT_PORTS]++];

		p->first = p->last = (uint16_t)strtoul(text, &end, 10);
		if (*end == '-')
			p->last = (uint16_t)strtoul(end + 1, &end, 10);
		text = *end == ',' ? end + 1 : end;
		span.count++;
	}
	return span.count == 0 ? (struct layout_span){ 0 } : span;
}

static void put_places(struct builder *b, const char *list, bool asn, struct layout_span *span)
{
	char *end;

	if (span->count == 0)
		span->offset = b->count[LAYOUT_PLACES];
	while (*list != '\0') {
		struct layout_place *p = &b->places[b->count[LAYOUT_PLACES]++];

		if (asn) {
			p->asn = (uint32_t)strtoul(list, &end, 10);
		} else {
			memcpy(p->country, list, 2);
			end = (char *)(uintptr_t)list + 2;
		}
		list = *end == ',' ? end + 1 : end;
		span->count++;
	}
}

static void put_host(struct builder *b, const char *text, size_t len, struct layout_rule *r)
{
	struct prefix prefix;
	struct dname name;
	char copy[300];
	char *slash;

	snprintf(copy, sizeof(copy), "%.*s", (int)len, text);
	if (copy[0] == '[') { /* [2001:db8::/32] */
		memmove(copy, copy + 1, len);
		slash = strchr(copy, ']');
		if (slash != NULL)
			*slash = '\0';
	}
	if (prefix_parse(text_of(copy), &prefix)) {
		r->host = RULE_HOST_PREFIX;
		r->family = prefix.addr.family;
		r->prefix_len = prefix.len;
		memcpy(r->octets, prefix.addr.octets, 16);
		return;
	}
	r->host = strncmp(copy, "*.", 2) == 0 ? RULE_HOST_WILDCARD : RULE_HOST_NAME;
	if (dname_parse(text_of(r->host == RULE_HOST_WILDCARD ? copy + 2 : copy),
			DNAME_FINAL_DOT_REFUSE, &name) != DNAME_OK)
		wrong("no host", copy);
	r->name = put_text(b, name.text, name.len);
}

static void put_pattern(struct builder *b, const char *text, struct layout_rule *r)
{
	const char *sep = strstr(text, "://"), *host = text, *colon;
	char ports[128] = "";
	enum scheme scheme;

	if (sep != NULL) {
		if (!scheme_parse((struct text){ text, (size_t)(sep - text) }, &scheme))
			wrong("no scheme", text);
		r->flags |= LAYOUT_RULE_SCHEME_KNOWN;
		r->scheme = (uint8_t)scheme;
		host = sep + 3;
		if (scheme_row(scheme)->default_port != 0)
			snprintf(ports, sizeof(ports), "%u", scheme_row(scheme)->default_port);
	}
	colon = host[0] == '[' ? strstr(host, "]:") : strchr(host, ':');
	if (colon != NULL && host[0] == '[')
		colon++;
	put_host(b, host, colon == NULL ? strlen(host) : (size_t)(colon - host), r);
	r->ports = put_ports(b, colon == NULL ? ports : colon + 1);
}

static void put_rule_options(struct builder *b, char **words, size_t count, struct layout_rule *r)
{
	static const char *const pins[] = { "pin=default", "pin=connection", "pin=ttl", "pin=lease" };

	for (size_t i = 0; i < count; i++) {
		bool known = false;

		if (strcmp(words[i], "as") == 0 && i + 1 < count) {
			r->id = put_word(b, words[++i]);
			continue;
		}
		for (uint8_t p = 0; p < ARRAY_LEN(pins); p++) {
			if (strcmp(words[i], pins[p]) == 0) {
				r->pin = p;
				known = true;
			}
		}
		if (strcmp(words[i], "ech=refuse") == 0)
			r->flags |= LAYOUT_RULE_ECH_REFUSE;
		else if (strcmp(words[i], "report") == 0)
			r->flags |= LAYOUT_RULE_REPORT;
		else if (strncmp(words[i], "country=", 8) == 0)
			put_places(b, words[i] + 8, false, &r->places);
		else if (strncmp(words[i], "asn=", 4) == 0)
			put_places(b, words[i] + 4, true, &r->places);
		else if (!known)
			wrong("unknown rule option", words[i]);
	}
}

static void put_rule(struct builder *b, char **words, size_t count)
{
	struct layout_rule *r = &b->rules[b->count[LAYOUT_RULES]++];

	if (b->count[LAYOUT_RULES] > RULES_MAX || count < 2)
		wrong("no rule", words[0]);
	r->number = b->count[LAYOUT_RULES];
	if (strcmp(words[0], "deny") == 0)
		r->flags |= LAYOUT_RULE_DENY;
	if (strcmp(words[1], "any") == 0)
		r->host = RULE_HOST_ANY;
	else
		put_pattern(b, words[1], r);
	put_rule_options(b, words + 2, count - 2, r);
}

static void put_exception(struct builder *b, char **words, size_t count)
{
	struct layout_exception *x = &b->exceptions[b->count[LAYOUT_EXCEPTIONS]++];
	struct layout_rule host = { 0 };
	struct prefix prefix;

	if (count != 4)
		wrong("no exception", words[0]);
	if (prefix_parse(text_of(words[1]), &prefix)) {
		x->family = prefix.addr.family;
		x->prefix_len = prefix.len;
		memcpy(x->octets, prefix.addr.octets, 16);
	} else if (strcmp(words[1], "name") != 0) {
		wrong("no prefix", words[1]);
	}
	x->host = RULE_HOST_PREFIX;
	if (strcmp(words[3], "address") == 0)
		return;
	put_host(b, words[3], strlen(words[3]), &host);
	x->host = host.host;
	x->name = host.name;
}

static unsigned bits_of(char **words, size_t count, const char *const *names, size_t name_count)
{
	unsigned bits = 0;

	for (size_t i = 0; i < count; i++) {
		size_t n = 0;

		while (n < name_count && strcmp(words[i], names[n]) != 0)
			n++;
		if (n == name_count)
			wrong("unknown word", words[i]);
		bits |= BIT(n);
	}
	return bits;
}

static uint8_t number_of(const char *word, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(word, names[i]) == 0)
			return (uint8_t)(i + 1);
	}
	wrong("unknown word", word);
	return 0;
}

static void put_token(struct builder *b, char **words, size_t count)
{
	struct layout_token *t = &b->tokens[b->count[LAYOUT_TOKENS]++];

	if (count < 2 || crypto_sha256(words[1], strlen(words[1]), t->digest) != ERR_OK)
		wrong("no token (crypto_init?)", words[0]);
	if (count == 4)
		t->exp_ms = strtoull(words[3], NULL, 10);
}

static void put_source(struct builder *b, const char *word)
{
	struct layout_source *s = &b->sources[b->count[LAYOUT_SOURCES]++];
	struct prefix prefix;

	if (!prefix_parse(text_of(word), &prefix))
		wrong("no source", word);
	s->family = prefix.addr.family;
	s->len = prefix.len;
	memcpy(s->octets, prefix.addr.octets, 16);
}

static void put_lease_line(struct builder *b, char **words, size_t count)
{
	static const char *const states[] = { "active", "suspended", "revoked", "invalid",
					      "ruleset_missing" };
	static const char *const scopes[] = { "undeclared", "none", "declared" };
	static const char *const options[] = { "resolve", "why", "names_only", "ech_refuse", "report" };
	static const char *const requires[] = { "listener", "source", "token" };
	const char *verb = words[0];
	struct layout_lease *l = &b->lease;

	if (count < 2)
		wrong("no word", verb);
	if (strcmp(verb, "lease") == 0)
		l->id = put_word(b, words[1]);
	else if (strcmp(verb, "tenant") == 0)
		l->tenant = put_word(b, words[1]);
	else if (strcmp(verb, "run") == 0)
		l->run = put_word(b, words[1]);
	else if (strcmp(verb, "class") == 0)
		l->environment_class = put_word(b, words[1]);
	else if (strcmp(verb, "listener") == 0)
		l->listener = put_word(b, words[1]);
	else if (strcmp(verb, "rev") == 0)
		l->rev = strtoull(words[1], NULL, 10);
	else if (strcmp(verb, "nbf") == 0)
		l->nbf_ms = strtoull(words[1], NULL, 10);
	else if (strcmp(verb, "exp") == 0)
		l->exp_ms = strtoull(words[1], NULL, 10);
	else if (strcmp(verb, "state") == 0)
		l->state = number_of(words[1], states, ARRAY_LEN(states));
	else if (strcmp(verb, "scope") == 0)
		l->scope = number_of(words[1], scopes, ARRAY_LEN(scopes));
	else if (strcmp(verb, "claims") == 0)
		l->claimed_scope = number_of(words[1], scopes, ARRAY_LEN(scopes));
	else if (strcmp(verb, "option") == 0)
		l->options |= bits_of(words + 1, count - 1, options, ARRAY_LEN(options));
	else if (strcmp(verb, "require") == 0)
		l->require = (uint8_t)bits_of(words + 1, count - 1, requires, ARRAY_LEN(requires));
	else if (strcmp(verb, "source") == 0)
		put_source(b, words[1]);
	else if (strcmp(verb, "token") == 0)
		put_token(b, words, count);
	else
		wrong("unknown statement", verb);
}

static void put_lease_places(struct builder *b, char **words, size_t count)
{
	struct layout_rule r = { 0 };

	put_rule_options(b, words + 1, count - 1, &r);
	b->lease.places = r.places;
}

static void put_statement(struct builder *b, char **words, size_t count)
{
	if (strcmp(words[0], "allow") == 0 || strcmp(words[0], "deny") == 0)
		put_rule(b, words, count);
	else if (strcmp(words[0], "exception") == 0)
		put_exception(b, words, count);
	else if (strcmp(words[0], "places") == 0)
		put_lease_places(b, words, count);
	else
		put_lease_line(b, words, count);
}

/* Take the block of a ruleset out of the text; returns what follows it. */
static const char *put_ruleset(struct builder *b, const char *text)
{
	const char *end = strstr(text, "\nend");
	struct segment *s;
	char *block;

	if (end == NULL)
		wrong("ruleset without end", text);
	block = alloc_copy(text, (size_t)(end - text));
	if (block == NULL)
		wrong("memory", text);
	s = built_segment(b->store, LAYOUT_RULESET, block);
	memcpy(b->rulesets[b->count[LAYOUT_RULESETS]++].bytes, segment_id(s), LAYOUT_ID_LEN);
	alloc_free(block);
	return end + 4;
}

static void put_policy(struct builder *b, const char *text)
{
	char line[1024], *words[WORDS_MAX], *save;

	while (*text != '\0') {
		size_t len = strcspn(text, "\n"), count = 0;

		snprintf(line, sizeof(line), "%.*s", (int)len, text);
		text += len + (text[len] == '\n');
		for (char *w = strtok_r(line, " \t", &save); w != NULL && count < WORDS_MAX;
		     w = strtok_r(NULL, " \t", &save))
			words[count++] = w;
		if (count == 0)
			continue;
		if (strcmp(words[0], "ruleset") == 0)
			text = put_ruleset(b, text - 1);
		else
			put_statement(b, words, count);
	}
}

static bool same_text(const struct builder *b, struct layout_text x, struct layout_text y)
{
	return x.len == y.len && memcmp(b->strings + x.offset, b->strings + y.offset, x.len) == 0;
}

static void place_entry(struct builder *b, uint32_t number, uint32_t slot_count)
{
	struct layout_text name = b->entries[number].name;
	uint64_t hash = hash_bytes(&b->key, b->strings + name.offset, name.len);
	uint32_t at = layout_label_home(hash, slot_count);

	while (b->slots[at].entry != 0)
		at = (at + 1) & (slot_count - 1);
	b->slots[at] = (struct layout_label_slot){ layout_label_tag(hash), number + 1 };
}

static struct layout_span refs_of(struct builder *b, uint8_t host, struct layout_text name)
{
	struct layout_span span = { .offset = b->count[LAYOUT_RULE_REFS] };

	for (uint32_t i = 0; i < b->count[LAYOUT_RULES]; i++) {
		if (b->rules[i].host == host && same_text(b, b->rules[i].name, name))
			b->refs[b->count[LAYOUT_RULE_REFS]++] = i;
	}
	span.count = b->count[LAYOUT_RULE_REFS] - span.offset;
	return span.count == 0 ? (struct layout_span){ 0 } : span;
}

static void index_names(struct builder *b)
{
	uint32_t slot_count = 1;

	for (uint32_t i = 0; i < b->count[LAYOUT_RULES]; i++) {
		const struct layout_rule *r = &b->rules[i];
		uint32_t k = 0;

		if (r->host != RULE_HOST_NAME && r->host != RULE_HOST_WILDCARD)
			continue;
		while (k < b->count[LAYOUT_LABEL_ENTRIES] && !same_text(b, b->entries[k].name, r->name))
			k++;
		if (k < b->count[LAYOUT_LABEL_ENTRIES])
			continue;
		b->entries[k] = (struct layout_label_entry){
			.name = r->name,
			.exact = refs_of(b, RULE_HOST_NAME, r->name),
			.wildcard = refs_of(b, RULE_HOST_WILDCARD, r->name),
		};
		b->count[LAYOUT_LABEL_ENTRIES]++;
	}
	if (b->count[LAYOUT_LABEL_ENTRIES] == 0)
		return;
	while (slot_count < 2 * b->count[LAYOUT_LABEL_ENTRIES])
		slot_count *= 2;
	b->count[LAYOUT_LABEL_SLOTS] = slot_count;
	for (uint32_t i = 0; i < b->count[LAYOUT_LABEL_ENTRIES]; i++)
		place_entry(b, i, slot_count);
}

static const struct builder *sorting;

static int compare_prefix_rules(const void *a, const void *b)
{
	const struct layout_rule *x = &sorting->rules[*(const uint32_t *)a];
	const struct layout_rule *y = &sorting->rules[*(const uint32_t *)b];
	int order = (int)x->family - (int)y->family;

	if (order == 0)
		order = (int)x->prefix_len - (int)y->prefix_len;
	if (order == 0)
		order = memcmp(x->octets, y->octets, 16);
	return order != 0 ? order : (*(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1);
}

static void index_prefixes(struct builder *b)
{
	uint32_t numbers[RULES_MAX], count = 0;
	uint32_t groups = 0, prefixes = 0;

	for (uint32_t i = 0; i < b->count[LAYOUT_RULES]; i++) {
		if (b->rules[i].host == RULE_HOST_PREFIX)
			numbers[count++] = i;
	}
	sorting = b;
	if (count > 1)
		qsort(numbers, count, sizeof(numbers[0]), compare_prefix_rules);
	for (uint32_t i = 0; i < count; i++) {
		const struct layout_rule *r = &b->rules[numbers[i]];
		bool new_group = groups == 0 || b->groups[groups - 1].family != r->family ||
				 b->groups[groups - 1].len != r->prefix_len;

		if (new_group)
			b->groups[groups++] = (struct layout_prefix_group){
				.family = r->family, .len = r->prefix_len, .first = prefixes };
		if (new_group || memcmp(b->prefixes[prefixes - 1].octets, r->octets, 16) != 0) {
			memcpy(b->prefixes[prefixes].octets, r->octets, 16);
			b->prefixes[prefixes++].rules.offset = b->count[LAYOUT_RULE_REFS];
			b->groups[groups - 1].count++;
		}
		b->prefixes[prefixes - 1].rules.count++;
		b->refs[b->count[LAYOUT_RULE_REFS]++] = numbers[i];
	}
	b->count[LAYOUT_PREFIX_GROUPS] = groups;
	b->count[LAYOUT_PREFIXES] = prefixes;
}

static size_t put_out(struct builder *b, uint8_t out_bytes[BUILT_BYTES_MAX])
{
	const struct {
		const void *from;
		size_t size;
	} tables[LAYOUT_TABLE_COUNT] = {
		[LAYOUT_STRINGS] = { b->strings, 1 },
		[LAYOUT_RULES] = { b->rules, sizeof(b->rules[0]) },
		[LAYOUT_PORTS] = { b->ports, sizeof(b->ports[0]) },
		[LAYOUT_PLACES] = { b->places, sizeof(b->places[0]) },
		[LAYOUT_LABEL_SLOTS] = { b->slots, sizeof(b->slots[0]) },
		[LAYOUT_LABEL_ENTRIES] = { b->entries, sizeof(b->entries[0]) },
		[LAYOUT_PREFIX_GROUPS] = { b->groups, sizeof(b->groups[0]) },
		[LAYOUT_PREFIXES] = { b->prefixes, sizeof(b->prefixes[0]) },
		[LAYOUT_RULE_REFS] = { b->refs, sizeof(b->refs[0]) },
		[LAYOUT_ANY_REFS] = { b->any, sizeof(b->any[0]) },
		[LAYOUT_LEASES] = { &b->lease, sizeof(b->lease) },
		[LAYOUT_SOURCES] = { b->sources, sizeof(b->sources[0]) },
		[LAYOUT_TOKENS] = { b->tokens, sizeof(b->tokens[0]) },
		[LAYOUT_RULESETS] = { b->rulesets, sizeof(b->rulesets[0]) },
		[LAYOUT_EXCEPTIONS] = { b->exceptions, sizeof(b->exceptions[0]) },
		[LAYOUT_ROOT_LEASES] = { b->root_leases, sizeof(b->root_leases[0]) },
		[LAYOUT_ROOT_INFO] = { &b->root, sizeof(b->root) },
	};
	struct layout_header h = {
		.magic = LAYOUT_MAGIC, .abi = LAYOUT_ABI, .kind = (uint16_t)b->kind,
		.seed0 = b->key.k0, .seed1 = b->key.k1,
	};
	size_t at = sizeof(h);

	b->count[LAYOUT_STRINGS] = b->strings_len;
	for (unsigned t = 0; t < LAYOUT_TABLE_COUNT; t++) {
		size_t len = b->count[t] * tables[t].size;

		if (len == 0)
			continue;
		if (at + len + 8 > BUILT_BYTES_MAX)
			wrong("too large", "");
		h.table[t] = (struct layout_span){ (uint32_t)at, b->count[t] };
		memcpy(out_bytes + at, tables[t].from, len);
		memset(out_bytes + at + len, 0, 7);
		at = (at + len + 7) & ~(size_t)7;
	}
	h.size = (uint32_t)at;
	memcpy(out_bytes, &h, sizeof(h));
	return at;
}

/* A root names leases, a lease names rulesets: three at work at most. Static, because fuzzing builds thousands. */
static struct builder builders[3];
static size_t at_work;

static struct builder *builder_start(struct built_store *store, enum layout_kind kind)
{
	struct builder *b = &builders[at_work++];

	if (at_work > ARRAY_LEN(builders))
		wrong("too deep", "");
	memset(b, 0, sizeof(*b));
	b->store = store;
	b->kind = kind;
	b->key = (struct hash_key){ 0x1234, 0x5678 };
	return b;
}

size_t built_bytes(struct built_store *store, enum layout_kind kind, const char *text,
		   uint8_t out_bytes[BUILT_BYTES_MAX])
{
	struct builder *b = builder_start(store, kind);
	size_t len;

	b->lease.state = LAYOUT_LEASE_ACTIVE;
	b->lease.scope = LAYOUT_SCOPE_DECLARED;
	b->lease.require = LAYOUT_REQUIRE_TOKEN;
	put_policy(b, text);
	index_names(b);
	index_prefixes(b);
	for (uint32_t i = 0; i < b->count[LAYOUT_RULES]; i++) {
		if (b->rules[i].host == RULE_HOST_ANY)
			b->any[b->count[LAYOUT_ANY_REFS]++] = i;
	}
	b->count[LAYOUT_LEASES] = kind == LAYOUT_LEASE;
	len = put_out(b, out_bytes);
	at_work--;
	return len;
}

static struct segment *keep(struct built_store *store, const uint8_t *bytes, size_t len)
{
	const char *fault = NULL;
	struct segment *s, *same;

	if (segment_open_bytes(bytes, len, &s, &fault) != ERR_OK)
		wrong("segment refused", fault == NULL ? "" : fault);
	same = built_find(store, segment_id(s));
	if (same != NULL) {
		segment_unref(s);
		return same;
	}
	if (store->count == BUILT_SEGMENTS_MAX)
		wrong("store is full", "");
	store->segments[store->count++] = s;
	return s;
}

struct segment *built_segment(struct built_store *store, enum layout_kind kind, const char *text)
{
	static uint8_t bytes[3][BUILT_BYTES_MAX];
	uint8_t *mine = bytes[at_work];

	return keep(store, mine, built_bytes(store, kind, text, mine));
}

struct segment *built_find(void *arg, const uint8_t id[LAYOUT_ID_LEN])
{
	struct built_store *store = arg;

	for (size_t i = 0; i < store->count; i++) {
		if (memcmp(segment_id(store->segments[i]), id, LAYOUT_ID_LEN) == 0)
			return store->segments[i];
	}
	return NULL;
}

static int compare_root_leases(const void *a, const void *b)
{
	const struct layout_root_lease *x = a, *y = b;
	const char *strings = sorting->strings;

	return segment_compare_ids((struct text){ strings + x->id.offset, x->id.len },
				   (struct text){ strings + y->id.offset, y->id.len });
}

size_t built_root_naming(uint64_t version, uint64_t base, uint32_t flags, const struct segment *ceiling,
			 const struct built_named *named, size_t count, uint8_t out_bytes[BUILT_BYTES_MAX])
{
	struct builder *b = builder_start(NULL, LAYOUT_ROOT);
	size_t len;

	if (count > RULES_MAX)
		wrong("too many leases", "");
	b->root.version = version;
	b->root.base = base;
	b->root.flags = flags;
	memcpy(b->root.ceiling.bytes, segment_id(ceiling), LAYOUT_ID_LEN);
	b->count[LAYOUT_ROOT_INFO] = 1;
	b->count[LAYOUT_ROOT_LEASES] = (uint32_t)count;
	for (size_t i = 0; i < count; i++) {
		b->root_leases[i].id = put_word(b, named[i].id);
		if (named[i].segment != NULL)
			memcpy(b->root_leases[i].segment.bytes, segment_id(named[i].segment), LAYOUT_ID_LEN);
	}
	sorting = b;
	if (count > 1)
		qsort(b->root_leases, count, sizeof(b->root_leases[0]), compare_root_leases);
	len = put_out(b, out_bytes);
	at_work--;
	return len;
}

size_t built_root_bytes(struct built_store *store, uint64_t version, uint32_t flags,
			const char *ceiling, const char *const *leases,
			uint8_t out_bytes[BUILT_BYTES_MAX])
{
	const struct segment *top = built_segment(store, LAYOUT_CEILING, ceiling);
	static char ids[RULES_MAX][RECORD_LEASE_MAX + 1];
	struct built_named named[RULES_MAX];
	size_t count = 0;

	for (; *leases != NULL; leases++) {
		const struct segment *s = built_segment(store, LAYOUT_LEASE, *leases);
		struct text id = segment_text(s, segment_lease(s)->id);

		if (count == RULES_MAX)
			wrong("too many leases", "");
		memcpy(ids[count], id.at, id.len);
		ids[count][id.len] = '\0';
		named[count] = (struct built_named){ ids[count], s };
		count++;
	}
	return built_root_naming(version, 0, flags, top, named, count, out_bytes);
}

struct snapshot *built_snapshot(struct built_store *store, uint64_t version, uint32_t flags,
				const char *ceiling, const char *const *leases)
{
	static uint8_t bytes[BUILT_BYTES_MAX];
	const char *fault = NULL;
	struct snapshot *snapshot;
	struct segment *root;

	root = keep(store, bytes, built_root_bytes(store, version, flags, ceiling, leases, bytes));
	if (snapshot_create(root, built_find, store, &snapshot, &fault) != ERR_OK)
		wrong("snapshot refused", fault == NULL ? "" : fault);
	return snapshot;
}

void built_store_init(struct built_store *store)
{
	store->count = 0;
	if (crypto_init() != ERR_OK)
		wrong("no crypto", "");
}

void built_store_finish(struct built_store *store)
{
	while (store->count > 0)
		segment_unref(store->segments[--store->count]);
}
