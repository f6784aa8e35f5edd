/* The label index against a slow reading of every rule, over every name of a small world. */
#include "policy/label_index.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "decision/verdict.h"
#include "segment_builder.h"

#define DEPTH_MAX 4
#define NAMES_MAX 128

static char names[NAMES_MAX][16];
static size_t name_count;

static struct dname name_of(const char *text)
{
	struct dname n;

	cr_assert_eq(dname_parse(text_of(text), DNAME_FINAL_DOT_REFUSE, &n), DNAME_OK);
	return n;
}

/* Every name of up to DEPTH_MAX labels out of a, b and ab: one label ends with another, so boundaries matter. */
static void make_names(void)
{
	static const char *const labels[] = { "a", "b", "ab" };
	size_t from = 0, until = 3;

	name_count = 0;
	for (size_t i = 0; i < 3; i++)
		snprintf(names[name_count++], sizeof(names[0]), "%s", labels[i]);
	for (unsigned depth = 2; depth <= DEPTH_MAX; depth++) {
		for (size_t at = from; at < until; at++) {
			for (size_t i = 0; i < 3; i++) {
				int len = snprintf(names[name_count++], sizeof(names[0]), "%s.%s",
						   labels[i], names[at]);

				cr_assert_lt(len, (int)sizeof(names[0]));
			}
		}
		from = until;
		until = name_count;
	}
}

/* A rule's text covers a name: the slow reading of the contract. */
static bool covers(const char *rule, const char *name)
{
	size_t rule_len = strlen(rule), name_len = strlen(name);

	if (strncmp(rule, "*.", 2) != 0)
		return strcmp(rule, name) == 0;
	return name_len > rule_len - 1 && strcmp(name + name_len - (rule_len - 1), rule + 1) == 0;
}

struct visits {
	const struct segment *segment;
	unsigned times[2 * NAMES_MAX];
	size_t last_len; /* of the rule's name before */
	bool longest_first;
};

static void on_visit(void *arg, uint32_t number)
{
	struct visits *v = arg;
	uint32_t count;
	const struct layout_rule *rules = segment_table(v->segment, LAYOUT_RULES, &count);

	cr_assert_lt(number, count);
	v->longest_first &= rules[number].name.len <= v->last_len;
	v->last_len = rules[number].name.len;
	v->times[number]++;
}

static void compare_all(const char (*rules)[20], size_t rule_count, const struct segment *s)
{
	for (size_t n = 0; n < name_count; n++) {
		struct visits v = { .segment = s, .last_len = SIZE_MAX, .longest_first = true };
		struct dname name = name_of(names[n]);

		label_index_visit(s, &name, on_visit, &v);
		cr_expect(v.longest_first, "%s", names[n]);
		for (size_t r = 0; r < rule_count; r++)
			cr_assert_eq(v.times[r], covers(rules[r], names[n]) ? 1 : 0, "%s and %s", rules[r],
				     names[n]);
	}
}

Test(label_index, agrees_with_a_slow_reading_for_every_name_and_rule_of_a_small_world)
{
	static struct built_store store;
	static char rules[2 * NAMES_MAX][20], text[2 * NAMES_MAX * 32];

	make_names();
	/* All rules at once, then every third, fifth and seventeenth, so that entries lack one kind or the neighbours. */
	for (size_t step = 1; step <= 17; step = step == 1 ? 3 : step == 3 ? 5 : step + 12) {
		size_t rule_count = 0, len = 0;

		for (size_t i = 0; i < 2 * name_count; i += step) {
			snprintf(rules[rule_count], sizeof(rules[0]), "%s%s", i % 2 == 0 ? "" : "*.",
				 names[i / 2]);
			len += (size_t)snprintf(text + len, sizeof(text) - len, "deny %s\n",
						rules[rule_count++]);
		}
		built_store_init(&store);
		compare_all((const char(*)[20])rules, rule_count,
			    built_segment(&store, LAYOUT_RULESET, text));
		built_store_finish(&store);
	}
}

Test(label_index, visits_all_rules_of_one_host_in_their_order)
{
	static struct built_store store;
	struct visits v = { .last_len = SIZE_MAX };
	struct dname name = name_of("x.a.test");

	built_store_init(&store);
	v.segment = built_segment(&store, LAYOUT_RULESET,
				  "allow https://x.a.test\ndeny *.a.test\nallow http://x.a.test\n"
				  "deny a.test\ndeny *.test\nallow ssh://*.x.a.test\n");
	label_index_visit(v.segment, &name, on_visit, &v);
	cr_expect(v.times[0] == 1 && v.times[1] == 1 && v.times[2] == 1 && v.times[3] == 0 &&
		  v.times[4] == 1 && v.times[5] == 0);
	built_store_finish(&store);
}

Test(label_index, finds_nothing_in_a_segment_without_names)
{
	static struct built_store store;
	struct visits v = { .last_len = SIZE_MAX };
	struct dname name = name_of("a.test");

	built_store_init(&store);
	v.segment = built_segment(&store, LAYOUT_RULESET, "deny 192.0.2.0/24\n");
	label_index_visit(v.segment, &name, on_visit, &v);
	cr_expect_eq(v.times[0], 0);
	built_store_finish(&store);
}
