# src/decision: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libdecision.a
libdecision_a_SOURCES = \
	src/decision/permit.h \
	src/decision/reason.c src/decision/reason.h src/decision/reason.def \
	src/decision/record.c src/decision/record.h src/decision/record_internal.h \
	src/decision/record_json.c src/decision/record_json.h \
	src/decision/verdict.h
EXTRA_DIST += src/decision/README.md
