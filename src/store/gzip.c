/*
 * Bytes to gzip in one go; the same bytes give the same member, so that a batch that is sent again is the same one. And the look at one that
 * came. Called by upload and serve_reports.
 */
#include "store/gzip.h"

#include <zlib.h>

#include "base/alloc.h"

#define WINDOW_GZIP (MAX_WBITS + 16) /* zlib's way to ask for a gzip header */

static void *take(void *arg, unsigned count, unsigned size)
{
	return alloc_array(count, size);
}

static void give_back(void *arg, void *block)
{
	alloc_free(block);
}

enum err gzip_pack(const void *bytes, size_t len, uint8_t **out_bytes, size_t *out_len)
{
	z_stream z = { .zalloc = take, .zfree = give_back };
	uint8_t *packed;
	size_t cap;
	int end;

	if (len > GZIP_INPUT_MAX)
		return ERR_LIMIT;
	if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW_GZIP, MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
		return ERR_NO_MEMORY;
	cap = deflateBound(&z, len);
	packed = alloc_zeroed(cap);
	if (packed == NULL) {
		deflateEnd(&z);
		return ERR_NO_MEMORY;
	}
	z.next_in = (Bytef *)(uintptr_t)bytes; /* read only, whatever its type says */
	z.avail_in = (uInt)len;
	z.next_out = packed;
	z.avail_out = (uInt)cap;
	end = deflate(&z, Z_FINISH);
	deflateEnd(&z);
	if (end != Z_STREAM_END) {
		alloc_free(packed);
		return ERR_LIMIT;
	}
	*out_bytes = packed;
	*out_len = cap - z.avail_out;
	return ERR_OK;
}

bool gzip_is_member(const void *bytes, size_t len, size_t max)
{
	z_stream z = { .zalloc = take, .zfree = give_back };
	uint8_t plain[16384];
	size_t sum = 0;
	int end = Z_OK;

	if (len > UINT32_MAX || inflateInit2(&z, WINDOW_GZIP) != Z_OK)
		return false;
	z.next_in = (Bytef *)(uintptr_t)bytes; /* read only, whatever its type says */
	z.avail_in = (uInt)len;
	while (end == Z_OK && sum <= max) {
		z.next_out = plain;
		z.avail_out = sizeof(plain);
		end = inflate(&z, Z_NO_FLUSH);
		sum += sizeof(plain) - z.avail_out;
	}
	inflateEnd(&z);
	return end == Z_STREAM_END && sum <= max && z.avail_in == 0;
}
