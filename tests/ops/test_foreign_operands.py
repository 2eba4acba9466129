"""Every op and every composite, with a tensor of PyTorch or an array of JAX for each of its
operands in turn: a TypeError that says how to convert, never a silent result.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draws import ROWS, calls, table
from test_composites import CASES

import shmtensor as st

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def foreign(x: Any, library: str) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(foreign(v, library) for v in x)
    if not isinstance(x, np.ndarray):
        return x
    if library == "torch":
        return torch.from_numpy(x.copy())
    import jax

    return jax.numpy.asarray(x)


def ours(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(ours(v) for v in x)
    return st.tensor(x) if isinstance(x, np.ndarray) else x


def holds_array(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return any(map(holds_array, x))
    return isinstance(x, np.ndarray)


def rows(library: str) -> Iterator[tuple[str, Any, list[Any], dict[str, Any]]]:
    """(a description, the function, its arguments) of the rows' first samples."""
    for row in ROWS.values():
        for call in list(calls(row))[:1]:
            tensors = call.tensors()
            for i, x in enumerate(call.inputs):
                if x is not None:
                    values = [*tensors[:i], foreign(x, library), *tensors[i + 1 :]]
                    arguments = [*values, *call.attributes]
                    yield f"{call}, operand {i}", getattr(table, row.name), arguments, call.kwargs


def composites(library: str) -> Iterator[tuple[str, Any, list[Any], dict[str, Any]]]:
    for name, (args, kwargs, _) in CASES.items():
        for i, x in enumerate(args):
            if holds_array(x):
                values = [foreign(v, library) if v is x else ours(v) for v in args]
                yield f"{name}, argument {i}", getattr(table, name), values, ours_of(kwargs)
        for key, x in kwargs.items():
            if holds_array(x):
                named = {**ours_of(kwargs), key: foreign(x, library)}
                yield f"{name}, {key}", getattr(table, name), [ours(v) for v in args], named


def ours_of(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {key: ours(value) for key, value in kwargs.items()}


def check_all(library: str) -> int:
    """Calls every function; returns how many calls were refused.

    Raises:
        AssertionError: some were not refused, or for another reason.
    """
    n, wrong = 0, []
    converter = {"torch": "torch.from_dlpack", "jax": "jax.dlpack.from_dlpack"}[library]
    for source in (rows(library), composites(library)):
        for description, function, args, kwargs in source:
            try:
                function(*args, **kwargs)
            except TypeError as error:
                if "st.from_dlpack" in str(error) and converter in str(error):
                    n += 1
                else:
                    wrong.append(f"{description}: {error}")
            except Exception as error:
                wrong.append(f"{description}: {type(error).__name__}: {error}")
            else:
                wrong.append(f"{description}: no error")
    assert not wrong, "\n".join(wrong)
    return n


def test_every_function_refuses_tensors_of_pytorch() -> None:
    assert check_all("torch") > 500


def test_every_function_refuses_arrays_of_jax() -> None:
    pytest.importorskip("jax")
    # In a process of its own: a process that ran JAX warns at each later fork.
    folder = str(Path(__file__).parent)
    code = (
        f"import sys; sys.path[:0] = [{folder!r}, {str(Path(st.__file__).parents[1])!r}]\n"
        "from test_foreign_operands import check_all\n"
        "assert check_all('jax') > 500"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
