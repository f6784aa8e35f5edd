/* U-labels in rules to A-labels (RFC 5891), at compile time only. Sole includer of libidn2. Never repairs: what is not a valid label refuses. */
#ifndef EGRESS_COMPILER_IDNA_H
#define EGRESS_COMPILER_IDNA_H

#include "base/attr.h"
#include "base/dname.h"
#include "base/err.h"
#include "base/text.h"

/* Convert a UTF-8 name with U-labels into its A-label text. INVALID with a sentence (static text) in *out_reason; NO_MEMORY. */
enum err idna_to_ascii(struct text name, char out_ascii[DNAME_MAX + 2], const char **out_reason) ATTR_MUST_CHECK;

#endif
