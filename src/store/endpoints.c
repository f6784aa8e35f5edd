/* Which endpoint next and when; see endpoints.h. */
#include "store/endpoints.h"

#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"

#define WAIT_FIRST_MS 100

static enum err add(struct endpoints *e, const char *at, size_t len, const char *scheme)
{
	size_t scheme_len = strlen(scheme);
	char *url;

	if (e->count == ENDPOINTS_MAX)
		return ERR_LIMIT;
	if (memmem(at, len, "://", 3) != NULL)
		scheme_len = 0;
	while (len > 0 && at[len - 1] == '/')
		len--;
	if (len == 0 || at[len - 1] == ':' || scheme_len + len > ENDPOINTS_URL_MAX)
		return ERR_INVALID;
	for (size_t i = 0; i < len; i++)
		if (at[i] <= ' ' || at[i] > '~' || at[i] == '@' || at[i] == '?' || at[i] == '#')
			return ERR_INVALID;
	url = alloc_zeroed(scheme_len + len + 1);
	if (url == NULL)
		return ERR_NO_MEMORY;
	memcpy(url, scheme, scheme_len);
	memcpy(url + scheme_len, at, len);
	e->urls[e->count++] = url;
	return ERR_OK;
}

enum err endpoints_init(struct endpoints *e, const char *list, const char *scheme)
{
	enum err err = ERR_OK;

	*e = (struct endpoints){ 0 };
	for (const char *at = list; err == ERR_OK;) {
		size_t len = strcspn(at, ",");

		err = add(e, at, len, scheme);
		at += len;
		if (*at == '\0')
			break;
		at++;
	}
	if (err != ERR_OK)
		endpoints_finish(e);
	return err;
}

void endpoints_finish(struct endpoints *e)
{
	for (size_t i = 0; i < e->count; i++)
		alloc_free(e->urls[i]);
	*e = (struct endpoints){ 0 };
}

const char *endpoints_url(const struct endpoints *e)
{
	return e->urls[e->at];
}

void endpoints_succeed(struct endpoints *e)
{
	e->failures = 0;
}

uint64_t endpoints_spread(uint64_t wait_ms)
{
	uint32_t random;

	return crypto_random(&random, sizeof(random)) == ERR_OK ? random % (wait_ms + 1) : wait_ms;
}

uint64_t endpoints_jitter(uint64_t wait_ms)
{
	return wait_ms / 2 + endpoints_spread(wait_ms - wait_ms / 2);
}

uint64_t endpoints_fail(struct endpoints *e)
{
	uint64_t wait_ms = ENDPOINTS_WAIT_MAX_MS;

	e->at = (e->at + 1) % e->count;
	if (e->failures < 6)
		wait_ms = (uint64_t)WAIT_FIRST_MS << e->failures;
	e->failures = e->failures < 1000 ? e->failures + 1 : e->failures;
	return endpoints_jitter(wait_ms < ENDPOINTS_WAIT_MAX_MS ? wait_ms : ENDPOINTS_WAIT_MAX_MS);
}
