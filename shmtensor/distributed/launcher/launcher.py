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
import os
import secrets
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

from ... import native
from ...multiprocessing.children import Child, Children
from ...multiprocessing.queue import describe_exit
from ..rendezvous.find_group import create_block
from .agents import Agents, NodePlacement, spans_nodes
from .arguments import parser
from .cpu_affinity import cpus_of
from .rank_output import Output


@dataclass
class Failure:
    """The first failure of a run, or why all ranks are restarted.

    Attributes:
        child: the rank, if it is one of this node: only its own node shows its traceback.
        node: the node in words, or "".
        reason: failed; or lost, signal, joins: of a node.
    """

    rank: int
    pid: int
    exitcode: int
    child: Child | None = None
    node: str = ""
    reason: str = "failed"

    @classmethod
    def from_agent(cls, record: dict[str, Any]) -> Failure:
        """The failure of an agent's record."""
        node = record.get("node", -1)
        who = "the node of the store" if node == -1 else f"node {node}"
        where = f" on {who} ({record['host']})"
        numbers = (record.get("rank", -1), record.get("pid", 0), record.get("exitcode", 1))
        return cls(*numbers, None, where, record["reason"])

    def text(self, children: Children) -> str:
        """What the user reads, after all ranks have ended."""
        if self.reason != "failed":
            texts = {"lost": "has died", "joins": "joins: all ranks are restarted"}
            where = "another node" if self.reason == "joins" else self.node.removeprefix(" on ")
            return f"shmtensor.run: {where} {texts.get(self.reason, 'was told to end')}"
        who = f"rank {self.rank}{self.node} (pid {self.pid})"
        first = last = f"shmtensor.run: {who} {describe_exit(self.exitcode)}"
        if self.child is not None and (report := self.child.raised) is not None:
            last = f"{first}: {report.line()}"
            first = f"{last}\n\n{report.traceback.rstrip()}"
        return children.explain(first, last, self.child)


class Interrupted(BaseException):
    """The launcher received a signal that ends it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def on_signal(number: int, _: FrameType | None) -> None:
    raise Interrupted(number)


def rank_environment(
    rank: int, handle: bytes, options: argparse.Namespace, placement: NodePlacement, secret: str
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
    children: Children,
    outputs: list[Output],
    options: argparse.Namespace,
    handle: bytes,
    placement: NodePlacement,
    agents: Agents | None,
) -> None:
    secret = secrets.token_hex(16)
    for rank in range(options.nproc_per_node):
        output = Output(rank, options, placement.restarts)
        outputs.append(output)
        env = rank_environment(rank, handle, options, placement, secret)
        if agents is not None:
            env.update(agents.environment(placement))
        if output.folder is not None:
            env["TORCHELASTIC_ERROR_FILE"] = str(output.folder / "error.json")
        children.run(
            f"rank {placement.first + rank}",
            rank_command(options),
            env,
            stdout=output.stdout,
            stderr=output.stderr,
            pass_fds=native.domain_fds(),
        )
        output.close_descriptors()


def watch_ranks(
    children: Children, placement: NodePlacement, agents: Agents | None, interval: float | None
) -> Failure | None:
    """Waits until all ranks have ended without error, or one has failed, on any node. Asks the
    other agents every `interval` seconds."""
    while True:
        if agents is not None and (record := agents.poll()):
            return Failure.from_agent(record)
        first = children.failure()
        # The cause may be on another node.
        if first is not None and (agents is None or not first.is_consequence or children.is_late):
            number = placement.first + first.index
            failure = Failure(number, first.pid, first.exitcode or 1, first)
            return failure if agents is None else report_to_agents(failure, placement, agents)
        if first is None and not children.running:
            record = None if agents is None else agents.finish()
            return None if record is None else Failure.from_agent(record)
        children.wait(interval)


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
        first.child = failure.child
    return first


def launch(options: argparse.Namespace, agents: Agents | None = None) -> int:
    """Runs the script on N ranks of this node, with the ranks of other agents' nodes. Returns the
    exit code: 0, that of the first failure, or 128 + its signal.
    """
    native.domain_ensure()
    native.set_role("launcher")
    handlers = {number: signal.signal(number, on_signal) for number in options.signals_to_handle}
    placement = NodePlacement(world=options.nproc_per_node)
    try:
        while True:
            if agents is not None:
                placement = agents.join()
            failure = run_once(options, placement, agents)
            if failure is None:
                return 0
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
        tell_agents(placement, agents)
        return 128 + interrupt.number
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def tell_agents(placement: NodePlacement, agents: Agents | None) -> None:
    """Tells the other nodes that a signal ends this one."""
    if agents is not None:
        node, host = placement.node, socket.gethostname()
        agents.set_end({"reason": "signal", "node": node, "host": host})


def run_once(
    options: argparse.Namespace, placement: NodePlacement, agents: Agents | None
) -> Failure | None:
    """Runs the ranks once, and shows why they have ended, if one has failed."""
    block, handle = create_block(options.nproc_per_node)
    children, outputs = Children(), list[Output]()
    interval = None if agents is None else float(options.monitor_interval)
    try:
        start_ranks(children, outputs, options, handle, placement, agents)
        failure = watch_ranks(children, placement, agents, interval)
        children.end(grace=options.shutdown_timeout)  # also what outlives its rank
        if failure is not None:
            print(failure.text(children), file=sys.stderr, flush=True)
        return failure
    except Interrupted as interrupt:
        number = interrupt.number
        for each in options.signals_to_handle:
            signal.signal(each, signal.SIG_IGN)  # so that the shutdown is not interrupted

        def ask() -> None:
            for child in children.running:
                child.signal(number)
            tell_agents(placement, agents)

        children.end(ask, grace=options.shutdown_timeout)
        raise
    finally:
        children.end(grace=0.0)
        for output in outputs:
            output.close()
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
