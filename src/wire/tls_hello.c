/*
 * A ClientHello read where it lies, in two passes. The layout pass steps from record header to
 * record header until the message is complete: at most RECORDS_MAX headers, so a guest that sends
 * one byte at a time costs a bounded walk for each. The content pass runs once, over a complete
 * message, and steps over record headers as it meets them. Any doubt is BAD: the server may read
 * the same bytes differently. Decides nothing. Called by proxy/tunnel.
 */
#include "wire/tls_hello.h"

#include <string.h>

#define RECORD_HEADER_LEN 5
#define RECORD_MAX 16384			 /* plaintext, RFC 8446 section 5.1 */
#define RECORD_CIPHERTEXT_MAX (RECORD_MAX + 256) /* section 5.2; TLS 1.3 early data */
#define RECORDS_MAX 4096
#define MESSAGE_HEADER_LEN 4
#define RANDOM_LEN 32
#define SESSION_ID_MAX 32
#define SKIPPED_MAX 4 /* change_cipher_spec records of a server in front of its hello */

enum record_type {
	RECORD_CHANGE_CIPHER_SPEC = 20,
	RECORD_HANDSHAKE = 22,
	RECORD_APPLICATION_DATA = 23,
};

enum message_type { MESSAGE_CLIENT_HELLO = 1, MESSAGE_SERVER_HELLO = 2 };

enum extension_type {
	EXTENSION_SERVER_NAME = 0,
	EXTENSION_EARLY_DATA = 42,
	EXTENSION_SUPPORTED_VERSIONS = 43,
	EXTENSION_ECH = 0xfe0d, /* RFC 9849 section 11.1 */
};

#define TLS_1_2 0x0303
#define TLS_1_3 0x0304

/* --- records --- */

struct record {
	uint8_t type;
	size_t len;
};

/* Read a record header; each byte is judged as soon as it is there. */
static enum parsed read_record_header(const uint8_t *at, size_t left, size_t max,
				      struct record *out_record)
{
	struct cursor c = cursor_over(at, left);
	struct record record;

	record.type = cursor_u8(&c);
	cursor_expect(&c, 0x03);
	cursor_u8(&c); /* legacy_record_version is ignored for all purposes, section 5.1 */
	record.len = cursor_be16(&c);
	if (cursor_ok(&c) && (record.len == 0 || record.len > max))
		return PARSED_BAD;
	if (cursor_ok(&c))
		*out_record = record;
	return c.status;
}

/* The bytes of one handshake message, spread over the records that start at `at`. */
struct message {
	const uint8_t *at;  /* next byte, or the record header in front of it */
	size_t record_left; /* bytes of the message that are left in this record */
	size_t left;	    /* bytes of the innermost open field that are left */
	bool broken;	    /* a field was longer than what encloses it */
};

static void enter_record(struct message *m)
{
	if (m->record_left > 0)
		return;
	m->record_left = (size_t)m->at[3] << 8 | m->at[4];
	m->at += RECORD_HEADER_LEN;
}

static uint8_t take_u8(struct message *m)
{
	if (m->broken || m->left == 0) {
		m->broken = true;
		return 0;
	}
	enter_record(m);
	m->record_left--;
	m->left--;
	return *m->at++;
}

static uint16_t take_be16(struct message *m)
{
	uint16_t high = take_u8(m);

	return (uint16_t)(high << 8 | take_u8(m));
}

/* Step over `len` bytes and copy them to `out_bytes` unless it is NULL. */
static void take(struct message *m, size_t len, uint8_t *out_bytes)
{
	if (m->broken || len > m->left) {
		m->broken = true;
		return;
	}
	m->left -= len;
	while (len > 0) {
		size_t step;

		enter_record(m);
		step = len < m->record_left ? len : m->record_left;
		if (out_bytes != NULL) {
			memcpy(out_bytes, m->at, step);
			out_bytes += step;
		}
		m->at += step;
		m->record_left -= step;
		len -= step;
	}
}

/* Narrow the message to a field of `len` bytes; returns what encloses it, for close_field. */
static size_t open_field(struct message *m, size_t len)
{
	size_t outside;

	if (m->broken || len > m->left) {
		m->broken = true;
		m->left = 0;
		return 0;
	}
	outside = m->left - len;
	m->left = len;
	return outside;
}

/* A field must be read to its end: bytes that nothing accounts for are a second meaning. */
static void close_field(struct message *m, size_t outside)
{
	if (m->left != 0)
		m->broken = true;
	m->left = outside;
}

/* --- the content pass --- */

static void read_server_name(struct message *m, struct tls_hello *hello)
{
	size_t outside = open_field(m, take_be16(m));
	uint8_t name_type = take_u8(m);
	size_t len = take_be16(m);
	char name[DNAME_MAX];

	/* RFC 6066 section 3: a name is at least one octet, one name of a type; no other type was
	 * ever defined. */
	if (name_type != 0 || len == 0 || len != m->left)
		m->broken = true;
	hello->sni = TLS_HELLO_SNI_INVALID;
	if (len > sizeof(name)) {
		take(m, len, NULL);
	} else {
		take(m, len, (uint8_t *)name);
		if (!m->broken && dname_parse((struct text){ name, len }, DNAME_FINAL_DOT_REFUSE,
					      &hello->name) == DNAME_OK)
			hello->sni = TLS_HELLO_SNI_NAME;
	}
	close_field(m, outside);
}

static void read_supported_versions(struct message *m, struct tls_hello *hello)
{
	size_t len = take_u8(m);
	size_t outside = open_field(m, len);

	if (len == 0 || len % 2 != 0)
		m->broken = true;
	hello->offers_tls12 = false; /* the list replaces legacy_version, section 4.2.1 */
	while (!m->broken && m->left > 0) {
		uint16_t version = take_be16(m);

		hello->offers_tls12 |= version == TLS_1_2 || version == TLS_1_3;
	}
	close_field(m, outside);
}

static void read_extension(struct message *m, uint16_t type, struct tls_hello *hello)
{
	size_t outside = open_field(m, take_be16(m));

	switch (type) {
	case EXTENSION_SERVER_NAME:
		read_server_name(m, hello);
		break;
	case EXTENSION_SUPPORTED_VERSIONS:
		read_supported_versions(m, hello);
		break;
	case EXTENSION_EARLY_DATA:
		hello->offers_early_data = true;
		break; /* empty in a ClientHello, section 4.2.10 */
	case EXTENSION_ECH:
		hello->has_ech = true;
		take(m, m->left, NULL);
		break;
	default:
		take(m, m->left, NULL);
		break;
	}
	close_field(m, outside);
}

static void read_extensions(struct message *m, struct tls_hello *hello)
{
	size_t outside = open_field(m, take_be16(m));
	uint8_t seen[(UINT16_MAX + 1) / 8] = { 0 };

	while (!m->broken && m->left > 0) {
		uint16_t type = take_be16(m);
		uint8_t bit = (uint8_t)(1u << (type % 8));

		if (seen[type / 8] & bit)
			m->broken = true; /* section 4.2: one of each type */
		seen[type / 8] |= bit;
		read_extension(m, type, hello);
	}
	close_field(m, outside);
}

/* Read a complete message behind its header (section 4.1.2). */
static bool read_client_hello(struct message *m, struct tls_hello *hello)
{
	uint16_t version = take_be16(m);
	size_t len;

	if (version >> 8 != 0x03)
		return false;
	hello->offers_tls12 = version >= TLS_1_2;
	take(m, RANDOM_LEN, NULL);
	len = take_u8(m);
	if (len > SESSION_ID_MAX)
		return false;
	take(m, len, NULL);
	len = take_be16(m); /* cipher suites */
	if (len == 0 || len % 2 != 0)
		return false;
	take(m, len, NULL);
	len = take_u8(m); /* compression methods */
	if (len == 0)
		return false;
	take(m, len, NULL);
	if (!m->broken && m->left == 0)
		return true; /* no extension block: legal up to TLS 1.2 */
	read_extensions(m, hello);
	return !m->broken && m->left == 0;
}

/* --- the layout pass --- */

struct layout {
	size_t start;	    /* where the first handshake record starts */
	size_t len;	    /* bytes up to the end of the record that completes the message */
	size_t message_len; /* with its header */
};

/* Take in the part of the message header that this record holds; BAD as soon as it cannot be a
 * ClientHello. */
static enum parsed read_message_header(const uint8_t *at, size_t len, size_t *have,
				       size_t *message_len)
{
	for (size_t i = 0; i < len && *have < MESSAGE_HEADER_LEN; i++, (*have)++) {
		if (*have == 0) {
			if (at[i] != MESSAGE_CLIENT_HELLO)
				return PARSED_BAD;
			continue;
		}
		*message_len = *message_len << 8 | at[i];
		if (*have == MESSAGE_HEADER_LEN - 1) {
			*message_len += MESSAGE_HEADER_LEN;
			if (*message_len > TLS_HELLO_MAX)
				return PARSED_BAD;
		}
	}
	return PARSED_OK;
}

/* Walk handshake records from layout->start until a ClientHello is complete and ends where its last
 * record ends. */
static enum parsed lay_out(const uint8_t *bytes, size_t len, struct layout *layout)
{
	size_t at = layout->start;
	size_t have = 0; /* bytes of the message */
	size_t header_have = 0;
	size_t message_len = 0;

	for (unsigned i = 0; i < RECORDS_MAX; i++) {
		struct record record = { 0 };
		size_t visible;
		enum parsed r;

		if (len > at && bytes[at] != RECORD_HANDSHAKE)
			return PARSED_BAD;
		r = read_record_header(bytes + at, len - at, RECORD_MAX, &record);
		if (r != PARSED_OK)
			return r;
		at += RECORD_HEADER_LEN;
		visible = record.len < len - at ? record.len : len - at;
		if (read_message_header(bytes + at, visible, &header_have, &message_len) !=
		    PARSED_OK)
			return PARSED_BAD;
		have += record.len;
		if (header_have == MESSAGE_HEADER_LEN && have > message_len)
			return PARSED_BAD; /* something follows the hello in its own record */
		if (visible < record.len)
			return PARSED_MORE;
		at += record.len;
		if (header_have == MESSAGE_HEADER_LEN && have == message_len) {
			layout->len = at;
			layout->message_len = message_len;
			return PARSED_OK;
		}
	}
	return PARSED_BAD;
}

static enum parsed malformed(enum tls_hello_fault *out_fault)
{
	*out_fault = TLS_HELLO_MALFORMED;
	return PARSED_BAD;
}

/* Read the hello that starts at `start`. What is not complete within TLS_HELLO_MAX bytes of the
 * stream never will be. */
static enum parsed read_hello_at(const uint8_t *bytes, size_t len, size_t start,
				 struct tls_hello *out_hello, enum tls_hello_fault *out_fault)
{
	struct layout layout = { .start = start };
	struct tls_hello hello = { 0 };
	struct message m;
	enum parsed r;

	if (len == 0)
		return PARSED_MORE;
	r = lay_out(bytes, len < TLS_HELLO_MAX ? len : TLS_HELLO_MAX, &layout);
	if (r == PARSED_MORE && len < TLS_HELLO_MAX)
		return PARSED_MORE;
	if (r != PARSED_OK)
		return malformed(out_fault);
	m = (struct message){ .at = bytes + start, .left = layout.message_len };
	take(&m, MESSAGE_HEADER_LEN, NULL);
	if (!read_client_hello(&m, &hello))
		return malformed(out_fault);
	hello.len = layout.len;
	*out_hello = hello;
	return PARSED_OK;
}

enum parsed tls_hello_read(const uint8_t *bytes, size_t len, struct tls_hello *out_hello,
			   enum tls_hello_fault *out_fault)
{
	if (len > 0 && bytes[0] != RECORD_HANDSHAKE) {
		*out_fault = TLS_HELLO_NOT_TLS;
		return PARSED_BAD;
	}
	return read_hello_at(bytes, len, 0, out_hello, out_fault);
}

enum parsed tls_hello_read_second(const uint8_t *bytes, size_t len, struct tls_hello *out_hello,
				  enum tls_hello_fault *out_fault)
{
	size_t visible = len < TLS_HELLO_MAX ? len : TLS_HELLO_MAX;
	size_t at = 0;
	bool seen_change = false;

	while (at < visible && bytes[at] != RECORD_HANDSHAKE) {
		struct record record = { 0 };
		enum parsed r = read_record_header(bytes + at, visible - at, RECORD_CIPHERTEXT_MAX,
						   &record);

		if (bytes[at] == RECORD_CHANGE_CIPHER_SPEC) {
			/* One of them, in compatibility mode (section 5 and appendix D.4): a single
			 * byte 01. */
			if (seen_change || (r == PARSED_OK && record.len != 1))
				return malformed(out_fault);
			if (r == PARSED_OK && visible - at > RECORD_HEADER_LEN &&
			    bytes[at + RECORD_HEADER_LEN] != 0x01)
				return malformed(out_fault);
			seen_change = true;
		} else if (bytes[at] != RECORD_APPLICATION_DATA) {
			return malformed(out_fault);
		}
		if (r == PARSED_BAD)
			return malformed(out_fault);
		if (r == PARSED_MORE || record.len > visible - at - RECORD_HEADER_LEN)
			return len < TLS_HELLO_MAX ? PARSED_MORE : malformed(out_fault);
		at += RECORD_HEADER_LEN + record.len;
	}
	return read_hello_at(bytes, len, at, out_hello, out_fault);
}

/* --- the server's side --- */

/* The random that says "ask again": SHA-256 of "HelloRetryRequest" (section 4.1.3). */
static const uint8_t retry_random[RANDOM_LEN] = {
	0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c,
	0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb,
	0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
};

/* Gather the start of a ServerHello across records; OTHER by returning BAD. */
static enum parsed gather_answer(const uint8_t *bytes, size_t len, uint8_t *head, size_t want)
{
	size_t at = 0, have = 0;

	/* A client drops change_cipher_spec records wherever they come (section 5), so an answer
	 * may stand behind them. */
	for (unsigned i = 0; i < SKIPPED_MAX && at < len && bytes[at] == RECORD_CHANGE_CIPHER_SPEC;
	     i++) {
		struct record record = { 0 };
		enum parsed r = read_record_header(bytes + at, len - at, 1, &record);

		if (r != PARSED_OK)
			return r;
		at += RECORD_HEADER_LEN + 1;
	}
	while (have < want) {
		struct record record = { 0 };
		size_t step;
		enum parsed r;

		if (at >= len)
			return PARSED_MORE;
		if (bytes[at] != RECORD_HANDSHAKE)
			return PARSED_BAD;
		r = read_record_header(bytes + at, len - at, RECORD_MAX, &record);
		if (r != PARSED_OK)
			return r;
		at += RECORD_HEADER_LEN;
		step = record.len < want - have ? record.len : want - have;
		if (step > len - at)
			step = len - at;
		memcpy(head + have, bytes + at, step);
		have += step;
		if (have > 0 && head[0] != MESSAGE_SERVER_HELLO)
			return PARSED_BAD;
		at += record.len;
	}
	return PARSED_OK;
}

enum parsed tls_hello_read_answer(const uint8_t *bytes, size_t len,
				  enum tls_first_answer *out_answer)
{
	uint8_t head[MESSAGE_HEADER_LEN + 2 + RANDOM_LEN];

	switch (gather_answer(bytes, len, head, sizeof(head))) {
	case PARSED_MORE:
		return PARSED_MORE;
	case PARSED_BAD:
		*out_answer = TLS_ANSWER_OTHER;
		return PARSED_OK;
	case PARSED_OK:
		break;
	}
	if (memcmp(head + MESSAGE_HEADER_LEN + 2, retry_random, RANDOM_LEN) == 0)
		*out_answer = TLS_ANSWER_RETRY_REQUEST;
	else
		*out_answer = TLS_ANSWER_SERVER_HELLO;
	return PARSED_OK;
}

size_t tls_hello_put_alert(uint8_t description, uint8_t out_bytes[7])
{
	const uint8_t alert[7] = { 21, 0x03, 0x03, 0x00, 0x02, 2 /* fatal */, description };

	memcpy(out_bytes, alert, sizeof(alert));
	return sizeof(alert);
}
