/* What lives in headers alone: the list, the reference count, the schemes. */
#include <criterion/criterion.h>

#include "base/list.h"
#include "base/refcount.h"
#include "base/scheme.h"

struct entry {
	struct list_node node;
	int number;
};

Test(list, knows_its_order_and_its_length)
{
	struct entry entries[5] = { 0 };
	struct list l;
	struct list_node *node, *next;
	int want = 0;

	list_init(&l);
	cr_expect_null(list_first(&l));
	cr_expect_null(list_pop_front(&l));
	for (int i = 0; i < 5; i++)
		entries[i].number = i;
	for (int i = 1; i < 5; i++)
		list_push_back(&l, &entries[i].node);
	list_push_front(&l, &entries[0].node);
	cr_expect_eq(l.count, 5);
	LIST_FOREACH (node, next, &l)
		cr_expect_eq(CONTAINER_OF(node, struct entry, node)->number, want++);
	cr_expect_eq(want, 5);
}

Test(list, a_walk_may_remove_the_node_it_stands_on)
{
	struct entry entries[5] = { 0 };
	struct list l;
	struct list_node *node, *next;

	list_init(&l);
	for (int i = 0; i < 5; i++)
		list_push_back(&l, &entries[i].node);
	LIST_FOREACH (node, next, &l)
		list_remove(&l, node);
	cr_expect_eq(l.count, 0);
	cr_expect(!list_node_is_linked(&entries[2].node));
	list_remove(&l, &entries[2].node);
	cr_expect_eq(l.count, 0, "removing what is in no list changes nothing");
	list_push_back(&l, &entries[2].node);
	cr_expect_eq(list_pop_front(&l), &entries[2].node);
}

Test(refcount, only_the_last_one_is_told_to_destroy)
{
	struct refcount r;

	refcount_init(&r);
	refcount_ref(&r);
	refcount_ref(&r);
	cr_expect(!refcount_unref(&r));
	cr_expect(!refcount_unref(&r));
	cr_expect(refcount_unref(&r));
}

Test(scheme, words_and_defaults_are_those_of_the_contract)
{
	static const struct {
		const char *word;
		enum scheme scheme;
		uint16_t port;
	} rows[] = { { "https", SCHEME_HTTPS, 443 },
		     { "http", SCHEME_HTTP, 80 },
		     { "ws", SCHEME_WS, 80 },
		     { "ssh", SCHEME_SSH, 22 },
		     { "tcp", SCHEME_TCP, 0 } };
	enum scheme s = SCHEME_COUNT;

	cr_expect_eq(ARRAY_LEN(rows), SCHEME_COUNT);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cr_assert(scheme_parse(text_of(rows[i].word), &s));
		cr_expect_eq(s, rows[i].scheme);
		cr_expect_eq(scheme_row(s)->default_port, rows[i].port);
	}
	cr_expect(!scheme_parse(text_of("HTTPS"), &s));
	cr_expect(!scheme_parse(text_of("wss"), &s));
	cr_expect(!scheme_parse(text_of(""), &s));
}
