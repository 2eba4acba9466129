"""Max pooling equals the plain forwards for each kind of window, among NaN and equal elements."""

from __future__ import annotations

from typing import Any

import numpy as np

import shmtensor as st
from shmtensor import native
from shmtensor.ops.nn.fractional_max_pool import _fractional_max_pool
from shmtensor.ops.nn.pooling import _adaptive_max_pool, _max_pool

from ...cases import each
from .test_resample import formats

SIZES = [(2, 3, 9), (2, 3, 70), (2, 17, 7, 9), (1, 2, 33, 40), (2, 5, 3, 6, 5), (1, 1, 2, 50, 60)]


def images(shape: tuple[int, ...], dtype: str) -> list[Any]:
    """Numbers; few of them, so that many are equal; among NaN; all the smallest."""
    r = np.random.default_rng(sum(shape))
    x = r.normal(size=shape).astype(dtype)
    few = r.integers(0, 3, shape).astype(dtype)
    odd, uniform = few.copy(), r.random(shape)
    odd[uniform < 0.2], odd[uniform > 0.7] = np.nan, -np.inf
    return [x, few, odd, np.full(shape, -np.inf, dtype), np.full(shape, np.nan, dtype)]


def compare(row: Any, x: Any, *arguments: Any) -> None:
    values, indices = row.forward(np, x, *arguments)
    for y in formats(x):
        got_values, got_indices = row.numpy(y, *arguments)
        np.testing.assert_array_equal(got_values, values)
        np.testing.assert_array_equal(got_indices, indices)


@each("dtype", ["f4", "f8"])
@each("shape", SIZES)
def test_windows_of_one_size(shape: tuple[int, ...], dtype: str) -> None:
    n = len(shape) - 2
    for x in images(shape, dtype):
        for kernel, stride, padding, dilation, ceil in (
            (2, 2, 0, 1, False),
            (3, 2, 1, 1, True),
            (3, 1, 1, 1, False),
            (2, 3, 1, 2, True),
        ):
            if (kernel - 1) * dilation < min(shape[2:]) + 2 * padding:
                compare(
                    _max_pool, x, *((v,) * n for v in (kernel, stride, padding, dilation)), ceil
                )


@each("dtype", ["f4", "f8"])
@each("shape", SIZES)
def test_adaptive_windows(shape: tuple[int, ...], dtype: str) -> None:
    for x in images(shape, dtype):
        for out in (1, 2, 5, 11):
            compare(_adaptive_max_pool, x, (out,) * (len(shape) - 2))


@each("dtype", ["f4", "f8"])
@each("shape", SIZES[2:])
def test_fractional_windows(shape: tuple[int, ...], dtype: str) -> None:
    n = len(shape) - 2
    samples = np.random.default_rng(1).random((*shape[:2], n)).astype(dtype)
    for x in images(shape, dtype):
        compare(
            _fractional_max_pool, x, samples, (2,) * n, tuple(max(m // 2, 1) for m in shape[2:])
        )


def test_a_window_without_elements() -> None:
    values, indices = native.max_pool(np.zeros((1, 1, 1)), (2,), (1,), (1,), (3,), (1,))  # type: ignore[misc]
    assert values.tolist() == [[[-np.inf]]]
    assert indices.tolist() == [[[-1]]]


@each("dtype", ["f4", "f8"])
@each("shape", [(2, 40, 300), (2, 17, 12, 14), (1, 1, 100, 90), (2, 3, 4, 6, 8)])
def test_gradients_are_added_at_the_indices(shape: tuple[int, ...], dtype: str) -> None:
    n = len(shape) - 2
    x = np.random.default_rng(0).integers(0, 9, shape).astype(dtype)
    values, indices = _max_pool.forward(np, x, (3,) * n, (2,) * n, (1,) * n, (1,) * n, False)
    want = np.zeros((*shape[:2], int(np.prod(shape[2:]))), dtype)
    rows = np.arange(shape[0])[:, None, None], np.arange(shape[1])[:, None]
    np.add.at(want, (*rows, indices.reshape(*shape[:2], -1)), values.reshape(*shape[:2], -1))
    for g in formats(values):
        for at in formats(indices):
            got = native.value_selecting_reduction_backward(g, at, shape, n)
            np.testing.assert_array_equal(got, want.reshape(shape))


def test_wrong_indices_of_channels_last_images_are_refused() -> None:
    g = formats(np.ones((2, 3, 4, 4)))[-1]
    at = formats(np.full((2, 3, 4, 4), 64))[-1]
    assert native.value_selecting_reduction_backward(g, at, (2, 3, 8, 8), 2) is None


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    x = np.random.default_rng(0).normal(size=(3, 20, 31, 47)).astype("f4")
    before, results = st.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            st.set_num_threads(threads)
            results.append(_max_pool.numpy(x, (3, 3), (2, 2), (1, 1), (1, 1), False))
    finally:
        st.set_num_threads(before)
    for values, indices in results[1:]:
        np.testing.assert_array_equal(values, results[0][0])
        np.testing.assert_array_equal(indices, results[0][1])
