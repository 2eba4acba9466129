"""Hooks: user code that sees, or replaces, gradients on their way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import native
from ...ops.table.sparse_gradient import SparseGradient
from .accumulate_grad import AccumulateGrad, Hooks, RemovableHandle, hooks_of, node_of_edge
from .views_and_inplace import node_of, retain

__all__ = ["post_accumulate", "register", "retain", "run_after", "run_before", "run_tensor_hooks"]

Hook = Callable[..., Any]


def register(tensor: Any, hook: Hook) -> RemovableHandle:
    """Calls `hook(g)` when the tensor's gradient is known; it may return another."""
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
    return RemovableHandle(hooks_of(owner).outputs.setdefault(index, {}), hook)


def post_accumulate(tensor: Any, hook: Hook) -> RemovableHandle:
    """Calls `hook(tensor)` after a gradient was added to the leaf's `.grad`."""
    if tensor.node.__class__ is not AccumulateGrad:
        raise RuntimeError(
            "register_post_accumulate_grad_hook: post accumulate grad hooks cannot be registered "
            f"on non-leaf tensors: shape {tensor.array.shape}"
        )
    leaf = tensor.node
    if leaf.post is None:
        leaf.post = {}
    return RemovableHandle(leaf.post, hook)


def as_tensor(g: Any) -> Any:
    return g if g is None or isinstance(g, (native.TensorBase, SparseGradient)) else native.wrap(g)


def as_given(made: Any, g: Any, where: str) -> Any:
    """What a hook returned, in the form that the walk uses; None keeps the gradient."""
    if made is None:
        return g
    if isinstance(made, SparseGradient) and (g is None or made.shape == g.shape):
        return made
    if not isinstance(made, native.TensorBase):
        raise TypeError(f"{where}: a hook must return None or a Tensor: {type(made).__name__}")
    old = g.array if isinstance(g, native.TensorBase) else g
    if old is not None and made.array.shape != old.shape:
        raise RuntimeError(
            f"{where}: a hook has changed the size of the gradient: {made.array.shape} is not "
            f"{old.shape}"
        )
    return made if isinstance(g, native.TensorBase) else made.array


def run_tensor_hooks(hooks: dict[int, Hook], g: Any) -> Any:
    """The gradient after the tensor's hooks."""
    for hook in list(hooks.values()):
        g = as_given(hook(as_tensor(g)), g, "register_hook")
    return g


def run_before(hooks: Hooks, g: Any) -> Any:
    """What is to be done with its outputs' gradients when they are complete, whether the node will
    run or not.
    """
    gs = g if isinstance(g, list) else [g]
    for index, own in hooks.outputs.items():
        if index < len(gs) and gs[index] is not None:
            gs[index] = run_tensor_hooks(own, gs[index])
    for index, reference in hooks.retained.items():
        tensor = reference()
        if tensor is not None and index < len(gs) and gs[index] is not None:
            g_kept = as_tensor(gs[index])
            if g_kept.node is None:
                g_kept = native.wrap(g_kept.array.copy())
            old = tensor.leaf.grad
            tensor.leaf.grad = g_kept if old is None else old + g_kept
    return g if isinstance(g, list) else gs[0]


def run_prehooks(hooks: dict[int, Hook], g: Any) -> Any:
    """The gradient after the node's own hooks: it is about to run."""
    gs = g if isinstance(g, list) else [g]
    for hook in list(hooks.values()):
        made = hook(tuple(as_tensor(one) for one in gs))
        if made is not None:
            made = made if isinstance(made, tuple) else (made,)
            gs = [as_given(new, old, "register_prehook") for new, old in zip(made, gs)]
    return gs if isinstance(g, list) else gs[0]


def run_after(hooks: Hooks, grads: tuple[Any, ...], g: Any) -> tuple[Any, ...]:
    """What is to be done with a node's outgoing gradients."""
    gs = g if isinstance(g, list) else [g]
    for hook in list(hooks.post.values()):
        made = hook(tuple(as_tensor(x) for x in grads), tuple(as_tensor(x) for x in gs))
        if made is not None:
            made = made if isinstance(made, tuple) else (made,)
            grads = tuple(as_given(new, old, "register_hook") for new, old in zip(made, grads))
    return grads
