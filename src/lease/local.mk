# src/lease: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += liblease.a
liblease_a_SOURCES = \
	src/lease/gate.c src/lease/gate.h \
	src/lease/lease.h \
	src/lease/lease_table.c src/lease/lease_table.h \
	src/lease/lease_token.c src/lease/lease_token.h \
	src/lease/ways.c src/lease/ways.h
EXTRA_DIST += src/lease/README.md
