/*
 * Names, addresses, prefixes, endpoints, times, hex and base64url from hostile text. What is accepted must survive a round
 * trip: its printed form is accepted again and means the same. What is escaped is printable and keeps to its space.
 */
#include <stdint.h>
#include <string.h>

#include "base/addr.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/dname.h"
#include "require.h"

static void check_dname(struct text t)
{
	struct dname name, again;
	uint8_t wire[255];
	struct text rest;
	unsigned labels = 0;

	if (dname_parse(t, DNAME_FINAL_DOT_DROP, &name) != DNAME_OK)
		return;
	REQUIRE(name.len > 0 && name.len <= DNAME_MAX && strlen(name.text) == name.len);
	REQUIRE(name.len + 1u >= t.len);
	REQUIRE(dname_parse(text_of(name.text), DNAME_FINAL_DOT_REFUSE, &again) == DNAME_OK);
	REQUIRE(dname_equal(&name, &again) && name.label_count == again.label_count);
	REQUIRE(dname_to_wire(&name, wire) == name.len + 2u);
	for (rest = text_of(name.text); rest.len > 0; rest = dname_parent(rest)) {
		REQUIRE(dname_is_within(&name, rest));
		labels++;
	}
	REQUIRE(labels == name.label_count);
}

static void check_addr(struct text t)
{
	struct addr a, a2;
	struct prefix p, p2;
	struct endpoint e, e2;
	char text[ENDPOINT_TEXT_MAX];

	if (addr_parse(t, &a)) {
		REQUIRE(addr_parse(text_of(addr_print(&a, text)), &a2) && addr_equal(&a, &a2));
		REQUIRE(prefix_parse(t, &p) && prefix_contains(&p, &a));
	}
	if (prefix_parse(t, &p)) {
		REQUIRE(prefix_parse(text_of(prefix_print(&p, text)), &p2) && p.len == p2.len);
		REQUIRE(addr_equal(&p.addr, &p2.addr) && prefix_contains(&p, &p.addr));
	}
	if (endpoint_parse(t, 0, &e)) {
		REQUIRE(e.port != 0 && endpoint_parse(text_of(endpoint_print(&e, text)), 0, &e2));
		REQUIRE(endpoint_equal(&e, &e2));
	}
}

static void check_clock(struct text t)
{
	uint64_t ms, again;
	char text[25];

	if (!clock_parse_wall(t, &ms))
		return;
	clock_print_wall(ms, text);
	REQUIRE(clock_parse_wall(text_of(text), &again) && again == ms);
	REQUIRE(memcmp(text, t.at, 19) == 0);
}

/* One spelling per value: what decodes is exactly what encoding gives back. */
static void check_digits(struct text t)
{
	uint8_t bytes[192];
	char text[2 * sizeof(bytes) + 1];
	size_t len = t.len / 2;

	if (len <= sizeof(bytes) && text_to_bytes_hex(t, bytes, len)) {
		text_from_bytes_hex(bytes, len, text);
		REQUIRE(text_is(t, text));
	}
	len = t.len * 3 / 4;
	if (len <= sizeof(bytes) && crypto_base64url_decode(t.at, t.len, bytes, len)) {
		crypto_base64url(bytes, len, text, sizeof(text));
		REQUIRE(text_is(t, text));
	}
}

static void check_escape(struct text t)
{
	char text[64];
	size_t cap = t.len > 0 ? (uint8_t)t.at[0] % sizeof(text) + 1 : 1;
	size_t len = text_escape(t, text, cap);

	REQUIRE(len < cap && strlen(text) == len);
	for (size_t i = 0; i < len; i++)
		REQUIRE(text[i] >= 0x20 && text[i] <= 0x7e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text t = { (const char *)data, size };

	check_dname(t);
	check_addr(t);
	check_clock(t);
	check_digits(t);
	check_escape(t);
	return 0;
}
