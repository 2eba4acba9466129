"""The graph's parts that are not hot: leaves, hooks, and what users see of a node.

Nodes, ports and edges are C objects (native/dispatch/autograd_node.h). A tensor that requires grad
has a `node`: the Node or Port that computed it, or, for a leaf, its AccumulateGrad. Edges point
backward only, a AccumulateGrad holds its tensor weakly, and saved outputs are saved as arrays: so
the graph has no reference cycle and is freed at once.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ... import native

__all__ = [
    "AccumulateGrad",
    "GradientEdge",
    "Handles",
    "Hooks",
    "RemovableHandle",
    "node_of_edge",
    "renew_accumulate_grad",
]

Hook = Callable[..., Any]
numbers = itertools.count()


class AccumulateGrad(native.Edge):
    """Where gradients of one tensor end: owns `.grad`, hooks, and the place for flat gradients.

    Attributes:
        tensor: weak reference to the tensor.
        grad: the gradient so far, a Tensor, or None.
        home: None, or the native.GradientBuffer (a part of a flat block) where the first gradient
            of a backward is written and later ones are added; `grad` is then a Tensor over it.
    """

    __slots__ = ("__weakref__", "before", "grad", "grad_buffer", "hooks", "notes", "post", "tensor")

    def __init__(self, tensor: Any) -> None:
        self.tensor = weakref.ref(tensor)
        self.grad: Any = None
        self.grad_buffer: Any = None
        self.hooks: dict[int, Hook] | None = None  # the tensor's
        self.before: dict[int, Hook] | None = None  # the node's, before it adds
        self.post: dict[int, Hook] | None = None  # after it added
        self.notes: dict[str, Any] | None = None
        self.describe(tensor.array)

    # -------------------------------------------------------- as users see it: AccumulateGrad

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
        """A dictionary for whoever wants to note something."""
        if self.notes is None:
            self.notes = {}
        return self.notes

    def register_prehook(self, hook: Hook) -> RemovableHandle:
        """Calls `hook((g,))` before the gradient is added; it may return another, in a tuple."""

        def before(g: Any) -> Any:
            made = hook((g,))
            return made[0] if isinstance(made, tuple) else made

        if self.before is None:
            self.before = {}
        return RemovableHandle(self.before, before)

    def register_hook(self, hook: Hook) -> RemovableHandle:
        """Calls `hook((), (g,))` after the gradient was added."""
        given: list[Any] = []
        if self.before is None:
            self.before = {}
        if self.post is None:
            self.post = {}
        before = RemovableHandle(self.before, given.append)
        after = RemovableHandle(self.post, lambda tensor: hook((), (given.pop(),)))
        return Handles([before, after])


def renew_accumulate_grad(tensor: Any) -> None:
    """Gives a tensor over other memory a new AccumulateGrad, with its `.grad` and hooks. A graph
    that was recorded before ends at the old one, which adds to the tensor's `.grad` as before, but
    is not found any more when a gradient of the tensor is asked for.
    """
    old, new = tensor.leaf, AccumulateGrad(tensor)
    new.grad, new.notes = old.grad, old.notes
    new.hooks, new.before, new.post = old.hooks, old.before, old.post
    tensor.leaf = new
    if tensor.node is old:
        tensor.node = new
    former = weakref.ref(old)  # no cycle: the old leaf is freed with its graph

    def pass_on(tensor: Any) -> None:
        leaf: Any = former()
        g, leaf.grad = leaf.grad, None
        if tensor is not None:
            leaf = tensor.leaf
            leaf.grad = g if leaf.grad is None else leaf.grad + g

    old.grad = old.grad_buffer = None
    old.post = {next(numbers): pass_on, **(old.post or {})}


class Hooks:
    """What is to be called when the walk comes to a node."""

    __slots__ = ("before", "metadata", "outputs", "post", "retained")

    def __init__(self) -> None:
        self.outputs: dict[int, dict[int, Hook]] = {}  # tensor hooks, by output
        self.before: dict[int, Hook] = {}  # grad_fn.register_prehook
        self.post: dict[int, Hook] = {}  # grad_fn.register_hook
        self.metadata: dict[str, Any] = {}  # node.metadata; anomaly mode's forward line
        self.retained: dict[int, weakref.ref[Any]] = {}  # tensors that want .grad


class RemovableHandle:
    """Takes a hook away again: `remove()`, or the end of a `with`."""

    def __init__(self, hooks: dict[int, Hook], hook: Hook) -> None:
        self.id = next(numbers)
        self.hooks: dict[int, Hook] | None = hooks
        hooks[self.id] = hook

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

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


class GradientEdge(NamedTuple):
    """Where a gradient arrives: a node and which of its outputs. `grad` and `backward` take it in
    place of a tensor, which may then be freed.
    """

    node: Any
    output_nr: int
    edge: Any = None  # what the walk calls it: the node, or a Port of it


def hooks_of(node: Any) -> Hooks:
    """The node's hooks, made at the first need."""
    if node.hooks is None:
        node.hooks = Hooks()
    hooks: Hooks = node.hooks
    return hooks


def node_of_edge(edge: Any) -> tuple[Any, int]:
    """The node and output number that an edge points at; a AccumulateGrad is its own node."""
    return (edge.node, edge.index) if edge.__class__ is native.Port else (edge, 0)


# ---------------------------------------------------------------- what users see of grad_fn


def node_name(node: Any) -> str:
    """The name as PyTorch spells it: MulBackward0."""
    own = getattr(node.row, "shown", None)
    if own is not None:
        return str(own)
    return "".join(part.capitalize() for part in node.row.name.split("_")) + "Backward0"
