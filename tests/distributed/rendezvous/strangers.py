"""Ranks without a common ancestor that knows shmtensor: the functions that they run, and how a test
starts them.

python -m tests.distributed.rendezvous.strangers CASE [name=value]

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say who a rank is. It prints a line of JSON: its value
or its error, and the seconds that init_process_group took.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

WAIT = 120.0  # seconds; a bound for a loaded machine
UNSET = ("LOCAL_WORLD_SIZE", "SHMTENSOR_SECRET", "SHMTENSOR_SECRET_FILE", "SHMTENSOR_DOMAIN")


class Stranger:
    """A rank in a process of its own, which no process that knows shmtensor has started."""

    def __init__(
        self,
        rank: int,
        world: int,
        port: int,
        *case: str,
        prefix: Sequence[str] = (),
        program: str = __name__,
        **env: str,
    ) -> None:
        environment = {
            **{name: value for name, value in os.environ.items() if name not in UNSET},
            "PYTHONPATH": os.pathsep.join(sys.path),
            "RANK": str(rank),
            "WORLD_SIZE": str(world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "OMP_NUM_THREADS": "1",
            "SHMTENSOR_DOMAIN": "",
            **env,
        }
        self.rank, self.port = rank, port
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", program, *case],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.stderr = ""

    def end(self, timeout: float = WAIT) -> dict[str, Any]:
        """What it printed last, when it has ended."""
        try:
            out, self.stderr = self.process.communicate(timeout=timeout)
        except BaseException:
            self.process.kill()
            self.process.communicate()
            raise
        lines = [line for line in out.splitlines() if line.startswith("{")]
        record: dict[str, Any] = json.loads(lines[-1]) if lines else {"killed": True}
        return {**record, "exitcode": self.process.returncode, "stderr": self.stderr}


def end_all(strangers: Sequence[Stranger], timeout: float = WAIT) -> list[dict[str, Any]]:
    """What each rank printed; kills them all if one does not end."""
    try:
        return [each.end(timeout) for each in strangers]
    finally:
        for each in strangers:
            if each.process.poll() is None:
                each.process.kill()
                each.process.communicate()


SESSION = f"""
import json, sys
from {__name__} import Stranger, end_all
ranks = [Stranger(*positional, **named) for positional, named in json.loads(sys.argv[1])]
print(json.dumps(end_all(ranks)))
"""


def end_in_one_session(
    *ranks: tuple[Sequence[Any], dict[str, str]], timeout: float = WAIT
) -> list[dict[str, Any]]:
    """`end_all` of the ranks with these arguments, started in a session of their own: the leader of
    this process's session may be outside its pid namespace, where no process can tell its session.
    """
    with subprocess.Popen(
        [sys.executable, "-c", SESSION, json.dumps(ranks)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as leader:
        try:
            out, _ = leader.communicate(timeout=timeout)
        except BaseException:
            os.killpg(leader.pid, signal.SIGKILL)
            raise
    records: list[dict[str, Any]] = json.loads(out)
    return records


def values(records: Sequence[dict[str, Any]]) -> list[Any]:
    """The ranks' values; fails if one raised."""
    for record in records:
        assert "value" in record, record
    return [record["value"] for record in records]


# ---------------------------------------------------------------- what they run, in a group
def meet() -> Any:
    """A large and a small sum; how many domains this process is in, and what was staged."""
    import shmtensor as st
    from shmtensor import distributed as dist
    from shmtensor import native

    rank, n = dist.get_rank(), dist.get_world_size()
    sums = []
    for size in (3, 100_000):
        x = st.full((size,), float(rank + 1))
        dist.all_reduce(x)
        sums.append(x[-1].item() == n * (n + 1) / 2)
    world: Any = dist.GroupMember.WORLD
    staged = world.statistics().bytes_staged
    return {"sums": sums, "domains": len(native.domains()), "staged": staged, "name": engine()}


def launched() -> Any:
    """The same, and what the launcher says."""
    from shmtensor import distributed as dist
    from shmtensor.distributed.group.init_process_group import is_launched

    return {**meet(), "is_launched": is_launched(), "local_rank": dist.get_node_local_rank()}


def engine() -> str:
    from shmtensor import distributed as dist

    return type(dist.GroupMember.WORLD.native).__name__  # type: ignore[union-attr]


def battery() -> int:
    """Every collective at every threshold, with dtypes, layouts and operations drawn by a seed."""
    from ..battery import sweep

    return sweep(int(os.environ["MASTER_PORT"]))


def train() -> str:
    """Training with DistributedDataParallel; the gradient."""
    from ..ddp.sharded_step import training

    return training().hex()


def groups_and_objects() -> list[Any]:
    """Subgroups, messages, objects with tensors, a smaller group, and a second default group."""
    import shmtensor as st
    from shmtensor import distributed as dist

    rank, n = dist.get_rank(), dist.get_world_size()
    results: list[Any] = []
    for ranks in ([0, 1], [1, 2], [2]):
        group: Any = dist.new_group(ranks)
        if rank in ranks:
            x = st.full((40_000,), float(rank))
            dist.all_reduce(x, group=group)
            results.append(x[-1].item() == sum(ranks))
    boxes: list[Any] = [None] * n
    dist.all_gather_object(boxes, {"x": st.full((50_000,), float(rank))})
    results.append([each["x"][-1].item() for each in boxes] == list(range(n)))
    x = st.full((30_000,), float(rank))
    dist.send(x, (rank + 1) % n) if rank == 0 else dist.recv(x, rank - 1)
    if rank:
        dist.send(x, (rank + 1) % n)
    else:
        dist.recv(x, n - 1)
    results.append(x[-1].item() == 0.0)
    del boxes
    smaller: Any = None
    if rank < n - 1:
        smaller = dist.new_group(list(range(n)))
    else:
        dist.new_group(list(range(n)))
    if rank < n - 1:
        smaller = dist.shrink_group([n - 1], smaller)
        x = st.ones(20_000)
        dist.all_reduce(x, group=smaller)
        results.append(x[-1].item() == n - 1)
    dist.barrier()
    dist.destroy_process_group()
    dist.init_process_group(timeout=60)
    x = st.ones(20_000)
    dist.all_reduce(x)
    results.append(x[-1].item() == n)
    return results


def lose(victim: str = "1") -> Any:
    """A rank is killed in the group: what the others raise, and how long after."""
    import shmtensor as st
    from shmtensor import distributed as dist
    from shmtensor.errors import PeerLostError

    rank = dist.get_rank()
    moment: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(moment, os.getpid())
    if rank == int(victim):
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    try:
        while True:
            dist.all_reduce(st.ones(20_000))
    except PeerLostError as error:
        late = time.monotonic() - began
        return [error.name, error.pid == moment[int(victim)], late, str(error)]


def stay(seconds: str = "0") -> str:
    time.sleep(float(seconds))
    return "stayed"


CASES: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (meet, launched, battery, train, groups_and_objects, lose, stay)
}


def act_at(step: str, action: Callable[[], None]) -> None:
    """Does something at a step of the meeting."""
    from shmtensor.distributed.rendezvous import meeting_host, meeting_joiner

    def fault_point(at: str) -> None:
        if at == step:
            action()

    meeting_host.fault_point = meeting_joiner.fault_point = fault_point


def end_by(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def interrupt() -> None:
    raise KeyboardInterrupt


TENSORS: list[Any] = []


def make_tensor() -> None:
    """As another thread of this process may at any time."""
    import shmtensor as st

    TENSORS.append(st.ones(1000))


def exhaust_descriptors() -> None:
    limit = max(map(int, os.listdir("/proc/self/fd"))) + 1
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    with suppress(OSError):
        while True:
            os.dup(0)


ACTIONS: dict[str, Callable[[], None]] = {
    "die": partial(end_by, signal.SIGKILL),
    "stop": partial(end_by, signal.SIGSTOP),
    "interrupt": interrupt,
    "tensor": make_tensor,
    "descriptors": exhaust_descriptors,
}


def come_and_give_up(method: str | None) -> None:
    """Gives up once rank 0 has seen that this rank came, and lives."""
    from shmtensor import distributed as dist
    from shmtensor.distributed.rendezvous import meeting_joiner

    steps: list[str] = []
    original, meeting_joiner.fault_point = meeting_joiner.fault_point, steps.append
    while not {"welcome", "came"} & set(steps):
        with suppress(TimeoutError):
            dist.init_process_group(None, method, 1.0)
    meeting_joiner.fault_point = original
    os.write(1, b"gave up\n")


def wait_together(folder: str, n: int) -> None:
    """Returns when n ranks are here: they begin to meet at once, however long they imported."""
    Path(folder, str(os.getpid())).touch()
    while len(os.listdir(folder)) < n:
        time.sleep(0.01)


def become(uid: int) -> None:
    """Becomes another user, which may not read the interpreter's files: they are imported first."""
    import encodings.idna
    import hashlib
    import secrets

    from shmtensor import distributed as dist
    from shmtensor.distributed.backends.tcp import connect_ranks
    from shmtensor.distributed.collectives import all_to_all

    assert all((dist, connect_ranks, all_to_all, encodings.idna, hashlib, secrets))
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


def main() -> None:
    case = sys.argv[1]
    settings = dict(each.split("=", 1) for each in sys.argv[2:])
    if uid := settings.pop("uid", ""):
        become(int(uid))
    import shmtensor as st
    from shmtensor import distributed as dist
    from shmtensor.distributed.rendezvous import meeting_host, notice

    tensors = [st.ones(1000)] if settings.pop("before", "") else []
    for name, action in ACTIONS.items():
        if step := settings.pop(name, ""):
            act_at(step, action)
    notice.SILENCE = float(settings.pop("silence", notice.SILENCE))
    meeting_host.MAX_DOMAINS = int(settings.pop("domains", meeting_host.MAX_DOMAINS))
    method, world = settings.pop("method", None), int(settings.pop("world", -1))
    timeout = float(settings.pop("timeout", 60.0))
    if together := settings.pop("together", ""):
        wait_together(together, int(settings.pop("n")))
    began = time.monotonic()
    record: dict[str, Any] = {"pid": os.getpid()}
    try:
        if folder := settings.pop("store", ""):
            dist.init_process_group(None, None, timeout, store=dist.FileStore(folder))
        else:
            if settings.pop("again", ""):
                come_and_give_up(method)
            dist.init_process_group(None, method, timeout, world)
        record["seconds"] = time.monotonic() - began
        record["value"] = CASES[case](**settings)
        dist.destroy_process_group()
    except BaseException as error:
        record.setdefault("seconds", time.monotonic() - began)
        record |= {"error": type(error).__name__, "text": str(error)}
    del tensors
    TENSORS.clear()
    os.write(1, (json.dumps(record) + "\n").encode())


if __name__ == "__main__":
    main()
