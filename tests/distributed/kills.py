"""Ranks that end in every way, at any step of any collective: nobody hangs, all others say who it
was, and nothing is left.

python -m tests.distributed.kills [--rounds 200] [--seed 1]    (make kills)

| way | a rank |
|---|---|
| kill | is killed by SIGKILL at a random moment |
| point | is killed at the n-th pass of a step of the collectives' or the ledger's protocol |
| exception | raises an exception at a random moment, inside a wait, too |
| limit | meets a limit of its address space, and raises MemoryError |
| oom | is killed by the kernel: it exceeds the limit of its memory cgroup (where one can be made) |
| stop | is stopped by SIGSTOP: the others notice at the timeout |

What is said of each way, and bounded, is how long a survivor took: from the death (of a stopped
one: from the stop) or from its own call, whichever came later, to its error; less the time for
which it was ready to run and had no CPU, which is said apart. Before it calls it cannot know, and a
process that was killed, or asked for memory that the kernel has not, is not dead before it is gone:
on two cores with eight busy processes that alone took up to 0.6 s.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from shmtensor import distributed as dist
from shmtensor import memory, native
from shmtensor.distributed.contract import CONTRACTS
from shmtensor.distributed.group import empty_shared
from shmtensor.errors import PeerLostError

from .battery import KILLED, check, draw
from .crowd import run

WAYS = ["kill", "point", "exception", "limit", "oom", "stop"]
STOPPED = 2.0  # seconds: the timeout in rounds with SIGSTOP
SOON = 1.0  # seconds: within these every survivor knows
CGROUPS = Path("/sys/fs/cgroup")
LIMIT = 48 << 20  # bytes


class Fault(Exception):
    """What a rank raises of itself."""


@contextmanager
def memory_group() -> Iterator[str]:
    """A memory cgroup with a limit; "" where none can be made."""
    for root, name in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
        made = CGROUPS / root / f"shmtensor-{os.getpid()}-{random.randrange(1 << 30)}"
        if not (CGROUPS / root / "cgroup.procs").exists():
            continue
        try:
            made.mkdir()
        except OSError:
            continue
        try:
            try:
                (made / name).write_text(str(LIMIT))
                usable = os.access(made / "cgroup.procs", os.W_OK)
            except OSError:
                usable = False
            if usable:
                yield str(made)
                return
        finally:
            for _ in range(200):  # its last process is still on its way out
                try:
                    made.rmdir()
                    break
                except OSError:
                    time.sleep(0.01)
    yield ""


def call_at_random(rng: random.Random) -> None:
    """A collective that all ranks draw alike."""
    check(*draw(rng, dist.get_world_size(), rng.choice(list(CONTRACTS))))


def exceed(cgroup: str, moment: Any) -> None:
    Path(cgroup, "cgroup.procs").write_text(str(os.getpid()))
    held = []
    while True:
        moment[0] = time.monotonic()
        held.append(b"x" * (4 << 20))


def arrange(way: str, rng: random.Random, after: float, cgroup: str, moment: Any) -> None:
    """Has this rank end in that way, and, where it can, write down the moment."""

    def fail(*_: object) -> None:
        if way == "exception":
            moment[0] = time.monotonic()
            raise Fault("by itself")
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
        held = []
        try:
            while True:
                held.append(b"x" * (16 << 20))
        except MemoryError:
            moment[0] = time.monotonic()
            raise

    def stop(number: int) -> None:
        moment[0] = time.monotonic()
        os.kill(os.getpid(), number)

    if way == "point":
        points = native.fault_points()
        name = rng.choice(sorted(points))
        native.arm_fault(f"{name}:{points[name] + rng.randint(1, 20)}")
        after = 3.0  # should it not pass there again
    if way in ("exception", "limit"):
        signal.signal(signal.SIGALRM, fail)
        signal.setitimer(signal.ITIMER_REAL, max(after, 1e-3))
    elif way == "oom":
        threading.Timer(after, exceed, (cgroup, moment)).start()
    else:
        number = signal.SIGSTOP if way == "stop" else signal.SIGKILL
        threading.Timer(after, stop, (number,)).start()


def waited(thread: int) -> float:
    """For how long a thread was ready to run and had no CPU, in seconds, ever."""
    text = Path(f"/proc/self/task/{thread}/schedstat").read_text()
    return int(text.split()[1]) * 1e-9


def note_end(way: str, pid: int, moment: Any, thread: int, noted: list[float]) -> None:
    """Notes when the victim has ended, and for how long `thread` had waited for a CPU until then.

    One that raises or is stopped is there still and says when; a killed one has ended when it is
    gone, and here that may be seen too late by what this thread waits for a CPU itself.
    """
    own = threading.get_native_id()
    if way in ("exception", "limit", "stop"):
        while not moment[0]:
            time.sleep(2e-3)
        end = float(moment[0])
    else:
        pidfd = os.pidfd_open(pid)
        before = waited(own)
        select.select([pidfd], [], [])
        end = time.monotonic() - (waited(own) - before)
        os.close(pidfd)
    noted[:] = end, waited(thread)


def endure(
    seed: int, victim: int, way: str, after: float, cgroup: str, moment: Any
) -> dict[str, Any]:
    """Random collectives until the victim is missed: what the error said, and how late."""
    rank, n = dist.get_rank(), dist.get_world_size()
    pids: list[Any] = [None] * n
    dist.all_gather_object(pids, os.getpid())
    first = rank == min({0, 1} - {victim})  # of the survivors
    rng = random.Random(seed)  # the same calls on all ranks
    for _ in range(5):
        call_at_random(rng)
    if way == "stop":
        dist.GroupMember.WORLD.timeout = STOPPED  # type: ignore[union-attr]
    own, noted = threading.get_native_id(), [0.0, 0.0]
    arguments = (way, pids[victim], moment, own, noted)
    watch = threading.Thread(target=note_end, args=arguments, daemon=True)
    if rank != victim:
        watch.start()
    began = time.monotonic()
    if rank == victim:
        arrange(way, random.Random(seed + 1), after, cgroup, moment)
    while time.monotonic() < began + 60:
        called, before = time.monotonic(), waited(own)
        try:
            call_at_random(rng)
        except PeerLostError as error:
            now, idle = time.monotonic(), waited(own)
            if way == "stop" and first:
                time.sleep(0.3)  # the others are at their timeout, too
                os.kill(pids[victim], signal.SIGKILL)
            watch.join(20)
            end, idle_then = noted
            assert end, "the end was not noted"
            idle -= max(idle_then, before)
            late = now - max(end, called) - idle
            who = {"name": error.name, "pid": error.pid, "host": error.host}
            said = {"who": who, "pid": pids[victim], "text": str(error)}
            return {**said, "late": late, "idle": max(idle, 0.0)}
    raise AssertionError(f"rank {victim} was not missed")


def one_round(seed: int, way: str = "", ranks: int = 0) -> tuple[str, float, float]:
    """A group of which one rank ends. Returns how, after how long the last one knew, and for how
    long, at most, one was without a CPU meanwhile."""
    rng = random.Random(seed)
    way = way or rng.choice(WAYS)
    ranks = ranks or rng.choice(KILLED)
    victim, after = rng.randrange(ranks), rng.uniform(0.0, 0.15)
    with memory_group() if way == "oom" else nothing() as cgroup:
        if way == "oom" and not cgroup:
            way = "kill"
        moment = empty_shared((1,), np.dtype(np.float64))
        moment[0] = 0.0
        outcomes = run(endure, ranks, seed, victim, way, after, cgroup, moment)
    late = idle = 0.0
    for outcome in outcomes:
        if outcome.rank == victim:
            ended = {"exception": Fault, "limit": MemoryError}.get(way)
            if ended is None:
                assert outcome.exitcode == -signal.SIGKILL, (seed, way, outcome)
            else:
                assert isinstance(outcome.error, ended), (seed, way, outcome)
            continue
        assert outcome.error is None, (seed, way, outcome)
        said = outcome.value
        who = {"name": f"rank {victim}", "pid": said["pid"], "host": os.uname().nodename}
        assert said["who"] == who, (seed, way, outcome)
        why = {"stop": "is stopped", "exception": "rank", "limit": "rank"}.get(way, "SIGKILL")
        assert why in said["text"], (seed, way, outcome)
        late = max(late, said["late"])
        idle = max(idle, said["idle"])
    bound = SOON + (STOPPED if way == "stop" else 0.0)
    assert late < bound, (seed, way, f"known after {late:.3f} s", outcomes)
    return way, late, idle


@contextmanager
def nothing() -> Iterator[str]:
    yield ""


def held() -> tuple[int, int, int]:
    """Blocks, descriptors and names that this process has."""
    now = memory.statistics()
    blocks = now.private_blocks + now.shared_blocks + now.held_blocks
    return blocks, len(os.listdir("/proc/self/fd")), len(os.listdir("/dev/shm"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--way", default="", choices=["", *WAYS])
    options = parser.parse_args()
    print(f"{options.rounds} rounds, seed {options.seed}", flush=True)
    one_round(options.seed)  # what lasts for the process is there now
    before = held()
    found: dict[str, list[tuple[float, float]]] = {}
    for i in range(options.rounds):
        way, late, idle = one_round(options.seed * 1000 + i, options.way)
        found.setdefault(way, []).append((late, idle))
    after = held()
    for way, times in sorted(found.items()):
        late = sorted(late for late, _ in times)
        print(
            f"{way}: {len(late)} times, known after {late[len(late) // 2]:.3f} s (median), "
            f"{late[-1]:.3f} s at most; without a CPU for {max(idle for _, idle in times):.3f} s"
        )
    names = "blocks, descriptors, names in /dev/shm"
    print(f"{names}: {before} before, {after} after")
    return int(any(now > then for now, then in zip(after[:2], before[:2], strict=True)))


if __name__ == "__main__":
    sys.exit(main())
