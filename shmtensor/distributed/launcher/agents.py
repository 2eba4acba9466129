"""Agents: the launchers of one run, one on each node, which communicate by a store.

```
 key, of round k              set by                         value
   came                       each agent adds 1              its number i
   node/i                     agent i                        host, ranks, --node-rank
   gone/i                     the store, when agent i's connection closes: it has died or ended
   closed                     the lowest living agent        the members in order, restarts so far
     static: all N have come; MIN:MAX: MAX, or MIN and no further one for last_call_timeout
   end                        the first agent with a reason  failed, lost, signal, joins
   done                       each member adds 1             all its ranks have ended without error
```

| dies, or comes | when | then |
|---|---|---|
| an agent | before `closed` | it is not a member; the next lowest agent sets `closed` |
| an agent | later | a member that sees `gone/i` sets `end`: lost; restart with MIN, else all fail |
| the store's agent | any time | all others fail: the store has the state of the run |
| a new agent | after `closed`, less than MAX | it sets `end`: joins; all restart, not counted |
| a new agent | after `closed`, MAX members | it waits for the next round |
"""

from __future__ import annotations

import argparse
import errno
import json
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..rendezvous.hosts import is_loopback, is_own_address
from ..rendezvous.secret import shared_secret
from ..rendezvous.store import PrefixStore
from ..rendezvous.tcp_store import TCPStore

POLL_INTERVAL = 0.05  # seconds between two polls of the store
LINGER = 10.0  # seconds that the store waits for the other agents to end
WHERE = "shmtensor.run"


@dataclass(frozen=True)
class NodePlacement:
    """A node's number and ranks in a round."""

    node: int = 0
    nodes: int = 1
    first: int = 0  # its first rank
    world: int = 1
    restarts: int = 0
    round: int = 0


def parse_nnodes(text: str) -> tuple[int, int]:
    """The minimum and maximum of `--nnodes`: N, or MIN:MAX.

    >>> parse_nnodes("1:4")
    (1, 4)
    """
    low, _, high = text.partition(":")
    if not (low.isdigit() and (high or low).isdigit() and 1 <= int(low) <= int(high or low)):
        raise ValueError(f"--nnodes is neither a number nor MIN:MAX: {text!r}")
    return int(low), int(high or low)


def parse_settings(text: str) -> dict[str, str]:
    """The settings of `--rdzv-conf`: join_timeout=600,last_call_timeout=30"""
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


class Agents:
    """This node's agent.

    Raises:
        PermissionError: there is no secret, or it is not that of the others.
        ValueError: the arguments do not fit together.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.low, self.high = parse_nnodes(options.nnodes)
        self.secret = shared_secret(WHERE)
        self.options, self.conf = options, parse_settings(options.rdzv_conf)
        self.is_static = options.rdzv_backend in ("", "static")
        if options.rdzv_backend not in ("", "static", "c10d"):
            raise ValueError(f"--rdzv-backend is neither static nor c10d: {options.rdzv_backend!r}")
        if self.is_static and self.low != self.high:
            raise ValueError(f"--nnodes {options.nnodes} needs --rdzv-backend c10d")
        if self.is_static and not 0 <= options.node_rank < self.high:
            raise ValueError(f"--node-rank is none of {self.high}: {options.node_rank}")
        self._find_store()
        self._number = self._round = -1
        self._members: list[int] = []
        self._last_poll = 0.0
        self._is_disconnected = False  # from the store
        self._end_record: dict[str, Any] | None = None

    def _find_store(self) -> None:
        options = self.options
        host, port = options.master_addr, options.master_port or 29500
        if options.rdzv_endpoint:
            host, _, text = options.rdzv_endpoint.rpartition(":")
            host, port = (host, int(text)) if host else (options.rdzv_endpoint, 29400)
        elif not self.is_static:
            raise ValueError("--rdzv-backend c10d needs --rdzv-endpoint HOST:PORT")
        self.host, self.port = host.strip("[]"), port
        if self.is_static:
            self.is_master = options.node_rank == 0
        elif "is_host" in self.conf:
            self.is_master = self.conf["is_host"].lower() in ("1", "true", "yes")
        else:
            self.is_master = is_own_address(self.host)
        if self.is_master:
            # /etc/hosts may map a host's own name to loopback, which other hosts cannot reach
            address = self.host
            with suppress(OSError):
                resolved = str(socket.getaddrinfo(self.host, port)[0][4][0])
                address = "" if is_loopback(resolved) and not is_loopback(self.host) else self.host
            try:
                self._store = self._open_store(address, True)
            except OSError as error:
                if self.is_static or error.errno != errno.EADDRINUSE:
                    raise
                self.is_master = False  # another agent of this machine has it
        if not self.is_master:
            self._store = self._open_store(self.host, False)
        self._run = PrefixStore(f"run/{options.rdzv_id or 'none'}", self._store)

    def _open_store(self, host: str, is_master: bool) -> TCPStore:
        return TCPStore(
            host, self.port, None, is_master, self._join_timeout, False, secret=self.secret
        )

    @property
    def _join_timeout(self) -> float:
        return float(self.conf.get("join_timeout", 600))

    # ---------------------------------------------------------------- the start of a round
    def join(self) -> NodePlacement:
        """This node's placement in the next round; waits for the others.

        Raises:
            TimeoutError: not enough nodes have come in time.
            ConnectionError: the store's node has died.
        """
        last = self._round if self._round >= 0 else int(self._run.try_get("round") or b"0") - 1
        end = time.monotonic() + self._join_timeout
        while True:
            last += 1
            closed = self._run_rendezvous(last, end)
            if "error" in closed:
                self._members = closed["numbers"]  # so that the store waits until they have read it
                raise ValueError(closed["error"])
            members = closed["members"]
            numbers = [each["number"] for each in members]
            if self._number in numbers:
                break
            if len(members) < self.high:
                self.set_end({"reason": "joins", "host": socket.gethostname()})
            while not self._get_key("end"):  # the members run
                time.sleep(POLL_INTERVAL)
            end = time.monotonic() + self._join_timeout
        node = numbers.index(self._number)
        counts = [each["ranks"] for each in members]
        self._members, self._end_record = numbers, None
        first, restarts = sum(counts[:node]), closed["restarts"]
        return NodePlacement(node, len(members), first, sum(counts), restarts, last)

    def _run_rendezvous(self, round_number: int, end: float) -> dict[str, Any]:
        """Takes part in the rendezvous of a round; returns its `closed` record."""
        self._round, self._members = round_number, []
        self._number = self._round_store.add("came", 1) - 1
        gone_key = f"run/{self.options.rdzv_id or 'none'}/{round_number}/gone/{self._number}"
        self._store.set_when_gone(gone_key, socket.gethostname())
        info = {
            "number": self._number,
            "host": socket.gethostname(),
            "ranks": self.options.nproc_per_node,
            "node_rank": self.options.node_rank,
        }
        self._round_store.set(f"node/{self._number}", json.dumps(info))
        enough_since = 0.0
        while True:
            if closed := self._get_key("closed"):
                return closed
            agents = range(self._round_store.add("came", 0))
            lost = set(agents) - set(self._missing("gone", agents))
            alive = [
                i
                for i in agents
                if i not in lost and self._round_store.try_get(f"node/{i}") is not None
            ]
            now = time.monotonic()
            enough_since = (enough_since or now) if len(alive) >= self.low else 0.0
            last_call_timeout = float(self.conf.get("last_call_timeout", 30))
            is_complete = len(alive) >= self.high or (
                enough_since and now - enough_since >= last_call_timeout
            )
            if is_complete and alive[0] == self._number:
                self._round_store.compare_set(
                    "closed", b"", json.dumps(self._closed_record(alive[: self.high]))
                )
                self._run.set("round", str(round_number))
            elif now > end:
                raise TimeoutError(
                    f"{WHERE}: not enough nodes have come to {self.host}:{self.port}: {len(alive)} "
                    f"of {self.low} after {self._join_timeout:g} s"
                )
            time.sleep(POLL_INTERVAL)

    def _closed_record(self, alive: list[int]) -> dict[str, Any]:
        members = [self._get_key(f"node/{i}") or {} for i in alive]
        if self.is_static:
            members.sort(key=lambda each: each["node_rank"])
            ranks = [each["node_rank"] for each in members]
            if len(set(ranks)) < len(ranks):
                hosts = [each["host"] for each in members]
                message = f"--node-rank is given twice: {ranks} on {hosts}"
                return {"error": message, "numbers": alive}
        restarts = 0
        if self._round:
            previous = PrefixStore(str(self._round - 1), self._run)
            restarts = json.loads(previous.get("closed"))["restarts"]
            restarts += json.loads(previous.get("end"))["reason"] != "joins"
        return {"members": members, "restarts": restarts}

    @property
    def _round_store(self) -> PrefixStore:
        return PrefixStore(str(self._round), self._run)

    def _get_key(self, key: str) -> dict[str, Any] | None:
        value = self._round_store.try_get(key)
        return None if value is None else dict(json.loads(value))

    def _missing(self, kind: str, numbers: Any) -> list[int]:
        keys = [f"{kind}/{i}" for i in numbers]
        return [int(key.rpartition("/")[2]) for key in self._round_store.await_all(keys, 0.0)]

    # ---------------------------------------------------------------- while ranks run
    def poll(self) -> dict[str, Any] | None:
        """Why the round has ended, or None. Asks the store every `--monitor-interval` seconds."""
        now = time.monotonic()
        if self._end_record is None and now - self._last_poll >= float(
            self.options.monitor_interval
        ):
            self._last_poll = now
            try:
                self._end_record = self._find_end()
            except (ConnectionError, OSError):
                self._is_disconnected = True
                self._end_record = {"reason": "lost", "node": -1, "host": self.host}
        return self._end_record

    def _find_end(self) -> dict[str, Any] | None:
        if record := self._get_key("end"):
            return record
        peers = [i for i in self._members if i != self._number]
        lost = sorted(set(peers) - set(self._missing("gone", peers)))
        if not lost or self._round_store.add("done", 0) == len(self._members):
            return None
        host = self._round_store.get(f"gone/{lost[0]}").decode()
        return self.set_end({"reason": "lost", "node": self._members.index(lost[0]), "host": host})

    def set_end(self, record: dict[str, Any]) -> dict[str, Any]:
        """Sets why the round ends, unless it is set already; returns the value of the store."""
        try:
            value = self._round_store.compare_set("end", b"", json.dumps(record))
        except (ConnectionError, OSError):
            return record
        return dict(json.loads(value))

    def can_go_on(self, reason: str) -> bool:
        """Whether another round may have enough nodes. If the number of nodes is fixed, a dead node
        cannot be replaced.
        """
        return reason == "failed" or (
            reason == "lost" and not self.is_static and not self._is_disconnected
        )

    def finish(self) -> dict[str, Any] | None:
        """Called when this node's ranks have ended without error. Waits until all nodes' ranks
        have, and returns None; else why the round has ended.
        """
        with suppress(ConnectionError, OSError):
            self._round_store.add("done", 1)
            while self._round_store.add("done", 0) < len(self._members):
                if record := self.poll():
                    return record
                time.sleep(POLL_INTERVAL)
            return None
        return {"reason": "lost", "node": -1, "host": self.host}

    def close(self) -> None:
        """Closes the store. Its own node first waits up to LINGER for the other agents to end."""
        with suppress(ConnectionError, OSError):
            peers = [i for i in self._members if i != self._number]
            end = time.monotonic() + LINGER
            while self.is_master and self._missing("gone", peers) and time.monotonic() < end:
                time.sleep(POLL_INTERVAL)
        self._store.close()

    def environment(self, placement: NodePlacement) -> dict[str, str]:
        """The environment variables of the ranks."""
        return {
            "MASTER_ADDR": self.host,
            "MASTER_PORT": str(self._store.port),
            "SHMTENSOR_SECRET": self.secret.hex(),
            "SHMTENSOR_ROUND": str(placement.round),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RUN_ID": self.options.rdzv_id or "none",
        }


def spans_nodes(options: argparse.Namespace) -> bool:
    """Whether the arguments ask for several nodes."""
    low, high = parse_nnodes(options.nnodes)
    return not options.standalone and (low, high) != (1, 1)
