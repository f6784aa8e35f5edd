# Unit tests of src/proxy; the pattern is in tests/unit/local.mk. The flow itself is tested by scenarios and on real processes.
if HAVE_CRITERION
check_PROGRAMS += unit_proxy
TESTS += unit_proxy
unit_proxy_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS)
unit_proxy_SOURCES = \
	tests/unit/proxy/test_bucket.c \
	tests/unit/proxy/test_dns_budget.c \
	tests/unit/proxy/test_limits.c \
	tests/unit/proxy/test_recent.c
unit_proxy_LDADD = libproxy.a libbase.a $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
