/*
 * Any bytes as a segment: it is refused, or every reader may walk it without a check. Then each rule must be found through the index that
 * covers its host, an enforced deny must win, and a permit appears only where the verdict allows.
 */
#include <stdint.h>
#include <string.h>

#include "base/crypto.h"
#include "image/segment.h"
#include "image/snapshot.h"
#include "policy/label_index.h"
#include "policy/match.h"
#include "policy/prefix_index.h"
#include "require.h"

#define TARGETS_MAX 64

/* Both are the whole world of a run beside the bytes: a lease and a ceiling that let everything through. */
struct fixed {
	struct segment *lease, *ceiling;
};

struct small {
	struct layout_header h;
	union {
		struct {
			char strings[8];
			struct layout_lease lease;
		} l;
		struct {
			struct layout_rule rule;
			uint32_t any[2];
		} c;
		struct layout_root root;
	} u;
};

static struct segment *open_small(struct small *s, enum layout_kind kind)
{
	const char *fault;
	struct segment *segment;

	s->h.magic = LAYOUT_MAGIC;
	s->h.abi = LAYOUT_ABI;
	s->h.kind = (uint16_t)kind;
	s->h.size = sizeof(*s);
	REQUIRE(segment_open_bytes(s, sizeof(*s), &segment, &fault) == ERR_OK);
	return segment;
}

static struct segment *make_lease(void)
{
	struct small s = { 0 };

	memcpy(s.u.l.strings, "ls_f", 5);
	s.h.table[LAYOUT_STRINGS] = (struct layout_span){ offsetof(struct small, u.l.strings), 8 };
	s.h.table[LAYOUT_LEASES] = (struct layout_span){ offsetof(struct small, u.l.lease), 1 };
	s.u.l.lease = (struct layout_lease){
		.id = { 0, 4 }, .state = LAYOUT_LEASE_ACTIVE, .scope = LAYOUT_SCOPE_DECLARED,
		.require = LAYOUT_REQUIRE_TOKEN, .options = LAYOUT_OPTION_REPORT,
	};
	return open_small(&s, LAYOUT_LEASE);
}

static struct segment *make_ceiling(void)
{
	struct small s = { 0 };

	s.h.table[LAYOUT_RULES] = (struct layout_span){ offsetof(struct small, u.c.rule), 1 };
	s.h.table[LAYOUT_ANY_REFS] = (struct layout_span){ offsetof(struct small, u.c.any), 1 };
	s.u.c.rule.host = RULE_HOST_ANY;
	return open_small(&s, LAYOUT_CEILING);
}

static struct segment *find_one(void *arg, const uint8_t id[LAYOUT_ID_LEN])
{
	struct segment *s = arg;

	return memcmp(segment_id(s), id, LAYOUT_ID_LEN) == 0 ? s : NULL;
}

#define SNAPSHOT_VERSION 7

static struct snapshot *make_snapshot(struct segment *ceiling, uint64_t version)
{
	struct small s = { 0 };
	struct segment *root;
	struct snapshot *snapshot;
	const char *fault;

	s.h.table[LAYOUT_ROOT_INFO] = (struct layout_span){ offsetof(struct small, u.root), 1 };
	s.u.root.version = version;
	s.u.root.flags = LAYOUT_ROOT_REPORT_ALLOWED;
	memcpy(s.u.root.ceiling.bytes, segment_id(ceiling), LAYOUT_ID_LEN);
	root = open_small(&s, LAYOUT_ROOT);
	REQUIRE(snapshot_create(root, find_one, ceiling, &snapshot, &fault) == ERR_OK);
	segment_unref(root);
	return snapshot;
}

struct search {
	uint32_t wanted;
	unsigned times;
};

static void on_found(void *arg, uint32_t number)
{
	struct search *s = arg;

	s->times += number == s->wanted;
}

static struct target rule_target(const struct segment *s, const struct layout_rule *r, uint16_t port)
{
	struct target t = { .kind = TARGET_ADDRESS, .port = port };
	struct text name = segment_text(s, r->name);
	char below[DNAME_MAX + 3];

	if (r->host == RULE_HOST_NAME || r->host == RULE_HOST_WILDCARD) {
		size_t at = r->host == RULE_HOST_WILDCARD && name.len <= DNAME_MAX - 2 ? 2 : 0;

		t.kind = TARGET_NAME;
		memcpy(below, "a.", 2);
		memcpy(below + at, name.at, name.len);
		REQUIRE(dname_parse((struct text){ below, at + name.len }, DNAME_FINAL_DOT_REFUSE,
				    &t.name) == DNAME_OK);
	} else if (r->host == RULE_HOST_PREFIX) {
		t.addr.family = r->family;
		memcpy(t.addr.octets, r->octets, 16);
	} else {
		t.addr = addr_v4((const uint8_t[4]){ 9, 9, 9, 9 });
	}
	return t;
}

/* Is a rule found by its own host, exactly once? */
static void check_found(const struct segment *s, const struct layout_rule *r, uint32_t number)
{
	struct target t = rule_target(s, r, 1);
	struct search search = { .wanted = number };

	if (r->host == RULE_HOST_ANY)
		return;
	if (t.kind == TARGET_NAME)
		label_index_visit(s, &t.name, on_found, &search);
	else
		prefix_index_visit(s, &t.addr, on_found, &search);
	/* A wildcard on a name so long that nothing fits below it covers nothing. */
	REQUIRE(search.times == 1 || (r->host == RULE_HOST_WILDCARD && r->name.len > DNAME_MAX - 2));
}

static uint16_t rule_port(const struct segment *s, const struct layout_rule *r)
{
	uint32_t count;
	const struct layout_ports *ports = segment_table(s, LAYOUT_PORTS, &count);

	return r->ports.count == 0 ? 443 : ports[r->ports.offset + r->ports.count - 1].last;
}

static void check_verdict(const struct verdict *v, bool permit_written, enum facts_phase phase)
{
	REQUIRE(v->allow == (v->reason == REASON_ALLOWED || v->would_deny));
	REQUIRE(v->reason < REASON_COUNT && v->snapshot == SNAPSHOT_VERSION);
	REQUIRE(memchr(v->rule_id, '\0', sizeof(v->rule_id)) != NULL);
	REQUIRE(permit_written == (v->allow && phase == PHASE_ADDRESS));
	if (v->allow)
		REQUIRE(v->schemes != 0 && v->schemes < BIT(SCHEME_COUNT) && v->pin != RULE_PIN_DEFAULT);
}

static struct verdict ask(const struct snapshot *snapshot, const struct snapshot_lease *lease,
			  const struct facts *f)
{
	static struct trace trace;
	struct permit permit = { .slot = UINT32_MAX };
	struct verdict v;

	trace_init(&trace);
	v = policy_match(snapshot, lease, f, &trace, &permit);
	check_verdict(&v, permit.slot != UINT32_MAX, f->phase);
	for (size_t i = 0; i < trace.count; i++) {
		struct rule rule;
		char text[RULE_TEXT_MAX];

		trace_step_rule(&trace.steps[i], &rule);
		rule_print(&rule, text);
	}
	return v;
}

/* Ask every phase about the host of a rule; an enforced deny of the lease never ends in a plain allow. */
static void check_rule(const struct snapshot *snapshot, const struct snapshot_lease *lease,
		       const struct segment *s, const struct layout_rule *r)
{
	struct facts f = { .phase = PHASE_REQUEST, .slot = 1 };
	bool denies = (r->flags & (LAYOUT_RULE_DENY | LAYOUT_RULE_REPORT)) == LAYOUT_RULE_DENY &&
		      !(r->host == RULE_HOST_WILDCARD && r->name.len > DNAME_MAX - 2);
	struct verdict v;

	f.target = rule_target(s, r, rule_port(s, r));
	f.name_class = NAME_ORDINARY;
	if (f.target.kind == TARGET_ADDRESS) {
		f.address_known = true;
		f.address = f.target.addr;
		addr_classify(&f.address, NULL, &f.finding);
	}
	v = ask(snapshot, lease, &f);
	REQUIRE(!denies || v.reason != REASON_ALLOWED);
	f.scheme_known = true;
	for (unsigned scheme = 0; scheme < SCHEME_COUNT; scheme++) {
		f.scheme = (enum scheme)scheme;
		v = ask(snapshot, lease, &f);
		REQUIRE(!denies || v.reason != REASON_ALLOWED);
		(void)policy_ceiling_allows(snapshot, &f);
	}
	f.scheme_known = false;
	f.phase = PHASE_ADDRESS;
	if (f.target.kind == TARGET_NAME) {
		f.address_known = true;
		f.address = addr_v4((const uint8_t[4]){ 10, 0, 0, 1 });
		addr_classify(&f.address, NULL, &f.finding);
		f.name_class = NAME_SPECIAL;
	}
	v = ask(snapshot, lease, &f);
	REQUIRE(!denies || v.reason != REASON_ALLOWED);
	f.name_class = NAME_ORDINARY;
	f.finding.class = ADDR_CLASS_PUBLIC;
	v = ask(snapshot, lease, &f);
	REQUIRE(!denies || v.reason != REASON_ALLOWED);
}

static void check_rules(struct segment *s, const struct fixed *fixed)
{
	bool is_ceiling = segment_kind(s) == LAYOUT_CEILING;
	struct snapshot *snapshot = make_snapshot(is_ceiling ? s : fixed->ceiling, SNAPSHOT_VERSION);
	struct segment *rulesets[] = { s };
	struct snapshot_lease lease = { .segment = fixed->lease };
	uint32_t count;
	const struct layout_rule *rules = segment_table(s, LAYOUT_RULES, &count);

	if (segment_kind(s) == LAYOUT_LEASE)
		lease.segment = s;
	if (segment_kind(s) == LAYOUT_RULESET) {
		lease.rulesets = rulesets;
		lease.ruleset_count = 1;
	}
	for (uint32_t i = 0; i < count; i++)
		check_found(s, &rules[i], i);
	for (uint32_t i = 0; i < count && i < TARGETS_MAX; i++)
		check_rule(snapshot, &lease, s, &rules[i]);
	snapshot_unref(snapshot);
}

/* Of all segments only the ceiling exists: what a root may say is that leases are gone, and only over the base that it names. */
static void check_root(const struct segment *s, const struct fixed *fixed)
{
	const struct layout_root *root = segment_root(s);
	struct snapshot *before = make_snapshot(fixed->ceiling, root->base == 0 ? SNAPSHOT_VERSION : root->base), *after;
	uint32_t count, gone = 0;
	const struct layout_root_lease *named = segment_table(s, LAYOUT_ROOT_LEASES, &count);
	const char *fault = NULL;
	bool holds = memcmp(root->ceiling.bytes, segment_id(fixed->ceiling), LAYOUT_ID_LEN) == 0;

	while (gone < count && layout_id_is_none(&named[gone].segment))
		gone++;
	REQUIRE((snapshot_follow(before, s, find_one, fixed->ceiling, &after, &fault) == ERR_OK) == (holds && gone == count));
	REQUIRE(fault != NULL);
	if (holds && gone == count) {
		REQUIRE(snapshot_version(after) == root->version && snapshot_lease_count(after) == 0);
		REQUIRE(snapshot_is_kin(before, after) && snapshot_ceiling(after) == fixed->ceiling);
		snapshot_unref(after);
	}
	snapshot_unref(before);
	before = make_snapshot(fixed->ceiling, root->base + 1);
	REQUIRE(root->base == 0 || snapshot_follow(before, s, find_one, fixed->ceiling, &after, &fault) == ERR_NOT_FOUND);
	snapshot_unref(before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fixed fixed;
	struct segment *s;
	const char *fault = NULL;

	if (fixed.lease == NULL) {
		REQUIRE(crypto_init() == ERR_OK);
		fixed.lease = make_lease();
		fixed.ceiling = make_ceiling();
	}
	if (segment_open_bytes(data, size, &s, &fault) != ERR_OK) {
		REQUIRE(fault != NULL);
		return 0;
	}
	if (segment_kind(s) == LAYOUT_ROOT)
		check_root(s, &fixed);
	else
		check_rules(s, &fixed);
	segment_unref(s);
	return 0;
}
