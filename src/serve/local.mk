# src/serve: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libserve.a
libserve_a_CPPFLAGS = $(AM_CPPFLAGS) $(SSL_CFLAGS)
libserve_a_SOURCES = \
	src/serve/serve.c src/serve/serve.h \
	src/serve/serve_cell.c src/serve/serve_cell.h \
	src/serve/serve_client.c \
	src/serve/serve_edition.c \
	src/serve/serve_etcd.c src/serve/serve_etcd.h \
	src/serve/serve_feed.c src/serve/serve_feed.h \
	src/serve/serve_http.c src/serve/serve_http.h \
	src/serve/serve_http_internal.h \
	src/serve/serve_plan.c src/serve/serve_plan.h \
	src/serve/serve_reports.c src/serve/serve_reports.h \
	src/serve/serve_request.c \
	src/serve/serve_shelf.c src/serve/serve_shelf.h \
	src/serve/serve_target.c src/serve/serve_target.h \
	src/serve/serve_tls.c src/serve/serve_tls.h
EXTRA_DIST += src/serve/README.md
