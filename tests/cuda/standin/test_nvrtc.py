"""NVRTC compiles the kernels for each architecture without a warning. Needs NVRTC, and no GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cuda.standin.fixtures import Misuses

FOLDER = Path(__file__).resolve().parents[1] / "kernels"
KERNELS = sorted(FOLDER.glob("*.cu"))
ARCHITECTURES = (75, 80, 90, 100, 120)


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


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_kernel_compiles_without_a_warning(nvrtc: Any, path: Path, architecture: int) -> None:
    if architecture not in nvrtc.getSupportedArchs():
        pytest.skip(f"NVRTC {nvrtc.getVersion()} has no sm_{architecture}")
    source = (FOLDER / "cuda_device.h").read_text() + path.read_text()
    cubin, log = compile_kernel(nvrtc, source, architecture)
    assert cubin.startswith(b"\x7fELF")
    assert log == ""


def test_a_warning_is_noticed(nvrtc: Any) -> None:
    source = 'extern "C" __global__ void f(int* x) { int unused; x[0] = 1; }'
    if nvrtc.getVersion() < (13, 0):
        assert "unused" in compile_kernel(nvrtc, source, 80)[1]
    else:
        with pytest.raises(nvrtc.NVRTCError, match="NVRTC_ERROR_COMPILATION"):
            compile_kernel(nvrtc, source, 80)


def test_the_kernel_runs_through_cupys_rawmodule(cp: Any) -> None:
    import numpy as np

    source = (FOLDER / "cuda_device.h").read_text() + (FOLDER / "softmax.cu").read_text()
    kernel = cp.RawModule(code=source, options=("-std=c++17",)).get_function("softmax_rows")
    x = cp.asarray(np.random.default_rng(0).standard_normal((5, 33)).astype(np.float32))
    y = cp.empty_like(x)
    kernel((2,), (64,), (x, y, np.uint64(5), np.uint32(33)), shared_mem=4 * 33)
    e = np.exp(x.get() - x.get().max(1, keepdims=True))
    np.testing.assert_allclose(y.get(), e / e.sum(1, keepdims=True), 1e-5)
