"""Function: an op that a user writes, with its own backward."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from .. import native
from .engine.accumulate_grad import AccumulateGrad
from .engine.function_node import Applied, FunctionCtx, Refusal, Saved, is_plain
from .engine.grad_fn import function_class
from .engine.heap_gate import shut
from .engine.views_and_inplace import FROM_FUNCTION, embed, may_write, node_of, requires_grad
from .grad_mode import no_grad, recording

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


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
    the heap shut: NumPy arrays that they make of their own are private. `jvp(ctx, *tangents)`, if
    defined, gives the tangents of the outputs in forward mode; otherwise forward mode
    differentiates backward.
    """

    context: type[FunctionCtx]
    _backward_cls: type[Any]  # of `grad_fn`
    _is_pushed: bool  # has it a `jvp`?

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        cls.context = type(f"{cls.__name__}Backward", (FunctionCtx,), {"_function": cls})
        cls._backward_cls = function_class(cls.context.__name__, cls)
        cls._is_pushed = cls.jvp is not Function.jvp

    @staticmethod
    def forward(*args: Any, **named: Any) -> Any:
        raise NotImplementedError("Function: you must implement the forward function")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        raise NotImplementedError("Function: setup_context is not implemented")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError(
            "Function: you must implement either the backward or vjp method to differentiate "
            "through it"
        )

    vjp = backward  # another name: one of the two is defined

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError("Function: jvp is not implemented")

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
    def _pullback(cls) -> Callable[..., Any]:
        """What computes the gradients: `backward`, or `vjp`.

        Raises:
            RuntimeError: both are defined.
        """
        if cls.vjp is Function.vjp:
            return cls.backward
        if cls.backward is not Function.backward:
            raise RuntimeError(
                f"{cls.__name__}: Implementing both 'backward' and 'vjp' for a custom Function is "
                "not allowed: they are the same"
            )
        return cls.vjp

    @classmethod
    def apply(cls, *args: Any, **named: Any) -> Any:
        """Runs forward, and records backward for the inputs that require grad."""
        ctx = cls.context()
        takes_ctx = cls.setup_context is Function.setup_context
        if not takes_ctx:
            args, named = bound(cls.forward, args, named), {}
        nodes = [node_of(a) if isinstance(a, native.TensorBase) else None for a in args]
        tracked = recording.get() and any(n is not None for n in nodes)
        ctx.needs_input_grad = tuple(n is not None for n in nodes)
        former = recording.get()
        recording.set(False)
        try:
            if takes_ctx:
                result = shut(cls.forward, ctx, *args, **named)
            else:
                result = shut(cls.forward, *args)
                shut(cls.setup_context, ctx, args, result)
        finally:
            recording.set(former)
        several = isinstance(result, (tuple, list))
        outputs = list(result) if several else [result]
        check_dirty(ctx, outputs)
        if tracked:
            outputs = record(ctx, args, nodes, outputs)
        else:
            for t in ctx.dirty_tensors:
                native.wrote(t)
            outputs = [fresh(o, args, ctx.dirty_tensors, False) for o in outputs]
        if not several:
            return outputs[0]
        return tuple(outputs) if isinstance(result, tuple) else outputs


def bound(
    forward: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, ...]:
    """All arguments of a forward by position, with those that it has defaults for."""
    if not named and not getattr(forward, "__defaults__", True):
        return args
    found = inspect.signature(forward).bind(*args, **named)
    found.apply_defaults()
    return (*found.args, *found.kwargs.values())


def place_in(values: Sequence[Any], tensor: Any) -> int | None:
    """Where the same object is among them."""
    for i, value in enumerate(values):
        if value is tensor:
            return i
    return None


def is_in(tensor: Any, tensors: Sequence[Any]) -> bool:
    """Is it one of them, the same object?"""
    return place_in(tensors, tensor) is not None


def check_dirty(ctx: FunctionCtx, outputs: list[Any]) -> None:
    """Checks that what forward wrote is returned."""
    for t in ctx.dirty_tensors:
        if not is_in(t, outputs):
            raise RuntimeError(
                f"{type(ctx).__name__}: mark_dirty: a tensor that was modified in place must be "
                f"returned: shape {t.array.shape}"
            )


def fresh(output: Any, args: tuple[Any, ...], dirty: tuple[Any, ...], has_gradient: bool) -> Any:
    """An input that forward returned as it is becomes a view of itself, unless it was written; one
    that requires grad and has no gradient here becomes what `detach` gives.
    """
    if not isinstance(output, native.TensorBase) or not is_in(output, args):
        return output
    if is_in(output, dirty):
        return output
    if not has_gradient and requires_grad(output):
        attached: Any = output
        return attached.detach()
    if is_plain(output):
        return native.view_of(output.array, output, None, FROM_FUNCTION)
    with no_grad():
        alias: Any = output
        return native.mark(alias.view_as(output), output, None, FROM_FUNCTION)


def record(
    ctx: FunctionCtx, args: tuple[Any, ...], nodes: list[Any], outputs: list[Any]
) -> list[Any]:
    """Gives the outputs their node."""
    name, dirty = type(ctx).__name__, ctx.dirty_tensors
    for t in dirty:
        if t.base is not None and len(outputs) > 1:
            raise RuntimeError(
                f"{name}: If your Function modifies inplace an input that is a view of another "
                f"Tensor, your Function cannot return more than one Tensor: {len(outputs)} "
                f"outputs, the view's shape is {t.array.shape}; write to a clone() of it"
            )
        may_write(t)
    without = ctx.non_differentiable
    made = [fresh(o, args, dirty, not is_in(o, without)) for o in outputs]
    for t in dirty:
        native.wrote(t)
    rule = Applied(ctx, args, made)
    edges = tuple(n for n in nodes if n is not None)
    node = native.Node(rule, edges, save(rule, args, nodes, outputs, made))
    ctx._node = weakref.ref(node)
    for i, o in enumerate(made):
        if not isinstance(o, native.TensorBase) or o.array.dtype.kind not in "fc":
            continue
        if is_in(outputs[i], without):
            continue
        if len(made) == 1:
            node.describe(o.array)
            place: native.Edge = node
        else:
            place = native.Port(node, i, o.array)
        is_dirty = is_in(o, dirty)
        if o.node.__class__ is AccumulateGrad and not is_dirty:
            o = made[i] = native.wrap(o.array)
        o.node = place
        if o.base is not None:
            if is_dirty:
                embed(o, place)
            else:  # its own history is that of forward, which is not recorded
                o.base = (o.base[0], o.version.count, None, FROM_FUNCTION)
    # An output refers to the node, which refers to the context.
    ctx.to_save = ctx.saved_for_forward = None
    ctx.dirty_tensors = ctx.non_differentiable = ()
    return made


def save(
    rule: Applied,
    args: tuple[Any, ...],
    nodes: list[Any],
    outputs: list[Any],
    made: list[Any],
) -> tuple[Any, ...]:
    """What the node keeps of the tensors that forward asked to save."""
    ctx = rule.ctx
    asked = ctx.to_save or ()
    rule.n_for_backward = len(asked)
    asked += ctx.saved_for_forward or ()
    for i, t in enumerate(asked):
        if t is None:
            rule.saved.append(Saved(None))
            continue
        if not isinstance(t, native.TensorBase):
            raise TypeError(
                f"{rule.name}: save_for_backward can only save variables, but argument {i} is of "
                f"type {type(t).__name__}: {t!r}, set it as an attribute of ctx"
            )
        output = place_in(outputs, t)
        if output is not None and made[output] is t:
            rule.saved.append(Saved(output))
            continue
        place = place_in(args, t)
        rule.saved.append(Saved(node_of(t) if place is None else nodes[place], t))
    return asked


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
                g.node = native.Node(Refusal(type(ctx).__name__), sources, (), g.array)
            results.append(g)
        return tuple(results) if several else results[0]

    return once
