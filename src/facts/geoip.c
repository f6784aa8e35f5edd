/*
 * Country and AS number from MaxMind databases; only includer of libmaxminddb. Takes sealed memory
 * files only: a file that could shrink under the mapping would kill the daemon. What it does not
 * find stays unknown, and unknown never allows.
 */
#include "facts/geoip.h"

#include <errno.h>
#include <fcntl.h>
#include <maxminddb.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/refcount.h"

struct geoip {
	struct refcount refs;
	bool has_country, has_asn;
	MMDB_s country, asn;
};

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static bool is_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 &&
	       (seals & (F_SEAL_SHRINK | F_SEAL_WRITE)) == (F_SEAL_SHRINK | F_SEAL_WRITE);
}

/* The library opens by path alone; the descriptor's own name also works where Landlock denies every
 * path. */
static enum err open_one(int fd, MMDB_s *out_db)
{
	char path[32];

	if (!is_sealed(fd))
		return ERR_DENIED;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	switch (MMDB_open(path, MMDB_MODE_MMAP, out_db)) {
	case MMDB_SUCCESS:
		return ERR_OK;
	case MMDB_FILE_OPEN_ERROR:
	case MMDB_IO_ERROR:
		return ERR_SYSTEM;
	case MMDB_OUT_OF_MEMORY_ERROR:
		return ERR_NO_MEMORY;
	default:
		return ERR_INVALID;
	}
}

enum err geoip_open(int country_fd, int asn_fd, struct geoip **out_geoip)
{
	struct geoip *g = alloc_zeroed(sizeof(*g));
	enum err err = ERR_OK;

	if (g == NULL)
		return ERR_NO_MEMORY;
	refcount_init(&g->refs);
	if (country_fd >= 0) {
		err = open_one(country_fd, &g->country);
		g->has_country = err == ERR_OK;
	}
	if (err == ERR_OK && asn_fd >= 0) {
		err = open_one(asn_fd, &g->asn);
		g->has_asn = err == ERR_OK;
	}
	if (err != ERR_OK) {
		geoip_unref(g);
		return err;
	}
	*out_geoip = g;
	return ERR_OK;
}

static bool copy_all(int from, int to)
{
	struct stat st;
	off_t at = 0;

	if (fstat(from, &st) != 0)
		return false;
	if (!S_ISREG(st.st_mode)) {
		errno = EINVAL;
		return false;
	}
	/* The size of the start counts: a file that is being replaced is caught by its missing
	 * metadata. */
	while (at < st.st_size) {
		ssize_t sent = sendfile(to, from, &at, (size_t)(st.st_size - at));

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return false;
	}
	return true;
}

enum err geoip_seal(int fd, int *out_fd)
{
	int copy = memfd_create("egress-geo", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int error;

	if (copy < 0)
		return ERR_SYSTEM;
	if (copy_all(fd, copy) && fcntl(copy, F_ADD_SEALS, SEALS) == 0) {
		*out_fd = copy;
		return ERR_OK;
	}
	error = errno;
	close(copy);
	errno = error;
	return ERR_SYSTEM;
}

struct geoip *geoip_ref(struct geoip *g)
{
	refcount_ref(&g->refs);
	return g;
}

void geoip_unref(struct geoip *g)
{
	if (g == NULL || !refcount_unref(&g->refs))
		return;
	if (g->has_country)
		MMDB_close(&g->country);
	if (g->has_asn)
		MMDB_close(&g->asn);
	alloc_free(g);
}

/* The value at `path` of the record that covers `a`; false when there is none. */
static bool find_value(const MMDB_s *db, const struct addr *a, const char *const *path,
		       MMDB_entry_data_s *out_value)
{
	struct sockaddr_storage sa;
	MMDB_lookup_result_s result;
	int error = MMDB_SUCCESS;

	if (endpoint_to_sockaddr(&(struct endpoint){ .addr = *a }, &sa) == 0)
		return false;
	result = MMDB_lookup_sockaddr(db, (const struct sockaddr *)&sa, &error);
	if (error != MMDB_SUCCESS || !result.found_entry)
		return false;
	return MMDB_aget_value(&result.entry, out_value, path) == MMDB_SUCCESS &&
	       out_value->has_data;
}

static bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

void geoip_find(const struct geoip *g, const struct addr *a, struct geoip_place *out_place)
{
	static const char *const country_path[] = { "country", "iso_code", NULL };
	static const char *const asn_path[] = { "autonomous_system_number", NULL };
	struct geoip_place place = { 0 };
	MMDB_entry_data_s value;

	if (g != NULL && g->has_country && find_value(&g->country, a, country_path, &value) &&
	    value.type == MMDB_DATA_TYPE_UTF8_STRING && value.data_size == 2 &&
	    is_upper(value.utf8_string[0]) && is_upper(value.utf8_string[1])) {
		memcpy(place.country, value.utf8_string, 2);
		place.country_known = true;
	}
	if (g != NULL && g->has_asn && find_value(&g->asn, a, asn_path, &value) &&
	    value.type == MMDB_DATA_TYPE_UINT32) {
		place.asn = value.uint32;
		place.asn_known = true;
	}
	*out_place = place;
}
