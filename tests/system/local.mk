# System tests: real binaries, real clients and servers, in network namespaces of their own. As root.
# SYSTEM_OPTIONS: more words for pytest, such as --last-failed or -k WORD.
SYSTEM_OPTIONS =
SYSTEM_NAME = system
.PHONY: check-system
check-system: all tests/system/budget_replay
	EGRESS_SRCDIR='$(abs_top_srcdir)' EGRESS_BUILDDIR='$(abs_top_builddir)' PYTHONDONTWRITEBYTECODE=1 \
		/usr/bin/python3 -m pytest -q -o cache_dir='$(abs_top_builddir)/.pytest_cache' $(SYSTEM_OPTIONS) \
		--junit-xml="$${SYSTEM_RESULTS:-$(abs_top_builddir)}/$(SYSTEM_NAME).xml" '$(srcdir)/tests/system'
EXTRA_DIST += tests/run tests/system

# What test_name_lists.py asks about the names that clients asked for.
check_PROGRAMS += tests/system/budget_replay
tests_system_budget_replay_SOURCES = tests/system/budget_replay.c
tests_system_budget_replay_LDADD = libproxy.a libconfig.a libnet.a libwire.a libbase.a $(CRYPTO_LIBS)
