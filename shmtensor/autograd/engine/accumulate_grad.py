"""The graph's parts that are not hot: AccumulateGrad, hooks, and names of nodes.

Nodes, ports and edges are C objects (native/dispatch/autograd_node.h). A tensor that requires grad
has a `node`: the Node or Port that computed it, or, for a leaf, its AccumulateGrad. Edges point
backward only, an AccumulateGrad holds its tensor weakly, and outputs are saved as arrays. So the
graph has no reference cycle and is freed at once.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ... import native
from ...device import CPU

Hook = Callable[..., Any]
hook_ids = itertools.count()


class AccumulateGrad(native.Edge):
    """The node of a leaf: owns its `.grad`, its hooks and its grad buffer.

    Attributes:
        tensor: weak reference to the tensor.
        grad: the gradient so far, a Tensor, or None.
        grad_buffer: None, or the native.GradientBuffer (a part of a flat block) to which the first
            gradient is written and later ones are added; `grad` is then a Tensor over it.
    """

    __slots__ = (
        "__weakref__", "grad", "grad_buffer", "hooks", "notes", "posthooks", "prehooks", "tensor",
    )  # fmt: skip

    def __init__(self, tensor: Any) -> None:
        self.tensor = weakref.ref(tensor)
        self.grad: Any = None
        self.grad_buffer: Any = None
        self.hooks: dict[int, Hook] | None = None  # the tensor's
        self.prehooks: dict[int, Hook] | None = None  # the node's, before it adds the gradient
        self.posthooks: dict[int, Hook] | None = None  # after it added the gradient
        self.notes: dict[str, Any] | None = None
        self.describe(tensor.array)

    # -------------------------------------------------------- for users, as PyTorch's

    next_functions: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"

    def name(self) -> str:
        """The name as PyTorch spells it."""
        return "AccumulateGrad"

    @property
    def variable(self) -> Any:
        """The tensor, or None if it is gone."""
        return self.tensor()

    @property
    def metadata(self) -> dict[str, Any]:
        """A dictionary for the user's own data."""
        if self.notes is None:
            self.notes = {}
        return self.notes

    def register_prehook(self, hook: Hook) -> RemovableHandle:
        """Calls `hook((g,))` before the gradient is added; it may return another, in a tuple."""

        def prehook(g: Any) -> Any:
            result = hook((g,))
            return result[0] if isinstance(result, tuple) else result

        if self.prehooks is None:
            self.prehooks = {}
        return RemovableHandle(self.prehooks, prehook)

    def register_hook(self, hook: Hook) -> RemovableHandle:
        """Calls `hook((), (g,))` after the gradient was added."""
        gradients: list[Any] = []
        if self.prehooks is None:
            self.prehooks = {}
        if self.posthooks is None:
            self.posthooks = {}
        prehook = RemovableHandle(self.prehooks, gradients.append)
        posthook = RemovableHandle(self.posthooks, lambda tensor: hook((), (gradients.pop(),)))
        return Handles([prehook, posthook])


def renew_accumulate_grad(tensor: Any) -> None:
    """Gives a tensor with new memory a new AccumulateGrad, with its `.grad` and hooks.

    Graphs recorded before end at the old one, which still adds to the tensor's `.grad`; `grad` with
    respect to the tensor no longer finds it.
    """
    old, new = tensor.accumulate_grad, AccumulateGrad(tensor)
    new.grad, new.notes = old.grad, old.notes
    new.hooks, new.prehooks, new.posthooks = old.hooks, old.prehooks, old.posthooks
    tensor.accumulate_grad = new
    if tensor.node is old:
        tensor.node = new
    former = weakref.ref(old)  # no cycle: the old node is freed with its graph

    def add_to_new(tensor: Any) -> None:
        old_node: Any = former()
        g, old_node.grad = old_node.grad, None
        if tensor is not None:
            new_node = tensor.accumulate_grad
            new_node.grad = g if new_node.grad is None else new_node.grad + g

    old.grad = old.grad_buffer = None
    old.posthooks = {next(hook_ids): add_to_new, **(old.posthooks or {})}


class Hooks:
    """The hooks of a node."""

    __slots__ = ("metadata", "posthooks", "prehooks", "retains_grad", "tensor_hooks")

    def __init__(self) -> None:
        self.tensor_hooks: dict[int, dict[int, Hook]] = {}  # by output
        self.prehooks: dict[int, Hook] = {}  # grad_fn.register_prehook
        self.posthooks: dict[int, Hook] = {}  # grad_fn.register_hook
        self.metadata: dict[str, Any] = {}  # node.metadata; anomaly mode's forward line
        self.retains_grad: dict[int, weakref.ref[Any]] = {}  # tensors with retain_grad, by output


class RemovableHandle:
    """Removes a hook: by `remove()`, or at the end of a `with`."""

    id: int

    def __init__(self, hooks: dict[int, Hook], hook: Hook) -> None:
        self.id = next(hook_ids)
        self.hooks: dict[int, Hook] | None = hooks
        hooks[self.id] = hook

    def hooks_dict_ref(self) -> dict[int, Hook] | None:
        """The hooks among which this one is; None when it was removed."""
        return self.hooks

    def remove(self) -> None:
        if self.hooks is not None:
            self.hooks.pop(self.id, None)
            self.hooks = None

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class Handles(RemovableHandle):
    """Several handles as one."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)
        self.id = self.handles[0].id
        self.hooks = self.handles[0].hooks

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


class GradientEdge(NamedTuple):
    """Where a gradient arrives: a node and which of its outputs. `grad` and `backward` take it in
    place of a tensor, which may then be freed.
    """

    node: Any
    output_nr: int
    edge: Any = None  # the node, or a Port of it
    device: Any = CPU  # of the gradient


def hooks_of(node: Any) -> Hooks:
    """The node's hooks, created on first use."""
    if node.hooks is None:
        node.hooks = Hooks()
    hooks: Hooks = node.hooks
    return hooks


def node_of_edge(edge: Any) -> tuple[Any, int]:
    """The node and output number of an edge; an AccumulateGrad is its own node."""
    return (edge.node, edge.index) if edge.__class__ is native.Port else (edge, 0)


def node_name(node: Any) -> str:
    """The name as PyTorch spells it: MulBackward0."""
    display_name = getattr(node.row, "display_name", None)
    if display_name is not None:
        return str(display_name)
    return "".join(part.capitalize() for part in node.row.name.split("_")) + "Backward0"
