"""The operations of the reductions, and what each computes, in plain NumPy: for the small ones of
groups that span nodes, and as the tests' reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce as functools_reduce
from typing import Any

import numpy as np

from ...dtypes import HALVES

Array = np.ndarray[Any, np.dtype[Any]]


class ReduceOp(IntEnum):
    """How a reduction combines two values: SUM, PRODUCT, MIN, MAX, AVG, BAND, BOR, BXOR,
    PREMUL_SUM.

    See Also
    --------
    all_reduce, PremulSum

    Notes
    -----
    The numbers are those of `Fold` in native/ipc/process_group/group.h.

    Examples
    --------
    >>> from shmtensor.distributed import ReduceOp
    >>> ReduceOp.SUM.name
    'SUM'
    """

    SUM = 0
    PRODUCT = 1
    MIN = 2
    MAX = 3
    AVG = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

    def __str__(self) -> str:
        return f"ReduceOp.{self.name}"


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined] # PyTorch's name for the enum


@dataclass(frozen=True)
class PremulSum:
    """The reduction PREMUL_SUM: each rank's tensor times its own factor, summed.

    Parameters
    ----------
    factor : float
        This rank's factor.

    Examples
    --------
    >>> from shmtensor.distributed import PremulSum
    >>> PremulSum(0.5)
    PremulSum(factor=0.5)
    """

    factor: float


UFUNCS: dict[ReduceOp, Callable[[Array, Array], Array]] = {
    ReduceOp.SUM: np.add,
    ReduceOp.PRODUCT: np.multiply,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
    ReduceOp.AVG: np.add,
    ReduceOp.BAND: np.bitwise_and,
    ReduceOp.BOR: np.bitwise_or,
    ReduceOp.BXOR: np.bitwise_xor,
}


def op_and_factor(op: ReduceOp | PremulSum) -> tuple[ReduceOp, float | None]:
    """The operation that ranks compare, and this rank's factor."""
    if isinstance(op, PremulSum):
        return ReduceOp.PREMUL_SUM, op.factor
    if op == ReduceOp.PREMUL_SUM:
        raise ValueError("ReduceOp.PREMUL_SUM: the factor is missing: pass PremulSum(factor)")
    return ReduceOp(op), None


def reduce_arrays(inputs: list[Array], op: ReduceOp = ReduceOp.SUM) -> Array:
    """Reduces in rank order, rank 0 first, each step rounded to the dtype: the same bits on every
    rank, in every run. 16-bit floats are reduced in float32 and rounded once.
    """
    dtype = inputs[0].dtype
    if dtype in HALVES:
        with np.errstate(over="ignore"):  # a sum beyond float16 is infinity, without a warning
            return reduce_arrays([x.astype(np.float32) for x in inputs], op).astype(dtype)
    with np.errstate(all="ignore"):
        out: Array = functools_reduce(UFUNCS[op], inputs).astype(dtype)
    if op is not ReduceOp.AVG:
        return out
    # complex numbers by parts: a complex division would multiply by a rounded reciprocal
    parts = out.view(out.real.dtype)
    return (parts / len(inputs)).astype(parts.dtype).view(dtype)
