"""Whoever fails first is what the user sees, first and last line; those that failed because of it
are a line each. Each case is repeated RUNS times (make causes: 50).
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import textwrap
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import multiprocessing as mp
from shmtensor import native
from shmtensor.trainer import Trainer
from shmtensor.utils.data import DataLoader
from tests.environment import run_program

RUNS = int(os.environ.get("RUNS", "5"))
N = 3
ENDS = {"raise": "ValueError: the cause", "kill": "SIGKILL", "exit": "code 7"}


def end(how: str) -> None:
    if how == "raise":
        raise ValueError("the cause")
    if how == "exit":
        sys.exit(7)
    os.kill(os.getpid(), signal.SIGKILL)


def check_message(text: str, how: str, culprit: str) -> None:
    lines = text.strip().splitlines()
    assert culprit in lines[0], text
    assert ENDS[how] in lines[-1], text
    for line in lines:
        assert "SystemExit" not in line or how == "exit", text
    consequences = [line for line in lines if "PeerLostError" in line]
    assert all("(pid" in line and culprit not in line.split(":")[0] for line in consequences), text


def as_rank(i: int, method: str, how: str) -> None:
    dist.init_process_group("shm", init_method=method, rank=i, world_size=N)
    if i == 1:
        end(how)
    dist.all_reduce(st.ones(3))


def methods(folder: Path) -> Iterator[str]:
    """The ways in which ranks meet, one after the other."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        yield f"tcp://127.0.0.1:{port}"
        yield f"file://{folder / uuid.uuid4().hex}"
        with socket.create_server(("127.0.0.1", 0)) as free:
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]))
        yield "env://"


@pytest.mark.parametrize("how", ENDS)
def test_spawn(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "")
    for _, method in zip(range(RUNS), methods(tmp_path), strict=False):
        with pytest.raises(mp.ProcessException) as caught:
            mp.start_processes(as_rank, (method, how), nprocs=N, start_method="fork")
        check_message(str(caught.value), how, "rocess 1 ")
        assert caught.value.error_index == 1
        if how == "raise":
            assert str(caught.value).startswith(
                "\n\n-- Process 1 terminated with the following error:\nTraceback"
            )


@pytest.mark.parametrize("how", ENDS)
def test_launch(how: str) -> None:
    def work() -> None:
        if dist.get_rank() == 1:
            end(how)
        dist.all_reduce(st.ones(3))

    for _ in range(RUNS):
        with pytest.raises(mp.ProcessException) as caught:
            st.launch(work, N)
        assert isinstance(caught.value, mp.ProcessRaisedException) == (how == "raise")
        check_message(str(caught.value), how, "rank 1 ")


RANK = f"""
import os, signal, sys
import shmtensor as st
from shmtensor import distributed as dist
dist.init_process_group(init_method=sys.argv[1] or None)
if dist.get_rank() == 1:
    {{}}
dist.all_reduce(st.ones({N}))
"""
STATEMENTS = {
    "raise": "raise ValueError('the cause')",
    "kill": "os.kill(os.getpid(), signal.SIGKILL)",
    "exit": "sys.exit(7)",
}


@pytest.mark.parametrize("how", ENDS)
def test_run(how: str, tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(RANK.format(STATEMENTS[how]))
    ways = ("", "tcp://127.0.0.1:0", f"file://{tmp_path / 'store'}")
    for i in range(RUNS if RUNS > 5 else 1):
        command = ["--nproc-per-node", str(N), str(tmp_path / "rank.py")]
        way = ways[(i + list(ENDS).index(how)) % 3]
        if way.startswith("tcp"):
            way = next(methods(tmp_path))
        completed = run_program("-m", "shmtensor.run", *command, way)
        assert completed.returncode == {"raise": 1, "kill": 137, "exit": 7}[how], completed.stderr
        check_message(completed.stderr, how, "rank 1 ")
        assert completed.stderr.count("Traceback") == (how == "raise"), completed.stderr
        assert how != "raise" or "rank.py" in completed.stderr
        assert "runpy" not in completed.stderr


class Fragile(st.nn.Module):
    """Ends rank 1 in its third batch."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.linear = st.nn.Linear(2, 1)
        self.how, self.batches = how, 0

    def forward(self, x: Any) -> Any:
        self.batches += 1
        if self.batches == 3 and native.describe(*native.row())[0].startswith("rank 1"):
            end(self.how)
        return self.linear(x)


@pytest.mark.parametrize("how", ENDS)
def test_trainer(how: str) -> None:
    for _ in range(RUNS):
        model = Fragile(how)
        trainer = Trainer(
            model,
            st.optim.SGD(model.parameters(), lr=0.1),
            st.nn.MSELoss(),
            nprocs=N,
            start_method="fork",
            progress=False,
        )
        with pytest.raises((mp.ProcessException, st.errors.PeerLostError)) as caught:
            trainer.fit([(st.ones(6, 2), st.ones(6, 1))] * 8, epochs=1)
        check_message(str(caught.value), how, "rank 1 ")


class Guarded:
    """Sample 5 ends its worker, which holds the lock that all samples need."""

    def __init__(self, how: str) -> None:
        self.how, self.lock = how, mp.Lock()

    def __len__(self) -> int:
        return 16

    def __getitem__(self, i: int) -> st.Tensor:
        if i == 5 and self.how == "raise":
            end(self.how)
        self.lock.acquire()
        if i == 5:
            end(self.how)
        self.lock.release()
        return st.ones(2)


@pytest.mark.parametrize("how", ENDS)
def test_loader(how: str) -> None:
    for _ in range(RUNS):
        loader = DataLoader(Guarded(how), num_workers=2, in_order=False)
        with pytest.raises((ValueError, st.errors.PeerLostError)) as caught:
            list(loader)
        first, *_, last = str(caught.value).splitlines() * 2
        assert "worker" in first
        assert "index 5" in first
        assert ENDS[how].removeprefix("ValueError: ") in str(caught.value)
        assert "PeerLostError" not in first
        assert "PeerLostError" not in last


IMPORTS = {
    "loader": "from shmtensor.utils.data import DataLoader, TensorDataset",
    "trainer": "from shmtensor.trainer import Trainer",
}
UNGUARDED = {
    "process": "p = context.Process(target=f); p.start(); p.join(); sys.exit(p.exitcode)",
    "pool": "context.Pool(2).map(f, [1, 2])",
    "spawn": "mp.start_processes(f, nprocs=2, start_method=method)",
    "launch": "st.launch(f, 2, (1,), start_method=method)",
    "loader": "list(DataLoader(TensorDataset(st.ones(8)), num_workers=2,"
    " multiprocessing_context=method))",
    "manager": "context.Manager()",
    "trainer": "m = st.nn.Linear(2, 1); Trainer(m, st.optim.SGD(m.parameters(), lr=0.1),"
    " st.nn.MSELoss(), nprocs=2, start_method=method).fit([(st.ones(2, 2), st.ones(2, 1))], 1)",
}


# By spawn each, and two of them by forkserver: one supervisor starts them all. make causes: all.
CASES = [
    (what, method)
    for what in UNGUARDED
    for method in ("spawn", "forkserver")
    if method == "spawn" or what in ("process", "loader") or RUNS > 5
]


@pytest.mark.parametrize(("what", "method"), CASES)
def test_a_main_module_without_a_guard(what: str, method: str, tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text(
        textwrap.dedent(
            f"""
            import sys
            import shmtensor as st
            from shmtensor import multiprocessing as mp
            {IMPORTS.get(what, "")}

            def f(i=0):
                return i

            method = {method!r}
            context = mp.get_context(method)
            {UNGUARDED[what]}
            """
        )
    )
    completed = run_program(path)
    assert completed.returncode == 1, completed.stderr
    sentence = (
        f"{path} starts processes when a child imports it: put what starts them under "
        "`if __name__ == '__main__':`"
    )
    last = completed.stderr.splitlines()[-1]
    assert last.endswith(f": {sentence}"), completed.stderr
    assert completed.stderr.count(sentence) == 1, completed.stderr
    assert completed.stderr.count("Traceback") == (what != "process"), completed.stderr
