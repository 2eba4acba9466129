"""Images read at any places: grids of places by an affine map, and `grid_sample`."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from .table import composite

MODES = ("bilinear", "nearest", "bicubic")
FRAMES = ("zeros", "border", "reflection")


# ---- places


def centres(n: int, align_corners: bool, dtype: Any) -> Any:
    """Where n elements lie in [-1, 1]."""
    if align_corners:
        return np.linspace(-1, 1, n, dtype=dtype) if n > 1 else np.zeros(n, dtype)
    return ((2 * np.arange(n) + 1) / n - 1).astype(dtype)


@composite(method=False, function=False)
def affine_grid(ops, theta, size, align_corners=None):
    """The places that an affine map (N, 2, 3) or (N, 3, 4) gives the elements of an image (N, C,
    *size): (N, *size, 2 or 3), x first, from -1 to 1.
    """
    n = len(size) - 2
    if theta.dtype.kind != "f":
        raise ValueError(f"affine_grid: theta must be floating point: {theta.dtype}")
    if n not in (2, 3):
        raise NotImplementedError(f"affine_grid: sizes of 4 or 5 numbers are supported: {size}")
    if tuple(theta.shape[1:]) != (n, n + 1):
        raise ValueError(
            f"affine_grid: theta must be (N, {n}, {n + 1}) for such a size: {tuple(theta.shape)}, "
            f"{tuple(size)}"
        )
    if min(size) <= 0:
        raise ValueError(f"affine_grid: sizes must be positive: {tuple(size)}")
    inner = tuple(size[2:])
    lines = [centres(m, bool(align_corners), theta.dtype) for m in inner]
    mesh = np.meshgrid(*lines, indexing="ij")[::-1]
    base = np.stack([*mesh, np.ones(inner, theta.dtype)], -1).reshape(1, -1, n + 1)
    out = ops.matmul(
        ops.broadcast_to(base, (theta.shape[0], *base.shape[1:])), ops.transpose(theta, 1, 2)
    )
    return ops.reshape(out, (theta.shape[0], *inner, n))


def scaled(at: Any, n: int, align_corners: bool) -> Any:
    """Places from [-1, 1] in elements."""
    return (at + 1) * ((n - 1) / 2) if align_corners else ((at + 1) * n - 1) / 2


def reflected(ops: Any, at: Any, low: float, span: float) -> Any:
    """Places mirrored at low and low + span."""
    if span == 0:
        return at * 0
    way = ops.abs(at - low)
    turns = ops.floor(way / span)
    rest = way - turns * span  # a constant number of turns: its slope is way's
    return ops.choose(ops.remainder(turns, 2) == 0, rest + low, span - rest + low)


def framed(ops: Any, at: Any, n: int, frame: str, align_corners: bool) -> Any:
    """Places brought into the image as the frame says."""
    if frame == "border":
        return ops.clamped(at, 0.0, float(n - 1))
    if frame == "reflection":
        at = reflected(ops, at, 0.0 if align_corners else -0.5, n - 1.0 if align_corners else n)
        return ops.clamped(at, 0.0, float(n - 1))
    return at


def whole(at: Any) -> Any:
    """The places as whole numbers, without history; beyond any image where not finite."""
    at = getattr(at, "array", at)
    return np.nan_to_num(np.clip(at, -1e9, 1e9), nan=-1e9).astype(np.int64)


def fetched(ops: Any, flat: Any, inner: tuple[int, ...], corner: list[Any], zeros: bool) -> Any:
    """The elements (N, C, places) of images (N, C, elements) at whole places; outside 0."""
    inside: Any = True
    at: Any = 0
    step = 1
    for n, c in zip(reversed(inner), reversed(corner), strict=True):
        inside = inside & (c >= 0) & (c < n)
        at = at + np.clip(c, 0, n - 1) * step
        step *= n
    at = at.reshape(at.shape[0], 1, -1)
    found = ops.gathered(flat, np.broadcast_to(at, (*flat.shape[:2], at.shape[2])), 2)
    if not zeros or inside.all():
        return found
    return ops.choose(inside.reshape(at.shape), found, 0.0)


# ---- the modes


def between(ops: Any, flat: Any, inner: tuple[int, ...], places: list[Any], zeros: bool) -> Any:
    """Weighted by the nearness of the 2 ** n neighbours."""
    rows = (places[0].shape[0], 1, -1)
    lows = [ops.floor(p) for p in places]
    parts = [(low + 1 - p, p - low) for p, low in zip(places, lows, strict=True)]
    wholes = [whole(low) for low in lows]
    out: Any = None
    for corner in product((0, 1), repeat=len(inner)):
        weight: Any = None
        for part, c in zip(parts, corner, strict=True):
            weight = part[c] if weight is None else weight * part[c]
        near = [w + c for w, c in zip(wholes, corner, strict=True)]
        term = fetched(ops, flat, inner, near, zeros) * ops.reshape(weight, rows)
        out = term if out is None else out + term
    return out


def bends(t: Any) -> list[Any]:
    """The weights of four neighbours, by cubic convolution with a = -0.75 (Keys 1981)."""
    a = -0.75
    far = lambda x: ((a * x - 5 * a) * x + 8 * a) * x - 4 * a  # noqa: E731
    near = lambda x: ((a + 2) * x - (a + 3)) * x * x + 1  # noqa: E731
    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def curved(
    ops: Any, flat: Any, inner: tuple[int, ...], places: list[Any], frame: str, corners: bool
) -> Any:
    """Cubic in both directions; here the neighbours are brought into the image, not the place."""
    rows = (places[0].shape[0], 1, -1)
    lows = [ops.floor(p) for p in places]
    weights = [bends(p - low) for p, low in zip(places, lows, strict=True)]
    near = [
        [whole(framed(ops, low + float(i - 1), n, frame, corners)) for i in range(4)]
        for low, n in zip(lows, inner, strict=True)
    ]
    out: Any = None
    for i, j in product(range(4), repeat=2):
        weight = ops.reshape(weights[0][i] * weights[1][j], rows)
        found = fetched(ops, flat, inner, [near[0][i], near[1][j]], frame == "zeros")
        out = found * weight if out is None else out + found * weight
    return out


@composite(method=False, function=False)
def grid_sample(ops, input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Images (N, C, *size) read at places (N, *out, 2 or 3), x first, from -1 to 1: (N, C, *out).

    Args:
        mode: "bilinear" (of volumes: trilinear), "nearest", "bicubic" (images alone).
        padding_mode: what lies outside: "zeros", the "border", or the image's "reflection".
        align_corners: -1 and 1 are the centres of the corner elements, not the image's edges.

    Raises:
        ValueError: no such mode. RuntimeError: shapes do not belong together.
    """
    for name, value, known in (("mode", mode, MODES), ("padding_mode", padding_mode, FRAMES)):
        if value not in known:
            raise ValueError(f"grid_sample: no such {name}: {value!r}, one of {known} is needed")
    n, shape = input.ndim - 2, tuple(input.shape)
    if n not in (2, 3) or grid.ndim != n + 2 or grid.shape[-1] != n or grid.shape[0] != shape[0]:
        raise RuntimeError(
            f"grid_sample: input (N, C, H, W) and grid (N, h, w, 2), or (N, C, D, H, W) and "
            f"(N, d, h, w, 3) are expected: {shape}, {tuple(grid.shape)}"
        )
    if not all(shape[2:]):
        raise RuntimeError(f"grid_sample: the images must not be empty: {shape}")
    if mode == "bicubic" and n != 2:
        raise RuntimeError(f"grid_sample: bicubic is for images (N, C, H, W) alone: {shape}")
    corners, inner = bool(align_corners), shape[2:]
    places = [
        scaled(ops.select(grid, -1, n - 1 - d), m, corners) for d, m in enumerate(inner)
    ]  # the last coordinate is the first dimension's
    flat = ops.reshape(input, (*shape[:2], -1)) if shape[0] and shape[1] else None
    out = (*shape[:2], *grid.shape[1:-1])
    if flat is None:
        return ops.zeros(out, dtype=input.dtype)
    if mode == "bicubic":
        found = curved(ops, flat, inner, places, padding_mode, corners)
    else:
        places = [
            framed(ops, p, m, padding_mode, corners) for p, m in zip(places, inner, strict=True)
        ]
        zeros = padding_mode == "zeros"
        if mode == "nearest":
            nearest = [whole(ops.round(p)) for p in places]
            found = fetched(ops, flat, inner, nearest, zeros)
        else:
            found = between(ops, flat, inner, places, zeros)
    return ops.reshape(found, out)


@composite(method=False)
def grid_sampler(ops, input, grid, interpolation_mode, padding_mode, align_corners):
    """`grid_sample` with the modes as numbers, in the order of its docstring."""
    return ops.grid_sample(
        input, grid, MODES[interpolation_mode], FRAMES[padding_mode], align_corners
    )


grid_sampler.alias("grid_sampler_2d", "grid_sampler_3d")
