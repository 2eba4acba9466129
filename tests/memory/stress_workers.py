"""Processes of several threads that do random things with tensors, and kill one another.

    transports               handles through a pipe, the standard library's pickles through a pipe,
                             our own Queue
    StressWorker, a process  three threads, each with its own random numbers and its own tensors
    parent (this process)    starts eight of them, kills the ones that they name, starts new ones,
                             and checks the domain

Every tensor is filled with its tag, and each receiver verifies it; `check()` runs all the time. At
the end of each round everything is settled: no block, no row, no message remains. The actions
follow from the seed, except for the scheduler and the times of the kills.
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

from .fresh import Child, check, has_ended, settle

SIZES = [64, 200, 1000, 3000, 20_000, 200_000, 700_000, 18 << 20]
WEIGHTS = [10, 10, 10, 10, 8, 5, 3, 0.3]
HANDLE_MESSAGE = 80  # a handle, the tag, the size: below PIPE_BUF, so that writes are atomic
PICKLE = 600


class Transports:
    """Created before the first worker, inherited by all."""

    def __init__(self) -> None:
        self.handles, self.pickles, self.victims = os.pipe(), os.pipe(), os.pipe()
        for ends in (self.handles, self.pickles, self.victims):
            for fd in ends:
                os.set_blocking(fd, False)
        self.queue = mp.Queue(64)
        self.n_actions = np.frombuffer(native.allocate(8 * 64, shared=True), np.int64)

    def close(self) -> None:
        for ends in (self.handles, self.pickles, self.victims):
            for fd in ends:
                os.close(fd)


TaggedArray = tuple[
    np.ndarray, int, int
]  # the array or a view of it, its tag, the size of the entire array


def verify(array: TaggedArray) -> None:
    x, tag, _ = array
    assert (x[:: max(1, x.size // 997)] == tag).all(), (x.size, tag)
    assert x[-1] == tag, (x.size, tag)


class StressWorker:
    """One thread of one process."""

    def __init__(self, seed: int, transports: Transports, stop: float, depth: int = 0) -> None:
        self.rng = random.Random(seed)
        self.transports = transports
        self.stop = stop
        self.depth = depth  # number of forks since the first worker
        self.arrays: list[TaggedArray] = []

    # ---- actions
    def make(self) -> None:
        n, tag = self.rng.choices(SIZES, WEIGHTS)[0], self.rng.randrange(256)
        with memory.shared_numpy():
            self.arrays.append((np.full(n, tag, np.uint8), tag, n))

    def view(self) -> None:
        if self.arrays:
            x, tag, n = self.rng.choice(self.arrays)
            start = self.rng.randrange(x.size)
            self.arrays.append((x[start : start + self.rng.randint(1, x.size - start)], tag, n))

    def send_handle(self) -> None:
        if self.arrays:
            x, tag, n = self.rng.choice(self.arrays)
            handle = memory.export(x)
            try:
                os.write(
                    self.transports.handles[1], handle + bytes([tag]) + n.to_bytes(7, "little")
                )
            except BlockingIOError:
                memory.acknowledge(handle)

    def receive_handle(self) -> None:
        try:
            message = os.read(self.transports.handles[0], HANDLE_MESSAGE)
        except BlockingIOError:
            return
        assert len(message) == HANDLE_MESSAGE
        tag, n = message[72], int.from_bytes(message[73:], "little")
        try:
            block = memory.receive(message[:72])
        except StaleHandle:
            return  # its sender died long ago, and the message expired
        self.arrays.append((np.frombuffer(block, np.uint8, n), tag, n))
        verify(self.arrays[-1])

    def send_pickle(self) -> None:
        if self.arrays:
            x, tag, n = self.rng.choice(self.arrays)
            data = bytes(ForkingPickler.dumps((st.from_numpy(x), tag, n)))
            assert len(data) <= PICKLE, len(data)
            try:
                os.write(self.transports.pickles[1], data.ljust(PICKLE, b" "))
            except BlockingIOError:  # nobody reads it: its handle expires
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
        self.arrays.append((tensor.numpy(), tag, n))
        verify(self.arrays[-1])

    def put(self) -> None:
        sample = self.rng.sample(
            self.arrays, min(len(self.arrays), self.rng.choice([0, 1, 1, 2, 5]))
        )
        padding = b"x" * self.rng.choice([0, 0, 0, 3000])
        try:
            message = ([(st.from_numpy(x), tag, n) for x, tag, n in sample], padding)
            self.transports.queue.put(message, block=False)
        except queue.Full:
            pass

    def get(self) -> None:
        try:
            tensors, _ = self.transports.queue.get(block=False)
        except queue.Empty:
            return
        for tensor, tag, n in tensors:
            self.arrays.append((tensor.numpy(), tag, n))
            verify(self.arrays[-1])

    def drop(self) -> None:
        if self.arrays:
            verify(self.arrays.pop(self.rng.randrange(len(self.arrays))))

    def verify_all(self) -> None:
        for block in self.arrays:
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
        child = StressWorker(self.rng.randrange(1 << 30), self.transports, stop, self.depth + 1)
        child.arrays = list(self.arrays)
        pid = os.fork()
        if pid == 0:
            self.arrays.clear()
            child.run()
            os._exit(0)
        if self.rng.random() < 0.5:
            time.sleep(self.rng.uniform(0, 0.1))
            os.kill(pid, 9)  # not reaped yet: it is this very child
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status not in (0, -9):
            raise AssertionError(f"a forked child ended with {status}")

    # ---- running
    ACTIONS = (
        (make, 30), (view, 6), (send_handle, 14), (receive_handle, 16), (send_pickle, 8),
        (receive_pickle, 10), (put, 12), (get, 14), (drop, 44), (verify_all, 1.5), (trim, 1.5),
        (kill, 1), (fork, 0.6),
    )  # fmt: skip

    def act(self) -> None:
        if len(self.arrays) > 15:
            return self.drop()
        actions, weights = zip(*self.ACTIONS, strict=True)
        try:
            return self.rng.choices(actions, weights)[0](self)
        except MemoryError:
            return self.arrays.clear()

    def run(self, number: int = 0) -> None:
        """Acts until its time is over; an error ends the process with code 1."""
        try:
            while time.monotonic() < self.stop:
                self.act()
                self.transports.n_actions[number] += 1
            self.verify_all()
            self.arrays.clear()
        except BaseException:
            traceback.print_exc()
            os._exit(1)


def run_workers(seed: int, transports: Transports, stop: float, threads: int, number: int) -> int:
    """The body of a process: runs `threads` workers."""
    workers = [StressWorker(seed + i, transports, stop) for i in range(threads)]
    running = [threading.Thread(target=worker.run, args=(number,)) for worker in workers[1:]]
    for thread in running:
        thread.start()
    workers[0].run(number)
    for thread in running:
        thread.join()
    check()
    return 0


def start(seed: int, transports: Transports, stop: float, threads: int, number: int) -> Child:
    return Child(lambda: run_workers(seed, transports, stop, threads, number))


def round_of(seed: int, seconds: float, processes: int = 8, threads: int = 3) -> tuple[int, int]:
    """Runs workers for some seconds, then settles everything. Returns: actions, kills."""
    rng = random.Random(seed)
    native.set_unread_grace(0.2, 0.5)
    transports = Transports()
    end = time.monotonic() + seconds
    children: dict[int, Child] = {}
    kills = 0

    def reap(number: int) -> None:
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
            names = set(os.read(transports.victims[0], 100))
        except BlockingIOError:
            names = set()
        for number in names & children.keys():
            os.kill(children[number].pid, 9)
            reap(number)
        for number in [n for n, c in children.items() if has_ended(c.pid)]:
            reap(number)
        assert memory.statistics().processes <= 1 + processes * (1 + 2 * threads)
    deadline = time.monotonic() + 60
    while children:
        for number in [n for n, c in children.items() if has_ended(c.pid)]:
            reap(number)
        if time.monotonic() > deadline:
            for child in children.values():
                os.kill(child.pid, 6)  # its stack, by faulthandler
            time.sleep(2)
            raise AssertionError(f"workers hang: {sorted(children)}")
        time.sleep(0.01)
    n_actions = int(transports.n_actions.sum())
    collect(transports)
    del transports
    settle(0)
    return n_actions, kills


def collect(transports: Transports) -> None:
    """Verifies the messages that are still in flight."""
    last = StressWorker(0, transports, 0.0)
    while True:
        before = len(last.arrays)
        last.receive_handle()
        last.receive_pickle()
        last.get()
        if len(last.arrays) == before and transports.queue.empty():
            break
    last.verify_all()
    last.arrays.clear()
    transports.close()


def stress(seed: int, seconds: float) -> None:
    """Rounds of at most ten seconds, each with a seed that is printed."""
    stop = time.monotonic() + seconds
    total = [0, 0, 0]
    while (remaining := stop - time.monotonic()) > 0:
        print(f"seed {seed}", flush=True)
        n_actions, kills = round_of(seed, min(10.0, remaining))
        total = [total[0] + 1, total[1] + n_actions, total[2] + kills]
        seed += 1
    print(f"{total[0]} rounds, about {total[1]} actions, {total[2]} kills: nothing found")
