/*
 * The control codec: every message is read and written by its row of ctl_msg.def, so there is one
 * code path for all. A packet is version and type (two octets each), then the fields: u as eight
 * octets, t and b behind a four-octet length. Knows no socket and no meaning. Called by
 * control/channel on both sides.
 */
#include "wire/ctl_msg.h"

#include <string.h>

#include "base/sink.h"

#define TEXT_MAX 65000

static const struct ctl_row rows[CTL_TYPE_COUNT] = {
#define CTL_MSG(sym, word, from, fields, fd) [CTL_##sym] = { word, from, fields, fd },
#include "wire/ctl_msg.def"
#undef CTL_MSG
};

#define CTL_MSG(sym, word, from, fields, fd)                                                       \
	_Static_assert(sizeof(fields) - 1 <= CTL_MSG_FIELDS_MAX, "too many fields in " word);
#include "wire/ctl_msg.def"
#undef CTL_MSG

const struct ctl_row *ctl_row(enum ctl_type type)
{
	return (unsigned)type < CTL_TYPE_COUNT ? &rows[type] : NULL;
}

static bool bytes_fit(char letter, struct text t)
{
	if (t.len > TEXT_MAX)
		return false;
	return letter != 't' || t.len == 0 || memchr(t.at, '\0', t.len) == NULL;
}

static void read_field(struct cursor *c, char letter, struct ctl_field *field)
{
	size_t len;
	const uint8_t *at;

	if (letter == 'u') {
		field->number = cursor_be64(c);
		return;
	}
	len = cursor_be32(c);
	at = cursor_bytes(c, len);
	if (at == NULL)
		return;
	field->bytes = (struct text){ (const char *)at, len };
	if (!bytes_fit(letter, field->bytes))
		cursor_fail(c);
}

enum parsed ctl_msg_read(const uint8_t *packet, size_t len, struct ctl_msg *out_msg)
{
	struct cursor c = cursor_over_whole(packet, len);
	struct ctl_msg msg = { 0 };
	const struct ctl_row *row;
	unsigned version = cursor_be16(&c);
	unsigned type = cursor_be16(&c);

	if (!cursor_ok(&c) || len > CTL_MSG_MAX || version != CTL_MSG_VERSION ||
	    type >= CTL_TYPE_COUNT)
		return PARSED_BAD;
	msg.type = (enum ctl_type)type;
	row = &rows[type];
	for (unsigned i = 0; row->fields[i] != '\0'; i++)
		read_field(&c, row->fields[i], &msg.field[i]);
	if (!cursor_ok(&c) || cursor_left(&c) != 0)
		return PARSED_BAD;
	*out_msg = msg;
	return PARSED_OK;
}

size_t ctl_msg_write(const struct ctl_msg *msg, uint8_t *out_packet, size_t cap)
{
	const struct ctl_row *row = ctl_row(msg->type);
	struct sink s = sink_over(out_packet, cap < CTL_MSG_MAX ? cap : CTL_MSG_MAX);

	if (row == NULL)
		return 0;
	sink_be16(&s, CTL_MSG_VERSION);
	sink_be16(&s, (uint16_t)msg->type);
	for (unsigned i = 0; row->fields[i] != '\0'; i++) {
		const struct ctl_field *field = &msg->field[i];

		if (row->fields[i] == 'u') {
			sink_be64(&s, field->number);
			continue;
		}
		if (!bytes_fit(row->fields[i], field->bytes))
			return 0;
		sink_be32(&s, (uint32_t)field->bytes.len);
		sink_bytes(&s, field->bytes.at, field->bytes.len);
	}
	return sink_ok(&s) ? s.len : 0;
}
