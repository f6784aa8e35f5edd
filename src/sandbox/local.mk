# src/sandbox: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libsandbox.a
libsandbox_a_SOURCES =
