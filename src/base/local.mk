# src/base: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libbase.a
libbase_a_CPPFLAGS = $(AM_CPPFLAGS) $(CRYPTO_CFLAGS)
libbase_a_SOURCES = \
	src/base/addr.c src/base/addr.h \
	src/base/alloc.c src/base/alloc.h \
	src/base/arena.c src/base/arena.h \
	src/base/attr.h \
	src/base/buf.c src/base/buf.h \
	src/base/clock.c src/base/clock.h \
	src/base/crypto.c src/base/crypto.h \
	src/base/cursor.c src/base/cursor.h \
	src/base/dname.c src/base/dname.h \
	src/base/err.c src/base/err.h \
	src/base/hash.c src/base/hash.h \
	src/base/htab.c src/base/htab.h \
	src/base/list.h \
	src/base/log.c src/base/log.h \
	src/base/pool.c src/base/pool.h \
	src/base/refcount.h \
	src/base/scheme.h \
	src/base/sink.c src/base/sink.h \
	src/base/text.c src/base/text.h \
	src/base/trie.c src/base/trie.h
EXTRA_DIST += src/base/README.md
