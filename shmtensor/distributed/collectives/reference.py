"""What each collective computes, in plain NumPy over the list of all ranks' inputs: documentation,
and the tests' reference.

A contract takes the list of every rank's input in rank order, and returns the list of every rank's
output; `None` is a rank that gets nothing (or whose tensor does not change). Its declaration says
by which arguments a rank passes its input and its output:

| form | in a rank of n |
|---|---|
| tensor | one tensor, the same shape on all ranks |
| list | a list of n tensors of that shape |
| wide | n of them, concatenated along the first dimension |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce as functools_reduce
from typing import Any

import numpy as np

from ...dtypes import HALVES

__all__ = ["CONTRACTS", "Contract", "PremulSum", "ReduceOp", "op_and_factor", "reduce_arrays"]

Array = np.ndarray[Any, np.dtype[Any]]


class ReduceOp(IntEnum):
    """How a reduction combines two values; the numbers are those of `Fold` in
    native/ipc/process_group/group.h.
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
    ReduceOp.PREMUL_SUM: np.add,
}


def op_and_factor(op: ReduceOp | PremulSum) -> tuple[ReduceOp, float | None]:
    """The operation that ranks compare, and this rank's factor."""
    if isinstance(op, PremulSum):
        return ReduceOp.PREMUL_SUM, op.factor
    if op == ReduceOp.PREMUL_SUM:
        raise ValueError("ReduceOp.PREMUL_SUM: the factor is missing: pass PremulSum(factor)")
    return ReduceOp(op), None


def reduce_arrays(inputs: list[Array], op: ReduceOp | PremulSum = ReduceOp.SUM) -> Array:
    """Reduces in rank order, rank 0 first, each step rounded to the dtype: the same bits on every
    rank, in every run. 16-bit floats are reduced in float32 and rounded once.
    """
    op, factor = op_and_factor(op)
    dtype = inputs[0].dtype
    if dtype in HALVES:
        if factor is not None:
            with np.errstate(all="ignore"):
                inputs = [(x * np.asarray(factor, dtype)).astype(dtype) for x in inputs]
            op = ReduceOp.SUM
        with np.errstate(over="ignore"):  # a sum beyond float16 is infinity, without a warning
            return reduce_arrays([x.astype(np.float32) for x in inputs], op).astype(dtype)
    with np.errstate(all="ignore"):
        if factor is not None:
            inputs = [(x * np.asarray(factor, x.dtype)).astype(x.dtype) for x in inputs]
        out: Array = functools_reduce(UFUNCS[op], inputs).astype(inputs[0].dtype)
    if op is not ReduceOp.AVG:
        return out
    if out.dtype.kind == "c":  # by parts: a complex division would multiply by a rounded reciprocal
        parts = out.view(out.real.dtype)
        out = (parts / parts.dtype.type(len(inputs))).view(out.dtype)
    else:
        out = (out / len(inputs)).astype(out.dtype)
    return out


Function = Callable[..., list[Any]]


@dataclass(frozen=True)
class Contract:
    """One collective.

    Attributes:
        function: from all ranks' inputs to all ranks' outputs.
        takes, gives: (argument, form) of a rank's input and output. In place if they are the same
            argument.
        root: the argument that names a rank, or "".
        reduces: whether it takes a ReduceOp.
    """

    function: Function
    takes: tuple[str, str]
    gives: tuple[str, str]
    root: str = ""
    reduces: bool = False

    def __call__(self, *inputs: Any) -> list[Any]:
        return self.function(*inputs)


CONTRACTS: dict[str, Contract] = {}


def contract(
    takes: tuple[str, str] = ("", ""),
    gives: tuple[str, str] = ("", ""),
    root: str = "",
    reduces: bool = False,
) -> Callable[[Function], Contract]:
    """Adds a contract to the table, under its own name."""

    def register(function: Function) -> Contract:
        entry = Contract(function, takes, gives, root, reduces)
        CONTRACTS[function.__name__] = entry
        return entry

    return register


IN_PLACE = ("tensor", "tensor")


@contract()
def barrier(inputs: list[None]) -> list[None]:
    """Nobody returns before everybody has called."""
    return [None for _ in inputs]


@contract(IN_PLACE, IN_PLACE, root="src")
def broadcast(inputs: list[Array], src: int = 0) -> list[Array]:
    """Everybody's tensor becomes that of `src`."""
    return [inputs[src] for _ in inputs]


@contract(IN_PLACE, IN_PLACE, reduces=True)
def all_reduce(inputs: list[Array], op: ReduceOp = ReduceOp.SUM) -> list[Array]:
    """Everybody's tensor becomes the reduction of all, in place."""
    return [reduce_arrays(inputs, op) for _ in inputs]


@contract(IN_PLACE, IN_PLACE, root="dst", reduces=True)
def reduce(inputs: list[Array], dst: int = 0, op: ReduceOp = ReduceOp.SUM) -> list[Array | None]:
    """The tensor of `dst` becomes the reduction of all; the others' do not change."""
    return [reduce_arrays(inputs, op) if rank == dst else None for rank in range(len(inputs))]


@contract(("tensor", "tensor"), ("tensor_list", "list"))
def all_gather(inputs: list[Array]) -> list[list[Array]]:
    """Everybody gets the list of all tensors."""
    return [list(inputs) for _ in inputs]


@contract(("input_tensor", "tensor"), ("output_tensor", "wide"))
def all_gather_into_tensor(inputs: list[Array]) -> list[Array]:
    """Everybody gets all tensors, concatenated along the first dimension."""
    return [np.concatenate([np.atleast_1d(x) for x in inputs]) for _ in inputs]


@contract(("tensor", "tensor"), ("gather_list", "list"), root="dst")
def gather(inputs: list[Array], dst: int = 0) -> list[list[Array] | None]:
    """`dst` gets the list of all tensors."""
    return [list(inputs) if rank == dst else None for rank in range(len(inputs))]


@contract(("scatter_list", "list"), ("tensor", "tensor"), root="src")
def scatter(inputs: list[list[Array] | None], src: int = 0) -> list[Array]:
    """Rank r gets the r-th tensor of the list that `src` has."""
    tensors = inputs[src]
    assert tensors is not None
    return [tensors[rank] for rank in range(len(inputs))]


@contract(("input_list", "list"), ("output", "tensor"), reduces=True)
def reduce_scatter(inputs: list[list[Array]], op: ReduceOp = ReduceOp.SUM) -> list[Array]:
    """Rank r gets the reduction of everybody's r-th tensor."""
    return [reduce_arrays([tensors[rank] for tensors in inputs], op) for rank in range(len(inputs))]


@contract(("input", "wide"), ("output", "tensor"), reduces=True)
def reduce_scatter_tensor(inputs: list[Array], op: ReduceOp = ReduceOp.SUM) -> list[Array]:
    """Rank r gets the r-th equal part (of the first dimension) of the reduction."""
    return np.split(reduce_arrays(inputs, op), len(inputs))


@contract(("input_tensor_list", "list"), ("output_tensor_list", "list"))
def all_to_all(inputs: list[list[Array]]) -> list[list[Array]]:
    """Rank r gets everybody's r-th tensor, in rank order."""
    return [[tensors[rank] for tensors in inputs] for rank in range(len(inputs))]


@contract(("input", "wide"), ("output", "wide"))
def all_to_all_single(inputs: list[Array]) -> list[Array]:
    """Rank r gets everybody's r-th equal part (of the first dimension), in rank order."""
    parts = [np.split(x, len(inputs)) for x in inputs]
    return [np.concatenate([part[rank] for part in parts]) for rank in range(len(inputs))]
