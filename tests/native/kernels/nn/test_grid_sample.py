"""The kernels of grid_sample equal a plain sum over neighbours, wherever the points are."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.nn import functional as F
from shmtensor.ops.nn import weighted_sample as plain

from ...cases import each

MODES = ("bilinear", "nearest", "bicubic")
PADDING_MODES = ("zeros", "border", "reflection")
CLOSE = {"f4": {"rtol": 2e-4, "atol": 2e-4}, "f8": {"rtol": 1e-10, "atol": 1e-10}}


# ---- the plain form: one point at a time


def kernel_of(mode: str) -> tuple[range, Callable[[float], float], Callable[[float], float]]:
    """The neighbours of a point in a dimension, their weight by distance, and its derivative."""
    if mode == "nearest":
        return range(1), lambda t: 1.0, lambda t: 0.0
    if mode == "bilinear":
        return range(2), lambda t: 1 - abs(t), lambda t: -np.sign(t) or -1.0
    a = -0.75

    def weight(t: float) -> float:
        t = abs(t)
        if t <= 1:
            return (a + 2) * t**3 - (a + 3) * t**2 + 1
        return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a

    def derivative(t: float) -> float:
        s, t = np.sign(t), abs(t)
        by_t = 3 * (a + 2) * t**2 - 2 * (a + 3) * t if t <= 1 else 3 * a * t**2 - 10 * a * t + 8 * a
        return s * by_t

    return range(-1, 3), weight, derivative


def mirror(v: float, low: float, high: float) -> tuple[float, float]:
    """A position reflected at low and high, step by step, and the sign of its derivative."""
    sign = 1.0
    if low == high:
        return low, 0.0
    while not low <= v <= high:
        v, sign = (2 * low if v < low else 2 * high) - v, -sign
    return v, sign


def dimension(
    v: float, n: int, mode: str, padding: str, corners: bool
) -> list[tuple[int, float, float]]:
    """(element or -1, weight, derivative by the grid's number) of a point's neighbours."""
    slope = (n - 1) / 2 if corners else n / 2
    v = (v + 1) * slope - (0 if corners else 0.5)
    low, high = (0.0, n - 1.0) if corners else (-0.5, n - 0.5)
    if mode != "bicubic" and padding != "zeros":
        if padding == "reflection":
            v, sign = mirror(v, low, high)
            slope *= sign
        slope = slope if 0 < v < n - 1 else 0.0
        v = min(max(v, 0.0), n - 1.0)
    offsets, weight, derivative = kernel_of(mode)
    first = int(np.rint(v) if mode == "nearest" else np.floor(v))
    found = []
    for k in offsets:
        i = first + k
        w, dw = weight(v - i), derivative(v - i) * slope
        if mode == "bicubic" and padding == "border":
            i = min(max(i, 0), n - 1)
        elif mode == "bicubic" and padding == "reflection":
            i = round(mirror(float(i), low, high)[0]) if n > 1 else 0
        found.append((i if 0 <= i < n else -1, w, dw))
    return found


def sample_plainly(
    x: Any, grid: Any, g: Any, mode: str, padding: str, corners: bool
) -> tuple[Any, Any, Any]:
    """The result, and the gradients of the images and of the grid."""
    dims, sizes = x.ndim - 2, x.shape[2:]
    out = np.zeros(g.shape)
    gx, g_grid = np.zeros(x.shape), np.zeros(grid.shape)
    for image, *place in np.ndindex(grid.shape[:-1]):
        point = grid[(image, *place)]
        found = [
            dimension(float(point[dims - 1 - d]), sizes[d], mode, padding, corners)
            for d in range(dims)
        ]
        for chosen in itertools.product(*found):
            at = tuple(i for i, _, _ in chosen)
            if min(at) < 0:
                continue
            weights = [w for _, w, _ in chosen]
            elements, gradient = x[(image, slice(None), *at)], g[(image, slice(None), *place)]
            out[(image, slice(None), *place)] += elements * np.prod(weights)
            gx[(image, slice(None), *at)] += gradient * np.prod(weights)
            for d in range(dims):
                others = np.prod([*weights[:d], *weights[d + 1 :]])
                slope = chosen[d][2] * others
                g_grid[(image, *place, dims - 1 - d)] += slope * (elements * gradient).sum()
    return out, gx, g_grid


SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3, 5, 6), (7, 9)),  # a piece of a vector
    ((1, 1, 1, 2), (3, 6)),
    ((2, 2, 4, 1), (2, 5)),
    ((1, 9, 7, 11), (10, 16)),  # more than a block of points, and than a group of channels
    ((2, 2, 3, 4, 5), (2, 3, 4)),
    ((1, 1, 2, 1, 6), (1, 2, 5)),
]


@each("dtype", ["f4", "f8"])
@each("corners", [False, True])
@each("padding", PADDING_MODES)
@each("mode", MODES)
def test_results_and_gradients_equal_the_plain_sums(
    mode: str, padding: str, corners: bool, dtype: str
) -> None:
    draw = np.random.default_rng(5)
    for shape, out in SHAPES:
        dims = len(shape) - 2
        if mode == "bicubic" and dims == 3:
            continue
        x, g = draw.normal(size=shape).astype(dtype), draw.normal(size=(*shape[:2], *out))
        grid, g = draw.uniform(-2.4, 2.4, (shape[0], *out, dims)).astype(dtype), g.astype(dtype)
        form = MODES.index(mode), PADDING_MODES.index(padding), int(corners)
        want = sample_plainly(*(v.astype("f8") for v in (x, grid, g)), mode, padding, corners)
        y = native.grid_sample(x, grid, *form)
        gradients = native.grid_sample_backward(g, x, grid, *form, 1, 1)
        assert y is not None
        assert gradients is not None
        gx, g_grid = gradients
        for got, expected in zip((y, gx, g_grid), want, strict=True):
            assert got is not None
            assert got.dtype == dtype
            np.testing.assert_allclose(got, expected, **CLOSE[dtype])
        if mode != "nearest":  # one gradient alone has the same bits
            (only_x, none), (other, only_grid) = (
                native.grid_sample_backward(g, x, grid, *form, *needed)  # type: ignore[misc]
                for needed in ((1, 0), (0, 1))
            )
            assert none is None
            assert other is None
            np.testing.assert_array_equal(only_x, gx)
            np.testing.assert_array_equal(only_grid, g_grid)
        fortran = native.grid_sample(np.asfortranarray(x), np.asfortranarray(grid), *form)
        np.testing.assert_array_equal(fortran, y)


@each("mode", MODES)
def test_bits_do_not_depend_on_the_number_of_threads(mode: str) -> None:
    draw = np.random.default_rng(6)
    form = MODES.index(mode), 1, 0
    x, g = draw.normal(size=(3, 20, 12, 9)).astype("f4"), draw.normal(size=(3, 20, 30, 31))
    grid, g = draw.uniform(-1.2, 1.2, (3, 30, 31, 2)).astype("f4"), g.astype("f4")
    results, threads = [], st.get_num_threads()
    try:
        for n in (1, 2, 5):
            st.set_num_threads(n)
            backward = native.grid_sample_backward(g, x, grid, *form, 1, 1)
            results.append((native.grid_sample(x, grid, *form), *(backward or ())))
    finally:
        st.set_num_threads(threads)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@each("mode", MODES[:2])
def test_elements_that_are_no_neighbours_are_not_read(mode: str) -> None:
    x = np.full((1, 1, 4, 4), np.inf, "f4")
    x[0, 0, :, 3] = 2.0  # the last column, beside infinite elements
    grid = np.array([[[[0.75, 0.1], [1.0, -0.2], [1.25, 0.75], [9.0, 0.0]]]], "f4")
    for padding, want in ((0, [2.0, 1.0, 0.0, 0.0]), (1, [2.0, 2.0, 2.0, 2.0])):
        got = native.grid_sample(x, grid, MODES.index(mode), padding, 0)
        assert got is not None
        assert np.isfinite(got).all()
        if mode == "bilinear":
            np.testing.assert_allclose(got.reshape(-1), want, rtol=1e-6)


@each("dtype", ["f4", "f8"])
@each("sizes", [(5, 4), (1, 6), (3, 1)])
def test_points_that_are_no_numbers(sizes: tuple[int, int], dtype: str) -> None:
    x = np.arange(1.0, 1 + np.prod(sizes)).reshape(1, 1, *sizes).astype(dtype)
    grid = np.zeros((1, 1, 6, 2), dtype)
    grid[0, 0, :, 0] = [np.nan, np.inf, -np.inf, 3e30, -3e30, -0.0]
    for mode, padding, corners in itertools.product(range(3), range(3), range(2)):
        got = native.grid_sample(x, grid, mode, padding, corners)
        assert got is not None
        if mode != 2 and padding:  # mapped into the image, a NaN to its first element
            assert np.isfinite(got).all()


@each("mode", MODES)
@each("padding", PADDING_MODES)
def test_gradients_of_gradients(mode: str, padding: str) -> None:
    draw = np.random.default_rng(8)
    x = st.tensor(draw.normal(size=(1, 2, 4, 3)), requires_grad=True)
    grid = st.tensor(draw.uniform(-1.4, 1.4, (1, 2, 3, 2)), requires_grad=True)

    def sample(x: Any, grid: Any) -> Any:
        return F.grid_sample(x, grid, mode, padding, False)

    assert st.autograd.gradcheck(sample, (x, grid))
    assert st.autograd.gradgradcheck(sample, (x, grid))


# ---- the rows of which gradients with history are composed


def test_neighbours_outside_are_reflected_or_left_out() -> None:
    x = np.array([[[-2.0, -1.0, 0.0, 3.0, 4.0, np.nan]]])
    for frame, want in enumerate(
        ([-1, -1, 0, -1, -1, -1], [0, 0, 0, 2, 2, 0], [1, 0, 0, 2, 1, 1], [2, 1, 0, 1, 0, 0])
    ):
        got = plain._sample_indices.forward(np, x, (3,), 1, frame)
        np.testing.assert_array_equal(got[0, 0, :5], want[:5])
        assert (got[0, 0, 5] == -1) == (frame == 0)


def test_unsuitable_arguments_are_left_to_the_plain_forms() -> None:
    x, grid = np.ones((2, 3, 5, 4)), np.zeros((2, 6, 7, 2))
    g = np.ones((2, 3, 6, 7))
    assert native.grid_sample(x, grid, 0, 0, 0) is not None
    assert native.grid_sample(x, grid[:1], 0, 0, 0) is None
    assert native.grid_sample(x, grid.astype("f4"), 0, 0, 0) is None
    assert native.grid_sample(x, grid[..., :1], 0, 0, 0) is None
    assert native.grid_sample(x[:, :, :0], grid, 0, 0, 0) is None
    for mode, padding in ((3, 0), (0, 3), (-1, 0)):
        assert native.grid_sample(x, grid, mode, padding, 0) is None
    assert native.grid_sample(x[..., None], np.zeros((2, 1, 6, 7, 3)), 2, 0, 0) is None
    assert native.grid_sample_backward(g[:, :, 1:], x, grid, 0, 0, 0, 1, 1) is None
    with pytest.raises(TypeError, match="grid_sample"):
        native.grid_sample(x, grid)  # type: ignore[call-arg]
