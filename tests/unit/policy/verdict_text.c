/* See verdict_text.h. */
#include "verdict_text.h"

#include "base/sink.h"

static void put_obligations(struct sink *s, const struct verdict *v)
{
	static const char *const pins[] = { " pin=default", " pin=connection", "", " pin=lease" };
	char before = ' ';

	for (unsigned i = 0; i < SCHEME_COUNT; i++) {
		if ((v->schemes & BIT(i)) == 0)
			continue;
		sink_u8(s, (uint8_t)before);
		sink_text(s, scheme_row((enum scheme)i)->word);
		before = ',';
	}
	sink_text(s, v->pin < ARRAY_LEN(pins) ? pins[v->pin] : " pin=impossible");
	if (v->ech_refuse)
		sink_text(s, " ech");
	if (v->place_required)
		sink_text(s, " place");
}

const char *verdict_text(const struct verdict *v, char out_text[VERDICT_TEXT_MAX])
{
	struct sink s = sink_over(out_text, VERDICT_TEXT_MAX - 1);

	if (v->allow != (v->reason == REASON_ALLOWED || v->would_deny))
		sink_text(&s, "CONTRADICTION ");
	if (v->would_deny)
		sink_text(&s, "would_deny ");
	sink_text(&s, reason_word(v->reason));
	if (v->allow)
		put_obligations(&s, v);
	if (v->rule_id[0] != '\0')
		sink_format(&s, " by %s", v->rule_id);
	out_text[s.len] = '\0';
	return out_text;
}
