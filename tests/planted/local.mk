# Programs with planted faults: proof that the harness can fail. They are built but not themselves in TESTS.
EXTRA_DIST += tests/planted/check.sh tests/planted/bounds
# One of tests/planted/bounds as a sample: the daemon without its look at refuse_at. Built by the system test that runs it.
EXTRA_PROGRAMS += egressd_planted
nodist_egressd_planted_SOURCES = tests/planted/gate.c
egressd_planted_LDADD = $(egressd_OBJECTS) $(egressd_LDADD)
tests/planted/gate.c: $(srcdir)/src/lease/gate.c $(srcdir)/tests/planted/bounds/refuse_at.patch
	@mkdir -p tests/planted
	$(AM_V_GEN)patch -s -o $@ $(srcdir)/src/lease/gate.c $(srcdir)/tests/planted/bounds/refuse_at.patch
CLEANFILES += tests/planted/gate.c egressd_planted
if ASAN
if HAVE_CRITERION
check_PROGRAMS += planted_leak planted_overflow planted_sandboxed planted_undefined
TESTS += tests/planted/check.sh
planted_leak_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS)
planted_leak_SOURCES = tests/planted/planted_leak.c
planted_leak_LDADD = libbase.a $(CRITERION_LIBS)
planted_overflow_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS)
planted_overflow_SOURCES = tests/planted/planted_overflow.c
planted_overflow_LDADD = libbase.a $(CRITERION_LIBS)
planted_sandboxed_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS)
planted_sandboxed_SOURCES = tests/planted/planted_sandboxed.c
planted_sandboxed_LDADD = libsandbox.a libbase.a $(CRYPTO_LIBS) $(SECCOMP_LIBS) $(CRITERION_LIBS)
planted_undefined_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS)
planted_undefined_SOURCES = tests/planted/planted_undefined.c
planted_undefined_LDADD = $(CRITERION_LIBS)
endif
endif
