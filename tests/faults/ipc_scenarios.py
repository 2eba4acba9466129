"""Scenarios of channels, locks and groups, and of joining the domain."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from memory.fresh import has_ended, state_of, until

from shmtensor import memory, native
from shmtensor.errors import CollectiveTimeout, PeerLostError, ShutDown
from shmtensor.trainer.progress_board import ProgressBoard

from .harness import PATIENCE, Harness, fork, reap

SOURCES = str(Path(native.__file__).resolve().parents[2])


def block(value: int) -> np.ndarray:
    x = np.frombuffer(native.allocate(4096, shared=True), np.int64)
    x[:] = value
    return x


def drained(channel: native.Channel) -> list[bytes]:
    """All messages, those of dead readers included; what they carry is whole."""
    result: list[bytes] = []
    end = time.monotonic() + PATIENCE
    while message := channel.get(0.05):
        data, blocks = bytes(message[0]).rstrip(), message[1]
        for block in blocks:
            x = np.frombuffer(block, np.int64)
            assert (x == int(data.split()[-1])).all(), data
        result.append(data)
        assert time.monotonic() < end, "the channel never ends"
    return result


# ---- channel
def channel(harness: Harness) -> None:
    """Puts, small and large, with blocks and without, over several segments; gets; more puts."""
    channel = native.Channel()
    log = os.pipe()
    os.set_blocking(log[0], False)

    def send(i: int) -> None:
        x = block(i)
        data = b"v %d" % i
        channel.put(data + b" " * (2000 if i % 5 == 0 else 0), [x, x] if i % 3 == 0 else [], None)
        os.write(log[1], b"+%06d" % i)

    def act() -> None:
        for i in range(70):
            send(i)
        for _ in range(66):
            message = channel.get(0.0)
            assert message is not None
            os.write(log[1], b"-%06d" % int(bytes(message[0]).split()[1]))
        for i in range(70, 150):
            send(i)

    harness.victim(act)
    channel.put(b"mine 1", [block(1)], None)
    numbers: dict[bytes, list[int]] = {b"+": [], b"-": []}
    with contextlib.suppress(BlockingIOError):
        while entry := os.read(log[0], 7):
            numbers[entry[:1]].append(int(entry[1:]))
    remaining = drained(channel)
    theirs = [int(data.split()[1]) for data in remaining if data[:1] == b"v"]
    assert b"mine 1" in remaining
    assert len(theirs) == len(set(theirs)), "a message came twice"
    assert theirs == sorted(theirs) or harness.code == -9  # one given back comes late
    # What was put is there, but for what the victim got; one more may have gone with it.
    missing = set(numbers[b"+"]) - set(numbers[b"-"]) - set(theirs)
    assert len(missing) <= (harness.code == -9), missing
    assert not set(numbers[b"-"]) & set(theirs)
    assert channel.size() == 0
    for fd in log:
        os.close(fd)


def tending(harness: Harness) -> None:
    """What dead writers and readers left half done is finished by whoever comes."""
    channel = native.Channel()
    shared_block = block(7)

    def dies(point: str, deed: Callable[[], object]) -> None:
        def run() -> None:
            native.arm_fault(point)
            deed()

        assert reap(fork(run)) == -9

    def write(text: bytes) -> None:
        channel.put(text, [shared_block], None)

    dies("channel.put.written", lambda: write(b"dead 7"))
    dies("channel.put.written", lambda: write(b"dead 7" + b" " * 3000))
    for text in (b"taken 7", b"back 7", b"large 7" + b" " * 3000, b"last 7"):
        write(text)
    dies("channel.get.done", lambda: channel.get(None))
    dies("channel.get.claimed", lambda: channel.get(None))

    log = os.pipe()
    os.set_blocking(log[0], False)

    def act() -> None:
        while message := channel.get(0.1):
            os.write(log[1], bytes(message[0])[:4])

    harness.victim(act)
    write(b"after 7")
    result = [data[:4] for data in drained(channel)]
    with contextlib.suppress(BlockingIOError):
        while entry := os.read(log[0], 4):
            result.append(entry)
    assert len(result) == len(set(result)), result
    # A reader that was killed loses at most the message that it had, and only after DONE.
    missing = {b"back", b"larg", b"last", b"afte"} ^ set(result)
    assert len(missing) <= (harness.code == -9), result
    assert channel.size() == 0
    for fd in log:
        os.close(fd)


def bounded(harness: Harness) -> None:
    """A bounded channel gives the room of the dead back."""
    channel = native.Channel(3)

    def act() -> None:
        for i in range(3):
            assert channel.put(b"%d" % i, [], 5.0)
        assert not channel.put(b"3", [], 0.0)
        assert channel.get(1.0)

    harness.victim(act)
    drained(channel)
    for i in range(3):
        assert channel.put(b"%d" % i, [], PATIENCE)
    assert not channel.put(b"3", [], 0.0)


def tasks(harness: Harness) -> None:
    """Messages are taken and said to be done while somebody waits for the last of them: the wait
    ends, or names who took one and will not say so."""
    channel = native.Channel(joinable=True)
    for i in range(3):
        channel.put(b"v %d" % i, [], None)

    def wait() -> int:
        end = time.monotonic() + PATIENCE
        while not channel.join(0.05):
            try:
                channel.check_debtors()
            except PeerLostError:
                return 3
            assert time.monotonic() < end, "join hangs"
        return 0

    waiter = fork(wait)

    def act() -> None:
        for _ in range(3):
            assert channel.get(0.0)
            channel.task_done()

    harness.victim(act)
    remaining = drained(channel)
    for _ in remaining:  # what the dead one never took, or was given back
        channel.task_done()
    code = reap(waiter)
    assert code in ((0, 3) if harness.code == -9 else (0,)), code


def check_shut_down(road: native.Channel) -> None:
    """Whoever comes after the end is told, and nothing is left."""
    for call in (lambda: road.get(PATIENCE), lambda: road.put(b"late", [], PATIENCE)):
        try:
            call()
        except ShutDown:
            continue
        raise AssertionError("nobody said that the end had come")
    assert road.size() == 0
    assert road.check() is None


def ending(harness: Harness) -> None:
    """The end is said, first to the writers, then to all; what is left is given up."""
    channel = native.Channel()

    def act() -> None:
        for i in range(3):
            channel.put(b"v %d" % i, [block(i)], None)
        channel.shut_down(False)
        assert channel.get(0.0)
        channel.shut_down(True)

    harness.victim(act)
    channel.shut_down(True)
    check_shut_down(channel)


def refused(harness: Harness) -> None:
    """The end is said while a writer has claimed its cell: it gives the cell up."""
    channel = native.Channel()

    def act() -> None:
        with contextlib.suppress(ShutDown):
            channel.put(b"late", [block(1)], None)
            raise AssertionError("a message was put after the end")

    def before(victim: int) -> None:
        until(lambda: state_of(victim) in "TZ", "no victim")
        channel.shut_down(False)
        os.kill(victim, signal.SIGCONT)

    harness.victim(act, before, "channel.put.writing:1:stop;")
    check_shut_down(channel)


def unsendable(harness: Harness) -> None:
    """The pin of a message's second block is refused: the put fails, and its cell is given up."""
    channel = native.Channel()

    def act() -> None:
        for size in (1, 3000):
            with contextlib.suppress(ValueError):
                channel.put(b"v 1" + b" " * size, [block(1), np.zeros(8)], None)
                raise AssertionError("private memory was sent")
        channel.put(b"v 2", [block(2)], None)

    harness.victim(act)
    channel.put(b"mine 3", [block(3)], None)
    assert drained(channel) in ([b"v 2", b"mine 3"], *([[b"mine 3"]] if harness.code == -9 else []))
    assert channel.size() == 0
    assert channel.check() is None


def voided(harness: Harness) -> None:
    """A channel is gone before its messages were read: their pins are void and free again."""

    def act() -> None:
        references = block(5)
        channel = native.Channel()
        channel.put(b"v 5", [references], None)
        del channel
        memory.trim()
        assert memory.statistics().unread_messages == 0
        assert (references == 5).all()
        memory.check()

    harness.victim(act)


# ---- locks
def loose(harness: Harness) -> None:
    """A semaphore that counts signals, which nobody owns: those of the dead stay as they are."""
    semaphore = native.allocate(64, shared=True)
    native.semaphore_start(semaphore, 0, False)

    def act() -> None:
        native.semaphore_release(semaphore, 2)
        assert native.semaphore_acquire(semaphore, 0.0)
        assert native.semaphore_acquire(semaphore, 0.0)

    harness.victim(act)
    remaining = 0
    while native.semaphore_acquire(semaphore, 0.0):
        remaining += 1
    assert remaining <= (2 if harness.code == -9 else 0), remaining
    native.semaphore_release(semaphore, 1)
    assert native.semaphore_acquire(semaphore, PATIENCE)


def counting(harness: Harness) -> None:
    """A rank that dies while it changes its shard leaves a word that says so."""
    board = ProgressBoard.create(2)
    board.start(0)

    def act() -> None:
        board.start(1)
        board.begin_update(1)
        board.end_update(1)

    harness.victim(act)
    words = board.read()
    assert words in ([0, 0], [2, 0], [2, 2], [2, 3], [2, 4]), words
    full = {(0, 0): 0, (2, 2): 1}.get((words[0], words[1]))
    assert board.complete_step() == full


def locks(harness: Harness) -> None:
    """A lock, free and held and left by a dead holder; a semaphore; a condition."""
    lock, remaining, busy = (native.allocate(native.LOCK_NBYTES, shared=True) for _ in range(3))
    semaphore, bounded_semaphore = (native.allocate(64 + 8 * 2, shared=True) for _ in range(2))
    condition = native.allocate(native.CONDITION_NBYTES, shared=True)
    native.semaphore_start(semaphore, 2, False)
    native.semaphore_start(bounded_semaphore, 1, True)

    def take_and_die() -> None:
        native.lock_acquire(remaining, None, False)
        native.semaphore_acquire(bounded_semaphore, None)
        os.kill(os.getpid(), 9)

    holder = fork(take_and_die)
    assert reap(holder) == -9
    native.lock_acquire(busy, None, False)
    waiting_pipe = os.pipe()

    def wait_long() -> None:
        place = native.condition_enter(condition)
        os.write(waiting_pipe[1], b"x")
        while native.condition_sleep(condition, place, 1.0) is False:
            place = native.condition_enter(condition)

    waiter = fork(wait_long)
    os.read(waiting_pipe[0], 1)

    def act() -> None:
        assert native.lock_acquire(lock, None, False)
        native.lock_release(lock, False)
        assert not native.lock_acquire(busy, 0.01, False)
        with contextlib.suppress(PeerLostError):
            native.lock_acquire(remaining, 1.0, False)
        assert native.lock_recover(remaining, 1.0, False)
        native.lock_release(remaining, False)
        assert native.semaphore_acquire(semaphore, None)
        assert native.semaphore_acquire(semaphore, None)
        assert not native.semaphore_acquire(semaphore, 0.01)
        native.semaphore_release(semaphore, 2)
        assert native.semaphore_acquire(bounded_semaphore, PATIENCE)
        native.semaphore_release(bounded_semaphore, 1)
        place = native.condition_enter(condition)
        native.condition_sleep(condition, place, 0.001)
        native.condition_notify(condition, 1)

    harness.victim(act)
    for each in (lock, remaining):
        try:
            free = native.lock_acquire(each, PATIENCE, False)
        except PeerLostError:  # the victim had it: it says so, and can be taken
            assert harness.code == -9 or each is remaining
            free = native.lock_recover(each, PATIENCE, False)
        assert free
        native.lock_release(each, False)
    native.lock_release(busy, False)
    # What the dead held of a semaphore is back, and counts once.
    for each, n in ((semaphore, 2), (bounded_semaphore, 1)):
        assert all(native.semaphore_acquire(each, PATIENCE) for _ in range(n))
        assert not native.semaphore_acquire(each, 0.0)
    # A killed waiter or notifier takes no notification away from the living.
    end = time.monotonic() + PATIENCE
    while not has_ended(waiter[0]):
        native.condition_notify(condition, 1)
        assert time.monotonic() < end, "the waiter of the condition hangs"
        time.sleep(0.002)
    assert reap(waiter) == 0
    for fd in waiting_pipe:
        os.close(fd)


# ---- group
def group(harness: Harness) -> None:
    """Two ranks meet, reduce small and large arrays, send and receive; the other is told."""
    words = native.allocate(native.group_nbytes(2), shared=True)
    ready = os.pipe()

    def rank(i: int) -> None:
        small, large = block(i + 1)[:8], np.frombuffer(native.allocate(1 << 20, shared=True))
        meeting = native.Group(words, i, 2)
        if i == 0:
            os.write(ready[1], b"x")
        meeting.barrier(PATIENCE)
        meeting.all_reduce(small, 0, PATIENCE)
        assert (small == 3).all()
        meeting.all_reduce(large, 0, PATIENCE)
        if i == 0:
            meeting.recv(small, 1, 0, PATIENCE)
            meeting.send(small, 1, 0, PATIENCE)
        else:
            meeting.send(small, 0, 0, PATIENCE)
            meeting.recv(small, 0, 0, PATIENCE)
        meeting.leave()

    def survivor() -> int:
        try:
            rank(0)
        except PeerLostError:
            return 3
        return 0

    other = fork(survivor)
    os.read(ready[0], 1)
    harness.victim(lambda: rank(1))
    assert reap(other) in ((0, 3) if harness.code == -9 else (0,))
    for fd in ready:
        os.close(fd)


def entering(harness: Harness) -> None:
    """A rank dies while it enters: the other waits to its timeout, or is told."""
    words = native.allocate(native.group_nbytes(2), shared=True)
    timeout = PATIENCE if harness.specification == "?" else 0.2

    def survivor() -> int:
        try:
            native.Group(words, 0, 2).barrier(timeout)
        except (PeerLostError, CollectiveTimeout):
            return 3
        return 0

    other = fork(survivor)
    harness.victim(lambda: native.Group(words, 1, 2).barrier(timeout))
    assert reap(other) in ((0, 3) if harness.code == -9 else (0,))


def giving_up(harness: Harness) -> None:
    """A rank gives up at its timeout, and dies of it or not: whoever waits for it is told."""
    words = native.allocate(native.group_nbytes(2), shared=True)
    ready = os.pipe()

    def survivor() -> int:
        meeting = native.Group(words, 0, 2)
        os.write(ready[1], b"x")
        try:
            meeting.recv(block(1), 1, 0, PATIENCE)
        except (PeerLostError, CollectiveTimeout):
            return 3
        return 0

    other = fork(survivor)
    os.read(ready[0], 1)

    def act() -> None:
        with contextlib.suppress(CollectiveTimeout):
            native.Group(words, 1, 2).barrier(0.05)
            raise AssertionError("nobody else was there")

    harness.victim(act)
    assert reap(other) == 3
    for fd in ready:
        os.close(fd)


# ---- a newcomer makes a domain, or joins this one
def newcomer(harness: Harness, domain: str) -> None:
    code = (
        f"import sys; sys.path.insert(0, {SOURCES!r})\n"
        "import json\n"
        "from shmtensor import native\n"
        "native.domain_ensure()\n"
        "print(json.dumps(native.fault_points()))\n"
    )
    environment = {
        **os.environ,
        "SHMTENSOR_DOMAIN": domain,
        "SHMTENSOR_FAULT": harness.specification,
    }
    command = [sys.executable, "-c", code]
    process = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    if harness.specification == "?":
        assert process.returncode == 0, process.stderr
        harness.point_counts = json.loads(process.stdout)
    else:
        assert process.returncode == -9, (process.returncode, process.stderr)
        harness.point_counts = {harness.point: 1}
    if domain == "new":  # the next newcomer takes away what was left
        environment["SHMTENSOR_FAULT"] = ""
        left = {name for name in os.listdir("/dev/shm") if name.startswith("shmtensor-")}
        subprocess.run(command, env=environment, capture_output=True, check=True, timeout=PATIENCE)
        assert not left & set(os.listdir("/dev/shm"))


def making(harness: Harness) -> None:
    """A process makes a domain of its own."""
    newcomer(harness, "new")


def joining(harness: Harness) -> None:
    """A stranger joins this domain."""
    newcomer(harness, memory.domain_environment())


SCENARIOS: dict[str, Callable[[Harness], None]] = {
    scenario.__name__: scenario
    for scenario in (
        channel, tending, bounded, tasks, ending, refused, unsendable, voided, locks, loose,
        counting, group, entering, giving_up, making, joining,
    )
}  # fmt: skip
