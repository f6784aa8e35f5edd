/* The record's line: one exact example, what each event says, the way there and back, and lines
 * that are not ours. */
#include "decision/record_json.h"

#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#include "base/attr.h"
#include "samples.h"

static size_t write_line(const struct record *r, char out_line[RECORD_JSON_MAX + 1])
{
	size_t len = record_json_write(r, &sample_observer, out_line, RECORD_JSON_MAX);

	cr_assert_gt(len, 0);
	out_line[len] = '\0';
	return len;
}

Test(record_json, an_allowed_request_is_this_line)
{
	struct record r = sample_record(0);
	char line[RECORD_JSON_MAX + 1];

	write_line(&r, line);
	cr_expect_str_eq(
		line, "{\"class_uid\":4001,\"category_uid\":4,\"activity_id\":1,\"type_uid\":"
		      "400101,\"time\":1796051201456,"
		      "\"severity_id\":1,\"status_id\":1,\"status_code\":\"allowed\",\"status_"
		      "detail\":\"a rule allows it\","
		      "\"action_id\":1,\"disposition_id\":1,\"metadata\":{\"version\":\"1.8.0\","
		      "\"profiles\":[\"security_control\"],"
		      "\"uid\":\"01M8PFWVDG041061050R3GG28A\",\"sequence\":882113,\"correlation_"
		      "uid\":\"01M8PFWVDG041061050R3GG28A\","
		      "\"log_name\":\"egress.decision\",\"tenant_uid\":\"ws_acme\",\"product\":{"
		      "\"name\":\"egressd\","
		      "\"vendor_name\":\"egressd\",\"version\":\"0.3.0\"}},\"policy\":{\"uid\":"
		      "\"ls_01JDX8M3\",\"version\":\"17\"},"
		      "\"firewall_rule\":{\"uid\":\"r1\",\"type\":\"lease\"},"
		      "\"src_endpoint\":{\"ip\":\"10.200.4.7\",\"port\":41822,\"uid\":\"vm-7f3a\"},"
		      "\"dst_endpoint\":{\"hostname\":\"api.example.org\",\"ip\":\"198.51.100.9\","
		      "\"port\":443},"
		      "\"proxy_endpoint\":{\"uid\":\"px-0161-a\",\"name\":\"w3\"},"
		      "\"unmapped\":{\"phase\":\"address\",\"atyp\":\"domain\",\"scheme\":"
		      "\"https\",\"upstream\":\"198.51.100.9:443\","
		      "\"run\":\"run_881\",\"environment_class\":\"code\",\"scope\":\"declared\",\"claimed_scope\":\"none\","
		      "\"snapshot\":551,\"judge_"
		      "us\":7,\"dns_ms\":2,\"connect_ms\":31}}\n");
}

Test(record_json, each_event_has_its_numbers)
{
	static const struct {
		unsigned sample;
		const char *head, *numbers, *uid_end;
	} rows[] = {
		{ 0, "\"activity_id\":1,\"type_uid\":400101",
		  "\"action_id\":1,\"disposition_id\":1,", "G28A\"" },
		{ 1, "\"activity_id\":5,\"type_uid\":400105",
		  "\"action_id\":2,\"disposition_id\":2,", "G28A\"" },
		{ 4, "\"activity_id\":5,\"type_uid\":400105",
		  "\"action_id\":2,\"disposition_id\":2,", "G28A-stream\"" },
		{ 5, "\"activity_id\":5,\"type_uid\":400105",
		  "\"action_id\":2,\"disposition_id\":2,", "G28A-redirect\"" },
		{ 6, "\"activity_id\":4,\"type_uid\":400104",
		  "\"action_id\":1,\"disposition_id\":27,", "G28A\"" },
		{ 7, "\"activity_id\":1,\"type_uid\":400101",
		  "\"action_id\":1,\"disposition_id\":1,", "G28A\"" },
		{ 8, "\"activity_id\":2,\"type_uid\":400102",
		  "\"action_id\":1,\"disposition_id\":1,", "G28A-close\"" },
		{ 9, "\"activity_id\":2,\"type_uid\":400102",
		  "\"action_id\":1,\"disposition_id\":1,", "G28A-close\"" },
		{ 10, "\"activity_id\":3,\"type_uid\":400103",
		  "\"action_id\":2,\"disposition_id\":24,", "G28A-cut\"" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct record r = sample_record(rows[i].sample);
		char line[RECORD_JSON_MAX + 1];

		write_line(&r, line);
		cr_expect(strstr(line, rows[i].head) != NULL, "%u: %s", rows[i].sample, line);
		cr_expect(strstr(line, rows[i].numbers) != NULL, "%u: %s", rows[i].sample, line);
		cr_expect(strstr(line, rows[i].uid_end) != NULL, "%u: %s", rows[i].sample, line);
		cr_expect_eq(strstr(line, "\"traffic\":") != NULL, r.event != RECORD_DECISION);
	}
}

Test(record_json, a_connection_let_through_by_report_ends_as_a_success)
{
	struct record r = sample_ended(RECORD_CLOSE, REASON_NO_RULE), again;
	char line[RECORD_JSON_MAX + 1];

	write_line(&r, line);
	cr_expect_not_null(strstr(line, "\"status_id\":2,\"status_code\":\"no_rule\""));
	r.verdict.would_deny = r.verdict.allow = true;
	cr_assert_eq(record_json_read(line, write_line(&r, line), &again), PARSED_OK);
	cr_expect_not_null(strstr(line, "\"status_id\":1,\"status_code\":\"no_rule\""));
	cr_expect(again.verdict.allow && again.verdict.would_deny);
}

Test(record_json, a_sum_of_bytes_that_does_not_fit_stays_at_the_top)
{
	struct record r = sample_record(10);
	char line[RECORD_JSON_MAX + 1];

	write_line(&r, line);
	cr_expect_not_null(strstr(
		line, "\"traffic\":{\"bytes\":18446744073709551615,"
		      "\"bytes_out\":18446744073709551615,\"bytes_in\":98304},\"duration\":5321"));
}

Test(record_json, which_failures_are_nobodys_refusal)
{
	for (unsigned i = 0; i < REASON_COUNT; i++) {
		struct record r = sample_denied((enum reason)i, PHASE_ADDRESS);
		const char *word = reason_word((enum reason)i);
		/* What the origin or its name servers could not do; not what we refuse of theirs.
		 */
		bool failed = strncmp(word, "upstream_", 9) == 0 ||
			      (strncmp(word, "dns_", 4) == 0 && i != REASON_DNS_BUDGET);
		char line[RECORD_JSON_MAX + 1];

		write_line(&r, line);
		cr_expect(strstr(line, failed ? "\"activity_id\":4," : "\"activity_id\":5,") !=
				  NULL,
			  "%s", word);
	}
}

static void expect_same(const struct record *a, const struct record *b)
{
	cr_expect_eq(a->event, b->event);
	cr_expect_str_eq(a->id, b->id);
	cr_expect_eq(a->wall_ms, b->wall_ms);
	cr_expect_eq(a->sequence, b->sequence);
	cr_expect_str_eq(a->lease, b->lease);
	cr_expect_str_eq(a->tenant, b->tenant);
	cr_expect_str_eq(a->run, b->run);
	cr_expect_str_eq(a->environment_class, b->environment_class);
	cr_expect_eq(a->rev, b->rev);
	cr_expect(a->scope == b->scope && a->claimed_scope == b->claimed_scope);
	cr_expect_str_eq(a->tag, b->tag);
	cr_expect_str_eq(a->listener, b->listener);
	cr_expect(endpoint_equal(&a->source, &b->source));
	cr_expect_eq(a->worker, b->worker);
	cr_expect_eq(a->target_known, b->target_known);
	cr_expect(target_equal(&a->target, &b->target));
	cr_expect_str_eq(a->target_raw, b->target_raw);
	cr_expect_eq(a->scheme_plus_one, b->scheme_plus_one);
	cr_expect_str_eq(a->server_name, b->server_name);
	cr_expect_eq(a->ech, b->ech);
	cr_expect(endpoint_equal(&a->upstream, &b->upstream));
	cr_expect(addr_equal(&a->refused_addr, &b->refused_addr));
	cr_expect_eq(a->addr_class, b->addr_class);
	cr_expect_eq(a->phase, b->phase);
	cr_expect_eq(a->verdict.allow, b->verdict.allow);
	cr_expect_eq(a->verdict.reason, b->verdict.reason);
	cr_expect_eq(a->verdict.would_deny, b->verdict.would_deny);
	cr_expect_eq(a->verdict.source, b->verdict.source);
	cr_expect_str_eq(a->verdict.rule_id, b->verdict.rule_id);
	cr_expect_eq(a->verdict.snapshot, b->verdict.snapshot);
	cr_expect_eq(a->nat64_dropped, b->nat64_dropped);
	cr_expect_eq(a->pin_failed, b->pin_failed);
	cr_expect_str_eq(a->redirect_from, b->redirect_from);
	cr_expect_eq(a->inferred, b->inferred);
	cr_expect_str_eq(a->redirect_to, b->redirect_to);
	cr_expect_eq(a->judge_us, b->judge_us);
	cr_expect_eq(a->dns_ms, b->dns_ms);
	cr_expect_eq(a->connect_ms, b->connect_ms);
	cr_expect_eq(a->duration_ms, b->duration_ms);
	cr_expect_eq(a->bytes_up, b->bytes_up);
	cr_expect_eq(a->bytes_down, b->bytes_down);
	cr_expect_eq(a->count, b->count);
	cr_expect_eq(a->first_wall_ms, b->first_wall_ms);
}

Test(record_json, every_sample_reads_back_whole)
{
	for (unsigned i = 0; i < SAMPLE_COUNT; i++) {
		struct record r = sample_record(i), again;
		char line[RECORD_JSON_MAX + 1];
		size_t len = write_line(&r, line);

		cr_assert_eq(record_json_read(line, len, &again), PARSED_OK, "%u: %s", i, line);
		expect_same(&r, &again);
		/* Also as a line reader hands it over. */
		cr_expect_eq(record_json_read(line, len - 1, &again), PARSED_OK);
	}
}

Test(record_json, every_reason_phase_class_and_scheme_reads_back)
{
	char line[RECORD_JSON_MAX + 1];
	struct record r, again;

	for (unsigned i = 0; i < REASON_COUNT; i++) {
		r = sample_denied((enum reason)i, (enum facts_phase)(i % 4));
		r.scheme_plus_one = (uint8_t)(i % (SCHEME_COUNT + 1));
		r.refused_addr = r.source.addr;
		r.addr_class = (enum addr_class)(i % ADDR_CLASS_COUNT);
		cr_assert_eq(record_json_read(line, write_line(&r, line), &again), PARSED_OK, "%s",
			     line);
		expect_same(&r, &again);
	}
}

Test(record_json, a_line_is_printable_ascii_whatever_the_guest_sent)
{
	for (unsigned c = 1; c < 256; c++) {
		struct record r = sample_record(3), again;
		char line[RECORD_JSON_MAX + 1];
		size_t len;

		r.tag[0] = r.target_raw[0] = r.server_name[0] = r.redirect_to[0] = r.lease[0] =
			(char)c;
		r.tag[1] = r.target_raw[1] = r.server_name[1] = r.redirect_to[1] = r.lease[1] =
			'\0';
		len = write_line(&r, line);
		for (size_t i = 0; i + 1 < len; i++)
			cr_assert(line[i] >= 0x20 && line[i] < 0x7f, "octet %u at %zu", c, i);
		cr_assert_eq(line[len - 1], '\n');
		cr_assert_eq(record_json_read(line, len, &again), PARSED_OK, "octet %u", c);
		expect_same(&r, &again);
	}
}

Test(record_json, escapes_are_these)
{
	struct record r = sample_record(3);
	char line[RECORD_JSON_MAX + 1];

	write_line(&r, line);
	cr_expect_not_null(strstr(line, "\"tag\":\"job \\\"7\\\" \\u001b[2J \\u00ff\""));
	cr_expect_not_null(strstr(line, "\"target_raw\":\"evil.test\\\\x00.wild.\\\"test\\\"\""));
}

static void fill(char *field, size_t size, char c)
{
	memset(field, c, size - 1);
	field[size - 1] = '\0';
}

static struct record full_record(char c)
{
	struct record r = sample_ended(RECORD_CUT, REASON_AUDIT_BACKPRESSURE);

	r.wall_ms = r.sequence = r.rev = r.bytes_up = r.bytes_down = r.duration_ms = UINT64_MAX;
	r.first_wall_ms = r.verdict.snapshot = UINT64_MAX;
	r.judge_us = r.dns_ms = r.connect_ms = r.count = UINT32_MAX;
	r.worker = UINT8_MAX;
	fill(r.lease, sizeof(r.lease), c);
	fill(r.tenant, sizeof(r.tenant), c);
	fill(r.run, sizeof(r.run), c);
	fill(r.environment_class, sizeof(r.environment_class), c);
	r.scope = r.claimed_scope = RECORD_SCOPE_UNDECLARED;
	fill(r.tag, sizeof(r.tag), c);
	fill(r.listener, sizeof(r.listener), c);
	fill(r.target_raw, sizeof(r.target_raw), c);
	fill(r.server_name, sizeof(r.server_name), c);
	fill(r.redirect_from, sizeof(r.redirect_from), c);
	fill(r.redirect_to, sizeof(r.redirect_to), c);
	fill(r.verdict.rule_id, sizeof(r.verdict.rule_id), c);
	memset(r.target.name.text, 'a', DNAME_MAX);
	for (size_t dot = 63; dot < DNAME_MAX; dot += 64)
		r.target.name.text[dot] = '.';
	r.target.name.len = DNAME_MAX;
	r.target.name.label_count = 4;
	memset(r.source.addr.octets, 0xee, 16);
	r.source.addr.family = ADDR_V6;
	r.source.port = r.target.port = UINT16_MAX;
	r.upstream = r.source;
	r.refused_addr = r.source.addr;
	r.addr_class = ADDR_CLASS_DOCUMENTATION;
	r.ech = r.nat64_dropped = r.pin_failed = r.inferred = r.verdict.would_deny = true;
	return r;
}

Test(record_json, the_longest_record_fits_and_reads_back)
{
	static const char fills[] = { 'x', '"', '\\', '\x01', '\xff' };

	for (size_t i = 0; i < ARRAY_LEN(fills); i++) {
		struct record r = full_record(fills[i]), again;
		char proxy[200], line[RECORD_JSON_MAX + 1], twice[RECORD_JSON_MAX + 1];
		struct record_observer observer = { proxy, proxy };
		size_t len;

		fill(proxy, sizeof(proxy), fills[i]);
		len = record_json_write(&r, &observer, line, RECORD_JSON_MAX);
		cr_assert(len > 0 && len <= RECORD_JSON_MAX);
		cr_assert_eq(record_json_read(line, len, &again), PARSED_OK, "%.*s", (int)len,
			     line);
		/* Printable text is whole; control octets are cut, whole escapes at a time, and
		 * stay cut the same. */
		if (fills[i] != '\x01' && fills[i] != '\xff')
			expect_same(&r, &again);
		cr_expect_eq(record_json_write(&again, &observer, twice, RECORD_JSON_MAX), len);
		cr_expect_eq(memcmp(line, twice, len), 0);
	}
}

Test(record_json, a_line_that_does_not_fit_is_not_written)
{
	struct record r = sample_record(0);
	char line[RECORD_JSON_MAX + 1], exact[RECORD_JSON_MAX + 1];
	size_t len = write_line(&r, line);

	for (size_t cap = 0; cap < len; cap++)
		cr_assert_eq(record_json_write(&r, &sample_observer, exact, cap), 0);
	cr_expect_eq(record_json_write(&r, &sample_observer, exact, len), len);
}

Test(record_json, no_prefix_of_a_line_is_a_record)
{
	for (unsigned i = 0; i < SAMPLE_COUNT; i++) {
		struct record r = sample_record(i), again = { .sequence = 5 };
		char line[RECORD_JSON_MAX + 1];
		size_t len = write_line(&r, line);

		for (size_t cut = 0; cut + 1 < len; cut++)
			cr_assert_eq(record_json_read(line, cut, &again), PARSED_BAD);
		cr_expect_eq(again.sequence, 5);
	}
}

/* The line with `what` put in at `at`. */
static enum parsed read_with(const char *line, size_t len, size_t at, const char *what)
{
	char changed[RECORD_JSON_MAX + 64];
	struct record r;
	int changed_len = snprintf(changed, sizeof(changed), "%.*s%s%.*s", (int)at, line, what,
				   (int)(len - at), line + at);

	return record_json_read(changed, (size_t)changed_len, &r);
}

Test(record_json, foreign_repeated_and_spaced_members_are_refused)
{
	static const char *const after_open[] = { "\"x\":1,", " ", ",", "\"port\":1,",
						  "\"class_uid\":4001," };
	static const char *const before_close[] = {
		",\"x\":1", " ", ",", ",\"port\":443", ",\"ech\":true", ",\"count\":0"
	};

	for (unsigned i = 0; i < SAMPLE_COUNT; i++) {
		struct record r = sample_record(i);
		char line[RECORD_JSON_MAX + 1];
		size_t len = write_line(&r, line);

		for (size_t at = 0; at < len; at++) {
			for (size_t j = 0; line[at] == '{' && j < ARRAY_LEN(after_open); j++)
				cr_assert_eq(read_with(line, len, at + 1, after_open[j]),
					     PARSED_BAD, "%s", line + at);
			for (size_t j = 0; line[at] == '}' && j < ARRAY_LEN(before_close); j++)
				cr_assert_eq(read_with(line, len, at, before_close[j]), PARSED_BAD,
					     "%s", line + at);
		}
		cr_expect_eq(read_with(line, len, len, "\n"), PARSED_BAD);
		cr_expect_eq(read_with(line, len, len, " "), PARSED_BAD);
		cr_expect_eq(read_with(line, len, len - 1, "\r"), PARSED_BAD);
		cr_expect_eq(read_with(line, len, len, line), PARSED_BAD);
	}
}

Test(record_json, octets_changed_anywhere_are_refused_or_mean_something_else)
{
	static const char changes[] = { '0', '7', '"', '\\', ',',  '{',
					'}', 'x', ' ', '\0', '\n', '\xff' };

	for (unsigned i = 0; i < SAMPLE_COUNT; i++) {
		struct record r = sample_record(i), again;
		char line[RECORD_JSON_MAX + 1], twice[RECORD_JSON_MAX + 1];
		size_t len = write_line(&r, line);

		for (size_t at = 0; at < len; at++) {
			for (size_t j = 0; j < ARRAY_LEN(changes); j++) {
				char kept = line[at];

				if (kept == changes[j])
					continue;
				line[at] = changes[j];
				if (record_json_read(line, len, &again) == PARSED_OK) {
					/* A value of this record, or the observer's name, which the
					 * record does not hold. */
					record_json_write(&again, &sample_observer, twice,
							  RECORD_JSON_MAX);
					line[at] = kept;
					cr_assert(memcmp(line, twice, len) != 0 ||
						  strstr(line, "0.3.0") - line <= (long)at);
				}
				line[at] = kept;
			}
		}
	}
}

Test(record_json, values_that_contradict_each_other_are_refused)
{
	static const struct {
		const char *from, *to;
	} swaps[] = {
		{ "\"activity_id\":1", "\"activity_id\":5" },
		{ "\"activity_id\":1", "\"activity_id\":0" },
		{ "\"activity_id\":1", "\"activity_id\":6" },
		{ "\"type_uid\":400101", "\"type_uid\":400105" },
		{ "\"action_id\":1", "\"action_id\":2" },
		{ "\"disposition_id\":1", "\"disposition_id\":2" },
		{ "\"status_code\":\"allowed\"", "\"status_code\":\"allow\"" },
		{ "\"status_code\":\"allowed\"", "\"status_code\":\"no_rule\"" },
		{ "a rule allows it", "a rule allows it all" },
		{ "\"time\":1796051201456", "\"time\":01796051201456" },
		{ "\"time\":1796051201456", "\"time\":-1796051201456" },
		{ "\"time\":1796051201456", "\"time\":1796051201456.0" },
		{ "\"time\":1796051201456", "\"time\":18446744073709551616" },
		{ "G28A\",\"sequence\"", "G28A-cut\",\"sequence\"" },
		{ "G28A\",\"sequence\"", "G28B\",\"sequence\"" },
		{ "api.example.org", "API.example.org" },
		{ "api.example.org", "api.example.org." },
		{ "api.example.org", "api..example.org" },
		{ "api.example.org", "api.example.1" },
		{ "\"ip\":\"198.51.100.9\"", "\"ip\":\"198.51.100.8\"" },
		{ "198.51.100.9:443", "198.51.100.9" },
		{ "198.51.100.9:443", "198.51.100.09:443" },
		{ "\"ip\":\"10.200.4.7\"", "\"ip\":\"10.200.4\"" },
		{ "\"port\":443}", "\"port\":65536}" },
		{ "\"name\":\"w3\"", "\"name\":\"w03\"" },
		{ "\"name\":\"w3\"", "\"name\":\"w256\"" },
		{ "\"version\":\"17\"", "\"version\":\"017\"" },
		{ "\"version\":\"17\"", "\"version\":\"\"" },
		{ "\"type\":\"lease\"", "\"type\":\"\"" },
		{ "\"type\":\"lease\"", "\"type\":\"leases\"" },
		{ "\"phase\":\"address\"", "\"phase\":\"stream\"" },
		{ "\"atyp\":\"domain\"", "\"atyp\":\"ipv4\"" },
		{ "\"atyp\":\"domain\",", "" },
		{ "\"scheme\":\"https\"", "\"scheme\":\"HTTPS\"" },
		{ "\"judge_us\":7", "\"judge_us\":0" },
		{ "\"judge_us\":7,\"dns_ms\":2", "\"dns_ms\":2,\"judge_us\":7" },
		{ "\"run\":\"run_881\"", "\"run\":\"run_\\u0038\\u0038\\u0031\"" },
		{ "\"run\":\"run_881\"", "\"run\":\"run_\\/881\"" },
		{ "\"run\":\"run_881\"", "\"run\":\"run_\\u0000\"" },
		{ "\"run\":\"run_881\"", "\"run\":\"run_\\u00FF\"" },
		{ "\"run\":\"run_881\"", "\"run\":\"run_\\u20ac\"" },
		{ "\"run\":\"run_881\"", "\"run\":\"\"" },
		{ "\"run\":\"run_881\"", "\"run\":null" },
	};
	struct record r = sample_record(0), again;
	char line[RECORD_JSON_MAX + 1];

	write_line(&r, line);
	for (size_t i = 0; i < ARRAY_LEN(swaps); i++) {
		char changed[RECORD_JSON_MAX + 64];
		const char *at = strstr(line, swaps[i].from);
		int len;

		cr_assert_not_null(at, "%s", swaps[i].from);
		len = snprintf(changed, sizeof(changed), "%.*s%s%s", (int)(at - line), line,
			       swaps[i].to, at + strlen(swaps[i].from));
		cr_expect_eq(record_json_read(changed, (size_t)len, &again), PARSED_BAD, "%s",
			     swaps[i].to);
	}
}

Test(record_json, nothing_and_oversize_are_refused)
{
	char long_line[RECORD_JSON_MAX + 10];
	struct record r;

	memset(long_line, ' ', sizeof(long_line));
	cr_expect_eq(record_json_read("", 0, &r), PARSED_BAD);
	cr_expect_eq(record_json_read("\n", 1, &r), PARSED_BAD);
	cr_expect_eq(record_json_read("{}", 2, &r), PARSED_BAD);
	cr_expect_eq(record_json_read(long_line, sizeof(long_line), &r), PARSED_BAD);
}
