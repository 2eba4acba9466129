"""Tensors published to others: their storage moves into a file of its own, views included."""

from __future__ import annotations

import ctypes
import fcntl
import gc
import io
import mmap
import os
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import memory, native
from shmtensor import multiprocessing as mp
from shmtensor.memory import name_protocol, named_tensor_server
from shmtensor.memory.published_file import PublishedFile, file_of
from shmtensor.multiprocessing.reduction import ForkingPickler

from .actor import actors
from .hostile import SEALS, resize_attack
from .keepers import KEEPERS

NAME = f"file/{os.getpid()}"


@pytest.fixture(autouse=True)
def _unpublished() -> Iterator[None]:
    yield
    for uid, name in list(named_tensor_server.server_thread.servers):
        if uid == os.geteuid() and name.startswith(NAME):
            memory.unpublish(name)


def publish(tensor: Any, mode: int = 0o644, suffix: str = "") -> PublishedFile:
    memory.publish(NAME + suffix, tensor, mode=mode)
    file = file_of(tensor.array)
    assert file is not None
    return file


def assert_unmoved(tensor: Any, address: int) -> None:
    assert tensor.data_ptr() == address
    assert tensor.is_shared()
    assert file_of(tensor.array) is None
    assert not [name for name in memory.names() if name.name.startswith(NAME)]


# ---- what moves
def test_others_see_the_storage_and_zeros_beyond_it() -> None:
    """Of a block of memory that had another tensor's bytes, the storage's alone."""
    secret = st.full((64, 64), 0x5A, dtype=st.uint8)
    del secret
    x = st.empty(1000, dtype=st.uint8)  # what freed tensors left may be in it: docs/trust.md
    x[:] = 7
    file = publish(x)
    assert os.fstat(file.descriptor).st_size == 1000
    reader = file.open_readonly()
    try:
        assert os.pread(reader, 8192, 0) == bytes([7]) * 1000
        with mmap.mmap(reader, 1000, mmap.MAP_SHARED, mmap.PROT_READ) as mapped:
            page = (ctypes.c_char * mmap.PAGESIZE).from_address(
                np.frombuffer(mapped, np.uint8).ctypes.data
            )
            assert page.raw[1000:] == bytes(mmap.PAGESIZE - 1000)
    finally:
        os.close(reader)


def test_views_follow_and_later_writes_are_seen_on_both_sides() -> None:
    x = st.arange(60, dtype=st.float64).reshape(3, 4, 5)
    rows, turned, flat, same = x[1:], x.transpose(0, 2), x.view(-1), x.detach()
    expected = x.clone()
    before = x.data_ptr()
    publish(rows)
    assert x.data_ptr() != before
    for view, offset in ((rows, 160), (turned, 0), (flat, 0), (same, 0)):
        assert file_of(view.array) is file_of(x.array)
        assert view.data_ptr() == x.data_ptr() + offset
    assert (x == expected).all()
    assert (turned == expected.transpose(0, 2)).all()
    opened = memory.open(NAME)
    assert (opened == expected[1:]).all()
    x[2, 3, 4] = -1
    assert opened[1, 3, 4] == flat[-1] == turned[4, 3, 2] == -1
    opened[0, 0, 0] = -2
    assert x[1, 0, 0] == rows[0, 0, 0] == -2
    assert x[1:][0, 0, 0] == -2  # a new view
    del opened


def test_tensors_that_share_one_array_still_do() -> None:
    x = st.ones(3)
    y = x.detach()
    assert x.array is y.array
    publish(y)
    assert x.array is y.array


@pytest.mark.parametrize(
    "make",
    [
        lambda: st.tensor(3.5),
        lambda: st.zeros(0, 3),
        lambda: st.arange(12, dtype=st.bfloat16).reshape(3, 4).t(),
        lambda: st.ones(3, 4, dtype=st.complex64)[:, ::2],
        lambda: st.tensor([True, False]),
        lambda: st.arange(5, dtype=st.uint8).expand(3, 5),
        lambda: st.arange(12).reshape(3, 4).flip(0),
        lambda: st.zeros(300_000),
        lambda: st.nn.Parameter(st.ones(3)),
    ],
)
def test_each_layout_arrives(make: Callable[[], Any]) -> None:
    x = make()
    expected = x.detach().clone()
    publish(x)
    opened = memory.open(NAME, readonly=not x.array.flags.writeable)
    assert (opened.dtype, opened.shape, opened.stride()) == (x.dtype, x.shape, x.stride())
    assert (opened == expected).all()
    assert (x == expected).all()


def test_a_parameter_trains_on_in_its_file() -> None:
    layer = st.nn.Linear(3, 2)
    layer(st.ones(1, 3)).sum().backward()
    publish(layer.weight)
    opened = memory.open(NAME, readonly=True)
    layer.weight.grad = None
    layer(st.ones(1, 3)).sum().backward()
    before = opened.clone()
    st.optim.SGD(layer.parameters(), lr=1.0).step()
    assert (opened == before - 1).all()
    assert (opened == layer.weight).all()


def test_a_view_that_is_read_only_stays_so() -> None:
    x = st.ones(3)
    view = x.share(readonly=True)
    publish(view)
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        view.array.flags.writeable = True
    x[0] = 5
    assert view[0] == 5
    (name,) = (n for n in memory.names() if n.name == NAME)
    assert name.mode == 0o444


# ---- what it is afterwards
def test_its_file_is_sealed_and_holds_the_storage_alone() -> None:
    neighbours = [st.full((100,), 7.0) for _ in range(4)]
    x = st.zeros(100)
    file = publish(x)
    seals = fcntl.fcntl(file.descriptor, fcntl.F_GET_SEALS)
    assert seals & SEALS == SEALS
    status = os.fstat(file.descriptor)
    assert status.st_size == x.untyped_storage().nbytes() == 400
    assert status.st_mode & 0o777 == 0o400
    assert not os.pread(file.descriptor, 4096, 0).strip(b"\0")
    assert resize_attack(x) == []
    del neighbours


def test_where_nobody_may_write_the_file_is_final() -> None:
    x = st.ones(3)
    file = publish(x, 0o444)
    x[1] = 2  # the publisher's own mapping is older than the seal
    if file.is_final:  # Linux 5.1
        with pytest.raises(PermissionError):
            PublishedFile(file.descriptor, 12, True)
        with pytest.raises(ValueError, match=r"publish: mode 0o666 lets write what was published"):
            memory.publish(NAME + "/2", x, mode=0o666)
    assert memory.open(NAME, readonly=True).tolist() == [1, 2, 1]
    with pytest.raises(PermissionError, match="may not write it: mode 0444"):
        memory.open(NAME)


def test_published_again_it_is_the_same_file() -> None:
    x = st.arange(6)
    file = publish(x)
    publish(x[2:], 0o600, "/2")
    publish(x, 0o666, "/3")
    assert file_of(x.array) is file
    names = [NAME, NAME + "/2", NAME + "/3"]
    opened = [memory.open(name) for name in names]
    x[3] = 30
    assert [t.tolist()[-3:] for t in opened] == [[30, 4, 5]] * 3
    assert len({file_of(t.array).id for t in opened}) == 1  # type: ignore[union-attr]
    memory.publish(NAME + "/4", opened[1])  # whoever opened it may, too
    assert memory.open(NAME + "/4").tolist() == [2, 30, 4, 5]


def test_it_is_no_shared_memory_of_the_domain_any_more() -> None:
    x = st.arange(3)
    publish(x)
    assert not x.is_shared()
    queue: Any = mp.get_context("fork").SimpleQueue()
    with pytest.warns(UserWarning, match="sent as a copy"):
        queue.put(x)
    copy = queue.get()
    with pytest.warns(UserWarning, match="sent as a copy"):
        again = pickle.loads(ForkingPickler.dumps(x))
    buffer = io.BytesIO()
    st.save(x, buffer)
    x[0] = 10
    assert copy.is_shared()
    assert copy[0] == again[0] == 0
    opened = memory.open(NAME, readonly=True)
    with pytest.warns(UserWarning, match="mapped file"):
        x.share_memory_()
    x[0] = 20
    assert x.is_shared()
    assert opened[0] == 10
    queue.close()


def test_a_forked_child_shares_it() -> None:
    x = st.zeros(3)
    publish(x)
    pid = os.fork()
    if pid == 0:
        x[1] = 5
        os._exit(0)
    os.waitpid(pid, 0)
    assert x[1] == 5


def test_its_memory_goes_with_the_last_tensor() -> None:
    x = st.zeros(3)
    descriptor = publish(x).descriptor
    memory.unpublish(NAME)
    view = x[1:]
    del x
    os.fstat(descriptor)
    del view
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


# ---- what cannot move
MOVES = ("tensor",)  # st.from_numpy: a tensor over the same array, which follows


@pytest.mark.parametrize("kind", KEEPERS)
def test_whatever_else_sees_the_memory_forbids_the_move(kind: str) -> None:
    x = st.ones(4, 2)
    kept = KEEPERS[kind](x.array)
    address = x.data_ptr()
    if kind in MOVES:
        publish(x)
        assert kept.data_ptr() == x.data_ptr() != address
        return
    with pytest.raises(ValueError, match=r"something else than tensors refers to it: 32 bytes"):
        memory.publish(NAME, x, mode=0o644)
    assert_unmoved(x, address)
    del kept
    publish(x)


def test_a_value_saved_for_backward_forbids_the_move() -> None:
    x = st.ones(3, requires_grad=True)
    y = (x * x).sum()
    address = x.data_ptr()
    with pytest.raises(ValueError, match=r"a value saved for backward, another name\); publish"):
        memory.publish(NAME, x, mode=0o640)
    assert_unmoved(x, address)
    y.backward()
    del y
    publish(x, 0o640)
    assert x.grad.tolist() == [2, 2, 2]


def test_an_array_cannot_be_moved_and_a_clone_can() -> None:
    with memory.shared_numpy():
        array = np.ones(3)
    with pytest.raises(ValueError, match=r"impossible for a ndarray: .*; publish a tensor"):
        memory.publish(NAME, array, mode=0o644)
    memory.publish(NAME, st.from_numpy(array).clone(), mode=0o644)
    assert memory.open(NAME).tolist() == [1, 1, 1]


def test_what_other_processes_hold_stays() -> None:
    x = st.ones(3)
    address = x.data_ptr()
    handle = native.export(address)
    refused = pytest.raises(ValueError, match=r"another process holds it, or a message with it")
    with refused:
        memory.publish(NAME, x, mode=0o644)
    block = native.receive(handle)
    with refused:
        memory.publish(NAME, x, mode=0o644)
    assert_unmoved(x, address)
    del block
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    with refused:
        memory.publish(NAME, x, mode=0o644)
    assert_unmoved(x, address)
    os.close(writer)
    os.waitpid(pid, 0)
    os.close(reader)
    publish(x)


def test_what_was_published_to_this_user_alone_stays_while_it_is() -> None:
    x = st.ones(3)
    address = x.data_ptr()
    memory.publish(NAME, x)
    with pytest.raises(ValueError, match="another name"):
        memory.publish(NAME + "/2", x, mode=0o644)
    memory.unpublish(NAME)
    assert_unmoved(x, address)
    publish(x)


def test_a_taken_name_moves_nothing() -> None:
    with actors(1) as (other,):
        other.do(f"t = st.ones(2); memory.publish({NAME!r}, t)")
        x = st.ones(3)
        address = x.data_ptr()
        with pytest.raises(FileExistsError, match="the name is taken"):
            memory.publish(NAME, x, mode=0o644)
        assert x.data_ptr() == address


def test_without_memory_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    x = st.ones(1000)
    address = x.data_ptr()
    with monkeypatch.context() as m:
        m.setattr(native, "headroom", lambda: (100, 200, "a limit"))
        with pytest.raises(st.errors.OutOfSharedMemory, match=r"4000 bytes .*, 100 may still"):
            memory.publish(NAME, x, mode=0o644)
    assert_unmoved(x, address)


def test_native_move_is_refused_for_wrong_arguments() -> None:
    x = st.ones(3)
    good = np.zeros(12, np.uint8)
    for memory_of_it in (np.zeros(11, np.uint8), np.zeros(24, np.uint8)[::2], None):
        with pytest.raises(ValueError, match="new memory has not 12 contiguous bytes"):
            native.move_tensors([x], x, memory_of_it, good)
    with pytest.raises(TypeError, match="move_tensors"):
        native.move_tensors([x], None, good, good)  # type: ignore[arg-type]
    assert not native.move_tensors([], x, good, good[:])  # a tensor that the census lacks
    assert not native.move_tensors([x, x], x, good, good)


def test_fault_points_of_a_move(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    monkeypatch.setattr(name_protocol, "fault_point", steps.append)
    x = st.ones(3)
    publish(x)
    assert steps[:4] == ["publish.bound", "publish.created", "publish.moved", "publish.exported"]
