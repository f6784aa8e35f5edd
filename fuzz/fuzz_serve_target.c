/*
 * What a client of a serving sidecar may write: a request target, a Prefer field or an Idempotency-Key, chosen by the first byte. What is taken is
 * of few characters and bounded, says the same when it is written out plainly and read again, and nothing is written where nothing is taken.
 */
#include "require.h"
#include "serve/serve_target.h"

#define CURSOR_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."

static void require_only(const char *text, size_t max, const char *characters)
{
	REQUIRE(strlen(text) <= max && strspn(text, characters) == strlen(text));
}

/* The one spelling of what was understood. */
static void print_plainly(const struct serve_target *t, char *out_text, size_t cap)
{
	switch (t->route) {
	case SERVE_ROUTE_STREAM:
		snprintf(out_text, cap, "/v1/cells/%s/stream%s%s", t->name, t->cursor[0] != '\0' ? "?cursor=" : "", t->cursor);
		return;
	case SERVE_ROUTE_STATUS:
		snprintf(out_text, cap, "/v1/proxies/%s/status", t->name);
		return;
	case SERVE_ROUTE_DECISIONS:
		snprintf(out_text, cap, "/v1/decisions");
		return;
	}
	REQUIRE(false);
}

static void check_target(struct text text)
{
	struct serve_target t, again, untouched;
	char plain[512];

	memset(&t, 0x5a, sizeof(t));
	untouched = t;
	if (serve_target_read(text, &t) != SERVE_TARGET_GOOD) {
		REQUIRE(memcmp(&t, &untouched, sizeof(t)) == 0);
		return;
	}
	REQUIRE(memchr(t.name, '\0', sizeof(t.name)) != NULL && memchr(t.cursor, '\0', sizeof(t.cursor)) != NULL);
	REQUIRE((t.route == SERVE_ROUTE_DECISIONS) == (t.name[0] == '\0'));
	REQUIRE(t.name[0] == '\0' || lease_doc_id_is_valid(text_of(t.name)));
	/* Neither a path nor something that would be decoded once more. */
	REQUIRE(strpbrk(t.name, "/%\\") == NULL && strcmp(t.name, ".") != 0 && strcmp(t.name, "..") != 0);
	require_only(t.cursor, SERVE_CURSOR_MAX, CURSOR_CHARACTERS);
	REQUIRE(t.cursor[0] == '\0' || t.route == SERVE_ROUTE_STREAM);
	print_plainly(&t, plain, sizeof(plain));
	REQUIRE(serve_target_read(text_of(plain), &again) == SERVE_TARGET_GOOD);
	REQUIRE(again.route == t.route && strcmp(again.name, t.name) == 0 && strcmp(again.cursor, t.cursor) == 0);
}

static void check_wait(struct text text)
{
	unsigned wait_s = 12345;

	if (serve_target_wait(text, &wait_s))
		REQUIRE(wait_s <= SERVE_TARGET_WAIT_MAX_S);
	else
		REQUIRE(wait_s == 12345);
}

static void check_key(struct text text)
{
	char key[SERVE_TARGET_KEY_MAX + 1] = "untouched", again[SERVE_TARGET_KEY_MAX + 1];

	if (!serve_target_key(text, key)) {
		REQUIRE(strcmp(key, "untouched") == 0);
		return;
	}
	require_only(key, SERVE_TARGET_KEY_MAX, CURSOR_CHARACTERS ":/");
	REQUIRE(key[0] != '\0' && serve_target_key(text_of(key), again) && strcmp(key, again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const checks[])(struct text) = { check_target, check_target, check_wait, check_key };
	uint8_t *copy;

	if (size == 0)
		return 0;
	copy = exact_copy(data + 1, size - 1);
	checks[data[0] % ARRAY_LEN(checks)]((struct text){ (const char *)copy, size - 1 });
	free(copy);
	return 0;
}
