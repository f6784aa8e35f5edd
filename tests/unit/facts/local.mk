# Unit tests of src/facts; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_facts
TESTS += unit_facts
unit_facts_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS) -I$(srcdir)/tests/unit/facts
unit_facts_SOURCES = \
	tests/unit/facts/test_addr_class.c \
	tests/unit/facts/test_geoip.c \
	tests/unit/facts/test_own_addresses.c \
	tests/unit/facts/test_rule.c \
	tests/unit/facts/test_special_names.c \
	tests/unit/facts/test_target.c \
	tests/unit/facts/texts.h
unit_facts_LDADD = libfacts.a libbase.a $(MAXMINDDB_LIBS) $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
EXTRA_DIST += tests/unit/facts/make_mmdb.py

# Databases for test_geoip.c.
check_DATA += tests/unit/facts/country.mmdb tests/unit/facts/asn.mmdb
CLEANFILES += tests/unit/facts/country.mmdb tests/unit/facts/asn.mmdb
tests/unit/facts/country.mmdb: tests/unit/facts/make_mmdb.py
	$(AM_V_GEN)$(MKDIR_P) tests/unit/facts && $(PYTHON) $(srcdir)/tests/unit/facts/make_mmdb.py country $@
tests/unit/facts/asn.mmdb: tests/unit/facts/make_mmdb.py
	$(AM_V_GEN)$(MKDIR_P) tests/unit/facts && $(PYTHON) $(srcdir)/tests/unit/facts/make_mmdb.py asn $@
