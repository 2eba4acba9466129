"""Ranks that end in every way, at any step of any collective: nobody hangs, all others name the
rank, and nothing is left.

python -m tests.distributed.kills [--rounds 200] [--seed 1] [--nodes]    (make kills)

| way | a rank |
|---|---|
| kill | is killed by SIGKILL at a random moment |
| point | is killed at the n-th pass of a step of the collectives' or the ledger's protocol |
| exception | raises an exception at a random moment, inside a wait, too |
| limit | meets a limit of its address space, and raises MemoryError |
| oom | is killed by the kernel: it exceeds the limit of its memory cgroup (where one can be made) |
| stop | is stopped by SIGSTOP: the others notice at the timeout |
| node | is killed with all ranks of its node (with --nodes: two nodes of this machine, by TCP) |

Reported and bounded for each way is the time that a survivor took: from the death (or the stop) or
from its own call, whichever came later, to its error; less the time for which it was ready to run
and had no CPU, which is reported separately. Before its call a rank cannot know. A process that was
killed, or exceeded the memory, is dead only when it has exited: on two cores with eight busy
processes that alone took up to 0.6 s.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from shmtensor import distributed as dist
from shmtensor import memory, native
from shmtensor.errors import CollectiveTimeout, PeerLostError
from shmtensor.memory.layout import empty_shared

from .battery import RANKS, check, draw
from .contracts import CONTRACTS
from .run_ranks import node_of, run

WAYS = ["kill", "point", "exception", "limit", "oom", "stop"]
ACROSS = [*WAYS, "node"]
STOPPED = 2.0  # seconds: the timeout in rounds with SIGSTOP
SOON = 1.0  # seconds: every survivor knows within this time
CGROUPS = Path("/sys/fs/cgroup")
LIMIT = 48 << 20  # bytes


class Fault(Exception):
    """The exception that a victim raises."""


@contextmanager
def memory_group() -> Iterator[str]:
    """A memory cgroup with a limit; "" if none can be created."""
    for root, name in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
        path = CGROUPS / root / f"shmtensor-{os.getpid()}-{random.randrange(1 << 30)}"
        if not (CGROUPS / root / "cgroup.procs").exists():
            continue
        try:
            path.mkdir()
        except OSError:
            continue
        try:
            try:
                (path / name).write_text(str(LIMIT))
                usable = os.access(path / "cgroup.procs", os.W_OK)
            except OSError:
                usable = False
            if usable:
                yield str(path)
                return
        finally:
            for _ in range(200):  # its last process may still be exiting
                try:
                    path.rmdir()
                    break
                except OSError:
                    time.sleep(0.01)
    yield ""


def call_at_random(rng: random.Random) -> None:
    """A collective that all ranks draw alike."""
    check(*draw(rng, dist.get_world_size(), rng.choice(list(CONTRACTS))))


def exceed(cgroup: str, moment: Any) -> None:
    Path(cgroup, "cgroup.procs").write_text(str(os.getpid()))
    blocks = []
    while True:
        moment[0] = time.monotonic()
        blocks.append(b"x" * (4 << 20))


def arrange(
    ending: str, rng: random.Random, after: float, cgroup: str, moment: Any, victim_pids: list[int]
) -> None:
    """Makes this rank end in that way; it writes down the moment if it can.

    Args:
        victim_pids: pids of its node.
    """

    def fail(*_: object) -> None:
        if ending == "exception":
            moment[0] = time.monotonic()
            raise Fault("by itself")
        nbytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (nbytes + (64 << 20), resource.RLIM_INFINITY))
        blocks = []
        try:
            while True:
                blocks.append(b"x" * (16 << 20))
        except MemoryError:
            moment[0] = time.monotonic()
            raise

    def stop(number: int) -> None:
        moment[0] = time.monotonic()
        for pid in victim_pids if ending == "node" else [os.getpid()]:
            os.kill(pid, number)

    if ending == "point":
        points = native.fault_points()
        name = rng.choice(sorted(points))
        native.arm_fault(f"{name}:{points[name] + rng.randint(1, 20)}")
        after = 3.0  # in case it does not pass the point again
    if ending in ("exception", "limit"):
        signal.signal(signal.SIGALRM, fail)
        signal.setitimer(signal.ITIMER_REAL, max(after, 1e-3))
    elif ending == "oom":
        threading.Timer(after, exceed, (cgroup, moment)).start()
    else:
        number = signal.SIGSTOP if ending == "stop" else signal.SIGKILL
        threading.Timer(after, stop, (number,)).start()


def waited(thread: int) -> float:
    """The total time in seconds for which a thread was ready to run and had no CPU."""
    text = Path(f"/proc/self/task/{thread}/schedstat").read_text()
    return int(text.split()[1]) * 1e-9


class Watch:
    """Measures how late this thread learns of the end of a process; another thread notes the end.

    A process that raises or is stopped still runs and writes the time to `moment`. A killed one has
    ended when its pidfd is readable; the noting thread may see that late by its own wait for a CPU.
    """

    def __init__(self, ending: str, pidfd: int, moment: Any = None) -> None:
        self.ending, self.pidfd, self.moment = ending, pidfd, moment
        self.thread_id = threading.get_native_id()
        self.end = self.waited_then = 0.0
        self.thread = threading.Thread(target=self.note, daemon=True)
        self.thread.start()

    def note(self) -> None:
        thread_id = threading.get_native_id()
        if self.ending in ("exception", "limit", "stop"):
            while not self.moment[0]:
                time.sleep(2e-3)
            end = float(self.moment[0])
        else:
            before = waited(thread_id)
            select.select([self.pidfd], [], [])
            end = time.monotonic() - (waited(thread_id) - before)
        os.close(self.pidfd)
        self.waited_then = waited(self.thread_id)
        self.end = end

    def call(self) -> None:
        """A call begins that will not return if the process ends; earlier no rank can notice it."""
        self.call_time, self.before = time.monotonic(), waited(self.thread_id)

    def learnt(self) -> tuple[float, float]:
        """Seconds since the end, or since the last call if that came later, less the time for which
        this thread had no CPU; and that time."""
        now, idle = time.monotonic(), waited(self.thread_id)
        self.thread.join(20)
        assert self.end, "the end was not noted"
        idle -= max(self.waited_then, self.before)
        return now - max(self.end, self.call_time) - idle, max(idle, 0.0)


def endure(
    seed: int, victim: int, ending: str, after: float, cgroup: str, moment: Any, node: int
) -> dict[str, Any]:
    """Random collectives until the victim's death raises: the error, and its delay."""
    rank, n = dist.get_rank(), dist.get_world_size()
    mates = node_of(victim, node or n, n)
    pids: list[Any] = [None] * n
    dist.all_gather_object(pids, os.getpid())
    pidfd = os.pidfd_open(pids[victim])
    dist.barrier()  # before any rank may end: a process that is reaped has no pidfd
    dead = mates if ending == "node" else [victim]
    first = rank == min(set(range(n)) - set(dead))  # of the survivors
    rng = random.Random(seed)  # the same calls on all ranks
    for _ in range(5):
        call_at_random(rng)
    if ending == "stop":
        dist.GroupMember.WORLD.timeout = STOPPED  # type: ignore[union-attr]
    began = time.monotonic()
    if rank == victim:
        victim_pids = [pids[r] for r in mates if r != victim] + [pids[victim]]
        arrange(ending, random.Random(seed + 1), after, cgroup, moment, victim_pids)
    else:
        watch = Watch(ending, pidfd, moment)
    while time.monotonic() < began + 60:
        if rank != victim:
            watch.call()
        try:
            call_at_random(rng)
        except (PeerLostError, CollectiveTimeout) as error:
            if isinstance(error, CollectiveTimeout) and (ending != "stop" or len(mates) > 1):
                raise
            late, idle = watch.learnt()
            if ending == "stop" and first:
                time.sleep(0.3)  # the others reach their timeout, too
                os.kill(pids[victim], signal.SIGKILL)
            who = {name: getattr(error, name, None) for name in ("name", "pid", "host")}
            return {"who": who, "pids": pids, "text": str(error), "late": late, "idle": idle}
    raise AssertionError(f"rank {victim} was not missed")


def one_round(
    seed: int,
    ending: str = "",
    ranks: int = 0,
    nodes: bool = False,
    runner: Callable[..., Any] = run,
    soon: float = SOON,
) -> tuple[str, float, float]:
    """Runs a group in which one rank ends. Returns how, how long the last survivor took to know,
    and the longest time that one had no CPU meanwhile.

    Args:
        nodes: the ranks are two nodes, between which is TCP.
        runner: runs the ranks, as `run` does.
        soon: seconds within which every survivor has to know.
    """
    rng = random.Random(seed)
    ending = ending or rng.choice(ACROSS if nodes else WAYS)
    ranks = ranks or rng.choice(RANKS[1:])  # somebody has to survive
    victim, after = rng.randrange(ranks), rng.uniform(0.0, 0.15)
    node = (ranks + 1) // 2 if nodes else 0
    with memory_group() if ending == "oom" else nullcontext("") as cgroup:
        if ending == "oom" and not cgroup:
            ending = "kill"
        moment = empty_shared((1,), np.dtype(np.float64))
        moment[0] = 0.0
        arguments = (seed, victim, ending, after, cgroup, moment, node)
        outcomes = runner(endure, ranks, *arguments, node=node)
    mates = node_of(victim, node or ranks, ranks)
    dead = mates if ending == "node" else [victim]
    late = idle = 0.0
    for outcome in outcomes:
        if outcome.rank in dead:
            if ending == "exception":
                is_expected = isinstance(outcome.error, Fault)
            elif ending == "limit":  # there may be no memory to say so
                is_expected = isinstance(outcome.error, MemoryError) or outcome.exitcode == 1
            else:
                is_expected = outcome.exitcode == -signal.SIGKILL
            assert is_expected, (seed, ending, outcome)
            continue
        assert outcome.error is None, (seed, ending, outcome)
        report = outcome.value
        expected_errors = [
            {"name": f"rank {r}", "pid": report["pids"][r], "host": os.uname().nodename}
            for r in dead
        ]
        causes = {"stop": ["is stopped"], "exception": ["rank"], "limit": ["rank"]}
        why = causes.get(ending, ["SIGKILL"])
        if ending == "stop" and len(mates) == 1:  # no rank can tell whether it is stopped or late
            expected_errors, why = (
                [dict.fromkeys(("name", "pid", "host"))],
                [f"rank {victim} has not come"],
            )
        elif ending not in causes and (
            len(mates) == 1 or ending == "node"
        ):  # no other rank may know more
            why = [*why, "ended"]
        assert report["who"] in expected_errors, (seed, ending, outcome)
        assert any(each in report["text"] for each in why), (seed, ending, outcome)
        late = max(late, report["late"])
        idle = max(idle, report["idle"])
    limit = soon + (STOPPED if ending == "stop" else 0.0)
    assert late < limit, (seed, ending, f"known after {late:.3f} s", outcomes)
    return ending, late, idle


def held_counts() -> tuple[int, int, int]:
    """Blocks, descriptors and names that this process has."""
    now = memory.statistics()
    blocks = now.private_blocks + now.shared_blocks + now.held_blocks
    return blocks, len(os.listdir("/proc/self/fd")), len(os.listdir("/dev/shm"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--way", default="", choices=["", *ACROSS])
    parser.add_argument("--nodes", action="store_true", help="two nodes, with TCP between them")
    options = parser.parse_args()
    print(f"{options.rounds} rounds, seed {options.seed}", flush=True)
    one_round(options.seed, nodes=options.nodes)  # creates what lasts for the process
    before = held_counts()
    delays: dict[str, list[tuple[float, float]]] = {}
    for i in range(options.rounds):
        ending, late, idle = one_round(options.seed * 1000 + i, options.way, 0, options.nodes)
        delays.setdefault(ending, []).append((late, idle))
    after = held_counts()
    for ending, times in sorted(delays.items()):
        late = sorted(late for late, _ in times)
        print(
            f"{ending}: {len(late)} times, known after {late[len(late) // 2]:.3f} s (median), "
            f"{late[-1]:.3f} s at most; without a CPU for {max(idle for _, idle in times):.3f} s"
        )
    names = "blocks, descriptors, names in /dev/shm"
    print(f"{names}: {before} before, {after} after")
    return int(any(now > earlier for now, earlier in zip(after[:2], before[:2], strict=True)))


if __name__ == "__main__":
    sys.exit(main())
