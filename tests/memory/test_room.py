"""Running out: a small /dev/shm, a full memory cgroup, nothing anywhere; data stays intact."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shmtensor import memory, native
from shmtensor.dataloaders import DataLoader, Dataset
from shmtensor.errors import OutOfSharedMemory

from .fresh import Child, check, fresh, settle

MIB = 1 << 20


# ---- /dev/shm of 1 MB: the second volume takes over
SMALL = (
    "unshare", "-m", "sh", "-c",
    'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"', "sh",
)  # fmt: skip


def needs_mounts() -> None:
    process = subprocess.run([*SMALL, "true"], capture_output=True, text=True)
    if process.returncode:
        pytest.fail(
            "this test mounts a /dev/shm of 1 MB for itself and needs the right to (root, or "
            f"CAP_SYS_ADMIN in a container): unshare -m says: {process.stderr.strip()}"
        )


def in_a_small_shm() -> None:
    assert os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize == MIB
    with memory.shared_numpy():
        arrays = [np.full(n, n % 251, np.uint8) for n in (100, 5000, 300_000, 3 * MIB, 70 * MIB)]
        arrays += [np.full(1000, 1000 % 251, np.uint8) for _ in range(3000)]
    assert all(memory.is_shared(x) for x in arrays)
    assert memory.statistics().refused_commits > 0
    handles = [memory.export(x) for x in arrays[:5]]

    def body() -> int:
        arrays.clear()
        for h in handles:
            x = np.frombuffer(memory.receive(h), np.uint8)
            assert x[0] == x[50]
        return 0

    assert Child(body).wait() == 0
    for x in arrays:
        assert (x == x.size % 251).all()
    check()
    arrays.clear()
    del x
    settle(0)


@pytest.mark.parametrize("fill", ["true", "head -c 2m /dev/zero > /dev/shm/other 2>/dev/null"])
def test_a_small_or_full_shm_falls_to_the_second_volume(fill: str) -> None:
    needs_mounts()
    prefix = [word.replace("exec", f"({fill}; true) && exec") for word in SMALL]
    fresh(in_a_small_shm, prefix=prefix)


class Images(Dataset[Any]):
    """Batches of 8 MiB, eight times what /dev/shm has."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        return np.full((512, 512), index, np.float32), index


def workers_in_a_small_shm() -> None:
    for images, labels in DataLoader(Images(), 8, num_workers=2, multiprocessing_context="fork"):
        assert images.is_shared()
        assert (images.numpy() == labels.numpy()[:, None, None]).all()


def test_loader_workers_in_a_small_shm_meet_no_bus_error() -> None:
    needs_mounts()
    fresh(workers_in_a_small_shm, prefix=SMALL)


# ---- a memory cgroup
def memory_group() -> Path:
    """Where this process may make a memory cgroup: version 1 or 2, whichever has the controller."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return Path("/sys/fs/cgroup/memory" + path)
    return Path("/sys/fs/cgroup" + path)


@contextlib.contextmanager
def limited(nbytes: int) -> Iterator[Path]:
    group = memory_group() / f"shmtensor-test-{os.getpid()}"
    try:
        group.mkdir()
        name = next(n for n in ("memory.limit_in_bytes", "memory.max") if (group / n).exists())
        (group / name).write_text(str(nbytes))
    except (OSError, StopIteration) as error:
        pytest.fail(f"this test makes a memory cgroup and needs the right to: {group}: {error!r}")
    try:
        yield group
    finally:
        group.rmdir()


def nearly_full(group: str) -> None:
    native.domain_ensure()
    Path(group, "cgroup.procs").write_text(str(os.getpid()))
    with memory.shared_numpy():
        references = [np.full(10 * MIB, i, np.uint8) for i in range(1, 10)]
        small = np.full(1000, 7, np.uint8)
    for size in (300 * MIB, 120 * MIB):
        with pytest.raises(OutOfSharedMemory) as caught, memory.shared_numpy():
            np.ones(size, np.uint8)
        text = str(caught.value)
        assert f"no room for {size} bytes: memory cgroup " in text
        assert "left of its limit of 209.7 MB, this process holds" in text
        assert "free tensors, raise the limit" in text
    refused = 0
    with memory.shared_numpy():
        try:
            for _ in range(1000):  # in medium blocks, too
                references.append(np.full(MIB, 11, np.uint8))
        except MemoryError:
            refused = 1
    assert refused
    for i, x in enumerate(references[:9]):
        assert x.min() == x.max() == i + 1  # no temporaries: they would be private memory
    assert (small == 7).all()
    check()
    count = len(references)
    del references[8:], x
    with memory.shared_numpy():  # what was given up is there again
        again = [np.full(MIB, 3, np.uint8) for _ in range(count - 10)]
    assert len(again) > 20
    check()


def test_cgroup_about_to_be_full_is_an_error_and_not_a_kill() -> None:
    with limited(200 * MIB) as group:
        fresh(nearly_full, str(group))


# ---- both volumes exhausted: nothing is committed at all
def nothing_anywhere(limit: str) -> None:
    with memory.shared_numpy():
        references = np.full(100_000, 9, np.uint8)
    with pytest.raises(OutOfSharedMemory, match=r"shared_numpy: no room for \d+ bytes: "):
        with memory.shared_numpy():
            np.empty(int(limit), np.uint8)
    with pytest.raises(OutOfSharedMemory, match=r"allocate: no room for \d+ bytes: "):
        memory.allocate(int(limit))
    assert (references == 9).all()
    check()
    with memory.shared_numpy():
        again = np.ones(100)
    assert memory.is_shared(again)


def test_more_than_the_machine_has() -> None:
    available = native.headroom()[0]
    fresh(nothing_anywhere, str(min(2 * available, 60 << 30)))


# ---- how cgroups are read
def tree(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


MEMINFO = "MemTotal:       16000000 kB\nMemFree: 1 kB\nMemAvailable:   8000000 kB\nSwapFree: 0 kB\n"


def test_headroom_without_groups_is_the_machines(tmp_path: Path) -> None:
    available, limit, name = native.headroom(tree(tmp_path, {"proc/meminfo": MEMINFO}))
    assert limit == 16_000_000 * 1024
    assert 7_500_000 * 1024 < available < 8_000_000 * 1024
    assert name == "this machine"


@pytest.mark.parametrize("inner", ["100000000", "max"])
def test_headroom_in_nested_groups_of_version_2(tmp_path: Path, inner: str) -> None:
    root = tree(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "0::/a/b\n",
            "proc/self/mountinfo": "30 24 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n",
            "sys/fs/cgroup/a/memory.max": "400000000\n",
            "sys/fs/cgroup/a/memory.current": "350000000\n",
            "sys/fs/cgroup/a/memory.stat": "anon 1\ninactive_file 100000000\nactive_file 20000000",
            "sys/fs/cgroup/a/b/memory.max": inner + "\n",
            "sys/fs/cgroup/a/b/memory.current": "60000000\n",
            "sys/fs/cgroup/a/b/memory.stat": "inactive_file 0\nactive_file 0\n",
        },
    )
    available, limit, name = native.headroom(root)
    if inner == "max":
        assert (limit, name) == (400_000_000, "memory cgroup /a")
        assert available == 400_000_000 - 230_000_000 - 400_000_000 // 16
    else:
        assert (limit, name) == (100_000_000, "memory cgroup /a/b")
        assert available == 100_000_000 - 60_000_000 - 100_000_000 // 16


def test_headroom_in_a_container_of_version_1(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n0::/\n",
            "proc/self/mountinfo": (
                "29 20 0:31 /docker/x /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                "35 31 0:32 /docker/x /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
            ),
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "200000000\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "150000000\n",
            "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 5000000\ntotal_active_file 0",
        },
    )
    available, limit, name = native.headroom(root)
    assert (limit, name) == (200_000_000, "memory cgroup /")
    assert available == 55_000_000 - 200_000_000 // 16


def test_unlimited_groups_do_not_count(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "4:memory:/\n",
            "proc/self/mountinfo": "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup memory\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "1\n",
        },
    )
    assert native.headroom(root)[2] == "this machine"


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_strict_accounting_is_a_limit(tmp_path: Path, mode: int) -> None:
    accounts = "CommitLimit:    6000000 kB\nCommitted_AS:   5000000 kB\n"
    files = {"proc/meminfo": MEMINFO + accounts, "proc/sys/vm/overcommit_memory": f"{mode}\n"}
    available, limit, name = native.headroom(tree(tmp_path, files))
    if mode == 2:
        assert (limit, name) == (6_000_000 * 1024, "strict accounting (vm.overcommit_memory = 2)")
        assert available == 1_000_000 * 1024 - limit // 64
    else:
        assert name == "this machine"


def test_strict_accounting_over_its_limit_leaves_nothing(tmp_path: Path) -> None:
    accounts = "CommitLimit:    6000000 kB\nCommitted_AS:   6000001 kB\n"
    files = {"proc/meminfo": MEMINFO + accounts, "proc/sys/vm/overcommit_memory": "2\n"}
    assert native.headroom(tree(tmp_path, files))[0] == 0
