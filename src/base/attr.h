/* Compiler attributes and three tiny macros used everywhere. No functions. */
#ifndef EGRESS_BASE_ATTR_H
#define EGRESS_BASE_ATTR_H

#include <stddef.h>

#define ATTR_MUST_CHECK __attribute__((warn_unused_result))
#define ATTR_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))
#define ATTR_NORETURN __attribute__((noreturn))
#define ATTR_UNUSED __attribute__((unused))

#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))
#define BIT(n) (1u << (n))

/* The object that embeds `member` at `ptr`. */
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
