# Checks of the tree itself, and the proof that each of them can fail.
TESTS += tests/lint/lint.py tests/lint/selftest.py
EXTRA_DIST += \
	tests/lint/lint.py \
	tests/lint/rules_form.py \
	tests/lint/rules_structure.py \
	tests/lint/selftest.py \
	tests/lint/tree.py
