/*
 * The SOCKS name field and every other host text, down to what is known of it: what is accepted
 * prints as text that reads back the same, and an address never gets past its class by being
 * spelled as a name.
 */
#include <stdint.h>
#include <string.h>

#include "facts/addr_class.h"
#include "facts/special_names.h"
#include "facts/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			__builtin_trap();                                                          \
	} while (0)

static void check_name(const struct dname *name)
{
	struct addr addr;
	enum name_class class = special_names_classify(name);

	for (size_t i = 0; i < name->len; i++)
		REQUIRE(strchr("abcdefghijklmnopqrstuvwxyz0123456789-_.", name->text[i]) != NULL);
	REQUIRE(!addr_parse(text_of(name->text), &addr));
	REQUIRE(class != NAME_ORDINARY || name->label_count >= 2);
}

static void check_addr(const struct addr *addr)
{
	struct addr_finding finding;

	addr_classify(addr, NULL, &finding);
	REQUIRE(finding.class != ADDR_CLASS_INVALID && finding.range != NULL);
	if (finding.class != ADDR_CLASS_PUBLIC)
		return;
	/* Public is inside 1.0.0.0-223.255.255.255 or 2000::/3, whatever the table says. */
	REQUIRE(addr->family == ADDR_V4 ? addr->octets[0] >= 1 && addr->octets[0] <= 223
					: (addr->octets[0] & 0xe0) == 0x20);
	REQUIRE(addr->family != ADDR_V4 || (addr->octets[0] != 10 && addr->octets[0] != 127));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text host = { (const char *)data, size };
	char text[TARGET_TEXT_MAX];
	struct target t, again;

	if (target_from_host(host, 443, &t) != TARGET_OK)
		return 0;
	REQUIRE(size > 0 && memchr(data, '\0', size) == NULL && t.port == 443);
	REQUIRE(target_from_host(text_of(target_print_host(&t, text)), 443, &again) == TARGET_OK);
	REQUIRE(target_equal(&t, &again));
	REQUIRE(strlen(target_print(&t, text)) < TARGET_TEXT_MAX);
	if (t.kind == TARGET_NAME)
		check_name(&t.name);
	else
		check_addr(&t.addr);
	return 0;
}
