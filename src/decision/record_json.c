/*
 * A record as one line of JSON and back. The reader knows only what the writer makes: it takes the
 * members in their fixed order, then writes what it understood and compares octets, so that nothing
 * it did not understand can hide in a line.
 */
#include "decision/record_json.h"

#include <stdio.h>
#include <string.h>

#include "base/sink.h"
#include "base/text.h"
#include "decision/record_internal.h"

#define OBSERVER_MAX 64 /* characters of a proxy's name and version */
#define WORD_MAX 32	/* of our own words, the longest of which is far shorter */

/* ---- writing ---- */

/* A comma unless this is the first member, then the key. */
static void put_key(struct sink *s, const char *key)
{
	if (s->len > 0 && s->bytes[s->len - 1] != '{')
		sink_u8(s, ',');
	sink_format(s, "\"%s\":", key);
}

/*
 * Printable ASCII as it is, the rest as \u00XX. At most twice `max` characters come out, whole
 * escapes only: room for any text in which just quotes and backslashes need one, and a bound for
 * hostile octets.
 */
static void put_text(struct sink *s, const char *key, const char *text, size_t max)
{
	size_t left = 2 * max;

	put_key(s, key);
	sink_u8(s, '"');
	for (size_t i = 0; i < max && text[i] != '\0'; i++) {
		char unit[7];
		unsigned char c = (unsigned char)text[i];
		int len;

		if (c == '"' || c == '\\')
			len = snprintf(unit, sizeof(unit), "\\%c", c);
		else if (c < 0x20 || c > 0x7e)
			len = snprintf(unit, sizeof(unit), "\\u%04x", c);
		else
			len = snprintf(unit, sizeof(unit), "%c", c);
		if ((size_t)len > left)
			break;
		left -= (size_t)len;
		sink_bytes(s, unit, (size_t)len);
	}
	sink_u8(s, '"');
}

/* As put_text; nothing at all for an empty text. */
static void put_text_if(struct sink *s, const char *key, const char *text, size_t max)
{
	if (text[0] != '\0')
		put_text(s, key, text, max);
}

static const char *const scopes[] = { "", "undeclared", "none", "declared" };

static void put_scope_if(struct sink *s, const char *key, enum record_scope scope)
{
	if (scope > RECORD_SCOPE_UNSAID && scope <= RECORD_SCOPE_DECLARED)
		put_text(s, key, scopes[scope], RECORD_WORD_MAX);
}

static void put_number(struct sink *s, const char *key, uint64_t value)
{
	put_key(s, key);
	sink_format(s, "%llu", (unsigned long long)value);
}

static void put_number_if(struct sink *s, const char *key, uint64_t value)
{
	if (value != 0)
		put_number(s, key, value);
}

static void put_true_if(struct sink *s, const char *key, bool value)
{
	if (!value)
		return;
	put_key(s, key);
	sink_text(s, "true");
}

static void put_open(struct sink *s, const char *key)
{
	put_key(s, key);
	sink_u8(s, '{');
}

static void put_close(struct sink *s)
{
	sink_u8(s, '}');
}

static void put_addr(struct sink *s, const char *key, const struct addr *a)
{
	char text[ADDR_TEXT_MAX];

	put_text(s, key, addr_print(a, text), sizeof(text));
}

static void write_head(struct sink *s, const struct record *r)
{
	struct record_outcome outcome = record_outcome_of(r);

	put_number(s, "class_uid", 4001);
	put_number(s, "category_uid", 4);
	put_number(s, "activity_id", outcome.activity);
	put_number(s, "type_uid", 400100u + outcome.activity);
	put_number(s, "time", r->wall_ms);
	put_number(s, "severity_id", outcome.severity);
	put_number(s, "status_id", outcome.status);
	put_text(s, "status_code", reason_word(r->verdict.reason), WORD_MAX);
	put_text(s, "status_detail", reason_text(r->verdict.reason), 2 * OBSERVER_MAX);
	put_number(s, "action_id", outcome.action);
	put_number(s, "disposition_id", outcome.disposition);
}

static void write_metadata(struct sink *s, const struct record *r,
			   const struct record_observer *observer)
{
	char uid[RECORD_ID_LEN + WORD_MAX];

	snprintf(uid, sizeof(uid), "%.*s%s", RECORD_ID_LEN, r->id, record_uid_suffix(r));
	put_open(s, "metadata");
	put_text(s, "version", "1.8.0", WORD_MAX);
	put_key(s, "profiles");
	sink_text(s, "[\"security_control\"]");
	put_text(s, "uid", uid, sizeof(uid));
	put_number(s, "sequence", r->sequence);
	put_text(s, "correlation_uid", r->id, RECORD_ID_LEN);
	put_text(s, "log_name", "egress.decision", WORD_MAX);
	put_text_if(s, "tenant_uid", r->tenant, RECORD_WORD_MAX);
	put_open(s, "product");
	put_text(s, "name", "egressd", WORD_MAX);
	put_text(s, "vendor_name", "egressd", WORD_MAX);
	put_text(s, "version", observer->version, OBSERVER_MAX);
	put_close(s);
	put_close(s);
}

static void write_policy(struct sink *s, const struct record *r)
{
	const char *source = record_source_word(r->verdict.source);
	char rev[24];

	if (r->lease[0] != '\0') {
		snprintf(rev, sizeof(rev), "%llu", (unsigned long long)r->rev);
		put_open(s, "policy");
		put_text(s, "uid", r->lease, RECORD_LEASE_MAX);
		put_text(s, "version", rev, sizeof(rev));
		put_close(s);
	}
	if (source[0] == '\0')
		return;
	put_open(s, "firewall_rule");
	put_text_if(s, "uid", r->verdict.rule_id, RULE_ID_MAX);
	put_text(s, "type", source, WORD_MAX);
	put_close(s);
}

static void write_source(struct sink *s, const struct record *r)
{
	put_open(s, "src_endpoint");
	if (r->source.addr.family != ADDR_NONE) {
		put_addr(s, "ip", &r->source.addr);
		put_number(s, "port", r->source.port);
	}
	put_text_if(s, "uid", r->listener, RECORD_WORD_MAX);
	put_close(s);
}

/* The destination as asked; beside a name, the address that was dialled. */
static void write_destination(struct sink *s, const struct record *r)
{
	if (!r->target_known)
		return;
	put_open(s, "dst_endpoint");
	if (r->target.kind == TARGET_NAME) {
		put_text(s, "hostname", r->target.name.text, DNAME_MAX);
		if (r->upstream.addr.family != ADDR_NONE)
			put_addr(s, "ip", &r->upstream.addr);
	} else {
		put_addr(s, "ip", &r->target.addr);
	}
	put_number(s, "port", r->target.port);
	put_close(s);
}

static void write_observer(struct sink *s, const struct record *r,
			   const struct record_observer *observer)
{
	char worker[8];

	snprintf(worker, sizeof(worker), "w%u", (unsigned)r->worker);
	put_open(s, "proxy_endpoint");
	put_text(s, "uid", observer->proxy_uid, OBSERVER_MAX);
	put_text(s, "name", worker, sizeof(worker));
	put_close(s);
}

static void write_traffic(struct sink *s, const struct record *r)
{
	uint64_t total;

	if (r->event == RECORD_DECISION)
		return;
	if (__builtin_add_overflow(r->bytes_up, r->bytes_down, &total))
		total = UINT64_MAX;
	put_open(s, "traffic");
	put_number(s, "bytes", total);
	put_number(s, "bytes_out", r->bytes_up);
	put_number(s, "bytes_in", r->bytes_down);
	put_close(s);
	put_number(s, "duration", r->duration_ms);
}

static const char *atyp_word(const struct record *r)
{
	if (!r->target_known)
		return "";
	if (r->target.kind == TARGET_NAME)
		return "domain";
	return r->target.addr.family == ADDR_V4 ? "ipv4" : "ipv6";
}

static void write_ours(struct sink *s, const struct record *r)
{
	char text[ENDPOINT_TEXT_MAX];

	put_open(s, "unmapped");
	put_text(s, "phase", record_phase_word(r->phase), WORD_MAX);
	put_text_if(s, "atyp", atyp_word(r), WORD_MAX);
	put_text_if(s, "target_raw", r->target_raw, TARGET_TEXT_MAX - 1);
	if (r->scheme_plus_one > 0 && r->scheme_plus_one <= SCHEME_COUNT)
		put_text(s, "scheme", scheme_row((enum scheme)(r->scheme_plus_one - 1))->word,
			 WORD_MAX);
	put_text_if(s, "server_name", r->server_name, DNAME_MAX);
	put_true_if(s, "ech", r->ech);
	if (r->upstream.addr.family != ADDR_NONE)
		put_text(s, "upstream", endpoint_print(&r->upstream, text), sizeof(text));
	if (r->refused_addr.family != ADDR_NONE) {
		put_addr(s, "refused_ip", &r->refused_addr);
		put_text(s, "addr_class", addr_class_word(r->addr_class), WORD_MAX);
	}
	put_true_if(s, "nat64_dropped", r->nat64_dropped);
	put_true_if(s, "pin_failed", r->pin_failed);
	put_text_if(s, "redirect_from", r->redirect_from, RECORD_ID_LEN);
	put_true_if(s, "inferred", r->inferred);
	put_text_if(s, "redirect_to", r->redirect_to, RULE_TEXT_MAX - 1);
	put_true_if(s, "would_deny", r->verdict.would_deny);
	put_text_if(s, "run", r->run, RECORD_WORD_MAX);
	put_text_if(s, "environment_class", r->environment_class, RECORD_WORD_MAX);
	put_scope_if(s, "scope", r->scope);
	put_scope_if(s, "claimed_scope", r->claimed_scope);
	put_text_if(s, "tag", r->tag, RECORD_TAG_MAX);
	put_number(s, "snapshot", r->verdict.snapshot);
	put_number_if(s, "judge_us", r->judge_us);
	put_number_if(s, "dns_ms", r->dns_ms);
	put_number_if(s, "connect_ms", r->connect_ms);
	put_number_if(s, "count", r->count);
	put_number_if(s, "first_time", r->first_wall_ms);
	put_close(s);
}

size_t record_json_write(const struct record *r, const struct record_observer *observer,
			 char *out_line, size_t cap)
{
	struct sink s = sink_over(out_line, cap);

	sink_u8(&s, '{');
	write_head(&s, r);
	write_metadata(&s, r, observer);
	write_policy(&s, r);
	write_source(&s, r);
	write_destination(&s, r);
	write_observer(&s, r, observer);
	write_traffic(&s, r);
	write_ours(&s, r);
	put_close(&s);
	sink_u8(&s, '\n');
	return sink_ok(&s) ? s.len : 0;
}

/* ---- reading ---- */

/* Members in order; the first thing out of place sticks. Commas and exact bounds are left to the
 * comparison at the end. */
struct reader {
	const char *at, *end;
	bool bad;
};

static bool take(struct reader *in, const char *expected)
{
	size_t len = strlen(expected);

	if (in->bad || (size_t)(in->end - in->at) < len || memcmp(in->at, expected, len) != 0)
		return false;
	in->at += len;
	return true;
}

static void need(struct reader *in, const char *expected)
{
	if (!take(in, expected))
		in->bad = true;
}

/* Does the member `key` come next? Steps over it. */
static bool take_key(struct reader *in, const char *key)
{
	const char *before = in->at;

	(void)take(in, ",");
	if (take(in, "\"") && take(in, key) && take(in, "\":"))
		return true;
	in->at = before;
	return false;
}

static void need_key(struct reader *in, const char *key)
{
	if (!take_key(in, key))
		in->bad = true;
}

static void need_close(struct reader *in)
{
	need(in, "}");
}

static int hex_digit(char c)
{
	if (text_is_digit(c))
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One character of a JSON string of ours; false at its closing quote and, with `bad` set, at what
 * we would not write. */
static bool take_char(struct reader *in, char *out_char)
{
	char c;

	if (in->bad || in->at == in->end) {
		in->bad = true;
		return false;
	}
	c = *in->at++;
	if (c == '"')
		return false;
	if (c != '\\') {
		*out_char = c;
		return true;
	}
	if (take(in, "u00") && in->end - in->at >= 2 && hex_digit(in->at[0]) >= 0 &&
	    hex_digit(in->at[1]) >= 0) {
		*out_char = (char)(hex_digit(in->at[0]) << 4 | hex_digit(in->at[1]));
		in->at += 2;
		return true;
	}
	if (in->at < in->end && (*in->at == '"' || *in->at == '\\')) {
		*out_char = *in->at++;
		return true;
	}
	in->bad = true;
	return false;
}

/* A string value into `out_text` of max + 1 octets. */
static void need_text(struct reader *in, char *out_text, size_t max)
{
	size_t len = 0;
	char c;

	need(in, "\"");
	while (take_char(in, &c)) {
		if (len == max || c == '\0') {
			in->bad = true;
			break;
		}
		out_text[len++] = c;
	}
	out_text[len] = '\0';
}

static void take_text(struct reader *in, const char *key, char *out_text, size_t max)
{
	if (take_key(in, key))
		need_text(in, out_text, max);
}

static enum record_scope take_scope(struct reader *in, const char *key)
{
	char word[RECORD_WORD_MAX + 1];

	if (!take_key(in, key))
		return RECORD_SCOPE_UNSAID;
	need_text(in, word, RECORD_WORD_MAX);
	for (unsigned i = RECORD_SCOPE_UNDECLARED; !in->bad && i < ARRAY_LEN(scopes); i++)
		if (strcmp(word, scopes[i]) == 0)
			return (enum record_scope)i;
	in->bad = true;
	return RECORD_SCOPE_UNSAID;
}

static void need_text_at(struct reader *in, const char *key, char *out_text, size_t max)
{
	need_key(in, key);
	need_text(in, out_text, max);
}

static uint64_t need_number(struct reader *in, uint64_t max)
{
	struct text digits = { in->at, 0 };
	uint64_t value = 0;

	while (in->at < in->end && text_is_digit(*in->at))
		in->at++;
	digits.len = (size_t)(in->at - digits.at);
	if (in->bad || !text_to_u64(digits, max, &value)) {
		in->bad = true;
		return 0;
	}
	return value;
}

static uint64_t need_number_at(struct reader *in, const char *key, uint64_t max)
{
	need_key(in, key);
	return need_number(in, max);
}

static uint64_t take_number(struct reader *in, const char *key, uint64_t max)
{
	return take_key(in, key) ? need_number(in, max) : 0;
}

static bool take_true(struct reader *in, const char *key)
{
	if (!take_key(in, key))
		return false;
	need(in, "true");
	return true;
}

static void need_addr(struct reader *in, struct addr *out_addr)
{
	char text[ADDR_TEXT_MAX];

	need_text(in, text, sizeof(text) - 1);
	if (!in->bad && !addr_parse(text_of(text), out_addr))
		in->bad = true;
}

/* What a line's head says of the verdict; see record_outcome_of. */
static void read_head(struct reader *in, struct record *r)
{
	char word[WORD_MAX + 1], skipped[2 * OBSERVER_MAX + 1];
	uint64_t activity;

	need(in, "{\"class_uid\":4001,\"category_uid\":4");
	activity = need_number_at(in, "activity_id", 5);
	(void)need_number_at(in, "type_uid", UINT32_MAX);
	r->wall_ms = need_number_at(in, "time", UINT64_MAX);
	(void)need_number_at(in, "severity_id", UINT8_MAX);
	(void)need_number_at(in, "status_id", UINT8_MAX);
	need_text_at(in, "status_code", word, WORD_MAX);
	need_text_at(in, "status_detail", skipped, 2 * OBSERVER_MAX);
	(void)need_number_at(in, "action_id", UINT8_MAX);
	(void)need_number_at(in, "disposition_id", UINT8_MAX);
	if (!in->bad && !reason_parse(text_of(word), &r->verdict.reason))
		in->bad = true;
	r->event = activity == 2 ? RECORD_CLOSE : activity == 3 ? RECORD_CUT : RECORD_DECISION;
	r->verdict.allow = activity == 1 || (activity == 2 && r->verdict.reason == REASON_ALLOWED);
}

static void read_metadata(struct reader *in, struct record *r, char *out_version)
{
	char uid[RECORD_ID_LEN + WORD_MAX];

	need_key(in, "metadata");
	need(in, "{\"version\":\"1.8.0\",\"profiles\":[\"security_control\"]");
	need_text_at(in, "uid", uid, sizeof(uid) - 1);
	r->sequence = need_number_at(in, "sequence", UINT64_MAX);
	need_text_at(in, "correlation_uid", r->id, RECORD_ID_LEN);
	need(in, ",\"log_name\":\"egress.decision\"");
	take_text(in, "tenant_uid", r->tenant, RECORD_WORD_MAX);
	need(in, ",\"product\":{\"name\":\"egressd\",\"vendor_name\":\"egressd\"");
	need_text_at(in, "version", out_version, OBSERVER_MAX);
	need_close(in);
	need_close(in);
}

static void read_policy(struct reader *in, struct record *r)
{
	char text[WORD_MAX + 1];

	if (take_key(in, "policy")) {
		need(in, "{");
		need_text_at(in, "uid", r->lease, RECORD_LEASE_MAX);
		need_text_at(in, "version", text, WORD_MAX);
		if (!in->bad && !text_to_u64(text_of(text), UINT64_MAX, &r->rev))
			in->bad = true;
		need_close(in);
	}
	if (take_key(in, "firewall_rule")) {
		need(in, "{");
		take_text(in, "uid", r->verdict.rule_id, RULE_ID_MAX);
		need_text_at(in, "type", text, WORD_MAX);
		if (!in->bad && !record_source_parse(text_of(text), &r->verdict.source))
			in->bad = true;
		need_close(in);
	}
}

static void read_source(struct reader *in, struct record *r)
{
	need_key(in, "src_endpoint");
	need(in, "{");
	if (take_key(in, "ip")) {
		need_addr(in, &r->source.addr);
		r->source.port = (uint16_t)need_number_at(in, "port", UINT16_MAX);
	}
	take_text(in, "uid", r->listener, RECORD_WORD_MAX);
	need_close(in);
}

static void read_destination(struct reader *in, struct record *r)
{
	char name[DNAME_MAX + 1];
	struct addr dialled;

	if (!take_key(in, "dst_endpoint"))
		return;
	need(in, "{");
	r->target_known = true;
	if (take_key(in, "hostname")) {
		need_text(in, name, DNAME_MAX);
		if (!in->bad &&
		    dname_parse(text_of(name), DNAME_FINAL_DOT_REFUSE, &r->target.name) != DNAME_OK)
			in->bad = true;
		if (take_key(in, "ip"))
			need_addr(in, &dialled);
	} else {
		r->target.kind = TARGET_ADDRESS;
		need_key(in, "ip");
		need_addr(in, &r->target.addr);
	}
	r->target.port = (uint16_t)need_number_at(in, "port", UINT16_MAX);
	need_close(in);
}

static void read_observer(struct reader *in, struct record *r, char *out_uid)
{
	need_key(in, "proxy_endpoint");
	need(in, "{");
	need_text_at(in, "uid", out_uid, OBSERVER_MAX);
	need(in, ",\"name\":\"w");
	r->worker = (uint8_t)need_number(in, UINT8_MAX);
	need(in, "\"}");
}

static void read_traffic(struct reader *in, struct record *r)
{
	if (!take_key(in, "traffic"))
		return;
	need(in, "{");
	(void)need_number_at(in, "bytes", UINT64_MAX);
	r->bytes_up = need_number_at(in, "bytes_out", UINT64_MAX);
	r->bytes_down = need_number_at(in, "bytes_in", UINT64_MAX);
	need_close(in);
	r->duration_ms = need_number_at(in, "duration", UINT64_MAX);
}

static void read_scheme(struct reader *in, struct record *r)
{
	char word[WORD_MAX + 1];
	enum scheme scheme;

	if (!take_key(in, "scheme"))
		return;
	need_text(in, word, WORD_MAX);
	if (in->bad || !scheme_parse(text_of(word), &scheme)) {
		in->bad = true;
		return;
	}
	r->scheme_plus_one = (uint8_t)(scheme + 1);
}

static void read_upstream(struct reader *in, struct record *r)
{
	char text[ENDPOINT_TEXT_MAX];

	if (!take_key(in, "upstream"))
		return;
	need_text(in, text, sizeof(text) - 1);
	if (!in->bad && !endpoint_parse(text_of(text), 0, &r->upstream))
		in->bad = true;
}

static void read_refused(struct reader *in, struct record *r)
{
	char word[WORD_MAX + 1];

	if (!take_key(in, "refused_ip"))
		return;
	need_addr(in, &r->refused_addr);
	need_text_at(in, "addr_class", word, WORD_MAX);
	for (unsigned i = 0; !in->bad && i < ADDR_CLASS_COUNT; i++) {
		if (text_is(text_of(word), addr_class_word((enum addr_class)i))) {
			r->addr_class = (enum addr_class)i;
			return;
		}
	}
	in->bad = true;
}

static void read_ours(struct reader *in, struct record *r)
{
	char word[WORD_MAX + 1];

	need_key(in, "unmapped");
	need(in, "{");
	need_text_at(in, "phase", word, WORD_MAX);
	if (!in->bad && !record_phase_parse(text_of(word), &r->phase))
		in->bad = true;
	take_text(in, "atyp", word, WORD_MAX);
	take_text(in, "target_raw", r->target_raw, TARGET_TEXT_MAX - 1);
	read_scheme(in, r);
	take_text(in, "server_name", r->server_name, DNAME_MAX);
	r->ech = take_true(in, "ech");
	read_upstream(in, r);
	read_refused(in, r);
	r->nat64_dropped = take_true(in, "nat64_dropped");
	r->pin_failed = take_true(in, "pin_failed");
	take_text(in, "redirect_from", r->redirect_from, RECORD_ID_LEN);
	r->inferred = take_true(in, "inferred");
	take_text(in, "redirect_to", r->redirect_to, RULE_TEXT_MAX - 1);
	r->verdict.would_deny = take_true(in, "would_deny");
	take_text(in, "run", r->run, RECORD_WORD_MAX);
	take_text(in, "environment_class", r->environment_class, RECORD_WORD_MAX);
	r->scope = take_scope(in, "scope");
	r->claimed_scope = take_scope(in, "claimed_scope");
	take_text(in, "tag", r->tag, RECORD_TAG_MAX);
	r->verdict.snapshot = need_number_at(in, "snapshot", UINT64_MAX);
	r->judge_us = (uint32_t)take_number(in, "judge_us", UINT32_MAX);
	r->dns_ms = (uint32_t)take_number(in, "dns_ms", UINT32_MAX);
	r->connect_ms = (uint32_t)take_number(in, "connect_ms", UINT32_MAX);
	r->count = (uint32_t)take_number(in, "count", UINT32_MAX);
	r->first_wall_ms = take_number(in, "first_time", UINT64_MAX);
	need_close(in);
}

/* Is the line octet for octet what the writer makes of the record? Finds reordered, repeated and
 * foreign members alike. */
static bool is_what_we_write(const struct record *r, const struct record_observer *observer,
			     const char *line, size_t len)
{
	char again[RECORD_JSON_MAX];
	size_t again_len = record_json_write(r, observer, again, sizeof(again));

	return again_len == len + 1 && memcmp(again, line, len) == 0;
}

enum parsed record_json_read(const char *line, size_t len, struct record *out_record)
{
	struct record r = { 0 };
	char uid[OBSERVER_MAX + 1] = "", version[OBSERVER_MAX + 1] = "";
	struct record_observer observer = { .proxy_uid = uid, .version = version };
	struct reader in = { line, line, false };

	if (len > 0 && line[len - 1] == '\n')
		len--;
	if (len == 0 || len >= RECORD_JSON_MAX)
		return PARSED_BAD;
	in.end = line + len;
	read_head(&in, &r);
	read_metadata(&in, &r, version);
	read_policy(&in, &r);
	read_source(&in, &r);
	read_destination(&in, &r);
	read_observer(&in, &r, uid);
	read_traffic(&in, &r);
	read_ours(&in, &r);
	need_close(&in);
	if (in.bad || in.at != in.end || !is_what_we_write(&r, &observer, line, len))
		return PARSED_BAD;
	/* would_deny stands behind the head; a connection that was let through by report ended as
	 * one that was allowed. */
	if (r.event == RECORD_CLOSE && r.verdict.would_deny)
		r.verdict.allow = true;
	*out_record = r;
	return PARSED_OK;
}
