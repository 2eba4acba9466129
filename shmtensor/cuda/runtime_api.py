"""CUDA's own functions and handles, and the errors that they return."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from .absent import cupy_for, current_or, refuse

__all__ = [
    "CudaError",
    "DeferredCudaCallError",
    "check_error",
    "cudaStatus",
    "cudart",
    "current_blas_handle",
    "current_solver_handle",
    "get_sync_debug_mode",
    "set_sync_debug_mode",
]


class cudaStatus:
    """Two error codes of CUDA, by PyTorch's names.

    Examples
    --------
    >>> st.cuda.cudaStatus.SUCCESS
    0
    """

    SUCCESS: int = 0
    ERROR_NOT_READY: int = 34


class CudaError(RuntimeError):
    """A function of `cudart()` returned an error.

    Args:
        code: CUDA's number of the error.
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"{cudart().cudaGetErrorString(code)} ({int(code)})")


class DeferredCudaCallError(Exception):
    """PyTorch raises it for calls that wait for the first use of CUDA; here none wait."""


class ErrorCode(IntEnum):
    """CUDA's error codes that PyTorch names."""

    success = 0


class CudaRuntime:
    """Functions of CUDA's runtime library, which return an error code, or (code, result)."""

    cudaError = ErrorCode

    def __init__(self, runtime: Any) -> None:
        self.runtime = runtime

    def _code(self, call: Any, *arguments: Any) -> int:
        try:
            call(*arguments)
        except self.runtime.CUDARuntimeError as error:
            return int(error.status)
        return 0

    def cudaGetErrorString(self, error: int) -> str:
        """The text of an error code."""
        return str(self.runtime.CUDARuntimeError(int(error)))

    def cudaProfilerStart(self) -> int:
        """Begins what an external profiler records."""
        return self._code(self.runtime.profilerStart)

    def cudaProfilerStop(self) -> int:
        """Ends what an external profiler records."""
        return self._code(self.runtime.profilerStop)

    def cudaHostRegister(self, ptr: int, size: int, flags: int) -> int:
        """Page-locks memory of the host."""
        return self._code(self.runtime.hostRegister, ptr, size, flags)

    def cudaHostUnregister(self, ptr: int) -> int:
        """Ends the page-lock."""
        return self._code(self.runtime.hostUnregister, ptr)

    def cudaStreamCreate(self, ptr: int) -> int:
        """Writes the address of a new stream to the address `ptr`, as PyTorch's does."""
        import ctypes

        ctypes.c_uint64.from_address(ptr).value = self.runtime.streamCreate()
        return 0

    def cudaStreamDestroy(self, ptr: int) -> int:
        """Destroys a stream."""
        return self._code(self.runtime.streamDestroy, ptr)

    def cudaMemGetInfo(self, device: Any = None) -> tuple[int, int]:
        """Free and total bytes of a GPU."""
        from .memory import mem_get_info

        return mem_get_info(device)


def cudart() -> CudaRuntime:
    """CUDA's runtime library, with the functions that PyTorch gives access to.

    Returns
    -------
    CudaRuntime
        Its functions return an error code, or (code, result).

    Raises
    ------
    DeviceMissing
        There is no GPU.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     st.cuda.check_error(st.cuda.cudart().cudaProfilerStop())
    """
    return CudaRuntime(cupy_for("cudart").cuda.runtime)


def check_error(res: int) -> None:
    """Checks what a function of `cudart()` returned.

    Parameters
    ----------
    res : int
        The code.

    Raises
    ------
    CudaError
        It is an error.

    Examples
    --------
    >>> st.cuda.check_error(0)
    >>> if st.cuda.is_available():
    ...     st.cuda.check_error(st.cuda.cudart().cudaProfilerStop())
    """
    if res != cudaStatus.SUCCESS:
        raise CudaError(res)


def current_blas_handle() -> int:
    """The address of the cublasHandle_t that this thread's products use on the current GPU.

    Returns
    -------
    int
        For other libraries.

    Raises
    ------
    DeviceMissing
        There is no GPU.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     assert st.cuda.current_blas_handle() != 0
    """
    current_or("current_blas_handle", None)
    return int(cupy_for("current_blas_handle").cuda.device.get_cublas_handle())


def current_solver_handle() -> int:
    """The address of the cusolverDnHandle_t that this thread's solvers use on the current GPU.

    Returns
    -------
    int
        For other libraries.

    Raises
    ------
    DeviceMissing
        There is no GPU.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     assert st.cuda.current_solver_handle() != 0
    """
    current_or("current_solver_handle", None)
    return int(cupy_for("current_solver_handle").cuda.device.get_cusolver_handle())


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Does nothing for "default" or 0, the only modes.

    Parameters
    ----------
    debug_mode : int or str
        "default" or 0.

    Raises
    ------
    DeviceMissing
        There is no GPU.
    NotImplementedError
        Another mode, "warn" or "error".
    RuntimeError
        Not a mode.

    Notes
    -----
    Warnings and errors of calls that wait for the GPU are not there, because CuPy waits within its
    own functions.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     st.cuda.set_sync_debug_mode("default")
    """
    cupy_for("set_sync_debug_mode")
    modes = {"default": 0, "warn": 1, "error": 2}
    mode = modes.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if mode not in modes.values():
        raise RuntimeError(
            f"cuda.set_sync_debug_mode: expected one of {list(modes)}, or 0 to 2: {debug_mode!r}"
        )
    if mode:
        refuse(
            "set_sync_debug_mode",
            "waits cannot be reported: CuPy's own functions wait without telling the caller",
        )


def get_sync_debug_mode() -> int:
    """0: calls that wait for the GPU are not reported.

    Returns
    -------
    int
        0.

    Raises
    ------
    DeviceMissing
        There is no GPU.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     assert st.cuda.get_sync_debug_mode() == 0
    """
    cupy_for("get_sync_debug_mode")
    return 0
