"""Processes of several threads that do random things with tensors, and kill one another.

    roads: handles through a pipe, pickles of the standard library through a pipe, our own Queue
    Player, a process     three threads, each with its own random numbers and its own tensors
    crowd (this process)  starts eight of them, kills whom they name, starts the next, looks itself

Every tensor is full of its tag, and whoever has it reads it back; `check()` runs all the time; at
the end of each round everything is settled: no block, no row, no message is left. What happens
follows from the seed but for the scheduler and the moments of the kills.
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
LETTER = 80  # a handle, the tag, the size: below PIPE_BUF, so a write is whole or not at all
PICKLE = 600


class Roads:
    """How tensors travel; made before the first player, inherited by all."""

    def __init__(self) -> None:
        self.letters, self.pickles, self.victims = os.pipe(), os.pipe(), os.pipe()
        for ends in (self.letters, self.pickles, self.victims):
            for fd in ends:
                os.set_blocking(fd, False)
        self.queue = mp.Queue(64)
        self.done = np.frombuffer(native.allocate(8 * 64, shared=True), np.int64)

    def close(self) -> None:
        for ends in (self.letters, self.pickles, self.victims):
            for fd in ends:
                os.close(fd)


Held = tuple[np.ndarray, int, int]  # the array or a view of it, its tag, the size of the whole


def verify(held: Held) -> None:
    x, tag, _ = held
    assert (x[:: max(1, x.size // 997)] == tag).all(), (x.size, tag)
    assert x[-1] == tag, (x.size, tag)


class Player:
    """One thread of one process."""

    def __init__(self, seed: int, roads: Roads, stop: float, depth: int = 0) -> None:
        self.rng = random.Random(seed)
        self.roads = roads
        self.stop = stop
        self.depth = depth  # of forks below the first player
        self.held: list[Held] = []

    # ---- what it may do
    def make(self) -> None:
        n, tag = self.rng.choices(SIZES, WEIGHTS)[0], self.rng.randrange(256)
        with memory.shared_numpy():
            self.held.append((np.full(n, tag, np.uint8), tag, n))

    def view(self) -> None:
        if self.held:
            x, tag, n = self.rng.choice(self.held)
            start = self.rng.randrange(x.size)
            self.held.append((x[start : start + self.rng.randint(1, x.size - start)], tag, n))

    def send_letter(self) -> None:
        if self.held:
            x, tag, n = self.rng.choice(self.held)
            handle = memory.export(x)
            try:
                os.write(self.roads.letters[1], handle + bytes([tag]) + n.to_bytes(7, "little"))
            except BlockingIOError:
                memory.acknowledge(handle)

    def receive_letter(self) -> None:
        try:
            letter = os.read(self.roads.letters[0], LETTER)
        except BlockingIOError:
            return
        assert len(letter) == LETTER
        tag, n = letter[72], int.from_bytes(letter[73:], "little")
        try:
            block = memory.receive(letter[:72])
        except StaleHandle:
            return  # its sender died long ago, and the message expired
        self.held.append((np.frombuffer(block, np.uint8, n), tag, n))
        verify(self.held[-1])

    def send_pickle(self) -> None:
        if self.held:
            x, tag, n = self.rng.choice(self.held)
            data = bytes(ForkingPickler.dumps((st.from_numpy(x), tag, n)))
            assert len(data) <= PICKLE, len(data)
            try:
                os.write(self.roads.pickles[1], data.ljust(PICKLE, b" "))
            except BlockingIOError:  # nobody reads it: a pin that expires
                pass

    def receive_pickle(self) -> None:
        try:
            data = os.read(self.roads.pickles[0], PICKLE)
        except BlockingIOError:
            return
        try:
            tensor, tag, n = pickle.loads(data)
        except StaleHandle:
            return
        self.held.append((tensor.numpy(), tag, n))
        verify(self.held[-1])

    def put(self) -> None:
        some = self.rng.sample(self.held, min(len(self.held), self.rng.choice([0, 1, 1, 2, 5])))
        padding = b"x" * self.rng.choice([0, 0, 0, 3000])
        try:
            message = ([(st.from_numpy(x), tag, n) for x, tag, n in some], padding)
            self.roads.queue.put(message, block=False)
        except queue.Full:
            pass

    def get(self) -> None:
        try:
            tensors, _ = self.roads.queue.get(block=False)
        except queue.Empty:
            return
        for tensor, tag, n in tensors:
            self.held.append((tensor.numpy(), tag, n))
            verify(self.held[-1])

    def drop(self) -> None:
        if self.held:
            verify(self.held.pop(self.rng.randrange(len(self.held))))

    def look(self) -> None:
        for block in self.held:
            verify(block)
        check()

    def trim(self) -> None:
        memory.trim()

    def kill(self) -> None:
        if self.depth == 0 and self.rng.random() < 0.2:
            os.write(self.roads.victims[1], bytes([self.rng.randrange(8)]))

    def fork(self) -> None:
        if self.depth == 2:
            return
        stop = time.monotonic() + 0.1
        child = Player(self.rng.randrange(1 << 30), self.roads, stop, self.depth + 1)
        child.held = list(self.held)
        pid = os.fork()
        if pid == 0:
            self.held.clear()
            child.run()
            os._exit(0)
        if self.rng.random() < 0.5:
            time.sleep(self.rng.uniform(0, 0.1))
            os.kill(pid, 9)  # not reaped yet: it is this very child
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status not in (0, -9):
            raise AssertionError(f"a forked child ended with {status}")

    # ---- its life
    ACTIONS = (
        (make, 30), (view, 6), (send_letter, 14), (receive_letter, 16), (send_pickle, 8),
        (receive_pickle, 10), (put, 12), (get, 14), (drop, 44), (look, 1.5), (trim, 1.5),
        (kill, 1), (fork, 0.6),
    )  # fmt: skip

    def act(self) -> None:
        if len(self.held) > 15:
            return self.drop()
        actions, weights = zip(*self.ACTIONS, strict=True)
        try:
            return self.rng.choices(actions, weights)[0](self)
        except MemoryError:
            return self.held.clear()

    def run(self, number: int = 0) -> None:
        """Plays until its time is over; what goes wrong ends the process with code 1."""
        try:
            while time.monotonic() < self.stop:
                self.act()
                self.roads.done[number] += 1
            self.look()
            self.held.clear()
        except BaseException:
            traceback.print_exc()
            os._exit(1)


def play(seed: int, roads: Roads, stop: float, threads: int, number: int) -> int:
    """A process: `threads` players."""
    players = [Player(seed + i, roads, stop) for i in range(threads)]
    running = [threading.Thread(target=player.run, args=(number,)) for player in players[1:]]
    for thread in running:
        thread.start()
    players[0].run(number)
    for thread in running:
        thread.join()
    check()
    return 0


def start(seed: int, roads: Roads, stop: float, threads: int, number: int) -> Child:
    return Child(lambda: play(seed, roads, stop, threads, number))


def round_of(seed: int, seconds: float, processes: int = 8, threads: int = 3) -> tuple[int, int]:
    """Plays for some seconds, then settles everything; actions and kills."""
    rng = random.Random(seed)
    native.set_unread_grace(0.2, 0.5)
    roads = Roads()
    end = time.monotonic() + seconds
    children: dict[int, Child] = {}
    kills = 0

    def bury(number: int) -> None:
        nonlocal kills
        code = children.pop(number).wait()
        assert code in (-9, 0), f"a player ended with {code}"
        kills += code == -9

    while time.monotonic() < end:
        for number in range(processes):
            if number not in children:
                children[number] = start(rng.randrange(1 << 30), roads, end, threads, number)
        time.sleep(rng.uniform(0, 0.1))
        native.sweep(True)
        check()
        try:
            names = set(os.read(roads.victims[0], 100))
        except BlockingIOError:
            names = set()
        for number in names & children.keys():
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
            raise AssertionError(f"players hang: {sorted(children)}")
        time.sleep(0.01)
    done = int(roads.done.sum())
    collect(roads)
    del roads
    settle(0)
    return done, kills


def has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def collect(roads: Roads) -> None:
    """What is still under way is whole, too."""
    last = Player(0, roads, 0.0)
    while True:
        before = len(last.held)
        last.receive_letter()
        last.receive_pickle()
        last.get()
        if len(last.held) == before and roads.queue.empty():
            break
    last.look()
    last.held.clear()
    roads.close()


def stress(seed: int, seconds: float) -> None:
    """Rounds of at most ten seconds, each with a seed that is printed."""
    stop = time.monotonic() + seconds
    total = [0, 0, 0]
    while (remaining := stop - time.monotonic()) > 0:
        print(f"seed {seed}", flush=True)
        done, kills = round_of(seed, min(10.0, remaining))
        total = [total[0] + 1, total[1] + done, total[2] + kills]
        seed += 1
    print(f"{total[0]} rounds, about {total[1]} actions, {total[2]} kills: nothing found")
