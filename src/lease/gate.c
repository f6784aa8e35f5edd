/*
 * The control page. Readers trust nothing in it: a state or deadline that no honest writer could have left refuses. Knows no policy and no
 * lease but by slot number. Called by daemon (page, generations, checks) and sidecar (deadlines, states).
 */
#include "lease/gate.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)
#define PAGE_MAGIC 0x31676765u /* "egg1" */
#define SLOTS_MAX (1u << 20)
#define NS_PER_S 1000000000ull

struct page {
	uint32_t magic;
	uint32_t slot_count;
	atomic_uint_fast64_t refuse_at_ns, cut_at_ns; /* sidecar; clock_mono_ns */
	atomic_uint_fast32_t control;                 /* sidecar; enum gate_control */
	struct gate_slot slots[];
};

struct gate {
	struct page *page; /* owned mapping */
	size_t size;
	uint32_t slot_count; /* our own copy: the other side can write the page */
	int fd;              /* owned; -1 for a received page */
};

/* Two processes share the page, so a lock beside it would be two locks. */
_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LONG_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2,
	       "atomics of the control page must be lock-free");

static size_t page_size(uint32_t slots)
{
	return sizeof(struct page) + (size_t)slots * sizeof(struct gate_slot);
}

static enum err map(int fd, uint32_t slots, struct gate **out_gate)
{
	struct gate *g = alloc_zeroed(sizeof(*g));

	if (g == NULL)
		return ERR_NO_MEMORY;
	g->size = page_size(slots);
	g->slot_count = slots;
	g->fd = -1;
	g->page = mmap(NULL, g->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (g->page == MAP_FAILED) {
		alloc_free(g);
		return ERR_SYSTEM;
	}
	*out_gate = g;
	return ERR_OK;
}

enum err gate_create(uint32_t slots, struct gate **out_gate)
{
	struct gate *g;
	enum err err;
	int fd;

	if (slots == 0 || slots > SLOTS_MAX)
		return ERR_INVALID;
	fd = memfd_create("egress-gate", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return ERR_SYSTEM;
	if (ftruncate(fd, (off_t)page_size(slots)) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
		close(fd);
		return ERR_SYSTEM;
	}
	err = map(fd, slots, &g);
	if (err != ERR_OK) {
		close(fd);
		return err;
	}
	g->page->magic = PAGE_MAGIC;
	g->page->slot_count = slots;
	g->fd = fd;
	*out_gate = g;
	return ERR_OK;
}

enum err gate_map(int fd, struct gate **out_gate)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	struct gate *g;
	uint64_t slots;
	enum err err;

	/* Without the seals the other side could shrink the page under our feet. */
	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) != 0 ||
	    st.st_size < (off_t)page_size(1))
		return ERR_INVALID;
	slots = ((uint64_t)st.st_size - sizeof(struct page)) / sizeof(struct gate_slot);
	if (slots > SLOTS_MAX || page_size((uint32_t)slots) != (size_t)st.st_size)
		return ERR_INVALID;
	err = map(fd, (uint32_t)slots, &g);
	if (err != ERR_OK)
		return err;
	if (g->page->magic != PAGE_MAGIC || g->page->slot_count != slots) {
		gate_destroy(g);
		return ERR_INVALID;
	}
	*out_gate = g;
	return ERR_OK;
}

void gate_destroy(struct gate *g)
{
	if (g == NULL)
		return;
	munmap(g->page, g->size);
	if (g->fd >= 0)
		close(g->fd);
	alloc_free(g);
}

int gate_fd(const struct gate *g)
{
	return g->fd;
}

uint32_t gate_slot_count(const struct gate *g)
{
	return g->slot_count;
}

static uint64_t no_later(uint64_t at_ns, uint64_t now_ns, uint64_t ceiling_s)
{
	uint64_t latest = now_ns + ceiling_s * NS_PER_S;

	return at_ns < latest ? at_ns : latest;
}

void gate_set_deadlines(struct gate *g, uint64_t refuse_at_ns, uint64_t cut_at_ns)
{
	uint64_t now = clock_mono_ns();

	atomic_store(&g->page->refuse_at_ns, no_later(refuse_at_ns, now, GATE_REFUSE_AFTER_CEILING_S));
	atomic_store(&g->page->cut_at_ns, no_later(cut_at_ns, now, GATE_CUT_AFTER_CEILING_S));
}

void gate_set_control(struct gate *g, enum gate_control state)
{
	atomic_store(&g->page->control, (uint_fast32_t)state);
}

void gate_set_slot(struct gate *g, uint32_t slot, enum gate_slot_state state)
{
	if (slot < g->slot_count)
		atomic_store(&g->page->slots[slot].state, (uint_fast32_t)state);
}

void gate_deadlines(const struct gate *g, uint64_t *out_refuse_at_ns, uint64_t *out_cut_at_ns)
{
	*out_refuse_at_ns = atomic_load(&g->page->refuse_at_ns);
	*out_cut_at_ns = atomic_load(&g->page->cut_at_ns);
}

enum gate_control gate_control(const struct gate *g)
{
	uint_fast32_t control = atomic_load(&g->page->control);

	return control > GATE_HALT ? GATE_HALT : (enum gate_control)control;
}

enum gate_slot_state gate_slot_state(const struct gate *g, uint32_t slot)
{
	uint_fast32_t state;

	if (slot >= g->slot_count)
		return GATE_SLOT_CLOSED;
	state = atomic_load(&g->page->slots[slot].state);
	return state > GATE_SLOT_EXPIRED ? GATE_SLOT_CLOSED : (enum gate_slot_state)state;
}

uint32_t gate_generation(const struct gate *g, uint32_t slot)
{
	return slot < g->slot_count ? (uint32_t)atomic_load(&g->page->slots[slot].generation) : 0;
}

uint32_t gate_next_generation(struct gate *g, uint32_t slot)
{
	if (slot >= g->slot_count)
		return 0;
	return (uint32_t)(atomic_fetch_add(&g->page->slots[slot].generation, 1) + 1);
}

/*
 * No honest writer sets a deadline further away than the ceiling, and time only brings it nearer. One that lies further is damage or an
 * attack; cutting it down on every read would renew it for ever, so it halts instead.
 */
static enum reason check_deadline(uint64_t at_ns, uint64_t now_ns, uint64_t ceiling_s)
{
	if (at_ns <= now_ns)
		return REASON_CONTROL_STALE;
	return at_ns - now_ns > ceiling_s * NS_PER_S ? REASON_CONTROL_HALT : REASON_ALLOWED;
}

enum reason gate_check_control(const struct gate *g, uint64_t mono_ns)
{
	switch (gate_control(g)) {
	case GATE_LIVE:
	case GATE_LAG:
		return check_deadline(atomic_load(&g->page->refuse_at_ns), mono_ns,
				      GATE_REFUSE_AFTER_CEILING_S);
	case GATE_COLD:
	case GATE_SYNC:
		return REASON_NOT_READY;
	case GATE_STALE:
	case GATE_CUT:
		return REASON_CONTROL_STALE;
	case GATE_HALT:
		break;
	}
	return REASON_CONTROL_HALT;
}

static enum reason slot_reason(enum gate_slot_state state)
{
	switch (state) {
	case GATE_SLOT_OPEN:
		return REASON_ALLOWED;
	case GATE_SLOT_REVOKED:
		return REASON_LEASE_REVOKED;
	case GATE_SLOT_SUSPENDED:
		return REASON_LEASE_SUSPENDED;
	case GATE_SLOT_INVALID:
		return REASON_POLICY_INVALID;
	case GATE_SLOT_EXPIRED:
		return REASON_LEASE_EXPIRED;
	case GATE_SLOT_CLOSED:
		break;
	}
	return REASON_NOT_READY;
}

enum reason gate_check(const struct gate *g, uint32_t slot, uint32_t generation, uint64_t mono_ns)
{
	enum reason why;

	if (slot >= g->slot_count)
		return REASON_INTERNAL;
	why = gate_check_control(g, mono_ns);
	if (why == REASON_ALLOWED)
		why = slot_reason(gate_slot_state(g, slot));
	if (why == REASON_ALLOWED && gate_generation(g, slot) != generation)
		why = REASON_POLICY_CHANGED;
	return why;
}

enum reason gate_check_cut(const struct gate *g, uint64_t mono_ns)
{
	enum gate_control control = gate_control(g);
	enum reason why;

	if (control == GATE_CUT)
		return REASON_CONTROL_STALE;
	why = check_deadline(atomic_load(&g->page->cut_at_ns), mono_ns, GATE_CUT_AFTER_CEILING_S);
	return why == REASON_CONTROL_STALE && control == GATE_HALT ? REASON_CONTROL_HALT : why;
}
