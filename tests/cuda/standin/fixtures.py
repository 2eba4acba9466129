"""`cp`: CuPy on the stand-in device; skips, and says how to get one, where it is not built.

tests/conftest.py gives the fixtures to all tests.

A test leaves no device memory, no queued work and no misuse of the device behind; `misuses` counts
those that a test makes on purpose.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from shmtensor import cupy_runtime
from tests.cuda.standin.install import install, missing

__all__ = ["Misuses", "cp", "misuses", "no_background"]


@dataclass
class Misuses:
    """How many misuses of the device a test makes: it adds those that it expects."""

    before: int
    expected: int = 0


@pytest.fixture
def misuses() -> Misuses:
    if reason := missing():
        pytest.skip(reason)
    return Misuses(install().standin_misuses())


@pytest.fixture
def no_background(cp: Any) -> Iterator[None]:
    """Work is done only when something waits for it: what is queued is not there, however long."""
    install().standin_pause(1)
    yield
    install().standin_pause(0)


@pytest.fixture
def cp(misuses: Misuses) -> Iterator[Any]:
    library = install()
    cupy = cupy_runtime.import_cupy()
    runtime = cupy.cuda.runtime
    runtime.setDevice(0)
    yield cupy
    cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)
    gc.collect()
    for device in range(runtime.getDeviceCount()):  # plans hold memory
        runtime.setDevice(device)
        with warnings.catch_warnings():  # experimental, says CuPy
            warnings.simplefilter("ignore", FutureWarning)
            cupy.fft.config.clear_plan_cache()
    if memory := sys.modules.get("shmtensor.memory.cuda"):  # installed by the first CUDA tensor
        from tests.cuda.memory.peer import clean

        clean(memory)
    free = {}
    for device in range(runtime.getDeviceCount()):
        runtime.setDevice(device)
        cupy.cuda.Stream.null.use()
        runtime.deviceSynchronize()
        cupy.get_default_memory_pool().free_all_blocks()
        cupy.get_default_pinned_memory_pool().free_all_blocks()
        free[device] = runtime.memGetInfo()
    runtime.setDevice(0)
    made = library.standin_misuses() - misuses.before
    assert made == misuses.expected, f"{made} misuses of the device, {misuses.expected} expected"
    left = {device: total - rest for device, (rest, total) in free.items() if rest != total}
    assert not left, f"bytes of device memory are left: {left}"
