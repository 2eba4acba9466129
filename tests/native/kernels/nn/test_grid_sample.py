"""Sums of weighted neighbours equal the plain forwards, wherever the points are."""

from __future__ import annotations

import numpy as np
import pytest

from shmtensor import native
from shmtensor.ops.nn import weighted_sample as plain

from ...cases import each

SIZES = [(2, 3, 5, 4, 7), (1, 1, 1, 1, 1), (2, 4, 30, 9, 2100), (1, 2, 6, 0, 3), (1, 70, 8, 16, 50)]


def draw(*shape: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def places_of(n: int, taps: int, m: int, n_points: int) -> np.ndarray:
    """Indices inside, a little outside and far outside of the image."""
    r = np.random.default_rng(m)
    at = r.integers(-3, m + 3, (n, taps, n_points))
    return np.where(r.random(at.shape) < 0.05, r.choice([-(2**63), 2**63 - 1], at.shape), at)


@each("dtype", ["f4", "f8"])
@each("sizes", SIZES)
def test_sums_equal_those_of_the_plain_form(sizes: tuple[int, ...], dtype: str) -> None:
    n, channels, m, taps, n_points = sizes
    at = places_of(n, taps, m, n_points)
    x, g = draw(n, channels, m, dtype=dtype), draw(n, channels, n_points, dtype=dtype)
    weights = draw(n, taps, n_points, dtype=dtype)
    if taps:
        x[0, 0, 0] = np.inf  # is not read for an index outside
    close = {"rtol": 2e-5 if dtype == "f4" else 1e-12, "atol": 1e-5 if dtype == "f4" else 1e-12}
    for kernel, form, arguments in (
        (native.weighted_gather, plain._weighted_gather, (x, weights, at)),
        (native.weighted_scatter, plain._weighted_scatter, (g, weights, at, m)),
        (
            native.weighted_gather_backward_weights,
            plain._weighted_gather_backward_weights,
            (g, x, at),
        ),
    ):
        with np.errstate(invalid="ignore"):
            want = form.forward(np, *arguments)
        if taps:
            got = kernel(*arguments)
            assert got is not None
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, **close)
            fortran = [np.asfortranarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
            np.testing.assert_array_equal(kernel(*fortran), got)  # in any layout


@each("dtype", ["f4", "f8"])
@each("frame", range(4))
@each("reach", [1, 2, 4])
@each("sizes", [(5,), (1,), (4, 3), (1, 6), (3, 1, 4)])
def test_neighbours_equal_those_of_the_plain_form(
    sizes: tuple[int, ...], reach: int, frame: int, dtype: str
) -> None:
    x = draw(2, len(sizes), 1500, dtype=dtype) * 6
    x[0, :, :7] = [[np.nan, np.inf, -np.inf, 3e30, -3e30, -0.0, 2.0]]
    want = plain._sample_indices.forward(np, x, sizes, reach, frame)
    got = native.sample_indices(x, sizes, reach, frame)
    np.testing.assert_array_equal(got, want, strict=True)
    assert got.min() >= -1
    assert got.max() < np.prod(sizes)


def test_unsuitable_arguments_are_left_to_the_plain_forms() -> None:
    x, w, at = np.ones((2, 3, 5)), np.ones((2, 4, 6)), np.zeros((2, 4, 6), np.int64)
    assert native.weighted_gather(x, w[:1], at) is None
    assert native.weighted_gather(x, w.astype("f4"), at) is None
    assert native.weighted_gather(x, w, at.astype("i4")) is None
    assert native.weighted_gather(x[:1], w, at) is None
    assert native.weighted_scatter(np.ones((2, 3, 5)), w, at, 5) is None
    assert native.weighted_scatter(np.ones((2, 3, 6)), w, at, -1) is None
    assert native.weighted_gather_backward_weights(np.ones((2, 2, 6)), x, at) is None
    for sizes, reach, frame in (((5,), 2, 0), ((5, 0), 2, 0), ((5, 4), 3, 0), ((5, 4), 2, 4)):
        assert native.sample_indices(np.ones((2, 2, 6)), sizes, reach, frame) is None
    with pytest.raises(TypeError, match="weighted_gather"):
        native.weighted_gather(x, w)
