# src/control: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libcontrol.a
libcontrol_a_SOURCES =
