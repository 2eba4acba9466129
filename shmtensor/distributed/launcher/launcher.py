"""The launcher: starts the ranks of one machine, watches them, and reports the first failure. On
several machines one launcher runs on each; they communicate by agents.py.

```
launcher  creates the domain and the group's block, starts N ranks, each in a process group
   |        RANK  LOCAL_RANK  WORLD_SIZE  LOCAL_WORLD_SIZE
   |        SHMTENSOR_DOMAIN (its descriptors are inherited)  SHMTENSOR_GROUP
   v
rank r    runs the script; reports a failure by its exit code and, through a pipe, its traceback
   |
one fails -> its exit code goes into the domain, where peers that raise PeerLostError find it;
             the others are ended: SIGTERM, after a timeout SIGKILL, to their process groups;
             with --max-restarts all are restarted
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
from .agents import Agents, NodePlacement, spans_nodes
from .arguments import parser
from .cpu_affinity import cpus_of
from .rank_output import Output

__all__ = ["Failure", "launch", "main"]

POLL_INTERVAL = 0.02  # seconds between two polls of the ranks
SECONDARY = ("PeerLostError",)  # errors that ranks raise because another one failed
# A rank leads a process group. Python 3.10's Popen has no argument for it.
OWN_GROUP: dict[str, Any] = (
    {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp}
)
WIND_DOWN = 5.0  # seconds that a rank has from its report until it exits


@dataclass
class Rank:
    """One started process."""

    rank: int
    process: subprocess.Popen[bytes]
    errors: int  # read end of its pipe for the report
    output: Output | None = None
    exitcode: int | None = None
    record: dict[str, Any] = field(default_factory=dict)

    def read_record(self) -> dict[str, Any]:
        """The rank's report of its failure; the rank may not have exited yet."""
        if self.record:
            return self.record
        data = b""
        with suppress(BlockingIOError):
            while part := os.read(self.errors, 65536):
                data += part
        with suppress(ValueError):  # killed before or while it wrote
            self.record, _ = json.JSONDecoder().raw_decode(data.decode(errors="replace"))
        return self.record

    def is_secondary(self) -> bool:
        return self.read_record().get("type") in SECONDARY

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


@dataclass
class Failure:
    """The first failure of a run, or why all ranks are restarted.

    Attributes:
        node: the node in words, or "".
        reason: failed; or lost, signal, joins: of a node.
    """

    rank: int
    pid: int
    exitcode: int
    record: dict[str, Any]
    node: str = ""
    reason: str = "failed"

    @classmethod
    def from_agent(cls, record: dict[str, Any]) -> Failure:
        """The failure of an agent's record, which has no traceback: only its own node shows it."""
        node = record.get("node", -1)
        who = "the node of the store" if node == -1 else f"node {node}"
        where = f" on {who} ({record['host']})"
        numbers = (record.get("rank", -1), record.get("pid", 0), record.get("exitcode", 1))
        return cls(*numbers, {}, where, record["reason"])

    def text(self) -> str:
        if self.reason != "failed":
            texts = {"lost": "has died", "joins": "joins: all ranks are restarted"}
            where = "another node" if self.reason == "joins" else self.node.removeprefix(" on ")
            return f"shmtensor.run: {where} {texts.get(self.reason, 'was told to end')}"
        who = f"rank {self.rank}{self.node} (pid {self.pid})"
        lines = [f"shmtensor.run: {who} {describe_exit(self.exitcode)}"]
        if "traceback" in self.record and self.record.get("type") != "SystemExit":
            lines += ["", self.record["traceback"].rstrip()]
        return "\n".join(lines)


class Interrupted(BaseException):
    """The launcher received a signal that ends it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def on_signal(number: int, _: FrameType | None) -> None:
    raise Interrupted(number)


def rank_environment(
    rank: int,
    handle: bytes,
    error_fd: int,
    options: argparse.Namespace,
    placement: NodePlacement,
    secret: str,
) -> dict[str, str]:
    n = options.nproc_per_node
    env = dict(os.environ)
    env.update(
        RANK=str(placement.first + rank),
        LOCAL_RANK="0" if options.virtual_local_rank else str(rank),
        GROUP_RANK=str(placement.node),
        ROLE_RANK=str(placement.first + rank),
        WORLD_SIZE=str(placement.world),
        LOCAL_WORLD_SIZE=str(n),
        ROLE_WORLD_SIZE=str(placement.world),
        ROLE_NAME=options.role,
        GROUP_WORLD_SIZE=str(placement.nodes),
        SHMTENSOR_SECRET=secret,
        MASTER_ADDR=options.master_addr,
        MASTER_PORT=str(options.master_port),
        SHMTENSOR_DOMAIN=native.domain_environment(),
        SHMTENSOR_GROUP=handle.hex() if placement.nodes == 1 else "",
        SHMTENSOR_ERROR_FD=f"{error_fd}:{os.fstat(error_fd).st_ino}",
        SHMTENSOR_LAUNCHER=str(os.getpid()),
        TORCHELASTIC_RESTART_COUNT=str(placement.restarts),
        TORCHELASTIC_MAX_RESTARTS=str(options.max_restarts),
        TORCHELASTIC_RUN_ID=options.rdzv_id or "none",
    )
    if options.virtual_local_rank:  # each rank sees its GPU as number 0
        visible_gpus = env.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(n)))).split(",")
        env["CUDA_VISIBLE_DEVICES"] = visible_gpus[rank] if rank < len(visible_gpus) else ""
    cpus = cpus_of(options.numa_binding, rank, n)
    if cpus:
        env["SHMTENSOR_CPUS"] = ",".join(map(str, cpus))
    # The ranks share the CPUs; more threads than CPUs would slow all ranks down.
    env.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // n)))
    return env


def rank_command(options: argparse.Namespace) -> list[str]:
    if options.no_python:
        return [options.script, *options.arguments]
    command = [sys.executable, "-u"] if options.unbuffered else [sys.executable]
    command += ["-m", "shmtensor.distributed.launcher.rank_main"]
    if options.module:
        command.append("-m")
    return [*command, options.script, *options.arguments]


def start_ranks(
    options: argparse.Namespace, handle: bytes, placement: NodePlacement, agents: Agents | None
) -> list[Rank]:
    ranks: list[Rank] = []
    secret = secrets.token_hex(16)
    try:
        for rank in range(options.nproc_per_node):
            errors, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            output = Output.of(rank, options, placement.restarts)
            env = rank_environment(rank, handle, write, options, placement, secret)
            if agents is not None:
                env.update(agents.environment(placement))
            if output.folder is not None:
                env["TORCHELASTIC_ERROR_FILE"] = str(output.folder / "error.json")
            try:
                process = subprocess.Popen(
                    rank_command(options),
                    env=env,
                    stdout=output.stdout,
                    stderr=output.stderr,
                    pass_fds=(write, *native.domain_fds()),
                    **OWN_GROUP,
                )
            except BaseException:
                os.close(errors)
                output.close()
                raise
            finally:
                os.close(write)
                output.close_descriptors()
            ranks.append(Rank(placement.first + rank, process, errors, output))
    except BaseException:
        end_ranks(ranks, 0.0)
        raise
    return ranks


def watch_ranks(
    ranks: list[Rank], placement: NodePlacement, agents: Agents | None
) -> Failure | None:
    """Waits until all ranks have ended without error, or one has failed, on any node."""
    deadline = 0.0
    while True:
        poll_ranks(ranks)
        if agents is not None and (record := agents.poll()):
            return Failure.from_agent(record)
        if any(r.exitcode for r in ranks):
            # A rank reports its error before its interpreter exits, and ranks that wait for it may
            # exit earlier. So errors that are not a consequence of another's come first.
            failed = [r for r in ranks if r.exitcode or (r.exitcode is None and r.read_record())]
            first = min(failed, key=lambda r: (r.is_secondary(), r.exitcode is None))
            deadline = deadline or time.monotonic() + WIND_DOWN
            is_late = time.monotonic() >= deadline
            # a failure on another node may be the cause
            is_consequence = agents is not None and first.is_secondary()
            if is_late or (first.exitcode is not None and not is_consequence):
                failure = Failure(
                    first.rank, first.process.pid, first.exitcode or 1, first.read_record()
                )
                return failure if agents is None else report_to_agents(failure, placement, agents)
        if all(r.exitcode is not None for r in ranks):
            record = None if agents is None else agents.finish()
            return None if record is None else Failure.from_agent(record)
        time.sleep(POLL_INTERVAL)


def report_to_agents(failure: Failure, placement: NodePlacement, agents: Agents) -> Failure:
    """Reports a failure of this node to the other nodes; returns the first failure of all."""
    record = {
        "reason": "failed",
        "node": placement.node,
        "host": socket.gethostname(),
        "rank": failure.rank,
        "pid": failure.pid,
        "exitcode": failure.exitcode,
    }
    first_record = agents.set_end(record)
    first = Failure.from_agent(first_record)
    if first_record == record:
        first.record = failure.record
    return first


def poll_ranks(ranks: list[Rank]) -> None:
    """Updates the ranks' exit codes, and records them in the domain."""
    for r in ranks:
        if r.exitcode is None and (code := r.process.poll()) is not None:
            r.exitcode = code
            native.record_exit_pid(r.process.pid, code)


def end_ranks(ranks: list[Rank], grace: float) -> None:
    """Ends the ranks that still run, with all their children, and closes the pipes."""
    for r in ranks:
        if r.exitcode is None:
            r.signal(signal.SIGTERM)
    deadline = time.monotonic() + grace
    while any(r.exitcode is None for r in ranks) and time.monotonic() < deadline:
        poll_ranks(ranks)
        time.sleep(POLL_INTERVAL)
    for r in ranks:
        r.signal(signal.SIGKILL)  # also ends children that outlive their rank
        r.process.wait()
        os.close(r.errors)
        if r.output is not None:
            r.output.close()


def launch(options: argparse.Namespace, agents: Agents | None = None) -> int:
    """Runs the script on N ranks of this node, with the ranks of other agents' nodes. Returns the
    exit code: 0, that of the first failure, or 128 + its signal.
    """
    native.domain_ensure()
    native.set_role("launcher")
    handlers = {number: signal.signal(number, on_signal) for number in options.signals_to_handle}
    placement = NodePlacement(world=options.nproc_per_node)
    ranks: list[Rank] = []
    try:
        while True:
            if agents is not None:
                placement = agents.join()
            failure = run_once(options, placement, agents, ranks)
            if failure is None:
                return 0
            print(failure.text(), file=sys.stderr, flush=True)
            if failure.reason == "joins":
                continue
            cannot_restart = agents is not None and not agents.can_go_on(failure.reason)
            if cannot_restart or placement.restarts >= options.max_restarts:
                break
            restarts = placement.restarts + 1
            print(
                f"shmtensor.run: restart {restarts} of {options.max_restarts}",
                file=sys.stderr,
                flush=True,
            )
            placement = replace(placement, restarts=restarts)
        return failure.exitcode if failure.exitcode > 0 else 128 - failure.exitcode
    except Interrupted as interrupt:
        for number in handlers:
            signal.signal(number, signal.SIG_IGN)  # so that the shutdown is not interrupted
        for r in ranks:
            if r.exitcode is None:
                r.signal(interrupt.number)
        if agents is not None:
            node, host = placement.node, socket.gethostname()
            agents.set_end({"reason": "signal", "node": node, "host": host})
        end_ranks(ranks, options.shutdown_timeout)
        return 128 + interrupt.number
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def run_once(
    options: argparse.Namespace, placement: NodePlacement, agents: Agents | None, ranks: list[Rank]
) -> Failure | None:
    """Runs the ranks once; `ranks` lists those that run."""
    block, handle = create_block(options.nproc_per_node)
    try:
        ranks[:] = start_ranks(options, handle, placement, agents)
        failure = watch_ranks(ranks, placement, agents)
        end_ranks(ranks, options.shutdown_timeout if failure else 0.0)
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
