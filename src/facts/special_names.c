/* The names that are special before any rule is looked at. Two lists; knows no addresses, rules or
 * exceptions. */
#include "facts/special_names.h"

#include <string.h>

#include "base/attr.h"
#include "base/text.h"

/* Metadata services by name, and everything below them. Single labels are the short forms that
 * search lists complete. */
static const char *const metadata_names[] = {
	"metadata",
	"metadata.google.internal",
	"metadata.goog",
	"metadata.azure.internal",
	"metadata.azure.com",
	"metadata.tencentyun.com",
	"metadata.platformequinix.com",
	"metadata.packet.net",
	"instance-data",
	"instance-data.ec2.internal",
	"rancher-metadata",
};

/* RFC 6761 and its followers, and names that only a private network gives a meaning (contract
 * section 1). */
static const char *const special_suffixes[] = {
	"localhost", "local", "internal", "home.arpa", "arpa", "onion", "invalid",
};

static const char *const ech_public_names[] = {
#define ECH_PUBLIC_NAME(name) name,
#include "facts/ech_public_names.def"
#undef ECH_PUBLIC_NAME
};

static bool is_within_any(const struct dname *name, const char *const *suffixes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (dname_is_within(name, text_of(suffixes[i])))
			return true;
	}
	return false;
}

enum name_class special_names_classify(const struct dname *name)
{
	if (is_within_any(name, metadata_names, ARRAY_LEN(metadata_names)))
		return NAME_METADATA;
	if (name->label_count < 2 ||
	    is_within_any(name, special_suffixes, ARRAY_LEN(special_suffixes)))
		return NAME_SPECIAL;
	return NAME_ORDINARY;
}

bool special_names_is_ech_public(const struct dname *name)
{
	for (size_t i = 0; i < ARRAY_LEN(ech_public_names); i++) {
		if (text_is(text_of(name->text), ech_public_names[i]))
			return true;
	}
	return false;
}
