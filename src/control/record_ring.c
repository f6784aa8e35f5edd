/*
 * Lanes in shared memory; see record_ring.h. Positions only grow; a byte's place is its position modulo the lane's size, and lines wrap around.
 * Called by record_stream (daemon) and delivery/drain.
 */
#include "control/record_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/crypto.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)
#define MAGIC 0x31676e6972676765ull /* "eggring1" */
#define ALIGN 16u                   /* of frames, so that no head wraps around */
#define LANE_MAX (1u << 30)
#define PAGE 4096u

/* Before each line. */
struct frame {
	uint64_t sequence;
	uint32_t len;
	uint32_t zero;
};

/* The two sides write to different cache lines. */
struct lane {
	_Alignas(64) atomic_uint_fast64_t head; /* daemon: bytes put so far */
	atomic_uint_fast64_t dropped, repeats;  /* daemon */
	_Alignas(64) atomic_uint_fast64_t tail; /* sidecar: bytes taken so far */
};

struct page {
	uint64_t magic, boot;
	uint32_t lanes, lane_bytes;
	atomic_uint_fast64_t reader; /* daemon */
	atomic_uint_fast32_t draining;
	struct lane lane[];
};

/* The writer's own head: the page's can be written by the other side. */
struct own {
	uint64_t head;
	uint8_t apart[56]; /* from its neighbour's cache line */
};

struct record_ring {
	struct page *page; /* owned mapping */
	uint8_t *data;     /* inside it */
	struct own *own;   /* owned; NULL for a received one */
	size_t size;       /* of the mapping */
	size_t lane_bytes; /* our copies of what the page says */
	unsigned lanes;
	uint64_t boot;
	int fd;            /* owned; -1 for a received one */
};

_Static_assert(sizeof(struct frame) == ALIGN, "a frame's head is one unit of its alignment");
_Static_assert(ATOMIC_LONG_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2, "two processes share the page");

size_t record_ring_need(size_t len)
{
	return sizeof(struct frame) + (len + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t data_offset(unsigned lanes)
{
	return (sizeof(struct page) + lanes * sizeof(struct lane) + PAGE - 1) / PAGE * PAGE;
}

static size_t ring_size(unsigned lanes, size_t lane_bytes)
{
	return data_offset(lanes) + lanes * lane_bytes;
}

static enum err map(int fd, unsigned lanes, size_t lane_bytes, struct record_ring **out_ring)
{
	struct record_ring *r = alloc_zeroed(sizeof(*r));

	if (r == NULL)
		return ERR_NO_MEMORY;
	r->fd = -1;
	r->lanes = lanes;
	r->lane_bytes = lane_bytes;
	r->size = ring_size(lanes, lane_bytes);
	r->page = mmap(NULL, r->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (r->page == MAP_FAILED) {
		alloc_free(r);
		return ERR_SYSTEM;
	}
	r->data = (uint8_t *)r->page + data_offset(lanes);
	*out_ring = r;
	return ERR_OK;
}

/* All memory is there before the first record: a page that cannot be had later would be a signal, not an error. */
static int open_memory(size_t size)
{
	int fd = memfd_create("egress-records", MFD_CLOEXEC | MFD_ALLOW_SEALING), error;

	if (fd < 0 || (ftruncate(fd, (off_t)size) == 0 && fallocate(fd, 0, 0, (off_t)size) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0))
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

enum err record_ring_create(unsigned lanes, size_t bytes, struct record_ring **out_ring)
{
	struct record_ring *r = NULL;
	size_t lane_bytes;
	enum err e;
	int fd;

	if (lanes == 0 || lanes > RECORD_RING_LANES_MAX)
		return ERR_INVALID;
	lane_bytes = bytes / lanes / PAGE * PAGE;
	lane_bytes = lane_bytes < RECORD_RING_LANE_MIN ? RECORD_RING_LANE_MIN : lane_bytes > LANE_MAX ? LANE_MAX : lane_bytes;
	fd = open_memory(ring_size(lanes, lane_bytes));
	if (fd < 0)
		return ERR_SYSTEM;
	e = map(fd, lanes, lane_bytes, &r);
	if (e != ERR_OK) {
		close(fd);
		return e;
	}
	r->fd = fd;
	r->own = alloc_array(lanes, sizeof(*r->own));
	e = r->own == NULL ? ERR_NO_MEMORY : crypto_random(&r->boot, sizeof(r->boot));
	if (e != ERR_OK) {
		record_ring_destroy(r);
		return e;
	}
	r->page->magic = MAGIC;
	r->page->boot = r->boot;
	r->page->lanes = lanes;
	r->page->lane_bytes = (uint32_t)lane_bytes;
	*out_ring = r;
	return ERR_OK;
}

/* What the page says of itself, read once; the mapping's size follows from it and must be the file's. */
static bool read_geometry(int fd, unsigned *out_lanes, size_t *out_lane_bytes, uint64_t *out_boot)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct page head;
	struct stat st;

	/* Without the seals the other side could shrink it under our feet. */
	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) != 0 ||
	    pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head))
		return false;
	if (head.magic != MAGIC || head.lanes == 0 || head.lanes > RECORD_RING_LANES_MAX || head.lane_bytes < RECORD_RING_LANE_MIN ||
	    head.lane_bytes > LANE_MAX || head.lane_bytes % ALIGN != 0 || (off_t)ring_size(head.lanes, head.lane_bytes) != st.st_size)
		return false;
	*out_lanes = head.lanes;
	*out_lane_bytes = head.lane_bytes;
	*out_boot = head.boot;
	return true;
}

enum err record_ring_map(int fd, struct record_ring **out_ring)
{
	unsigned lanes;
	size_t lane_bytes;
	uint64_t boot;
	enum err e;

	if (!read_geometry(fd, &lanes, &lane_bytes, &boot))
		return ERR_INVALID;
	e = map(fd, lanes, lane_bytes, out_ring);
	if (e == ERR_OK)
		(*out_ring)->boot = boot;
	return e;
}

void record_ring_destroy(struct record_ring *r)
{
	if (r == NULL)
		return;
	munmap(r->page, r->size);
	if (r->fd >= 0)
		close(r->fd);
	alloc_free(r->own);
	alloc_free(r);
}

int record_ring_fd(const struct record_ring *r)
{
	return r->fd;
}

uint64_t record_ring_boot(const struct record_ring *r)
{
	return r->boot;
}

unsigned record_ring_lanes(const struct record_ring *r)
{
	return r->lanes;
}

size_t record_ring_lane_size(const struct record_ring *r)
{
	return r->lane_bytes;
}

/* ---- writing ---- */

size_t record_ring_room(const struct record_ring *r, unsigned lane)
{
	uint64_t used = r->own[lane].head - atomic_load_explicit(&r->page->lane[lane].tail, memory_order_acquire);

	/* A tail that no honest reader left costs room, nothing else. */
	return used > r->lane_bytes ? 0 : r->lane_bytes - (size_t)used;
}

static void copy_in(struct record_ring *r, unsigned lane, uint64_t at, const void *bytes, size_t len)
{
	uint8_t *base = r->data + lane * r->lane_bytes;
	size_t place = (size_t)(at % r->lane_bytes), first = r->lane_bytes - place;

	first = first < len ? first : len;
	memcpy(base + place, bytes, first);
	memcpy(base, (const uint8_t *)bytes + first, len - first);
}

bool record_ring_put(struct record_ring *r, unsigned lane, uint64_t sequence, const char *line, size_t len)
{
	struct frame frame = { .sequence = sequence, .len = (uint32_t)len };
	uint64_t *head = &r->own[lane].head;

	if (len == 0 || len > RECORD_JSON_MAX || record_ring_room(r, lane) < record_ring_need(len))
		return false;
	copy_in(r, lane, *head, &frame, sizeof(frame));
	copy_in(r, lane, *head + sizeof(frame), line, len);
	*head += record_ring_need(len);
	atomic_store_explicit(&r->page->lane[lane].head, *head, memory_order_release);
	return true;
}

void record_ring_count_dropped(struct record_ring *r, unsigned lane)
{
	atomic_fetch_add_explicit(&r->page->lane[lane].dropped, 1, memory_order_relaxed);
}

void record_ring_set_repeats(struct record_ring *r, unsigned lane, uint64_t repeats)
{
	atomic_store_explicit(&r->page->lane[lane].repeats, repeats, memory_order_relaxed);
}

void record_ring_set_reader(struct record_ring *r, uint64_t number)
{
	atomic_store(&r->page->reader, number);
}

void record_ring_set_draining(struct record_ring *r)
{
	atomic_store(&r->page->draining, 1);
}

uint64_t record_ring_dropped(const struct record_ring *r)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < r->lanes; i++)
		sum += atomic_load_explicit(&r->page->lane[i].dropped, memory_order_relaxed);
	return sum;
}

/* ---- reading ---- */

bool record_ring_may_read(const struct record_ring *r, uint64_t number)
{
	return atomic_load(&r->page->reader) == number;
}

bool record_ring_is_draining(const struct record_ring *r)
{
	return atomic_load(&r->page->draining) != 0;
}

uint64_t record_ring_repeats(const struct record_ring *r)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < r->lanes; i++)
		sum += atomic_load_explicit(&r->page->lane[i].repeats, memory_order_relaxed);
	return sum;
}

uint64_t record_ring_tail(const struct record_ring *r, unsigned lane)
{
	return atomic_load_explicit(&r->page->lane[lane].tail, memory_order_acquire);
}

static void copy_out(const struct record_ring *r, unsigned lane, uint64_t at, void *bytes, size_t len)
{
	const uint8_t *base = r->data + lane * r->lane_bytes;
	size_t place = (size_t)(at % r->lane_bytes), first = r->lane_bytes - place;

	first = first < len ? first : len;
	memcpy(bytes, base + place, first);
	memcpy((uint8_t *)bytes + first, base, len - first);
}

/* One line of printable ASCII that opens an object: what goes into files and to control is never more than that. */
static bool is_line(const char *text, size_t len)
{
	if (len < 3 || text[0] != '{' || text[len - 2] != '}' || text[len - 1] != '\n')
		return false;
	for (size_t i = 0; i < len - 1; i++) {
		if (text[i] < ' ' || text[i] > '~')
			return false;
	}
	return true;
}

enum record_ring_seen record_ring_look(const struct record_ring *r, unsigned lane, uint64_t *at, struct record_ring_line *out_line)
{
	uint64_t head = atomic_load_explicit(&r->page->lane[lane].head, memory_order_acquire);
	uint64_t there = head - *at;
	struct frame frame;

	if (there == 0)
		return RECORD_RING_EMPTY;
	if (there > r->lane_bytes || there < sizeof(frame) || *at % ALIGN != 0)
		return RECORD_RING_DAMAGED;
	copy_out(r, lane, *at, &frame, sizeof(frame));
	if (frame.len > RECORD_JSON_MAX || record_ring_need(frame.len) > there)
		return RECORD_RING_DAMAGED;
	copy_out(r, lane, *at + sizeof(frame), out_line->text, frame.len);
	if (!is_line(out_line->text, frame.len))
		return RECORD_RING_DAMAGED;
	out_line->sequence = frame.sequence;
	out_line->len = frame.len;
	*at += record_ring_need(frame.len);
	return RECORD_RING_LINE;
}

bool record_ring_take(struct record_ring *r, unsigned lane, uint64_t from, uint64_t to)
{
	uint_fast64_t expected = from;

	return atomic_compare_exchange_strong_explicit(&r->page->lane[lane].tail, &expected, to, memory_order_release, memory_order_relaxed);
}

void record_ring_skip(struct record_ring *r, unsigned lane)
{
	struct lane *l = &r->page->lane[lane];

	/* A head off its alignment would be damage for ever; the writer's next store mends it. */
	atomic_store_explicit(&l->tail, atomic_load_explicit(&l->head, memory_order_acquire) / ALIGN * ALIGN, memory_order_release);
}
