/* Names that are special before any rule is looked at: metadata services, localhost, single labels, private suffixes. */
#ifndef EGRESS_FACTS_SPECIAL_NAMES_H
#define EGRESS_FACTS_SPECIAL_NAMES_H

#include <stdbool.h>

#include "base/dname.h"

enum name_class {
	NAME_ORDINARY,
	NAME_SPECIAL,  /* refused unless a ceiling exception names it (RFC 6761 and contract section 1) */
	NAME_METADATA, /* refused always */
};

enum name_class special_names_classify(const struct dname *name);
/*
 * Is it a name that only ever stands before an encrypted ClientHello (policy/ech_public_names)? An ordinary name, but one behind which
 * nobody sees the true destination: only a rule that names it may allow it.
 */
bool special_names_is_ech_public(const struct dname *name);

#endif
