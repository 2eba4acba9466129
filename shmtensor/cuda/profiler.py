"""What an external profiler (Nsight Systems) records: `torch.cuda.profiler` by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .runtime_api import check_error, cudart

__all__ = ["profile", "start", "stop"]


def start() -> None:
    """Begins to record, for a profiler that waits for it.

    Raises
    ------
    DeviceMissing
        There is no GPU.
    CudaError
        CUDA refuses.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     st.cuda.profiler.start()
    ...     y = st.ones(3, device="cuda") * 2
    ...     st.cuda.profiler.stop()
    """
    check_error(cudart().cudaProfilerStart())


def stop() -> None:
    """Ends recording.

    Raises
    ------
    DeviceMissing
        There is no GPU.
    CudaError
        CUDA refuses.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     st.cuda.profiler.start()
    ...     y = st.ones(3, device="cuda") * 2
    ...     st.cuda.profiler.stop()
    """
    check_error(cudart().cudaProfilerStop())


@contextmanager
def profile() -> Iterator[None]:
    """Records in a `with` block, for a profiler that waits for it.

    Returns
    -------
    context manager
        Without a value.

    Raises
    ------
    DeviceMissing
        There is no GPU.
    CudaError
        CUDA refuses.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     with st.cuda.profiler.profile():
    ...         y = st.ones(3, device="cuda") * 2
    """
    start()
    try:
        yield
    finally:
        stop()
