"""NVRTC compiles the kernels for each architecture without a warning. Needs NVRTC, and no GPU."""

from __future__ import annotations

from typing import Any

import pytest

from shmtensor.ops.cuda.kernel_source import FOLDER, KERNELS, kernel_source
from tests.cuda.standin.busy import SOURCE as BUSY
from tests.cuda.standin.fixtures import Misuses

ARCHITECTURES = (75, 80, 90, 100, 120)
# Every dtype on the oldest and the newest; between them float16, which has instructions of its own.
INSTANCES = [
    (name, dtype, architecture)
    for name, dtypes in KERNELS.items()
    for dtype in dtypes
    for architecture in ARCHITECTURES
    if dtype == "float16" or architecture in (ARCHITECTURES[0], ARCHITECTURES[-1])
]


def compile_kernel(nvrtc: Any, source: str, architecture: int) -> tuple[bytes, str]:
    """The cubin, and what NVRTC says. Its options: versions before 13 have no -Werror."""
    strict = ("-Werror=all-warnings",) if nvrtc.getVersion() >= (13, 0) else ()
    options = (f"-arch=sm_{architecture}", "-std=c++17", "-default-device", "-lineinfo", *strict)
    program = nvrtc.createProgram(source, "kernel.cu", (), ())
    try:
        nvrtc.compileProgram(program, options)
        return nvrtc.getCUBIN(program), nvrtc.getProgramLog(program).strip("\0\n ")
    finally:
        nvrtc.destroyProgram(program)


@pytest.fixture
def nvrtc(misuses: Misuses) -> Any:
    from cupy_backends.cuda.libs import nvrtc

    return nvrtc


@pytest.mark.parametrize(("name", "dtype", "architecture"), INSTANCES, ids=str)
def test_a_kernel_compiles_without_a_warning(
    nvrtc: Any, name: str, dtype: str, architecture: int
) -> None:
    if architecture not in nvrtc.getSupportedArchs():
        pytest.skip(f"NVRTC {nvrtc.getVersion()} has no sm_{architecture}")
    cubin, log = compile_kernel(nvrtc, kernel_source(name, dtype), architecture)
    assert cubin.startswith(b"\x7fELF")
    assert log == ""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_busy_kernel_compiles_without_a_warning(nvrtc: Any, architecture: int) -> None:
    if architecture not in nvrtc.getSupportedArchs():
        pytest.skip(f"NVRTC {nvrtc.getVersion()} has no sm_{architecture}")
    assert compile_kernel(nvrtc, BUSY, architecture)[1] == ""


def test_every_source_has_dtypes() -> None:
    assert {path.stem for path in FOLDER.glob("*.cu")} == set(KERNELS)


def test_a_warning_is_noticed(nvrtc: Any) -> None:
    source = 'extern "C" __global__ void f(int* x) { int unused; x[0] = 1; }'
    if nvrtc.getVersion() < (13, 0):
        assert "unused" in compile_kernel(nvrtc, source, 80)[1]
    else:
        with pytest.raises(nvrtc.NVRTCError, match="NVRTC_ERROR_COMPILATION"):
            compile_kernel(nvrtc, source, 80)


def test_a_kernel_runs_through_cupys_rawmodule(cp: Any) -> None:
    import numpy as np

    source = kernel_source("random", "float64")
    kernel = cp.RawModule(code=source, options=("-std=c++17",)).get_function("integers")
    out = cp.empty(5, np.int64)
    stream = np.uint64(7), np.uint64(0)
    kernel((2,), (64,), (out, np.int64(5), *stream, np.uint64(3), np.uint64(1)))
    assert out.get().tolist() == [3, 3, 3, 3, 3]
