/* Prints a configuration so that config_parse reads it back; compares two. See load.h. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "config/load.h"
#include "config/tokens.h"

static enum err append(struct buf *out, const char *text)
{
	return buf_append(out, text, strlen(text));
}

static bool needs_quotes(const char *value)
{
	return value[strcspn(value, " \t#\"\\")] != '\0';
}

static enum err append_value(struct buf *out, const char *value)
{
	enum err err;

	if (!needs_quotes(value))
		return append(out, value);
	err = append(out, "\"");
	for (; err == ERR_OK && *value != '\0'; value++) {
		if (*value == '"' || *value == '\\')
			err = append(out, "\\");
		if (err == ERR_OK)
			err = buf_append(out, value, 1);
	}
	return err == ERR_OK ? append(out, "\"") : err;
}

/* One section's lines for what is not the default. */
static enum err print_section(struct buf *out, const char *section, const char *name, const void *options,
			      const void *defaults)
{
	char value[OPTION_VALUE_MAX];
	size_t count;
	const struct option_row *rows = option_table(text_of(section), &count);
	enum err err = append(out, "[");

	if (err == ERR_OK)
		err = append(out, section);
	if (err == ERR_OK && name != NULL)
		err = append(out, " ");
	if (err == ERR_OK && name != NULL)
		err = append(out, name);
	if (err == ERR_OK)
		err = append(out, "]\n");
	for (size_t i = 0; err == ERR_OK && i < count; i++) {
		if (option_is_equal(&rows[i], options, defaults))
			continue;
		if (option_print(&rows[i], options, value) == 0)
			snprintf(value, sizeof(value), "%s", option_is_list(&rows[i]) ? "off" : "none");
		err = append(out, rows[i].name);
		if (err == ERR_OK)
			err = append(out, " = ");
		if (err == ERR_OK)
			err = append_value(out, value);
		if (err == ERR_OK)
			err = append(out, "\n");
	}
	return err;
}

/* Fresh defaults beside each section, so that a default is recognised by value. */
static enum err print_all(const struct config *c, bool with_sidecar, struct arena *arena, struct buf *out)
{
	struct daemon_options daemon = { 0 };
	struct sidecar_options sidecar = { 0 };
	struct listener_option listener = { 0 };
	enum err err = option_set_defaults(text_of("daemon"), arena, &daemon);

	if (err == ERR_OK)
		err = option_set_defaults(text_of("sidecar"), arena, &sidecar);
	if (err == ERR_OK)
		err = option_set_defaults(text_of("listener"), arena, &listener);
	if (err == ERR_OK)
		err = print_section(out, "daemon", NULL, &c->daemon, &daemon);
	if (err == ERR_OK && with_sidecar)
		err = print_section(out, "sidecar", NULL, &c->sidecar, &sidecar);
	for (size_t i = 0; err == ERR_OK && i < c->listener_count; i++)
		err = print_section(out, "listener", c->listeners[i].name, &c->listeners[i], &listener);
	return err;
}

enum err config_print(const struct config *c, bool with_sidecar, char **out_text)
{
	struct arena arena;
	struct buf out;
	char *text;
	enum err err;

	arena_init(&arena, 0);
	buf_init(&out, TOKENS_FILE_MAX);
	err = print_all(c, with_sidecar, &arena, &out);
	if (err == ERR_OK) {
		text = alloc_copy(buf_data(&out), out.len);
		if (text == NULL)
			err = ERR_NO_MEMORY;
		else
			*out_text = text;
	}
	buf_finish(&out);
	arena_finish(&arena);
	return err;
}

void config_compare_daemon(const struct config *before, const struct config *after, config_change_fn *change, void *arg)
{
	size_t count;
	const struct option_row *rows = option_table(text_of("daemon"), &count);

	for (size_t i = 0; i < count; i++)
		if (!option_is_equal(&rows[i], &before->daemon, &after->daemon))
			change(arg, &rows[i]);
}
