"""Tensors in page-locked memory."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st


@pytest.mark.parametrize("shape", [(), (3,), (300, 200)])
def test_a_pinned_copy(mc: Any, shape: tuple[int, ...]) -> None:
    x = st.rand(shape)
    assert not x.is_pinned()
    y = x.pin_memory()
    assert y.is_pinned()
    assert y.pin_memory() is y
    assert y.tolist() == x.tolist()
    assert y.dtype is x.dtype
    on_gpu = y.to("cuda", non_blocking=True)
    assert on_gpu.tolist() == x.tolist()
    assert not on_gpu.is_pinned()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        on_gpu.pin_memory()
    mc.unpin_heap()
    assert not y.is_pinned()
