#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "compiler/parse.h"

#define DIGEST "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define GUEST "\"guest\":{\"require\":[\"token\",\"source\",\"listener\"],\"listener\":\"l\",\"sources\":[\"10.0.0.1\"]," \
	      "\"tokens\":[{\"sha256\":\"" DIGEST "\",\"exp_ms\":9}]}"

struct fixture {
	struct arena arena;
	struct fault_list faults;
	struct json_faults json_faults;
	struct lease_doc doc;
	struct policy *policy;
	enum err err;
};

static void parse(struct fixture *f, const char *text, bool report_allowed)
{
	arena_init(&f->arena, 0);
	fault_list_init(&f->faults, &f->arena);
	json_faults_init(&f->json_faults, &f->arena);
	f->policy = NULL;
	f->err = lease_doc_read(text_of(text), LEASE_DOC_LOCAL, &f->json_faults, &f->doc);
	cr_assert_eq(f->err, ERR_OK, "%s", f->json_faults.count == 0 ? "" : f->json_faults.first->text);
	f->err = parse_lease_doc(&f->arena, "a.json", &f->doc, report_allowed, &f->faults, &f->policy);
}

Test(parse_doc, a_document_becomes_the_same_tree)
{
	struct fixture f;
	const struct policy *l;
	char text[RULE_TEXT_MAX];

	parse(&f, "{\"typ\":\"egress.lease/1\",\"lease\":\"a\",\"rev\":7,\"epoch\":2,\"nbf_ms\":5,\"exp_ms\":6,\"state\":\"suspended\","
		  "\"tenant\":\"t\",\"run\":\"r\",\"environment_class\":\"c\"," GUEST ",\"network\":{\"mode\":\"dependency_provisioning\","
		  "\"claimed_scope\":\"none\",\"rulesets\":[\"sha256:" DIGEST "\"],\"rules\":[{\"id\":\"x\",\"allow\":\"tcp://a.example:1\","
		  "\"pin\":\"connection\",\"ech\":\"refuse\",\"country\":[\"DE\"],\"asn\":[5],\"note\":\"n\"},{\"deny\":\"b.example\"}]},"
		  "\"limits\":{\"names\":3},\"options\":{\"resolve\":true,\"why\":true,\"names_only\":true,\"ech\":\"refuse\",\"asn\":[6]}}",
	      false);
	cr_assert_eq(f.err, ERR_OK, "%s", f.faults.first == NULL ? "" : f.faults.first->text);
	l = f.policy;
	cr_assert_eq(l->kind, POLICY_LEASE);
	cr_assert_str_eq(l->name, "a");
	cr_assert_eq(l->rev, 7);
	cr_assert_eq(l->epoch, 2);
	cr_assert_eq(l->nbf_ms, 5);
	cr_assert_eq(l->exp_ms, 6);
	cr_assert_eq(l->state, LAYOUT_LEASE_SUSPENDED);
	cr_assert_str_eq(l->tenant, "t");
	cr_assert_eq(l->require, LAYOUT_REQUIRE_LISTENER | LAYOUT_REQUIRE_SOURCE | LAYOUT_REQUIRE_TOKEN);
	cr_assert_str_eq(l->listener, "l");
	cr_assert_eq(l->tokens->exp_ms, 9);
	cr_assert_eq(l->mode, POLICY_MODE_PROVISIONING);
	cr_assert_eq(l->claimed_scope, LAYOUT_SCOPE_NONE);
	cr_assert_str_eq(l->uses->name, "");
	cr_assert_eq(l->uses->payload_sha256[0], 0x9f);
	cr_assert_eq(l->rule_count, 2);
	cr_assert_str_eq(rule_print(&l->rules->rule, text), "tcp://a.example:1");
	cr_assert_eq(l->rules->pin, RULE_PIN_CONNECTION);
	cr_assert(l->rules->ech_refuse);
	cr_assert_eq(l->rules->place_count, 2);
	cr_assert_str_eq(l->rules->places[0].country, "DE");
	cr_assert_eq(l->rules->places[1].asn, 5);
	cr_assert_eq(l->rules->place.line, 0);
	cr_assert_str_eq(l->rules->place.pointer, "/network/rules/0/allow");
	cr_assert_eq(l->limits.names, 3);
	cr_assert_eq(l->options, LAYOUT_OPTION_RESOLVE | LAYOUT_OPTION_WHY | LAYOUT_OPTION_NAMES_ONLY | LAYOUT_OPTION_ECH_REFUSE);
	cr_assert_eq(l->place_count, 1);
	arena_finish(&f.arena);
}

Test(parse_doc, faults_of_rules_have_the_documents_pointer)
{
	static const struct {
		const char *rule, *code;
	} rows[] = {
		{ "{\"allow\":\"https://*\"}", "host_star" },
		{ "{\"allow\":\"https://*.com\"}", "public_suffix" },
		{ "{\"allow\":\"https://b\\u00fccher.example\"}", "host_unicode" },
		{ "{\"allow\":\"any\"}", "scheme_missing" },
		{ "{\"allow\":\"https://metadata.google.internal\"}", "metadata_name" },
		{ "{\"allow\":\"https://a.example\",\"report\":true}", "report_not_allowed" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture f;
		char text[1024];

		snprintf(text, sizeof(text), "{\"typ\":\"egress.lease/1\",\"lease\":\"a\",\"state\":\"active\"," GUEST
			 ",\"network\":{\"mode\":\"allowlist\",\"rules\":[{\"allow\":\"https://ok.example\"},%s]}}", rows[i].rule);
		parse(&f, text, false);
		cr_assert_eq(f.err, ERR_INVALID, "%s", rows[i].rule);
		cr_assert_eq(f.faults.error_count, 1);
		cr_assert_str_eq(f.faults.first->code, rows[i].code);
		cr_assert_str_eq(f.faults.first->place.pointer, "/network/rules/1/allow");
		arena_finish(&f.arena);
	}
}

Test(parse_doc, a_report_only_lease_needs_the_operators_leave)
{
	static const char text[] = "{\"typ\":\"egress.lease/1\",\"lease\":\"a\",\"state\":\"revoked\"," GUEST
				   ",\"network\":{\"mode\":\"other\",\"enforcement\":\"report\",\"rules\":[]}}";
	struct fixture f;

	parse(&f, text, false);
	cr_assert_eq(f.err, ERR_INVALID);
	cr_assert_str_eq(f.faults.first->place.pointer, "/network/enforcement");
	arena_finish(&f.arena);
	parse(&f, text, true);
	cr_assert_eq(f.err, ERR_OK);
	cr_assert(f.policy->report);
	cr_assert_eq(f.policy->mode, POLICY_MODE_UNKNOWN);
	cr_assert_eq(f.policy->state, LAYOUT_LEASE_REVOKED);
	arena_finish(&f.arena);
}

Test(parse_doc, json_faults_are_carried_over_with_their_number)
{
	struct json_faults from;
	struct fault_list to;
	struct arena arena;

	arena_init(&arena, 0);
	json_faults_init(&from, &arena);
	fault_list_init(&to, &arena);
	for (int i = 0; i < JSON_FAULTS_MAX + 3; i++)
		json_fault_add(&from, "/x", "bad", "number %d", i);
	parse_take_json_faults("a.json", &from, &to);
	cr_assert_eq(to.error_count, JSON_FAULTS_MAX + 3);
	cr_assert_str_eq(to.first->place.pointer, "/x");
	cr_assert_str_eq(to.first->text, "number 0");
	arena_finish(&arena);
}
