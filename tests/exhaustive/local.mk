# The address classifier against the readable table. `make check` walks a sample and every boundary; `make
# check-exhaustive` walks all of IPv4 (minutes; configure without sanitizers for it).
check_PROGRAMS += exhaustive_addresses
TESTS += exhaustive_addresses
exhaustive_addresses_SOURCES = tests/exhaustive/exhaustive_addresses.c
exhaustive_addresses_LDADD = libfacts.a libbase.a $(MAXMINDDB_LIBS) $(CRYPTO_LIBS)
EXTRA_DIST += tests/exhaustive/README.md

.PHONY: check-exhaustive
check-exhaustive: exhaustive_addresses
	EGRESS_SRCDIR='$(abs_top_srcdir)' ./exhaustive_addresses --all
