"""CuPy's compile step on the stand-in: a cubin is the path of a shared object made from the same source by g++.

Real NVRTC compiles each new source first, so that what a device would refuse is an error here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cuda.kernels.host import cache_key, compile_for_host
from tests.cuda.standin.build import FOLDER, headers

MAGIC = b"STANDIN1\n"  # device/driver.cc has the same


@dataclass
class Count:
    """Kernels compiled by this process, and the seconds that took."""

    compiled: int = 0
    seconds: float = 0.0


COUNT = Count()


def install() -> None:
    """Replaces the function of CuPy that calls NVRTC."""
    import cupy
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
        if name_expressions:
            raise NotImplementedError(f"{filename}: templates by name: {name_expressions}")
        kept = [o for o in options if o.startswith(("-D", "-I"))]
        flags = ["-w", "-fpermissive", "-DCUDA_HOST_WITH_HEADERS", "-D__CUDACC_VER_MAJOR__=13"]
        flags += [*kept, f"-I{include}", f"-I{headers()}"]
        begin = time.monotonic()
        checked = FOLDER / "kernels" / (cache_key(source, options) + ".nvrtc")
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
            path = compile_for_host(source, flags)
        except RuntimeError as error:
            raise compiler.CompileException(str(error), source, filename, options, "g++") from error
        COUNT.seconds += time.monotonic() - begin
        return MAGIC + str(path).encode() + b"\n", {}

    compiler._compile_using_nvrtc_no_warning = compile_on_host
