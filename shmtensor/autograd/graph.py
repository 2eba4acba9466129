"""The graph as users see it: its nodes, edges, and the hooks that reach across it."""

from __future__ import annotations

import functools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from .. import native
from .engine.accumulate_grad import (
    AccumulateGrad,
    GradientEdge,
    Handles,
    RemovableHandle,
    node_of_edge,
)
from .engine.grad_fn import shown
from .engine.running import BackwardRun, walks
from .engine.saved_tensors import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from .engine.views_and_inplace import node_of

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class Node(ABC):
    """What `x.grad_fn` is, and what a leaf's gradients end in: for `isinstance`."""

    @abstractmethod
    def name(self) -> str:
        """The name as PyTorch spells it: `MulBackward0`."""

    @property
    @abstractmethod
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes that this one's gradients go to, each with the number of its output."""

    @property
    @abstractmethod
    def metadata(self) -> dict[str, Any]:
        """A dictionary for whoever wants to note something."""

    @abstractmethod
    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Calls `fn(grad_inputs, grad_outputs)` after the node ran; it may return other
        grad_inputs.
        """

    @abstractmethod
    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Calls `fn(grad_outputs)` before the node runs; it may return others."""


Node.register(native.Node)
Node.register(AccumulateGrad)


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """The edge of a tensor that requires grad.

    Raises:
        RuntimeError: it does not require grad.
    """
    edge = node_of(tensor)
    if edge is None:
        raise RuntimeError(
            "get_gradient_edge: It is not possible to get the gradient edge for a Tensor that "
            f"does not require gradients: shape {tensor.array.shape}"
        )
    node, index = node_of_edge(edge)
    return GradientEdge(shown(node), index, edge)


def increment_version(tensor: Any) -> None:
    """Counts a write to a tensor, or several, that was made behind autograd's back."""
    for t in [tensor] if isinstance(tensor, native.TensorBase) else tensor:
        native.wrote(t)


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all"
) -> RemovableHandle:
    """Calls a hook once per backward, when the gradients of several tensors are known.

    Args:
        tensors: each requires grad.
        fn: with mode "all" called as `fn(grads)`, a list with None for what this backward does not
            reach, when the last of them is known; with "any" as `fn(grad)`, with the first.
        mode: "all" or "any".
    """
    if mode not in ("all", "any"):
        raise ValueError(
            f"register_multi_grad_hook: Expects mode to be one of ('all', 'any'): {mode!r}"
        )
    lock = threading.Lock()
    seen: WeakKeyDictionary[BackwardRun, list[Any]] = WeakKeyDictionary()  # gradients by walk
    edges = [get_gradient_edge(t) for t in tensors]

    def arrived(index: int, grad: Any) -> None:
        walk = walks.now
        assert walk is not None  # hooks run in a walk
        with lock:
            first = walk not in seen
            if first:
                seen[walk] = [None] * len(edges)
            seen[walk][index] = grad
            known = sum(g is not None for g in seen[walk])
            grads = list(seen[walk])
        if mode == "any":
            if first:
                fn(grad)
        elif known == sum(walk.will_compute(e.node, e.output_nr) for e in edges):
            fn(grads)

    handles = [t.register_hook(functools.partial(arrived, i)) for i, t in enumerate(tensors)]
    return Handles(handles)
