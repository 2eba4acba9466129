"""How fast: each case beside its rivals, in turn, in one run. `python -m benchmarks --help`."""
