"""Finding CuPy and the GPUs, and the first use of CUDA in a process.

Nothing here imports CuPy before CUDA is asked for, so `import shmtensor` does not.

```
not asked -- device_count, is_available --> counted -- initialize --> in use
    |                                          |                        |
  fork: the child may use CUDA               fork: the child may not: Note [CUDA and fork]
```
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from . import native

EXTRA = 'pip install "shmtensor[cuda12]" (or cuda13), which installs CuPy'


class DeviceMissing(RuntimeError, AssertionError):
    """There is no GPU: of both classes that PyTorch raises, depending on its build."""


class State:
    """What this process knows of CUDA.

    Attributes:
        devices: how many there are; None: not asked yet.
        reason: why there are none.
        initialized: `initialize` was called.
        ready: it has ended: the allocator and the rules are there.
        forked: the process was forked from one that had asked the driver.
        has_bfloat16: CuPy takes our bfloat16; None: not asked yet.
        precision: of products of float32 on a GPU, "highest", "high" or "medium": all but
            "highest" round the factors to TF32.
    """

    def __init__(self) -> None:
        self.devices: int | None = None
        self.reason = ""
        self.initialized = False
        self.ready = False
        self.forked = False
        self.has_bfloat16: bool | None = None
        is_tf32 = os.environ.get("CUPY_TF32", "0") not in ("", "0")  # as for CuPy's own products
        self.precision = "high" if is_tf32 else "highest"


state = State()
lock = threading.RLock()
hooks: list[Callable[[Any], None]] = []


# Note [CUDA and fork]: after the driver's first call, CUDA in a forked child is undefined. The
# first call is the count of the devices, so `is_available` already decides, as in PyTorch.
def after_fork() -> None:
    """In a forked child: its parent's contexts are not its own."""
    lock._at_fork_reinit()  # type: ignore[attr-defined]
    if state.devices:
        state.forked = True
        state.initialized = state.ready = False


os.register_at_fork(after_in_child=after_fork)


def check_fork() -> None:
    """Checks that this process may use CUDA."""
    if state.forked:
        raise RuntimeError(
            "Cannot re-initialize CUDA in forked subprocess: the parent of process "
            f"{os.getpid()} has used CUDA. To use CUDA with multiprocessing, you must use the "
            "'spawn' or 'forkserver' start method, hint: "
            "multiprocessing.set_start_method('spawn')"
        )


# Note [bfloat16 in CuPy]: CuPy 14 has kernels, products and casts for one bfloat16, that of the
# module ml_dtypes when CuPy is imported. Our dtype is another one (docs/design/bfloat16.md says
# why), so while we import CuPy, that module is one with ours. CuPy that was imported before does
# not know ours: then `has_bfloat16` is False.
@contextmanager
def our_bfloat16() -> Iterator[None]:
    """In this block the module ml_dtypes has our bfloat16, and nothing else."""
    ours = ModuleType("ml_dtypes")
    ours.bfloat16 = native.bfloat16_dtype.type  # type: ignore[attr-defined]
    former = sys.modules.get("ml_dtypes")
    sys.modules["ml_dtypes"] = ours
    try:
        yield
    finally:
        if former is None:
            del sys.modules["ml_dtypes"]
        else:
            sys.modules["ml_dtypes"] = former


def import_cupy() -> Any:
    """CuPy. If nothing has imported it yet, it gets our bfloat16."""
    if "cupy" in sys.modules:
        return importlib.import_module("cupy")
    with lock, our_bfloat16():
        return importlib.import_module("cupy")


def has_bfloat16() -> bool:
    """Whether CuPy takes bfloat16 arrays: CuPy 14 or newer, imported by this module."""
    if state.has_bfloat16 is None:
        try:
            import_cupy().empty(0, native.bfloat16_dtype)
            state.has_bfloat16 = True
        except (TypeError, ValueError):  # "Unsupported dtype"
            state.has_bfloat16 = False
    return state.has_bfloat16


def count() -> tuple[int, str]:
    """The number of devices, and why there are none."""
    try:
        cupy = import_cupy()
    except ModuleNotFoundError as error:
        return 0, f"CuPy is not installed: {error}; {EXTRA}"
    except Exception as error:
        return 0, f"CuPy cannot be imported: {type(error).__name__}: {error}; {EXTRA}"
    try:
        devices = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return 0, f"there is no CUDA driver, or it fails: {error}"
    return devices, "" if devices else "the CUDA driver sees no device"


def device_count() -> int:
    """The number of CUDA devices of this process; 0 without CuPy, a driver or a device. It is asked
    once.
    """
    if state.devices is None:
        with lock:
            if state.devices is None:
                number, state.reason = count()
                state.devices = number
    return state.devices


def is_available() -> bool:
    """Whether there are CuPy and a CUDA device. Never raises."""
    return device_count() > 0


def is_initialized() -> bool:
    """Whether this process has used CUDA."""
    return state.initialized


def why_missing() -> str:
    """Why there is no CUDA device; empty if there is one."""
    return "" if device_count() else state.reason


def on_initialize(hook: Callable[[Any], None]) -> None:
    """Adds a function that is called with CuPy when CUDA is first used; at once, if it is in use.

    Higher layers add theirs at import: the allocator, the device's rules.
    """
    with lock:
        hooks.append(hook)
        if state.initialized:
            hook(importlib.import_module("cupy"))


def initialize() -> Any:
    """Begins to use CUDA, once in a process; returns CuPy. Other threads wait until the hooks have
    run: arrays that they made before would not be of our allocator. A hook may call it, too.

    Raises:
        DeviceMissing: CuPy, the driver or a device is missing.
        RuntimeError: the process was forked from one that had used CUDA.
    """
    if state.ready:
        return sys.modules["cupy"]
    check_fork()
    if not device_count():
        raise DeviceMissing(f"device: no CUDA device can be used: {state.reason}")
    with lock:
        if not state.initialized:
            state.initialized = True  # a hook may make arrays
            cupy = importlib.import_module("cupy")
            try:
                for hook in hooks:
                    hook(cupy)
                state.ready = True
            except BaseException:
                state.initialized = False
                raise
    return importlib.import_module("cupy")
