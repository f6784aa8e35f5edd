/* See doc_read_internal.h. Promises that a reader that finds nothing says nothing, and that every fault has its pointer. */
#include "document/doc_read_internal.h"

#include <string.h>

#include "base/crypto.h"
#include "document/lease_doc.h"


void doc_fault(struct json_faults *faults, const struct json_value *v, const char *code, const char *sentence)
{
	const char *pointer = json_pointer(faults, v);

	json_fault_add(faults, pointer == NULL ? "" : pointer, code, "%s", sentence);
}

const char *doc_id(struct json_faults *faults, const struct json_value *object, const char *name)
{
	struct json_value v = json_member(object, name);
	const char *text = "";

	if (!json_text(faults, &v, 1, DOC_ID_MAX, &text))
		return "";
	if (!lease_doc_id_is_valid(text_of(text)))
		doc_fault(faults, &v, "bad_word", "expected letters, digits and, after the first, - _ . :");
	return text;
}

uint64_t doc_number(struct json_faults *faults, const struct json_value *object, const char *name, uint64_t min, uint64_t max)
{
	struct json_value v = json_member(object, name);
	uint64_t number = 0;

	json_u64(faults, &v, min, max, &number);
	return number;
}

bool doc_bytes32(struct json_faults *faults, const struct json_value *v, uint8_t out_bytes[32])
{
	const char *text;

	if (!json_text(faults, v, 0, 64, &text))
		return false;
	if (crypto_base64url_decode(text, strlen(text), out_bytes, 32))
		return true;
	doc_fault(faults, v, "bad_digest", "expected 43 base64url characters");
	return false;
}

void doc_type(struct json_faults *faults, const struct json_value *top, const char *expected)
{
	struct json_value v = json_member(top, "typ");
	const char *text;

	if (json_text(faults, &v, 0, 64, &text) && strcmp(text, expected) != 0)
		doc_fault(faults, &v, "unknown_word", "this is the type of another document");
}

void *doc_take(struct json_faults *faults, size_t count, size_t size)
{
	void *room = arena_take_array(faults->arena, count, size);

	if (room == NULL)
		faults->out_of_memory = true;
	return room;
}

enum err doc_outcome(const struct json_faults *faults, size_t before)
{
	if (faults->out_of_memory)
		return ERR_NO_MEMORY;
	return faults->count == before ? ERR_OK : ERR_INVALID;
}
