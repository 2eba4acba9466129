"""What a worker's malloc and heap keep between batches, and when it is returned."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shmtensor import native
from shmtensor.dataloaders import DataLoader, Dataset
from shmtensor.dataloaders.loader import worker_memory
from shmtensor.dataloaders.loader.worker_memory import KEPT, MAPPED, WorkerMemory

METHODS = ["fork", "forkserver", "spawn"]
BOUND = 64 << 20  # bytes that an idle worker may keep


class Images(Dataset[Any]):
    """Images whose samples need temporary arrays."""

    def __init__(self, n: int, pixels: int = 224) -> None:
        self.n, self.pixels = n, pixels

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        x = np.full((3, self.pixels, self.pixels), i, np.uint8).astype(np.float32)
        return (x + 1) * 2, i


class Usage(Dataset[Any]):
    """Samples are page faults of the worker: see `faults`."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> Any:
        return faults()


def faults() -> int:
    """Page faults while 32 MB are allocated and freed, after the same once before."""
    counts = []
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        arrays = [np.ones(1 << 20) for _ in range(4)]
        counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        del arrays
    return counts[1]


def resident(pid: int) -> int:
    """Bytes of memory of its own and shared memory that a process has mapped."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines if "Rss" in line}
    return (kilobytes["RssAnon"] + kilobytes["RssShmem"]) << 10


def wait_until_resident(pid: int, most: int) -> int:
    deadline = time.monotonic() + 30
    while (n := resident(pid)) > most and time.monotonic() < deadline:
        time.sleep(0.1)
    return n


def pid_of(loader: Any) -> int:
    return int(loader._workers.processes[0].pid)


def stack(samples: Any) -> Any:
    """A collate_fn, whose samples all exist at once."""
    return np.stack([x for x, _ in samples]), [y for _, y in samples]


def run(code: str) -> str:
    """What a program prints that has this file's names, without settings of malloc."""
    head = f"import sys; sys.path.append({str(Path(__file__).parents[2])!r})\n"
    head += "from tests.dataloaders.test_worker_memory import *\n"
    environment = {k: v for k, v in os.environ.items() if k not in worker_memory.VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", head + code],
        capture_output=True, text=True, check=False, timeout=120, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("method", METHODS)
def test_a_worker_allocates_without_page_faults(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in worker_memory.VARIABLES:  # with one of these a worker changes no threshold
        monkeypatch.delenv(name, raising=False)
    loader = DataLoader(Usage(), 4, num_workers=1, multiprocessing_context=method)
    (counts,) = list(loader)
    if platform.libc_ver()[0] == "glibc":
        assert max(counts.tolist()) < 1000  # of 8192 pages


def test_the_main_process_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(native, "set_malloc_thresholds", lambda *a: calls.append(a))
    monkeypatch.setattr(native, "malloc_trim", lambda: calls.append("trim"))
    for workers in (0, 1):
        with DataLoader(Images(4, 16), 2, num_workers=workers, persistent_workers=workers > 0) as x:
            assert len(list(x)) == 2
    assert not calls  # workers have their own copy of this list


def test_faults_of_the_main_process_are_those_of_a_program_without_loader() -> None:
    """With thresholds raised as in a worker it would have almost none."""
    use = "list(DataLoader(Images(8, 64), 4, num_workers=2))\n"
    counts = [int(run(head + "print(min(faults() for _ in range(3)))")) for head in ("", use)]
    # Large pages of the kernel, or another malloc, may leave few faults to compare.
    assert counts[0] < 1000 or counts[1] > counts[0] // 4


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("collate_fn", [None, stack])
def test_an_idle_worker_returns_what_an_epoch_needed(method: str, collate_fn: Any) -> None:
    options: dict[str, Any] = {"persistent_workers": True, "multiprocessing_context": method}
    with DataLoader(Images(4, 2), 2, num_workers=1, **options) as loader:
        list(loader)
        least = resident(pid_of(loader))
    with DataLoader(Images(256), 64, num_workers=1, collate_fn=collate_fn, **options) as loader:
        assert sum(len(x) for x, _ in loader) == 256  # 154 MB
        assert wait_until_resident(pid_of(loader), least + BOUND) <= least + BOUND
        assert sum(len(x) for x, _ in loader) == 256


def test_samples_larger_than_the_thresholds() -> None:
    pixels = 1 + int((MAPPED / 12) ** 0.5)
    loader = DataLoader(Images(3, pixels), 2, num_workers=1)
    assert [(x[0, 0, 0, 0].item(), y.tolist()) for x, y in loader] == [(2, [0, 1]), (6, [2])]


def test_a_limited_address_space_is_no_reason_to_die() -> None:
    code = """
def limit(_=None):
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (300 << 20), resource.RLIM_INFINITY))
list(DataLoader(Images(2, 2)))  # maps the shared memory
if {before}:
    limit()
    assert not WorkerMemory().is_raised
loader = DataLoader(Images(64), 32, num_workers=1, worker_init_fn=None if {before} else limit)
print(sum(len(x) for x, _ in loader))
"""
    for before in (False, True):
        assert run(code.format(before=before)) == "64\n"


class Native:
    """Stands for the native functions; counts calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.thresholds: list[tuple[int, int]] = []
        self.now, self.n_trims, self.available = 100.0, 0, 16 << 30
        for name in ("set_malloc_thresholds", "malloc_trim", "trim", "headroom"):
            monkeypatch.setattr(native, name, getattr(self, name))
        monkeypatch.setattr(worker_memory, "monotonic", lambda: self.now)
        for name in worker_memory.VARIABLES:
            monkeypatch.delenv(name, raising=False)

    def set_malloc_thresholds(self, trim: int, mmap: int) -> bool:
        self.thresholds.append((trim, mmap))
        return True

    def malloc_trim(self) -> bool:
        self.n_trims += 1
        return True

    def trim(self) -> int:
        return 0

    def headroom(self) -> tuple[int, int, str]:
        return self.available, 16 << 30, "this machine"


@pytest.mark.parametrize(
    ("available", "seconds", "n_trims"), [(16 << 30, 21, 2), (1 << 30, 5.125, 5)]
)
def test_memory_is_returned_every_ten_seconds_of_work_or_every_second_while_it_is_short(
    monkeypatch: pytest.MonkeyPatch, available: int, seconds: float, n_trims: int
) -> None:
    calls = Native(monkeypatch)
    memory = WorkerMemory()
    assert calls.thresholds == [(KEPT, MAPPED)]
    calls.available = available
    for _ in range(int(8 * seconds)):
        calls.now += 0.125
        memory.after_batch()
    assert calls.n_trims == n_trims


def test_an_idle_worker_returns_memory_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Native(monkeypatch)
    memory = WorkerMemory()
    memory.when_idle(5.0)
    assert calls.n_trims == 0  # it has made nothing
    memory.after_batch()
    memory.when_idle(0.5)
    assert calls.n_trims == 0
    for seconds in (1.0, 1.25, 1.5):
        memory.when_idle(seconds)
    assert calls.n_trims == 1


@pytest.mark.parametrize("name", worker_memory.VARIABLES)
def test_thresholds_of_the_user_stay(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    calls = Native(monkeypatch)
    monkeypatch.setenv(name, "1")
    assert not WorkerMemory().is_raised
    assert not calls.thresholds


def test_another_c_library_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Native(monkeypatch)
    monkeypatch.setattr(native, "set_malloc_thresholds", lambda trim, mmap: False)
    memory = WorkerMemory()
    memory.after_batch()
    memory.when_idle(1.0)
    assert not memory.is_raised
    assert calls.n_trims == 0


def test_thresholds_are_numbers_of_bytes() -> None:
    with pytest.raises(ValueError, match="set_malloc_thresholds: expected 0 to 2147483647 bytes"):
        native.set_malloc_thresholds(-1, 0)
    with pytest.raises(TypeError, match="wrong number of arguments: 1, expected 2"):
        native.set_malloc_thresholds(1)  # type: ignore[call-arg]
