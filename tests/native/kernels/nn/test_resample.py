"""Weighted sums by tables equal the plain forwards, in each memory format."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.ops.nn.interpolate import cubic_weights as smaller
from shmtensor.ops.nn.interpolate import linear_weights as larger
from shmtensor.ops.nn.interpolate import nearest_taps
from shmtensor.ops.nn.pad import padded_taps
from shmtensor.ops.nn.pooling import _avg_pool, _avg_pool_backward, adaptive_taps
from shmtensor.ops.nn.resample import Taps, _resample

from ...cases import each

F8 = np.dtype(np.float64)


def draw_taps(n: int, out: int, width: int) -> Taps:
    """Any elements in any order, weighted; some results have none."""
    r = np.random.default_rng(n * out)
    counts = r.integers(0, width + 1, out)
    return Taps(n, r.integers(0, n, (out, width)), r.normal(size=(out, width)), counts)


TAPS: dict[str, tuple[Taps | None, ...]] = {
    "any": (draw_taps(9, 7, 3),),
    "many": (draw_taps(300, 9, 60),),
    "any, two": (draw_taps(5, 11, 2), draw_taps(33, 40, 9)),
    "any, three": (draw_taps(4, 3, 2), None, draw_taps(6, 20, 4)),
    "identity": (None, None),
    "bilinear, larger": (larger(7, 15, 0.5, False, F8), larger(20, 41, 0.5, True, F8)),
    "bicubic, smaller": (smaller(16, 5, 3.2, False, F8), smaller(40, 17, 2.4, False, F8)),
    "nearest": (nearest_taps(9, 27, 1 / 3, False), nearest_taps(21, 70, 0.3, True)),
    "reflected": (padded_taps("reflect", 6, 2, 3), padded_taps("reflect", 19, 1, 18)),
    "circular": (padded_taps("circular", 4, 1, 1), None, padded_taps("circular", 90, 7, 0)),
    "adaptive": (adaptive_taps(13, 5), adaptive_taps(100, 3)),
    "adaptive, larger": (adaptive_taps(3, 7), adaptive_taps(5, 64)),
}  # fmt: skip


def formats(x: Any) -> list[Any]:
    """x contiguous, channels last, and with another layout."""
    arrays = [x, np.asfortranarray(x)]
    if x.ndim > 3:
        arrays.append(np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1))
    return arrays


@each("dtype", ["f4", "f8"])
@each("name", TAPS)
def test_sums_and_gradients_are_those_of_the_plain_form(name: str, dtype: str) -> None:
    taps = TAPS[name]
    sizes = [t.n if t else 5 for t in taps]
    close = {"rtol": 1e-4, "atol": 1e-5} if dtype == "f4" else {"rtol": 1e-11, "atol": 1e-12}
    for lead in ((2, 3), (1, 20), (40, 1)):
        x = np.random.default_rng(0).normal(size=(*lead, *sizes)).astype(dtype)
        for form in (taps, tuple(t and t.transposed for t in taps)):
            want = _resample.forward(np, x, form)
            arrays = tuple(t and t.arrays for t in form)
            for y in formats(x):
                got = native.resample(y, arrays)
                assert got is not None
                assert (got.shape, got.dtype) == (want.shape, want.dtype)
                np.testing.assert_allclose(got, want, **close)
            x = want


def test_a_transposed_table_is_the_transposed_matrix() -> None:
    taps = draw_taps(9, 7, 3)
    matrix = _resample.forward(np, np.eye(9), (taps,))
    np.testing.assert_array_equal(_resample.forward(np, np.eye(7), (taps.transposed,)), matrix.T)
    again = _resample.forward(np, np.eye(9), (taps.transposed.transposed,))
    np.testing.assert_array_equal(again, matrix)


@each("name", ["bilinear, larger", "adaptive", "reflected", "any, two"])
def test_bits_do_not_depend_on_the_number_of_threads(name: str) -> None:
    taps = TAPS[name]
    x = np.random.default_rng(0).normal(size=(3, 40, *(t.n for t in taps if t))).astype("f4")
    arrays = tuple(t and t.arrays for t in taps)
    before, results = st.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            st.set_num_threads(threads)
            results.append([native.resample(y, arrays) for y in formats(x)])
    finally:
        st.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_an_element_is_copied_as_it_is_and_one_that_is_not_used_is_not_read() -> None:
    x = np.array([[-0.0, np.inf, np.nan, 2.0, -0.0] * 4], "f4")
    (got,) = (native.resample(x, (padded_taps("reflect", 20, 2, 2).arrays,)),)
    want = np.pad(x, ((0, 0), (2, 2)), "reflect")
    assert got is not None
    assert got.tobytes() == want.tobytes()
    means = native.resample(np.array([[1.0, 2, 3, np.inf, 1]]), (adaptive_taps(5, 3).arrays,))
    assert means is not None
    assert means.tolist() == [[1.5, np.inf, np.inf]]


@pytest.mark.parametrize(
    "arrays",
    [
        (np.array([[5]]), None, None),
        (np.array([[-1]]), None, None),
        (np.array([[0]]), np.ones((2, 1)), None),
        (np.array([[0]]), None, np.array([2])),
        (np.array([[0]]), None, np.array([-1])),
        (np.array([0]), None, None),
        (np.array([[0]], "i4"), None, None),
        "x",
    ],
    ids=str,
)
def test_wrong_tables_are_refused(arrays: Any) -> None:
    assert native.resample(np.zeros((2, 5)), (arrays,)) is None


def test_other_dtypes_and_shapes_have_no_kernel() -> None:
    table = (np.array([[0]]), None, None)
    assert native.resample(np.zeros((2, 5), "i8"), (table,)) is None
    assert native.resample(np.zeros((0, 5)), (table,)) is None
    assert native.resample(np.zeros(5), (table, table)) is None


@each("dtype", ["f4", "f8"])
@each("include_pad", [False, True])
@each("divisor", [0, 1, 5])
def test_means_of_windows_are_those_of_the_plain_form(
    divisor: int, include_pad: bool, dtype: str
) -> None:
    for size, *windows in (
        ((30,), (4,), (3,), (2,), True),
        ((9, 33), (3, 2), (2, 3), (1, 1), True),
        ((12, 32), (2, 4), (2, 4), (0, 0), False),
        ((4, 5, 21), (2, 3, 3), (1, 2, 2), (1, 0, 1), True),
    ):
        x = np.random.default_rng(0).normal(size=(2, 9, *size)).astype(dtype)
        want = _avg_pool.forward(np, x, *windows, include_pad, divisor)
        back = _avg_pool_backward.forward(np, want, size, *windows, include_pad, divisor)
        close = {"rtol": 1e-4, "atol": 1e-5} if dtype == "f4" else {"rtol": 1e-11, "atol": 1e-12}
        for y, g in zip(formats(x), formats(want), strict=True):
            np.testing.assert_allclose(
                _avg_pool.numpy(y, *windows, include_pad, divisor), want, **close
            )
            got = _avg_pool_backward.numpy(g, size, *windows, include_pad, divisor)
            np.testing.assert_allclose(got, back, **close)
