"""Images of another size: `interpolate`, and the row under it and under uneven averages."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..table.dims import axis
from ..table.memory_format import like_image
from ..table.op_definition import composite, op

Taps = tuple[Any, Any]


@op(
    method=False,
    function=False,
    samples=[
        ((2, 4), np.array([[0, 1], [1, 2], [2, 3]]), np.array([[0.5, 0.5], [0.3, 0.7], [1, 0]]), 1),
        ((3, 2), np.array([[0], [2], [2], [1]]), np.array([[1.0], [0.5], [2.0], [1.0]]), 0),
    ],
)
def _upsample(xp, x, /, places, weights, dim):
    """Each result is a few elements along dim, weighted: places and weights are (results, taps)."""
    dim = axis(x, dim)
    weights = weights.astype(x.dtype).reshape(*weights.shape, *(1,) * (x.ndim - 1 - dim))
    out = None
    for k in range(places.shape[1]):
        part = x.take(places[:, k], dim)
        part *= weights[:, k]
        out = part if out is None else xp.add(out, part, out)
    return (
        xp.zeros((*x.shape[:dim], len(places), *x.shape[dim + 1 :]), x.dtype)
        if out is None
        else out
    )


def transposed_weights(places: Any, weights: Any, n: int) -> Taps:
    """The taps of the gradient: for each of n elements, which results it went to."""
    to = np.repeat(np.arange(len(places)), places.shape[1])
    source, parts = places.reshape(-1), weights.reshape(-1)
    kept = parts != 0
    to, source, parts = to[kept], source[kept], parts[kept]
    order = np.argsort(source, kind="stable")
    to, source, parts = to[order], source[order], parts[order]
    number = np.bincount(source, minlength=n)
    first = np.cumsum(number) - number
    rank = np.arange(len(source)) - first[source]
    width = int(number.max()) if n else 0
    back = np.zeros((n, width), np.int64)
    share = np.zeros((n, width), weights.dtype)
    if width:  # a tap that does not exist names an element that counts anyway, with weight 0
        back[:] = np.where(number > 0, to[np.minimum(first, len(to) - 1)], 0)[:, None]
    back[source, rank], share[source, rank] = to, parts
    return back, share


_upsample.pullback(
    x=lambda ops, g, x_shape, places, weights, dim: ops._upsample(
        g, *transposed_weights(places, weights, x_shape[dim]), dim
    )
)


# ---- which elements, and how much of each: one function a mode


def positions(n: int, out: int, scale: float, align_corners: bool, dtype: Any) -> Any:
    """Where the results lie among n elements."""
    at = np.arange(out, dtype=dtype)
    return at * dtype.type(scale) if align_corners else dtype.type(scale) * (at + 0.5) - 0.5


def linear_weights(n: int, out: int, scale: float, align_corners: bool, dtype: Any) -> Taps:
    """The two neighbours."""
    at = np.maximum(positions(n, out, scale, align_corners, dtype), 0)
    low = np.minimum(at.astype(np.int64), n - 1)
    part = np.minimum(np.maximum(at - low, 0), 1)
    return np.stack([low, np.minimum(low + 1, n - 1)], 1), np.stack([1 - part, part], 1)


def cubic_kernel(t: Any) -> Any:
    """The cubic convolution kernel with a = -0.75 (Keys 1981)."""
    a, t = -0.75, abs(t)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


def cubic_weights(n: int, out: int, scale: float, align_corners: bool, dtype: Any) -> Taps:
    """The four neighbours."""
    at = positions(n, out, scale, align_corners, dtype)
    low = np.floor(at)
    near = low[:, None] + np.arange(-1, 3)
    places = np.clip(near.astype(np.int64), 0, n - 1)
    return places, cubic_kernel(at[:, None] - near)


def antialiased_weights(reach: float, kernel: Callable[[Any], Any]) -> Callable[..., Taps]:
    """The taps of a kernel that is as wide as the image shrinks: no aliasing."""

    def taps(n: int, out: int, scale: float, align_corners: bool, dtype: Any) -> Taps:
        wide = max(scale, 1.0)
        support = reach * wide
        shift = 0.0 if align_corners else 0.5
        centre = scale * (np.arange(out) + shift) + (0.5 if align_corners else 0.0)
        start = np.maximum((centre - support + 0.5).astype(np.int64), 0)
        end = np.minimum((centre + support + 0.5).astype(np.int64), n)
        near = start[:, None] + np.arange(max(int((end - start).max()), 1) if out else 1)
        weights = np.where(near < end[:, None], kernel((near - centre[:, None] + 0.5) / wide), 0.0)
        weights = weights / weights.sum(1, keepdims=True)
        return np.minimum(near, n - 1), weights

    return taps


def keys(t: Any) -> Any:
    """The cubic kernel with a = -0.5, which image libraries take for shrinking."""
    t = abs(t)
    return np.where(
        t < 1, (1.5 * t - 2.5) * t * t + 1, np.where(t < 2, ((-0.5 * t + 2.5) * t - 4) * t + 2, 0)
    )


def triangle(t: Any) -> Any:
    """1 at 0, 0 from 1 on."""
    return np.maximum(1 - abs(t), 0)


TAPS: dict[str, tuple[int, Callable[..., Taps]]] = {
    "linear": (1, linear_weights),
    "bilinear": (2, linear_weights),
    "trilinear": (3, linear_weights),
    "bicubic": (2, cubic_weights),
}
SMOOTH = {"bilinear": antialiased_weights(1.0, triangle), "bicubic": antialiased_weights(2.0, keys)}
MODES = ("nearest", "nearest-exact", "area", *TAPS)
OF_BYTES = ("nearest", "nearest-exact", *SMOOTH)  # all but those have floating-point images alone


# ---- public


def new_size(input: Any, size: Any, scale_factor: Any) -> tuple[tuple[int, ...], Any]:
    """The size that is asked for, and the factors if they were given."""
    n, inner = input.ndim - 2, tuple(input.shape[2:])
    if (size is None) == (scale_factor is None):
        raise ValueError(
            f"interpolate: one of size and scale_factor is needed: {size}, {scale_factor}"
        )
    given = scale_factor if size is None else size
    given = [given] * n if isinstance(given, (int, float)) else list(given)
    if len(given) != n:
        raise ValueError(
            f"interpolate: size or scale_factor must be one number or {n}: {given}, "
            f"input has {tuple(input.shape)}"
        )
    if size is not None:
        return tuple(int(v) for v in given), None
    return tuple(math.floor(m * f) for m, f in zip(inner, given, strict=True)), given


def step(n: int, out: int, factor: float | None, align_corners: bool) -> float:
    """How far the results lie apart, in elements."""
    if align_corners:
        return (n - 1) / (out - 1) if out > 1 else 0.0
    return 1 / factor if factor else n / out


# Images of one size follow each other: what a size needs is kept, read-only.


@functools.lru_cache(maxsize=64)
def nearest(n: int, out: int, scale: float, exact: bool) -> Any:
    """The place of the element that each result takes."""
    at = np.floor((np.arange(out, dtype=np.float32) + 0.5 * exact) * np.float32(scale))
    places = np.minimum(at.astype(np.int64), n - 1)
    places.flags.writeable = False
    return places


@functools.lru_cache(maxsize=64)
def kept(taps: Callable[..., Taps], *arguments: Any) -> Taps:
    """The taps of these arguments."""
    places, weights = taps(*arguments)
    places.flags.writeable = weights.flags.writeable = False
    return places, weights


@composite(method=False, function=False)
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
    """Images (N, C, *size) brought to another size.

    Args:
        size, scale_factor: the new size, or how many times the old one: one number or one for each
            dimension.
        mode: "nearest", "nearest-exact", "area" (averages), "linear" (3-d), "bilinear", "bicubic"
            (4-d), "trilinear" (5-d).
        align_corners: the corner elements' centres, not the images' edges, coincide.
        antialias: shrinking takes all elements into account (bilinear and bicubic).

    Raises:
        ValueError: arguments that do not go together. NotImplementedError: such a mode for such an
            image.
    """
    out, factors = new_size(input, size, scale_factor)
    checked(input, mode, align_corners, antialias)
    if input.dtype.kind != "f" and not (input.dtype == np.uint8 and mode in OF_BYTES):
        raise NotImplementedError(f"interpolate: mode {mode!r} not implemented for {input.dtype}")
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
    given = input
    bytes_ = mode in TAPS and input.dtype == np.uint8
    if bytes_:
        input = ops._to_copy(input, np.dtype(np.float32))
    for d, m in enumerate(out):
        n, factor = input.shape[2 + d], None if factors is None else factors[d]
        scale = step(n, m, factor, bool(align_corners))
        if mode in ("nearest", "nearest-exact"):
            if m != n or scale != 1:
                input = ops._index_select(
                    input, nearest(n, m, scale, mode == "nearest-exact"), 2 + d
                )
            continue
        taps = SMOOTH[mode] if antialias else TAPS[mode][1]
        dtype = np.dtype(np.float64 if input.dtype == np.float64 else np.float32)
        input = ops._upsample(input, *kept(taps, n, m, scale, bool(align_corners), dtype), 2 + d)
    if bytes_:
        input = ops._to_copy(ops._clamp(ops.round(input), 0, 255), np.dtype(np.uint8))
    return like_image(ops, input, given)


def checked(input: Any, mode: str, align_corners: Any, antialias: bool) -> None:
    """Raises unless there is such a mode for such an image."""
    if mode not in MODES:
        raise NotImplementedError(f"interpolate: no such mode: {mode!r}, one of {MODES} is needed")
    if not 3 <= input.ndim <= 5:
        raise NotImplementedError(
            f"interpolate: images of 3 to 5 dimensions are needed: {tuple(input.shape)}"
        )
    if mode in TAPS and input.ndim != TAPS[mode][0] + 2:
        raise NotImplementedError(
            f"interpolate: mode {mode!r} needs {TAPS[mode][0] + 2} dimensions: {tuple(input.shape)}"
        )
    if align_corners is not None and mode not in TAPS:
        raise ValueError(
            f"interpolate: align_corners is for linear, bilinear, bicubic and trilinear alone: "
            f"mode={mode!r}"
        )
    if antialias and mode not in SMOOTH:
        raise ValueError(f"interpolate: antialias is for bilinear and bicubic alone: mode={mode!r}")
