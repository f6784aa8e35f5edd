/* The list of reasons against the contract's: every word, in its order of precedence, with the
 * reply a client sees. */
#include "decision/reason.h"

#include <string.h>

#include <criterion/criterion.h>

#include "base/attr.h"

/* The contract's table of reasons, row by row. */
static const struct {
	const char *word;
	uint8_t reply;
	enum reason_via via;
} contract[] = {
	{ "allowed", 0x00, REASON_VIA_NONE },
	{ "socks_version", 0x01, REASON_VIA_CLOSE },
	{ "socks_malformed", 0x01, REASON_VIA_REPLY },
	{ "socks_command", 0x07, REASON_VIA_REPLY },
	{ "socks_address_type", 0x08, REASON_VIA_REPLY },
	{ "handshake_timeout", 0x01, REASON_VIA_CLOSE },
	{ "proxy_header_bad", 0x01, REASON_VIA_CLOSE },
	{ "resource", 0x01, REASON_VIA_REPLY },
	{ "draining", 0x01, REASON_VIA_REPLY },
	{ "internal", 0x01, REASON_VIA_REPLY },
	{ "not_ready", 0x01, REASON_VIA_REPLY },
	{ "control_halt", 0x01, REASON_VIA_REPLY },
	{ "control_stale", 0x01, REASON_VIA_REPLY },
	{ "audit_backpressure", 0x01, REASON_VIA_REPLY },
	{ "auth_required", 0x02, REASON_VIA_METHOD },
	{ "auth_failed", 0x02, REASON_VIA_AUTH },
	{ "identity_mismatch", 0x02, REASON_VIA_REPLY },
	{ "lease_ambiguous", 0x02, REASON_VIA_REPLY },
	{ "lease_unknown", 0x02, REASON_VIA_REPLY },
	{ "lease_not_yet", 0x02, REASON_VIA_REPLY },
	{ "lease_expired", 0x02, REASON_VIA_REPLY },
	{ "lease_suspended", 0x02, REASON_VIA_REPLY },
	{ "lease_revoked", 0x02, REASON_VIA_REPLY },
	{ "policy_invalid", 0x02, REASON_VIA_REPLY },
	{ "ruleset_missing", 0x02, REASON_VIA_REPLY },
	{ "scope_undeclared", 0x02, REASON_VIA_REPLY },
	{ "scope_none", 0x02, REASON_VIA_REPLY },
	{ "limit_connections", 0x01, REASON_VIA_REPLY },
	{ "limit_rate", 0x01, REASON_VIA_REPLY },
	{ "limit_bytes", 0x01, REASON_VIA_CLOSE },
	{ "idle_timeout", 0x01, REASON_VIA_CLOSE },
	{ "lifetime", 0x01, REASON_VIA_CLOSE },
	{ "name_invalid", 0x02, REASON_VIA_REPLY },
	{ "literal_in_name", 0x02, REASON_VIA_REPLY },
	{ "name_special", 0x02, REASON_VIA_REPLY },
	{ "own_address", 0x02, REASON_VIA_REPLY },
	{ "metadata_address", 0x02, REASON_VIA_REPLY },
	{ "special_address", 0x02, REASON_VIA_REPLY },
	{ "rule_deny", 0x02, REASON_VIA_REPLY },
	{ "ceiling_deny", 0x02, REASON_VIA_REPLY },
	{ "literal_not_listed", 0x02, REASON_VIA_REPLY },
	{ "port_not_allowed", 0x02, REASON_VIA_REPLY },
	{ "no_rule", 0x02, REASON_VIA_REPLY },
	{ "scheme_not_allowed", 0x02, REASON_VIA_REPLY },
	{ "dns_budget", 0x02, REASON_VIA_REPLY },
	{ "dns_nxdomain", 0x04, REASON_VIA_REPLY },
	{ "dns_no_address", 0x04, REASON_VIA_REPLY },
	{ "dns_malformed", 0x04, REASON_VIA_REPLY },
	{ "dns_failed", 0x04, REASON_VIA_REPLY },
	{ "dns_timeout", 0x06, REASON_VIA_REPLY },
	{ "geo_unavailable", 0x02, REASON_VIA_REPLY },
	{ "geo_denied", 0x02, REASON_VIA_REPLY },
	{ "upstream_refused", 0x05, REASON_VIA_REPLY },
	{ "upstream_reset", 0x05, REASON_VIA_REPLY },
	{ "upstream_unreachable", 0x04, REASON_VIA_REPLY },
	{ "upstream_timeout", 0x06, REASON_VIA_REPLY },
	{ "first_flight_timeout", 0x01, REASON_VIA_STREAM },
	{ "scheme_mismatch", 0x02, REASON_VIA_STREAM },
	{ "tls_malformed", 0x02, REASON_VIA_STREAM },
	{ "tls_sni_missing", 0x02, REASON_VIA_STREAM },
	{ "tls_sni_mismatch", 0x02, REASON_VIA_STREAM },
	{ "tls_ech", 0x02, REASON_VIA_STREAM },
	{ "http_malformed", 0x02, REASON_VIA_STREAM },
	{ "http_framing", 0x02, REASON_VIA_STREAM },
	{ "http_host_missing", 0x02, REASON_VIA_STREAM },
	{ "http_host_mismatch", 0x02, REASON_VIA_STREAM },
	{ "http_target_mismatch", 0x02, REASON_VIA_STREAM },
	{ "http_upgrade", 0x02, REASON_VIA_STREAM },
	{ "redirect_denied", 0x02, REASON_VIA_STREAM },
	{ "response_malformed", 0x02, REASON_VIA_STREAM },
	{ "policy_changed", 0x02, REASON_VIA_CLOSE },
};

Test(reason, the_list_is_the_contracts_in_its_order)
{
	cr_assert_eq(ARRAY_LEN(contract), REASON_COUNT);
	for (size_t i = 0; i < REASON_COUNT; i++) {
		cr_expect_str_eq(reason_word((enum reason)i), contract[i].word);
		cr_expect_eq(reason_socks_reply((enum reason)i), contract[i].reply, "%s",
			     contract[i].word);
		cr_expect_eq(reason_via((enum reason)i), contract[i].via, "%s", contract[i].word);
	}
}

Test(reason, every_word_reads_back_and_no_other_does)
{
	static const char *const none[] = { "",	      "allow",	  "allowed ", "Allowed",
					    "no_rul", "no_rules", "count",    "mode_deny_all" };
	enum reason r = REASON_COUNT;

	for (size_t i = 0; i < REASON_COUNT; i++) {
		cr_assert(reason_parse(text_of(contract[i].word), &r));
		cr_expect_eq(r, (enum reason)i);
	}
	r = REASON_LIFETIME;
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		cr_expect_not(reason_parse(text_of(none[i]), &r), "%s", none[i]);
	cr_expect_eq(r, REASON_LIFETIME);
}

Test(reason, the_earlier_in_the_list_is_the_stronger_and_allowed_yields_to_all)
{
	for (unsigned a = 0; a < REASON_COUNT; a++) {
		for (unsigned b = 0; b < REASON_COUNT; b++) {
			enum reason stronger = reason_stronger((enum reason)a, (enum reason)b);

			if (a == REASON_ALLOWED || b == REASON_ALLOWED)
				cr_assert_eq(stronger, (enum reason)(a + b));
			else
				cr_assert_eq(stronger, (enum reason)(a < b ? a : b));
		}
	}
}

Test(reason, an_impossible_value_is_internal_everywhere)
{
	enum reason wild = (enum reason)12345;

	cr_expect_str_eq(reason_word(wild), "internal");
	cr_expect_str_eq(reason_text(wild), reason_text(REASON_INTERNAL));
	cr_expect_eq(reason_socks_reply(wild), 0x01);
	cr_expect_eq(reason_via(wild), REASON_VIA_REPLY);
	cr_expect_eq(reason_fault(wild), REASON_FAULT_LOCAL);
	cr_expect_eq(reason_stronger(wild, REASON_ALLOWED), REASON_INTERNAL);
	cr_expect_eq(reason_stronger(REASON_LIFETIME, REASON_COUNT), REASON_INTERNAL);
}

Test(reason, every_sentence_and_every_refusal_are_told_apart)
{
	for (unsigned a = 0; a < REASON_COUNT; a++) {
		cr_expect_gt(strlen(reason_text((enum reason)a)), 10);
		cr_expect_leq(strlen(reason_text((enum reason)a)), 128);
		cr_expect_leq(strlen(reason_word((enum reason)a)), 32);
		cr_expect_eq(reason_socks_reply((enum reason)a) == 0, a == REASON_ALLOWED);
		cr_expect_eq(reason_fault((enum reason)a) == REASON_FAULT_NOBODY,
			     a == REASON_ALLOWED || a == REASON_IDLE_TIMEOUT);
		for (unsigned b = a + 1; b < REASON_COUNT; b++)
			cr_expect_str_neq(reason_text((enum reason)a), reason_text((enum reason)b));
	}
}
