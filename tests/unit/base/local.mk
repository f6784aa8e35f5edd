# Unit tests of src/base; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_base
TESTS += unit_base
unit_base_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS)
unit_base_SOURCES = \
	tests/unit/base/test_addr.c \
	tests/unit/base/test_alloc.c \
	tests/unit/base/test_arena.c \
	tests/unit/base/test_buf.c \
	tests/unit/base/test_clock.c \
	tests/unit/base/test_crypto.c \
	tests/unit/base/test_cursor.c \
	tests/unit/base/test_dname.c \
	tests/unit/base/test_err.c \
	tests/unit/base/test_hash.c \
	tests/unit/base/test_headers.c \
	tests/unit/base/test_htab.c \
	tests/unit/base/test_log.c \
	tests/unit/base/test_pool.c \
	tests/unit/base/test_sink.c \
	tests/unit/base/test_text.c \
	tests/unit/base/test_trie.c
unit_base_LDADD = libbase.a $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
