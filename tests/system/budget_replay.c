/*
 * The names that real clients asked for, once more through the budget of one lease: budget_replay CONFIG SPEED [--without-pins] < LIST. A line of
 * the list is "MS NAME FREE FAILED": when, what, how many bytes of it a wildcard left open, 1 where it came to nothing. SPEED divides all
 * times. Limits are those of the configuration, pins are real ones at their shortest. Prints JSON: what was taken of each budget at most.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "config/load.h"
#include "net/pins.h"
#include "proxy/dns_budget.h"

struct replay {
	struct dns_budget_limits limits;
	struct dns_budget budget;
	struct pins *pins; /* owned; NULL: each connection asks */
	uint64_t lookups, lookups_peak, failures_peak;
};

static bool read_limits(const char *file, struct dns_budget_limits *out_limits)
{
	struct arena arena;
	struct fault_list faults;
	struct config *config = NULL;
	bool is_read;

	arena_init(&arena, 1 << 20);
	fault_list_init(&faults, &arena);
	is_read = config_load(file, CONFIG_FOR_DAEMON, &faults, &config) == ERR_OK;
	if (is_read) {
		*out_limits = (struct dns_budget_limits){ .lookups_per_s = config->daemon.lookups_per_s,
							  .failures_per_s = config->daemon.lookup_failures_per_s,
							  .names = config->daemon.names_per_lease };
		config_unref(config);
	}
	arena_finish(&arena);
	return is_read;
}

/* Tokens that are gone, rounded up: how near its end the second's worth came. */
static uint64_t taken(const struct bucket *b, uint64_t per_s)
{
	return b->started ? (per_s * 1000 - b->milli + 999) / 1000 : 0;
}

static void keep_peak(uint64_t now, uint64_t *peak)
{
	*peak = now > *peak ? now : *peak;
}

static bool ask(struct replay *r, const struct dname *name, size_t free_len, bool failed, uint64_t now_ms)
{
	struct dns_answer answer = { .outcome = failed ? DNS_OUTCOME_NXDOMAIN : DNS_OUTCOME_ADDRESSES, .canonical = *name };

	if (r->pins != NULL && pins_find(r->pins, name, DNS_TYPE_A, now_ms) != NULL)
		return true;
	r->lookups++;
	/* What is refused is counted by the budget itself. */
	(void)!dns_budget_admit(&r->budget, &r->limits, (struct text){ name->text, name->len }, free_len, now_ms);
	keep_peak(taken(&r->budget.lookups, r->limits.lookups_per_s), &r->lookups_peak);
	if (failed)
		dns_budget_failed(&r->budget, &r->limits, now_ms);
	keep_peak(taken(&r->budget.failures, r->limits.failures_per_s), &r->failures_peak);
	answer.addr_count = failed ? 0 : 1;
	if (!failed)
		answer.addrs[0] = addr_v4((const uint8_t[4]){ 9, 9, 9, 9 });
	return r->pins == NULL || pins_put(r->pins, name, DNS_TYPE_A, &answer, false, now_ms) == ERR_OK;
}

static int replay(struct replay *r, uint64_t speed)
{
	char text[DNAME_MAX + 1];
	uint64_t at_ms;
	size_t free_len;
	unsigned failed;
	int fields;

	while ((fields = scanf("%" SCNu64 " %253s %zu %u", &at_ms, text, &free_len, &failed)) == 4) {
		struct dname name;

		if (dname_parse(text_of(text), DNAME_FINAL_DOT_REFUSE, &name) != DNAME_OK || !ask(r, &name, free_len, failed != 0, at_ms / speed)) {
			fprintf(stderr, "budget_replay: %s cannot be asked for\n", text);
			return 1;
		}
	}
	if (fields != EOF) {
		fputs("budget_replay: a line is not MS NAME FREE FAILED\n", stderr);
		return 1;
	}
	printf("{\"names\": %zu, \"names_max\": %" PRIu64 ", \"bits\": %" PRIu64 ", \"bits_max\": %" PRIu64 ", \"lookups\": %" PRIu64
	       ", \"lookups_peak\": %" PRIu64 ", \"lookups_max\": %" PRIu64 ", \"failures_peak\": %" PRIu64 ", \"failures_max\": %" PRIu64
	       ", \"again\": %" PRIu64 ", \"again_max\": %" PRIu64 ", \"refused\": %" PRIu64 "}\n",
	       r->budget.name_count, r->limits.names, r->budget.bits, r->limits.names * DNS_BUDGET_BITS_PER_NAME, r->lookups, r->lookups_peak,
	       r->limits.lookups_per_s, r->failures_peak, r->limits.failures_per_s, r->budget.again_milli / 1000, r->limits.names * DNS_BUDGET_BITS_AGAIN,
	       r->budget.refused);
	return 0;
}

int main(int argc, char **argv)
{
	struct replay r = { .lookups = 0 };
	uint64_t speed = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	int status;

	if (speed == 0 || crypto_init() != ERR_OK || !read_limits(argv[1], &r.limits)) {
		fputs("budget_replay CONFIG SPEED [--without-pins] < LIST\n", stderr);
		return 2;
	}
	if (argc == 3 && (r.pins = pins_create(2 * DNS_BUDGET_NAMES_MAX)) == NULL)
		return 2;
	status = replay(&r, speed);
	dns_budget_finish(&r.budget);
	pins_destroy(r.pins);
	return status;
}
