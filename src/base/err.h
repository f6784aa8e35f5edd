/* Our own failures, as values. Protocol outcomes and refusals have their own words (decision/reason). */
#ifndef EGRESS_BASE_ERR_H
#define EGRESS_BASE_ERR_H

#define ERRS(X)                                                        \
	X(OK, "ok")                                                    \
	X(NO_MEMORY, "out of memory")                                  \
	X(LIMIT, "a configured limit was reached")                     \
	X(SYSTEM, "a system call failed (see errno)")                  \
	X(INVALID, "the value is not valid")                           \
	X(NOT_FOUND, "there is no such thing")                         \
	X(EXISTS, "it exists already")                                 \
	X(DENIED, "not permitted")                                     \
	X(CLOSED, "the other side is gone")                            \
	X(AGAIN, "not now; try again")                                 \
	X(UNSUPPORTED, "this machine or build cannot do it")

#define ERRS_AS_ENUM(sym, text) ERR_##sym,
enum err { ERRS(ERRS_AS_ENUM) ERR_COUNT };
#undef ERRS_AS_ENUM

/* Say what `e` means, for people. Never NULL. */
const char *err_text(enum err e);

#endif
