"""The things that doctor looks at, one function each."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec

from ... import native
from ..find_domains import NoDomain, discover
from ..top.format import plural, size
from ..top.snapshot import take
from .finding import OK, PROBLEM, WARNING, Finding, MachineFiles

__all__ = ["CHECKS"]

GIB = 1 << 30
F_OFD_SETLK = 37
# What a process maps: the control file and 64 GiB or more of volumes (docs/design/memory.md).
MAPPED = 90 * GIB


def shared_memory(look: MachineFiles) -> Finding:
    name = "shared memory"
    space = look.space("/dev/shm")
    if space is None:
        return Finding(
            name, WARNING, "/dev/shm is not there; the second volume (memfd) serves alone",
            "mount -t tmpfs tmpfs /dev/shm",
        )  # fmt: skip
    total, free = space
    found = f"/dev/shm: {size(free)} of {size(total)} free"
    remedy = "docker run --shm-size=8g; else mount -o remount,size=8G /dev/shm"
    if total < GIB:
        return Finding(
            name, WARNING, f"{found}; beyond that the second volume (memfd) serves", remedy
        )
    if free < total // 20:
        return Finding(name, WARNING, f"{found}: nearly full", "rm what is not needed there")
    return Finding(name, OK, found)


def leftovers(look: MachineFiles) -> Finding:
    name = "left in /dev/shm"
    counts: dict[str, tuple[int, int]] = {}
    with suppress(FileNotFoundError):
        for entry in os.scandir(look.path("/dev/shm")):
            prefix = next((p for p in PREFIXES if entry.name.startswith(p)), None)
            status = entry.stat(follow_symlinks=False)
            # one of ours has its name for microseconds
            if prefix and status.st_uid == os.geteuid() and time.time() - status.st_mtime > 10:
                n, nbytes = counts.get(prefix, (0, 0))
                counts[prefix] = n + 1, nbytes + status.st_blocks * 512
    if not counts:
        return Finding(name, OK, "nothing")
    found = ", ".join(
        f"{plural(n, 'name', 'names')} {prefix}* of {PREFIXES[prefix]} ({size(nbytes)})"
        for prefix, (n, nbytes) in counts.items()
    )
    remedy = "rm " + " ".join(f"/dev/shm/{prefix}*" for prefix in counts)
    return Finding(name, WARNING, found, f"if no program uses them: {remedy}")


PREFIXES = {
    "shmtensor-": "shmtensor, killed at birth",
    "torch_": "PyTorch",
    "psm_": "Python's shared_memory",
    "sem.mp-": "Python's multiprocessing",
    "sem.loky-": "loky",
    "joblib_": "joblib",
    "nccl-": "NCCL",
    "sm_segment.": "Open MPI, killed",
    "vader_segment.": "Open MPI 4, killed",
}


def memory(look: MachineFiles) -> Finding:
    available, limit, who = native.headroom(look.root)
    found = f"{size(available)} of {size(limit)} may still be committed ({who})"
    remedy = "free memory, or raise the limit of that group (docker run --memory, memory.max)"
    if available < 64 << 20:
        return Finding("memory", PROBLEM, found, remedy)
    return Finding("memory", WARNING if available < GIB else OK, found, remedy * (available < GIB))


def overcommit(look: MachineFiles) -> Finding:
    mode = look.number("/proc/sys/vm/overcommit_memory")
    if mode == 2:
        return Finding(
            "overcommit", WARNING, "off (vm.overcommit_memory = 2): NumPy's and Python's own "
            "allocations may be refused early; shared memory is committed page by page anyway",
            "sysctl vm.overcommit_memory=0, or raise vm.overcommit_ratio",
        )  # fmt: skip
    return Finding("overcommit", OK, f"vm.overcommit_memory = {mode}")


def descriptors(look: MachineFiles) -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = f"ulimit -n: {limit_text(soft)} (at most {limit_text(hard)})"
    if soft != resource.RLIM_INFINITY and soft < 128:
        return Finding(
            "open files", PROBLEM, f"{found}; a process needs 5, a queue none, a pipe 2, a child 2",
            f"ulimit -n {hard if 0 < hard < 1024 else 1024}",
        )  # fmt: skip
    return Finding("open files", OK, f"{found}; tensors and queues need none")


def maps(look: MachineFiles) -> Finding:
    most = look.number("/proc/sys/vm/max_map_count")
    found = f"vm.max_map_count = {most}; all tensors together need three"
    if most is not None and most < 4096:
        return Finding("memory maps", WARNING, found, "sysctl vm.max_map_count=65530")
    return Finding("memory maps", OK, found)


def address_space(look: MachineFiles) -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY and soft < MAPPED:
        return Finding(
            "address space", PROBLEM,
            f"ulimit -v: {size(soft)}; a domain reserves {size(MAPPED)} of addresses or more "
            "(not of memory)",
            "ulimit -v unlimited",
        )  # fmt: skip
    return Finding("address space", OK, f"ulimit -v: {limit_text(soft)}")


def limit_text(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)


def locks(look: MachineFiles) -> Finding:
    """Whether the kernel has locks that belong to an open file description, tried on a file."""
    descriptor = os.memfd_create("shmtensor-doctor")
    try:
        lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        fcntl.fcntl(descriptor, F_OFD_SETLK, lock)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return Finding(
            "locks", WARNING, "the kernel has no open-file-description locks (gVisor?): a death is "
            "noticed by pid and start time, within one pid namespace",
            "outside gVisor (docker run --runtime=runc) the kernel itself says who is alive",
        )  # fmt: skip
    finally:
        os.close(descriptor)
    if os.environ.get("SHMTENSOR_LIVENESS") == "process":
        return Finding(
            "locks", WARNING, "the kernel has them, but SHMTENSOR_LIVENESS=process: a death is "
            "noticed by pid and start time", "unset SHMTENSOR_LIVENESS",
        )  # fmt: skip
    return Finding("locks", OK, "open-file-description locks: a death is noticed at once")


def huge_pages(look: MachineFiles) -> Finding:
    policy, _ = native.huge_policy(look.root)
    found, remedy = f"for shared memory: {policy}", ""
    if policy == "deny":
        remedy = "echo never > /sys/kernel/mm/transparent_hugepage/shmem_enabled, then: "
    if policy in ("never", "deny"):
        remedy += "large tensors may be faster with: mount -o remount,huge=advise /dev/shm"
    return Finding("huge pages", OK, found, remedy)


def blas(look: MachineFiles) -> Finding:
    kernel, flags = native.blas(), (look.text("/proc/cpuinfo") or "").split()
    threads = native.get_num_threads()
    if not kernel:
        return Finding(
            "BLAS", WARNING, "no private OpenBLAS: NumPy's is used, slower for small products",
            "pip install scipy-openblas32",
        )  # fmt: skip
    found = f"OpenBLAS, kernels for {kernel}, {plural(threads, 'thread', 'threads')}"
    needed = ("avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd")
    slow = kernel in ("Haswell", "Zen") and all(flag in flags for flag in needed)
    remedy = "unset OPENBLAS_CORETYPE: this CPU has AVX-512" if slow else ""
    return Finding("BLAS", WARNING if slow else OK, found, remedy)


def instructions(look: MachineFiles) -> Finding:
    level, flags = native.isa(), (look.text("/proc/cpuinfo") or "").split()
    slow = level == "generic" and "avx2" in flags
    return Finding(
        "instruction set", WARNING if slow else OK, f"kernels of level {level}",
        "unset SHMTENSOR_ISA: this CPU has AVX2" if slow else "",
    )  # fmt: skip


def gpu(look: MachineFiles) -> Finding:
    cards = look.path("/proc/driver/nvidia/gpus")
    n = len(list(cards.iterdir())) if cards.is_dir() else 0
    if not n:
        return Finding("GPU", OK, "none by NVIDIA; tensors live on the CPU")
    found = f"{plural(n, 'card', 'cards')} by NVIDIA; tensors live on the CPU"
    if find_spec("cupy") is None:
        return Finding(
            "GPU", OK, f"{found}; loaders cannot feed it: CuPy is not installed",
            "pip install shmtensor[cuda12] or shmtensor[cuda13]",
        )  # fmt: skip
    return Finding("GPU", OK, f"{found}; loaders feed it (pin_memory, DevicePrefetcher)")


def domains(look: MachineFiles) -> Finding:
    """Processes that died and were not swept, handles that nobody claims."""
    found = discover() if not look.root else []
    trouble = []
    for domain in found:
        try:
            snapshot = take(domain)
        except NoDomain:  # it ended meanwhile
            continue
        old = [lost for lost in snapshot.oldest_unclaimed if lost.age > 60]
        if old:
            trouble.append(
                f"{domain.id[:8]}: {plural(snapshot.unclaimed_messages, 'handle', 'handles')} "
                f"never claimed ({size(snapshot.unclaimed_bytes)}), the oldest for "
                f"{old[0].age:.0f} s"
            )
    text = f"{plural(len(found), 'domain', 'domains')} running"
    if not trouble:
        return Finding("domains", OK, text)
    return Finding(
        "domains", WARNING, f"{text}; " + "; ".join(trouble),
        "who was to receive them is gone or slow: use shmtensor.multiprocessing's queues, "
        "which take messages back; they expire when memory runs short",
    )  # fmt: skip


CHECKS: tuple[Callable[[MachineFiles], Finding], ...] = (
    shared_memory, leftovers, memory, overcommit, descriptors, maps, address_space, locks,
    huge_pages, blas, instructions, gpu, domains,
)  # fmt: skip
