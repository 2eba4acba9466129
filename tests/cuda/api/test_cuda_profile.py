"""Times of ops on a GPU in a profile."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import shmtensor as st
from shmtensor.profiler import (
    ProfilerActivity,
    cuda_times,
    profile,
    record_function,
    schedule,
    supported_activities,
)

BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]


def rows_of(prof: profile) -> dict[str, Any]:
    return {row.key: row for row in prof.key_averages()}


def intervals_of(prof: profile, name: str) -> list[cuda_times.Interval]:
    """Those of the ops of a name."""
    assert prof.trace is not None
    return [
        note.interval
        for thread in prof.trace.threads
        for event, note in zip(thread.events, thread.notes, strict=True)
        if note is not None and note.interval is not None
        if prof.trace.names[int(event["name"])] == name
    ]


@pytest.mark.usefixtures("cp")
def test_ops_of_both_directions_have_device_times() -> None:
    assert supported_activities() == set(BOTH)
    layer = st.nn.Linear(64, 32).to("cuda")
    x = st.ones(16, 64, device="cuda")
    with profile(activities=BOTH) as prof:
        with record_function("forward"):
            loss = layer(x).sum()
        loss.backward()
        st.ones(3).exp()  # on the CPU
    rows = rows_of(prof)
    for name in ("linear", "sum", "LinearBackward0", "matmul"):
        assert rows[name].device_time_total > 0
        assert rows[name].device_time == rows[name].device_time_total / rows[name].count
        assert 0 <= rows[name].self_device_time_total <= rows[name].device_time_total
    assert rows["exp"].device_time_total == 0
    # What is inside an op is not its own; a range has the sum of its ops.
    (node,) = [event for event in prof.events() if event.name == "LinearBackward0"]
    assert node.self_device_time_total < node.device_time_total
    ops = [e for e in prof.events() if e.name in ("linear", "sum") and e.start < node.start]
    (forward,) = [event for event in prof.events() if event.name == "forward"]
    assert forward.device_time_total == pytest.approx(sum(e.device_time_total for e in ops[:2]))
    assert forward.self_device_time_total == 0
    assert "cuda:0: " in prof.summary()
    text = prof.key_averages().table(sort_by="self_cuda_time_total", row_limit=2)
    title, first, *_, last = text.splitlines()
    for column in ("Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg"):
        assert f"  {column}  " in title
    longest = max(rows.values(), key=lambda row: row.self_device_time_total)
    assert first.startswith(longest.key)
    assert last.startswith("Self CUDA time total: ")
    total = prof.key_averages().total_average()
    assert total.device_time_total == prof.key_averages().self_device_time_total


@pytest.mark.usefixtures("cp")
def test_without_the_activity_there_are_no_device_times() -> None:
    x = st.ones(16, device="cuda")
    with profile() as prof:
        x.exp()
    assert rows_of(prof)["exp"].device_time_total == 0
    assert "CUDA" not in prof.key_averages().table()
    with st.autograd.profiler.profile(use_device="cuda") as older:
        x.exp()
    assert rows_of(older)["exp"].device_time_total > 0


def test_nothing_waits_while_it_records(cp: Any, late_work: Callable[[Any, float], None]) -> None:
    """The work is done after the op's call, and its interval says so on the host's clock."""
    x = st.ones(1000, device="cuda")
    x.exp()  # compiles it
    st.cuda.synchronize()
    stream = cp.cuda.get_current_stream()
    prof = profile(activities=BOTH)
    prof.start()
    late_work(stream, 0.1)
    for _ in range(3):
        x.exp()
    assert not stream.done
    prof.stop()
    assert stream.done
    calls = [event for event in prof.events() if event.name == "exp"]
    intervals = intervals_of(prof, "exp")
    assert len(intervals) == len(calls) == 3
    assert prof.trace is not None
    last = calls[-1].start + calls[-1].cpu_time_total
    for interval in intervals:
        assert interval.start / 1e3 > last
        assert interval.start <= interval.end <= prof.trace.end + 10**9
    starts = [interval.start for interval in intervals]
    assert starts == sorted(starts)
    (line,) = [text for text in prof.summary().splitlines() if text.startswith("cuda:0: ")]
    assert 0 <= int(line.split()[1]) <= 100  # of the time until the last op has ended


@pytest.mark.usefixtures("cp")
def test_each_stream_has_a_track(tmp_path: Path) -> None:
    x = st.ones(1000, device="cuda")
    st.cuda.synchronize()
    side = st.cuda.Stream()
    with profile(activities=BOTH, profile_memory=True) as prof:
        x.exp()
        with st.cuda.stream(side):
            x.sin()
        st.zeros(1000, device="cuda")
        x.cpu()
        st.ones(10).to("cuda")
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    (gpu,) = [e["pid"] for e in events if e.get("args") == {"name": "cuda:0"}]
    assert gpu != os.getpid()
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert len(tracks) == 2
    on_gpu = [e for e in events if e["ph"] == "X" and e["pid"] == gpu]
    names: dict[str, list[str]] = {}
    for event in on_gpu:
        names.setdefault(tracks[event["tid"]].split(" (")[0], []).append(event["name"])
    default = f"stream {st.cuda.default_stream().cuda_stream:#x}"
    assert names[f"stream {side.cuda_stream:#x}"] == ["sin"]
    assert names[default] == ["exp", "zeros", "_to_device", "_to_device"]
    assert all(event["dur"] >= 0 <= event["ts"] for event in on_gpu)
    counters = [e for e in events if e["ph"] == "C" and e["pid"] == gpu]
    assert {e["name"] for e in counters} == {"in use on the GPU"}
    assert len(counters) == 5


@pytest.mark.usefixtures("cp")
def test_intervals_nest_on_a_track(tmp_path: Path) -> None:
    layer = st.nn.Linear(8, 4).to("cuda")
    x = st.ones(2, 8, device="cuda")
    with profile(activities=BOTH) as prof:
        layer(x).sum().backward()
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    ends: list[float] = []
    for event in [e for e in events if e["ph"] == "X" and e["cat"] == "kernel"]:
        end = event["ts"] + event["dur"]
        while ends and ends[-1] <= event["ts"]:
            ends.pop()
        assert not ends or end <= ends[-1] + 1e-6
        ends.append(end)


@pytest.mark.usefixtures("cuda")
def test_memory_on_the_device() -> None:
    x = st.ones(1 << 18, device="cuda")
    with profile(activities=BOTH, profile_memory=True) as prof:
        y = x + 1
        z = st.zeros(1 << 18, device="cuda")
        y.add_(z)
    rows = rows_of(prof)
    assert rows["add"].device_memory_usage >= 1 << 20
    assert rows["add"].self_device_memory_usage == rows["add"].device_memory_usage
    assert rows["zeros"].device_memory_usage >= 1 << 20
    assert rows["add_"].device_memory_usage < 1 << 20
    assert rows["add"].cpu_memory_usage < 1 << 20
    text = prof.key_averages().table(sort_by="cuda_memory_usage")
    assert "  CUDA Mem  Self CUDA Mem" in text
    del y, z
    with profile(activities=BOTH) as prof:
        x + 1
    assert rows_of(prof)["add"].device_memory_usage == 0
    assert "CUDA Mem" not in prof.key_averages().table()


@pytest.mark.usefixtures("cp")
def test_an_optimizer_s_kernel_is_an_op() -> None:
    layer = st.nn.Linear(8, 4).to("cuda")
    optimizer = st.optim.Adam(layer.parameters())
    layer(st.ones(2, 8, device="cuda")).sum().backward()
    with profile(activities=BOTH) as prof:
        optimizer.step()
    rows = rows_of(prof)
    kernel, step = rows["_fused_adam_"], rows["Optimizer.step#Adam.step"]
    assert kernel.self_device_time_total > 0
    assert step.device_time_total >= kernel.device_time_total
    assert step.self_device_time_total == 0


@pytest.mark.usefixtures("cp")
def test_cuda_events_are_used_again_and_destroyed() -> None:
    x = st.ones(8, device="cuda")
    spare = []

    def collect(prof: profile) -> None:
        assert rows_of(prof)["exp"].count == 3
        assert all(event.device_time_total > 0 for event in prof.events() if event.kind == "op")
        assert prof.timer is not None
        spare.append(len(prof.timer.spare[0]))

    plan = schedule(wait=1, warmup=0, active=1, repeat=3)
    with profile(activities=BOTH, schedule=plan, on_trace_ready=collect) as prof:
        for _ in range(6):
            for _ in range(3):
                x.exp()
            prof.step()
    assert spare == [7, 7, 7]
    assert prof.timer is not None
    assert not prof.timer.spare


@pytest.mark.usefixtures("cp")
def test_what_has_no_times_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    x = st.ones(8, device="cuda")
    plan = schedule(wait=0, warmup=0, active=1)
    with profile(activities=BOTH, schedule=plan) as prof:
        with monkeypatch.context() as patch:
            patch.setattr(cuda_times, "is_capturing", lambda runtime, stream: True)
            x.exp()
        x.exp()
        prof.step()
        assert [e.device_time_total > 0 for e in prof.events()[1:]] == [False, True]
        assert "1 ops were captured in a CUDA graph: no device times." in prof.summary()
        monkeypatch.setattr(cuda_times, "MOST", 2)
        for _ in range(5):
            x.exp()
        prof.step()
        assert "3 ops came after the first 2: no device times." in prof.summary()
        assert "captured" not in prof.summary()


def test_the_default_stream_counts_as_captured_beside_a_capture(cp: Any) -> None:
    """CUDA refuses the question then, and any use of that stream."""

    def refuse(stream: int) -> bool:
        raise cp.cuda.runtime.CUDARuntimeError(906)  # cudaErrorStreamCaptureImplicit

    error = cp.cuda.runtime.CUDARuntimeError
    runtime = SimpleNamespace(streamIsCapturing=refuse, CUDARuntimeError=error)
    assert cuda_times.is_capturing(runtime, 0)
    assert not cuda_times.is_capturing(cp.cuda.runtime, 0)


@pytest.mark.usefixtures("two_devices")
def test_devices_are_apart(tmp_path: Path) -> None:
    x, y = st.ones(8, device="cuda:0"), st.ones(8, device="cuda:1")
    with profile(activities=BOTH) as prof:
        x.exp()
        y.sin()
        st.zeros(3, device="cuda:1")
        with st.cuda.device(1):
            z = st.zeros(3, device="cuda")
    assert [i.device for i in intervals_of(prof, "exp")] == [0]
    assert [i.device for i in intervals_of(prof, "sin")] == [1]
    assert [i.device for i in intervals_of(prof, "zeros")] == [1, z.get_device()] == [1, 1]
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    pids = {e["args"]["name"]: e["pid"] for e in events if e["name"] == "process_name"}
    assert set(pids) == {"main", "cuda:0", "cuda:1"}
    assert len(set(pids.values())) == 3
    assert all(f"cuda:{n}: " in prof.summary() for n in (0, 1))


@pytest.mark.usefixtures("cp")
def test_a_failed_op_has_no_event() -> None:
    x, y = st.ones(2, 3, device="cuda"), st.ones(2, 3, device="cuda")
    with profile(activities=BOTH) as prof, pytest.raises(RuntimeError, match="matmul"):
        x @ y
    assert "matmul" not in rows_of(prof)
    with profile(activities=BOTH) as prof:
        x.exp()
    assert rows_of(prof)["exp"].device_time_total > 0
