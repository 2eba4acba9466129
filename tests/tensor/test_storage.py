"""Storages, and the order of elements in memory."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import shmtensor as st


def test_views_share_a_storage() -> None:
    x = st.arange(6, dtype=st.float32)
    full, part = x.untyped_storage(), x.view(2, 3)[1].untyped_storage()
    assert full == part
    assert hash(full) == hash(part)
    assert full.data_ptr() == x.data_ptr() == part.data_ptr()
    assert len(full) == full.nbytes() == full.size() == 24
    assert full.element_size() == 1
    assert full.is_shared() == x.is_shared()
    assert full.device == x.device
    assert x.clone().untyped_storage() != full
    assert isinstance(full, st.UntypedStorage)
    assert st.is_storage(full)
    assert not st.is_storage(x)
    assert "of 24 at" in repr(full)


def test_storage_of_numbers() -> None:
    x = st.arange(6, dtype=st.float32)
    numbers = x.view(2, 3)[1, 1:].storage()
    assert isinstance(numbers, st.TypedStorage)
    assert numbers.tolist() == list(numbers) == [0, 1, 2, 3, 4, 5]
    assert numbers.size() == 6
    assert numbers.nbytes() == 24
    assert numbers.element_size() == 4
    assert numbers.dtype == st.float32
    numbers[0] = 7
    assert x[0].item() == numbers[0] == 7.0
    assert numbers.untyped() == x.untyped_storage()
    assert x.untyped_storage()[0] == 0


def test_a_storage_takes_its_tensors_to_shared_memory() -> None:
    storage = st.zeros(4).untyped_storage()
    assert storage.share_memory_() is storage
    for name in ("untyped_storage", "storage"):
        outside = st.from_numpy(np.zeros(4))
        foreign = getattr(outside, name)()
        assert not foreign.is_shared()
        assert foreign.share_memory_() is foreign
        assert outside.is_shared()
        assert foreign.is_shared()
        assert foreign.data_ptr() == outside.data_ptr()
        outside.fill_(3)
        assert foreign.bytes.tobytes() == outside.numpy().tobytes()


def test_a_storage_is_copied_by_pickle() -> None:
    numbers = st.arange(3, dtype=st.int16).storage()
    clone = pickle.loads(pickle.dumps(numbers))
    assert type(clone) is st.TypedStorage
    assert (clone.tolist(), clone.dtype) == ([0, 1, 2], st.int16)
    clone[0] = 9
    assert numbers[0] == 0
    assert copy.deepcopy(numbers).tolist() == [0, 1, 2]


def test_a_storage_over_a_file(tmp_path: Path) -> None:
    file = tmp_path / "bytes"
    storage = st.UntypedStorage.from_file(file, shared=True, nbytes=6)
    storage[2] = 5
    mine = st.UntypedStorage.from_file(str(file), nbytes=6)
    assert mine.tolist() == [0, 0, 5, 0, 0, 0]
    mine[0] = 1
    assert storage[0] == 0
    with pytest.raises(ValueError, match="length"):
        st.UntypedStorage.from_file(file, nbytes=100)
    with pytest.raises(FileNotFoundError):
        st.UntypedStorage.from_file(tmp_path / "none", nbytes=1)


@pytest.mark.parametrize("sizes", [(2, 3, 4, 5), (2, 3, 4, 5, 6)])
def test_channels_last(sizes: tuple[int, ...]) -> None:
    form = st.channels_last if len(sizes) == 4 else st.channels_last_3d
    x = st.tensor(np.random.default_rng(0).standard_normal(sizes), requires_grad=True)
    steps = np.cumprod((sizes[1], *sizes[:1:-1]))[::-1]
    expected = (int(steps[0]), 1, *(int(s) for s in steps[1:]))
    for y in (
        x.contiguous(memory_format=form), x.clone(memory_format=form), x.to(memory_format=form),
        st.clone(x, memory_format=form),
    ):  # fmt: skip
        assert y.stride() == expected
        assert y.is_contiguous(memory_format=form)
        assert not y.is_contiguous()
        assert y.equal(x)
        assert y.contiguous(memory_format=form) is y
        assert y.clone().stride() == expected
        assert y.clone(memory_format=st.contiguous_format).is_contiguous()
        assert y.contiguous().is_contiguous()
    x.contiguous(memory_format=form).sum().backward()
    assert x.grad.equal(st.ones_like(x))
    assert x.to(st.float32, memory_format=form).stride() == expected
    new = st.empty(sizes, memory_format=form, requires_grad=True)
    assert new.stride() == expected
    assert new.requires_grad
    assert new.is_leaf
    assert new._base is None
    for function in (x[0].contiguous, x[0].clone, lambda **format: st.empty(2, 3, **format)):
        with pytest.raises(RuntimeError, match="required rank"):
            function(memory_format=form)


def test_resized_copies() -> None:
    x = st.arange(6)
    assert x.resize(2, 2).tolist() == [[0, 1], [2, 3]]
    assert x.resize_as(st.zeros(3)).tolist() == [0, 1, 2]
    assert x.shape == (6,)


def test_the_layout_of_a_tensor_is_strided() -> None:
    assert st.ones(2).layout is st.strided
    assert repr(st.ones(2).layout) == "shmtensor.strided"


def test_memory_in_another_order_of_dimensions_is_one_piece() -> None:
    x = st.arange(40).reshape(2, 4, 1, 5).transpose(0, 3)[[1, 0, 1], 2:4]
    assert not x.is_contiguous()
    assert x.untyped_storage().nbytes() == x.numel() * 8
    assert sorted(x.as_strided((x.numel(),), (1,)).tolist()) == sorted(x.flatten().tolist())
