"""`grid_sample`: images read at the points of a grid; `affine_grid`: the grid of an affine map."""

from __future__ import annotations

import functools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import native
from ..table.constants import constant, zeros
from ..table.native_or_numpy import upcast_half
from ..table.op_table import composite, op
from ..table.samples import reals
from ..table.sizes import check_size
from .weighted_sample import PADDING_MODES as OUTSIDE_MODES
from .weighted_sample import _sample_indices, _weighted_gather

MODES = ("bilinear", "nearest", "bicubic")
PADDING_MODES = ("zeros", "border", "reflection")


# ---- grids


def element_centres(n: int, align_corners: bool, dtype: Any) -> Any:
    """The positions of n elements in [-1, 1]."""
    if align_corners:
        return np.linspace(-1, 1, n, dtype=dtype) if n > 1 else np.zeros(n, dtype)
    return ((2 * np.arange(n) + 1) / n - 1).astype(dtype)


@composite(method=False, function=False)
def affine_grid(ops, theta, size, align_corners=None):
    """The points to which affine maps take the elements of an image, for `grid_sample`.

    Parameters
    ----------
    theta : Tensor
        The maps: `(N, 2, 3)` for images, `(N, 3, 4)` for volumes.
    size : tuple of int
        Shape of the image to be made: `(N, C, H, W)` or `(N, C, D, H, W)`.
    align_corners : bool, optional
        Whether -1 and 1 are the centres of the corner elements, instead of the image's edges; False
        by default.

    Returns
    -------
    Tensor
        `(N, H, W, 2)` or `(N, D, H, W, 3)`: x first, from -1 to 1 within the image.

    Raises
    ------
    ValueError
        theta is not floating point or has another shape, or a size is not positive.
    NotImplementedError
        `size` has neither 4 nor 5 numbers.

    See Also
    --------
    grid_sample

    Examples
    --------
    >>> identity = st.tensor([[[1., 0., 0.], [0., 1., 0.]]])
    >>> F.affine_grid(identity, (1, 1, 1, 2), align_corners=False)
    tensor([[[[-0.5000,  0.0000],
              [ 0.5000,  0.0000]]]])
    """
    n = len(size) - 2
    if theta.dtype.kind != "f":
        raise ValueError(f"affine_grid: theta must be floating point: {theta.dtype.name}")
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
    check_size("affine_grid", (theta.shape[0], *inner, n + 1), 16)
    lines = [element_centres(m, bool(align_corners), theta.dtype) for m in inner]
    mesh = np.meshgrid(*lines, indexing="ij")[::-1]
    base = np.stack([*mesh, np.ones(inner, theta.dtype)], -1).reshape(1, -1, n + 1)
    out = ops.matmul(
        ops.broadcast_to(constant(base, theta), (theta.shape[0], *base.shape[1:])),
        ops.transpose(theta, 1, 2),
    )
    return ops.reshape(out, (theta.shape[0], *inner, n))


# ---- points of a grid, their neighbours and weights: on arrays or tensors, with `ops` the table or
# `plain_ops` of an array module


def plain_ops(xp: Any, **rows: Any) -> SimpleNamespace:
    """The functions of the table that this file calls, on arrays of the module xp."""
    forwards = {
        row.name: functools.partial(row.forward, xp) for row in (_sample_indices, _weighted_gather)
    }
    return SimpleNamespace(
        abs=xp.abs, flip=xp.flip, floor=xp.floor, minimum=xp.minimum, reshape=xp.reshape,
        round=xp.rint, stack=xp.stack, transpose=xp.swapaxes, _where=xp.where,
        _where_other=lambda condition, x, y: xp.where(condition, y, x), **{**forwards, **rows},
    )  # fmt: skip


def sizes_column(inner: tuple[int, ...], dtype: Any) -> Any:
    """The sizes as a column, in NumPy's memory; one number if they are equal, which is faster."""
    if len(set(inner)) == 1:
        return float(inner[0])
    return np.array(inner, dtype).reshape(-1, 1)


def points_of(ops: Any, grid: Any, inner: tuple[int, ...], align_corners: bool) -> tuple[Any, Any]:
    """A grid (N, *out, n) of points from [-1, 1] in elements: (N, n, P), in the order of inner; and
    their derivatives by the grid's numbers, of such a shape or a number.
    """
    n = len(inner)
    points = ops.flip(ops.transpose(ops.reshape(grid, (len(grid), -1, n)), 1, 2), (1,))
    sizes = sizes_column(inner, points.dtype)
    column = constant(sizes, points)
    if align_corners:
        slopes = constant((sizes - 1) / 2, points)
        return (points + 1) * slopes, slopes
    return ((points + 1) * column - 1) / 2, constant(sizes / 2, points)


def reflect(ops: Any, points: Any, inner: tuple[int, ...], align_corners: bool) -> tuple[Any, Any]:
    """Points reflected at the centres of the corner elements, or at the images' edges; 1 or -1, by
    which the reflection changes their derivatives, and 0 where there is one element.
    """
    sizes = np.asarray(sizes_column(inner, points.dtype))
    low = 0.0 if align_corners else -0.5
    span = sizes - 1 if align_corners else sizes
    positive = constant((span > 0).astype(points.dtype), points)
    period = constant(np.maximum(span, 1).astype(points.dtype), points)
    span = constant(span.astype(points.dtype), points)
    from_low = points - low
    distance = ops.abs(from_low)
    periods = ops.floor(distance / period)
    offset = distance - periods * span
    is_odd = periods - 2 * ops.floor(periods / 2) != 0
    mirrored = ops._where(is_odd, span - offset, offset) + low
    signs = ops._where_other(is_odd != (from_low < 0), positive + 0 * offset, -1.0)
    return mirrored * positive, signs * positive


def map_points(
    ops: Any, grid: Any, inner: tuple[int, ...], form: tuple[int, int, int]
) -> tuple[Any, Any]:
    """The points in elements, mapped into the images by the padding mode, a NaN to 0, and their
    derivatives by the grid's numbers. Bicubic: not mapped, since their neighbours are.
    """
    mode, padding_mode, align_corners = form
    points, slopes = points_of(ops, grid, inner, bool(align_corners))
    if MODES[mode] == "bicubic" or PADDING_MODES[padding_mode] == "zeros":
        return points, slopes
    if PADDING_MODES[padding_mode] == "reflection":
        points, signs = reflect(ops, points, inner, bool(align_corners))
        slopes = signs * slopes
    last = constant(np.asarray(sizes_column(inner, points.dtype), points.dtype) - 1, points)
    inside = (points > 0) & (points < last)
    points = ops.minimum(ops._where_other(~(points > 0), points, 0.0), last)
    return points, ops._where_other(~inside, slopes + 0 * points, 0.0)


def cubic_weights(t: Any) -> list[Any]:
    """The weights of four neighbours, by cubic convolution with a = -0.75 (Keys 1981)."""
    a = -0.75
    far = lambda x: ((a * x - 5 * a) * x + 8 * a) * x - 4 * a  # noqa: E731
    near = lambda x: ((a + 2) * x - (a + 3)) * x * x + 1  # noqa: E731
    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def cubic_derivatives(t: Any) -> list[Any]:
    """The derivatives of `cubic_weights` by t."""
    a = -0.75
    far = lambda x: (3 * a * x - 10 * a) * x + 8 * a  # noqa: E731
    near = lambda x: (3 * (a + 2) * x - 2 * (a + 3)) * x  # noqa: E731
    return [far(t + 1), near(t), -near(1 - t), -far(2 - t)]


def multiply_weights(ops: Any, parts: list[list[Any]]) -> Any:
    """The weights (N, K, P) of all neighbours from those in each dimension, parts[dimension]: one
    (N, P) for each neighbour.
    """
    weights = parts[0]
    for inner in parts[1:]:
        weights = [w * inner_weight for w in weights for inner_weight in inner]
    return ops.stack(weights, 1)


def neighbours(
    ops: Any, grid: Any, inner: tuple[int, ...], form: tuple[int, int, int]
) -> tuple[Any, Any, list[list[Any]], list[list[Any]]]:
    """Of the points of a grid: the indices (N, K, P) of neighbours; the points' derivatives by the
    grid's numbers; the neighbours' weights in each dimension, and their derivatives.
    """
    mode, padding_mode, align_corners = form
    points, slopes = map_points(ops, grid, inner, form)
    is_bicubic = MODES[mode] == "bicubic"
    frame = "border" if padding_mode == 1 else "centres" if align_corners else "edges"
    outside = OUTSIDE_MODES.index(frame if is_bicubic and padding_mode else "zeros")
    if MODES[mode] == "nearest":
        places = ops._sample_indices(ops.round(points), inner, 1, outside)
        return places, slopes, [[points[:, 0] * 0 + 1]] + [[1.0]] * (len(inner) - 1), []
    low = ops.floor(points)
    t = points - low
    weights = cubic_weights(t) if is_bicubic else [1 - t, t]
    derivatives = cubic_derivatives(t) if is_bicubic else [t * 0 - 1, t * 0 + 1]
    places = ops._sample_indices(low, inner, len(weights), outside)
    split = lambda parts: [[part[:, d] for part in parts] for d in range(len(inner))]  # noqa: E731
    return places, slopes, split(weights), split(derivatives)


def sampled(ops: Any, x: Any, grid: Any, form: tuple[int, int, int]) -> Any:
    """The forward of `_grid_sample`, by `ops`."""
    lead, inner = tuple(x.shape[:2]), tuple(x.shape[2:])
    places, _, weights, _ = neighbours(ops, grid, inner, form)
    flat = ops.reshape(x, (*lead, -1))
    out = ops._weighted_gather(flat, multiply_weights(ops, weights), places)
    return ops.reshape(out, (*lead, *grid.shape[1:-1]))


def composed_gradients(
    ops: Any, needed: tuple[bool, ...], g: Any, x: Any, grid: Any, shape: tuple[int, ...],
    form: tuple[int, int, int],
) -> tuple[Any, Any]:  # fmt: skip
    """The gradients of the images and of the grid, by ops of the table."""
    lead, inner = shape[:2], shape[2:]
    places, slopes, weights, derivatives = neighbours(ops, grid, inner, form)
    g = ops.reshape(g, (*lead, -1))
    g_x = g_grid = None
    if needed[0]:
        product = multiply_weights(ops, weights)
        g_x = ops.reshape(ops._weighted_scatter(g, product, places, math.prod(inner)), shape)
    if needed[1] and not derivatives:
        g_grid = zeros(ops, tuple(grid.shape), grid.dtype, grid)
    elif needed[1]:
        g_weights = ops._weighted_gather_backward_weights(g, ops.reshape(x, (*lead, -1)), places)
        g_points = []
        for d, part in enumerate(derivatives):
            by_point = multiply_weights(ops, [*weights[:d], part, *weights[d + 1 :]])
            g_points.append(ops.sum(g_weights * by_point, 1))
        flipped = ops.flip(ops.stack(g_points, 1) * slopes, (1,))
        g_grid = ops.reshape(ops.transpose(flipped, 1, 2), tuple(grid.shape))
    return g_x, g_grid


@op(
    native=native.grid_sample,
    samples=[
        ((2, 3, 5, 4), reals((2, 3, 2, 2), -1.3, 1.3), 0, 0, 0),
        ((2, 1, 3, 4), reals((2, 2, 3, 2), -1.3, 1.3), 1, 2, 1),
        ((1, 2, 4, 5), reals((1, 3, 3, 2), -1.3, 1.3), 2, 1, 0),
        ((1, 2, 3, 2, 4), reals((1, 2, 2, 2, 3), -0.9, 0.9), 0, 1, 1),
    ],
)
def _grid_sample(xp, x, grid, /, mode, padding_mode, align_corners):
    """`grid_sample` with numbers for its modes, as in `grid_sampler`."""
    with np.errstate(invalid="ignore"):
        out = sampled(plain_ops(xp), x, grid, (mode, padding_mode, align_corners))
    return out.astype(x.dtype)


def grid_sample_backward(
    ops: Any, needed: tuple[bool, ...], g: Any, x: Any, grid: Any, x_shape: tuple[int, ...],
    mode: int, padding_mode: int, align_corners: int,
) -> Any:  # fmt: skip
    """The gradients of the images and of the grid: by the kernel, but by ops of the table with
    history and on devices.
    """
    form, x_shape = (mode, padding_mode, align_corners), tuple(x_shape)
    g, x, grid = (upcast_half(ops, v) for v in (g, x, grid))
    if isinstance(g, np.ndarray):
        images = np.empty(x_shape, g.dtype) if x is None else x  # its values are not needed
        gradients = native.call(
            native.grid_sample_backward, g, images, grid, *form, *map(int, needed)
        )
        if gradients is not None:
            return gradients
    return composed_gradients(ops, needed, g, x, grid, x_shape, form)


_grid_sample.joint_pullback(grid_sample_backward, x="grid", grid="x grid")


@composite(method=False, function=False)
def grid_sample(ops, input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Images read at given points, between their elements.

    Parameters
    ----------
    input : Tensor
        `(N, C, H, W)` or `(N, C, D, H, W)`.
    grid : Tensor
        The points: `(N, h, w, 2)` or `(N, d, h, w, 3)`, x first, from -1 to 1 within the image, of
        the input's dtype.
    mode : str, optional
        "bilinear" (of volumes trilinear), "nearest", or "bicubic" (of images only).
    padding_mode : str, optional
        What is outside: "zeros", the "border", or the image's "reflection".
    align_corners : bool, optional
        Whether -1 and 1 are the centres of the corner elements, instead of the image's edges; False
        by default.

    Returns
    -------
    Tensor
        `(N, C, h, w)` or `(N, C, d, h, w)`.

    Raises
    ------
    ValueError
        There is no such mode.
    RuntimeError
        Shapes or dtypes do not match.

    See Also
    --------
    affine_grid, interpolate

    Examples
    --------
    >>> image = st.tensor([[[[0., 10.]]]])
    >>> points = st.tensor([[[[-0.5, 0.], [0., 0.], [0.5, 0.]]]])
    >>> F.grid_sample(image, points, align_corners=False)
    tensor([[[[ 0.,  5., 10.]]]])
    """
    for name, value, choices in (
        ("mode", mode, MODES),
        ("padding_mode", padding_mode, PADDING_MODES),
    ):
        if value not in choices:
            raise ValueError(f"grid_sample: no such {name}: {value!r}, one of {choices} is needed")
    if input.dtype.kind != "f" or input.dtype != grid.dtype:
        raise RuntimeError(
            f"grid_sample: input and grid must be of one floating dtype: {input.dtype.name}, "
            f"{grid.dtype.name}"
        )
    n, shape = input.ndim - 2, tuple(input.shape)
    if n not in (2, 3) or grid.ndim != n + 2 or grid.shape[-1] != n or grid.shape[0] != shape[0]:
        raise RuntimeError(
            f"grid_sample: input (N, C, H, W) and grid (N, h, w, 2), or (N, C, D, H, W) and "
            f"(N, d, h, w, 3) are expected: {shape}, {tuple(grid.shape)}"
        )
    if not all(shape[2:]):
        raise RuntimeError(f"grid_sample: the images must not be empty: {shape}")
    if mode == "bicubic" and n != 2:
        raise RuntimeError(f"grid_sample: bicubic is only for images (N, C, H, W): {shape}")
    out = (*shape[:2], *grid.shape[1:-1])
    if not math.prod(out):
        history = ops.add(ops.sum(input), ops.sum(grid))  # so that their gradients are 0
        return ops.add(zeros(ops, out, input.dtype, input), history)
    form = (MODES.index(mode), PADDING_MODES.index(padding_mode), int(bool(align_corners)))
    return ops._grid_sample(input, grid, *form)


@composite(autocast_cuda="widest", method=False, autocast="full")
def grid_sampler(ops, input, grid, interpolation_mode, padding_mode, align_corners):
    """`nn.functional.grid_sample` with the modes as numbers, in the order of its docstring.

    Parameters
    ----------
    input : Tensor
        `(N, C, H, W)` or `(N, C, D, H, W)`.
    grid : Tensor
        The points, x first, from -1 to 1 within the image.
    interpolation_mode : int
        0 "bilinear", 1 "nearest", 2 "bicubic".
    padding_mode : int
        0 "zeros", 1 "border", 2 "reflection".
    align_corners : bool
        Whether -1 and 1 are the centres of the corner elements.

    Returns
    -------
    Tensor
        `(N, C, h, w)` or `(N, C, d, h, w)`.

    See Also
    --------
    nn.functional.grid_sample

    Examples
    --------
    >>> image = st.tensor([[[[0., 10.]]]])
    >>> st.grid_sampler(image, st.zeros(1, 1, 1, 2), 0, 0, False)
    tensor([[[[5.]]]])
    """
    return ops.grid_sample(
        input, grid, MODES[interpolation_mode], PADDING_MODES[padding_mode], align_corners
    )


grid_sampler.alias("grid_sampler_2d", "grid_sampler_3d")
