"""Dtypes: names, promotion, limits."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor import dtypes


def test_dtypes_are_numpys() -> None:
    assert st.float32 is np.dtype("float32")
    assert st.float is st.float32
    assert st.long is st.int64
    assert st.half is st.float16
    assert st.short is st.int16
    assert st.double is st.float64


@pytest.mark.parametrize("spelling", ["float32", np.float32, np.dtype("float32"), st.float32])
def test_spellings(spelling: object) -> None:
    assert dtypes.as_dtype(spelling) is st.float32


def test_pythons_classes_are_of_double_precision() -> None:
    """As in PyTorch: `dtype=float` is float64 for any default dtype, which new floats get."""
    assert st.zeros(1, dtype=float).dtype is st.float64
    assert st.ones(1).to(float).dtype is st.float64
    assert st.zeros(1, dtype=complex).dtype is st.complex128
    assert st.zeros(1, dtype=int).dtype is st.int64
    assert st.tensor([0.5]).dtype is st.tensor([1]).mul(0.5).dtype is st.float32
    assert st.full((1,), 1j).dtype is st.complex64


def test_promotion() -> None:
    assert st.promote_types(st.int64, st.float16) is st.float16
    assert st.promote_types(st.uint8, st.int8) is st.int16
    assert st.promote_types(st.float64, st.complex64) is st.complex128
    with pytest.raises(RuntimeError, match="no integer dtype holds both: uint64 and int64"):
        st.promote_types(st.uint64, st.int64)


def test_casts() -> None:
    assert st.can_cast(st.int64, st.float16)
    assert not st.can_cast(st.float16, st.int64)


def test_limits() -> None:
    assert st.finfo(st.float32).eps == np.finfo(np.float32).eps
    assert st.finfo().bits == 32
    assert st.iinfo(st.uint8).max == 255
    assert "int8" in repr(st.iinfo(st.int8))
