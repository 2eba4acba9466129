"""Native convolution, pooling and norms: against the plain forms, on any number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.ops.table.op_table import ROWS

Array = np.ndarray[Any, Any]


def numbers(*shape: int, dtype: Any = np.float64, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) + 0.5).astype(dtype)


def near(result: Array, expected: Array, dtype: Any) -> bool:
    scale = max(float(abs(expected).max()), 1.0) if expected.size else 1.0
    tolerance = 5e-5 if dtype == np.float32 else 1e-11
    close = abs(result - expected) <= tolerance * scale
    return result.shape == expected.shape and bool(close.all())


# (N, C, size), K, kernel, stride, padding, dilation, groups
CONVOLUTIONS: list[tuple[Any, ...]] = [
    ((2, 3, 9), 4, (3,), (1,), (1,), (1,), 1),
    ((2, 4, 9), 4, (3,), (2,), (1,), (2,), 2),
    ((2, 3, 8, 9), 5, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 4, 8, 9), 6, (3, 2), (2, 1), (1, 0), (1, 2), 2),
    ((1, 4, 7, 7), 4, (3, 3), (1, 1), (1, 1), (1, 1), 4),
    ((6, 16, 12, 13), 16, (3, 3), (1, 1), (1, 1), (1, 1), 1),  # from here on Winograd's
    ((4, 17, 15, 22), 20, (3, 3), (1, 1), (0, 0), (1, 1), 1),
    ((17, 32, 8, 7), 32, (3, 3), (1, 1), (1, 1), (1, 1), 1),  # few tiles an image
    ((70, 18, 4, 8), 33, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((16, 370, 8, 8), 24, (3, 3), (1, 1), (1, 1), (1, 1), 1),  # many channels
    ((2, 16, 20, 20), 16, (3, 3), (1, 1), (2, 2), (1, 1), 1),
    ((1, 24, 20, 150), 16, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((17, 20, 8, 8), 90, (3, 3), (1, 1), (1, 1), (1, 1), 1),  # fewer tiles than filters
    ((3, 17, 30, 26), 200, (3, 3), (1, 1), (1, 1), (1, 1), 1),  # in two pieces
    ((33, 33, 8, 8), 150, (3, 3), (1, 1), (1, 1), (1, 1), 1),  # of whole images
    ((20, 40, 16, 15), 56, (3, 3), (1, 1), (1, 1), (1, 1), 1),  # of the gradient of the filters
    ((4, 16, 16, 16), 32, (3, 3), (1, 1), (2, 1), (1, 1), 1),  # and up to here
    ((2, 5, 9, 20), 5, (3, 3), (1, 1), (1, 0), (1, 1), 5),  # channel by channel
    ((3, 4, 7, 7), 4, (3, 3), (1, 1), (2, 2), (1, 1), 4),
    ((2, 8, 10, 10), 16, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((2, 8, 10, 10), 16, (1, 1), (2, 2), (0, 0), (1, 1), 1),
    ((2, 3, 32, 32), 16, (7, 7), (2, 2), (3, 3), (1, 1), 1),
    ((1, 2, 5, 6, 7), 4, (2, 3, 2), (1, 2, 1), (1, 1, 0), (1, 1, 2), 2),
    ((2, 3, 4, 4), 2, (3, 3), (1, 1), (4, 4), (1, 1), 1),  # a frame wider than the filter
    ((3, 1, 28, 28), 9, (3, 3), (1, 1), (0, 0), (1, 1), 1),  # few channels
    ((2, 3, 33, 30), 19, (5, 4), (1, 3), (2, 1), (1, 1), 1),
    ((1, 4, 200, 180), 8, (3, 3), (2, 2), (1, 1), (1, 1), 1),  # an image in pieces
    ((1, 2, 5000), 3, (9,), (2,), (4,), (3,), 1),
    ((1, 1, 70000), 2, (3,), (1,), (1,), (1,), 1),
    ((3, 40, 14, 14), 50, (3, 3), (2, 2), (1, 1), (1, 1), 1),  # many channels
    ((2, 300, 9, 9), 12, (2, 2), (1, 1), (0, 0), (1, 1), 1),
    ((14, 20, 8, 8), 40, (4, 4), (2, 2), (1, 1), (1, 1), 1),  # short rows: images side by side
    ((17, 32, 7, 7), 32, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((70, 18, 4, 5), 33, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((33, 160, 8, 8), 9, (4, 4), (2, 2), (1, 1), (1, 1), 1),
    ((3, 4, 2, 2), 20, (5, 5), (1, 1), (2, 2), (1, 1), 1),  # taps without a pixel
    ((2, 4, 20, 17), 33, (3, 3), (1, 1), (1, 1), (1, 1), 1),  # more results than a sum of products
    ((65, 17, 3, 3), 64, (2, 2), (1, 1), (1, 1), (1, 1), 1),
    ((9, 32, 5, 6), 48, (3, 3), (2, 3), (1, 1), (1, 2), 2),
    ((5, 24, 3, 4, 5), 32, (2, 3, 2), (2, 1, 2), (1, 1, 1), (1, 1, 1), 1),
    ((2, 6, 9, 10, 11), 7, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),  # planes
    ((1, 3, 20, 30, 31), 4, (3, 2, 3), (1, 2, 1), (0, 1, 2), (1, 1, 1), 1),
    ((3, 8, 20, 20), 16, (3, 3), (2, 2), (1, 1), (1, 1), 8),  # channel by channel, strided
    ((4, 7, 5, 4), 6, (5, 4), (1, 1), (0, 0), (1, 1), 1),  # one window
    ((3, 5, 7, 6), 4, (1, 1), (3, 2), (0, 0), (1, 1), 1),  # pixels without a tap
    ((2, 4, 5, 6, 7), 3, (1, 1, 1), (2, 1, 3), (0, 0, 0), (1, 1, 1), 1),
    ((9, 70, 7, 7), 67, (1, 1), (1, 1), (0, 0), (1, 1), 1),  # images side by side
    ((2, 5, 70, 60), 7, (1, 1), (1, 1), (0, 0), (1, 1), 1),  # many pixels
]


def channels_last(x: Array) -> Array:
    """The same values, dimension 1 the innermost in memory."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolution_is_the_plain_sum(case: tuple[Any, ...], dtype: Any) -> None:
    shape, k, kernel, stride, padding, dilation, groups = case
    steps = (stride, padding, dilation, groups)
    x, b = numbers(*shape, dtype=dtype), numbers(k, dtype=dtype, seed=1)
    w = numbers(k, shape[1] // groups, *kernel, dtype=dtype, seed=2)
    y = native.convolution(x, w, b, *steps)
    assert y is not None
    wide = [v.astype(np.float64) for v in (x, w, b)]
    assert near(y, ROWS["_convolution"].forward(np, *wide, *steps), dtype)
    g = numbers(*y.shape, dtype=dtype, seed=3)
    result = native.conv_transpose(g, w, shape[2:], *steps)
    assert result is not None
    expected = ROWS["_conv_transpose"].forward(np, g.astype(float), wide[1], shape[2:], *steps)
    assert near(result, expected, dtype)
    result = native.convolution_backward_weight(x, g, kernel, *steps)
    assert result is not None
    assert near(
        result,
        ROWS["_convolution_backward_weight"].forward(np, wide[0], g.astype(float), kernel, *steps),
        dtype,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", [c for c in CONVOLUTIONS if len(c[0]) > 3], ids=str)
def test_convolution_of_channels_last_is_the_plain_sum(case: tuple[Any, ...], dtype: Any) -> None:
    shape, k, kernel, stride, padding, dilation, groups = case
    steps = (stride, padding, dilation, groups)
    x, b = numbers(*shape, dtype=dtype), numbers(k, dtype=dtype, seed=1)
    w = numbers(k, shape[1] // groups, *kernel, dtype=dtype, seed=2)
    y = native.convolution(channels_last(x), channels_last(w), b, *steps)
    assert y is not None
    wide = [v.astype(np.float64) for v in (x, w, b)]
    assert near(y, ROWS["_convolution"].forward(np, *wide, *steps), dtype)
    if set(kernel) == {1} and groups == 1 and min(k, shape[1]) > 1:  # products of matrices
        assert np.moveaxis(y, 1, -1).flags.c_contiguous
    g = numbers(*y.shape, dtype=dtype, seed=3)
    result = native.conv_transpose(channels_last(g), w, shape[2:], *steps)
    assert result is not None
    expected = ROWS["_conv_transpose"].forward(np, g.astype(float), wide[1], shape[2:], *steps)
    assert near(result, expected, dtype)
    expected = ROWS["_convolution_backward_weight"].forward(
        np, wide[0], g.astype(float), kernel, *steps
    )
    for image, gradient in (
        (channels_last(x), channels_last(g)),
        (x, channels_last(g)),
        (channels_last(x), g),
    ):
        result = native.convolution_backward_weight(image, gradient, kernel, *steps)
        assert result is not None
        assert near(result, expected, dtype)


@pytest.mark.parametrize(
    ("shape", "k", "kernel", "steps"),
    [
        ((2, 3, 9, 11), 5, (3, 3), ((1, 1), (1, 1), (1, 1), 1)),
        ((3, 20, 5, 5), 40, (4, 4), ((2, 2), (1, 1), (1, 1), 1)),
        ((18, 20, 5, 5), 40, (4, 4), ((2, 2), (1, 1), (1, 1), 1)),
        ((6, 16, 12, 13), 16, (3, 3), ((1, 1), (1, 1), (1, 1), 1)),
    ],
)
def test_gradients_of_a_weight_use_no_memory_that_was_not_written(
    shape: tuple[int, ...], k: int, kernel: tuple[int, int], steps: tuple[Any, ...]
) -> None:
    # The copies of earlier calls, which hold NaN, lie where these calls put theirs.
    x, w = numbers(*shape), numbers(k, shape[1], *kernel, seed=1)
    g = numbers(*native.convolution(x, w, None, *steps).shape, seed=2)  # type: ignore[union-attr]
    expected = native.convolution_backward_weight(x, g, kernel, *steps)
    larger = np.full((shape[0] + 5, shape[1], *(n + 9 for n in shape[2:])), np.nan)
    full = native.convolution(larger, w, None, *steps)
    assert full is not None
    assert np.isnan(full).any()
    native.convolution_backward_weight(larger, full, kernel, *steps)
    result = native.convolution_backward_weight(x, g, kernel, *steps)
    assert np.array_equal(result, expected)  # type: ignore[arg-type]


def test_convolution_takes_strided_images() -> None:
    x, w = numbers(2, 6, 9, 8), numbers(4, 3, 3, 3, seed=1)
    strided = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)[:, ::2]
    steps = ((1, 1), (1, 1), (1, 1), 1)
    expected = native.convolution(np.ascontiguousarray(strided), w, None, *steps)
    assert np.array_equal(native.convolution(strided, w, None, *steps), expected)


def test_unusual_convolutions_are_left_to_the_plain_form() -> None:
    x, w = numbers(1, 3, 5, 5), numbers(2, 3, 3, 3)
    one = ((1, 1), (0, 0), (1, 1), 1)
    assert native.convolution(x.astype(np.complex128), w, None, *one) is None
    assert native.convolution(x, w.astype(np.float32), None, *one) is None
    assert native.convolution(x, w[:, :2], None, *one) is None
    assert native.convolution(x[:, :, :2], w, None, *one) is None
    assert native.convolution(x[:0], w, None, *one) is None
    assert native.convolution(x, w, numbers(3), *one) is None
    assert native.conv_transpose(numbers(1, 2, 9, 9), w, (5, 5), *one) is None
    assert native.convolution_backward_weight(x, numbers(1, 2, 9, 9), (3, 3), *one) is None


def test_a_wrong_bias_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"bias must have shape \(2,\)"):
        st.nn.functional.conv2d(st.ones(1, 3, 5, 5), st.ones(2, 3, 3, 3), st.ones(3))


def test_gradients_of_gradients_of_winograd() -> None:
    def f(x: Any, w: Any, b: Any) -> Any:
        return (st.nn.functional.conv2d(x, w, b, padding=1) ** 2).mean()

    arrays = [numbers(4, 16, 16, 16), numbers(16, 16, 3, 3, seed=1) / 10, numbers(16, seed=2)]
    x, w, b = (st.tensor(v, requires_grad=True) for v in arrays)
    slopes = st.autograd.grad(f(x, w, b), (x, w, b), create_graph=True)
    along = [numbers(*v.shape, seed=5 + i) for i, v in enumerate(arrays)]
    total = sum(((s * st.tensor(a)).sum() for s, a in zip(slopes, along, strict=True)))
    second = st.autograd.grad(total, (x, w, b))
    h = 1e-4
    ends = []
    for sign in (1, -1):
        shifted = [
            st.tensor(v + sign * h * a, requires_grad=True)
            for v, a in zip(arrays, along, strict=True)
        ]
        ends.append(st.autograd.grad(f(*shifted), shifted))
    for s, up, low in zip(second, *ends, strict=True):
        expected = (up.numpy() - low.numpy()) / (2 * h)
        assert np.allclose(s.numpy(), expected, rtol=1e-5, atol=1e-7)


# ---- pooling

WINDOWS: list[tuple[Any, ...]] = [
    ((2, 3, 11), (2,), (2,), (0,), False),
    ((2, 3, 8, 9), (2, 2), (2, 2), (0, 0), False),
    ((2, 3, 9, 9), (3, 3), (2, 2), (1, 1), False),
    ((2, 3, 9, 9), (3, 2), (1, 3), (1, 0), True),
    ((1, 2, 5, 6, 7), (2, 2, 3), (2, 1, 2), (0, 1, 1), True),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", WINDOWS, ids=str)
def test_pooling_is_the_plain_form(case: tuple[Any, ...], dtype: Any) -> None:
    shape, kernel, stride, padding, ceil = case
    x, ones = numbers(*shape, dtype=dtype), (1,) * len(kernel)
    for odd in (False, True):
        if odd:
            uniform = np.random.default_rng(1).random(shape)
            x[uniform < 0.2], x[uniform > 0.8] = np.nan, -np.inf
        row = ROWS["_max_pool"]
        values, indices = row.numpy(x, kernel, stride, padding, ones, ceil)
        best, at = row.forward(np, x, kernel, stride, padding, ones, ceil)
        assert np.array_equal(values, best, equal_nan=True)
        assert np.array_equal(indices, at)
    x = numbers(*shape, dtype=dtype)
    row = ROWS["_sum_pool"]
    sums = row.numpy.kernel(x, kernel, stride, padding, ceil)
    assert near(sums, row.forward(np, x, kernel, stride, padding, ceil), dtype)
    row, size = ROWS["_sum_pool_backward"], shape[2:]
    gradient = row.numpy.kernel(sums, size, kernel, stride, padding, ceil)
    assert near(gradient, row.forward(np, sums, size, kernel, stride, padding, ceil), dtype)


def test_indices_beyond_the_image_are_left_to_the_plain_form() -> None:
    g = numbers(1, 1, 2)
    assert native.value_selecting_reduction_backward(
        g, np.array([[[0, 3]]]), (1, 1, 4), 1
    ).tolist() == [  # type: ignore[union-attr]
        [[g[0, 0, 0], 0, 0, g[0, 0, 1]]]
    ]
    assert native.value_selecting_reduction_backward(g, np.array([[[0, 4]]]), (1, 1, 4), 1) is None
    assert native.value_selecting_reduction_backward(g, np.array([[[-1, 0]]]), (1, 1, 4), 1) is None


# ---- norms: shapes of x, weight, bias; n, groups, centred

NORMS: list[tuple[Any, ...]] = [
    ((5, 7), (7,), (7,), 1, 0, True),
    ((50, 768), (768,), (768,), 1, 0, True),
    ((5, 6, 7), (6, 7), None, 2, 0, True),
    ((5, 6, 7), None, None, 1, 0, True),
    ((5, 6, 37), (37,), None, 1, 0, False),
    ((4, 6, 5, 5), (6,), (6,), 1, 3, True),
    ((9, 32, 17), (32,), None, 1, 4, True),
    ((6, 8), None, (8,), 1, 2, True),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", NORMS, ids=str)
def test_norms_and_slopes_are_the_plain_forms(case: tuple[Any, ...], dtype: Any) -> None:
    shape, weight, bias, n, groups, centred = case
    arrays = [numbers(*shape, dtype=dtype)]
    arrays += [
        numbers(*s, dtype=dtype, seed=i) if s else None for i, s in enumerate((weight, bias))
    ]
    args = (n, groups, 1e-3, centred)
    row = ROWS["_native_layer_norm"]
    wide = [None if v is None else v.astype(np.float64) for v in arrays]
    result = native.layer_norm(*arrays, *args)
    assert result is not None
    expected = row.forward(np, *wide, *args)
    for a, b in zip(result, expected, strict=False):
        assert near(a, b, dtype)
    same_slopes("_native_layer_norm", arrays, args, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    "shape",
    [
        (40, 6, 5, 7),
        (700, 300),
        (7, 3),
        (2, 3, 1, 2),
        (20000, 9),
        (2, 270, 20, 30),
        (3, 2, 4, 5, 6),
    ],
    ids=str,
)
def test_batch_norm_is_the_plain_form(shape: tuple[int, ...], last: bool, dtype: Any) -> None:
    arrays = [
        numbers(*shape, dtype=dtype),
        *(numbers(shape[1], dtype=dtype, seed=i) for i in (1, 2)),
    ]
    if last:
        arrays[0] = channels_last(arrays[0])
    result = native.batch_norm(*arrays, 1e-3)
    assert result is not None
    if last:
        assert np.moveaxis(result[0], 1, -1).flags.c_contiguous
    expected = ROWS["_native_batch_norm"].forward(np, *(v.astype(float) for v in arrays), 1e-3)
    for a, b in zip(result, expected, strict=False):
        assert near(a, b, dtype)
    same_slopes("_native_batch_norm", arrays, (1e-3,), dtype)


def same_slopes(name: str, arrays: list[Any], args: tuple[Any, ...], dtype: Any) -> None:
    """The kernel's gradients, and gradients with create_graph, which are computed from ops."""
    from shmtensor.autograd import table

    results = []
    for create_graph in (False, True):
        leaves = [None if v is None else st.tensor(v, requires_grad=True) for v in arrays]
        out = getattr(table, name)(*leaves, *args)
        out = out if isinstance(out, st.Tensor) else out[0]
        g = st.tensor(numbers(*out.shape, dtype=dtype, seed=9))
        inputs = [v for v in leaves if v is not None]
        results.append(st.autograd.grad(out, inputs, g, create_graph=create_graph))
    for a, b in zip(*results, strict=True):
        assert near(a.detach().numpy(), b.detach().numpy(), dtype)


def test_one_pass_serves_any_choice_of_inputs() -> None:
    x, w, b = numbers(6, 5), numbers(5, seed=1), numbers(5, seed=2)
    f = st.nn.functional.layer_norm

    def slopes(names: str, twice: bool = False) -> dict[str, Any]:
        leaves = {
            k: st.tensor(v, requires_grad=k in names) for k, v in zip("xwb", (x, w, b), strict=True)
        }
        out = f(leaves["x"], (5,), leaves["w"], leaves["b"])
        for seed in (3, 4)[: 1 + twice]:
            for v in leaves.values():
                v.grad = None
            out.backward(st.tensor(numbers(6, 5, seed=seed)), retain_graph=twice)
        return {k: leaves[k].grad.numpy() for k in names}

    full = slopes("xwb")
    for names in ("x", "w", "b", "xw", "xb", "wb"):
        for k, v in slopes(names).items():
            assert np.allclose(v, full[k])
    doubled = slopes("xwb", twice=True)
    g = numbers(6, 5, seed=4)
    assert np.allclose(doubled["b"], g.sum(0))
    assert np.allclose(doubled["w"], (g * ((x - x.mean(1, keepdims=True)) / np.sqrt(
        x.var(1, keepdims=True) + 1e-5))).sum(0))  # fmt: skip


# ---- threads


@pytest.fixture
def threads() -> Iterator[Any]:
    before = native.get_num_threads()
    yield native.set_num_threads
    native.set_num_threads(before)


def test_bits_do_not_depend_on_threads(threads: Any) -> None:
    x, w = numbers(4, 32, 20, 20, dtype=np.float32), numbers(32, 32, 3, 3, dtype=np.float32)
    y = np.ascontiguousarray(x[:, :, ::2, ::2])
    one = ((1, 1), (1, 1), (1, 1), 1)
    two = ((2, 2), (1, 1), (1, 1), 1)
    pairs = []  # images and results: pieces of an image, side by side, planes, few tiles
    for shape, k, kernel, steps in (
        ((2, 3, 90, 80), 7, (5, 5), ((2, 2), (2, 2), (1, 1), 1)),
        ((40, 9, 4, 4), 64, (2, 2), ((1, 1), (0, 0), (1, 1), 1)),
        ((70, 9, 8, 8), 64, (4, 4), ((2, 2), (1, 1), (1, 1), 1)),
        ((2, 4, 9, 10, 12), 6, (3, 3, 3), ((1,) * 3, (1,) * 3, (1,) * 3, 1)),
        ((33, 33, 8, 8), 150, (3, 3), one),
    ):
        image = numbers(*shape, dtype=np.float32)
        filters = numbers(k, shape[1], *kernel, dtype=np.float32)
        pairs.append((image, filters, native.convolution(image, filters, None, *steps), steps))
    results = []
    for n in (1, 2, 5):
        threads(n)
        direct = []
        for image, filters, result, steps in pairs:
            assert result is not None
            direct += [
                native.convolution(image, filters, None, *steps),
                native.conv_transpose(result, filters, image.shape[2:], *steps),
                native.convolution_backward_weight(image, result, filters.shape[2:], *steps),
            ]
        _, mean, rstd = native.layer_norm(x, None, None, 3, 0, 1e-5, True)  # type: ignore[misc]
        _, average, inv_std = native.batch_norm(x, None, None, 1e-5)  # type: ignore[misc]
        last, pointwise = channels_last(numbers(4, 32, 50, 60, dtype=np.float32)), w[:, :, :1, :1]
        scaled = native.batch_norm(last, None, None, 1e-5)
        assert scaled is not None
        slopes = native.batch_norm_backward(last, last, None, *scaled[1:], 1e-5, True)
        assert slopes is not None
        direct += [*scaled, *slopes]
        no_padding = ((1, 1), (0, 0), (1, 1), 1)
        direct += [
            native.convolution(last, pointwise, None, *no_padding),
            native.convolution_backward_weight(last, last, (1, 1), *no_padding),
        ]
        results.append(
            [
                *direct,
                native.convolution(x, w, None, *one),
                native.conv_transpose(y, w, (20, 20), *two),
                native.convolution_backward_weight(x, x, (3, 3), *one),
                native.convolution_backward_weight(x, y, (3, 3), *two),
                *native.layer_norm_backward(x, x, None, mean, rstd, 3, 0, True, True, True),  # type: ignore[misc]
                *native.batch_norm_backward(x, x, None, average, inv_std, 1e-5, True),  # type: ignore[misc]
            ]
        )
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))
