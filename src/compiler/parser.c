/* What every form of a policy goes through: places, faults, and the judgement of each rule by its kind of policy; see parse_internal.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compiler/enforced.h"
#include "compiler/parse_internal.h"
#include "facts/special_names.h"

enum err parser_init(struct parser *p, struct arena *arena, const char *file, enum policy_kind kind, const char *name,
		     bool report_allowed, struct fault_list *faults)
{
	struct policy *policy = arena_take(arena, sizeof(*policy));

	if (policy == NULL)
		return ERR_NO_MEMORY;
	*policy = (struct policy){
		.kind = kind,
		.file = file,
		.name = name,
		.name_place = { .file = file },
		.tenant = "",
		.run = "",
		.environment_class = "",
		.listener = "",
		.state = LAYOUT_LEASE_ACTIVE,
	};
	*p = (struct parser){
		.arena = arena,
		.faults = faults,
		.file = file,
		.policy = policy,
		.report_allowed = report_allowed,
		.names = PATTERN_UNICODE_TOO,
		.rule_tail = &policy->rules,
		.use_tail = &policy->uses,
		.provisioning_tail = &policy->provisioning,
		.exception_tail = &policy->exceptions,
		.token_tail = &policy->tokens,
		.source_tail = &policy->sources,
	};
	return ERR_OK;
}

enum err parser_finish(const struct parser *p, size_t errors_before)
{
	if (p->out_of_memory || p->faults->out_of_memory)
		return ERR_NO_MEMORY;
	return p->faults->error_count == errors_before ? ERR_OK : ERR_INVALID;
}

struct fault_place parser_place(const struct parser *p, uint32_t line, const struct token *token)
{
	return (struct fault_place){ .file = p->file, .line = line, .column = token == NULL ? 1 : token->column };
}

void parser_fault(struct parser *p, struct fault_place place, const char *code, const char *format, ...)
{
	char text[FAULT_TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fault_add(p->faults, place, FAULT_ERROR, code, "%s", text);
}

bool parser_once(struct parser *p, enum parse_once what, const char *word, struct fault_place place)
{
	if (p->once[what] != 0) {
		parser_fault(p, place, "duplicate_statement", "%s was said before, on line %u", word, p->once[what]);
		return false;
	}
	p->once[what] = place.line;
	return true;
}

void *parser_take(struct parser *p, size_t count, size_t size)
{
	void *room = arena_take_array(p->arena, count, size);

	if (room == NULL)
		p->out_of_memory = true;
	return room;
}

const char *parser_text(struct parser *p, struct text text)
{
	const char *copy = arena_text(p->arena, text.at, text.len);

	if (copy == NULL) {
		p->out_of_memory = true;
		return "";
	}
	return copy;
}

bool parser_read_pattern(struct parser *p, struct text text, enum rule_action action, struct fault_place place,
			 struct rule *out_rule)
{
	struct pattern_fault fault;
	enum err err = pattern_parse(text, action, p->names, out_rule, &fault);

	if (err == ERR_OK)
		return true;
	if (err == ERR_NO_MEMORY) {
		p->out_of_memory = true;
		return false;
	}
	if (place.column != 0)
		place.column += fault.at;
	parser_fault(p, place, fault.code, "%s", fault.reason);
	return false;
}

/* A scheme whose stream the daemon cannot hold to its word must not be promised. The ceiling promises nothing: it only narrows. */
static bool scheme_is_promised(struct parser *p, const struct policy_rule *r)
{
	if (p->policy->kind == POLICY_CEILING || !r->rule.scheme_known || enforced_scheme(r->rule.scheme))
		return true;
	parser_fault(p, r->place, "not_enforced", "%s cannot be enforced by this version; use https, or tcp with a port",
		     scheme_row(r->rule.scheme)->word);
	return false;
}

static bool name_is_allowable(struct parser *p, const struct policy_rule *r)
{
	bool is_name = r->rule.host == RULE_HOST_NAME || r->rule.host == RULE_HOST_WILDCARD;

	if (r->rule.action != RULE_ALLOW || !is_name || special_names_classify(&r->rule.name) != NAME_METADATA)
		return true;
	parser_fault(p, r->place, "metadata_name", "%s is a metadata service; no policy can open it", r->rule.name.text);
	return false;
}

static bool options_fit(struct parser *p, const struct policy_rule *r)
{
	if (r->rule.action == RULE_DENY && (r->pin != RULE_PIN_DEFAULT || r->ech_refuse || r->place_count > 0)) {
		parser_fault(p, r->place, "option_on_deny", "pin, ech, country and asn narrow what is allowed; a deny has no use for them");
		return false;
	}
	if (!r->report)
		return true;
	if (p->policy->kind == POLICY_CEILING) {
		parser_fault(p, r->place, "report_in_ceiling", "the ceiling is never report-only");
		return false;
	}
	if (!p->report_allowed) {
		parser_fault(p, r->place, "report_not_allowed", "report-only rules need report_allowed = on in the configuration");
		return false;
	}
	return true;
}

void parser_add_rule(struct parser *p, const struct policy_rule *rule)
{
	struct policy_rule *kept;

	/* All three are asked, so that all faults of a rule come at once. */
	if ((!scheme_is_promised(p, rule) + !name_is_allowable(p, rule) + !options_fit(p, rule)) != 0)
		return;
	kept = parser_take(p, 1, sizeof(*kept));
	if (kept == NULL)
		return;
	*kept = *rule;
	kept->next = NULL;
	kept->number = (uint32_t)++p->policy->rule_count;
	*p->rule_tail = kept;
	p->rule_tail = &kept->next;
}

void parser_add_use(struct parser *p, struct policy_use ***tail, const char *name, const uint8_t *payload_sha256,
		    struct fault_place place)
{
	struct policy_use *use = parser_take(p, 1, sizeof(*use));

	if (use == NULL)
		return;
	*use = (struct policy_use){ .name = name, .place = place };
	if (payload_sha256 != NULL)
		memcpy(use->payload_sha256, payload_sha256, sizeof(use->payload_sha256));
	**tail = use;
	*tail = &use->next;
}

void parser_add_source(struct parser *p, const struct prefix *prefix, struct fault_place place)
{
	struct policy_source *source = parser_take(p, 1, sizeof(*source));

	if (source == NULL)
		return;
	*source = (struct policy_source){ .prefix = *prefix, .place = place };
	*p->source_tail = source;
	p->source_tail = &source->next;
}

void parser_add_token(struct parser *p, const char *id, const uint8_t sha256[32], uint64_t exp_ms)
{
	struct policy_token *token = parser_take(p, 1, sizeof(*token));

	if (token == NULL)
		return;
	*token = (struct policy_token){ .id = id, .exp_ms = exp_ms };
	memcpy(token->sha256, sha256, sizeof(token->sha256));
	*p->token_tail = token;
	p->token_tail = &token->next;
}

void parser_check_lease(struct parser *p)
{
	const struct policy *l = p->policy;
	struct fault_place place = l->name_place;

	if (l->name[0] == '\0')
		parser_fault(p, place, "lease_missing", "no lease line: say whose lease this is with lease ID");
	if (l->require == 0 && p->once[PARSE_ONCE_REQUIRE] == 0)
		parser_fault(p, place, "guest_missing",
			     "nothing says how the guest is recognised; add guest require with source, token or listener");
	if ((l->require & LAYOUT_REQUIRE_SOURCE) != 0 && l->sources == NULL)
		parser_fault(p, place, "guest_incomplete", "source is required but none is given; add guest source ADDRESS");
	if ((l->require & LAYOUT_REQUIRE_TOKEN) != 0 && l->tokens == NULL)
		parser_fault(p, place, "guest_incomplete", "token is required but none is given; add guest token sha256:DIGEST");
	if ((l->require & LAYOUT_REQUIRE_LISTENER) != 0 && l->listener[0] == '\0')
		parser_fault(p, place, "guest_incomplete", "listener is required but none is named; add guest listener NAME");
	if (l->mode == POLICY_MODE_UNSAID)
		parser_fault(p, place, "mode_missing", "no mode; add mode deny_all, allowlist or dependency_provisioning");
}
