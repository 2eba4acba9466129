"""What an external profiler (Nsight Systems) records: `torch.cuda.profiler` by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .runtime_api import check_error, cudart

__all__ = ["profile", "start", "stop"]


def start() -> None:
    """Begins to record.

    Raises:
        DeviceMissing: there is no GPU.
        CudaError: CUDA refuses.
    """
    check_error(cudart().cudaProfilerStart())


def stop() -> None:
    """Ends recording.

    Raises:
        DeviceMissing: there is no GPU.
        CudaError: CUDA refuses.
    """
    check_error(cudart().cudaProfilerStop())


@contextmanager
def profile() -> Iterator[None]:
    """Records in a `with` block.

    Raises:
        DeviceMissing: there is no GPU.
    """
    start()
    try:
        yield
    finally:
        stop()
