"""`interpolate`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..table.memory_format import like_image
from ..table.op_table import composite
from ..table.sizes import SMALL, check_size
from .resample import Taps

# ---- the elements of each result and their weights: a function for each mode


def positions(n: int, out: int, scale: float, align_corners: bool, dtype: Any) -> Any:
    """The positions of the results among n elements."""
    at = np.arange(out, dtype=dtype)
    return at * dtype.type(scale) if align_corners else dtype.type(scale) * (at + 0.5) - 0.5


def linear_weights(n: int, out: int, scale: float, align_corners: bool, dtype: Any) -> Taps:
    """The two neighbours."""
    position = np.maximum(positions(n, out, scale, align_corners, dtype), 0)
    low = np.minimum(position.astype(np.int64), n - 1)
    fraction = np.minimum(np.maximum(position - low, 0), 1)
    neighbours = np.stack([low, np.minimum(low + 1, n - 1)], 1)
    return Taps(n, neighbours, np.stack([1 - fraction, fraction], 1))


def cubic_kernel(t: Any) -> Any:
    """The cubic convolution kernel with a = -0.75 (Keys 1981)."""
    a, t = -0.75, abs(t)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


def cubic_weights(n: int, out: int, scale: float, align_corners: bool, dtype: Any) -> Taps:
    """The four neighbours."""
    position = positions(n, out, scale, align_corners, dtype)
    low = np.floor(position)
    near = low[:, None] + np.arange(-1, 3)
    neighbours = np.clip(near.astype(np.int64), 0, n - 1)
    return Taps(n, neighbours, cubic_kernel(position[:, None] - near))


def antialiased_weights(reach: float, kernel: Callable[[Any], Any]) -> Callable[..., Taps]:
    """The weights of a kernel whose width grows with the scale, which avoids aliasing."""

    def weights_of(n: int, out: int, scale: float, align_corners: bool, dtype: Any) -> Taps:
        width = max(scale, 1.0)
        support = reach * width
        shift = 0.0 if align_corners else 0.5
        centre = scale * (np.arange(out) + shift) + (0.5 if align_corners else 0.0)
        start = np.maximum((centre - support + 0.5).astype(np.int64), 0)
        end = np.minimum((centre + support + 0.5).astype(np.int64), n)
        near = start[:, None] + np.arange(max(int((end - start).max()), 1) if out else 1)
        weights = np.where(near < end[:, None], kernel((near - centre[:, None] + 0.5) / width), 0.0)
        weights = weights / weights.sum(1, keepdims=True)
        return Taps(n, np.minimum(near, n - 1), weights, np.maximum(end - start, 0))

    return weights_of


def antialias_cubic_kernel(t: Any) -> Any:
    """The cubic kernel with a = -0.5, which image libraries use to downsample."""
    t = abs(t)
    return np.where(
        t < 1, (1.5 * t - 2.5) * t * t + 1, np.where(t < 2, ((-0.5 * t + 2.5) * t - 4) * t + 2, 0)
    )


def linear_kernel(t: Any) -> Any:
    """1 at 0, 0 from 1 on."""
    return np.maximum(1 - abs(t), 0)


WEIGHTS: dict[str, tuple[int, Callable[..., Taps]]] = {
    "linear": (1, linear_weights),
    "bilinear": (2, linear_weights),
    "trilinear": (3, linear_weights),
    "bicubic": (2, cubic_weights),
}
ANTIALIASED_WEIGHTS = {
    "bilinear": antialiased_weights(1.0, linear_kernel),
    "bicubic": antialiased_weights(2.0, antialias_cubic_kernel),
}
MODES = ("nearest", "nearest-exact", "area", *WEIGHTS)
UINT8_MODES = (
    "nearest",
    "nearest-exact",
    *ANTIALIASED_WEIGHTS,
)  # the other modes take floating-point images only


# ---- public


def output_size(input: Any, size: Any, scale_factor: Any) -> tuple[tuple[int, ...], Any]:
    """The output size, and the scale factors if they are given."""
    n, inner = input.ndim - 2, tuple(input.shape[2:])
    if (size is None) == (scale_factor is None):
        raise ValueError(
            f"interpolate: one of size and scale_factor is needed: {size}, {scale_factor}"
        )
    values = scale_factor if size is None else size
    values = [values] * n if isinstance(values, (int, float)) else list(values)
    if len(values) != n:
        raise ValueError(
            f"interpolate: size or scale_factor must be one number or {n}: {values}, "
            f"input has {tuple(input.shape)}"
        )
    if size is not None:
        return tuple(int(v) for v in values), None
    return tuple(math.floor(m * f) for m, f in zip(inner, values, strict=True)), values


def sampling_distance(n: int, out: int, factor: float | None, align_corners: bool) -> float:
    """The distance of neighbouring results, in elements."""
    if align_corners:
        return (n - 1) / (out - 1) if out > 1 else 0.0
    return 1 / factor if factor else n / out


# Images often have the same size: the taps are cached.


@functools.lru_cache(maxsize=64)
def nearest_taps(n: int, out: int, scale: float, exact: bool) -> Taps:
    """The element that each result takes."""
    at = np.floor((np.arange(out, dtype=np.float32) + 0.5 * exact) * np.float32(scale))
    return Taps(n, np.minimum(at.astype(np.int64), n - 1)[:, None])


@functools.lru_cache(maxsize=64)
def cached_taps(weights_of: Callable[..., Taps], *arguments: Any) -> Taps:
    """The taps for these arguments."""
    return weights_of(*arguments)


@composite(autocast_cuda="full", method=False, function=False)
def interpolate(
    ops,
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    """Sequences, images or volumes resampled to another size.

    Parameters
    ----------
    input : Tensor
        `(N, C, L)`, `(N, C, H, W)` or `(N, C, D, H, W)`.
    size : int or tuple of int, optional
        The new size: one number, or one for each dimension.
    scale_factor : float or tuple of float, optional
        The new size over the old one, instead of `size`.
    mode : str, optional
        "nearest", "nearest-exact", "area" (averages), "linear" (3 dimensions), "bilinear" or
        "bicubic" (4), "trilinear" (5).
    align_corners : bool, optional
        Whether the centres of the corner elements, instead of the images' edges, coincide; not for
        "nearest" and "area".
    recompute_scale_factor : bool, optional
        Whether the ratio is that of the sizes, which are whole numbers, instead of scale_factor.
    antialias : bool, optional
        Whether shrinking takes all elements into account ("bilinear" and "bicubic").

    Returns
    -------
    Tensor
        `(N, C, *size)`.

    Raises
    ------
    ValueError
        Arguments do not match.
    NotImplementedError
        The mode does not exist for such an image or dtype.

    See Also
    --------
    grid_sample, nn.Upsample

    Examples
    --------
    >>> x = st.tensor([[[1., 3.]]])
    >>> F.interpolate(x, scale_factor=2)
    tensor([[[1., 1., 3., 3.]]])
    >>> F.interpolate(x, size=4, mode="linear")
    tensor([[[1.0000, 1.5000, 2.5000, 3.0000]]])
    >>> F.interpolate(x, size=3, mode="linear", align_corners=True)
    tensor([[[1., 2., 3.]]])
    """
    out, factors = output_size(input, size, scale_factor)
    check_mode(input, mode, align_corners, antialias)
    if input.dtype.kind != "f" and not (input.dtype == np.uint8 and mode in UINT8_MODES):
        raise NotImplementedError(
            f"interpolate: mode {mode!r} not implemented for {input.dtype.name}"
        )
    if recompute_scale_factor:
        if size is not None:
            raise ValueError(f"interpolate: recompute_scale_factor needs scale_factor: size={size}")
        factors = None
    if min(out) < 1:
        raise RuntimeError(f"interpolate: sizes must be positive: {out} of {tuple(input.shape)}")
    if mode == "area":
        n = input.ndim - 2
        return (ops.adaptive_avg_pool1d, ops.adaptive_avg_pool2d, ops.adaptive_avg_pool3d)[n - 1](
            input, out
        )
    if max(out) > SMALL:
        check_size("interpolate", (max(out),), 16)  # the indices and weights of a dimension
        check_size("interpolate", (*input.shape[:2], *out), np.dtype(input.dtype).itemsize)
    original = input
    is_uint8 = mode in WEIGHTS and input.dtype == np.uint8
    if is_uint8:
        input = ops._to_copy(input, np.dtype(np.float32))
    taps: list[Taps | None] = []
    for d, m in enumerate(out):
        n, factor = input.shape[2 + d], None if factors is None else factors[d]
        scale = sampling_distance(n, m, factor, bool(align_corners))
        if mode not in ("nearest", "nearest-exact"):
            weights_of = ANTIALIASED_WEIGHTS[mode] if antialias else WEIGHTS[mode][1]
            dtype = np.dtype(np.float64 if input.dtype == np.float64 else np.float32)
            taps.append(cached_taps(weights_of, n, m, scale, bool(align_corners), dtype))
        elif m != n or scale != 1:
            taps.append(nearest_taps(n, m, scale, mode == "nearest-exact"))
        else:
            taps.append(None)
    if any(taps):
        input = ops._resample(input, tuple(taps))
    if is_uint8:
        input = ops._to_copy(ops._clamp(ops.round(input), 0, 255), np.dtype(np.uint8))
    return like_image(ops, input, original)


def check_mode(input: Any, mode: str, align_corners: Any, antialias: bool) -> None:
    """Raises unless there is such a mode for such an image."""
    if mode not in MODES:
        raise NotImplementedError(f"interpolate: no such mode: {mode!r}, one of {MODES} is needed")
    if not 3 <= input.ndim <= 5:
        raise NotImplementedError(
            f"interpolate: images of 3 to 5 dimensions are needed: {tuple(input.shape)}"
        )
    if mode in WEIGHTS and input.ndim != WEIGHTS[mode][0] + 2:
        raise NotImplementedError(
            f"interpolate: mode {mode!r} needs {WEIGHTS[mode][0] + 2} dimensions: "
            f"{tuple(input.shape)}"
        )
    if align_corners is not None and mode not in WEIGHTS:
        raise ValueError(
            f"interpolate: align_corners is only for linear, bilinear, bicubic and trilinear: "
            f"mode={mode!r}"
        )
    if antialias and mode not in ANTIALIASED_WEIGHTS:
        raise ValueError(f"interpolate: antialias is only for bilinear and bicubic: mode={mode!r}")
