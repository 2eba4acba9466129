"""The functions that the processes of these tests run; a spawned interpreter can import them."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import numpy as np

import shmtensor as st
from shmtensor import memory, native
from shmtensor.multiprocessing.managers import BaseManager


def write_ones(tensor: Any, out: Any) -> None:
    tensor += 1
    out.put((tensor.is_shared(), os.getpid(), native.domain_id()))


def echo(inbox: Any, outbox: Any) -> None:
    while (message := inbox.get()) is not None:
        outbox.put(message)


def send(outbox: Any, what: Any) -> None:
    outbox.put(what)


def make_and_send(outbox: Any, n: int) -> None:
    for i in range(n):
        outbox.put(st.full((1000,), float(i)))


def touch_all(objects: dict[str, Any], out: Any) -> None:
    with objects["lock"], objects["rlock"], objects["semaphore"]:
        objects["value"].value += 5
        objects["array"][1] = 7
        objects["raw"].value = 9
    objects["event"].set()
    with objects["condition"]:
        objects["condition"].notify_all()
    objects["joinable"].get()
    objects["joinable"].task_done()
    out.put(objects["barrier"].wait(20.0))


def die(how: str) -> None:
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        raise SystemExit(3)
    if how == "raise":
        raise ValueError("on purpose")
    if how == "abort":
        os._exit(7)


def die_on(i: int, which: int, how: str, ready: Any) -> None:
    if i == which:
        die(how)
    ready.get()


def fill(i: int, tensor: Any) -> None:
    tensor[i] = float(i + 1)


def numpy_of(out: Any, shared: np.ndarray, private: np.ndarray) -> None:
    shared += 1
    private += 1
    out.put((native.is_shared(shared), native.is_shared(private)))


def step(module: Any, out: Any) -> None:
    for p in module.parameters():
        p.data.add_(1.0)
    out.put([type(p).__name__ for p in module.parameters()])


def pipe_echo(connection: Any) -> None:
    while (message := connection.recv()) is not None:
        connection.send(message)


def grow(x: Any) -> Any:
    return x + 1


def killed_task(x: int) -> int:
    if x == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def names(out: Any) -> None:
    import multiprocessing

    out.put((multiprocessing.current_process().name, multiprocessing.parent_process().pid))


def start_nested(method: str, out: Any) -> None:
    import shmtensor.multiprocessing as mp

    context = mp.get_context(method)
    queue = context.SimpleQueue()
    tensor = st.zeros(3)
    process = context.Process(target=write_ones, args=(tensor, queue))
    process.start()
    queue.get(20.0)
    process.join()
    out.put(tensor)
    if method == "forkserver":
        from shmtensor.multiprocessing.forkserver import server

        server.stop()


def hold(queue: Any, ready: Any) -> None:
    message = queue.get()
    ready.set()
    signal.pause()
    del message


def statistics(out: Any) -> None:
    out.put(memory.statistics().processes)


def wait_for_ever(queue: Any, said: Any) -> None:
    from shmtensor.errors import PeerLostError

    said.put(os.getpid())
    try:
        queue.get()
    except PeerLostError as error:
        said.put(str(error))


def start_waiter(method: str, queue: Any, said: Any) -> None:
    import shmtensor.multiprocessing as mp

    mp.get_context(method).Process(target=wait_for_ever, args=(queue, said)).start()
    os.kill(os.getpid(), signal.SIGKILL)


def add_one(x: Any) -> Any:
    x += 1
    return x


def identity(x: Any) -> Any:
    return x


def fail_or_finish(i: int, out: Any) -> None:
    if i == 0:
        raise ValueError("on purpose")
    time.sleep(0.5)
    out.put(i)


def compute(i: int, pids: Any) -> None:
    pids.put(os.getpid())
    while True:
        np.ones(1000).sum()


def start_busy(method: str, pids: Any) -> None:
    import shmtensor.multiprocessing as mp

    mp.start_processes(compute, (pids,), nprocs=2, start_method=method)


def use_managed(managed: Any) -> None:
    for obj in (managed["dict"]["x"], managed["list"][0], managed["namespace"].x):
        obj.add_(1)


class Holder:
    """A class of the user's, whose objects live in a manager's process."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def get(self) -> Any:
        return self.x

    def total(self) -> float:
        return float(self.x.sum())


class Exchange(BaseManager):
    """A manager of the user's."""


Exchange.register("Holder", Holder)
started_with: list[Any] = []


def begin(*values: Any) -> None:
    started_with.extend(values)


def first_initarg(_: Any = None) -> Any:
    return started_with[0]


def square(x: Any) -> Any:
    return x * x


def add(x: Any, y: Any) -> Any:
    return x + y


def refuse(x: Any) -> None:
    raise ValueError(f"on purpose: {x}")


def whoami(_: Any) -> int:
    return os.getpid()


def answer(address: Any) -> None:
    from shmtensor.multiprocessing.connection import Client

    x = st.zeros(3)
    with Client(address) as connection:
        connection.send(x)
        assert connection.recv() == "done"
        connection.send(x.tolist())


def double_all(inbox: Any, outbox: Any) -> None:
    """Doubles each message's tensor in place until the inbox is shut down."""
    from shmtensor.errors import ShutDown

    try:
        while True:
            message = inbox.get()
            message["x"].mul_(2.0)
            outbox.put(message)
    except ShutDown:
        return


def put_and_report(queue: Any) -> None:
    """Takes a queue from a queue and puts something into it."""
    queue.get().put("from the child")


class Unreadable(Exception):
    """Can be pickled, and not unpickled: the classic mistake of errors with two arguments."""

    def __init__(self, text: object, more: object = None) -> None:
        super().__init__(text)

    def __reduce__(self) -> tuple[object, ...]:
        return (needs_two, (1,))


def needs_two(x: object, y: object) -> None:
    """Is called with one."""


def raise_unreadable(x: object) -> None:
    raise Unreadable(x)
