# The decision a second time, in Python, against explain --batch; see README.md.
TESTS += tests/oracle/test_oracle.py
EXTRA_DIST += tests/oracle/README.md tests/oracle/addresses.py tests/oracle/generate.py tests/oracle/oracle.py \
	tests/oracle/policy_text.py tests/oracle/test_oracle.py
