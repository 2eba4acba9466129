"""The flight recorder: the surviving ranks know the calls of a dead one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor.distributed.group import flight_recorder
from shmtensor.distributed.group.init_process_group import abort_groups
from shmtensor.errors import CollectiveTimeout, PeerLostError

from ..run_ranks import run, values


def three_calls() -> Any:
    dist.all_reduce(st.zeros(4))
    dist.broadcast(st.zeros(2, 3), 0)
    dist.all_reduce(st.zeros(1 << 16), dist.ReduceOp.MAX)
    dist.barrier()
    return flight_recorder.dump()


def test_all_ranks_steps_are_known_to_each() -> None:
    for rank, dumped in enumerate(values(run(three_calls, 2))):
        assert (dumped["rank"], dumped["group"], len(dumped["ranks"])) == (rank, [0, 1], 2)
        steps = dumped["ranks"][rank]
        assert steps.pop(0)["call"] == "barrier()"  # the group's first
        assert [step["call"] for step in steps] == [
            "all_reduce(float32 (4,), SUM)",
            "broadcast(float32 (2, 3), root 0)",
            "all_reduce(float32 (65536,), MAX)",
            "barrier()",
        ]
        assert [step["number"] for step in steps] == [2, 3, 4, 5]
        assert {step["state"] for step in steps} == {"done"}
        assert [step["nbytes"] for step in steps] == [16, 24, 1 << 18, 0]
        assert all(step["began"] <= step["ended"] <= dumped["time"] + 1 for step in steps)
        other = dumped["ranks"][1 - rank][1:]  # its record may not yet show the end of the barrier
        assert [step["call"] for step in other] == [step["call"] for step in steps]


def messages_and_one_that_nobody_takes() -> Any:
    rank = dist.get_rank()
    if rank == 0:
        for tag in range(70):
            dist.send(st.zeros(3), 1, tag=tag)
        work = dist.isend(st.zeros(2, 2), 1, tag=5)
        while flight_recorder.dump()["messages"][0][-1]["number"] < 71:
            time.sleep(1e-3)
        dumped = flight_recorder.dump()
        dist.barrier()
        work.wait()
        return dumped
    for tag in range(69):
        dist.recv(st.zeros(3), 0, tag=tag)
    dist.recv(st.zeros(3), None, tag=69)
    dist.barrier()
    dist.recv(st.zeros(2, 2), 0, tag=5)
    return flight_recorder.dump()


def test_messages_leave_steps_and_the_last_64_are_kept() -> None:
    sender, receiver = values(run(messages_and_one_that_nobody_takes, 2))
    sends, receives = sender["messages"][0], receiver["messages"][1]
    assert [step["number"] for step in sends] == list(range(71 - 63, 72))
    assert [step["number"] for step in receives] == list(range(72 - 63, 73))
    assert sends[0]["call"] == "send(float32 (3,), to rank 1, tag 7)"
    assert sends[-1]["call"] == "send(float32 (2, 2), to rank 1, tag 5)"
    assert [step["state"] for step in sends] == ["done"] * 63 + ["called"]
    assert sends[-1]["ended"] is None
    calls = [step["call"] for step in receives[-4:]]
    assert calls == [
        "recv(float32 (3,), from rank 0, tag 68)",
        "recv(from any rank)",
        "recv(float32 (3,), from rank 0, tag 69)",
        "recv(float32 (2, 2), from rank 0, tag 5)",
    ]
    assert {step["state"] for step in receives} == {"done"}
    assert {step["nbytes"] for step in receives} == {0, 12, 16}
    analysis = flight_recorder.analyse(sender)
    assert "rank 0: waits in send(float32 (2, 2), to rank 1, tag 5) since" in analysis
    assert "rank 1: waits in" not in flight_recorder.analyse(receiver)


def many_calls() -> Any:
    for _ in range(700):
        dist.barrier()
    return flight_recorder.dump()["ranks"][dist.get_rank()]


def test_the_last_256_are_kept() -> None:
    for steps in values(run(many_calls, 2)):
        assert [step["number"] for step in steps] == list(range(701 - 255, 702))


def one_dies(folder: str) -> Any:
    os.environ[flight_recorder.VARIABLE] = f"{folder}/dump-"
    dist.all_reduce(st.zeros(4))
    if dist.get_rank() == 1:
        os._exit(3)
    with pytest.raises(PeerLostError, match="rank 1") as caught:
        dist.barrier()
    with pytest.raises(PeerLostError) as later:
        dist.barrier()
    abort_groups(later.value)  # as a program does that ends by this error
    assert Path(f"{folder}/dump-0").exists()
    return str(caught.value), str(later.value), str(flight_recorder.write_dump())


def test_the_steps_of_a_dead_rank_are_in_the_error_and_in_the_dump(tmp_path: Path) -> None:
    survivor, _ = run(one_dies, 2, str(tmp_path))
    first, later, path = survivor.value
    for text in (first, later):
        assert text.endswith("; rank 1 had completed #2 all_reduce(float32 (4,), SUM)")
    analysis = flight_recorder.analyse(json.loads(Path(path).read_text()))
    assert "rank 0: waits in #3 barrier() since" in analysis
    assert "rank 1: has completed #2 all_reduce(float32 (4,), SUM) since" in analysis
    assert "behind: rank 1: never came to #3 barrier()" in analysis
    command = [sys.executable, "-m", "shmtensor.distributed.group.flight_recorder", path]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.startswith(f"{path}: as rank 0 saw it\nrank 0: waits in #3")


def one_is_late() -> str:
    dist.barrier()
    if dist.get_rank() == 1:
        dist.recv(st.zeros(1), 0)
        return ""
    with pytest.raises(CollectiveTimeout) as caught:
        dist.monitored_barrier(timeout=0.3)
    return str(caught.value)


def test_a_timeout_says_where_the_late_one_was() -> None:
    message = run(one_is_late, 2)[0].value
    assert "rank 1 had completed #2 barrier() and was in recv(float32 (1,), from rank 0)" in message


def one_raises(folder: str) -> str:
    os.environ[flight_recorder.VARIABLE] = f"{folder}/none/dump-"
    with redirect_stderr(StringIO()) as stderr:
        abort_groups(ValueError("by itself"))
    return stderr.getvalue()


def test_a_dump_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (message,) = values(run(one_raises, 1, str(tmp_path)))
    assert "no flight recorder dump: " in message
    assert f"No such file or directory: '{tmp_path}/none/dump-0'" in message


def test_what_the_analysis_says() -> None:
    def rank(*steps: tuple[int, str, str]) -> list[dict[str, Any]]:
        return [
            {"number": n, "state": state, "call": call, "nbytes": 0, "began": 1.0, "ended": None}
            for n, state, call in steps
        ]

    def analyse(*ranks: list[dict[str, Any]]) -> str:
        dumped = {"rank": 0, "time": 2.0, "group": [], "ranks": list(ranks)}
        return flight_recorder.analyse(dumped).splitlines()[-1]

    completed, waits = rank((1, "done", "a()")), rank((2, "called", "b()"))
    assert analyse(completed, completed) == "nobody is behind"
    assert analyse(completed, waits, []) == "behind: rank 0, rank 2: never came to #2 b()"
    assert analyse(waits, rank((2, "called", "c()"))).startswith("differ: #2")
    assert (
        analyse(completed, rank((1, "met", "a()"))) == "under way: all came to #1, not done: rank 1"
    )
