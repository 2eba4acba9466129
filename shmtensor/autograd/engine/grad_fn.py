"""What users see of a node: a class named after the op, saved values by name, and a call.

A Node is created as a plain `native.Node`, for speed. `as_grad_fn` gives it the class of its op, or
of its custom Function, which has the same layout, before a user gets it. All attributes are
computed on access.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from ... import native
from ...device import CPU
from ...ops import Row
from ..dispatch.no_warnings import no_warnings
from ..dispatch.plan import SavedValues
from ..grad_mode import recording
from .accumulate_grad import (
    AccumulateGrad,
    Hook,
    RemovableHandle,
    hooks_of,
    node_name,
    node_of_edge,
)
from .backward import accumulate_gradient
from .function_node import FunctionRule
from .hooks import as_tensor
from .node_hooks import HookPair, HookResult, pack
from .unrecorded_views import is_unrecorded


class InputMetadata(NamedTuple):
    """Shape, dtype and device of the gradient of one output of a node."""

    shape: Any
    dtype: Any
    device: Any = CPU
    is_nested_tensor: bool = False
    is_cpp_nested_tensor: bool = False


class SavedTensor:
    """One saved tensor of a node, to register hooks on (`_raw_saved_self` and the like)."""

    def __init__(self, node: Any, position: int) -> None:
        self.node, self.position = node, position

    def register_hooks(self, pack_hook: Hook, unpack_hook: Hook) -> None:
        """Saves the result of `pack_hook(tensor)` instead of the tensor; `unpack_hook` of that
        result returns the tensor when backward needs it.

        Raises:
            RuntimeError: the saved tensor has hooks already, was freed, or was written in place.
        """
        value = self.node.saved and self.node.raw_saved[self.position]
        if isinstance(value, HookResult):
            raise RuntimeError(
                f"register_hooks: {self.node.name()}: Calling register_hooks on a saved tensor "
                "whose hooks have already been set"
            )
        if not native.is_array(value):
            raise RuntimeError(
                f"register_hooks: {self.node.name()}: Calling register_hooks on a value that "
                f"is not a saved tensor is forbidden: {value!r}"
            )
        packed = pack(value, HookPair(pack_hook, unpack_hook))
        self.node.pack(lambda saved: (*saved[: self.position], packed, *saved[self.position + 1 :]))


class GradFn(native.Node):
    """The base of the classes that users see."""

    __slots__ = ()

    def __call__(self, *grads: Any) -> Any:
        """The gradients of the inputs from those of the outputs, without hooks."""
        create_graph = recording.get()
        grad_values = [g if g is None or create_graph else g.array for g in grads]
        gradients: tuple[Any, ...] = (None,) * len(self.edges)
        if any(g is not None for g in grad_values):
            is_single = self.dtype is not None and len(grad_values) == 1
            gradients = run_rule(self, grad_values[0] if is_single else grad_values, create_graph)
        results = tuple(map(as_tensor, gradients))
        return results[0] if len(results) == 1 else results

    @property
    def _input_metadata(self) -> tuple[InputMetadata, ...]:
        """Shape, dtype and device of each output; empty if the node does not know them."""
        shape_dtypes = outputs_of(self) if self.dtype is None else [(self.shape, self.dtype)]
        return tuple(InputMetadata(native.Size(shape), dtype) for shape, dtype in shape_dtypes)


@no_warnings
def run_rule(node: Any, g: Any, create_graph: bool) -> tuple[Any, ...]:
    """The gradients by the node's rule; new arrays are shared, as in a backward."""
    token = native.gate_open()
    try:
        gradients: tuple[Any, ...] = (node.row.tensors if create_graph else node.row.arrays)(
            node, g
        )
    finally:
        native.gate_close(token)
    return gradients


# ---------------------------------------------------------------- saved values by name


class SavedPositions(NamedTuple):
    """The positions of the values that a row's nodes save, by the names in its pullbacks.

    Attributes:
        positions: name -> position; a listed input has a slice.
        outputs: position of the outputs' shapes and dtypes, or a slice; None: not saved.
    """

    positions: dict[str, Any]
    outputs: Any


def saved_positions(row: Row) -> SavedPositions:
    """The positions for a row."""
    saved = SavedValues(row)
    plain = [n for n in saved.names if not n.endswith(" like")]
    positions: dict[str, Any] = {n: i for i, n in enumerate(plain)}
    n = len(saved.names)
    outputs: Any = None
    if row.listed:
        outputs = n - 1
    elif n > len(plain):
        outputs = slice(len(plain), n)
    if saved.listed is not None:
        positions[saved.listed.name] = slice(n, None)
    return SavedPositions(positions, outputs)


def outputs_of(node: Any) -> list[tuple[Any, Any]]:
    """(shape, dtype) of the outputs of a node that has several."""
    if isinstance(node.row, FunctionRule):
        return [output[:2] for output in node.row.outputs if output is not None]
    row = getattr(node.row, "row", None)
    position = saved_positions(row).outputs if isinstance(row, Row) else None
    return [] if position is None or node.raw_saved is None else list(node.raw_saved[position])


def torch_name(row: Row, name: str) -> str:
    """PyTorch's name of a saved value: self, other, result, self_sym_sizes."""
    for suffix, torch_suffix in (("_shape", "_sym_sizes"), ("_dtype", "_scalar_type")):
        base = name.removesuffix(suffix)
        if base != name and any(x.name == base for x in row.inputs):
            return torch_name(row, base) + torch_suffix
    for x in row.inputs:
        if x.name == name:
            return "self" if name == "x" else x.public
    return "result" if name == "out" else name


def edges_of(row: Row, node: Any, name: str) -> Any:
    """The edge of a saved input, or those of a listed input; None if it has no gradient."""
    differentiable = [x for x in row.inputs if x.name in row.pullbacks]
    n_listed = len(node.edges) - len(differentiable) + 1
    start = 0
    for x in differentiable:
        if x.name == name:
            return node.edges[start : start + n_listed] if x.listed else node.edges[start]
        start += n_listed if x.listed else 1
    return None


def saved_tensor(value: Any, edge: Any) -> Any:
    """A saved array as a tensor: the leaf itself, or a new one with its history."""
    if not native.is_array(value):
        return value
    if edge.__class__ is AccumulateGrad:
        leaf: Any = edge.tensor()
        if leaf is not None and leaf.array is value:
            return leaf
    tensor: Any = native.wrap(value)
    tensor.node = edge
    return tensor


def read(row: Row, name: str, node: Any) -> Any:
    """The value of `_saved_<name>`."""
    position = saved_positions(row).positions[name]
    value = node.saved[position]
    if name in row.outputs:
        is_only = len(row.outputs) == 1
        return saved_tensor(
            value, node if is_only else native.Port(node, row.outputs.index(name), value)
        )
    edge = edges_of(row, node, name)
    if not isinstance(position, slice):
        return saved_tensor(value, edge)
    return tuple(map(saved_tensor, value, edge or [None] * len(value)))


def read_raw(row: Row, name: str, node: Any) -> Any:
    """The value of `_raw_saved_<name>`."""
    position = saved_positions(row).positions[name]
    if isinstance(position, slice):
        return tuple(SavedTensor(node, i) for i in range(len(node.saved))[position])
    return SavedTensor(node, position)


# ---------------------------------------------------------------- classes


classes: dict[Any, type[Any]] = {}  # by rule, or by name


def class_of(node: Any) -> type[Any]:
    """The class of a node's op, created on first use."""
    rule = node.row
    if isinstance(rule, FunctionRule):
        function_class: type[Any] = rule.ctx._function._backward_cls
        return function_class
    row = getattr(rule, "row", None)
    key = rule if isinstance(row, Row) else node_name(node)
    cls = classes.get(key)
    if cls is None:
        body: dict[str, Any] = {"__slots__": (), "__module__": "shmtensor.autograd"}
        if isinstance(row, Row):
            tensors = {x.name for x in row.inputs} | set(row.outputs) | set(row.saves)
            for name in saved_positions(row).positions:
                body[f"_saved_{torch_name(row, name)}"] = property(partial(read, row, name))
                if name in tensors:
                    raw = f"_raw_saved_{torch_name(row, name)}"
                    body[raw] = property(partial(read_raw, row, name))
        cls = classes[key] = type(node_name(node), (GradFn,), body)
    return cls


def as_grad_fn(node: Any) -> Any:
    """The node, with the class that users see."""
    if node.__class__ is native.Node:
        node.__class__ = class_of(node)
    return node


class FunctionNodeMeta(type):
    """The metaclass of `Function._backward_cls`, of which a context is an instance, too."""

    _forward_cls: Any

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or (
            getattr(type(instance), "_function", None) is cls._forward_cls
        )


class BackwardFunction(GradFn, metaclass=FunctionNodeMeta):
    """The node of a custom Function, with the attributes of the context."""

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
    cls: type[Any] = FunctionNodeMeta(name, (BackwardFunction,), body)
    return cls


# ---------------------------------------------------------------- attributes of every node


def next_functions(node: Any) -> tuple[tuple[Any, int], ...]:
    """The nodes that this one's gradients go to, with the number of their output."""
    pairs = [(None, 0) if e is None or is_unrecorded(e) else node_of_edge(e) for e in node.edges]
    return tuple((as_grad_fn(target), index) for target, index in pairs)


def register_hook(node: Any, hook: Hook) -> RemovableHandle:
    """Calls `hook(grad_inputs, grad_outputs)` after the node ran; it may return other
    grad_inputs.
    """
    return RemovableHandle(hooks_of(node).posthooks, hook)


def register_prehook(node: Any, hook: Hook) -> RemovableHandle:
    """Calls `hook(grad_outputs)` before the node runs; it may return others."""
    return RemovableHandle(hooks_of(node).prehooks, hook)


def node_repr(node: Any) -> str:
    return f"<{node_name(node)} object at {id(node):#x}>"


def accumulate(node: AccumulateGrad, *grads: Any) -> tuple[()]:
    """Adds a gradient to the leaf's `.grad`, as a backward does."""
    (g,) = grads
    create_graph = recording.get() and g.requires_grad
    accumulate_gradient(node, {node: g if create_graph else g.array}, create_graph)
    return ()


# A Node is a C type for speed; its other attributes are set here.
native.Node.name = node_name
native.Node.next_functions = property(next_functions)
native.Node.metadata = property(lambda node: hooks_of(node).metadata)
native.Node.register_hook = register_hook
native.Node.register_prehook = register_prehook
native.Node.__repr__ = node_repr  # type: ignore[method-assign]
AccumulateGrad.__call__ = accumulate  # type: ignore[method-assign]
AccumulateGrad.__name__ = AccumulateGrad.__qualname__ = "AccumulateGrad"  # as PyTorch's
AccumulateGrad._input_metadata = property(  # type: ignore[attr-defined]
    lambda node: (InputMetadata(native.Size(node.shape), node.dtype),)
)
