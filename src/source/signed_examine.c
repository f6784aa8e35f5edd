/*
 * Documents that came, by the rules of acceptance: a lease's becomes its good or its bad one, a ruleset becomes a segment. Promises that each is
 * examined once, and again only for another keyset. Called by signed_set.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "source/signed_set_internal.h"

void signed_examine_say(struct signed_set *s, struct signed_lease *lease, const char *code, const char *pointer, const char *why)
{
	struct signed_words *words = lease->words;

	if (code == NULL) {
		list_remove(&s->shelf.worded, &lease->worded);
		alloc_free(words);
		lease->words = NULL;
		return;
	}
	if (words == NULL && (words = alloc_zeroed(sizeof(*words))) == NULL)
		return;
	snprintf(words->code, sizeof(words->code), "%s", code);
	snprintf(words->pointer, sizeof(words->pointer), "%s", pointer == NULL ? "" : pointer);
	snprintf(words->why, sizeof(words->why), "%s", why);
	lease->words = words;
	signed_shelf_mark(&s->shelf.worded, &lease->worded);
}

static bool keep_names(struct signed_lease *lease, const struct lease_doc *doc)
{
	uint8_t(*names)[32] = NULL;

	if (doc->ruleset_count > 0) {
		names = alloc_array(doc->ruleset_count, 32);
		if (names == NULL)
			return false;
		memcpy(names, doc->rulesets, doc->ruleset_count * 32);
	}
	alloc_free(lease->rulesets);
	lease->rulesets = names;
	lease->ruleset_count = doc->ruleset_count;
	return true;
}

static void note_bad(struct signed_set *s, struct signed_lease *lease, const struct accept_doc *doc, enum accept_result result)
{
	const struct json_fault *fault = result == ACCEPT_SCHEMA ? doc->faults.first : NULL;
	const char *code = fault == NULL ? accept_result_word(result) : fault->code;
	const char *pointer = fault == NULL ? "" : fault->pointer;
	const char *why = fault == NULL ? "the document was not accepted" : fault->text;

	lease->bad_result = result;
	lease->bad_claims = doc->has_envelope && lease_doc_rev(doc->envelope.payload, &lease->bad_rev);
	memcpy(lease->bad_sha256, doc->sha256, 32);
	signed_examine_say(s, lease, code, pointer, why);
	log_limited(&s->complaint, LOG_LEVEL_WARN, "document_refused key=l/%s result=%s code=%s pointer=%s why=\"%s\"", lease->id,
		    accept_result_word(result), code, pointer, why);
}

/* What stands in *from becomes the good or the bad document of its lease. */
bool signed_examine_lease(struct signed_set *s, struct signed_lease *lease, struct stored *from)
{
	struct stored taken = *from, *into;
	enum accept_result result;
	struct accept_doc doc;

	*from = (struct stored){ NULL, 0 };
	accept_doc_init(&doc, ENVELOPE_LEASE, lease->id, (struct text){ taken.bytes, taken.len });
	result = accept_examine(s->accept, &doc);
	if (result == ACCEPT_OK && !keep_names(lease, &doc.is.lease))
		result = ACCEPT_NOT_KEPT;
	if (result == ACCEPT_OK) {
		lease->good_rev = doc.is.lease.rev;
		memcpy(lease->good_sha256, doc.sha256, 32);
		signed_shelf_drop(&s->shelf, &lease->bad);
		list_remove(&s->shelf.faulty, &lease->faulty);
		signed_examine_say(s, lease, NULL, NULL, NULL);
	} else {
		note_bad(s, lease, &doc, result);
		signed_shelf_mark(&s->shelf.faulty, &lease->faulty);
	}
	into = result == ACCEPT_OK ? &lease->good : &lease->bad;
	signed_shelf_drop(&s->shelf, into);
	*into = taken;
	signed_shelf_mark(&s->shelf.dirty, &lease->dirty);
	s->is_match_due = true;
	accept_doc_finish(&doc);
	return result == ACCEPT_OK;
}

/* Whoever was compiled without it is compiled again. */
static void mark_less(struct signed_set *s, const uint8_t sha256[32])
{
	struct list_node *node, *next;

	LIST_FOREACH (node, next, &s->shelf.less) {
		struct signed_lease *lease = CONTAINER_OF(node, struct signed_lease, less);

		for (size_t k = 0; k < lease->ruleset_count; k++)
			if (memcmp(lease->rulesets[k], sha256, 32) == 0)
				lease->needs_compile = true;
		if (!lease->needs_compile)
			continue;
		signed_shelf_mark(&s->shelf.dirty, &lease->dirty);
		s->is_match_due = true;
	}
}

void signed_examine_ruleset(struct signed_set *s, struct signed_ruleset *ruleset)
{
	const struct compile_context context = { .report_allowed = ceiling_is_report_allowed(s->ceiling) };
	struct emitted segment = { .bytes = NULL };
	struct fault_list faults;
	struct accept_doc doc;
	char hex[65];
	bool is_new;

	text_from_bytes_hex(ruleset->sha256, 32, hex);
	accept_doc_init(&doc, ENVELOPE_RULESET, hex, (struct text){ ruleset->stored.bytes, ruleset->stored.len });
	fault_list_init(&faults, &doc.arena);
	if (accept_examine(s->accept, &doc) == ACCEPT_OK &&
	    compile_ruleset_doc(hex, &doc.is.ruleset, &context, &faults, &segment) == ERR_OK &&
	    segment_store_use(&s->store, &segment, NULL, 0, &is_new, &ruleset->segment) == ERR_OK) {
		mark_less(s, ruleset->sha256);
	} else {
		ruleset->segment = NULL;
		log_limited(&s->complaint, LOG_LEVEL_WARN, "document_refused key=r/%s why=\"%s\"", hex,
			    faults.first == NULL ? "the document was not accepted" : faults.first->text);
	}
	/* The segment is all that is wanted of it; another document under this name is looked at only while there is none. */
	signed_shelf_drop(&s->shelf, &ruleset->stored);
	emitted_finish(&segment);
	accept_doc_finish(&doc);
}
