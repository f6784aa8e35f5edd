# Tables of expected decisions: beside each policy, leases and presets of policy/ and of tests/tables/roots/ alike.
if HAVE_CRITERION
check_PROGRAMS += table_policy
TESTS += table_policy
table_policy_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir) $(CRITERION_CFLAGS)
table_policy_SOURCES = \
	tests/tables/decide.c tests/tables/decide.h \
	tests/tables/test_policy.c
table_policy_LDADD = libjudge.a libpolicy.a liblease.a libcompiler.a libimage.a libdocument.a libconfig.a libdecision.a \
	libfacts.a libbase.a $(MAXMINDDB_LIBS) $(PSL_LIBS) $(IDN2_LIBS) $(JANSSON_LIBS) $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
EXTRA_DIST += tests/tables/README.md tests/tables/roots
check_PROGRAMS += document_verdict
document_verdict_SOURCES = tests/tables/document_verdict.c
document_verdict_LDADD = libdocument.a libbase.a $(JANSSON_LIBS) $(CRYPTO_LIBS)
TESTS += tests/tables/check_schema.py
EXTRA_DIST += tests/tables/check_schema.py
