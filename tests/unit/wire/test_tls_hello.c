/* ClientHellos: real ones and built ones, in every cut, and every way in which two readers could
 * disagree about one. */
#include <criterion/criterion.h>

#include "hello_build.h"
#include "hellos_recorded.h"
#include "hex.h"
#include "wire/tls_hello.h"

#define NAME "allowed.test"

static const struct {
	const char *hex;
	bool named;
} recorded[] = {
	{ HELLO_OPENSSL, true }, { HELLO_OPENSSL_TLS12, true }, { HELLO_OPENSSL_NO_NAME, false },
	{ HELLO_GNUTLS, true },	 { HELLO_CURL, true },		{ HELLO_NODE, true },
	{ HELLO_JAVA, true },	 { HELLO_NSS, true },		{ RETRY_FIRST_HELLO, true },
};

static uint8_t flow[800000]; /* what the guest sent */
static uint8_t message[140000];

typedef enum parsed (*read_fn)(const uint8_t *, size_t, struct tls_hello *, enum tls_hello_fault *);

static enum parsed read_exactly(read_fn read, const uint8_t *bytes, size_t len,
				struct tls_hello *out_hello, enum tls_hello_fault *out_fault)
{
	uint8_t *block = exact_copy(bytes, len);
	enum parsed r = read(block, len, out_hello, out_fault);

	free(block);
	return r;
}

/* The whole says `want` of NAME, every shorter part says MORE, and what follows changes nothing. */
static void assert_named_at_the_last_byte(read_fn read, const uint8_t *bytes, size_t len)
{
	struct tls_hello hello, again;
	enum tls_hello_fault fault;
	uint8_t *longer = malloc(len + 300);

	for (size_t n = 0; n < len; n++)
		cr_assert_eq(read_exactly(read, bytes, n, &hello, &fault), PARSED_MORE,
			     "%zu of %zu", n, len);
	cr_assert_eq(read_exactly(read, bytes, len, &hello, &fault), PARSED_OK);
	cr_assert_eq(hello.len, len);
	cr_assert_eq(hello.sni, TLS_HELLO_SNI_NAME);
	cr_assert_str_eq(hello.name.text, NAME);
	cr_assert(hello.offers_tls12);
	memcpy(longer, bytes, len);
	for (unsigned filler = 0; filler < 256; filler += 0x17) {
		memset(longer + len, (int)filler, 300);
		cr_assert_eq(read(longer, len + 300, &again, &fault), PARSED_OK);
		cr_assert_eq(again.len, len);
		cr_assert(dname_equal(&again.name, &hello.name));
	}
	free(longer);
}

static enum parsed read_hex(const char *hex, struct tls_hello *out_hello,
			    enum tls_hello_fault *out_fault)
{
	return read_exactly(tls_hello_read, flow, hex_bytes(hex, flow), out_hello, out_fault);
}

Test(tls_hello, hellos_of_real_clients_are_read_to_their_last_byte)
{
	for (size_t i = 0; i < ARRAY_LEN(recorded); i++) {
		struct tls_hello hello;
		enum tls_hello_fault fault;

		cr_assert_eq(read_hex(recorded[i].hex, &hello, &fault), PARSED_OK, "row %zu", i);
		cr_assert(!hello.has_ech && !hello.offers_early_data && hello.offers_tls12);
		if (recorded[i].named)
			assert_named_at_the_last_byte(tls_hello_read, flow, hello.len);
		else
			cr_assert_eq(hello.sni, TLS_HELLO_SNI_ABSENT);
	}
}

Test(tls_hello, a_browser_hello_with_grease_and_a_long_key_share_is_read)
{
	struct tls_hello hello;
	enum tls_hello_fault fault;
	size_t len = hello_build_browser("Allowed.Test", flow);

	cr_assert_gt(len, 1500);
	assert_named_at_the_last_byte(tls_hello_read, flow, len);
	cr_assert_eq(tls_hello_read(flow, len, &hello, &fault), PARSED_OK);
	cr_assert(hello.has_ech);
}

Test(tls_hello, records_may_cut_a_hello_anywhere)
{
	for (size_t i = 0; i < ARRAY_LEN(recorded); i++) {
		uint8_t whole[600], cut[800];
		size_t len = hex_bytes(recorded[i].hex, whole) - 5;
		struct tls_hello one, two;
		enum tls_hello_fault fault;

		cr_assert_eq(tls_hello_read(whole, len + 5, &one, &fault), PARSED_OK);
		for (size_t first = 1; first < len; first++) {
			size_t n = hello_build_records(whole + 5, first, first, cut);

			n += hello_build_records(whole + 5 + first, len - first, len - first,
						 cut + n);
			cr_assert_eq(read_exactly(tls_hello_read, cut, n, &two, &fault), PARSED_OK);
			cr_assert_eq(two.len, n);
			cr_assert_eq(two.sni, one.sni);
			cr_assert(one.sni != TLS_HELLO_SNI_NAME ||
				  dname_equal(&two.name, &one.name));
		}
	}
}

Test(tls_hello, records_of_every_size_down_to_one_byte_are_read)
{
	size_t len = hello_build_browser(NAME, message);
	struct tls_hello hello;
	enum tls_hello_fault fault;

	for (size_t fragment = 1; fragment < 60; fragment++) {
		size_t n = hello_build_records(message + 5, len - 5, fragment, flow);

		cr_assert_eq(read_exactly(tls_hello_read, flow, n, &hello, &fault), PARSED_OK);
		cr_assert_eq(hello.len, n);
		cr_assert_str_eq(hello.name.text, NAME);
	}
	len = hex_bytes(HELLO_OPENSSL, message);
	len = hello_build_records(message + 5, len - 5, 1, flow);
	assert_named_at_the_last_byte(tls_hello_read, flow, len);
}

/* The rows below are edits of this hello. */
#define HEAD(record_len, message_len)                                                              \
	"160301" record_len "01" message_len "0303000102030405060708090a0b0c0d0e0f"                \
	"101112131415161718191a1b1c1d1e1f00"                                                       \
	"00041301c02f0100"
#define REST                                                                                       \
	"002b0003020304000a00040002001d000d0008"                                                   \
	"0006040308040401003300260024001d002020"                                                   \
	"2122232425262728292a2b2c2d2e2f30313233"                                                   \
	"3435363738393a3b3c3d3e3f"
#define ALLOWED "00000c616c6c6f7765642e74657374"
#define EVIL "0000096576696c2e74657374"

struct row {
	const char *what;
	const char *hex;
	enum parsed parsed;
	enum tls_hello_sni sni;
	const char *name;
};

static const struct row rows[] = {
	{ "the reference (C171)", HEAD("008b", "000087") "005a00000011000f" ALLOWED REST, PARSED_OK,
	  TLS_HELLO_SNI_NAME, NAME },
	{ "another name (C172)", HEAD("0088", "000084") "00570000000e000c" EVIL REST, PARSED_OK,
	  TLS_HELLO_SNI_NAME, "evil.test" },
	{ "a final dot (C177)",
	  HEAD("008c", "000088") "005b00000012001000000d616c6c6f7765642e746573742e" REST, PARSED_OK,
	  TLS_HELLO_SNI_INVALID, NULL },
	{ "NUL inside (C179)",
	  HEAD("0096", "000092") "00650000001c001a000017616c6c6f7765642e74657374002e6576696c2e74657"
				 "374" REST,
	  PARSED_OK, TLS_HELLO_SNI_INVALID, NULL },
	{ "two names (C180)", HEAD("0097", "000093") "00660000001d001b" ALLOWED EVIL REST,
	  PARSED_BAD, 0, NULL },
	{ "the extension twice (C181)",
	  HEAD("009d", "000099") "006c00000011000f" ALLOWED "0000000e000c" EVIL REST, PARSED_BAD, 0,
	  NULL },
	{ "another name type first (C182)",
	  HEAD("0097", "000093") "00660000001d001b0700096576696c2e74657374" ALLOWED REST,
	  PARSED_BAD, 0, NULL },
	{ "another name type alone",
	  HEAD("008b", "000087") "005a00000011000f01000c616c6c6f7765642e74657374" REST, PARSED_BAD,
	  0, NULL },
	{ "a list longer than the extension (C183)",
	  HEAD("008b", "000087") "005a00000011ffff" ALLOWED REST, PARSED_BAD, 0, NULL },
	{ "a list shorter than the extension",
	  HEAD("008b", "000087") "005a00000011000e" ALLOWED REST, PARSED_BAD, 0, NULL },
	{ "a name longer than the list",
	  HEAD("008b", "000087") "005a00000011000f00000d616c6c6f7765642e74657374" REST, PARSED_BAD,
	  0, NULL },
	{ "a name shorter than the list",
	  HEAD("008b", "000087") "005a00000011000f00000b616c6c6f7765642e74657374" REST, PARSED_BAD,
	  0, NULL },
	{ "bytes behind an empty block (C185)", HEAD("0046", "00002d") "000000000011000f" ALLOWED,
	  PARSED_BAD, 0, NULL },
	{ "the same inside the message", HEAD("0046", "000042") "000000000011000f" ALLOWED,
	  PARSED_BAD, 0, NULL },
	{ "an empty name (C186)", HEAD("007f", "00007b") "004e000000050003000000" REST, PARSED_BAD,
	  0, NULL },
	{ "an empty extension", HEAD("007a", "000076") "004900000000" REST, PARSED_BAD, 0, NULL },
	{ "an empty list", HEAD("007c", "000078") "004b000000020000" REST, PARSED_BAD, 0, NULL },
	{ "an address (contract section 1)",
	  HEAD("0088", "000084") "00570000000e000c0000093132372e302e302e31" REST, PARSED_OK,
	  TLS_HELLO_SNI_INVALID, NULL },
	{ "no name", HEAD("0076", "000072") "0045" REST, PARSED_OK, TLS_HELLO_SNI_ABSENT, NULL },
	{ "no extension block", HEAD("002f", "00002b"), PARSED_OK, TLS_HELLO_SNI_ABSENT, NULL },
	{ "another record between (C190)",
	  "1603010028010000870303000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f00"
	  "00"
	  "140301000101"
	  "16030100630413"
	  "01c02f0100005a00000011000f" ALLOWED REST,
	  PARSED_BAD, 0, NULL },
	{ "GREASE (C198)",
	  HEAD("0094", "000090") "0063aaaa000000000011000f" ALLOWED REST "7a7a000100", PARSED_OK,
	  TLS_HELLO_SNI_NAME, NAME },
};

Test(tls_hello, a_hello_that_two_readers_could_read_differently_is_bad)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct tls_hello hello;
		enum tls_hello_fault fault = TLS_HELLO_NOT_TLS;

		cr_assert_eq(read_hex(rows[i].hex, &hello, &fault), rows[i].parsed, "%s",
			     rows[i].what);
		if (rows[i].parsed == PARSED_BAD) {
			cr_assert_eq(fault, TLS_HELLO_MALFORMED, "%s", rows[i].what);
			continue;
		}
		cr_assert_eq(hello.sni, rows[i].sni, "%s", rows[i].what);
		if (rows[i].name != NULL)
			cr_assert_str_eq(hello.name.text, rows[i].name);
	}
}

Test(tls_hello, once_bad_or_read_it_stays_so_however_much_follows)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t len = hex_bytes(rows[i].hex, flow);
		enum parsed before = PARSED_MORE;

		for (size_t n = 0; n <= len; n++) {
			struct tls_hello hello;
			enum tls_hello_fault fault;
			enum parsed now = read_exactly(tls_hello_read, flow, n, &hello, &fault);

			cr_assert(before == PARSED_MORE || now == before, "%s at %zu", rows[i].what,
				  n);
			before = now;
		}
		cr_assert_eq(before, rows[i].parsed);
	}
}

Test(tls_hello, only_a_handshake_record_starts_tls)
{
	size_t len = hex_bytes(HELLO_OPENSSL, flow);
	struct tls_hello hello;
	enum tls_hello_fault fault;

	cr_assert_eq(tls_hello_read(NULL, 0, &hello, &fault), PARSED_MORE);
	for (unsigned first = 0; first < 256; first++) {
		flow[0] = (uint8_t)first;
		if (first == 22)
			continue;
		for (size_t n = 1; n <= len; n += len - 1) {
			fault = TLS_HELLO_MALFORMED;
			cr_assert_eq(tls_hello_read(flow, n, &hello, &fault), PARSED_BAD);
			cr_assert_eq(fault, TLS_HELLO_NOT_TLS);
		}
	}
}

Test(tls_hello, record_and_message_headers_are_judged_as_soon_as_they_are_there)
{
	static const struct {
		const char *hex;
		enum parsed parsed;
	} heads[] = {
		{ "16 02", PARSED_BAD },
		{ "16 04", PARSED_BAD },
		{ "16 03", PARSED_MORE },
		{ "16 03 00", PARSED_MORE },
		{ "16 03 ff 01 00", PARSED_MORE },
		{ "16 03 01 00 00", PARSED_BAD },
		{ "16 03 01 40 00", PARSED_MORE },
		{ "16 03 01 40 01", PARSED_BAD },
		{ "16 03 01 01 00 02", PARSED_BAD },
		{ "16 03 01 01 00 00", PARSED_BAD },
		{ "16 03 01 00 05 01 00 00 00", PARSED_BAD },
		{ "16 03 01 00 04 01 00 ff fd", PARSED_BAD },
		{ "16 03 01 00 04 01 00 ff fc", PARSED_MORE },
		{ "16 03 01 00 04 01 00 00 00", PARSED_BAD },
		{ "16 03 01 00 04 01 00 00 30 16 03 01 00 00", PARSED_BAD },
		{ "16 03 01 00 04 01 00 00 30 16 03 01 00 31", PARSED_BAD },
		{ "16 03 01 00 04 01 00 00 30 16 03 01 00 30", PARSED_MORE },
		{ "16 03 01 00 04 01 00 00 30 17", PARSED_BAD },
		{ "16 03 01 00 04 01 00 00 30 15", PARSED_BAD },
	};

	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		struct tls_hello hello;
		enum tls_hello_fault fault = TLS_HELLO_NOT_TLS;

		cr_assert_eq(read_hex(heads[i].hex, &hello, &fault), heads[i].parsed, "%s",
			     heads[i].hex);
		cr_assert(heads[i].parsed == PARSED_MORE || fault == TLS_HELLO_MALFORMED);
	}
}

/* Build, read, and check the result at the last byte and at every cut before it. */
static enum parsed read_built(const struct hello_build *b, struct tls_hello *out_hello)
{
	enum tls_hello_fault fault;
	size_t len = hello_build_message(b, message);

	len = hello_build_records(message, len, 16384, flow);
	return tls_hello_read(flow, len, out_hello, &fault);
}

Test(tls_hello, every_field_has_the_size_that_the_protocol_gives_it)
{
	static const struct {
		uint16_t version;
		uint8_t session_len;
		uint16_t suites_len;
		uint8_t methods_len;
		int block_lie, message_lie;
		enum parsed parsed;
	} sizes[] = {
		{ 0x0303, 0, 2, 1, 0, 0, PARSED_OK },	{ 0x0303, 32, 2, 1, 0, 0, PARSED_OK },
		{ 0x0303, 33, 2, 1, 0, 0, PARSED_BAD }, { 0x0303, 0, 0, 1, 0, 0, PARSED_BAD },
		{ 0x0303, 0, 3, 1, 0, 0, PARSED_BAD },	{ 0x0303, 0, 200, 1, 0, 0, PARSED_OK },
		{ 0x0303, 0, 2, 0, 0, 0, PARSED_BAD },	{ 0x0303, 0, 2, 255, 0, 0, PARSED_OK },
		{ 0x0203, 0, 2, 1, 0, 0, PARSED_BAD },	{ 0x0403, 0, 2, 1, 0, 0, PARSED_BAD },
		{ 0x0303, 0, 2, 1, 1, 0, PARSED_BAD },	{ 0x0303, 0, 2, 1, -1, 0, PARSED_BAD },
		{ 0x0303, 0, 2, 1, 0, -1, PARSED_BAD }, { 0x0303, 0, 2, 1, -1, -1, PARSED_BAD },
		{ 0x0303, 0, 2, 1, 0, 1, PARSED_MORE },
	};
	static struct hello_build b;

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct tls_hello hello;

		hello_build_init(&b);
		b.version = sizes[i].version;
		b.session_len = sizes[i].session_len;
		b.suites_len = sizes[i].suites_len;
		b.methods_len = sizes[i].methods_len;
		b.block_lie = sizes[i].block_lie;
		b.message_lie = sizes[i].message_lie;
		hello_build_name(&b, NAME, strlen(NAME));
		hello_build_extension(&b, 16, "\0\3\2h2", 5);
		cr_assert_eq(read_built(&b, &hello), sizes[i].parsed, "row %zu", i);
	}
}

Test(tls_hello, the_best_version_offered_counts)
{
	static const struct {
		uint16_t legacy;
		const char *list; /* supported_versions with its length byte; NULL: none */
		size_t len;
		enum parsed parsed;
		bool tls12;
	} versions[] = {
		{ 0x0300, NULL, 0, PARSED_OK, false },
		{ 0x0301, NULL, 0, PARSED_OK, false },
		{ 0x0302, NULL, 0, PARSED_OK, false },
		{ 0x0303, NULL, 0, PARSED_OK, true },
		{ 0x0304, NULL, 0, PARSED_OK, true },
		{ 0x0301, "\2\3\4", 3, PARSED_OK, true },
		{ 0x0303, "\2\3\3", 3, PARSED_OK, true },
		{ 0x0303, "\4\3\2\3\1", 5, PARSED_OK, false },
		{ 0x0303, "\4\x0a\x0a\x7f\x1c", 5, PARSED_OK, false },
		{ 0x0303, "\6\xca\xca\3\1\3\4", 7, PARSED_OK, true },
		{ 0x0303, "\2\3\5", 3, PARSED_OK, false },
		{ 0x0303, "\0", 1, PARSED_BAD, false },
		{ 0x0303, "\3\3\4\3", 4, PARSED_BAD, false },
		{ 0x0303, "\4\3\4", 3, PARSED_BAD, false },
		{ 0x0303, "\2\3\4\3\3", 5, PARSED_BAD, false },
		{ 0x0303, "", 0, PARSED_BAD, false },
	};
	static struct hello_build b;

	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		struct tls_hello hello;

		hello_build_init(&b);
		b.version = versions[i].legacy;
		if (versions[i].list != NULL)
			hello_build_extension(&b, 43, versions[i].list, versions[i].len);
		cr_assert_eq(read_built(&b, &hello), versions[i].parsed, "row %zu", i);
		if (versions[i].parsed == PARSED_OK)
			cr_assert_eq(hello.offers_tls12, versions[i].tls12, "row %zu", i);
	}
}

Test(tls_hello, names_are_canonical_or_invalid)
{
	static char longest[300], too_long[300], label64[80];
	static const struct {
		const char *name;
		const char *canonical; /* NULL: invalid */
	} names[] = {
		{ "A.Test", "a.test" },
		{ "xn--bcher-kva.test", "xn--bcher-kva.test" },
		{ "a_b.test", "a_b.test" },
		{ "localhost", "localhost" },
		{ "a..test", NULL },
		{ ".test", NULL },
		{ ".", NULL },
		{ "a b.test", NULL },
		{ "[::1]", NULL },
		{ "a.test:443", NULL },
		{ "b\xc3\xbc.test", NULL },
		{ "*.test", NULL },
		{ "0x7f.1", NULL },
		{ "2130706433", NULL },
		{ "a.test.", NULL },
		{ "a/b", NULL },
		{ longest, longest },
		{ too_long, NULL },
		{ label64, NULL },
	};
	static struct hello_build b;

	memset(longest, 'a', 253);
	longest[60] = longest[120] = longest[180] = longest[240] = '.';
	memcpy(too_long, longest, 253);
	too_long[253] = 'a';
	memset(label64, 'a', 64);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct tls_hello hello;

		hello_build_init(&b);
		hello_build_name(&b, names[i].name, strlen(names[i].name));
		cr_assert_eq(read_built(&b, &hello), PARSED_OK, "%s", names[i].name);
		cr_assert_eq(hello.sni,
			     names[i].canonical ? TLS_HELLO_SNI_NAME : TLS_HELLO_SNI_INVALID);
		if (names[i].canonical != NULL)
			cr_assert_str_eq(hello.name.text, names[i].canonical);
	}
}

Test(tls_hello, early_data_and_ech_are_noted_and_early_data_holds_nothing)
{
	static struct hello_build b;
	struct tls_hello hello;

	hello_build_init(&b);
	hello_build_extension(&b, 42, NULL, 0);
	cr_assert_eq(read_built(&b, &hello), PARSED_OK);
	cr_assert(hello.offers_early_data && !hello.has_ech);
	hello_build_init(&b);
	hello_build_extension(&b, 42, "x", 1);
	cr_assert_eq(read_built(&b, &hello), PARSED_BAD);
	hello_build_init(&b);
	hello_build_extension(&b, 0xfe0d, "\1", 1);
	cr_assert_eq(read_built(&b, &hello), PARSED_OK);
	cr_assert(hello.has_ech && !hello.offers_early_data);
}

Test(tls_hello, no_extension_may_come_twice)
{
	static const uint16_t types[] = { 0xff01, 0x0a0a, 35, 51, 0xffff };
	static struct hello_build b;

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		struct tls_hello hello;

		hello_build_init(&b);
		hello_build_extension(&b, types[i], "ab", 2);
		hello_build_extension(&b, (uint16_t)(types[i] ^ 1), "ab", 2);
		cr_assert_eq(read_built(&b, &hello), PARSED_OK);
		hello_build_extension(&b, types[i], "ab", 2);
		cr_assert_eq(read_built(&b, &hello), PARSED_BAD);
	}
}

Test(tls_hello, what_does_not_fit_into_the_limit_is_bad_and_never_waits)
{
	static struct hello_build b;
	static uint8_t padding[65536];
	struct tls_hello hello;
	enum tls_hello_fault fault;
	size_t len;

	/* Record headers 20 bytes, message header 4, body 43, extension header 4. */
	for (int over = 0; over <= 1; over++) {
		hello_build_init(&b);
		b.session_len = 0;
		b.suites_len = 2;
		hello_build_extension(&b, 21, padding,
				      TLS_HELLO_MAX - 20 - 4 - 43 - 4 + (size_t)over);
		len = hello_build_message(&b, message);
		len = hello_build_records(message, len, 16384, flow);
		cr_assert_eq(len, TLS_HELLO_MAX + (size_t)over);
		cr_assert_eq(tls_hello_read(flow, len - 1, &hello, &fault),
			     over ? PARSED_BAD : PARSED_MORE);
		cr_assert_eq(tls_hello_read(flow, len, &hello, &fault),
			     over ? PARSED_BAD : PARSED_OK);
		if (over)
			cr_assert_eq(fault, TLS_HELLO_MALFORMED);
	}
}

Test(tls_hello, too_many_tiny_records_are_bad)
{
	static struct hello_build b;
	static uint8_t padding[8192];
	struct tls_hello hello;
	enum tls_hello_fault fault;

	for (size_t over = 0; over <= 1; over++) {
		size_t len;

		/* message header 4, body 43 with an empty session, one suite and one method */
		hello_build_init(&b);
		b.session_len = 0;
		b.suites_len = 2;
		hello_build_extension(&b, 21, padding, 4096 - 47 - 4 + over);
		len = hello_build_message(&b, message);
		cr_assert_eq(len, 4096 + over);
		len = hello_build_records(message, len, 1, flow);
		cr_assert_eq(tls_hello_read(flow, len, &hello, &fault),
			     over ? PARSED_BAD : PARSED_OK);
	}
}

Test(tls_hello, one_changed_byte_never_changes_the_name_unseen)
{
	size_t len = hex_bytes(rows[0].hex, flow);

	for (size_t at = 0; at < len; at++) {
		for (unsigned v = 0; v < 256; v++) {
			uint8_t *block = exact_copy(flow, len);
			struct tls_hello hello;
			enum tls_hello_fault fault;
			enum parsed r;

			block[at] = (uint8_t)v;
			r = tls_hello_read(block, len, &hello, &fault);
			if (r == PARSED_OK && hello.sni == TLS_HELLO_SNI_NAME) {
				const uint8_t *name = block + len - strlen(REST) / 2 - strlen(NAME);

				cr_assert_eq(hello.len, len);
				for (size_t i = 0; i < strlen(NAME); i++)
					cr_assert_eq(hello.name.text[i], text_lower((char)name[i]));
			}
			free(block);
		}
	}
}

Test(tls_hello, the_second_hello_is_found_behind_what_may_precede_it)
{
	static const char ccs[] = "140303000101", early[] = "170303000568656c6c6f";
	size_t len = hex_bytes(RETRY_SECOND_FLIGHT, flow), hello_len = len - 6, n;
	uint8_t hello_bytes[600];

	memcpy(hello_bytes, flow + 6, hello_len);
	assert_named_at_the_last_byte(tls_hello_read_second, flow, len);
	assert_named_at_the_last_byte(tls_hello_read_second, hello_bytes, hello_len);
	n = hex_bytes(early, flow);
	n += hex_bytes(ccs, flow + n);
	n += hex_bytes(early, flow + n);
	n += hex_bytes(early, flow + n);
	memcpy(flow + n, hello_bytes, hello_len);
	assert_named_at_the_last_byte(tls_hello_read_second, flow, n + hello_len);
}

Test(tls_hello, nothing_else_may_precede_the_second_hello)
{
	static const char *const bad[] = {
		"140303000101 140303000101",
		"140303000102",
		"14030300020101",
		"1403030000",
		"140203",
		"1503030002022f",
		"180303000101",
		"1703030000",
		"1703034101",
		"474554202f",
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		size_t n = hex_bytes(bad[i], flow);
		struct tls_hello hello;
		enum tls_hello_fault fault = TLS_HELLO_NOT_TLS;

		memset(flow + n, 0, 40000);
		hex_bytes(HELLO_OPENSSL, flow + n);
		cr_assert_eq(read_exactly(tls_hello_read_second, flow, n, &hello, &fault),
			     PARSED_BAD, "%s", bad[i]);
		cr_assert_eq(fault, TLS_HELLO_MALFORMED);
		cr_assert_eq(tls_hello_read_second(flow, n + 400, &hello, &fault), PARSED_BAD);
	}
}

Test(tls_hello, early_data_counts_towards_the_limit)
{
	struct tls_hello hello;
	enum tls_hello_fault fault;
	size_t n = 0;

	while (n < TLS_HELLO_MAX) {
		n += hex_bytes("1703034000", flow + n);
		memset(flow + n, 0, 0x4000);
		n += 0x4000;
	}
	cr_assert_eq(tls_hello_read_second(flow, TLS_HELLO_MAX - 1, &hello, &fault), PARSED_MORE);
	cr_assert_eq(tls_hello_read_second(flow, TLS_HELLO_MAX, &hello, &fault), PARSED_BAD);
	cr_assert_eq(tls_hello_read_second(flow, n, &hello, &fault), PARSED_BAD);
}

Test(tls_hello, the_largest_encrypted_record_is_early_data)
{
	struct tls_hello hello;
	enum tls_hello_fault fault;
	size_t n = hex_bytes("1703034100", flow);

	n += 0x4100;
	n += hex_bytes(HELLO_NSS, flow + n);
	cr_assert_eq(tls_hello_read_second(flow, n, &hello, &fault), PARSED_OK);
	cr_assert_eq(hello.len, n);
}

Test(tls_hello, a_retry_request_is_told_from_a_server_hello)
{
	static const struct {
		const char *hex;
		size_t decided_at;
		enum tls_first_answer answer;
	} answers[] = {
		{ RETRY_REQUEST, 43, TLS_ANSWER_RETRY_REQUEST },
		{ RETRY_SERVER_FLIGHT, 43, TLS_ANSWER_SERVER_HELLO },
		{ "140303000101" RETRY_REQUEST, 49, TLS_ANSWER_RETRY_REQUEST },
		{ "15030300020228", 1, TLS_ANSWER_OTHER },
		{ "5353482d322e302d78", 1, TLS_ANSWER_OTHER },
		{ "16030300040b000000", 6, TLS_ANSWER_OTHER },
		{ "1603030000", 5, TLS_ANSWER_OTHER },
		{ "160203", 2, TLS_ANSWER_OTHER },
		{ "140303000201", 5, TLS_ANSWER_OTHER },
		{ "140303000101 140303000101 140303000101 140303000101 140303000101", 25,
		  TLS_ANSWER_OTHER },
	};

	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		size_t len = hex_bytes(answers[i].hex, flow);

		for (size_t n = 0; n <= len; n++) {
			uint8_t *block = exact_copy(flow, n);
			enum tls_first_answer answer = TLS_ANSWER_OTHER;
			enum parsed r = tls_hello_read_answer(block, n, &answer);

			cr_assert_eq(r, n < answers[i].decided_at ? PARSED_MORE : PARSED_OK,
				     "row %zu, %zu", i, n);
			if (r == PARSED_OK)
				cr_assert_eq(answer, answers[i].answer);
			free(block);
		}
	}
}

Test(tls_hello, a_retry_request_is_seen_across_records)
{
	size_t len = hex_bytes(RETRY_REQUEST, message) - 5 - 6;
	enum tls_first_answer answer;

	for (size_t fragment = 1; fragment <= len; fragment++) {
		size_t n = hello_build_records(message + 5, len, fragment, flow);

		cr_assert_eq(tls_hello_read_answer(flow, n, &answer), PARSED_OK);
		cr_assert_eq(answer, TLS_ANSWER_RETRY_REQUEST);
	}
	for (size_t at = 11; at < 43; at++) {
		message[at] ^= 1;
		cr_assert_eq(tls_hello_read_answer(message, len + 5, &answer), PARSED_OK);
		cr_assert_eq(answer, TLS_ANSWER_SERVER_HELLO);
		message[at] ^= 1;
	}
}

Test(tls_hello, alerts_are_fatal_and_seven_bytes)
{
	static const uint8_t want[7] = { 21, 3, 3, 0, 2, 2, 112 };
	uint8_t alert[7];

	cr_assert_eq(tls_hello_put_alert(TLS_ALERT_UNRECOGNIZED_NAME, alert), 7);
	cr_assert_eq(memcmp(alert, want, 7), 0);
}
