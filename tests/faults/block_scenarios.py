"""Scenarios of objects in shared blocks: channels, locks, groups; and of joining the domain."""

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

from shmtensor import memory, native
from shmtensor.errors import CollectiveTimeout, PeerLostError, ShutDown
from shmtensor.trainer.progress_board import ProgressBoard

from .scenarios import state_of
from .stage import PATIENCE, Stage, fork, has_ended, reap, until

SOURCES = str(Path(native.__file__).resolve().parents[2])


def block(value: int) -> np.ndarray:
    x = np.frombuffer(native.allocate(4096, shared=True), np.int64)
    x[:] = value
    return x


def drained(channel: native.Channel) -> list[bytes]:
    """All messages, including those of dead readers; checks that their blocks are intact."""
    texts: list[bytes] = []
    end = time.monotonic() + PATIENCE
    while message := channel.get(0.05):
        data, blocks = bytes(message[0]).rstrip(), message[1]
        for block in blocks:
            x = np.frombuffer(block, np.int64)
            assert (x == int(data.split()[-1])).all(), data
        texts.append(data)
        assert time.monotonic() < end, "the channel never ends"
    return texts


# ---- channel
def channel(stage: Stage) -> None:
    """Puts, small and large, with blocks and without, over several segments; gets; more puts."""
    channel = native.Channel()
    log = os.pipe()
    os.set_blocking(log[0], False)

    def put_one(i: int) -> None:
        x = block(i)
        data = b"v %d" % i
        channel.put(data + b" " * (2000 if i % 5 == 0 else 0), [x, x] if i % 3 == 0 else [], None)
        os.write(log[1], b"+%06d" % i)

    def act() -> None:
        for i in range(70):
            put_one(i)
        for _ in range(66):
            message = channel.get(0.0)
            assert message is not None
            os.write(log[1], b"-%06d" % int(bytes(message[0]).split()[1]))
        for i in range(70, 150):
            put_one(i)

    stage.victim(act)
    channel.put(b"mine 1", [block(1)], None)
    entries: dict[bytes, list[int]] = {b"+": [], b"-": []}
    with contextlib.suppress(BlockingIOError):
        while entry := os.read(log[0], 7):
            entries[entry[:1]].append(int(entry[1:]))
    remaining = drained(channel)
    theirs = [int(data.split()[1]) for data in remaining if data[:1] == b"v"]
    assert b"mine 1" in remaining
    assert len(theirs) == len(set(theirs)), "a message came twice"
    assert theirs == sorted(theirs) or stage.code == -9  # a returned message comes late
    # Every message is there except those that the victim got; one more may be lost with it.
    missing = set(entries[b"+"]) - set(entries[b"-"]) - set(theirs)
    assert len(missing) <= (stage.code == -9), missing
    assert not set(entries[b"-"]) & set(theirs)
    assert channel.size() == 0
    for fd in log:
        os.close(fd)


def tending(stage: Stage) -> None:
    """The next process completes what dead writers and readers left half done."""
    channel = native.Channel()
    block_sent = block(7)

    def dies(point: str, function: Callable[[], object]) -> None:
        def run() -> None:
            native.arm_fault(point)
            function()

        assert reap(fork(run)) == -9

    def write(text: bytes) -> None:
        channel.put(text, [block_sent], None)

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

    stage.victim(act)
    write(b"after 7")
    names = [data[:4] for data in drained(channel)]
    with contextlib.suppress(BlockingIOError):
        while entry := os.read(log[0], 4):
            names.append(entry)
    assert len(names) == len(set(names)), names
    # A killed reader loses at most the message that it had, and only after DONE.
    missing = {b"back", b"larg", b"last", b"afte"} ^ set(names)
    assert len(missing) <= (stage.code == -9), names
    assert channel.size() == 0
    for fd in log:
        os.close(fd)


def bounded(stage: Stage) -> None:
    """A bounded channel frees the room of dead writers."""
    channel = native.Channel(3)

    def act() -> None:
        for i in range(3):
            assert channel.put(b"%d" % i, [], 5.0)
        assert not channel.put(b"3", [], 0.0)
        assert channel.get(1.0)

    stage.victim(act)
    drained(channel)
    for i in range(3):
        assert channel.put(b"%d" % i, [], PATIENCE)
    assert not channel.put(b"3", [], 0.0)


def tasks(stage: Stage) -> None:
    """Messages are taken and reported done while a process waits for the last one: the wait ends,
    or names the process that took a message and died."""
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

    stage.victim(act)
    remaining = drained(channel)
    for _ in remaining:  # messages that the dead process never took, or that were returned
        channel.task_done()
    code = reap(waiter)
    assert code in ((0, 3) if stage.code == -9 else (0,)), code


def assert_shut_down(channel: native.Channel) -> None:
    """Calls after the shutdown raise, and nothing is left."""
    for call in (lambda: channel.get(PATIENCE), lambda: channel.put(b"late", [], PATIENCE)):
        try:
            call()
        except ShutDown:
            continue
        raise AssertionError("nobody said that the end had come")
    assert channel.size() == 0
    assert channel.check() is None


def ending(stage: Stage) -> None:
    """The channel is shut down, first for writers, then for all; remaining messages are dropped."""
    channel = native.Channel()

    def act() -> None:
        for i in range(3):
            channel.put(b"v %d" % i, [block(i)], None)
        channel.shut_down(False)
        assert channel.get(0.0)
        channel.shut_down(True)

    stage.victim(act)
    channel.shut_down(True)
    assert_shut_down(channel)


def refused(stage: Stage) -> None:
    """The channel is shut down while a writer has claimed its cell: it releases the cell."""
    channel = native.Channel()

    def act() -> None:
        with contextlib.suppress(ShutDown):
            channel.put(b"late", [block(1)], None)
            raise AssertionError("a message was put after the end")

    def before(victim: int) -> None:
        until(lambda: state_of(victim) in "TZ", "no victim")
        channel.shut_down(False)
        os.kill(victim, signal.SIGCONT)

    stage.victim(act, before, "channel.put.writing:1:stop;")
    assert_shut_down(channel)


def unsendable(stage: Stage) -> None:
    """The pin of a message's second block is refused: the put fails and releases its cell."""
    channel = native.Channel()

    def act() -> None:
        for size in (1, 3000):
            with contextlib.suppress(ValueError):
                channel.put(b"v 1" + b" " * size, [block(1), np.zeros(8)], None)
                raise AssertionError("private memory was sent")
        channel.put(b"v 2", [block(2)], None)

    stage.victim(act)
    channel.put(b"mine 3", [block(3)], None)
    assert drained(channel) in ([b"v 2", b"mine 3"], *([[b"mine 3"]] if stage.code == -9 else []))
    assert channel.size() == 0
    assert channel.check() is None


def voided(stage: Stage) -> None:
    """A channel ends before its messages are read: their pins are void and free again."""

    def act() -> None:
        sent = block(5)
        channel = native.Channel()
        channel.put(b"v 5", [sent], None)
        del channel
        memory.trim()
        assert memory.statistics().unread_messages == 0
        assert (sent == 5).all()
        memory.check()

    stage.victim(act)


# ---- locks
def loose(stage: Stage) -> None:
    """A semaphore counts signals that nobody owns: those of the dead stay."""
    semaphore = native.allocate(64, shared=True)
    native.semaphore_start(semaphore, 0, False)

    def act() -> None:
        native.semaphore_release(semaphore, 2)
        assert native.semaphore_acquire(semaphore, 0.0)
        assert native.semaphore_acquire(semaphore, 0.0)

    stage.victim(act)
    nleaked = 0
    while native.semaphore_acquire(semaphore, 0.0):
        nleaked += 1
    assert nleaked <= (2 if stage.code == -9 else 0), nleaked
    native.semaphore_release(semaphore, 1)
    assert native.semaphore_acquire(semaphore, PATIENCE)


def counting(stage: Stage) -> None:
    """A rank that dies while it changes its shard leaves a word that tells."""
    board = ProgressBoard.create(2)
    board.start(0)

    def act() -> None:
        board.start(1)
        board.begin_update(1)
        board.end_update(1)

    stage.victim(act)
    words = board.read()
    assert words in ([0, 0], [2, 0], [2, 2], [2, 3], [2, 4]), words
    expected = {(0, 0): 0, (2, 2): 1}.get((words[0], words[1]))
    assert board.whole_at() == expected


def locks(stage: Stage) -> None:
    """A lock that is free, held, and abandoned by a dead holder; a semaphore; a condition."""
    lock, abandoned, busy = (native.allocate(native.LOCK_NBYTES, shared=True) for _ in range(3))
    semaphore, exhausted = (native.allocate(64 + 8 * 2, shared=True) for _ in range(2))
    condition = native.allocate(native.CONDITION_NBYTES, shared=True)
    native.semaphore_start(semaphore, 2, False)
    native.semaphore_start(exhausted, 1, True)

    def take_and_die() -> None:
        native.lock_acquire(abandoned, None, False)
        native.semaphore_acquire(exhausted, None)
        os.kill(os.getpid(), 9)

    holder = fork(take_and_die)
    assert reap(holder) == -9
    native.lock_acquire(busy, None, False)
    wait_pipe = os.pipe()

    def wait_long() -> None:
        place = native.condition_enter(condition)
        os.write(wait_pipe[1], b"x")
        while native.condition_sleep(condition, place, 1.0) is False:
            place = native.condition_enter(condition)

    waiter = fork(wait_long)
    os.read(wait_pipe[0], 1)

    def act() -> None:
        assert native.lock_acquire(lock, None, False)
        native.lock_release(lock, False)
        assert not native.lock_acquire(busy, 0.01, False)
        with contextlib.suppress(PeerLostError):
            native.lock_acquire(abandoned, 1.0, False)
        assert native.lock_recover(abandoned, 1.0, False)
        native.lock_release(abandoned, False)
        assert native.semaphore_acquire(semaphore, None)
        assert native.semaphore_acquire(semaphore, None)
        assert not native.semaphore_acquire(semaphore, 0.01)
        native.semaphore_release(semaphore, 2)
        assert native.semaphore_acquire(exhausted, PATIENCE)
        native.semaphore_release(exhausted, 1)
        place = native.condition_enter(condition)
        native.condition_sleep(condition, place, 0.001)
        native.condition_notify(condition, 1)

    stage.victim(act)
    for each in (lock, abandoned):
        try:
            free = native.lock_acquire(each, PATIENCE, False)
        except (
            PeerLostError
        ):  # the victim had it: acquire reports the dead holder and takes the lock
            assert stage.code == -9 or each is abandoned
            free = native.lock_recover(each, PATIENCE, False)
        assert free
        native.lock_release(each, False)
    native.lock_release(busy, False)
    # A dead process's permits are returned, and count once.
    for each, n in ((semaphore, 2), (exhausted, 1)):
        assert all(native.semaphore_acquire(each, PATIENCE) for _ in range(n))
        assert not native.semaphore_acquire(each, 0.0)
    # A killed waiter or notifier does not consume a notification.
    end = time.monotonic() + PATIENCE
    while not has_ended(waiter[0]):
        native.condition_notify(condition, 1)
        assert time.monotonic() < end, "the waiter of the condition hangs"
        time.sleep(0.002)
    assert reap(waiter) == 0
    for fd in wait_pipe:
        os.close(fd)


# ---- group
def group(stage: Stage) -> None:
    """Two ranks meet, reduce small and large arrays, send and receive; a survivor gets an error."""
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
    stage.victim(lambda: rank(1))
    assert reap(other) in ((0, 3) if stage.code == -9 else (0,))
    for fd in ready:
        os.close(fd)


def entering(stage: Stage) -> None:
    """A rank dies while it enters: the other waits to its timeout, or gets an error."""
    words = native.allocate(native.group_nbytes(2), shared=True)
    timeout = PATIENCE if stage.specification == "?" else 0.2

    def survivor() -> int:
        try:
            native.Group(words, 0, 2).barrier(timeout)
        except (PeerLostError, CollectiveTimeout):
            return 3
        return 0

    other = fork(survivor)
    stage.victim(lambda: native.Group(words, 1, 2).barrier(timeout))
    assert reap(other) in ((0, 3) if stage.code == -9 else (0,))


def giving_up(stage: Stage) -> None:
    """A rank gives up at its timeout, and may die there: ranks that wait for it get an error."""
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

    stage.victim(act)
    assert reap(other) == 3
    for fd in ready:
        os.close(fd)


# ---- a newcomer makes a domain, or joins this one
def newcomer(stage: Stage, domain: str) -> None:
    code = (
        f"import sys; sys.path.insert(0, {SOURCES!r})\n"
        "import json\n"
        "from shmtensor import native\n"
        "native.domain_ensure()\n"
        "print(json.dumps(native.fault_points()))\n"
    )
    environment = {**os.environ, "SHMTENSOR_DOMAIN": domain, "SHMTENSOR_FAULT": stage.specification}
    command = [sys.executable, "-c", code]
    process = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    if stage.specification == "?":
        assert process.returncode == 0, process.stderr
        stage.child_counts = json.loads(process.stdout)
    else:
        assert process.returncode == -9, (process.returncode, process.stderr)
        stage.child_counts = {stage.point: 1}
    if domain == "new":  # the next process that joins frees the leftovers
        environment["SHMTENSOR_FAULT"] = ""
        subprocess.run(command, env=environment, capture_output=True, check=True, timeout=PATIENCE)
        assert not [name for name in os.listdir("/dev/shm") if name.startswith("shmtensor-")]


def making(stage: Stage) -> None:
    """A process makes a new domain."""
    newcomer(stage, "new")


def joining(stage: Stage) -> None:
    """A stranger joins this domain."""
    newcomer(stage, memory.domain_environment())


SCENARIOS: dict[str, Callable[[Stage], None]] = {
    scenario.__name__: scenario
    for scenario in (
        channel, tending, bounded, tasks, ending, refused, unsendable, voided, locks, loose,
        counting, group, entering, giving_up, making, joining,
    )
}  # fmt: skip
