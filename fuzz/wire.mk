# Fuzz targets of src/wire (and the names they all carry); the pattern is in fuzz/local.mk.
FUZZ_TARGETS += \
	fuzz_socks5 \
	fuzz_tls_hello \
	fuzz_dns_query \
	fuzz_dns_answer \
	fuzz_dname \
	fuzz_sniff \
	fuzz_ctl_msg \
	fuzz_http1 \
	fuzz_http1_body \
	fuzz_url
fuzz_socks5_SOURCES = fuzz/fuzz_socks5.c fuzz/require.h
fuzz_socks5_LDADD = libwire.a libbase.a $(CRYPTO_LIBS) $(FUZZ_LIBS)
fuzz_tls_hello_SOURCES = fuzz/fuzz_tls_hello.c fuzz/require.h
fuzz_tls_hello_LDADD = libwire.a libbase.a $(CRYPTO_LIBS) $(FUZZ_LIBS)
fuzz_dns_query_SOURCES = fuzz/fuzz_dns_query.c fuzz/require.h
fuzz_dns_query_LDADD = libwire.a libbase.a $(CRYPTO_LIBS) $(FUZZ_LIBS)
fuzz_dns_answer_SOURCES = fuzz/fuzz_dns_answer.c fuzz/require.h
fuzz_dns_answer_LDADD = libwire.a libbase.a $(CRYPTO_LIBS) $(FUZZ_LIBS)
fuzz_dname_SOURCES = fuzz/fuzz_dname.c fuzz/require.h
fuzz_dname_LDADD = libbase.a $(CRYPTO_LIBS) $(FUZZ_LIBS)
fuzz_sniff_SOURCES = fuzz/fuzz_sniff.c fuzz/require.h
fuzz_sniff_LDADD = libwire.a libbase.a $(CRYPTO_LIBS) $(FUZZ_LIBS)
fuzz_ctl_msg_SOURCES = fuzz/fuzz_ctl_msg.c fuzz/require.h
fuzz_ctl_msg_LDADD = libwire.a libbase.a $(CRYPTO_LIBS) $(FUZZ_LIBS)
fuzz_http1_SOURCES = fuzz/fuzz_http1.c fuzz/require.h
fuzz_http1_LDADD = libwire.a libbase.a $(CRYPTO_LIBS) $(FUZZ_LIBS)
fuzz_http1_body_SOURCES = fuzz/fuzz_http1_body.c fuzz/require.h
fuzz_http1_body_LDADD = libwire.a libbase.a $(CRYPTO_LIBS) $(FUZZ_LIBS)
fuzz_url_SOURCES = fuzz/fuzz_url.c fuzz/require.h
fuzz_url_LDADD = libwire.a libbase.a $(CRYPTO_LIBS) $(FUZZ_LIBS)
