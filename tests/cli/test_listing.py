"""`ls` finds the domains of this user, with the tree of their processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from shmtensor import native

from .running import LONG, Program

LS = [sys.executable, "-m", "shmtensor", "ls"]


def listed(*more: str) -> str:
    completed = subprocess.run(
        [*LS, *more], capture_output=True, text=True, timeout=LONG, check=False
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def test_it_finds_every_domain(watched: Program) -> None:
    domains = {domain["domain"]: domain for domain in json.loads(listed("--json"))}
    assert native.domain_id().hex() in domains  # of the process that runs the tests
    processes = {p["pid"]: p for p in domains[watched.id]["processes"]}
    assert set(processes) == {watched.pid, watched.child}
    assert processes[watched.child]["parent"] == watched.pid
    assert processes[watched.child]["role"] == "worker 0"
    assert "running.py" in processes[watched.pid]["command"]
    assert domains[watched.id]["committed_bytes"] > 0
    assert os.getpid() in [p["pid"] for p in domains[native.domain_id().hex()]["processes"]]


def test_named_tensors_stand_with_their_domain(watched: Program) -> None:
    name = f"cli-test-{watched.pid}"
    names = {domain["domain"]: domain["names"] for domain in json.loads(listed("--json"))}
    assert names[watched.id] == [
        {"name": name, "pid": watched.pid, "dtype": "float32", "shape": [5, 2], "nbytes": 40}
    ]
    assert f"{watched.pid:9d}  name {name!r}: float32 (5, 2), 40 B" in listed().splitlines()


def test_children_stand_under_their_parents(watched: Program) -> None:
    text = listed().splitlines()
    assert all(len(line) <= 80 for line in text)
    at = next(i for i, line in enumerate(text) if line.startswith(f"domain {watched.id[:8]}"))
    assert "2 processes" in text[at]
    assert text[at + 1].startswith(f"{watched.pid:9d}  main: python")
    assert text[at + 2].startswith(f"{watched.child:9d}    worker 0: python")
