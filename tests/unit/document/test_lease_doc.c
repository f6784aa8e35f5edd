#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "document/lease_doc.h"

#define DIGEST "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

static const char whole[] =
	"{\"typ\":\"egress.lease/1\",\"epoch\":3,\"cell\":\"c-0161\",\"lease\":\"ls_01JDX8M3\",\"rev\":17,\"state\":\"active\","
	"\"nbf_ms\":1796050000000,\"exp_ms\":1796053600000,\"tenant\":\"ws_acme\",\"run\":\"run_881\",\"environment_class\":\"code\","
	"\"guest\":{\"require\":[\"listener\",\"token\"],\"listener\":\"vm-7f3a\",\"sources\":[\"10.200.4.7/32\"],"
	"\"tokens\":[{\"id\":\"t2\",\"sha256\":\"" DIGEST "\",\"exp_ms\":1796053600000}]},"
	"\"network\":{\"mode\":\"allowlist\",\"claimed_scope\":\"declared\",\"enforcement\":\"enforce\",\"rulesets\":[\"sha256:" DIGEST "\"],"
	"\"rules\":[{\"id\":\"r1\",\"allow\":\"https://api.example.org\",\"note\":\"n\",\"pin\":\"lease\",\"ech\":\"refuse\","
	"\"country\":[\"DE\"],\"asn\":[64500],\"report\":true},{\"deny\":\"stats.example.org\"}]},"
	"\"limits\":{\"connections\":256,\"connects_per_s\":50,\"connects_per_s_destination\":5,\"bytes_per_s\":10485760,\"bytes\":1,"
	"\"names\":500,\"lookups_per_s\":7,\"lookup_failures_per_s\":8,\"idle_ms\":300000,\"lifetime_ms\":86400000},"
	"\"options\":{\"resolve\":false,\"why\":true,\"names_only\":false,\"ech\":\"refuse\",\"country\":[\"DE\",\"FR\"],\"asn\":[1]}}";

static const char local[] = "{\"typ\":\"egress.lease/1\",\"lease\":\"a\",\"state\":\"active\",\"guest\":{\"require\":[\"source\"],"
			    "\"sources\":[\"::1\"]},\"network\":{\"mode\":\"deny_all\",\"rules\":[]}}";

struct fixture {
	struct arena arena;
	struct json_faults faults;
	struct lease_doc doc;
	enum err err;
};

static void read_text(struct fixture *f, const char *text, enum lease_doc_trust trust)
{
	arena_init(&f->arena, 0);
	json_faults_init(&f->faults, &f->arena);
	f->err = lease_doc_read(text_of(text), trust, &f->faults, &f->doc);
}

Test(lease_doc, every_key_of_the_contract_is_read)
{
	struct fixture f;

	read_text(&f, whole, LEASE_DOC_SIGNED);
	cr_assert_eq(f.err, ERR_OK, "%s", f.faults.count == 0 ? "" : f.faults.first->text);
	cr_assert_eq(f.doc.epoch, 3);
	cr_assert_eq(f.doc.rev, 17);
	cr_assert_str_eq(f.doc.cell, "c-0161");
	cr_assert_str_eq(f.doc.lease, "ls_01JDX8M3");
	cr_assert_eq(f.doc.state, LEASE_DOC_ACTIVE);
	cr_assert_eq(f.doc.nbf_ms, 1796050000000u);
	cr_assert_eq(f.doc.exp_ms, 1796053600000u);
	cr_assert_str_eq(f.doc.tenant, "ws_acme");
	cr_assert_str_eq(f.doc.run, "run_881");
	cr_assert_str_eq(f.doc.environment_class, "code");
	cr_assert_eq(f.doc.require, LEASE_DOC_BY_LISTENER | LEASE_DOC_BY_TOKEN);
	cr_assert_str_eq(f.doc.listener, "vm-7f3a");
	cr_assert_eq(f.doc.source_count, 1);
	cr_assert_eq(f.doc.sources[0].len, 32);
	cr_assert_eq(f.doc.token_count, 1);
	cr_assert_str_eq(f.doc.tokens[0].id, "t2");
	cr_assert_eq(f.doc.tokens[0].sha256[0], 0x9f);
	cr_assert_eq(f.doc.tokens[0].exp_ms, 1796053600000u);
	cr_assert_eq(f.doc.mode, LEASE_DOC_ALLOWLIST);
	cr_assert_eq(f.doc.claimed_scope, LEASE_DOC_SCOPE_DECLARED);
	cr_assert_not(f.doc.report);
	cr_assert_eq(f.doc.ruleset_count, 1);
	cr_assert_eq(f.doc.rulesets[0][31], 0x08);
	cr_assert_eq(f.doc.rule_count, 2);
	cr_assert_str_eq(f.doc.rules[0].id, "r1");
	cr_assert_str_eq(f.doc.rules[0].note, "n");
	cr_assert_str_eq(f.doc.rules[0].pattern, "https://api.example.org");
	cr_assert_str_eq(f.doc.rules[0].pointer, "/network/rules/0/allow");
	cr_assert_eq(f.doc.rules[0].pin, LEASE_DOC_PIN_LEASE);
	cr_assert(f.doc.rules[0].ech_refuse && f.doc.rules[0].report && !f.doc.rules[0].is_deny);
	cr_assert_str_eq(f.doc.rules[0].places.countries[0], "DE");
	cr_assert_eq(f.doc.rules[0].places.asns[0], 64500);
	cr_assert(f.doc.rules[1].is_deny);
	cr_assert_str_eq(f.doc.rules[1].id, "");
	cr_assert_str_eq(f.doc.rules[1].pointer, "/network/rules/1/deny");
	cr_assert_eq(f.doc.limits.connections, 256);
	cr_assert_eq(f.doc.limits.lifetime_ms, 86400000);
	cr_assert(!f.doc.resolve && f.doc.why && !f.doc.names_only && f.doc.ech_refuse);
	cr_assert_eq(f.doc.places.country_count, 2);
	cr_assert_eq(f.doc.places.asn_count, 1);
	arena_finish(&f.arena);
}

Test(lease_doc, a_local_lease_may_leave_out_what_only_control_knows)
{
	struct fixture f;

	read_text(&f, local, LEASE_DOC_LOCAL);
	cr_assert_eq(f.err, ERR_OK);
	cr_assert_eq(f.doc.mode, LEASE_DOC_DENY_ALL);
	cr_assert_eq(f.doc.claimed_scope, LEASE_DOC_SCOPE_UNSAID);
	cr_assert_eq(f.doc.exp_ms, 0);
	arena_finish(&f.arena);
	read_text(&f, local, LEASE_DOC_SIGNED);
	cr_assert_eq(f.err, ERR_INVALID);
	/* epoch, cell, rev, nbf_ms, exp_ms; claimed_scope, enforcement, rulesets */
	cr_assert_eq(f.faults.count, 8);
	arena_finish(&f.arena);
}

Test(lease_doc, an_unknown_mode_is_no_fault)
{
	struct fixture f;
	char text[sizeof(local) + 20];
	const char *at = strstr(local, "deny_all");

	snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - local), local, "anything", at + strlen("deny_all"));
	read_text(&f, text, LEASE_DOC_LOCAL);
	cr_assert_eq(f.err, ERR_OK);
	cr_assert_eq(f.doc.mode, LEASE_DOC_MODE_UNKNOWN);
	cr_assert_str_eq(f.doc.mode_text, "anything");
	arena_finish(&f.arena);
}

/* Replace the first `from` of the whole document by `to`: one fault, there. */
static const struct {
	const char *from, *to, *pointer, *code;
} bad[] = {
	{ "egress.lease/1", "egress.beat/1", "/typ", "unknown_word" },
	{ "\"epoch\":3", "\"epoch\":-1", "/epoch", "out_of_range" },
	{ "\"epoch\":3", "\"epoch\":9007199254740992", "/epoch", "out_of_range" },
	{ "\"epoch\":3", "\"epoch\":\"3\"", "/epoch", "wrong_kind" },
	{ "\"epoch\":3", "\"epoch\":3.0", "/epoch", "not_whole" },
	{ "\"epoch\":3", "\"epoch\":3,\"epoch\":3", "", "duplicate_key" },
	{ "\"epoch\":3", "\"epoch\":3,\"extra\":1", "/extra", "unknown_key" },
	{ "\"epoch\":3,", "", "", "missing_key" },
	{ "ls_01JDX8M3", "ls/1", "/lease", "bad_word" },
	{ "ls_01JDX8M3", "", "/lease", "out_of_range" },
	{ "ls_01JDX8M3", "_a", "/lease", "bad_word" },
	{ "\"active\"", "\"paused\"", "/state", "unknown_word" },
	{ "\"active\"", "1", "/state", "wrong_kind" },
	{ "1796053600000", "1796050000000", "/exp_ms", "out_of_range" },
	{ "1796053600000", "253402300800000", "/exp_ms", "out_of_range" },
	{ "ws_acme", "a b", "/tenant", "bad_word" },
	{ "[\"listener\",\"token\"]", "[]", "/guest/require", "empty" },
	{ "[\"listener\",\"token\"]", "[\"token\",\"token\"]", "/guest/require/1", "duplicate_word" },
	{ "[\"listener\",\"token\"]", "[\"mac\",\"token\"]", "/guest/require/0", "unknown_word" },
	{ "[\"listener\",\"token\"]", "\"token\"", "/guest/require", "wrong_kind" },
	{ "\"listener\":\"vm-7f3a\",", "", "/guest", "missing_key" },
	{ "\"require\":[\"listener\",\"token\"],", "", "/guest", "missing_key" },
	{ "[\"10.200.4.7/32\"]", "[\"10.200.4.7/24\"]", "/guest/sources/0", "bad_prefix" },
	{ "\"id\":\"t2\"", "\"name\":\"t2\"", "/guest/tokens/0/name", "unknown_key" },
	{ "9f86", "9F86", "/guest/tokens/0/sha256", "bad_digest" },
	{ "9f86", "9f8", "/guest/tokens/0/sha256", "out_of_range" },
	{ "\"mode\":\"allowlist\",", "", "/network", "missing_key" },
	{ "\"mode\":\"allowlist\"", "\"mode\":1", "/network/mode", "wrong_kind" },
	{ "\"claimed_scope\":\"declared\"", "\"claimed_scope\":\"all\"", "/network/claimed_scope", "unknown_word" },
	{ "\"enforcement\":\"enforce\"", "\"enforcement\":\"off\"", "/network/enforcement", "unknown_word" },
	{ "sha256:9f86", "sha512:9f86", "/network/rulesets/0", "bad_digest" },
	{ "\"rules\":[", "\"rules\":[1,", "/network/rules/0", "wrong_kind" },
	{ "\"rules\":[", "\"rules\":[{\"id\":\"x\"},", "/network/rules/0", "missing_key" },
	{ "\"rules\":[", "\"rules\":[{\"allow\":\"x\",\"deny\":\"x\"},", "/network/rules/0", "missing_key" },
	{ "\"rules\":[", "\"rules\":[{\"allow\":\"\"},", "/network/rules/0/allow", "out_of_range" },
	{ "\"rules\":[", "\"rules\":[{\"allow\":\"x\",\"port\":1},", "/network/rules/0/port", "unknown_key" },
	{ "\"pin\":\"lease\"", "\"pin\":\"forever\"", "/network/rules/0/pin", "unknown_word" },
	{ "\"ech\":\"refuse\"", "\"ech\":\"no\"", "/network/rules/0/ech", "unknown_word" },
	{ "[\"DE\"]", "[\"de\"]", "/network/rules/0/country/0", "bad_word" },
	{ "[\"DE\"]", "[\"DEU\"]", "/network/rules/0/country/0", "out_of_range" },
	{ "[64500]", "[0]", "/network/rules/0/asn/0", "out_of_range" },
	{ "[64500]", "[4294967295]", "/network/rules/0/asn/0", "out_of_range" },
	{ "\"report\":true", "\"report\":1", "/network/rules/0/report", "wrong_kind" },
	{ "\"note\":\"n\"", "\"note\":\"a\\u0007\"", "/network/rules/0/note", "bad_word" },
	{ "\"connections\":256", "\"connections\":0", "/limits/connections", "out_of_range" },
	{ "\"connections\":256", "\"conns\":256", "/limits/conns", "unknown_key" },
	{ "\"idle_ms\":300000", "\"idle_ms\":99", "/limits/idle_ms", "out_of_range" },
	{ "\"why\":true", "\"why\":\"on\"", "/options/why", "wrong_kind" },
	{ "\"why\":true", "\"whi\":true", "/options/whi", "unknown_key" },
};

Test(lease_doc, each_fault_is_told_with_its_pointer)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char text[sizeof(whole) + 200];
		const char *at = strstr(whole, bad[i].from);
		struct fixture f;

		cr_assert_not_null(at, "%s", bad[i].from);
		snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - whole), whole, bad[i].to, at + strlen(bad[i].from));
		memset(&f.doc, 0x5a, sizeof(f.doc));
		read_text(&f, text, LEASE_DOC_SIGNED);
		cr_assert_eq(f.err, ERR_INVALID, "%s", bad[i].to);
		cr_assert_eq(f.faults.count, 1, "%s: %zu", bad[i].to, f.faults.count);
		cr_assert_str_eq(f.faults.first->pointer, bad[i].pointer, "%s: %s", bad[i].to, f.faults.first->pointer);
		cr_assert_str_eq(f.faults.first->code, bad[i].code, "%s: %s", bad[i].to, f.faults.first->code);
		cr_assert_eq(((unsigned char *)&f.doc)[0], 0x5a);
		arena_finish(&f.arena);
	}
}

Test(lease_doc, no_prefix_of_a_good_lease_is_a_lease)
{
	for (size_t len = 0; len < sizeof(whole) - 1; len++) {
		char *exact = alloc_copy(whole, len);
		struct fixture f;

		exact[len] = '\0';
		read_text(&f, exact, LEASE_DOC_SIGNED);
		cr_assert_eq(f.err, ERR_INVALID);
		arena_finish(&f.arena);
		alloc_free(exact);
	}
}

Test(lease_doc, the_id_of_a_faulty_lease_is_still_found)
{
	char id[LEASE_DOC_ID_MAX + 1] = "unset";

	cr_assert(lease_doc_id(text_of("{\"lease\":\"ls_1\",\"nonsense\":true}"), id));
	cr_assert_str_eq(id, "ls_1");
	cr_assert_not(lease_doc_id(text_of("{\"lease\":\"l/s\"}"), id));
	cr_assert_not(lease_doc_id(text_of("{\"lease\":7}"), id));
	cr_assert_not(lease_doc_id(text_of("[\"lease\"]"), id));
	cr_assert_not(lease_doc_id(text_of("{\"lease\":\"ls_1\""), id));
	cr_assert_str_eq(id, "ls_1");
}

Test(lease_doc, rulesets_hold_rules_and_nothing_else)
{
	static const struct {
		const char *text;
		size_t faults;
	} rows[] = {
		{ "{\"typ\":\"egress.ruleset/1\",\"rules\":[{\"allow\":\"https://a.example\"}]}", 0 },
		{ "{\"typ\":\"egress.ruleset/1\",\"rules\":[],\"note\":\"empty\"}", 0 },
		{ "{\"typ\":\"egress.lease/1\",\"rules\":[]}", 1 },
		{ "{\"typ\":\"egress.ruleset/1\"}", 1 },
		{ "{\"typ\":\"egress.ruleset/1\",\"rules\":[],\"guest\":{}}", 1 },
		{ "[]", 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct arena arena;
		struct json_faults faults;
		struct ruleset_doc doc;

		arena_init(&arena, 0);
		json_faults_init(&faults, &arena);
		cr_assert_eq(ruleset_doc_read(text_of(rows[i].text), &faults, &doc), rows[i].faults == 0 ? ERR_OK : ERR_INVALID);
		cr_assert_eq(faults.count, rows[i].faults, "%s", rows[i].text);
		arena_finish(&arena);
	}
}

Test(lease_doc, without_memory_there_is_no_lease)
{
	bool succeeded = false;

	for (uint64_t nth = 1; !succeeded; nth++) {
		struct fixture f;

		arena_init(&f.arena, 0);
		json_faults_init(&f.faults, &f.arena);
		alloc_fail_at(nth);
		f.err = lease_doc_read(text_of(whole), LEASE_DOC_SIGNED, &f.faults, &f.doc);
		alloc_fail_at(0);
		succeeded = f.err == ERR_OK;
		if (!succeeded)
			cr_assert_eq(f.err, ERR_NO_MEMORY);
		arena_finish(&f.arena);
		cr_assert_lt(nth, 200);
	}
	for (size_t limit = 1; limit < 4000; limit += 7) {
		struct fixture f;

		arena_init(&f.arena, limit);
		json_faults_init(&f.faults, &f.arena);
		f.err = lease_doc_read(text_of(whole), LEASE_DOC_SIGNED, &f.faults, &f.doc);
		cr_assert(f.err == ERR_OK || f.err == ERR_NO_MEMORY);
		arena_finish(&f.arena);
	}
}

Test(lease_doc, ids_are_words_that_cannot_be_confused)
{
	static const char *const good[] = { "a", "ls_01JDX8M3", "A.b-c_d:e", "0" };
	static const char *const wrong[] = { "", "_a", "-a", ".a", "a/b", "a b", "a\n", "\xc3\xbc" };
	char longest[LEASE_DOC_ID_MAX + 2];

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		cr_assert(lease_doc_id_is_valid(text_of(good[i])));
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		cr_assert_not(lease_doc_id_is_valid(text_of(wrong[i])));
	memset(longest, 'a', sizeof(longest));
	cr_assert(lease_doc_id_is_valid((struct text){ longest, LEASE_DOC_ID_MAX }));
	cr_assert_not(lease_doc_id_is_valid((struct text){ longest, LEASE_DOC_ID_MAX + 1 }));
}

Test(lease_doc, a_faulty_lease_still_says_how_its_guests_arrive_and_which_revision_it_claims)
{
	static const char faulty[] = "{\"typ\":\"egress.lease/9\",\"lease\":\"a\",\"rev\":4,\"pot\":1.5,\"rev\":5}";
	static const char unknown[] = "{\"lease\":\"a\",\"rev\":4,\"pot\":1,\"guest\":{\"require\":[\"source\"],\"sources\":[\"::1\"]}}";
	struct json_faults faults;
	struct lease_doc doc;
	struct arena arena;
	uint64_t rev = 0;

	arena_init(&arena, 0);
	json_faults_init(&faults, &arena);
	cr_assert(lease_doc_rev(text_of(faulty), &rev));
	cr_assert_eq(rev, 5);
	cr_assert_not(lease_doc_rev(text_of("{\"rev\":-1}"), &rev));
	cr_assert_not(lease_doc_rev(text_of("{\"rev\":1"), &rev));
	cr_assert_not(lease_doc_rev(text_of("[]"), &rev));
	cr_assert(lease_doc_arrival(text_of(unknown), &faults, &doc));
	cr_assert_str_eq(doc.lease, "a");
	cr_assert_eq(doc.source_count, 1);
	cr_assert_eq(doc.state, LEASE_DOC_SUSPENDED);
	cr_assert_eq(doc.mode, LEASE_DOC_DENY_ALL);
	/* Not from one whose own guests are in doubt, nor from what is not strict JSON. */
	cr_assert_not(lease_doc_arrival(text_of("{\"lease\":\"a\",\"guest\":{\"require\":[\"source\"]}}"), &faults, &doc));
	cr_assert_not(lease_doc_arrival(text_of(faulty), &faults, &doc));
	cr_assert_not(lease_doc_arrival(text_of("{\"lease\":\"a\"}"), &faults, &doc));
	arena_finish(&arena);
}
