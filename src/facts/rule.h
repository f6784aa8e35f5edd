/* A rule's value and its printer; compiler/pattern only parses. One grammar for every place a rule is seen. */
#ifndef EGRESS_FACTS_RULE_H
#define EGRESS_FACTS_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/dname.h"
#include "base/scheme.h"

#define RULE_PORTS_MAX 16
#define RULE_TEXT_MAX 512
#define RULE_ID_MAX 64   /* characters */
#define RULE_NOTE_MAX 256

enum rule_action { RULE_ALLOW, RULE_DENY };
enum rule_host {
	RULE_HOST_NAME,     /* exactly this name */
	RULE_HOST_WILDCARD, /* one or more labels below `name` */
	RULE_HOST_PREFIX,   /* an address or prefix */
	RULE_HOST_ANY,      /* the ceiling's `allow any` */
};
enum rule_pin { RULE_PIN_DEFAULT, RULE_PIN_CONNECTION, RULE_PIN_TTL, RULE_PIN_LEASE }; /* ascending strictness */

struct rule_ports {
	uint16_t first, last;
};

struct rule {
	enum rule_action action;
	bool scheme_known;      /* allow rules but `any`; deny is blind to scheme */
	enum scheme scheme;
	enum rule_host host;
	struct dname name;      /* NAME, WILDCARD (without "*.") */
	struct prefix prefix;   /* PREFIX */
	uint8_t port_count;     /* 0: all ports (deny without ports, `any`) */
	struct rule_ports ports[RULE_PORTS_MAX]; /* ascending, disjoint */
};

/* Print as the grammar has it, default port left out: "https://api.example.org", "tcp://[2001:db8::/32]:443-444". Returns out_text. */
const char *rule_print(const struct rule *r, char out_text[RULE_TEXT_MAX]);

#endif
