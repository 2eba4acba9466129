"""`cp`: CuPy on the stand-in device; skips, and says how to get one, where it is not built.

tests/conftest.py gives the fixtures to all tests.

A test leaves no device memory, no queued work and no misuse of the device or of cuDNN behind;
`misuses` counts those that a test makes on purpose. Convolutions do not round to TF32, since their
results are compared with the CPU's.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from shmtensor import cudnn_runtime, cupy_runtime
from tests.cuda.standin.busy import busy
from tests.cuda.standin.install import ON_GPU, install, missing

ONE_DEVICE = "one CUDA device is here: two are needed"


@dataclass
class Misuses:
    """How many misuses of the device a test makes: it adds those that it expects."""

    before: int
    expected: int = 0


@pytest.fixture(scope="session", autouse=True)
def warm() -> None:
    """On a GPU, what its driver opens once is open before the first test."""
    if not ON_GPU or missing():
        return
    cupy = cupy_runtime.import_cupy()
    x = cupy.ones((8, 8), "f4")
    float((x @ x).sum())
    cupy.cuda.runtime.ipcGetMemHandle(cupy.cuda.runtime.malloc(1 << 21))


@pytest.fixture
def misuses() -> Misuses:
    if reason := missing():
        pytest.skip(reason)
    return Misuses(count_misuses())


def count_misuses() -> int:
    """Those of the device, and of the double of cuDNN, so far; on a GPU none are counted."""
    if ON_GPU:
        return 0
    from tests.cuda.standin.doubles import cudnn

    return int(install().standin_misuses()) + len(cudnn.misuses)


@pytest.fixture
def no_background(cp: Any) -> Iterator[None]:
    """Work is done only when something waits for it: what is queued is not there, however long.
    A GPU cannot do so: tests that queue `busy` work take `late_work`, and run there, too.
    """
    if ON_GPU:
        pytest.skip("a GPU cannot be told to leave its work undone")
    install().standin_pause(1)
    yield
    install().standin_pause(0)


@pytest.fixture
def late_work(cp: Any) -> Iterator[Callable[[Any, float], None]]:
    """`busy(stream, seconds)`: work behind it is not done when the host looks. On the stand-in no
    work is done before something waits for it, as with `no_background`.
    """
    if not ON_GPU:
        install().standin_pause(1)
    busy(cp.cuda.Stream.null, 0)  # compiles it
    yield busy
    if not ON_GPU:
        install().standin_pause(0)


@pytest.fixture
def cp(misuses: Misuses) -> Iterator[Any]:
    install()
    cupy = cupy_runtime.import_cupy()
    runtime = cupy.cuda.runtime
    runtime.setDevice(0)
    cudnn_runtime.settings.__init__()  # the defaults again
    cudnn_runtime.settings.allow_tf32 = False
    yield cupy
    cudnn_runtime.settings.__init__()  # the defaults again
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
    if ON_GPU:  # contexts and other processes use its memory, too
        return
    made = count_misuses() - misuses.before
    assert made == misuses.expected, f"{made} misuses of the device, {misuses.expected} expected"
    left = {device: total - rest for device, (rest, total) in free.items() if rest != total}
    assert not left, f"bytes of device memory are left: {left}"


@pytest.fixture
def two_devices(cp: Any) -> Any:
    """CuPy where there are two devices."""
    if cp.cuda.runtime.getDeviceCount() < 2:
        pytest.skip(ONE_DEVICE)
    return cp


@pytest.fixture
def last_device(cp: Any) -> str:
    """The second of two devices; where there is one, the first."""
    return f"cuda:{cp.cuda.runtime.getDeviceCount() - 1}"


@pytest.fixture(params=["cpu"] if missing() else ["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> str:
    """The CPU, and where there is one a GPU: what a test promises holds on both."""
    if request.param == "cuda":
        request.getfixturevalue("cp")
    return str(request.param)
