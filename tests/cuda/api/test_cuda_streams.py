"""Streams and events: order, equality, contexts, times, and events of other processes."""

from __future__ import annotations

import subprocess
from types import ModuleType
from typing import Any

import pytest

import shmtensor as st
from shmtensor import accelerator
from tests.cuda.standin.program import start

N = 4096


def test_the_current_stream_is_cupys(cuda: ModuleType, cp: Any) -> None:
    assert cuda.current_stream() == cuda.default_stream()
    assert cuda.current_stream().cuda_stream == cp.cuda.get_current_stream().ptr
    stream = cuda.Stream()
    assert stream.cuda_stream != 0
    assert stream.device == st.device("cuda:0")
    with cuda.stream(stream):
        assert cuda.current_stream() == stream == accelerator.current_stream()
        assert cp.cuda.get_current_stream().ptr == stream.cuda_stream
        with cuda.stream(None), cuda.Stream() as inner:
            assert cuda.current_stream() == inner != stream
        assert cuda.current_stream() == stream
    assert cuda.current_stream() == cuda.default_stream()
    cuda.set_stream(stream)
    assert cuda.current_stream() == stream
    accelerator.set_stream(cuda.default_stream())
    assert cuda.current_stream() == cuda.default_stream()
    assert len({stream, cuda.current_stream(), cuda.default_stream()}) == 2


def test_streams_are_used_in_turn(cuda: ModuleType) -> None:
    streams = [cuda.Stream() for _ in range(40)]
    assert len(set(streams)) == 32
    assert cuda.Stream(priority=-1).priority <= cuda.Stream().priority == 0


def test_a_stream_of_another_device_sets_the_device(two: ModuleType) -> None:
    other = two.Stream("cuda:1")
    with two.stream(other):
        assert two.current_device() == 1
        assert two.current_stream() == two.current_stream("cuda:1") == other
        assert two.current_stream(0) == two.default_stream(0)
        x = st.ones(4, device="cuda")
    assert two.current_device() == 0
    assert two.current_stream(1) == two.default_stream(1) != two.default_stream(0)
    other.synchronize()
    assert x.device.index == 1


def test_work_waits_for_another_stream(cuda: ModuleType, late_work: Any) -> None:
    side, main = cuda.Stream(), cuda.current_stream()
    st.arange(N, device="cuda") * 2  # compiled
    late_work(side.stream, 0.5)
    with cuda.stream(side):
        x = st.arange(N, device="cuda") * 2
    assert not side.query()
    main.wait_stream(side)
    y = x + 1
    assert y.cpu().tolist() == list(range(1, 2 * N, 2))
    assert side.query()


def test_events_order_streams(cuda: ModuleType, late_work: Any) -> None:
    side = cuda.Stream()
    event = cuda.Event()
    assert event.query()  # nothing is recorded
    event.wait()
    event.synchronize()
    st.arange(N, device="cuda") * 3  # compiled
    late_work(side.stream, 0.5)
    with cuda.stream(side):
        x = st.arange(N, device="cuda") * 3
        event.record()
    assert not event.query()
    cuda.current_stream().wait_event(event)
    assert (x + 0).sum().item() == 3 * N * (N - 1) // 2
    assert event.query()
    again = side.record_event(event)
    assert again is event
    again.synchronize()


def test_times(cuda: ModuleType) -> None:
    start_event, end = cuda.Event(enable_timing=True), cuda.Event(True, blocking=True)
    with pytest.raises(ValueError, match="must be recorded first"):
        start_event.elapsed_time(end)
    start_event.record()
    st.ones(N, device="cuda") * 2
    end.record()
    end.synchronize()
    assert 0 <= start_event.elapsed_time(end) < 60_000
    plain = cuda.Event()
    plain.record()
    with pytest.raises(ValueError, match="need enable_timing=True"):
        start_event.elapsed_time(plain)


def test_an_event_stays_on_its_device(two: ModuleType) -> None:
    event = two.Event()
    event.record()
    with pytest.raises(RuntimeError, match="it is of cuda:0 and cannot be recorded on cuda:1"):
        event.record(two.Stream(1))
    event.wait(two.Stream(1))


def test_streams_of_other_libraries(cuda: ModuleType, cp: Any) -> None:
    theirs = cp.cuda.Stream(non_blocking=True)
    ours = cuda.ExternalStream(theirs.ptr)
    assert ours.cuda_stream == theirs.ptr
    assert cuda.get_stream_from_external(theirs.ptr, "cuda:0") == ours
    with ours:
        assert cp.cuda.get_current_stream().ptr == theirs.ptr
        st.ones(3, device="cuda")
    theirs.synchronize()
    assert cp.cuda.Stream.from_external(cuda.Stream()).ptr != 0
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        cuda.Stream(stream_id=1)


OTHER = """
import shmtensor as st
event = st.cuda.Event.from_ipc_handle(0, sys.stdin.buffer.read(64))
event.wait()
event.synchronize()
print(event.query(), flush=True)
"""


def test_events_of_other_processes(cuda: ModuleType) -> None:
    event = cuda.Event(interprocess=True)
    event.record()
    handle = event.ipc_handle()
    process = start(OTHER)
    try:
        out, err = process.communicate(handle, timeout=100)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert (process.returncode, out, err) == (0, b"True\n", b"")
    with pytest.raises(ValueError, match="interprocess=True"):
        cuda.Event().ipc_handle()
    with pytest.raises(ValueError, match="has no times"):
        cuda.Event(enable_timing=True, interprocess=True)


def test_ranges_for_profilers(cuda: ModuleType) -> None:
    assert [cuda.nvtx.range_push("a"), cuda.nvtx.range_pop()] == [0, 0]
    with cuda.nvtx.range("step {}", 3):
        cuda.nvtx.mark("inside")
    cuda.nvtx.range_end(cuda.nvtx.range_start("b"))
