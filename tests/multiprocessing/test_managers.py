"""Managers: what lies in the server's process, tensors as handles included."""

from __future__ import annotations

from typing import Any

import pytest
import tasks

import shmtensor as st
from shmtensor import multiprocessing as mp
from shmtensor.multiprocessing import managers
from tests.interrupts import interrupt_after

LONG = 30.0


@pytest.fixture(params=["fork", "spawn"])
def context(request: pytest.FixtureRequest) -> Any:
    return mp.get_context(request.param)


def test_tensors_in_a_manager_are_the_same_memory(context: Any) -> None:
    x = st.zeros(4)
    with context.Manager() as manager:
        managed = {
            "dict": manager.dict(x=x),
            "list": manager.list([x[1:]]),
            "namespace": manager.Namespace(x=x[2:]),
        }
        queue = manager.Queue()
        queue.put(x)
        assert queue.get(timeout=LONG).data_ptr() == x.data_ptr()
        process = context.Process(target=tasks.use_managed, args=(managed,))
        process.start()
        process.join(LONG)
        assert process.exitcode == 0
        assert x.tolist() == [1, 2, 3, 3]
        process.close()


def test_what_else_a_manager_has() -> None:
    with mp.get_context("fork").Manager() as manager:
        with manager.Lock(), manager.RLock(), manager.Semaphore(2), manager.BoundedSemaphore(1):
            condition = manager.Condition()
            with condition:
                condition.notify_all()
        event = manager.Event()
        event.set()
        assert event.wait(LONG)
        assert manager.Barrier(1).wait() == 0
        assert manager.Value("i", 3).value == 3
        assert list(manager.Array("i", [1, 2])) == [1, 2]
        queue = manager.JoinableQueue()
        queue.put(1)
        assert queue.get() == 1
        queue.task_done()
        queue.join()
        assert manager.Pool(1).apply(tasks.square, (3,)) == 9


def test_classes_of_ones_own(context: Any) -> None:
    x = st.zeros(3)
    with tasks.Exchange(ctx=context) as exchange:
        holder = exchange.Holder(x)
        holder.get().add_(2)
        assert holder.total() == 6
        assert x.tolist() == [2, 2, 2]
    assert mp.managers.BaseManager is type(exchange).__mro__[1]


def test_a_manager_class_that_cannot_be_imported() -> None:
    class Local(mp.managers.BaseManager):
        pass

    Local.register("Holder", tasks.Holder)
    with Local(ctx=mp.get_context("spawn")) as manager:
        assert manager.Holder(st.ones(2)).total() == 2


def test_a_killed_manager_is_noticed() -> None:
    manager = mp.get_context("fork").Manager()
    shared = manager.dict(a=1)
    manager._process.kill()
    manager._process.join()
    with pytest.raises((EOFError, ConnectionError, FileNotFoundError)):
        shared["a"]
    manager.shutdown()


def test_listener_and_client(context: Any) -> None:
    with mp.connection.Listener() as listener:
        process = context.Process(target=tasks.answer, args=(listener.address,))
        process.start()
        with listener.accept() as connection:
            connection.recv().add_(5)
            connection.send("done")
            assert connection.recv() == [5, 5, 5]
        process.join(LONG)
        process.close()


def test_an_interrupted_call_leaves_the_next_answers_right() -> None:
    with mp.get_context("fork").Manager() as manager:
        letters, numbers = manager.dict(a="A"), manager.list([1, 2, 3])
        at = 1
        while interrupt_after(at, lambda: letters.get("a"), managers.__file__):
            assert len(numbers) == 3, at
            assert letters.get("b", "none") == "none"
            at += 1
        assert at > 20
