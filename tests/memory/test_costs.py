"""What the heap keeps: bounded over a day-like trace, given back when a sibling finds no room."""

from __future__ import annotations

import contextlib
import os
import random
import time
from pathlib import Path

import numpy as np
import pytest

import shmtensor as st
from shmtensor import memory, native
from shmtensor.errors import OutOfSharedMemory
from shmtensor.queue import Empty

from .fresh import Child, check, fresh

MIB = 1 << 20


def shared(nbytes: int) -> np.ndarray:
    with memory.shared_numpy():
        return np.empty(nbytes, np.uint8)


# ---- fragmentation
def size(random_: random.Random) -> int:
    """Many small, some large: the sizes of a training run's arrays, in bytes."""
    return min(24 * MIB, max(16, int(random_.lognormvariate(8.5, 2.6))))


def day(seed: int) -> dict[str, float]:
    """A day: a model that stays, hours of steps with their temporaries, evaluations with other
    shapes, requests of all lifetimes. Returns committed bytes over live bytes."""
    random_ = random.Random(seed)
    model = [shared(size(random_)) for _ in range(1500)]
    kept: list[np.ndarray] = []
    worst, peak = 0.0, 0.0
    ratios = {}
    for hour in range(24):
        for _ in range(60):
            step = [shared(size(random_)) for _ in range(random_.randrange(10, 60))]
            kept += random_.sample(step, 3)
            if len(kept) > 600:
                for _ in range(40):
                    kept[random_.randrange(len(kept))] = kept[-1]
                    kept.pop()
            step.clear()
        if hour % 6 == 5:  # an evaluation; then part of the model is replaced
            batch = [shared(random_.randrange(MIB, 20 * MIB)) for _ in range(8)]
            batch.clear()
            for i in range(0, len(model), 7):
                model[i] = shared(size(random_))
        s = memory.statistics()
        live = s.private_bytes + s.shared_bytes
        peak = max(peak, live)
        worst = max(worst, (s.committed_bytes - s.cached_bytes) / live)
    asked = sum(x.nbytes for x in model) + sum(x.nbytes for x in kept)
    memory.trim()
    s = memory.statistics()
    live = s.private_bytes + s.shared_bytes
    ratios = {
        "worst, without what is kept warm": worst,
        "evening, after trim": s.committed_bytes / live,
        "rounding up to size classes": live / asked,
        "live MB": live / 1e6,
    }
    check()
    return ratios


def report_of_a_day(seed: int) -> None:
    ratios = day(seed)
    print(seed, {name: round(x, 3) for name, x in ratios.items()})
    assert ratios["worst, without what is kept warm"] < 1.5, ratios
    assert ratios["evening, after trim"] < 1.35, ratios
    assert ratios["rounding up to size classes"] < 1.15, ratios


@pytest.mark.parametrize("seed", [1, 2])
def test_fragmentation_is_bounded_over_a_day(seed: int) -> None:
    fresh(report_of_a_day, seed)


# ---- a sibling finds no room
def sibling_calls() -> None:
    x = shared(40 * MIB)
    del x
    warm = memory.statistics().cached_bytes
    assert warm >= 40 * MIB

    def body() -> int:
        too_much = native.headroom()[0] + (1 << 30)
        with pytest.raises(OutOfSharedMemory, match="no room for"):
            shared(too_much)
        return 0

    assert Child(body).wait() == 0
    assert memory.statistics().cached_bytes == warm  # nobody is interrupted for it
    y = shared(MIB)
    s = memory.statistics()
    assert (s.calls_answered, s.cached_bytes < MIB) == (1, True), s
    y2 = shared(MIB)
    assert memory.statistics().calls_answered == 1
    del y, y2
    check()


def test_warm_memory_is_given_back_when_a_sibling_finds_no_room() -> None:
    fresh(sibling_calls)


def waiting_sibling_gives_back() -> None:
    ready, queue = st.Queue(1), st.Queue(1)

    def wait() -> int:
        x = shared(40 * MIB)
        del x
        assert memory.statistics().cached_bytes >= 40 * MIB
        ready.put(True)
        end = time.monotonic() + 60
        while memory.statistics().cached_bytes > MIB and time.monotonic() < end:
            with contextlib.suppress(Empty):
                queue.get(timeout=0.2)  # all that it does
        return 0 if memory.statistics().calls_answered == 1 else 3

    child = Child(wait)
    assert ready.get(timeout=60)
    with pytest.raises(OutOfSharedMemory, match="no room for"):
        shared(native.headroom()[0] + (1 << 30))
    assert child.wait() == 0
    check()


def test_who_only_waits_gives_warm_memory_back_too() -> None:
    fresh(waiting_sibling_gives_back)


# ---- huge pages
@pytest.mark.parametrize("policy", ["always", "within_size", "advise", "never", "deny", "force"])
def test_huge_pages_are_asked_for_where_the_kernel_waits_for_it(
    policy: str, tmp_path: Path
) -> None:
    folder = tmp_path / "sys/kernel/mm/transparent_hugepage"
    folder.mkdir(parents=True)
    words = ["always", "within_size", "advise", "never", "deny", "force"]
    text = " ".join(f"[{word}]" if word == policy else word for word in words)
    (folder / "shmem_enabled").write_text(text + "\n")
    assert native.huge_policy(str(tmp_path)) == (policy, policy == "advise")


def test_huge_pages_of_a_kernel_that_says_nothing(tmp_path: Path) -> None:
    assert native.huge_policy(str(tmp_path)) == ("unknown", False)
    (tmp_path / "sys/kernel/mm/transparent_hugepage").mkdir(parents=True)
    (tmp_path / "sys/kernel/mm/transparent_hugepage/shmem_enabled").write_text("none of it\n")
    assert native.huge_policy(str(tmp_path)) == ("unknown", False)


def advised_or_not() -> None:
    policy, advise = native.huge_policy("")
    native.domain_ensure()
    assert memory.statistics().huge_pages == ("advised" if advise else policy)
    hg = 0
    for block in Path("/proc/self/smaps").read_text().split("VmFlags:")[1:]:
        hg += " hg " in block.splitlines()[0] + " "
    assert bool(hg) >= advise, os.uname()


def test_statistics_say_whether_huge_pages_were_asked_for() -> None:
    fresh(advised_or_not)
