/* One configuration file to one immutable struct; see load.h. Knows sections, keys and their places, not what an option does. */
#include "config/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "config/check_internal.h"
#include "config/tokens.h"

#define SHOWN_MAX 80

struct loader {
	struct config *config;
	struct fault_list *faults;
	const char *file;        /* borrowed from the caller */
	enum config_reader reader;
	struct config_seen seen;
	struct listener_option listeners[CONFIG_LISTENERS_MAX];

	/* The section that is open; rows NULL before the first and inside an unknown one. */
	const struct option_row *rows;
	size_t row_count;
	const char *section;
	void *options;
	uint32_t *lines;         /* per row: where it was given; 0 not yet */
	bool is_skipping;        /* inside a faulty section: its keys cannot be judged */
};

static struct fault_place place_of(const struct loader *l, uint32_t line, uint32_t column)
{
	return (struct fault_place){ .file = l->file, .line = line, .column = column };
}

static const char *shown(struct text t, char room[SHOWN_MAX])
{
	text_escape(t, room, SHOWN_MAX);
	return room;
}

static void open_section(struct loader *l, const char *section, void *options, uint32_t *lines)
{
	l->section = section;
	l->rows = option_table(text_of(section), &l->row_count);
	l->options = options;
	l->lines = lines;
	l->is_skipping = false;
}

static bool is_listener_name(struct text name)
{
	if (name.len == 0 || name.len > 64 || name.at[0] == '.' || name.at[0] == '-')
		return false;
	for (size_t i = 0; i < name.len; i++) {
		char c = text_lower(name.at[i]);

		if (!(c >= 'a' && c <= 'z') && !text_is_digit(c) && c != '-' && c != '_' && c != '.')
			return false;
	}
	return true;
}

static enum err open_listener(struct loader *l, struct text name, struct fault_place place)
{
	size_t nth = l->config->listener_count;
	struct listener_option *listener;
	char room[SHOWN_MAX];

	if (!is_listener_name(name)) {
		fault_add(l->faults, place, FAULT_ERROR, "listener_name",
			  "\"%s\" cannot name a listener; use 1 to 64 letters, digits, - _ and .", shown(name, room));
		return ERR_OK;
	}
	for (size_t i = 0; i < nth; i++) {
		if (text_is(name, l->listeners[i].name)) {
			fault_add(l->faults, place, FAULT_ERROR, "duplicate_section",
				  "listener %s was described before, on line %u", l->listeners[i].name,
				  l->seen.listener_line[i]);
			return ERR_OK;
		}
	}
	if (nth == CONFIG_LISTENERS_MAX) {
		fault_add(l->faults, place, FAULT_ERROR, "too_many_listeners", "at most %d listener sections are read",
			  CONFIG_LISTENERS_MAX);
		return ERR_OK;
	}
	listener = &l->listeners[nth];
	*listener = (struct listener_option){ 0 };
	listener->name = arena_text(&l->config->arena, name.at, name.len);
	if (listener->name == NULL ||
	    option_set_defaults(text_of("listener"), &l->config->arena, listener) != ERR_OK)
		return ERR_NO_MEMORY;
	l->seen.listener_line[nth] = place.line;
	l->config->listener_count = nth + 1;
	open_section(l, "listener", listener, l->seen.listener[nth]);
	return ERR_OK;
}

/* Open [daemon] or [sidecar], once each. */
static void open_plain(struct loader *l, const char *section, uint32_t *section_line, void *options, uint32_t *lines,
		       struct fault_place place)
{
	if (*section_line != 0) {
		fault_add(l->faults, place, FAULT_ERROR, "duplicate_section",
			  "section [%s] was opened before, on line %u; put all its keys there", section, *section_line);
		return;
	}
	*section_line = place.line;
	open_section(l, section, options, lines);
}

/* "[name]" or "[name argument]" without its brackets; false when the brackets are wrong. */
static bool section_words(const struct token_line *line, struct text *out_name, struct text *out_argument)
{
	struct text first = line->tokens[0].text, last = line->tokens[line->token_count - 1].text;

	if (line->token_count > 2 || last.len == 0 || last.at[last.len - 1] != ']')
		return false;
	*out_name = (struct text){ first.at + 1, first.len - 1 };
	*out_argument = (struct text){ last.at, last.len - 1 };
	if (line->token_count == 1) {
		out_name->len--;
		*out_argument = (struct text){ NULL, 0 };
	}
	return out_name->len > 0 && (line->token_count == 1 || out_argument->len > 0);
}

static enum err on_section(struct loader *l, const struct token_line *line)
{
	static const char *const known[] = { "daemon", "sidecar", "listener", "serve" };
	struct fault_place place = place_of(l, line->line, line->tokens[0].column);
	struct text name, argument;
	const char *near;
	char room[SHOWN_MAX];

	l->is_skipping = true;
	l->rows = NULL;
	if (!section_words(line, &name, &argument)) {
		fault_add(l->faults, place, FAULT_ERROR, "bad_section",
			  "expected [daemon], [sidecar], [serve] or [listener NAME] alone on the line");
		return ERR_OK;
	}
	if (text_is(name, "listener"))
		return open_listener(l, argument, place);
	if (argument.len == 0 && text_is(name, "daemon")) {
		open_plain(l, "daemon", &l->seen.daemon_line, &l->config->daemon, l->seen.daemon, place);
		return ERR_OK;
	}
	if (argument.len == 0 && text_is(name, "sidecar")) {
		open_plain(l, "sidecar", &l->seen.sidecar_line, &l->config->sidecar, l->seen.sidecar, place);
		return ERR_OK;
	}
	if (argument.len == 0 && text_is(name, "serve")) {
		l->config->has_serve = true;
		open_plain(l, "serve", &l->seen.serve_line, &l->config->serve, l->seen.serve, place);
		return ERR_OK;
	}
	near = fault_nearest(name, known, ARRAY_LEN(known));
	fault_add(l->faults, place, FAULT_ERROR, "unknown_section", "there is no section [%s]; %s%s%s", shown(name, room),
		  near == NULL ? "expected [daemon], [sidecar], [serve] or [listener NAME]" : "did you mean [",
		  near == NULL ? "" : near, near == NULL ? "" : (text_is(text_of(near), "listener") ? " NAME]?" : "]?"));
	return ERR_OK;
}

static const struct option_row *find_row(const struct option_row *rows, size_t count, struct text key)
{
	for (size_t i = 0; i < count; i++)
		if (text_is(key, rows[i].name))
			return &rows[i];
	return NULL;
}

static void refuse_key(struct loader *l, struct text key, struct fault_place place)
{
	static const char *const sections[] = { "daemon", "sidecar", "listener", "serve" };
	const char *names[64];
	const char *near;
	char room[SHOWN_MAX];

	for (size_t i = 0; i < ARRAY_LEN(sections); i++) {
		size_t count;
		const struct option_row *rows = option_table(text_of(sections[i]), &count);

		if (find_row(rows, count, key) != NULL) {
			fault_add(l->faults, place, FAULT_ERROR, "unknown_key", "%s belongs to section [%s%s]",
				  shown(key, room), sections[i], i == 2 ? " NAME" : "");
			return;
		}
	}
	for (size_t i = 0; i < l->row_count && i < ARRAY_LEN(names); i++)
		names[i] = l->rows[i].name;
	near = fault_nearest(key, names, l->row_count < ARRAY_LEN(names) ? l->row_count : ARRAY_LEN(names));
	if (near != NULL)
		fault_add(l->faults, place, FAULT_ERROR, "unknown_key", "there is no key %s in [%s]; did you mean %s?",
			  shown(key, room), l->section, near);
	else
		fault_add(l->faults, place, FAULT_ERROR, "unknown_key",
			  "there is no key %s in [%s]; the sample configuration shows all of them", shown(key, room),
			  l->section);
}

/* What stands on a "key = value" line, however the blanks are. */
struct pair {
	struct text key;
	struct token values[TOKENS_WORDS_MAX];
	size_t value_count;
};

static bool split_pair(const struct token_line *line, struct pair *out_pair)
{
	const struct token *first = &line->tokens[0];
	const char *equals = first->quoted ? NULL : memchr(first->text.at, '=', first->text.len);
	const struct token *holder = first;
	uint32_t next = 1;

	out_pair->key = first->text;
	out_pair->value_count = 0;
	if (equals != NULL) {
		out_pair->key.len = (size_t)(equals - first->text.at);
	} else {
		if (line->token_count < 2 || first->quoted || line->tokens[1].quoted || line->tokens[1].text.at[0] != '=')
			return false;
		holder = &line->tokens[1];
		equals = holder->text.at;
		next = 2;
	}
	if (out_pair->key.len == 0)
		return false;
	if (equals + 1 < holder->text.at + holder->text.len) {
		size_t before = (size_t)(equals + 1 - holder->text.at);

		out_pair->values[out_pair->value_count++] = (struct token){
			.text = { equals + 1, holder->text.len - before },
			.column = holder->column + (uint32_t)before,
		};
	}
	for (; next < line->token_count; next++)
		out_pair->values[out_pair->value_count++] = line->tokens[next];
	return true;
}

/* Store one value; lists may be several words, which are joined. */
static enum err set_value(struct loader *l, const struct option_row *row, const struct pair *pair, uint32_t line)
{
	char joined[OPTION_VALUE_MAX + 1], reason[OPTION_REASON_MAX];
	struct fault_place place = place_of(l, line, pair->values[0].column);
	size_t len = 0;
	enum err err;

	if (pair->value_count > 1 && !option_is_list(row)) {
		place.column = pair->values[1].column;
		fault_add(l->faults, place, FAULT_ERROR, "bad_value",
			  "%s takes one value; put it in quotes if it holds a blank", row->name);
		return ERR_OK;
	}
	for (size_t i = 0; i < pair->value_count; i++) {
		struct text word = pair->values[i].text;

		if (len + word.len + 1 > OPTION_VALUE_MAX) {
			fault_add(l->faults, place, FAULT_ERROR, "bad_value", "%s: the value is too long", row->name);
			return ERR_OK;
		}
		if (i > 0)
			joined[len++] = ' ';
		memcpy(joined + len, word.at, word.len);
		len += word.len;
	}
	err = option_parse(row, (struct text){ joined, len }, &l->config->arena, l->options, reason);
	if (err == ERR_INVALID) {
		fault_add(l->faults, place, FAULT_ERROR, "bad_value", "%s: %s", row->name, reason);
		return ERR_OK;
	}
	return err;
}

static enum err on_pair(struct loader *l, const struct token_line *line)
{
	struct fault_place place = place_of(l, line->line, line->tokens[0].column);
	const struct option_row *row;
	struct pair pair;
	size_t nth;

	if (!split_pair(line, &pair)) {
		fault_add(l->faults, place, FAULT_ERROR, "bad_line", "expected key = value or a [section]");
		return ERR_OK;
	}
	if (l->rows == NULL) {
		if (!l->is_skipping)
			fault_add(l->faults, place, FAULT_ERROR, "no_section",
				  "a key before the first section; put [daemon], [sidecar] or [listener NAME] above it");
		return ERR_OK;
	}
	row = find_row(l->rows, l->row_count, pair.key);
	if (row == NULL) {
		refuse_key(l, pair.key, place);
		return ERR_OK;
	}
	nth = (size_t)(row - l->rows);
	if (l->lines[nth] != 0) {
		fault_add(l->faults, place, FAULT_ERROR, "duplicate_key", "%s was given before, on line %u", row->name,
			  l->lines[nth]);
		return ERR_OK;
	}
	l->lines[nth] = line->line;
	if (pair.value_count == 0) {
		fault_add(l->faults, place, FAULT_ERROR, "bad_value",
			  "%s has no value; leave the line out to have the default", row->name);
		return ERR_OK;
	}
	return set_value(l, row, &pair, line->line);
}

static enum err on_line(struct loader *l, const struct token_line *line)
{
	const struct token *first = &line->tokens[0];

	if (!first->quoted && first->text.len > 0 && first->text.at[0] == '[')
		return on_section(l, line);
	return on_pair(l, line);
}

static enum err keep_listeners(struct loader *l)
{
	size_t count = l->config->listener_count;
	struct listener_option *kept;

	if (count == 0)
		return ERR_OK;
	kept = arena_take_array(&l->config->arena, count, sizeof(*kept));
	if (kept == NULL)
		return ERR_NO_MEMORY;
	memcpy(kept, l->listeners, count * sizeof(*kept));
	l->config->listeners = kept;
	return ERR_OK;
}

static enum err read_all(struct loader *l, struct text text)
{
	struct config *c = l->config;
	struct tokens tokens;
	enum err err;

	err = option_set_defaults(text_of("daemon"), &c->arena, &c->daemon);
	if (err == ERR_OK)
		err = option_set_defaults(text_of("sidecar"), &c->arena, &c->sidecar);
	if (err == ERR_OK)
		err = option_set_defaults(text_of("serve"), &c->arena, &c->serve);
	if (err == ERR_OK)
		err = tokens_read(&c->arena, l->file, text, l->faults, &tokens);
	for (size_t i = 0; err == ERR_OK && i < tokens.line_count; i++)
		err = on_line(l, &tokens.lines[i]);
	if (err == ERR_OK)
		err = keep_listeners(l);
	if (err == ERR_OK)
		config_check(c, l->reader, l->file, &l->seen, l->faults);
	return err;
}

enum err config_parse(const char *file, struct text text, enum config_reader reader, struct fault_list *faults,
		      struct config **out_config)
{
	size_t errors_before = faults->error_count;
	struct config *c = alloc_zeroed(sizeof(*c));
	struct loader *l;
	enum err err = ERR_NO_MEMORY;

	if (c == NULL)
		return ERR_NO_MEMORY;
	refcount_init(&c->refs);
	arena_init(&c->arena, 0);
	l = alloc_zeroed(sizeof(*l));
	if (l == NULL)
		goto out;
	l->config = c;
	l->faults = faults;
	l->reader = reader;
	l->file = file;
	c->file = arena_text(&c->arena, file, strlen(file));
	if (c->file == NULL)
		goto out;
	err = read_all(l, text);
	if (err == ERR_OK && (faults->error_count > errors_before || faults->out_of_memory))
		err = faults->out_of_memory ? ERR_NO_MEMORY : ERR_INVALID;
out:
	alloc_free(l);
	if (err != ERR_OK) {
		config_unref(c);
		return err;
	}
	*out_config = c;
	return ERR_OK;
}

static enum err read_file(const char *path, struct buf *out_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	enum err err = ERR_SYSTEM;

	if (fd < 0)
		return ERR_SYSTEM;
	for (;;) {
		uint8_t *room = buf_reserve(out_bytes, 4096);
		ssize_t got;

		if (room == NULL) {
			err = buf_room(out_bytes) < 4096 ? ERR_LIMIT : ERR_NO_MEMORY;
			break;
		}
		got = read(fd, room, 4096);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			err = got == 0 ? ERR_OK : ERR_SYSTEM;
			break;
		}
		buf_commit(out_bytes, (size_t)got);
	}
	int kept = errno;

	close(fd);
	errno = kept;
	return err;
}

enum err config_load(const char *path, enum config_reader reader, struct fault_list *faults, struct config **out_config)
{
	struct buf bytes;
	enum err err;

	buf_init(&bytes, TOKENS_FILE_MAX + 8192);
	err = read_file(path, &bytes);
	if (err == ERR_OK)
		err = config_parse(path, (struct text){ (const char *)buf_data(&bytes), bytes.len }, reader, faults,
				   out_config);
	buf_finish(&bytes);
	return err;
}

struct config *config_ref(struct config *c)
{
	refcount_ref(&c->refs);
	return c;
}

void config_unref(struct config *c)
{
	if (c == NULL || !refcount_unref(&c->refs))
		return;
	arena_finish(&c->arena);
	alloc_free(c);
}

unsigned config_worker_count(const struct config *c)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);

	if (c->daemon.workers != 0)
		return (unsigned)c->daemon.workers;
	return online < 1 ? 1 : (online > 64 ? 64 : (unsigned)online);
}

const struct listener_option *config_listener(const struct config *c, struct text name)
{
	for (size_t i = 0; i < c->listener_count; i++)
		if (text_is(name, c->listeners[i].name))
			return &c->listeners[i];
	return NULL;
}
