/* Names that are special before any rule is looked at: metadata services, localhost, single labels, private suffixes. */
#ifndef EGRESS_FACTS_SPECIAL_NAMES_H
#define EGRESS_FACTS_SPECIAL_NAMES_H

#include "base/dname.h"

enum name_class {
	NAME_ORDINARY,
	NAME_SPECIAL,  /* refused unless a ceiling exception names it (RFC 6761 and contract section 1) */
	NAME_METADATA, /* refused always */
};

enum name_class special_names_classify(const struct dname *name);

#endif
