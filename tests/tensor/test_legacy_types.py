"""PyTorch's old constructors: sizes, a Size, or data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st

DOUBLES = st.zeros(2, dtype=st.float64)
MAKERS: dict[str, tuple[Callable[..., Any], Any]] = {
    "Tensor": (st.Tensor, st.float32),
    "FloatTensor": (st.FloatTensor, st.float32),
    "LongTensor": (st.LongTensor, st.int64),
    "new": (DOUBLES.new, st.float64),
}


@pytest.mark.parametrize("name", MAKERS)
def test_sizes_make_an_uninitialised_tensor(name: str) -> None:
    make, dtype = MAKERS[name]
    for args, shape in (
        ((), (0,)),
        ((2, 3), (2, 3)),
        ((st.Size([2, 3]),), (2, 3)),
        ((st.zeros(2, 3).size(),), (2, 3)),
        ((np.int64(4),), (4,)),
        ((0,), (0,)),
        ((st.Size(),), ()),
    ):
        x = make(*args)
        assert (x.shape, x.dtype) == (shape, dtype)


@pytest.mark.parametrize("name", MAKERS)
def test_data_is_converted(name: str) -> None:
    make, dtype = MAKERS[name]
    for data in ([2, 3], (2, 3), np.array([2, 3], np.int16), [np.float32(2), 3.0]):
        x = make(data)
        assert (x.tolist(), x.dtype) == ([2, 3], dtype)
    assert make([]).shape == (0,)
    with pytest.raises(TypeError, match=r"must be a sequence: 3\.5"):
        make(3.5)


def test_a_tensor_of_the_same_dtype_is_not_copied() -> None:
    x = st.tensor([1.0, 2.0])
    assert st.Tensor(x).data_ptr() == x.data_ptr()
    assert st.FloatTensor(x).data_ptr() == x.data_ptr()
    assert x.new(x).data_ptr() == x.data_ptr()
    assert st.LongTensor(x).tolist() == [1, 2]
