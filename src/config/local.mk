# src/config: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libconfig.a
libconfig_a_SOURCES = \
	src/config/daemon_options.def src/config/sidecar_options.def src/config/listener_options.def \
	src/config/fault.h src/config/load.h src/config/option.h src/config/tokens.h
EXTRA_DIST += src/config/README.md
