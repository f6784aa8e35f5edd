/* See print_doc.h. What is not said in the tree is left out; the order of keys is fixed. */
#include "compiler/print_doc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define PIECE_MAX 1024

/* A buffer whose first failure sticks. */
struct printer {
	struct buf *out; /* borrowed */
	enum err err;
};

static void put(struct printer *p, const char *bytes, size_t len)
{
	if (p->err == ERR_OK)
		p->err = buf_append(p->out, bytes, len);
}

static void print(struct printer *p, const char *format, ...) ATTR_PRINTF(2, 3);
static void print(struct printer *p, const char *format, ...)
{
	char piece[PIECE_MAX];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(piece, sizeof(piece), format, args);
	va_end(args);
	if (len < 0 || (size_t)len >= sizeof(piece))
		p->err = ERR_LIMIT;
	else
		put(p, piece, (size_t)len);
}

static void print_string(struct printer *p, const char *text)
{
	put(p, "\"", 1);
	for (const char *c = text; *c != '\0'; c++) {
		if (*c == '"' || *c == '\\')
			put(p, "\\", 1);
		if ((unsigned char)*c < ' ')
			print(p, "\\u%04x", (unsigned)(unsigned char)*c);
		else
			put(p, c, 1);
	}
	put(p, "\"", 1);
}

static void print_member(struct printer *p, const char *key, const char *text)
{
	if (text == NULL || text[0] == '\0')
		return;
	print(p, ",\"%s\":", key);
	print_string(p, text);
}

static void print_places(struct printer *p, const struct policy_place *places, size_t count)
{
	for (unsigned want_asn = 0; want_asn < 2; want_asn++) {
		size_t told = 0;

		for (size_t i = 0; i < count; i++) {
			if ((places[i].country[0] == '\0') != (want_asn == 1))
				continue;
			print(p, "%s", told++ > 0 ? "," : want_asn ? ",\"asn\":[" : ",\"country\":[");
			if (want_asn)
				print(p, "%u", (unsigned)places[i].asn);
			else
				print(p, "\"%s\"", places[i].country);
		}
		if (told > 0)
			put(p, "]", 1);
	}
}

static void print_rule(struct printer *p, const struct policy_rule *rule)
{
	static const char *const pins[] = { [RULE_PIN_CONNECTION] = "connection", [RULE_PIN_TTL] = "ttl", [RULE_PIN_LEASE] = "lease" };
	char text[RULE_TEXT_MAX];

	print(p, "{\"%s\":", rule->rule.action == RULE_DENY ? "deny" : "allow");
	print_string(p, rule_print(&rule->rule, text));
	print_member(p, "id", rule->id);
	print_member(p, "note", rule->note);
	if (rule->pin != RULE_PIN_DEFAULT)
		print_member(p, "pin", pins[rule->pin]);
	if (rule->ech_refuse)
		print_member(p, "ech", "refuse");
	if (rule->report)
		print(p, ",\"report\":true");
	print_places(p, rule->places, rule->place_count);
	put(p, "}", 1);
}

static void print_rules(struct printer *p, const struct policy *policy)
{
	print(p, "\"rules\":[");
	for (const struct policy_rule *rule = policy->rules; rule != NULL; rule = rule->next) {
		if (rule != policy->rules)
			put(p, ",", 1);
		print_rule(p, rule);
	}
	put(p, "]", 1);
}

static void print_guest(struct printer *p, const struct policy *policy)
{
	static const struct {
		unsigned bit;
		const char *word;
	} words[] = { { LAYOUT_REQUIRE_LISTENER, "listener" }, { LAYOUT_REQUIRE_SOURCE, "source" }, { LAYOUT_REQUIRE_TOKEN, "token" } };
	char text[PREFIX_TEXT_MAX], hex[65];
	size_t told = 0;

	print(p, ",\"guest\":{\"require\":[");
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if ((policy->require & words[i].bit) != 0)
			print(p, "%s\"%s\"", told++ > 0 ? "," : "", words[i].word);
	put(p, "]", 1);
	print_member(p, "listener", policy->listener);
	for (const struct policy_source *s = policy->sources; s != NULL; s = s->next)
		print(p, "%s\"%s\"%s", s == policy->sources ? ",\"sources\":[" : ",", prefix_print(&s->prefix, text),
		      s->next == NULL ? "]" : "");
	for (const struct policy_token *t = policy->tokens; t != NULL; t = t->next) {
		text_from_bytes_hex(t->sha256, 32, hex);
		print(p, "%s{\"sha256\":\"%s\"", t == policy->tokens ? ",\"tokens\":[" : ",", hex);
		print_member(p, "id", t->id);
		if (t->exp_ms != 0)
			print(p, ",\"exp_ms\":%llu", (unsigned long long)t->exp_ms);
		print(p, "}%s", t->next == NULL ? "]" : "");
	}
	put(p, "}", 1);
}

static void print_network(struct printer *p, const struct policy *policy, const struct print_doc_signed *with)
{
	/* A mode that nobody knows stays one: its scope is undeclared. */
	static const char *const modes[] = {
		[POLICY_MODE_UNSAID] = "unknown",	[POLICY_MODE_UNKNOWN] = "unknown",
		[POLICY_MODE_DENY_ALL] = "deny_all",	[POLICY_MODE_ALLOWLIST] = "allowlist",
		[POLICY_MODE_PROVISIONING] = "dependency_provisioning",
	};
	static const char *const scopes[] = { "declared", "undeclared", "none", "declared" };
	char hex[65];

	print(p, ",\"network\":{\"mode\":\"%s\",\"claimed_scope\":\"%s\",\"enforcement\":\"%s\",\"rulesets\":[", modes[policy->mode],
	      scopes[policy->claimed_scope], policy->report ? "report" : "enforce");
	for (size_t i = 0; i < with->ruleset_count; i++) {
		text_from_bytes_hex(with->rulesets[i], 32, hex);
		print(p, "%s\"sha256:%s\"", i == 0 ? "" : ",", hex);
	}
	print(p, "],");
	print_rules(p, policy);
	put(p, "}", 1);
}

static void print_limits(struct printer *p, const struct layout_limits *limits)
{
	size_t told = 0;

#define LIMIT(name, least, most)                                                                              \
	if (limits->name != 0)                                                                                \
		print(p, "%s\"%s\":%llu", told++ == 0 ? ",\"limits\":{" : ",", #name, (unsigned long long)limits->name);
#include "document/limits.def"
#undef LIMIT
	if (told > 0)
		put(p, "}", 1);
}

static void print_options(struct printer *p, const struct policy *policy)
{
	const uint32_t options = policy->options;

	print(p, ",\"options\":{\"resolve\":%s,\"why\":%s,\"names_only\":%s,\"ech\":\"%s\"",
	      options & LAYOUT_OPTION_RESOLVE ? "true" : "false", options & LAYOUT_OPTION_WHY ? "true" : "false",
	      options & LAYOUT_OPTION_NAMES_ONLY ? "true" : "false", options & LAYOUT_OPTION_ECH_REFUSE ? "refuse" : "allow");
	print_places(p, policy->places, policy->place_count);
	put(p, "}", 1);
}

static const char *state_word(const struct policy *policy)
{
	return policy->state == LAYOUT_LEASE_ACTIVE ? "active" : policy->state == LAYOUT_LEASE_REVOKED ? "revoked" : "suspended";
}

enum err print_doc_lease(const struct policy *policy, const struct print_doc_signed *with, struct buf *out)
{
	struct printer p = { .out = out, .err = ERR_OK };

	print(&p, "{\"typ\":\"egress.lease/1\",\"epoch\":%llu,\"cell\":\"%s\",\"lease\":\"%s\",\"rev\":%llu,\"state\":\"%s\",",
	      (unsigned long long)with->epoch, with->cell, policy->name, (unsigned long long)with->rev, state_word(policy));
	print(&p, "\"nbf_ms\":%llu,\"exp_ms\":%llu", (unsigned long long)with->nbf_ms, (unsigned long long)with->exp_ms);
	print_member(&p, "tenant", policy->tenant);
	print_member(&p, "run", policy->run);
	print_member(&p, "environment_class", policy->environment_class);
	print_guest(&p, policy);
	print_network(&p, policy, with);
	print_limits(&p, &policy->limits);
	print_options(&p, policy);
	put(&p, "}", 1);
	return p.err;
}

enum err print_doc_ruleset(const struct policy *policy, struct buf *out)
{
	struct printer p = { .out = out, .err = ERR_OK };

	print(&p, "{\"typ\":\"egress.ruleset/1\",");
	print_rules(&p, policy);
	put(&p, "}", 1);
	return p.err;
}
