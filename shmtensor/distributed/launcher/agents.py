"""Agents: the launchers of one run, one on each node, and how they agree by a store.

```
 store, of round k            who                            what
   came                       each agent adds 1              its number i
   node/i                     i                              host, ranks, --node-rank
   gone/i                     the store, when i's connection ends: its death, or its end
   closed                     the first that lives           the members in order, restarts so far
     static: all N have come; MIN:MAX: MAX, or MIN and nobody more for last_call_timeout
   end                        the first to say so            why: failed, lost, signal, joins
   done                       each member adds 1             all its ranks have ended well
```

| dies, or comes | when | then |
|---|---|---|
| an agent | before `closed` | it is not among the members; the next lowest number closes |
| an agent | later | a member that sees `gone/i` says `lost`: restart with MIN, else all fail |
| the store's | ever | all others fail: the store is the run's memory |
| a new one | after `closed`, less than MAX | it says `joins`: all begin anew, uncounted |
| a new one | after `closed`, MAX are there | it waits for the next round |
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

from ..rendezvous.hosts import is_loopback
from ..rendezvous.secret import shared_secret
from ..rendezvous.store import PrefixStore
from ..rendezvous.tcp_store import TCPStore

__all__ = ["Agents", "Place", "spans_nodes"]

LOOK = 0.05  # seconds between two looks while nodes come
LINGER = 10.0  # seconds that the store stays for others
WHERE = "shmtensor.run"


@dataclass(frozen=True)
class Place:
    """What a node is in a round."""

    node: int = 0
    nodes: int = 1
    first: int = 0  # of its ranks
    world: int = 1
    restarts: int = 0
    round: int = 0


def counts_of(text: str) -> tuple[int, int]:
    """2, or MIN:MAX.

    >>> counts_of("1:4")
    (1, 4)
    """
    low, _, high = text.partition(":")
    if not (low.isdigit() and (high or low).isdigit() and 1 <= int(low) <= int(high or low)):
        raise ValueError(f"--nnodes is neither a number nor MIN:MAX: {text!r}")
    return int(low), int(high or low)


def settings_of(text: str) -> dict[str, str]:
    """join_timeout=600,last_call_timeout=30"""
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def is_here(host: str) -> bool:
    """Whether a name is this machine's."""
    if is_loopback(host):
        return True
    with suppress(OSError):
        for family, _, _, _, address in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM):
            with suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as trial:
                trial.bind(address[:2])
                return True
    return False


class Agents:
    """This node's end.

    Raises:
        PermissionError: no secret is given, or it is not that of the others.
        ValueError: arguments that do not fit.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.low, self.high = counts_of(options.nnodes)
        self.secret = shared_secret(WHERE)
        self.options, self.conf = options, settings_of(options.rdzv_conf)
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
        self._looked = 0.0
        self._is_cut = False  # from the store
        self._told: dict[str, Any] | None = None

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
            self.is_master = is_here(self.host)
        if self.is_master:
            # a host's own name may be loopback to itself (/etc/hosts), which others do not reach
            inside = self.host
            with suppress(OSError):
                found = str(socket.getaddrinfo(self.host, port)[0][4][0])
                inside = "" if is_loopback(found) and not is_loopback(self.host) else self.host
            try:
                self._store = self._open(inside, True)
            except OSError as error:
                if self.is_static or error.errno != errno.EADDRINUSE:
                    raise
                self.is_master = False  # another agent of this machine has it
        if not self.is_master:
            self._store = self._open(self.host, False)
        self._run = PrefixStore(f"run/{options.rdzv_id or 'none'}", self._store)

    def _open(self, host: str, is_master: bool) -> TCPStore:
        return TCPStore(
            host, self.port, None, is_master, self._join_timeout, False, secret=self.secret
        )

    @property
    def _join_timeout(self) -> float:
        return float(self.conf.get("join_timeout", 600))

    # ---------------------------------------------------------------- the begin of a round
    def join(self) -> Place:
        """This node's place in the next round; waits for the others.

        Raises:
            TimeoutError: not enough have come in time.
            ConnectionError: the store's node is gone.
        """
        last = self._round if self._round >= 0 else int(self._run.try_get("round") or b"0") - 1
        end = time.monotonic() + self._join_timeout
        while True:
            last += 1
            closed = self._enter(last, end)
            if "error" in closed:
                self._members = closed["numbers"]  # the store stays until they have read it
                raise ValueError(closed["error"])
            members = closed["members"]
            numbers = [each["number"] for each in members]
            if self._number in numbers:
                break
            if len(members) < self.high:
                self.tell({"reason": "joins", "host": socket.gethostname()})
            while not self._get_key("end"):  # the others run
                time.sleep(LOOK)
            end = time.monotonic() + self._join_timeout
        node = numbers.index(self._number)
        counts = [each["ranks"] for each in members]
        self._members, self._told = numbers, None
        first, restarts = sum(counts[:node]), closed["restarts"]
        return Place(node, len(members), first, sum(counts), restarts, last)

    def _enter(self, number: int, end: float) -> dict[str, Any]:
        """What a round was closed with."""
        self._round, self._members = number, []
        self._number = self._here.add("came", 1) - 1
        gone = f"run/{self.options.rdzv_id or 'none'}/{number}/gone/{self._number}"
        self._store.set_when_gone(gone, socket.gethostname())
        mine = {
            "number": self._number,
            "host": socket.gethostname(),
            "ranks": self.options.nproc_per_node,
            "node_rank": self.options.node_rank,
        }
        self._here.set(f"node/{self._number}", json.dumps(mine))
        enough = 0.0
        while True:
            if closed := self._get_key("closed"):
                return closed
            came = range(self._here.add("came", 0))
            lost = set(came) - set(self._missing("gone", came))
            alive = [
                i for i in came if i not in lost and self._here.try_get(f"node/{i}") is not None
            ]
            now = time.monotonic()
            enough = (enough or now) if len(alive) >= self.low else 0.0
            waits = float(self.conf.get("last_call_timeout", 30))
            is_enough = len(alive) >= self.high or (enough and now - enough >= waits)
            if is_enough and alive[0] == self._number:
                self._here.compare_set("closed", b"", json.dumps(self._close(alive[: self.high])))
                self._run.set("round", str(number))
            elif now > end:
                raise TimeoutError(
                    f"{WHERE}: not enough nodes have come to {self.host}:{self.port}: {len(alive)} "
                    f"of {self.low} after {self._join_timeout:g} s"
                )
            time.sleep(LOOK)

    def _close(self, alive: list[int]) -> dict[str, Any]:
        members = [self._get_key(f"node/{i}") or {} for i in alive]
        if self.is_static:
            members.sort(key=lambda each: each["node_rank"])
            ranks = [each["node_rank"] for each in members]
            if len(set(ranks)) < len(ranks):
                hosts = [each["host"] for each in members]
                told = f"--node-rank is given twice: {ranks} on {hosts}"
                return {"error": told, "numbers": alive}
        restarts = 0
        if self._round:
            before = PrefixStore(str(self._round - 1), self._run)
            restarts = json.loads(before.get("closed"))["restarts"]
            restarts += json.loads(before.get("end"))["reason"] != "joins"
        return {"members": members, "restarts": restarts}

    @property
    def _here(self) -> PrefixStore:
        return PrefixStore(str(self._round), self._run)

    def _get_key(self, key: str) -> dict[str, Any] | None:
        found = self._here.try_get(key)
        return None if found is None else dict(json.loads(found))

    def _missing(self, kind: str, numbers: Any) -> list[int]:
        keys = [f"{kind}/{i}" for i in numbers]
        return [int(key.rpartition("/")[2]) for key in self._here.await_all(keys, 0.0)]

    # ---------------------------------------------------------------- while ranks run
    def poll(self) -> dict[str, Any] | None:
        """Why the round has ended, if it has; asks every `--monitor-interval` seconds."""
        now = time.monotonic()
        if self._told is None and now - self._looked >= float(self.options.monitor_interval):
            self._looked = now
            try:
                self._told = self._ask()
            except (ConnectionError, OSError):
                self._is_cut = True
                self._told = {"reason": "lost", "node": -1, "host": self.host}
        return self._told

    def _ask(self) -> dict[str, Any] | None:
        if told := self._get_key("end"):
            return told
        others = [i for i in self._members if i != self._number]
        lost = sorted(set(others) - set(self._missing("gone", others)))
        if not lost or self._here.add("done", 0) == len(self._members):
            return None
        host = self._here.get(f"gone/{lost[0]}").decode()
        return self.tell({"reason": "lost", "node": self._members.index(lost[0]), "host": host})

    def tell(self, record: dict[str, Any]) -> dict[str, Any]:
        """Says why the round ends; returns what was said first."""
        try:
            said = self._here.compare_set("end", b"", json.dumps(record))
        except (ConnectionError, OSError):
            return record
        return dict(json.loads(said))

    def can_go_on(self, reason: str) -> bool:
        """Whether another round may have enough nodes: nobody takes a dead one's place but where
        nodes may come and go.
        """
        return reason == "failed" or (reason == "lost" and not self.is_static and not self._is_cut)

    def finish(self) -> dict[str, Any] | None:
        """This node's ranks have ended well: waits until all have; or for why they have not."""
        with suppress(ConnectionError, OSError):
            self._here.add("done", 1)
            while self._here.add("done", 0) < len(self._members):
                if told := self.poll():
                    return told
                time.sleep(LOOK)
            return None
        return {"reason": "lost", "node": -1, "host": self.host}

    def close(self) -> None:
        """Ends this node's part; the store's node waits a while for the others to know."""
        with suppress(ConnectionError, OSError):
            others = [i for i in self._members if i != self._number]
            end = time.monotonic() + LINGER
            while self.is_master and self._missing("gone", others) and time.monotonic() < end:
                time.sleep(LOOK)
        self._store.close()

    def environment(self, place: Place) -> dict[str, str]:
        """What the ranks are told of it."""
        return {
            "MASTER_ADDR": self.host,
            "MASTER_PORT": str(self._store.port),
            "SHMTENSOR_SECRET": self.secret.hex(),
            "SHMTENSOR_ROUND": str(place.round),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RUN_ID": self.options.rdzv_id or "none",
        }


def spans_nodes(options: argparse.Namespace) -> bool:
    """Whether the arguments ask for other nodes."""
    low, high = counts_of(options.nnodes)
    return not options.standalone and (low, high) != (1, 1)
