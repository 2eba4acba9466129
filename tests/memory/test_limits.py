"""Limits: descriptors, address space, rows, namespaces, users. It works, or says what is wrong."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from shmtensor import memory, native
from shmtensor.errors import DomainError, OutOfSharedMemory

from .fresh import Child, check, fresh, isolated, settle

MIB = 1 << 20


# ---- descriptors and mappings
def many_live_tensors(n: int) -> None:
    """`n` tensors live at once, sent to a process that holds them all at once."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    maps = len(Path("/proc/self/maps").read_text().splitlines())
    with memory.shared_numpy():
        tensors = [np.full(4, i, np.int32) for i in range(n)]
    data = b"".join([memory.export(x) for x in tensors])

    def receiver() -> int:
        tensors.clear()  # what was inherited
        holds = [
            np.frombuffer(memory.receive(data[i : i + 72]), np.int32, 4)
            for i in range(0, len(data), 72)
        ]
        for i in range(0, n, 97):
            assert (holds[i] == i).all()
        assert len(os.listdir("/proc/self/fd")) < 64
        assert len(Path("/proc/self/maps").read_text().splitlines()) < maps + 200
        check()
        return 0

    assert Child(receiver).wait() == 0
    assert memory.statistics().unread_messages == 0
    assert len(os.listdir("/proc/self/fd")) < 64
    tensors.clear()
    settle(0)


def test_hundred_thousand_tensors_under_256_descriptors() -> None:
    limit = int(Path("/proc/sys/vm/max_map_count").read_text())
    assert limit <= 1 << 20  # where it is the default of 65,530, more maps than that would fail
    fresh(many_live_tensors, 100_000)


# ---- address space
def little_address_space(gib: int) -> None:
    """Fewer slots, or an error that names the limit; nothing is lost."""
    resource.setrlimit(resource.RLIMIT_AS, (gib << 30, gib << 30))
    refusal = ""
    try:
        native.domain_ensure()
    except DomainError as error:
        refusal = str(error)
    if refusal:
        assert "ulimit -v" in refusal
        assert np.ones(10).sum() == 10
        print("refused")
        return
    with memory.shared_numpy():
        x = np.ones(1000)
    assert memory.is_shared(x)
    print("slots", memory.statistics().slots)
    check()


@pytest.mark.parametrize("gib", [4, 400])
def test_address_space_limit_is_said_or_enough(gib: int) -> None:
    text = fresh(little_address_space, gib)
    assert "refused" in text or "slots" in text
    assert gib > 4 or "refused" in text


# ---- overcommit off: the switch is the whole machine's, so it is turned for a second only
VM = Path("/proc/sys/vm")
MAP_NORESERVE = 0x4000
RESTORE = """
import sys
settings = sys.argv[1:]
sys.stdin.read()  # until whoever turned the switch says so, or is gone, killed or not
for path, value in zip(settings[::2], settings[1::2]):
    open(path, "w").write(value)
"""


def needs_the_switch() -> None:
    if not os.access(VM / "overcommit_memory", os.W_OK):
        pytest.skip("vm.overcommit_memory cannot be set here (a container, or not root)")


@contextlib.contextmanager
def strict_accounting(limit: int) -> Iterator[None]:
    """vm.overcommit_memory = 2, with a limit in bytes for all programs together."""
    lock = os.open(VM / "overcommit_memory", os.O_RDONLY)  # its guard has it, too, to the end
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Setting the one of kbytes and ratio undoes the other.
        by_kbytes = int((VM / "overcommit_kbytes").read_text()) > 0
        names = ("overcommit_memory", "overcommit_kbytes" if by_kbytes else "overcommit_ratio")
        before = [text for name in names for text in (str(VM / name), (VM / name).read_text())]
        guard = subprocess.Popen(
            [sys.executable, "-c", RESTORE, *before], stdin=subprocess.PIPE, pass_fds=[lock]
        )
        try:
            (VM / "overcommit_kbytes").write_text(str(limit // 1024))
            (VM / "overcommit_memory").write_text("2")
            yield
        finally:
            guard.communicate()
        assert [(VM / name).read_text() for name in names] == before[1::2]
    finally:
        os.close(lock)


def mapping_flags() -> dict[str, list[str]]:
    """The kernel's flags of each mapping of this process, by its first line in smaps."""
    flags: dict[str, list[str]] = {}
    name = ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            name = line
        elif line.startswith("VmFlags:"):
            flags[name] = line.split()[1:]
    return flags


def mappings_reserve_nothing() -> None:
    """What strict accounting charges ahead is marked `ac`. The domain's mappings are not, so they
    are charged page by page, as memory is committed."""
    native.domain_ensure()
    ours = {
        name: flags
        for name, flags in mapping_flags().items()
        if "/shmtensor-" in name or "memfd:shmtensor" in name
    }
    assert len(ours) == 3
    assert all("sh" in f and "ac" not in f for f in ours.values()), ours


def test_mappings_are_not_charged_before_they_are_used() -> None:
    fresh(mappings_reserve_nothing)


def strictly(refused: int) -> None:
    """All that a process does with its domain, and a request that strict accounting refuses."""
    private = mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
    where = np.frombuffer(private, np.uint8).ctypes.data
    around = []  # of one reading: the next mapping may have grown together with this one
    for name, flags in mapping_flags().items():
        start, end = (int(x, 16) for x in name.split()[0].split("-"))
        around += [flags] if start <= where < end else []
    assert around, f"no mapping holds {where:#x}"
    assert all("ac" in flags for flags in around), "the accounts are not strict"
    private.close()
    mappings_reserve_nothing()
    with memory.shared_numpy():
        arrays = [np.full(n, n % 251, np.uint8) for n in (100, 5000, 300_000, 20 * MIB)]
    handle = memory.export(arrays[3])

    def body() -> int:
        arrays.clear()
        result = np.frombuffer(memory.receive(handle), np.uint8)
        with memory.shared_numpy():
            mine = np.ones(1000)
        check()
        return int(result[-1]) - 20 * MIB % 251 + int(mine[0]) - 1

    assert Child(body).wait() == 0
    if refused:
        with pytest.raises(OutOfSharedMemory) as caught, memory.shared_numpy():
            np.empty(refused, np.uint8)
        assert "strict accounting (vm.overcommit_memory = 2) has" in str(caught.value)
    assert all((x == x.size % 251).all() for x in arrays)
    arrays.clear()
    check()


def test_overcommit_off() -> None:
    needs_the_switch()
    with strict_accounting(1 << 50):  # nobody else is refused anything meanwhile
        fresh(strictly, 0)


def test_overcommit_off_and_little_left() -> None:
    if os.environ.get("SHMTENSOR_OVERCOMMIT") != "strict":
        pytest.skip("others would be refused memory, too: `make overcommit` on a machine of yours")
    needs_the_switch()
    lines = Path("/proc/meminfo").read_text().splitlines()
    kb = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    room = min(8 << 30, kb["MemAvailable"] * 1024 // 2)
    with strict_accounting(kb["Committed_AS"] * 1024 + room):
        fresh(strictly, 2 * room)


@isolated
def test_private_memory_refused_is_no_loss() -> None:
    """Every further private byte is refused, as strict accounting does past its limit
    (RLIMIT_DATA counts just those): what is there stays whole."""
    with memory.shared_numpy():
        warm = [np.full(n, 3, np.uint8) for n in (100, 5000, 300_000)]
    committed = next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmData")
    )
    resource.setrlimit(resource.RLIMIT_DATA, (committed, resource.RLIM_INFINITY))
    refusal: MemoryError | None = None
    try:
        references = []
        with memory.shared_numpy():
            for _ in range(400):
                references.append(np.full(MIB, 7, np.uint8))
    except MemoryError as error:  # the record of a new slot is private memory
        refusal = error
    resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert refusal is None or isinstance(refusal, OutOfSharedMemory), refusal
    assert len(references) > 10  # a slot that was there was used to its end
    assert all(x[0] == x[-1] == 7 for x in references)
    assert all((x == 3).all() for x in warm)
    check()


# ---- more processes than rows
def take_a_row() -> None:
    native.row()


def more_processes_than_rows(n: int) -> None:
    with memory.shared_numpy():
        x = np.arange(1000.0)
    handle = memory.export(x)
    go = os.pipe()
    parent_row = native.row()[0]
    members, rowless = [], []
    for _ in range(n):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.close(go[1])
                os.read(go[0], 1)
                assert x[-1] == 999.0  # inherited, whoever has a row
                if native.row()[0] != parent_row:
                    memory.receive(handle)
                code = 0
            finally:
                os._exit(code)
        (members if native.last_child() else rowless).append(pid)
    assert len(members) == 255
    assert len(rowless) == n - 255
    joining = {"SHMTENSOR_DOMAIN": memory.domain_environment()}
    said = fresh(take_a_row, env=joining, returncode=1)
    assert "all 256 rows are taken by living processes" in said
    os.close(go[1])
    for pid in members + rowless:
        assert os.waitpid(pid, 0)[1] == 0
    os.close(go[0])
    check()
    fresh(take_a_row, env=joining)  # rows come back
    assert x[-1] == 999.0


def test_more_processes_than_rows() -> None:
    text = fresh(more_processes_than_rows, 258)
    assert "Traceback" not in text.replace("RuntimeWarning", "")


# ---- another user
def another_user() -> None:
    """A child that gives its rights away keeps what it has, and may go on sharing or is told."""
    with memory.shared_numpy():
        x = np.full(1000, 9, np.uint8)
    handle = memory.export(x)

    def child() -> int:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        assert (np.frombuffer(memory.receive(handle), np.uint8, 1000) == 9).all()
        with memory.shared_numpy():
            mine = np.ones(100)
        memory.export(mine)
        pid = os.fork()  # its child cannot reopen the control file: it has no row, or the spare one
        if pid == 0:
            os._exit(0 if x[0] == 9 and mine[0] == 1 else 1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert Child(child).wait() == 0

    # A stranger of another user cannot come in: there is no name to open, and /proc refuses.
    parent, control = os.getpid(), native.domain_fds()[0]

    def stranger() -> int:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        try:
            os.open(f"/proc/{parent}/fd/{control}", os.O_RDWR)
        except PermissionError:
            return 0
        return 1

    assert Child(stranger).wait() == 0
    assert (x == 9).all()
    check()


def test_another_user() -> None:
    if os.getuid():
        pytest.fail("this test becomes another user, so it needs to be root")
    fresh(another_user)
