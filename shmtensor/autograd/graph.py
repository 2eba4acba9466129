"""The graph for users: nodes, edges, and hooks on several tensors."""

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
from .engine.current_backward import BackwardRun, backward_state
from .engine.grad_fn import as_grad_fn
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
    """The class of `x.grad_fn` and of AccumulateGrad, for `isinstance`: an op of the recorded
    graph.

    Examples
    --------
    >>> y = st.ones(1, requires_grad=True).exp()
    >>> isinstance(y.grad_fn, st.autograd.graph.Node), y.grad_fn.name()
    (True, 'ExpBackward0')
    """

    @abstractmethod
    def name(self) -> str:
        """The name as PyTorch spells it: `MulBackward0`."""

    @property
    @abstractmethod
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes that receive this one's gradients, each with the number of its output."""

    @property
    @abstractmethod
    def metadata(self) -> dict[str, Any]:
        """A dictionary for the user's own data."""

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
    """The edge of a tensor that requires grad: its node and the number of the node's output.

    Parameters
    ----------
    tensor : Tensor
        Requires grad.

    Returns
    -------
    GradientEdge
        A pair (node, output_nr), which `grad` and `backward` take in the place of a tensor.

    Raises
    ------
    RuntimeError
        It does not require grad.

    Examples
    --------
    >>> x = st.tensor([2.0], requires_grad=True)
    >>> y = x * x
    >>> edge = st.autograd.graph.get_gradient_edge(y)
    >>> st.autograd.grad(y * 5, edge)
    (tensor([5.]),)
    """
    edge = node_of(tensor)
    if edge is None:
        raise RuntimeError(
            "get_gradient_edge: It is not possible to get the gradient edge for a Tensor that "
            f"does not require gradients: shape {tensor.array.shape}"
        )
    node, index = node_of_edge(edge)
    return GradientEdge(as_grad_fn(node), index, edge, tensor.device)


def increment_version(tensor: Any) -> None:
    """Counts a write that autograd has not seen to a tensor, or to several.

    Parameters
    ----------
    tensor : Tensor or iterable of Tensor
        What was written.

    Examples
    --------
    >>> x = st.zeros(2)
    >>> st.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    for t in [tensor] if isinstance(tensor, native.TensorBase) else tensor:
        native.wrote(t)


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all"
) -> RemovableHandle:
    """Calls a hook once per backward, when the gradients of several tensors are computed.

    Parameters
    ----------
    tensors : sequence of Tensor
        Each requires grad.
    fn : callable
        With mode "all", called as `fn(grads)` when the last gradient is computed; the list has None
        for tensors that this backward does not reach. With "any", called as `fn(grad)` with the
        first gradient.
    mode : str, optional
        "all" or "any".

    Returns
    -------
    RemovableHandle
        Its `remove` ends the calls.

    Raises
    ------
    ValueError
        Another mode.

    Examples
    --------
    >>> x, y = st.ones(1, requires_grad=True), st.ones(1, requires_grad=True)
    >>> handle = st.autograd.graph.register_multi_grad_hook([x, y], lambda grads: print(grads))
    >>> (x * 2 + y * 3).backward()
    [tensor([2.]), tensor([3.])]
    """
    if mode not in ("all", "any"):
        raise ValueError(
            f"register_multi_grad_hook: Expects mode to be one of ('all', 'any'): {mode!r}"
        )
    lock = threading.Lock()
    gradients_of: WeakKeyDictionary[BackwardRun, list[Any]] = WeakKeyDictionary()
    edges = [get_gradient_edge(t) for t in tensors]

    def hook(index: int, grad: Any) -> None:
        run = backward_state.current
        assert run is not None  # hooks run inside a backward
        with lock:
            is_first = run not in gradients_of
            if is_first:
                gradients_of[run] = [None] * len(edges)
            gradients_of[run][index] = grad
            count = sum(g is not None for g in gradients_of[run])
            grads = list(gradients_of[run])
        if mode == "any":
            if is_first:
                fn(grad)
        elif count == sum(run.will_compute(e.node, e.output_nr) for e in edges):
            fn(grads)

    handles = [t.register_hook(functools.partial(hook, i)) for i, t in enumerate(tensors)]
    return Handles(handles)
