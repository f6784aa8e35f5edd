/* The statements that say who a lease is for, how it identifies itself and how much it may do; see parse_internal.h. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "compiler/parse_internal.h"

#define SHOWN_MAX 80
#define PLACES_MAX LEASE_DOC_PLACES_MAX
#define ASN_MAX 4294967294u /* RFC 7300 */

static const char *shown(struct text t, char room[SHOWN_MAX])
{
	text_escape(t, room, SHOWN_MAX);
	return room;
}

static bool read_id(struct parser *p, struct text value, struct fault_place place, const char **out_id)
{
	char room[SHOWN_MAX];

	if (!lease_doc_id_is_valid(value)) {
		parser_fault(p, place, "bad_word", "%s: expected 1 to %d letters, digits and, after the first, - _ . :",
			     shown(value, room), LEASE_DOC_ID_MAX);
		return false;
	}
	*out_id = parser_text(p, value);
	return true;
}

static void read_expires(struct parser *p, struct text value, struct fault_place place)
{
	if (!clock_parse_wall(value, &p->policy->exp_ms) || p->policy->exp_ms == 0)
		parser_fault(p, place, "bad_time", "expected a time in UTC such as 2026-12-01T00:00:00Z");
}

/* Is there a value behind the word at `at`? */
static bool has_value(struct parser *p, const struct token_line *line, uint32_t at)
{
	char room[SHOWN_MAX];

	if (at + 1 < line->token_count)
		return true;
	parser_fault(p, parser_place(p, line->line, &line->tokens[at]), "value_missing", "%s has no value behind it",
		     shown(line->tokens[at].text, room));
	return false;
}

static void unknown_word(struct parser *p, const struct token_line *line, uint32_t at, const char *const *words, size_t count,
			 const char *expected)
{
	const char *near = fault_nearest(line->tokens[at].text, words, count);
	char room[SHOWN_MAX];

	if (near != NULL)
		parser_fault(p, parser_place(p, line->line, &line->tokens[at]), "unknown_word", "%s is not known here; did you mean %s?",
			     shown(line->tokens[at].text, room), near);
	else
		parser_fault(p, parser_place(p, line->line, &line->tokens[at]), "unknown_word", "%s is not known here; expected %s",
			     shown(line->tokens[at].text, room), expected);
}

void parse_identity_line(struct parser *p, const struct token_line *line)
{
	static const char *const words[] = { "lease", "tenant", "run", "class", "expires" };

	for (uint32_t at = 0; at < line->token_count; at += 2) {
		struct text word = line->tokens[at].text;
		struct fault_place place = parser_place(p, line->line, &line->tokens[at]);
		const char **field = NULL;
		unsigned which = 0;

		while (which < ARRAY_LEN(words) && !text_is(word, words[which]))
			which++;
		if (which == ARRAY_LEN(words)) {
			unknown_word(p, line, at, words, ARRAY_LEN(words), "lease, tenant, run, class or expires");
			return;
		}
		if (!has_value(p, line, at) || !parser_once(p, PARSE_ONCE_LEASE + which, words[which], place))
			return;
		place = parser_place(p, line->line, &line->tokens[at + 1]);
		switch (PARSE_ONCE_LEASE + which) {
		case PARSE_ONCE_LEASE:
			field = &p->policy->name;
			p->policy->name_place = place;
			break;
		case PARSE_ONCE_TENANT:
			field = &p->policy->tenant;
			break;
		case PARSE_ONCE_RUN:
			field = &p->policy->run;
			break;
		case PARSE_ONCE_CLASS:
			field = &p->policy->environment_class;
			break;
		default:
			read_expires(p, line->tokens[at + 1].text, place);
			continue;
		}
		if (!read_id(p, line->tokens[at + 1].text, place, field))
			return;
	}
}

static void read_require(struct parser *p, const struct token_line *line)
{
	static const char *const words[] = { "listener", "source", "token" };

	if (!parser_once(p, PARSE_ONCE_REQUIRE, "guest require", parser_place(p, line->line, &line->tokens[1])) ||
	    !has_value(p, line, 1))
		return;
	for (uint32_t at = 2; at < line->token_count; at++) {
		unsigned which = 0;

		while (which < ARRAY_LEN(words) && !text_is(line->tokens[at].text, words[which]))
			which++;
		if (which == ARRAY_LEN(words))
			unknown_word(p, line, at, words, ARRAY_LEN(words), "listener, source or token");
		else if ((p->policy->require & BIT(which)) != 0)
			parser_fault(p, parser_place(p, line->line, &line->tokens[at]), "duplicate_word", "%s was required before",
				     words[which]);
		else
			p->policy->require |= BIT(which);
	}
}

_Static_assert(LAYOUT_REQUIRE_LISTENER == 1 && LAYOUT_REQUIRE_SOURCE == 2 && LAYOUT_REQUIRE_TOKEN == 4,
	       "read_require counts in this order");

static void read_source(struct parser *p, struct text value, struct fault_place place)
{
	struct prefix prefix;
	char room[SHOWN_MAX];

	if (!prefix_parse(value, &prefix))
		parser_fault(p, place, "bad_prefix", "%s is no address or prefix without host bits, such as 10.200.4.7/32",
			     shown(value, room));
	else
		parser_add_source(p, &prefix, place);
}

static void read_token(struct parser *p, struct text value, struct fault_place place)
{
	static const char before[] = "sha256:";
	size_t skip = sizeof(before) - 1;
	uint8_t sha256[32];

	if (value.len < skip || memcmp(value.at, before, skip) != 0 ||
	    !text_to_bytes_hex((struct text){ value.at + skip, value.len - skip }, sha256, sizeof(sha256)))
		parser_fault(p, place, "bad_digest",
			     "expected sha256: and 64 lower-case hex digits; egressctl token new prints a token and its digest");
	else
		parser_add_token(p, "", sha256, 0);
}

void parse_guest_line(struct parser *p, const struct token_line *line)
{
	static const char *const words[] = { "require", "source", "token", "listener" };

	if (!has_value(p, line, 0))
		return;
	if (text_is(line->tokens[1].text, "require")) {
		read_require(p, line);
		return;
	}
	for (uint32_t at = 1; at < line->token_count; at += 2) {
		struct text word = line->tokens[at].text;
		struct fault_place place;

		if (!text_is(word, "source") && !text_is(word, "token") && !text_is(word, "listener")) {
			unknown_word(p, line, at, words, ARRAY_LEN(words), "require (alone), source, token or listener");
			return;
		}
		if (!has_value(p, line, at))
			return;
		place = parser_place(p, line->line, &line->tokens[at + 1]);
		if (text_is(word, "source"))
			read_source(p, line->tokens[at + 1].text, place);
		else if (text_is(word, "token"))
			read_token(p, line->tokens[at + 1].text, place);
		else if (parser_once(p, PARSE_ONCE_LISTENER, "guest listener", place))
			(void)read_id(p, line->tokens[at + 1].text, place, &p->policy->listener);
	}
}

struct limit_row {
	const char *name;
	uint64_t least, most;
	size_t offset;
};

#define LIMIT(name, least, most) { #name, least, most, offsetof(struct layout_limits, name) },
static const struct limit_row limit_rows[] = {
#include "document/limits.def"
};
#undef LIMIT

void parse_limit_line(struct parser *p, const struct token_line *line)
{
#define LIMIT(name, least, most) #name,
	static const char *const words[] = {
#include "document/limits.def"
	};
#undef LIMIT

	if (!has_value(p, line, 0))
		return;
	for (uint32_t at = 1; at < line->token_count; at += 2) {
		const struct limit_row *row = limit_rows;
		struct fault_place place;
		uint64_t number, *field;

		while (row < limit_rows + ARRAY_LEN(limit_rows) && !text_is(line->tokens[at].text, row->name))
			row++;
		if (row == limit_rows + ARRAY_LEN(limit_rows)) {
			unknown_word(p, line, at, words, ARRAY_LEN(words), "the name of a limit, such as connections");
			return;
		}
		if (!has_value(p, line, at))
			return;
		place = parser_place(p, line->line, &line->tokens[at + 1]);
		field = (uint64_t *)(void *)((char *)&p->policy->limits + row->offset);
		if (*field != 0)
			parser_fault(p, place, "duplicate_statement", "limit %s was said before", row->name);
		else if (!text_to_u64(line->tokens[at + 1].text, row->most, &number) || number < row->least)
			parser_fault(p, place, "bad_number", "limit %s: expected a number from %" PRIu64 " to %" PRIu64, row->name,
				     row->least, row->most);
		else
			*field = number;
	}
}

bool parse_places(struct parser *p, struct text list, bool is_country, struct fault_place place,
		  const struct policy_place **places, size_t *count)
{
	struct policy_place read[PLACES_MAX];
	struct policy_place *kept;
	size_t read_count = 0;

	for (;;) {
		const char *comma = memchr(list.at, ',', list.len);
		struct text item = { list.at, comma == NULL ? list.len : (size_t)(comma - list.at) };
		struct policy_place *one = &read[read_count];
		uint64_t asn = 0;
		bool good = is_country ? item.len == 2 && item.at[0] >= 'A' && item.at[0] <= 'Z' && item.at[1] >= 'A' &&
						 item.at[1] <= 'Z' :
					 text_to_u64(item, ASN_MAX, &asn) && asn > 0;

		if (read_count == PLACES_MAX)
			return parser_fault(p, place, "too_many", "at most %d places fit here", PLACES_MAX), false;
		if (!good)
			return parser_fault(p, place, "bad_place", is_country ? "expected two capital letters each, such as DE,FR" :
									       "expected AS numbers, such as 64500,64501"),
			       false;
		*one = (struct policy_place){ .asn = (uint32_t)asn };
		if (is_country)
			memcpy(one->country, item.at, 2);
		read_count++;
		if (comma == NULL)
			break;
		list = (struct text){ comma + 1, list.len - item.len - 1 };
	}
	kept = parser_take(p, *count + read_count, sizeof(*kept));
	if (kept == NULL)
		return false;
	if (*count > 0)
		memcpy(kept, *places, *count * sizeof(*kept));
	memcpy(kept + *count, read, read_count * sizeof(*kept));
	*places = kept;
	*count += read_count;
	return true;
}

/* One switch of an option line: on sets the bit, off remembers that it was said. */
static void read_switch(struct parser *p, struct text value, uint32_t bit, const char *on, const char *off,
			struct fault_place place)
{
	if (text_is(value, on))
		p->policy->options |= bit;
	else if (text_is(value, off))
		p->policy->options_off |= bit;
	else
		parser_fault(p, place, "unknown_word", "expected %s or %s", on, off);
}

static const struct {
	const char *word;
	uint32_t bit; /* 0: a list of places */
	const char *on, *off;
} option_rows[] = {
	{ "resolve", LAYOUT_OPTION_RESOLVE, "on", "off" },
	{ "why", LAYOUT_OPTION_WHY, "on", "off" },
	{ "names_only", LAYOUT_OPTION_NAMES_ONLY, "on", "off" },
	{ "ech", LAYOUT_OPTION_ECH_REFUSE, "refuse", "allow" },
	{ "country", 0, NULL, NULL },
	{ "asn", 0, NULL, NULL },
};

void parse_option_line(struct parser *p, const struct token_line *line)
{
	static const char *const words[] = { "resolve", "why", "names_only", "ech", "country", "asn" };

	if (!has_value(p, line, 0))
		return;
	for (uint32_t at = 1; at < line->token_count; at += 2) {
		struct fault_place place = parser_place(p, line->line, &line->tokens[at]);
		unsigned which = 0;

		while (which < ARRAY_LEN(option_rows) && !text_is(line->tokens[at].text, option_rows[which].word))
			which++;
		if (which == ARRAY_LEN(option_rows)) {
			unknown_word(p, line, at, words, ARRAY_LEN(words), "resolve, why, names_only, ech, country or asn");
			return;
		}
		if (!has_value(p, line, at) || !parser_once(p, PARSE_ONCE_OPTION_RESOLVE + which, words[which], place))
			return;
		place = parser_place(p, line->line, &line->tokens[at + 1]);
		if (option_rows[which].bit != 0)
			read_switch(p, line->tokens[at + 1].text, option_rows[which].bit, option_rows[which].on, option_rows[which].off,
				    place);
		else if (p->policy->kind == POLICY_CEILING)
			parser_fault(p, place, "not_in_ceiling", "write it on a rule of the ceiling: allow any %s=…", option_rows[which].word);
		else
			(void)parse_places(p, line->tokens[at + 1].text, which == PARSE_ONCE_OPTION_COUNTRY - PARSE_ONCE_OPTION_RESOLVE,
					   place, &p->policy->places, &p->policy->place_count);
	}
}

/* The one value of a statement; NULL with a fault when there is another number of words. */
static const struct token *only_value(struct parser *p, const struct token_line *line, const char *expected)
{
	if (line->token_count == 2)
		return &line->tokens[1];
	parser_fault(p, parser_place(p, line->line, &line->tokens[line->token_count > 2 ? 2 : 0]), "bad_statement", "expected %s",
		     expected);
	return NULL;
}

void parse_mode_line(struct parser *p, const struct token_line *line)
{
	const struct token *value = only_value(p, line, "mode and one word");

	if (value == NULL || !parser_once(p, PARSE_ONCE_MODE, "mode", parser_place(p, line->line, &line->tokens[0])))
		return;
	if (text_is(value->text, "deny_all"))
		p->policy->mode = POLICY_MODE_DENY_ALL;
	else if (text_is(value->text, "allowlist"))
		p->policy->mode = POLICY_MODE_ALLOWLIST;
	else if (text_is(value->text, "dependency_provisioning"))
		p->policy->mode = POLICY_MODE_PROVISIONING;
	else
		p->policy->mode = POLICY_MODE_UNKNOWN;
}

void parse_enforcement_line(struct parser *p, const struct token_line *line)
{
	const struct token *value = only_value(p, line, "enforcement enforce or enforcement report");
	struct fault_place place;

	if (value == NULL || !parser_once(p, PARSE_ONCE_ENFORCEMENT, "enforcement", parser_place(p, line->line, &line->tokens[0])))
		return;
	place = parser_place(p, line->line, value);
	if (text_is(value->text, "enforce"))
		return;
	if (!text_is(value->text, "report"))
		parser_fault(p, place, "unknown_word", "expected enforce or report");
	else if (p->policy->kind == POLICY_CEILING)
		parser_fault(p, place, "report_in_ceiling", "the ceiling is never report-only");
	else if (!p->report_allowed)
		parser_fault(p, place, "report_not_allowed", "a report-only lease needs report_allowed = on in the configuration");
	else
		p->policy->report = true;
}
