# tests: unit (Criterion), tables, scenarios, lint; system tests and benchmarks have their own runners.
# Every program in TESTS runs under tests/under_sanitizers, which turns any sanitizer report into a failure and
# writes what it counted to tests/counts/<program> in the build tree: "tested passing failing crashing".
TEST_EXTENSIONS = .sh .py
SH_LOG_COMPILER = $(SHELL)
PY_LOG_COMPILER = $(PYTHON)
LOG_COMPILER = $(SHELL) $(top_srcdir)/tests/under_sanitizers
AM_TESTS_ENVIRONMENT = EGRESS_SRCDIR='$(abs_top_srcdir)'; export EGRESS_SRCDIR; \
	EGRESS_BUILDDIR='$(abs_top_builddir)'; export EGRESS_BUILDDIR; \
	PYTHON='$(PYTHON)'; export PYTHON; PYTHONDONTWRITEBYTECODE=1; export PYTHONDONTWRITEBYTECODE; \
	CC='$(CC)'; export CC; \
	EGRESS_FUZZING='$(FUZZ_LDFLAGS)'; export EGRESS_FUZZING;
EXTRA_DIST += tests/under_sanitizers
CLEANFILES += tests/counts/*

if HAVE_CRITERION
else
# Without Criterion nothing would be tested, and a check that tests nothing must not pass.
check-local:
	@echo "Criterion was not found when configuring; install it: apt-get install libcriterion-dev" >&2
	@exit 1
endif

include tests/lint/local.mk
include tests/planted/local.mk
include tests/unit/local.mk
include tests/tables/local.mk
include tests/system/local.mk
include tests/scenario/local.mk
include tests/tsan/local.mk
include tests/exhaustive/local.mk
include tests/differential/local.mk
include tests/oracle/local.mk
