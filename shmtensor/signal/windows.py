"""Window functions, `torch.signal.windows` by name (Harris 1978; Nuttall 1981).

All take the number of points M first, then keyword arguments for the shape, and `sym`: symmetric
(the default), or the first M points of a window with M + 1 points, for Fourier transforms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dtypes import as_dtype, get_default_dtype
from ..ops.creation.device_forms import new_tensor
from ..ops.table.sizes import check_size

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def window(
    name: str,
    M: int,
    sym: bool,
    dtype: Any,
    device: Any,
    requires_grad: bool,
    shape: Callable[[Any, int], Any],
) -> Tensor:
    """The tensor of a window whose points 0, 1, ... of n are `shape(points, n)`.

    Raises: ValueError, a negative number of points; RuntimeError, another dtype than float.
    """
    if M < 0:
        raise ValueError(f"{name}: requires non-negative window length, got M={M}")
    window_dtype = get_default_dtype() if dtype is None else as_dtype(dtype)
    if window_dtype not in (np.float32, np.float64):
        raise ValueError(f"{name}: expects float32 or float64 dtypes, got: {window_dtype}")
    check_size(name, (M,))
    n = M if sym else M + 1
    values = np.ones(M) if M <= 1 else shape(np.arange(n, dtype=np.float64), n)[:M]
    return new_tensor(  # type: ignore[no-any-return]
        np.array, values, window_dtype, device=device, requires_grad=requires_grad
    )


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-|n - center| / tau); center: by default the middle; another only for sym=False."""
    if tau <= 0:
        raise ValueError(f"exponential: tau must be positive, got: {tau}")
    if sym and center is not None:
        raise ValueError("exponential: center must be None for symmetric windows")
    middle = center

    def shape(x: Any, n: int) -> Any:
        return np.exp(-np.abs(x - ((n - 1) / 2 if middle is None else middle)) / tau)

    return window("exponential", M, sym, dtype, device, requires_grad, shape)


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-((n - middle) / std) ** 2 / 2)."""
    if std <= 0:
        raise ValueError(f"gaussian: standard deviation must be positive, got: {std}")
    return window(
        "gaussian", M, sym, dtype, device, requires_grad,
        lambda x, n: np.exp(-(((x - (n - 1) / 2) / std) ** 2) / 2),
    )  # fmt: skip


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """I0(beta sqrt(1 - ((n - middle) / middle) ** 2)) / I0(beta)."""
    if beta < 0:
        raise ValueError(f"kaiser: beta must be non-negative, got: {beta}")

    def shape(x: Any, n: int) -> Any:
        part = 1 - ((x - (n - 1) / 2) / ((n - 1) / 2)) ** 2
        return np.i0(beta * np.sqrt(np.maximum(part, 0))) / np.i0(beta)

    return window("kaiser", M, sym, dtype, device, requires_grad, shape)


def cosine_sum(weights: list[float]) -> Callable[[Any, int], Any]:
    """The shape of a sum of cosines."""

    def shape(x: Any, n: int) -> Any:
        angle = 2 * math.pi * x / (n - 1)
        return sum((-1) ** i * w * np.cos(i * angle) for i, w in enumerate(weights))

    return shape


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The sum of (-1) ** i a[i] cos(2 pi i n / (M - 1))."""
    weights = list(a)
    if not weights:
        raise ValueError("general_cosine: coefficients cannot be empty")

    return window("general_cosine", M, sym, dtype, device, requires_grad, cosine_sum(weights))


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """alpha - (1 - alpha) cos(2 pi n / (M - 1))."""
    return general_cosine(
        M, a=[alpha, 1 - alpha], sym=sym, dtype=dtype, device=device, requires_grad=requires_grad
    )


def of_shape(name: str, shape: Callable[[Any, int], Any], doc: str) -> Callable[..., Tensor]:
    """A named window whose shape has no parameter."""

    def window_function(
        M: int,
        *,
        sym: bool = True,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        return window(name, M, sym, dtype, device, requires_grad, shape)

    window_function.__name__ = window_function.__qualname__ = name
    window_function.__doc__ = doc
    return window_function


hamming = of_shape("hamming", cosine_sum([0.54, 0.46]), "`general_cosine` of 0.54, 0.46.")
hann = of_shape("hann", cosine_sum([0.5, 0.5]), "`general_cosine` of 0.5, 0.5.")
blackman = of_shape(
    "blackman", cosine_sum([0.42, 0.5, 0.08]), "`general_cosine` of 0.42, 0.5, 0.08."
)
nuttall = of_shape(
    "nuttall",
    cosine_sum([0.3635819, 0.4891775, 0.1365995, 0.0106411]),
    "The minimum 4-term window of Blackman and Harris, according to Nuttall.",
)


cosine = of_shape("cosine", lambda x, n: np.sin(math.pi * (x + 0.5) / n), "sin(pi (n + 1/2) / M).")
bartlett = of_shape(
    "bartlett", lambda x, n: 1 - np.abs(2 * x / (n - 1) - 1), "1 - |2 n / (M - 1) - 1|: a triangle."
)
