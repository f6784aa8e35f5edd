/* Rules: any bytes give a rule that prints to a text that reads back to the same rule, or a fault that lies inside the bytes. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "compiler/pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_rule(const struct rule *rule, enum rule_action action)
{
	struct pattern_fault fault;
	struct rule again;
	char printed[RULE_TEXT_MAX], printed_again[RULE_TEXT_MAX];
	uint32_t before = 0;

	for (unsigned i = 0; i < rule->port_count; i++) {
		if (rule->ports[i].first <= before || rule->ports[i].first > rule->ports[i].last)
			__builtin_trap();
		before = rule->ports[i].last;
	}
	if (rule->host == RULE_HOST_ANY || (action == RULE_ALLOW) != rule->scheme_known)
		__builtin_trap();
	if (action == RULE_ALLOW && rule->port_count == 0)
		__builtin_trap();
	if (rule->host == RULE_HOST_WILDCARD && pattern_is_public_suffix(&rule->name))
		__builtin_trap();
	rule_print(rule, printed);
	if (pattern_parse(text_of(printed), action, PATTERN_ASCII_ONLY, &again, &fault) != ERR_OK ||
	    strcmp(printed, rule_print(&again, printed_again)) != 0)
		__builtin_trap();
}

static void check_fault(const struct pattern_fault *fault, size_t size)
{
	if (fault->code == NULL || fault->reason[0] == '\0' || fault->at > size || fault->len > size - fault->at)
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text text = { (const char *)data, size };
	struct pattern_fault fault = { 0 };
	struct rule rule;

	for (int action = RULE_ALLOW; action <= RULE_DENY; action++) {
		for (int names = PATTERN_ASCII_ONLY; names <= PATTERN_UNICODE_TOO; names++) {
			if (pattern_parse(text, (enum rule_action)action, (enum pattern_names)names, &rule, &fault) == ERR_OK)
				check_rule(&rule, (enum rule_action)action);
			else
				check_fault(&fault, size);
		}
	}
	if (pattern_parse_target(text, &rule, &fault) == ERR_OK) {
		if (rule.port_count != 1 || rule.ports[0].first != rule.ports[0].last)
			__builtin_trap();
		check_rule(&rule, RULE_ALLOW);
	}
	if (pattern_parse_host(text, PATTERN_UNICODE_TOO, &rule, &fault) == ERR_OK && rule.port_count != 0)
		__builtin_trap();
	return 0;
}
