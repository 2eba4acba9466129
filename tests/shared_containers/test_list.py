"""SharedList is a list that cannot be changed: the same elements, the same errors."""

from __future__ import annotations

import copy
import gc
import pickle
from collections import namedtuple
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import shmtensor as st
from shmtensor import memory

Point = namedtuple("Point", "x y")

scalars = (
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats(allow_nan=False)
    | some.complex_numbers(allow_nan=False)
    | some.binary()
    | some.text(some.characters(exclude_categories=()))
)
keys = scalars | some.tuples(some.integers(), some.text())
elements = some.recursive(
    scalars,
    lambda inner: some.lists(inner) | some.tuples(inner, inner) | some.dictionaries(keys, inner),
)


def types_of(x: Any) -> Any:
    """The types in a nested value, so that 1, 1.0 and True are told apart."""
    if isinstance(x, dict):
        return [(types_of(k), types_of(v)) for k, v in x.items()]
    if isinstance(x, (list, tuple)):
        return [type(x), *map(types_of, x)]
    return type(x)


@settings(max_examples=60)
@given(some.lists(elements, max_size=20))
def test_what_goes_in_comes_out(xs: list[Any]) -> None:
    container = st.SharedList(xs)
    assert container == xs
    assert xs == container
    assert list(container) == [container[i] for i in range(len(xs))] == xs
    assert types_of(list(container)) == types_of(xs)


@given(
    some.lists(some.integers(-300, 300), max_size=20),
    some.lists(some.slices(20), min_size=1, max_size=3),
)
def test_slices_are_those_of_a_list(xs: list[int], cuts: list[slice]) -> None:
    container = st.SharedList(xs)
    blocks = memory.statistics().live_blocks
    for key in cuts:
        container, xs = container[key], xs[key]
        assert list(container) == xs
        assert list(reversed(container)) == xs[::-1]
        assert len(container) == len(xs)
        assert memory.statistics().live_blocks == blocks
        assert list(pickle.loads(pickle.dumps(container))) == xs


@pytest.mark.parametrize(
    ("i", "error", "match"),
    [
        (i, IndexError, "SharedList: index out of range|cannot fit")
        for i in (3, -4, 2**62, -(2**62), 2**64)
    ]
    + [(i, TypeError, "SharedList: indices must be integers or slices") for i in ("0", 1.0, (0,))],
)
def test_a_wrong_index_is_an_error(i: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        st.SharedList([1, 2, 3])[i]


def test_it_cannot_be_changed() -> None:
    container: Any = st.SharedList([1, 2])
    with pytest.raises(TypeError):
        container[0] = 3
    with pytest.raises(TypeError):
        del container[0]
    with pytest.raises(TypeError, match="unhashable"):
        hash(container)
    assert not hasattr(container, "append")
    assert isinstance(container, Sequence)
    assert copy.copy(container) is copy.deepcopy(container) is container


def test_searching_is_that_of_a_list() -> None:
    xs = [1, "a", 1.0, None, (2, 3), "a"]
    container = st.SharedList(xs)
    assert None in container
    assert (2, 3) in container
    assert "b" not in container
    for value in (1, "a", None, "b"):
        assert container.count(value) == xs.count(value)
    for found in (("a",), ("a", 2), ("a", -3), (1, 1, 3), (None, 0, -2)):
        assert container.index(*found) == xs.index(*found)
    for missing in (("b",), ("a", 2, 4), (None, 4)):
        with pytest.raises(ValueError, match=r"SharedList\.index: not in the list"):
            container.index(*missing)
    assert container != xs[:-1]
    assert container != [*xs[:-1], "b"]
    assert container != 5


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4),
        np.arange(12).reshape(3, 4).T,
        np.arange(24).reshape(2, 3, 4)[:, ::2, 1:],
        np.zeros((0, 5, 2**40)),
        np.array(3.5),
        np.arange(5000, dtype=">i4"),
        np.array(["a", "long string"]),
        np.array([(1, 2.5)], dtype=[("i", "i2"), ("f", "f8")]),
        np.zeros(3, dtype=[("i", "i2", (2, 2)), (("title", "f"), "f8")])[["f", "i"]],
        np.array(["2020-01-01"], dtype="M8[D]"),
        np.array([True, False]),
        np.array([], dtype="V0"),
    ],
    ids=lambda a: f"{a.dtype}{a.shape}",
)
def test_an_array_comes_back_as_a_view(array: Any) -> None:
    container = st.SharedList(["x", array, [array]])
    for result in (container[1], container[2][0]):
        assert result.dtype == array.dtype
        np.testing.assert_array_equal(result, array, strict=True)
        assert not result.flags.writeable
        assert result.flags.aligned or not array.flags.aligned
        assert result.nbytes == 0 or memory.is_shared(result)
        assert result.flags.f_contiguous == array.flags.f_contiguous or not array.flags.c_contiguous
    assert container[1].ctypes.data == container[1].ctypes.data


def test_a_dtype_with_other_names_is_that_of_one_view() -> None:
    container = st.SharedList([np.zeros(1, [("a", "i4")])])
    container[0].dtype.names = ("b",)
    assert container[0].dtype.names == ("a",)


def test_a_view_keeps_the_memory() -> None:
    container = st.SharedList([np.arange(10), st.arange(10), 17])
    array, tensor = container[:2]
    part = container[::-1]
    del container
    gc.collect()
    other = [np.ones(10) for _ in range(100)]
    assert array.tolist() == tensor.tolist() == list(range(10))
    assert len(other) == 100
    assert part[0] == 17


def test_large_data_is_aligned_for_vectors() -> None:
    container = st.SharedList(["x" * 7, st.ones(1000), b"y", np.ones(300)])
    assert container[1].data_ptr() % 64 == container[3].ctypes.data % 64 == 0


def test_tensors_come_back_as_tensors() -> None:
    parameter = st.ones(2, requires_grad=True)
    container = st.SharedList([st.arange(3), parameter, st.tensor(2.5)], readonly=False)
    x = container[0]
    assert isinstance(x, st.Tensor)
    assert x.dtype == st.int64
    x[0] = 5
    assert container[0].tolist() == [5, 1, 2]
    assert not container.readonly
    assert container[1].requires_grad
    assert container[2].item() == 2.5
    with pytest.raises(RuntimeError, match="not a leaf"):
        st.SharedList([parameter * 2])


OTHERS = [
    Point(1, 2), {1, 2}, frozenset([3]), Decimal("1.5"), bytearray(b"x"), range(3),
    np.float32(2.5), np.int64(7), np.str_("s"), np.array([None, "object"]),
    np.ma.masked_array([1, 2], [True, False]),
]  # fmt: skip


@pytest.mark.parametrize("value", OTHERS, ids=repr)
def test_other_objects_keep_their_type(value: Any) -> None:
    (result,) = st.SharedList([value])
    assert type(result) is type(value)
    assert str(result) == str(value)


def test_errors_while_building_leave_nothing() -> None:
    before = memory.statistics().live_blocks

    def broken() -> Any:
        yield "a"
        raise KeyError("on purpose")

    loop: list[Any] = []
    loop.append(loop)
    for elements, error in (
        (broken(), KeyError),
        ([lambda: 1], (AttributeError, pickle.PicklingError)),
        (5, TypeError),
        ([loop], RecursionError),
    ):
        with pytest.raises(error):  # type: ignore[arg-type]
            st.SharedList(elements)  # type: ignore[arg-type]
    gc.collect()
    assert memory.statistics().live_blocks == before


def test_a_pickled_element_may_change_what_is_being_packed() -> None:
    xs: list[Any] = [1, 2]

    class Clearing:
        def __reduce__(self) -> Any:
            xs.clear()
            return int, ()

    xs += [Clearing(), 4]
    assert list(st.SharedList([xs])) == [[1, 2, 0, 4]]


class Advancing:
    """Takes an element of an iterator as soon as it is unpickled."""

    iterator: Any = None

    def __setstate__(self, state: Any) -> None:
        next(Advancing.iterator, None)


def test_an_element_may_advance_the_iterator_that_reads_it() -> None:
    pickled = Advancing()
    pickled.state = 1  # type: ignore[attr-defined]
    Advancing.iterator = iter(st.SharedList([1, pickled, 3]))
    assert next(Advancing.iterator) == 1
    next(Advancing.iterator)
    assert list(Advancing.iterator) == []
    Advancing.iterator = None


def test_the_repr_is_short() -> None:
    assert repr(st.SharedList([1, "a"])) == "SharedList([1, 'a'])"
    assert repr(st.SharedList()) == "SharedList([])"
    text = repr(st.SharedList("x" * 1000 for _ in range(100_000)))
    assert len(text) < 400
    assert text.endswith("...], 100000 elements)")


def test_many_parts() -> None:
    """More elements and bytes than one part has, and an element larger than a part."""
    n, large = 1_100_000, b"z" * (65 << 20)
    container = st.SharedList(large if i == n - 5 else b"%d" % i * 9 for i in range(n))
    assert len(container._blocks) > 2
    for i in (0, 1, n // 2, n - 1000, n - 6, n - 4, n - 1):
        assert container[i] == b"%d" % i * 9
    assert container[n - 5] == large
    assert len(pickle.loads(pickle.dumps(container[-3:]))) == 3
    assert container.nbytes > len(large)
