# make demo | test | bench-quick | lint | types: each makes the virtual environment it needs.
PYTHON ?= python3
VENV ?= .venv
PY = $(VENV)/bin/python

.PHONY: build
# For work on the sources: compiles the extension in place, only what changed.
build:
	$(PYTHON) setup.py -q build_ext --inplace
