"""Every row in 16-bit floats: what float32 gives for the same numbers, rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from draws import Call, every, families

import shmtensor as st
from shmtensor import native
from shmtensor.ops import Row
from shmtensor.ops.storage import ASK

HALVES = [st.bfloat16, st.float16]
# Where the numbers themselves depend on the dtype: bits, neighbours, random draws, refusals.
OTHERS = ASK - {"nan_to_num"} | {"reinterpreted", "dropped"}
REFUSED = ASK - {"nan_to_num", "nextafter", "uniform_fill", "normal_fill"}


def as_half(x: Any, dtype: Any) -> Any:
    """The input as a tensor of 16-bit floats, if it is one of floats."""
    if x is None or isinstance(x, list):
        return x and [as_half(v, dtype) for v in x]
    t = st.tensor(x)
    return t.to(dtype) if x.dtype.kind == "f" else t


def widened(x: Any, tracked: bool = False) -> Any:
    """What was rounded, as float32."""
    if x is None or isinstance(x, list):
        return x and [widened(v, tracked) for v in x]
    if x.dtype not in HALVES:
        return x.detach()
    return x.detach().float().requires_grad_(tracked)


def close(ours: Any, want: np.ndarray, dtype: Any, units: float) -> bool:
    """Within so many units in the last place, counted at the largest finite number for sums."""
    eps = st.finfo(dtype).eps
    got = ours.detach().float().numpy() if ours.dtype in HALVES else ours.detach().numpy()
    with np.errstate(all="ignore"):
        want = native.recast(np.asarray(want, np.float32), dtype).astype(np.float32)
        size = np.abs(want[np.isfinite(want)]).max(initial=0)
        near = np.abs(got - want) <= units * eps * (np.abs(want) + (units > 1) * size) + 1e-7
        return bool((near | (got == want) | (np.isnan(got) & np.isnan(want))).all())


def check(call: Call, dtype: Any) -> None:
    tensors = [as_half(x, dtype) for x in call.inputs]
    singles = [widened(x) for x in tensors]
    for ours, want in zip(call.public(*tensors), call.public(*singles), strict=True):
        assert ours.shape == want.shape, (dtype, str(call))
        if want.numel():
            assert ours.stride() == want.stride(), (dtype, str(call))
        if want.dtype is not st.float32:
            assert ours.dtype is want.dtype, (dtype, str(call))
            assert np.array_equal(ours.numpy(), want.numpy(), want.is_complex()), (dtype, str(call))
        elif ours.dtype is not st.float32:
            assert ours.dtype is dtype, (dtype, str(call))
            assert close(ours, want.numpy(), dtype, 0.51), (dtype, str(call))


def half_row(row: Row) -> bool:
    return row.name not in OTHERS


@pytest.mark.parametrize(**families(half_row))
def test_a_row_is_computed_in_float32_and_rounded_once(family: list[Row]) -> None:
    for dtype in HALVES:
        for call in every(family):
            if any(getattr(x, "dtype", np.dtype("f8")).kind == "c" for x in call.inputs):
                continue
            check(call, dtype)


@pytest.mark.parametrize(
    **families(lambda row: row.name in REFUSED or row.name.startswith("linalg_"))
)
def test_matrices_are_refused_before_anything_is_computed(family: list[Row]) -> None:
    for dtype in HALVES:
        for call in every(family):
            if any(getattr(x, "dtype", np.dtype("f8")).kind == "c" for x in call.inputs):
                continue
            with pytest.raises(RuntimeError, match="32 bits or more"):
                call.public(*[as_half(x, dtype) for x in call.inputs])


def gradients(call: Call, tensors: list[Any]) -> list[Any]:
    """The gradients of the sum of all outputs, or none where nothing is differentiable."""
    leaves = call.differentiable(tensors)
    outputs = [out for out in call.public(*tensors) if out.requires_grad]
    if not leaves or not outputs:
        return []
    wide = [out.float() if out.dtype in HALVES else st.real(out) for out in outputs]
    weights = [st.linspace(0.5, 1.5, out.numel()).reshape(out.shape) for out in wide]
    total: Any = sum((out * w).sum() for out, w in zip(wide, weights, strict=True))
    return list(st.autograd.grad(total, leaves, allow_unused=True))


def tracked(x: Any) -> Any:
    if isinstance(x, list):
        return [tracked(v) for v in x]
    return x.requires_grad_(True) if x is not None and x.dtype in HALVES else x


@pytest.mark.parametrize(**families(lambda row: row.pullbacks and half_row(row)))
def test_gradients_are_of_the_dtype_and_near(family: list[Row]) -> None:
    for call in every(family):
        for dtype in HALVES:
            if any(getattr(x, "dtype", np.dtype("f8")).kind == "c" for x in call.inputs):
                continue
            halves = [as_half(x, dtype) for x in call.inputs]
            wide = gradients(call, [widened(x, True) for x in halves])
            ours = gradients(call, [tracked(x) for x in halves])
            for g, want in zip(ours, wide, strict=True):
                if g is None or want is None:
                    assert g is want, (dtype, str(call))
                    continue
                assert g.dtype is dtype, (dtype, str(call))
                assert close(g, want.numpy(), dtype, 8), (dtype, str(call), g, want)
