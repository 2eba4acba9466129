"""Grad buffers: memory in which an optimizer, or DistributedDataParallel, wants a leaf's gradient.

Note [Gradient buffers] A grad buffer is a native.GradientBuffer in a block of gradients. While
nothing refers to its memory, a pullback that takes `into` (ops/table/op_table.py) gets an
array over it and writes the gradient there. A first gradient from any other pullback is copied
there. So with these pullbacks nothing is copied between a product and the reduction of a bucket, or
the optimizer's step.

Each array over the memory holds a lease, which ends with the last reference to the array (Note
[Leases] in native/memory/gradient_buffer.h). So a gradient that somebody keeps, from an earlier
step or in a hook, is never written again: the buffer gives out no array, and the next gradient gets
other memory. So does the second gradient of a tensor that is used twice, because the backward still
holds the first one.
"""

from __future__ import annotations

from typing import Any

from ... import native
from .accumulate_grad import AccumulateGrad

in_grad_buffer = (
    native.in_grad_buffer
)  # (accumulate_grad, array): is the gradient in its grad buffer?


def take_buffer(edge: Any) -> Any:
    """An array over a leaf's grad buffer, if nothing refers to its memory; else None."""
    if edge.__class__ is not AccumulateGrad:
        return None
    grad_buffer = edge.grad_buffer
    return None if grad_buffer is None else grad_buffer.take()
