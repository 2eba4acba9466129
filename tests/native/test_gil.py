"""Daemon threads that compute while the interpreter ends: the process ends as without them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUNS = int(os.environ.get("RUNS", "1"))  # more by `make stress`

# Each is run again and again by two threads until the process ends.
KINDS = {
    "pointwise": ("x = st.ones(1_000_000)", "(x * x).sum()"),
    "of few elements": ("x = st.ones(10)", "x * x + x"),
    "matmul": ("x = st.ones(300, 300)", "x @ x"),
    "sort": ("x = st.rand(300_000)", "x.sort()"),
    "index": ("x = st.rand(1000, 50); i = st.randint(0, 1000, (5000,))", "x[i]; x[:, 3]"),
    "backward": ("x = st.rand(99, 99, requires_grad=True)", "(x @ x).relu().sum().backward()"),
    "convolution": ("x = st.rand(4, 8, 32, 32); w = st.rand(8, 8, 3, 3)", "st.conv2d(x, w)"),
    "vmap": ("x = st.rand(32, 64)", "st.func.vmap(st.dot)(x, x)"),
    "allocate": ("", "[native.allocate(n) for n in (100, 10_000, 3_000_000)]"),
    "lists": ("", "st.tensor([[1.0, 2.0]] * 100).tolist()"),
    "queue": ("q = context.Queue()", "q.put(st.ones(10)); q.get()"),
    "empty queue": ("q = context.Queue()", "began(); q.get()"),
    "lock": ("k = context.Lock(); k.acquire()", "began(); k.acquire()"),
    "barrier": ("b = context.Barrier(3)", "began(); b.wait()"),
    "collective": (
        "groups = iter([st.distributed.new_group() for _ in range(2)]); x = st.ones(100_000)",
        "st.distributed.all_reduce(x, group=mine(groups))",
    ),
}

PROGRAM = """
import sys; sys.path[:0] = {path!r}
import threading
import shmtensor as st
from shmtensor import native
context = st.multiprocessing.get_context("fork")
ready, local = threading.Semaphore(0), threading.local()

def began():
    ready.release()

def mine(groups):
    if not hasattr(local, "group"):
        local.group = next(groups)
    return local.group

{setup}
def work():
    while True:
        {work}
        began()

for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
for _ in range(2):
    assert ready.acquire(timeout=60)
"""
GROUP = """
st.distributed.init_process_group(
    "shm", rank=0, world_size=1, init_method="file://" + {file!r})
"""


@pytest.mark.parametrize("kind", KINDS)
def test_daemon_thread_does_not_abort_the_process(kind: str, tmp_path: Path) -> None:
    setup, work = KINDS[kind]
    for i in range(RUNS):
        group = GROUP.format(file=str(tmp_path / f"store{i}")) if kind == "collective" else ""
        program = PROGRAM.format(path=sys.path, setup=group + setup, work=work)
        process = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=100
        )
        assert (process.returncode, process.stderr) == (0, "")
