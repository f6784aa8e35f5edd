# src/authority: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libauthority.a
libauthority_a_SOURCES = \
	src/authority/authority.c src/authority/authority.h src/authority/authority_internal.h src/authority/authority_lease.c \
	src/authority/files.c src/authority/files.h \
	src/authority/keyring.c src/authority/keyring.h src/authority/keyring_internal.h src/authority/keyring_sign.c
EXTRA_DIST += src/authority/README.md
