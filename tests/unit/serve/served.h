/* Editions of a cell out of plain texts, for the tests of what hands them on. */
#ifndef EGRESS_TESTS_UNIT_SERVE_SERVED_H
#define EGRESS_TESTS_UNIT_SERVE_SERVED_H

#include "serve/serve_cell.h"

struct serve_doc *served_doc(const char *key, const char *text);
/* `docs`: key and text of each. */
struct serve_edition *served_edition(const char *cursor, const char *const (*docs)[2], size_t count);

#endif
