/* Which names are special before any rule is looked at. */
#include "facts/special_names.h"

#include "base/attr.h"
#include "texts.h"

static void check_all(const char *const *texts, size_t count, enum name_class expected)
{
	for (size_t i = 0; i < count; i++) {
		struct dname name = dname_in(texts[i]);

		cr_expect_eq(special_names_classify(&name), expected, "%s", texts[i]);
	}
}

Test(special_names, metadata_services_are_never_reachable_by_name)
{
	static const char *const texts[] = {
		"metadata",
		"Metadata.Google.Internal",
		"metadata.google.internal",
		"x.metadata.google.internal",
		"instance-data",
		"instance-data.ec2.internal",
		"metadata.azure.internal",
		"metadata.goog",
	};

	check_all(texts, ARRAY_LEN(texts), NAME_METADATA);
}

Test(special_names, local_and_private_suffixes_and_single_labels_are_special)
{
	static const char *const texts[] = {
		"localhost",
		"LOCALHOST",
		"foo.localhost",
		"a.b.localhost",
		"printer.local",
		"local",
		"internal",
		"db.internal",
		"google.internal",
		"notmetadata.google.internal",
		"home.arpa",
		"router.home.arpa",
		"arpa",
		"4.4.8.8.in-addr.arpa",
		"ipv4only.arpa",
		"abcdefgh.onion",
		"onion",
		"invalid",
		"x.invalid",
		"com",
		"intranet",
		"ip6-localhost",
		"xn--node",
	};

	check_all(texts, ARRAY_LEN(texts), NAME_SPECIAL);
}

Test(special_names, names_that_only_look_alike_are_ordinary)
{
	static const char *const texts[] = {
		"allowed.test",
		"www.example",
		"example.org",
		"localhost.example.org",
		"notlocalhost.example",
		"mylocal.org",
		"foo.notlocal",
		"foo.notinternal",
		"internal.example.org",
		"arpa.example.org",
		"onion.example.org",
		"metadata.example.org",
		"instance-data.example.org",
		"a.xonion",
		"notmetadata.goog",
		"local.host",
		"a.home-arpa",
	};

	check_all(texts, ARRAY_LEN(texts), NAME_ORDINARY);
}

Test(special_names, knows_the_names_that_only_hide_others)
{
	static const struct {
		const char *text;
		bool hides;
	} rows[] = {
		{ "cloudflare-ech.com", true },
		{ "public.tls-ech.dev", true },
		{ "cover.defo.ie", true },
		{ "www.cloudflare-ech.com", false },
		{ "ech.com", false },
		{ "tls-ech.dev", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct dname name;

		cr_assert_eq(dname_parse(text_of(rows[i].text), DNAME_FINAL_DOT_DROP, &name), DNAME_OK);
		cr_expect_eq(special_names_is_ech_public(&name), rows[i].hides, "%s", rows[i].text);
	}
}
