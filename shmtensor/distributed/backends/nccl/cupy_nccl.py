"""CuPy, its NCCL and this rank's GPU, or an error that says what to install; NCCL's constants."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from .... import dtypes
from ....device import EXTRA
from ...collectives.reference import ReduceOp
from ...rendezvous.launch_environment import launch_environment

MIN_VERSION = 21000  # NCCL 2.10: bfloat16 and the average
BYTE = 1  # ncclUint8: data that is not reduced is sent as bytes

# ncclDataType_t and ncclRedOp_t in nccl.h. NCCL has no 16-bit integers, booleans, complex numbers.
DTYPE_NUMBERS = {
    dtypes.int8: 0,
    dtypes.uint8: 1,
    dtypes.int32: 2,
    dtypes.uint32: 3,
    dtypes.int64: 4,
    dtypes.uint64: 5,
    dtypes.float16: 6,
    dtypes.float32: 7,
    dtypes.float64: 8,
    dtypes.bfloat16: 9,
}
OP_NUMBERS = {
    ReduceOp.SUM: 0,
    ReduceOp.PREMUL_SUM: 0,  # the operands are multiplied already
    ReduceOp.PRODUCT: 1,
    ReduceOp.MAX: 2,
    ReduceOp.MIN: 3,
    ReduceOp.AVG: 4,
}


def number_of(dtype: np.dtype[Any], op: ReduceOp) -> tuple[int, int] | None:
    """NCCL's numbers of the dtype and the operation; None: NCCL does not have this reduction."""
    dtype_number, op_number = DTYPE_NUMBERS.get(dtype), OP_NUMBERS.get(op)
    return None if dtype_number is None or op_number is None else (dtype_number, op_number)


def nccl_module(cupy: Any) -> Any:
    """`cupy.cuda.nccl`, or None if CuPy has found no library."""
    module = getattr(cupy.cuda, "nccl", None)
    if module is None:
        try:
            module = import_module("cupy.cuda.nccl")
        except ImportError:
            return None
    return module if getattr(module, "available", True) else None


def find_cupy() -> tuple[Any, Any]:
    """The modules `cupy` and `cupy.cuda.nccl`.

    Raises:
        RuntimeError: one of them, or a GPU, is missing; the message says what to install.
    """
    try:
        cupy = import_module("cupy")
    except ImportError as error:
        raise RuntimeError(f"the backend nccl needs CuPy: {error}; {EXTRA}") from error
    nccl = nccl_module(cupy)
    if nccl is None:
        raise RuntimeError(
            "the backend nccl needs NCCL, and CuPy has found none: pip install nvidia-nccl-cu12 "
            "(or nvidia-nccl-cu13, as CuPy's own package)"
        )
    if nccl.get_version() < MIN_VERSION:
        raise RuntimeError(
            f"the backend nccl needs NCCL 2.10 or newer: this is {nccl.get_version()}, "
            "pip install -U nvidia-nccl-cu12 (or nvidia-nccl-cu13)"
        )
    if not cupy.cuda.is_available():
        raise RuntimeError(
            "the backend nccl needs a GPU for each rank, and CuPy finds none; without one the "
            "backend is shm"
        )
    return cupy, nccl


def count_gpus() -> int:
    """How many GPUs CuPy sees; 0 without CuPy."""
    try:
        return int(import_module("cupy").cuda.runtime.getDeviceCount())
    except Exception:  # not installed; or no driver, which has an error of CuPy's own
        return 0


def is_usable() -> bool:
    """Whether this process has CuPy with NCCL, and a GPU."""
    try:
        find_cupy()
    except RuntimeError:
        return False
    return True


def find_device(cupy: Any, rank: int) -> tuple[int, str]:
    """The number of this rank's GPU, and its PCI bus id: the GPU of its local rank, or the only one
    that the process sees.

    Raises:
        RuntimeError: there are more ranks than GPUs.
    """
    count = int(cupy.cuda.runtime.getDeviceCount())
    local_rank = launch_environment().local_rank
    local = rank if local_rank is None else local_rank
    if count > 1 and local >= count:
        raise RuntimeError(
            f"the backend nccl needs a GPU for each rank: there is none for local rank {local}, "
            f"CuPy finds {count}"
        )
    index = local if count > 1 else 0
    return index, str(cupy.cuda.runtime.deviceGetPCIBusId(index))
