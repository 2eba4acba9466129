"""Homes: where an optimizer, or DistributedDataParallel, wants the gradient of a leaf to be.

Note [Born at home]
A home is a native.GradientBuffer in a block of gradients. While nobody sees its memory, a pullback
that knows `into` (ops/table/op_definition.py) gets an array over it and writes the gradient there
at once; of the others' gradients the walk copies the first one there. So with these pullbacks
nothing is copied between a product and the reduction of a bucket, or the optimizer's step.

Each array over the memory holds a lease, which ends with whatever sees the array (Note [Leases] in
native/memory/gradient_buffer.h). So the gradient of a step before that somebody keeps, or one that
a hook has put away, is never written again: the home gives nothing out, and the next gradient is
elsewhere. A tensor that is used twice gets the second gradient elsewhere, because the walk holds
the first one.
"""

from __future__ import annotations

from typing import Any

from ... import native
from .accumulate_grad import AccumulateGrad

__all__ = ["in_grad_buffer", "offered"]

in_grad_buffer = native.in_grad_buffer  # (leaf, array): is the gradient where the leaf's home is?


def offered(edge: Any) -> Any:
    """An array over the home of a leaf if nobody sees it, its own `.grad` neither; else None."""
    if edge.__class__ is not AccumulateGrad:
        return None
    home = edge.grad_buffer
    return None if home is None else home.take()
