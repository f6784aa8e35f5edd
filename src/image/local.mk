# src/image: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libimage.a
libimage_a_SOURCES =
