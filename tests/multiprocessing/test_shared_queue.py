"""st.Queue: what it promises to one process, to several, and at its end."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from tasks import double_all, put_and_report

import shmtensor as st
from shmtensor import multiprocessing as mp
from shmtensor.errors import ShutDown
from shmtensor.queue import Empty, Full, Queue, Statistics


def test_messages_come_in_order_and_are_counted() -> None:
    with Queue(100) as queue:
        for i in range(50):
            queue.put(i)
        assert queue.qsize() == 50
        assert [queue.get() for _ in range(20)] == list(range(20))
        assert queue.statistics() == Statistics(100, 50, 20, 0, 30, 0, 0, 1, 0, 0, False)
        assert queue.statistics().fill == pytest.approx(0.3)
        queue.check()


def test_counts_stay_right_over_many_segments() -> None:
    with Queue(10) as queue:
        for i in range(1000):
            queue.put(i)
            assert queue.get() == i
        s = queue.statistics()
        assert (s.sent, s.received, s.waiting, s.given_up) == (1000, 1000, 0, 0)
        queue.check()


def test_the_bound_holds() -> None:
    with st.Queue(maxsize=3) as queue:
        assert queue.maxsize == 3
        for i in range(3):
            queue.put(i)
        assert queue.full()
        with pytest.raises(Full):
            queue.put_nowait(3)
        with pytest.raises(Full):
            queue.put(3, timeout=0.02)
        assert queue.get() == 0
        queue.put(3, timeout=0.02)
        assert queue.get_many(10) == [1, 2, 3]
        assert queue.empty()
        with pytest.raises(Empty):
            queue.get(timeout=0.02)
        with pytest.raises(Empty):
            queue.get_nowait()
        with pytest.raises(Empty):
            queue.get_many(2, timeout=0.02)


def children_end(processes: Any) -> None:
    """Waits for all of them; each must end well."""
    for process in processes:
        process.join(60)
        assert process.exitcode == 0


@pytest.mark.parametrize("maxsize", [0, -1])
def test_a_queue_has_a_bound(maxsize: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Queue(maxsize)


def test_put_many_says_how_many_were_sent() -> None:
    with Queue(5) as queue:
        assert queue.put_many([]) == 0
        assert queue.put_many(range(8), timeout=0.02) == 5
        with pytest.raises(Full):
            queue.put_many([8], timeout=0.0)
        assert queue.get_many(3) == [0, 1, 2]
        assert queue.get_many(3) == [3, 4]
        with pytest.raises(ValueError, match="at least 1"):
            queue.get_many(0)


def test_put_many_sends_nothing_when_one_cannot_be_sent() -> None:
    with Queue(5) as queue:
        with pytest.raises(Exception, match="pickle"):
            queue.put_many([1, threading.Lock(), 2])
        assert queue.empty()
        assert queue.statistics().sent == 0


class Unreadable:
    """Can be sent; raises where it arrives."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("not a number",)


def test_get_many_loses_nothing_before_what_cannot_be_read() -> None:
    with Queue(5) as queue:
        queue.put_many([1, 2, Unreadable(), 3])
        assert queue.get_many(10) == [1, 2]
        with pytest.raises(ValueError, match="not a number"):
            queue.get()
        assert queue.get_many(10) == [3]
        queue.put_many([Unreadable(), 4])
        with pytest.raises(ValueError, match="not a number"):
            queue.get_many(10)
        assert queue.get() == 4


def test_a_message_keeps_its_memory() -> None:
    with Queue(4) as queue:
        queue.put(st.full((1000,), 3.0))
        other = [st.zeros(1000) for _ in range(50)]
        result = queue.get()
        assert float(result.sum()) == 3000.0
        del other


def test_closed_here() -> None:
    queue = Queue(2)
    queue.close()
    for call in (
        lambda: queue.put(1),
        queue.get,
        lambda: queue.put_many([1]),
        lambda: queue.get_many(1),
        queue.statistics,
        queue.check,
        queue.shutdown,
    ):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_after_shutdown_what_is_left_can_be_got() -> None:
    with Queue(4) as queue:
        queue.put_many([1, 2])
        queue.shutdown()
        queue.shutdown()
        assert queue.statistics().is_shut_down
        with pytest.raises(ShutDown):
            queue.put(3)
        with pytest.raises(ShutDown):
            queue.put_many([3])
        assert queue.get() == 1
        assert queue.get_many(5) == [2]
        with pytest.raises(ShutDown):
            queue.get()
        with pytest.raises(ShutDown):
            queue.get_many(2, timeout=5.0)
        assert queue.statistics().sent == 2


def test_immediate_shutdown_gives_up_what_is_left() -> None:
    with Queue(4) as queue:
        queue.put_many([st.ones(3), 2])
        queue.shutdown(immediate=True)
        with pytest.raises(ShutDown):
            queue.get()
        s = queue.statistics()
        assert (s.sent, s.waiting) == (2, 0)
        queue.check()


def test_shutdown_wakes_everybody() -> None:
    queue, full = Queue(2), Queue(1)
    full.put(0)
    ends: list[str] = []

    def wait(call: Any) -> None:
        try:
            call()
        except ShutDown as error:
            ends.append(str(error))

    threads = [threading.Thread(target=wait, args=(queue.get,)) for _ in range(2)]
    threads += [threading.Thread(target=wait, args=(lambda: full.put(1),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    while queue.statistics().getters < 2 or full.statistics().putters < 2:
        time.sleep(0.001)
    queue.shutdown()
    full.shutdown()
    for thread in threads:
        thread.join(20)
    assert len(ends) == 4
    queue.close()
    full.close()


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_every_start_method(method: str) -> None:
    context = mp.get_context(method)
    inbox, outbox = Queue(4), Queue(4)
    process = context.Process(target=double_all, args=(inbox, outbox))
    process.start()
    message = [st.full((3,), float(i)) for i in range(10)]
    for x in message:
        inbox.put({"x": x, "row": (1, "a", None)})
        assert outbox.get(timeout=60.0)["row"] == (1, "a", None)
    assert [float(x[0]) for x in message] == [2.0 * i for i in range(10)]
    inbox.shutdown()
    process.join(60)
    assert process.exitcode == 0
    if method == "forkserver":
        from shmtensor.multiprocessing.forkserver import server

        server.stop()
    for queue in (inbox, outbox):
        queue.close()


def test_a_queue_travels_through_another() -> None:
    channel, back = Queue(2), Queue(2)
    process = mp.get_context("fork").Process(target=put_and_report, args=(channel,))
    process.start()
    channel.put(back)
    assert back.get(timeout=60.0) == "from the child"
    process.join(60)
    for queue in (channel, back):
        queue.close()


def test_many_producers_and_consumers() -> None:
    queue, out = Queue(8), Queue(64)
    n, writers, readers = 300, 3, 3

    def write(number: int) -> None:
        for i in range(0, n, 3):
            assert queue.put_many([(number, i), (number, i + 1), (number, i + 2)]) == 3

    def read() -> None:
        try:
            while True:
                out.put_many(queue.get_many(5, timeout=60.0))
        except ShutDown:
            return

    context = mp.get_context("fork")
    senders = [context.Process(target=write, args=(k,)) for k in range(writers)]
    takers = [context.Process(target=read) for _ in range(readers)]
    for process in senders + takers:
        process.start()
    result = [out.get(timeout=60.0) for _ in range(n * writers)]
    for process in senders:
        process.join(60)
    queue.shutdown()
    children_end(takers)
    assert sorted(result) == [(k, i) for k in range(writers) for i in range(n)]
    s = queue.statistics()
    assert (s.sent, s.received, s.waiting, s.writing) == (n * writers, n * writers, 0, 0)
    for q in (queue, out):
        q.check()
        q.close()


def test_a_watched_process_that_dies_ends_the_wait() -> None:
    queue = Queue(2)
    process = mp.get_context("fork").Process(target=lambda: 1 / 0)
    process.start()
    with pytest.raises(st.errors.PeerLostError, match="exited with code 1"):
        queue.get_many(3, watch=[process])
    with pytest.raises(st.errors.PeerLostError, match="exited with code 1"):
        queue.get(watch=[process])
    process.join()
    queue.close()
