"""Random actions in several processes, with random kills: held tensors keep their tag."""

from __future__ import annotations

import os
import random
import select
import time

import numpy as np
import pytest

from shmtensor import memory, native
from shmtensor.errors import StaleHandle

from .fresh import Child, check, fresh, settle

SIZES = [64, 200, 1000, 3000, 20_000, 200_000, 700_000, 18 << 20]


class Player:
    """One process that makes, sends, receives, drops and forks tensors full of their tag."""

    def __init__(self, seed: int, mail: tuple[int, int], stop: float, depth: int = 0) -> None:
        self.rng = random.Random(seed)
        self.mail = mail  # a pipe that all read and write: messages of 80 bytes are atomic
        self.stop = stop
        self.depth = depth  # of forks below the first player
        self.held: list[tuple[np.ndarray, int]] = []

    def make(self) -> None:
        n, tag = self.rng.choice(SIZES), self.rng.randrange(256)
        with memory.shared_numpy():
            self.held.append((np.full(n, tag, np.uint8), tag))

    def send(self) -> None:
        if self.held:
            x, tag = self.rng.choice(self.held)
            message = memory.export(x) + tag.to_bytes(1, "little") + x.size.to_bytes(7, "little")
            if select.select([], [self.mail[1]], [], 0)[1]:
                os.write(self.mail[1], message)

    def receive(self) -> None:
        try:
            message = os.read(self.mail[0], 80)
        except BlockingIOError:  # nothing there
            return
        assert len(message) == 80
        tag, n = message[72], int.from_bytes(message[73:], "little")
        try:
            block = memory.receive(message[:72])
        except StaleHandle:
            return  # its sender died long ago, and the message expired
        self.held.append((np.frombuffer(block, np.uint8, n), tag))

    def drop(self) -> None:
        if self.held:
            x, tag = self.held.pop(self.rng.randrange(len(self.held)))
            assert x[0] == tag
            assert (x[:: max(1, x.size // 997)] == tag).all(), (x.size, tag)
            assert x[-1] == tag

    def look(self) -> None:
        for x, tag in self.held:
            assert x[0] == tag == x[-1]
        check()

    def fork(self) -> None:
        if self.depth == 2:
            return
        stop = time.monotonic() + 0.1
        child = Player(self.rng.randrange(1 << 30), self.mail, stop, self.depth + 1)
        child.held = list(self.held)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                self.held.clear()
                child.play()
                code = 0
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status in (0, -9), status

    def play(self) -> int:
        actions = [self.make, self.send, self.receive, self.drop, self.look, self.fork]
        weights = [30, 25, 30, 28, 2, 1]
        while time.monotonic() < self.stop:
            if len(self.held) > 40:
                self.drop()
            else:
                self.rng.choices(actions, weights)[0]()
        self.look()
        return 0


def stress(seed: int, seconds: float) -> None:
    rng = random.Random(seed)
    native.set_unread_grace(0.2, 0.5)
    mail = os.pipe()
    os.set_blocking(mail[0], False)
    end = time.monotonic() + seconds
    children: list[Child] = []
    kills = 0
    while time.monotonic() < end:
        while len(children) < 4:
            player = Player(rng.randrange(1 << 30), mail, end)
            children.append(Child(player.play))
        time.sleep(rng.uniform(0, 0.15))
        native.sweep(True)
        check()
        if rng.random() < 0.7:
            victim = children.pop(rng.randrange(len(children)))
            os.kill(victim.pid, 9)
            code = victim.wait()
            assert code in (-9, 0), code  # 0: its time was over first
            kills += code == -9
        # Four players, each with a chain of two; those whose parent was killed go on for 0.1 s.
        assert memory.statistics().processes < 30
    for child in children:
        assert child.wait() == 0
    while select.select([mail[0]], [], [], 0)[0]:  # what is still under way
        message = os.read(mail[0], 80)
        try:
            block = memory.receive(message[:72])
        except StaleHandle:
            continue
        assert np.frombuffer(block, np.uint8)[0] == message[72]
        del block
    print(f"seed {seed}: {kills} kills")
    settle(0)


@pytest.mark.parametrize("seed", [1, 2, int(time.time())])
def test_random_kills(seed: int) -> None:
    print(f"seed {seed}")
    fresh(stress, seed, 5.0)
