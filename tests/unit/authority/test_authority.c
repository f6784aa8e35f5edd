/* From policies to documents: what is written is what a proxy takes, what did not change stays as it is, and numbers only rise. */
#include "authority/authority.h"
#include <fcntl.h>
#include <time.h>

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

static void publish_changes(struct scene *s, uint64_t wall_ms, const struct authority_changes *changes)
{
	struct fault_list faults;
	struct arena arena;

	arena_init(&arena, 0);
	fault_list_init(&faults, &arena);
	cr_assert_eq(authority_publish(s->authority, wall_ms, changes, &faults, &s->counts, s->reason), ERR_OK, "%s", s->reason);
	s->faults = faults.error_count;
	arena_finish(&arena);
	cr_assert_eq(authority_beat(s->authority, wall_ms, s->reason), ERR_OK, "%s", s->reason);
}

static void publish(struct scene *s, uint64_t wall_ms)
{
	publish_changes(s, wall_ms, NULL);
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

/* As if it had been written long ago: only then may it be left unread. */
static void age(const char *path)
{
	struct timespec times[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };

	cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

Test(authority, what_is_known_of_a_file_is_not_trusted_when_anything_about_it_changed)
{
	static struct scene s;
	const char *lease;

	begin(&s);
	folder_write(folder_path(s.policy, "leases/a.policy"), LEASE("a"));
	folder_write(folder_path(s.policy, "leases/b.policy"), LEASE("b"));
	age(folder_path(s.policy, "leases/a.policy"));
	publish(&s, NOW);
	usleep(1200000);
	publish(&s, NOW + 1);
	publish(&s, NOW + 2);
	cr_assert_eq(s.counts.written, 0);
	cr_assert_eq(s.counts.leases, 2);
	/* Of the same length and, as far as it says, of the same time. */
	folder_write(folder_path(s.policy, "leases/a.policy"), "lease a\nguest require source\nguest source 10.0.0.1\nmode allowlist\nuse p\nallow https://b.example\n");
	age(folder_path(s.policy, "leases/a.policy"));
	publish(&s, NOW + 3);
	cr_assert_eq(s.counts.written, 2);
	cr_assert_not_null(strstr(folder_read(folder_path(s.out, "l/a")), "https://b.example"));
	/* Its document was changed, or is gone. */
	usleep(1200000);
	publish(&s, NOW + 4);
	folder_write(folder_path(s.out, "l/a"), "rubbish");
	cr_assert_eq(unlink(folder_path(s.out, "l/b")), 0);
	publish(&s, NOW + 5);
	cr_assert_eq(number_of(&s, "l/a"), NOW + 5);
	cr_assert_neq(number_of(&s, "l/b"), 0);
	/* A preset that it uses, and the ruleset that came of it. */
	usleep(1200000);
	publish(&s, NOW + 6);
	folder_write(folder_path(s.policy, "presets/p.policy"), "allow https://q.example\n");
	publish(&s, NOW + 7);
	cr_assert_eq(number_of(&s, "l/a"), NOW + 7);
	cr_assert_eq(number_of(&s, "l/b"), NOW + 7);
	lease = strstr(folder_read(folder_path(s.out, "l/b")), "sha256:");
	cr_assert_not_null(lease);
	end(&s);
}

Test(authority, each_folder_of_cells_is_one_and_complete_in_itself)
{
	struct authority_options options = { .lifetime_ms = 3600000 };
	static const char *const cells[] = { "c-1", "c-2", "c-3" };
	struct keyring_keyset keyset = { .exp_ms = NOW + 86400000 };
	static struct scene s;

	begin(&s);
	authority_close(s.authority);
	mkdir(folder_path(s.policy, "cells"), 0755);
	for (size_t i = 0; i < 2; i++) {
		char path[64];

		snprintf(path, sizeof(path), "cells/%s", cells[i]);
		mkdir(folder_path(s.policy, path), 0755);
		snprintf(path, sizeof(path), "cells/%s/leases", cells[i]);
		mkdir(folder_path(s.policy, path), 0755);
		snprintf(path, sizeof(path), "cells/%s/leases/a.policy", cells[i]);
		folder_write(folder_path(s.policy, path), LEASE("a"));
	}
	mkdir(folder_path(s.policy, "cells/not a cell"), 0755);
	options.keys = s.keys;
	options.root = s.policy;
	options.out = s.out;
	cr_assert_eq(authority_open(&options, s.reason, &s.authority), ERR_OK, "%s", s.reason);
	publish(&s, NOW);
	cr_assert_eq(s.counts.leases, 2);
	cr_assert_not_null(folder_read(folder_path(s.out, "cells/c-1/keyset")));
	cr_assert_not_null(strstr(folder_read(folder_path(s.out, "cells/c-1/l/a")), "\"cell\":\"c-1\""));
	cr_assert_not_null(strstr(folder_read(folder_path(s.out, "cells/c-2/m")), "\"cell\":\"c-2\""));
	cr_assert_not_null(strstr(folder_read(folder_path(s.out, "cells/c-2/beat")), "\"c-2\":["));
	cr_assert_null(folder_read(folder_path(s.out, "m")));
	/* One more comes, one loses its leases. */
	mkdir(folder_path(s.policy, "cells/c-3"), 0755);
	cr_assert_eq(rename(folder_path(s.policy, "cells/c-2/leases"), folder_path(s.policy, "cells/c-3/leases")), 0);
	publish(&s, NOW + 1);
	cr_assert_eq(s.counts.leases, 2);
	cr_assert_eq(s.counts.withdrawn, 1);
	cr_assert_not_null(strstr(folder_read(folder_path(s.out, "cells/c-2/m")), "\"leases\":0"));
	cr_assert_not_null(strstr(folder_read(folder_path(s.out, "cells/c-3/l/a")), "\"cell\":\"c-3\""));
	/* A keyset that is signed while it runs is to be published before a beat names it. */
	cr_assert_not(authority_has_new_keyset(s.authority));
	cr_assert_eq(keyring_sign(s.keys, s.out, &keyset, s.reason), ERR_OK);
	cr_assert(authority_has_new_keyset(s.authority));
	publish(&s, NOW + 2);
	cr_assert_not(authority_has_new_keyset(s.authority));
	cr_assert_not_null(strstr(folder_read(folder_path(s.out, "cells/c-1/keyset")), "\"ver\":2"));
	end(&s);
}

Test(authority, looks_at_files_that_are_named_and_at_what_came_or_went)
{
	const char *const names[] = { "a.policy" };
	const struct authority_changes none = { NULL, 0 }, a = { names, 1 };
	static struct scene s;

	begin(&s);
	folder_write(folder_path(s.policy, "leases/a.policy"), LEASE("a"));
	folder_write(folder_path(s.policy, "leases/b.policy"), LEASE("b"));
	publish(&s, NOW);
	usleep(1200000);
	publish(&s, NOW + 1);
	folder_write(folder_path(s.policy, "leases/a.policy"), LEASE("a") "deny x.example\n");
	folder_write(folder_path(s.policy, "leases/b.policy"), LEASE("b") "deny x.example\n");
	publish_changes(&s, NOW + 2, &none);
	cr_assert_eq(s.counts.written, 0);
	publish_changes(&s, NOW + 3, &a);
	cr_assert_eq(s.counts.written, 2);
	cr_assert_eq(number_of(&s, "l/a"), NOW + 3);
	publish(&s, NOW + 4);
	cr_assert_eq(number_of(&s, "l/b"), NOW + 4);
	cr_assert_eq(number_of(&s, "l/a"), NOW + 3);
	/* Files that come and go are seen in any case, and so is the end of half a lifetime. */
	usleep(1200000);
	publish(&s, NOW + 5);
	folder_write(folder_path(s.policy, "leases/c.policy"), LEASE("c"));
	unlink(folder_path(s.policy, "leases/a.policy"));
	publish_changes(&s, NOW + 6, &none);
	cr_assert_eq(s.counts.leases, 2);
	cr_assert_eq(s.counts.withdrawn, 1);
	cr_assert_eq(number_of(&s, "l/a"), 0);
	cr_assert_eq(number_of(&s, "l/c"), NOW + 6);
	publish_changes(&s, NOW + 1900000, &none);
	cr_assert_eq(number_of(&s, "l/b"), NOW + 1900000);
	end(&s);
}
