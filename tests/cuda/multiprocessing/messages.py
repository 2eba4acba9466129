"""Processes that send each other GPU tensors: `python -m tests.cuda.multiprocessing.messages CASE`.

A program of its own, because the children of `spawn` import it anew. It prints "ok" at the end.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.cuda.standin.install import install

install()

import shmtensor as st  # noqa: E402
from shmtensor import multiprocessing as mp  # noqa: E402
from tests.cuda.standin.program import last_device, run_case  # noqa: E402

WAIT = 100.0  # seconds; a bound for a loaded machine
CONTEXT = mp.get_context("spawn")


def settled(condition: Callable[[], bool]) -> bool:
    """Whether a condition becomes true: memory comes back when its work has ended."""
    end = time.monotonic() + WAIT
    while not condition() and time.monotonic() < end:
        gc.collect()
        time.sleep(0.02)
    return condition()


def is_all_free() -> bool:
    return not any(st.cuda.memory_allocated(i) for i in range(st.cuda.device_count()))


# ---------------------------------------------------------------- what children run
def add_one(inbox: Any, outbox: Any) -> None:
    while (x := inbox.get()) is not None:
        x.add_(1)
        outbox.put(x)


def add_one_and_end(inbox: Any, outbox: Any) -> None:
    x = inbox.get()
    x.add_(1)
    outbox.put(x)


def send_on(inbox: Any, outbox: Any) -> None:
    outbox.put(inbox.get())
    inbox.get()  # it holds nothing, and lives until it is told


def keep(inbox: Any, outbox: Any) -> None:
    """Says what the tensor is after its producer has dropped it."""
    x = inbox.get()
    outbox.put("has it")
    inbox.get()
    outbox.put(x.tolist())


def take_and_wait(inbox: Any, outbox: Any) -> None:
    x = inbox.get()
    outbox.put((os.getpid(), x.shape))
    time.sleep(1000)


def double_sparse(inbox: Any, outbox: Any) -> None:
    """Doubles the values of sparse tensors in place, and says where they are."""
    while (x := inbox.get()) is not None:
        x._values().mul_(2)
        outbox.put((str(x.device), x.to_dense()))


def total(x: Any) -> float:
    return float(x.sum())


def make(n: int) -> Any:
    return st.full((n,), float(n), device=last_device())


def produce_and_die(outbox: Any) -> None:
    outbox.put((os.getpid(), st.ones(3, device="cuda")))
    time.sleep(1000)


# ---------------------------------------------------------------- cases
def start(target: Callable[..., Any], *args: Any) -> Any:
    process = CONTEXT.Process(target=target, args=args)
    process.start()
    return process


def case_round_trip() -> None:
    inbox, outbox = CONTEXT.Queue(), CONTEXT.Queue()
    child = start(add_one, inbox, outbox)
    x = st.arange(6.0, device="cuda").reshape(2, 3)
    inbox.put(x.T[1:])
    y = outbox.get(timeout=WAIT)
    assert y.data_ptr() == x.T[1:].data_ptr()
    assert y.stride() == x.T[1:].stride()
    assert x.tolist() == [[0, 2, 3], [3, 5, 6]]
    other = st.ones(3, device=last_device())
    inbox.put(other)
    assert outbox.get(timeout=WAIT).device == st.device(last_device())
    assert other.tolist() == [2.0] * 3
    inbox.put(None)
    child.join()
    del x, y, other
    assert settled(is_all_free)


def case_a_worker_ends_before_its_result_is_read() -> None:
    """Its work has ended, though nobody had waited for it while the worker lived."""
    inbox, outbox = CONTEXT.Queue(), CONTEXT.Queue()
    child = start(add_one_and_end, inbox, outbox)
    x = st.ones(1 << 16, device="cuda")
    inbox.put(x)
    child.join()
    assert child.exitcode == 0
    y = outbox.get(timeout=WAIT)
    assert y.data_ptr() == x.data_ptr()
    assert y[:3].tolist() == [2.0] * 3


def case_sparse() -> None:
    """Sparse tensors, and a leaf with a sparse gradient: indices and values are the same memory."""
    inbox, outbox = CONTEXT.Queue(), CONTEXT.Queue()
    child = start(double_sparse, inbox, outbox)
    for device in ("cuda:0", last_device()):
        x = st.sparse_coo_tensor([[0, 1, 0], [2, 0, 2]], [1.0, 2.0, 3.0], (2, 3), device=device)
        for y in (x, x.coalesce()):
            inbox.put(y)
            place, dense = outbox.get(timeout=WAIT)
            assert place == device
            assert dense.tolist() == y.to_dense().tolist() == [[0, 0, 8], [4, 0, 0]]
            x._values().div_(2)
    inbox.put(None)
    child.join()
    a, b = CONTEXT.Pipe()
    leaf = st.ones(4, 2, device="cuda").requires_grad_()
    st.nn.functional.embedding(st.tensor([1, 1]).cuda(), leaf, sparse=True).sum().backward()
    a.send(leaf)
    received = b.recv()
    assert received.grad.is_sparse
    assert received.grad.to_dense().tolist() == [[0, 0], [2, 2], [0, 0], [0, 0]]
    del x, y, dense, leaf, received
    assert settled(is_all_free)


def case_what_a_tensor_is() -> None:
    """Gradients, classes, aliases and the containers around a tensor."""
    a, b = CONTEXT.Pipe()
    leaf = st.ones(2, device="cuda").requires_grad_()
    leaf.grad = st.full((2,), 3.0, device="cuda")
    parameter = st.nn.Parameter(st.zeros(2, device="cuda"))
    a.send({"leaf": leaf, "parameter": [parameter], "cpu": st.ones(2), "empty": leaf.detach()[:0]})
    received = b.recv()
    assert received["leaf"].requires_grad
    assert received["leaf"].grad.tolist() == [3.0, 3.0]
    assert type(received["parameter"][0]) is st.nn.Parameter
    assert received["cpu"].is_cpu
    assert received["empty"].is_cuda
    assert received["empty"].shape == (0,)
    received["leaf"].detach().zero_()
    assert leaf.tolist() == [0.0, 0.0]
    with pytest.raises(RuntimeError, match="non-leaf"):
        a.send(leaf * 2)
    del received, leaf, parameter
    assert settled(is_all_free)


def case_the_producer_drops_it() -> None:
    inbox, outbox = CONTEXT.Queue(), CONTEXT.Queue()
    child = start(keep, inbox, outbox)
    inbox.put(st.full((1000,), 5.0, device="cuda"))
    assert outbox.get(timeout=WAIT) == "has it"
    for n in range(20):  # would take the memory, if it were free
        st.full((1000,), float(n), device="cuda")
    inbox.put("go on")
    assert outbox.get(timeout=WAIT) == [5.0] * 1000
    child.join()
    assert settled(is_all_free)


def case_a_receiver_sends_on() -> None:
    inbox, middle, outbox = CONTEXT.Queue(), CONTEXT.Queue(), CONTEXT.Queue()
    first, second = start(send_on, inbox, middle), start(add_one, middle, outbox)
    x = st.zeros(4, device="cuda")
    inbox.put(x)
    assert outbox.get(timeout=WAIT).tolist() == [1.0] * 4
    assert x.tolist() == [1.0] * 4
    inbox.put(None)
    middle.put(None)
    first.join()
    second.join()


def case_arguments_and_pools() -> None:
    x = st.arange(5.0, device="cuda")
    outbox = CONTEXT.Queue()
    child = start(add_one_argument, x, outbox)
    assert outbox.get(timeout=WAIT) == 15.0
    child.join()
    assert x.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    with CONTEXT.Pool(1) as pool:
        assert pool.map(total, [x, x * 2]) == [15.0, 30.0]
        made = pool.apply(make, (7,))
        assert made.device == st.device(last_device())
        assert made.tolist() == [7.0] * 7
    del x
    assert settled(lambda: st.cuda.memory_allocated(0) == 0)


def add_one_argument(x: Any, outbox: Any) -> None:
    x += 1
    outbox.put(x.sum().item())


def case_no_room_and_no_reader() -> None:
    """Messages that nobody reads give their memory back."""
    queue = CONTEXT.Queue(1)
    queue.put(1)
    assert not has_room(queue)
    assert settled(is_all_free)
    queue.get()
    queue.put(st.ones(3, device="cuda"))
    queue.close()
    del queue
    assert settled(is_all_free)


def has_room(queue: Any) -> bool:
    try:
        queue.put(st.ones(3, device="cuda"), False)
    except mp.queue.Full:
        return False
    return True


def case_a_receiver_is_killed() -> None:
    inbox, outbox = CONTEXT.Queue(), CONTEXT.Queue()
    child = start(take_and_wait, inbox, outbox)
    inbox.put(st.ones(1000, device="cuda"))
    pid, _ = outbox.get(timeout=WAIT)
    os.kill(pid, signal.SIGKILL)
    child.join()
    assert settled(is_all_free)


def case_the_producer_is_killed() -> None:
    outbox = CONTEXT.Queue()
    child = start(produce_and_die, outbox)
    pid, x = outbox.get(timeout=WAIT)
    assert x.tolist() == [1.0] * 3
    os.kill(pid, signal.SIGKILL)
    child.join()
    with pytest.raises(st.errors.PeerLostError, match=str(pid)):
        use_for_a_while(x)
    del x
    assert settled(is_all_free)


def use_for_a_while(x: Any) -> None:
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        x.add_(1)
        time.sleep(0.05)


def case_forked_children_are_told() -> None:
    x = st.ones(3, device="cuda")
    context = mp.get_context("fork")
    outbox = context.Queue()
    child = context.Process(target=use_after_fork, args=(x, outbox))
    child.start()
    texts = outbox.get(timeout=WAIT)
    child.join()
    wrong = {i: text for i, text in enumerate(texts) if "spawn" not in text}
    assert not wrong, wrong
    assert x.tolist() == [1.0] * 3


def use_after_fork(x: Any, outbox: Any) -> None:
    for seed in (st.manual_seed, st.cuda.manual_seed, st.cuda.manual_seed_all):
        seed(0)  # as programs do in the workers of a loader
    texts = []
    for use in (
        lambda: st.zeros(2, device="cuda"),
        lambda: x * 2,
        lambda: x.add_(1),
        lambda: x[0].item(),
        x.tolist,
        x.cpu,
        x.sum,
        x.clone,
        lambda: x.copy_(st.ones(3)),
        lambda: st.ones(3).copy_(x),
        lambda: x.fill_(2),
        lambda: x.__setitem__(0, 1),
        lambda: str(x),
        st.ones(3).cuda,
        st.cuda.synchronize,
        st.cuda.current_stream,
        lambda: st.rand(2, device="cuda"),
        lambda: (x.requires_grad_() * x).sum().backward(),
    ):
        try:
            use()
        except RuntimeError as error:
            texts.append(f"{type(error).__name__} {error}")
        else:
            texts.append("no error")
    outbox.put(texts)


def case_failure() -> None:
    """Fails while a child waits for it."""
    start(take_and_wait, CONTEXT.Queue(), CONTEXT.Queue())
    raise AssertionError("on purpose")


if __name__ == "__main__":
    run_case(globals()[f"case_{sys.argv[1]}"])
