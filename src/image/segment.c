/*
 * Sealed memory to a shared, verified segment. Refuses what could still change under its readers. Knows how tables are found, not
 * what they mean (segment_verify.c does). Called by daemon, sidecar and tools.
 */
#include "image/segment_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/crypto.h"

/* F_SEAL_FUTURE_WRITE would leave mappings made before it writable. */
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define MAP_FROM (64u << 10) /* bytes; below, a page of its own costs more than a copy */

static enum err write_all(int fd, const uint8_t *bytes, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = write(fd, bytes + done, len - done);

		if (n > 0)
			done += (size_t)n;
		else if (n == 0 || errno != EINTR)
			return ERR_SYSTEM;
	}
	return ERR_OK;
}

static enum err read_all(int fd, uint8_t *out_bytes, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = pread(fd, out_bytes + done, len - done, (off_t)done);

		if (n > 0)
			done += (size_t)n;
		else if (n == 0 || errno != EINTR)
			return ERR_SYSTEM;
	}
	return ERR_OK;
}

static void release(struct segment *s)
{
	if (s->mapped)
		munmap((void *)(uintptr_t)s->bytes, s->size);
	else
		alloc_free((void *)(uintptr_t)s->bytes);
	alloc_free(s);
}

static enum err take_bytes(int fd, struct segment *s)
{
	uint8_t *copy;

	if (s->size >= MAP_FROM) {
		void *at = mmap(NULL, s->size, PROT_READ, MAP_SHARED, fd, 0);

		if (at == MAP_FAILED)
			return ERR_SYSTEM;
		s->bytes = at;
		s->mapped = true;
		return ERR_OK;
	}
	copy = alloc_zeroed(s->size);
	if (copy == NULL)
		return ERR_NO_MEMORY;
	s->bytes = copy;
	return read_all(fd, copy, s->size);
}

/* Verify, name, and hand over `s` or release it. */
static enum err finish_open(struct segment *s, struct segment **out_segment, const char **out_fault)
{
	const char *fault = segment_verify(s);
	enum err err;

	if (fault != NULL) {
		release(s);
		*out_fault = fault;
		return ERR_INVALID;
	}
	err = crypto_sha256(s->bytes, s->size, s->id);
	if (err != ERR_OK) {
		release(s);
		*out_fault = "the digest failed";
		return err;
	}
	*out_segment = s;
	return ERR_OK;
}

static enum err start_open(size_t size, struct segment **out_segment, const char **out_fault)
{
	struct segment *s;

	*out_fault = "out of memory";
	if (size < sizeof(struct layout_header) || size > LAYOUT_SEGMENT_MAX) {
		*out_fault = "the size is impossible";
		return ERR_INVALID;
	}
	s = alloc_zeroed(sizeof(*s));
	if (s == NULL)
		return ERR_NO_MEMORY;
	refcount_init(&s->refs);
	s->size = size;
	*out_segment = s;
	return ERR_OK;
}

enum err segment_open(int fd, struct segment **out_segment, const char **out_fault)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct segment *s;
	struct stat st;
	enum err err;

	if (seals < 0 || (seals & SEALS) != SEALS) {
		*out_fault = "it is not sealed memory";
		return ERR_DENIED;
	}
	if (fstat(fd, &st) != 0) {
		*out_fault = "its size cannot be read";
		return ERR_SYSTEM;
	}
	err = start_open(st.st_size < 0 ? 0 : (size_t)st.st_size, &s, out_fault);
	if (err != ERR_OK)
		return err;
	err = take_bytes(fd, s);
	if (err != ERR_OK) {
		*out_fault = "its bytes cannot be read";
		release(s);
		return err;
	}
	return finish_open(s, out_segment, out_fault);
}

enum err segment_open_bytes(const void *bytes, size_t len, struct segment **out_segment,
			    const char **out_fault)
{
	struct segment *s;
	enum err err = start_open(len, &s, out_fault);

	if (err != ERR_OK)
		return err;
	s->bytes = alloc_copy(bytes, len);
	if (s->bytes == NULL) {
		release(s);
		return ERR_NO_MEMORY;
	}
	return finish_open(s, out_segment, out_fault);
}

enum err segment_seal(const void *bytes, size_t len, int *out_fd)
{
	int fd = memfd_create("egress-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return ERR_SYSTEM;
	if (write_all(fd, bytes, len) != ERR_OK || fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
		close(fd);
		return ERR_SYSTEM;
	}
	*out_fd = fd;
	return ERR_OK;
}

struct segment *segment_ref(struct segment *s)
{
	refcount_ref(&s->refs);
	return s;
}

void segment_unref(struct segment *s)
{
	if (s != NULL && refcount_unref(&s->refs))
		release(s);
}

enum layout_kind segment_kind(const struct segment *s)
{
	return (enum layout_kind)segment_header(s)->kind;
}

size_t segment_size(const struct segment *s)
{
	return s->size;
}

const uint8_t *segment_id(const struct segment *s)
{
	return s->id;
}

const void *segment_table(const struct segment *s, enum layout_table table, uint32_t *out_count)
{
	const struct layout_span *span = &segment_header(s)->table[table];

	*out_count = span->count;
	return span->count == 0 ? NULL : s->bytes + span->offset;
}

struct text segment_text(const struct segment *s, struct layout_text t)
{
	const struct layout_span *span = &segment_header(s)->table[LAYOUT_STRINGS];

	if (t.len == 0)
		return (struct text){ .at = "", .len = 0 };
	return (struct text){ .at = (const char *)s->bytes + span->offset + t.offset, .len = t.len };
}

struct hash_key segment_hash_key(const struct segment *s)
{
	const struct layout_header *h = segment_header(s);

	return (struct hash_key){ .k0 = h->seed0, .k1 = h->seed1 };
}

const struct layout_label_entry *segment_label_entry(const struct segment *s, struct text name)
{
	uint32_t slot_count, entry_count;
	const struct layout_label_slot *slots = segment_table(s, LAYOUT_LABEL_SLOTS, &slot_count);
	const struct layout_label_entry *entries =
		segment_table(s, LAYOUT_LABEL_ENTRIES, &entry_count);
	struct hash_key key = segment_hash_key(s);
	uint64_t hash;
	uint32_t home;

	if (slots == NULL || entries == NULL)
		return NULL;
	hash = hash_bytes(&key, name.at, name.len);
	home = layout_label_home(hash, slot_count);
	for (uint32_t step = 0; step < LAYOUT_PROBE_MAX; step++) {
		const struct layout_label_slot *slot = &slots[(home + step) & (slot_count - 1)];

		if (slot->entry == 0)
			return NULL;
		if (slot->tag == layout_label_tag(hash) &&
		    text_equal(segment_text(s, entries[slot->entry - 1].name), name))
			return &entries[slot->entry - 1];
	}
	return NULL;
}

const struct layout_lease *segment_lease(const struct segment *s)
{
	uint32_t count;

	return segment_table(s, LAYOUT_LEASES, &count);
}

const struct layout_root *segment_root(const struct segment *s)
{
	uint32_t count;

	return segment_table(s, LAYOUT_ROOT_INFO, &count);
}
