"""Programs for type checkers that are written from what the package has when it runs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import shmtensor as st

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS), str(TESTS / "ops")]  # as pytest finds them

from test_composites import CASES, as_tensors  # noqa: E402
from test_public import MODULES  # noqa: E402

__all__ = ["programs"]

# Beside those of tests/test_public.py.
MORE = [
    "shmtensor.array_api",
    "shmtensor.autograd.function",
    "shmtensor.nn.modules",
    "shmtensor.nn.parallel",
    "shmtensor.nn.parameter",
    "shmtensor.nn.utils.rnn",
    "shmtensor.optim.swa_utils",
    "shmtensor.signal",
    "shmtensor.utils",
    "shmtensor.utils.data",
    "shmtensor.utils.dlpack",
]
CLASSES = {
    "st.Tensor": st.Tensor,
    "st.nn.Module": st.nn.Module,
    "st.nn.Parameter": st.nn.Parameter,
    "st.nn.Linear": st.nn.Linear,
    "st.optim.Optimizer": st.optim.Optimizer,
    "st.utils.data.DataLoader[int]": st.utils.data.DataLoader,
}
OF_OTHERS = ("typing", "collections.abc", "__future__", "importlib", "types")


def programs() -> dict[str, str]:
    return {
        "every_name.py": "\n".join(every_name()) + "\n",
        "every_attribute.py": "\n".join(every_attribute()) + "\n",
        "every_argument.py": "\n".join(every_argument()) + "\n",
        "calls.py": "\n".join(calls()) + "\n",
    }


def every_name() -> Iterator[str]:
    """Each public name of each public module is imported."""
    n = 0
    for name in [*MODULES, *MORE]:
        module = import_module(name)
        names = getattr(module, "__all__", None) or dir(module)
        for public in sorted(set(names)):
            value = getattr(module, public)
            is_ours = str(getattr(value, "__name__", "")).startswith("shmtensor")
            if public.startswith("_") or (inspect.ismodule(value) and not is_ours):
                continue
            if getattr(value, "__module__", "") in OF_OTHERS or public in ("TYPE_CHECKING",):
                continue
            n += 1
            yield f"from {name} import {public} as _{n}"


def every_attribute() -> Iterator[str]:
    """Each public attribute of an object of the classes that programs use."""
    yield "import shmtensor as st"
    for i, (name, cls) in enumerate(CLASSES.items()):
        yield f"def f{i}(x: {name}) -> None:"
        yield from (f"    x.{n}" for n in dir(cls) if not n.startswith("_"))


def every_argument() -> Iterator[str]:
    """Each argument of a loader, by its name: the overloads have all of them."""
    yield "from typing import Any"
    yield "from shmtensor.utils.data import DataLoader, TensorDataset"
    yield "def f(data: TensorDataset, value: Any) -> None:"
    for name in list(inspect.signature(st.utils.data.DataLoader).parameters)[1:]:
        yield f"    DataLoader(data, {name}=value)"


def calls() -> Iterator[str]:
    """The calls of tests/ops/test_composites.py, as functions and methods, with their results."""
    yield "import shmtensor as st"
    yield "t = st.ones(3)"
    for name, (args, kwargs, _) in CASES.items():
        result = describe(getattr(st, name)(*as_tensors(args), **kwargs))
        words = [spell(a) for a in args] + [f"{k}={spell(v)}" for k, v in kwargs.items()]
        yield f"reveal_type(st.{name}({', '.join(words)}))  # -> {result}"
        if isinstance(args[0], np.ndarray) and hasattr(st.Tensor, name):
            yield f"reveal_type(t.{name}({', '.join(words[1:])}))  # -> {result}"


def spell(value: Any) -> str:
    """An argument as it is written in a program: an array is some tensor."""
    if isinstance(value, (np.ndarray, np.generic)):
        return "t"
    if isinstance(value, (list, tuple)):
        parts = "".join(f"{spell(v)}, " for v in value)
        return f"[{parts}]" if isinstance(value, list) else f"({parts})"
    if isinstance(value, slice):
        return f"slice({value.start}, {value.stop}, {value.step})"
    assert isinstance(value, (bool, int, float, complex, str, type(None))), value
    return repr(value)


def describe(value: Any) -> str:
    """The possible texts of the type of a result, separated by " or "."""
    if hasattr(value, "_fields"):
        return type(value).__name__
    if type(value) is tuple:
        parts = ", ".join(describe(v) for v in value)
        return f"tuple[{parts}] or tuple[{describe(value[0])}, ...]"
    return type(value).__name__
