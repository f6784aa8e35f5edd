/* JSON to standard output; see print.h. Knows no command. */
#include "cli/print.h"

#include <stdio.h>

void print_json_text(struct text t)
{
	putchar('"');
	for (size_t i = 0; i < t.len; i++) {
		unsigned char c = (unsigned char)t.at[i];

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20 || c > 0x7e)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void print_name(const char *name, bool first)
{
	if (!first)
		putchar(',');
	print_json_text(text_of(name));
	putchar(':');
}

void print_json_member(const char *name, const char *value, bool first)
{
	print_name(name, first);
	if (value == NULL)
		fputs("null", stdout);
	else
		print_json_text(text_of(value));
}

void print_json_number(const char *name, uint64_t value, bool first)
{
	print_name(name, first);
	printf("%llu", (unsigned long long)value);
}

void print_json_bool(const char *name, bool value, bool first)
{
	print_name(name, first);
	fputs(value ? "true" : "false", stdout);
}
