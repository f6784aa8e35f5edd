/* A bounded list of what the matcher tried. Decides nothing. Filled by match, read by the tools. */
#include "policy/trace.h"

#include <string.h>

void trace_init(struct trace *t)
{
	t->count = 0;
	t->truncated = false;
}

void trace_note(struct trace *t, enum verdict_source source, const struct segment *segment,
		uint32_t rule_number, enum trace_result result)
{
	if (t == NULL)
		return;
	if (t->count == TRACE_STEPS_MAX) {
		t->truncated = true;
		return;
	}
	t->steps[t->count++] = (struct trace_step){
		.source = source,
		.segment = segment,
		.rule_number = rule_number,
		.result = result,
	};
}

const char *trace_result_text(enum trace_result r)
{
	switch (r) {
	case TRACE_MATCHED:
		return "matches";
	case TRACE_PORT_DIFFERS:
		return "the port differs";
	case TRACE_SCHEME_DIFFERS:
		return "the scheme differs";
	case TRACE_HIDDEN_BY_TYPED:
		return "a typed rule for the same host and port goes before";
	case TRACE_PLACE_DIFFERS:
		return "the address is in another place";
	case TRACE_PLACE_UNKNOWN:
		return "the place of the address is not known";
	case TRACE_REPORT_ONLY:
		return "matches, but only reports";
	case TRACE_HIDES_A_NAME:
		return "a wildcard does not cover a name that hides another one";
	}
	return "unknown";
}

static struct prefix rule_prefix(const struct layout_rule *from)
{
	struct prefix p = { .addr = { .family = from->family }, .len = from->prefix_len };

	memcpy(p.addr.octets, from->octets, sizeof(p.addr.octets));
	return p;
}

void trace_step_rule(const struct trace_step *step, struct rule *out_rule)
{
	uint32_t count;
	const struct layout_rule *rules = segment_table(step->segment, LAYOUT_RULES, &count);
	const struct layout_ports *ports = segment_table(step->segment, LAYOUT_PORTS, &count);
	const struct layout_rule *from = &rules[step->rule_number];
	struct rule r = {
		.action = (from->flags & LAYOUT_RULE_DENY) != 0 ? RULE_DENY : RULE_ALLOW,
		.scheme_known = (from->flags & LAYOUT_RULE_SCHEME_KNOWN) != 0,
		.scheme = (enum scheme)from->scheme,
		.host = (enum rule_host)from->host,
		.prefix = rule_prefix(from),
		.port_count = (uint8_t)from->ports.count,
	};

	if (r.host == RULE_HOST_NAME || r.host == RULE_HOST_WILDCARD) {
		/* Verified to be canonical: it cannot fail. */
		if (dname_parse(segment_text(step->segment, from->name), DNAME_FINAL_DOT_REFUSE,
				&r.name) != DNAME_OK)
			r.name = (struct dname){ 0 };
	}
	for (uint32_t i = 0; i < from->ports.count; i++)
		r.ports[i] = (struct rule_ports){ .first = ports[from->ports.offset + i].first,
						  .last = ports[from->ports.offset + i].last };
	*out_rule = r;
}
