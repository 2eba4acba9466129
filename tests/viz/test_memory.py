"""viz.memory: samples with the figures of memory.statistics, and a picture that shows them."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import memory, native, viz
from shmtensor.viz.memory import OTHERS, PARTS, areas
from tests.environment import run_program

MB = 1 << 20


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def test_the_samples_are_the_figures_of_statistics() -> None:
    with viz.memory(interval=60) as record:
        x = st.ones(MB)
        expected = memory.statistics()
    first, last = record.samples
    assert last.own == expected
    assert last.own.private_bytes - first.own.private_bytes >= x.nbytes == 4 * MB
    own = next(p for p in last.processes if p.row == expected.row)
    assert (own.pid, own.committed_bytes) == (os.getpid(), expected.committed_bytes)
    assert record.peak_bytes == max(s.committed_bytes for s in record.samples) >= 4 * MB
    assert 0 <= first.seconds < last.seconds < 60


def test_it_samples_while_the_program_runs() -> None:
    with viz.memory(interval=0.01) as record:
        until(lambda: len(record.samples) >= 3)
        x = st.ones(2 * MB)
        now = len(record.samples)
        until(lambda: len(record.samples) >= now + 2)
        del x
    own = [sample.own.private_bytes for sample in record.samples]
    assert max(own) - min(own[0], own[-1]) >= 8 * MB
    times = [sample.seconds for sample in record.samples]
    assert times == sorted(times)


def hold(tensor: Any, has_it: Any, end: Any) -> None:
    native.set_role("holder")
    mine = st.ones(MB)
    has_it.set()
    end.wait(60)
    del mine


def test_other_processes_have_their_areas() -> None:
    context = multiprocessing.get_context("fork")
    has_it, end = context.Event(), context.Event()
    with viz.memory(interval=0.01) as record:
        x = st.ones(100)
        child = context.Process(target=hold, args=(x, has_it, end))
        child.start()
        has_it.wait(60)
        n = len(record.samples)
        until(lambda: len(record.samples) >= n + 2)
        end.set()
        child.join(60)
    named = {p.role: p for sample in record.samples for p in sample.processes}
    assert named["holder"].pid == child.pid
    assert named["holder"].committed_bytes >= 4 * MB
    assert named["holder"].held_blocks >= 1
    stacked = {text: nbytes for text, _, nbytes in areas(record.samples)}
    assert max(stacked[f"holder ({child.pid})"]) >= 4 * MB
    for i, sample in enumerate(record.samples):  # all but some lines of the slots' records
        assert sum(nbytes[i] for nbytes in stacked.values()) == pytest.approx(
            sample.committed_bytes, rel=0.05, abs=MB
        )


def test_the_largest_processes_have_names_and_the_others_are_together() -> None:
    with viz.memory(interval=60) as record:
        pass
    (first, last), n = record.samples, 12
    own = next(p for p in first.processes if p.row == first.own.row)
    others = [
        viz.ProcessMemory(100 + i, 1, 1000 + i, f"worker {i}", (i + 1) * MB, 0) for i in range(n)
    ]
    first = viz.MemorySample(0.0, first.own, (own,))
    samples = [first, viz.MemorySample(last.seconds, last.own, (own, *others))]
    names = [text for text, _, _ in areas(samples) if f"({os.getpid()})" not in text]
    assert names == [f"worker {i} ({1000 + i})" for i in range(11, 5, -1)] + ["6 other processes"]
    assert areas(samples)[-1][2] == [0, sum(range(1, 7)) * MB]


DRAWS = """
import multiprocessing, os, sys, time
import shmtensor as st
from shmtensor import native

def hold(tensor, has_it, end):
    native.set_role("holder")
    mine = st.ones(1 << 20)
    has_it.set()
    end.wait(60)

def wait_for(samples):
    while len(record.samples) < samples:
        time.sleep(0.005)

context = multiprocessing.get_context("fork")
has_it, end = context.Event(), context.Event()
with st.viz.memory("memory.png", interval=0.01) as record:
    x = [st.ones(1 << 20) for _ in range(8)]
    wait_for(3)
    child = context.Process(target=hold, args=(x[0], has_it, end))
    child.start()
    has_it.wait(60)
    wait_for(2 * len(record.samples))
    forked = os.fork()
    if not forked:
        record.__exit__()
        os._exit(os.path.exists("memory.png"))
    assert os.waitpid(forked, 0)[1] == 0, "a forked child leaves the record to its parent"
    end.set()
    child.join(60)
record.save("memory.svg")
assert "matplotlib.pyplot" not in sys.modules, "the program's backend is chosen"
try:
    with st.viz.memory("error.png"):
        raise KeyError("the program's")
except KeyError:
    print("passed")
"""


def share_of(picture: Any, color: str) -> float:
    """The share of pixels that have about this color."""
    wanted = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)])
    return float((np.abs(picture.astype(int) - wanted).max(axis=-1) < 8).mean())


def test_the_picture_shows_the_areas(tmp_path: Path) -> None:
    """In a program of its own, because matplotlib keeps fonts open."""
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib")
    completed = run_program(f"import os; os.chdir({str(tmp_path)!r})\n{DRAWS}")
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout == "passed\n"
    with image.open(tmp_path / "memory.png") as file:
        picture = np.asarray(file.convert("RGB"))
    assert picture.shape == (660, 1080, 3)
    assert share_of(picture, PARTS["private"][1]) > 0.005
    assert share_of(picture, PARTS["shared"][1]) > 0.05
    assert share_of(picture, OTHERS[0]) > 0.01
    assert 0.3 < share_of(picture, "#ffffff") < 0.9
    assert "</svg>" in (tmp_path / "memory.svg").read_text()
    assert (tmp_path / "error.png").stat().st_size > 5000


def test_wrong_arguments_are_errors_before_the_block_runs(tmp_path: Path) -> None:
    for interval in (0, -1.0, float("nan")):
        with pytest.raises(ValueError, match=f"positive interval in seconds: {interval}"):
            viz.memory(interval=interval)
    with pytest.raises(ValueError, match=r"in \.png, \.svg or \.pdf: memory\.gif"):
        viz.memory("memory.gif").__enter__()
    with pytest.raises(FileNotFoundError, match=r"the folder does not exist: .*none"):
        viz.memory(tmp_path / "none" / "memory.png").__enter__()
    with pytest.raises(ValueError, match="there are no samples"):
        viz.memory().save(tmp_path / "memory.png")
    with viz.memory(interval=60) as record:
        pass
    with pytest.raises(RuntimeError, match="a record is used once: it has 2 samples"):
        record.__enter__()
    assert repr(viz.memory()) == "MemoryRecord(no samples)"
    assert repr(record).startswith("MemoryRecord(2 samples in 0.")


def test_without_matplotlib_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'viz\.memory: .* pip install "shmtensor\[examples\]"'):
        viz.memory(tmp_path / "memory.png").__enter__()
    with viz.memory() as record:
        pass
    assert len(record.samples) == 2
