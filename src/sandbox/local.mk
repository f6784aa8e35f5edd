# src/sandbox: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libsandbox.a
libsandbox_a_CPPFLAGS = $(AM_CPPFLAGS) $(SECCOMP_CFLAGS)
libsandbox_a_SOURCES = \
	src/sandbox/landlock.c \
	src/sandbox/privdrop.c \
	src/sandbox/roles.def \
	src/sandbox/sandbox.c src/sandbox/sandbox.h \
	src/sandbox/sandbox_internal.h \
	src/sandbox/sanitized.c \
	src/sandbox/seccomp.c
EXTRA_DIST += src/sandbox/README.md
