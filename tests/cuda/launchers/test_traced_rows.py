"""Which rows are one kernel by their own forward, and that errors of a forward are not hidden."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import cupy_runtime, native
from shmtensor.ops import ROWS, Row
from tests.cuda.standin.install import ON_GPU, install
from tests.ops.draws import calls

# Why the forward is no expression. The row then runs on CuPy's arrays.
FALLBACKS = {
    "complex": "function empty",  # the result is complex
    "isclose": "a branch on a value",  # the tolerances are checked
    "isreal": "function ones",  # without operands
    "nan_to_num": "function nan_to_num",  # the largest numbers of a dtype
    "polar": "function empty",
    "round": "a branch on a value",  # the number of decimals
}


@pytest.fixture
def rows(cp: Any) -> Any:
    cupy_runtime.initialize()
    from shmtensor.ops.cuda import pointwise_rows

    return pointwise_rows


def kinds_of(row: Row) -> Iterator[tuple[Any, ...]]:
    """The operands of the row's samples, as keys."""
    from shmtensor.ops.cuda.fused import kind_of

    for call in calls(row, "float32"):
        rest = row.attributes[len(call.attributes) :]
        values = [*call.inputs, *call.attributes]
        values += [call.kwargs.get(a.name, a.default) for a in rest]
        yield tuple(v.dtype if isinstance(v, np.ndarray) else kind_of(v) for v in values)


def test_rows_that_are_not_one_kernel_are_listed(rows: Any) -> None:
    from shmtensor.ops.cuda.fused import NotTraceable

    seen = {}
    for row in ROWS.values():
        if isinstance(row.device_forwards.get("cuda"), native.DevicePointwise):
            for kinds in kinds_of(row):
                try:
                    rows.routine_of(row, kinds)
                except NotTraceable as reason:
                    seen[row.name] = str(reason).removeprefix("attribute ")
    assert seen == FALLBACKS


def test_an_error_of_a_traced_function_is_raised(rows: Any) -> None:
    from shmtensor.ops.cuda.fused import fused

    def mistaken(f: Any, x: Any) -> Any:
        return x * undefined  # type: ignore[name-defined]  # noqa: F821

    function = fused("mistaken", mistaken, 1, lambda x: x)
    with pytest.raises(NameError, match="undefined"):
        function(rows.cupy.ones(3, "f"))


def test_fallbacks_are_counted(rows: Any) -> None:
    from shmtensor.ops.cuda.fused import fused, statistics

    before = statistics()
    branching = fused("branching", lambda f, x: x if x > 0 else -x, 1, lambda x: abs(x))
    sine = fused("sine", lambda f, x: f.sin(x) * 2, 1, lambda x: x)
    x = rows.cupy.ones((3, 4), "f")
    assert (branching(x) == 1).all()
    assert (sine(x) == sine(x.T).T).all()
    after = statistics()
    assert after.fallbacks["branching"] == "a branch on a value"
    assert "sine" not in after.fallbacks
    assert after.kernels == before.kernels + 2


CALLS = {
    "gelu": lambda x: st.nn.functional.gelu(x),
    "silu": lambda x: st.nn.functional.silu(x),
    "hardtanh": lambda x: st.nn.functional.hardtanh(x, -0.5, 0.25),
    "softshrink": lambda x: st.nn.functional.softshrink(x, 0.3),
    "sigmoid": lambda x: st.sigmoid(x),
    "addcmul": lambda x: st.addcmul(x, x, x, value=0.5),
    "erf": lambda x: st.erf(x),
    "asin": lambda x: st.asin(x),
    "sign": lambda x: st.sign(x),
    "half_and_number": lambda x: x.half() * 2.5,
}


@pytest.mark.skipif(ON_GPU, reason="the stand-in counts launches")
@pytest.mark.parametrize("name", CALLS)
def test_a_row_is_one_launch_for_any_strides(rows: Any, name: str) -> None:
    x = st.linspace(-0.9, 0.9, 12).reshape(3, 4)
    far = x.cuda()
    for near, y in ((x, far), (x.T, far.T), (x[:, ::2], far[:, ::2])):
        CALLS[name](y)
        before = install().standin_launches()
        result = CALLS[name](y)
        assert install().standin_launches() == before + 1 + (name == "half_and_number")
        st.testing.assert_close(result.cpu(), CALLS[name](near), rtol=2e-3, atol=1e-6)
