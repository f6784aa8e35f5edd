# Unit tests of src/authority; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_authority
TESTS += unit_authority
unit_authority_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS)
unit_authority_SOURCES = \
	tests/unit/authority/folder.h \
	tests/unit/authority/test_authority.c \
	tests/unit/authority/test_files.c \
	tests/unit/authority/test_keyring.c
unit_authority_LDADD = libauthority.a libcompiler.a libdocument.a libimage.a libconfig.a libdecision.a libfacts.a libbase.a \
	$(JANSSON_LIBS) $(PSL_LIBS) $(IDN2_LIBS) $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
