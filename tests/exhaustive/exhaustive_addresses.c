/*
 * The address classifier against a linear walk over the files of policy/addresses, read at run
 * time: exhaustive_addresses [--all]. Shares nothing with the classifier but the address parser.
 * Prints what it compared; exits 1 at the first difference.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "facts/addr_class.h"

#define ROWS_MAX 256
#define LINE_MAX_BYTES 256
#define SAMPLE_STEP 4099u /* prime, so that a sample is spread over all last octets */

__extension__ typedef unsigned __int128 u128;

struct oracle_row {
	u128 first, mask;
	unsigned len;
	bool v6;
	char class[24], name[96];
};

struct oracle_form {
	u128 first, mask;
	unsigned at;
	bool inverted;
};

/* Rows of one family each, in reading order. */
struct oracle {
	struct oracle_row v4[ROWS_MAX], v6[ROWS_MAX];
	unsigned v4_count, v6_count;
	struct oracle_form forms[16];
	unsigned form_count;
	/* The IPv4 rows again in a form that a compiler can walk quickly. */
	uint32_t v4_first[ROWS_MAX], v4_mask[ROWS_MAX];
};

static unsigned long long compared;

static void die(const char *what, const char *detail)
{
	fprintf(stderr, "exhaustive_addresses: %s: %s\n", what, detail);
	exit(1);
}

static u128 number_of(const struct addr *a)
{
	u128 n = 0;

	for (size_t i = 0; i < addr_len(a); i++)
		n = n << 8 | a->octets[i];
	return n;
}

static struct addr addr_of(bool v6, u128 n)
{
	struct addr a = { .family = v6 ? ADDR_V6 : ADDR_V4 };

	for (size_t i = addr_len(&a); i-- > 0; n >>= 8)
		a.octets[i] = (uint8_t)n;
	return a;
}

static u128 mask_of(unsigned len, unsigned bits)
{
	u128 all = bits == 128 ? ~(u128)0 : ((u128)1 << bits) - 1;

	return len == 0 ? 0 : all & ~((len == bits ? 0 : ((u128)1 << (bits - len)) - 1));
}

/* The next column of `line`, blanks around it cut. */
static char *column(char **line)
{
	char *at = strsep(line, "|"), *end;

	if (at == NULL)
		return NULL;
	at += strspn(at, " \t");
	for (end = at + strlen(at); end > at && strchr(" \t\r\n", end[-1]) != NULL;)
		*--end = '\0';
	return at;
}

static void parse_prefix(const char *text, u128 *out_first, unsigned *out_len, bool *out_v6)
{
	struct prefix p;

	if (!prefix_parse(text_of(text), &p))
		die("not a prefix", text);
	*out_first = number_of(&p.addr);
	*out_len = p.len;
	*out_v6 = p.addr.family == ADDR_V6;
}

static void add_range(struct oracle *o, char *line)
{
	struct oracle_row row = { 0 };
	const char *prefix = column(&line), *class = column(&line), *reference = column(&line),
		   *name = column(&line);

	if (name == NULL || reference == NULL)
		die("too few columns", prefix);
	parse_prefix(prefix, &row.first, &row.len, &row.v6);
	row.mask = mask_of(row.len, row.v6 ? 128 : 32);
	snprintf(row.class, sizeof(row.class), "%s", class);
	snprintf(row.name, sizeof(row.name), "%s", name);
	if (o->v4_count == ROWS_MAX || o->v6_count == ROWS_MAX)
		die("too many rows", prefix);
	if (row.v6) {
		o->v6[o->v6_count++] = row;
		return;
	}
	o->v4_first[o->v4_count] = (uint32_t)row.first;
	o->v4_mask[o->v4_count] = (uint32_t)row.mask;
	o->v4[o->v4_count++] = row;
}

static void add_form(struct oracle *o, char *line)
{
	struct oracle_form *form = &o->forms[o->form_count];
	const char *prefix = column(&line), *at = column(&line), *how = column(&line);
	unsigned len;
	bool v6;

	if (how == NULL || o->form_count + 1 == sizeof(o->forms) / sizeof(o->forms[0]))
		die("bad form", prefix);
	parse_prefix(prefix, &form->first, &len, &v6);
	form->mask = mask_of(len, 128);
	form->at = (unsigned)atoi(at);
	form->inverted = strcmp(how, "inverted") == 0;
	o->form_count++;
}

static void read_file(struct oracle *o, const char *name, void (*add)(struct oracle *o, char *line))
{
	const char *folder = getenv("EGRESS_SRCDIR");
	char path[512], line[LINE_MAX_BYTES];
	FILE *file;

	snprintf(path, sizeof(path), "%s/policy/addresses/%s", folder == NULL ? "." : folder, name);
	file = fopen(path, "r");
	if (file == NULL)
		die(path, strerror(errno));
	while (fgets(line, sizeof(line), file) != NULL) {
		line[strcspn(line, "#\n")] = '\0';
		if (line[strspn(line, " \t")] != '\0')
			add(o, line);
	}
	fclose(file);
}

static const struct oracle_row *walk_v4(const struct oracle *o, uint32_t n)
{
	const struct oracle_row *best = NULL;

	for (unsigned i = 0; i < o->v4_count; i++) {
		if ((n & o->v4_mask[i]) == o->v4_first[i] &&
		    (best == NULL || o->v4[i].len > best->len))
			best = &o->v4[i];
	}
	return best;
}

static bool is_floor(const struct oracle_row *row)
{
	return row != NULL &&
	       (strcmp(row->class, "metadata") == 0 || strcmp(row->class, "loopback") == 0 ||
		strcmp(row->class, "unspecified") == 0);
}

/* By the classes of the readable table: all but the floor and the embedded forms. */
static bool may_reopen(const struct oracle_row *row)
{
	return !is_floor(row) && strcmp(row->class, "embedded") != 0 &&
	       strcmp(row->class, "nat64") != 0;
}

/* What the classifier must say of an IPv6 address on a site that declares nothing. */
static const struct oracle_row *walk_v6(const struct oracle *o, u128 n, bool *out_has_inner)
{
	static const struct oracle_row isatap = { .class = "embedded", .name = "ISATAP" };
	const struct oracle_row *best = NULL, *inner;

	*out_has_inner = false;
	for (unsigned i = 0; i < o->v6_count; i++) {
		if ((n & o->v6[i].mask) == o->v6[i].first &&
		    (best == NULL || o->v6[i].len > best->len))
			best = &o->v6[i];
	}
	if (is_floor(best))
		return best;
	for (unsigned i = 0; i < o->form_count; i++) {
		const struct oracle_form *form = &o->forms[i];
		uint32_t octets = (uint32_t)(n >> (96 - 8 * form->at));

		/* A row inside the form's prefix that names the address better carries nothing. */
		if (best == NULL || best->first != form->first || best->mask != form->mask)
			continue;
		*out_has_inner = true;
		inner = walk_v4(o, form->inverted ? ~octets : octets);
		return is_floor(inner) ? inner : best;
	}
	if ((best == NULL || may_reopen(best)) &&
	    ((uint32_t)(n >> 32) == 0x00005efe || (uint32_t)(n >> 32) == 0x02005efe)) {
		inner = walk_v4(o, (uint32_t)n);
		*out_has_inner = inner != NULL;
		return inner == NULL ? best : is_floor(inner) ? inner : &isatap;
	}
	return best;
}

static void differ(const struct addr *a, const struct oracle_row *expected,
		   const struct addr_finding *f)
{
	char text[ADDR_TEXT_MAX];

	fprintf(stderr, "exhaustive_addresses: %s is %s (%s), the table says %s (%s)\n",
		addr_print(a, text), addr_class_word(f->class), f->range,
		expected == NULL ? "public" : expected->class,
		expected == NULL ? "" : expected->name);
	exit(1);
}

/* Texts are compared once per pair of pointers: neighbours mostly have the same. */
static void compare_texts(const struct addr *a, const struct oracle_row *expected,
			  const struct addr_finding *f)
{
	static const struct oracle_row *known_row;
	static const char *known_range;

	if (expected != NULL && expected == known_row && f->range == known_range)
		return;
	if (expected == NULL ? f->class != ADDR_CLASS_PUBLIC || f->range[0] != '\0'
			     : strcmp(addr_class_word(f->class), expected->class) != 0 ||
				       strcmp(f->range, expected->name) != 0)
		differ(a, expected, f);
	known_row = expected;
	known_range = f->range;
}

static void compare_v4(const struct oracle *o, uint32_t n)
{
	static const struct addr_site nothing;
	struct addr a = {
		ADDR_V4, { (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n }
	};
	struct addr_finding f;

	addr_classify(&a, &nothing, &f);
	compare_texts(&a, walk_v4(o, n), &f);
	compared++;
}

static void compare_v6(const struct oracle *o, u128 n)
{
	struct addr a = addr_of(true, n);
	const struct oracle_row *expected;
	struct addr_finding f;
	bool has_inner;

	addr_classify(&a, NULL, &f);
	expected = walk_v6(o, n, &has_inner);
	compare_texts(&a, expected, &f);
	if (f.has_inner != has_inner)
		differ(&a, expected, &f);
	compared++;
}

/* An IPv4 address in every form that carries one, and as ISATAP in a public prefix and in every
 * row. */
static void compare_embedded(const struct oracle *o, uint32_t n)
{
	for (unsigned i = 0; i < o->form_count; i++) {
		uint32_t octets = o->forms[i].inverted ? ~n : n;

		compare_v6(o, o->forms[i].first | (u128)octets << (96 - 8 * o->forms[i].at));
	}
	compare_v6(o, (u128)0x2a00000100000000 << 64 | (u128)0x00005efe << 32 | n);
	compare_v6(o, (u128)0x2a00000100000000 << 64 | (u128)0x02005efe << 32 | n);
	compare_v6(o, (u128)0x2a00000100000000 << 64 | (u128)0x01005efe << 32 | n);
	for (unsigned i = 0; i < o->v6_count; i++)
		compare_v6(o, (o->v6[i].first | (u128)0x00005efe << 32 | n));
}

static void compare_edges(const struct oracle *o)
{
	for (unsigned i = 0; i < o->v4_count; i++) {
		uint32_t first = o->v4_first[i], last = first | ~o->v4_mask[i];
		uint32_t edges[] = { first, last, first - 1, last + 1, first + 1, last - 1 };

		for (size_t j = 0; j < sizeof(edges) / sizeof(edges[0]); j++) {
			compare_v4(o, edges[j]);
			compare_embedded(o, edges[j]);
		}
	}
	for (unsigned i = 0; i < o->v6_count; i++) {
		u128 first = o->v6[i].first, last = first | ~o->v6[i].mask;
		u128 edges[] = { first, last, first - 1, last + 1, first + 1, last - 1 };

		for (size_t j = 0; j < sizeof(edges) / sizeof(edges[0]); j++)
			compare_v6(o, edges[j]);
	}
}

/* splitmix64: the same addresses in every run. */
static uint64_t random64(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static void compare_random_v6(const struct oracle *o, unsigned per_row)
{
	uint64_t state = 1;

	for (unsigned i = 0; i < o->v6_count; i++) {
		for (unsigned j = 0; j < per_row; j++) {
			u128 n = (u128)random64(&state) << 64 | random64(&state);

			compare_v6(o, n);
			compare_v6(o, o->v6[i].first | (n & ~o->v6[i].mask));
			/* One bit beside the prefix. */
			if (o->v6[i].len > 0)
				compare_v6(o, (o->v6[i].first | (n & ~o->v6[i].mask)) ^
						      (u128)1 << (128 - 1 - n % o->v6[i].len));
			/* Global unicast, where most answers lie. */
			compare_v6(o, n >> 3 | (u128)1 << 125);
		}
	}
}

int main(int argc, char **argv)
{
	static struct oracle o;
	bool all = argc == 2 && strcmp(argv[1], "--all") == 0;
	uint32_t n = 0, step = all ? 1 : SAMPLE_STEP;

	if (argc > 1 && !all)
		die("usage", "exhaustive_addresses [--all]");
	read_file(&o, "ipv4.txt", add_range);
	read_file(&o, "ipv6.txt", add_range);
	read_file(&o, "metadata.txt", add_range);
	read_file(&o, "embedded.txt", add_form);
	if (o.v4_count < 30 || o.v6_count < 50 || o.form_count < 6)
		die("policy/addresses", "too few rows to be the table");
	compare_edges(&o);
	compare_random_v6(&o, all ? 100000 : 200);
	do {
		compare_v4(&o, n);
	} while (!__builtin_add_overflow(n, step, &n));
	printf("%llu addresses compared, no difference\n", compared);
	return 0;
}
