# src/config: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libconfig.a
libconfig_a_SOURCES = \
	src/config/daemon_options.def src/config/sidecar_options.def src/config/listener_options.def \
	src/config/serve_options.def \
	src/config/check.c src/config/check_internal.h \
	src/config/fault.c src/config/fault.h \
	src/config/load.c src/config/load.h \
	src/config/option.c src/config/option.h src/config/option_internal.h src/config/option_values.c \
	src/config/print.c \
	src/config/tokens.c src/config/tokens.h
EXTRA_DIST += src/config/README.md
