/* What is printed is read back as the same lease: the signed document and the `.policy` file compile to the same rules. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/crypto.h"
#include "compiler/compile.h"
#include "compiler/parse.h"
#include "compiler/print_doc.h"
#include "document/lease_doc.h"

#define DIGEST "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

static const char whole[] =
	"lease ls_1\ntenant t run r class code\nexpires 2026-12-01T00:00:00Z\nguest require source token listener\n"
	"guest source 10.0.0.0/24 source 2001:db8::1 token sha256:" DIGEST " listener vm-1\nmode allowlist\n"
	"allow https://*.example.org as wild note \"a \\\"quoted\\\" note\" pin=lease ech=refuse country=DE,FR asn=64500\n"
	"allow tcp://10.1.0.0/16:1-2,5\ndeny stats.example.org\nlimit connections 256 connects_per_s 50\n"
	"option resolve on why on names_only off\n";

struct fixture {
	struct arena arena;
	struct fault_list faults;
	struct json_faults json_faults;
	struct policy *policy;
	struct buf out;
};

static void begin(struct fixture *f, const char *text, enum policy_kind kind)
{
	const struct parse_as as = { .kind = kind, .name = kind == POLICY_PRESET ? "p" : "" };

	arena_init(&f->arena, 0);
	fault_list_init(&f->faults, &f->arena);
	json_faults_init(&f->json_faults, &f->arena);
	buf_init(&f->out, 1 << 18);
	cr_assert_eq(parse_policy(&f->arena, "a.policy", text_of(text), &as, &f->faults, &f->policy), ERR_OK, "%s",
		     f->faults.first == NULL ? "" : f->faults.first->text);
}

static void end(struct fixture *f)
{
	buf_finish(&f->out);
	arena_finish(&f->arena);
}

static struct text printed(const struct fixture *f)
{
	return (struct text){ (const char *)buf_data(&f->out), f->out.len };
}

Test(print_doc, a_lease_is_read_back_as_it_was)
{
	static const uint8_t rulesets[1][32] = { { 0xab } };
	const struct print_doc_signed with = { "c-1", 3, 17, 1000, 2000, rulesets, 1 };
	struct lease_doc doc;
	struct fixture f;

	begin(&f, whole, POLICY_LEASE);
	cr_assert_eq(print_doc_lease(f.policy, &with, &f.out), ERR_OK);
	cr_assert_eq(lease_doc_read(printed(&f), LEASE_DOC_SIGNED, &f.json_faults, &doc), ERR_OK, "%s %s in %.*s",
		     f.json_faults.first == NULL ? "" : f.json_faults.first->pointer,
		     f.json_faults.first == NULL ? "" : f.json_faults.first->text, (int)f.out.len, buf_data(&f.out));
	cr_assert_str_eq(doc.lease, "ls_1");
	cr_assert_str_eq(doc.cell, "c-1");
	cr_assert_eq(doc.epoch, 3);
	cr_assert_eq(doc.rev, 17);
	cr_assert_eq(doc.exp_ms, 2000);
	cr_assert_str_eq(doc.tenant, "t");
	cr_assert_eq(doc.require, LEASE_DOC_BY_LISTENER | LEASE_DOC_BY_SOURCE | LEASE_DOC_BY_TOKEN);
	cr_assert_str_eq(doc.listener, "vm-1");
	cr_assert_eq(doc.source_count, 2);
	cr_assert_eq(doc.token_count, 1);
	cr_assert_eq(doc.mode, LEASE_DOC_ALLOWLIST);
	cr_assert_eq(doc.ruleset_count, 1);
	cr_assert_eq(doc.rulesets[0][0], 0xab);
	cr_assert_eq(doc.rule_count, 3);
	cr_assert_str_eq(doc.rules[0].pattern, "https://*.example.org");
	cr_assert_str_eq(doc.rules[0].id, "wild");
	cr_assert_eq(doc.rules[0].pin, LEASE_DOC_PIN_LEASE);
	cr_assert(doc.rules[0].ech_refuse);
	cr_assert_eq(doc.rules[0].places.country_count, 2);
	cr_assert_eq(doc.rules[0].places.asns[0], 64500);
	cr_assert_str_eq(doc.rules[1].pattern, "tcp://10.1.0.0/16:1-2,5");
	cr_assert(doc.rules[2].is_deny);
	cr_assert_eq(doc.limits.connections, 256);
	cr_assert(doc.resolve && doc.why && !doc.names_only);
	end(&f);
}

Test(print_doc, what_is_printed_compiles_to_what_was_written)
{
	const struct print_doc_signed with = { "c-1", 0, 0, 1, 1796083200000, NULL, 0 };
	const struct compile_context context = { .ceiling = text_of("allow any\n") };
	struct compiled from_text, from_doc;
	struct lease_doc doc;
	struct fixture f;
	unsigned differences = 0;

	cr_assert_eq(crypto_init(), ERR_OK);
	begin(&f, whole, POLICY_LEASE);
	cr_assert_eq(print_doc_lease(f.policy, &with, &f.out), ERR_OK);
	cr_assert_eq(lease_doc_read(printed(&f), LEASE_DOC_SIGNED, &f.json_faults, &doc), ERR_OK);
	doc.nbf_ms = 0; /* the text does not say */
	cr_assert_eq(compile_lease_text("a.policy", text_of(whole), &context, &f.faults, &from_text), ERR_OK);
	doc.claimed_scope = LEASE_DOC_SCOPE_UNSAID;
	cr_assert_eq(compile_lease_doc("a", &doc, &context, &f.faults, &from_doc), ERR_OK);
	cr_assert_not(from_text.is_quarantined || from_doc.is_quarantined);
	cr_assert_eq(from_text.lease.len, from_doc.lease.len);
	/* JSON has no lines; all else is the same. */
	for (size_t i = 0; i < from_doc.lease.len; i++) {
		if (from_text.lease.bytes[i] == from_doc.lease.bytes[i])
			continue;
		cr_assert_eq(from_doc.lease.bytes[i], 0);
		cr_assert_eq(from_text.lease.bytes[i], 7 + differences++);
	}
	cr_assert_eq(differences, 3);
	compiled_finish(&from_text);
	compiled_finish(&from_doc);
	end(&f);
}

Test(print_doc, a_preset_is_read_back_as_a_ruleset_and_a_full_buffer_says_so)
{
	struct ruleset_doc doc;
	struct fixture f;

	begin(&f, "allow https://a.example\ndeny b.example\n", POLICY_PRESET);
	cr_assert_eq(print_doc_ruleset(f.policy, &f.out), ERR_OK);
	cr_assert_eq(ruleset_doc_read(printed(&f), &f.json_faults, &doc), ERR_OK);
	cr_assert_eq(doc.rule_count, 2);
	buf_finish(&f.out);
	buf_init(&f.out, 40);
	cr_assert_eq(print_doc_ruleset(f.policy, &f.out), ERR_LIMIT);
	end(&f);
}
