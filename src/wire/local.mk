# src/wire: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libwire.a
libwire_a_SOURCES = \
	src/wire/ctl_msg.c src/wire/ctl_msg.def src/wire/ctl_msg.h \
	src/wire/dns_answer.c src/wire/dns_answer.h \
	src/wire/dns_query.c src/wire/dns_query.h \
	src/wire/http1.c src/wire/http1.h \
	src/wire/http1_body.c src/wire/http1_body.h \
	src/wire/sniff.c src/wire/sniff.h \
	src/wire/socks5.c src/wire/socks5.h \
	src/wire/ssh_words.c src/wire/ssh_words.h \
	src/wire/tls_hello.c src/wire/tls_hello.h \
	src/wire/url.c src/wire/url.h
EXTRA_DIST += src/wire/README.md
