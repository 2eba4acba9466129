"""Foreign memory moves into shared memory under all its tensors."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn


def in_child(call: Callable[[], object]) -> None:
    """Runs a function in a forked child, which writes to what it inherited."""
    pid = os.fork()
    if pid == 0:
        try:
            with st.no_grad():
                call()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def test_a_base_moves_with_its_view() -> None:
    t = st.from_numpy(np.zeros(2))
    v = t[:1]
    v.share_memory_()
    v.fill_(3)
    assert t.tolist() == [3, 0]
    assert t.is_shared()
    assert v._base is t
    in_child(lambda: t.fill_(4))
    assert v.tolist() == [4]


def test_views_of_every_layout_stay_views() -> None:
    t = st.from_numpy(np.arange(12.0).reshape(4, 3))
    parameter, detached, data = nn.Parameter(t), t.detach(), t.data
    column, rows, expanded = t[:, 1], t[1:3].t(), t[:1].expand(5, 3)
    strides = [x.stride() for x in (t, column, rows, expanded)]
    column.share_memory_()
    assert [x.stride() for x in (t, column, rows, expanded)] == strides
    t.copy_(st.arange(12.0).reshape(4, 3) + 100)
    assert column.tolist() == [101, 104, 107, 110]
    assert rows.tolist() == [[103, 106], [104, 107], [105, 108]]
    assert expanded[4].tolist() == [100, 101, 102]
    for x in (parameter, detached, data, t.numpy()):
        assert x.tolist() == t.tolist()
    with pytest.raises(RuntimeError):
        expanded.fill_(0)


def test_tensors_of_one_array_move_together() -> None:
    array = np.zeros(6)
    a, b, apart = st.from_numpy(array[:4]), st.from_numpy(array[2:]), st.from_numpy(np.zeros(2))
    del array
    b.share_memory_()
    b.fill_(1)
    assert a.tolist() == [0, 0, 1, 1]
    assert not apart.is_shared()


def test_the_gradient_of_a_moved_parameter_is_right() -> None:
    p = nn.Parameter(st.from_numpy(np.ones(3)))
    loss = (p * p).sum()
    with pytest.warns(UserWarning, match="saved for backward"):  # it has the former values
        p.share_memory_()
    loss.backward()
    assert p.grad.tolist() == [2, 2, 2]
    (p[1:] * p[1:]).sum().backward()
    assert p.grad.tolist() == [2, 4, 4]


def test_an_array_that_stays_behind_is_named() -> None:
    array = np.zeros(3)
    t = st.from_numpy(array)
    with pytest.warns(UserWarning, match=r"share_memory_: .* NumPy array.*shape \(3,\)"):
        t.share_memory_()
    assert t.is_shared()
    t.share_memory_()  # nothing moves


@pytest.mark.parametrize("kind", ["bytearray", "dlpack", "file"])
def test_what_stays_behind_is_named(kind: str, tmp_path: Path) -> None:
    source: Any
    if kind == "bytearray":
        source = bytearray(8)
        t = st.frombuffer(source, dtype=st.float32)
    elif kind == "dlpack":
        source = np.zeros(2, np.float32)
        t = st.from_dlpack(source)
    else:
        source = np.memmap(tmp_path / "numbers", np.float32, "w+", shape=(2,))
        t = st.from_numpy(source)
    text = {"bytearray": "bytearray", "dlpack": "NumPy array|DLPack", "file": "mapped file"}[kind]
    with pytest.warns(UserWarning, match=text):
        t[:1].share_memory_()
    assert t.tolist() == [0, 0]


def test_read_only_memory_moves_without_a_warning() -> None:
    t = st.from_numpy(np.frombuffer(b"\0\0\x80?\0\0\0\0", np.float32))
    t.share_memory_()
    assert t.tolist() == [1, 0]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1)])
def test_small_tensors_move(shape: tuple[int, ...]) -> None:
    t = st.from_numpy(np.ones(shape))
    t.share_memory_()
    assert t.is_shared()
    assert t.tolist() == np.ones(shape).tolist()


# ---------------------------------------------------------------- modules


def foreign(kind: str, tmp_path: Path) -> st.Tensor:
    if kind == "from_numpy":
        return st.from_numpy(np.zeros((2, 2), np.float32))
    if kind == "from_dlpack":
        with warnings.catch_warnings():
            return st.from_dlpack(np.zeros((2, 2), np.float32))
    np.zeros((2, 2), np.float32).tofile(tmp_path / "w")
    return st.from_numpy(np.memmap(tmp_path / "w", np.float32, "c", shape=(2, 2)))


@pytest.mark.parametrize("kind", ["from_numpy", "memmap"])
@pytest.mark.parametrize("way", ["parameter", "data", "load", "buffer"])
def test_a_childs_write_to_foreign_weights_is_seen(kind: str, way: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    layer: Any = model[1]
    before = layer.weight
    if way == "parameter":
        layer.weight = before = nn.Parameter(foreign(kind, tmp_path))
    elif way == "data":
        layer.weight.data = foreign(kind, tmp_path)
    elif way == "load":
        state = {"weight": foreign(kind, tmp_path), "bias": st.zeros(2)}
        layer.load_state_dict(state, assign=True)
        before = layer.weight
        del state
    else:
        layer.register_buffer("table", foreign(kind, tmp_path))
    tensor = layer.table if way == "buffer" else layer.weight
    model.share_memory()
    assert layer.weight is before
    assert tensor.is_shared()
    in_child(lambda: tensor.fill_(5))
    assert tensor.tolist() == [[5, 5], [5, 5]]


def test_tied_weights_stay_tied() -> None:
    first, second, third = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)
    first.weight = second.weight = nn.Parameter(st.from_numpy(np.zeros((2, 2), np.float32)))
    third.weight = nn.Parameter(first.weight.detach())  # another parameter over the same memory
    model = nn.Sequential(first, second, third)
    model.share_memory()
    assert first.weight is second.weight
    in_child(lambda: second.weight.fill_(1))
    assert first.weight.tolist() == third.weight.tolist() == [[1, 1], [1, 1]]


def test_a_foreign_gradient_moves_with_its_parameter() -> None:
    layer = nn.Linear(2, 1, bias=False)
    layer.weight.grad = st.from_numpy(np.ones((1, 2), np.float32))
    layer.share_memory()
    assert layer.weight.grad.is_shared()
    assert layer.weight.grad.tolist() == [[1, 1]]


def test_apply_keeps_what_a_function_did_in_place() -> None:
    def grow(t: st.Tensor) -> st.Tensor:
        t.data = st.cat([t, t])  # other memory, the same tensor
        return t

    layer = nn.Linear(2, 1)
    layer.register_buffer("b", st.zeros(1))
    weight = layer.weight
    layer._apply(grow)
    assert layer.weight is weight
    assert weight.shape == (2, 2)
    assert layer.b.shape == (2,)
    layer._apply(lambda t: t.fill_(3))
    assert weight.tolist() == [[3, 3], [3, 3]]
