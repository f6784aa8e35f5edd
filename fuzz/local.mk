# fuzz: one program per hostile input; without --enable-fuzz they replay their corpora in make check.
#
# To add the target `thing` of src/folder:
#   1. fuzz/fuzz_thing.c with LLVMFuzzerTestOneInput and invariants that trap (a crash alone finds too little);
#   2. seeds, at least one, in fuzz/corpus/thing/, and if it helps a dictionary fuzz/dict/thing.dict;
#   3. three lines in fuzz/folder.mk:
#        FUZZ_TARGETS += fuzz_thing
#        fuzz_thing_SOURCES = fuzz/fuzz_thing.c
#        fuzz_thing_LDADD = libfolder.a libbase.a $(CRYPTO_LIBS) $(FUZZ_LIBS)
#
# To fuzz: fuzz/run thing (README.md). With or without the fuzzer, make check runs every seed once and fails where a
# target has none.
FUZZ_TARGETS =
check_PROGRAMS += $(FUZZ_TARGETS)
TESTS += $(FUZZ_TARGETS) fuzz/mutants/apply.sh
EXTRA_DIST += fuzz/README.md fuzz/corpus fuzz/coverage fuzz/dict fuzz/mutants fuzz/run fuzz/seeds

if FUZZING
FUZZ_LIBS = $(FUZZ_LDFLAGS)
else
check_LIBRARIES = libreplay.a
libreplay_a_SOURCES = fuzz/replay.c
TESTS += fuzz/seeds/seeds.py
FUZZ_LIBS = libreplay.a
endif

include fuzz/base.mk
include fuzz/facts.mk
include fuzz/decision.mk
include fuzz/wire.mk
include fuzz/metrics.mk
include fuzz/config.mk
include fuzz/image.mk
include fuzz/lease.mk
include fuzz/policy.mk
include fuzz/judge.mk
include fuzz/document.mk
include fuzz/compiler.mk
include fuzz/net.mk
include fuzz/proxy.mk
include fuzz/control.mk
include fuzz/sidecar.mk
