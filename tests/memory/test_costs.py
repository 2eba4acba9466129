"""What the heap keeps: bounded over a day-like trace, given back when a sibling finds no room."""

from __future__ import annotations

import contextlib
import os
import random
import re
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

import shmtensor as st
from shmtensor import memory, native
from shmtensor.errors import OutOfSharedMemory
from shmtensor.queue import Empty

from .fresh import Child, check, fresh, isolated, settle

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
    references: list[np.ndarray] = []
    worst, peak = 0.0, 0.0
    ratios = {}
    for hour in range(24):
        for _ in range(60):
            step = [shared(size(random_)) for _ in range(random_.randrange(10, 60))]
            references += random_.sample(step, 3)
            if len(references) > 600:
                for _ in range(40):
                    references[random_.randrange(len(references))] = references[-1]
                    references.pop()
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
    requested_bytes = sum(x.nbytes for x in model) + sum(x.nbytes for x in references)
    memory.trim()
    s = memory.statistics()
    live = s.private_bytes + s.shared_bytes
    ratios = {
        "worst, without what is kept warm": worst,
        "evening, after trim": s.committed_bytes / live,
        "rounding up to size classes": live / requested_bytes,
        "live MB": live / 1e6,
    }
    check()
    return ratios


@pytest.mark.parametrize("seed", [1, 2])
@isolated
def test_fragmentation_is_bounded_over_a_day(seed: int) -> None:
    ratios = day(seed)
    print(seed, {name: round(x, 3) for name, x in ratios.items()})
    assert ratios["worst, without what is kept warm"] < 1.5, ratios
    assert ratios["evening, after trim"] < 1.35, ratios
    assert ratios["rounding up to size classes"] < 1.15, ratios


# ---- a sibling finds no room
@isolated
def test_warm_memory_is_given_back_when_a_sibling_finds_no_room() -> None:
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


@isolated
def test_who_only_waits_gives_warm_memory_back_too() -> None:
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


# ---- huge pages
POLICIES = ("always", "within_size", "advise", "never", "deny", "force")
MOUNT = "78 71 0:25 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=65536k"


def kernel(root: Path, policy: str, *mounts: str) -> str:
    """A kernel's files: its policy for memfds, and the mounts of /dev/shm."""
    folder = root / "sys/kernel/mm/transparent_hugepage"
    folder.mkdir(parents=True)
    text = " ".join(f"[{word}]" if word == policy else word for word in POLICIES)
    (folder / "shmem_enabled").write_text(text + "\n")
    (root / "proc/self").mkdir(parents=True)
    lines = ["30 24 0:26 / / rw - ext4 /dev/vda rw,huge=always", *mounts]
    (root / "proc/self/mountinfo").write_text("".join(f"{line}\n" for line in lines))
    return str(root)


@pytest.mark.parametrize("policy", POLICIES)
def test_huge_pages_are_asked_for_where_the_kernel_waits_for_it(
    policy: str, tmp_path: Path
) -> None:
    root = kernel(tmp_path, policy)
    assert native.huge_policy(root) == (policy, policy == "advise")


@pytest.mark.parametrize(
    ("policy", "options", "expected"),
    [
        ("never", ",huge=advise", "advise"),
        ("never", ",huge=always,nr_inodes=4", "always"),
        ("never", ",huge=never", "never"),
        ("advise", "", "advise"),
        ("advise", ",huge=within_size", "within_size"),
        ("deny", ",huge=always", "deny"),
        ("force", "", "force"),
    ],
)
def test_the_mount_of_dev_shm_decides_for_what_lies_there(
    policy: str, options: str, expected: str, tmp_path: Path
) -> None:
    root = kernel(tmp_path, policy, f"{MOUNT},huge=within_size", MOUNT + options)
    assert native.huge_policy(root)[0] == expected


def test_huge_pages_of_a_kernel_that_says_nothing(tmp_path: Path) -> None:
    assert native.huge_policy(str(tmp_path)) == ("unknown", False)
    kernel(tmp_path, "none of these", MOUNT + ",huge=always")
    assert native.huge_policy(str(tmp_path)) == ("unknown", False)


@isolated
def test_statistics_say_whether_huge_pages_were_asked_for() -> None:
    policy, advise = native.huge_policy("")
    native.domain_ensure()
    assert memory.statistics().huge_pages == ("advised" if advise else policy)
    hg = 0
    for block in Path("/proc/self/smaps").read_text().split("VmFlags:")[1:]:
        hg += " hg " in block.splitlines()[0] + " "
    assert bool(hg) >= advise, os.uname()


def kernel_counts(name: str) -> int:
    for line in Path("/proc/vmstat").read_text().splitlines():
        if line.startswith(name + " "):
            return int(line.split()[1])
    return 0


FIRST, SECOND = "/shmtensor-", "/memfd:shmtensor-volume1"  # the volumes, as /proc names them


def huge_mapped(volume: str) -> int:
    """Bytes of a volume that this process has mapped as huge pages."""
    kb, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            inside = volume in line
        elif inside and line.startswith("ShmemPmdMapped:"):
            kb += int(line.split()[1])
    return kb * 1024


def in_huge_pages(volume: str, expected: str) -> None:
    """Whole blocks, parts of a slot, holes: all that the heap does, in huge pages."""
    failures = kernel_counts("thp_file_fallback")
    x = shared(40 * MIB)
    x[:] = 7
    assert memory.statistics().huge_pages == expected
    # Where memory is in pieces the kernel may have none to give: then it says that it tried.
    assert huge_mapped(volume) >= 2 * MIB or kernel_counts("thp_file_fallback") > failures
    references = [shared(300_000) for _ in range(60)]
    for i, y in enumerate(references):
        y[:] = i
    handle = memory.export(x)

    def body() -> int:
        result = np.frombuffer(memory.receive(handle), np.uint8)
        return int(result[-1]) - 7

    assert Child(body).wait() == 0
    del references[::2], y
    memory.trim()  # holes inside of huge pages
    assert all((y == 2 * i + 1).all() for i, y in enumerate(references))
    assert (x == 7).all()
    del x, references
    settle(0)
    assert os.fstat(native.domain_fds()[1 if volume == FIRST else 2]).st_blocks == 0


@pytest.mark.parametrize(("option", "expected"), [("always", "always"), ("advise", "advised")])
def test_huge_pages_in_effect(option: str, expected: str) -> None:
    mount = f"mount -t tmpfs -o size=512m,huge={option} tmpfs /dev/shm"
    in_a_mount = ("unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh")
    process = subprocess.run([*in_a_mount, "true"], capture_output=True, text=True)
    if process.returncode or native.huge_policy("")[0] in ("unknown", "deny"):
        pytest.skip(f"no tmpfs with huge pages to be had here: {process.stderr.strip()}")
    fresh(in_huge_pages, FIRST, expected, prefix=in_a_mount)


def test_huge_pages_in_effect_in_the_second_volume() -> None:
    policy = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
    result = re.search(r"\[(\w+)\]", policy.read_text()) if policy.exists() else None
    if result is None or result[1] not in ("advise", "always", "within_size"):
        pytest.skip(f"the kernel offers none for memfds: {policy} must say advise or always")
    mount = "mount -t tmpfs -o size=1m tmpfs /dev/shm"  # the first volume has no room
    in_a_mount = ("unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh")
    if subprocess.run([*in_a_mount, "true"], capture_output=True).returncode:
        pytest.skip("mounts need root")
    expected = "advised" if result[1] == "advise" else result[1]
    fresh(in_huge_pages, SECOND, expected, prefix=in_a_mount)
