#!/bin/sh
# Every mutant must still apply: one that does not shows nothing any more. mutants/run shows that it is found.
set -u
command -v patch >/dev/null || exit 77
cd "${EGRESS_SRCDIR:?}" || exit 2
status=0
for mutant in fuzz/mutants/*.patch; do
	patch -s -p1 --dry-run -o /dev/null <"$mutant" || { echo "$mutant does not apply"; status=1; }
done
exit $status
