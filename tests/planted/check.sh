#!/bin/sh
# Proof that the harness can fail: each planted program must go red under tests/under_sanitizers, for its own reason.
set -u

scratch=$(mktemp -d "${TMPDIR:-/tmp}/egress-planted.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
passed=0
failed=0

expect_red() { # name, word that must be in the output, arguments...
	name=$1
	word=$2
	shift 2
	if (EGRESS_BUILDDIR=$scratch; export EGRESS_BUILDDIR
	    sh "$EGRESS_SRCDIR/tests/under_sanitizers" "./$name" "$@") >"$scratch/output" 2>&1; then
		echo "$name: passed, so the harness cannot fail"
		failed=$((failed + 1))
	elif ! grep -q "$word" "$scratch/output"; then
		echo "$name: failed without saying \"$word\":"
		cat "$scratch/output"
		failed=$((failed + 1))
	else
		echo "$name: red, as planted ($word)"
		passed=$((passed + 1))
	fi
}

cd "$EGRESS_BUILDDIR" || exit 1
expect_red planted_leak LeakSanitizer
expect_red planted_overflow heap-buffer-overflow
expect_red planted_sandboxed heap-buffer-overflow
expect_red planted_sandboxed "in planted_an_overflow" # symbols were read before files were forbidden
expect_red planted_undefined "runtime error"
expect_red planted_leak "no test was run" --filter 'nothing/*'
mkdir -p tests/counts
echo "$((passed + failed)) $passed $failed 0" >tests/counts/planted
[ $failed -eq 0 ]
