"""The launcher: starts the ranks of one machine, watches them, and says who failed first and why.
On several machines one runs on each; agents.py is how they agree.

```
launcher  makes the domain and the group's block, starts N ranks, a process group each
   |        RANK  LOCAL_RANK  WORLD_SIZE  LOCAL_WORLD_SIZE
   |        SHMTENSOR_DOMAIN (its descriptors are inherited)  SHMTENSOR_GROUP
   v
rank r    runs the script; a failure comes back as exit code and, by a pipe, as traceback
   |
one fails -> its exit code goes into the domain, where peers that raise PeerLostError find it;
             the others are ended: SIGTERM, after the grace SIGKILL, to their process groups;
             with --max-restarts all begin anew
```
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

from ... import native
from ...multiprocessing.queue import describe_exit
from ..rendezvous.find_group import create_block
from .agents import Agents, Place, spans_nodes
from .arguments import parser
from .cpu_affinity import cpus_of
from .rank_output import Output

__all__ = ["Failure", "launch", "main"]

LOOK = 0.02  # seconds between two looks at the ranks
SECONDARY = ("PeerLostError",)  # what ranks raise because another one failed
WIND_DOWN = 5.0  # seconds that a rank has from saying why it ends to its end


@dataclass
class Rank:
    """One started process."""

    rank: int
    process: subprocess.Popen[bytes]
    errors: int  # read end of its pipe
    output: Output | None = None
    exitcode: int | None = None
    record: dict[str, Any] = field(default_factory=dict)

    def told(self) -> dict[str, Any]:
        """What the rank wrote about its failure; it may not have ended yet."""
        if self.record:
            return self.record
        data = b""
        with suppress(BlockingIOError):
            while part := os.read(self.errors, 65536):
                data += part
        with suppress(ValueError):  # killed while it wrote, or before
            self.record, _ = json.JSONDecoder().raw_decode(data.decode(errors="replace"))
        return self.record

    def is_secondary(self) -> bool:
        return self.told().get("type") in SECONDARY

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


@dataclass
class Failure:
    """The first failure of a run, or why all begin anew.

    Attributes:
        node: "", or in words where it was.
        reason: failed; or lost, signal, joins: of a whole node.
    """

    rank: int
    pid: int
    exitcode: int
    record: dict[str, Any]
    node: str = ""
    reason: str = "failed"

    @classmethod
    def told(cls, told: dict[str, Any]) -> Failure:
        """What an agent said; a traceback is shown on its own node only."""
        node = told.get("node", -1)
        who = "the node of the store" if node == -1 else f"node {node}"
        where = f" on {who} ({told['host']})"
        numbers = (told.get("rank", -1), told.get("pid", 0), told.get("exitcode", 1))
        return cls(*numbers, {}, where, told["reason"])

    def text(self) -> str:
        if self.reason != "failed":
            said = {"lost": "has died", "joins": "joins: all begin anew"}
            where = "another node" if self.reason == "joins" else self.node.removeprefix(" on ")
            return f"shmtensor.run: {where} {said.get(self.reason, 'was told to end')}"
        who = f"rank {self.rank}{self.node} (pid {self.pid})"
        lines = [f"shmtensor.run: {who} {describe_exit(self.exitcode)}"]
        if "traceback" in self.record and self.record.get("type") != "SystemExit":
            lines += ["", self.record["traceback"].rstrip()]
        return "\n".join(lines)


class Interrupted(BaseException):
    """A signal told the launcher to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def on_signal(number: int, _: FrameType | None) -> None:
    raise Interrupted(number)


def environment_of(
    rank: int, handle: bytes, error: int, options: argparse.Namespace, place: Place, secret: str
) -> dict[str, str]:
    n = options.nproc_per_node
    env = dict(os.environ)
    env.update(
        RANK=str(place.first + rank),
        LOCAL_RANK="0" if options.virtual_local_rank else str(rank),
        GROUP_RANK=str(place.node),
        ROLE_RANK=str(place.first + rank),
        WORLD_SIZE=str(place.world),
        LOCAL_WORLD_SIZE=str(n),
        ROLE_WORLD_SIZE=str(place.world),
        ROLE_NAME=options.role,
        GROUP_WORLD_SIZE=str(place.nodes),
        SHMTENSOR_SECRET=secret,
        MASTER_ADDR=options.master_addr,
        MASTER_PORT=str(options.master_port),
        SHMTENSOR_DOMAIN=native.domain_environment(),
        SHMTENSOR_GROUP=handle.hex() if place.nodes == 1 else "",
        SHMTENSOR_ERROR_FD=str(error),
        SHMTENSOR_LAUNCHER=str(os.getpid()),
        TORCHELASTIC_RESTART_COUNT=str(place.restarts),
        TORCHELASTIC_MAX_RESTARTS=str(options.max_restarts),
        TORCHELASTIC_RUN_ID=options.rdzv_id or "none",
    )
    if options.virtual_local_rank:  # each sees its own GPU as the first
        seen = env.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(n)))).split(",")
        env["CUDA_VISIBLE_DEVICES"] = seen[rank] if rank < len(seen) else ""
    cpus = cpus_of(options.numa_binding, rank, n)
    if cpus:
        env["SHMTENSOR_CPUS"] = ",".join(map(str, cpus))
    # The ranks share the CPUs; a rank that took all would only wait for the others.
    env.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // n)))
    return env


def command_of(options: argparse.Namespace) -> list[str]:
    if options.no_python:
        return [options.script, *options.arguments]
    command = [sys.executable, "-u"] if options.unbuffered else [sys.executable]
    command += ["-m", "shmtensor.distributed.launcher.rank_main"]
    if options.module:
        command.append("-m")
    return [*command, options.script, *options.arguments]


def start(
    options: argparse.Namespace, handle: bytes, place: Place, agents: Agents | None
) -> list[Rank]:
    ranks: list[Rank] = []
    secret = secrets.token_hex(16)
    try:
        for rank in range(options.nproc_per_node):
            errors, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            output = Output.of(rank, options, place.restarts)
            env = environment_of(rank, handle, write, options, place, secret)
            if agents is not None:
                env.update(agents.environment(place))
            if output.folder is not None:
                env["TORCHELASTIC_ERROR_FILE"] = str(output.folder / "error.json")
            try:
                process = subprocess.Popen(
                    command_of(options),
                    env=env,
                    stdout=output.stdout,
                    stderr=output.stderr,
                    pass_fds=(write, *native.domain_fds()),
                    process_group=0 if sys.version_info >= (3, 11) else None,
                    preexec_fn=None if sys.version_info >= (3, 11) else os.setpgrp,
                )
            except BaseException:
                os.close(errors)
                output.close()
                raise
            finally:
                os.close(write)
                output.started()
            ranks.append(Rank(place.first + rank, process, errors, output))
    except BaseException:
        end(ranks, 0.0)
        raise
    return ranks


def watch(ranks: list[Rank], place: Place, agents: Agents | None) -> Failure | None:
    """Waits until all have ended well, or the first has failed, on this node or another."""
    until = 0.0
    while True:
        poll(ranks)
        if agents is not None and (told := agents.poll()):
            return Failure.told(told)
        if any(r.exitcode for r in ranks):
            # A rank says why it ends before its interpreter winds down, and those that wait for it
            # may be through before: the one that did not merely notice another's end comes first.
            failed = [r for r in ranks if r.exitcode or (r.exitcode is None and r.told())]
            first = min(failed, key=lambda r: (r.is_secondary(), r.exitcode is None))
            until = until or time.monotonic() + WIND_DOWN
            is_late = time.monotonic() >= until
            is_echo = agents is not None and first.is_secondary()  # another node knows more
            if is_late or (first.exitcode is not None and not is_echo):
                own = Failure(first.rank, first.process.pid, first.exitcode or 1, first.told())
                return own if agents is None else report(own, place, agents)
        if all(r.exitcode is not None for r in ranks):
            told = None if agents is None else agents.finish()
            return None if told is None else Failure.told(told)
        time.sleep(LOOK)


def report(own: Failure, place: Place, agents: Agents) -> Failure:
    """Tells the other nodes of a failure here; returns the first that was told."""
    mine = {
        "reason": "failed",
        "node": place.node,
        "host": socket.gethostname(),
        "rank": own.rank,
        "pid": own.pid,
        "exitcode": own.exitcode,
    }
    told = agents.tell(mine)
    first = Failure.told(told)
    if told == mine:
        first.record = own.record
    return first


def poll(ranks: list[Rank]) -> None:
    """Finds out which ranks have ended; their exit codes are told to the domain."""
    for r in ranks:
        if r.exitcode is None and (code := r.process.poll()) is not None:
            r.exitcode = code
            native.record_exit_pid(r.process.pid, code)


def end(ranks: list[Rank], grace: float) -> None:
    """Ends what still runs, with all children, and closes the pipes."""
    for r in ranks:
        if r.exitcode is None:
            r.signal(signal.SIGTERM)
    until = time.monotonic() + grace
    while any(r.exitcode is None for r in ranks) and time.monotonic() < until:
        poll(ranks)
        time.sleep(LOOK)
    for r in ranks:
        r.signal(signal.SIGKILL)  # children that a rank has left behind, too
        r.process.wait()
        os.close(r.errors)
        if r.output is not None:
            r.output.close()


def launch(options: argparse.Namespace, agents: Agents | None = None) -> int:
    """Runs the script on N ranks, here and where the other agents are. Returns the exit code: 0,
    the first failure's, or 128 + its signal.
    """
    native.domain_ensure()
    native.set_role("launcher")
    before = {number: signal.signal(number, on_signal) for number in options.signals_to_handle}
    place = Place(world=options.nproc_per_node)
    ranks: list[Rank] = []
    try:
        while True:
            if agents is not None:
                place = agents.join()
            failure = attempt(options, place, agents, ranks)
            if failure is None:
                return 0
            print(failure.text(), file=sys.stderr, flush=True)
            if failure.reason == "joins":
                continue
            is_over = agents is not None and not agents.can_go_on(failure.reason)
            if is_over or place.restarts >= options.max_restarts:
                break
            restarts = place.restarts + 1
            print(
                f"shmtensor.run: restart {restarts} of {options.max_restarts}",
                file=sys.stderr,
                flush=True,
            )
            place = replace(place, restarts=restarts)
        return failure.exitcode if failure.exitcode > 0 else 128 - failure.exitcode
    except Interrupted as caught:
        for number in before:
            signal.signal(number, signal.SIG_IGN)  # the way out is not interrupted again
        for r in ranks:
            if r.exitcode is None:
                r.signal(caught.number)
        if agents is not None:
            node, host = place.node, socket.gethostname()
            agents.tell({"reason": "signal", "node": node, "host": host})
        end(ranks, options.shutdown_timeout)
        return 128 + caught.number
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def attempt(
    options: argparse.Namespace, place: Place, agents: Agents | None, ranks: list[Rank]
) -> Failure | None:
    """Runs the ranks once; `ranks` has those that are there."""
    block, handle = create_block(options.nproc_per_node)
    try:
        ranks[:] = start(options, handle, place, agents)
        failure = watch(ranks, place, agents)
        end(ranks, options.shutdown_timeout if failure else 0.0)
        ranks.clear()
        return failure
    finally:
        native.acknowledge(handle)
        del block


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    if options.run_path:
        options.module = False
    if options.module and options.no_python:
        parser().error("--no-python and --module exclude each other")
    if not (options.module or options.no_python) and not os.path.isfile(options.script):
        parser().error(f"no such file: {options.script}")
    try:
        agents = Agents(options) if spans_nodes(options) else None
    except (ValueError, OSError) as error:
        parser().error(str(error))
    if agents is not None:
        try:
            return launch(options, agents)
        except (ValueError, TimeoutError, ConnectionError) as error:
            print(f"shmtensor.run: {error}", file=sys.stderr)
            return 1
        finally:
            agents.close()
    if not options.master_port:
        with socket.create_server(("127.0.0.1", 0)) as free:
            options.master_port = free.getsockname()[1]
    return launch(options)
