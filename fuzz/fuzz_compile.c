/* Whole policies: any text is compiled or quarantined; what comes out is a segment that the daemon takes, and the same text gives the same bytes. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/crypto.h"
#include "compiler/compile.h"
#include "image/segment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum err read_preset(void *arg, const char *name, struct text *out_text)
{
	/* Every other name is a preset that holds something, so that uses are followed. */
	if (strlen(name) % 2 == 0)
		return ERR_NOT_FOUND;
	*out_text = text_of("allow https://preset.example as p\nuse deeper\n");
	return ERR_OK;
}

static void check_segment(const struct emitted *e)
{
	struct segment *segment;
	const char *fault;

	if (segment_open_bytes(e->bytes, e->len, &segment, &fault) != ERR_OK)
		__builtin_trap();
	if (memcmp(segment_id(segment), e->id, LAYOUT_ID_LEN) != 0)
		__builtin_trap();
	segment_unref(segment);
}

static void check_lease(const struct compiled *c, const struct fault_list *faults)
{
	if (c->is_quarantined != (faults->error_count > 0) || (!c->is_quarantined && c->id[0] == '\0'))
		__builtin_trap();
	if ((c->lease.bytes != NULL) != (c->id[0] != '\0'))
		__builtin_trap();
	if (c->lease.bytes == NULL)
		return;
	check_segment(&c->lease);
	for (size_t i = 0; i < c->ruleset_count; i++)
		check_segment(&c->rulesets[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct compile_context context = { .preset = read_preset, .ceiling = text_of("allow any\nlimit names 9\n") };
	struct text text = { (const char *)data, size };
	struct compiled first, second;
	struct fault_list faults;
	struct emitted ceiling;
	struct arena arena;

	arena_init(&arena, 0);
	fault_list_init(&faults, &arena);
	if (crypto_init() != ERR_OK || compile_lease_text("fuzz", text, &context, &faults, &first) != ERR_OK)
		__builtin_trap();
	check_lease(&first, &faults);
	if (compile_lease_text("fuzz", text, &context, &faults, &second) != ERR_OK)
		__builtin_trap();
	if (first.lease.len != second.lease.len ||
	    (first.lease.len > 0 && memcmp(first.lease.bytes, second.lease.bytes, first.lease.len) != 0))
		__builtin_trap();
	compiled_finish(&first);
	compiled_finish(&second);
	if (compile_ceiling_text("fuzz", text, &context, &faults, &ceiling) == ERR_OK) {
		check_segment(&ceiling);
		emitted_finish(&ceiling);
	}
	arena_finish(&arena);
	return 0;
}
