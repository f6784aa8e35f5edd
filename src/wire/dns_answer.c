/*
 * A raw DNS response to the addresses that the asked name owns. First every record of the message
 * is bounded, then the alias chain is walked from the asked name over the answer section, in
 * whatever order the records stand. Nothing is repaired: what contradicts itself is MALFORMED.
 * Classifies no address. Called by net/resolver.
 */
#include "wire/dns_answer.h"

#include <string.h>

#include "base/hash.h"

#define HEADER_LEN 12
#define CLASS_IN 1
#define TYPE_SOA 6
#define TYPE_OPT 41
#define RCODE_NOERROR 0
#define RCODE_NXDOMAIN 3
#define JUMPS_MAX 64 /* compression pointers in one name */
#define NAME_WIRE_MAX 255
#define SOAS_MAX 8 /* one is honest */

enum section { SECTION_ANSWER, SECTION_AUTHORITY, SECTION_ADDITIONAL, SECTION_COUNT };

/* A record whose bounds were checked; offsets are into the message. */
struct record {
	uint16_t owner, data; /* where they start */
	uint16_t type, class, data_len;
	uint32_t ttl_s;
	bool has_host;       /* the owner is a name that we could have asked for */
	uint64_t owner_hash; /* has_host: of that name, so that the chain is walked without reading all owners at every step */
};

struct reply {
	const uint8_t *bytes; /* borrowed: the message */
	size_t len;
	struct hash_key key;  /* of this query: what zones can see of it is not enough to find names that collide */
	size_t answer_count, soa_count; /* kept: all answers; SOAs of the authority */
	struct record answers[DNS_ANSWER_RECORDS_MAX];
	struct record soas[SOAS_MAX];
	bool has_opt;
	uint8_t extended_rcode; /* upper eight bits, RFC 6891 section 6.1.3 */
};

const char *dns_outcome_word(enum dns_outcome o)
{
	static const char *const words[] = {
		[DNS_OUTCOME_ADDRESSES] = "addresses",
		[DNS_OUTCOME_NO_ADDRESS] = "no_address",
		[DNS_OUTCOME_NXDOMAIN] = "nxdomain",
		[DNS_OUTCOME_SERVER_FAILURE] = "server_failure",
		[DNS_OUTCOME_TRUNCATED] = "truncated",
		[DNS_OUTCOME_MALFORMED] = "malformed",
		[DNS_OUTCOME_TIMEOUT] = "timeout",
		[DNS_OUTCOME_UNREACHABLE] = "unreachable",
	};

	return (unsigned)o < ARRAY_LEN(words) ? words[o] : "unknown";
}

/* --- names --- */

enum name_kind {
	NAME_HOST,    /* a name that we could have asked for */
	NAME_FOREIGN, /* legal in DNS only: other octets, the root, a numeric last label */
	NAME_BROKEN,
};

struct name {
	enum name_kind kind;
	bool is_root;
	struct dname host; /* kind == HOST */
};

/*
 * Read the name at `at` (RFC 1035 section 4.1.4) and step `*io_at` over it. A pointer must lead to
 * before the part of the name that it ends, so that every jump goes strictly back and the walk must
 * end.
 */
static enum name_kind read_name(const struct reply *reply, size_t *io_at, struct name *out_name)
{
	char text[NAME_WIRE_MAX];
	size_t at = *io_at, part_start = at, end = 0, wire_len = 1, text_len = 0;
	unsigned jumps = 0;

	for (;;) {
		uint8_t len;

		if (at >= reply->len)
			return NAME_BROKEN;
		len = reply->bytes[at];
		if (len >= 0xc0) {
			size_t to;

			if (at + 1 >= reply->len || ++jumps > JUMPS_MAX)
				return NAME_BROKEN;
			to = (size_t)(len & 0x3f) << 8 | reply->bytes[at + 1];
			if (to < HEADER_LEN || to >= part_start)
				return NAME_BROKEN;
			if (jumps == 1)
				end = at + 2;
			at = part_start = to;
			continue;
		}
		if (len > 63)
			return NAME_BROKEN; /* label types not in use, RFC 6891 section 5 */
		at++;
		if (len == 0)
			break;
		wire_len += 1u + len;
		if (wire_len > NAME_WIRE_MAX || len > reply->len - at)
			return NAME_BROKEN;
		if (text_len > 0)
			text[text_len++] = '.';
		for (unsigned i = 0; i < len; i++) {
			/* A dot inside a label is no border between two: let it spoil the text. */
			char c = (char)reply->bytes[at + i];

			text[text_len++] = c == '.' ? '\0' : c;
		}
		at += len;
	}
	*io_at = jumps > 0 ? end : at;
	out_name->is_root = text_len == 0;
	out_name->kind = dname_parse((struct text){ text, text_len }, DNAME_FINAL_DOT_REFUSE,
				     &out_name->host) == DNAME_OK
				 ? NAME_HOST
				 : NAME_FOREIGN;
	return out_name->kind;
}

/* Read a name that must fill its record's data from `at` to `end`. */
static bool read_name_within(const struct reply *reply, size_t *io_at, size_t end,
			     struct name *out_name)
{
	return read_name(reply, io_at, out_name) != NAME_BROKEN && *io_at <= end;
}

static uint64_t hash_of(const struct reply *reply, const struct dname *host)
{
	return hash_bytes(&reply->key, host->text, host->len);
}

/* Is `host`, which has this hash, the owner of this record? Owners were read once, so they are not broken. */
static bool owns(const struct reply *reply, const struct record *record, const struct dname *host, uint64_t hash)
{
	size_t at = record->owner;
	struct name owner;

	if (!record->has_host || record->owner_hash != hash)
		return false;
	return read_name(reply, &at, &owner) == NAME_HOST && dname_equal(&owner.host, host);
}

/* --- bounds --- */

static uint32_t be32_at(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* RFC 2181 section 8: a TTL with the top bit set counts as zero. */
static uint32_t ttl_of(uint32_t raw)
{
	return raw > INT32_MAX ? 0 : raw;
}

static bool take_opt(struct reply *reply, enum section section, bool root, uint32_t raw_ttl)
{
	if (section != SECTION_ADDITIONAL || !root || reply->has_opt)
		return false;
	reply->has_opt = true;
	reply->extended_rcode = (uint8_t)(raw_ttl >> 24);
	return true;
}

/* Address data of the wrong length is a lie wherever it stands among the answers. */
static bool data_len_is_right(const struct record *r)
{
	if (r->class != CLASS_IN)
		return true;
	return (r->type != DNS_TYPE_A || r->data_len == 4) &&
	       (r->type != DNS_TYPE_AAAA || r->data_len == 16);
}

static bool take_record(struct reply *reply, enum section section, size_t *io_at)
{
	struct record r = { .owner = (uint16_t)*io_at };
	struct name owner;
	struct cursor c;
	uint32_t raw_ttl;

	if (read_name(reply, io_at, &owner) == NAME_BROKEN)
		return false;
	c = cursor_over_whole(reply->bytes + *io_at, reply->len - *io_at);
	r.type = cursor_be16(&c);
	r.class = cursor_be16(&c);
	raw_ttl = cursor_be32(&c);
	r.ttl_s = ttl_of(raw_ttl);
	r.data_len = cursor_be16(&c);
	r.data = (uint16_t)(c.at - reply->bytes);
	cursor_bytes(&c, r.data_len);
	if (!cursor_ok(&c))
		return false;
	*io_at = (size_t)(c.at - reply->bytes);
	if (r.type == TYPE_OPT)
		return take_opt(reply, section, owner.is_root, raw_ttl);
	if (section == SECTION_ANSWER) {
		if (!data_len_is_right(&r))
			return false;
		r.has_host = owner.kind == NAME_HOST;
		r.owner_hash = r.has_host ? hash_of(reply, &owner.host) : 0;
		reply->answers[reply->answer_count++] = r;
	} else if (section == SECTION_AUTHORITY && r.type == TYPE_SOA && r.class == CLASS_IN) {
		if (reply->soa_count == SOAS_MAX)
			return false;
		reply->soas[reply->soa_count++] = r;
	}
	return true;
}

/* Bound every record of the three sections; nothing may be missing and nothing left over. */
static bool take_records(struct reply *reply, size_t question_len)
{
	size_t at = HEADER_LEN + question_len;
	size_t counts[SECTION_COUNT], total = 0;

	for (unsigned s = 0; s < SECTION_COUNT; s++) {
		counts[s] = (size_t)reply->bytes[6 + 2 * s] << 8 | reply->bytes[7 + 2 * s];
		total += counts[s];
	}
	if (total > DNS_ANSWER_RECORDS_MAX)
		return false;
	for (unsigned s = 0; s < SECTION_COUNT; s++) {
		for (size_t i = 0; i < counts[s]; i++) {
			if (!take_record(reply, (enum section)s, &at))
				return false;
		}
	}
	return at == reply->len;
}

/* --- the chain --- */

static void keep_least(uint32_t *least, uint32_t ttl_s)
{
	if (ttl_s < *least)
		*least = ttl_s;
}

static bool add_address(struct dns_answer *answer, const uint8_t *octets, uint16_t type)
{
	struct addr addr = type == DNS_TYPE_A ? addr_v4(octets) : addr_v6(octets);

	for (unsigned i = 0; i < answer->addr_count; i++) {
		if (addr_equal(&answer->addrs[i], &addr))
			return true;
	}
	if (answer->addr_count == DNS_ANSWER_ADDRS_MAX)
		return false;
	answer->addrs[answer->addr_count++] = addr;
	return true;
}

enum link { LINK_ALIAS, LINK_END, LINK_BROKEN };

/*
 * Read all that answer->canonical owns: either one alias (repeats of it are harmless), then
 * *out_target is where it leads, or addresses, which are added to `answer`. Both together break RFC
 * 1034 section 3.6.2.
 */
static enum link read_owned(const struct reply *reply, uint16_t asked, struct dns_answer *answer,
			    struct dname *out_target)
{
	bool has_alias = false, has_address = false;
	uint64_t hash = hash_of(reply, &answer->canonical);

	for (size_t i = 0; i < reply->answer_count; i++) {
		const struct record *r = &reply->answers[i];
		size_t at = r->data;
		struct name target;

		if ((r->type != DNS_TYPE_CNAME && r->type != DNS_TYPE_A &&
		     r->type != DNS_TYPE_AAAA) ||
		    !owns(reply, r, &answer->canonical, hash))
			continue;
		if (r->class != CLASS_IN)
			return LINK_BROKEN;
		if (r->type != DNS_TYPE_CNAME) {
			has_address = true;
			if (r->type != asked)
				continue;
			if (!add_address(answer, reply->bytes + r->data, r->type))
				return LINK_BROKEN;
			keep_least(&answer->ttl_s, r->ttl_s);
			continue;
		}
		if (read_name(reply, &at, &target) != NAME_HOST ||
		    at != (size_t)r->data + r->data_len)
			return LINK_BROKEN;
		if (has_alias && !dname_equal(&target.host, out_target))
			return LINK_BROKEN;
		has_alias = true;
		*out_target = target.host;
		keep_least(&answer->ttl_s, r->ttl_s);
	}
	if (has_alias && has_address)
		return LINK_BROKEN;
	return has_alias ? LINK_ALIAS : LINK_END;
}

/* Follow aliases from the asked name; a loop runs into the limit like any long chain. */
static bool walk_chain(const struct reply *reply, uint16_t asked, struct dns_answer *answer)
{
	for (;;) {
		struct dname target;

		switch (read_owned(reply, asked, answer, &target)) {
		case LINK_END:
			return true;
		case LINK_BROKEN:
			return false;
		case LINK_ALIAS:
			break;
		}
		if (answer->chain_count == DNS_ANSWER_CHAIN_MAX)
			return false;
		answer->chain_count++;
		answer->canonical = target;
	}
}

/* --- negative answers --- */

/* How long the absence may be believed (RFC 2308 section 5): the least of TTL and MINIMUM over the
 * SOAs above the name. */
static bool bound_absence(const struct reply *reply, struct dns_answer *answer)
{
	bool bounded = false;

	for (size_t i = 0; i < reply->soa_count; i++) {
		const struct record *r = &reply->soas[i];
		size_t owner_at = r->owner, at = r->data, end = at + r->data_len;
		struct name owner, ignored;

		if (!read_name_within(reply, &at, end, &ignored) ||
		    !read_name_within(reply, &at, end, &ignored) || end - at != 20)
			return false;
		read_name(reply, &owner_at, &owner);
		if (!owner.is_root &&
		    (owner.kind != NAME_HOST ||
		     !dname_is_within(&answer->canonical, text_of(owner.host.text))))
			continue;
		bounded = true;
		keep_least(&answer->ttl_s, r->ttl_s);
		keep_least(&answer->ttl_s, ttl_of(be32_at(reply->bytes + at + 16)));
	}
	if (!bounded)
		answer->ttl_s = 0;
	return true;
}

/* --- the whole --- */

static enum dns_outcome judge_records(const struct dns_query *query, struct reply *reply,
				      struct dns_answer *answer)
{
	if (!take_records(reply, query->question_len))
		return DNS_OUTCOME_MALFORMED;
	if (reply->extended_rcode != 0) {
		unsigned rcode = (unsigned)reply->extended_rcode << 4 | answer->rcode;

		answer->rcode = rcode > UINT8_MAX ? UINT8_MAX : (uint8_t)rcode;
		return DNS_OUTCOME_SERVER_FAILURE;
	}
	answer->ttl_s = INT32_MAX;
	if (!walk_chain(reply, query->type, answer))
		return DNS_OUTCOME_MALFORMED;
	if (answer->addr_count > 0)
		return answer->rcode == RCODE_NOERROR ? DNS_OUTCOME_ADDRESSES
						      : DNS_OUTCOME_MALFORMED;
	if (!bound_absence(reply, answer))
		return DNS_OUTCOME_MALFORMED;
	return answer->rcode == RCODE_NOERROR ? DNS_OUTCOME_NO_ADDRESS : DNS_OUTCOME_NXDOMAIN;
}

void dns_answer_read(const struct dns_query *query, const uint8_t *message, size_t len,
		     struct dns_answer *out_answer)
{
	static const struct hash_key plain;
	struct reply reply = { .bytes = message, .len = len };
	size_t at = HEADER_LEN;
	struct name asked;
	bool truncated;

	memset(out_answer, 0, sizeof(*out_answer));
	out_answer->outcome = DNS_OUTCOME_MALFORMED;
	if (len > DNS_ANSWER_MESSAGE_MAX || dns_query_fits(query, message, len) == DNS_FIT_MISFIT ||
	    read_name(&reply, &at, &asked) != NAME_HOST)
		return;
	reply.key.k0 = hash_bytes(&plain, query->bytes, query->len);
	reply.key.k1 = ~reply.key.k0;
	truncated = message[2] & 0x02;
	out_answer->rcode = message[3] & 0x0f;
	out_answer->canonical = asked.host;
	if (truncated)
		out_answer->outcome = DNS_OUTCOME_TRUNCATED;
	else if (out_answer->rcode != RCODE_NOERROR && out_answer->rcode != RCODE_NXDOMAIN)
		out_answer->outcome = DNS_OUTCOME_SERVER_FAILURE;
	else
		out_answer->outcome = judge_records(query, &reply, out_answer);
	if (out_answer->outcome == DNS_OUTCOME_ADDRESSES)
		return;
	memset(out_answer->addrs, 0, sizeof(out_answer->addrs));
	out_answer->addr_count = 0;
	if (out_answer->outcome != DNS_OUTCOME_NO_ADDRESS &&
	    out_answer->outcome != DNS_OUTCOME_NXDOMAIN)
		out_answer->ttl_s = 0;
}
