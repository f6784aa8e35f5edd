# src/policy: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libpolicy.a
libpolicy_a_SOURCES = \
	src/policy/label_index.c src/policy/label_index.h \
	src/policy/match.c src/policy/match.h \
	src/policy/prefix_index.c src/policy/prefix_index.h \
	src/policy/trace.c src/policy/trace.h
EXTRA_DIST += src/policy/README.md
