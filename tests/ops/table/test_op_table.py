"""The columns of a declaration: which kernel runs where."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from shmtensor import native
from shmtensor.ops.table.op_table import ROWS, Row, op

SILU = native.activation("silu")


@pytest.fixture(autouse=True)
def same_rows() -> Iterator[None]:
    before = dict(ROWS)
    yield
    ROWS.clear()
    ROWS.update(before)


def forward(xp, x, /, shift=1, *, factor=1):  # type: ignore[no-untyped-def]
    """A forward with attributes of both kinds."""
    return (x + shift) * factor


def declare(**columns: Any) -> Row:
    return op(name="_declared", **columns)(forward)


def test_native_leaves_the_rest_to_the_forward() -> None:
    row = declare(native=lambda x, shift, factor: x if factor == 1 else None)
    x = np.ones(2)
    assert isinstance(row.numpy, native.KernelOrFallback)
    assert row.numpy(x, 5, 1) is x
    assert row.numpy(x, 5, 2).tolist() == [12, 12]
    assert row.half is None  # a kernel written in Python
    assert not row.out


def test_native_with_out_writes_the_forward_to_it() -> None:
    row = declare(native=lambda *arguments: None, out=True)
    x, out = np.ones(2), np.zeros(2)
    assert row.numpy(x, 5, 2, out) is out
    assert out.tolist() == [12, 12]
    assert row.numpy(x, 5, 2).tolist() == [12, 12]


def test_native_may_spell_its_arguments() -> None:
    kernel, arguments = declare(native=(SILU, "x")).numpy
    assert arguments == "x"
    assert kernel.kernel is SILU


def test_real_is_for_real_floats() -> None:
    row = declare(real=lambda x, shift, factor: x)
    for dtype in ("float32", "float64"):
        x = np.ones(2, dtype)
        assert row.numpy(x, 5, 2) is x
    for dtype in ("int64", "complex64"):
        assert row.numpy(np.ones(2, dtype), 5, 2).tolist() == [12, 12]
    assert row.half is not None


def test_write_is_for_the_in_place_form() -> None:
    written = []

    def write(x: Any, factor: Any) -> bool:
        written.append(factor)
        return bool(factor == 1)

    @op(write=write)
    def _declared(xp, x, /, factor):  # type: ignore[no-untyped-def]
        return x * factor

    row = _declared
    assert row.inplace
    assert row.out
    x = np.full(2, 3.0)
    assert row.numpy(x, 2).tolist() == [6, 6]
    assert not written
    assert row.numpy(x, 1, x) is x
    assert x.tolist() == [3, 3]
    assert row.numpy(x, 2, x) is x
    assert x.tolist() == [6, 6]
    assert written == [1, 2]


def test_half_is_the_native_kernel_or_its_own() -> None:
    assert declare(native=SILU).half is SILU
    ROWS.pop("_declared")
    assert declare(native=SILU, half=native.glu).half is native.glu
    ROWS.pop("_declared")
    assert declare(numpy=native.gelu).half is None


def test_cuda_is_a_forward_or_a_name_that_is_imported_late(monkeypatch: pytest.MonkeyPatch) -> None:
    row = declare(cuda=forward)
    assert row.forward_on("cuda") is forward
    assert row.forward_on("meta") is None
    ROWS.pop("_declared")

    imported = []

    def fake_import(name: str) -> Any:
        imported.append(name)
        return sys.modules[__name__]

    monkeypatch.setattr("shmtensor.ops.table.op_table.import_module", fake_import)
    row = declare(cuda="sort:forward")
    assert not imported
    assert row.forward_on("cuda") is forward
    assert row.forward_on("cuda") is forward
    assert imported == ["shmtensor.ops.cuda.sort"]


NAMED_FORWARDS = """
import ast, pathlib, sys
import shmtensor as st
from shmtensor.autograd.dispatch.op_function import declare
from shmtensor.ops.table.op_table import ROWS

declare()
st.tensor([1, 1]).mode()
assert not [m for m in sys.modules if m == "cupy" or m.startswith("shmtensor.ops.cuda.")]
names = [f for row in ROWS.values() for f in row.device_forwards.values() if isinstance(f, str)]
assert "sort:mode" in names
for name in names:
    module, _, function = name.partition(":")
    tree = ast.parse(pathlib.Path(st.ops.cuda.__path__[0], f"{module}.py").read_text())
    assert function in [n.name for n in tree.body if isinstance(n, ast.FunctionDef)], name
"""


def test_named_forwards_exist_and_import_nothing() -> None:
    subprocess.run([sys.executable, "-c", NAMED_FORWARDS], check=True)
