"""`share(readonly=True)`: who gets the tensor can read it; a write says what to do instead."""

from __future__ import annotations

import multiprocessing as standard
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import multiprocessing as mp

from . import tasks

WRITES: dict[str, Callable[[Any], Any]] = {
    "add_": lambda x: x.add_(1), "iadd": lambda x: x.__iadd__(1),
    "copy_": lambda x: x.copy_(st.ones(4, 3)), "fill_": lambda x: x.fill_(2),
    "zero_": lambda x: x.zero_(), "relu_": lambda x: x.relu_(),
    "clamp_": lambda x: x.clamp_(0, 1), "setitem": lambda x: x.__setitem__(0, 1),
    "setitem of a mask": lambda x: x.__setitem__(x > 0, 1), "uniform_": lambda x: x.uniform_(),
    "normal_": lambda x: x.normal_(), "bernoulli_": lambda x: x.bernoulli_(),
    "masked_fill_": lambda x: x.masked_fill_(x > 0, 0),
    "index_add_": lambda x: x.index_add_(0, st.tensor([0]), st.ones(1, 3)),
    "apply_": lambda x: x.apply_(lambda v: v), "init": lambda x: st.nn.init.ones_(x),
    "dropout": lambda x: st.nn.functional.dropout(x, inplace=True), "row": lambda x: x[0].add_(1),
    "slice": lambda x: x[::2, 1:].add_(1), "transpose": lambda x: x.T.add_(1),
    "reshape": lambda x: x.reshape(12).add_(1), "diagonal": lambda x: x.diagonal().add_(1),
    "unbind": lambda x: x.unbind(0)[0].add_(1), "detach": lambda x: x.detach().add_(1),
    "data": lambda x: x.data.add_(1), "share": lambda x: x.share().add_(1),
    "share_memory_": lambda x: x.share_memory_().add_(1),
    "requires grad": lambda x: x.share(readonly=True).requires_grad_()[0].detach().add_(1),
    "as_strided": lambda x: x.as_strided((2, 3), (3, 1)).add_(1),
    "as_strided of a part": lambda x: x[1:].as_strided((2,), (1,)).add_(1),
    "from_numpy": lambda x: st.from_numpy(x.numpy()).add_(1),
}  # fmt: skip


def pair() -> tuple[Any, Any]:
    x = st.arange(12.0).reshape(4, 3)
    return x, x.share(readonly=True)


@pytest.mark.parametrize("name", WRITES)
def test_every_write_is_refused(name: str) -> None:
    x, view = pair()
    with pytest.raises(RuntimeError, match=r"cannot be written: shape .*; write to a clone\(\)"):
        WRITES[name](view)
    assert x.tolist() == np.arange(12.0).reshape(4, 3).tolist()


def test_numpys_views_are_read_only() -> None:
    x, view = pair()
    for array in (view.numpy(), np.asarray(view), np.from_dlpack(view), view[1:].numpy()):
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        np.add(1, 1, out=view.numpy())
    assert x.numpy().flags.writeable


def test_storages_are_read_only_here_and_where_they_arrive() -> None:
    x, view = pair()
    queue = mp.Queue()
    for storage in (view.untyped_storage(), view[1:].storage()):
        queue.put(storage)
        for each in (storage, queue.get()):
            assert each.data_ptr() == x.data_ptr()
            with pytest.raises(RuntimeError, match="storage: the memory cannot be written"):
                each[0] = 1
    x.untyped_storage()[3] = 64
    assert view[0, 0].item() == 2


def test_the_owner_writes_and_all_see_it() -> None:
    x, view = pair()
    assert view.data_ptr() == x.data_ptr()
    x[0, 0] = 5
    assert view[0, 0].item() == 5
    copy = view.clone()
    copy += 1
    assert copy[0, 0].item() == 6
    assert x.share()[0, 0].item() == 5
    x.share().add_(1)
    assert view[0, 0].item() == 6


def test_autograds_in_place_writes_are_refused() -> None:
    view = st.ones(3).share(readonly=True)
    weight = st.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"write to a clone\(\)"):
        view.mul_(weight)
    with pytest.raises(RuntimeError, match=r"write to a clone\(\)"):
        view[0] = weight[0]
    assert not view.requires_grad
    (view * weight).sum().backward()
    assert weight.grad.tolist() == [1, 1, 1]


@pytest.mark.parametrize("optimizer", [st.optim.SGD, st.optim.Adam])
def test_an_optimizer_is_refused(optimizer: Any) -> None:
    """An optimizer may move parameters to memory of its own; the shared memory stays as it is."""
    x = st.ones(4)
    parameter = st.nn.Parameter(x.share(readonly=True))
    (parameter * 2).sum().backward()
    with pytest.raises(ValueError, match=r"p cannot be written: .*; write to a clone\(\)"):
        optimizer([parameter], lr=0.1).step()
    assert x.tolist() == [1, 1, 1, 1]


def test_outside_memory_moves_in_once() -> None:
    plain = np.ones(3)
    x = st.from_numpy(plain)
    assert not x.is_shared()
    with pytest.warns(UserWarning, match="NumPy array"):
        view = x.share(readonly=True)
    assert view.is_shared()
    x[0] = 4
    assert view.tolist() == [4, 1, 1]
    assert plain[0] == 1


@pytest.mark.parametrize(
    ("library", "method"), [(mp, "fork"), (mp, "forkserver"), (mp, "spawn"), (standard, "fork")]
)
@pytest.mark.parametrize("road", ["queue", "pipe"])
def test_a_receiver_cannot_write(library: Any, method: str, road: str) -> None:
    """Through a second process, and back again."""
    context = library.get_context(method)
    queues = outbox, back, middle, inbox = [context.SimpleQueue() for _ in range(4)]
    reader, writer = context.Pipe(duplex=False)
    first, send = (inbox, inbox.put) if road == "queue" else (reader, writer.send)
    x = st.arange(3.0)
    calls = (tasks.send_on, first, middle), (tasks.try_to_write, middle, outbox, back)
    with tasks.running(context, *calls):
        send(x.share(readonly=True))
        raised, observed, copy = outbox.get()
        for name, message in raised.items():
            expected = "ValueError" if name in ("numpy", "flag") else "write to a clone()"
            assert expected in message, (name, message)
        assert (observed, copy) == ([0, 1, 2], [1, 2, 3])
        again = back.get()
        with pytest.raises(RuntimeError, match="cannot be written"):
            again += 1
        x += 1
        assert again.tolist() == [1, 2, 3]
    for end in (*queues, reader, writer):
        end.close()


def test_both_kinds_in_one_message() -> None:
    x = st.zeros(2)
    queue = mp.get_context("fork").SimpleQueue()
    queue.put({"in": [x.share(readonly=True), (x,)]})
    result = queue.get()
    result["in"][1][0].add_(1)
    assert result["in"][0].tolist() == x.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="cannot be written"):
        result["in"][0].add_(1)
    queue.close()


def test_views_of_packed_arrays_stay_read_only() -> None:
    container = st.SharedList([np.ones(3), st.ones(3)])
    with pytest.raises(ValueError, match="WRITEABLE"):
        container[0].flags.writeable = True
    with pytest.raises(RuntimeError, match=r"write to a clone\(\)"):
        container[1].add_(1)
    assert container[1].tolist() == [1, 1, 1]
