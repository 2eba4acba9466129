"""Function: an op that a user writes, with its own backward."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import native
from .gate import shut
from .leaf import Leaf
from .mode import recording
from .view import embed, may_write, node_of

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class FunctionCtx:
    """What forward leaves for backward; also the rule of the node that a Function makes.

    Saved tensors are kept as arrays with a count of writes, in the node; a saved output holds no
    reference to its own
    node: no cycle.
    """

    def __init__(self) -> None:
        self.to_save: tuple[Any, ...] = ()
        self.dirty: tuple[Any, ...] = ()
        self.not_differentiable: tuple[Any, ...] = ()
        self.materialize = True
        self.needs_input_grad: tuple[bool, ...] = ()
        self.node: Callable[[], Any] | None = None
        self.edges: list[Any] = []
        self.outputs: list[tuple[tuple[int, ...], Any]] = []
        self.places: tuple[int, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keeps tensors, or None, for backward: inputs, outputs, or others."""
        self.to_save = tensors

    save_for_forward = save_for_backward

    def mark_dirty(self, *tensors: Any) -> None:
        """Inputs that forward wrote in place; they must be among the outputs."""
        self.dirty = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Outputs that have no gradient."""
        self.not_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether a missing gradient comes to backward as zeros (True) or as None."""
        self.materialize = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was saved.

        Raises:
            RuntimeError: it was freed by a former backward, or written in place since.
        """
        node = None if self.node is None else self.node()
        if node is None:
            return self.to_save
        made = []
        for value, edge in zip(node.saved, self.edges):
            if isinstance(value, np.ndarray):
                value = native.wrap(value)
                value.node = self.port(node, edge, value.array) if isinstance(edge, int) else edge
            made.append(value)
        return tuple(made)

    def port(self, node: Any, index: int, array: Any) -> Any:
        """The place in the graph of a saved output."""
        return node if len(self.outputs) == 1 else native.Port(node, index, array)

    # ------------------------------------------------------------ a rule for the walk

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def shown(self) -> str:
        return type(self).__name__

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
        for i, (shape, dtype) in enumerate(self.outputs):
            if given[i] is None:
                if self.materialize:
                    given[i] = native.wrap(np.zeros(shape, dtype))
            elif not isinstance(given[i], native.TensorBase):
                given[i] = native.wrap(given[i])
        made = shut(self.function.backward, self, *given)  # type: ignore[attr-defined]
        made = made if isinstance(made, tuple) else (made,)
        places = self.places
        count = len(self.needs_input_grad)
        if (len(made) > count and any(g is not None for g in made[count:])) or len(made) < count:
            raise RuntimeError(
                f"{self.name}: backward returned an incorrect number of gradients (expected "
                f"{count}, got {len(made)})"
            )
        for i, g in enumerate(made):
            if g is not None and not isinstance(g, native.TensorBase):
                raise TypeError(
                    f"{self.name}: backward must return Tensors or None: gradient {i} is a "
                    f"{type(g).__name__}"
                )
        return tuple(made[i] for i in places)


class Function:
    """An op with a backward of its own.

    ```python
    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * g * x * x

    y = Cube.apply(x)
    ```

    `forward` may leave out ctx if `setup_context(ctx, inputs, output)` is defined. Both run with
    the heap shut: NumPy
    arrays that they make of their own are private.
    """

    context: type[FunctionCtx]

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        cls.context = type(f"{cls.__name__}Backward", (FunctionCtx,), {"function": cls})

    @staticmethod
    def forward(*args: Any, **named: Any) -> Any:
        raise NotImplementedError("Function: you must implement the forward function")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        raise NotImplementedError("Function: setup_context is not implemented")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError(
            "Function: you must implement backward to differentiate through it"
        )

    vjp = backward
    generate_vmap_rule = False

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """How the op runs on a batch: `(outputs, out_dims)`. Whoever maps over a Function asks it;
        `info.batch_size` is the length of the mapped dimension.
        """
        raise NotImplementedError(
            "Function: to be mapped over, a Function needs a vmap staticmethod, or "
            "generate_vmap_rule = True"
        )

    @classmethod
    def apply(cls, *args: Any, **named: Any) -> Any:
        """Runs forward, and records backward for the inputs that require grad."""
        ctx = cls.context()
        nodes = [node_of(a) if isinstance(a, native.TensorBase) else None for a in args]
        tracked = recording.get() and any(n is not None for n in nodes)
        ctx.needs_input_grad = tuple(n is not None for n in nodes)
        former = recording.get()
        recording.set(False)
        try:
            if cls.setup_context is Function.setup_context:
                result = shut(cls.forward, ctx, *args, **named)
            else:
                result = shut(cls.forward, *args, **named)
                shut(cls.setup_context, ctx, args, result)
        finally:
            recording.set(former)
        several = isinstance(result, (tuple, list))
        outputs = list(result) if several else [result]
        if tracked:
            outputs = record(ctx, args, nodes, outputs)
        else:
            outputs = [fresh(o, args, ctx.dirty) for o in outputs]
        return type(result)(outputs) if several else outputs[0]


def fresh(output: Any, args: tuple[Any, ...], dirty: tuple[Any, ...]) -> Any:
    """An input that forward returned as it is becomes another tensor over the same memory, unless
    it was written.
    """
    if not isinstance(output, native.TensorBase):
        return output
    if any(output is a for a in args) and not any(output is d for d in dirty):
        return native.wrap(output.array)
    return output


def record(
    ctx: FunctionCtx, args: tuple[Any, ...], nodes: list[Any], outputs: list[Any]
) -> list[Any]:
    """Gives the outputs their node."""
    for t in ctx.dirty:
        if not any(t is o for o in outputs):
            raise RuntimeError(
                f"{ctx.name}: mark_dirty: a tensor that was modified in place must be returned: "
                f"shape {t.array.shape}"
            )
        may_write(t)
    former_saved = ctx.to_save
    made = [fresh(o, args, ctx.dirty) for o in outputs]
    places = [i for i, n in enumerate(nodes) if n is not None]
    ctx.places = tuple(places)
    ctx.outputs = [
        (o.array.shape, o.array.dtype)
        if isinstance(o, native.TensorBase)
        else ((), np.dtype("float32"))
        for o in made
    ]
    numbers = {id(o): i for i, o in enumerate(outputs) if isinstance(o, native.TensorBase)}
    for t in ctx.dirty:
        native.wrote(t)
    saved: list[Any] = []
    edges: list[Any] = []
    for t in former_saved:
        if t is None:
            edges.append(None)
            saved.append(None)
        elif id(t) in numbers and (not any(t is a for a in args) or any(t is d for d in ctx.dirty)):
            edges.append(numbers[id(t)])
            saved.append(made[numbers[id(t)]])
        else:
            position = next((i for i, a in enumerate(args) if a is t), None)
            edges.append(nodes[position] if position is not None else node_of(t))
            saved.append(t)
    ctx.edges = edges
    ctx.to_save = ()
    node = native.Node(ctx, tuple(nodes[i] for i in places), tuple(saved))
    ctx.node = weakref.ref(node)
    for i, o in enumerate(made):
        if not isinstance(o, native.TensorBase) or o.array.dtype.kind not in "fc":
            continue
        if any(outputs[i] is t for t in ctx.not_differentiable):
            continue
        if len(made) == 1:
            node.describe(o.array)
            place: native.Edge = node
        else:
            place = native.Port(node, i, o.array)
        if o.node.__class__ is Leaf and not any(o is d for d in ctx.dirty):
            o = made[i] = native.wrap(o.array)
        o.node = place
        if o.base is not None:
            if any(o is d for d in ctx.dirty):
                embed(o, place)
            else:
                o.base = None
    return made


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a Function's backward as not differentiable itself: a second order through it is an
    error.
    """

    @functools.wraps(backward)
    def once(ctx: Any, *grads: Any) -> Any:
        create = recording.get()
        recording.set(False)
        try:
            made = backward(ctx, *grads)
        finally:
            recording.set(create)
        if not create or not any(
            isinstance(g, native.TensorBase) and g.node is not None for g in grads
        ):
            return made
        several = isinstance(made, tuple)
        results = []
        for g in made if several else (made,):
            if isinstance(g, native.TensorBase):
                g = native.wrap(g.array)
                sources = tuple(x.node for x in grads if isinstance(x, native.TensorBase))
                g.node = native.Node(Refusal(ctx.name), sources, (), g.array)
            results.append(g)
        return tuple(results) if several else results[0]

    return once


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
