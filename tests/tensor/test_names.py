"""Small public names that no other test calls."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor import autograd, memory


def test_default_dtype_decides_what_floats_become() -> None:
    assert st.get_default_dtype() is st.float32
    assert st.scalar_tensor(2).dtype is st.float32
    assert st.scalar_tensor(2).shape == ()


def test_wrap_copies_nothing() -> None:
    array = np.arange(3.0)
    assert np.shares_memory(autograd.wrap(array).numpy(), array)


def test_no_other_process_holds_a_new_block() -> None:
    x = st.ones(4)
    assert not memory.held_elsewhere(x.numpy())
    handle = memory.export(x.numpy())
    assert memory.held_elsewhere(x.numpy())
    memory.acknowledge(handle)
    assert not memory.held_elsewhere(x.numpy())


def test_statistics_are_a_frozen_record() -> None:
    now = memory.statistics()
    assert isinstance(now, memory.Statistics)
    with pytest.raises(AttributeError):
        now.processes = 3  # type: ignore[misc]


def test_types_for_annotations() -> None:
    from shmtensor import types

    def move(x: st.Tensor, device: types.Device, size: types._size) -> types.Number:
        return x.to(device).reshape(size).sum().item()

    assert move(st.ones(4), "cpu", (2, 2)) == 4
    assert isinstance(1.5, types._Number)
    assert types._device is st.device
    assert types._layout is st.layout
    assert types._dtype is st.dtype
    assert types._int is int
    assert isinstance(st.ones(1).storage(), types.Storage)
    assert types.FileLike
