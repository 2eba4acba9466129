"""A Function's call in the graph: the context, and the rule of the node."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import native
from ...cuda_arrays import device_of, new_array
from ...device import CPU
from ...profiler import profiling
from ..grad_mode import recording
from .current_backward import backward_state
from .heap_gate import call_with_gate_shut

if TYPE_CHECKING:
    from ..function import Function


NODE_ATTRIBUTES = {"metadata", "name", "next_functions", "register_hook", "register_prehook"}


class FunctionCtx:
    """The context that forward fills in for backward."""

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
        """Saves tensors, or None, for backward: inputs, outputs, or intermediates."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Saves tensors, or None, for `jvp`."""
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Inputs that forward wrote in place; they must be among the outputs."""
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Outputs that have no gradient."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (True) or None for a missing gradient."""
        self.materialize_grads = value

    def __getattr__(self, name: str) -> Any:
        if (
            name in NODE_ATTRIBUTES
            and self._node is not None
            and (node := self._node()) is not None
        ):
            return getattr(node, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The old name of `saved_tensors`; warns."""
        warnings.warn(
            "'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2
        )
        return self.saved_tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The saved tensors. An input that is still alive is the same object.

        Raises:
            RuntimeError: an earlier backward freed them, or one was written in place since.
        """
        node = None if self._node is None else self._node()
        if node is None:
            return self.to_save or ()
        rule: FunctionRule = node.row
        values, saved, n = node.saved, rule.saved, rule.n_for_backward
        if rule.in_jvp and len(saved) > n:
            values, saved = values[n:], saved[n:]
        else:
            values, saved = values[:n], saved[:n]
        return tuple(
            [unpack_saved(node, value, variable) for value, variable in zip(values, saved)]
        )


class SavedVariable:
    """A saved tensor without its memory, which the node saves.

    Attributes:
        edge: its edge in the graph, or None; for an output its number.
        tensor: weak reference to the tensor, because the tensor may get this node as part of its
            history. None for an output.
        cls: its class, if that is a subclass that ops keep.
    """

    __slots__ = ("cls", "edge", "tensor")

    def __init__(self, edge: Any, tensor: Any = None) -> None:
        self.edge = edge
        self.tensor = None if tensor is None else weakref.ref(tensor)
        self.cls = None if tensor is None or is_plain(tensor) else tensor.__class__


def is_plain(tensor: Any) -> bool:
    """Do ops return a plain tensor for a tensor of its class?"""
    cls = tensor.__class__
    return cls is native.plain_class() or not getattr(cls, "keeps_class", True)


def unpack_saved(node: Any, value: Any, variable: SavedVariable) -> Any:
    """A saved tensor: the object itself, or a new one with its memory and history."""
    if not native.is_array(value):
        return value
    if variable.tensor is not None:
        tensor: Any = variable.tensor()
        if tensor is not None and tensor.array is value and tensor.node is variable.edge:
            return tensor
    edge = variable.edge
    if isinstance(edge, int):
        edge = node if len(node.row.outputs) == 1 else native.Port(node, edge, value)
    result: Any = (
        native.wrap(value) if variable.cls is None else native.TensorBase.__new__(variable.cls)
    )
    result.array, result.node = value, edge
    return result


def description_of(value: Any) -> tuple[Any, Any, Any] | None:
    """(shape, dtype, device) of a tensor; None for any other value."""
    if not isinstance(value, native.TensorBase):
        return None
    return value.array.shape, value.array.dtype, device_of(value.array)


def has_history(cotangent: Any) -> bool:
    """Does the cotangent require grad?"""
    return cotangent is not None and cotangent.node is not None


class FunctionRule:
    """The rule of the node of one call of a Function.

    The node saves tensors as arrays with a count of writes. A saved output does not refer to its
    own node, so there is no cycle.

    Attributes:
        ctx: the context.
        places: the positions of the arguments with an edge.
        devices: their devices; None: the CPU.
        inputs: (shape, dtype, device) of each argument, None if it is not a tensor; only for `jvp`.
        outputs: the same for each output.
        saved: the saved tensors, those for `jvp` last.
        n_for_backward: how many of them are for backward.
        in_jvp: whether `jvp` is running.
    """

    __slots__ = (
        "ctx",
        "devices",
        "in_jvp",
        "inputs",
        "n_for_backward",
        "outputs",
        "places",
        "saved",
    )

    def __init__(self, ctx: FunctionCtx, args: tuple[Any, ...], outputs: list[Any]) -> None:
        self.ctx = ctx
        self.places = [i for i, is_needed in enumerate(ctx.needs_input_grad) if is_needed]
        self.devices: list[Any] | None = None
        for i in self.places:
            if args[i].array.__class__ is not np.ndarray:
                self.devices = [device_of(args[place].array) for place in self.places]
                break
        self.inputs = [description_of(x) for x in args] if ctx._function._has_jvp else []
        self.outputs = [description_of(o) for o in outputs]
        self.saved: list[SavedVariable] = []
        self.n_for_backward = 0
        self.in_jvp = False

    @property
    def name(self) -> str:
        return type(self.ctx).__name__

    display_name = name

    def arrays(self, node: Any, g: Any) -> tuple[Any, ...]:
        former = recording.get()
        recording.set(False)
        try:
            gs = self.tensors(node, g)
        finally:
            recording.set(former)
        return tuple(None if g is None else g.array for g in gs)

    def tensors(self, node: Any, g: Any) -> tuple[Any, ...]:
        cotangents = list(g) if isinstance(g, list) else [g]
        cotangents += [None] * (len(self.outputs) - len(cotangents))
        for i, output in enumerate(self.outputs):
            if cotangents[i] is None:
                if self.ctx.materialize_grads and output is not None:
                    cotangents[i] = native.wrap(new_array("zeros", *output))
            elif not isinstance(cotangents[i], native.TensorBase):
                cotangents[i] = native.wrap(cotangents[i])
        function = self.ctx._function
        if backward_state.forward_mode and function._has_jvp and any(map(has_history, cotangents)):
            return self.transposed_jvp(node, cotangents)
        began = profiling.begin() if profiling.on else 0
        gradients = call_with_gate_shut(function._pullback(), self.ctx, *cotangents)
        if began:
            profiling.end(began, self.name, profiling.BACKWARD)
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        count = len(self.ctx.needs_input_grad)
        if (len(gradients) > count and any(g is not None for g in gradients[count:])) or len(
            gradients
        ) < count:
            raise RuntimeError(
                f"{self.name}: backward returned an incorrect number of gradients (expected "
                f"{count}, got {len(gradients)})"
            )
        for i, g in enumerate(gradients):
            if g is not None and not isinstance(g, native.TensorBase):
                raise RuntimeError(
                    f"{self.name}: backward must return Tensors or None: gradient {i} is a "
                    f"{type(g).__name__}"
                )
        result = tuple([gradients[i] for i in self.places])
        for k, g in enumerate(result):
            if g is not None and (self.devices or g.array.__class__ is not np.ndarray):
                self.check_device(k, g.array)
        return result

    def check_device(self, k: int, array: Any) -> None:
        """Checks that the gradient of the k-th input with an edge is on its device."""
        device = self.devices[k] if self.devices else CPU
        if device_of(array) != device:
            raise RuntimeError(
                f"{self.name}: Function {self.name} returned an invalid gradient at index "
                f"{self.places[k]} - expected device {device} but got {device_of(array)}: shape "
                f"{array.shape}"
            )

    def transposed_jvp(self, node: Any, cotangents: list[Any]) -> tuple[Any, ...]:
        """Gradients whose own pullback by the cotangents is `jvp`. Their values are not used."""
        edges = tuple(None if u is None else u.node for u in cotangents)
        jvp_node = native.Node(JvpRule(self, node), edges, ())
        place = next((device_of(u.array) for u in cotangents if u is not None), CPU)
        gradients = []
        for i, e in enumerate(node.edges):
            zeros = native.wrap(new_array("zeros", e.shape, e.dtype, place))
            zeros.node = native.Port(jvp_node, i, zeros.array)
            gradients.append(zeros)
        return tuple(gradients)

    def jvp(self, tangents: list[Any]) -> tuple[Any, ...]:
        """The tangents of the outputs, by the user's `jvp`.

        Args:
            tangents: one for each edge, or None.
        """
        inputs: list[Any] = [None] * len(self.inputs)
        for place, t in zip(self.places, tangents):
            inputs[place] = t if t is None or isinstance(t, native.TensorBase) else native.wrap(t)
        if self.ctx.materialize_grads:
            for i, description in enumerate(self.inputs):
                if inputs[i] is None and description is not None:
                    inputs[i] = native.wrap(new_array("zeros", *description))
        self.in_jvp = True
        try:
            outputs = call_with_gate_shut(self.ctx._function.jvp, self.ctx, *inputs)
        finally:
            self.in_jvp = False
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        if len(outputs) != len(self.outputs):
            raise RuntimeError(
                f"{self.name}: jvp returned an invalid number of forward gradients (expected "
                f"{len(self.outputs)} but got {len(outputs)})"
            )
        return outputs


class JvpRule:
    """The rule of the pullback of a Function with a `jvp`, as an op of the cotangents."""

    name = "jvp"
    __slots__ = ("node", "rule")

    def __init__(self, rule: FunctionRule, node: Any) -> None:
        self.rule, self.node = rule, node

    def tensors(self, node: Any, g: Any) -> tuple[Any, ...]:
        return self.rule.jvp([*g, *[None] * (len(self.node.edges) - len(g))])

    def arrays(self, node: Any, g: Any) -> tuple[Any, ...]:
        former = recording.get()
        recording.set(False)
        try:
            return tuple(None if t is None else t.array for t in self.tensors(node, g))
        finally:
            recording.set(former)


class OnceDifferentiable:
    """The rule of a gradient that must not be differentiated."""

    def __init__(self, name: str) -> None:
        self.name = name

    def arrays(self, node: Any, g: Any) -> tuple[Any, ...]:
        raise RuntimeError(
            f"{self.name}: trying to differentiate twice a function that was marked with "
            f"@once_differentiable"
        )

    tensors = arrays
