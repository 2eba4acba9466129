"""What one call of a Function leaves in the graph: the context, and the rule of its node."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import native
from ..grad_mode import recording
from .heap_gate import shut
from .running import walks

if TYPE_CHECKING:
    from ..function import Function

__all__ = ["Applied", "FunctionCtx", "Refusal", "Saved", "is_plain"]


OF_NODE = {"metadata", "name", "next_functions", "register_hook", "register_prehook"}


class FunctionCtx:
    """What forward leaves for backward."""

    _function: type[Function]

    def __init__(self) -> None:
        self.to_save: tuple[Any, ...] | None = None
        self.saved_for_forward: tuple[Any, ...] | None = None
        self.dirty_tensors: tuple[Any, ...] = ()
        self.non_differentiable: tuple[Any, ...] = ()
        self.materialize_grads = True
        self.needs_input_grad: tuple[bool, ...] = ()
        self._node: Callable[[], Any] | None = None

    def save_for_backward(self, *tensors: Any) -> None:
        """Keeps tensors, or None, for backward: inputs, outputs, or others."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keeps tensors, or None, for `jvp`."""
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Inputs that forward wrote in place; they must be among the outputs."""
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Outputs that have no gradient."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether a missing gradient comes to backward as zeros (True) or as None."""
        self.materialize_grads = value

    def __getattr__(self, name: str) -> Any:
        if name in OF_NODE and self._node is not None and (node := self._node()) is not None:
            return getattr(node, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was saved. An input that is still alive is the same object.

        Raises:
            RuntimeError: it was freed by a former backward, or written in place since.
        """
        node = None if self._node is None else self._node()
        if node is None:
            return self.to_save or ()
        rule: Applied = node.row
        values, saved, n = node.saved, rule.saved, rule.n_for_backward
        if rule.is_pushing and len(saved) > n:
            values, saved = values[n:], saved[n:]
        else:
            values, saved = values[:n], saved[:n]
        return tuple([restored(node, value, known) for value, known in zip(values, saved)])


class Saved:
    """What is known of a saved tensor besides its memory, which the node keeps.

    Attributes:
        edge: its place in the graph, or None; of an output its number.
        tensor: weak reference to the tensor: a node refers to no object that may get this node as
            part of its history. None for an output.
        cls: its class, if that is a subclass that keeps itself.
    """

    __slots__ = ("cls", "edge", "tensor")

    def __init__(self, edge: Any, tensor: Any = None) -> None:
        self.edge = edge
        self.tensor = None if tensor is None else weakref.ref(tensor)
        self.cls = None if tensor is None or is_plain(tensor) else tensor.__class__


def is_plain(tensor: Any) -> bool:
    """Is what an op makes of it a plain tensor?"""
    cls = tensor.__class__
    return cls is native.plain_class() or not getattr(cls, "keeps_class", True)


def restored(node: Any, value: Any, saved: Saved) -> Any:
    """A saved tensor: the object itself, or another one with its memory and history."""
    if not isinstance(value, np.ndarray):
        return value
    if saved.tensor is not None:
        tensor: Any = saved.tensor()
        if tensor is not None and tensor.array is value and tensor.node is saved.edge:
            return tensor
    edge = saved.edge
    if isinstance(edge, int):
        edge = node if len(node.row.outputs) == 1 else native.Port(node, edge, value)
    made: Any = native.wrap(value) if saved.cls is None else native.TensorBase.__new__(saved.cls)
    made.array, made.node = value, edge
    return made


def kind_of(value: Any) -> tuple[Any, Any] | None:
    """(shape, dtype) of a tensor; None for what is no tensor."""
    return (value.array.shape, value.array.dtype) if isinstance(value, native.TensorBase) else None


def has_history(cotangent: Any) -> bool:
    """Is the cotangent one to differentiate by?"""
    return cotangent is not None and cotangent.node is not None


class Applied:
    """The rule of the node that one call of a Function makes.

    Saved tensors are kept as arrays with a count of writes, in the node; a saved output holds no
    reference to its own node: no cycle.

    Attributes:
        ctx: what forward left.
        places: of the arguments that the node's edges belong to.
        inputs: (shape, dtype) of each argument, None for what is no tensor; only for `jvp`.
        outputs: the same of each output.
        saved: what is known of each saved tensor, those for `jvp` last.
        n_for_backward: how many of them backward gets.
        is_pushing: whether `jvp` runs now.
    """

    __slots__ = ("ctx", "inputs", "is_pushing", "n_for_backward", "outputs", "places", "saved")

    def __init__(self, ctx: FunctionCtx, args: tuple[Any, ...], outputs: list[Any]) -> None:
        self.ctx = ctx
        self.places = [i for i, needed in enumerate(ctx.needs_input_grad) if needed]
        self.inputs = [kind_of(x) for x in args] if ctx._function._is_pushed else []
        self.outputs = [kind_of(o) for o in outputs]
        self.saved: list[Saved] = []
        self.n_for_backward = 0
        self.is_pushing = False

    @property
    def name(self) -> str:
        return type(self.ctx).__name__

    shown = name

    def arrays(self, node: Any, g: Any) -> tuple[Any, ...]:
        former = recording.get()
        recording.set(False)
        try:
            gs = self.tensors(node, g)
        finally:
            recording.set(former)
        return tuple(None if g is None else g.array for g in gs)

    def tensors(self, node: Any, g: Any) -> tuple[Any, ...]:
        given = list(g) if isinstance(g, list) else [g]
        given += [None] * (len(self.outputs) - len(given))
        for i, output in enumerate(self.outputs):
            if given[i] is None:
                if self.ctx.materialize_grads and output is not None:
                    given[i] = native.wrap(np.zeros(*output))
            elif not isinstance(given[i], native.TensorBase):
                given[i] = native.wrap(given[i])
        function = self.ctx._function
        if walks.pushing and function._is_pushed and any(map(has_history, given)):
            return self.transposed(node, given)
        made = shut(function._pullback(), self.ctx, *given)
        made = made if isinstance(made, tuple) else (made,)
        count = len(self.ctx.needs_input_grad)
        if (len(made) > count and any(g is not None for g in made[count:])) or len(made) < count:
            raise RuntimeError(
                f"{self.name}: backward returned an incorrect number of gradients (expected "
                f"{count}, got {len(made)})"
            )
        for i, g in enumerate(made):
            if g is not None and not isinstance(g, native.TensorBase):
                raise RuntimeError(
                    f"{self.name}: backward must return Tensors or None: gradient {i} is a "
                    f"{type(g).__name__}"
                )
        return tuple(made[i] for i in self.places)

    def transposed(self, node: Any, cotangents: list[Any]) -> tuple[Any, ...]:
        """Gradients whose own pullback by the cotangents is `jvp`. Nobody reads their values."""
        edges = tuple(None if u is None else u.node for u in cotangents)
        pushed = native.Node(Pushed(self, node), edges, ())
        made = []
        for i, e in enumerate(node.edges):
            zeros = native.wrap(np.zeros(e.shape, e.dtype))
            zeros.node = native.Port(pushed, i, zeros.array)
            made.append(zeros)
        return tuple(made)

    def push(self, tangents: list[Any]) -> tuple[Any, ...]:
        """The tangents of the outputs, by the user's `jvp`.

        Args:
            tangents: one for each edge, or None.
        """
        given: list[Any] = [None] * len(self.inputs)
        for place, t in zip(self.places, tangents):
            given[place] = t if t is None or isinstance(t, native.TensorBase) else native.wrap(t)
        if self.ctx.materialize_grads:
            for i, kind in enumerate(self.inputs):
                if given[i] is None and kind is not None:
                    given[i] = native.wrap(np.zeros(*kind))
        self.is_pushing = True
        try:
            made = shut(self.ctx._function.jvp, self.ctx, *given)
        finally:
            self.is_pushing = False
        made = made if isinstance(made, tuple) else (made,)
        if len(made) != len(self.outputs):
            raise RuntimeError(
                f"{self.name}: jvp returned an invalid number of forward gradients (expected "
                f"{len(self.outputs)} but got {len(made)})"
            )
        return made


class Pushed:
    """The rule of the pullback of a Function with a `jvp`, as an op of the cotangents."""

    name = "jvp"
    __slots__ = ("applied", "node")

    def __init__(self, applied: Applied, node: Any) -> None:
        self.applied, self.node = applied, node

    def tensors(self, node: Any, g: Any) -> tuple[Any, ...]:
        return self.applied.push([*g, *[None] * (len(self.node.edges) - len(g))])

    def arrays(self, node: Any, g: Any) -> tuple[Any, ...]:
        former = recording.get()
        recording.set(False)
        try:
            return tuple(None if t is None else t.array for t in self.tensors(node, g))
        finally:
            recording.set(former)


class Refusal:
    """The rule of a gradient that must not be differentiated."""

    def __init__(self, name: str) -> None:
        self.name = name

    def arrays(self, node: Any, g: Any) -> tuple[Any, ...]:
        raise RuntimeError(
            f"{self.name}: trying to differentiate twice a function that was marked with "
            f"@once_differentiable"
        )

    tensors = arrays
