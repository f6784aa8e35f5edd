/*
 * Keysets: the next one, signed at once by the root keys that are here, or proposed and signed by one holder after the other, each where the
 * key is. Promises that no keyset stands in the folder that a proxy would not take. Part of keyring.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "authority/files.h"
#include "authority/keyring.h"
#include "authority/keyring_internal.h"
#include "base/alloc.h"
#include "base/crypto.h"
#include "base/text.h"
#include "document/keyset_doc.h"

#define KEYSET_MAX 16384

/* What the next keyset must follow: its version, and the root that must sign too. */
struct before {
	struct json_faults faults;
	uint64_t version, epoch_min;
	struct keyset_doc_root root; /* threshold 0: there was none */
};

static enum err read_before(struct arena *arena, int out, struct before *before)
{
	struct envelope envelope;
	struct keyset_doc doc;
	struct text text;
	enum err e = files_read(out, "keyset", ENVELOPE_MAX, arena, &text);

	*before = (struct before){ .version = 0 };
	json_faults_init(&before->faults, arena);
	if (e == ERR_NOT_FOUND)
		return ERR_OK;
	if (e != ERR_OK)
		return e;
	if (envelope_read(text, &envelope) != ENVELOPE_GOOD ||
	    keyset_doc_read(envelope.payload, &before->faults, &doc) != ERR_OK)
		return ERR_INVALID;
	before->version = doc.version;
	before->epoch_min = doc.epoch_min;
	before->root = doc.root;
	return ERR_OK;
}

/* How many keys of a root have signed. */
static size_t count_signed(const struct envelope *e, const struct keyset_doc_root *root)
{
	size_t good = 0;

	for (size_t k = 0; k < root->key_count; k++)
		for (size_t i = 0; i < e->signature_count; i++)
			good += strcmp(e->signatures[i].key_id, root->keys[k].id) == 0 && envelope_is_signed_by(e, i, root->keys[k].public_key);
	return good;
}

/* How many signatures are missing at least: the root before and its own each want theirs, and one may count for both. */
static size_t count_missing(const struct envelope *e, const struct keyset_doc_root *before, const struct keyset_doc_root *own)
{
	size_t of_before = count_signed(e, before), of_own = count_signed(e, own);
	size_t missing = before->threshold > of_before ? (size_t)before->threshold - of_before : 0;
	size_t missing_own = own->threshold > of_own ? (size_t)own->threshold - of_own : 0;

	return missing > missing_own ? missing : missing_own;
}

static size_t print_keyset(const struct keyring *ring, struct text root, const struct keyring_keyset *keyset, char *out_text, size_t cap)
{
	static const char *const roles[] = { "beat", "manifest", "lease" };
	struct sink s = sink_over(out_text, cap);
	size_t told;

	while (root.len > 0 && root.at[root.len - 1] == '\n')
		root.len--;
	sink_format(&s, "{\"typ\":\"egress.keyset/1\",\"ver\":%llu,\"exp_ms\":%llu,\"epoch_min\":%llu,\"root\":",
		    (unsigned long long)keyset->version, (unsigned long long)keyset->exp_ms, (unsigned long long)keyset->epoch_min);
	sink_bytes(&s, root.at, root.len);
	sink_text(&s, ",\"roles\":{");
	for (size_t r = 0; r < ARRAY_LEN(roles); r++) {
		sink_format(&s, "%s\"%s\":[", r == 0 ? "" : ",", roles[r]);
		told = 0;
		for (size_t i = 0; i < ring->count; i++)
			if (keyring_has_role(&ring->keys[i], roles[r]))
				sink_format(&s, "%s\"%s\"", told++ == 0 ? "" : ",", ring->keys[i].id);
		sink_text(&s, "]");
	}
	sink_text(&s, "},\"keys\":{");
	told = 0;
	for (size_t i = 0; i < ring->count; i++)
		if (!keyring_has_role(&ring->keys[i], "root"))
			keyring_print_public(&s, &ring->keys[i], told++ == 0);
	sink_text(&s, "}}");
	return sink_ok(&s) ? s.len : 0;
}

/* Folders and documents of one signing. */
struct signing {
	struct keyring ring;
	int keys, out; /* owned; -1: not open */
	struct before before;
};

static enum err signing_begin(struct signing *s, const char *folder, const char *out, char out_reason[KEYRING_REASON_MAX])
{
	enum err e;

	s->keys = s->out = -1;
	e = keyring_open(&s->ring, folder, true, out_reason);
	if (e != ERR_OK)
		return e;
	if (mkdir(out, 0755) != 0 && errno != EEXIST)
		return keyring_say(out_reason, ERR_SYSTEM, "folder", out);
	s->keys = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	s->out = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->keys < 0 || s->out < 0)
		return keyring_say(out_reason, ERR_SYSTEM, "folder", out);
	e = read_before(&s->ring.arena, s->out, &s->before);
	return e == ERR_OK ? e : keyring_say(out_reason, e, "the keyset in", out);
}

static void signing_end(struct signing *s)
{
	if (s->keys >= 0)
		close(s->keys);
	if (s->out >= 0)
		close(s->out);
	keyring_finish(&s->ring);
}

/* The payload of the next keyset; what no proxy would take is not signed. */
static enum err next_payload(struct signing *s, struct keyring_keyset *keyset, char out_text[KEYSET_MAX], struct text *out_payload,
			     struct keyset_doc *out_doc)
{
	struct text root;
	enum err e = files_read(s->keys, "root.json", KEYRING_ROOT_FILE_MAX, &s->ring.arena, &root);

	if (e != ERR_OK)
		return e;
	keyset->version = s->before.version + 1;
	if (keyset->epoch_min < s->before.epoch_min)
		keyset->epoch_min = s->before.epoch_min;
	*out_payload = (struct text){ out_text, print_keyset(&s->ring, root, keyset, out_text, KEYSET_MAX) };
	return keyset_doc_read(*out_payload, &s->before.faults, out_doc);
}

/* Has this key signed, or may it not? */
static bool is_done_with(const struct signing *s, const struct envelope *e, const struct keyset_doc *doc, const struct keyring_key *key)
{
	const struct keyset_doc_root *roots[] = { &doc->root, &s->before.root };
	bool is_known = false;

	for (size_t r = 0; r < ARRAY_LEN(roots); r++)
		for (size_t k = 0; k < roots[r]->key_count; k++)
			is_known = is_known || (strcmp(roots[r]->keys[k].id, key->id) == 0 &&
						memcmp(roots[r]->keys[k].public_key, key->public_key, 32) == 0);
	for (size_t i = 0; i < e->signature_count; i++)
		if (strcmp(e->signatures[i].key_id, key->id) == 0)
			return true;
	return !is_known;
}

/* Add what the root keys that are here can say; false in *out_any: nothing. The result lives in the ring's arena. */
static enum err add_signatures(struct signing *s, struct envelope *e, const struct keyset_doc *doc, bool *out_any)
{
	struct envelope_signer signers[ENVELOPE_SIGNATURES_MAX];
	size_t count = 0, room = ENVELOPE_SIGNATURES_MAX - e->signature_count, len;
	struct envelope fresh;
	uint8_t *bytes;
	enum err err;

	for (size_t i = s->ring.count; i-- > 0 && count < room;) {
		const struct keyring_key *key = &s->ring.keys[i];

		if (keyring_has_role(key, "root") && !is_done_with(s, e, doc, key))
			signers[count++] = (struct envelope_signer){ key->id, key->private_key };
	}
	*out_any = count > 0;
	err = envelope_write(ENVELOPE_KEYSET, e->payload, signers, count, &bytes, &len);
	if (err != ERR_OK)
		return err;
	if (envelope_read((struct text){ (const char *)bytes, len }, &fresh) != ENVELOPE_GOOD)
		err = ERR_INVALID;
	for (size_t i = 0; err == ERR_OK && i < fresh.signature_count; i++)
		e->signatures[e->signature_count++] = fresh.signatures[i];
	alloc_free(bytes);
	return err;
}

static enum err write_envelope(const struct signing *s, const char *name, const struct envelope *e)
{
	char bytes[ENVELOPE_HEADER_MAX + 1 + KEYSET_MAX], text[96];
	struct sink out = sink_over(bytes, sizeof(bytes));

	sink_format(&out, "{\"typ\":\"%s\",\"sigs\":[", envelope_type_name(ENVELOPE_KEYSET));
	for (size_t i = 0; i < e->signature_count; i++) {
		crypto_base64url(e->signatures[i].bytes, 64, text, sizeof(text));
		sink_format(&out, "%s{\"kid\":\"%s\",\"sig\":\"%s\"}", i == 0 ? "" : ",", e->signatures[i].key_id, text);
	}
	sink_text(&out, "]}\n");
	if (out.len > ENVELOPE_HEADER_MAX + 1)
		return ERR_LIMIT;
	sink_bytes(&out, e->payload.at, e->payload.len);
	return sink_ok(&out) ? files_write(s->out, name, bytes, out.len, 0644) : ERR_LIMIT;
}

/* Begin with the payload of the next keyset and whatever signatures can be given here. */
static enum err begin_next(struct signing *s, struct keyring_keyset *keyset, char text[KEYSET_MAX], struct envelope *out_envelope)
{
	struct keyset_doc doc;
	bool any;
	enum err e;

	*out_envelope = (struct envelope){ .type = ENVELOPE_KEYSET };
	e = next_payload(s, keyset, text, &out_envelope->payload, &doc);
	if (e == ERR_OK)
		e = add_signatures(s, out_envelope, &doc, &any);
	if (e == ERR_OK)
		keyset->missing = count_missing(out_envelope, &s->before.root, &doc.root);
	return e;
}

enum err keyring_sign(const char *folder, const char *out, struct keyring_keyset *keyset, char out_reason[KEYRING_REASON_MAX])
{
	char text[KEYSET_MAX];
	struct envelope envelope;
	struct signing s;
	enum err e = signing_begin(&s, folder, out, out_reason);

	if (e == ERR_OK) {
		e = begin_next(&s, keyset, text, &envelope);
		if (e == ERR_OK)
			e = keyset->missing > 0 ? ERR_DENIED : write_envelope(&s, "keyset", &envelope);
		if (e != ERR_OK)
			keyring_say(out_reason, e, e == ERR_DENIED ? "too few root keys (holders elsewhere: --propose, then --add) in" : "keyset of", folder);
	}
	signing_end(&s);
	return e;
}

enum err keyring_propose(const char *folder, const char *out, struct keyring_keyset *keyset, char out_reason[KEYRING_REASON_MAX])
{
	char text[KEYSET_MAX];
	struct envelope envelope;
	struct signing s;
	enum err e = signing_begin(&s, folder, out, out_reason);

	if (e == ERR_OK) {
		e = begin_next(&s, keyset, text, &envelope);
		if (e == ERR_OK)
			e = write_envelope(&s, KEYRING_PROPOSED, &envelope);
		if (e != ERR_OK)
			keyring_say(out_reason, e, "keyset of", folder);
	}
	signing_end(&s);
	return e;
}

/* What is proposed, if it is what comes next. */
static enum err read_proposed(struct signing *s, struct envelope *out_envelope, struct keyset_doc *out_doc)
{
	struct text text;
	enum err e = files_read(s->out, KEYRING_PROPOSED, KEYSET_MAX, &s->ring.arena, &text);

	if (e != ERR_OK)
		return e;
	if (envelope_read(text, out_envelope) != ENVELOPE_GOOD || out_envelope->type != ENVELOPE_KEYSET)
		return ERR_INVALID;
	e = keyset_doc_read(out_envelope->payload, &s->before.faults, out_doc);
	if (e == ERR_OK && (out_doc->version != s->before.version + 1 || out_doc->epoch_min < s->before.epoch_min))
		e = ERR_INVALID;
	return e;
}

enum err keyring_countersign(const char *folder, const char *out, struct keyring_keyset *keyset, char out_reason[KEYRING_REASON_MAX])
{
	struct envelope envelope;
	struct keyset_doc doc;
	struct signing s;
	bool any = false;
	enum err e = signing_begin(&s, folder, out, out_reason);

	if (e == ERR_OK) {
		e = read_proposed(&s, &envelope, &doc);
		if (e == ERR_OK)
			e = add_signatures(&s, &envelope, &doc, &any);
		if (e == ERR_OK && !any)
			e = ERR_DENIED;
		if (e == ERR_OK) {
			*keyset = (struct keyring_keyset){ doc.epoch_min, doc.exp_ms, doc.version,
							   count_missing(&envelope, &s.before.root, &doc.root) };
			e = write_envelope(&s, keyset->missing > 0 ? KEYRING_PROPOSED : "keyset", &envelope);
		}
		if (e == ERR_OK && keyset->missing == 0 && unlinkat(s.out, KEYRING_PROPOSED, 0) != 0)
			e = ERR_SYSTEM;
		if (e != ERR_OK)
			keyring_say(out_reason, e, e == ERR_DENIED ? "no key of the old or new root that has not signed yet in" : "what is proposed in",
				    e == ERR_DENIED ? folder : out);
	}
	signing_end(&s);
	return e;
}
