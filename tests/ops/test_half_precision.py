"""Every row in 16-bit floats: the float32 result for the same numbers, rounded once."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest
from draws import Call, every, families

import shmtensor as st
from shmtensor import native
from shmtensor.ops import ROWS, Row, load

HALVES = [st.bfloat16, st.float16]
load()
COMPARISONS = [name for name, row in ROWS.items() if row.comparison]
CHECKS = {name for name, row in ROWS.items() if row.halves == "checks"}
# Where the numbers themselves depend on the dtype: bits, neighbours, random draws, refusals.
OTHERS = CHECKS - {"nan_to_num"} | {"_view_dtype", "_dropout"}
REFUSED = CHECKS - {"nan_to_num", "nextafter", "_uniform", "_normal"}


def as_half(x: Any, dtype: Any) -> Any:
    """The input as a tensor of 16-bit floats if it has floats."""
    if x is None or isinstance(x, list):
        return x and [as_half(v, dtype) for v in x]
    t = st.tensor(x)
    return t.to(dtype) if x.dtype.kind == "f" else t


def widened(x: Any, tracked: bool = False) -> Any:
    """The rounded value as float32."""
    if x is None or isinstance(x, list):
        return x and [widened(v, tracked) for v in x]
    if x.dtype not in HALVES:
        return x.detach()
    return x.detach().float().requires_grad_(tracked)


def largest_of(x: np.ndarray) -> float:
    """The largest finite magnitude, or 0."""
    return float(np.abs(x[np.isfinite(x)]).max(initial=0))


def close(ours: Any, want: np.ndarray, dtype: Any, units: float, largest: float = 0) -> bool:
    """Whether values agree within some units in the last place, of the largest finite number for
    sums, or of `largest` where the terms of a sum may cancel.
    """
    eps = st.finfo(dtype).eps
    got = ours.detach().float().numpy() if ours.dtype in HALVES else ours.detach().numpy()
    with np.errstate(all="ignore"):
        want = native.recast(np.asarray(want, np.float32), dtype).astype(np.float32)
        size = max(largest, largest_of(want))
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
    **families(lambda row: row.name in REFUSED or row.name.lstrip("_").startswith("linalg_"))
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
            largest = max((largest_of(w.numpy()) for w in wide if w is not None), default=0)
            for g, want in zip(ours, wide, strict=True):
                if g is None or want is None:
                    assert g is want, (dtype, str(call))
                    continue
                assert g.dtype is dtype, (dtype, str(call))
                assert close(g, want.numpy(), dtype, 8, largest), (dtype, str(call), g, want)


@pytest.mark.parametrize("half", [st.float16, st.bfloat16])
def test_casts_between_halves_and_float32_go_straight_to_the_kernel(half: Any) -> None:
    x = st.tensor([[1.0, -2.5], [3e38, float("nan")]])
    functions: list[str] = []
    sys.setprofile(lambda frame, event, _: functions.append(frame.f_code.co_name))
    try:
        halves = x.to(half)
        singles = halves.to(st.float32)
    finally:
        sys.setprofile(None)
    assert "instead" not in functions  # the plain forward, which mutes NumPy's warnings
    assert singles[0].tolist() == [1.0, -2.5]
    assert singles.isnan().tolist() == [[False, False], [False, True]]
    assert halves.dtype is half


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("other", [st.bool, st.uint8, st.int32, st.int64, st.float64, st.complex64])
def test_casts_of_halves_go_by_float32(half: Any, other: Any) -> None:
    """Both ways, in every layout, and without a warning where a number is too large."""
    numbers = np.arange(24).reshape(4, 6) % 7
    for layout in (lambda t: t, lambda t: t.t(), lambda t: t[:, ::2], lambda t: t[0].expand(3, 6)):
        x = layout(st.tensor(numbers, dtype=other))
        halves = x.to(half)
        assert halves.dtype is half
        assert np.array_equal(halves.float().numpy(), x.float().numpy())
        result = halves.to(other)
        assert result.dtype is other
        assert np.array_equal(result.numpy(), x.numpy())
        assert result.stride() == halves.stride() == x.float().stride()
    assert st.tensor(1e300, dtype=st.float64).to(half).item() == math.inf
    just_over = 1 + (2**-11 if half is st.float16 else 2**-8) + 2**-30  # a tie, once in float32
    assert st.tensor(just_over, dtype=st.float64).to(half).item() == 1.0


@pytest.mark.parametrize("half", HALVES)
def test_signs_of_halves_change_in_place_of_their_bits(half: Any) -> None:
    """NaN stays NaN, zero has a sign; vectors, their tails, and in place."""
    x = st.tensor([-0.0, 0.0, math.inf, -math.inf, math.nan, *np.linspace(-3, 3, 4096)], dtype=half)
    wide = x.float()
    for ours, expected in ((-x, -wide), (x.abs(), wide.abs())):
        assert ours.dtype is half
        assert np.array_equal(ours.float().numpy(), expected.numpy(), equal_nan=True)
        assert np.array_equal(ours.signbit().numpy()[:4], expected.signbit().numpy()[:4])
    assert (-x[1:] == -wide[1:].to(half)).sum() == 4099  # from an odd address on; all except NaN
    y = x.clone()
    assert y.neg_() is y
    assert np.array_equal(y.float().numpy(), -wide.numpy(), equal_nan=True)


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("step", [1, 2])
def test_a_number_is_rounded_before_it_is_compared(half: Any, step: int) -> None:
    x = st.tensor([0.3, 0.1, 1 / 3, 65504.0, math.inf, -1.0, 2049.0, math.nan]).to(half)[::step]
    for number in (0.3, 0.1, 1 / 3, 65519, 1e39, -1, 2049):
        rounded = st.tensor(number if abs(number) < 1e9 else math.inf).to(half)
        for op in (st.eq, st.ne, st.lt, st.le, st.gt, st.ge):
            assert op(x, number).tolist() == op(x, rounded).tolist(), (op, number)
    reflected = [bool(y[0]) for y in (0.3 == x, 0.3 <= x, 0.3 < x)]  # noqa: SIM300
    assert reflected == [True, True, False]


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("step", [1, 2])
def test_a_number_is_rounded_before_it_is_compared_in_place(half: Any, step: int) -> None:
    x = st.tensor([0.3, 0.1, 1 / 3, 65504.0, math.inf, -1.0, 2049.0, math.nan]).to(half)
    for number in (0.3, 0.1, 1 / 3, 65519, 1e39, -1, 2049):
        for name in COMPARISONS:
            y = x.clone()[::step]
            expected = getattr(y, name)(number).to(half).tolist()
            assert getattr(y, name + "_")(number) is y
            assert y.tolist() == expected, (name, number)


def test_the_gradient_of_a_mean_of_more_than_65504() -> None:
    x = st.ones(70_000, dtype=st.float16, requires_grad=True)
    x.mean().backward()
    assert x.grad[0].item() == np.float16(1 / 70_000)
