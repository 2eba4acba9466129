"""Elements that no tensor can hold are refused by name, at any place; they never become numbers."""

from __future__ import annotations

import datetime
import decimal
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st

SECONDS = np.array([1, 2], "m8[s]")


class Interface:
    """An object whose array NumPy takes without its `__array__`."""

    def __init__(self, array: Any) -> None:
        self.__array_interface__ = array.__array_interface__


DATES: dict[str, Any] = {
    "dates": np.array(["2024-01-01"], "M8[D]"),
    "nanoseconds": np.array(["2024-01-01"], "M8[ns]"),
    "durations": SECONDS,
    "a scalar": np.datetime64("2024-01-01", "ns"),
    "scalars in a list": [np.timedelta64(1, "ns"), np.timedelta64(2, "s")],
    "behind a number": [[1.0], [np.timedelta64(1, "ns")]],
    "arrays in a list": [SECONDS, SECONDS],
    "beside an array": [np.ones(2), SECONDS],
    "objects": np.array([np.timedelta64(1, "s")], object),
    "objects in a tuple": (np.array([1.0, np.timedelta64(1, "s")], object),),
    "Python's": [datetime.datetime(2024, 1, 1)],
    "Python's durations": [1.0, datetime.timedelta(1)],
    "a deque": deque([np.datetime64("2024-01-01", "D")]),
    "not a time": [np.datetime64("NaT")],
    "a field": np.zeros(2, [("when", "M8[s]")]),
    "without a dimension": [1.0, np.array(datetime.date(2024, 1, 1), object)],
    "by an interface": Interface(SECONDS),
}
MAKERS: dict[str, Callable[[Any], Any]] = {
    "tensor": st.tensor,
    "tensor float32": lambda x: st.tensor(x, dtype=st.float32),
    "tensor int64": lambda x: st.tensor(x, dtype=st.int64),
    "tensor bool": lambda x: st.tensor(x, dtype=st.bool),
    "as_tensor": lambda x: st.as_tensor(x, dtype=st.float64),
    "asarray": lambda x: st.asarray(x, dtype=st.float32),
    "FloatTensor": st.FloatTensor,
    "LongTensor": st.LongTensor,
    "Tensor": st.Tensor,
    "new_tensor": st.zeros(1).new_tensor,
}


@pytest.mark.parametrize("name", DATES)
def test_dates_and_durations_never_become_numbers(name: str) -> None:
    names = "date|time|<M8|<m8|object|Interface"
    for maker, make in MAKERS.items():
        with pytest.raises((TypeError, RuntimeError), match=names) as raised:
            make(DATES[name])
        if " " in maker or maker == "as_tensor":  # with a dtype
            assert raised.type is TypeError, maker


@pytest.mark.parametrize(
    "use",
    [
        lambda x, d: st.full((2,), d),
        lambda x, d: st.full((2,), d, dtype=st.float32),
        lambda x, d: st.full_like(x, d),
        lambda x, d: x.new_full((2,), d),
        lambda x, d: x.fill_(d),
        lambda x, d: st.arange(d),
        lambda x, d: x.__setitem__(0, d),
        lambda x, d: x.__setitem__(slice(2), [d, d]),
        lambda x, d: x.clamp(d),
        lambda x, d: st.where(x > 0, x, d),
        lambda x, d: st.add(x, d),
        lambda x, d: x.add_(d),
    ],
)
def test_a_duration_is_no_number_of_an_operation(use: Callable[[Any, Any], Any]) -> None:
    x = st.zeros(3)
    with pytest.raises(TypeError, match=r"timedelta64|<m8"):
        use(x, np.timedelta64(5, "ns"))
    assert x.tolist() == [0, 0, 0]


def test_a_date_does_not_fill() -> None:
    for date in (np.array("2024", "M8[Y]"), np.array(["NaT"], "M8[s]"), np.array(None)):
        for fill in (st.full, lambda s, d: st.full(s, d, dtype=st.float32)):
            with pytest.raises(TypeError, match=r"datetime64|object"):
                fill((2,), date)


CULPRITS: dict[str, tuple[Any, str]] = {
    "at the end": ([1, None], "NoneType"),
    "behind a float": ([1.0, None], "NoneType"),
    "behind a tensor": ([st.tensor(1.0), None], "NoneType"),
    "behind a vector": ([st.ones(1), None], "NoneType"),
    "behind a NumPy scalar": ([np.float32(1), np.int8(2), None], "NoneType"),
    "deep": ([[[1, 2], [3, 4]], [[5, 6], [7, None]]], "NoneType"),
    "in a tuple": ([(1.0, 2.0), (3.0, object())], "object"),
    "a dict": ([1, {}], "dict"),
    "a set": ([1, {2}], "set"),
    "a class": ([1, int], "type"),
    "text": ([1.5, "a"], "str"),
    "digits": ([["1", "2"]], "str"),
    "bytes": ([b"1"], "bytes"),
    "alone": (None, "NoneType"),
    "an array of objects": (np.array([1, None], object), "NoneType"),
    "an array without a dimension": ([1.0, np.array(None)], "NoneType|this"),
    "records": (np.zeros(2, "i4,f4"), "'f0'"),
    "an array of text": (np.array(["1"]), "<U1"),
    "big numbers before it": ([2**70, None], "NoneType"),
}


@pytest.mark.parametrize(
    "dtype", [None, st.float32, st.int64, st.bool], ids=["", "float32", "int64", "bool"]
)
@pytest.mark.parametrize("name", CULPRITS)
def test_the_culprit_is_named(name: str, dtype: Any) -> None:
    data, culprit = CULPRITS[name]
    with pytest.raises((TypeError, RuntimeError, ValueError), match=culprit):
        st.tensor(data, dtype=dtype)


def test_an_object_array_is_named() -> None:
    for make in (st.tensor, st.as_tensor, st.asarray):
        with pytest.raises(TypeError, match="object array"):
            make(np.array([1, 2.5], object))
    assert st.tensor(np.array([1, 2.5], object), dtype=st.float32).tolist() == [1, 2.5]


def test_large_integers_are_still_named() -> None:
    with pytest.raises(ValueError, match=f"64 bits: {2**70}"):
        st.tensor([1, 2**70])


@pytest.mark.parametrize("maker", ["tensor", "tensor int64", "FloatTensor", "Tensor", "new_tensor"])
def test_lists_that_differ_in_length_are_shown(maker: str) -> None:
    for data in ([[1, 2], [3]], [1, [2]]):
        with pytest.raises(ValueError, match=r"^\w+: nested lists differ in length: \[.*\]$"):
            MAKERS[maker](data)


def test_what_has_a_value_stays() -> None:
    assert st.tensor([decimal.Decimal("1.5")], dtype=st.float32).tolist() == [1.5]
    assert st.tensor(deque([1.0, 2.0])).dtype == st.float32
    assert st.tensor([st.ones(2), np.zeros(2)], dtype=st.float64).tolist() == [[1, 1], [0, 0]]
    assert st.FloatTensor([np.float64(1.5), 2, True]).tolist() == [1.5, 2, 1]


def test_tensors_of_one_element_count_as_numbers_in_lists() -> None:
    one, two = st.tensor([1]), st.tensor(2)
    for data in ([one, two], [two, one], (one, 2), [2, one], [one, one], [st.tensor([[1]]), one]):
        expected = [int(x) for x in data]
        for make in (st.tensor, st.as_tensor, st.asarray):
            assert make(data).tolist() == expected
            assert make(data).dtype == st.int64
    assert st.tensor([[one, two], [3, st.tensor([[4]])]]).tolist() == [[1, 2], [3, 4]]
    assert st.tensor([st.tensor([1.5], requires_grad=True), 2]).tolist() == [1.5, 2]
    assert st.tensor([one, 2.5]).dtype == st.float32
    assert st.tensor([one, two], dtype=st.float64).tolist() == [1, 2]
    with pytest.raises(ValueError, match="tensor: "):
        st.tensor([st.tensor([1, 2]), two])
