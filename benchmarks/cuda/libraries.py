"""The libraries that are compared: shmtensor on the GPU or the stand-in device, and PyTorch."""

from __future__ import annotations

import importlib
from typing import Any


def use_cuda(standin: bool) -> bool:
    """Whether shmtensor has CUDA; prints why not."""
    cuda = importlib.import_module("shmtensor.cuda")
    if standin and not cuda.is_initialized():
        importlib.import_module("tests.cuda.standin.install").install()
    if not cuda.is_available():
        runtime = importlib.import_module("shmtensor.cupy_runtime")
        print(f"SKIPPED: there is no GPU: {runtime.why_missing()}")
        return False
    return True


def libraries() -> dict[str, tuple[Any, Any]]:
    """Each library and its nn: "shmtensor", and "torch" where PyTorch has CUDA."""
    st = importlib.import_module("shmtensor")
    pairs = {"shmtensor": (st, st.nn)}
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return pairs
    if torch.cuda.is_available():
        pairs["torch"] = torch, torch.nn
    return pairs
