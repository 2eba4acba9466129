"""cat and stack_into."""

from __future__ import annotations

import numpy as np
import pytest

from shmtensor import native

from ...cases import each

RNG = np.random.default_rng(0)


@each("dtype", ["float32", "int64", "bool", "complex128", "float16"])
@each("dim", [0, 1, 2, -1])
@each("size", [1, 40])
def test_cat_equals_concatenate(dtype: str, dim: int, size: int) -> None:
    parts = []
    for n in (3, 1, 0, 5):
        shape = [2 * size, 3 * size, 4]
        shape[dim] = n
        parts.append(RNG.standard_normal(shape).astype(dtype))
    want = np.concatenate(parts, dim)
    for arrays in (parts, tuple(np.asfortranarray(p) for p in parts), [p[::-1] for p in parts]):
        want = np.concatenate(arrays, dim)
        got = native.cat(arrays, dim)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["bool", "float16", "int32", "float64", "complex128"])
def test_cat_of_many_short_runs(dtype: str) -> None:
    """Runs of one length in turn, and of several: a line of each array at a time."""
    x = np.random.default_rng(0).integers(0, 9, (3000, 6)).astype(dtype)
    for sizes in ([1, 1], [2, 2], [1, 1, 1], [3, 3], [1, 2, 3], [5, 0, 1]):
        parts = np.split(x[:, : sum(sizes)], np.cumsum(sizes)[:-1], 1)
        parts = [np.ascontiguousarray(part) for part in parts]
        np.testing.assert_array_equal(native.cat(parts, 1), x[:, : sum(sizes)], strict=True)


def test_cat_of_large_arrays() -> None:
    x = RNG.standard_normal((700, 900))
    for dim in (0, 1):
        np.testing.assert_array_equal(native.cat([x, x], dim), np.concatenate([x, x], dim))


def test_cat_promotes_and_drops_empty_vectors() -> None:
    x, y = np.arange(3), np.ones(2, "float32")
    assert native.cat([x, y]).dtype == np.result_type(x, y)
    matrix = np.ones((2, 3))
    for arrays in ([np.empty(0), matrix], [matrix, np.empty(0), matrix[:1]]):
        want = np.concatenate([a for a in arrays if a.ndim == 2])
        np.testing.assert_array_equal(native.cat(arrays), want)
    assert native.cat([np.empty(0)]).shape == (0,)


def test_cat_errors_show_the_shapes() -> None:
    with pytest.raises(
        RuntimeError, match=r"outside dim 0: element 1 is \(2, 4\), the first is \(2, 3\)"
    ):
        native.cat([np.ones((2, 3)), np.ones((2, 4))])
    with pytest.raises(RuntimeError, match="cat: no arrays"):
        native.cat([])
    with pytest.raises(RuntimeError, match="no dimensions: element 1"):
        native.cat([np.ones(1), np.ones(())])
    with pytest.raises(IndexError, match="dim is out of range: 1, expected -1 to 0"):
        native.cat([np.ones(1)], 1)


@each("shape", [(), (3,), (5, 7), (300, 200), (0, 2)])
@each("dtype", ["float32", "uint8"])
def test_stack_into(shape: tuple[int, ...], dtype: str) -> None:
    arrays = [np.asarray(RNG.standard_normal(shape) * 10 + 50).astype(dtype) for _ in range(9)]
    for source in (arrays, [a.copy(order="F") for a in arrays]):
        out = np.empty((9, *shape), dtype)
        native.stack_into(out, source)
        np.testing.assert_array_equal(out, np.stack(arrays))


def test_stack_into_errors_show_the_values() -> None:
    out = np.empty((2, 3))
    with pytest.raises(RuntimeError, match=r"out has another size: \(2, 3\) for 1 arrays"):
        native.stack_into(out, [np.ones(3)])
    with pytest.raises(RuntimeError, match=r"element 1 is \(4,\), out is \(2, 3\)"):
        native.stack_into(out, [np.ones(3), np.ones(4)])
    with pytest.raises(TypeError, match="element 0 is int64, out is float64"):
        native.stack_into(out, [np.arange(3), np.arange(3)])
