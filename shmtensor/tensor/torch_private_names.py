"""PyTorch's private names of tensors and layers that programs assign: they work as there, or raise.

A private name that is not PyTorch's is an attribute of the user's own, and is stored as such.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..autograd.engine.accumulate_grad import AccumulateGrad, hooks_of, node_of_edge
from ..autograd.engine.views_and_inplace import node_of

if TYPE_CHECKING:
    from .tensor import Tensor


class Unsupported:
    """A name that has an effect in PyTorch and none here: there is no such attribute, and assigning
    anything but None raises.

    Args:
        hint: what to do instead.
    """

    def __init__(self, hint: str) -> None:
        self.hint = hint

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        raise AttributeError(f"'{owner.__name__}' object has no attribute '{self.name}'")

    def __set__(self, instance: Any, value: Any) -> None:
        if value is not None:
            raise AttributeError(
                f"{type(instance).__name__}.{self.name}: this private name of PyTorch's has no "
                f"effect here: {type(value).__name__}, hint: {self.hint}"
            )


def set_grad_fn(tensor: Tensor, value: Any) -> None:
    """`_grad_fn = None` drops the history, as `detach_`."""
    if value is not None:
        raise RuntimeError(f"_grad_fn can be only set to None: got {type(value).__name__}")
    tensor.detach_()


def backward_hooks(tensor: Tensor) -> Any:
    """The tensor's hooks by id; None if there are none."""
    node = node_of(tensor)
    if node is None:
        return None
    if node.__class__ is AccumulateGrad:
        return node.hooks or None
    owner, index = node_of_edge(node)
    return None if owner.hooks is None else owner.hooks.tensor_hooks.get(index) or None


def set_backward_hooks(tensor: Tensor, value: Any) -> None:
    """Replaces the tensor's hooks; None removes them."""
    hooks = as_hooks("_backward_hooks", value)
    node = node_of(tensor)
    if node is None:
        if hooks:
            raise RuntimeError(
                "_backward_hooks: cannot register a hook on a tensor that doesn't require "
                f"gradient: shape {tuple(tensor.shape)}"
            )
    elif node.__class__ is AccumulateGrad:
        node.hooks = hooks
    else:
        owner, index = node_of_edge(node)
        if hooks is not None:
            hooks_of(owner).tensor_hooks[index] = hooks
        elif owner.hooks is not None:
            owner.hooks.tensor_hooks.pop(index, None)


def post_accumulate_grad_hooks(tensor: Tensor) -> Any:
    """The hooks that run after backward has added to `.grad`, by id; None if there are none."""
    node = tensor.node
    return node.posthooks or None if node.__class__ is AccumulateGrad else None


def set_post_accumulate_grad_hooks(tensor: Tensor, value: Any) -> None:
    """Replaces the hooks that run after backward has added to `.grad`; None removes them."""
    hooks = as_hooks("_post_accumulate_grad_hooks", value)
    if tensor.node.__class__ is AccumulateGrad:
        tensor.node.posthooks = hooks
    elif hooks:
        raise RuntimeError(
            "_post_accumulate_grad_hooks: post accumulate grad hooks cannot be registered on "
            f"non-leaf tensors: shape {tuple(tensor.shape)}"
        )


def as_hooks(name: str, value: Any) -> Any:
    """The mapping of ids to hooks, or None if it has none."""
    if value is not None and not (
        isinstance(value, Mapping) and all(map(callable, value.values()))
    ):
        raise TypeError(f"{name}: must be a dict of hooks by id, or None: {value!r}")
    return value if value else None
