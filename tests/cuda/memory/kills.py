"""Processes that make, send, receive and send on blocks of GPU memory are killed at random moments.

    python -m tests.cuda.memory.kills --kills 1000 [--seconds N] [--seed N]

One process starts the workers by fork: it has imported CuPy and has no context, so a worker costs
milliseconds. This program uses no GPU itself: it carries the messages, kills, and checks
- that no receiver ever sees another block's bytes (each block is full of its own tag);
- that no message is refused whose owner lives (what was never delivered is discarded);
- that nobody hangs;
- and, again and again, that nothing is left: no slab, bit, pin or zombie.
"""

from __future__ import annotations

import argparse
import faulthandler
import io
import os
import pickle
import random
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from typing import Any

from shmtensor import memory, native
from tests.environment import environment

PATIENCE = 100.0  # seconds until a wait counts as a hang
SIZES = (100, 5000, 300_000, 2_000_000)
ROUND = 25  # kills between two checks
WORKERS = 4


# ---- a worker
def work(orders: socket.socket) -> None:
    """Does what it is told: lines of pickles, each answered."""
    import cupy
    import numpy as np

    import shmtensor.memory.cuda as mc
    from shmtensor.errors import PeerLostError
    from shmtensor.memory.cuda import waits

    mc.install()
    faulthandler.register(signal.SIGUSR1)  # a hang becomes a stack dump
    reader, writer = orders.makefile("rb"), orders.makefile("wb")
    kept: list[tuple[int, Any]] = []
    streams = [cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)]

    def answer(*what: Any) -> None:
        pickle.dump(what, writer)
        writer.flush()

    while True:
        order, number, tag, n, message = pickle.load(reader)
        with streams[number % 2]:
            if order == "make":
                x = cupy.empty(n, np.uint8)
                cupy.cuda.runtime.memsetAsync(x.data.ptr, tag, n, streams[number % 2].ptr)
                answer("made", number, mc.export(x))
                if number % 3:
                    kept.append((tag, x))
                del x
            elif order == "take":
                try:
                    x = mc.receive(message)
                    mc.check_alive(x)
                    values = x.get() if number % 4 else x[:: max(1, n // 7)].get()
                    mc.check_alive(x)
                    waits.check()
                    is_right = x.size == n and bool((values == tag).all())
                    answer(
                        "taken" if is_right else f"WRONG BYTES {set(values.tolist())}", number, None
                    )
                    kept.append((tag, x))
                    del x
                except PeerLostError:
                    answer("lost", number, None)
                except Exception as error:
                    answer(f"{type(error).__name__}: {error}", number, None)
            elif order == "pass":
                sent = None
                if kept:
                    sent_tag, x = kept[number % len(kept)]
                    try:
                        sent = (sent_tag, x.size, mc.export(x))
                    except PeerLostError:
                        sent = None
                    del x
                answer("passed", number, sent)
            elif order == "drop":
                del kept[: 1 + number % 5]
                answer("dropped", number, None)
            elif order == "quiet":
                kept.clear()
                x = None  # received, and then its owner had died
                cupy.cuda.runtime.deviceSynchronize()
                native.sweep(True)
                mc.empty_cache()
                answer("quiet", number, (mc.memory_reserved(), native.check()))
        if len(kept) > 12:
            del kept[:6]


def nursery(descriptor: int) -> None:
    """Forks a worker for each socket that comes; answers with its pid."""
    from tests.cuda.standin.install import install

    install()
    import cupy  # noqa: F401

    import shmtensor.memory.cuda  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    orders = socket.socket(fileno=descriptor)
    while True:
        _, descriptors, _, _ = socket.recv_fds(orders, 1, 1)
        if not descriptors:
            return
        pid = os.fork()
        if not pid:
            orders.close()
            try:
                work(socket.socket(fileno=descriptors[0]))
            except (EOFError, ConnectionError):
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        os.close(descriptors[0])
        orders.send(pid.to_bytes(4, "little"))


# ---- who carries, kills and checks
class Worker:
    """The other end of a worker."""

    def __init__(self, starter: socket.socket) -> None:
        self.socket, theirs = socket.socketpair()
        socket.send_fds(starter, [b"x"], [theirs.fileno()])
        theirs.close()
        self.pid = int.from_bytes(starter.recv(4), "little")
        self.buffer = b""
        self.orders: dict[int, tuple[Any, ...]] = {}

    def tell(self, order: str, number: int, tag: int = 0, n: int = 0, message: Any = None) -> None:
        self.orders[number] = (order, number, tag, n, message)
        try:
            self.socket.sendall(pickle.dumps(self.orders[number]))
        except ConnectionError:
            return


class Kills:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        ours, theirs = socket.socketpair()
        code = f"from tests.cuda.memory.kills import nursery; nursery({theirs.fileno()})"
        self.nursery = subprocess.Popen(
            [sys.executable, "-c", code],
            pass_fds=[theirs.fileno()],
            env=environment(SHMTENSOR_DOMAIN=memory.domain_environment(), STANDIN_LATE_US=500),
        )
        theirs.close()
        self.starter = ours
        self.number = self.kills = self.taken = self.lost = 0
        self.mail: list[tuple[int, int, Any]] = []  # tag, size, message
        self.errors: list[str] = []
        self.killed: set[int] = set()
        self.workers = [Worker(ours) for _ in range(WORKERS)]

    def order(self, worker: Worker) -> None:
        self.number += 1
        what = self.dice.random()
        if what < 0.35:
            tag, n = self.dice.randrange(1, 250), self.dice.choice(SIZES)
            worker.tell("make", self.number, tag, n)
        elif what < 0.75 and self.mail:
            tag, n, message = self.mail.pop(self.dice.randrange(len(self.mail)))
            worker.tell("take", self.number, tag, n, message)
        elif what < 0.9:
            worker.tell("pass", self.number)
        else:
            worker.tell("drop", self.number)

    def read(self, timeout: float) -> bool:
        """Reads answers; whether any came."""
        ready, _, _ = select.select([w.socket for w in self.workers], [], [], timeout)
        for worker in [w for w in self.workers if w.socket in ready]:
            try:
                data = worker.socket.recv(1 << 20)
            except ConnectionError:
                data = b""
            if not data:
                self.bury(worker)
                continue
            worker.buffer += data
            while worker.buffer:
                rest = io.BytesIO(worker.buffer)
                try:
                    answer = pickle.load(rest)
                except (EOFError, pickle.UnpicklingError):
                    break  # the rest comes later
                worker.buffer = worker.buffer[rest.tell() :]
                self.answered(worker, *answer)
        return bool(ready)

    def answered(self, worker: Worker, what: str, number: int, value: Any) -> None:
        _, _, tag, n, _ = worker.orders.pop(number)
        if what == "made":
            self.mail.append((tag, n, value))
        elif what == "passed":
            if value:
                self.mail.append(value)
        elif what == "taken":
            self.taken += 1
        elif what == "lost":
            self.lost += 1
        elif what == "quiet":
            if value[1]:
                self.errors.append(f"check of {worker.pid}: {value[1]}")
            self.quiet[worker.pid] = value[0]
        elif what != "dropped":
            self.errors.append(f"{what}: order {number}, tag {tag}, {n} bytes")

    def bury(self, worker: Worker) -> None:
        """A worker has died: what it was given and did not confirm is discarded."""
        if worker.pid not in self.killed:
            self.errors.append(f"a worker ended by itself: {worker.orders}")
        for order, _, _, _, message in worker.orders.values():
            if order == "take":
                native.acknowledge(message[0])
        worker.socket.close()
        self.workers[self.workers.index(worker)] = Worker(self.starter)

    def until_quiet(self) -> None:
        """Everybody drops everything; then nothing may be left."""
        self.quiet: dict[int, int] = {}
        native.set_unread_grace(0.0, 0.0)  # messages that were exported and never handed to us
        end = time.monotonic() + PATIENCE
        while True:
            self.quiet.clear()
            asked: set[int] = set()
            hang = time.monotonic() + PATIENCE
            while not {w.pid for w in self.workers} <= self.quiet.keys():
                for worker in self.workers:
                    if worker.pid not in asked:  # all, and those that were started meanwhile
                        asked.add(worker.pid)
                        self.number += 1
                        worker.tell("quiet", self.number)
                self.read(0.1)
                if time.monotonic() > hang:
                    self.errors.append(f"a worker hangs: {[w.orders for w in self.workers]}")
                    for worker in self.workers:
                        if worker.orders:
                            os.kill(worker.pid, signal.SIGUSR1)
                    return
            for _, _, message in self.mail:  # nobody will get them
                native.acknowledge(message[0])
            self.mail.clear()
            native.sweep(True)
            native.trim()  # the messages of a channel go with it, and that may be in limbo
            now = native.statistics()
            left = (
                sum(self.quiet.values()),
                now["slots_used"],
                len(native.unread()),
                now["zombies"],
            )
            if not any(left):
                break
            if time.monotonic() > end:
                holders = [
                    (slot, *(native.describe(*row) + (count,) for *row, count in rows))
                    for slot in range(now["slots"])
                    if (rows := native.slab_lent(slot, 0)[0])
                ]
                self.errors.append(
                    f"left: bytes, slots, messages, zombies {left}, {native.unread()}, {holders}, "
                    f"{native.rows_exiting()} of {native.members()}"
                )
                for worker in self.workers:
                    os.kill(worker.pid, signal.SIGUSR1)
                break
            time.sleep(0.1)
        native.set_unread_grace(60.0)

    def run(self, kills: int, seconds: float) -> bool:
        end, last = time.monotonic() + seconds, time.monotonic()
        next_kill = time.monotonic()
        while self.kills < kills and time.monotonic() < end and not self.errors:
            for worker in self.workers:
                if len(worker.orders) < 4:
                    self.order(worker)
            if self.read(0.001):
                last = time.monotonic()
            if time.monotonic() - last > PATIENCE:
                self.errors.append("nobody answers")
            living = [w for w in self.workers if w.pid not in self.killed]
            if time.monotonic() >= next_kill and living:
                victim = self.dice.choice(living)
                self.killed.add(victim.pid)
                os.kill(victim.pid, signal.SIGKILL)
                self.kills += 1
                next_kill = time.monotonic() + self.dice.expovariate(10)
                if self.kills % ROUND == 0:
                    self.until_quiet()
        self.until_quiet()
        return not self.errors

    def close(self) -> None:
        for worker in self.workers:
            worker.socket.close()
        self.starter.close()
        self.nursery.wait(timeout=PATIENCE)


def main(kills: int, seconds: float, seed: int) -> list[str]:
    """What went wrong."""
    print(f"seed {seed}", flush=True)
    begin = time.monotonic()
    run = Kills(seed)
    try:
        run.run(kills, seconds)
    finally:
        run.close()
    print(
        f"{run.kills} kills, {run.number} orders, {run.taken} blocks received whole, {run.lost} of "
        f"dead owners, {time.monotonic() - begin:.0f} s: {run.errors or 'nothing wrong'}",
        flush=True,
    )
    return run.errors


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    chosen = parser.parse_args()
    sys.exit(bool(main(chosen.kills, chosen.seconds, chosen.seed)))
