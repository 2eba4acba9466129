"""The profile of ops: names, counts and times of calls."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import shmtensor as st
from shmtensor.autograd.profiler import (
    EventList,
    FunctionEvent,
    FunctionEventAvg,
    profile,
    record_function,
)


def counts(prof: profile) -> dict[str, int]:
    return {row.key: row.count for row in prof.key_averages()}


def test_ops_of_both_directions_are_counted() -> None:
    x = st.full((3,), 0.3, requires_grad=True)
    with profile() as prof:
        for _ in range(3):
            x.erfinv().lgamma()
        x.erfinv().backward(st.ones(3))
    st.erfinv(x)
    count_by_name = counts(prof)
    assert count_by_name["erfinv"] == 4
    assert count_by_name["lgamma"] == 3
    assert count_by_name["ErfinvBackward0"] == 1
    assert all(isinstance(e, FunctionEvent) for e in prof.function_events)


def test_blocks_include_the_time_of_their_calls() -> None:
    @record_function("mine")
    def mine(x: st.Tensor) -> st.Tensor:
        with record_function("inner"):
            return x.erfinv()

    x = st.full((1000,), 0.3)
    with profile() as prof:
        mine(x)
        mine(x)
    rows = {row.key: row for row in prof.key_averages()}
    assert rows["mine"].count == rows["inner"].count == rows["erfinv"].count == 2
    assert rows["mine"].cpu_time_total >= rows["inner"].cpu_time_total
    assert rows["inner"].cpu_time_total >= rows["erfinv"].cpu_time_total > 0
    assert rows["mine"].cpu_time == pytest.approx(rows["mine"].cpu_time_total / 2)
    total = sum(row.self_cpu_time_total for row in rows.values())
    assert total == pytest.approx(rows["mine"].cpu_time_total)
    assert prof.self_cpu_time_total == pytest.approx(total)
    assert isinstance(prof.total_average(), FunctionEventAvg)


def test_threads_that_start_inside_are_measured_too() -> None:
    with profile() as prof:
        thread = threading.Thread(target=lambda: st.full((3,), 0.3).erfinv())
        thread.start()
        thread.join()
    (event,) = [e for e in prof.function_events if e.name == "erfinv"]
    assert event.thread != threading.get_ident()


def test_one_call_is_one_event() -> None:
    """Neither loops in generated code nor its slow path, which sorts operands out, add events."""
    x, y = st.ones(3), st.ones(3, dtype=st.float64)
    with profile() as prof:
        st.cat([x, x])
        x + y
        x.zero_()
    assert counts(prof) == {"cat": 1, "add": 1, "copy_": 1}


def test_ops_without_generated_code_are_profiled() -> None:
    x = st.ones(3, requires_grad=True)
    optimizer = st.optim.Adam([x], 0.1)
    x.sum().backward()
    with profile() as prof:
        y = st.tensor([1.0, 2.0])
        y[0] = 3.0
        y.detach()
        optimizer.step()
        optimizer.zero_grad()
    count_by_name = counts(prof)
    expected = {"tensor", "setitem", "detach", "Optimizer.step#Adam.step"}
    assert expected | {"Optimizer.zero_grad#Adam.zero_grad"} <= set(count_by_name)
    assert all(count_by_name[name] == 1 for name in expected)


def test_a_thread_is_not_profiled_after_the_block() -> None:
    go, finished = threading.Event(), threading.Event()

    def work() -> None:
        finished.set()
        go.wait()
        st.full((3,), 0.3).erfinv()

    thread = threading.Thread(target=work)
    with profile() as prof:
        thread.start()
        finished.wait()
    go.set()
    thread.join()
    assert "erfinv" not in counts(prof)


def test_text_and_trace(tmp_path: Path) -> None:
    with profile(use_cpu=True) as prof:
        st.full((3,), 0.3).erfinv()
    text = prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10)
    assert "erfinv" in text
    assert "# of Calls" in text
    assert isinstance(prof.key_averages(), EventList)
    assert "erfinv" in EventList(prof.function_events).table()
    assert prof.table().count("\n") == len(prof.key_averages()) + 1
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(path)
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    assert "erfinv" in {e["name"] for e in events}


def test_a_profile_leaves_nothing_behind() -> None:
    with pytest.raises(ZeroDivisionError), profile():
        raise ZeroDivisionError
    assert sys.getprofile() is None
    assert threading.getprofile() is None
    with record_function("nobody looks"):
        st.ones(1)
    with profile(enabled=False) as prof:
        st.full((3,), 0.3).erfinv()
    assert not prof.function_events
    with profile(), pytest.raises(RuntimeError, match="another profile is running"), profile():
        pass
    assert sys.getprofile() is None
