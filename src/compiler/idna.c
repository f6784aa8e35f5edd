/* U-labels to A-labels; see idna.h. The only includer of <idn2.h>. */
#include "compiler/idna.h"

#include <idn2.h>
#include <string.h>

/* Without the mapping of UTS 46: capital letters, full-width forms and look-alike dots are refused, not repaired. */
#define IDNA_FLAGS (IDN2_NO_TR46 | IDN2_USE_STD3_ASCII_RULES)

/* 63 characters of up to four bytes in each of 127 labels would be more, but no such name fits DNAME_MAX in the end. */
#define IDNA_INPUT_MAX 1016

enum err idna_to_ascii(struct text name, char out_ascii[DNAME_MAX + 2], const char **out_reason)
{
	char copy[IDNA_INPUT_MAX + 1];
	uint8_t *ascii = NULL;
	enum err err = ERR_INVALID;
	size_t len;
	int rc;

	if (name.len > IDNA_INPUT_MAX || memchr(name.at, '\0', name.len) != NULL) {
		*out_reason = "the name is too long";
		return ERR_INVALID;
	}
	memcpy(copy, name.at, name.len);
	copy[name.len] = '\0';
	rc = idn2_lookup_u8((const uint8_t *)copy, &ascii, IDNA_FLAGS);
	if (rc != IDN2_OK) {
		*out_reason = idn2_strerror(rc);
		err = rc == IDN2_MALLOC ? ERR_NO_MEMORY : ERR_INVALID;
		goto out;
	}
	len = strlen((const char *)ascii);
	if (len > DNAME_MAX + 1) {
		*out_reason = "the name is too long";
		goto out;
	}
	memcpy(out_ascii, ascii, len + 1);
	err = ERR_OK;
out:
	idn2_free(ascii);
	return err;
}
