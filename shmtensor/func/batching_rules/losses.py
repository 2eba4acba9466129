"""Batching rules of losses: of all elements at once, then each example's mean or sum."""

from __future__ import annotations

import math
from typing import Any

from ...autograd import table


def cross_entropy(call: Any) -> Any:
    """Cross entropy, from the log softmax."""
    x, target = (call.value(v) for v in call.inputs)
    mask = table.ne(target, call.attribute("ignore_index"))
    indices = table._where(mask, target, 0)
    log_probabilities = table.gather(table._log_softmax(x, 2), 2, table.unsqueeze(indices, 2))
    total = table.sum(table._where(mask, table.neg(table.squeeze(log_probabilities, 2)), 0.0), 1)
    if call.attribute("reduction") == "mean":
        total = table.div(total, table.sum(mask, 1))
    return total


def pointwise_losses(call: Any) -> Any:
    """Pointwise losses, then each example's mean or sum."""
    x, y = (call.value(v) for v in call.inputs)
    if x.shape != y.shape:
        return NotImplemented
    losses = call.with_attributes([x, y], reduction="none")
    reduction, dims = call.attribute("reduction"), tuple(range(1, losses.ndim))
    if reduction == "none" or not dims:
        return losses
    return table.mean(losses, dims) if reduction == "mean" else table.sum(losses, dims)


def pointwise_loss_gradients(call: Any) -> Any:
    """Gradients of pointwise losses, from each example's grad_output."""
    g, x, y = (call.value(v) for v in call.inputs)
    if x.shape != y.shape:
        return NotImplemented
    if call.attribute("reduction") != "none":
        n = math.prod(x.shape[1:]) if call.attribute("reduction") == "mean" else 1
        g = table.reshape(table.div(g, n), (-1, *(1,) * (x.ndim - 1)))
        g = table.expand(g, tuple(x.shape))
    return call.with_attributes([g, x, y], reduction="none")
