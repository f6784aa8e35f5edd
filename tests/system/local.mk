# System tests: real binaries, real clients and servers, in network namespaces of their own. As root.
.PHONY: check-system
check-system: all
	EGRESS_SRCDIR='$(abs_top_srcdir)' EGRESS_BUILDDIR='$(abs_top_builddir)' PYTHONDONTWRITEBYTECODE=1 \
		/usr/bin/python3 -m pytest -q -p no:cacheprovider --junit-xml="$${SYSTEM_RESULTS:-$(abs_top_builddir)}/system.xml" \
		'$(srcdir)/tests/system'
EXTRA_DIST += tests/run tests/system
