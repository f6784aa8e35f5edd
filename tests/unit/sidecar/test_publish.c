/*
 * Holdings to a daemon that is a raw socket and a real control page: what is sent in which order, when a slot opens and shuts, what a
 * successor may touch, and what refusals, restarts, clocks and slow readers do.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "fixture.h"
#include "image/segment.h"
#include "segment_builder.h"
#include "sidecar/publish.h"

#define LEASES_MAX 300

static uint64_t mono_ms = 5000000, wall_ms = 1796050000000;

static uint64_t fake_mono_ns(void)
{
	return mono_ms * 1000000;
}

static uint64_t fake_wall_ms(void)
{
	return wall_ms;
}

static const struct clock_source fake = { fake_mono_ns, fake_wall_ms };

/* Source, publish and daemon in one place. */
struct bench {
	struct fixture_link link;
	struct publish *publish;
	struct gate *page;         /* the daemon's mapping */
	struct built_store store;
	struct emitted emitted[LEASES_MAX + 1]; /* [0] is the ceiling */
	struct holding_lease leases[LEASES_MAX], offered[LEASES_MAX];
	bool is_gone[LEASES_MAX];
	char ids[LEASES_MAX][65];
	size_t lease_count;
	char story[16384];         /* words of what the daemon received */
	uint64_t root_version, receipt;
	uint64_t root_base;
	size_t root_leases;
	unsigned adopted, refused, revoked;
	bool last_known;
	uint64_t last_closed;
};

static struct bench *b;

static void on_adopted(void *arg)
{
	b->adopted++;
}

static void on_refused(void *arg, uint64_t version, struct text why)
{
	b->refused++;
}

static void on_revoked(void *arg, const char *lease, bool is_known, uint64_t closed)
{
	b->revoked++;
	b->last_known = is_known;
	b->last_closed = closed;
}

static const struct publish_events events = { on_adopted, on_refused, on_revoked };

static void set_segment(size_t n, enum layout_kind kind, const char *text)
{
	static uint8_t bytes[BUILT_BYTES_MAX];
	struct emitted *e = &b->emitted[n];

	alloc_free(e->bytes);
	e->len = built_bytes(&b->store, kind, text, bytes);
	e->bytes = alloc_copy(bytes, e->len);
	cr_assert_eq(crypto_sha256(e->bytes, e->len, e->id), ERR_OK);
}

static void bench_start(uint32_t slots)
{
	b = alloc_zeroed(sizeof(*b));
	log_init("test", LOG_LEVEL_ERROR);
	cr_assert_eq(crypto_init(), ERR_OK);
	clock_use(&fake);
	built_store_init(&b->store);
	b->link.loop = loop_create();
	fixture_link_open(&b->link);
	cr_assert_eq(gate_create(slots, &b->page), ERR_OK);
	cr_assert_eq(publish_create(&events, NULL, &b->publish), ERR_OK);
	set_segment(0, LAYOUT_CEILING, "allow any\n");
}

static void bench_stop(void)
{
	publish_destroy(b->publish);
	fixture_link_close(&b->link);
	gate_destroy(b->page);
	for (size_t i = 0; i <= LEASES_MAX; i++)
		alloc_free(b->emitted[i].bytes);
	built_store_finish(&b->store);
	loop_destroy(b->link.loop);
	alloc_free(b);
	clock_use(NULL);
}

/* The holding has this lease, with these lines. */
static void hold(const char *id, const char *lines)
{
	char text[1024];
	size_t i = 0;

	while (i < b->lease_count && strcmp(b->ids[i], id) != 0)
		i++;
	if (i == b->lease_count)
		b->lease_count++;
	snprintf(b->ids[i], sizeof(b->ids[i]), "%s", id);
	snprintf(text, sizeof(text), "lease %s\n%s", id, lines);
	set_segment(i + 1, LAYOUT_LEASE, text);
	b->leases[i] = (struct holding_lease){ b->ids[i], &b->emitted[i + 1] };
}

static enum err offer(void)
{
	struct holding holding = { .leases = b->offered, .ceiling = &b->emitted[0] };

	for (size_t i = 0; i < b->lease_count; i++) {
		if (!b->is_gone[i])
			b->offered[holding.lease_count++] = b->leases[i];
	}
	return publish_offer(b->publish, &holding, &b->receipt);
}

static void welcome(uint64_t adopted_version)
{
	publish_connect(b->publish, b->link.channel, b->page, adopted_version);
}

static void note(const char *word)
{
	if (b->story[0] != '\0')
		strcat(b->story, " ");
	strcat(b->story, word);
}

static void receive_root(const struct ctl_msg *msg, int fd)
{
	struct segment *root;
	const char *fault;
	uint32_t count;

	cr_assert_eq(segment_open(fd, &root, &fault), ERR_OK, "%s", fault);
	b->root_version = msg->field[0].number;
	cr_assert_eq(segment_root(root)->version, b->root_version);
	segment_table(root, LAYOUT_ROOT_LEASES, &count);
	b->root_leases = count;
	b->root_base = segment_root(root)->base;
	segment_unref(root);
}

/* What the daemon received since: "segment segment root", "revoke(0,lease_revoked)". */
static const char *receive(void)
{
	struct ctl_msg msg;
	int fd;

	b->story[0] = '\0';
	fixture_settle(b->link.loop);
	while (fixture_link_next(&b->link, &msg, &fd)) {
		char word[128];

		snprintf(word, sizeof(word), "%s", ctl_row(msg.type)->word);
		if (msg.type == CTL_ROOT)
			receive_root(&msg, fd);
		if (msg.type == CTL_REVOKE) {
			/* The page stood before the word came. */
			cr_expect_neq(gate_slot_state(b->page, (uint32_t)msg.field[0].number),
				      GATE_SLOT_OPEN);
			snprintf(word, sizeof(word), "revoke(%u,%u,%.*s)",
				 (unsigned)msg.field[0].number, (unsigned)msg.field[1].number,
				 (int)msg.field[2].bytes.len, msg.field[2].bytes.at);
		}
		note(word);
		if (fd >= 0)
			close(fd);
		fixture_settle(b->link.loop);
		if (channel_queued(b->link.channel) == 0)
			publish_on_drained(b->publish);
	}
	return b->story;
}

static bool slots(const char *lines)
{
	return publish_on_slots(b->publish, 0, text_of(lines));
}

static bool ack(void)
{
	return publish_on_ack(b->publish, b->root_version);
}

static enum gate_slot_state state(uint32_t slot)
{
	return gate_slot_state(b->page, slot);
}

/* Two leases, adopted, in slots 0 and 1. */
static void two_leases(void)
{
	hold("ls_a", "require source\nsource 10.0.0.1/32\n");
	hold("ls_b", "require source\nsource 10.0.0.2/32\n");
	cr_assert_eq(offer(), ERR_OK);
	welcome(0);
	receive();
	cr_assert(slots("0 1 ls_a\n1 1 ls_b\n"));
	cr_assert(ack());
	cr_assert_eq(state(0), GATE_SLOT_OPEN);
	cr_assert_eq(state(1), GATE_SLOT_OPEN);
}

Test(publish, opens_a_slot_only_once_every_worker_adopted_its_lease)
{
	bench_start(4);
	hold("ls_a", "require token\ntoken t1\n");
	cr_assert_eq(offer(), ERR_OK);
	cr_assert_not(publish_is_adopted(b->publish));
	welcome(41);
	cr_assert_str_eq(receive(), "segment segment root");
	cr_assert_eq(b->root_version, 42);
	cr_assert_eq(b->root_leases, 1);
	cr_assert(slots("2 7 ls_a\n"));
	cr_assert_eq(state(2), GATE_SLOT_CLOSED);
	cr_assert_eq(b->adopted, 0);
	b->root_version--;
	cr_assert_not(ack(), "of another version");
	b->root_version++;
	cr_assert(ack());
	cr_assert_eq(state(2), GATE_SLOT_OPEN);
	cr_assert_eq(b->adopted, 1);
	cr_assert(publish_is_adopted(b->publish));
	bench_stop();
}

Test(publish, sends_only_what_is_new)
{
	bench_start(4);
	two_leases();
	cr_assert_eq(offer(), ERR_OK);
	cr_assert_str_eq(receive(), "", "nothing changed");
	cr_assert(publish_is_adopted(b->publish));
	hold("ls_a", "require source\nsource 10.0.0.1/32\nallow https://a.example.org\n");
	cr_assert_eq(offer(), ERR_OK);
	cr_assert_not(publish_is_adopted(b->publish));
	cr_assert_str_eq(receive(), "segment root");
	cr_assert_eq(state(0), GATE_SLOT_OPEN, "a changed lease is judged again by the daemon");
	cr_assert(ack());
	cr_assert(publish_is_adopted(b->publish));
	/* A new ceiling alone is a new root. */
	set_segment(0, LAYOUT_CEILING, "allow https://a.example.org\n");
	cr_assert_eq(offer(), ERR_OK);
	cr_assert_str_eq(receive(), "segment root");
	bench_stop();
}

/* Offer one lease alone, as what differs; NULL: it is gone. */
static enum err offer_one(const char *id, const struct emitted *segment)
{
	const struct holding_lease lease = { id, segment };
	const struct holding holding = {
		.base = b->receipt, .leases = &lease, .lease_count = 1, .ceiling = &b->emitted[0]
	};

	return publish_offer(b->publish, &holding, &b->receipt);
}

Test(publish, names_in_a_root_only_what_differs_from_what_was_adopted)
{
	bench_start(4);
	two_leases();
	cr_assert_eq(b->root_base, 0);
	cr_assert_eq(b->root_leases, 2);
	hold("ls_a", "require source\nsource 10.0.0.1/32\nallow https://a.example.org\n");
	cr_assert_eq(offer_one("ls_a", b->leases[0].segment), ERR_OK);
	cr_assert_str_eq(receive(), "segment root");
	cr_assert_eq(b->root_base, 1);
	cr_assert_eq(b->root_leases, 1);
	cr_assert(publish_on_slots(b->publish, 2, text_of("0 1 ls_a\n")));
	cr_assert(ack());
	cr_assert_eq(offer_one("ls_b", NULL), ERR_OK);
	cr_assert_eq(state(1), GATE_SLOT_REVOKED);
	cr_assert_str_eq(receive(), "revoke(1,1,lease_revoked) root");
	cr_assert_eq(b->root_base, 2);
	cr_assert_eq(b->root_leases, 1);
	cr_assert(ack());
	/* Its slot is another's now. */
	cr_assert_eq(offer_one("ls_b", b->leases[1].segment), ERR_OK);
	cr_assert_str_eq(receive(), "segment root");
	cr_assert(publish_on_slots(b->publish, 4, text_of("3 1 ls_b\n")));
	cr_assert(ack());
	cr_assert_eq(state(3), GATE_SLOT_OPEN);
	cr_assert_eq(state(0), GATE_SLOT_OPEN);
	bench_stop();
}

Test(publish, sends_a_complete_root_when_its_base_is_not_held_and_after_any_refusal)
{
	bench_start(4);
	two_leases();
	hold("ls_a", "require source\nsource 10.0.0.1/32\nallow https://a.example.org\n");
	cr_assert_eq(offer(), ERR_OK);
	cr_assert_str_eq(receive(), "segment root");
	cr_assert_eq(b->root_base, 1);
	cr_assert(publish_on_nack(b->publish, b->root_version, text_of(CTL_NACK_BASE)));
	cr_assert_eq(b->refused, 0);
	cr_assert_str_eq(receive(), "segment root", "at once");
	cr_assert_eq(b->root_base, 0);
	cr_assert_eq(b->root_leases, 2);
	/* A daemon that says so of a complete one is only refusing. */
	cr_assert(publish_on_nack(b->publish, b->root_version, text_of(CTL_NACK_BASE)));
	cr_assert_eq(b->refused, 1);
	cr_assert_str_eq(receive(), "");
	mono_ms += 1000;
	publish_tick(b->publish);
	cr_assert_str_eq(receive(), "segment root");
	cr_assert_eq(b->root_base, 0);
	cr_assert(ack());
	cr_assert_eq(state(0), GATE_SLOT_OPEN);
	bench_stop();
}

Test(publish, takes_what_differs_only_on_top_of_what_it_took_last)
{
	uint64_t before;

	bench_start(4);
	cr_assert_eq(offer_one("ls_a", NULL), ERR_INVALID, "no receipt yet: it would have to be complete, where nobody is gone");
	two_leases();
	before = b->receipt;
	cr_assert_eq(offer(), ERR_OK);
	cr_assert_neq(b->receipt, before);
	b->receipt = before;
	cr_assert_eq(offer_one("ls_a", NULL), ERR_NOT_FOUND);
	cr_assert_eq(state(0), GATE_SLOT_OPEN);
	cr_assert_not(publish_is_adopted(b->publish), "there is something newer");
	cr_assert_eq(offer(), ERR_OK);
	cr_assert(publish_is_adopted(b->publish));
	/* Nor after one that could not be taken. */
	hold("ls_a", "require source\nsource 10.0.0.9/32\n");
	b->emitted[1].bytes[40] ^= 0xff;
	cr_assert_neq(offer_one("ls_a", b->leases[0].segment), ERR_OK);
	cr_assert_eq(offer_one("ls_b", NULL), ERR_NOT_FOUND);
	cr_assert_eq(state(1), GATE_SLOT_OPEN);
	bench_stop();
}

Test(publish, keeps_a_ruleset_as_long_as_some_lease_names_it)
{
	static const char *const texts[] = { "lease ls_a\nrequire source\nsource 10.0.0.1/32\nruleset\nallow https://r.example.org\nend\n",
					     "lease ls_b\nrequire source\nsource 10.0.0.2/32\nruleset\nallow https://r.example.org\nend\n" };
	const struct emitted *rulesets[1];
	struct emitted ruleset = { .bytes = NULL };
	struct holding_lease leases[2] = { { "ls_a", NULL }, { "ls_b", NULL } };
	struct holding holding = { .leases = leases, .lease_count = 2, .rulesets = rulesets };
	static uint8_t bytes[BUILT_BYTES_MAX];

	bench_start(4);
	holding.ceiling = &b->emitted[0];
	for (size_t i = 0; i < 2; i++) {
		set_segment(i + 1, LAYOUT_LEASE, texts[i]);
		leases[i].segment = &b->emitted[i + 1];
	}
	cr_assert_eq(publish_offer(b->publish, &holding, &b->receipt), ERR_INVALID, "nobody has its ruleset");
	ruleset.len = built_bytes(&b->store, LAYOUT_RULESET, "allow https://r.example.org\n", bytes);
	ruleset.bytes = bytes;
	cr_assert_eq(crypto_sha256(bytes, ruleset.len, ruleset.id), ERR_OK);
	rulesets[0] = &ruleset;
	holding.ruleset_count = 1;
	cr_assert_eq(publish_offer(b->publish, &holding, &b->receipt), ERR_OK);
	welcome(0);
	cr_assert_str_eq(receive(), "segment segment segment segment root");
	cr_assert(ack());
	cr_assert_eq(offer_one("ls_a", NULL), ERR_OK);
	cr_assert_str_eq(receive(), "root");
	cr_assert(ack());
	/* Still held for the other, and so not sent again; nor need it be offered again. */
	cr_assert_eq(offer_one("ls_a", leases[0].segment), ERR_OK);
	cr_assert_str_eq(receive(), "segment root");
	cr_assert(ack());
	cr_assert_eq(offer_one("ls_a", NULL), ERR_OK);
	cr_assert_eq(offer_one("ls_b", NULL), ERR_OK);
	receive();
	cr_assert(ack());
	receive();
	cr_assert(ack());
	cr_assert_eq(offer_one("ls_a", leases[0].segment), ERR_INVALID, "with its last lease it was forgotten");
	bench_stop();
}

Test(publish, shuts_a_slot_before_it_says_so_and_before_the_next_root)
{
	static const struct {
		const char *lines;
		enum gate_slot_state state;
		const char *story;
	} cases[] = {
		{ NULL, GATE_SLOT_REVOKED, "revoke(0,1,lease_revoked) root" },
		{ "state revoked\n", GATE_SLOT_REVOKED, "revoke(0,1,lease_revoked) segment root" },
		{ "state suspended\n", GATE_SLOT_SUSPENDED, "revoke(0,1,lease_suspended) segment root" },
		{ "state invalid\n", GATE_SLOT_INVALID, "revoke(0,1,policy_invalid) segment root" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char lines[200];

		bench_start(4);
		two_leases();
		if (cases[i].lines != NULL) {
			snprintf(lines, sizeof(lines), "require source\nsource 10.0.0.1/32\n%s",
				 cases[i].lines);
			hold("ls_a", lines);
		} else {
			b->is_gone[0] = true;
		}
		cr_assert_eq(offer(), ERR_OK);
		cr_expect_eq(state(0), cases[i].state);
		cr_expect_eq(state(1), GATE_SLOT_OPEN);
		cr_expect_str_eq(receive(), cases[i].story);
		cr_assert(ack());
		cr_expect_eq(state(0), cases[i].state);
		cr_expect_str_eq(receive(), "");
		bench_stop();
	}
}

Test(publish, opens_a_suspended_lease_again_only_after_its_ack)
{
	bench_start(4);
	two_leases();
	hold("ls_a", "require source\nsource 10.0.0.1/32\nstate suspended\n");
	cr_assert_eq(offer(), ERR_OK);
	receive();
	cr_assert(ack());
	hold("ls_a", "require source\nsource 10.0.0.1/32\n");
	cr_assert_eq(offer(), ERR_OK);
	receive();
	cr_assert_eq(state(0), GATE_SLOT_SUSPENDED);
	cr_assert(slots("0 2 ls_a\n1 1 ls_b\n"));
	cr_assert_eq(state(0), GATE_SLOT_SUSPENDED);
	cr_assert(ack());
	cr_assert_eq(state(0), GATE_SLOT_OPEN);
	bench_stop();
}

Test(publish, ends_a_lease_by_whichever_clock_comes_first)
{
	for (unsigned by_wall = 0; by_wall <= 1; by_wall++) {
		uint64_t wall_before = wall_ms, mono_before = mono_ms;
		char lines[200];

		bench_start(4);
		two_leases();
		snprintf(lines, sizeof(lines), "require source\nsource 10.0.0.1/32\nexp %llu\n",
			 (unsigned long long)wall_ms + 60000);
		hold("ls_a", lines);
		cr_assert_eq(offer(), ERR_OK);
		receive();
		cr_assert(ack());
		publish_tick(b->publish);
		cr_assert_eq(state(0), GATE_SLOT_OPEN);
		if (by_wall)
			wall_ms += 60000;
		else
			mono_ms += 60000, wall_ms -= 3600000;
		publish_tick(b->publish);
		cr_expect_eq(state(0), GATE_SLOT_EXPIRED);
		cr_expect_str_eq(receive(), "revoke(0,1,lease_expired)");
		/* Setting the clock back brings nothing back. */
		wall_ms -= 7200000;
		cr_assert_eq(offer(), ERR_OK);
		publish_tick(b->publish);
		cr_expect_eq(state(0), GATE_SLOT_EXPIRED);
		cr_expect_str_eq(receive(), "");
		bench_stop();
		wall_ms = wall_before;
		mono_ms = mono_before;
	}
}

Test(publish, as_a_successor_touches_nothing_before_its_first_ack_but_what_ended)
{
	bench_start(4);
	/* What the predecessor left. */
	gate_set_slot(b->page, 0, GATE_SLOT_OPEN);
	gate_set_slot(b->page, 1, GATE_SLOT_OPEN);
	gate_set_slot(b->page, 2, GATE_SLOT_SUSPENDED);
	welcome(9);
	cr_assert(slots("0 3 ls_a\n1 4 ls_gone\n2 5 ls_c\n"));
	publish_tick(b->publish);
	cr_assert_str_eq(receive(), "", "not before the source has spoken");
	cr_assert_eq(state(0), GATE_SLOT_OPEN);
	cr_assert_eq(state(1), GATE_SLOT_OPEN);
	hold("ls_a", "require source\nsource 10.0.0.1/32\n");
	hold("ls_c", "require source\nsource 10.0.0.3/32\n");
	cr_assert_eq(offer(), ERR_OK);
	cr_assert_eq(state(0), GATE_SLOT_OPEN);
	cr_assert_eq(state(1), GATE_SLOT_REVOKED);
	cr_assert_eq(state(2), GATE_SLOT_SUSPENDED, "opens after the ACK");
	cr_assert_str_eq(receive(), "revoke(1,4,lease_revoked) segment segment segment root");
	cr_assert_eq(b->root_version, 10);
	cr_assert(ack());
	cr_assert_eq(state(0), GATE_SLOT_OPEN);
	cr_assert_eq(state(2), GATE_SLOT_OPEN);
	bench_stop();
}

Test(publish, tries_a_refused_version_again_and_counts_as_not_adopted_until_then)
{
	bench_start(4);
	two_leases();
	hold("ls_a", "require source\nsource 10.0.0.1/32\nallow https://a.example.org\n");
	cr_assert_eq(offer(), ERR_OK);
	cr_assert_str_eq(receive(), "segment root");
	cr_assert(publish_on_nack(b->publish, b->root_version, text_of("no memory")));
	cr_assert_eq(b->refused, 1);
	publish_tick(b->publish);
	cr_assert_str_eq(receive(), "", "not at once");
	cr_assert_not(publish_is_adopted(b->publish));
	mono_ms += 1000;
	publish_tick(b->publish);
	cr_assert_str_eq(receive(), "segment root", "what it kept is not known");
	cr_assert(ack());
	cr_assert(publish_is_adopted(b->publish));
	bench_stop();
}

Test(publish, lets_the_newest_holding_win_and_never_opens_what_it_has_shut)
{
	bench_start(4);
	hold("ls_a", "require source\nsource 10.0.0.1/32\n");
	hold("ls_b", "require source\nsource 10.0.0.2/32\n");
	cr_assert_eq(offer(), ERR_OK);
	welcome(0);
	receive();
	/* While that is under way ls_a is revoked, and ls_b changes twice. */
	hold("ls_a", "require source\nsource 10.0.0.1/32\nstate revoked\n");
	hold("ls_b", "require source\nsource 10.0.0.2/32\nallow https://one.example.org\n");
	cr_assert_eq(offer(), ERR_OK);
	hold("ls_b", "require source\nsource 10.0.0.2/32\nallow https://two.example.org\n");
	cr_assert_eq(offer(), ERR_OK);
	cr_assert_str_eq(receive(), "", "one root at a time");
	cr_assert(slots("0 1 ls_a\n1 1 ls_b\n"));
	cr_assert_eq(state(0), GATE_SLOT_REVOKED);
	cr_assert(ack());
	cr_assert_eq(state(0), GATE_SLOT_REVOKED);
	cr_assert_eq(state(1), GATE_SLOT_CLOSED, "what was adopted is not what is wanted");
	cr_assert_eq(b->adopted, 0);
	cr_assert_str_eq(receive(), "segment segment root");
	cr_assert(ack());
	cr_assert_eq(b->adopted, 1);
	cr_assert_eq(state(1), GATE_SLOT_OPEN);
	bench_stop();
}

Test(publish, revokes_by_hand_at_once_and_lifts_only_what_is_adopted)
{
	bool awaits = false;
	uint64_t rev;

	bench_start(4);
	two_leases();
	cr_assert_eq(publish_set_by_hand(b->publish, "ls_a", true, &awaits), ERR_OK);
	cr_assert(awaits);
	cr_assert_eq(state(0), GATE_SLOT_REVOKED);
	cr_assert_str_eq(receive(), "revoke(0,1,lease_revoked)");
	cr_assert_eq(publish_set_by_hand(b->publish, "ls_a", true, &awaits), ERR_OK);
	cr_assert(awaits, "who asks twice waits for the answer too");
	cr_assert_str_eq(receive(), "");
	publish_on_revoked(b->publish, 0, 2, 5);
	cr_assert_eq(b->revoked, 1);
	cr_assert(b->last_known);
	cr_assert_eq(b->last_closed, 5);
	cr_assert_eq(publish_set_by_hand(b->publish, "ls_a", true, &awaits), ERR_OK);
	cr_assert_not(awaits, "it is shut already");
	/* Any number of new roots does not open it. */
	hold("ls_a", "require source\nsource 10.0.0.1/32\nallow https://a.example.org\n");
	cr_assert_eq(offer(), ERR_OK);
	receive();
	/* Lifted while its new text is on its way: not under the old one. */
	cr_assert_eq(publish_set_by_hand(b->publish, "ls_a", false, &awaits), ERR_OK);
	cr_assert_eq(state(0), GATE_SLOT_REVOKED);
	cr_assert(ack());
	cr_assert_eq(state(0), GATE_SLOT_OPEN);
	/* And the generation that the daemon counted to is used. */
	cr_assert_eq(publish_set_by_hand(b->publish, "ls_a", true, &awaits), ERR_OK);
	cr_assert_str_eq(receive(), "revoke(0,2,lease_revoked)");
	publish_disconnect(b->publish);
	cr_assert_eq(b->revoked, 2);
	cr_assert_not(b->last_known);
	cr_assert(publish_find(b->publish, "ls_a", &rev));
	cr_assert_not(publish_find(b->publish, "ls_none", &rev));
	bench_stop();
}

Test(publish, remembers_a_revocation_by_hand_of_a_lease_that_comes_later)
{
	bool awaits;

	bench_start(4);
	cr_assert_eq(publish_set_by_hand(b->publish, "ls_a", true, &awaits), ERR_OK);
	hold("ls_a", "require source\nsource 10.0.0.1/32\n");
	cr_assert_eq(offer(), ERR_OK);
	welcome(0);
	receive();
	cr_assert(slots("0 1 ls_a\n"));
	cr_assert(ack());
	cr_assert_eq(state(0), GATE_SLOT_REVOKED);
	bench_stop();
}

Test(publish, says_a_revocation_by_hand_to_each_daemon_that_greets_since_the_word_may_be_lost)
{
	bool awaits;

	bench_start(4);
	two_leases();
	cr_assert_eq(publish_set_by_hand(b->publish, "ls_a", true, &awaits), ERR_OK);
	receive();
	welcome(1);
	receive();
	/* The page says it; whether sessions were closed is not in it. */
	cr_assert(slots("0 1 ls_a\n1 1 ls_b\n"));
	cr_assert_str_eq(receive(), "revoke(0,1,lease_revoked)");
	cr_assert(slots("0 1 ls_a\n1 1 ls_b\n"));
	cr_assert(ack());
	publish_tick(b->publish);
	cr_assert_eq(state(0), GATE_SLOT_REVOKED);
	cr_assert_eq(state(1), GATE_SLOT_OPEN);
	bench_stop();
}

Test(publish, sends_everything_again_to_a_new_daemon)
{
	bench_start(4);
	two_leases();
	publish_disconnect(b->publish);
	cr_assert_not(publish_is_adopted(b->publish));
	fixture_link_close(&b->link);
	fixture_link_open(&b->link);
	gate_destroy(b->page);
	cr_assert_eq(gate_create(4, &b->page), ERR_OK);
	welcome(0);
	cr_assert_str_eq(receive(), "segment segment segment root");
	cr_assert_eq(b->root_version, 2, "versions grow on");
	cr_assert(slots("3 1 ls_a\n2 1 ls_b\n"));
	cr_assert_eq(state(3), GATE_SLOT_CLOSED);
	cr_assert(ack());
	cr_assert_eq(state(3), GATE_SLOT_OPEN);
	cr_assert_eq(state(0), GATE_SLOT_CLOSED);
	bench_stop();
}

Test(publish, refuses_a_segment_that_does_not_verify_and_decays)
{
	bench_start(4);
	two_leases();
	hold("ls_a", "require source\nsource 10.0.0.9/32\n");
	b->emitted[1].bytes[40] ^= 0xff;
	cr_assert_neq(offer(), ERR_OK);
	cr_assert_not(publish_is_adopted(b->publish));
	mono_ms += 10000;
	publish_tick(b->publish);
	cr_assert_str_eq(receive(), "");
	cr_assert_not(publish_is_adopted(b->publish), "the old holding is not the newest");
	hold("ls_a", "require source\nsource 10.0.0.1/32\n");
	cr_assert_eq(offer(), ERR_OK);
	cr_assert(publish_is_adopted(b->publish), "as it was");
	/* Two leases of one name, and a lease under another's name. */
	b->leases[b->lease_count++] = b->leases[0];
	cr_assert_eq(offer(), ERR_INVALID);
	b->leases[b->lease_count - 1].id = "ls_other";
	cr_assert_eq(offer(), ERR_INVALID);
	bench_stop();
}

Test(publish, takes_no_slot_lines_that_break_the_protocol)
{
	static const char *const bad[] = { "\n",	"0\n",	       "0 1\n",	    "0 1 \n",
					   "4 1 ls_a\n", "-1 1 ls_a\n", "0 x ls_a\n", "00 1 ls_a\n",
					   "0 4294967296 ls_a\n" };
	char longest[100];

	bench_start(4);
	welcome(0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		cr_expect_not(slots(bad[i]), "%s", bad[i]);
	snprintf(longest, sizeof(longest), "0 1 %065d\n", 1);
	cr_expect_not(slots(longest));
	cr_expect(slots("0 1 ls_a"), "the last line needs no end");
	cr_expect(slots(""));
	cr_expect_not(publish_on_ack(b->publish, 1), "nothing is under way");
	cr_expect_not(publish_on_nack(b->publish, 1, text_of("")));
	publish_on_revoked(b->publish, 99, 1, 1);
	bench_stop();
}

Test(publish, follows_a_slot_that_is_given_to_another_lease)
{
	bench_start(2);
	two_leases();
	b->is_gone[0] = true;
	cr_assert_eq(offer(), ERR_OK);
	receive();
	cr_assert(ack());
	/* The daemon gives the slot of ls_a to ls_c. */
	hold("ls_c", "require source\nsource 10.0.0.3/32\n");
	cr_assert_eq(offer(), ERR_OK);
	receive();
	cr_assert(slots("0 2 ls_c\n1 1 ls_b\n"));
	cr_assert_neq(state(0), GATE_SLOT_OPEN);
	cr_assert(ack());
	cr_assert_eq(state(0), GATE_SLOT_OPEN);
	/* A lease that moves leaves its old slot shut, and begins shut in the new one. */
	cr_assert(publish_on_slots(b->publish, 9, text_of("0 2 ls_b\n")));
	cr_assert_eq(state(0), GATE_SLOT_CLOSED);
	cr_assert_eq(state(1), GATE_SLOT_CLOSED);
	bench_stop();
}

Test(publish, holds_few_descriptors_for_a_slow_daemon)
{
	size_t before, segments = 0;

	bench_start(LEASES_MAX);
	for (unsigned i = 0; i < LEASES_MAX; i++) {
		char id[16];

		snprintf(id, sizeof(id), "ls_%u", i);
		hold(id, "require source\nsource 10.0.0.1/32\n");
		if (b->store.count > 200) {
			built_store_finish(&b->store);
			built_store_init(&b->store);
		}
	}
	cr_assert_eq(offer(), ERR_OK);
	before = fixture_fd_count();
	welcome(0);
	cr_assert_leq(fixture_fd_count(), before + 2);
	receive();
	for (const char *at = b->story; (at = strstr(at, "segment")) != NULL; at++)
		segments++;
	cr_assert_eq(segments, LEASES_MAX + 1);
	cr_assert_eq(b->root_leases, LEASES_MAX);
	bench_stop();
}

Test(publish, counts_and_names_what_is_held)
{
	struct publish_counts counts;

	bench_start(8);
	two_leases();
	hold("ls_c", "require source\nsource 10.0.0.3/32\nstate suspended\n");
	hold("ls_d", "require source\nsource 10.0.0.4/32\nstate invalid\n");
	cr_assert_eq(offer(), ERR_OK);
	publish_count(b->publish, &counts);
	cr_assert_eq(counts.active, 2);
	cr_assert_eq(counts.suspended, 1);
	cr_assert_eq(counts.quarantined, 1);
	cr_assert_eq(counts.revoked, 0);
	bench_stop();
}
