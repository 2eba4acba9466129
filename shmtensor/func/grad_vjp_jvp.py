"""Gradients of functions as functions: grad, vjp, jvp, Jacobians. They compose with each other,
with `vmap`, and with a graph around them.

Inside `vmap` everything is computed on all examples at once. The inputs get a leading dimension for
every running vmap, so the gradients of shared inputs are computed for each example, too
(docs/design/func.md).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from .. import native
from ..autograd import enable_grad, table
from ..autograd import grad as gradients_of
from ..autograd.engine.accumulate_grad import AccumulateGrad
from ..autograd.functional import vjp_for_forward_mode
from ..cuda_arrays import device_of, new_array
from .batched_tensor import Batched, NoBatchingRule, levels, unwrap_levels, wrap_levels
from .pytree import flatten

Function = Callable[..., Any]
Argnums = int | tuple[int, ...]


class Nesting(threading.local):
    """How many of these functions are running in this thread, nested."""

    depth = 0


nesting = Nesting()


class DifferentiatedCall:
    """One call of a function on inputs to differentiate by.

    Attributes:
        levels: the vmaps around it.
        inputs: the inputs as plain tensors with leading batch dimensions, each an input of the
            graph.
        in_outer_graph: whether results are part of a graph around this call.
    """

    def __init__(self, where: str, trees: list[Any]) -> None:
        flattened = [flatten(tree) for tree in trees]
        self.levels = list(levels.active)
        self.counts = [len(leaves) for leaves, _ in flattened]
        self.rebuilds = [rebuild for _, rebuild in flattened]
        tensors = [x for leaves, _ in flattened for x in leaves]
        for x in tensors:
            if not isinstance(x, native.TensorBase):
                raise RuntimeError(
                    f"{where}: expected all inputs that are differentiated to be tensors: "
                    f"{type(x).__name__}"
                )
            if x.dtype.kind not in "fc":
                raise RuntimeError(
                    f"{where}: only tensors of floating-point or complex dtype have gradients: "
                    f"{x.dtype.name}"
                )
        unwrapped = [unwrap_levels(x, self.levels) for x in tensors]
        self.in_outer_graph = nesting.depth > 1 or any(x.requires_grad for x in unwrapped)
        self.inputs = [
            table.view_as(x, x) if x.requires_grad else x.detach().requires_grad_()
            for x in unwrapped
        ]

    def arguments(self) -> list[Any]:
        """The arguments for the function, nested as the caller's."""
        trees, start = [], 0
        for n, rebuild in zip(self.counts, self.rebuilds):
            part = [wrap_levels(x, self.levels) for x in self.inputs[start : start + n]]
            trees.append(rebuild(part))
            start += n
        return trees

    def unflatten(self, values: list[Any]) -> list[Any]:
        """Values, one for each input, nested as the inputs."""
        trees, start = [], 0
        for n, rebuild in zip(self.counts, self.rebuilds):
            trees.append(rebuild(values[start : start + n]))
            start += n
        return trees

    def check_outer_graph(self, output: Any) -> None:
        """Checks whether a result depends on other leaves: then it stays in their graph."""
        if not self.in_outer_graph and output.requires_grad:
            own_leaves = {id(x.node) for x in self.inputs}
            self.in_outer_graph = depends_on_others(output.node, own_leaves)

    def vjp(self, output: Any, cotangent: Any) -> list[Any]:
        """The gradients of the inputs, zeros for an input that the output does not depend on."""
        gradients: Any = [None] * len(self.inputs)
        if output.requires_grad:
            gradients = gradients_of(
                output, self.inputs, cotangent, True, self.in_outer_graph, allow_unused=True
            )
        return [zeros(x) if g is None else g for g, x in zip(gradients, self.inputs)]

    def as_result(self, value: Any) -> Any:
        """A result for the caller: detached, unless there is an outer graph."""
        return value if self.in_outer_graph else value.detach()


def zeros(x: Any) -> Any:
    return native.wrap(native.call(new_array, "zeros", tuple(x.shape), x.dtype, device_of(x.array)))


def depends_on_others(node: Any, own_leaves: set[int]) -> bool:
    """Whether a graph leads to a leaf other than these."""
    visited, stack = {id(node)}, [node]
    while stack:
        node = stack.pop()
        if node.__class__ is native.Port:
            node = node.node
        if node.__class__ is AccumulateGrad:
            if id(node) not in own_leaves:
                return True
            continue
        for e in node.edges:
            if e is not None and id(e) not in visited:
                visited.add(id(e))
                stack.append(e)
    return False


class differentiating:
    """In this block, history is recorded, and results of nested calls stay in the outer graph."""

    def __enter__(self) -> None:
        self.mode = enable_grad()
        self.mode.__enter__()
        nesting.depth += 1

    def __exit__(self, *error: Any) -> None:
        nesting.depth -= 1
        self.mode.__exit__(*error)


def argument_positions(where: str, argnums: Argnums, args: tuple[Any, ...]) -> list[int]:
    """The positions of the arguments to differentiate by."""
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for i in positions:
        if not -len(args) <= i < len(args):
            raise RuntimeError(f"{where}: argnums {argnums} but only {len(args)} positional inputs")
    return [i % len(args) for i in positions]


def replace_at(args: tuple[Any, ...], positions: list[int], values: list[Any]) -> list[Any]:
    arguments = list(args)
    for i, v in zip(positions, values):
        arguments[i] = v
    return arguments


def split_aux(where: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    """(output, aux) from the function's result."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(f"{where}: with has_aux=True the function must return (output, aux)")
    return result


def detach_aux(call: DifferentiatedCall, tree: Any) -> Any:
    """aux for the caller, with its tensors detached."""
    leaves, rebuild = flatten(tree)
    return rebuild([call.as_result(x) if isinstance(x, native.TensorBase) else x for x in leaves])


def grad_and_value(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that returns the gradient and the value of `func` at its arguments.

    Parameters
    ----------
    func : callable
        Returns a 0-d tensor; with has_aux a pair of it and anything else.
    argnums : int or tuple of int, optional
        The positions of the arguments.
    has_aux : bool, optional
        Whether to return the function's second result, too.

    Returns
    -------
    callable
        A function that returns (gradient, value), or (gradient, (value, aux)).

    Raises
    ------
    RuntimeError
        The result is not a single real tensor without dimensions.

    See Also
    --------
    grad

    Examples
    --------
    >>> st.func.grad_and_value(lambda x: x * x)(st.tensor(3.))
    (tensor(6.), tensor(9.))
    """

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        positions = argument_positions("grad", argnums, args)
        with differentiating():
            call = DifferentiatedCall("grad", [args[i] for i in positions])
            returned = func(*replace_at(args, positions, call.arguments()), **kwargs)
            output, aux = split_aux("grad", returned, has_aux)
            if not isinstance(output, native.TensorBase):
                raise RuntimeError(
                    "grad: Expected f(*args) to return a single tensor, got "
                    f"{type(output).__name__}"
                )
            value: Any = output
            if value.ndim:
                raise RuntimeError(
                    "grad: Expected f(*args) to return a scalar tensor, got tensor with "
                    f"{value.ndim} dims: {tuple(value.shape)}"
                )
            if value.dtype.kind == "c":
                raise RuntimeError("grad: Expected f(*args) to return a real tensor, got complex")
            output_value = unwrap_levels(value, call.levels)
            call.check_outer_graph(output_value)
            place = device_of(output_value.array)
            one = native.wrap(
                new_array("ones", output_value.array.shape, output_value.dtype, place)
            )
            gradients = [wrap_levels(g, call.levels) for g in call.vjp(output_value, one)]
        nested = call.unflatten(gradients)
        result = nested[0] if isinstance(argnums, int) else tuple(nested)
        value = wrap_levels(call.as_result(output_value), call.levels)
        return result, ((value, detach_aux(call, aux)) if has_aux else value)

    return run


def grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that returns the gradient of `func` at its arguments.

    Parameters
    ----------
    func : callable
        Returns a 0-d tensor; with has_aux a pair of it and anything else.
    argnums : int or tuple of int, optional
        The positions of the arguments; each is a tensor, or nested lists, tuples and dictionaries
        of tensors.
    has_aux : bool, optional
        Whether to return the function's second result, too.

    Returns
    -------
    callable
        A function of the same arguments that returns the gradient, nested as the argument; for
        several argnums a tuple; with has_aux (gradient, aux).

    Raises
    ------
    RuntimeError
        The result has dimensions or is complex, or an argument is not a floating-point or complex
        tensor.

    See Also
    --------
    grad_and_value, vjp, jacrev

    Examples
    --------
    >>> st.func.grad(st.func.grad(st.sin))(st.tensor(0.5))
    tensor(-0.4794)
    >>> st.func.grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(st.ones(2), st.zeros(2))
    (tensor([0., 0.]), tensor([1., 1.]))
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return run


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """The result of a function, and a function from cotangents to the gradients of all primals.

    Parameters
    ----------
    func : callable
        Takes and returns tensors, or nested containers of them.
    *primals
        Where: the arguments of func.
    has_aux : bool, optional
        Whether func returns (output, aux); aux comes third.

    Returns
    -------
    (output, pull) : any, callable
        pull takes one argument, nested as the output, and returns a tuple with an entry per primal,
        also for a single primal. It may be called several times.

    Raises
    ------
    RuntimeError
        func returns no tensors, or in pull the cotangents have other shapes.

    See Also
    --------
    jvp, grad, linearize

    Examples
    --------
    >>> output, pull = st.func.vjp(lambda x: x * x, st.tensor([1., 2.]))
    >>> output, pull(st.tensor([1., 10.]))
    (tensor([1., 4.]), (tensor([ 2., 40.]),))
    """
    if not primals:
        raise RuntimeError("vjp: at least one input is needed")
    with differentiating():
        call = DifferentiatedCall("vjp", list(primals))
        output, aux = split_aux("vjp", func(*call.arguments()), has_aux)
        leaves, rebuild = flatten(output)
        for y in leaves:
            if not isinstance(y, native.TensorBase):
                raise RuntimeError(f"vjp: the function must return tensors: {type(y).__name__}")
        outputs = [unwrap_levels(y, call.levels) for y in leaves]
        for y in outputs:
            call.check_outer_graph(y)

    def pull(cotangents: Any) -> Any:
        grads, _ = flatten(cotangents)
        if len(grads) != len(outputs):
            raise RuntimeError(f"vjp: {len(grads)} cotangents for {len(outputs)} outputs")
        total: list[Any] = [None] * len(call.inputs)
        with differentiating():
            for g, y in zip(grads, outputs):
                if isinstance(g, Batched) and g.level not in call.levels:
                    raise NoBatchingRule("a cotangent of an inner vmap")
                grad_output = unwrap_levels(g, call.levels)
                if tuple(grad_output.shape) != tuple(y.shape):
                    raise RuntimeError(
                        "vjp: the cotangent has another shape than the output: "
                        f"{tuple(grad_output.shape)}, {tuple(y.shape)}"
                    )
                call.in_outer_graph = call.in_outer_graph or grad_output.requires_grad
                gradients = call.vjp(y, grad_output)
                total = [p if t is None else t + p for t, p in zip(total, gradients)]
        nested = call.unflatten([wrap_levels(g, call.levels) for g in total])
        return tuple(nested)

    result = rebuild([wrap_levels(call.as_result(y), call.levels) for y in outputs])
    return (result, pull, detach_aux(call, aux)) if has_aux else (result, pull)


def jvp_function(call: DifferentiatedCall, plain: list[Any]) -> Callable[[list[Any]], list[Any]]:
    """A function from tangents of the inputs to tangents of the outputs: the pullback is linear in
    its cotangent, and its own pullback by that is the Jacobian.
    """
    vjps = []
    for y in plain:
        u = zeros(y).requires_grad_()
        gs: Any = [None] * len(call.inputs)
        if y.requires_grad:
            gs = vjp_for_forward_mode(u, y, call.inputs)
        vjps.append((u, gs))

    def push(tangents: list[Any]) -> list[Any]:
        results = []
        for (u, gs), y in zip(vjps, plain):
            pairs = [(g, t) for g, t in zip(gs, tangents) if g is not None and g.requires_grad]
            g = None
            if pairs:
                tracked = call.in_outer_graph or any(t.requires_grad for _, t in pairs)
                (g,) = gradients_of(
                    [g for g, _ in pairs], u, [t for _, t in pairs], True, tracked,
                    allow_unused=True,
                )  # fmt: skip
            results.append(zeros(y) if g is None else g)
        return results

    return push


def jvp(func: Function, primals: Any, tangents: Any, *, has_aux: bool = False) -> Any:
    """The result of a function, and its derivative in the direction of the tangents.

    Parameters
    ----------
    func : callable
        Takes and returns tensors, or nested containers of them.
    primals, tangents : tuple
        Of tensors, or of nested containers, of the same shapes.
    has_aux : bool, optional
        Whether func returns (output, aux); aux comes third.

    Returns
    -------
    (output, tangent)
        Nested alike.

    Raises
    ------
    RuntimeError
        primals or tangents are no tuples, or empty, or have different shapes.

    See Also
    --------
    vjp, linearize, jacfwd

    Examples
    --------
    >>> st.func.jvp(lambda x: x * x, (st.tensor([1., 2.]),), (st.tensor([1., 10.]),))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    for name, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, (tuple, list)) or not value:
            raise RuntimeError(f"jvp: {name} must be a tuple that is not empty: {value!r}")
    with differentiating():
        call = DifferentiatedCall("jvp", list(primals))
        tangent_leaves = flatten(list(tangents))[0]
        unwrapped = [unwrap_levels(t, call.levels) for t in tangent_leaves]
        if [tuple(t.shape) for t in unwrapped] != [tuple(x.shape) for x in call.inputs]:
            raise RuntimeError(
                "jvp: primals and tangents must have the same shapes: "
                f"{[tuple(x.shape) for x in call.inputs]}, {[tuple(t.shape) for t in unwrapped]}"
            )
        output, aux = split_aux("jvp", func(*call.arguments()), has_aux)
        leaves, rebuild = flatten(output)
        outputs = [unwrap_levels(y, call.levels) for y in leaves]
        for y in outputs:
            call.check_outer_graph(y)
        output_tangents = jvp_function(call, outputs)(unwrapped)
        tangent = rebuild([wrap_levels(call.as_result(t), call.levels) for t in output_tangents])
    result = rebuild([wrap_levels(call.as_result(y), call.levels) for y in outputs])
    return (result, tangent, detach_aux(call, aux)) if has_aux else (result, tangent)
