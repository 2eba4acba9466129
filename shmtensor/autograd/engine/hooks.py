"""Hooks: user code that reads or replaces gradients during a backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import native
from ...cuda_arrays import copy_array, device_of
from ...ops.table.sparse_gradient import SparseGradient
from .accumulate_grad import AccumulateGrad, Hooks, RemovableHandle, hooks_of, node_of_edge
from .views_and_inplace import node_of

Hook = Callable[..., Any]


def register(tensor: Any, hook: Hook) -> RemovableHandle:
    """Calls `hook(g)` with the tensor's complete gradient; it may return another."""
    node = node_of(tensor)
    if node is None:
        raise RuntimeError(
            "register_hook: cannot register a hook on a tensor that doesn't require gradient: "
            f"shape {tensor.array.shape}"
        )
    if node.__class__ is AccumulateGrad:
        if node.hooks is None:
            node.hooks = {}
        return RemovableHandle(node.hooks, hook)
    owner, index = node_of_edge(node)
    return RemovableHandle(hooks_of(owner).tensor_hooks.setdefault(index, {}), hook)


def post_accumulate(tensor: Any, hook: Hook) -> RemovableHandle:
    """Calls `hook(tensor)` after a gradient was added to the leaf's `.grad`."""
    if tensor.node.__class__ is not AccumulateGrad:
        raise RuntimeError(
            "register_post_accumulate_grad_hook: post accumulate grad hooks cannot be registered "
            f"on non-leaf tensors: shape {tensor.array.shape}"
        )
    node = tensor.node
    if node.posthooks is None:
        node.posthooks = {}
    return RemovableHandle(node.posthooks, hook)


def as_tensor(g: Any) -> Any:
    return g if g is None or isinstance(g, (native.TensorBase, SparseGradient)) else native.wrap(g)


def as_gradient(result: Any, g: Any, where: str) -> Any:
    """A hook's result, as a Tensor or array like g; None keeps the gradient."""
    if result is None:
        return g
    if isinstance(result, SparseGradient) and (g is None or result.shape == g.shape):
        return result
    if not isinstance(result, native.TensorBase):
        raise TypeError(f"{where}: a hook must return None or a Tensor: {type(result).__name__}")
    old = g.array if isinstance(g, native.TensorBase) else g
    if old is not None and result.array.shape != old.shape:
        raise RuntimeError(
            f"{where}: a hook has changed the size of the gradient: {result.array.shape} is not "
            f"{old.shape}"
        )
    is_on_cpu = isinstance(result.array, np.ndarray) and isinstance(old, np.ndarray)
    if not is_on_cpu and old is not None and device_of(result.array) != device_of(old):
        raise RuntimeError(
            f"{where}: a hook has changed the device of the gradient: {device_of(result.array)} is "
            f"not {device_of(old)}: shape {old.shape}"
        )
    return result if isinstance(g, native.TensorBase) else result.array


def run_tensor_hooks(hooks: dict[int, Hook], g: Any) -> Any:
    """The gradient after the tensor's hooks."""
    for hook in list(hooks.values()):
        g = as_gradient(hook(as_tensor(g)), g, "register_hook")
    return g


def run_tensor_prehooks(hooks: Hooks, g: Any) -> Any:
    """Runs tensor hooks and `retain_grad` on the complete gradients of a node's outputs, even if
    the node itself will not run.
    """
    gs = g if isinstance(g, list) else [g]
    for index, tensor_hooks in hooks.tensor_hooks.items():
        if index < len(gs) and gs[index] is not None:
            gs[index] = run_tensor_hooks(tensor_hooks, gs[index])
    for index, reference in hooks.retains_grad.items():
        tensor = reference()
        if tensor is not None and index < len(gs) and gs[index] is not None:
            g_retained = as_tensor(gs[index])
            if g_retained.node is None:
                array = g_retained.array
                is_on_cpu = isinstance(array, np.ndarray)
                g_retained = native.wrap(array.copy() if is_on_cpu else copy_array(array))
            old = tensor.accumulate_grad.grad
            tensor.accumulate_grad.grad = g_retained if old is None else old + g_retained
    return g if isinstance(g, list) else gs[0]


def returned(results: Any, old: Sequence[Any], name: str) -> list[Any]:
    """The gradients that a node's hook returned in place of the old ones."""
    results = results if isinstance(results, tuple) else (results,)
    if len(results) != len(old):
        raise RuntimeError(
            f"{name}: the hook returned an incorrect number of values: {len(results)}, "
            f"expected {len(old)}"
        )
    return [as_gradient(new, g, name) for new, g in zip(results, old)]


def run_prehooks(hooks: dict[int, Hook], g: Any) -> Any:
    """The gradient after the node's prehooks."""
    gs = g if isinstance(g, list) else [g]
    for hook in list(hooks.values()):
        results = hook(tuple(as_tensor(x) for x in gs))
        if results is not None:
            gs = returned(results, gs, "register_prehook")
    return gs if isinstance(g, list) else gs[0]


def run_posthooks(hooks: Hooks, grads: tuple[Any, ...], g: Any) -> tuple[Any, ...]:
    """The gradients of a node's inputs after its posthooks."""
    gs = g if isinstance(g, list) else [g]
    for hook in list(hooks.posthooks.values()):
        results = hook(tuple(as_tensor(x) for x in grads), tuple(as_tensor(x) for x in gs))
        if results is not None:
            grads = tuple(returned(results, grads, "register_hook"))
    return grads
