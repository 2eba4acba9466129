"""`st.profiler`: what a profile of one process records, its schedule, tables and files."""

from __future__ import annotations

import gzip
import json
import os
import struct
import threading
from pathlib import Path
from queue import Full
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import multiprocessing as mp
from shmtensor import native
from shmtensor.autograd.dispatch import observers
from shmtensor.distributed.backends.member import Member
from shmtensor.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    profiling,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)
from shmtensor.profiler.chrome_trace import trace_events
from shmtensor.profiler.cuda_times import Interval
from shmtensor.profiler.details import Note, Notes
from shmtensor.profiler.read_events import (
    CHUNK_BYTES,
    EVENT,
    EVENTS_IN_CHUNK,
    NEXT_CHUNK,
    Process,
    ThreadEvents,
    Trace,
    name_apart,
)  # fmt: skip


def names_of(prof: profile, kind: str) -> list[str]:
    return [event.name for event in prof.events() if event.kind == kind]


def train(prof: profile | None = None, steps: int = 1) -> None:
    model = st.nn.Sequential(st.nn.Linear(8, 4), st.nn.ReLU(), st.nn.Linear(4, 2))
    optimizer = st.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        with record_function("forward"):
            loss = model(st.ones(3, 8)).sum()
        loss.backward()
        optimizer.step()
        if prof is not None:
            prof.step()


def test_a_step_is_recorded_by_kind() -> None:
    with profile() as prof:
        train()
    assert names_of(prof, "range") == ["forward"]
    assert names_of(prof, "optimizer") == [
        "Optimizer.zero_grad#SGD.zero_grad",
        "Optimizer.step#SGD.step",
    ]
    assert names_of(prof, "op").count("linear") == 2
    assert names_of(prof, "backward").count("LinearBackward0") == 2
    (forward,) = [event for event in prof.events() if event.name == "forward"]
    linear = [event for event in prof.events() if event.name == "linear"]
    assert all(forward.start <= event.start for event in linear)
    assert forward.cpu_time_total >= sum(event.cpu_time_total for event in linear)
    assert forward.self_cpu_time_total < forward.cpu_time_total
    assert {event.pid for event in prof.events()} == {os.getpid()}
    assert {event.process for event in prof.events()} == {"main"}


class Double(st.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


def test_own_functions_are_recorded() -> None:
    x = st.ones(3, requires_grad=True)
    with profile() as prof:
        Double.apply(x).sum().backward()
    assert "Double" in names_of(prof, "op")
    assert "DoubleBackward" in names_of(prof, "backward")


def test_nothing_is_recorded_outside() -> None:
    train()
    with profile() as prof:
        pass
    train()
    assert prof.events() == []
    assert "0 % other" not in prof.summary()
    assert native.profile_begin() == 0
    native.profile_end(1, "no profile", 0)


def test_a_failing_block_is_recorded_and_ends_the_profile() -> None:
    prof = profile()
    with pytest.raises(ZeroDivisionError), prof, record_function("fails"):
        raise ZeroDivisionError
    assert [event.name for event in prof.events()] == ["fails"]
    with profile() as prof, pytest.raises(RuntimeError, match="matmul"):
        st.ones(2, 3) @ st.ones(2, 3)
    assert names_of(prof, "op")[:2] == ["ones", "ones"]


def test_profiles_do_not_nest() -> None:
    with profile() as outer:
        with pytest.raises(RuntimeError, match="another profile is running"), profile():
            pass
        st.ones(2).exp()
    assert "exp" in names_of(outer, "op")
    with pytest.raises(RuntimeError, match="not running"):
        outer.step()
    with pytest.raises(RuntimeError, match="nothing was recorded"):
        profile().events()


def test_arguments_are_checked() -> None:
    assert ProfilerActivity.CPU in supported_activities()
    with pytest.raises(ValueError, match="must be among the activities"):
        profile(activities=[ProfilerActivity.CUDA])
    with pytest.raises(ValueError, match="cannot be recorded: \\['XPU'\\]"):
        profile(activities=[ProfilerActivity.CPU, ProfilerActivity.XPU])
    with pytest.raises(TypeError, match="not a ProfilerActivity: 'cpu'"):
        profile(activities=["cpu"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="name must be a str: got int"):
        record_function(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="name"):
        native.profile_end(1, 3, 0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no such row"):
        native.profile_follow(1000, 0)


@pytest.mark.skipif(st.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_its_activity_is_a_warning() -> None:
    """As in PyTorch."""
    assert supported_activities() == {ProfilerActivity.CPU}
    both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA") as caught:
        prof = profile(activities=both)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA") as caught:
        st.autograd.profiler.profile(use_device="cuda")
    assert caught[0].filename == __file__
    with prof:
        st.ones(3)
    assert names_of(prof, "op") == ["ones"]
    assert prof.events()[0].device_time_total == 0
    assert "CUDA" not in prof.key_averages().table()


def test_options_without_effect_warn() -> None:
    with pytest.warns(UserWarning, match="without effect: with_flops, with_modules:") as caught:
        prof = profile(with_flops=True, with_modules=True)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="without effect: with_flops") as caught:
        st.autograd.profiler.profile(with_flops=True)
    assert caught[0].filename == __file__
    with pytest.raises(TypeError, match="profile_memry"):
        st.autograd.profiler.profile(profile_memry=True)  # type: ignore[call-arg]
    with prof:
        st.ones(3)
    with pytest.warns(UserWarning, match="group_by_input_shape: record_shapes was") as caught:
        prof.key_averages(group_by_input_shape=True)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="group_by_stack_n: with_stack was not set"):
        prof.key_averages(group_by_stack_n=1)
    assert prof.events()[0].input_shapes == prof.events()[0].stack == []


def test_shapes_of_operands() -> None:
    x = st.ones(3, 4, requires_grad=True)
    with profile(record_shapes=True) as prof:
        for n in (2, 2, 5):
            st.nn.functional.linear(x, st.ones(n, 4)).sum().backward()
        st.cat([st.zeros(2), st.zeros(3)])
    rows = prof.key_averages(group_by_input_shape=True)
    shapes = {(row.key, str(row.input_shapes)): row.count for row in rows}
    assert shapes["linear", "[[3, 4], [2, 4]]"] == 2
    assert shapes["linear", "[[3, 4], [5, 4]]"] == 1
    assert shapes["LinearBackward0", "[[3, 5]]"] == 1
    assert shapes["cat", "[[[2], [3]]]"] == 1
    text = rows.table(sort_by="count")
    assert text.splitlines()[0].endswith("Input Shapes")
    assert "[[3, 4], [5, 4]]" in text
    assert "[[3, 4]" not in rows.table(max_shapes_column_width=6)
    (linear,) = [row for row in prof.key_averages() if row.key == "linear"]
    assert (linear.count, linear.input_shapes) == (3, "")
    st.autograd.profiler.profile(record_shapes=True)  # the older interface, without a warning


def here(x: st.Tensor) -> st.Tensor:
    return x.exp()


def there(x: st.Tensor) -> st.Tensor:
    return x.exp()


def test_a_class_among_the_operands_has_no_shape() -> None:
    with profile(record_shapes=True) as prof:
        st.ones(3).to(np.float64)
    assert prof.events()[-1].input_shapes == [[3], []]


def test_stacks(tmp_path: Path) -> None:
    x = st.ones(1 << 16)
    with profile(with_stack=True) as prof:
        for function in (here, there, there):
            function(x)
    lines = [here.__code__.co_firstlineno + 1, there.__code__.co_firstlineno + 1]
    first = [event.stack[0] for event in prof.events()]
    frames = [f"{__file__}({lines[0]}): here", f"{__file__}({lines[1]}): there"]
    assert first == [frames[0], frames[1], frames[1]]
    assert all(event.stack[1].endswith(": test_stacks") for event in prof.events())
    rows = prof.key_averages(group_by_stack_n=2)
    assert [(row.count, row.stack[0]) for row in rows] == [(1, frames[0]), (2, frames[1])]
    text = rows.table(max_src_column_width=200).splitlines()
    assert text[0].endswith("Source Location")
    assert text[1].endswith(frames[0])
    assert text[2].strip() == rows[0].stack[1]
    (row,) = prof.key_averages()
    assert (row.count, row.stack) == (3, [])
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = read(tmp_path / "trace.json")["traceEvents"]
    stacks = [e["args"]["Call stack"] for e in events if e["name"] == "exp"]
    assert stacks[0].startswith(f"{frames[0]};")
    prof.export_stacks(tmp_path / "stacks.txt")
    stacks = (tmp_path / "stacks.txt").read_text().splitlines()
    assert len(stacks) == 3
    frame, microseconds = stacks[0].rsplit(" ", 1)
    assert frame.endswith(f";{frames[0].replace(' ', '_')}")
    assert int(microseconds) == int(prof.events()[0].self_cpu_time_total)
    with pytest.raises(ValueError, match="metric must be one of"):
        prof.export_stacks(tmp_path / "stacks.txt", "count")


def test_details_end_with_the_cycle() -> None:
    """Steps that are not recorded pay nothing, and neither does a forked child."""
    seen = []
    plan = schedule(wait=1, warmup=0, active=1, repeat=1)
    with profile(schedule=plan, record_shapes=True) as prof:
        for _ in range(3):
            seen.append(list(observers.observers))
            if seen[-1]:
                pid = os.fork()
                if pid == 0:
                    os._exit(len(observers.observers))
                assert os.waitpid(pid, 0)[1] == 0
            st.ones(3)
            prof.step()
    assert [len(found) for found in seen] == [0, 1, 0]
    assert profiling.details is None


def test_a_queue_is_recorded_at_both_ends() -> None:
    queue: mp.Queue = mp.Queue(1)
    with profile() as prof:
        queue.put(1)
        with pytest.raises(Full):
            queue.put(2, timeout=0.01)
        queue.get()
    queue.close()
    assert names_of(prof, "queue wait") == ["Queue.put", "Queue.put", "Queue.get"]
    waits = [event.cpu_time_total for event in prof.events() if event.kind == "queue wait"]
    assert waits[1] >= 10_000
    assert "waiting for queues" in prof.summary()


class Alone(Member):
    def _leave(self) -> None:
        """There is nobody to tell."""


def test_collectives_of_engines_in_python_are_recorded() -> None:
    member = Alone(0, 1)
    with profile() as prof:
        with member.exclusive("all_reduce"):
            st.ones(3)
        with pytest.raises(ZeroDivisionError), member.exclusive("barrier"):
            raise ZeroDivisionError
    member.leave()
    assert names_of(prof, "collective") == ["all_reduce"]


def test_schedule_of_steps() -> None:
    action = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    found = [action(step).name for step in range(10)]
    cycle = ["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE"]
    assert found == ["NONE", *cycle, *cycle, "NONE"]
    action = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1, skip_first_wait=1)
    found = [action(step).name for step in range(9)]
    assert found == ["NONE", *cycle[1:], *cycle, "NONE"]
    assert schedule(wait=0, warmup=0, active=1)(7) is ProfilerAction.RECORD_AND_SAVE
    for wrong in ({"active": 0}, {"active": 1, "wait": -1}):
        with pytest.raises(ValueError, match="active must be positive"):
            schedule(**{"wait": 0, "warmup": 0, **wrong})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="negative"):
        action(-1)


def test_each_cycle_is_handed_over() -> None:
    cycles: list[list[str]] = []

    def collect(prof: profile) -> None:
        cycles.append(names_of(prof, "step"))
        assert names_of(prof, "op").count("linear") == 4

    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(schedule=plan, on_trace_ready=collect) as prof:
        train(prof, 10)
    assert cycles == [["ProfilerStep#2", "ProfilerStep#3"], ["ProfilerStep#6", "ProfilerStep#7"]]
    with pytest.raises(TypeError, match="must return a ProfilerAction: got 1"):
        profile(schedule=lambda step: 1).start()  # type: ignore[arg-type,return-value]
    with profile():  # the failed one is not running
        pass


def test_an_unfinished_cycle_is_handed_over_at_the_end() -> None:
    ready: list[int] = []
    plan = schedule(wait=0, warmup=0, active=5)
    with profile(schedule=plan, on_trace_ready=lambda prof: ready.append(prof.step_num)) as prof:
        train(prof, 2)
    assert ready == [2]
    assert names_of(prof, "step") == ["ProfilerStep#0", "ProfilerStep#1"]


def test_steps_without_a_schedule() -> None:
    with profile() as prof:
        train(prof, 3)
    assert names_of(prof, "step") == [f"ProfilerStep#{i}" for i in range(3)]
    assert prof.summary().startswith("Where the time went (3 steps of ")


def test_threads_have_their_numbers() -> None:
    numbers = []

    def work() -> None:
        numbers.append(threading.get_native_id())
        st.full((3,), 0.3).erfinv()

    with profile() as prof:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        st.ones(3).exp()
    by_name = {event.name: event.thread for event in prof.events()}
    assert by_name["erfinv"] == numbers[0] != by_name["exp"] == threading.get_native_id()


def test_times_on_a_gpu_without_the_ops_in_a_range_inside() -> None:
    names = ("op", 0, 100), ("range", 10, 80), ("op", 20, 30), ("op", 60, 10)
    kinds = native.PROFILE_KINDS
    rows = [(start, ns, 0, 0, 0, kinds.index(kind), 0) for kind, start, ns in names]
    noted: Notes = {}
    for start, stream, ns, nbytes in ((0, 7, 50, 12), (20, 7, 20, 8), (60, 9, 5, 3)):
        noted[1, start] = note = Note()
        note.interval = interval = Interval(0, stream, first=1)
        interval.duration, interval.nbytes = ns, nbytes
    thread = ThreadEvents(Process(0, 1, "main"), 1, np.array(rows, EVENT), noted)
    assert thread.device_figures() == [
        (50, 30, 12, 1),  # the last op is on another stream
        (25, 0, 0, 0),
        (20, 20, 8, 8),
        (5, 5, 3, 3),
    ]


def test_memory_of_an_op_without_the_ops_inside_it() -> None:
    x = st.ones(512, 512, requires_grad=True)  # 1 MiB
    with profile(profile_memory=True) as prof, record_function("mine"):
        st.nn.functional.linear(x, x).sum().backward()
    rows = prof.key_averages()
    (node,) = [row for row in rows if row.key == "LinearBackward0"]
    (matmul,) = [row for row in rows if row.key == "matmul"]
    (mine,) = [row for row in rows if row.key == "mine"]
    assert node.self_cpu_memory_usage == node.cpu_memory_usage - matmul.cpu_memory_usage
    assert matmul.self_cpu_memory_usage == matmul.cpu_memory_usage >= 1 << 20
    assert mine.self_cpu_memory_usage == mine.cpu_memory_usage == 0
    total = rows.total_average()
    assert total.self_cpu_memory_usage == sum(row.self_cpu_memory_usage for row in rows)
    assert total.cpu_memory_usage == total.self_cpu_memory_usage
    text = rows.table(sort_by="self_cpu_memory_usage", row_limit=3, header="by memory")
    assert text.splitlines()[0] == "by memory"
    assert text.splitlines()[1].endswith("Self CPU Mem")


def test_memory_is_counted() -> None:
    with profile(profile_memory=True) as prof:
        x = st.ones(1 << 18)
        y = x + 1
        del x, y
        st.ones(3)
    ones, add, _ = prof.events()
    assert ones.cpu_memory_usage >= 1 << 20 <= add.cpu_memory_usage
    assert prof.trace is not None
    in_use = prof.trace.threads[0].events["in_use"]
    assert in_use[1] - in_use[0] >= 1 << 20
    assert in_use[2] <= in_use[0]
    assert "CPU Mem" in prof.key_averages().table()
    with profile() as prof:
        st.ones(1 << 18)
    assert prof.events()[0].cpu_memory_usage == 0
    assert "CPU Mem" not in prof.key_averages().table()


def test_each_cycle_has_its_own_events() -> None:
    found = []
    x = st.ones(2)
    with profile(
        schedule=schedule(wait=0, warmup=0, active=1),
        on_trace_ready=lambda prof: found.append((names_of(prof, "step"), len(prof.events()))),
    ) as prof:
        for _ in range(4):
            for _ in range(1000):  # more than a chunk in two cycles
                x.exp()
            prof.step()
    # What began after the last step() had no events: it is no cycle.
    assert found == [([f"ProfilerStep#{i}"], 1001) for i in range(4)]
    assert len(prof.events()) == 1001


def test_processes_of_one_role_have_their_pids() -> None:
    roles = {0: (7, "main"), 1: (8, "loader worker 0"), 2: (9, "loader worker 0"), 3: (5, "rank 1")}
    processes = {number: Process(number, *who) for number, who in roles.items()}
    processes[4] = Process(4, 5, "rank 1")  # the same process again, after a profile of its own
    name_apart(processes)
    assert [process.role for process in processes.values()] == [
        "main", "loader worker 0 (pid 8)", "loader worker 0 (pid 9)", "rank 1", "rank 1",
    ]  # fmt: skip
    trace = Trace(0, 1, 0, False, 7, 7, {}, [])
    trace.threads = [ThreadEvents(p, p.pid, np.zeros(0, EVENT)) for p in processes.values()]
    names = [e["args"]["name"] for e in trace_events(trace) if e["name"] == "process_name"]
    assert names[:4] == [
        "main", "loader worker 0 (pid 8)", "loader worker 0 (pid 9)", "rank 1 (pid 5)",
    ]  # fmt: skip


def test_table() -> None:
    with profile() as prof:
        for _ in range(3):
            st.ones(300, 300).exp()
        st.ones(2).sin()
    rows = prof.key_averages()
    text = rows.table(sort_by="count", row_limit=2)
    lines = text.splitlines()
    assert len(lines) == 4
    assert lines[1].startswith("ones ")
    assert lines[2].startswith("exp ")
    assert lines[3].startswith("Self CPU time total")
    by_key = {row.key: row for row in rows}
    assert (by_key["ones"].count, by_key["exp"].count, by_key["sin"].count) == (4, 3, 1)
    assert len(rows.table(row_limit=-1).splitlines()) == 5
    with pytest.raises(ValueError, match=r"sort_by must be one of .* got 'cuda_tim'"):
        rows.table(sort_by="cuda_tim")
    with pytest.raises(ValueError, match=r"time_unit must be one of .* got 'h'"):
        rows.table(time_unit="h")
    cells = rows.table(time_unit="ms").splitlines()[1].split()
    assert [cells[i][-2:] for i in (2, 4, 5)] == ["ms", "ms", "ms"]
    us = rows[0].self_cpu_time_total
    assert f"{us / 1e3:.3f}ms" == cells[2]


def test_the_summary_says_where_the_time_went() -> None:
    with profile() as prof:
        with record_function("mine"):
            for _ in range(20):
                st.ones(200, 200) @ st.ones(200, 200)
    text = prof.summary()
    assert text.startswith("Where the time went (")
    assert "% ops (" in text
    assert "matmul" in text
    assert str(prof) == text
    assert str(profile()).startswith("<shmtensor.profiler")


def read(path: Path) -> Any:
    return json.loads(
        gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_text()
    )


def test_files_of_traces(tmp_path: Path) -> None:
    handler = tensorboard_trace_handler(tmp_path / "deep" / "folder", "w", use_gzip=True)
    with profile(on_trace_ready=handler) as prof:
        train()
        prof.add_metadata("run", "first")
        prof.add_metadata_json("sizes", "[8, 2]")
    (path,) = (tmp_path / "deep" / "folder").iterdir()
    assert path.name.startswith("w.")
    assert path.name.endswith(".pt.trace.json.gz")
    content = read(path)
    assert (content["run"], content["sizes"]) == ("first", [8, 2])
    prof.export_chrome_trace(tmp_path / "plain.json")
    assert read(tmp_path / "plain.json")["traceEvents"] == content["traceEvents"]
    with pytest.raises(ValueError, match="Expecting"):
        prof.add_metadata_json("wrong", "{")
    assert tensorboard_trace_handler(tmp_path)(prof) is None  # type: ignore[func-returns-value]
    (path,) = tmp_path.glob("*.pt.trace.json")
    assert str(os.getpid()) in path.name


def test_the_space_of_a_cycle_is_used_again() -> None:
    taken, counts = [], []

    def collect(prof: profile) -> None:
        (chunk,) = struct.unpack("<Q", os.pread(prof.descriptor, 8, NEXT_CHUNK))
        taken.append(chunk)
        counts.append(len(names_of(prof, "op")))

    x = st.ones(2)
    n = 3 * EVENTS_IN_CHUNK
    with profile(schedule=schedule(wait=0, warmup=0, active=1), on_trace_ready=collect) as prof:
        for _ in range(5):
            for _ in range(n):
                x.exp()
            prof.step()
    assert counts == [n] * 5
    assert taken == taken[:1] * 5
    assert set(names_of(prof, "op")) == {"exp"}


def test_a_chunk_with_a_writer_is_not_freed() -> None:
    prof = profile()
    prof.start()
    st.ones(2)
    for chunk in (1, 2):  # of names, and of a thread
        with pytest.raises(ValueError, match=f"chunk {chunk} has a writer"):
            native.profile_free(chunk)
    for chunk in (0, 4096):
        with pytest.raises(ValueError, match=f"no such chunk: {chunk}"):
            native.profile_free(chunk)
    for _ in range(EVENTS_IN_CHUNK):
        st.ones(2)
    native.profile_free(2)
    with pytest.raises(ValueError, match="chunk 2 has a writer"):
        native.profile_free(2)  # it is free already
    header = os.pread(prof.descriptor, 12, 2 * CHUNK_BYTES)
    assert struct.unpack("<QI", header) == (0, 0)
    prof.stop()
    with pytest.raises(ValueError, match="no such chunk"):
        native.profile_free(2)


def test_events_without_room_are_counted() -> None:
    prof = profile()
    prof.start()
    st.ones(2)
    os.pwrite(prof.descriptor, struct.pack("<Q", 4096), NEXT_CHUNK)  # as if all were taken
    for _ in range(2000):
        st.ones(2)
    with pytest.warns(RuntimeWarning, match="events had no room"):
        prof.stop()
    assert prof.trace is not None
    n = len(prof.events())
    assert n + prof.trace.dropped == 2001
    assert n == (65536 - 128) // EVENT.itemsize
    assert "events had no room" in prof.summary()


def test_long_names_and_many_of_them() -> None:
    with profile() as prof:
        for i in range(3000):
            with record_function(f"range {i} " + "x" * 100):
                pass
        with record_function("ä" * 5000):
            pass
    found = names_of(prof, "range")
    assert len(set(found)) == 3001
    assert found[-1] == "ä" * 2000
    assert found[2999].startswith("range 2999 ")


def test_descriptors_do_not_grow() -> None:
    with profile():
        pass
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with profile():
            st.ones(2)
    assert len(os.listdir("/proc/self/fd")) == before
    with open("/proc/self/maps") as maps:
        assert "shmtensor-profile" not in maps.read()
