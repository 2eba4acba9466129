"""Collectives over the GPUs of one process, `torch.cuda.nccl`: refused but for `version`."""

from __future__ import annotations

from typing import Any

from ..refused_names import refused
from .absent import cupy_for

__all__ = [
    "all_gather",
    "all_reduce",
    "broadcast",
    "is_available",
    "reduce",
    "reduce_scatter",
    "version",
]

all_gather: Any = refused("cuda.nccl.all_gather")
all_reduce: Any = refused("cuda.nccl.all_reduce")
broadcast: Any = refused("cuda.nccl.broadcast")
reduce: Any = refused("cuda.nccl.reduce")
reduce_scatter: Any = refused("cuda.nccl.reduce_scatter")


def version() -> tuple[int, int, int]:
    """NCCL's version.

    Returns
    -------
    (major, minor, patch) : int, int, int
        The numbers.

    Raises
    ------
    DeviceMissing
        There is no GPU.
    ModuleNotFoundError
        CuPy finds no NCCL.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     try:
    ...         major, minor, patch = st.cuda.nccl.version()
    ...     except ModuleNotFoundError:
    ...         pass
    """
    cupy = cupy_for("nccl.version")
    if not getattr(cupy.cuda.nccl, "available", False):
        raise ModuleNotFoundError("cuda.nccl.version: CuPy finds no NCCL")
    number = int(cupy.cuda.nccl.get_version())
    return number // 10000, number // 100 % 100, number % 100


def is_available(tensors: Any) -> bool:
    """Whether NCCL's collectives take these tensors: False.

    Parameters
    ----------
    tensors : sequence of Tensor
        Accepted; has no effect.

    Returns
    -------
    bool
        False.

    Examples
    --------
    >>> st.cuda.nccl.is_available([st.ones(2)])
    False
    """
    return False
