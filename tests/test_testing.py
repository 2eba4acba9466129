"""shmtensor.testing: closeness, messages for differences, and tensors for tests."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.testing import assert_close, make_tensor

NAN, INF = math.nan, math.inf
ONES = st.ones(2)


def fails(actual: Any, expected: Any, text: str, **options: Any) -> None:
    with pytest.raises(AssertionError) as caught:
        assert_close(actual, expected, **options)
    assert text in str(caught.value), str(caught.value)


def test_close_values_pass() -> None:
    assert_close(st.tensor([1.0, INF]), st.tensor([1.0 + 1e-6, INF]))
    assert_close(st.tensor([1.0]), st.tensor([1.1]), rtol=0.2, atol=0.0)
    assert_close(st.tensor([NAN]), st.tensor([NAN]), equal_nan=True)
    assert_close(NAN, NAN, equal_nan=True)
    assert_close(st.ones(2, dtype=st.bfloat16), st.ones(2, dtype=st.bfloat16) * 1.01)
    assert_close(st.zeros(0, 3), st.zeros(0, 3))
    assert_close(np.ones(2), np.ones(2))
    assert_close({"a": [ONES, None, 2.0]}, {"a": (ONES, None, 2.0)})
    assert_close(st.nn.Parameter(ONES), ONES)
    assert_close(ONES, st.ones(2, dtype=st.float64), check_dtype=False)
    assert_close(1, 1.0, check_dtype=False)
    assert_close(np.float64(1), 1.0)
    assert_close(st.eye(2).to_sparse(), st.eye(2).to_sparse())
    assert_close(st.eye(2).to_sparse(), st.eye(2), check_layout=False)


def test_differences_are_reported() -> None:
    fails(
        st.tensor([[1.0, 2.0], [3.0, 4.5]]),
        st.tensor([[1.0, 2.0], [3.0, 4.0]]),
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 4 (25.0%)\n"
        "Greatest absolute difference: 0.5 at index (1, 1) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.125 at index (1, 1) (up to 1.3e-06 allowed)",
    )
    big = st.tensor([2**62, 5])
    fails(big, -big, f"Greatest absolute difference: {2**63} at index (0,)\n")  # no overflow
    fails(st.tensor([True]), st.tensor([False]), "Tensor-likes are not equal!")
    fails(st.tensor([INF]), st.tensor([1.0]), "Greatest absolute difference: inf")
    fails(st.tensor([NAN]), st.tensor([NAN]), "Mismatched elements: 1 / 1")
    fails(st.tensor([1 + 1j]), st.tensor([1 + 2j]), "absolute difference: 1.0")
    fails(st.tensor(1.0), st.tensor(2.0), "Scalars are not close!\n\nExpected 2.0 but got 1.0.")
    fails(1, 2, "Scalars are not equal!\n\nExpected 2 but got 1.\nAbsolute difference: 1\n")
    fails(True, False, "Booleans mismatch: True is not False")
    fails(None, ONES, "None mismatch")
    fails(ONES.to_sparse(), (ONES * 2).to_sparse(), "Mismatched elements: 2 / 2")


def test_attributes_are_compared_by_default() -> None:
    fails(ONES, st.ones(3), "'shape' do not match: Size([2]) != Size([3])")
    dtypes = "'dtype' do not match: shmtensor.float32 != shmtensor.float64"
    fails(ONES, st.ones(2, dtype=st.float64), dtypes)
    fails(st.ones(2, 3).t(), st.ones(3, 2), "'stride()' do not match", check_stride=True)
    assert_close(st.ones(2, 3).t(), st.ones(3, 2))
    fails(1, 1.0, "(d)types do not match")


def test_places_in_containers_are_named() -> None:
    fails({"a": [ONES, ONES * 2]}, {"a": [ONES, ONES]}, "occurred for item ['a'][1]")
    fails([1], [1, 2], "length of the sequences mismatch: 1 != 2")
    fails({"a": 1, "b": 2}, {"a": 1}, "Additional keys in the actual mapping: ['b']")


def test_messages_are_yours() -> None:
    with pytest.raises(AssertionError, match=r"^mine$"):
        assert_close(1, 2, msg="mine")
    with pytest.raises(AssertionError, match=r"^head: Scalars"):
        assert_close(1, 2, msg=lambda text: f"head: {text}")


def test_incomparable_values_are_refused() -> None:
    with pytest.raises(ValueError, match=r"or neither: rtol=0.1, atol=None"):
        assert_close(1.0, 1.0, rtol=0.1)
    for actual, expected in (("a", "a"), (ONES, [1.0, 1.0]), (ONES, np.ones(2)), (object(), 1)):
        with pytest.raises(TypeError, match="assert_close"):
            assert_close(actual, expected)
    with pytest.raises(TypeError, match="Parameter and Tensor"):
        assert_close(st.nn.Parameter(ONES), ONES, allow_subclasses=False)


@pytest.mark.parametrize(
    "dtype",
    [st.float32, st.float64, st.float16, st.bfloat16, st.complex64, st.int64, st.uint8, st.bool],
)
def test_tensors_are_made_for_tests(dtype: Any) -> None:
    x = make_tensor(3, 40, dtype=dtype)
    assert (x.dtype, tuple(x.shape), x.requires_grad) == (dtype, (3, 40), False)
    values = x.to(st.complex128).numpy()
    assert -9 <= values.real.min() < values.real.max() <= 9
    assert make_tensor((0, 2), dtype=dtype).numel() == 0
    every = make_tensor((50, 3), dtype=dtype, noncontiguous=True, exclude_zero=True)
    assert not every.is_contiguous()
    assert bool((every != 0).all())


def test_tensors_are_made_in_bounds() -> None:
    x = make_tensor(1000, dtype=st.int64, low=2, high=4, requires_grad=False)
    assert set(x.tolist()) == {2, 3}
    assert make_tensor((), dtype=st.float32, requires_grad=True).requires_grad
    y = make_tensor(1, 2, 3, 3, dtype=st.float32, memory_format=st.channels_last)
    assert y.is_contiguous(memory_format=st.channels_last)
    with pytest.raises(ValueError, match="low must be below high: 4, 2"):
        make_tensor(3, dtype=st.float32, low=4, high=2)
    with pytest.raises(ValueError, match="noncontiguous"):
        make_tensor(3, dtype=st.float32, noncontiguous=True, memory_format=st.channels_last)
