"""Operands: PyTorch's promotion, and other types beside a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st

# Results of PyTorch 2.13 for `a + b`: dtype and dimensions of a, of b (or a number), dtype of the
# sum.
SUMS = [
    ("int64", 1, "float32", 1, "float32"),
    ("int64", 1, "float64", 0, "float64"),
    ("int32", 1, "int64", 0, "int32"),
    ("float32", 1, "float64", 0, "float32"),
    ("float32", 0, "float64", 1, "float64"),
    ("float16", 1, "float32", 1, "float32"),
    ("uint8", 1, "int8", 1, "int16"),
    ("bool", 1, "uint8", 1, "uint8"),
    ("bool", 1, "bool", 1, "bool"),
    ("float64", 1, "complex64", 1, "complex128"),
    ("float64", 1, "complex64", 0, "complex128"),
    ("float32", 1, "complex128", 0, "complex64"),
    ("int64", 0, "complex64", 0, "complex64"),
    ("int32", 1, 1.5, None, "float32"),
    ("int32", 1, 2, None, "int32"),
    ("bool", 1, 2, None, "int64"),
    ("bool", 1, True, None, "bool"),
    ("uint8", 1, 2, None, "uint8"),
    ("float64", 1, 1.5, None, "float64"),
    ("float16", 1, 1.5, None, "float16"),
    ("int64", 1, 1j, None, "complex64"),
    ("float64", 1, 1j, None, "complex128"),
]


def tensor(dtype: str, ndim: int) -> Any:
    return st.from_numpy(np.ones((2,) * ndim, dtype))


@pytest.mark.parametrize(("a", "n", "b", "m", "expected"), SUMS)
def test_common_dtype_is_pytorchs(a: str, n: int, b: Any, m: int | None, expected: str) -> None:
    x, y = tensor(a, n), b if m is None else tensor(b, m)
    assert (x + y).dtype.name == expected
    assert (y + x).dtype.name == expected
    assert st.result_type(x, y).name == expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [("int64", "int64", "float32"), ("float64", "int64", "float64"), ("bool", "bool", "float32")],
)
def test_division_gives_floats(a: str, b: str, expected: str) -> None:
    assert (tensor(a, 1) / tensor(b, 1)).dtype.name == expected


def test_integers_that_do_not_fit_wrap_around() -> None:
    assert (st.tensor([1], dtype=st.uint8) + 300).tolist() == [45]
    assert (st.tensor([1], dtype=st.uint8) + -2).tolist() == [255]
    assert (300 + st.tensor([1], dtype=st.uint8)).tolist() == [45]


def test_numbers_on_the_left() -> None:
    x = st.tensor([1.0, 2.0], requires_grad=True)
    ((2 - x) + 8 / x + 2**x).sum().backward()
    assert x.grad.tolist() == pytest.approx([-1 - 8 + 2 * np.log(2), -1 - 2 + 4 * np.log(2)])


def test_the_other_side_may_try_an_unknown_operand() -> None:
    class Other:
        def __radd__(self, x: Any) -> str:
            return "mine"

        __rsub__ = __rmatmul__ = __radd__

    assert st.ones(2) + Other() == "mine"
    assert st.ones(2) - Other() == "mine"


def test_unknown_operands() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        st.ones(2) + "a"
    with pytest.raises(
        TypeError, match=r"add: the operands must be tensors or numbers: .*other is a str"
    ):
        st.add(st.ones(2), "a")
    with pytest.raises(TypeError, match="exp: the operands must be tensors: input is a list"):
        st.exp([1.0])
    assert (st.ones(2) == "a") is False
    assert (st.ones(2) == None) is False  # noqa: E711


def test_unpickled_arrays_have_the_canonical_dtype() -> None:
    import pickle

    array = pickle.loads(pickle.dumps(np.ones(2, np.float32)))
    assert st.from_numpy(array).dtype is st.float32
    assert (st.from_numpy(array) + st.ones(2)).dtype is st.float32


def test_foreign_byte_order_is_converted() -> None:
    swapped = np.arange(3, dtype=">f4")
    assert st.from_numpy(swapped).dtype is st.float32
    assert st.from_numpy(swapped).tolist() == [0, 1, 2]


def test_unsupported_arrays_are_refused() -> None:
    with pytest.raises(TypeError, match="dtype <U1"):
        st.from_numpy(np.array(["a"]))
