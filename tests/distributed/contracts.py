"""What each collective computes, in plain NumPy.

A contract takes the list of every rank's input in rank order, and returns the list of every rank's
output; `None` is a rank that gets nothing (or whose tensor does not change). `takes` and `gives`
name the argument by which a rank passes its input and its output, and its form:

| form | in a rank of n |
|---|---|
| tensor | one tensor, the same shape on all ranks |
| list | a list of n tensors of that shape |
| wide | n of them, concatenated along the first dimension |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from shmtensor.distributed.collectives.reference import reduce_arrays

IN_PLACE = ("tensor", "tensor")


class Contract(NamedTuple):
    """One collective.

    Attributes:
        function: from all ranks' inputs, then the root and the ReduceOp, to all ranks' outputs.
        takes, gives: (argument, form) of a rank's input and output; in place if they are the same.
        root: the argument that names a rank, or "".
        reduces: whether it takes a ReduceOp.
    """

    function: Callable[..., list[Any]]
    takes: tuple[str, str] = ("", "")
    gives: tuple[str, str] = ("", "")
    root: str = ""
    reduces: bool = False


def only(rank: int, n: int, result: Any) -> list[Any]:
    return [result if r == rank else None for r in range(n)]


def turned(lists: list[Any]) -> list[list[Any]]:
    """Of each rank's parts for all ranks: all ranks' parts for each rank."""
    return [list(parts) for parts in zip(*lists, strict=True)]


CONTRACTS: dict[str, Contract] = {
    "barrier": Contract(lambda xs: xs),
    "broadcast": Contract(lambda xs, src: [xs[src]] * len(xs), IN_PLACE, IN_PLACE, "src"),
    "all_reduce": Contract(
        lambda xs, op: [reduce_arrays(xs, op)] * len(xs), IN_PLACE, IN_PLACE, reduces=True
    ),
    "reduce": Contract(
        lambda xs, dst, op: only(dst, len(xs), reduce_arrays(xs, op)),
        IN_PLACE, IN_PLACE, "dst", reduces=True,
    ),
    "all_gather": Contract(
        lambda xs: [xs] * len(xs), ("tensor", "tensor"), ("tensor_list", "list")
    ),
    "all_gather_into_tensor": Contract(
        lambda xs: [np.concatenate(xs)] * len(xs),
        ("input_tensor", "tensor"), ("output_tensor", "wide"),
    ),
    "gather": Contract(
        lambda xs, dst: only(dst, len(xs), xs), ("tensor", "tensor"), ("gather_list", "list"), "dst"
    ),
    "scatter": Contract(
        lambda xs, src: xs[src], ("scatter_list", "list"), ("tensor", "tensor"), "src"
    ),
    "reduce_scatter": Contract(
        lambda xs, op: [reduce_arrays(parts, op) for parts in turned(xs)],
        ("input_list", "list"), ("output", "tensor"), reduces=True,
    ),
    "reduce_scatter_tensor": Contract(
        lambda xs, op: np.split(reduce_arrays(xs, op), len(xs)),
        ("input", "wide"), ("output", "tensor"), reduces=True,
    ),
    "all_to_all": Contract(turned, ("input_tensor_list", "list"), ("output_tensor_list", "list")),
    "all_to_all_single": Contract(
        lambda xs: [np.concatenate(parts) for parts in turned([np.split(x, len(xs)) for x in xs])],
        ("input", "wide"), ("output", "wide"),
    ),
}  # fmt: skip
