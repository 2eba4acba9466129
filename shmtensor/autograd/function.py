"""Function: an op that a user writes, with its own backward."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import native
from ..profiler import profiling
from .engine.accumulate_grad import AccumulateGrad
from .engine.function_node import (
    FunctionCtx,
    FunctionRule,
    OnceDifferentiable,
    SavedVariable,
    is_plain,
)
from .engine.grad_fn import function_class
from .engine.heap_gate import call_with_gate_shut
from .engine.views_and_inplace import (
    FROM_FUNCTION,
    check_recorded_write,
    node_of,
    requires_grad,
    write_to_root,
)
from .grad_mode import no_grad, recording

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]


# (Function, arguments, keywords) -> outputs by its `vmap`, or NotImplemented; set by func/vmap.py.
batching_rule: Any = None


class Function:
    """An op with a backward of one's own: a subclass defines `forward` and `backward`, and `apply`
    calls it.

    `forward` has no ctx if `setup_context(ctx, inputs, output)` is defined. NumPy
    arrays that the methods create are private memory, as elsewhere in a program. `jvp(ctx,
    *tangents)`, if defined, returns the tangents of the outputs in forward mode; otherwise forward
    mode differentiates backward.

    Raises
    ------
    NotImplementedError
        A method that is needed is not defined.
    RuntimeError
        Both `backward` and `vjp`, which are the same, are defined.

    See Also
    --------
    once_differentiable, gradcheck

    Notes
    -----
    `ctx.save_for_backward` keeps tensors, `ctx.needs_input_grad` says which gradients are wanted;
    backward returns one gradient, or None, for each argument of forward.

    Examples
    --------
    >>> class Cube(st.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * g * x * x
    >>> x = st.tensor([2.0], requires_grad=True)
    >>> y = Cube.apply(x)
    >>> y.backward()
    >>> y.detach(), x.grad
    (tensor([8.]), tensor([12.]))
    """

    context: type[FunctionCtx]
    _backward_cls: type[Any]  # of `grad_fn`
    _has_jvp: bool  # whether it defines `jvp`

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.context = type(f"{cls.__name__}Backward", (FunctionCtx,), {"_function": cls})
        cls._backward_cls = function_class(cls.context.__name__, cls)
        cls._has_jvp = cls.jvp is not Function.jvp

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
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

    vjp = backward  # a Function defines one of the two

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError("Function: jvp is not implemented")

    generate_vmap_rule = False  # with True, `vmap` must not be overridden

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """The batching rule that `func.vmap` calls: gets the batches, with the batch's dimension of
        each argument, and returns `(outputs, out_dims)`. Without one `func.vmap` runs forward and
        backward as it runs other functions.

        Args:
            info: its `batch_size` and `randomness`.
        """
        raise NotImplementedError("Function: vmap is not implemented: define a vmap staticmethod")

    @classmethod
    def _pullback(cls) -> Callable[..., Any]:
        """The function that computes the gradients: `backward` or `vjp`.

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
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs forward, and records backward for the inputs that require grad."""
        if batching_rule is not None:
            result = batching_rule(cls, args, kwargs)
            if result is not NotImplemented:
                return result
        ctx = cls.context()
        takes_ctx = cls.setup_context is Function.setup_context
        if not takes_ctx:
            args, kwargs = bind_positionally(cls.forward, args, kwargs), {}
        nodes = [node_of(a) if isinstance(a, native.TensorBase) else None for a in args]
        tracked = recording.get() and any(n is not None for n in nodes)
        ctx.needs_input_grad = tuple(n is not None for n in nodes)
        former = recording.get()
        recording.set(False)
        began = profiling.begin() if profiling.on else 0
        try:
            if takes_ctx:
                result = call_with_gate_shut(cls.forward, ctx, *args, **kwargs)
            else:
                result = call_with_gate_shut(cls.forward, *args)
                call_with_gate_shut(cls.setup_context, ctx, args, result)
        finally:
            recording.set(former)
        if began:
            profiling.end(began, cls.__name__, profiling.OP)
        is_sequence = isinstance(result, (tuple, list))
        outputs = list(result) if is_sequence else [result]
        check_dirty(ctx, outputs)
        if tracked:
            outputs = record(ctx, args, nodes, outputs)
        else:
            for t in ctx.dirty_tensors:
                native.wrote(t)
            outputs = [as_output(o, args, ctx.dirty_tensors, False) for o in outputs]
        if not is_sequence:
            return outputs[0]
        return tuple(outputs) if isinstance(result, tuple) else outputs

    if TYPE_CHECKING:  # to pyright, attributes: a subclass defines them with arguments of its own
        forward: Callable[..., Any]  # type: ignore[no-redef]
        setup_context: Callable[..., Any]  # type: ignore[no-redef]
        backward: Callable[..., Any]  # type: ignore[no-redef]
        vjp: Callable[..., Any]  # type: ignore[no-redef]
        jvp: Callable[..., Any]  # type: ignore[no-redef]
        vmap: Callable[..., Any]  # type: ignore[no-redef]


class InplaceFunction(Function):
    """A Function that knows, as an old form of PyTorch, whether it is to work in place.

    Args:
        inplace: read by the functions of the subclass.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def bind_positionally(
    forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """All arguments of a forward by position, including defaults."""
    if not kwargs and not getattr(forward, "__defaults__", True):
        return args
    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return (*bound.args, *bound.kwargs.values())


def index_in(values: Sequence[Any], tensor: Any) -> int | None:
    """The index of the same object, or None."""
    for i, value in enumerate(values):
        if value is tensor:
            return i
    return None


def is_in(tensor: Any, tensors: Sequence[Any]) -> bool:
    """Whether the same object is among them."""
    return index_in(tensors, tensor) is not None


def check_dirty(ctx: FunctionCtx, outputs: list[Any]) -> None:
    """Checks that forward returned the tensors that it wrote."""
    for t in ctx.dirty_tensors:
        if not is_in(t, outputs):
            raise RuntimeError(
                f"{type(ctx).__name__}: mark_dirty: a tensor that was modified in place must be "
                f"returned: shape {t.array.shape}"
            )


def as_output(
    output: Any, args: tuple[Any, ...], dirty: tuple[Any, ...], has_gradient: bool
) -> Any:
    """The output for a value that forward returned. An input becomes a view of itself unless it was
    written, and is detached if it requires grad but its output has no gradient.
    """
    if not isinstance(output, native.TensorBase) or not is_in(output, args):
        return output
    tensor: Any = output
    if is_in(output, dirty):
        return output
    if not has_gradient and requires_grad(output):
        return tensor.detach()
    if is_plain(output):
        return native.view_of(output.array, output, None, FROM_FUNCTION)
    with no_grad():
        return native.mark(tensor.view_as(output), output, None, FROM_FUNCTION)


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
        check_recorded_write(t)
    non_differentiable = ctx.non_differentiable
    results = [as_output(o, args, dirty, not is_in(o, non_differentiable)) for o in outputs]
    for t in dirty:
        native.wrote(t)
    rule = FunctionRule(ctx, args, results)
    edges = tuple(n for n in nodes if n is not None)
    node = native.Node(rule, edges, save_tensors(rule, args, nodes, outputs, results))
    ctx._node = weakref.ref(node)
    for i, o in enumerate(results):
        if not isinstance(o, native.TensorBase) or o.array.dtype.kind not in "fc":
            continue
        if is_in(outputs[i], non_differentiable):
            continue
        if len(results) == 1:
            node.describe(o.array)
            edge: native.Edge = node
        else:
            edge = native.Port(node, i, o.array)
        is_dirty = is_in(o, dirty)
        if o.node.__class__ is AccumulateGrad and not is_dirty:
            o = results[i] = native.wrap(o.array)
        o.node = edge
        if o.base is not None:
            if is_dirty:
                write_to_root(o, edge)
            else:  # forward's own ops are not recorded
                o.base = (o.base[0], o.version.count, None, FROM_FUNCTION)
    # An output refers to the node, which refers to the context.
    ctx.to_save = ctx.saved_for_forward = None
    ctx.dirty_tensors = ctx.non_differentiable = ()
    return results


def save_tensors(
    rule: FunctionRule,
    args: tuple[Any, ...],
    nodes: list[Any],
    outputs: list[Any],
    results: list[Any],
) -> tuple[Any, ...]:
    """The tensors to save in the node; fills in `rule.saved`."""
    ctx = rule.ctx
    to_save = ctx.to_save or ()
    rule.n_for_backward = len(to_save)
    to_save += ctx.saved_for_forward or ()
    for i, t in enumerate(to_save):
        if t is None:
            rule.saved.append(SavedVariable(None))
            continue
        if not isinstance(t, native.TensorBase):
            raise TypeError(
                f"{rule.name}: save_for_backward can only save variables, but argument {i} is of "
                f"type {type(t).__name__}: {t!r}, set it as an attribute of ctx"
            )
        output = index_in(outputs, t)
        if output is not None and results[output] is t:
            rule.saved.append(SavedVariable(output))
            continue
        position = index_in(args, t)
        rule.saved.append(SavedVariable(node_of(t) if position is None else nodes[position], t))
    return to_save


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a Function's backward whose own derivative is an error.

    Parameters
    ----------
    backward : callable
        The static method.

    Returns
    -------
    callable

    See Also
    --------
    Function

    Examples
    --------
    >>> class Double(st.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...
    ...     @staticmethod
    ...     @st.autograd.once_differentiable
    ...     def backward(ctx, g):
    ...         return g * 2
    >>> x = st.ones(1, requires_grad=True)
    >>> st.autograd.grad(Double.apply(x), x)
    (tensor([2.]),)
    """

    @functools.wraps(backward)
    def once(ctx: Any, *grads: Any) -> Any:
        create_graph = recording.get()
        recording.set(False)
        try:
            gradients = backward(ctx, *grads)
        finally:
            recording.set(create_graph)
        if not create_graph or not any(
            isinstance(g, native.TensorBase) and g.node is not None for g in grads
        ):
            return gradients
        is_sequence = isinstance(gradients, tuple)
        results = []
        for g in gradients if is_sequence else (gradients,):
            if isinstance(g, native.TensorBase):
                g = native.wrap(g.array)
                sources = tuple(x.node for x in grads if isinstance(x, native.TensorBase))
                g.node = native.Node(OnceDifferentiable(type(ctx).__name__), sources, (), g.array)
            results.append(g)
        return tuple(results) if is_sequence else results[0]

    return once
