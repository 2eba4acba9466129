"""Processes with several threads that use tensors at random and kill one another.

    Transports            handles through a pipe, pickles through a pipe, and st.Queue
    Worker, a process     three threads, each with its own random numbers and its own tensors
    main (this process)   starts eight of them, kills those they choose, starts new ones, checks

Every tensor is filled with its tag, and each holder reads it back; `check()` runs all the time; at
the end of each round no block, no row and no message is left. The seed determines the actions, but
not the schedule and the moments of the kills.
"""

from __future__ import annotations

import os
import pickle
import queue
import random
import threading
import time
import traceback
from multiprocessing.reduction import ForkingPickler

import numpy as np

import shmtensor as st
from shmtensor import memory, native
from shmtensor import multiprocessing as mp
from shmtensor.errors import StaleHandle

from .fresh import Child, check, settle

SIZES = [64, 200, 1000, 3000, 20_000, 200_000, 700_000, 18 << 20]
WEIGHTS = [10, 10, 10, 10, 8, 5, 3, 0.3]
RECORD = 80  # a handle, the tag, the size: below PIPE_BUF, so that a write is atomic
PICKLE = 600


class Transports:
    """The transports of tensors; made before the first worker, inherited by all."""

    def __init__(self) -> None:
        self.handles, self.pickles, self.victims = os.pipe(), os.pipe(), os.pipe()
        for ends in (self.handles, self.pickles, self.victims):
            for fd in ends:
                os.set_blocking(fd, False)
        self.queue = mp.Queue(64)
        self.counts = np.frombuffer(native.allocate(8 * 64, shared=True), np.int64)

    def close(self) -> None:
        for ends in (self.handles, self.pickles, self.victims):
            for fd in ends:
                os.close(fd)


Held = tuple[np.ndarray, int, int]  # the array or a view of it, its tag, the full size


def verify(block: Held) -> None:
    x, tag, _ = block
    assert (x[:: max(1, x.size // 997)] == tag).all(), (x.size, tag)
    assert x[-1] == tag, (x.size, tag)


class Worker:
    """One thread of one process."""

    def __init__(self, seed: int, transports: Transports, stop: float, depth: int = 0) -> None:
        self.rng = random.Random(seed)
        self.transports = transports
        self.stop = stop
        self.depth = depth  # of forks below the first worker
        self.blocks: list[Held] = []

    # ---- what it may do
    def make(self) -> None:
        n, tag = self.rng.choices(SIZES, WEIGHTS)[0], self.rng.randrange(256)
        with memory.shared_numpy():
            self.blocks.append((np.full(n, tag, np.uint8), tag, n))

    def view(self) -> None:
        if self.blocks:
            x, tag, n = self.rng.choice(self.blocks)
            start = self.rng.randrange(x.size)
            self.blocks.append((x[start : start + self.rng.randint(1, x.size - start)], tag, n))

    def send_handle(self) -> None:
        if self.blocks:
            x, tag, n = self.rng.choice(self.blocks)
            handle = memory.export(x)
            try:
                os.write(
                    self.transports.handles[1], handle + bytes([tag]) + n.to_bytes(7, "little")
                )
            except BlockingIOError:
                memory.acknowledge(handle)

    def receive_handle(self) -> None:
        try:
            message = os.read(self.transports.handles[0], RECORD)
        except BlockingIOError:
            return
        assert len(message) == RECORD
        tag, n = message[72], int.from_bytes(message[73:], "little")
        try:
            block = memory.receive(message[:72])
        except StaleHandle:
            return  # its sender died long ago, and the message expired
        self.blocks.append((np.frombuffer(block, np.uint8, n), tag, n))
        verify(self.blocks[-1])

    def send_pickle(self) -> None:
        if self.blocks:
            x, tag, n = self.rng.choice(self.blocks)
            data = bytes(ForkingPickler.dumps((st.from_numpy(x), tag, n)))
            assert len(data) <= PICKLE, len(data)
            try:
                os.write(self.transports.pickles[1], data.ljust(PICKLE, b" "))
            except BlockingIOError:  # nobody reads it: a pin that expires
                pass

    def receive_pickle(self) -> None:
        try:
            data = os.read(self.transports.pickles[0], PICKLE)
        except BlockingIOError:
            return
        try:
            tensor, tag, n = pickle.loads(data)
        except StaleHandle:
            return
        self.blocks.append((tensor.numpy(), tag, n))
        verify(self.blocks[-1])

    def put(self) -> None:
        some = self.rng.sample(self.blocks, min(len(self.blocks), self.rng.choice([0, 1, 1, 2, 5])))
        padding = b"x" * self.rng.choice([0, 0, 0, 3000])
        try:
            message = ([(st.from_numpy(x), tag, n) for x, tag, n in some], padding)
            self.transports.queue.put(message, block=False)
        except queue.Full:
            pass

    def get(self) -> None:
        try:
            tensors, _ = self.transports.queue.get(block=False)
        except queue.Empty:
            return
        for tensor, tag, n in tensors:
            self.blocks.append((tensor.numpy(), tag, n))
            verify(self.blocks[-1])

    def drop(self) -> None:
        if self.blocks:
            verify(self.blocks.pop(self.rng.randrange(len(self.blocks))))

    def look(self) -> None:
        for block in self.blocks:
            verify(block)
        check()

    def trim(self) -> None:
        memory.trim()

    def kill(self) -> None:
        if self.depth == 0 and self.rng.random() < 0.2:
            os.write(self.transports.victims[1], bytes([self.rng.randrange(8)]))

    def fork(self) -> None:
        if self.depth == 2:
            return
        stop = time.monotonic() + 0.1
        child = Worker(self.rng.randrange(1 << 30), self.transports, stop, self.depth + 1)
        child.blocks = list(self.blocks)
        pid = os.fork()
        if pid == 0:
            self.blocks.clear()
            child.run()
            os._exit(0)
        if self.rng.random() < 0.5:
            time.sleep(self.rng.uniform(0, 0.1))
            os.kill(pid, 9)  # not reaped yet: the pid is still this child's
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status not in (0, -9):
            raise AssertionError(f"a forked child ended with {status}")

    # ---- its life
    ACTIONS = (
        (make, 30), (view, 6), (send_handle, 14), (receive_handle, 16), (send_pickle, 8),
        (receive_pickle, 10), (put, 12), (get, 14), (drop, 44), (look, 1.5), (trim, 1.5),
        (kill, 1), (fork, 0.6),
    )  # fmt: skip

    def act(self) -> None:
        if len(self.blocks) > 15:
            return self.drop()
        actions, weights = zip(*self.ACTIONS, strict=True)
        try:
            return self.rng.choices(actions, weights)[0](self)
        except MemoryError:
            return self.blocks.clear()

    def run(self, number: int = 0) -> None:
        """Plays until its time is over; an error ends the process with code 1."""
        try:
            while time.monotonic() < self.stop:
                self.act()
                self.transports.counts[number] += 1
            self.look()
            self.blocks.clear()
        except BaseException:
            traceback.print_exc()
            os._exit(1)


def work(seed: int, transports: Transports, stop: float, threads: int, number: int) -> int:
    """A process: `threads` workers."""
    workers = [Worker(seed + i, transports, stop) for i in range(threads)]
    running = [threading.Thread(target=worker.run, args=(number,)) for worker in workers[1:]]
    for thread in running:
        thread.start()
    workers[0].run(number)
    for thread in running:
        thread.join()
    check()
    return 0


def start(seed: int, transports: Transports, stop: float, threads: int, number: int) -> Child:
    return Child(lambda: work(seed, transports, stop, threads, number))


def round_of(seed: int, seconds: float, processes: int = 8, threads: int = 3) -> tuple[int, int]:
    """Plays for some seconds, then settles everything; actions and kills."""
    rng = random.Random(seed)
    native.set_unread_grace(0.2, 0.5)
    transports = Transports()
    end = time.monotonic() + seconds
    children: dict[int, Child] = {}
    kills = 0

    def bury(number: int) -> None:
        nonlocal kills
        code = children.pop(number).wait()
        assert code in (-9, 0), f"a worker ended with {code}"
        kills += code == -9

    while time.monotonic() < end:
        for number in range(processes):
            if number not in children:
                children[number] = start(rng.randrange(1 << 30), transports, end, threads, number)
        time.sleep(rng.uniform(0, 0.1))
        native.sweep(True)
        check()
        try:
            victims = set(os.read(transports.victims[0], 100))
        except BlockingIOError:
            victims = set()
        for number in victims & children.keys():
            os.kill(children[number].pid, 9)
            bury(number)
        for number in [n for n, c in children.items() if has_ended(c.pid)]:
            bury(number)
        assert memory.statistics().processes <= 1 + processes * (1 + 2 * threads)
    deadline = time.monotonic() + 60
    while children:
        for number in [n for n, c in children.items() if has_ended(c.pid)]:
            bury(number)
        if time.monotonic() > deadline:
            for child in children.values():
                os.kill(child.pid, 6)  # its stack, by faulthandler
            time.sleep(2)
            raise AssertionError(f"workers hang: {sorted(children)}")
        time.sleep(0.01)
    count = int(transports.counts.sum())
    collect(transports)
    del transports
    settle(0)
    return count, kills


def has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def collect(transports: Transports) -> None:
    """Receives all messages in flight and checks them."""
    last = Worker(0, transports, 0.0)
    while True:
        before = len(last.blocks)
        last.receive_handle()
        last.receive_pickle()
        last.get()
        if len(last.blocks) == before and transports.queue.empty():
            break
    last.look()
    last.blocks.clear()
    transports.close()


def stress(seed: int, seconds: float) -> None:
    """Rounds of at most ten seconds, each with a seed that is printed."""
    stop = time.monotonic() + seconds
    total = [0, 0, 0]
    while (remaining := stop - time.monotonic()) > 0:
        print(f"seed {seed}", flush=True)
        count, kills = round_of(seed, min(10.0, remaining))
        total = [total[0] + 1, total[1] + count, total[2] + kills]
        seed += 1
    print(f"{total[0]} rounds, about {total[1]} actions, {total[2]} kills: nothing found")
