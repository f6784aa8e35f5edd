/* From what a store has to what it is to have: only differences, in the order that readers need, in pieces that a transaction takes. */
#include "serve/serve_plan.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/crypto.h"
#include "served.h"
#include "store/etcd_request.h"

static void note(struct serve_stock *stock, const char *key, const char *text)
{
	uint8_t sha256[32];

	cr_assert_eq(crypto_sha256(text, strlen(text), sha256), ERR_OK);
	cr_assert_eq(serve_stock_note(stock, text_of(key), sha256), ERR_OK);
}

static void begin(struct serve_stock *stock)
{
	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(serve_stock_init(stock), ERR_OK);
}

Test(serve_plan, differences_alone_and_what_is_named_before_what_names_it)
{
	static const char *const docs[][2] = { { "keyset", "k" }, { "l/a", "1" }, { "l/b", "2" }, { "m", "new" }, { "r/1", "x" }, { "r/2", "y" } };
	static const char *const want[] = { "+r/2", "+l/b", "-l/old", "+m", "-r/old" };
	struct serve_edition *edition;
	struct serve_stock stock;
	struct serve_plan plan;

	begin(&stock);
	edition = served_edition("c", docs, ARRAY_LEN(docs));
	note(&stock, "l/a", "1");
	note(&stock, "l/b", "1");
	note(&stock, "l/old", "1");
	note(&stock, "m", "before");
	note(&stock, "r/1", "x");
	note(&stock, "r/old", "z");
	cr_assert_eq(serve_plan_make(&stock, edition, &plan), ERR_OK);
	cr_assert_eq(plan.count, ARRAY_LEN(want));
	for (size_t i = 0; i < plan.count; i++) {
		cr_assert_eq(plan.ops[i].doc != NULL, want[i][0] == '+', "%zu", i);
		cr_assert_str_eq(plan.ops[i].key, want[i] + 1);
	}
	cr_assert_eq(serve_plan_cut(&plan, 0), plan.count);
	serve_plan_finish(&plan);
	/* Done: nothing is left to do. */
	note(&stock, "r/2", "y");
	note(&stock, "l/b", "2");
	note(&stock, "m", "new");
	cr_assert_eq(serve_stock_note(&stock, text_of("l/old"), NULL), ERR_OK);
	cr_assert_eq(serve_stock_note(&stock, text_of("r/old"), NULL), ERR_OK);
	cr_assert_eq(serve_stock_note(&stock, text_of("r/never"), NULL), ERR_OK);
	cr_assert_eq(serve_plan_make(&stock, edition, &plan), ERR_OK);
	cr_assert_eq(plan.count, 0);
	serve_plan_finish(&plan);
	serve_edition_unref(edition);
	serve_stock_finish(&stock);
}

/* Plan for so many new rulesets and leases. */
static void plan_of(struct serve_stock *stock, size_t rulesets, size_t leases, struct serve_edition **out_edition, struct serve_plan *out_plan)
{
	static char keys[600][24];
	static const char *docs[600][2];
	size_t count = 0;

	for (size_t i = 0; i < rulesets + leases; i++) {
		snprintf(keys[count], sizeof(keys[0]), "%c/%04zu", i < rulesets ? 'r' : 'l', i);
		docs[count][0] = keys[count];
		docs[count++][1] = "x";
	}
	docs[count][0] = "m";
	docs[count++][1] = "x";
	*out_edition = served_edition("c", docs, count);
	cr_assert_eq(serve_plan_make(stock, *out_edition, out_plan), ERR_OK);
}

Test(serve_plan, a_change_that_fits_is_never_torn_and_the_manifest_comes_last)
{
	static const struct {
		size_t rulesets, leases, cuts[6];
	} rows[] = {
		{ 0, 99, { 100 } }, { 1, 99, { 1, 101 } }, { 60, 60, { 60, 121 } }, { 150, 3, { 100, 154 } }, { 150, 60, { 100, 150, 211 } },
		{ 0, 100, { 100, 101 } }, { 50, 250, { 100, 200, 300, 301 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct serve_edition *edition;
		struct serve_stock stock;
		struct serve_plan plan;
		size_t at = 0;

		begin(&stock);
		plan_of(&stock, rows[i].rulesets, rows[i].leases, &edition, &plan);
		for (size_t k = 0; rows[i].cuts[k] != 0; k++) {
			at = serve_plan_cut(&plan, at);
			cr_assert_eq(at, rows[i].cuts[k], "row %zu cut %zu: %zu", i, k, at);
		}
		cr_assert_eq(at, plan.count);
		cr_assert_str_eq(plan.ops[at - 1].key, "m");
		serve_plan_finish(&plan);
		serve_edition_unref(edition);
		serve_stock_finish(&stock);
	}
}

Test(serve_plan, bytes_bound_a_transaction_too)
{
	static char big[300 << 10];
	const char *docs[][2] = { { "l/a", big }, { "l/b", big }, { "l/c", big }, { "m", "x" } };
	struct serve_edition *edition;
	struct serve_stock stock;
	struct serve_plan plan;

	begin(&stock);
	memset(big, 'x', sizeof(big) - 1);
	edition = served_edition("c", docs, ARRAY_LEN(docs));
	cr_assert_eq(serve_plan_make(&stock, edition, &plan), ERR_OK);
	cr_assert_eq(serve_plan_cut(&plan, 0), 2);
	cr_assert_eq(serve_plan_cut(&plan, 2), 4);
	serve_plan_finish(&plan);
	serve_edition_unref(edition);
	serve_stock_finish(&stock);
}

Test(serve_plan, a_transaction_is_written_as_the_gateway_reads_it)
{
	static const char want[] = "{\"compare\":[{\"key\":\"bQ==\",\"target\":\"MOD\",\"result\":\"EQUAL\",\"mod_revision\":\"7\"}],"
				   "\"success\":[{\"request_put\":{\"key\":\"YQ==\",\"value\":\"eA==\"}},"
				   "{\"request_delete_range\":{\"key\":\"Yg==\"}}]}";
	struct etcd_txn txn;

	for (size_t max = 1; max <= sizeof(want) + 8; max++) {
		bool is_whole;

		etcd_txn_begin(&txn, max);
		etcd_txn_compare(&txn, text_of("m"), 7);
		etcd_txn_put(&txn, text_of("a"), text_of("x"));
		etcd_txn_delete(&txn, text_of("b"));
		is_whole = etcd_txn_end(&txn) == ERR_OK;
		cr_assert(is_whole || max < sizeof(want) + 1, "%zu", max);
		if (is_whole)
			cr_assert(text_equal((struct text){ (const char *)buf_data(&txn.body), txn.body.len }, text_of(want)), "%zu", max);
		buf_finish(&txn.body);
	}
	etcd_txn_begin(&txn, 100);
	cr_assert_eq(etcd_txn_end(&txn), ERR_OK);
	cr_assert(text_equal((struct text){ (const char *)buf_data(&txn.body), txn.body.len }, text_of("{\"compare\":[],\"success\":[]}")));
	buf_finish(&txn.body);
}
