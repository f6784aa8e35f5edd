/* Reads `egress.keyset/1`; see keyset_doc.h. Promises that no key counts twice towards a threshold and that every role names keys that exist. */
#include "document/keyset_doc.h"

#include <string.h>

#include "document/doc_read_internal.h"
#include "document/lease_doc.h"

/* Keys by id; `max` bounds them. */
static size_t read_keys(struct json_faults *faults, const struct json_value *object, size_t max, struct keyset_doc_key *keys)
{
	size_t count = json_member_count(faults, object, max), at = 0;
	const void *cursor = NULL;
	struct json_value v;

	while (at < count && json_member_next(object, &cursor, &v)) {
		keys[at].id = arena_text(faults->arena, v.key, strlen(v.key));
		if (keys[at].id == NULL) {
			faults->out_of_memory = true;
			return 0;
		}
		if (!lease_doc_id_is_valid(text_of(v.key)))
			doc_fault(faults, &v, "bad_word", "expected letters, digits and, after the first, - _ . :");
		if (doc_bytes32(faults, &v, keys[at].public_key)) {
			for (size_t i = 0; i < at; i++)
				if (memcmp(keys[i].public_key, keys[at].public_key, 32) == 0)
					doc_fault(faults, &v, "duplicate_word", "this key is here under another id");
		}
		at++;
	}
	return at;
}

static void read_root(struct json_faults *faults, const struct json_value *object, struct keyset_doc_root *root)
{
	static const struct json_key known[] = { { "threshold", true }, { "keys", true } };
	struct json_value keys = json_member(object, "keys");

	if (!json_object_check(faults, object, known, ARRAY_LEN(known)))
		return;
	root->key_count = read_keys(faults, &keys, KEYSET_DOC_ROOT_MAX, root->keys);
	if (root->key_count == 0) {
		doc_fault(faults, &keys, "empty", "at least one root key is needed");
		return;
	}
	root->threshold = doc_number(faults, object, "threshold", 1, root->key_count);
}

static void read_role(struct json_faults *faults, const struct json_value *roles, const char *name, enum keyset_doc_role role,
		      struct keyset_doc *doc, unsigned *key_roles)
{
	struct json_value list = json_member(roles, name);
	size_t count = json_array_count(faults, &list, KEYSET_DOC_KEYS_MAX);

	for (size_t i = 0; i < count; i++) {
		struct json_value v = json_element(&list, i);
		const char *id;
		size_t k = 0;

		if (!json_text(faults, &v, 1, DOC_ID_MAX, &id))
			continue;
		while (k < doc->key_count && strcmp(doc->keys[k].id, id) != 0)
			k++;
		if (k == doc->key_count)
			doc_fault(faults, &v, "unknown_word", "there is no such key in keys");
		else if ((key_roles[k] & 1u << role) != 0)
			doc_fault(faults, &v, "duplicate_word", "this key has the role already");
		else
			key_roles[k] |= 1u << role;
	}
}

static void read_roles(struct json_faults *faults, const struct json_value *top, struct keyset_doc *doc)
{
	static const struct json_key known[] = { { "beat", true }, { "manifest", true }, { "lease", true } };
	struct json_value keys = json_member(top, "keys"), roles = json_member(top, "roles");
	struct keyset_doc_key *room = doc_take(faults, KEYSET_DOC_KEYS_MAX, sizeof(*room));
	unsigned *key_roles = doc_take(faults, KEYSET_DOC_KEYS_MAX, sizeof(*key_roles));

	if (room == NULL || key_roles == NULL)
		return;
	doc->key_count = read_keys(faults, &keys, KEYSET_DOC_KEYS_MAX, room);
	doc->keys = room;
	doc->key_roles = key_roles;
	if (!json_object_check(faults, &roles, known, ARRAY_LEN(known)))
		return;
	read_role(faults, &roles, "beat", KEYSET_DOC_BEAT, doc, key_roles);
	read_role(faults, &roles, "manifest", KEYSET_DOC_MANIFEST, doc, key_roles);
	read_role(faults, &roles, "lease", KEYSET_DOC_LEASE, doc, key_roles);
}

enum err keyset_doc_read(struct text payload, struct json_faults *faults, struct keyset_doc *out_doc)
{
	static const struct json_key known[] = {
		{ "typ", true },  { "ver", true },   { "exp_ms", true }, { "epoch_min", true },
		{ "root", true }, { "roles", true }, { "keys", true },
	};
	struct keyset_doc doc = { .version = 0 };
	size_t before = faults->count;
	struct json_value top, root;
	struct json *json;
	enum err err = json_open(payload, faults, &json);

	if (err != ERR_OK)
		return err;
	top = json_top(json);
	root = json_member(&top, "root");
	if (json_object_check(faults, &top, known, ARRAY_LEN(known))) {
		doc_type(faults, &top, "egress.keyset/1");
		doc.version = doc_number(faults, &top, "ver", 1, DOC_WHOLE_MAX);
		doc.exp_ms = doc_number(faults, &top, "exp_ms", 1, DOC_TIME_MAX_MS);
		doc.epoch_min = doc_number(faults, &top, "epoch_min", 0, DOC_WHOLE_MAX);
		read_root(faults, &root, &doc.root);
		read_roles(faults, &top, &doc);
	}
	json_close(json);
	err = doc_outcome(faults, before);
	if (err == ERR_OK)
		*out_doc = doc;
	return err;
}

enum err keyset_doc_root_read(struct text text, struct json_faults *faults, struct keyset_doc_root *out_root)
{
	struct keyset_doc_root root = { .threshold = 0 };
	size_t before = faults->count;
	struct json_value top;
	struct json *json;
	enum err err = json_open(text, faults, &json);

	if (err != ERR_OK)
		return err;
	top = json_top(json);
	read_root(faults, &top, &root);
	json_close(json);
	err = doc_outcome(faults, before);
	if (err == ERR_OK)
		*out_root = root;
	return err;
}

const uint8_t *keyset_doc_find(const struct keyset_doc *doc, const char *id, enum keyset_doc_role role)
{
	for (size_t i = 0; i < doc->key_count; i++)
		if (strcmp(doc->keys[i].id, id) == 0 && (doc->key_roles[i] & 1u << role) != 0)
			return doc->keys[i].public_key;
	return NULL;
}
