"""NumPy's functions on tensors: values are NumPy's, results are tensors, gradients go through."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.autograd import gradcheck
from shmtensor.tensor.numpy_function_table import TABLE

RANDOM = np.random.default_rng(4)
X, Y = RANDOM.uniform(-1, 1, (3, 4)), RANDOM.uniform(0.5, 2, (3, 4))
A = RANDOM.uniform(-1, 1, (2, 3, 4))
V = RANDOM.uniform(-1, 1, 3)
S = RANDOM.uniform(-1, 1, (3, 3)) + 3 * np.eye(3)
AT = np.array([[0, -1, 2, 0]])

Call = Callable[..., Any]

# By the table's names; the arrays become tensors, and the first of them requires grad.
CASES: dict[str, list[tuple[Call, tuple[Any, ...]]]] = {
    "numpy.concatenate": [
        (lambda x, y: np.concatenate([x, y], 1), (X, Y)),
        (lambda x: np.concatenate((x, X), axis=None), (X,)),
    ],
    "numpy.where": [(lambda x, y: np.where(Y > 1, x, y), (X, Y)),
                    (lambda x: np.where(AT, x, 2.0), (X,))],
    "numpy.sum": [(lambda x: np.sum(x, axis=(0, 2)), (A,)),
                  (lambda x: np.sum(x, 1, keepdims=True), (X,))],
    "numpy.mean": [(np.mean, (X,)), (lambda x: np.mean(x, axis=-1), (A,))],
    "numpy.prod": [(np.prod, (X,)), (lambda x: np.prod(x, 0, keepdims=True), (X,))],
    "numpy.max": [(np.max, (X,)), (lambda x: np.max(x, axis=1), (X,))],
    "numpy.min": [(np.min, (X,)), (lambda x: np.min(x, axis=(0, 1)), (A,))],
    "numpy.amax": [(lambda x: np.amax(x, 0, keepdims=True), (X,))],
    "numpy.amin": [(lambda x: np.amin(x, 0), (X,))],
    "numpy.var": [(np.var, (X,)), (lambda x: np.var(x, axis=0, ddof=1), (X,))],
    "numpy.std": [(np.std, (X,)), (lambda x: np.std(x, 1, keepdims=True), (X,))],
    "numpy.cumsum": [(np.cumsum, (X,)), (lambda x: np.cumsum(x, axis=1), (X,))],
    "numpy.cumprod": [(np.cumprod, (V,)), (lambda x: np.cumprod(x, 0), (X,))],
    "numpy.transpose": [(np.transpose, (A,)), (lambda x: np.transpose(x, (1, 0, 2)), (A,))],
    "numpy.expand_dims": [(lambda x: np.expand_dims(x, 1), (X,)),
                          (lambda x: np.expand_dims(x, (0, -1)), (X,))],
    "numpy.squeeze": [(np.squeeze, (X[:, None],)), (lambda x: np.squeeze(x, 1), (X[:, None],))],
    "numpy.reshape": [(lambda x: np.reshape(x, (2, -1)), (X,)),
                      (lambda x: np.reshape(x, 12), (X,))],
    "numpy.flip": [(np.flip, (X,)), (lambda x: np.flip(x, 1), (X,))],
    "numpy.repeat": [(lambda x: np.repeat(x, 2), (X,)),
                     (lambda x: np.repeat(x, [1, 0, 2], 0), (X,))],
    "numpy.array_split": [(lambda x: np.array_split(x, 3, 1), (X,))],
    "numpy.split": [(lambda x: np.split(x, 2, axis=1), (X,)), (lambda x: np.split(x, [1]), (X,))],
    "numpy.take": [(lambda x: np.take(x, AT), (X,)), (lambda x: np.take(x, AT, axis=1), (X,))],
    "numpy.take_along_axis": [(lambda x: np.take_along_axis(x, AT % 3, 0), (X,)),
                              (lambda x: np.take_along_axis(x, AT[0], None), (X,))],
    "numpy.trace": [(np.trace, (S,)), (lambda x: np.trace(x, 1, 1, 2), (A,))],
    "numpy.dot": [(np.dot, (X.T, V)), (np.dot, (V, A)), (lambda x: np.dot(x, 2.0), (X,))],
    "numpy.vdot": [(np.vdot, (X, Y))],
    "numpy.outer": [(np.outer, (X, V))],
    "numpy.einsum": [(lambda x, y: np.einsum("ij,kj->ki", x, y), (X, Y))],
    "numpy.cross": [(lambda x, y: np.cross(x, y, axis=0), (X, Y))],
    "numpy.clip": [(lambda x: np.clip(x, -0.2, 0.4), (X,)), (lambda x: np.clip(x, min=0.1), (X,))],
    "numpy.nan_to_num": [(lambda x: np.nan_to_num(x, nan=1.0), (X,))],
    "numpy.trapezoid": [(lambda x: np.trapezoid(x, dx=2.0), (X,)),
                        (lambda x: np.trapezoid(x, V, axis=0), (X,))],
    "numpy.stack": [(lambda x, y: np.stack([x, y], axis=-1), (X, Y))],
    "numpy.vstack": [(lambda x: np.vstack((x, x)), (V,))],
    "numpy.hstack": [(lambda x, y: np.hstack([x, y]), (X, Y))],
    "numpy.dstack": [(lambda x, y: np.dstack([x, y]), (X, Y))],
    "numpy.column_stack": [(lambda x: np.column_stack([x, V]), (V,))],
    "numpy.ravel": [(np.ravel, (X,))],
    "numpy.moveaxis": [(lambda x: np.moveaxis(x, 0, -1), (A,))],
    "numpy.swapaxes": [(lambda x: np.swapaxes(x, 0, 2), (A,))],
    "numpy.broadcast_to": [(lambda x: np.broadcast_to(x, (2, 3)), (V,))],
    "numpy.broadcast_arrays": [(lambda x: np.broadcast_arrays(x, S), (V,))],
    "numpy.roll": [(lambda x: np.roll(x, 2), (X,)), (lambda x: np.roll(x, (1, -1), (0, 1)), (X,))],
    "numpy.rot90": [(np.rot90, (X,))],
    "numpy.diagonal": [(lambda x: np.diagonal(x, 1, 1, 2), (A,))],
    "numpy.diag": [(np.diag, (V,)), (lambda x: np.diag(x, -1), (S,))],
    "numpy.tril": [(lambda x: np.tril(x, -1), (X,))],
    "numpy.triu": [(np.triu, (X,))],
    "numpy.diff": [(lambda x: np.diff(x, 2), (X,)), (lambda x: np.diff(x, axis=0), (X,))],
    "numpy.sort": [(lambda x: np.sort(x, axis=0), (X,))],
    "numpy.inner": [(np.inner, (X, Y))],
    "numpy.kron": [(np.kron, (X, S))],
    "numpy.tensordot": [(lambda x, y: np.tensordot(x, y, ([0, 1], [0, 1])), (X, Y))],
    "numpy.linalg.norm": [(np.linalg.norm, (X,)), (lambda x: np.linalg.norm(x, 1, 0), (X,)),
                          (lambda x: np.linalg.norm(x, axis=1, keepdims=True), (X,))],
    "numpy.linalg.inv": [(np.linalg.inv, (S,))],
    "numpy.linalg.det": [(np.linalg.det, (S,))],
    "numpy.linalg.slogdet": [(np.linalg.slogdet, (S,))],
    "numpy.linalg.cholesky": [(lambda x: np.linalg.cholesky(x @ x.T), (S,))],
    "numpy.linalg.solve": [(np.linalg.solve, (S, V))],
    "numpy.linalg.pinv": [(np.linalg.pinv, (X,))],
    "numpy.linalg.eigvalsh": [(lambda x: np.linalg.eigvalsh(x + x.T), (S,))],
    "numpy.fft.fft": [(np.fft.fft, (X,)), (lambda x: np.fft.fft(x, 6, 0, "ortho"), (X,))],
    "numpy.fft.ifft": [(np.fft.ifft, (X,))],
    "numpy.fft.rfft": [(np.fft.rfft, (X,))],
    "numpy.fft.irfft": [(lambda x: np.fft.irfft(x, axis=0), (X,))],
}  # fmt: skip


def flat(value: Any) -> list[Any]:
    return (
        [v for part in value for v in flat(part)] if isinstance(value, (list, tuple)) else [value]
    )


@pytest.mark.parametrize("name", TABLE)
def test_values_are_numpys_and_gradients_go_through(name: str) -> None:
    for compute, args in CASES[name]:
        numpys = flat(compute(*args))
        x, *operands = (st.tensor(a) for a in args)
        ours = flat(compute(x, *operands))
        assert len(ours) == len(numpys)
        for mine, theirs in zip(ours, numpys, strict=True):
            assert isinstance(mine, st.Tensor)
            assert mine.shape == np.shape(theirs)
            assert mine.dtype == np.asarray(theirs).dtype
            assert np.allclose(mine.numpy(), theirs, 1e-12, 1e-12)
        x.requires_grad_()
        assert any(out.requires_grad for out in flat(compute(x, *operands)))
        assert gradcheck(lambda x: tuple(flat(compute(x, *operands))), (x,), fast_mode=True)  # noqa: B023


def test_other_functions_run_on_the_arrays() -> None:
    x = st.tensor(X)
    assert np.allclose(np.percentile(x, 30, axis=0).numpy(), np.percentile(X, 30, axis=0))
    assert isinstance(np.median(x), st.Tensor)
    rows, columns = np.nonzero(x > 0)  # NumPy's form, not the method's
    assert (rows.tolist(), columns.tolist()) == tuple(p.tolist() for p in np.nonzero(X > 0))
    assert np.argsort(x, axis=0, kind="stable").tolist() == np.argsort(X, 0).tolist()
    integers = st.arange(4)
    assert np.mean(integers).item() == 1.5
    assert np.var(integers, dtype="f4").dtype is st.float32
    low, vectors = np.linalg.eigh(st.tensor(S + S.T))
    assert isinstance(low, st.Tensor)
    assert isinstance(vectors, st.Tensor)
    assert np.linalg.eigh(st.tensor(S)).eigenvalues.shape == (3,)
    for result, expected in ((np.allclose(x, X), True), (np.shape(x), (3, 4)), (np.ndim(x), 2)):
        assert result == expected
        assert not isinstance(result, st.Tensor)
    assert np.percentile(x, 30, axis=0).is_shared()
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        np.median(x.requires_grad_())
    with pytest.raises(ValueError, match="equal division"):
        np.split(st.ones(3), 2)


def test_what_is_written_is_counted() -> None:
    x = st.zeros(3)
    np.copyto(x, np.arange(3.0))
    assert x.tolist() == [0, 1, 2]
    assert x._version == 1
    out = st.zeros(3)
    assert np.cumsum(x, out=out) is out
    assert out.tolist() == [0, 1, 3]
    assert out._version == 1
    np.fill_diagonal(square := st.ones(2, 2), 5)
    assert square.tolist() == [[5, 1], [1, 5]]
    array = np.zeros(3)
    assert np.cumsum(st.ones(3), out=array) is array
    assert array.tolist() == [1, 2, 3]


def test_strangers_may_answer_first() -> None:
    class Stranger:
        def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            return "stranger"

    assert np.concatenate([st.ones(2), Stranger()]) == "stranger"  # type: ignore[comparison-overlap]


I = np.array([[3, 1, 2], [0, 5, 4]])

# NumPy's values and dtypes for unusual arguments, or its errors.
ODD: list[tuple[Call, tuple[Any, ...]]] = [
    (lambda x: np.squeeze(x, axis=0), (X,)),
    (lambda x: np.expand_dims(x, 5), (X,)),
    (lambda x: np.expand_dims(x, (0, 0)), (X,)),
    (lambda x: np.take(x, 0, axis=4), (X,)),
    (lambda x: np.take(x, True), (X,)),
    (lambda x: np.take_along_axis(x, np.array([[0, 5, 0, 0]]), 0), (X,)),
    (lambda x: np.take_along_axis(x, AT, None), (X,)),
    (lambda x: np.split(x, np.int64(2)), (X,)),
    (lambda x: np.moveaxis(x, 0, -1), (X[0, 0],)),
    (lambda x: np.mean(x, axis=0), (X[0, 0],)),
    *((lambda x, f=f: f(x, axis=()), (X,)) for f in (np.sum, np.mean, np.max, np.min, np.var)),
    *((lambda x, f=f: f(x, axis=np.int64(0)), (X,)) for f in (np.sum, np.std, np.flip, np.max)),
    *((lambda x, f=f: f(x, axis=0), (X[0, 0],)) for f in (np.sum, np.min, np.cumsum, np.prod)),
    (lambda x: np.reshape(x, np.int64(-1)), (X,)),
    (lambda x: np.roll(x, np.int64(2), axis=np.int64(1)), (X,)),
    (lambda x: np.sort(x, axis=None), (X,)),
    (lambda x: np.clip(x, None, None), (X,)),
    (lambda x: np.tril(x), (V,)),
    (lambda x: np.repeat(x, 2, axis=0), (X[0, 0],)),
    *((f, (I,)) for f in (np.trapezoid, np.linalg.norm, np.linalg.pinv, np.fft.fft, np.fft.irfft)),
    *((f, (I.astype(np.uint8),)) for f in (np.sum, np.prod, np.cumsum, np.cumprod, np.trace)),
]


@pytest.mark.parametrize("case", range(len(ODD)))
def test_unusual_arguments_have_numpys_meaning(case: int) -> None:
    call, arrays = ODD[case]
    tensors = [st.tensor(a) for a in arrays]
    try:
        want = np.asarray(call(*arrays))
    except (ValueError, IndexError):
        with pytest.raises((ValueError, IndexError)):
            call(*tensors)
    else:
        result = call(*tensors).numpy()
        assert result.dtype == want.dtype
        np.testing.assert_allclose(result, want)


CONVERTERS: list[Call] = [
    np.atleast_1d, np.atleast_2d, np.atleast_3d, np.copy, np.array, np.asarray, np.asanyarray,
    np.ascontiguousarray, np.asfortranarray, np.require, np.asarray_chkfinite,
    lambda x: np.atleast_1d(x, x)[1], lambda x: np.copy(x, order="F"), lambda x: np.array([x, x]),
    lambda x: np.broadcast_arrays(x, [1])[0],
]  # fmt: skip


@pytest.mark.parametrize("convert", CONVERTERS)
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool])
def test_functions_that_convert_give_arrays(convert: Call, dtype: Any) -> None:
    x = st.tensor(X.astype(dtype))
    result = convert(x)
    assert type(result) is np.ndarray
    assert result.dtype == dtype
    assert np.array_equal(result, convert(X.astype(dtype)))
    assert not np.shares_memory(np.copy(x), x.numpy())
    assert np.shares_memory(np.atleast_3d(x), x.numpy())
    with pytest.raises(RuntimeError, match="requires grad"):
        convert(st.ones(2, requires_grad=True))


OBJECTS, TEXT = np.array([2, None], object), np.array(["a", "b"])
DATES = np.array(["2024", "2025"], "M8[Y]")
# Calls with an operand that no tensor can hold, and a tensor x = [1, -1] or i = [0, 1].
HELD_BY_NO_TENSOR: list[Call] = [
    lambda x, i: np.where(x > 0, "a", "b"),
    lambda x, i: np.where(x > 0, b"a", b"b"),
    lambda x, i: np.where(x > 0, TEXT, "z"),
    lambda x, i: np.where(x > 0, OBJECTS, None),
    lambda x, i: np.where(x > 0, DATES, np.datetime64("NaT")),
    lambda x, i: np.where(x > 0, datetime.date(2024, 1, 1), None),
    lambda x, i: np.where(x > 0, x, None),
    lambda x, i: np.where(x > 0, decimal.Decimal(1), 0),
    lambda x, i: np.concatenate([x, TEXT]),
    lambda x, i: np.concatenate([x, OBJECTS]),
    lambda x, i: np.stack([x, OBJECTS]),
    lambda x, i: np.vstack([x, TEXT]),
    lambda x, i: np.column_stack([TEXT, x]),
    lambda x, i: np.take(TEXT, i),
    lambda x, i: np.take(DATES, i),
    lambda x, i: np.take_along_axis(TEXT, i, 0),
    lambda x, i: np.repeat(OBJECTS, i),
    lambda x, i: np.select([x > 0, x < 0], ["p", "n"], "z"),
    lambda x, i: np.broadcast_arrays(x, "a")[1],
    lambda x, i: np.clip(x, np.array([0, 0], object), None),
    lambda x, i: np.einsum("i,i", x, np.array([1, 2], object)),
    lambda x, i: np.dot(np.array([1, 2], object), x),
    lambda x, i: np.equal(x, None),
    lambda x, i: np.add(DATES, i),
    lambda x, i: np.multiply(np.timedelta64(3, "s"), x),
    lambda x, i: np.multiply(x, np.array([3, 4], "m8[ns]")),
    lambda x, i: np.minimum(x, np.array([0, 0], object)),
    lambda x, i: np.add(i, decimal.Decimal(1)),
    lambda x, i: np.add(x, np.array([1, 2], np.longdouble)),
    lambda x, i: np.where(x > 0, x, np.longdouble(2)),
]


@pytest.mark.parametrize("call", HELD_BY_NO_TENSOR)
def test_operands_that_no_tensor_can_hold(call: Call) -> None:
    x, i = np.array([1.0, -1.0]), np.array([0, 1])
    expected = np.asarray(call(x, i))
    result = np.asarray(call(st.tensor(x), st.tensor(i)))
    assert result.dtype == expected.dtype
    assert np.array_equal(result, expected) or np.isnat(expected).any()


def test_a_long_double_is_a_number() -> None:
    x = st.ones(2)
    for result in (x + np.longdouble(1), np.longdouble(1) + x, np.add(x, np.longdouble(1))):
        assert isinstance(result, st.Tensor)
        assert result.dtype == st.float32
        assert result.tolist() == [2, 2]
    assert (x * np.clongdouble(2j)).tolist() == [2j, 2j]
    assert x.mul_(np.longdouble(3)).tolist() == [3, 3]


def test_a_call_that_numpy_refuses_too_is_an_error() -> None:
    x = st.ones(2)
    for call in (lambda: np.add(x, np.timedelta64(1, "s")), lambda: np.add(x, None)):
        with pytest.raises(TypeError):
            call()
    assert x.tolist() == [1, 1]
