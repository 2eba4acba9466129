"""Gradients that a leaf adds to its `.grad`, and those with a history."""

from __future__ import annotations

from typing import Any

from ... import native
from ...cuda_arrays import device_of
from ...ops.table.sparse_gradient import SparseGradient
from ..dispatch.devices import registered
from ..dispatch.explain_error import is_writable
from ..dispatch.op_function import table
from .grad_buffer import in_grad_buffer
from .sparse_grad import add_sparse


def add_to_grad(accumulate_grad: Any, old: Any, g: Any, create_graph: bool) -> None:
    """Adds a gradient to a leaf's `.grad`, or sets one with history."""
    if isinstance(g, SparseGradient) or isinstance(old, SparseGradient):
        accumulate_grad.grad = g if old is None else add_sparse(old, g, create_graph, True)
    elif create_graph:
        accumulate_grad.grad = (
            in_layout_of_grad(accumulate_grad, g) if old is None else table.add(old, g)
        )
    else:
        try:
            add_arrays_to_grad(accumulate_grad, old, g)
        except (TypeError, ValueError, RuntimeError) as error:
            explain_grad(old.array, g, error)
            raise


def add_arrays_to_grad(accumulate_grad: Any, old: Any, g: Any) -> None:
    """Adds a gradient without history: in place, unless `.grad` has a history."""
    if accumulate_grad.grad_buffer is not None and in_grad_buffer(accumulate_grad, old.array):
        registered.add_arrays(old.array, g, old.array)
    elif old.node is None:
        native.write(old, registered.add_arrays, old.array, g, old.array)
    else:
        accumulate_grad.grad = native.wrap(native.call(registered.add_arrays, old.array, g))


def explain_grad(old: Any, g: Any, error: Exception) -> None:
    """Raises RuntimeError if `.grad` is on another device than the gradient, or if it cannot be
    written.
    """
    if device_of(old) != device_of(g):
        raise RuntimeError(
            f"backward: the .grad is on {device_of(old)}, the gradient on {device_of(g)}: shape "
            f"{old.shape}, set .grad to None or move it"
        ) from error
    if isinstance(error, ValueError) and not is_writable(old):
        raise RuntimeError(
            f"backward: the .grad of a leaf cannot be written: shape {old.shape}, it is expanded "
            "or read-only; set it to None or to a clone()"
        ) from error


def in_layout_of_grad(accumulate_grad: Any, g: Any) -> Any:
    """A gradient with history, in the layout that `.grad` needs. Copies: none or one."""
    like = native.in_layout_of_grad(g.array, accumulate_grad.tensor)
    if like is g.array:
        return g
    order = sorted(range(like.ndim), key=lambda d: -like.strides[d])
    inverse = sorted(range(like.ndim), key=order.__getitem__)
    return table.permute(table._contiguous(table.permute(g, order)), inverse)
