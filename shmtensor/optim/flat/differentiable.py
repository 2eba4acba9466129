"""Differentiable steps, in tensor operations: differentiable=True."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd import enable_grad, wrap
from ...autograd import table as ops
from ...tensor import Tensor
from .. import reference_updates
from ..arguments import as_numbers
from .flat_parameters import scalar_dtype

if TYPE_CHECKING:
    from .flat_optimizer import FlatOptimizer


def step_in_graph(optimizer: FlatOptimizer, group: dict[str, Any]) -> None:
    """Updates a group's parameters in place, by the reference rule of the optimizer.

    Each step makes new state tensors, so that backward can go through several steps.
    """
    name = type(optimizer).__name__
    if group["foreach"]:
        raise AssertionError(
            f"{name}: _foreach ops don't support autograd: foreach=True, differentiable=True"
        )
    for p in group["params"]:
        if p.grad is None:
            continue
        if p.grad.is_sparse:
            raise RuntimeError(
                f"{name} does not support sparse gradients in differentiable steps: that of a "
                f"parameter of shape {tuple(p.shape)} is one"
            )
        with enable_grad():
            step_one(optimizer, group, p)


def step_one(optimizer: FlatOptimizer, group: dict[str, Any], p: Any) -> None:
    entry, names = optimizer.state[p], optimizer._names(group)
    initial = optimizer._initial(as_numbers(group))
    scalars = {name: scalar(entry.get(name, initial.get(name, 0.0))) for name in optimizer.scalars}
    state = {name: value_or_initial(p, entry.get(name), initial.get(name, 0.0)) for name in names}
    steps_before = (
        float(entry["step"]) if "step" in entry else float(any(name in entry for name in names))
    )
    step = int(steps_before) + 1
    x, g, parts = p, p.grad, state
    if p.is_complex():
        x, g = ops.view_as_real(p), ops.view_as_real(g)
        parts = {name: ops.view_as_real(value) for name, value in state.items()}
    arrays = [parts.get(name) for name in optimizer.states]
    rule = getattr(reference_updates, optimizer.rule)
    new, *results = rule.compute(x, g, *arrays, *optimizer._arguments(group, step, scalars))
    x[...] = new
    if optimizer.counts:
        entry["step"] = wrap(np.array(step, scalar_dtype()))
    for name, value in optimizer._next_scalars(as_numbers(group), step, scalars).items():
        entry[name] = wrap(np.array(value, scalars[name].dtype))
    for name, value in zip(optimizer.states, results, strict=True):
        if name in names:
            entry[name] = ops.view_as_complex(value) if p.is_complex() else value


def scalar(value: Any) -> Any:
    """A 0-dim tensor or a number as a NumPy scalar of the state's dtype."""
    return value.array[()] if isinstance(value, Tensor) else scalar_dtype().type(value)


def value_or_initial(p: Any, value: Any, initial: float) -> Any:
    """A state tensor of parameter p, or a new one with its initial value."""
    if value is not None:
        return value
    array = np.zeros_like(p.array)
    array[...] = complex(initial, initial) if p.is_complex() else initial
    return wrap(array)
