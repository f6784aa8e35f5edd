/*
 * The one canonicaliser of names (contract section 1). Decides what is a name and what it looks like; knows
 * nothing of rules, special names or addresses.
 */
#include "base/dname.h"

#include <string.h>

#define LABEL_MAX 63

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || text_is_digit(c) || c == '-' || c == '_';
}

static bool is_hex_digit(char c)
{
	return text_is_digit(c) || (c >= 'a' && c <= 'f');
}

/* Digits alone, or 0x and any number of hex digits, also none: what URL parsers would read as an IPv4 part. */
static bool label_is_number(const char *label, size_t len)
{
	bool hex = len >= 2 && label[0] == '0' && label[1] == 'x';

	for (size_t i = hex ? 2 : 0; i < len; i++) {
		if (hex ? !is_hex_digit(label[i]) : !text_is_digit(label[i]))
			return false;
	}
	return len > 0;
}

enum dname_result dname_parse(struct text in, enum dname_final_dot dot, struct dname *out_name)
{
	struct dname name = { .label_count = 1 };
	size_t label_at = 0;

	if (in.len > 0 && in.at[in.len - 1] == '.') {
		if (dot == DNAME_FINAL_DOT_REFUSE)
			return DNAME_INVALID;
		in.len--;
	}
	if (in.len == 0 || in.len > DNAME_MAX)
		return DNAME_INVALID;
	for (size_t i = 0; i < in.len; i++) {
		char c = text_lower(in.at[i]);

		if (c == '.') {
			if (i == label_at)
				return DNAME_INVALID;
			label_at = i + 1;
			name.label_count++;
		} else if (!is_name_char(c) || i - label_at >= LABEL_MAX) {
			return DNAME_INVALID;
		}
		name.text[i] = c;
	}
	if (label_at == in.len)
		return DNAME_INVALID;
	if (label_is_number(name.text + label_at, in.len - label_at))
		return DNAME_NUMERIC;
	name.len = (uint8_t)in.len;
	*out_name = name;
	return DNAME_OK;
}

bool dname_equal(const struct dname *a, const struct dname *b)
{
	return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

bool dname_is_within(const struct dname *name, struct text suffix)
{
	size_t above;

	if (suffix.len == 0 || suffix.len > name->len)
		return false;
	above = name->len - suffix.len;
	if (memcmp(name->text + above, suffix.at, suffix.len) != 0)
		return false;
	return above == 0 || name->text[above - 1] == '.';
}

struct text dname_parent(struct text name)
{
	const char *dot = name.len > 0 ? memchr(name.at, '.', name.len) : NULL;

	if (dot == NULL)
		return (struct text){ name.at + name.len, 0 };
	return (struct text){ dot + 1, name.len - (size_t)(dot + 1 - name.at) };
}

size_t dname_to_wire(const struct dname *name, uint8_t out_wire[255])
{
	size_t at = 0;
	struct text rest = { name->text, name->len };

	while (rest.len > 0) {
		struct text parent = dname_parent(rest);
		size_t label_len = rest.len - parent.len - (parent.len > 0 ? 1 : 0);

		out_wire[at++] = (uint8_t)label_len;
		memcpy(out_wire + at, rest.at, label_len);
		at += label_len;
		rest = parent;
	}
	out_wire[at++] = 0;
	return at;
}
