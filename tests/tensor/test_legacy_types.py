"""PyTorch's old constructors: sizes, a Size, or data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st

DOUBLES = st.zeros(2, dtype=st.float64)
OLD_NAMES = {
    "FloatTensor": st.float32, "DoubleTensor": st.float64, "HalfTensor": st.float16,
    "LongTensor": st.int64, "IntTensor": st.int32, "ShortTensor": st.int16,
    "CharTensor": st.int8, "ByteTensor": st.uint8, "BoolTensor": st.bool,
}  # fmt: skip
MAKERS: dict[str, tuple[Callable[..., Any], Any]] = {
    "Tensor": (st.Tensor, st.float32),
    **{name: (getattr(st, name), dtype) for name, dtype in OLD_NAMES.items()},
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
    values = st.tensor([2, 3]).to(dtype).tolist()
    for data in ([2, 3], (2, 3), np.array([2, 3], np.int16), [np.float32(2), 3.0]):
        x = make(data)
        assert (x.tolist(), x.dtype, type(x)) == (values, dtype, st.Tensor)
    assert make([]).shape == (0,)
    with pytest.raises(TypeError, match=r"must be a sequence: 3\.5"):
        make(3.5)


def test_a_tensor_of_the_same_dtype_is_not_copied() -> None:
    x = st.tensor([1.0, 2.0])
    assert st.Tensor(x).data_ptr() == x.data_ptr()
    assert st.FloatTensor(x).data_ptr() == x.data_ptr()
    assert x.new(x).data_ptr() == x.data_ptr()
    assert st.LongTensor(x).tolist() == [1, 2]


@pytest.mark.parametrize("name", OLD_NAMES)
def test_tensors_of_the_dtype_are_instances(name: str) -> None:
    cls, x = getattr(st, name), st.ones(2, dtype=OLD_NAMES[name])
    assert isinstance(x, cls)
    assert not isinstance(x.to(st.complex64), cls)
    assert st.typename(x) == f"shmtensor.{name}"
