"""Compiles a CUDA kernel's source with g++ and cuda_host.h, and runs it on the host.

`compile_for_host` keeps what it has compiled, keyed by source, options and header.
`HostKernel` launches one kernel on NumPy arrays:

    kernel = HostKernel(source, "softmax_rows")
    kernel(grid, block, (x, y, np.uint64(rows), np.uint32(columns)), shared=4 * columns)
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
HEADER = HERE / "cuda_host.h"
CACHE = ROOT / "build" / "cuda-standin" / "kernels"

KERNEL = re.compile(
    r'extern\s*"C"\s*__global__\s+(?:__launch_bounds__\([^)]*\)\s*)?void\s+'
    r"(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\("
)
DYNAMIC_SHARED = re.compile(
    r"extern\s+__shared__\s+(?:__align__\(\w+\)\s*)?([\w:<>]+(?:\s+[\w:<>]+)*)\s+(\w+)\s*\[\s*\]\s*;"
)
BARRIERS = re.compile(r"__sync|__shfl|__ballot|_REDUCE|__any|__all")
STRICT = ("-Wall", "-Wextra", "-Werror", "-Wno-unused", "-Wno-unknown-pragmas")


def symbols(source: str, instances: Sequence[str] = ()) -> dict[str, str]:
    """The symbol of each kernel, and of each instance of a template such as `f<int>`."""
    return {name: name for name in KERNEL.findall(source)} | {
        instance: f"instance_{i}" for i, instance in enumerate(instances)
    }


def host_source(source: str, instances: Sequence[str] = ()) -> str:
    """`source` with an entry for each kernel, and dynamic shared memory as cuda_host.h has it."""
    barriers = "true" if BARRIERS.search(source) else "false"
    text = DYNAMIC_SHARED.sub(r"DYNAMIC_SHARED(\1, \2);", source)
    for name, symbol in symbols(source, instances).items():
        text += f"\nCUDA_HOST_KERNEL({symbol}, {barriers}, {name})"
    return text + "\n"


def cache_key(source: str, flags: Iterable[str]) -> str:
    return hashlib.sha256("\0".join([HEADER.read_text(), *flags, source]).encode()).hexdigest()


BASE = ("-std=c++17", "-O1", "-fPIC")
LINKER = ("-fuse-ld=gold",) if shutil.which("ld.gold") else ()  # it is a quarter faster


def compile_for_host(
    source: str,
    flags: Sequence[str] = STRICT,
    cache: Path = CACHE,
    header: Path = HEADER,
    instances: Sequence[str] = (),
) -> Path:
    """The shared object of `source`, compiled unless `cache` has it.

    Args:
        instances: of templates of kernels, to be compiled besides.
        header: included first; cuda_host.h, or one that includes it and is precompiled.

    Raises:
        RuntimeError: g++ refuses it; the message is g++'s.
    """
    text = host_source(source, instances)
    key = cache_key(text, (*BASE, *flags))
    target = cache / f"{key}.so"
    if target.exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    made = cache / f"{key}.{os.getpid()}.{threading.get_ident()}"
    text_file = made.with_name(f"{made.name}.cc")  # this thread's own, too
    text_file.write_text(text)
    command = ["g++", *BASE, "-shared", *flags, "-include", str(header)]
    command += [str(text_file), "-o", str(made), *LINKER]
    run = subprocess.run(command, capture_output=True, text=True)
    text_file.unlink()
    if run.returncode:
        raise RuntimeError(f"g++ refuses a kernel: {run.stderr[:8000]}")
    made.rename(target)  # at once: other threads and processes compile the same kernel
    return target


class HostKernel:
    """One kernel of a source, launched on NumPy arrays and scalars.

    Args:
        source: the text of a .cu file.
        name: an `extern "C" __global__` function of it.
    """

    def __init__(self, source: str, name: str, cache: Path = CACHE) -> None:
        self.library = ctypes.CDLL(str(compile_for_host(source, cache=cache)))
        self.pack = getattr(self.library, f"pack_{name}")
        self.pack.restype = ctypes.c_void_p
        self.run = getattr(self.library, f"run_{name}")
        self.run.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_uint]

    def seed(self, order: int) -> None:
        """Sets the order in which threads run."""
        self.library.set_thread_order(ctypes.c_uint(order))

    def __call__(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[np.ndarray[Any, Any] | np.generic],
        shared: int = 0,
    ) -> None:
        """Runs one launch to its end. An array is passed as its address, a scalar by value."""
        values = [
            np.array(x.ctypes.data if isinstance(x, np.ndarray) else x, copy=True)
            for x in arguments
        ]
        addresses = (ctypes.c_void_p * len(values))(*[value.ctypes.data for value in values])
        three = ctypes.c_uint * 3
        self.run(self.pack(addresses), three(*grid), three(*block), shared)
