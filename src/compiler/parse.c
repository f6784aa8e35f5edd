/* `.policy` text to a tree: the table of statements, and those about rules; see parse.h. Opens nothing. */
#include "compiler/parse.h"

#include <string.h>

#include "compiler/parse_internal.h"
#include "compiler/source.h"
#include "facts/addr_class.h"
#include "facts/special_names.h"

#define SHOWN_MAX 80

enum { IN_PRESET = 1 << POLICY_PRESET, IN_LEASE = 1 << POLICY_LEASE, IN_CEILING = 1 << POLICY_CEILING };

typedef void statement_fn(struct parser *p, const struct token_line *line);

static const char *shown(struct text t, char room[SHOWN_MAX])
{
	text_escape(t, room, SHOWN_MAX);
	return room;
}

/* Options that may stand once on a rule. */
enum { HAS_ID = 1, HAS_NOTE = 2, HAS_PIN = 4, HAS_ECH = 8, HAS_COUNTRY = 16, HAS_ASN = 32, HAS_REPORT = 64 };

static bool is_assignment(struct text word, const char *key, struct text *out_value)
{
	size_t len = strlen(key);

	if (word.len <= len || memcmp(word.at, key, len) != 0 || word.at[len] != '=')
		return false;
	*out_value = (struct text){ word.at + len + 1, word.len - len - 1 };
	return true;
}

static bool read_id(struct parser *p, struct text value, struct fault_place place, struct policy_rule *rule)
{
	_Static_assert(RULE_ID_MAX == LEASE_DOC_ID_MAX, "rule ids are read like lease ids");
	if (!lease_doc_id_is_valid(value))
		return parser_fault(p, place, "bad_word", "a rule's id has 1 to %d letters, digits and, after the first, - _ . :",
				    RULE_ID_MAX),
		       false;
	rule->id = parser_text(p, value);
	return true;
}

static bool read_note(struct parser *p, struct text value, struct fault_place place, struct policy_rule *rule)
{
	if (value.len > RULE_NOTE_MAX)
		return parser_fault(p, place, "too_long", "a note has at most %d bytes", RULE_NOTE_MAX), false;
	rule->note = parser_text(p, value);
	return true;
}

static bool read_pin(struct parser *p, struct text value, struct fault_place place, struct policy_rule *rule)
{
	if (text_is(value, "connection"))
		rule->pin = RULE_PIN_CONNECTION;
	else if (text_is(value, "ttl"))
		rule->pin = RULE_PIN_TTL;
	else if (text_is(value, "lease"))
		rule->pin = RULE_PIN_LEASE;
	else
		return parser_fault(p, place, "unknown_word", "expected pin=connection, pin=ttl or pin=lease"), false;
	return true;
}

static bool read_ech(struct parser *p, struct text value, struct fault_place place, struct policy_rule *rule)
{
	rule->ech_refuse = text_is(value, "refuse");
	if (!rule->ech_refuse && !text_is(value, "allow"))
		return parser_fault(p, place, "unknown_word", "expected ech=allow or ech=refuse"), false;
	return true;
}

/* One option at *at; moves on. False with a fault. */
static bool read_option(struct parser *p, const struct token_line *line, uint32_t *at, unsigned *seen, struct policy_rule *rule)
{
	const struct token *word = &line->tokens[(*at)++];
	struct fault_place place = parser_place(p, line->line, word);
	unsigned before = *seen;
	struct text value = { NULL, 0 };
	char room[SHOWN_MAX];
	bool good = true;

	if (text_is(word->text, "as") || text_is(word->text, "note")) {
		bool is_id = text_is(word->text, "as");

		if (*at >= line->token_count)
			return parser_fault(p, place, "value_missing", is_id ? "as needs an id behind it" : "note needs a text in quotes behind it"), false;
		value = line->tokens[*at].text;
		place = parser_place(p, line->line, &line->tokens[(*at)++]);
		*seen |= is_id ? HAS_ID : HAS_NOTE;
		good = is_id ? read_id(p, value, place, rule) : read_note(p, value, place, rule);
	} else if (text_is(word->text, "report")) {
		*seen |= HAS_REPORT;
		rule->report = true;
	} else if (is_assignment(word->text, "pin", &value)) {
		*seen |= HAS_PIN;
		good = read_pin(p, value, place, rule);
	} else if (is_assignment(word->text, "ech", &value)) {
		*seen |= HAS_ECH;
		good = read_ech(p, value, place, rule);
	} else if (is_assignment(word->text, "country", &value)) {
		*seen |= HAS_COUNTRY;
		good = parse_places(p, value, true, place, &rule->places, &rule->place_count);
	} else if (is_assignment(word->text, "asn", &value)) {
		*seen |= HAS_ASN;
		good = parse_places(p, value, false, place, &rule->places, &rule->place_count);
	} else {
		return parser_fault(p, place, "unknown_option",
				    "%s is no option of a rule; expected as ID, note \"…\", pin=, ech=, country=, asn= or report",
				    shown(word->text, room)),
		       false;
	}
	if (good && *seen == before)
		return parser_fault(p, place, "duplicate_option", "this option was given before on the line"), false;
	return good;
}

/* allow or deny, a pattern, options. */
static void rule_line(struct parser *p, const struct token_line *line, enum rule_action action)
{
	struct policy_rule rule = { .id = "", .note = "" };
	unsigned seen = 0;
	uint32_t at = 2;
	bool good;

	rule.place = parser_place(p, line->line, &line->tokens[0]);
	if (line->token_count < 2) {
		parser_fault(p, rule.place, "value_missing", action == RULE_ALLOW ? "allow needs SCHEME://HOST behind it" : "deny needs a host behind it");
		return;
	}
	rule.place = parser_place(p, line->line, &line->tokens[1]);
	if (action == RULE_ALLOW && text_is(line->tokens[1].text, "any")) {
		rule.rule = (struct rule){ .action = RULE_ALLOW, .host = RULE_HOST_ANY };
		good = p->policy->kind == POLICY_CEILING;
		if (!good)
			parser_fault(p, rule.place, "any_outside_ceiling", "allow any is for the ceiling alone; name the hosts");
	} else {
		struct fault_place place = rule.place;

		place.column += line->tokens[1].quoted;
		good = parser_read_pattern(p, line->tokens[1].text, action, place, &rule.rule);
	}
	while (at < line->token_count)
		if (!read_option(p, line, &at, &seen, &rule))
			good = false;
	if (good)
		parser_add_rule(p, &rule);
}

static void on_allow(struct parser *p, const struct token_line *line)
{
	rule_line(p, line, RULE_ALLOW);
}

static void on_deny(struct parser *p, const struct token_line *line)
{
	rule_line(p, line, RULE_DENY);
}

/* Names of presets behind a word. */
static void preset_names(struct parser *p, const struct token_line *line, struct policy_use ***tail, struct policy_use *const *head)
{
	char room[SHOWN_MAX];

	if (line->token_count < 2)
		parser_fault(p, parser_place(p, line->line, &line->tokens[0]), "value_missing", "%s needs the name of a preset behind it",
			     shown(line->tokens[0].text, room));
	for (uint32_t at = 1; at < line->token_count; at++) {
		struct fault_place place = parser_place(p, line->line, &line->tokens[at]);
		struct text name = line->tokens[at].text;
		bool again = false;

		for (const struct policy_use *u = *head; u != NULL; u = u->next)
			again = again || text_is(name, u->name);
		if (!source_preset_name_is_valid(name))
			parser_fault(p, place, "bad_preset_name",
				     "%s cannot name a preset; expected 1 to 64 lower-case letters, digits, - and _", shown(name, room));
		else if (again)
			parser_fault(p, place, "duplicate_statement", "%s was named before", shown(name, room));
		else
			parser_add_use(p, tail, parser_text(p, name), NULL, place);
	}
}

static void on_use(struct parser *p, const struct token_line *line)
{
	preset_names(p, line, &p->use_tail, &p->policy->uses);
}

static void on_provisioning(struct parser *p, const struct token_line *line)
{
	preset_names(p, line, &p->provisioning_tail, &p->policy->provisioning);
}

/* The class that the whole prefix belongs to; PUBLIC when no row of the table holds all of it. */
static enum addr_class class_of(const struct prefix *prefix)
{
	size_t count;
	const struct addr_range *rows = addr_class_table(&count);

	for (size_t i = 0; i < count; i++)
		if (rows[i].prefix.len <= prefix->len && prefix_contains(&rows[i].prefix, &prefix->addr))
			return rows[i].class;
	return ADDR_CLASS_PUBLIC;
}

static bool prefix_may_reopen(struct parser *p, const struct prefix *prefix, struct fault_place place)
{
	enum addr_class class = class_of(prefix);

	if (prefix->len == 0)
		return parser_fault(p, place, "exception_too_wide", "a whole address family cannot be re-opened"), false;
	if (class == ADDR_CLASS_PUBLIC || addr_class_may_reopen(class))
		return true;
	parser_fault(p, place, "exception_forbidden", "%s addresses can never be re-opened", addr_class_word(class));
	return false;
}

static bool read_exception_host(struct parser *p, struct text text, struct fault_place place, struct rule *out_host)
{
	struct pattern_fault fault;
	enum err err = pattern_parse_host(text, p->names, out_host, &fault);

	if (err == ERR_NO_MEMORY)
		p->out_of_memory = true;
	if (err == ERR_INVALID) {
		place.column += fault.at;
		parser_fault(p, place, fault.code, "%s", fault.reason);
	}
	if (err != ERR_OK)
		return false;
	if (out_host->host != RULE_HOST_PREFIX && special_names_classify(&out_host->name) == NAME_METADATA)
		return parser_fault(p, place, "metadata_name", "metadata services can never be re-opened"), false;
	return true;
}

static void add_exception(struct parser *p, const struct policy_exception *exception)
{
	struct policy_exception *kept = parser_take(p, 1, sizeof(*kept));

	if (kept == NULL)
		return;
	*kept = *exception;
	*p->exception_tail = kept;
	p->exception_tail = &kept->next;
}

/* For an address asked for as such, both prefixes must hold it: the smaller one is what is re-opened. */
static bool narrow_to_host(struct parser *p, struct policy_exception *exception, struct fault_place place)
{
	const struct prefix *host = &exception->host.prefix;

	if (exception->host.host != RULE_HOST_PREFIX)
		return true;
	if (prefix_contains(&exception->prefix, &host->addr) && host->len >= exception->prefix.len)
		exception->prefix = *host;
	else if (!prefix_contains(host, &exception->prefix.addr) || exception->prefix.len < host->len)
		return parser_fault(p, place, "exception_forbidden", "the two prefixes have no address in common"), false;
	return true;
}

/* exception PREFIX[,PREFIX] for HOST, or exception HOST for a special name alone. */
static void on_exception(struct parser *p, const struct token_line *line)
{
	struct fault_place place = parser_place(p, line->line, &line->tokens[0]);
	struct policy_exception exception = { .place = place };
	struct text list;

	if (line->token_count == 2) {
		place = parser_place(p, line->line, &line->tokens[1]);
		if (!read_exception_host(p, line->tokens[1].text, place, &exception.host))
			return;
		if (exception.host.host == RULE_HOST_PREFIX)
			parser_fault(p, place, "bad_statement", "say for whom: exception PREFIX for HOST");
		else
			add_exception(p, &exception);
		return;
	}
	if (line->token_count != 4 || !text_is(line->tokens[2].text, "for")) {
		parser_fault(p, place, "bad_statement", "expected exception PREFIX for HOST, or exception HOST");
		return;
	}
	if (!read_exception_host(p, line->tokens[3].text, parser_place(p, line->line, &line->tokens[3]), &exception.host))
		return;
	exception.has_prefix = true;
	list = line->tokens[1].text;
	place = parser_place(p, line->line, &line->tokens[1]);
	for (;;) {
		const char *comma = memchr(list.at, ',', list.len);
		struct text item = { list.at, comma == NULL ? list.len : (size_t)(comma - list.at) };
		bool bracketed = item.len > 2 && item.at[0] == '[' && item.at[item.len - 1] == ']';
		struct text inner = bracketed ? (struct text){ item.at + 1, item.len - 2 } : item;
		char room[SHOWN_MAX];

		if (!prefix_parse(inner, &exception.prefix))
			parser_fault(p, place, "bad_prefix", "%s is no address or prefix without host bits, such as 10.20.0.0/16",
				     shown(item, room));
		else if (prefix_may_reopen(p, &exception.prefix, place) && narrow_to_host(p, &exception, place))
			add_exception(p, &exception);
		if (comma == NULL)
			return;
		list = (struct text){ comma + 1, list.len - item.len - 1 };
	}
}

static const struct statement {
	const char *word;
	unsigned kinds;
	statement_fn *read;
} statements[] = {
	{ "lease", IN_LEASE, parse_identity_line },
	{ "tenant", IN_LEASE, parse_identity_line },
	{ "run", IN_LEASE, parse_identity_line },
	{ "class", IN_LEASE, parse_identity_line },
	{ "expires", IN_LEASE, parse_identity_line },
	{ "guest", IN_LEASE, parse_guest_line },
	{ "mode", IN_LEASE, parse_mode_line },
	{ "limit", IN_LEASE | IN_CEILING, parse_limit_line },
	{ "option", IN_LEASE | IN_CEILING, parse_option_line },
	{ "enforcement", IN_LEASE | IN_CEILING, parse_enforcement_line },
	{ "use", IN_LEASE | IN_PRESET | IN_CEILING, on_use },
	{ "allow", IN_LEASE | IN_PRESET | IN_CEILING, on_allow },
	{ "deny", IN_LEASE | IN_PRESET | IN_CEILING, on_deny },
	{ "exception", IN_CEILING, on_exception },
	{ "provisioning", IN_CEILING, on_provisioning },
};

static const char *kind_word(enum policy_kind kind)
{
	return kind == POLICY_LEASE ? "a lease" : kind == POLICY_PRESET ? "a preset" : "the ceiling";
}

static void on_line(struct parser *p, const struct token_line *line)
{
	const struct token *first = &line->tokens[0];
	struct fault_place place = parser_place(p, line->line, first);
	const char *words[ARRAY_LEN(statements)];
	const char *near;
	char room[SHOWN_MAX];

	for (size_t i = 0; i < ARRAY_LEN(statements); i++) {
		words[i] = statements[i].word;
		if (first->quoted || !text_is(first->text, words[i]))
			continue;
		if ((statements[i].kinds & BIT(p->policy->kind)) != 0)
			statements[i].read(p, line);
		else
			parser_fault(p, place, "statement_not_here", "%s has no place in %s", words[i], kind_word(p->policy->kind));
		return;
	}
	near = fault_nearest(first->text, words, ARRAY_LEN(words));
	if (near != NULL)
		parser_fault(p, place, "unknown_statement", "there is no statement %s; did you mean %s?", shown(first->text, room), near);
	else
		parser_fault(p, place, "unknown_statement", "there is no statement %s; a line begins with allow, deny, use, guest, mode, …",
			     shown(first->text, room));
}

enum err parse_policy(struct arena *arena, const char *file, struct text text, const struct parse_as *as, struct fault_list *faults,
		      struct policy **out_policy)
{
	size_t errors_before = faults->error_count;
	struct tokens tokens;
	struct parser p;
	enum err err = parser_init(&p, arena, file, as->kind, as->name, as->report_allowed, faults);

	if (err != ERR_OK)
		return err;
	err = tokens_read(arena, file, text, faults, &tokens);
	if (err != ERR_OK)
		return err;
	for (size_t i = 0; i < tokens.line_count; i++)
		on_line(&p, &tokens.lines[i]);
	if (as->kind == POLICY_LEASE)
		parser_check_lease(&p);
	err = parser_finish(&p, errors_before);
	if (err != ERR_NO_MEMORY)
		*out_policy = p.policy;
	return err;
}
