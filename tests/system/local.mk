# System tests: real binaries, real clients and servers, in network namespaces of their own. As root.
# SYSTEM_OPTIONS: more words for pytest, such as --last-failed or -k WORD.
SYSTEM_OPTIONS =
SYSTEM_NAME = system
.PHONY: check-system
check-system: all
	EGRESS_SRCDIR='$(abs_top_srcdir)' EGRESS_BUILDDIR='$(abs_top_builddir)' PYTHONDONTWRITEBYTECODE=1 \
		/usr/bin/python3 -m pytest -q -o cache_dir='$(abs_top_builddir)/.pytest_cache' $(SYSTEM_OPTIONS) \
		--junit-xml="$${SYSTEM_RESULTS:-$(abs_top_builddir)}/$(SYSTEM_NAME).xml" '$(srcdir)/tests/system'
EXTRA_DIST += tests/run tests/system
