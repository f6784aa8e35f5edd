/*
 * A hostile daemon against sidecar/publish: any order of welcomes, slot lines, acknowledgements, refusals and answers, between any order
 * of holdings, complete or not, revocations by hand and ticks. Checks after every step that no slot is open whose lease is revoked by hand, is not
 * held as active, or was never adopted by this daemon.
 *
 * Input: one byte chooses the step, what follows is its argument.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/cursor.h"
#include "base/log.h"
#include "compiler/compile.h"
#include "image/segment.h"
#include "sidecar/publish.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LEASES 3
#define STATES 3 /* active, active with other rules, suspended */
#define SLOTS 4

static const char *const ids[LEASES] = { "ls_a", "ls_b", "ls_c" };
static struct compiled compiled[LEASES][STATES];
static struct emitted ceiling;
static uint64_t now_ms = 1000;

static uint64_t fake_mono_ns(void)
{
	return now_ms * 1000000;
}

static uint64_t fake_wall_ms(void)
{
	return 1796050000000 + now_ms;
}

static void compile_all(void)
{
	static const char *const lines[STATES] = { "", "deny no.example.org\n", "" };
	struct compile_context context = { .report_allowed = true };
	struct fault_list faults;
	struct arena arena;

	arena_init(&arena, 0);
	fault_list_init(&faults, &arena);
	for (unsigned i = 0; i < LEASES; i++) {
		for (unsigned s = 0; s < STATES; s++) {
			char text[512];

			snprintf(text, sizeof(text),
				 "{\"typ\":\"egress.lease/1\",\"lease\":\"%s\",\"state\":\"%s\","
				 "\"guest\":{\"require\":[\"source\"],\"sources\":[\"10.0.0.%u/32\"]},"
				 "\"network\":{\"mode\":\"allowlist\",\"rules\":[%s]}}",
				 ids[i], s == 2 ? "suspended" : "active", i + 1,
				 lines[s][0] == '\0' ? "" : "{\"deny\":\"no.example.org\"}");
			if (compile_lease_text("f.json", text_of(text), &context, &faults,
					       &compiled[i][s]) != ERR_OK ||
			    compiled[i][s].is_quarantined)
				__builtin_trap();
		}
	}
	if (compile_ceiling_text("c.policy", text_of("allow any\n"), &context, &faults, &ceiling) !=
	    ERR_OK)
		__builtin_trap();
	arena_finish(&arena);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const struct clock_source fake = { fake_mono_ns, fake_wall_ms };

	log_init("fuzz", LOG_LEVEL_ERROR);
	if (crypto_init() != ERR_OK)
		__builtin_trap();
	clock_use(&fake);
	compile_all();
	return 0;
}

struct run {
	struct loop *loop;
	struct publish *publish;
	struct channel *channel; /* NULL: not connected */
	int other;
	struct gate *page;
	bool by_hand[LEASES];
	unsigned state[LEASES]; /* as last taken: 0 not held, 1 or 2 active */
	uint64_t receipt;       /* 0: the next must be complete */
	bool has_offer;
	bool ever_acked;        /* on this page */
	uint64_t root_version;
};

static void on_adopted(void *arg)
{
}

static void on_refused(void *arg, uint64_t version, struct text why)
{
}

static void on_revoked(void *arg, const char *lease, bool is_known, uint64_t closed)
{
}

static const struct publish_events events = { on_adopted, on_refused, on_revoked };

static void on_message(void *arg, struct channel *c, const struct ctl_msg *msg, int fd)
{
	if (fd >= 0)
		close(fd);
}

static void on_closed(void *arg, struct channel *c, enum err why)
{
}

static void hang_up(struct run *r)
{
	if (r->channel == NULL)
		return;
	publish_disconnect(r->publish);
	channel_close(r->channel);
	close(r->other);
	gate_destroy(r->page);
	r->channel = NULL;
	r->page = NULL;
	r->ever_acked = false;
	r->root_version = 0;
	loop_turn(r->loop, 0);
}

static void connect_again(struct run *r, uint64_t adopted)
{
	int fds[2];

	hang_up(r);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
		__builtin_trap();
	if (channel_open(r->loop, fds[0], CTL_FROM_DAEMON, 1 << 20, on_message, on_closed, r,
			 &r->channel) != ERR_OK ||
	    gate_create(SLOTS, &r->page) != ERR_OK)
		__builtin_trap();
	r->other = fds[1];
	publish_connect(r->publish, r->channel, r->page, adopted);
}

/* Read what the daemon was sent; remembers the version of the root. */
static void drain(struct run *r)
{
	static uint8_t packet[CTL_MSG_MAX];
	struct ctl_msg msg;
	ssize_t n;

	if (r->channel == NULL)
		return;
	while ((n = recv(r->other, packet, sizeof(packet), MSG_DONTWAIT)) > 0) {
		if (ctl_msg_read(packet, (size_t)n, &msg) != PARSED_OK)
			__builtin_trap();
		if (msg.type == CTL_ROOT)
			r->root_version = msg.field[0].number;
	}
	loop_turn(r->loop, 0);
	publish_on_drained(r->publish);
}

/* Two bits for each lease say what it is from now on; the others: only what differs is told, and on a base that nobody gave. */
static void offer(struct run *r, uint8_t choice)
{
	bool is_delta = (choice & 64) != 0 && r->receipt != 0, is_stale = is_delta && (choice & 128) != 0;
	struct holding_lease leases[LEASES];
	struct holding holding = { .base = is_delta ? r->receipt + is_stale : 0, .leases = leases, .ceiling = &ceiling };
	enum err e;

	for (unsigned i = 0; i < LEASES; i++) {
		unsigned state = (choice >> (2 * i)) & 3;

		if (is_delta ? state != r->state[i] : state > 0)
			leases[holding.lease_count++] =
				(struct holding_lease){ ids[i], state == 0 ? NULL : &compiled[i][state - 1].lease };
		if (!is_stale)
			r->state[i] = state;
	}
	e = publish_offer(r->publish, &holding, &r->receipt);
	if (e != (is_stale ? ERR_NOT_FOUND : ERR_OK))
		__builtin_trap();
	/* After one that was not taken only a complete one is. */
	if (is_stale)
		r->receipt = 0;
	if (is_stale && publish_is_adopted(r->publish))
		__builtin_trap();
	r->has_offer = true;
}

static struct text take_text(struct cursor *c)
{
	size_t wanted = cursor_u8(c), len = wanted < cursor_left(c) ? wanted : cursor_left(c);
	const uint8_t *at = cursor_bytes(c, len);

	return (struct text){ (const char *)at, at == NULL ? 0 : len };
}

/* Slot lines that mostly fit, or any bytes. */
static void slots(struct run *r, struct cursor *c)
{
	uint8_t how = cursor_u8(c);
	char lines[128];
	struct text text;

	if (r->channel == NULL)
		return;
	if ((how & 1) != 0) {
		snprintf(lines, sizeof(lines), "%u %u %s\n", (how >> 2) % (SLOTS + 1), how >> 6,
			 ids[(how >> 4) % LEASES]);
		text = text_of(lines);
	} else {
		text = take_text(c);
		if (text.at == NULL)
			text = (struct text){ "", 0 };
	}
	/* What breaks the protocol ends the connection. */
	if (!publish_on_slots(r->publish, how & 2, text))
		hang_up(r);
}

static void step(struct run *r, struct cursor *c)
{
	uint8_t what = cursor_u8(c);
	bool awaits;

	switch (what % 10) {
	case 0:
		connect_again(r, cursor_u8(c));
		break;
	case 1:
		slots(r, c);
		break;
	case 2:
		if (r->channel != NULL && publish_on_ack(r->publish, r->root_version))
			r->ever_acked = true;
		break;
	case 3:
		if (r->channel != NULL && !publish_on_nack(r->publish, r->root_version, take_text(c)))
			hang_up(r);
		break;
	case 4:
		if (r->channel != NULL)
			publish_on_revoked(r->publish, cursor_u8(c), cursor_u8(c), cursor_u8(c));
		break;
	case 5:
	case 6:
		offer(r, cursor_u8(c));
		break;
	case 7:
		what = cursor_u8(c);
		r->by_hand[what % LEASES] = (what & 128) != 0;
		if (publish_set_by_hand(r->publish, ids[what % LEASES], (what & 128) != 0, &awaits) !=
		    ERR_OK)
			__builtin_trap();
		break;
	case 8:
		now_ms += 1000;
		publish_tick(r->publish);
		break;
	default:
		hang_up(r);
		break;
	}
	drain(r);
}

/* No open slot without an active lease that nobody revoked by hand; none at all before an ACK on this page. */
static void check(const struct run *r)
{
	unsigned open = 0, may_be = 0;

	if (r->page == NULL)
		return;
	for (uint32_t i = 0; i < SLOTS; i++)
		open += gate_slot_state(r->page, i) == GATE_SLOT_OPEN;
	for (unsigned i = 0; i < LEASES; i++)
		may_be += (r->state[i] == 1 || r->state[i] == 2) && !r->by_hand[i];
	if (open > 0 && !r->ever_acked)
		__builtin_trap();
	if (open > may_be)
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_over(data, size);
	struct run r = { 0 };

	r.loop = loop_create();
	if (r.loop == NULL || publish_create(&events, NULL, &r.publish) != ERR_OK)
		__builtin_trap();
	for (unsigned n = 0; n < 200 && cursor_left(&c) > 0; n++) {
		step(&r, &c);
		check(&r);
	}
	hang_up(&r);
	publish_destroy(r.publish);
	loop_destroy(r.loop);
	return 0;
}
