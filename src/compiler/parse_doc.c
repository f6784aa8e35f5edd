/* Lease and ruleset documents to the same tree that `.policy` text becomes; see parse.h. Faults carry JSON pointers. */
#include <string.h>

#include "compiler/parse_internal.h"

static struct fault_place at_pointer(const struct parser *p, const char *pointer)
{
	return (struct fault_place){ .file = p->file, .pointer = pointer };
}

static void take_places(struct parser *p, const struct lease_doc_places *from, const struct policy_place **out_places,
			size_t *out_count)
{
	size_t count = from->country_count + from->asn_count;
	struct policy_place *places;

	*out_places = NULL;
	*out_count = 0;
	if (count == 0 || (places = parser_take(p, count, sizeof(*places))) == NULL)
		return;
	for (size_t i = 0; i < from->country_count; i++)
		memcpy(places[i].country, from->countries[i], sizeof(places[i].country));
	for (size_t i = 0; i < from->asn_count; i++)
		places[from->country_count + i].asn = from->asns[i];
	*out_places = places;
	*out_count = count;
}

static enum rule_pin pin_of(enum lease_doc_pin pin)
{
	static const enum rule_pin pins[] = {
		[LEASE_DOC_PIN_UNSAID] = RULE_PIN_DEFAULT,
		[LEASE_DOC_PIN_CONNECTION] = RULE_PIN_CONNECTION,
		[LEASE_DOC_PIN_TTL] = RULE_PIN_TTL,
		[LEASE_DOC_PIN_LEASE] = RULE_PIN_LEASE,
	};

	return pins[pin];
}

static void take_rules(struct parser *p, const struct lease_doc_rule *rules, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct lease_doc_rule *from = &rules[i];
		struct policy_rule rule = {
			.id = from->id,
			.note = from->note,
			.pin = pin_of(from->pin),
			.ech_refuse = from->ech_refuse,
			.report = from->report,
			.place = at_pointer(p, from->pointer),
		};

		take_places(p, &from->places, &rule.places, &rule.place_count);
		if (parser_read_pattern(p, text_of(from->pattern), from->is_deny ? RULE_DENY : RULE_ALLOW, rule.place, &rule.rule))
			parser_add_rule(p, &rule);
	}
}

static void take_guest(struct parser *p, const struct lease_doc *doc)
{
	struct policy *l = p->policy;

	l->require = ((doc->require & LEASE_DOC_BY_LISTENER) != 0 ? LAYOUT_REQUIRE_LISTENER : 0) |
		     ((doc->require & LEASE_DOC_BY_SOURCE) != 0 ? LAYOUT_REQUIRE_SOURCE : 0) |
		     ((doc->require & LEASE_DOC_BY_TOKEN) != 0 ? LAYOUT_REQUIRE_TOKEN : 0);
	l->listener = doc->listener;
	for (size_t i = 0; i < doc->source_count; i++)
		parser_add_source(p, &doc->sources[i], at_pointer(p, "/guest/sources"));
	for (size_t i = 0; i < doc->token_count; i++)
		parser_add_token(p, doc->tokens[i].id, doc->tokens[i].sha256, doc->tokens[i].exp_ms);
}

static void take_network(struct parser *p, const struct lease_doc *doc)
{
	static const enum policy_mode modes[] = {
		[LEASE_DOC_MODE_UNKNOWN] = POLICY_MODE_UNKNOWN,
		[LEASE_DOC_DENY_ALL] = POLICY_MODE_DENY_ALL,
		[LEASE_DOC_ALLOWLIST] = POLICY_MODE_ALLOWLIST,
		[LEASE_DOC_PROVISIONING] = POLICY_MODE_PROVISIONING,
	};
	static const enum layout_scope scopes[] = {
		[LEASE_DOC_SCOPE_UNSAID] = 0,
		[LEASE_DOC_SCOPE_UNDECLARED] = LAYOUT_SCOPE_UNDECLARED,
		[LEASE_DOC_SCOPE_NONE] = LAYOUT_SCOPE_NONE,
		[LEASE_DOC_SCOPE_DECLARED] = LAYOUT_SCOPE_DECLARED,
	};

	p->policy->mode = modes[doc->mode];
	p->policy->claimed_scope = scopes[doc->claimed_scope];
	p->policy->report = doc->report;
	if (doc->report && !p->report_allowed)
		parser_fault(p, at_pointer(p, "/network/enforcement"), "report_not_allowed",
			     "a report-only lease needs report_allowed = on in the configuration");
	for (size_t i = 0; i < doc->ruleset_count; i++)
		parser_add_use(p, &p->use_tail, "", doc->rulesets[i], at_pointer(p, "/network/rulesets"));
	take_rules(p, doc->rules, doc->rule_count);
}

static void take_lease(struct parser *p, const struct lease_doc *doc)
{
	static const enum layout_lease_state states[] = {
		[LEASE_DOC_ACTIVE] = LAYOUT_LEASE_ACTIVE,
		[LEASE_DOC_SUSPENDED] = LAYOUT_LEASE_SUSPENDED,
		[LEASE_DOC_REVOKED] = LAYOUT_LEASE_REVOKED,
	};
	struct policy *l = p->policy;

	l->name_place = at_pointer(p, "/lease");
	l->tenant = doc->tenant;
	l->run = doc->run;
	l->environment_class = doc->environment_class;
	l->epoch = doc->epoch;
	l->rev = doc->rev;
	l->nbf_ms = doc->nbf_ms;
	l->exp_ms = doc->exp_ms;
	l->state = states[doc->state];
	l->options = (doc->resolve ? LAYOUT_OPTION_RESOLVE : 0u) | (doc->why ? LAYOUT_OPTION_WHY : 0u) |
		     (doc->names_only ? LAYOUT_OPTION_NAMES_ONLY : 0u) | (doc->ech_refuse ? LAYOUT_OPTION_ECH_REFUSE : 0u);
#define LIMIT(name, least, most) l->limits.name = doc->limits.name;
#include "document/limits.def"
#undef LIMIT
	take_places(p, &doc->places, &l->places, &l->place_count);
	take_guest(p, doc);
	take_network(p, doc);
	parser_check_lease(p);
}

enum err parse_lease_doc(struct arena *arena, const char *file, const struct lease_doc *doc, bool report_allowed,
			 struct fault_list *faults, struct policy **out_policy)
{
	size_t errors_before = faults->error_count;
	struct parser p;
	enum err err = parser_init(&p, arena, file, POLICY_LEASE, doc->lease, report_allowed, faults);

	if (err != ERR_OK)
		return err;
	p.names = PATTERN_ASCII_ONLY;
	take_lease(&p, doc);
	err = parser_finish(&p, errors_before);
	if (err != ERR_NO_MEMORY)
		*out_policy = p.policy;
	return err;
}

enum err parse_ruleset_doc(struct arena *arena, const char *file, const struct ruleset_doc *doc, bool report_allowed,
			   struct fault_list *faults, struct policy **out_policy)
{
	size_t errors_before = faults->error_count;
	struct parser p;
	enum err err = parser_init(&p, arena, file, POLICY_PRESET, file, report_allowed, faults);

	if (err != ERR_OK)
		return err;
	p.names = PATTERN_ASCII_ONLY;
	take_rules(&p, doc->rules, doc->rule_count);
	err = parser_finish(&p, errors_before);
	if (err != ERR_NO_MEMORY)
		*out_policy = p.policy;
	return err;
}

void parse_take_json_faults(const char *file, const struct json_faults *from, struct fault_list *faults)
{
	size_t told = 0;

	for (const struct json_fault *f = from->first; f != NULL; f = f->next, told++)
		fault_add(faults, (struct fault_place){ .file = file, .pointer = f->pointer }, FAULT_ERROR, f->code, "%s", f->text);
	faults->error_count += from->count - told;
	faults->out_of_memory = faults->out_of_memory || from->out_of_memory;
}
