"""The checks of doctor, one function each."""

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
from ...memory.statistics import size
from ..find_domains import NoDomain, discover
from ..top.snapshot import survey_domain
from ..top.tables import plural
from .finding import OK, PROBLEM, WARNING, Finding, MachineFiles

GIB = 1 << 30
F_OFD_SETLK = 37
# Addresses that a process maps: the control file and 64 GiB or more of volumes
# (docs/design/memory.md).
MAPPED = 90 * GIB


def shared_memory(machine: MachineFiles) -> Finding:
    name = "shared memory"
    space = machine.space("/dev/shm")
    if space is None:
        return Finding(
            name, WARNING, "/dev/shm does not exist; only the second volume (memfd) is used",
            "mount -t tmpfs tmpfs /dev/shm",
        )  # fmt: skip
    total, free = space
    text = f"/dev/shm: {size(free)} of {size(total)} free"
    remedy = "docker run --shm-size=8g; else mount -o remount,size=8G /dev/shm"
    if total < GIB:
        return Finding(
            name, WARNING, f"{text}; beyond that the second volume (memfd) is used", remedy
        )
    if free < total // 20:
        return Finding(name, WARNING, f"{text}: nearly full", "rm files there that are not needed")
    return Finding(name, OK, text)


def leftovers(machine: MachineFiles) -> Finding:
    name = "left in /dev/shm"
    counts: dict[str, tuple[int, int]] = {}
    with suppress(FileNotFoundError):
        for entry in os.scandir(machine.path("/dev/shm")):
            prefix = next((p for p in PREFIXES if entry.name.startswith(p)), None)
            status = entry.stat(follow_symlinks=False)
            # our own files are unlinked after microseconds
            if prefix and status.st_uid == os.geteuid() and time.time() - status.st_mtime > 10:
                n, nbytes = counts.get(prefix, (0, 0))
                counts[prefix] = n + 1, nbytes + status.st_blocks * 512
    if not counts:
        return Finding(name, OK, "nothing")
    text = ", ".join(
        f"{plural(n, 'name', 'names')} {prefix}* of {PREFIXES[prefix]} ({size(nbytes)})"
        for prefix, (n, nbytes) in counts.items()
    )
    remedy = "rm " + " ".join(f"/dev/shm/{prefix}*" for prefix in counts)
    return Finding(name, WARNING, text, f"if no program uses them: {remedy}")


PREFIXES = {
    "shmtensor-": "shmtensor, killed while it started",
    "torch_": "PyTorch",
    "psm_": "Python's shared_memory",
    "sem.mp-": "Python's multiprocessing",
    "sem.loky-": "loky",
    "joblib_": "joblib",
    "nccl-": "NCCL",
    "sm_segment.": "Open MPI, killed",
    "vader_segment.": "Open MPI 4, killed",
}


def memory(machine: MachineFiles) -> Finding:
    available, limit, source = native.headroom(machine.root)
    text = f"{size(available)} of {size(limit)} may still be committed ({source})"
    remedy = "free memory, or raise the limit of that group (docker run --memory, memory.max)"
    if available < 64 << 20:
        return Finding("memory", PROBLEM, text, remedy)
    return Finding("memory", WARNING if available < GIB else OK, text, remedy * (available < GIB))


def overcommit(machine: MachineFiles) -> Finding:
    mode = machine.number("/proc/sys/vm/overcommit_memory")
    if mode == 2:
        return Finding(
            "overcommit", WARNING, "off (vm.overcommit_memory = 2): NumPy's and Python's own "
            "allocations may be refused early; shared memory is committed page by page anyway",
            "sysctl vm.overcommit_memory=0, or raise vm.overcommit_ratio",
        )  # fmt: skip
    return Finding("overcommit", OK, f"vm.overcommit_memory = {mode}")


def descriptors(machine: MachineFiles) -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"ulimit -n: {limit_text(soft)} (at most {limit_text(hard)})"
    if soft != resource.RLIM_INFINITY and soft < 128:
        return Finding(
            "open files", PROBLEM, f"{text}; a process needs 5, a queue none, a pipe 2, a child 2",
            f"ulimit -n {hard if 0 < hard < 1024 else 1024}",
        )  # fmt: skip
    return Finding("open files", OK, f"{text}; tensors and queues need none")


def maps(machine: MachineFiles) -> Finding:
    limit = machine.number("/proc/sys/vm/max_map_count")
    text = f"vm.max_map_count = {limit}; all tensors together need three"
    if limit is not None and limit < 4096:
        return Finding("memory maps", WARNING, text, "sysctl vm.max_map_count=65530")
    return Finding("memory maps", OK, text)


def address_space(machine: MachineFiles) -> Finding:
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


def locks(machine: MachineFiles) -> Finding:
    """Whether the kernel has open-file-description locks: tries one on a file."""
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
            "outside gVisor (docker run --runtime=runc) the kernel has them",
        )  # fmt: skip
    finally:
        os.close(descriptor)
    if os.environ.get("SHMTENSOR_LIVENESS") == "process":
        return Finding(
            "locks", WARNING, "the kernel has them, but SHMTENSOR_LIVENESS=process: a death is "
            "noticed by pid and start time", "unset SHMTENSOR_LIVENESS",
        )  # fmt: skip
    return Finding("locks", OK, "open-file-description locks: a death is noticed at once")


def huge_pages(machine: MachineFiles) -> Finding:
    policy, _ = native.huge_policy(machine.root)
    text, remedy = f"for shared memory: {policy}", ""
    if policy == "deny":
        remedy = "echo never > /sys/kernel/mm/transparent_hugepage/shmem_enabled, then: "
    if policy in ("never", "deny"):
        remedy += "large tensors may be faster with: mount -o remount,huge=advise /dev/shm"
    return Finding("huge pages", OK, text, remedy)


def blas(machine: MachineFiles) -> Finding:
    kernel, flags = native.blas(), (machine.text("/proc/cpuinfo") or "").split()
    threads = native.get_num_threads()
    if not kernel:
        return Finding(
            "BLAS", WARNING, "no private OpenBLAS: NumPy's is used, slower for small products",
            "pip install scipy-openblas32",
        )  # fmt: skip
    text = f"OpenBLAS, kernels for {kernel}, {plural(threads, 'thread', 'threads')}"
    needed = ("avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd")
    is_slow = kernel in ("Haswell", "Zen") and all(flag in flags for flag in needed)
    remedy = "unset OPENBLAS_CORETYPE: this CPU has AVX-512" if is_slow else ""
    return Finding("BLAS", WARNING if is_slow else OK, text, remedy)


def instructions(machine: MachineFiles) -> Finding:
    level, flags = native.isa(), (machine.text("/proc/cpuinfo") or "").split()
    levels = native.isa_levels()
    is_slow = level == "generic" and "avx2" in flags
    remedy = "unset SHMTENSOR_ISA" if len(levels) > 1 else "compile all levels: make build"
    return Finding(
        "instruction set", WARNING if is_slow else OK,
        f"kernels of level {level}; compiled: {', '.join(levels)}",
        f"{remedy}: this CPU has AVX2" if is_slow else "",
    )  # fmt: skip


def gpu(machine: MachineFiles) -> Finding:
    cards = machine.path("/proc/driver/nvidia/gpus")
    n = len(list(cards.iterdir())) if cards.is_dir() else 0
    if not n:
        return Finding("GPU", OK, "none by NVIDIA; tensors are on the CPU")
    text = f"{plural(n, 'card', 'cards')} by NVIDIA; tensors are on the CPU"
    if find_spec("cupy") is None:
        return Finding(
            "GPU", OK, f"{text}; loaders cannot feed it: CuPy is not installed",
            "pip install shmtensor[cuda12] or shmtensor[cuda13]",
        )  # fmt: skip
    return Finding("GPU", OK, f"{text}; loaders feed it (pin_memory, DevicePrefetcher)")


def domains(machine: MachineFiles) -> Finding:
    """Running domains, and handles that nobody claims."""
    running = discover() if not machine.root else []
    problems = []
    for domain in running:
        try:
            snapshot = survey_domain(domain)
        except NoDomain:  # it has ended in the meantime
            continue
        unclaimed = [handle for handle in snapshot.oldest_unclaimed if handle.age > 60]
        if unclaimed:
            problems.append(
                f"{domain.id[:8]}: {plural(snapshot.unclaimed_messages, 'handle', 'handles')} "
                f"never claimed ({size(snapshot.unclaimed_bytes)}), the oldest for "
                f"{unclaimed[0].age:.0f} s"
            )
    text = f"{plural(len(running), 'domain', 'domains')} running"
    if not problems:
        return Finding("domains", OK, text)
    return Finding(
        "domains", WARNING, f"{text}; " + "; ".join(problems),
        "their receivers have died or are slow: use shmtensor.multiprocessing's queues, "
        "which take messages back; unclaimed handles expire when memory runs short",
    )  # fmt: skip


CHECKS: tuple[Callable[[MachineFiles], Finding], ...] = (
    shared_memory, leftovers, memory, overcommit, descriptors, maps, address_space, locks,
    huge_pages, blas, instructions, gpu, domains,
)  # fmt: skip
