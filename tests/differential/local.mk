# Our readers of HTTP/1 and of URLs beside others'; see README.md.
check_PROGRAMS += tests/differential/read_http1 tests/differential/read_url
tests_differential_read_http1_SOURCES = tests/differential/read_http1.c
tests_differential_read_http1_LDADD = libwire.a libbase.a $(CRYPTO_LIBS)
tests_differential_read_url_SOURCES = tests/differential/read_url.c
tests_differential_read_url_LDADD = libwire.a libbase.a $(CRYPTO_LIBS)
TESTS += tests/differential/test_http1.py tests/differential/test_url.py
EXTRA_DIST += tests/differential/README.md tests/differential/generate.py tests/differential/read_h11.py tests/differential/read_node.js \
	tests/differential/read_url.js tests/differential/test_http1.py tests/differential/test_url.py
