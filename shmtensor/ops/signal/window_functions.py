"""Window functions of signal processing: symmetric, or a period without its last point."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...native import elementwise
from ..creation.device_forms import new_tensor, on_cuda
from ..creation.zeros_full_arange import dtype_or_default
from ..table.op_table import ROWS, composite

i0 = elementwise("i0")


def new_window(
    name: str, formula: Any, n: int, periodic: bool, dtype: Any, device: Any, requires_grad: bool
) -> Any:
    """A window of n points; `formula` takes the array module and positions from 0 to 1 of a
    symmetric one.
    """
    dtype = dtype_or_default(dtype)
    if n < 0:
        raise RuntimeError(f"{name}: window_length must not be negative: {n}")
    if dtype.kind != "f":
        raise RuntimeError(f"{name}: dtype must be floating point: {dtype}")
    arguments = formula, n, max(n - (not periodic), 1), dtype
    return new_tensor(points, *arguments, device=device, requires_grad=requires_grad)


def points(formula: Any, n: int, period: int, dtype: Any) -> Any:
    """The values of a formula at n points."""
    return points_of(np, formula, n, period, dtype)


@on_cuda(points, meta=lambda xp, formula, n, period, dtype: xp.empty(n, dtype))
def points_of(xp: Any, formula: Any, n: int, period: int, dtype: Any) -> Any:
    """`points` by an array module."""
    if n == 1:
        return xp.ones(1, dtype)
    return formula(xp, xp.arange(n) / period).astype(dtype)


def cosines(*weights: float) -> Any:
    """w0 - w1 cos(2 pi t) + w2 cos(4 pi t)."""
    return lambda xp, t: (
        sum((-1) ** k * w * xp.cos(2 * np.pi * k * t) for k, w in enumerate(weights))
        + xp.zeros_like(t)
    )


def declare_window(name: str, formula: Any, doc: str) -> None:
    """Declares a window whose formula has no parameter."""

    def compute(
        ops,
        window_length,
        periodic=True,
        *,
        dtype=None,
        layout=None,
        device=None,
        requires_grad=False,
    ):
        return new_window(name, formula, window_length, periodic, dtype, device, requires_grad)

    compute.__doc__ = doc
    composite(compute, name=name, method=False)


declare_window(
    "hann_window",
    cosines(0.5, 0.5),
    """(1 - cos(2 pi n / N)) / 2 for each n of (window_length,); N: the length, less one unless
    periodic.
    """,
)
declare_window(
    "blackman_window",
    cosines(0.42, 0.5, 0.08),
    "0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N); N as for `hann_window`.",
)
declare_window(
    "bartlett_window",
    lambda xp, t: 1 - xp.abs(2 * t - 1),
    "A triangle: 1 - abs(2 n / N - 1); N as for `hann_window`.",
)


@composite(method=False)
def hamming_window(
    ops,
    window_length,
    periodic=True,
    alpha=0.54,
    beta=0.46,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
):
    """alpha - beta cos(2 pi n / N) for each n of (window_length,); N as for `hann_window`."""
    name = "hamming_window"
    return new_window(
        name, cosines(alpha, beta), window_length, periodic, dtype, device, requires_grad
    )


@composite(method=False)
def kaiser_window(
    ops,
    window_length,
    periodic=True,
    beta=12.0,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
):
    """I0(beta sqrt(1 - (2 n / N - 1)^2)) / I0(beta), with I0 the modified Bessel function of order
    zero; N as for `hann_window`.
    """

    def formula(xp: Any, t: Any) -> Any:
        at = beta * xp.sqrt(xp.maximum(1 - (2 * t - 1) ** 2, 0))
        values = i0(at) if xp is np else ROWS["i0"].forward_on("cuda")(xp, at)
        return values / float(i0(np.float64(beta)))

    name = "kaiser_window"
    return new_window(name, formula, window_length, periodic, dtype, device, requires_grad)
