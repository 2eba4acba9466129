"""CuPy's compile step on the stand-in: in place of a cubin, a shared object that g++ makes.

Real NVRTC compiles each new source first, so that what a device would refuse is an error here. The
headers of CuPy's own kernels are precompiled once, which halves g++'s time.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shmtensor import cupy_runtime
from tests.cuda.kernels.host import BASE, HEADER, cache_key, compile_for_host, symbols
from tests.cuda.standin.build import CUDA, FOLDER, headers

MAGIC = b"STANDIN1\n"  # device/driver.cc has the same


@dataclass
class Count:
    """Kernels compiled by this process, and the seconds that took."""

    compiled: int = 0
    seconds: float = 0.0


COUNT = Count()
CUPY_HEADERS = ("complex.cuh", "carray.cuh", "atomics.cuh", "math_constants.h")


def precompiled(flags: Sequence[str]) -> Path:
    """A header with cuda_host.h and CuPy's, and beside it the same precompiled with `flags`."""
    text = f'#include "{HEADER}"\n'
    text += "".join(f"#include <cupy/{name}>\n" for name in CUPY_HEADERS)
    header = FOLDER / "headers" / f"{cache_key(text, flags)}.h"
    target = header.with_name(f"{header.name}.gch")
    if not target.exists():
        header.parent.mkdir(parents=True, exist_ok=True)
        made = header.with_name(f"{header.stem}.{os.getpid()}.{threading.get_ident()}")
        made.write_text(text)
        made.rename(header)  # at once: other processes do the same
        command = ["g++", *BASE, *flags, "-x", "c++-header", str(header), "-o", str(made)]
        subprocess.run(command, check=True)
        made.rename(target)
    return header


def install() -> None:
    """Replaces the function of CuPy that calls NVRTC."""
    cupy = cupy_runtime.import_cupy()  # as in any program on this device: with our bfloat16
    from cupy.cuda import compiler

    nvrtc = compiler._compile_using_nvrtc_no_warning
    include = Path(cupy.__file__).parent / "_core" / "include"

    def compile_on_host(
        source: str,
        options: Sequence[str] = (),
        arch: Any = None,
        filename: str = "kernel.cu",
        name_expressions: Any = None,
        log_stream: Any = None,
        cache_in_memory: bool = False,
        jitify: Any = None,
        method: Any = None,
    ) -> tuple[bytes, dict[str, str]]:
        kept = [o for o in options if o.startswith(("-D", "-I"))]
        flags = ["-w", "-fpermissive", "-DCUDA_HOST_WITH_HEADERS", f"-D__CUDACC_VER_MAJOR__={CUDA}"]
        flags += [*kept, f"-I{include}", f"-I{headers()}"]
        begin = time.monotonic()
        instances = tuple(name_expressions or ())
        checked = FOLDER / "kernels" / (cache_key(source, [*options, *instances]) + ".nvrtc")
        if not checked.exists():
            nvrtc(
                source,
                options,
                arch,
                filename,
                name_expressions,
                log_stream,
                cache_in_memory,
                jitify,
                method,
            )
            checked.parent.mkdir(parents=True, exist_ok=True)
            checked.touch()
            COUNT.compiled += 1
        try:
            header = precompiled(flags) if "<cupy/carray.cuh>" in source else HEADER
            path = compile_for_host(source, flags, header=header, instances=instances)
        except RuntimeError as error:
            raise compiler.CompileException(str(error), source, filename, options, "g++") from error
        COUNT.seconds += time.monotonic() - begin
        return MAGIC + str(path).encode() + b"\n", symbols(source, instances)

    compiler._compile_using_nvrtc_no_warning = compile_on_host
