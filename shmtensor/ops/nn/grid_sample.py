"""`grid_sample`: images read at the points of a grid; `affine_grid`: the grid of an affine map."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..table.constants import constant, zeros
from ..table.op_table import composite
from ..table.sizes import check_size
from .weighted_sample import PADDING_MODES as OUTSIDE_MODES

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


def sizes_column(inner: tuple[int, ...], dtype: Any) -> Any:
    """The sizes as a column, in NumPy's memory; one number if they are equal, which is faster."""
    if len(set(inner)) == 1:
        return float(inner[0])
    return np.array(inner, dtype).reshape(-1, 1)


def unnormalize(ops: Any, grid: Any, inner: tuple[int, ...], align_corners: bool) -> Any:
    """A grid (N, *out, n) of points from [-1, 1] in elements: (N, n, P), in the order of inner."""
    n = len(inner)
    points = ops.flip(ops.transpose(ops.reshape(grid, (len(grid), -1, n)), 1, 2), (1,))
    sizes = sizes_column(inner, points.dtype)
    if align_corners:
        return ops.mul(ops.add(points, 1), constant((sizes - 1) / 2, points))
    return ops.div(ops.sub(ops.mul(ops.add(points, 1), constant(sizes, points)), 1), 2)


def reflect(ops: Any, points: Any, inner: tuple[int, ...], align_corners: bool) -> Any:
    """Points reflected at the centres of the corner elements, or at the images' edges."""
    sizes = np.asarray(sizes_column(inner, points.dtype))
    low = 0.0 if align_corners else -0.5
    span = sizes - 1 if align_corners else sizes
    positive = constant((span > 0).astype(points.dtype), points)
    period = constant(np.maximum(span, 1), points)
    span = constant(span, points)
    distance = ops.abs(ops.sub(points, low))
    periods = ops.floor(ops.div(distance, period))  # constant, without a gradient
    offset = ops.sub(distance, ops.mul(periods, span))
    reflected = ops.sub(span, offset)
    mirrored = ops.add(ops._where(ops.eq(ops.remainder(periods, 2), 0), offset, reflected), low)
    return ops.mul(mirrored, positive)


def apply_padding_mode(
    ops: Any, points: Any, inner: tuple[int, ...], padding_mode: str, align_corners: bool
) -> Any:
    """Points mapped into the images by the padding mode."""
    if padding_mode == "zeros":
        return points
    if padding_mode == "reflection":
        points = reflect(ops, points, inner, align_corners)
    return ops.clamp(points, 0.0, constant(sizes_column(inner, points.dtype) - 1, points))


def cubic_weights(ops: Any, t: Any) -> list[Any]:
    """The weights of four neighbours, by cubic convolution with a = -0.75 (Keys 1981)."""
    a = -0.75
    far = lambda x: ((a * x - 5 * a) * x + 8 * a) * x - 4 * a  # noqa: E731
    near = lambda x: ((a + 2) * x - (a + 3)) * x * x + 1  # noqa: E731
    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def multiply_weights(ops: Any, parts: list[Any], n: int) -> Any:
    """The weights (N, K, P) of all neighbours in n dimensions from those in each: parts (N, n, P),
    one for each neighbour in a dimension.
    """
    weights = [ops.select(part, 1, 0) for part in parts]
    for d in range(1, n):
        inner = [ops.select(part, 1, d) for part in parts]
        weights = [ops.mul(w, inner_weight) for w in weights for inner_weight in inner]
    return ops.stack(weights, 1)


def sample_images(
    ops: Any, flat: Any, points: Any, inner: tuple[int, ...], mode: str, outside: int
) -> Any:
    """Images (N, C, M) read at points (N, n, P): (N, C, P)."""
    if mode == "nearest":
        places = ops._sample_indices(ops.round(points), inner, 1, outside)
        ones = ops.pow(ops.narrow(points, 1, 0, 1), 0)  # with history: the grid's gradient is zeros
        return ops._weighted_gather(flat, ones, places)
    low = ops.floor(points)
    fraction = ops.sub(points, low)
    parts = cubic_weights(ops, fraction) if mode == "bicubic" else [ops.rsub(fraction, 1), fraction]
    places = ops._sample_indices(low, inner, len(parts), outside)
    return ops._weighted_gather(flat, multiply_weights(ops, parts, len(inner)), places)


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
    corners, inner = bool(align_corners), shape[2:]
    out = (*shape[:2], *grid.shape[1:-1])
    if not math.prod(out):
        history = ops.add(ops.sum(input), ops.sum(grid))  # so that their gradients are 0
        return ops.add(zeros(ops, out, input.dtype, input), history)
    points = unnormalize(ops, grid, inner, corners)
    outside = "zeros"
    if mode != "bicubic":
        points = apply_padding_mode(ops, points, inner, padding_mode, corners)
    elif padding_mode != "zeros":  # the neighbours are mapped into the image, not the point
        outside = "border" if padding_mode == "border" else "centres" if corners else "edges"
    flat = ops.reshape(input, (*shape[:2], -1))
    return ops.reshape(
        sample_images(ops, flat, points, inner, mode, OUTSIDE_MODES.index(outside)), out
    )


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
