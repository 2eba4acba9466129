"""Every public name is documented, typed, and named in a test."""

from __future__ import annotations

import importlib
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent
MODULES = [
    "shmtensor",
    "shmtensor.__future__",
    "shmtensor.errors",
    "shmtensor.accelerator",
    "shmtensor.amp",
    "shmtensor.amp.autocast_state",
    "shmtensor.backends",
    "shmtensor.cuda",
    "shmtensor.cuda.amp",
    "shmtensor.cuda.comm",
    "shmtensor.cuda.jiterator",
    "shmtensor.cuda.nccl",
    "shmtensor.cuda.nvtx",
    "shmtensor.cuda.profiler",
    "shmtensor.cuda.sparse",
    "shmtensor.cuda.tunable",
    "shmtensor.fft",
    "shmtensor.func",
    "shmtensor.hub",
    "shmtensor.overrides",
    "shmtensor.storage",
    "shmtensor.linalg",
    "shmtensor.masked",
    "shmtensor.special",
    "shmtensor.memory",
    "shmtensor.autograd",
    "shmtensor.autograd.forward_ad",
    "shmtensor.autograd.functional",
    "shmtensor.autograd.graph",
    "shmtensor.autograd.profiler",
    "shmtensor.autograd.variable",
    "shmtensor.cli",
    "shmtensor.compiler",
    "shmtensor.cpu",
    "shmtensor.cpu.amp",
    "shmtensor.distributions",
    "shmtensor.distributions.constraint_registry",
    "shmtensor.distributions.constraints",
    "shmtensor.distributions.relaxed_bernoulli",
    "shmtensor.distributions.relaxed_categorical",
    "shmtensor.distributions.transforms",
    "shmtensor.distributions.utils",
    "shmtensor.jit",
    "shmtensor.profiler",
    "shmtensor.quasirandom",
    "shmtensor.shared_containers",
    "shmtensor.random",
    "shmtensor.tensor.global_settings",
    "shmtensor.signal.windows",
    "shmtensor.sparse",
    "shmtensor.tensor.legacy_types",
    "shmtensor.tensor.legacy_storages",
    "shmtensor.nn",
    "shmtensor.nn.attention",
    "shmtensor.nn.attention.bias",
    "shmtensor.nn.grad",
    "shmtensor.nn.functional",
    "shmtensor.nn.init",
    "shmtensor.nn.parallel",
    "shmtensor.nn.utils",
    "shmtensor.nn.utils.parametrizations",
    "shmtensor.nn.utils.parametrize",
    "shmtensor.nn.utils.prune",
    "shmtensor.nn.utils.rnn",
    "shmtensor.nn.utils.spectral_norm",
    "shmtensor.nn.utils.stateless",
    "shmtensor.nn.utils.weight_norm",
    "shmtensor.optim",
    "shmtensor.optim.lr_scheduler",
    "shmtensor.optim.swa_utils",
    "shmtensor.serialization",
    "shmtensor.multiprocessing",
    "shmtensor.queue",
    "shmtensor.distributed",
    "shmtensor.testing",
    "shmtensor.trainer",
    "shmtensor.trainer.callbacks",
    "shmtensor.utils.benchmark",
    "shmtensor.utils.checkpoint",
    "shmtensor.utils.collect_env",
    "shmtensor.utils.hooks",
    "shmtensor.utils.tensorboard",
    "shmtensor.viz",
    "shmtensor.dataloaders",
    "shmtensor.dataloaders.datasets",
    "shmtensor.dataloaders.transforms",
]


def public(name: str) -> dict[str, Any]:
    module = importlib.import_module(name)
    names = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    return {n: getattr(module, n) for n in names if not inspect.ismodule(getattr(module, n))}


@cache
def generated() -> set[str]:
    """Names that tests/ops/test_rows.py reaches: rows by all names, in place too; those of
    tests/test_refused_names.py; and the modules that tests/nn/modules/test_activation.py finds.
    """
    from shmtensor.nn.modules.activation import _InPlace
    from shmtensor.ops import COMPOSITES, ROWS
    from shmtensor.refused_names import REASONS

    names = {name.rpartition(".")[2] for name in REASONS}
    names |= {n for row in ROWS.values() if row.samples for n in (row.name, *row.aliases)}
    names |= {alias for composite in COMPOSITES.values() for alias in composite.aliases}
    modules = {c.__name__ for c in _InPlace.__subclasses__() if hasattr(c, "_function")}
    return names | {f"{n}_" for n in names} | modules


@pytest.mark.parametrize("module", MODULES)
def test_every_name_is_documented(module: str) -> None:
    missing = [
        name
        for name, value in public(module).items()
        if (inspect.isclass(value) or callable(value)) and not inspect.getdoc(value)
    ]
    assert not missing, f"{module}: no docstring: {sorted(missing)}"


@cache
def words_of_tests() -> set[str]:
    return {word for path in TESTS.rglob("*.py") for word in re.findall(r"\w+", path.read_text())}


@pytest.mark.parametrize("module", MODULES)
def test_every_name_is_tested(module: str) -> None:
    words = words_of_tests() | generated()
    missing = [name for name in public(module) if name not in words and not name.startswith("__")]
    assert not missing, f"{module}: named in no test: {sorted(missing)}"


def test_every_error_of_ours_is_one_base() -> None:
    for name, value in public("shmtensor.errors").items():
        assert issubclass(value, importlib.import_module("shmtensor.errors").ShmTensorError), name
