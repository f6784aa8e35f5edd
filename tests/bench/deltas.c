/*
 * A sidecar that only publishes, for measuring what the daemon does with it: N leases that share 200 rulesets of 100 rules, sent whole, then
 * roots that change, remove or add one of them, each awaited.
 *   deltas SOCKET PID LEASES ROUNDS
 * PID is the daemon's. Prints one line of "word number" pairs; times of threads are what the kernel counted (schedstat).
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "compiler/compile.h"
#include "control/channel.h"
#include "image/segment.h"
#include "lease/gate.h"
#include "wire/ctl_msg.h"

#define RULESETS 200
#define RULES 100
#define SPARE 1000 /* leases of the file that come and go */

static int sock = -1;
static uint8_t packet[CTL_MSG_MAX];

static void need(int holds, const char *what)
{
	if (!holds) {
		perror(what);
		exit(1);
	}
}

static void send_message(const struct ctl_msg *msg, int fd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	struct iovec part = { .iov_base = packet, .iov_len = ctl_msg_write(msg, packet, sizeof(packet)) };
	struct msghdr out = { .msg_iov = &part, .msg_iovlen = 1 };

	need(part.iov_len > 0, "message");
	if (fd >= 0) {
		out.msg_control = &control;
		out.msg_controllen = sizeof(control);
		control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	need(sendmsg(sock, &out, MSG_NOSIGNAL) == (ssize_t)part.iov_len, "send");
}

/* Wait for a message of this type; a refusal ends it all. Returns its first number. */
static uint64_t await_message(enum ctl_type type, int *out_fd)
{
	for (;;) {
		union {
			struct cmsghdr header;
			char bytes[CMSG_SPACE(sizeof(int))];
		} control = { .bytes = { 0 } };
		struct iovec part = { .iov_base = packet, .iov_len = sizeof(packet) };
		struct msghdr in = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(sock, &in, 0);
		struct ctl_msg msg;
		int fd = -1;

		need(n > 0 && ctl_msg_read(packet, (size_t)n, &msg) == PARSED_OK, "receive");
		if (CMSG_FIRSTHDR(&in) != NULL)
			memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&in)), sizeof(fd));
		if (msg.type == CTL_NACK) {
			fprintf(stderr, "refused: %.*s\n", (int)msg.field[1].bytes.len, msg.field[1].bytes.at);
			exit(1);
		}
		if (msg.type != type) {
			if (fd >= 0)
				close(fd);
			continue;
		}
		if (out_fd != NULL)
			*out_fd = fd;
		return msg.field[0].number;
	}
}

static void send_segment(const struct emitted *e)
{
	struct ctl_msg msg = { .type = CTL_SEGMENT, .field = { { .bytes = { (const char *)e->id, LAYOUT_ID_LEN } } } };
	int fd;

	need(segment_seal(e->bytes, e->len, &fd) == ERR_OK, "seal");
	send_message(&msg, fd);
	close(fd);
}

static void send_root(uint64_t version, uint64_t base, const struct emitted *ceiling, const struct emit_root_lease *leases, size_t count)
{
	struct ctl_msg msg = { .type = CTL_ROOT, .field = { { .number = version } } };
	struct layout_id id;
	struct emitted root;
	int fd;

	memcpy(id.bytes, ceiling->id, LAYOUT_ID_LEN);
	need(emit_root(version, base, &id, 0, leases, count, &root) == ERR_OK, "root");
	need(segment_seal(root.bytes, root.len, &fd) == ERR_OK, "seal");
	send_message(&msg, fd);
	close(fd);
	emitted_finish(&root);
}

static enum err preset(void *arg, const char *name, struct text *out_text)
{
	static char text[RULES * 80];
	size_t len = 0;

	(void)arg;
	for (unsigned i = 0; i < RULES; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "allow https://h%u.%s.example.org\n", i, name);
	*out_text = (struct text){ text, len };
	return ERR_OK;
}

/* One lease of each ruleset, written out; all others are copies with another id, source and revision. */
static struct compiled templates[RULESETS];
static struct emitted ceiling;

static void compile_all(void)
{
	struct compile_context context = { .preset = preset };
	struct fault_list faults;
	struct arena arena;

	arena_init(&arena, 0);
	fault_list_init(&faults, &arena);
	need(compile_ceiling_text("ceiling.policy", text_of("allow any\n"), &context, &faults, &ceiling) == ERR_OK, "ceiling");
	for (unsigned i = 0; i < RULESETS; i++) {
		char text[200];

		snprintf(text, sizeof(text), "lease l0000000\nguest require source\nguest source 10.0.0.0/32\nmode allowlist\nuse r%u\n", i);
		need(compile_lease_text("l.policy", text_of(text), &context, &faults, &templates[i]) == ERR_OK && !templates[i].is_quarantined,
		     "lease");
	}
	arena_finish(&arena);
}

/* Lease `number` of `count` and some more at revision `rev`, with a ruleset that others have: the caller frees its bytes. */
static struct emitted make_lease(unsigned number, unsigned count, uint64_t rev, char out_id[9])
{
	const struct emitted *from = &templates[number % count % RULESETS].lease;
	struct emitted e = { .bytes = alloc_copy(from->bytes, from->len), .len = from->len };
	const struct layout_header *h = (const void *)e.bytes;
	struct layout_lease *l = (void *)(e.bytes + h->table[LAYOUT_LEASES].offset);
	struct layout_source *s = (void *)(e.bytes + h->table[LAYOUT_SOURCES].offset);

	snprintf(out_id, 9, "l%07u", number % 10000000);
	memcpy(e.bytes + h->table[LAYOUT_STRINGS].offset + l->id.offset, out_id, 8);
	l->rev = rev;
	for (unsigned i = 0; i < 3; i++)
		s->octets[3 - i] = (uint8_t)(number >> (8 * i));
	need(crypto_sha256(e.bytes, e.len, e.id) == ERR_OK, "digest");
	return e;
}

/* Nanoseconds on a processor: of the main thread, and of all others together. */
static void cpu(const char *pid, uint64_t *out_main, uint64_t *out_workers)
{
	char path[600];
	struct dirent *entry;
	DIR *dir;

	*out_main = *out_workers = 0;
	snprintf(path, sizeof(path), "/proc/%s/task", pid);
	dir = opendir(path);
	need(dir != NULL, path);
	while ((entry = readdir(dir)) != NULL) {
		unsigned long long ns = 0;
		FILE *file;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/task/%s/schedstat", pid, entry->d_name);
		file = fopen(path, "r");
		if (file == NULL)
			continue;
		if (fscanf(file, "%llu", &ns) == 1)
			*(strcmp(entry->d_name, pid) == 0 ? out_main : out_workers) += ns;
		fclose(file);
	}
	closedir(dir);
}

static void print_memory(const char *pid)
{
	char path[64], line[200];
	unsigned long long kb;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/status", pid);
	file = fopen(path, "r");
	need(file != NULL, path);
	while (fgets(line, sizeof(line), file) != NULL) {
		if (sscanf(line, "VmRSS: %llu", &kb) == 1)
			printf(" rss_mb %.1f", (double)kb / 1024);
		if (sscanf(line, "RssAnon: %llu", &kb) == 1)
			printf(" anon_mb %.1f", (double)kb / 1024);
	}
	fclose(file);
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void greet(void)
{
	struct ctl_msg hello = { .type = CTL_HELLO,
				 .field = { { .number = CTL_MSG_VERSION }, { .bytes = text_of("sidecar") }, { .bytes = text_of("deltas") } } };
	struct gate *gate;
	int fd;

	send_message(&hello, -1);
	(void)await_message(CTL_WELCOME, &fd);
	need(gate_map(fd, &gate) == ERR_OK, "page");
	gate_set_deadlines(gate, clock_mono_ns() + 100000000000ULL, clock_mono_ns() + 200000000000ULL);
	gate_set_control(gate, GATE_LIVE);
	close(fd);
}

/* A complete root of all leases at revision `rev`; those of another revision are sent before. */
static void publish_all(const char *pid, const char *word, uint64_t version, uint64_t rev, unsigned count, struct emit_root_lease *leases,
			char (*ids)[9])
{
	uint64_t since, before[2], after[2];

	cpu(pid, &before[0], &before[1]);
	since = clock_mono_ns();
	send_segment(&ceiling);
	for (unsigned i = 0; i < RULESETS; i++)
		send_segment(&templates[i].rulesets[0]);
	for (unsigned i = 0; i < count; i++) {
		struct emitted e = make_lease(i, count, rev, ids[i]);

		send_segment(&e);
		leases[i].id = ids[i];
		memcpy(leases[i].segment.bytes, e.id, LAYOUT_ID_LEN);
		emitted_finish(&e);
	}
	send_root(version, 0, &ceiling, leases, count);
	need(await_message(CTL_ACK, NULL) == version, "adopted");
	cpu(pid, &after[0], &after[1]);
	printf(" %s_ms %.1f %s_main_cpu_ms %.1f %s_workers_cpu_ms %.2f", word, (double)(clock_mono_ns() - since) / 1e6, word,
	       (double)(after[0] - before[0]) / 1e6, word, (double)(after[1] - before[1]) / 1e6);
}

/* The complete root again, alone. */
static void publish_root(const char *pid, uint64_t version, unsigned count, const struct emit_root_lease *leases)
{
	uint64_t since, before[2], after[2];

	cpu(pid, &before[0], &before[1]);
	since = clock_mono_ns();
	send_root(version, 0, &ceiling, leases, count);
	need(await_message(CTL_ACK, NULL) == version, "adopted");
	cpu(pid, &after[0], &after[1]);
	printf(" same_root_ms %.1f same_root_main_cpu_ms %.1f", (double)(clock_mono_ns() - since) / 1e6, (double)(after[0] - before[0]) / 1e6);
}

/* Each third round changes a lease, the next adds one, the next removes it. */
static void change_one(uint64_t version, unsigned count, unsigned round)
{
	unsigned number = round % 3 == 0 ? (unsigned)(random() % count) : count + round / 3 % SPARE;
	char id[9];
	struct emitted e = make_lease(number, count, version, id);
	struct emit_root_lease lease = { .id = id };

	if (round % 3 != 2) {
		memcpy(lease.segment.bytes, e.id, LAYOUT_ID_LEN);
		send_segment(&e);
	}
	send_root(version, version - 1, &ceiling, &lease, 1);
	need(await_message(CTL_ACK, NULL) == version, "adopted");
	emitted_finish(&e);
}

int main(int argc, char **argv)
{
	unsigned count = argc < 5 ? 0 : (unsigned)atoi(argv[3]), rounds = argc < 5 ? 0 : (unsigned)atoi(argv[4]);
	uint64_t *times = alloc_array(rounds + 1, sizeof(*times)), before[2], after[2];
	struct emit_root_lease *leases = alloc_array(count + 1, sizeof(*leases));
	char (*ids)[9] = alloc_array(count + 1, sizeof(*ids));

	if (count == 0 || rounds == 0 || times == NULL || leases == NULL || ids == NULL) {
		fprintf(stderr, "deltas SOCKET PID LEASES ROUNDS\n");
		return 2;
	}
	need(crypto_init() == ERR_OK, "crypto");
	compile_all();
	need(channel_dial(argv[1], 5000, &sock) == ERR_OK, argv[1]);
	greet();
	printf("leases %u", count);
	publish_all(argv[2], "whole", 1, 1, count, leases, ids);
	print_memory(argv[2]);
	cpu(argv[2], &before[0], &before[1]);
	for (unsigned i = 0; i < rounds; i++) {
		uint64_t since = clock_mono_ns();

		change_one(2 + i, count, i);
		times[i] = clock_mono_ns() - since;
	}
	cpu(argv[2], &after[0], &after[1]);
	qsort(times, rounds, sizeof(*times), compare);
	printf(" change_p50_us %.0f change_p99_us %.0f change_max_us %.0f main_cpu_us %.1f workers_cpu_us %.1f", (double)times[rounds / 2] / 1e3,
	       (double)times[rounds * 99 / 100] / 1e3, (double)times[rounds - 1] / 1e3, (double)(after[0] - before[0]) / 1e3 / rounds,
	       (double)(after[1] - before[1]) / 1e3 / rounds);
	print_memory(argv[2]);
	publish_all(argv[2], "all_changed", rounds + 2, rounds + 2, count, leases, ids);
	publish_root(argv[2], rounds + 3, count, leases);
	print_memory(argv[2]);
	printf("\n");
	return 0;
}
