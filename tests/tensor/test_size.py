"""Size: the tuple of a shape."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest

import shmtensor as st


def test_shapes_are_sizes() -> None:
    x = st.zeros(2, 3, 4)
    shapes: list[Any] = [x.shape, x.size(), x.T.shape, st.broadcast_shapes((2, 1), (3,))]
    shapes += [st.zeros(2, 2).to_sparse().shape, st.nn.Parameter(x).shape]
    for shape in shapes:
        assert type(shape) is st.Size
        assert isinstance(shape, tuple)
    assert x.shape == (2, 3, 4)
    assert hash(x.shape) == hash((2, 3, 4))
    assert type(x.stride()) is tuple


def test_parts_and_sums_are_sizes() -> None:
    shape = st.zeros(2, 3, 4).shape
    results = [shape[1:], shape[:], shape + (5,), (5,) + shape, shape * 2, 2 * shape, shape + shape]
    plain = (2, 3, 4)
    expected: list[tuple[int, ...]] = [
        plain[1:], plain, (*plain, 5), (5, *plain), plain * 2, plain * 2, plain * 2
    ]  # fmt: skip
    assert results == expected
    assert {type(m) for m in results} == {st.Size}
    assert shape[-1] == 4
    assert shape * -1 == st.Size() == ()
    sizes = sum([shape, shape], ())
    assert type(sizes) is st.Size


def test_numel_and_repr() -> None:
    assert st.zeros(2, 3, 4).shape.numel() == 24
    assert st.Size().numel() == 1
    assert st.Size([1 << 40, 1 << 40]).numel() == 1 << 80
    assert repr(st.Size([2, 3])) == str(st.Size([2, 3])) == "Size([2, 3])"
    assert eval(repr(st.Size([2, 3])), {"Size": st.Size}) == (2, 3)


def test_a_size_consists_of_integers() -> None:
    size = st.Size([np.int64(2), st.tensor(3), True])
    assert size == (2, 3, 1)
    assert [type(n) for n in size] == [int] * 3
    wrong: list[Any] = [["a"], [1.5], 5, [2, None]]
    for items in wrong:
        with pytest.raises(TypeError):
            st.Size(items)
    with pytest.raises(TypeError, match="not list"):
        st.Size([1]) + [2]  # type: ignore[operator]


@pytest.mark.parametrize("protocol", range(2, 6))
def test_a_size_stays_one(protocol: int) -> None:
    shape = st.zeros(2, 3).shape
    for clone in (pickle.loads(pickle.dumps(shape, protocol)), copy.copy(shape)):
        assert type(clone) is st.Size
        assert clone == shape
    assert json.dumps(shape) == "[2, 3]"


def test_a_size_is_taken_as_a_shape_and_as_an_index() -> None:
    x = st.arange(12.0).reshape(3, 4)
    assert x.reshape(st.Size([4, 3])).shape == (4, 3)
    assert x.view(x.shape[:1] + (2, 2)).shape == (3, 2, 2)
    assert st.ones(x.shape).shape == st.empty(x.shape).shape == x.shape
    assert x[st.Size([1, 2])].item() == 6
    assert np.zeros(x.shape).shape == (3, 4)
