/* See keyring.h. Private keys are written for their owner alone and wiped from memory. */
#include "authority/keyring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "authority/files.h"
#include "authority/keyring_internal.h"
#include "base/alloc.h"
#include "base/crypto.h"
#include "base/sink.h"
#include "base/text.h"
#include "document/keyset_doc.h"
#include "document/lease_doc.h"

#define KEY_FILE_MAX 128
#define ENDING ".key"
#define ROOT_FILE "root.json"
#define NUMBER_MAX 1000000000

enum err keyring_say(char out_reason[KEYRING_REASON_MAX], enum err e, const char *what, const char *name)
{
	const char *why = e == ERR_SYSTEM ? strerror(errno) :
			  e == ERR_DENIED ? "it is another user's, or others may write or read it (chmod go-w, o-rwx)" :
					    err_text(e);

	snprintf(out_reason, KEYRING_REASON_MAX, "%s %s: %s", what, name, why);
	return e;
}

static int open_folder(const char *folder)
{
	return open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static enum err read_key(struct keyring *ring, int folder, const char *id)
{
	struct keyring_key *key = &ring->keys[ring->count];
	char name[ENVELOPE_KEY_ID_MAX + sizeof(ENDING)];
	struct text text;
	enum err e;

	if (ring->count == KEYRING_MAX)
		return ERR_LIMIT;
	if (!lease_doc_id_is_valid(text_of(id)))
		return ERR_INVALID;
	snprintf(name, sizeof(name), "%s" ENDING, id);
	/* Its group may read it, as where secrets are mounted. */
	if (!files_is_ours(folder, name, 027))
		return ERR_DENIED;
	e = files_read(folder, name, KEY_FILE_MAX, &ring->arena, &text);
	if (e != ERR_OK)
		return e;
	while (text.len > 0 && text.at[text.len - 1] == '\n')
		text.len--;
	key->id = id;
	e = crypto_base64url_decode(text.at, text.len, key->private_key, 32) ? ERR_OK : ERR_INVALID;
	crypto_wipe((void *)(uintptr_t)text.at, text.len);
	if (e == ERR_OK)
		e = crypto_ed25519_public(key->private_key, key->public_key);
	ring->count += e == ERR_OK;
	return e;
}

/* beat-2 comes before beat-10. */
static int by_number(const void *a, const void *b)
{
	const struct keyring_key *x = a, *y = b;
	size_t x_len = strlen(x->id), y_len = strlen(y->id);

	if (x_len != y_len)
		return x_len < y_len ? -1 : 1;
	return strcmp(x->id, y->id);
}

enum err keyring_open(struct keyring *ring, const char *folder, bool with_root, char out_reason[KEYRING_REASON_MAX])
{
	const char *const *names;
	size_t count;
	int fd = open_folder(folder);
	enum err e;

	*ring = (struct keyring){ .count = 0 };
	arena_init(&ring->arena, 0);
	if (fd < 0)
		return keyring_say(out_reason, ERR_SYSTEM, "key folder", folder);
	e = files_is_ours(fd, ".", 022) ? files_list(fd, ".", ENDING, &ring->arena, &names, &count) : ERR_DENIED;
	if (e != ERR_OK)
		keyring_say(out_reason, e, "key folder", folder);
	for (size_t i = 0; i < count && e == ERR_OK; i++) {
		if (!with_root && strncmp(names[i], "root-", 5) == 0)
			continue;
		e = read_key(ring, fd, names[i]);
		if (e != ERR_OK)
			keyring_say(out_reason, e, "key", names[i]);
	}
	close(fd);
	qsort(ring->keys, ring->count, sizeof(ring->keys[0]), by_number);
	return e;
}

void keyring_finish(struct keyring *ring)
{
	crypto_wipe(ring->keys, sizeof(ring->keys));
	arena_finish(&ring->arena);
}

bool keyring_has_role(const struct keyring_key *key, const char *role)
{
	size_t len = strlen(role);

	return strncmp(key->id, role, len) == 0 && key->id[len] == '-';
}

const struct keyring_key *keyring_newest(const struct keyring *ring, const char *role)
{
	for (size_t i = ring->count; i-- > 0;)
		if (keyring_has_role(&ring->keys[i], role))
			return &ring->keys[i];
	return NULL;
}

static void count_number(const char *id, const char *role, uint64_t *last)
{
	size_t len = strlen(role);
	uint64_t n;

	if (strncmp(id, role, len) == 0 && id[len] == '-' && text_to_u64(text_of(id + len + 1), NUMBER_MAX, &n) && n > *last)
		*last = n;
}

/*
 * The highest number of a role that is in use. Root keys count that root.json names and that are elsewhere: two of one name could not both sign
 * the keyset that leads from the old root to the new one.
 */
static enum err last_number(int folder, const char *role, struct arena *arena, uint64_t *out_last)
{
	const char *const *names;
	struct keyset_doc_root root;
	struct json_faults faults;
	struct text text;
	size_t count;
	enum err e = files_list(folder, ".", ENDING, arena, &names, &count);

	*out_last = 0;
	for (size_t i = 0; e == ERR_OK && i < count; i++)
		count_number(names[i], role, out_last);
	if (e != ERR_OK || strcmp(role, "root") != 0)
		return e;
	e = files_read(folder, ROOT_FILE, KEYRING_ROOT_FILE_MAX, arena, &text);
	if (e != ERR_OK)
		return e == ERR_NOT_FOUND ? ERR_OK : e;
	json_faults_init(&faults, arena);
	e = keyset_doc_root_read(text, &faults, &root);
	for (size_t i = 0; e == ERR_OK && i < root.key_count; i++)
		count_number(root.keys[i].id, role, out_last);
	return e;
}

static enum err write_key(int folder, const char *role, char out_id[ENVELOPE_KEY_ID_MAX + 1])
{
	char name[ENVELOPE_KEY_ID_MAX + sizeof(ENDING)], text[48];
	uint8_t private_key[32];
	struct arena arena;
	uint64_t last;
	enum err e;

	arena_init(&arena, 0);
	e = last_number(folder, role, &arena, &last);
	arena_finish(&arena);
	if (e != ERR_OK)
		return e;
	snprintf(out_id, ENVELOPE_KEY_ID_MAX + 1, "%s-%u", role, (unsigned)last + 1);
	snprintf(name, sizeof(name), "%s" ENDING, out_id);
	e = crypto_random(private_key, sizeof(private_key));
	if (e == ERR_OK) {
		crypto_base64url(private_key, sizeof(private_key), text, sizeof(text));
		text[43] = '\n';
		e = files_write(folder, name, text, 44, 0600);
	}
	crypto_wipe(private_key, sizeof(private_key));
	crypto_wipe(text, sizeof(text));
	return e;
}

enum err keyring_add(const char *folder, const char *role, char out_id[ENVELOPE_KEY_ID_MAX + 1], char out_reason[KEYRING_REASON_MAX])
{
	enum err e = ERR_SYSTEM;
	int fd;

	if (mkdir(folder, 0700) != 0 && errno != EEXIST)
		return keyring_say(out_reason, ERR_SYSTEM, "key folder", folder);
	fd = open_folder(folder);
	if (fd >= 0)
		e = write_key(fd, role, out_id);
	if (e != ERR_OK)
		keyring_say(out_reason, e, "a new key of role", role);
	if (fd >= 0)
		close(fd);
	return e;
}

bool keyring_has_root(const char *folder)
{
	int fd = open_folder(folder);
	struct stat st;
	bool has = fd >= 0 && fstatat(fd, ROOT_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0;

	if (fd >= 0)
		close(fd);
	return has;
}

void keyring_print_public(struct sink *s, const struct keyring_key *key, bool is_first)
{
	char text[48];

	crypto_base64url(key->public_key, 32, text, sizeof(text));
	sink_format(s, "%s\"%s\":\"%s\"", is_first ? "" : ",", key->id, text);
}

enum err keyring_write_root(const char *folder, size_t count, size_t threshold, char out_reason[KEYRING_REASON_MAX])
{
	char text[KEYRING_ROOT_FILE_MAX];
	struct sink s = sink_over(text, sizeof(text));
	struct keyring ring;
	size_t told = 0, there = 0;
	enum err e = keyring_open(&ring, folder, true, out_reason);
	int fd = -1;

	if (e != ERR_OK)
		goto out;
	for (size_t i = 0; i < ring.count; i++)
		there += keyring_has_role(&ring.keys[i], "root");
	e = there < count || count == 0 || count > KEYSET_DOC_ROOT_MAX || threshold == 0 || threshold > count ? ERR_INVALID : ERR_OK;
	if (e != ERR_OK) {
		keyring_say(out_reason, e, "number of root keys in", folder);
		goto out;
	}
	sink_format(&s, "{\"threshold\":%zu,\"keys\":{", threshold);
	for (size_t i = 0, at = 0; i < ring.count; i++) {
		if (!keyring_has_role(&ring.keys[i], "root") || at++ < there - count)
			continue;
		keyring_print_public(&s, &ring.keys[i], told++ == 0);
	}
	sink_text(&s, "}}\n");
	fd = open_folder(folder);
	e = fd < 0 ? ERR_SYSTEM : !sink_ok(&s) ? ERR_LIMIT : files_write(fd, ROOT_FILE, text, s.len, 0644);
	if (e != ERR_OK)
		keyring_say(out_reason, e, "root.json in", folder);
out:
	if (fd >= 0)
		close(fd);
	keyring_finish(&ring);
	return e;
}
