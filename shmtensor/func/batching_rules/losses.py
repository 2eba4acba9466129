"""Batching rules of losses: those of all examples at once, then each example's mean or sum."""

from __future__ import annotations

import math
from typing import Any

from ...autograd import table

__all__ = ["entropy", "pointwise_loss_gradients", "pointwise_losses"]


def entropy(call: Any) -> Any:
    """Cross entropy, from the logarithms of the softmax."""
    x, target = (call.value(v) for v in call.inputs)
    counts = table.ne(target, call.attribute("ignore_index"))
    safe = table._where(counts, target, 0)
    picked = table.gather(table._log_softmax(x, 2), 2, table.unsqueeze(safe, 2))
    total = table.sum(table._where(counts, table.neg(table.squeeze(picked, 2)), 0.0), 1)
    if call.attribute("reduction") == "mean":
        total = table.div(total, table.sum(counts, 1))
    return total


def pointwise_losses(call: Any) -> Any:
    """Losses of two numbers: all of them, then each example's mean or sum."""
    x, y = (call.value(v) for v in call.inputs)
    if x.shape != y.shape:
        return NotImplemented
    losses = call.with_attributes([x, y], reduction="none")
    how, rest = call.attribute("reduction"), tuple(range(1, losses.ndim))
    if how == "none" or not rest:
        return losses
    return table.mean(losses, rest) if how == "mean" else table.sum(losses, rest)


def pointwise_loss_gradients(call: Any) -> Any:
    """Their gradients, with each example's own incoming one."""
    g, x, y = (call.value(v) for v in call.inputs)
    if x.shape != y.shape:
        return NotImplemented
    if call.attribute("reduction") != "none":
        n = math.prod(x.shape[1:]) if call.attribute("reduction") == "mean" else 1
        g = table.reshape(table.div(g, n), (-1, *(1,) * (x.ndim - 1)))
        g = table.expand(g, tuple(x.shape))
    return call.with_attributes([g, x, y], reduction="none")
