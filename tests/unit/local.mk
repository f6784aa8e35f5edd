# Unit tests: one Criterion program per folder of src, in tests/unit/<folder>/local.mk, which looks like this:
#
#   if HAVE_CRITERION
#   check_PROGRAMS += unit_hash
#   TESTS += unit_hash
#   unit_hash_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS)
#   unit_hash_SOURCES = \
#   	tests/unit/hash/test_first.c \
#   	tests/unit/hash/test_second.c
#   unit_hash_LDADD = libhash.a libbase.a $(CRYPTO_LIBS) $(CRITERION_LIBS)
#   EXTRA_DIST += tests/unit/hash/some_input.txt
#   endif
#
# LDADD names only the libraries that the folder may use, highest first. The names that start with unit_, table_ or
# scenario_ are run as Criterion programs (tests/under_sanitizers): their tests are counted, a program without tests
# fails, and so does any sanitizer report, also one that comes after a test has passed (leaks do).
# Input files are found through the environment: EGRESS_SRCDIR is the top of the source tree.
include tests/unit/base/local.mk
include tests/unit/facts/local.mk
include tests/unit/decision/local.mk
include tests/unit/wire/local.mk
include tests/unit/metrics/local.mk
include tests/unit/config/local.mk
include tests/unit/sandbox/local.mk
include tests/unit/image/local.mk
include tests/unit/lease/local.mk
include tests/unit/policy/local.mk
include tests/unit/judge/local.mk
include tests/unit/document/local.mk
include tests/unit/compiler/local.mk
include tests/unit/net/local.mk
include tests/unit/proxy/local.mk
include tests/unit/control/local.mk
include tests/unit/authority/local.mk
include tests/unit/daemon/local.mk
include tests/unit/store/local.mk
include tests/unit/source/local.mk
include tests/unit/delivery/local.mk
include tests/unit/serve/local.mk
include tests/unit/sidecar/local.mk
include tests/unit/cli/local.mk
