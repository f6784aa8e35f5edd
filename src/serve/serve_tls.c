/*
 * OpenSSL on sockets that are not blocking; see serve_tls.h. No tickets and no cache of sessions: each connection shows its certificate, so
 * that an authority that was taken off the list has no friends left. Called by serve_http.
 */
#include "serve/serve_tls.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

struct serve_tls {
	SSL_CTX *context; /* owned */
};

struct serve_tls_link {
	SSL *ssl; /* owned */
	bool is_over;
	bool is_through;     /* the handshake */
	const char *refusal; /* static text */
};

static enum err refuse(char out_reason[SERVE_TLS_REASON_MAX], const char *what, const char *path)
{
	unsigned long first = ERR_peek_error();
	const char *why = ERR_SYSTEM_ERROR(first) ? strerror(ERR_GET_REASON(first)) : ERR_reason_error_string(ERR_peek_last_error());

	snprintf(out_reason, SERVE_TLS_REASON_MAX, "%s %s: %s", what, path, why == NULL ? "it cannot be used" : why);
	ERR_clear_error();
	return ERR_INVALID;
}

static enum err set_files(SSL_CTX *c, const struct serve_tls_options *o, char out_reason[SERVE_TLS_REASON_MAX])
{
	STACK_OF(X509_NAME) * names;

	if (SSL_CTX_use_certificate_chain_file(c, o->certificate) != 1)
		return refuse(out_reason, "certificate", o->certificate);
	if (SSL_CTX_use_PrivateKey_file(c, o->key, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(c) != 1)
		return refuse(out_reason, "key", o->key);
	if (o->client_ca == NULL)
		return ERR_OK;
	names = SSL_load_client_CA_file(o->client_ca);
	if (names == NULL || SSL_CTX_load_verify_locations(c, o->client_ca, NULL) != 1) {
		sk_X509_NAME_pop_free(names, X509_NAME_free);
		return refuse(out_reason, "client_ca", o->client_ca);
	}
	SSL_CTX_set_client_CA_list(c, names);
	SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return ERR_OK;
}

enum err serve_tls_open(const struct serve_tls_options *options, char out_reason[SERVE_TLS_REASON_MAX], struct serve_tls **out_tls)
{
	struct serve_tls *t = alloc_zeroed(sizeof(*t));
	enum err e = ERR_NO_MEMORY;

	snprintf(out_reason, SERVE_TLS_REASON_MAX, "%s", err_text(e));
	if (t == NULL)
		return e;
	ERR_clear_error();
	t->context = SSL_CTX_new(TLS_server_method());
	if (t->context != NULL && SSL_CTX_set_min_proto_version(t->context, TLS1_2_VERSION) == 1) {
		SSL_CTX_set_options(t->context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
		SSL_CTX_set_session_cache_mode(t->context, SSL_SESS_CACHE_OFF);
		SSL_CTX_set_num_tickets(t->context, 0);
		SSL_CTX_set_mode(t->context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
		e = set_files(t->context, options, out_reason);
	}
	if (e != ERR_OK) {
		serve_tls_close(t);
		return e;
	}
	*out_tls = t;
	return ERR_OK;
}

void serve_tls_close(struct serve_tls *t)
{
	if (t == NULL)
		return;
	SSL_CTX_free(t->context);
	alloc_free(t);
}

enum err serve_tls_accept(struct serve_tls *t, int fd, struct serve_tls_link **out_link)
{
	struct serve_tls_link *l = alloc_zeroed(sizeof(*l));

	if (l == NULL)
		return ERR_NO_MEMORY;
	ERR_clear_error();
	l->ssl = SSL_new(t->context);
	if (l->ssl == NULL || SSL_set_fd(l->ssl, fd) != 1) {
		SSL_free(l->ssl);
		alloc_free(l);
		return ERR_NO_MEMORY;
	}
	SSL_set_accept_state(l->ssl);
	*out_link = l;
	return ERR_OK;
}

void serve_tls_end(struct serve_tls_link *l)
{
	if (l == NULL)
		return;
	ERR_clear_error();
	/* After a fatal error OpenSSL forbids it. */
	if (!l->is_over && SSL_is_init_finished(l->ssl))
		SSL_shutdown(l->ssl);
	SSL_free(l->ssl);
	ERR_clear_error();
	alloc_free(l);
}

/* Who knocks and goes was not refused. */
static const char *refusal_of(unsigned long error)
{
	return ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING ? NULL :
														     ERR_reason_error_string(error);
}

static enum serve_tls_step step_of(struct serve_tls_link *l, int result)
{
	int error = SSL_get_error(l->ssl, result);

	l->is_through = l->is_through || SSL_is_init_finished(l->ssl);
	switch (error) {
	case SSL_ERROR_WANT_READ:
		return SERVE_TLS_WANTS_READ;
	case SSL_ERROR_WANT_WRITE:
		return SERVE_TLS_WANTS_WRITE;
	case SSL_ERROR_ZERO_RETURN:
		return SERVE_TLS_OVER;
	default:
		l->is_over = true;
		if (!l->is_through)
			l->refusal = refusal_of(ERR_peek_last_error());
		ERR_clear_error();
		return SERVE_TLS_OVER;
	}
}

enum serve_tls_step serve_tls_read(struct serve_tls_link *l, void *out_bytes, size_t room, size_t *out_len)
{
	int got;

	ERR_clear_error();
	got = SSL_read(l->ssl, out_bytes, room > INT_MAX ? INT_MAX : (int)room);
	if (got <= 0)
		return step_of(l, got);
	l->is_through = true;
	*out_len = (size_t)got;
	return SERVE_TLS_MOVED;
}

enum serve_tls_step serve_tls_write(struct serve_tls_link *l, const void *bytes, size_t len, size_t *out_len)
{
	int put;

	ERR_clear_error();
	put = SSL_write(l->ssl, bytes, len > INT_MAX ? INT_MAX : (int)len);
	if (put <= 0)
		return step_of(l, put);
	*out_len = (size_t)put;
	return SERVE_TLS_MOVED;
}

const char *serve_tls_refusal(const struct serve_tls_link *l)
{
	return l->refusal;
}

static int common_name(const struct serve_tls_link *l, char *out_name, int room)
{
	X509 *peer = SSL_get0_peer_certificate(l->ssl);

	return peer == NULL ? -1 : X509_NAME_get_text_by_NID(X509_get_subject_name(peer), NID_commonName, out_name, room);
}

void serve_tls_peer(const struct serve_tls_link *l, char out_name[SERVE_TLS_NAME_MAX + 1])
{
	int len = common_name(l, out_name, SERVE_TLS_NAME_MAX + 1);

	out_name[len < 0 ? 0 : len] = '\0';
	for (char *c = out_name; *c != '\0'; c++)
		if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\')
			*c = '?';
}

static bool uri_names(const GENERAL_NAME *name, const char *cell)
{
	const ASN1_IA5STRING *uri = name->type == GEN_URI ? name->d.uniformResourceIdentifier : NULL;
	size_t cell_len = strlen(cell), len;
	const char *at;

	if (uri == NULL)
		return false;
	at = (const char *)ASN1_STRING_get0_data(uri);
	len = (size_t)ASN1_STRING_length(uri);
	return len > cell_len + 6 && memcmp(at + len - cell_len, cell, cell_len) == 0 && memcmp(at + len - cell_len - 6, "/cell/", 6) == 0;
}

bool serve_tls_names_cell(const struct serve_tls_link *l, const char *cell)
{
	X509 *peer = SSL_get0_peer_certificate(l->ssl);
	char name[SERVE_TLS_NAME_MAX + 2];
	GENERAL_NAMES *names;
	bool is_named;
	int len = common_name(l, name, sizeof(name));

	if (peer == NULL)
		return false;
	/* The length too: a zero byte inside ends no name. */
	if (len > 0 && (size_t)len == strlen(cell) && strcmp(name, cell) == 0)
		return true;
	names = X509_get_ext_d2i(peer, NID_subject_alt_name, NULL, NULL);
	is_named = false;
	for (int i = 0; names != NULL && i < sk_GENERAL_NAME_num(names) && !is_named; i++)
		is_named = uri_names(sk_GENERAL_NAME_value(names, i), cell);
	GENERAL_NAMES_free(names);
	return is_named;
}
