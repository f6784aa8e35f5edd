/* What the files of the parser share: one state, one way to tell a fault, one way to add a rule. */
#ifndef EGRESS_COMPILER_PARSE_INTERNAL_H
#define EGRESS_COMPILER_PARSE_INTERNAL_H

#include "compiler/parse.h"
#include "compiler/pattern.h"
#include "config/tokens.h"

/* Statements that may stand once; where they stood. */
enum parse_once {
	PARSE_ONCE_LEASE,
	PARSE_ONCE_TENANT,
	PARSE_ONCE_RUN,
	PARSE_ONCE_CLASS,
	PARSE_ONCE_EXPIRES,
	PARSE_ONCE_REQUIRE,
	PARSE_ONCE_LISTENER,
	PARSE_ONCE_MODE,
	PARSE_ONCE_ENFORCEMENT,
	PARSE_ONCE_OPTION_RESOLVE,
	PARSE_ONCE_OPTION_WHY,
	PARSE_ONCE_OPTION_NAMES_ONLY,
	PARSE_ONCE_OPTION_ECH,
	PARSE_ONCE_OPTION_COUNTRY,
	PARSE_ONCE_OPTION_ASN,
	PARSE_ONCE_COUNT,
};

struct parser {
	struct arena *arena;
	struct fault_list *faults;
	const char *file;
	struct policy *policy;
	bool report_allowed;
	enum pattern_names names;
	uint32_t once[PARSE_ONCE_COUNT];
	struct policy_rule **rule_tail;
	struct policy_use **use_tail, **provisioning_tail;
	struct policy_exception **exception_tail;
	struct policy_token **token_tail;
	struct policy_source **source_tail;
	bool out_of_memory;
};

/* Make an empty policy of this kind and a parser that fills it. */
enum err parser_init(struct parser *p, struct arena *arena, const char *file, enum policy_kind kind, const char *name,
		     bool report_allowed, struct fault_list *faults);
/* OK, INVALID when faults were added since `errors_before`, NO_MEMORY. */
enum err parser_finish(const struct parser *p, size_t errors_before);

struct fault_place parser_place(const struct parser *p, uint32_t line, const struct token *token);
void parser_fault(struct parser *p, struct fault_place place, const char *code, const char *format, ...) ATTR_PRINTF(4, 5);
/* First time? Otherwise a fault that names the line before. */
bool parser_once(struct parser *p, enum parse_once what, const char *word, struct fault_place place);
/* Memory from the arena; NULL notes that it ran out. */
void *parser_take(struct parser *p, size_t count, size_t size);
const char *parser_text(struct parser *p, struct text text);

/* A rule with everything but its number; judged against what its kind of policy may hold, then appended. */
void parser_add_rule(struct parser *p, const struct policy_rule *rule);
/* Read pattern text; false with a fault at `place`, whose column moves to the wrong part. */
bool parser_read_pattern(struct parser *p, struct text text, enum rule_action action, struct fault_place place,
			 struct rule *out_rule);
void parser_add_use(struct parser *p, struct policy_use ***tail, const char *name, const uint8_t *payload_sha256,
		    struct fault_place place);
void parser_add_source(struct parser *p, const struct prefix *prefix, struct fault_place place);
void parser_add_token(struct parser *p, const char *id, const uint8_t sha256[32], uint64_t exp_ms);
/* What a lease must have whatever form it came in. */
void parser_check_lease(struct parser *p);

/* Handlers of lease statements; each reads the words of one line. */
void parse_identity_line(struct parser *p, const struct token_line *line);
void parse_guest_line(struct parser *p, const struct token_line *line);
void parse_limit_line(struct parser *p, const struct token_line *line);
void parse_option_line(struct parser *p, const struct token_line *line);
void parse_mode_line(struct parser *p, const struct token_line *line);
void parse_enforcement_line(struct parser *p, const struct token_line *line);
/* "DE,FR" and "64500,64501" into places behind those there are; false with a fault. */
bool parse_places(struct parser *p, struct text list, bool is_country, struct fault_place place,
		  const struct policy_place **places, size_t *count);

#endif
