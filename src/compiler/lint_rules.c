/* The checks of lint.def that look at rules: covered, hidden, too wide, special, beyond the ceiling. See lint_internal.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compiler/lint_internal.h"
#include "compiler/pattern.h"
#include "facts/addr_class.h"
#include "facts/special_names.h"

#define WIDE_V4_BITS 16
#define WIDE_V6_BITS 32
#define WIDE_PORTS 1000

#define LINT(code, severity, function, text) void function(const struct lint_context *c, struct lint_report *report);
#include "compiler/lint.def"
#undef LINT

void lint_tell(struct lint_report *report, struct fault_place place, const char *format, ...)
{
	char text[FAULT_TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fault_add(report->faults, place, report->row->severity, report->row->code, "%s", text);
}

static bool is_named(const struct rule *r)
{
	return r->host == RULE_HOST_NAME || r->host == RULE_HOST_WILDCARD;
}

static bool is_below(const struct dname *name, const struct dname *suffix)
{
	return name->len > suffix->len && dname_is_within(name, text_of(suffix->text));
}

static bool host_covers(const struct rule *a, const struct rule *b)
{
	if (a->host == RULE_HOST_ANY)
		return true;
	if (a->host == RULE_HOST_PREFIX)
		return b->host == RULE_HOST_PREFIX && a->prefix.len <= b->prefix.len && prefix_contains(&a->prefix, &b->prefix.addr);
	if (!is_named(b))
		return false;
	if (a->host == RULE_HOST_NAME)
		return b->host == RULE_HOST_NAME && dname_equal(&a->name, &b->name);
	return is_below(&b->name, &a->name) || (b->host == RULE_HOST_WILDCARD && dname_equal(&a->name, &b->name));
}

static bool host_overlaps(const struct rule *a, const struct rule *b)
{
	return host_covers(a, b) || host_covers(b, a);
}

static bool ports_cover(const struct rule *a, const struct rule *b)
{
	if (a->port_count == 0)
		return true;
	if (b->port_count == 0)
		return false;
	for (unsigned i = 0; i < b->port_count; i++) {
		bool found = false;

		/* Ranges that touch were joined when they were read, so one range must hold all of it. */
		for (unsigned j = 0; j < a->port_count; j++)
			found = found || (a->ports[j].first <= b->ports[i].first && b->ports[i].last <= a->ports[j].last);
		if (!found)
			return false;
	}
	return true;
}

static bool ports_overlap(const struct rule *a, const struct rule *b)
{
	if (a->port_count == 0 || b->port_count == 0)
		return true;
	for (unsigned i = 0; i < a->port_count; i++)
		for (unsigned j = 0; j < b->port_count; j++)
			if (a->ports[i].first <= b->ports[j].last && b->ports[j].first <= a->ports[i].last)
				return true;
	return false;
}

bool lint_covers(const struct rule *a, const struct rule *b)
{
	return host_covers(a, b) && ports_cover(a, b);
}

bool lint_overlaps(const struct rule *a, const struct rule *b)
{
	return host_overlaps(a, b) && ports_overlap(a, b);
}

static const char *printed(const struct policy_rule *r, char room[RULE_TEXT_MAX])
{
	return rule_print(&r->rule, room);
}

/* "line 7", or the pointer, of another rule. */
static const char *where(const struct policy_rule *r, char room[128])
{
	if (r->place.pointer != NULL)
		snprintf(room, 128, "%s", r->place.pointer);
	else
		snprintf(room, 128, "%.80s line %u", r->place.file, r->place.line);
	return room;
}

void check_duplicate_id(const struct lint_context *c, struct lint_report *report)
{
	if (c->policy->rule_count > LINT_PAIRS_RULES)
		return;
	for (const struct policy_rule *r = c->policy->rules; r != NULL; r = r->next)
		for (const struct policy_rule *s = c->policy->rules; r->id[0] != '\0' && s != r; s = s->next)
			if (strcmp(r->id, s->id) == 0) {
				char room[128];

				lint_tell(report, r->place, "the id %s is that of the rule at %s too", r->id, where(s, room));
				break;
			}
}

/* Does an exception of the ceiling name this host? */
static bool has_exception(const struct lint_context *c, const struct rule *rule)
{
	if (c->ceiling == NULL)
		return false;
	for (const struct policy_exception *x = c->ceiling->exceptions; x != NULL; x = x->next)
		if (host_overlaps(&x->host, rule))
			return true;
	return false;
}

void check_special_name(const struct lint_context *c, struct lint_report *report)
{
	for (const struct policy_rule *r = c->policy->rules; r != NULL; r = r->next) {
		bool is_special = is_named(&r->rule) && special_names_classify(&r->rule.name) != NAME_ORDINARY;

		if (r->rule.action != RULE_ALLOW || !is_special || c->policy->kind == POLICY_CEILING)
			continue;
		if (c->ceiling != NULL && !has_exception(c, &r->rule))
			lint_tell(report, r->place,
				  "%s is a special name and the ceiling has no exception for it, so this never matches; the operator may add: exception %s",
				  r->rule.name.text, r->rule.name.text);
	}
}

/* The class of a whole prefix; PUBLIC when no row of the table holds all of it. */
static enum addr_class class_of(const struct prefix *prefix)
{
	size_t count;
	const struct addr_range *rows = addr_class_table(&count);

	for (size_t i = 0; i < count; i++)
		if (rows[i].prefix.len <= prefix->len && prefix_contains(&rows[i].prefix, &prefix->addr))
			return rows[i].class;
	return ADDR_CLASS_PUBLIC;
}

void check_special_address(const struct lint_context *c, struct lint_report *report)
{
	for (const struct policy_rule *r = c->policy->rules; r != NULL; r = r->next) {
		char text[PREFIX_TEXT_MAX];
		enum addr_class class;

		if (r->rule.action != RULE_ALLOW || r->rule.host != RULE_HOST_PREFIX || c->policy->kind == POLICY_CEILING)
			continue;
		class = class_of(&r->rule.prefix);
		if (class == ADDR_CLASS_PUBLIC)
			continue;
		prefix_print(&r->rule.prefix, text);
		if (!addr_class_may_reopen(class))
			lint_tell(report, r->place, "%s is a %s address, which nothing can open; this never matches", text,
				  addr_class_word(class));
		else if (c->ceiling != NULL && !has_exception(c, &r->rule))
			lint_tell(report, r->place,
				  "%s is a %s address and the ceiling has no exception for it, so this never matches; the operator may add: exception %s for %s",
				  text, addr_class_word(class), text, text);
	}
}

static unsigned count_ports(const struct rule *r)
{
	unsigned count = 0;

	for (unsigned i = 0; i < r->port_count; i++)
		count += (unsigned)(r->ports[i].last - r->ports[i].first) + 1;
	return count;
}

void check_too_wide(const struct lint_context *c, struct lint_report *report)
{
	for (const struct policy_rule *r = c->policy->rules; r != NULL; r = r->next) {
		const struct prefix *p = &r->rule.prefix;
		char text[PREFIX_TEXT_MAX];

		if (r->rule.action != RULE_ALLOW || r->rule.host == RULE_HOST_ANY || c->policy->kind == POLICY_CEILING)
			continue;
		if (count_ports(&r->rule) > WIDE_PORTS)
			lint_tell(report, r->place, "this opens %u ports; name those that are used", count_ports(&r->rule));
		if (r->rule.host == RULE_HOST_PREFIX && p->len < (p->addr.family == ADDR_V4 ? WIDE_V4_BITS : WIDE_V6_BITS))
			lint_tell(report, r->place, "%s holds the hosts of many owners; name the hosts or smaller prefixes",
				  prefix_print(p, text));
	}
}

void check_ceiling(const struct lint_context *c, struct lint_report *report)
{
	if (c->ceiling == NULL || c->policy->kind == POLICY_CEILING)
		return;
	for (const struct policy_rule *r = c->policy->rules; r != NULL; r = r->next) {
		bool allowed = c->ceiling->uses != NULL, denied = false;
		char room[RULE_TEXT_MAX];

		if (r->rule.action != RULE_ALLOW)
			continue;
		for (const struct policy_rule *b = c->ceiling->rules; b != NULL; b = b->next) {
			allowed = allowed || (b->rule.action == RULE_ALLOW && lint_overlaps(&b->rule, &r->rule));
			denied = denied || (b->rule.action == RULE_DENY && lint_covers(&b->rule, &r->rule));
		}
		if (!allowed || denied)
			lint_tell(report, r->place, "the ceiling %s %s, so this never allows anything",
				  denied ? "denies" : "does not allow", printed(r, room));
	}
}

/* A deny of these rules that covers `r`; NULL if none does. */
static const struct policy_rule *covering_deny(const struct policy_rule *rules, const struct policy_rule *r)
{
	for (; rules != NULL; rules = rules->next)
		if (rules->rule.action == RULE_DENY && !rules->report && lint_covers(&rules->rule, &r->rule))
			return rules;
	return NULL;
}

void check_unreachable(const struct lint_context *c, struct lint_report *report)
{
	if (c->policy->rule_count > LINT_PAIRS_RULES)
		return;
	for (const struct policy_rule *r = c->policy->rules; r != NULL; r = r->next) {
		const struct policy_rule *deny;
		char room[128];

		if (r->rule.action != RULE_ALLOW)
			continue;
		deny = covering_deny(c->policy->rules, r);
		for (size_t i = 0; deny == NULL && i < c->preset_count; i++)
			deny = covering_deny(c->presets[i]->rules, r);
		if (deny != NULL)
			lint_tell(report, r->place, "the deny at %s covers all of it, so this never allows anything", where(deny, room));
	}
}

/* Does `a` grant at least what `b` grants, with no stricter an obligation? */
static bool makes_needless(const struct policy_rule *a, const struct policy_rule *b)
{
	return a->rule.action == b->rule.action && a->rule.scheme_known == b->rule.scheme_known && a->rule.scheme == b->rule.scheme &&
	       a->pin == b->pin && a->ech_refuse == b->ech_refuse && a->report == b->report && a->place_count == 0 &&
	       b->place_count == 0 && lint_covers(&a->rule, &b->rule);
}

void check_shadowed(const struct lint_context *c, struct lint_report *report)
{
	if (c->policy->rule_count > LINT_PAIRS_RULES)
		return;
	for (const struct policy_rule *r = c->policy->rules; r != NULL; r = r->next) {
		for (const struct policy_rule *s = c->policy->rules; s != NULL; s = s->next) {
			/* Of two equal rules the second is told. */
			bool is_told = s != r && makes_needless(s, r) && (s->number < r->number || !makes_needless(r, s));
			char text[RULE_TEXT_MAX], room[128];

			if (!is_told)
				continue;
			lint_tell(report, r->place, "%s at %s covers all of it; this adds nothing", printed(s, text), where(s, room));
			break;
		}
	}
}

void check_tcp_beside_typed(const struct lint_context *c, struct lint_report *report)
{
	if (c->policy->rule_count > LINT_PAIRS_RULES)
		return;
	for (const struct policy_rule *r = c->policy->rules; r != NULL; r = r->next) {
		bool is_tcp = r->rule.action == RULE_ALLOW && r->rule.scheme_known && r->rule.scheme == SCHEME_TCP;

		for (const struct policy_rule *s = c->policy->rules; is_tcp && s != NULL; s = s->next) {
			char text[RULE_TEXT_MAX];

			if (s->rule.action != RULE_ALLOW || !s->rule.scheme_known || s->rule.scheme == SCHEME_TCP ||
			    !lint_overlaps(&s->rule, &r->rule))
				continue;
			lint_tell(report, r->place, "%s is for a host and port of this rule too and comes first there: tcp does not apply",
				  printed(s, text));
			break;
		}
	}
}

void check_needless_exception(const struct lint_context *c, struct lint_report *report)
{
	for (const struct policy_exception *x = c->policy->exceptions; x != NULL; x = x->next) {
		bool is_special = is_named(&x->host) && special_names_classify(&x->host.name) != NAME_ORDINARY;
		size_t count;
		const struct addr_range *rows = addr_class_table(&count);

		for (size_t i = 0; !is_special && x->has_prefix && i < count; i++)
			is_special = (x->prefix.len >= rows[i].prefix.len && prefix_contains(&rows[i].prefix, &x->prefix.addr)) ||
				     (x->prefix.len < rows[i].prefix.len && prefix_contains(&x->prefix, &rows[i].prefix.addr));
		if (!is_special)
			lint_tell(report, x->place, "the exception opens nothing: its %s ordinary",
				  x->has_prefix ? "addresses are" : "name is");
	}
}
