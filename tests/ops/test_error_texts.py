"""Errors of public rows and composites: no words of NumPy, no inner functions, no name twice."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy.ma  # noqa: F401 - NumPy's unique imports it at its first call, and it keeps two arrays
import pytest
from draws import calls, families
from test_composites import CASES

import shmtensor as st
from shmtensor.autograd.dispatch.numpy_messages import translate
from shmtensor.autograd.dispatch.op_function import table
from shmtensor.autograd.dispatch.plan import is_public
from shmtensor.ops import Row

# Words that only the inside uses, and "name: name:".
INSIDE = re.compile(
    r"newaxis|ufunc|numpy|np\.|ndarray|value array|input array|for array|getitem|setitem|slots|"
    r"for axis|along axis|operands could not be|has no len\(\)|object is not iterable|"
    r"^(\w+): \1:"
)
TENSORS = (
    st.zeros(7, 3, 2), st.tensor(1.5), st.zeros(2, 0), st.zeros(3, 3, dtype=st.int64),
    st.zeros(3, dtype=st.bool),
)  # fmt: skip
OTHERS = (100, -100, 1.5, "x", (), (100,), (-100, 3), (1, 2, 3, 4, 5), (1.5,), (0, 0))


def wrong_calls(args: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The arguments with one of them replaced; a flag and None stay."""
    for i, value in enumerate(args):
        if isinstance(value, bool) or value is None:
            continue
        for other in TENSORS if isinstance(value, st.Tensor) else OTHERS:
            yield *args[:i], other, *args[i + 1 :]


def inside_words(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> list[str]:
    """The messages of wrong calls that have such words."""
    found = []
    for wrong in wrong_calls(args):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                function(*wrong, **kwargs)
            except Exception as error:
                if INSIDE.search(str(error)):
                    found.append(f"{type(error).__name__}: {error}")
    return found


@pytest.mark.parametrize(**families(is_public))
def test_errors_of_rows_are_in_the_words_of_tensors(family: list[Row]) -> None:
    found = {}
    for row in family:
        for call in list(calls(row, "float32"))[:2]:
            args = (*call.tensors(), *call.attributes)
            if texts := inside_words(getattr(table, row.name), args, call.kwargs):
                found[str(call)] = texts
    assert not found


@pytest.mark.parametrize("name", CASES)
def test_errors_of_composites_are_in_the_words_of_tensors(name: str) -> None:
    args, kwargs, _ = CASES[name]
    tensors = tuple(st.tensor(x) if hasattr(x, "dtype") else x for x in args)
    assert not inside_words(getattr(st, name), tensors, kwargs)


def test_a_message_of_our_own_is_not_changed() -> None:
    for text in ("shape (2, 3)", "index 5 is out of range", "", "axis of the earth"):
        assert translate(text) == text
