/* Children that enter a role, try something and end; the test sees only how they ended. */
#ifndef EGRESS_TESTS_SANDBOX_ATTEMPT_H
#define EGRESS_TESTS_SANDBOX_ATTEMPT_H

#include "sandbox/sandbox.h"

typedef void attempt_fn(void);

/* End the child: the line becomes its exit status, modulo what fits. */
#define REQUIRE(condition)                                                     \
	do {                                                                   \
		if (!(condition))                                              \
			attempt_failed(__FILE__, __LINE__, #condition);        \
	} while (0)

/* Keep the log quiet. */
void attempt_init(void);
void attempt_failed(const char *file, int line, const char *condition) ATTR_NORETURN;
/* Run `what` in a child that has entered `role` with these folders; returns the wait status, 0 when all went well. */
int attempt_with(const struct sandbox_options *options, attempt_fn *what);
int attempt(enum sandbox_role role, attempt_fn *what);
/* Run `what` in a child that has entered nothing. */
int attempt_outside(attempt_fn *what);

#endif
