# src/facts: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libfacts.a
libfacts_a_CPPFLAGS = $(AM_CPPFLAGS) $(MAXMINDDB_CFLAGS)
libfacts_a_SOURCES = \
	src/facts/addr_class.c src/facts/addr_class.h \
	src/facts/facts.h \
	src/facts/geoip.c src/facts/geoip.h \
	src/facts/own_addresses.c src/facts/own_addresses.h \
	src/facts/rule.c src/facts/rule.h \
	src/facts/special_names.c src/facts/special_names.h \
	src/facts/target.c src/facts/target.h
nodist_libfacts_a_SOURCES = src/facts/special_ranges.def src/facts/ech_public_names.def
EXTRA_DIST += src/facts/README.md src/facts/make_ranges.py $(ADDRESS_TABLES)

# The special-address table is made from the readable one. Tests read the readable one too, as their oracle.
ADDRESS_TABLES = \
	policy/addresses/README.md \
	policy/addresses/embedded.txt \
	policy/addresses/ipv4.txt \
	policy/addresses/ipv6.txt \
	policy/addresses/metadata.txt
BUILT_SOURCES += src/facts/special_ranges.def src/facts/ech_public_names.def
CLEANFILES += src/facts/special_ranges.def src/facts/ech_public_names.def
src/facts/ech_public_names.def: policy/ech_public_names
	$(AM_V_GEN)$(MKDIR_P) src/facts && \
		sed -n 's/^\([a-z0-9.-]*\)$$/ECH_PUBLIC_NAME("\1")/p' $(srcdir)/policy/ech_public_names | grep -v '""' >$@.new && mv $@.new $@
src/facts/libfacts_a-special_names.$(OBJEXT): src/facts/ech_public_names.def
src/facts/special_ranges.def: src/facts/make_ranges.py $(ADDRESS_TABLES)
	$(AM_V_GEN)$(MKDIR_P) src/facts && \
		$(PYTHON) $(srcdir)/src/facts/make_ranges.py $(srcdir)/policy/addresses $@
src/facts/libfacts_a-addr_class.$(OBJEXT): src/facts/special_ranges.def
