"""The profile of ops: what was called, how often, and whose time it was."""

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


def counts(measured: profile) -> dict[str, int]:
    return {row.key: row.count for row in measured.key_averages()}


def test_ops_of_both_directions_are_counted() -> None:
    x = st.full((3,), 0.3, requires_grad=True)
    with profile() as measured:
        for _ in range(3):
            x.erfinv().lgamma()
        x.erfinv().backward(st.ones(3))
    st.erfinv(x)
    found = counts(measured)
    assert found["erfinv"] == 4
    assert found["lgamma"] == 3
    assert found["ErfinvBackward0"] == 1
    assert all(isinstance(e, FunctionEvent) for e in measured.function_events)


def test_blocks_hold_the_time_of_what_they_call() -> None:
    @record_function("mine")
    def mine(x: st.Tensor) -> st.Tensor:
        with record_function("inner"):
            return x.erfinv()

    x = st.full((1000,), 0.3)
    with profile() as measured:
        mine(x)
        mine(x)
    rows = {row.key: row for row in measured.key_averages()}
    assert rows["mine"].count == rows["inner"].count == rows["erfinv"].count == 2
    assert rows["mine"].cpu_time_total >= rows["inner"].cpu_time_total
    assert rows["inner"].cpu_time_total >= rows["erfinv"].cpu_time_total > 0
    assert rows["mine"].cpu_time == pytest.approx(rows["mine"].cpu_time_total / 2)
    own = sum(row.self_cpu_time_total for row in rows.values())
    assert own == pytest.approx(rows["mine"].cpu_time_total)
    assert measured.self_cpu_time_total == pytest.approx(own)
    assert isinstance(measured.total_average(), FunctionEventAvg)


def test_threads_that_start_inside_are_measured_too() -> None:
    with profile() as measured:
        thread = threading.Thread(target=lambda: st.full((3,), 0.3).erfinv())
        thread.start()
        thread.join()
    (event,) = [e for e in measured.function_events if e.name == "erfinv"]
    assert event.thread != threading.get_ident()


def test_text_and_trace(tmp_path: Path) -> None:
    with profile(use_cpu=True, record_shapes=True) as measured:
        st.full((3,), 0.3).erfinv()
    text = measured.key_averages().table(sort_by="self_cpu_time_total", row_limit=10)
    assert "erfinv" in text
    assert "# of Calls" in text
    assert isinstance(measured.key_averages(), EventList)
    assert measured.table().count("\n") == len(measured.key_averages()) + 1
    path = tmp_path / "trace.json"
    measured.export_chrome_trace(path)
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    assert "erfinv" in {e["name"] for e in events}


def test_a_profile_leaves_nothing_behind() -> None:
    with pytest.raises(ZeroDivisionError), profile():
        raise ZeroDivisionError
    assert sys.getprofile() is None
    with record_function("nobody looks"):
        st.ones(1)
    with profile(enabled=False) as measured:
        st.full((3,), 0.3).erfinv()
    assert not measured.function_events
    with profile(), pytest.raises(RuntimeError, match="another profile is running"), profile():
        pass
    assert sys.getprofile() is None
