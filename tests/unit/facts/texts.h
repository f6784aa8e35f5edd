/* Addresses and names from text for tests; a text that does not parse fails the test at once. */
#ifndef EGRESS_TESTS_FACTS_TEXTS_H
#define EGRESS_TESTS_FACTS_TEXTS_H

#include <criterion/criterion.h>

#include "base/addr.h"
#include "base/dname.h"
#include "facts/addr_class.h"

static inline struct addr addr_in(const char *text)
{
	struct addr a = { 0 };

	cr_assert(addr_parse(text_of(text), &a), "not an address: %s", text);
	return a;
}

static inline struct prefix prefix_in(const char *text)
{
	struct prefix p = { 0 };

	cr_assert(prefix_parse(text_of(text), &p), "not a prefix: %s", text);
	return p;
}

static inline struct dname dname_in(const char *text)
{
	struct dname name = { 0 };

	cr_assert(dname_parse(text_of(text), DNAME_FINAL_DOT_REFUSE, &name) == DNAME_OK,
		  "not a name: %s", text);
	return name;
}

/* What a site that declares nothing thinks of an address. */
static inline struct addr_finding finding_in(const char *text)
{
	static const struct addr_site nothing;
	struct addr a = addr_in(text);
	struct addr_finding finding;

	addr_classify(&a, &nothing, &finding);
	return finding;
}

#endif
