"""What users see of a node: its class, which is named after the op, what it saved, and a call.

A Node is made as a plain `native.Node`, for speed. Where a user gets to see one (`shown`), it gets
a class of its own, of the same layout: that of its op, or of its custom Function. All attributes
are computed when they are asked for.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ... import native
from ...device import CPU
from ...ops import Row
from ..dispatch.no_warnings import no_warnings
from ..dispatch.plan import Saved
from ..grad_mode import recording
from .accumulate_grad import (
    AccumulateGrad,
    Hook,
    RemovableHandle,
    hooks_of,
    node_name,
    node_of_edge,
)
from .function_node import Applied
from .hooks import as_tensor
from .node_hooks import HookResult, Pair, pack
from .run_backward import accumulate_gradient
from .unrecorded_views import is_unrecorded

__all__ = [
    "BackwardFunction",
    "Computed",
    "InputMetadata",
    "SavedTensor",
    "function_class",
    "shown",
]


class InputMetadata(NamedTuple):
    """What the gradient of one output of a node must look like."""

    shape: Any
    dtype: Any
    device: Any = CPU
    is_nested_tensor: bool = False
    is_cpp_nested_tensor: bool = False


class SavedTensor:
    """One saved tensor of a node: for a hook of its own (`_raw_saved_self` and the like)."""

    def __init__(self, node: Any, place: int) -> None:
        self.node, self.place = node, place

    def register_hooks(self, pack_hook: Hook, unpack_hook: Hook) -> None:
        """Keeps what `pack_hook(tensor)` returns instead of the tensor; `unpack_hook` of that gives
        the tensor back when backward needs it.

        Raises:
            RuntimeError: it has hooks already, was freed, or was written in place since.
        """
        value = self.node.saved and self.node.kept[self.place]
        if isinstance(value, HookResult):
            raise RuntimeError(
                f"register_hooks: {self.node.name()}: Calling register_hooks on a saved tensor "
                "whose hooks have already been set"
            )
        if not isinstance(value, np.ndarray):
            raise RuntimeError(
                f"register_hooks: {self.node.name()}: Calling register_hooks on what is no saved "
                f"tensor is forbidden: {value!r}"
            )
        packed = pack(value, Pair(pack_hook, unpack_hook))
        self.node.pack(lambda saved: (*saved[: self.place], packed, *saved[self.place + 1 :]))


class Computed(native.Node):
    """A node as users see it."""

    __slots__ = ()

    def __call__(self, *grads: Any) -> Any:
        """The gradients of the inputs for those of the outputs; no hook is called."""
        create = recording.get()
        given = [g if g is None or create else g.array for g in grads]
        made: tuple[Any, ...] = (None,) * len(self.edges)
        if any(g is not None for g in given):
            is_single = self.dtype is not None and len(given) == 1
            made = applied(self, given[0] if is_single else given, create)
        results = tuple(map(as_tensor, made))
        return results[0] if len(results) == 1 else results

    @property
    def _input_metadata(self) -> tuple[InputMetadata, ...]:
        """Of each output, as far as the node knows it."""
        kinds = outputs_of(self) if self.dtype is None else [(self.shape, self.dtype)]
        return tuple(InputMetadata(native.Size(shape), dtype) for shape, dtype in kinds)


@no_warnings
def applied(node: Any, g: Any, create: bool) -> tuple[Any, ...]:
    """What the node's rule gives; new arrays are shared, as in a backward."""
    token = native.gate_open()
    try:
        made: tuple[Any, ...] = (node.row.tensors if create else node.row.arrays)(node, g)
    finally:
        native.gate_close(token)
    return made


# ---------------------------------------------------------------- saved values by name


class Kept(NamedTuple):
    """Where the values that a row's nodes save lie, by the names in its pullbacks.

    Attributes:
        places: name -> position; a listed input has a slice.
        outputs: position of the outputs' shapes and dtypes, or a slice; None: not kept.
    """

    places: dict[str, Any]
    outputs: Any


def kept_by(row: Row) -> Kept:
    """Where the values that a row's nodes keep stand."""
    saved = Saved(row)
    plain = [n for n in saved.names if not n.endswith(" like")]
    places: dict[str, Any] = {n: i for i, n in enumerate(plain)}
    n = len(saved.names)
    outputs: Any = None
    if row.listed:
        outputs = n - 1
    elif n > len(plain):
        outputs = slice(len(plain), n)
    if saved.listed is not None:
        places[saved.listed.name] = slice(n, None)
    return Kept(places, outputs)


def outputs_of(node: Any) -> list[tuple[Any, Any]]:
    """(shape, dtype) of the outputs of a node that has several."""
    if isinstance(node.row, Applied):
        return [kind for kind in node.row.outputs if kind is not None]
    row = getattr(node.row, "row", None)
    where = kept_by(row).outputs if isinstance(row, Row) else None
    return [] if where is None or node.kept is None else list(node.kept[where])


def spelled(row: Row, name: str) -> str:
    """A saved value's name as PyTorch has it: self, other, result, self_sym_sizes."""
    for suffix, other in (("_shape", "_sym_sizes"), ("_dtype", "_scalar_type")):
        base = name.removesuffix(suffix)
        if base != name and any(x.name == base for x in row.inputs):
            return spelled(row, base) + other
    for x in row.inputs:
        if x.name == name:
            return "self" if name == "x" else x.public
    return "result" if name == "out" else name


def edges_of(row: Row, node: Any, name: str) -> Any:
    """The edge of a saved input, or those of a listed one; None: it has no gradient."""
    differentiable = [x for x in row.inputs if x.name in row.pullbacks]
    n_listed = len(node.edges) - len(differentiable) + 1
    at = 0
    for x in differentiable:
        if x.name == name:
            return node.edges[at : at + n_listed] if x.listed else node.edges[at]
        at += n_listed if x.listed else 1
    return None


def saved_tensor(value: Any, edge: Any) -> Any:
    """A saved array as a tensor again: the leaf itself, or another one with its history."""
    if not isinstance(value, np.ndarray):
        return value
    if edge.__class__ is AccumulateGrad:
        leaf: Any = edge.tensor()
        if leaf is not None and leaf.array is value:
            return leaf
    made: Any = native.wrap(value)
    made.node = edge
    return made


def read(row: Row, name: str, node: Any) -> Any:
    """What `_saved_<name>` is."""
    place = kept_by(row).places[name]
    value = node.saved[place]
    if name in row.outputs:
        is_only = len(row.outputs) == 1
        return saved_tensor(
            value, node if is_only else native.Port(node, row.outputs.index(name), value)
        )
    edge = edges_of(row, node, name)
    if not isinstance(place, slice):
        return saved_tensor(value, edge)
    return tuple(map(saved_tensor, value, edge or [None] * len(value)))


def read_raw(row: Row, name: str, node: Any) -> Any:
    """What `_raw_saved_<name>` is."""
    place = kept_by(row).places[name]
    if isinstance(place, slice):
        return tuple(SavedTensor(node, i) for i in range(len(node.saved))[place])
    return SavedTensor(node, place)


# ---------------------------------------------------------------- classes


classes: dict[Any, type[Any]] = {}  # by rule, or by name


def class_of(node: Any) -> type[Any]:
    """The class of a node's op, made at the first need."""
    rule = node.row
    if isinstance(rule, Applied):
        found: type[Any] = rule.ctx._function._backward_cls
        return found
    row = getattr(rule, "row", None)
    key = rule if isinstance(row, Row) else node_name(node)
    made = classes.get(key)
    if made is None:
        body: dict[str, Any] = {"__slots__": (), "__module__": "shmtensor.autograd"}
        if isinstance(row, Row):
            tensors = {x.name for x in row.inputs} | set(row.outputs) | set(row.saves)
            for name in kept_by(row).places:
                body[f"_saved_{spelled(row, name)}"] = property(partial(read, row, name))
                if name in tensors:
                    raw = f"_raw_saved_{spelled(row, name)}"
                    body[raw] = property(partial(read_raw, row, name))
        made = classes[key] = type(node_name(node), (Computed,), body)
    return made


def shown(node: Any) -> Any:
    """The node, for a user to see."""
    if node.__class__ is native.Node:
        node.__class__ = class_of(node)
    return node


class OfFunction(type):
    """The class of `Function._backward_cls`: a context is an instance, too."""

    _forward_cls: Any

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or (
            getattr(type(instance), "_function", None) is cls._forward_cls
        )


class BackwardFunction(Computed, metaclass=OfFunction):
    """The node of a custom Function: it has the attributes of the context, too."""

    __slots__ = ()
    _forward_cls: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.row.ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "__class__" or hasattr(native.Node, name):
            super().__setattr__(name, value)
        else:
            setattr(self.row.ctx, name, value)

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        return tuple(SavedTensor(self, i) for i in range(len(self.saved)))


def function_class(name: str, function: Any) -> type[Any]:
    """The class of a custom Function's nodes."""
    body = {"__slots__": (), "_forward_cls": function, "__module__": function.__module__}
    made: type[Any] = OfFunction(name, (BackwardFunction,), body)
    return made


# ---------------------------------------------------------------- what every node has


def next_functions(node: Any) -> tuple[tuple[Any, int], ...]:
    """The nodes that this one's gradients go to, with the number of their output."""
    pairs = [(None, 0) if e is None or is_unrecorded(e) else node_of_edge(e) for e in node.edges]
    return tuple((shown(target), index) for target, index in pairs)


def register_hook(node: Any, hook: Hook) -> RemovableHandle:
    """Calls `hook(grad_inputs, grad_outputs)` after the node ran; it may return other
    grad_inputs.
    """
    return RemovableHandle(hooks_of(node).post, hook)


def register_prehook(node: Any, hook: Hook) -> RemovableHandle:
    """Calls `hook(grad_outputs)` before the node runs; it may return others."""
    return RemovableHandle(hooks_of(node).before, hook)


def node_repr(node: Any) -> str:
    return f"<{node_name(node)} object at {id(node):#x}>"


def accumulate(leaf: AccumulateGrad, *grads: Any) -> tuple[()]:
    """Adds a gradient to the leaf's `.grad`, as a backward does."""
    (g,) = grads
    create = recording.get() and g.requires_grad
    accumulate_gradient(leaf, {leaf: g if create else g.array}, create)
    return ()


# A Node is a C type for speed; its rarely used face is given to it here.
native.Node.name = node_name
native.Node.next_functions = property(next_functions)
native.Node.metadata = property(lambda node: hooks_of(node).metadata)
native.Node.register_hook = register_hook
native.Node.register_prehook = register_prehook
native.Node.__repr__ = node_repr  # type: ignore[method-assign]
AccumulateGrad.__call__ = accumulate  # type: ignore[method-assign]
AccumulateGrad.__name__ = AccumulateGrad.__qualname__ = "AccumulateGrad"  # as PyTorch's
AccumulateGrad._input_metadata = property(  # type: ignore[attr-defined]
    lambda leaf: (InputMetadata(native.Size(leaf.shape), leaf.dtype),)
)
