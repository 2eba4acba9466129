"""The header: the machine, the versions, and the machine's limits for copies and arithmetic."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

PACKAGES = ("shmtensor", "numpy", "torch", "autograd", "jax", "joblib", "mpi4py", "ray")


def processor() -> str:
    """The CPU's name and its widest vector extension."""
    name, flags = platform.machine(), ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            name = value.strip()
        elif key.strip() in ("flags", "Features"):
            flags = value
    widest = next((v for v in ("avx512f", "avx2", "asimd", "sse2") if v in flags.split()), "")
    return f"{name} ({widest})" if widest else name


def version_of(package: str) -> str | None:
    """Its version, or None if it is not installed."""
    if package == "shmtensor":
        from shmtensor.version import __version__

        return str(__version__)
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def memcpy_ceiling(threads: int, nbytes: int = 1 << 27) -> float:
    """Bytes copied per second between warm arrays, by that many threads: the best of five."""
    source, target = np.ones(nbytes, np.uint8), np.ones(nbytes, np.uint8)
    parts = [slice(i * nbytes // threads, (i + 1) * nbytes // threads) for i in range(threads)]
    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(5):
            began = time.perf_counter()
            list(pool.map(lambda part: np.copyto(target[part], source[part]), parts))
            best = min(best, time.perf_counter() - began)
    return nbytes / best


def ceilings(threads: int) -> dict[str, float]:
    """The results of ceiling.c, compiled for this machine: multiply-adds from registers (flop/s) on
    all cores and on one, additions of 1 M and 10 M float32 (bytes/s, 12 per element), and the
    seconds until a sleeping process has answered after 16 MB were written. {} without a compiler.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return {}
    source = Path(__file__).parent / "ceiling.c"
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/ceiling"
        flags = ["-O3", "-march=native", "-pthread"]
        compilation = subprocess.run(
            [compiler, *flags, str(source), "-o", program], capture_output=True
        )
        if compilation.returncode:
            return {}
        runs = {
            "flops": ("flops", str(threads)),
            "flops_one_core": ("flops", "1"),
            "add_1m": ("add", str(threads), "1000000"),
            "add_10m": ("add", str(threads), "10000000"),
            "wake": ("wake", "201", str(1 << 24)),
        }
        return {
            name: float(subprocess.run([program, *words], capture_output=True, check=True).stdout)
            for name, words in runs.items()
        }


def describe() -> dict[str, Any]:
    """The properties of the machine that figures depend on."""
    cores = len(os.sched_getaffinity(0))
    return {
        "time": time.strftime("%Y-%m-%d %H:%M:%S"),
        "processor": processor(),
        "cores": cores,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "versions": {package: version_of(package) for package in PACKAGES},
        "memcpy_1_thread": memcpy_ceiling(1),
        "memcpy_all_threads": memcpy_ceiling(cores),
        "ceilings": ceilings(cores),
        "load": os.getloadavg()[0],
    }


def header(machine: dict[str, Any]) -> str:
    """The lines above the table."""
    versions = ", ".join(
        f"{package} {version or '(not installed)'}"
        for package, version in machine["versions"].items()
    )
    one, every = machine["memcpy_1_thread"] / 1e9, machine["memcpy_all_threads"] / 1e9
    limits = machine.get("ceilings") or {}
    most = (
        f"; float32 multiply-adds: {limits['flops'] / 1e9:.0f} GFLOP/s; x + y: "
        f"{limits['add_1m'] / 1e9:.1f} GB/s of 1 M, {limits['add_10m'] / 1e9:.1f} of 10 M"
        if limits
        else ""
    )
    return (
        f"{machine['processor']}, {machine['cores']} cores, load {machine['load']:.1f}, "
        f"Linux {machine['kernel']}\n"
        f"Python {machine['python']}, {versions}\n"
        f"memcpy: {one:.1f} GB/s with one thread, {every:.1f} with all{most}\n"
        "Pages are warm unless a case says cold. Ratios: our time over the rival's, median of "
        "pairs measured in turn."
    )
