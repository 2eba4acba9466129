"""Which parameters an output was computed from, on this rank and on any rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ... import native
from ...autograd.engine.accumulate_grad import AccumulateGrad
from ..collectives.reference import ReduceOp
from ..group.process_group import ProcessGroup


def reachable_leaves(out: Any) -> set[int]:
    """Ids of the leaves that the tensors in `out` were computed from."""
    leaves: set[int] = set()
    visited: set[int] = set()
    tensors = list(tensors_in(out))
    stack = [x.node for x in tensors if x.node is not None]
    while stack:
        node = stack.pop()
        if node.__class__ is native.Port:
            node = node.node
        if id(node) in visited:
            continue
        visited.add(id(node))
        if node.__class__ is AccumulateGrad:
            leaves.add(id(node))
        else:
            stack += [e for e in node.edges if e is not None]
    return leaves


def tensors_in(out: Any) -> Iterator[Any]:
    if isinstance(out, native.TensorBase):
        yield out
    elif isinstance(out, dict):
        for each in out.values():
            yield from tensors_in(each)
    elif isinstance(out, (list, tuple)):
        for each in out:
            yield from tensors_in(each)
    elif hasattr(out, "__dict__"):
        yield from tensors_in(vars(out))


def used_on_any_rank(
    group: ProcessGroup, parameters: Sequence[Any], used_leaves: set[int] | None
) -> set[int]:
    """Ids of the parameters that some rank used in this step.

    Args:
        used_leaves: ids of the leaves that this rank used; None: none.
    """
    flags = np.array([id(p.accumulate_grad) in (used_leaves or ()) for p in parameters], np.uint8)
    group.native.all_reduce(flags, ReduceOp.MAX, group.timeout)
    return {id(p) for p, flag in zip(parameters, flags, strict=True) if flag}
