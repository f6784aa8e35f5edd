/* What segment_open refuses: one broken fact at a time, every cut, and every single byte changed. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "decision/verdict.h"
#include "image/segment.h"
#include "segment_builder.h"

/* Typed access to a good segment's bytes, to be broken. */
struct parts {
	uint8_t bytes[BUILT_BYTES_MAX];
	size_t len;
	struct layout_header *h;
	char *strings;
	struct layout_rule *rules;
	struct layout_ports *ports;
	struct layout_place *places;
	struct layout_label_slot *slots;
	struct layout_label_entry *entries;
	struct layout_prefix_group *groups;
	struct layout_prefix *prefixes;
	uint32_t *refs, *any;
	struct layout_lease *lease;
	struct layout_source *sources;
	struct layout_token *tokens;
	struct layout_exception *exceptions;
	struct layout_root_lease *root_leases;
	struct layout_root *root;
};

static struct built_store store;
static struct parts good, broken;

#define LEASE_TEXT                                                                           \
	"lease ls_1\nrequire listener source token\nlistener vm-1\nsource 10.0.0.0/12\n"      \
	"token secret\nplaces country=DE\n"                                                   \
	"allow https://api.example.org as r1 asn=64500\nallow ssh://*.example.org\n"          \
	"deny stats.example.org as r3\nallow tcp://192.0.2.0/24:443,8000-8010\n"              \
	"allow tcp://192.0.2.0/25:1\nallow tcp://192.0.2.128/25:1\ndeny [2001:db8::/33]\n"    \
	"allow http://api.example.org\nruleset\nallow https://x.test\nend\n"
#define CEILING_TEXT                                                                \
	"allow any\ndeny bad.test\nallow any\nexception 10.0.0.0/9 for *.corp.test\n" \
	"exception name for box.internal\nexception 10.0.0.0/9 for address\n"

static void *table(struct parts *p, enum layout_table t)
{
	return p->h->table[t].count == 0 ? NULL : p->bytes + p->h->table[t].offset;
}

static void find_parts(struct parts *p)
{
	p->h = (struct layout_header *)(void *)p->bytes;
	p->strings = table(p, LAYOUT_STRINGS);
	p->rules = table(p, LAYOUT_RULES);
	p->ports = table(p, LAYOUT_PORTS);
	p->places = table(p, LAYOUT_PLACES);
	p->slots = table(p, LAYOUT_LABEL_SLOTS);
	p->entries = table(p, LAYOUT_LABEL_ENTRIES);
	p->groups = table(p, LAYOUT_PREFIX_GROUPS);
	p->prefixes = table(p, LAYOUT_PREFIXES);
	p->refs = table(p, LAYOUT_RULE_REFS);
	p->any = table(p, LAYOUT_ANY_REFS);
	p->lease = table(p, LAYOUT_LEASES);
	p->sources = table(p, LAYOUT_SOURCES);
	p->tokens = table(p, LAYOUT_TOKENS);
	p->exceptions = table(p, LAYOUT_EXCEPTIONS);
	p->root_leases = table(p, LAYOUT_ROOT_LEASES);
	p->root = table(p, LAYOUT_ROOT_INFO);
}

static void make_good(enum layout_kind kind)
{
	static const char *const leases[] = { "lease ls_1\n", "lease ls_2\n", NULL };

	built_store_finish(&store);
	built_store_init(&store);
	if (kind == LAYOUT_ROOT)
		good.len = built_root_bytes(&store, 5, 0, CEILING_TEXT, leases, good.bytes);
	else
		good.len = built_bytes(&store, kind, kind == LAYOUT_LEASE ? LEASE_TEXT : CEILING_TEXT,
				       good.bytes);
	find_parts(&good);
}

static struct parts *fresh(void)
{
	memcpy(broken.bytes, good.bytes, good.len);
	broken.len = good.len;
	find_parts(&broken);
	return &broken;
}

static const char *open_fault(const struct parts *p)
{
	const char *fault = NULL;
	struct segment *s;

	if (segment_open_bytes(p->bytes, p->len, &s, &fault) == ERR_OK) {
		segment_unref(s);
		return NULL;
	}
	cr_assert_not_null(fault);
	return fault;
}

/* Break one fact of a fresh copy and expect a refusal. */
#define REFUSES(statement)                                                         \
	do {                                                                       \
		struct parts *p = fresh();                                         \
		statement;                                                         \
		cr_expect_not_null(open_fault(p), "%s was let through", #statement); \
	} while (0)

/* Change a fresh copy and expect that it still holds. */
#define ACCEPTS(statement)                                                         \
	do {                                                                       \
		struct parts *p = fresh();                                         \
		statement;                                                         \
		cr_expect_null(open_fault(p), "%s was refused", #statement);       \
	} while (0)

/* Number of the rule's entry among the label entries, by name. */
static uint32_t entry_of(const struct parts *p, const char *name)
{
	for (uint32_t i = 0; i < p->h->table[LAYOUT_LABEL_ENTRIES].count; i++) {
		if (strcmp(p->strings + p->entries[i].name.offset, name) == 0)
			return i;
	}
	cr_assert_fail("no entry %s", name);
	return 0;
}

static struct layout_label_slot *slot_of(const struct parts *p, const char *name)
{
	for (uint32_t i = 0; i < p->h->table[LAYOUT_LABEL_SLOTS].count; i++) {
		if (p->slots[i].entry == entry_of(p, name) + 1)
			return &p->slots[i];
	}
	cr_assert_fail("no slot for %s", name);
	return NULL;
}

Test(segment_verify, takes_the_good_ones)
{
	static const enum layout_kind kinds[] = { LAYOUT_LEASE, LAYOUT_CEILING, LAYOUT_ROOT };

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		make_good(kinds[i]);
		cr_expect_null(open_fault(&good), "%s", open_fault(&good));
	}
	good.len = built_bytes(&store, LAYOUT_RULESET, "", good.bytes);
	cr_expect_null(open_fault(&good));
}

Test(segment_verify, takes_ids_of_every_character_and_length_and_no_longer_ones)
{
	static const char id64[] = "!abcdefghijklmnopqrstuvwxyz0123456789-._:+ABCDEFGHIJKLMNOPQRSTU~";
	char text[400];

	built_store_init(&store);
	snprintf(text, sizeof(text), "lease %s\ntenant %s\nlistener %s\nallow https://a.test as %s\n", id64,
		 id64, id64, id64);
	good.len = built_bytes(&store, LAYOUT_LEASE, text, good.bytes);
	cr_expect_null(open_fault(&good), "%s", open_fault(&good));
	for (int word = 0; word < 4; word++) {
		static const char *const forms[] = {
			"lease x%s\n", "lease a\ntenant x%s\n", "lease a\nlistener x%s\n",
			"lease a\nallow https://a.test as x%s\n",
		};

		snprintf(text, sizeof(text), forms[word], id64);
		good.len = built_bytes(&store, LAYOUT_LEASE, text, good.bytes);
		cr_expect_not_null(open_fault(&good), "form %d", word);
	}
}

Test(segment_verify, refuses_a_header_or_table_that_lies)
{
	make_good(LAYOUT_LEASE);
	REFUSES(p->h->magic++);
	REFUSES(p->h->abi++);
	REFUSES(p->h->kind = 0);
	REFUSES(p->h->kind = 5);
	REFUSES(p->h->kind = LAYOUT_RULESET);
	REFUSES(p->h->kind = LAYOUT_ROOT);
	REFUSES(p->h->size++);
	REFUSES(p->h->reserved = 1);
	/* The last text's end lies outside, though the byte there is zero. */
	REFUSES(p->h->table[LAYOUT_STRINGS].count--);
	for (unsigned t = 0; t < LAYOUT_TABLE_COUNT; t++) {
		if (good.h->table[t].count == 0) {
			REFUSES(p->h->table[t].offset = 8);
			continue;
		}
		REFUSES(p->h->table[t].offset += 4);
		REFUSES(p->h->table[t].offset = 0);
		REFUSES(p->h->table[t].offset = 0xfffffff8u);
		REFUSES(p->h->table[t].count = 0x80000001u);
		REFUSES(p->h->table[t].offset = p->h->table[LAYOUT_STRINGS].offset - 8);
	}
}

Test(segment_verify, refuses_rules_that_do_not_hold)
{
	make_good(LAYOUT_LEASE);
	REFUSES(p->rules[0].id.len = RULE_ID_MAX + 1);
	REFUSES(p->rules[0].id.offset = 0xfffffff0u);
	REFUSES(p->rules[0].id.len--);
	REFUSES(p->rules[1].id.offset = 1);
	REFUSES(p->strings[p->rules[0].id.offset] = '\0');
	REFUSES(p->strings[p->rules[0].name.offset] = 'A');
	REFUSES(p->strings[p->rules[0].name.offset] = '.');
	REFUSES(p->rules[0].flags |= 0x80);
	REFUSES(p->rules[0].flags &= (uint8_t)~LAYOUT_RULE_SCHEME_KNOWN);
	REFUSES(p->rules[2].flags |= LAYOUT_RULE_SCHEME_KNOWN);
	REFUSES(p->rules[2].scheme = SCHEME_TCP);
	REFUSES(p->rules[0].flags |= LAYOUT_RULE_DENY);
	REFUSES(p->rules[0].scheme = SCHEME_COUNT);
	REFUSES(p->rules[3].scheme = SCHEME_HTTPS);
	REFUSES(p->rules[3].scheme = SCHEME_WS);
	REFUSES(p->rules[0].pin = RULE_PIN_LEASE + 1);
	REFUSES(p->rules[0].reserved = 1);
	REFUSES(p->rules[0].family = 4);
	REFUSES(p->rules[0].octets[3] = 1);
	REFUSES(p->rules[3].family = 5);
	REFUSES(p->rules[3].prefix_len = 33);
	REFUSES(p->rules[3].octets[3] = 1);
	REFUSES(p->rules[3].octets[15] = 1);
	REFUSES(p->rules[3].name = p->rules[0].name);
	REFUSES(p->rules[3].name.offset = 1);
	REFUSES(p->rules[0].host = RULE_HOST_ANY + 1);
	REFUSES(p->rules[0].host = RULE_HOST_ANY);
	/* An allow without ports would open all of them. */
	REFUSES(p->rules[0].ports = (struct layout_span){ 0 });
	REFUSES(p->rules[0].ports.count = 1000);
	REFUSES(p->rules[0].ports.offset = 1000);
	REFUSES(p->rules[0].ports.count = RULE_PORTS_MAX + 1);
	REFUSES(p->ports[0].first = 0);
	REFUSES(p->ports[0].last = 1);
	REFUSES(p->ports[p->rules[3].ports.offset + 1].first = 443);
	REFUSES(p->rules[0].places.offset = 1000);
	REFUSES(p->places[0].country[0] = 'd');
	REFUSES(p->places[0].asn = 1);
	REFUSES(p->places[0].reserved = 1);
	REFUSES(memset(&p->places[0], 0, sizeof(p->places[0])));
}

static void swap_refs(struct parts *p, uint32_t a, uint32_t b)
{
	uint32_t swap = p->refs[a];

	p->refs[a] = p->refs[b];
	p->refs[b] = swap;
}

/* Put the label index into half its slots; returns how far from its home the farthest name came to stand. */
static uint32_t crowd_slots(struct parts *p)
{
	uint32_t slot_count = p->h->table[LAYOUT_LABEL_SLOTS].count / 2, farthest = 0;
	struct hash_key key = { p->h->seed0, p->h->seed1 };

	memset(p->slots, 0, (size_t)slot_count * 2 * sizeof(*p->slots));
	p->h->table[LAYOUT_LABEL_SLOTS].count = slot_count;
	for (uint32_t i = 0; i < p->h->table[LAYOUT_LABEL_ENTRIES].count; i++) {
		struct layout_text name = p->entries[i].name;
		uint64_t hash = hash_bytes(&key, p->strings + name.offset, name.len);
		uint32_t at = layout_label_home(hash, slot_count), steps = 0;

		for (; p->slots[at].entry != 0; steps++)
			at = (at + 1) & (slot_count - 1);
		p->slots[at] = (struct layout_label_slot){ layout_label_tag(hash), i + 1 };
		farthest = steps > farthest ? steps : farthest;
	}
	return farthest;
}

Test(segment_verify, takes_names_as_far_from_home_as_readers_look_and_no_farther)
{
	static char text[256 * 24];
	bool last_taken = false, first_refused = false;
	size_t len = 0;

	for (unsigned n = 0; n < 235; n++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "deny n%u.test\n", n);
	built_store_init(&store);
	good.len = built_bytes(&store, LAYOUT_RULESET, text, good.bytes);
	find_parts(&good);
	for (uint64_t seed = 0; seed < 2000 && !(last_taken && first_refused); seed++) {
		struct parts *p = fresh();
		uint32_t farthest;

		p->h->seed0 = seed;
		farthest = crowd_slots(p);
		cr_expect_eq(open_fault(p) == NULL, farthest < LAYOUT_PROBE_MAX, "%u", farthest);
		last_taken |= farthest == LAYOUT_PROBE_MAX - 1;
		first_refused |= farthest == LAYOUT_PROBE_MAX;
	}
	cr_expect(last_taken && first_refused, "both sides of the edge are part of the test");
}

Test(segment_verify, refuses_an_index_that_loses_or_misplaces_a_rule)
{
	make_good(LAYOUT_LEASE);
	REFUSES(*slot_of(p, "stats.example.org") = (struct layout_label_slot){ 0 });
	REFUSES(slot_of(p, "stats.example.org")->tag++);
	REFUSES(slot_of(p, "stats.example.org")->entry = 1000);
	REFUSES(slot_of(p, "stats.example.org")->entry = entry_of(p, "example.org") + 1);
	REFUSES(p->h->table[LAYOUT_LABEL_SLOTS].count--);
	REFUSES(p->h->seed0++);
	REFUSES(p->entries[entry_of(p, "stats.example.org")].exact.count = 0);
	REFUSES(p->entries[entry_of(p, "stats.example.org")].exact = (struct layout_span){ 0 });
	REFUSES(p->entries[entry_of(p, "stats.example.org")].exact =
			p->entries[entry_of(p, "api.example.org")].exact);
	REFUSES(p->entries[entry_of(p, "example.org")].exact =
			p->entries[entry_of(p, "example.org")].wildcard);
	REFUSES(p->entries[0].name.len--);
	REFUSES(p->refs[0] = 1000);
	REFUSES(p->refs[p->entries[entry_of(p, "stats.example.org")].exact.offset] =
			p->h->table[LAYOUT_RULES].count);
	/* Numbers and order hold, but two entries, and two prefixes, have each other's rule. */
	REFUSES(swap_refs(p, p->entries[entry_of(p, "stats.example.org")].exact.offset,
			  p->entries[entry_of(p, "example.org")].wildcard.offset));
	REFUSES(swap_refs(p, p->prefixes[0].rules.offset, p->prefixes[1].rules.offset));
	REFUSES(swap_refs(p, p->prefixes[1].rules.offset, p->prefixes[2].rules.offset));
	REFUSES(swap_refs(p, p->prefixes[2].rules.offset, p->prefixes[3].rules.offset));
	REFUSES(swap_refs(p, p->prefixes[0].rules.offset,
			  p->entries[entry_of(p, "example.org")].wildcard.offset));
	REFUSES(p->groups[1].len = p->groups[0].len);
	REFUSES(p->refs[0] = p->refs[1]);
	REFUSES(p->groups[0].len++);
	REFUSES(p->groups[0].family = 6);
	REFUSES(p->groups[0].first++);
	REFUSES(p->groups[0].count++);
	REFUSES(p->groups[0].count = 0);
	REFUSES(p->groups[0].count = 0xffffffffu);
	REFUSES(p->groups[0].reserved = 1);
	REFUSES(memcpy(&p->groups[1], &p->groups[0], sizeof(p->groups[0])));
	REFUSES(p->prefixes[0].octets[0]++);
	REFUSES(p->prefixes[0].octets[3]++);
	REFUSES(p->prefixes[0].rules.count = 0);
	REFUSES(p->prefixes[0].rules.offset = 1000);
	REFUSES(p->h->table[LAYOUT_PREFIXES] = (struct layout_span){ 0 });
	/* Two prefixes of one length, in the wrong order and twice the same. */
	REFUSES({
		struct layout_prefix swap = p->prefixes[1];

		p->prefixes[1] = p->prefixes[2];
		p->prefixes[2] = swap;
	});
	REFUSES(p->prefixes[2] = p->prefixes[1]);
}

Test(segment_verify, refuses_leases_that_identify_nobody_or_say_the_impossible)
{
	make_good(LAYOUT_LEASE);
	REFUSES(p->h->table[LAYOUT_LEASES] = (struct layout_span){ 0 });
	REFUSES(p->lease->id = (struct layout_text){ 0 });
	REFUSES(p->strings[p->lease->id.offset + 2] = '/');
	REFUSES(p->strings[p->lease->id.offset + 2] = ' ');
	REFUSES(p->lease->require = 0);
	REFUSES(p->lease->require |= 8);
	REFUSES(p->lease->listener = (struct layout_text){ 0 });
	REFUSES(p->h->table[LAYOUT_SOURCES] = (struct layout_span){ 0 });
	REFUSES(p->lease->state = 0);
	REFUSES(p->lease->state = LAYOUT_LEASE_RULESET_MISSING + 1);
	REFUSES(p->lease->scope = 0);
	REFUSES(p->lease->scope = LAYOUT_SCOPE_DECLARED + 1);
	REFUSES(p->lease->options = 1u << 31);
	REFUSES(p->lease->claimed_scope = LAYOUT_SCOPE_DECLARED + 1);
	REFUSES(p->lease->places.count = 1000);
	REFUSES(p->lease->tenant.offset = 1);
	REFUSES(p->sources[0].family = 0);
	REFUSES(p->sources[0].len = 33);
	REFUSES(p->sources[0].octets[3] = 1);
	REFUSES(p->sources[0].reserved[0] = 1);
	REFUSES(p->tokens[0].id.len = 1000);
	{
		struct parts *p = fresh();

		/* Nobody can arrive by a listener that the lease does not require. */
		p->lease->require = LAYOUT_REQUIRE_TOKEN;
		p->lease->listener = (struct layout_text){ 0 };
		cr_expect_null(open_fault(p));
	}
}

Test(segment_verify, refuses_exceptions_and_any_that_do_not_hold)
{
	make_good(LAYOUT_CEILING);
	REFUSES(p->any[0] = 1);
	REFUSES(p->any[0] = 1000);
	REFUSES(p->any[1] = p->h->table[LAYOUT_RULES].count);
	REFUSES(p->rules[0].name = p->rules[1].name);
	REFUSES(p->rules[0].name.offset = 1);
	REFUSES(p->rules[0].family = 4);
	REFUSES(p->exceptions[2].name.offset = 1);
	REFUSES(p->any[1] = p->any[0]);
	REFUSES(p->h->table[LAYOUT_ANY_REFS] = (struct layout_span){ 0 });
	REFUSES(p->rules[0].flags |= LAYOUT_RULE_DENY);
	REFUSES(p->rules[0].flags |= LAYOUT_RULE_SCHEME_KNOWN);
	REFUSES(p->exceptions[0].prefix_len = 0);
	REFUSES(p->exceptions[0].prefix_len = 33);
	REFUSES(p->exceptions[0].family = 7);
	REFUSES(p->exceptions[0].octets[1] |= 1);
	REFUSES(p->exceptions[0].host = RULE_HOST_ANY);
	REFUSES(p->exceptions[0].host = RULE_HOST_PREFIX);
	REFUSES(p->exceptions[0].name.len = 0);
	REFUSES(p->exceptions[0].reserved[4] = 1);
	REFUSES(p->exceptions[0].reserved2 = 1);
	REFUSES(p->exceptions[1].octets[0] = 1);
	REFUSES(p->exceptions[1].prefix_len = 1);
	REFUSES(p->exceptions[2].family = 0);
}

Test(segment_verify, refuses_roots_without_order)
{
	make_good(LAYOUT_ROOT);
	REFUSES(p->h->table[LAYOUT_ROOT_INFO] = (struct layout_span){ 0 });
	REFUSES(p->root->flags = 2);
	REFUSES(p->root->reserved = 1);
	REFUSES(p->root->base = p->root->version);
	REFUSES(p->root->base = p->root->version + 1);
	REFUSES(p->root_leases[1].segment = (struct layout_id){ { 0 } });
	ACCEPTS(p->root->base = p->root->version - 1);
	ACCEPTS(p->root->base = 1; p->root_leases[1].segment = (struct layout_id){ { 0 } });
	REFUSES(p->root_leases[1].id = p->root_leases[0].id);
	REFUSES({
		struct layout_root_lease swap = p->root_leases[0];

		p->root_leases[0] = p->root_leases[1];
		p->root_leases[1] = swap;
	});
	REFUSES(p->root_leases[0].id.len = 0);
	REFUSES(p->root_leases[0].id.len = 1000);
}

Test(segment_verify, refuses_every_cut)
{
	static const enum layout_kind kinds[] = { LAYOUT_LEASE, LAYOUT_CEILING, LAYOUT_ROOT };

	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		make_good(kinds[k]);
		for (size_t len = 0; len < good.len; len++) {
			struct parts *p = fresh();

			p->len = len;
			cr_expect_not_null(open_fault(p), "kind %zu, %zu bytes", k, len);
			if (len < sizeof(*p->h))
				continue;
			p->h->size = (uint32_t)len;
			/* Up to seven bytes at the end only fill up the last table. */
			if (len + 8 <= good.len)
				cr_expect_not_null(open_fault(p), "kind %zu, honest %zu bytes", k, len);
		}
	}
}

/* Read all that a reader may, as readers do: without a check. */
static uint64_t read_everything(const struct segment *s)
{
	uint64_t sum = 0;
	uint32_t rule_count, ref_count, count;
	const struct layout_rule *rules = segment_table(s, LAYOUT_RULES, &rule_count);
	const uint32_t *refs = segment_table(s, LAYOUT_RULE_REFS, &ref_count);
	const struct layout_ports *ports = segment_table(s, LAYOUT_PORTS, &count);
	const struct layout_place *places = segment_table(s, LAYOUT_PLACES, &count);
	const struct layout_label_entry *entries = segment_table(s, LAYOUT_LABEL_ENTRIES, &count);

	for (uint32_t i = 0; i < count; i++) {
		struct text name = segment_text(s, entries[i].name);

		cr_assert_eq(segment_label_entry(s, name), &entries[i]);
		for (uint32_t k = 0; k < entries[i].exact.count; k++)
			sum += rules[refs[entries[i].exact.offset + k]].line;
		for (uint32_t k = 0; k < entries[i].wildcard.count; k++)
			sum += rules[refs[entries[i].wildcard.offset + k]].line;
	}
	for (uint32_t i = 0; i < rule_count; i++) {
		sum += segment_text(s, rules[i].id).len + segment_text(s, rules[i].note).len;
		for (uint32_t k = 0; k < rules[i].ports.count; k++)
			sum += ports[rules[i].ports.offset + k].first;
		for (uint32_t k = 0; k < rules[i].places.count; k++)
			sum += places[rules[i].places.offset + k].asn;
	}
	return sum;
}

Test(segment_verify, never_lets_a_reader_fault_whatever_single_byte_is_changed)
{
	static const uint8_t changes[] = { 0x01, 0x80, 0xff };
	size_t opened = 0, refused = 0;

	make_good(LAYOUT_LEASE);
	for (size_t at = 0; at < good.len; at++) {
		for (size_t c = 0; c < ARRAY_LEN(changes); c++) {
			const char *fault = NULL;
			struct segment *s;

			broken.bytes[at] = 0;
			fresh();
			broken.bytes[at] ^= changes[c];
			if (segment_open_bytes(broken.bytes, broken.len, &s, &fault) != ERR_OK) {
				refused++;
				continue;
			}
			opened++;
			(void)read_everything(s);
			segment_unref(s);
		}
	}
	cr_expect_gt(opened, 0);
	cr_expect_gt(refused, opened / 2);
}
