# Unit tests of src/wire; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_wire
TESTS += unit_wire
unit_wire_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS)
unit_wire_SOURCES = \
	tests/unit/wire/answer_build.c tests/unit/wire/answer_build.h \
	tests/unit/wire/hello_build.c tests/unit/wire/hello_build.h \
	tests/unit/wire/hellos_recorded.h \
	tests/unit/wire/hex.h \
	tests/unit/wire/test_ctl_msg.c \
	tests/unit/wire/test_dns_answer.c \
	tests/unit/wire/test_dns_query.c \
	tests/unit/wire/test_http1.c \
	tests/unit/wire/test_http1_body.c \
	tests/unit/wire/test_sniff.c \
	tests/unit/wire/test_socks5.c \
	tests/unit/wire/test_ssh_words.c \
	tests/unit/wire/test_tls_hello.c \
	tests/unit/wire/test_url.c
unit_wire_LDADD = libwire.a libbase.a $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
