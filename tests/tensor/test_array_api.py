"""The array API namespace, compared with NumPy's, which follows the same standard."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import array_api as xp

RNG = np.random.default_rng(2)
A = RNG.uniform(0.1, 0.9, (3, 4))
B = RNG.uniform(0.1, 0.9, (3, 4))
I = RNG.integers(1, 9, (3, 4))
J = RNG.integers(1, 4, (3, 4))
T = RNG.random((3, 4)) < 0.5

REAL = """abs acos add asin asinh atan atan2 atanh ceil copysign cos cosh divide equal exp expm1
floor floor_divide greater greater_equal hypot isfinite isinf isnan less less_equal log log10 log1p
log2 logaddexp maximum minimum multiply negative nextafter not_equal positive pow reciprocal
remainder round sign signbit sin sinh sqrt square subtract tan tanh trunc""".split()  # noqa: SIM905
WHOLE = "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor".split()  # noqa: SIM905
TRUTH = ["logical_and", "logical_or", "logical_xor"]
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    *((n, (A, B)[: getattr(np, n).nin], {}) for n in REAL if n not in ("round", "acosh")),
    ("round", (A * 10,), {}), ("acosh", (A + 1,), {}), ("bitwise_invert", (I,), {}),
    *((n, (I, J), {}) for n in WHOLE), *((n, (T, ~T), {}) for n in TRUTH),
    ("logical_not", (T,), {}),
    ("conj", (A + 1j * B,), {}), ("real", (A + 1j * B,), {}), ("imag", (A + 1j * B,), {}),
    ("where", (T, A, B), {}), ("clip", (A,), {"min": 0.3, "max": 0.5}), ("matmul", (A, B.T), {}),
    ("take", (A, np.array([2, 0])), {"axis": 0}),
    ("take_along_axis", (A, np.argsort(A, 1)), {"axis": 1}),
    ("tensordot", (A, B), {}), ("vecdot", (A, B), {}), ("matrix_transpose", (A,), {}),
    ("expand_dims", (A,), {"axis": 1}), ("squeeze", (A[:1],), {"axis": 0}),
    ("reshape", (A, (4, 3)), {}), ("permute_dims", (A, (1, 0)), {}), ("moveaxis", (A, 0, 1), {}),
    ("flip", (A,), {}), ("flip", (A,), {"axis": 1}), ("roll", (A, 2), {}),
    ("roll", (A, 1), {"axis": 0}), ("repeat", (A, 2), {"axis": 1}), ("tile", (A, (2, 1)), {}),
    ("broadcast_to", (A[0], (3, 4)), {}), ("tril", (A,), {"k": 1}), ("triu", (A,), {"k": -1}),
    ("astype", (A, np.dtype("float32")), {}), ("diff", (A,), {"axis": 0}),
    ("cumulative_sum", (A,), {"axis": 1, "include_initial": True}),
    ("cumulative_prod", (A,), {"axis": 0}), ("argmax", (A,), {"axis": 1}), ("argmin", (A,), {}),
    ("argsort", (A,), {"axis": 0}), ("sort", (A,), {"axis": 1}),
    ("searchsorted", (np.sort(A[0]), B), {"side": "right"}),
    *(
        (n, (A,), {"axis": axis, "keepdims": keepdims})
        for n in ("max", "min", "mean", "sum", "prod", "std", "var", "all", "any", "count_nonzero")
        for axis, keepdims in ((None, False), (1, True), ((0, 1), False))
    ),
    ("sum", (I,), {}), ("prod", (J,), {"axis": 0}), ("std", (A,), {"correction": 1}),
    ("empty_like", (A,), {}), ("ones_like", (A,), {}), ("zeros_like", (A,), {}),
    ("full_like", (A, 3.0), {}),
]  # fmt: skip


def ours(value: Any) -> Any:
    if isinstance(value, np.dtype):
        return getattr(st, value.name)
    return st.tensor(value) if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize(
    ("name", "args", "kwargs"), CALLS, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(CALLS)]
)
def test_function_is_numpys(name: str, args: Any, kwargs: Any) -> None:
    expected = np.asarray(getattr(np, name)(*args, **kwargs))
    result = getattr(xp, name)(*(ours(a) for a in args), **kwargs)
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    if name != "empty_like":
        assert np.allclose(result.numpy(), expected)


def test_creation() -> None:
    assert xp.arange(3).tolist() == [0, 1, 2]
    assert xp.arange(1, 7, 2).tolist() == [1, 3, 5]
    assert xp.linspace(0, 1, 4, endpoint=False).tolist() == [0, 0.25, 0.5, 0.75]
    assert xp.eye(2, 3, k=1).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert xp.full(2, 3).tolist() == [3, 3]
    assert xp.empty((2, 3)).shape == xp.zeros((2, 3)).shape == xp.ones((2, 3)).shape
    assert [g.shape for g in xp.meshgrid(xp.arange(2), xp.arange(3))] == [(3, 2), (3, 2)]
    array = np.arange(3.0)
    assert np.shares_memory(xp.asarray(array).numpy(), array)
    assert not np.shares_memory(xp.asarray(array, copy=True).numpy(), array)
    assert np.shares_memory(xp.from_dlpack(array).numpy(), array)
    assert not np.shares_memory(xp.from_dlpack(array, copy=True).numpy(), array)


def test_joining() -> None:
    x, y = st.tensor(A), st.tensor(I)
    assert xp.concat([x, y]).shape == (6, 4)
    assert xp.concat([x, y], axis=None).shape == (24,)
    assert xp.stack([x, x], axis=1).shape == (3, 2, 4)
    assert [p.shape for p in xp.unstack(x, axis=1)] == [(3,)] * 4
    assert [p.shape for p in xp.broadcast_arrays(x, x[0])] == [(3, 4)] * 2
    assert [p.tolist() for p in xp.nonzero(st.tensor([[0, 1], [2, 0]]))] == [[0, 1], [1, 0]]


def test_sets() -> None:
    x = st.tensor([3, 1, 3, 2])
    assert [p.tolist() for p in xp.unique_all(x)] == [[1, 2, 3], [1, 3, 0], [2, 0, 2, 1], [1, 1, 2]]
    assert xp.unique_counts(x).counts.tolist() == [1, 1, 2]
    assert xp.unique_inverse(x).inverse_indices.tolist() == [2, 0, 2, 1]
    assert xp.unique_values(x).tolist() == [1, 2, 3]


def test_dtypes() -> None:
    assert xp.result_type(st.float32, st.ones(1, dtype=st.float64)) is xp.float64
    assert xp.can_cast(st.int32, st.int64)
    assert not xp.can_cast(st.int64, st.int32)
    assert xp.isdtype(st.int8, "signed integer")
    assert xp.isdtype(st.uint8, ("bool", "unsigned integer"))
    assert xp.isdtype(st.float32, st.float32)
    assert not xp.isdtype(st.bool, "numeric")
    with pytest.raises(ValueError, match="no such kind"):
        xp.isdtype(st.bool, "strange")
    assert xp.finfo(st.float32).eps == np.finfo(np.float32).eps
    assert xp.iinfo(st.int8).max == 127
    assert (xp.e, xp.inf, xp.pi, xp.newaxis) == (np.e, np.inf, np.pi, None)
    assert np.isnan(xp.nan)


def test_the_namespace_is_a_tensor_s() -> None:
    x = st.ones(2)
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2023.12") is xp
    with pytest.raises(ValueError, match="is not supported"):
        x.__array_namespace__(api_version="1999.12")
    assert x.to_device("cpu") is x
    info = xp.__array_namespace_info__()
    assert info.default_device() == x.device
    assert info.devices() == [x.device]
    assert info.default_dtypes()["integral"] is st.int64
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert info.capabilities()["boolean indexing"]
    missing = [n for n in xp.__all__ if not hasattr(xp, n)]
    assert not missing


def test_copies_that_were_forbidden() -> None:
    x = st.tensor(A).t()
    with pytest.raises(ValueError, match="a copy is needed"):
        xp.reshape(x, (12,), copy=False)
    assert not np.shares_memory(xp.reshape(st.tensor(A), (12,), copy=True).numpy(), A)
    with pytest.raises(ValueError, match="another length"):
        xp.squeeze(x, 0)


def test_gradients_go_through() -> None:
    x = st.tensor(A, requires_grad=True)
    xp.sum(xp.multiply(x, x), axis=None).backward()
    assert np.allclose(x.grad.numpy(), 2 * A)


@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum", "cumulative_prod"])
def test_integers_are_added_up_in_64_bits_of_their_kind(name: str) -> None:
    reduce = getattr(xp, name)
    for dtype, expected in [("bool", "int64"), ("int8", "int64"), ("uint8", "uint64")]:
        x = xp.asarray([1, 1, 1], dtype=getattr(xp, dtype))
        assert reduce(x).dtype == getattr(xp, expected)
    assert reduce(xp.asarray([200, 200]), dtype=xp.int16).dtype == xp.int16
    assert reduce(xp.asarray([2.0]), axis=0).dtype == xp.float32
    assert {"uint16", "uint32", "uint64"} <= set(xp.__array_namespace_info__().dtypes())


ODD: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    *(
        (name, (x,), {"axis": (), "keepdims": keepdims})
        for name in ("sum", "prod", "max", "min", "mean", "var", "std", "any", "all")
        for x in (A, A[:0], np.asarray(A[0, 0]))
        for keepdims in (False, True)
    ),
    ("sum", (T,), {"axis": ()}), ("arange", (5, 1), {}), ("arange", (1, 5, -1), {}),
    ("arange", (5, 1, -2), {}), ("linspace", (1j, 2, 3), {}),
    ("linspace", (0, 2 + 1j, 4), {"endpoint": False}),
    ("vecdot", (I.astype(np.int8), J.astype(np.int8)), {}),
    ("vecdot", (I.astype(np.int8), J.astype(np.int16)), {}),
    ("add", (I.astype(np.int8), np.asarray(300, np.int16)), {}),
    ("less_equal", (I.astype(np.uint32), np.asarray(-2)), {}),
    ("maximum", (A.astype(np.float32), np.asarray(0.5)), {}),
    ("where", (T, I.astype(np.int8), np.asarray(300, np.int16)), {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "kwargs"), ODD)
def test_axes_of_none_and_tensors_without_dimensions(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    with np.errstate(all="ignore"):
        expected = np.asarray(getattr(np, name)(*args, **kwargs))
    result = getattr(xp, name)(*(ours(a) for a in args), **kwargs)
    assert result.shape == expected.shape
    kind = expected.dtype.kind
    assert result.dtype.kind == kind
    if kind in "iu" or name in ("add", "maximum", "where"):
        assert result.dtype == expected.dtype
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)


def test_can_cast_keeps_to_the_kinds_of_the_standard() -> None:
    assert xp.can_cast(xp.int8, xp.int64)
    assert xp.can_cast(xp.float32, xp.complex64)
    for from_, to in ((xp.bool, xp.uint64), (xp.int8, xp.uint64), (xp.int8, xp.float64)):
        assert not xp.can_cast(from_, to)
