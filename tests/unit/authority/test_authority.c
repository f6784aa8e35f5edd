/* From policies to documents: what is written is what a proxy takes, what did not change stays as it is, and numbers only rise. */
#include "authority/authority.h"
#include "base/crypto.h"
#include "config/fault.h"
#include "document/beat_doc.h"
#include "document/lease_doc.h"
#include "document/manifest_doc.h"
#include "folder.h"

#define NOW 1796051200000ULL
#define LEASE(id) "lease " id "\nguest require source\nguest source 10.0.0.1\nmode allowlist\nuse p\nallow https://a.example\n"

struct scene {
	char folder[64], keys[128], policy[128], out[128], reason[KEYRING_REASON_MAX];
	struct authority *authority;
	struct authority_counts counts;
	size_t faults;
};

static void begin(struct scene *s)
{
	static const char *const roles[] = { "root", "beat", "manifest", "lease" };
	struct keyring_keyset keyset = { .epoch_min = 3, .exp_ms = NOW + 86400000 };
	char id[ENVELOPE_KEY_ID_MAX + 1];
	struct authority_options options = { .cell = "c-1", .lifetime_ms = 3600000 };

	cr_assert_eq(crypto_init(), ERR_OK);
	folder_make(s->folder);
	snprintf(s->keys, sizeof(s->keys), "%s/keys", s->folder);
	snprintf(s->policy, sizeof(s->policy), "%s/policy", s->folder);
	snprintf(s->out, sizeof(s->out), "%s/out", s->folder);
	mkdir(s->policy, 0755);
	mkdir(folder_path(s->policy, "leases"), 0755);
	mkdir(folder_path(s->policy, "presets"), 0755);
	folder_write(folder_path(s->policy, "presets/p.policy"), "allow https://p.example\n");
	for (size_t i = 0; i < ARRAY_LEN(roles); i++)
		cr_assert_eq(keyring_add(s->keys, roles[i], id, s->reason), ERR_OK);
	cr_assert_eq(keyring_write_root(s->keys, 1, 1, s->reason), ERR_OK);
	options.keys = s->keys;
	options.root = s->policy;
	options.out = s->out;
	mkdir(s->out, 0755);
	cr_assert_eq(authority_open(&options, s->reason, &s->authority), ERR_NOT_FOUND, "it does without a keyset");
	cr_assert_eq(keyring_sign(s->keys, s->out, &keyset, s->reason), ERR_OK);
	cr_assert_eq(authority_open(&options, s->reason, &s->authority), ERR_OK, "%s", s->reason);
}

static void end(struct scene *s)
{
	authority_close(s->authority);
	folder_remove(s->folder);
}

static void publish(struct scene *s, uint64_t wall_ms)
{
	struct fault_list faults;
	struct arena arena;

	arena_init(&arena, 0);
	fault_list_init(&faults, &arena);
	cr_assert_eq(authority_publish(s->authority, wall_ms, &faults, &s->counts, s->reason), ERR_OK, "%s", s->reason);
	s->faults = faults.error_count;
	arena_finish(&arena);
	cr_assert_eq(authority_beat(s->authority, wall_ms, s->reason), ERR_OK, "%s", s->reason);
}

/* The number of a document in the folder; 0: it is not there. */
static uint64_t number_of(struct scene *s, const char *name)
{
	const char *text = folder_read(folder_path(s->out, name)), *at;

	if (text == NULL)
		return 0;
	at = strstr(text, name[0] == 'l' ? "\"rev\":" : "\"seq\":");
	cr_assert_not_null(at);
	return strtoull(at + 6, NULL, 10);
}

Test(authority, publishes_what_changed_and_nothing_else)
{
	static struct scene s;
	uint64_t rev, seq;

	begin(&s);
	folder_write(folder_path(s.policy, "leases/a.policy"), LEASE("a"));
	folder_write(folder_path(s.policy, "leases/b.json"),
		     "{\"typ\":\"egress.lease/1\",\"lease\":\"b\",\"state\":\"suspended\",\"guest\":{\"require\":[\"source\"],"
		     "\"sources\":[\"::1\"]},\"network\":{\"mode\":\"deny_all\",\"rules\":[]}}");
	publish(&s, NOW);
	cr_assert_eq(s.counts.leases, 2);
	cr_assert_eq(s.counts.written, 4, "two leases, a ruleset, a manifest");
	rev = number_of(&s, "l/a");
	seq = number_of(&s, "m");
	cr_assert_eq(rev, NOW);
	cr_assert_not_null(strstr(folder_read(folder_path(s.out, "l/b")), "\"state\":\"suspended\""));
	publish(&s, NOW + 1000);
	cr_assert_eq(s.counts.written, 0);
	cr_assert_eq(number_of(&s, "beat"), NOW + 1000);
	/* A clock that was set back does not take numbers along. */
	folder_write(folder_path(s.policy, "leases/a.policy"), LEASE("a") "deny b.example\n");
	publish(&s, NOW - 5000);
	cr_assert_eq(number_of(&s, "l/a"), rev + 1);
	cr_assert_eq(number_of(&s, "m"), seq + 1);
	cr_assert_eq(number_of(&s, "beat"), NOW + 1001);
	cr_assert_eq(number_of(&s, "l/b"), NOW);
	/* Half of its lifetime later it is renewed. */
	publish(&s, NOW + 1900000);
	cr_assert_eq(number_of(&s, "l/b"), NOW + 1900000);
	end(&s);
}

Test(authority, withdraws_what_is_gone_or_faulty)
{
	static struct scene s;

	begin(&s);
	folder_write(folder_path(s.policy, "leases/a.policy"), LEASE("a"));
	folder_write(folder_path(s.policy, "leases/b.policy"), LEASE("b"));
	publish(&s, NOW);
	cr_assert_eq(s.counts.leases, 2);
	folder_write(folder_path(s.policy, "leases/a.policy"), LEASE("a") "allow nonsense\n");
	unlink(folder_path(s.policy, "leases/b.policy"));
	publish(&s, NOW + 1);
	cr_assert_eq(s.counts.leases, 0);
	cr_assert_eq(s.counts.faulty, 1);
	cr_assert_eq(s.counts.withdrawn, 2);
	cr_assert_eq(s.faults, 1);
	cr_assert_eq(number_of(&s, "l/a"), 0);
	/* Its number goes on from where it was, for it is a time. */
	folder_write(folder_path(s.policy, "leases/a.policy"), LEASE("a"));
	publish(&s, NOW + 2);
	cr_assert_eq(number_of(&s, "l/a"), NOW + 2);
	/* The same lease twice is a fault of the second file. */
	folder_write(folder_path(s.policy, "leases/c.policy"), LEASE("a"));
	publish(&s, NOW + 3);
	cr_assert_eq(s.counts.leases, 1);
	cr_assert_eq(s.counts.faulty, 1);
	end(&s);
}

Test(authority, signs_again_when_its_key_is_another)
{
	struct keyring_keyset keyset = { .exp_ms = NOW + 86400000 };
	char id[ENVELOPE_KEY_ID_MAX + 1];
	static struct scene s;

	begin(&s);
	folder_write(folder_path(s.policy, "leases/a.policy"), LEASE("a"));
	publish(&s, NOW);
	cr_assert_eq(keyring_add(s.keys, "lease", id, s.reason), ERR_OK);
	/* Not before proxies can know it. */
	publish(&s, NOW + 1);
	cr_assert_eq(s.counts.written, 0);
	cr_assert_eq(keyring_sign(s.keys, s.out, &keyset, s.reason), ERR_OK);
	publish(&s, NOW + 2);
	cr_assert_eq(number_of(&s, "l/a"), NOW + 2);
	cr_assert_not_null(strstr(folder_read(folder_path(s.out, "l/a")), "\"kid\":\"lease-2\""));
	cr_assert_not_null(strstr(folder_read(folder_path(s.out, "beat")), "\"keyset\":2"));
	end(&s);
}
