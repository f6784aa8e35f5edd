# Programs with threads and a main of their own, for ThreadSanitizer: configure with --enable-sanitizers=thread and run
# make check TESTS='tsan_loop'. In other builds they check their counts only.
check_PROGRAMS += tsan_loop
TESTS += tsan_loop
tsan_loop_SOURCES = tests/tsan/tsan_loop.c
tsan_loop_LDADD = libnet.a libmetrics.a libwire.a libfacts.a libdecision.a libbase.a \
	$(EVENT_LIBS) $(CARES_LIBS) $(CRYPTO_LIBS)
