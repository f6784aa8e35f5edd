/*
 * `explain`: compiles a policy root, asks every phase and prints the answers, for people, as JSON, or a JSON object a line
 * for a line of questions. Promises that what it says is what judge said.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cli/candidate.h"
#include "cli/cli.h"
#include "cli/explain.h"
#include "cli/print.h"
#include "config/load.h"
#include "document/json.h"

#define ROOT_MAX 4096
#define LINE_MAX_LEN 65536

/* What the command stands on; finished whatever was opened. */
struct stand {
	struct arena arena;
	struct fault_list faults;
	struct config *config;        /* NULL without --config */
	struct candidate *candidate;
	struct own_addresses *own;
	struct geoip *geoip;
	struct addr_site site;
	struct explain_ground ground;
	struct explanation *explanation; /* owned: it is large */
};

static void print_faults(const struct fault_list *faults)
{
	for (const struct fault *f = faults->first; f != NULL; f = f->next) {
		char text[FAULT_TEXT_MAX + 256];

		fault_print(f, text, sizeof(text));
		fprintf(stderr, "%s\n", text);
	}
}

/* A sealed copy of the database at `path`; -1 when none is configured. */
static enum err open_geo(const char *path, int *out_fd)
{
	enum err e;
	int fd;

	if (path == NULL || path[0] == '\0') {
		*out_fd = -1;
		return ERR_OK;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return ERR_SYSTEM;
	e = geoip_seal(fd, out_fd);
	close(fd);
	return e;
}

/* Guest networks and outside addresses count as the host's own; its interfaces are only known to the daemon. */
static enum err take_site(struct stand *s)
{
	const struct daemon_options *o = &s->config->daemon;
	size_t count = o->guest_networks.count + o->nat_addresses.count;
	struct addr_nat64 *nat64 = arena_take_array(&s->arena, o->nat64.count + 1, sizeof(*nat64));
	struct prefix *own = arena_take_array(&s->arena, count + 1, sizeof(*own));
	int country = -1, asn = -1;
	enum err e;

	if (nat64 == NULL || own == NULL)
		return ERR_NO_MEMORY;
	for (size_t i = 0; i < o->nat64.count; i++)
		nat64[i].prefix = o->nat64.at[i];
	for (size_t i = 0; i < count; i++)
		own[i] = i < o->guest_networks.count ?
				 o->guest_networks.at[i] :
				 o->nat_addresses.at[i - o->guest_networks.count];
	s->own = own_addresses_create(own, count);
	if (s->own == NULL)
		return ERR_NO_MEMORY;
	s->site = (struct addr_site){ s->own, nat64, o->nat64.count };
	e = open_geo(o->geo_country, &country);
	if (e == ERR_OK)
		e = open_geo(o->geo_asn, &asn);
	if (e == ERR_OK && (country >= 0 || asn >= 0))
		e = geoip_open(country, asn, &s->geoip);
	if (country >= 0)
		close(country);
	if (asn >= 0)
		close(asn);
	return e;
}

static enum err take_config(struct stand *s, const char *path)
{
	enum err e = config_load(path, CONFIG_FOR_DAEMON, &s->faults, &s->config);

	return e == ERR_OK ? take_site(s) : e;
}

/* Where the policy is: said, in the configuration, around the lease's file, or here. */
static bool choose_root(const struct stand *s, const char *said, const char *lease, char root[ROOT_MAX])
{
	if (said != NULL)
		return snprintf(root, ROOT_MAX, "%s", said) < ROOT_MAX;
	if (s->config != NULL && s->config->sidecar.source.kind == OPTION_SOURCE_FILE)
		return snprintf(root, ROOT_MAX, "%s", s->config->sidecar.source.text) < ROOT_MAX;
	if (lease != NULL && candidate_root_of(lease, root, ROOT_MAX))
		return true;
	return candidate_root_of("ceiling.policy", root, ROOT_MAX);
}

static int stand_open(struct stand *s, struct cli *cli, const char *lease, const char *root_said,
		      const char *config_path)
{
	struct candidate_options options = { 0 };
	char root[ROOT_MAX];
	enum err e;

	arena_init(&s->arena, 0);
	fault_list_init(&s->faults, &s->arena);
	e = config_path == NULL ? ERR_OK : take_config(s, config_path);
	if (e != ERR_OK) {
		print_faults(&s->faults);
		return cli_fail(cli, "%s: %s", config_path, err_text(e));
	}
	if (!choose_root(s, root_said, lease, root))
		return cli_fail(cli, "where is the policy? Use --root DIR or --config FILE");
	options.root = root;
	if (s->config != NULL) {
		options.ceiling = s->config->sidecar.ceiling;
		options.report_allowed = s->config->daemon.report_allowed;
	}
	if (options.ceiling != NULL && options.ceiling[0] == '\0')
		options.ceiling = NULL;
	e = candidate_open(&options, &s->faults, &s->candidate);
	if (e != ERR_OK) {
		print_faults(&s->faults);
		return cli_fail(cli, "%s: %s", root, err_text(e));
	}
	s->explanation = alloc_zeroed(sizeof(*s->explanation));
	if (s->explanation == NULL)
		return cli_fail(cli, "%s", err_text(ERR_NO_MEMORY));
	s->ground = (struct explain_ground){ candidate_snapshot(s->candidate), &s->site, s->geoip,
					     clock_wall_ms() };
	return CLI_DONE;
}

static void stand_close(struct stand *s)
{
	alloc_free(s->explanation);
	candidate_close(s->candidate);
	geoip_unref(s->geoip);
	own_addresses_unref(s->own);
	config_unref(s->config);
	arena_finish(&s->arena);
}

static const char *source_word(enum verdict_source source)
{
	switch (source) {
	case VERDICT_BY_LEASE:
		return "lease";
	case VERDICT_BY_RULESET:
		return "ruleset";
	case VERDICT_BY_CEILING:
		return "ceiling";
	default:
		return "none";
	}
}

static const char *phase_word(enum facts_phase phase)
{
	static const char *const words[] = { [PHASE_REQUEST] = "request",
					     [PHASE_ADDRESS] = "address",
					     [PHASE_STREAM] = "stream",
					     [PHASE_REDIRECT] = "redirect" };

	return words[phase];
}

/* For people. */

/* The line of its source that a rule stands in, and the preset or ruleset; "" and 0 when nobody knows. */
static uint32_t place_of(const struct trace_step *step, const char **out_origin)
{
	uint32_t count;
	const struct layout_rule *rule = segment_table(step->segment, LAYOUT_RULES, &count);

	rule += step->rule_number;
	*out_origin = segment_text(step->segment, rule->origin).at;
	if (rule->origin.len == 0)
		*out_origin = "";
	return rule->line;
}

static void tell_place(const struct trace_step *step)
{
	const char *origin;
	uint32_t line = place_of(step, &origin);

	if (line > 0)
		printf(" (%s%sline %u)", origin, origin[0] == '\0' ? "" : ", ", line);
	putchar('\n');
}

static void tell_trace(const struct trace *trace)
{
	for (size_t i = 0; i < trace->count; i++) {
		const struct trace_step *step = &trace->steps[i];
		char text[RULE_TEXT_MAX];
		struct rule rule;

		trace_step_rule(step, &rule);
		printf("    %-8s %-5s %-40s %s", source_word(step->source),
		       rule.action == RULE_DENY ? "deny" : "allow", rule_print(&rule, text),
		       trace_result_text(step->result));
		tell_place(step);
	}
	if (trace->truncated)
		puts("    … and more rules than are shown");
}

static void tell_verdict(const struct verdict *v)
{
	if (!v->allow)
		printf("refused: %s (%s)", reason_word(v->reason), reason_text(v->reason));
	else if (v->would_deny)
		printf("allowed, but only because it is report-only: %s", reason_word(v->reason));
	else
		fputs("allowed", stdout);
	if (v->rule_id[0] != '\0')
		printf(", rule %s of the %s", v->rule_id, source_word(v->source));
	putchar('\n');
}

static void tell_address(const struct explain_address *a)
{
	char text[ADDR_TEXT_MAX];

	printf("address   %s is %s", addr_print(&a->addr, text), addr_class_word(a->finding.class));
	if (a->finding.range != NULL && a->finding.range[0] != '\0')
		printf(" (%s, %s)", a->finding.range, a->finding.reference);
	fputs(": ", stdout);
	if (a->is_dropped)
		puts("dropped, undeclared NAT64 beside IPv4 addresses that pass");
	else
		tell_verdict(&a->verdict);
	tell_trace(&a->trace);
}

static void tell_refusal(const struct stand *s, const struct explanation *e)
{
	struct refusal r;

	explain_refusal(&s->ground, e, &r);
	printf("what      %s\nwhy       %s\nfix       %s\n", r.what, r.why, r.suggested_fix);
	if (r.has_fix)
		printf("rule      allow %s\n", r.fix_rule);
}

static void tell(const struct stand *s, const struct explanation *e)
{
	char target[TARGET_TEXT_MAX];
	struct lease lease;

	lease_table_read(e->lease, &lease);
	printf("lease     %s, revision %llu\ntarget    %s%s%s\n", lease.id, (unsigned long long)lease.rev,
	       e->query.scheme_known ? scheme_row(e->query.scheme)->word : "",
	       e->query.scheme_known ? "://" : "", explain_print_target(&e->query, target));
	fputs("request   ", stdout);
	tell_verdict(&e->request);
	tell_trace(&e->request_trace);
	for (size_t i = 0; i < e->address_count; i++)
		tell_address(&e->addresses[i]);
	if (e->needs_dns)
		puts("address   DNS would be asked now; every address must pass (--address A to try some)");
	if (e->has_stream) {
		fputs("stream    ", stdout);
		tell_verdict(&e->stream);
		tell_trace(&e->stream_trace);
	}
	fputs("verdict   ", stdout);
	tell_verdict(&e->verdict);
	if (!e->verdict.allow || e->verdict.would_deny)
		tell_refusal(s, e);
}

/* For programs. */

static void print_trace(const struct trace *trace)
{
	fputs(",\"rules\":[", stdout);
	for (size_t i = 0; i < trace->count; i++) {
		const struct trace_step *step = &trace->steps[i];
		char text[RULE_TEXT_MAX];
		const char *origin;
		uint32_t line = place_of(step, &origin);
		struct rule rule;

		trace_step_rule(step, &rule);
		fputs(i == 0 ? "{" : ",{", stdout);
		print_json_member("source", source_word(step->source), true);
		print_json_member(rule.action == RULE_DENY ? "deny" : "allow", rule_print(&rule, text),
				  false);
		print_json_member("result", trace_result_text(step->result), false);
		print_json_member("origin", origin, false);
		print_json_number("line", line, false);
		putchar('}');
	}
	putchar(']');
	if (trace->truncated)
		print_json_bool("truncated", true, false);
}

static void print_verdict(const struct verdict *v, bool first)
{
	print_json_bool("allow", v->allow, first);
	print_json_member("reason", reason_word(v->reason), false);
	print_json_bool("would_deny", v->would_deny, false);
	print_json_member("rule", v->rule_id[0] == '\0' ? NULL : v->rule_id, false);
	print_json_member("source", source_word(v->source), false);
}

static void print_phase(const char *phase, const struct verdict *v, const struct trace *trace, bool first)
{
	fputs(first ? "{" : ",{", stdout);
	print_json_member("phase", phase, true);
	print_verdict(v, false);
	print_trace(trace);
	putchar('}');
}

static void print_address(const struct explain_address *a)
{
	char text[ADDR_TEXT_MAX];

	fputs(",{", stdout);
	print_json_member("phase", "address", true);
	print_json_member("address", addr_print(&a->addr, text), false);
	print_json_member("class", addr_class_word(a->finding.class), false);
	print_json_bool("dropped", a->is_dropped, false);
	print_verdict(&a->verdict, false);
	print_trace(&a->trace);
	putchar('}');
}

static void print_object(const struct stand *s, const struct explanation *e)
{
	char target[TARGET_TEXT_MAX], refusal[REFUSAL_JSON_MAX];
	struct lease lease;
	struct refusal r;

	lease_table_read(e->lease, &lease);
	putchar('{');
	print_json_member("lease", lease.id, true);
	print_json_number("rev", lease.rev, false);
	print_json_member("target", explain_print_target(&e->query, target), false);
	print_json_member("scheme",
			  e->query.scheme_known ? scheme_row(e->query.scheme)->word : NULL, false);
	print_verdict(&e->verdict, false);
	print_json_member("phase", phase_word(e->phase), false);
	print_json_bool("needs_dns", e->needs_dns, false);
	fputs(",\"phases\":[", stdout);
	print_phase("request", &e->request, &e->request_trace, true);
	for (size_t i = 0; i < e->address_count; i++)
		print_address(&e->addresses[i]);
	if (e->has_stream)
		print_phase("stream", &e->stream, &e->stream_trace, false);
	putchar(']');
	if (!e->verdict.allow || e->verdict.would_deny) {
		explain_refusal(&s->ground, e, &r);
		if (refusal_json(&r, true, refusal, sizeof(refusal)) > 0)
			printf(",\"refusal\":%s", refusal);
	}
	puts("}");
}

static void print_error(const char *error)
{
	putchar('{');
	print_json_member("error", error, true);
	puts("}");
}

/* One question of a batch: its members to a query and a lease; a sentence in out_reason when it is none. */
static bool read_question(struct stand *s, struct text line, struct explain_query *out_query,
			  const struct lease_table_entry **out_lease, struct arena *arena,
			  char out_reason[256])
{
	static const struct json_key keys[] = { { "lease", true },
						{ "target", true },
						{ "addresses", false } };
	struct json_faults faults;
	struct json *json = NULL;
	struct json_value top, value;
	const char *lease = NULL, *target = NULL;
	bool holds;

	json_faults_init(&faults, arena);
	snprintf(out_reason, 256, "not an object with lease, target and, if you like, addresses");
	if (json_open(line, &faults, &json) != ERR_OK)
		return false;
	top = json_top(json);
	holds = json_object_check(&faults, &top, keys, ARRAY_LEN(keys));
	value = json_member(&top, "lease");
	holds = holds && json_text(&faults, &value, 1, 4096, &lease);
	value = json_member(&top, "target");
	holds = holds && json_text(&faults, &value, 1, 4096, &target);
	if (holds && explain_read_target(text_of(target), out_query, out_reason, 256) != ERR_OK)
		holds = false;
	value = json_member(&top, "addresses");
	if (holds && json_is_present(&value)) {
		size_t count = json_array_count(&faults, &value, EXPLAIN_ADDRESSES_MAX);

		for (size_t i = 0; i < count && holds; i++) {
			struct json_value element = json_element(&value, i);
			const char *text;

			holds = json_text(&faults, &element, 1, 64, &text) &&
				addr_parse(text_of(text), &out_query->addresses[i]);
		}
		out_query->address_count = count;
		holds = holds && faults.count == 0;
	}
	if (holds) {
		*out_lease = candidate_lease(s->candidate, lease);
		snprintf(out_reason, 256, "there is no such lease");
		holds = *out_lease != NULL;
	}
	json_close(json);
	return holds;
}

static int answer_line(struct stand *s, struct text line)
{
	const struct lease_table_entry *lease = NULL;
	struct explain_query query;
	struct arena arena;
	char reason[256];
	bool holds;

	arena_init(&arena, 0);
	holds = read_question(s, line, &query, &lease, &arena, reason);
	arena_finish(&arena);
	if (!holds) {
		print_error(reason);
		return CLI_FAILED;
	}
	explain(&s->ground, lease, &query, s->explanation);
	print_object(s, s->explanation);
	return s->explanation->verdict.allow ? CLI_DONE : CLI_FINDINGS;
}

/* A line without its end; false at the end of input. One that is too long comes out empty-handed: `len` is SIZE_MAX. */
static bool next_line(struct text *out_line)
{
	static char line[LINE_MAX_LEN];
	size_t len;
	int c;

	if (fgets(line, sizeof(line), stdin) == NULL)
		return false;
	len = strlen(line);
	*out_line = (struct text){ line, len };
	if (len + 1 < sizeof(line) || line[len - 1] == '\n')
		return true;
	do {
		c = getchar();
	} while (c != EOF && c != '\n');
	out_line->len = SIZE_MAX;
	return true;
}

static int answer_batch(struct stand *s)
{
	struct text line;
	int status = CLI_DONE;

	while (next_line(&line)) {
		int one = CLI_FAILED;

		if (line.len == SIZE_MAX) {
			print_error("the line is too long");
		} else {
			while (line.len > 0 && strchr("\r\n", line.at[line.len - 1]) != NULL)
				line.len--;
			if (line.len == 0)
				continue;
			one = answer_line(s, line);
		}
		status = one > status ? one : status;
	}
	return status;
}

static int answer_one(struct stand *s, struct cli *cli, const struct explain_query *query)
{
	const struct lease_table_entry *lease = candidate_lease(s->candidate, cli->args[0]);

	if (lease == NULL)
		return cli_fail(cli, "there is no lease %s in the policy", cli->args[0]);
	explain(&s->ground, lease, query, s->explanation);
	if (cli->json)
		print_object(s, s->explanation);
	else
		tell(s, s->explanation);
	return s->explanation->verdict.allow ? CLI_DONE : CLI_FINDINGS;
}

/* `--address A`, again and again, each one or more with commas. */
static bool take_addresses(struct cli *cli, struct explain_query *query)
{
	const char *value;

	while (cli_take_value(cli, "--address", &value)) {
		while (value != NULL && *value != '\0') {
			size_t len = strcspn(value, ",");

			if (query->address_count == EXPLAIN_ADDRESSES_MAX ||
			    !addr_parse((struct text){ value, len },
					&query->addresses[query->address_count++]))
				return false;
			value += len + (value[len] == ',' ? 1 : 0);
		}
		if (value == NULL)
			return false;
	}
	return true;
}

int cmd_explain(struct cli *cli)
{
	struct explain_query given = { 0 }, query = { 0 };
	const char *root = NULL, *config = NULL;
	struct stand stand = { 0 };
	bool batch = cli_take_flag(cli, "--batch");
	char reason[512];
	int status;

	if (cli_take_value(cli, "--root", &root) && root == NULL)
		return cli_fail(cli, "--root needs a folder");
	if (cli_take_value(cli, "--config", &config) && config == NULL)
		return cli_fail(cli, "--config needs a file");
	if (!take_addresses(cli, &given))
		return cli_fail(cli, "--address needs up to %d addresses", EXPLAIN_ADDRESSES_MAX);
	if (!cli_args_hold(cli, batch ? 0 : 2, batch ? 0 : 2))
		return CLI_FAILED;
	if (!batch &&
	    explain_read_target(text_of(cli->args[1]), &query, reason, sizeof(reason)) != ERR_OK)
		return cli_fail(cli, "%s: %s", cli->args[1], reason);
	memcpy(query.addresses, given.addresses, sizeof(query.addresses));
	query.address_count = given.address_count;
	status = stand_open(&stand, cli, batch ? NULL : cli->args[0], root, config);
	if (status == CLI_DONE)
		status = batch ? answer_batch(&stand) : answer_one(&stand, cli, &query);
	stand_close(&stand);
	return status;
}
