"""A process killed at each step of st.Queue's protocol loses what it alone had, and blocks
nobody."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter

import pytest
from test_channel import end_of, in_child, killed_at
from test_channel_faults import READER, WRITER, unread_blocks

import shmtensor as st
from shmtensor import native
from shmtensor.errors import ShutDown
from shmtensor.queue import Empty, Queue

TAKEN = ("channel.get.done", "channel.get.released")


def rest_of(queue: Queue, seconds: float = 20.0) -> list[int]:
    """All messages until the end, as the number in each one's tensor."""
    result = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            result += [int(tensor[0]) for tensor in queue.get_many(50, timeout=5.0)]
        except ShutDown:
            return result
    raise TimeoutError(f"the end did not come: {queue.statistics()}")


def numbered(n: int, first: int = 0) -> list[st.Tensor]:
    return [st.full((20,), float(i)) for i in range(first, first + n)]


@pytest.mark.parametrize("point", WRITER)
def test_killed_producer(point: str) -> None:
    with Queue(4) as queue:
        queue.put(st.full((20,), 0.0))
        killed_at(point, lambda: queue.put(st.full((20,), 1.0)))
        assert queue.put_many(numbered(2, 2), timeout=20.0) == 2
        queue.shutdown()
        received = point == "channel.put.ready"
        assert rest_of(queue) == ([0, 1, 2, 3] if received else [0, 2, 3])
        s = queue.statistics()
        assert (s.sent, s.received, s.given_up) == ((4, 4, 0) if received else (3, 3, 1))
        queue.check()


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("point", READER)
def test_killed_consumer(point: str, many: bool) -> None:
    with Queue(8) as queue:
        before = unread_blocks()
        queue.put_many(numbered(5))
        killed_at(point, lambda: queue.get_many(5) if many else queue.get())
        queue.shutdown()
        assert sorted(rest_of(queue)) == ([1, 2, 3, 4] if point in TAKEN else [0, 1, 2, 3, 4])
        assert queue.statistics().received == 5
        queue.check()
        assert unread_blocks() <= before


def test_killed_between_closing_the_queue_and_saying_so() -> None:
    with Queue(2) as queue:
        queue.put(1)
        killed_at("channel.shutdown.said", queue.shutdown)
        with pytest.raises(ShutDown):
            queue.put(2)
        assert queue.get() == 1
        with pytest.raises(ShutDown):
            queue.get()


@pytest.mark.parametrize("point", READER)
def test_killed_while_it_gives_up_what_is_left(point: str) -> None:
    with Queue(8) as queue:
        before = unread_blocks()
        queue.put_many(numbered(5))
        killed_at(point, lambda: queue.shutdown(immediate=True))
        with pytest.raises(ShutDown):
            queue.get()
        queue.shutdown(immediate=True)
        assert queue.statistics().waiting == 0
        assert unread_blocks() <= before


def test_killed_when_its_put_is_refused() -> None:
    with Queue(4) as queue:

        def run() -> None:
            native.arm_fault("channel.put.writing:1:stop")
            queue.put(1)

        pid = in_child(run)
        os.waitpid(pid, os.WUNTRACED)  # it has claimed its place, and the end is said meanwhile
        queue.shutdown()
        with pytest.raises(Empty):  # it may still send
            queue.get(timeout=0.05)
        os.kill(pid, signal.SIGCONT)
        with pytest.raises(ShutDown):
            queue.get(timeout=20.0)
        assert end_of(pid) == 1  # ShutDown there, too
        assert queue.statistics().sent == 0
    with Queue(4) as queue:

        def die() -> None:
            native.arm_fault("channel.put.refused")
            while True:
                queue.put(1, timeout=20.0)
                if queue.full():
                    queue.get()

        pid = in_child(die)
        while not queue.statistics().sent:
            time.sleep(0.001)
        queue.shutdown()
        code = end_of(pid)
        assert code in (1, -signal.SIGKILL)  # refused before or after it had claimed a place
        while True:
            try:
                queue.get(timeout=20.0)
            except ShutDown:
                break
        queue.check()


def test_a_dying_waiter_takes_nothing_along() -> None:
    with Queue(1) as queue:
        pid = in_child(lambda: queue.get())
        while not queue.statistics().getters:
            time.sleep(0.001)
        os.kill(pid, signal.SIGKILL)
        end_of(pid)
        queue.put(1, timeout=20.0)
        pid = in_child(lambda: queue.put(2))
        while not queue.statistics().putters:
            time.sleep(0.001)
        os.kill(pid, signal.SIGKILL)
        end_of(pid)
        assert queue.get(timeout=20.0) == 1
        queue.put(3, timeout=20.0)
        assert queue.get(timeout=20.0) == 3


def storm(kills: int, rng: random.Random) -> None:
    """Producers and consumers killed at random; contents are checked by who takes them."""
    queue, out = Queue(16), Queue(4096)
    n = 400

    def write(number: int, count: int) -> None:
        for i in range(0, count, 2):
            pair = [
                {"id": (number, i + k), "x": st.full((50 * (i % 7 + 1),), float(number * 1000 + i))}
                for k in range(2)
            ]
            queue.put_many(pair)

    def read() -> None:
        try:
            while True:
                for message in queue.get_many(3):
                    number, i = message["id"]
                    assert float(message["x"].min()) == float(message["x"].max())
                    assert float(message["x"][0]) == number * 1000 + i - i % 2
                    out.put((number, i))
        except ShutDown:
            return

    survivors = [in_child(lambda k=k: write(k, n)) for k in range(2)]
    writers = [in_child(lambda k=k: write(k, 1 << 30)) for k in (2, 3)]
    readers = [in_child(read) for _ in range(3)]
    result: list[tuple[int, int]] = []
    for kill in range(kills):
        end = time.monotonic() + rng.uniform(0.0, 0.05)
        while time.monotonic() < end:
            result += take(out, 0.01)
        group = readers if kill % 2 else writers
        k = rng.randrange(len(group))
        os.kill(group[k], signal.SIGKILL)
        end_of(group[k])
        group[k] = in_child(read if kill % 2 else lambda kill=kill: write(4 + kill, 1 << 30))
    for pid in writers:
        os.kill(pid, signal.SIGKILL)
        end_of(pid)
    while survivors:
        result += take(out, 0.01)
        pid, status = os.waitpid(survivors[0], os.WNOHANG)
        if pid:
            assert status == 0
            survivors.pop(0)
    queue.shutdown()
    while readers:
        result += take(out, 0.01)
        pid, status = os.waitpid(readers[0], os.WNOHANG)
        if pid:
            assert status == 0, "a reader met wrong contents"
            readers.pop(0)
    result += take(out, 0.0)
    twice = [message for message, times in Counter(result).items() if times > 1]
    assert not twice
    missing = 2 * n - sum(number < 2 for number, _ in result)
    # A consumer killed between taking messages and passing them on has them: three for each kill.
    assert missing <= 3 * ((kills + 1) // 2)
    s = queue.statistics()
    assert s.waiting == s.reading == s.writing == 0
    assert s.sent == s.received
    assert 0 <= s.sent - len(result) <= 3 * kills
    for q in (queue, out):
        q.check()
        q.close()
    native.sweep(True)
    assert native.check() is None


def take(queue: Queue, seconds: float) -> list[tuple[int, int]]:
    """What is there, or comes in that time."""
    try:
        return queue.get_many(1000, timeout=seconds)
    except Empty:
        return []


def test_random_kills_lose_only_what_the_dead_had() -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    storm(16, random.Random(seed))
