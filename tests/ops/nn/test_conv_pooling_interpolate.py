"""Convolution, pooling, padding and resampling, against SciPy and plain loops."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional as F

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(0)
IMAGES = {n: RANDOM.normal(size=(2, 4, *(7, 6, 5)[:n])) for n in (1, 2, 3)}


def correlated(x: Array, w: Array, stride: int, padding: int, dilation: int, groups: int) -> Array:
    """Convolution by its definition, element by element of the filter, in float64."""
    n = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * n])
    fit = [
        (m - dilation * (k - 1) - 1) // stride + 1
        for m, k in zip(x.shape[2:], w.shape[2:], strict=True)
    ]
    out = np.zeros((len(x), len(w), *fit))
    share_in, share_out = x.shape[1] // groups, len(w) // groups
    for k, c, offset in itertools.product(
        range(len(w)), range(w.shape[1]), itertools.product(*map(range, w.shape[2:]))
    ):
        part = x[(slice(None), k // share_out * share_in + c)]
        at = tuple(
            slice(o * dilation, o * dilation + stride * (f - 1) + 1, stride)
            for o, f in zip(offset, fit, strict=True)
        )
        out[:, k] += w[(k, c, *offset)] * part[(slice(None), *at)]
    return out


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 1, 2), (1, 2, 2, 4)]
)
def test_convolution(n: int, stride: int, padding: int, dilation: int, groups: int) -> None:
    x, w = IMAGES[n], RANDOM.normal(size=(8, 4 // groups, *(3, 2, 2)[:n]))
    bias = RANDOM.normal(size=8)
    function = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    arguments = stride, padding, dilation, groups
    expected = correlated(x, w, *arguments)
    out = function(st.tensor(x), st.tensor(w), st.tensor(bias), *arguments)
    assert np.allclose(out.numpy(), expected + bias.reshape(-1, *[1] * n))
    unbatched = function(st.tensor(x[0]), st.tensor(w), None, *arguments)
    assert np.allclose(unbatched.numpy(), expected[0])


def test_conv_tbc() -> None:
    x, w, b = RANDOM.normal(size=(7, 2, 3)), RANDOM.normal(size=(3, 3, 5)), RANDOM.normal(size=5)
    out = F.conv_tbc(st.tensor(x), st.tensor(w), st.tensor(b), 1)
    expected = correlated(x.transpose(1, 2, 0), w.transpose(2, 1, 0), 1, 1, 1, 1)
    assert np.allclose(out.numpy(), expected.transpose(2, 0, 1) + b)


CONVOLUTIONS: list[tuple[str, dict[str, Any], str]] = [
    ("words", {"padding": "some"}, "no such padding"),
    ("same", {"padding": "same", "stride": 2}, "strided"),
    ("groups", {"groups": 0}, "non-positive groups is not supported"),
    ("groups of filters", {"groups": 3}, "multiple of groups"),
]


@pytest.mark.parametrize(("kwargs", "says"), [c[1:] for c in CONVOLUTIONS])
def test_wrong_convolutions_are_refused(kwargs: dict[str, Any], says: str) -> None:
    with pytest.raises(RuntimeError, match=says):
        F.conv2d(st.ones(1, 4, 6, 6), st.ones(8, 4, 3, 3), **kwargs)


def test_channels_and_dtypes_must_agree() -> None:
    with pytest.raises(RuntimeError, match="expects 3 channels"):
        F.conv1d(st.ones(1, 4, 6), st.ones(8, 3, 3))
    with pytest.raises(RuntimeError, match="same dtype"):
        F.conv1d(st.ones(1, 4, 6), st.ones(8, 4, 3).double())
    with pytest.raises(RuntimeError, match=r"expected 2 \(unbatched\)"):
        F.conv1d(st.ones(6), st.ones(8, 4, 3))
    with pytest.raises(RuntimeError, match="output padding"):
        F.conv_transpose1d(st.ones(1, 4, 6), st.ones(4, 2, 3), output_padding=1)


# ---- pooling


def pooled(fold: Any, x: Array, kernel: int, stride: int, padding: int, fill: float) -> Array:
    """Pooling, window by window."""
    n = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * n], constant_values=fill)
    fit = [(m - kernel) // stride + 1 for m in x.shape[2:]]
    out = np.zeros((*x.shape[:2], *fit))
    for at in itertools.product(*map(range, fit)):
        window = x[(..., *(slice(a * stride, a * stride + kernel) for a in at))]
        out[(..., *at)] = fold(window.reshape(*x.shape[:2], -1), -1)
    return out


@pytest.mark.parametrize("n", [1, 2, 3])
def test_pooling(n: int) -> None:
    x = IMAGES[n]
    t = st.tensor(x)
    largest = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[n - 1]
    average = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[n - 1]
    norm = (F.lp_pool1d, F.lp_pool2d, F.lp_pool3d)[n - 1]
    assert np.allclose(largest(t, 2).numpy(), pooled(np.max, x, 2, 2, 0, 0))
    assert np.allclose(largest(t, 3, 1, 1).numpy(), pooled(np.max, x, 3, 1, 1, -np.inf))
    assert np.allclose(average(t, 2).numpy(), pooled(np.mean, x, 2, 2, 0, 0))
    assert np.allclose(average(t, 3, 2, 1).numpy(), pooled(np.mean, x, 3, 2, 1, 0))
    inside = average(t, 3, 2, 1, count_include_pad=False)
    assert np.allclose(inside.numpy(), pooled(np.nanmean, x, 3, 2, 1, np.nan))
    expected = np.sqrt(pooled(np.sum, x**2, 2, 2, 0, 0))
    assert np.allclose(norm(t, 2, 2).numpy(), expected)
    assert np.allclose(norm(t, math.inf, 2).numpy(), pooled(np.max, abs(x), 2, 2, 0, 0))


def test_the_last_window_may_reach_beyond() -> None:
    x = st.arange(7.0).reshape(1, 1, 7)
    assert F.max_pool1d(x, 2, ceil_mode=True).tolist() == [[[1.0, 3.0, 5.0, 6.0]]]
    assert F.avg_pool1d(x, 2, ceil_mode=True).tolist() == [[[0.5, 2.5, 4.5, 6.0]]]
    assert F.avg_pool2d(x[None], (1, 2), divisor_override=1).tolist() == [[[[1.0, 5.0, 9.0]]]]


def test_nan_is_the_largest_and_the_lowest_value_has_an_index() -> None:
    x = st.tensor([[1.0, math.nan, 3.0, 0.0], [-math.inf] * 4])
    values, indices = F.max_pool1d(x, 2, return_indices=True)
    assert indices.tolist() == [[1, 2], [0, 2]]
    assert math.isnan(values[0, 0].item())
    _, indices = F.max_pool1d(x[1:], 2, 2, 1, return_indices=True)
    assert indices.tolist() == [[0, 1, 3]]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_adaptive_pooling(n: int, size: int) -> None:
    x = IMAGES[n]
    average = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[n - 1]
    largest = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)[n - 1]
    out, best = np.zeros((2, 4, *[size] * n)), np.zeros((2, 4, *[size] * n))
    for at in itertools.product(range(size), repeat=n):
        window = x[
            (
                ...,
                *(
                    slice(a * m // size, -(-(a + 1) * m // size))
                    for a, m in zip(at, x.shape[2:], strict=True)
                ),
            )
        ].reshape(2, 4, -1)
        out[(..., *at)], best[(..., *at)] = window.mean(-1), window.max(-1)
    assert np.allclose(average(st.tensor(x), size).numpy(), out)
    values, indices = largest(st.tensor(x), size, return_indices=True)
    assert np.array_equal(values.numpy(), best)
    values_at = np.take_along_axis(x.reshape(2, 4, -1), indices.numpy().reshape(2, 4, -1), -1)
    assert np.array_equal(values_at.reshape(best.shape), best)


def test_wrong_windows_are_refused() -> None:
    x = st.ones(1, 1, 4, 4)
    with pytest.raises(RuntimeError, match="greater than zero"):
        F.max_pool2d(x, 2, dilation=0)
    with pytest.raises(RuntimeError, match="no window fits"):
        F.avg_pool2d(x, 5)
    with pytest.raises(RuntimeError, match="output_size"):
        F.adaptive_avg_pool2d(x, (1, 2, 3))
    with pytest.raises(RuntimeError, match="indices must have"):
        F.max_unpool1d(x[0], st.zeros(1, 4, 3, dtype=st.int64), 2)


# ---- frames and other sizes


def test_wrong_frames_are_refused() -> None:
    x = st.ones(1, 2, 3)
    with pytest.raises(RuntimeError, match="at most 2"):
        F.pad(x, (3, 0), "reflect")
    with pytest.raises(NotImplementedError, match="no such mode"):
        F.pad(x, (1, 0), "mirror")
    with pytest.raises(ValueError, match="takes no value"):
        F.pad(x, (1, 0), "reflect", 3.0)


def test_interpolate_nearest_repeats() -> None:
    x = IMAGES[2]
    for mode in ("nearest", "nearest-exact"):
        out = F.interpolate(st.tensor(x), scale_factor=2, mode=mode)
        assert np.array_equal(out.numpy(), x.repeat(2, 2).repeat(2, 3))
    assert np.array_equal(F.upsample_nearest(st.tensor(x), scale_factor=2).numpy(), out.numpy())
    assert F.upsample(st.tensor(x), (3, 3)).shape == (2, 4, 3, 3)


@pytest.mark.parametrize(("n", "mode"), [(1, "linear"), (2, "bilinear"), (3, "trilinear")])
def test_interpolate_between_corners_is_numpys(n: int, mode: str) -> None:
    x = IMAGES[n]
    out: Any = x
    for d, m in enumerate(x.shape[2:]):
        line = lambda row, m=m: np.interp(np.linspace(0, m - 1, 9), np.arange(m), row)  # noqa: E731
        out = np.apply_along_axis(line, d + 2, out)
    ours = F.interpolate(st.tensor(x), [9] * n, mode=mode, align_corners=True)
    assert np.allclose(ours.numpy(), out)
    if n == 2:
        assert np.allclose(F.upsample_bilinear(st.tensor(x), [9, 9]).numpy(), out)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_resampling_keeps_constants_and_its_gradient_sums_up(mode: str, antialias: bool) -> None:
    x = st.full((1, 1, 8, 9), 3.0, dtype=st.float64, requires_grad=True)
    out = F.interpolate(x, (5, 13), mode=mode, antialias=antialias)
    assert np.allclose(out.detach().numpy(), 3.0)
    out.sum().backward()
    assert x.grad.sum().item() == pytest.approx(5 * 13)


def test_an_infinite_pixel_stays_where_it_is() -> None:
    x = st.zeros(1, 1, 8)
    x[0, 0, 3] = math.inf
    out = F.interpolate(x, 16, mode="linear")
    assert not out.isnan().any()
    assert out.isinf().sum().item() == 4


def test_antialias_is_for_modes_that_average() -> None:
    with pytest.raises(ValueError, match="antialias is only for"):
        F.interpolate(st.ones(1, 1, 4, 4), 3, antialias=True)


# ---- images read at places


def read_at(image: Array, x: float, y: float) -> float:
    """Bilinear interpolation at a point in pixels; zero outside the image."""
    low_x, low_y, total = math.floor(x), math.floor(y), 0.0
    for i, j in itertools.product((0, 1), repeat=2):
        near = abs(1 - i - (y - low_y)) * abs(1 - j - (x - low_x))
        if 0 <= low_y + i < image.shape[0] and 0 <= low_x + j < image.shape[1]:
            total += near * image[low_y + i, low_x + j]
    return total


@pytest.mark.parametrize("corners", [False, True])
def test_grid_sample_reads_between_the_neighbours(corners: bool) -> None:
    x, grid = IMAGES[2], RANDOM.uniform(-1.4, 1.4, (2, 3, 4, 2))
    result = F.grid_sample(st.tensor(x), st.tensor(grid), align_corners=corners).numpy()
    sizes = np.array(x.shape[:1:-1])  # x first
    at = (grid + 1) / 2 * (sizes - 1) if corners else ((grid + 1) * sizes - 1) / 2
    want = [[[[read_at(c, *p) for p in row] for row in a] for c in i] for i, a in zip(x, at)]
    np.testing.assert_allclose(result, want, rtol=1e-10, atol=1e-12)


def test_grids_are_transformed_together_or_alone() -> None:
    images, grids = st.rand(3, 2, 2, 5, 5), st.rand(3, 2, 4, 4, 2) * 2 - 1
    sample = lambda x, g: F.grid_sample(x, g, align_corners=False)  # noqa: E731
    for dims in ((0, 0), (None, 0), (0, None)):
        x = images if dims[0] == 0 else images[0]
        g = grids if dims[1] == 0 else grids[0]
        each = [sample(x[i] if dims[0] == 0 else x, g[i] if dims[1] == 0 else g) for i in range(3)]
        result = st.vmap(sample, in_dims=dims)(x, g)
        np.testing.assert_allclose(result.numpy(), st.stack(each).numpy(), rtol=1e-5, atol=1e-6)


def test_a_grid_has_a_gradient_in_every_mode() -> None:
    x, grid = st.rand(1, 1, 3, 3), st.zeros(1, 2, 2, 2, requires_grad=True)
    F.grid_sample(x, grid, mode="nearest", align_corners=False).sum().backward()
    np.testing.assert_array_equal(grid.grad.numpy(), np.zeros((1, 2, 2, 2)))


def test_images_and_grids_of_two_dtypes_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"one floating dtype: float32, float64"):
        F.grid_sample(st.rand(1, 1, 3, 3), st.rand(1, 2, 2, 2, dtype=st.float64))
    with pytest.raises(RuntimeError, match="int64"):
        F.grid_sample(st.ones(1, 1, 3, 3, dtype=st.int64), st.ones(1, 2, 2, 2, dtype=st.int64))


SIZES = {"linear": 1, "nearest": 2, "nearest-exact": 2, "bilinear": 2, "bicubic": 2, "area": 2}


def test_integer_images_are_resized_where_pytorch_does() -> None:
    for mode, n in (*SIZES.items(), ("trilinear", 3)):
        for dtype in (st.int8, st.int64, st.bool, st.complex64, st.uint8):
            x = st.ones(1, 1, *(2,) * n).to(dtype)
            if dtype == st.uint8 and mode not in ("linear", "trilinear", "area"):
                assert F.interpolate(x, size=(4,) * n, mode=mode).dtype == st.uint8
                continue
            with pytest.raises(NotImplementedError, match=f"not implemented for {dtype.name}"):
                F.interpolate(x, size=(4,) * n, mode=mode)


def test_an_image_that_stays_as_it_is_is_copied() -> None:
    x = st.ones(1, 4, 2, 2, requires_grad=True)
    for call in (
        lambda x: F.pad(x, (0, 0, 0, 0), mode="reflect"),
        lambda x: F.pad(x, (0, 0, 0, 0), mode="replicate"),
        lambda x: F.pad(x, (0, 0, 0, 0), mode="circular"),
        lambda x: F.interpolate(x, size=2),
        lambda x: F.interpolate(x, size=2, mode="nearest-exact"),
        lambda x: F.pixel_shuffle(x, 1),
        lambda x: F.pixel_unshuffle(x, 1),
        lambda x: F.pixel_unshuffle(x, 2),
        lambda x: F.channel_shuffle(x, 1),
        lambda x: F.channel_shuffle(x, 4),
        lambda x: F.unfold(x, 1),
        lambda x: F.unfold(x, 2),
    ):
        out = call(x)
        out.sum().backward()
        with st.no_grad():
            out.zero_()
        assert x.sum() == 16
    assert (x.grad == 12).all()


def test_a_grid_of_nothing_has_a_gradient() -> None:
    for image, grid in (((1, 1, 2, 2), (1, 0, 2, 2)), ((0, 1, 2, 2), (0, 1, 2, 2))):
        x, points = st.ones(image, requires_grad=True), st.zeros(grid, requires_grad=True)
        F.grid_sample(x, points, align_corners=False).sum().backward()
        assert (x.grad == 0).all()
        assert points.grad.shape == grid


def test_each_of_equal_indices_of_max_unpool_gets_the_gradient() -> None:
    x = st.tensor([[[1.0, 2.0, 2.0]]], requires_grad=True)
    out = F.max_unpool1d(x, st.tensor([[[0, 3, 3]]]), 2)
    assert out.tolist() == [[[1, 0, 0, 2, 0, 0]]]
    out.backward(st.arange(6.0).reshape(1, 1, 6) + 1)
    assert x.grad is not None
    assert x.grad.tolist() == [[[1, 4, 4]]]
