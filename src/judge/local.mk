# src/judge: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libjudge.a
libjudge_a_SOURCES = \
	src/judge/judge.c src/judge/judge.h \
	src/judge/refusal.c src/judge/refusal.h
EXTRA_DIST += src/judge/README.md
