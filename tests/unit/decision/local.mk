# Unit tests of src/decision; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_decision
TESTS += unit_decision
unit_decision_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS) -I$(srcdir)/tests/unit/decision
unit_decision_SOURCES = \
	tests/unit/decision/samples.h \
	tests/unit/decision/test_reason.c \
	tests/unit/decision/test_record.c \
	tests/unit/decision/test_record_json.c
unit_decision_LDADD = libdecision.a libfacts.a libbase.a $(MAXMINDDB_LIBS) $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif

# The lines against the schema that others read.
check_PROGRAMS += write_records
write_records_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/unit/decision
write_records_SOURCES = tests/unit/decision/samples.h tests/unit/decision/write_records.c
write_records_LDADD = libdecision.a libfacts.a libbase.a $(MAXMINDDB_LIBS) $(CRYPTO_LIBS)
TESTS += tests/unit/decision/records_match_schema
EXTRA_DIST += \
	policy/schema/record.schema.json \
	tests/unit/decision/match_schema.py \
	tests/unit/decision/records_match_schema
