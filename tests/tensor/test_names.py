"""Small public names that no other test calls."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor import autograd, memory


def test_complex_names() -> None:
    assert st.cfloat is st.complex64
    assert st.cdouble is st.complex128


def test_default_dtype_decides_what_floats_become() -> None:
    assert st.get_default_dtype() is st.float32
    assert st.scalar_tensor(2).dtype is st.float32
    assert st.scalar_tensor(2).shape == ()


def test_size_is_a_tuple_of_lengths() -> None:
    assert isinstance(st.zeros(2, 3).shape, st.Size)
    assert st.Size([2, 3]) == (2, 3)


def test_dlpack_capsule() -> None:
    assert "dltensor" in repr(st.to_dlpack(st.arange(3.0)))


def test_wrap_copies_nothing() -> None:
    array = np.arange(3.0)
    assert np.shares_memory(autograd.wrap(array).numpy(), array)


def test_predicates() -> None:
    x = st.zeros(2, 3)
    assert not x._is_view()
    assert not (x * 2)._is_view()
    assert not x.detach()._is_view()
    assert x[0]._is_view()
    assert x.view(6)[1:]._is_view()
    assert st.is_tensor(x)
    assert not st.is_tensor(x.numpy())
    assert st.is_floating_point(x)
    assert not st.is_complex(x)
    assert st.numel(x) == 6


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


def test_users_schedule() -> None:
    class Halves(st.optim.lr_scheduler.LRScheduler):
        def get_lr(self) -> list[float]:
            return [base * 0.5**self.last_epoch for base in self.base_lrs]

    optimizer = st.optim.SGD([st.ones(1).requires_grad_()], lr=1.0)
    schedule = Halves(optimizer)
    optimizer.step()
    schedule.step()
    assert schedule.get_last_lr() == [0.5]


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
