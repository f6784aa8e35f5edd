# tests: unit (Criterion), tables, scenarios, lint; system tests and benchmarks have their own runners.
