"""Puts the stand-in device under the real CuPy: call `install()` before anything imports cupy.

- `libcuda.so.1` is the stand-in, loaded by path: a later `dlopen("libcuda.so.1")` finds it;
- `cupy_backends.cuda.api.runtime` is CuPy's own module, built against the stand-in;
- `cupy.cuda.thrust` and `cupy.random._generator_api` are replaced (doubles/), because
  the wheel's have a CUDA runtime inside;
- `libcublas`, `libcusolver`, `libcufft` are shells with NumPy behind them (doubles/);
  each function of `libcurand` and `libcusparse` says that it is not supported;
- `libcudnn.so.9` is such a shell, too, for NVIDIA's frontend `cudnn`, whose CUDA runtime is the
  stand-in;
- `libnccl` leads to the stand-in (device/nccl.cc);
- kernels are compiled for the host (compile.py).

With TESTS_ON_GPU=1 in the environment there is no stand-in: the same tests run on the machine's
GPU.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.cuda.standin.build import (
    CUDNN_SONAME,
    DEPENDENCIES,
    DEVICE,
    LIBRARIES,
    NCCL,
    runtime_module,
)

HERE = Path(__file__).resolve().parent
COMMAND = "make cuda-standin"
ON_GPU = os.environ.get("TESTS_ON_GPU", "") not in ("", "0")
# Modules of the wheel with a CUDA runtime inside, and what is imported in their place.
REPLACED = {"cupy.cuda.thrust": "thrust.py", "cupy.random._generator_api": "generator_api.py"}


def missing() -> str | None:
    """Why no device can be used in this process; None if one can."""
    if ON_GPU:
        from shmtensor import cupy_runtime

        return cupy_runtime.why_missing() or None
    if not (DEVICE.exists() and runtime_module().exists()):
        return f"the stand-in CUDA device is not built: {COMMAND}"
    if not (LIBRARIES / CUDNN_SONAME).exists():
        return f"the stand-in CUDA device is older than this checkout: {COMMAND}"
    if importlib.util.find_spec("cupy") is None:
        return f"CuPy is not installed in this environment: {COMMAND}"
    return None


@cache
def device_library() -> ctypes.CDLL:
    """The device. Not RTLD_GLOBAL: NVRTC crashes if it sees these names."""
    library = ctypes.CDLL(str(DEVICE))
    library.standin_alias.restype = ctypes.c_void_p
    library.standin_alias.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.standin_device_of.argtypes = [ctypes.c_void_p]
    library.standin_stream_device.argtypes = [ctypes.c_void_p]
    library.standin_misuses.restype = ctypes.c_long
    library.standin_launches.restype = ctypes.c_long
    library.cudaLaunchHostFunc.argtypes = [ctypes.c_void_p] * 3
    return library


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of CuPy that are replaced."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "cupy_backends.cuda.api.runtime":
            file = str(runtime_module())
            loader: importlib.abc.Loader = ExtensionFileLoader(fullname, file)
        elif fullname in REPLACED:
            file = str(HERE / "doubles" / REPLACED[fullname])
            loader = SourceFileLoader(fullname, file)
        else:
            return None
        return importlib.util.spec_from_file_location(fullname, file, loader=loader)


class Gpu:
    """In the place of the stand-in's library, on a GPU."""

    def standin_misuses(self) -> int:
        """None are counted."""
        return 0


@cache
def install() -> Any:
    """Installs the stand-in; returns its library. On a GPU it does nothing.

    Raises:
        RuntimeError: cupy has been imported already, or the stand-in is not built.
    """
    if ON_GPU:
        return Gpu()
    if "cupy" in sys.modules or "cupy_backends" in sys.modules:
        raise RuntimeError("install: cupy has been imported already: call install() before")
    if reason := missing():
        raise RuntimeError(f"install: {reason}")
    # No CUB: it has a CUDA runtime of its own inside.
    os.environ["CUPY_ACCELERATORS"] = ""
    os.environ["CUPY_CACHE_IN_MEMORY"] = "1"  # never CuPy's own cache of cubins
    os.environ["CUDNN_FRONTEND_CUDART_LIB_NAME"] = str(DEVICE)  # the runtime of cuDNN's frontend
    library = device_library()
    sys.meta_path.insert(0, Finder())
    from tests.cuda.standin import compile
    from tests.cuda.standin.doubles import cublas, cudnn, cufft, cusolver
    from tests.cuda.standin.doubles.library import attach

    for name in (*DEPENDENCIES, NCCL):
        ctypes.CDLL(str(LIBRARIES / name))
    for double in (cublas, cusolver, cufft, cudnn):
        double.install()
    for name in ("curand", "cusparse"):  # no doubles: each function says that it is not supported
        attach(name, f"cupy_backends/cuda/libs/{name}", 10)
    compile.install()
    atexit.register(library.standin_stop)
    return library
