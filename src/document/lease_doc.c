/* Reads `egress.lease/1` and `egress.ruleset/1` payloads; see lease_doc.h. Rules stay text: the compiler knows the grammar. */
#include "document/lease_doc.h"

#include <stddef.h>
#include <string.h>

#include "document/doc_read_internal.h"

#define ASN_MAX 4294967294u            /* RFC 7300 */

bool lease_doc_id_is_valid(struct text id)
{
	if (id.len == 0 || id.len > LEASE_DOC_ID_MAX)
		return false;
	for (size_t i = 0; i < id.len; i++) {
		char c = text_lower(id.at[i]);
		bool letter = (c >= 'a' && c <= 'z') || text_is_digit(c);

		if (!letter && (i == 0 || (c != '-' && c != '_' && c != '.' && c != ':')))
			return false;
	}
	return true;
}

/* Free text for people: any UTF-8 without control characters. */
static const char *read_note(struct json_faults *faults, const struct json_value *object, const char *name)
{
	struct json_value v = json_member(object, name);
	const char *text = "";

	if (!json_text(faults, &v, 0, LEASE_DOC_NOTE_MAX, &text))
		return "";
	for (const char *c = text; *c != '\0'; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f) {
			doc_fault(faults, &v, "bad_word", "control characters are not allowed");
			break;
		}
	}
	return text;
}

struct word_row {
	const char *word;
	unsigned value;
};

/* One of `words`; leaves *out_value when absent. False when a fault was added. */
static bool read_word(struct json_faults *faults, const struct json_value *v, const struct word_row *words, size_t count,
		      const char *expected, unsigned *out_value)
{
	const char *text;

	if (!json_is_present(v))
		return true;
	if (!json_text(faults, v, 0, 64, &text))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (strcmp(words[i].word, text) == 0) {
			*out_value = words[i].value;
			return true;
		}
	}
	doc_fault(faults, v, "unknown_word", expected);
	return false;
}

static void read_switch(struct json_faults *faults, const struct json_value *object, const char *name, bool *out_on)
{
	struct json_value v = json_member(object, name);

	json_bool(faults, &v, out_on);
}

static void read_ech(struct json_faults *faults, const struct json_value *object, bool *out_refuse)
{
	static const struct word_row words[] = { { "allow", 0 }, { "refuse", 1 } };
	struct json_value v = json_member(object, "ech");
	unsigned refuse = 0;

	read_word(faults, &v, words, ARRAY_LEN(words), "expected allow or refuse", &refuse);
	*out_refuse = refuse == 1;
}

static void read_countries(struct json_faults *faults, const struct json_value *object, struct lease_doc_places *places)
{
	struct json_value list = json_member(object, "country");
	size_t count = json_array_count(faults, &list, LEASE_DOC_PLACES_MAX);
	char(*countries)[3];

	if (count == 0 || (countries = doc_take(faults, count, sizeof(*countries))) == NULL)
		return;
	for (size_t i = 0; i < count; i++) {
		struct json_value v = json_element(&list, i);
		const char *text;

		if (!json_text(faults, &v, 2, 2, &text))
			continue;
		if (text[0] < 'A' || text[0] > 'Z' || text[1] < 'A' || text[1] > 'Z')
			doc_fault(faults, &v, "bad_word", "expected two capital letters (ISO 3166)");
		memcpy(countries[i], text, 3);
	}
	places->countries = (const char(*)[3])countries;
	places->country_count = count;
}

static void read_asns(struct json_faults *faults, const struct json_value *object, struct lease_doc_places *places)
{
	struct json_value list = json_member(object, "asn");
	size_t count = json_array_count(faults, &list, LEASE_DOC_PLACES_MAX);
	uint32_t *asns;

	if (count == 0 || (asns = doc_take(faults, count, sizeof(*asns))) == NULL)
		return;
	for (size_t i = 0; i < count; i++) {
		struct json_value v = json_element(&list, i);
		uint64_t number = 0;

		json_u64(faults, &v, 1, ASN_MAX, &number);
		asns[i] = (uint32_t)number;
	}
	places->asns = asns;
	places->asn_count = count;
}

/* Which of allow and deny a rule has, and its text. */
static void read_action(struct json_faults *faults, const struct json_value *v, struct lease_doc_rule *rule)
{
	struct json_value allow = json_member(v, "allow"), deny = json_member(v, "deny");

	rule->pattern = "";
	rule->pointer = "";
	if (json_is_present(&allow) == json_is_present(&deny)) {
		doc_fault(faults, v, "missing_key", "a rule has either allow or deny");
		return;
	}
	rule->is_deny = json_is_present(&deny);
	json_text(faults, rule->is_deny ? &deny : &allow, 1, LEASE_DOC_PATTERN_MAX, &rule->pattern);
	rule->pointer = json_pointer(faults, rule->is_deny ? &deny : &allow);
	if (rule->pointer == NULL) {
		faults->out_of_memory = true;
		rule->pointer = "";
	}
}

static void read_rule(struct json_faults *faults, const struct json_value *v, struct lease_doc_rule *rule)
{
	static const struct json_key keys[] = {
		{ "id", false },  { "allow", false },	{ "deny", false }, { "note", false },	{ "pin", false },
		{ "ech", false }, { "country", false }, { "asn", false },  { "report", false },
	};
	static const struct word_row pins[] = {
		{ "connection", LEASE_DOC_PIN_CONNECTION },
		{ "ttl", LEASE_DOC_PIN_TTL },
		{ "lease", LEASE_DOC_PIN_LEASE },
	};
	struct json_value pin = json_member(v, "pin");
	unsigned value = LEASE_DOC_PIN_UNSAID;

	rule->id = rule->note = rule->pattern = rule->pointer = "";
	if (!json_object_check(faults, v, keys, ARRAY_LEN(keys)))
		return;
	read_action(faults, v, rule);
	rule->id = doc_id(faults, v, "id");
	rule->note = read_note(faults, v, "note");
	read_word(faults, &pin, pins, ARRAY_LEN(pins), "expected connection, ttl or lease", &value);
	rule->pin = (enum lease_doc_pin)value;
	read_ech(faults, v, &rule->ech_refuse);
	read_switch(faults, v, "report", &rule->report);
	read_countries(faults, v, &rule->places);
	read_asns(faults, v, &rule->places);
}

static void read_rules(struct json_faults *faults, const struct json_value *object, const struct lease_doc_rule **out_rules,
		       size_t *out_count)
{
	struct json_value list = json_member(object, "rules");
	size_t count = json_array_count(faults, &list, LEASE_DOC_RULES_MAX);
	struct lease_doc_rule *rules;

	if (count == 0 || (rules = doc_take(faults, count, sizeof(*rules))) == NULL)
		return;
	for (size_t i = 0; i < count; i++) {
		struct json_value v = json_element(&list, i);

		read_rule(faults, &v, &rules[i]);
	}
	*out_rules = rules;
	*out_count = count;
}

static void read_require(struct json_faults *faults, const struct json_value *guest, struct lease_doc *doc)
{
	static const struct word_row words[] = {
		{ "listener", LEASE_DOC_BY_LISTENER },
		{ "source", LEASE_DOC_BY_SOURCE },
		{ "token", LEASE_DOC_BY_TOKEN },
	};
	struct json_value list = json_member(guest, "require");
	size_t before = faults->count, count = json_array_count(faults, &list, ARRAY_LEN(words));

	for (size_t i = 0; i < count; i++) {
		struct json_value v = json_element(&list, i);
		unsigned bit = 0;

		if (!read_word(faults, &v, words, ARRAY_LEN(words), "expected listener, source or token", &bit))
			continue;
		if ((doc->require & bit) != 0)
			doc_fault(faults, &v, "duplicate_word", "this was required before");
		doc->require |= bit;
	}
	if (doc->require == 0 && json_is_present(&list) && faults->count == before)
		doc_fault(faults, &list, "empty", "a lease must require at least one of listener, source and token");
	if ((doc->require & LEASE_DOC_BY_LISTENER) != 0 && doc->listener[0] == '\0')
		doc_fault(faults, guest, "missing_key", "listener is required but none is named");
	if ((doc->require & LEASE_DOC_BY_SOURCE) != 0 && doc->source_count == 0)
		doc_fault(faults, guest, "missing_key", "source is required but sources is empty");
	if ((doc->require & LEASE_DOC_BY_TOKEN) != 0 && doc->token_count == 0)
		doc_fault(faults, guest, "missing_key", "token is required but tokens is empty");
}

static void read_sources(struct json_faults *faults, const struct json_value *guest, struct lease_doc *doc)
{
	struct json_value list = json_member(guest, "sources");
	size_t count = json_array_count(faults, &list, LEASE_DOC_SOURCES_MAX);
	struct prefix *sources;

	if (count == 0 || (sources = doc_take(faults, count, sizeof(*sources))) == NULL)
		return;
	for (size_t i = 0; i < count; i++) {
		struct json_value v = json_element(&list, i);
		const char *text;

		if (json_text(faults, &v, 1, 64, &text) && !prefix_parse(text_of(text), &sources[i]))
			doc_fault(faults, &v, "bad_prefix", "expected an address, or a prefix without host bits");
	}
	doc->sources = sources;
	doc->source_count = count;
}

static void read_token(struct json_faults *faults, const struct json_value *v, struct lease_doc_token *token)
{
	static const struct json_key keys[] = { { "id", false }, { "sha256", true }, { "exp_ms", false } };
	struct json_value digest = json_member(v, "sha256");
	const char *text;

	token->id = "";
	if (!json_object_check(faults, v, keys, ARRAY_LEN(keys)))
		return;
	token->id = doc_id(faults, v, "id");
	token->exp_ms = doc_number(faults, v, "exp_ms", 1, DOC_TIME_MAX_MS);
	if (json_text(faults, &digest, 64, 64, &text) && !text_to_bytes_hex(text_of(text), token->sha256, sizeof(token->sha256)))
		doc_fault(faults, &digest, "bad_digest", "expected 64 lower-case hex digits");
}

static void read_tokens(struct json_faults *faults, const struct json_value *guest, struct lease_doc *doc)
{
	struct json_value list = json_member(guest, "tokens");
	size_t count = json_array_count(faults, &list, LEASE_DOC_TOKENS_MAX);
	struct lease_doc_token *tokens;

	if (count == 0 || (tokens = doc_take(faults, count, sizeof(*tokens))) == NULL)
		return;
	for (size_t i = 0; i < count; i++) {
		struct json_value v = json_element(&list, i);

		read_token(faults, &v, &tokens[i]);
	}
	doc->tokens = tokens;
	doc->token_count = count;
}

static void read_guest(struct json_faults *faults, const struct json_value *top, struct lease_doc *doc)
{
	static const struct json_key keys[] = {
		{ "require", true }, { "listener", false }, { "sources", false }, { "tokens", false },
	};
	struct json_value guest = json_member(top, "guest");

	if (!json_object_check(faults, &guest, keys, ARRAY_LEN(keys)))
		return;
	doc->listener = doc_id(faults, &guest, "listener");
	read_sources(faults, &guest, doc);
	read_tokens(faults, &guest, doc);
	read_require(faults, &guest, doc);
}

/* An unknown mode is the one word that does not refuse: it makes the scope undeclared. */
static void read_mode(struct json_faults *faults, const struct json_value *network, struct lease_doc *doc)
{
	static const struct word_row words[] = {
		{ "deny_all", LEASE_DOC_DENY_ALL },
		{ "allowlist", LEASE_DOC_ALLOWLIST },
		{ "dependency_provisioning", LEASE_DOC_PROVISIONING },
	};
	struct json_value v = json_member(network, "mode");

	if (!json_text(faults, &v, 0, 64, &doc->mode_text))
		return;
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(words[i].word, doc->mode_text) == 0)
			doc->mode = (enum lease_doc_mode)words[i].value;
}

static void read_rulesets(struct json_faults *faults, const struct json_value *network, struct lease_doc *doc)
{
	static const char before[] = "sha256:";
	struct json_value list = json_member(network, "rulesets");
	size_t count = json_array_count(faults, &list, LEASE_DOC_RULESETS_MAX);
	uint8_t(*rulesets)[32];

	if (count == 0 || (rulesets = doc_take(faults, count, sizeof(*rulesets))) == NULL)
		return;
	for (size_t i = 0; i < count; i++) {
		struct json_value v = json_element(&list, i);
		size_t skip = sizeof(before) - 1;
		const char *text;

		if (!json_text(faults, &v, 0, 80, &text))
			continue;
		if (strncmp(text, before, skip) != 0 || !text_to_bytes_hex(text_of(text + skip), rulesets[i], 32)) {
			doc_fault(faults, &v, "bad_digest", "expected sha256: and 64 lower-case hex digits");
			continue;
		}
		for (size_t j = 0; j < i; j++)
			if (memcmp(rulesets[i], rulesets[j], 32) == 0)
				doc_fault(faults, &v, "duplicate_word", "this ruleset was named before");
	}
	doc->rulesets = (const uint8_t(*)[32])rulesets;
	doc->ruleset_count = count;
}

static void read_network(struct json_faults *faults, const struct json_value *top, enum lease_doc_trust trust,
			 struct lease_doc *doc)
{
	const bool is_signed = trust == LEASE_DOC_SIGNED;
	const struct json_key keys[] = {
		{ "mode", true },	     { "claimed_scope", is_signed }, { "enforcement", is_signed },
		{ "rulesets", is_signed }, { "rules", true },
	};
	static const struct word_row scopes[] = {
		{ "undeclared", LEASE_DOC_SCOPE_UNDECLARED },
		{ "none", LEASE_DOC_SCOPE_NONE },
		{ "declared", LEASE_DOC_SCOPE_DECLARED },
	};
	static const struct word_row enforcements[] = { { "enforce", 0 }, { "report", 1 } };
	struct json_value network = json_member(top, "network");
	struct json_value scope = json_member(&network, "claimed_scope"), enforcement = json_member(&network, "enforcement");
	unsigned claimed = LEASE_DOC_SCOPE_UNSAID, report = 0;

	if (!json_object_check(faults, &network, keys, ARRAY_LEN(keys)))
		return;
	read_mode(faults, &network, doc);
	read_word(faults, &scope, scopes, ARRAY_LEN(scopes), "expected undeclared, none or declared", &claimed);
	doc->claimed_scope = (enum lease_doc_scope)claimed;
	read_word(faults, &enforcement, enforcements, ARRAY_LEN(enforcements), "expected enforce or report", &report);
	doc->report = report == 1;
	read_rulesets(faults, &network, doc);
	read_rules(faults, &network, &doc->rules, &doc->rule_count);
}

static void read_limits(struct json_faults *faults, const struct json_value *top, struct lease_doc *doc)
{
#define LIMIT(name, least, most) { #name, false },
	static const struct json_key keys[] = {
#include "document/limits.def"
	};
#undef LIMIT
	struct json_value limits = json_member(top, "limits");

	if (!json_is_present(&limits) || !json_object_check(faults, &limits, keys, ARRAY_LEN(keys)))
		return;
#define LIMIT(name, least, most) doc->limits.name = doc_number(faults, &limits, #name, least, most);
#include "document/limits.def"
#undef LIMIT
}

static void read_options(struct json_faults *faults, const struct json_value *top, struct lease_doc *doc)
{
	static const struct json_key keys[] = {
		{ "resolve", false }, { "why", false }, { "names_only", false }, { "ech", false }, { "country", false }, { "asn", false },
	};
	struct json_value options = json_member(top, "options");

	if (!json_is_present(&options) || !json_object_check(faults, &options, keys, ARRAY_LEN(keys)))
		return;
	read_switch(faults, &options, "resolve", &doc->resolve);
	read_switch(faults, &options, "why", &doc->why);
	read_switch(faults, &options, "names_only", &doc->names_only);
	read_ech(faults, &options, &doc->ech_refuse);
	read_countries(faults, &options, &doc->places);
	read_asns(faults, &options, &doc->places);
}

static void read_times(struct json_faults *faults, const struct json_value *top, struct lease_doc *doc)
{
	struct json_value until = json_member(top, "exp_ms");

	doc->nbf_ms = doc_number(faults, top, "nbf_ms", 1, DOC_TIME_MAX_MS);
	doc->exp_ms = doc_number(faults, top, "exp_ms", 1, DOC_TIME_MAX_MS);
	if (doc->nbf_ms != 0 && doc->exp_ms != 0 && doc->exp_ms <= doc->nbf_ms)
		doc_fault(faults, &until, "out_of_range", "the lease ends before it begins");
}

static void read_lease(struct json_faults *faults, const struct json_value *top, enum lease_doc_trust trust,
		       struct lease_doc *doc)
{
	const bool is_signed = trust == LEASE_DOC_SIGNED;
	const struct json_key keys[] = {
		{ "typ", true },      { "epoch", is_signed },  { "cell", is_signed }, { "lease", true },
		{ "rev", is_signed },  { "state", true },       { "nbf_ms", is_signed }, { "exp_ms", is_signed },
		{ "tenant", false },   { "run", false },	{ "environment_class", false },
		{ "guest", true },     { "network", true },     { "limits", false },  { "options", false },
	};
	static const struct word_row states[] = {
		{ "active", LEASE_DOC_ACTIVE },
		{ "suspended", LEASE_DOC_SUSPENDED },
		{ "revoked", LEASE_DOC_REVOKED },
	};
	struct json_value state = json_member(top, "state");
	unsigned value = LEASE_DOC_SUSPENDED;

	json_object_check(faults, top, keys, ARRAY_LEN(keys));
	doc_type(faults, top, "egress.lease/1");
	doc->epoch = doc_number(faults, top, "epoch", 0, DOC_WHOLE_MAX);
	doc->rev = doc_number(faults, top, "rev", 0, DOC_WHOLE_MAX);
	doc->cell = doc_id(faults, top, "cell");
	doc->lease = doc_id(faults, top, "lease");
	read_word(faults, &state, states, ARRAY_LEN(states), "expected active, suspended or revoked", &value);
	doc->state = (enum lease_doc_state)value;
	read_times(faults, top, doc);
	doc->tenant = doc_id(faults, top, "tenant");
	doc->run = doc_id(faults, top, "run");
	doc->environment_class = doc_id(faults, top, "environment_class");
	read_guest(faults, top, doc);
	read_network(faults, top, trust, doc);
	read_limits(faults, top, doc);
	read_options(faults, top, doc);
}

enum err lease_doc_read(struct text payload, enum lease_doc_trust trust, struct json_faults *faults, struct lease_doc *out_doc)
{
	struct lease_doc doc = { .cell = "", .lease = "", .tenant = "", .run = "", .environment_class = "", .listener = "",
				 .mode_text = "" };
	size_t before = faults->count;
	struct json_value top;
	struct json *json;
	enum err err = json_open(payload, faults, &json);

	if (err != ERR_OK)
		return err;
	top = json_top(json);
	read_lease(faults, &top, trust, &doc);
	json_close(json);
	err = doc_outcome(faults, before);
	if (err == ERR_OK)
		*out_doc = doc;
	return err;
}

bool lease_doc_id(struct text payload, char out_id[LEASE_DOC_ID_MAX + 1])
{
	struct json_faults faults;
	struct json_value top, lease;
	struct arena arena;
	struct json *json;
	const char *text;
	bool found = false;

	arena_init(&arena, 0);
	json_faults_init(&faults, &arena);
	if (json_open(payload, &faults, &json) == ERR_OK) {
		top = json_top(json);
		lease = json_member(&top, "lease");
		if (json_text(&faults, &lease, 1, LEASE_DOC_ID_MAX, &text) && lease_doc_id_is_valid(text_of(text))) {
			memcpy(out_id, text, strlen(text) + 1);
			found = true;
		}
		json_close(json);
	}
	arena_finish(&arena);
	return found;
}

bool lease_doc_arrival(struct text payload, struct json_faults *faults, struct lease_doc *out_doc)
{
	struct lease_doc doc = { .cell = "", .lease = "", .state = LEASE_DOC_SUSPENDED, .tenant = "", .run = "",
				 .environment_class = "", .listener = "", .mode = LEASE_DOC_DENY_ALL, .mode_text = "deny_all" };
	struct json_faults ours;
	struct json_value top;
	struct json *json;
	bool is_sound;

	json_faults_init(&ours, faults->arena);
	if (json_open(payload, &ours, &json) != ERR_OK)
		return false;
	top = json_top(json);
	doc.lease = doc_id(&ours, &top, "lease");
	read_guest(&ours, &top, &doc);
	json_close(json);
	is_sound = ours.count == 0 && !ours.out_of_memory && doc.lease[0] != '\0' && doc.require != 0;
	if (is_sound)
		*out_doc = doc;
	return is_sound;
}

bool lease_doc_rev(struct text payload, uint64_t *out_rev)
{
	struct json_faults faults;
	struct json_value top, rev;
	struct arena arena;
	struct json *json;
	bool found = false;

	arena_init(&arena, 0);
	json_faults_init(&faults, &arena);
	if (json_open_loose(payload, &json) == ERR_OK) {
		top = json_top(json);
		rev = json_member(&top, "rev");
		found = json_u64(&faults, &rev, 0, DOC_WHOLE_MAX, out_rev);
		json_close(json);
	}
	arena_finish(&arena);
	return found;
}

enum err ruleset_doc_read(struct text payload, struct json_faults *faults, struct ruleset_doc *out_doc)
{
	static const struct json_key keys[] = { { "typ", true }, { "rules", true }, { "note", false } };
	struct ruleset_doc doc = { 0 };
	size_t before = faults->count;
	struct json_value top;
	struct json *json;
	enum err err = json_open(payload, faults, &json);

	if (err != ERR_OK)
		return err;
	top = json_top(json);
	json_object_check(faults, &top, keys, ARRAY_LEN(keys));
	doc_type(faults, &top, "egress.ruleset/1");
	read_note(faults, &top, "note");
	read_rules(faults, &top, &doc.rules, &doc.rule_count);
	json_close(json);
	err = doc_outcome(faults, before);
	if (err == ERR_OK)
		*out_doc = doc;
	return err;
}
