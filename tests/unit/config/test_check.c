#include <criterion/criterion.h>
#include <string.h>

#include "config/load.h"

#define TAIL "\n[listener m]\nbind = tcp:127.0.0.1:1080\n"

struct fixture {
	struct arena arena;
	struct fault_list faults;
	struct config *config;
	enum err err;
};

static void parse(struct fixture *f, const char *text, enum config_reader reader)
{
	arena_init(&f->arena, 0);
	fault_list_init(&f->faults, &f->arena);
	f->config = NULL;
	f->err = config_parse("egressd.conf", text_of(text), reader, &f->faults, &f->config);
}

static void finish(struct fixture *f)
{
	config_unref(f->config);
	arena_finish(&f->arena);
}

Test(check, what_does_not_fit_together_is_told_at_its_line)
{
	static const struct {
		const char *text;
		uint32_t line, column;
		const char *code, *says;
	} rows[] = {
		{ "[listener x]\nbacklog = 1" TAIL, 1, 1, "missing_key", "no bind" },
		{ "[daemon]", 0, 0, "no_listener", "add a [listener NAME]" },
		{ "[listener x]\nbind = tcp:0.0.0.0:1080" TAIL, 3, 1, "bind_collision", "x and m" },
		{ "[listener x]\nbind = tcp:[::]:1000-2000" TAIL, 3, 1, "bind_collision", "x and m" },
		{ "[listener x]\nbind = unix:/run/egressd/control.sock" TAIL, 1, 1, "bind_collision", "control socket" },
		{ "[daemon]\ncut_after_s = 5" TAIL, 2, 1, "deadline_order", "refuse_after_s" },
		{ "[daemon]\n\nrefuse_after_s = 60" TAIL, 1, 1, "deadline_order", "cut_after_s (30)" },
		{ "[daemon]\ndns_try_ms = 6000" TAIL, 2, 1, "deadline_order", "dns_total_ms" },
		{ "[daemon]\nadmin = tcp:127.0.0.1:9" TAIL, 2, 1, "admin_exposed", "listener m" },
		{ "[daemon]\nadmin = tcp:0.0.0.0:9" TAIL, 2, 1, "admin_exposed", "listener m" },
		{ "[daemon]\nadmin = tcp:10.1.1.1:9\nguest_networks = 10.0.0.0/8" TAIL, 2, 1, "admin_exposed", "guest_networks" },
		{ "[daemon]\nadmin = tcp:[::]:9\nguest_networks = 10.0.0.0/8\n[listener u]\nbind = unix:/run/u", 2, 1, "admin_exposed", "guest_networks" },
		{ "[daemon]\ncontrol = /0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345/s" TAIL,
		  2, 1, "bad_value", "107 bytes" },
		{ "[daemon]\nadmin = tcp:10.1.1.1:9-10" TAIL, 2, 1, "bad_value", "one socket" },
		{ "[daemon]\nadmin = unix:/run/egressd/control.sock" TAIL, 2, 1, "bind_collision", "control" },
		{ "[sidecar]\ntrust = local" TAIL, 1, 1, "missing_key", "needs source" },
		{ "[sidecar]\nsource = etcd://a:1\ntrust = local" TAIL, 3, 1, "bad_value", "must be signed" },
		{ "[sidecar]\nsource = file:/x\ntrust = local\ntls_key = /k" TAIL, 1, 1, "missing_key", "tls_certificate" },
		{ "[sidecar]\nsource = file:/x\ntrust = local\nreports = https://c" TAIL, 1, 1, "missing_key", "proxy" },
		{ "[sidecar]\nsource = file:/x\ntrust = local\nproxy = p\nreports = http://c" TAIL, 5, 1, "bad_value", "https://" },
		{ "[sidecar]\nsource = file:/x\ntrust = local\ndecisions = https://c" TAIL, 1, 1, "missing_key", "proxy" },
		{ "[sidecar]\nsource = file:/x\ntrust = local\nproxy = p\ndecisions = http://c" TAIL, 5, 1, "bad_value", "https://" },
		{ "[daemon]\naudit = required\n[sidecar]\nsource = file:/x\ntrust = local" TAIL, 2, 1, "missing_key", "decisions" },
		{ "[sidecar]\nsource = file:/x\ntrust = local\netcd_user = u" TAIL, 1, 1, "missing_key", "etcd_password" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture f;

		parse(&f, rows[i].text, CONFIG_FOR_DAEMON);
		cr_assert_eq(f.err, ERR_INVALID, "row %zu: %s", i, rows[i].text);
		cr_assert_eq(f.faults.error_count, 1, "row %zu: %s: %zu", i, rows[i].text, f.faults.error_count);
		cr_assert_str_eq(f.faults.first->code, rows[i].code, "row %zu", i);
		cr_assert_not_null(strstr(f.faults.first->text, rows[i].says), "row %zu: %s", i, f.faults.first->text);
		cr_assert_eq(f.faults.first->place.line, rows[i].line, "row %zu: line %u", i, f.faults.first->place.line);
		cr_assert_eq(f.faults.first->place.column, rows[i].column, "row %zu: column %u", i, f.faults.first->place.column);
		finish(&f);
	}
}

Test(check, what_fits_together_is_accepted)
{
	static const char *const rows[] = {
		"[daemon]\nadmin = tcp:127.0.0.2:9\nguest_networks = 10.0.0.0/8" TAIL,
		"[daemon]\nadmin = unix:/run/admin.sock" TAIL,
		"[daemon]\ncut_after_s = 10\nrefuse_after_s = 10" TAIL,
		"[listener x]\nbind = tcp:127.0.0.1:1081" TAIL,
		"[listener x]\nbind = tcp:127.0.0.2:1080" TAIL,
		"[listener x]\nbind = tcp:[::1]:1080" TAIL,
		"[sidecar]\nsource = file:/x\ntrust = local" TAIL,
		"[sidecar]\nsource = https://c.example\ncell = c\nkeys = /k\nceiling = /c" TAIL,
		/* A name in records, and nothing more. */
		"[sidecar]\nsource = file:/x\ntrust = local\nproxy = p" TAIL,
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture f;

		parse(&f, rows[i], CONFIG_FOR_DAEMON);
		cr_assert_eq(f.err, ERR_OK, "%s: %s", rows[i], f.faults.first == NULL ? "" : f.faults.first->text);
		finish(&f);
	}
}

Test(check, who_serves_stands_alone_and_says_what_to_whom)
{
	static const struct {
		const char *text, *code, *says;
	} rows[] = {
		{ "[serve]\nfolder = /f\netcd = etcd://a:1" TAIL, "serve_alone", "a file of its own" },
		{ "[sidecar]\nsource = file:/x\ntrust = local\n[serve]\nfolder = /f\netcd = etcd://a:1", "serve_alone", "feeds no daemon" },
		{ "[serve]\netcd = etcd://a:1", "missing_key", "needs folder" },
		{ "[serve]\nfolder = /f", "missing_key", "https" },
		{ "[serve]\nfolder = /f\nhttps = tcp:127.0.0.1:1\nkey = /k", "missing_key", "certificate" },
		{ "[serve]\nfolder = /f\nhttps = tcp:127.0.0.1:1-2\nkey = /k\ncertificate = /c", "bad_value", "one address" },
		{ "[serve]\nfolder = /f\nhttps = unix:/run/x\nkey = /k\ncertificate = /c", "bad_value", "one address" },
		{ "[serve]\nfolder = /f\netcd = etcd://a:1\nclient_cells = named", "missing_key", "client_ca" },
		{ "[serve]\nfolder = /f\netcd = file:/x", "bad_value", "etcd://" },
		{ "[serve]\nfolder = /f\netcd = etcd://a:1\ntls_key = /k", "missing_key", "tls_certificate" },
		{ "[serve]\nfolder = /f\netcd = etcd://a:1\netcd_password = /k", "missing_key", "etcd_user" },
	};
	struct fixture f;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		parse(&f, rows[i].text, CONFIG_FOR_SIDECAR);
		cr_assert_eq(f.faults.error_count, 1, "row %zu: %zu", i, f.faults.error_count);
		cr_assert_str_eq(f.faults.first->code, rows[i].code, "row %zu", i);
		cr_assert_not_null(strstr(f.faults.first->text, rows[i].says), "row %zu: %s", i, f.faults.first->text);
		finish(&f);
	}
	parse(&f, "[serve]\nfolder = /f\nhttps = tcp:127.0.0.1:1\nkey = /k\ncertificate = /c", CONFIG_FOR_SIDECAR);
	cr_assert_eq(f.err, ERR_OK);
	cr_assert(f.config->has_serve);
	finish(&f);
	parse(&f, "[serve]\nfolder = /f\netcd = etcd://a:1", CONFIG_FOR_DAEMON);
	cr_assert_str_eq(f.faults.first->code, "serve_alone");
	finish(&f);
}

Test(check, signed_documents_need_a_cell_keys_and_a_ceiling)
{
	struct fixture f;

	parse(&f, "[sidecar]\nsource = etcd://a:1" TAIL, CONFIG_FOR_DAEMON);
	cr_assert_eq(f.faults.error_count, 3);
	finish(&f);
}
