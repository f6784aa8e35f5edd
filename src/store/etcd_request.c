/* Bodies and keys for etcd; see etcd_request.h. */
#include "store/etcd_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/base64.h"
#include "store/frames.h"

#define PREFIX "/egress/v1/"
#define ID_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:"
#define CODED_MAX (BASE64_LEN(ETCD_KEY_MAX) + 1)
#define LOGIN_MAX 512

enum err etcd_ranges(const char *cell, struct etcd_range out_ranges[ETCD_PART_COUNT])
{
	size_t len = strlen(cell);

	if (len == 0 || len > ETCD_CELL_MAX || strspn(cell, ID_CHARACTERS) != len)
		return ERR_INVALID;
	memset(out_ranges, 0, ETCD_PART_COUNT * sizeof(out_ranges[0]));
	snprintf(out_ranges[ETCD_PART_KEYSET].key, ETCD_KEY_MAX, PREFIX "keyset");
	snprintf(out_ranges[ETCD_PART_CELL].key, ETCD_KEY_MAX, PREFIX "c/%s/", cell);
	/* '0' is the byte after '/'. */
	snprintf(out_ranges[ETCD_PART_CELL].end, ETCD_KEY_MAX, PREFIX "c/%s0", cell);
	snprintf(out_ranges[ETCD_PART_BEAT].key, ETCD_KEY_MAX, PREFIX "beat/%u", frames_group_of(cell));
	return ERR_OK;
}

bool etcd_short_key(const struct etcd_range *range, enum etcd_part part, struct text key, struct text *out_key)
{
	size_t len = strlen(range->key);

	if (part != ETCD_PART_CELL) {
		*out_key = text_of("keyset");
		return text_is(key, range->key);
	}
	if (key.len <= len || key.len > len + FRAMES_KEY_MAX || memcmp(key.at, range->key, len) != 0)
		return false;
	*out_key = (struct text){ key.at + len, key.len - len };
	return true;
}

static void code(struct text key, char out_text[CODED_MAX])
{
	base64_encode(key.at, key.len, out_text);
}

size_t etcd_page_body(const struct etcd_range *range, struct text after, uint64_t revision, unsigned limit,
		      char out_body[ETCD_BODY_MAX])
{
	char start[ETCD_KEY_MAX + 1], key[CODED_MAX], end[CODED_MAX];
	struct text from = text_of(range->key);

	if (after.len > 0 && after.len < ETCD_KEY_MAX) {
		memcpy(start, after.at, after.len);
		start[after.len] = '\0';
		from = (struct text){ start, after.len + 1 };
	}
	code(from, key);
	code(text_of(range->end), end);
	return (size_t)snprintf(out_body, ETCD_BODY_MAX,
				"{\"key\":\"%s\",\"range_end\":\"%s\",\"limit\":\"%u\",\"revision\":\"%" PRIu64 "\"}", key, end,
				limit, revision);
}

size_t etcd_watch_body(const struct etcd_range ranges[ETCD_PART_COUNT], const uint64_t seen[ETCD_PART_COUNT],
		       char out_body[ETCD_BODY_MAX])
{
	char key[CODED_MAX], end[CODED_MAX];
	size_t len = 0;

	for (unsigned part = 0; part < ETCD_PART_COUNT; part++) {
		code(text_of(ranges[part].key), key);
		code(text_of(ranges[part].end), end);
		len += (size_t)snprintf(out_body + len, ETCD_BODY_MAX - len,
					"{\"create_request\":{\"key\":\"%s\",\"range_end\":\"%s\",\"start_revision\":\"%" PRIu64
					"\",\"watch_id\":\"%u\",\"progress_notify\":true}}\n",
					key, end, seen[part] + 1, part + 1);
	}
	return len;
}

static bool is_plain(const char *text)
{
	for (; *text != '\0'; text++)
		if (*text < ' ' || *text > '~' || *text == '"' || *text == '\\')
			return false;
	return true;
}

enum err etcd_login_body(const char *user, const char *password, char out_body[ETCD_BODY_MAX], size_t *out_len)
{
	if (strlen(user) > LOGIN_MAX || strlen(password) > LOGIN_MAX)
		return ERR_LIMIT;
	if (!is_plain(user) || !is_plain(password))
		return ERR_INVALID;
	*out_len = (size_t)snprintf(out_body, ETCD_BODY_MAX, "{\"name\":\"%s\",\"password\":\"%s\"}", user, password);
	return ERR_OK;
}

static void add(struct etcd_txn *txn, const char *text)
{
	if (txn->err == ERR_OK)
		txn->err = buf_append(&txn->body, text, strlen(text));
}

/* A member whose value is bytes. */
static void add_bytes(struct etcd_txn *txn, const char *before, struct text bytes)
{
	size_t len = BASE64_LEN(bytes.len);
	uint8_t *room;

	add(txn, before);
	/* One more for the zero byte behind it. */
	room = txn->err == ERR_OK ? buf_reserve(&txn->body, len + 1) : NULL;
	if (room == NULL) {
		txn->err = txn->err != ERR_OK ? txn->err : buf_room(&txn->body) < len + 1 ? ERR_LIMIT : ERR_NO_MEMORY;
		return;
	}
	base64_encode(bytes.at, bytes.len, (char *)room);
	buf_commit(&txn->body, len);
	add(txn, "\"");
}

void etcd_txn_begin(struct etcd_txn *txn, size_t body_max)
{
	*txn = (struct etcd_txn){ .err = ERR_OK };
	buf_init(&txn->body, body_max);
	add(txn, "{\"compare\":[");
}

void etcd_txn_compare(struct etcd_txn *txn, struct text key, uint64_t revision)
{
	char number[80];

	add_bytes(txn, txn->has_compare ? ",{\"key\":\"" : "{\"key\":\"", key);
	snprintf(number, sizeof(number), ",\"target\":\"MOD\",\"result\":\"EQUAL\",\"mod_revision\":\"%" PRIu64 "\"}", revision);
	add(txn, number);
	txn->has_compare = true;
}

static void add_operation(struct etcd_txn *txn, const char *which)
{
	add(txn, txn->has_operation ? "," : "],\"success\":[");
	add(txn, which);
	txn->has_operation = true;
}

void etcd_txn_put(struct etcd_txn *txn, struct text key, struct text value)
{
	add_operation(txn, "{\"request_put\":{");
	add_bytes(txn, "\"key\":\"", key);
	add_bytes(txn, ",\"value\":\"", value);
	add(txn, "}}");
}

void etcd_txn_delete(struct etcd_txn *txn, struct text key)
{
	add_operation(txn, "{\"request_delete_range\":{");
	add_bytes(txn, "\"key\":\"", key);
	add(txn, "}}");
}

enum err etcd_txn_end(struct etcd_txn *txn)
{
	add(txn, txn->has_operation ? "]}" : "],\"success\":[]}");
	return txn->err;
}
