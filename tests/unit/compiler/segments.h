/* Compile a text to a segment and open it as the daemon would, for tests of the emitter. */
#ifndef EGRESS_TESTS_COMPILER_SEGMENTS_H
#define EGRESS_TESTS_COMPILER_SEGMENTS_H

#include "base/alloc.h"
#include "base/crypto.h"
#include "compiler/emit.h"
#include "image/segment.h"
#include "tests/unit/compiler/texts.h"

static inline struct segment *segment_verified(const struct emitted *e)
{
	struct segment *s = NULL;
	const char *fault = "";

	cr_assert_eq(segment_open_bytes(e->bytes, e->len, &s, &fault), ERR_OK, "%s", fault);
	cr_assert_eq(memcmp(segment_id(s), e->id, LAYOUT_ID_LEN), 0);
	return s;
}

static inline enum err segment_emit(const char *text, enum policy_kind kind, struct emitted *out_segment)
{
	struct parsed_text t;
	enum err err;

	cr_assert_eq(crypto_init(), ERR_OK);
	text_parse(&t, text, kind, true);
	cr_assert_eq(t.err, ERR_OK, "%s: %s", text, t.faults.first == NULL ? "" : t.faults.first->text);
	err = kind == POLICY_PRESET ? emit_ruleset(t.policy, out_segment) :
	      kind == POLICY_LEASE  ? emit_lease(t.policy, NULL, NULL, 0, false, out_segment) :
				      emit_ceiling(t.policy, NULL, 0, out_segment);
	text_finish(&t);
	return err;
}

static inline struct segment *segment_from(const char *text, enum policy_kind kind)
{
	struct emitted e;
	struct segment *s;

	cr_assert_eq(segment_emit(text, kind, &e), ERR_OK);
	s = segment_verified(&e);
	emitted_finish(&e);
	return s;
}

#endif
