"""Additions at indices: every dtype, every kind of index, repeated indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native

RNG = np.random.default_rng(5)
DTYPES = ["f4", "f8", "i1", "i8", "u1", "?", "c8", "c16"]
I, J = RNG.integers(-30, 30, 5000), RNG.integers(-20, 20, 5000)
INDEXES = [(I,), (I[:50].reshape(10, 5),), (I, J), (I[:40].reshape(-1, 1), J[:3]), (J[:7] > 0,)]


def integers(shape: tuple[int, ...], dtype: str) -> Any:
    """Whole numbers, whose sums are exact."""
    x = RNG.integers(-9, 9, shape)
    return (x + 1j * x[::-1] if dtype[0] == "c" else x * (dtype != "?" or x > 5)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_added_at_indices(dtype: str) -> None:
    x = integers((30, 20, 3), dtype)
    for index in [*INDEXES[:4], (slice(2, 9), J)]:
        values = integers(np.empty(x.shape)[index].shape, dtype)
        for v in (values, values[..., :1], values.reshape(-1)[:1].reshape(())):
            want = x.copy()
            np.add.at(want, index, v)
            at = tuple(i if isinstance(i, slice) else st.tensor(i) for i in index)
            out = st.tensor(x).index_put(at, st.tensor(v), accumulate=True)
            np.testing.assert_array_equal(out.numpy(), want, strict=True)


@pytest.mark.parametrize("dtype", [st.bfloat16, st.float16])
def test_sums_of_16_bits_are_rounded_once(dtype: Any) -> None:
    x = st.ones(30, 3).to(dtype)
    values = st.full((5000, 3), 1 / 3).to(dtype)
    want = np.ones((30, 3), np.float32)
    np.add.at(want, (I,), values.float().numpy())
    out = x.index_put((st.tensor(I),), values, accumulate=True)
    assert out.dtype is dtype
    np.testing.assert_array_equal(
        out.float().numpy(), native.recast(want, dtype).astype(np.float32)
    )


WRITES: dict[str, Callable[..., Any]] = {
    "index_add": lambda x, at, s: x.index_add(0, at, s),
    "index_add_": lambda x, at, s: x.index_add_(0, at, s, alpha=2),
    "index_reduce": lambda x, at, s: x.index_reduce(0, at, s, "amax"),
    "scatter": lambda x, at, s: x.scatter(0, at, s),
    "scatter_": lambda x, at, s: x.scatter_(0, at, s, reduce="multiply"),
    "scatter_add": lambda x, at, s: x.scatter_add(0, at, s),
    "scatter_reduce": lambda x, at, s: x.scatter_reduce(0, at, s, "prod"),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "int64"])
def test_another_dtype_is_named_as_it_is(name: str, dtype: str) -> None:
    x, at = st.zeros(4, dtype=getattr(st, dtype)), st.tensor([0, 1])
    for other in {"bfloat16", "float32", "float64"} - {dtype}:
        match = f"^{name.rstrip('_')}: expected .* the same dtype: {dtype}, {other}, "
        with pytest.raises(RuntimeError, match=match):
            WRITES[name](x, at, st.zeros(2, dtype=getattr(st, other)))
    WRITES[name](x, at, st.zeros(2, dtype=x.dtype))


@pytest.mark.parametrize("index", INDEXES, ids=str)
def test_the_gradient_of_reading_is_adding(index: Any) -> None:
    x = st.tensor(integers((30, 20, 3) if len(index[0]) != 7 else (7, 3), "f8")).requires_grad_()
    read = x[tuple(st.tensor(i) for i in index)]
    g = integers(tuple(read.shape), "f8")
    (slope,) = st.autograd.grad(read, x, st.tensor(g))
    want = np.zeros(x.shape)
    np.add.at(want, index, g)
    np.testing.assert_array_equal(slope.numpy(), want)


def test_an_index_that_is_outside_is_refused() -> None:
    for wrong in (30, -31):
        with pytest.raises(IndexError):
            st.zeros(30, 3).index_put((st.tensor([wrong]),), st.ones(3), accumulate=True)


def test_embeddings_add_up_in_their_gradient() -> None:
    table = st.zeros(30, 3, dtype=st.float64).requires_grad_()
    index = I.reshape(50, 100) % 30
    g = integers((50, 100, 3), "f8")
    (slope,) = st.autograd.grad(
        st.nn.functional.embedding(st.tensor(index), table, padding_idx=4), table, st.tensor(g)
    )
    want = np.zeros((30, 3))
    np.add.at(want, (index,), g)
    want[4] = 0
    np.testing.assert_array_equal(slope.numpy(), want)
