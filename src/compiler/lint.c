/* Checks of whole policies by table; see lint.h and lint.def. Looks at trees only; decides nothing about requests. */
#include "compiler/lint.h"

#include <inttypes.h>
#include <string.h>

#include "compiler/lint_internal.h"

#define LINT(code, severity, function, text) void function(const struct lint_context *c, struct lint_report *report);
#include "compiler/lint.def"
#undef LINT

typedef void lint_fn(const struct lint_context *c, struct lint_report *report);

static const struct {
	struct lint_row row;
	lint_fn *check;
} checks[] = {
#define LINT(code, severity, function, text) { { #code, FAULT_##severity, text }, function },
#include "compiler/lint.def"
#undef LINT
};

const struct lint_row *lint_row_at(size_t index)
{
	return index < ARRAY_LEN(checks) ? &checks[index].row : NULL;
}

void lint_policy(const struct lint_context *context, struct fault_list *faults)
{
	for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
		struct lint_report report = { .faults = faults, .row = &checks[i].row };

		checks[i].check(context, &report);
	}
}

static bool is_lease(const struct lint_context *c)
{
	return c->policy->kind == POLICY_LEASE;
}

void check_mode(const struct lint_context *c, struct lint_report *report)
{
	if (is_lease(c) && c->policy->mode == POLICY_MODE_UNKNOWN)
		lint_tell(report, c->policy->name_place,
			  "the mode is not known, so every request is refused; use deny_all, allowlist or dependency_provisioning");
}

void check_mode_rules(const struct lint_context *c, struct lint_report *report)
{
	if (is_lease(c) && c->policy->mode == POLICY_MODE_DENY_ALL && (c->policy->rules != NULL || c->policy->uses != NULL))
		lint_tell(report, c->policy->rules != NULL ? c->policy->rules->place : c->policy->uses->place,
			  "mode deny_all refuses everything; this has no effect");
}

void check_allows_nothing(const struct lint_context *c, struct lint_report *report)
{
	const struct policy *l = c->policy;

	if (!is_lease(c) || (l->mode != POLICY_MODE_ALLOWLIST && l->mode != POLICY_MODE_PROVISIONING))
		return;
	for (const struct policy_use *u = l->uses; u != NULL; u = u->next)
		if (u->name[0] == '\0')
			return;
	for (size_t i = 0; i <= c->preset_count; i++)
		for (const struct policy_rule *r = i == 0 ? l->rules : c->presets[i - 1]->rules; r != NULL; r = r->next)
			if (r->rule.action == RULE_ALLOW)
				return;
	lint_tell(report, l->name_place, "no rule allows anything, so every request is refused; say so with mode deny_all");
}

void check_expired(const struct lint_context *c, struct lint_report *report)
{
	if (is_lease(c) && c->wall_ms != 0 && c->policy->exp_ms != 0 && c->policy->exp_ms <= c->wall_ms)
		lint_tell(report, c->policy->name_place, "the lease has ended; every request is refused");
}

void check_report_only(const struct lint_context *c, struct lint_report *report)
{
	if (is_lease(c) && c->policy->report)
		lint_tell(report, c->policy->name_place, "enforcement is report: what no rule allows is let through and only recorded");
}

void check_guest_unused(const struct lint_context *c, struct lint_report *report)
{
	const struct policy *l = c->policy;

	if (!is_lease(c) || l->require == 0)
		return;
	if (l->sources != NULL && (l->require & LAYOUT_REQUIRE_SOURCE) == 0)
		lint_tell(report, l->sources->place, "a source is given but guest require does not name it");
	if (l->tokens != NULL && (l->require & LAYOUT_REQUIRE_TOKEN) == 0)
		lint_tell(report, l->name_place, "a token is given but guest require does not name it");
	if (l->listener[0] != '\0' && (l->require & LAYOUT_REQUIRE_LISTENER) == 0)
		lint_tell(report, l->name_place, "a listener is given but guest require does not name it");
}

void check_limit_lowered(const struct lint_context *c, struct lint_report *report)
{
	if (!is_lease(c) || c->ceiling == NULL)
		return;
#define LIMIT(name, least, most)                                                                                          \
	if (c->ceiling->limits.name != 0 && c->policy->limits.name > c->ceiling->limits.name)                             \
		lint_tell(report, c->policy->name_place, "limit " #name " is above the ceiling's %" PRIu64 ", which applies", \
			  c->ceiling->limits.name);
#include "document/limits.def"
#undef LIMIT
}
