"""`ls` finds the domains of this user, with the tree of their processes."""

from __future__ import annotations

import json
import os
import socket
from contextlib import ExitStack

from shmtensor import native
from tests.environment import run_program

from .running import Program


def listed(*options: str) -> str:
    completed = run_program("-m", "shmtensor", "ls", *options)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def test_it_finds_every_domain(shared_program: Program) -> None:
    domains = {domain["domain"]: domain for domain in json.loads(listed("--json"))}
    assert native.domain_id().hex() in domains  # of the process that runs the tests
    processes = {p["pid"]: p for p in domains[shared_program.id]["processes"]}
    assert set(processes) == {shared_program.pid, shared_program.child}
    assert processes[shared_program.child]["parent"] == shared_program.pid
    assert processes[shared_program.child]["role"] == "worker 0"
    assert "running.py" in processes[shared_program.pid]["command"]
    assert domains[shared_program.id]["committed_bytes"] > 0
    assert os.getpid() in [p["pid"] for p in domains[native.domain_id().hex()]["processes"]]


def test_named_tensors_stand_with_their_domain(shared_program: Program) -> None:
    name = f"cli-test-{shared_program.pid}"
    names = {domain["domain"]: domain["names"] for domain in json.loads(listed("--json"))}
    assert names[shared_program.id] == [
        {"name": name, "pid": shared_program.pid, "dtype": "float32", "shape": [5, 2], "nbytes": 40}
    ]
    assert f"{shared_program.pid:9d}  name {name!r}: float32 (5, 2), 40 B" in listed().splitlines()


def test_sockets_whose_names_are_not_valid_are_skipped(shared_program: Program) -> None:
    with ExitStack() as stack:
        for end in (b"\xff\xfe", b"a\x1b[2J", b"a\nb"):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            listener.bind(b"\0shmtensor:2:%d:%b" % (os.geteuid(), end))
            listener.listen()
        names = {domain["domain"]: domain["names"] for domain in json.loads(listed("--json"))}
        assert len(names[shared_program.id]) == 1
        completed = run_program("-m", "shmtensor", "doctor")
        assert "domains running" in completed.stdout or "domain running" in completed.stdout
        assert "Traceback" not in completed.stderr


def test_children_stand_under_their_parents(shared_program: Program) -> None:
    text = listed().splitlines()
    assert all(len(line) <= 80 for line in text)
    at = next(
        i for i, line in enumerate(text) if line.startswith(f"domain {shared_program.id[:8]}")
    )
    assert "2 processes" in text[at]
    assert text[at + 1].startswith(f"{shared_program.pid:9d}  main: python")
    assert text[at + 2].startswith(f"{shared_program.child:9d}    worker 0: python")
