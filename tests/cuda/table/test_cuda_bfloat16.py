"""bfloat16 on a GPU: every row's results and gradients are the CPU's, but for the last bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.ops import Row
from tests.cuda.table import device_tensors  # noqa: F401  # makes the modules of tests/ops importable
from tests.cuda.table.device_rows import COMPARISONS, equals_the_cpus
from tests.ops.draws import Call, calls, families
from tests.ops.test_half_precision import as_half, half_row, largest_of, tracked


def on_gpu(x: Any) -> Any:
    if isinstance(x, list):
        return [on_gpu(v) for v in x]
    return None if x is None else x.detach().cuda()


def check_near(ours: Any, want: Any, units: float, largest: float, what: str) -> None:
    """Equal, or within some units in the last place of the largest number."""
    assert (ours.dtype, ours.shape) == (want.dtype, want.shape), what
    assert ours.device.type == "cuda", what
    x, y = (
        (v.float() if v.dtype is st.bfloat16 else v).detach().cpu().numpy() for v in (ours, want)
    )
    if y.dtype.kind not in "fc":
        np.testing.assert_array_equal(x, y, err_msg=what)
        return
    scale = max(largest, largest_of(np.abs(y)))
    bound = units * st.finfo(st.bfloat16).eps * scale + 1e-7
    np.testing.assert_allclose(x, y, 0, bound, err_msg=what)


def real_calls(family: list[Row]) -> Any:
    for row in family:
        if not equals_the_cpus(row):
            continue
        for call in calls(row):
            if all(getattr(x, "dtype", np.dtype("f8")).kind != "c" for x in call.inputs):
                yield call


def gradients(call: Call, tensors: list[Any]) -> list[Any]:
    """The gradients of a weighted sum of all outputs."""
    leaves = call.differentiable(tensors)
    outputs = [out.float() for out in call.public(*tensors) if out.requires_grad]
    if not leaves or not outputs:
        return []
    total: Any = 0.0
    for out in outputs:
        weights = st.linspace(0.5, 1.5, out.numel(), device=out.device).reshape(out.shape)
        total = (out * weights).sum() + total
    return list(st.autograd.grad(total, leaves, allow_unused=True))


@pytest.mark.parametrize(**families(half_row))
def test_rows_of_bfloat16_are_the_cpus(cp: Any, family: list[Row]) -> None:
    for call in real_calls(family):
        inputs = [as_half(x, st.bfloat16) for x in call.inputs]
        expected = call.public(*inputs)
        for ours, want in zip(call.public(*on_gpu(inputs)), expected, strict=True):
            check_near(ours, want, 1.01, 0, str(call))


@pytest.mark.parametrize(**families(lambda row: row.pullbacks and half_row(row)))
def test_gradients_of_bfloat16_are_the_cpus(cp: Any, family: list[Row]) -> None:
    for call in real_calls(family):
        inputs = [as_half(x, st.bfloat16) for x in call.inputs]
        expected = gradients(call, [tracked(x) for x in inputs])
        ours = gradients(call, [tracked(x) for x in on_gpu(inputs)])
        found = [g.float().numpy() for g in expected if g is not None]
        largest = max((largest_of(g) for g in found), default=0.0)
        for g, want in zip(ours, expected, strict=True):
            assert (g is None) == (want is None), str(call)
            if want is not None:
                check_near(g, want, 8, largest, str(call))


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_round_a_number_to_bfloat16(cp: Any, name: str) -> None:
    x = st.tensor([[0.3, 0.1, 1 / 3, float("inf")], [2049.0, 257.0, -1.0, float("nan")]])
    x = x.to(st.bfloat16)
    for number in (0.3, 0.1, 1 / 3, 1e39, 2049, 257, -1):
        for laid_out in (lambda v: v, lambda v: v[:, ::2], lambda v: v[0, 1]):
            ours, expected = laid_out(x.cuda().clone()), laid_out(x.clone())
            assert getattr(ours, name)(number).tolist() == getattr(expected, name)(number).tolist()
            getattr(ours, f"{name}_")(number)
            getattr(expected, f"{name}_")(number)
            assert ours.tolist() == expected.tolist(), number
    assert (0.1 == x.cuda())[0].tolist() == [False, True, False, False]  # noqa: SIM300
