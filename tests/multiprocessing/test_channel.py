"""The channel: order, sizes, bound, growth, several processes."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from shmtensor import native
from shmtensor.errors import PeerLostError


def in_child(deed: Callable[[], None]) -> int:
    """Runs `deed` in a forked child; its pid. The child never comes back."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            deed()
            code = 0
        finally:
            os._exit(code)
    return pid


def end_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed_at(point: str, deed: Callable[[], object]) -> None:
    """Runs `deed` in a child that is killed at a fault point of it; reaped, and not told to the
    ledger."""

    def run() -> None:
        native.arm_fault(point)
        deed()

    assert end_of(in_child(run)) == -signal.SIGKILL


def shared_array(n: int = 16, value: float = 1.0) -> np.ndarray:
    array = np.frombuffer(native.allocate(8 * n, shared=True), np.float64)
    array[:] = value
    return array


def test_messages_come_in_order() -> None:
    channel = native.Channel()
    for i in range(1000):
        assert channel.put(str(i).encode(), [], None)
    assert channel.size() == 1000
    assert [int(channel.get(0.0)[0]) for _ in range(1000)] == list(range(1000))
    assert channel.get(0.0) is None


@pytest.mark.parametrize("nbytes", [0, 1, 400, 487, 488, 489, 512, 10_000, 3_000_000])
@pytest.mark.parametrize("n", [0, 1, 3, 40])
def test_nothing_depends_on_size(nbytes: int, n: int) -> None:
    channel = native.Channel()
    data = os.urandom(nbytes)
    arrays = [shared_array(value=i) for i in range(n)]
    assert channel.put(data, arrays, None)
    result, blocks = channel.get(1.0)
    assert bytes(result) == data
    assert [np.frombuffer(block, np.float64)[0] for block in blocks] == list(range(n))
    assert [block.address for block in blocks] == [native.block_of(array)[0] for array in arrays]


def test_an_array_that_is_not_shared_is_refused_and_the_channel_goes_on() -> None:
    channel = native.Channel()
    with pytest.raises((ValueError, RuntimeError)):
        channel.put(b"x", [np.ones(3)], None)
    channel.put(b"y", [], None)
    assert channel.get(0.0)[0] == b"y"


def test_bound_is_exact() -> None:
    channel = native.Channel(3)
    assert [channel.put(b"", [], 0.0) for _ in range(5)] == [True, True, True, False, False]
    assert channel.full()
    assert not channel.put(b"", [], 0.05)
    channel.get(0.0)
    assert not channel.full()
    assert channel.put(b"", [], 0.0)
    for _ in range(500):
        channel.get(0.0)
        assert channel.put(b"", [], 0.0)
        assert not channel.put(b"", [], 0.0)


def test_get_waits_for_its_time_and_no_longer() -> None:
    channel = native.Channel()
    assert channel.get(0.12) is None
    assert channel.get(-1.0) is None


def test_the_block_is_all_that_another_object_needs() -> None:
    channel = native.Channel()
    other = native.Channel(block=channel.block)
    other.put(b"a", [], None)
    assert channel.get(0.0)[0] == b"a"
    with pytest.raises(ValueError, match="not a channel"):
        native.Channel(block=native.allocate(4096, shared=True))


def test_a_closed_channel_says_so() -> None:
    channel = native.Channel()
    channel.close()
    with pytest.raises(ValueError, match="closed"):
        channel.put(b"", [], None)
    with pytest.raises(ValueError, match="closed"):
        channel.get(0.0)


def test_unread_messages_hold_their_blocks_and_let_them_go_with_the_channel() -> None:
    channel = native.Channel()
    array = shared_array(1 << 20)
    address = native.block_of(array)[0]
    channel.put(b"", [array], None)
    del array
    channel.put(b"", [shared_array(1 << 20)], None)
    _, (block,) = channel.get(0.0)
    assert block.address == address  # nobody used it meanwhile


def test_tasks_are_counted() -> None:
    channel = native.Channel()
    assert channel.join(0.0)
    with pytest.raises(ValueError, match="too many"):
        channel.task_done()
    for _ in range(130):
        channel.put(b"", [], None)
    for _ in range(130):
        assert not channel.join(0.0)
        channel.get(0.0)
        channel.task_done()
    assert channel.join(0.0)


def test_each_message_reaches_one_reader() -> None:
    channel, results = native.Channel(), native.Channel()
    per_writer = 700

    def write(number: int) -> None:
        for i in range(per_writer):
            channel.put(f"{number} {i}".encode() + b" " * (i % 700), [], None)

    def read() -> None:
        last: dict[int, int] = {}
        while (message := channel.get(20.0)) and bytes(message[0]) != b"end":
            number, i = map(int, bytes(message[0]).split())
            assert last.get(number, -1) < i  # each writer's own order
            last[number] = i
            results.put(f"{number} {i}".encode(), [], None)

    writers = [in_child(lambda number=number: write(number)) for number in range(3)]
    readers = [in_child(read) for _ in range(2)]
    assert [end_of(pid) for pid in writers] == [0, 0, 0]
    for _ in readers:
        channel.put(b"end", [], None)
    assert [end_of(pid) for pid in readers] == [0, 0]
    result = Counter()
    while message := results.get(0.0):
        result[bytes(message[0])] += 1
    assert len(result) == 3 * per_writer
    assert set(result.values()) == {1}


def test_bounded_between_processes() -> None:
    channel = native.Channel(4)

    def write() -> None:
        for i in range(300):
            assert channel.put(str(i).encode(), [], 20.0)

    pid = in_child(write)
    for i in range(300):
        assert channel.size() <= 4
        assert int(channel.get(20.0)[0]) == i
    assert end_of(pid) == 0


def test_a_wait_with_a_dead_peer_names_it() -> None:
    channel, ready = native.Channel(), native.Channel()

    def wait() -> None:
        native.set_role("the writer")
        ready.put(repr(native.row()).encode(), [], None)
        signal.pause()

    pid = in_child(wait)
    row, inc = eval(bytes(ready.get(20.0)[0]))
    os.kill(pid, signal.SIGKILL)
    native_code = end_of(pid)
    native.record_exit(row, inc, native_code)
    with pytest.raises(PeerLostError, match=r"the writer .*SIGKILL") as caught:
        channel.get(20.0, [(row, inc)])
    assert caught.value.pid == pid
    assert caught.value.exitcode == -signal.SIGKILL
