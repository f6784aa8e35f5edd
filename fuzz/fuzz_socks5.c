/*
 * SOCKS5 messages. The first byte picks the message, the second a cut. A message that was taken is
 * the same whatever follows, no shorter part of it is taken, and what is BAD stays BAD.
 */
#include "require.h"
#include "wire/socks5.h"

struct outcome {
	enum parsed parsed;
	enum socks5_fault fault;
	size_t taken;
	struct socks5_greeting greeting;
	struct socks5_credentials credentials;
	struct socks5_request request;
};

static struct outcome take(unsigned message, const uint8_t *bytes, size_t len)
{
	struct outcome o = { .fault = SOCKS5_FAULT_NONE };
	struct cursor in = cursor_over(bytes, len);

	if (message == 0)
		o.parsed = socks5_take_greeting(&in, &o.greeting, &o.fault);
	else if (message == 1)
		o.parsed = socks5_take_credentials(&in, &o.credentials, &o.fault);
	else
		o.parsed = socks5_take_request(&in, &o.request, &o.fault);
	o.taken = len - cursor_left(&in);
	REQUIRE((o.parsed == PARSED_OK) == (o.taken > 0));
	REQUIRE((o.parsed == PARSED_BAD) == (o.fault != SOCKS5_FAULT_NONE));
	return o;
}

static void check_content(unsigned message, const struct outcome *o, const uint8_t *bytes)
{
	if (message == 0)
		REQUIRE(o->taken == 2u + o->greeting.method_count);
	if (message == 1)
		REQUIRE(o->taken == 3 + o->credentials.user.len + o->credentials.password.len);
	if (message != 2)
		return;
	REQUIRE(o->request.port == (bytes[o->taken - 2] << 8 | bytes[o->taken - 1]));
	if (o->request.host == SOCKS5_HOST_NAME)
		REQUIRE(o->taken == 7 + o->request.name.len && o->request.addr.family == ADDR_NONE);
	else
		REQUIRE(o->taken == 6 + addr_len(&o->request.addr) && o->request.name.len == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outcome whole, part;
	uint8_t *block;
	unsigned message;
	size_t cut;

	if (size < 2)
		return 0;
	message = data[0] % 3;
	whole = take(message, data + 2, size - 2);
	cut = cut_at(size - 2, data[1]);
	block = exact_copy(data + 2, cut);
	part = take(message, block, cut);
	if (part.parsed != PARSED_MORE)
		REQUIRE(part.parsed == whole.parsed && part.taken == whole.taken &&
			part.fault == whole.fault);
	if (whole.parsed == PARSED_OK) {
		check_content(message, &whole, data + 2);
		REQUIRE(take(message, data + 2, whole.taken).parsed == PARSED_OK);
		REQUIRE(take(message, data + 2, whole.taken - 1).parsed == PARSED_MORE);
	}
	socks5_foreign_answer(data + 2, size - 2);
	free(block);
	return 0;
}
