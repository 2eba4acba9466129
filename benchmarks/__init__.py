"""Benchmarks: each case and its rivals in turn, in one run. `python -m benchmarks --help`."""
