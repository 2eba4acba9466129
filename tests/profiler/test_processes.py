"""A profile of several processes: who records in it, one clock, deaths, the file for Perfetto."""

from __future__ import annotations

import json
import os
import signal
import struct
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed.run_ranks import run, values

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import multiprocessing as mp
from shmtensor import native
from shmtensor.profiler import profile, record_function, schedule
from shmtensor.profiler.read_events import NEXT_CHUNK
from shmtensor.utils.data import DataLoader, Dataset, TensorDataset

METHODS = ("fork", "spawn", "forkserver")


class Samples(Dataset[Any]):
    def __len__(self) -> int:
        return 24

    def __getitem__(self, i: int) -> Any:
        time.sleep(0.005)  # so that each worker has its part
        return st.full((4,), float(i)).exp()


def names_by_process(prof: profile) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for event in prof.events():
        found[event.process].add(event.name)
    return found


def check_trace(path: Path) -> list[dict[str, Any]]:
    """The events of a file; checks what Perfetto needs: phases, times, and nesting in a thread."""
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    threads = defaultdict(list)
    for event in events:
        assert event["ph"] in "XCM"
        assert event["ts"] >= 0
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append(event)
    named = {event["pid"] for event in events if event["name"] == "process_name"}
    assert {pid for pid, _ in threads} == named
    for thread in threads.values():
        starts = [event["ts"] for event in thread]
        assert starts == sorted(starts)
        ends: list[float] = []
        for event in thread:
            end = event["ts"] + event["dur"]
            while ends and ends[-1] <= event["ts"] + 1e-3:
                ends.pop()
            assert not ends or end <= ends[-1] + 1e-3, (event, ends)
            ends.append(end)
    return events


@pytest.mark.parametrize("method", METHODS)
def test_workers_of_a_loader_are_recorded(method: str, tmp_path: Path) -> None:
    loader = DataLoader(Samples(), batch_size=4, num_workers=2, multiprocessing_context=method)
    with profile(profile_memory=True) as prof:
        for batch in loader:
            batch.sum()
    names = names_by_process(prof)
    assert "DataLoader.__next__" in names["main"]
    assert "exp" not in names["main"]
    workers = set(names) - {"main"}
    assert workers <= {"loader worker 0", "loader worker 1"}
    loading = {worker for worker in workers if "load batch" in names[worker]}
    assert loading  # one may be done before the other comes
    assert all("exp" in names[worker] for worker in loading)
    rows = prof.key_averages(group_by_process=True)
    loaded = [row.count for row in rows if row.key == "load batch"]
    assert sum(loaded) == 6
    assert "loader worker" in rows.table()
    assert "load batch" not in prof.key_averages().table()
    lines = prof.summary().splitlines()
    assert loading <= {line.split(": ")[0] for line in lines[1:]} <= workers
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = check_trace(tmp_path / "trace.json")
    texts = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert len(texts) == len(names)
    counters = [event for event in events if event["ph"] == "C"]
    assert {event["name"] for event in counters} == {"heap in use"}
    assert all(event["args"]["bytes"] >= 0 for event in counters)
    # One clock: a worker loads within the time in which the main process iterates.
    last = max(e["ts"] for e in events if e["name"] == "sum")
    assert all(0 <= e["ts"] <= last for e in events if e["name"] == "load batch")


def test_workers_that_run_already_join_and_leave() -> None:
    loader = DataLoader(Samples(), batch_size=1, num_workers=1, persistent_workers=True)
    batches = iter(loader)
    next(batches)
    with profile() as first:
        for _ in range(8):
            next(batches)
    with profile() as second:
        for _ in range(8):
            next(batches)
    for _ in range(4):
        next(batches)
    for prof in (first, second):
        assert "load batch" in names_by_process(prof)["loader worker 0"]
    del batches
    loader.close()


def compute(x: st.Tensor) -> None:
    with record_function("in the child"):
        x.cos()


@pytest.mark.parametrize("method", METHODS)
def test_processes_are_recorded(method: str) -> None:
    context = mp.get_context(method)
    with profile() as prof:
        child = context.Process(target=compute, args=(st.ones(3),), name="helper")
        child.start()
        child.join()
    assert child.exitcode == 0
    assert {"in the child", "cos"} <= names_by_process(prof)["helper"]
    event = next(event for event in prof.events() if event.name == "cos")
    assert event.pid == child.pid


def grandparent() -> None:
    st.ones(2).sin()
    child = mp.get_context("spawn").Process(target=compute, args=(st.ones(3),), name="grandchild")
    child.start()
    child.join()


def test_children_of_children_are_recorded() -> None:
    with profile() as prof:
        child = mp.get_context("spawn").Process(target=grandparent, name="child")
        child.start()
        child.join()
    names = names_by_process(prof)
    assert "sin" in names["child"]
    assert "cos" in names["grandchild"]


def own_profile(queue: Any) -> None:
    st.ones(2).sin()
    with profile() as prof:
        st.ones(2).cos()
    st.ones(2).tan()
    queue.put([event.name for event in prof.events()])


def test_a_child_may_have_a_profile_of_its_own() -> None:
    queue = mp.Queue()
    with profile() as prof:
        child = mp.get_context("fork").Process(target=own_profile, args=(queue,), name="own")
        child.start()
        assert queue.get(timeout=20) == ["ones", "cos"]
        child.join()
    names = names_by_process(prof)["own"]
    assert {"sin", "tan"} <= names
    assert "cos" not in names
    queue.close()


def test_a_forked_child_does_not_end_the_profile() -> None:
    with profile() as prof:
        pid = os.fork()
        if pid == 0:
            prof.__exit__(None, None, None)
            os._exit(0)
        os.waitpid(pid, 0)
        st.ones(2).cos()
    assert "cos" in names_by_process(prof)["main"]


def many_events(queue: Any) -> None:
    while queue.get(timeout=20):
        for _ in range(4000):
            st.ones(2)
        queue.task_done()


def test_processes_use_the_space_of_former_cycles() -> None:
    """Chunks go from one process to another, and each event keeps its process."""
    queue = mp.JoinableQueue()
    found = []

    def collect(prof: profile) -> None:
        events = [event for event in prof.events() if event.kind == "op"]
        found.append({(event.process, event.name) for event in events})
        assert len(events) == 12_000

    plan = schedule(wait=0, warmup=0, active=1, repeat=4)
    with profile(schedule=plan, on_trace_ready=collect) as prof:
        context = mp.get_context("fork")
        children = [context.Process(target=many_events, args=(queue,), name=n) for n in "ab"]
        for child in children:
            child.start()
        for _ in range(4):
            for _ in range(2):
                queue.put(1)
            x = st.zeros(2)
            for _ in range(3999):
                x.cos()
            queue.join()
            prof.step()
        for _ in children:
            queue.put(0)
        for child in children:
            child.join()
        (taken,) = struct.unpack("<Q", os.pread(prof.descriptor, 8, NEXT_CHUNK))
    queue.close()
    assert len(found) == 4
    for roles in found:
        assert roles >= {("main", "cos"), ("main", "zeros")}
        assert roles <= {("main", "cos"), ("main", "zeros"), ("a", "ones"), ("b", "ones")}
    assert taken < 24  # 48,000 events fill 30


def killed(point: str, nth: int) -> None:
    native.set_role("victim")
    native.arm_fault(f"{point}:{nth}")
    for i in range(100):
        with record_function(f"range {i}"):
            st.ones(2)


@pytest.mark.parametrize(("point", "nth"), [("profile.taken", 1), ("profile.event", 7)])
def test_a_killed_process_loses_its_last_event(point: str, nth: int) -> None:
    with profile() as prof:
        child = mp.get_context("fork").Process(target=killed, args=(point, nth))
        child.start()
        child.join()
        st.ones(2).cos()
    assert child.exitcode == -signal.SIGKILL
    names = names_by_process(prof)
    assert "cos" in names["main"]
    recorded = [event.name for event in prof.events() if event.process == "victim"]
    expected = [name for i in range(3) for name in (f"range {i}", "ones")]
    expected = [] if point == "profile.taken" else expected
    assert recorded == expected
    assert len(prof.summary().splitlines()) == (2 if expected else 1)


def profiling(queue: Any) -> None:
    prof = profile()
    prof.start()
    child = mp.get_context("fork").Process(target=time.sleep, args=(60,), daemon=True)
    child.start()
    queue.put(child.pid)
    time.sleep(60)


def test_nothing_is_left_of_a_killed_profiler() -> None:
    queue = mp.Queue()
    owner = mp.get_context("fork").Process(target=profiling, args=(queue,))
    owner.start()
    grandchild = queue.get(timeout=20)
    assert owner.pid is not None
    os.kill(owner.pid, signal.SIGKILL)
    owner.join()
    end = time.monotonic() + 20
    while Path(f"/proc/{grandchild}").exists() and time.monotonic() < end:
        status = Path(f"/proc/{grandchild}/stat").read_text().rsplit(")", 1)[1].split()[0]
        if status == "Z":
            break
        os.kill(grandchild, signal.SIGKILL)
        time.sleep(0.01)
    queue.close()
    with profile() as prof:
        st.ones(2).cos()
    assert set(names_by_process(prof)) == {"main"}


def test_ranks_of_a_trainer_are_recorded() -> None:
    x, y = st.randn(64, 8), st.zeros(64, dtype=st.int64)
    model = st.nn.Linear(8, 2)
    trainer = st.trainer.Trainer(
        model,
        st.optim.SGD(model.parameters(), lr=0.1),
        st.nn.CrossEntropyLoss(),
        nprocs=2,
        progress=False,
    )
    with profile() as prof:
        trainer.fit(DataLoader(TensorDataset(x, y), batch_size=16), epochs=1)
    names = names_by_process(prof)
    assert set(names) == {"main", "rank 1"}
    for process in names.values():
        assert {"Trainer.step", "barrier", "linear", "LinearBackward0"} <= process
    barrier = next(event for event in prof.events() if event.name == "barrier")
    assert barrier.kind == "collective"
    assert np.isfinite(barrier.start)


def reduce_twice() -> None:
    for _ in range(2):
        dist.all_reduce(st.ones(1000))


def test_collectives_have_their_bytes() -> None:
    with profile() as prof:
        values(run(reduce_twice, 2, start_method="fork"))
    found = [event for event in prof.events() if event.name == "all_reduce"]
    assert len(found) == 4
    assert len({event.pid for event in found}) == 2
    assert {(event.kind, event.nbytes) for event in found} == {("collective", 4000)}
