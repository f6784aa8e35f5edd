/* Every suffix of a name, longest first, looked up by its hash. Knows no rules, only their numbers. Called by match. */
#include "policy/label_index.h"

static void visit_refs(const struct segment *s, struct layout_span span, label_index_fn *visit,
		       void *arg)
{
	uint32_t count;
	const uint32_t *refs = segment_table(s, LAYOUT_RULE_REFS, &count);

	for (uint32_t i = 0; i < span.count; i++)
		visit(arg, refs[span.offset + i]);
}

void label_index_visit(const struct segment *s, const struct dname *name, label_index_fn *visit,
		       void *arg)
{
	struct text whole = { .at = name->text, .len = name->len };
	const struct layout_label_entry *e = segment_label_entry(s, whole);

	if (e != NULL)
		visit_refs(s, e->exact, visit, arg);
	for (struct text rest = dname_parent(whole); rest.len > 0; rest = dname_parent(rest)) {
		e = segment_label_entry(s, rest);
		if (e != NULL)
			visit_refs(s, e->wildcard, visit, arg);
	}
}
