# Our HTTP/1 reader beside Node's and h11's; see README.md.
check_PROGRAMS += tests/differential/read_http1
tests_differential_read_http1_SOURCES = tests/differential/read_http1.c
tests_differential_read_http1_LDADD = libwire.a libbase.a $(CRYPTO_LIBS)
TESTS += tests/differential/test_http1.py
EXTRA_DIST += tests/differential/README.md tests/differential/generate.py tests/differential/read_h11.py tests/differential/read_node.js \
	tests/differential/test_http1.py
