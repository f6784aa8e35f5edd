/* Typed options: the tables, and which reader and printer each type has; see option.h. Knows no section's meaning. */
#include "config/option.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config/option_internal.h"

/* Only CHOICE keeps its words where the others keep their least value. */
#define OPTION_MIN_NUMBER(min) (min)
#define OPTION_MIN_SWITCH(min) (min)
#define OPTION_MIN_CHOICE(min) 0
#define OPTION_MIN_TEXT(min) (min)
#define OPTION_MIN_PATH(min) (min)
#define OPTION_MIN_MODE(min) (min)
#define OPTION_MIN_ADDR4(min) (min)
#define OPTION_MIN_ADDR6(min) (min)
#define OPTION_MIN_PREFIXES(min) (min)
#define OPTION_MIN_NAT64(min) (min)
#define OPTION_MIN_ENDPOINTS(min) (min)
#define OPTION_MIN_BIND(min) (min)
#define OPTION_MIN_SOURCE(min) (min)
#define OPTION_WORDS_NUMBER(min) ""
#define OPTION_WORDS_SWITCH(min) ""
#define OPTION_WORDS_CHOICE(min) min
#define OPTION_WORDS_TEXT(min) ""
#define OPTION_WORDS_PATH(min) ""
#define OPTION_WORDS_MODE(min) ""
#define OPTION_WORDS_ADDR4(min) ""
#define OPTION_WORDS_ADDR6(min) ""
#define OPTION_WORDS_PREFIXES(min) ""
#define OPTION_WORDS_NAT64(min) ""
#define OPTION_WORDS_ENDPOINTS(min) ""
#define OPTION_WORDS_BIND(min) ""
#define OPTION_WORDS_SOURCE(min) ""

#define OPTION(name, type, min, max, standard, unit, reload, text)                                    \
	{ #name, OPTION_##type, OPTION_MIN_##type(min), max, OPTION_WORDS_##type(min), standard, unit, \
	  OPTION_##reload, text, offsetof(struct OPTION_STRUCT, name) },

#define OPTION_STRUCT daemon_options
static const struct option_row daemon_rows[] = {
#include "config/daemon_options.def"
};
#undef OPTION_STRUCT
#define OPTION_STRUCT sidecar_options
static const struct option_row sidecar_rows[] = {
#include "config/sidecar_options.def"
};
#undef OPTION_STRUCT
#define OPTION_STRUCT listener_option
static const struct option_row listener_rows[] = {
#include "config/listener_options.def"
};
#undef OPTION_STRUCT
#define OPTION_STRUCT serve_options
static const struct option_row serve_rows[] = {
#include "config/serve_options.def"
};
#undef OPTION_STRUCT

const struct option_row *option_table(struct text section, size_t *out_count)
{
	if (text_is(section, "daemon")) {
		*out_count = ARRAY_LEN(daemon_rows);
		return daemon_rows;
	}
	if (text_is(section, "sidecar")) {
		*out_count = ARRAY_LEN(sidecar_rows);
		return sidecar_rows;
	}
	if (text_is(section, "listener")) {
		*out_count = ARRAY_LEN(listener_rows);
		return listener_rows;
	}
	if (text_is(section, "serve")) {
		*out_count = ARRAY_LEN(serve_rows);
		return serve_rows;
	}
	return NULL;
}

static void *option_field(const struct option_row *row, void *options)
{
	return (char *)options + row->offset;
}

static const void *option_field_of(const struct option_row *row, const void *options)
{
	return (const char *)options + row->offset;
}

bool option_is_list(const struct option_row *row)
{
	return row->type == OPTION_PREFIXES || row->type == OPTION_NAT64 || row->type == OPTION_ENDPOINTS;
}

static enum err parse_number(const struct option_row *row, struct text value, void *field, char *reason)
{
	uint64_t number;

	if (!text_to_u64(value, row->max, &number) || number < row->min) {
		snprintf(reason, OPTION_REASON_MAX, "expected a number from %" PRIu64 " to %" PRIu64 "%s%s", row->min,
			 row->max, row->unit[0] == '\0' ? "" : " ", row->unit);
		return ERR_INVALID;
	}
	*(uint64_t *)field = number;
	return ERR_OK;
}

static enum err parse_switch(struct text value, void *field, char *reason)
{
	if (!text_is(value, "on") && !text_is(value, "off")) {
		snprintf(reason, OPTION_REASON_MAX, "expected on or off");
		return ERR_INVALID;
	}
	*(bool *)field = text_is(value, "on");
	return ERR_OK;
}

/* The nth word of "first|second|…"; empty beyond the last. */
static struct text choice_word(const char *words, unsigned nth)
{
	struct text word = text_of(words);

	for (;; nth--) {
		const char *bar = memchr(word.at, '|', word.len);
		size_t len = bar == NULL ? word.len : (size_t)(bar - word.at);

		if (nth == 0)
			return (struct text){ word.at, len };
		if (bar == NULL)
			return (struct text){ word.at + word.len, 0 };
		word.at += len + 1;
		word.len -= len + 1;
	}
}

static enum err parse_choice(const struct option_row *row, struct text value, void *field, char *reason)
{
	for (unsigned i = 0; choice_word(row->words, i).len > 0; i++) {
		if (text_equal(choice_word(row->words, i), value)) {
			*(unsigned *)field = i;
			return ERR_OK;
		}
	}
	snprintf(reason, OPTION_REASON_MAX, "expected one of: %s", row->words);
	return ERR_INVALID;
}

static enum err parse_mode(const struct option_row *row, struct text value, void *field, char *reason)
{
	uint32_t mode = 0;
	bool good = value.len >= 3 && value.len <= 4;

	for (size_t i = 0; good && i < value.len; i++) {
		good = value.at[i] >= '0' && value.at[i] <= '7';
		mode = mode * 8 + (uint32_t)(value.at[i] - '0');
	}
	if (!good || mode < row->min || mode > row->max) {
		snprintf(reason, OPTION_REASON_MAX, "expected permissions in octal, such as 0660");
		return ERR_INVALID;
	}
	*(uint32_t *)field = mode;
	return ERR_OK;
}

static enum err parse_addr(struct text value, enum addr_family family, void *field, char *reason)
{
	static const uint8_t zeros[16];
	struct addr addr;

	if (!addr_parse(value, &addr) || addr.family != family || memcmp(addr.octets, zeros, 16) == 0) {
		snprintf(reason, OPTION_REASON_MAX, "expected one IPv%d address", (int)family);
		return ERR_INVALID;
	}
	*(struct addr *)field = addr;
	return ERR_OK;
}

enum err option_parse(const struct option_row *row, struct text value, struct arena *arena, void *options,
		      char out_reason[OPTION_REASON_MAX])
{
	void *field = option_field(row, options);

	if (value.len == 0) {
		snprintf(out_reason, OPTION_REASON_MAX, "the value is empty; leave the line out to have the default");
		return ERR_INVALID;
	}
	if (value.len > OPTION_VALUE_MAX - 1) {
		snprintf(out_reason, OPTION_REASON_MAX, "the value is longer than %d bytes", OPTION_VALUE_MAX - 1);
		return ERR_INVALID;
	}
	switch (row->type) {
	case OPTION_NUMBER:
		return parse_number(row, value, field, out_reason);
	case OPTION_SWITCH:
		return parse_switch(value, field, out_reason);
	case OPTION_CHOICE:
		return parse_choice(row, value, field, out_reason);
	case OPTION_MODE:
		return parse_mode(row, value, field, out_reason);
	case OPTION_ADDR4:
		return parse_addr(value, ADDR_V4, field, out_reason);
	case OPTION_ADDR6:
		return parse_addr(value, ADDR_V6, field, out_reason);
	case OPTION_TEXT:
		return option_parse_text(value, arena, field, out_reason);
	case OPTION_PATH:
		return option_parse_path(value, arena, field, out_reason);
	case OPTION_PREFIXES:
		return option_parse_prefixes(value, arena, field, out_reason);
	case OPTION_NAT64:
		return option_parse_nat64(value, arena, field, out_reason);
	case OPTION_ENDPOINTS:
		return option_parse_endpoints(value, arena, field, out_reason);
	case OPTION_BIND:
		return option_parse_bind(value, arena, field, out_reason);
	case OPTION_SOURCE:
		return option_parse_source(value, arena, field, out_reason);
	case OPTION_TYPE_COUNT:
		break;
	}
	snprintf(out_reason, OPTION_REASON_MAX, "this option has no known type");
	return ERR_INVALID;
}

enum err option_set_defaults(struct text section, struct arena *arena, void *options)
{
	size_t count;
	const struct option_row *rows = option_table(section, &count);
	char reason[OPTION_REASON_MAX];

	if (rows == NULL)
		return ERR_NOT_FOUND;
	for (size_t i = 0; i < count; i++) {
		enum err err;

		if (rows[i].standard[0] == '\0')
			continue;
		err = option_parse(&rows[i], text_of(rows[i].standard), arena, options, reason);
		if (err != ERR_OK)
			return err;
	}
	return ERR_OK;
}

size_t option_print(const struct option_row *row, const void *options, char out_text[OPTION_VALUE_MAX])
{
	const void *field = option_field_of(row, options);

	out_text[0] = '\0';
	switch (row->type) {
	case OPTION_NUMBER:
		snprintf(out_text, OPTION_VALUE_MAX, "%" PRIu64, *(const uint64_t *)field);
		break;
	case OPTION_SWITCH:
		snprintf(out_text, OPTION_VALUE_MAX, "%s", *(const bool *)field ? "on" : "off");
		break;
	case OPTION_CHOICE: {
		struct text word = choice_word(row->words, *(const unsigned *)field);

		snprintf(out_text, OPTION_VALUE_MAX, "%.*s", (int)word.len, word.at);
		break;
	}
	case OPTION_MODE:
		snprintf(out_text, OPTION_VALUE_MAX, "%04o", *(const uint32_t *)field);
		break;
	case OPTION_ADDR4:
	case OPTION_ADDR6:
		if (((const struct addr *)field)->family != ADDR_NONE)
			addr_print(field, out_text);
		break;
	case OPTION_TEXT:
	case OPTION_PATH:
		if (*(const char *const *)field != NULL)
			snprintf(out_text, OPTION_VALUE_MAX, "%s", *(const char *const *)field);
		break;
	case OPTION_PREFIXES:
	case OPTION_NAT64:
		option_print_prefixes(field, out_text);
		break;
	case OPTION_ENDPOINTS:
		option_print_endpoints(field, out_text);
		break;
	case OPTION_BIND:
		option_print_bind(field, out_text);
		break;
	case OPTION_SOURCE:
		option_print_source(field, out_text);
		break;
	case OPTION_TYPE_COUNT:
		break;
	}
	return strlen(out_text);
}

/* Printed values are canonical, so equal text is equal value for every type. */
bool option_is_equal(const struct option_row *row, const void *a, const void *b)
{
	char text_a[OPTION_VALUE_MAX], text_b[OPTION_VALUE_MAX];
	size_t len = option_print(row, a, text_a);

	return len == option_print(row, b, text_b) && memcmp(text_a, text_b, len) == 0;
}
