"""Gradients of functions as functions: grad, vjp, jvp, Jacobians. They compose with each other,
with `vmap`, and with a graph around them.

Inside `vmap` everything is done on all examples at once: the inputs are spread to a leading
dimension for every vmap that runs, so that the gradients of what all examples share come out
example by example, too (docs/design/func.md).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import native
from ..autograd import enable_grad, table
from ..autograd import grad as gradients_of
from ..autograd.engine.accumulate_grad import AccumulateGrad
from ..autograd.functional import vjp_for_forward_mode
from .batched_tensor import Batched, NoRule, levels, spread, unstack
from .pytree import flat

__all__ = ["grad", "grad_and_value", "jvp", "vjp"]

Function = Callable[..., Any]
Argnums = int | tuple[int, ...]


class Depth(threading.local):
    """How many of these functions run in this thread, one inside the other."""

    now = 0


depth = Depth()


class Trial:
    """One run of a function on inputs that are differentiated.

    Attributes:
        stack: the vmaps around it.
        plain: the inputs as tensors with the batches in front, each the start of a graph.
        tracked: whether results are part of a graph around this run.
    """

    def __init__(self, where: str, trees: list[Any]) -> None:
        found = [flat(tree) for tree in trees]
        self.stack = list(levels.now)
        self.counts = [len(leaves) for leaves, _ in found]
        self.rebuilds = [rebuild for _, rebuild in found]
        given = [x for leaves, _ in found for x in leaves]
        for x in given:
            if not isinstance(x, native.TensorBase):
                raise RuntimeError(
                    f"{where}: expected all inputs that are differentiated to be tensors: "
                    f"{type(x).__name__}"
                )
            if x.dtype.kind not in "fc":  # type: ignore[attr-defined]
                raise RuntimeError(
                    f"{where}: only tensors of floating-point or complex dtype have gradients: "
                    f"{x.dtype}"  # type: ignore[attr-defined]
                )
        wide = [spread(x, self.stack) for x in given]
        self.tracked = depth.now > 1 or any(x.requires_grad for x in wide)
        self.plain = [
            table.view_as(x, x) if x.requires_grad else x.detach().requires_grad_() for x in wide
        ]

    def trees(self) -> list[Any]:
        """The inputs for the function, nested as they were given."""
        made, start = [], 0
        for n, rebuild in zip(self.counts, self.rebuilds):
            part = [unstack(x, self.stack) for x in self.plain[start : start + n]]
            made.append(rebuild(part))
            start += n
        return made

    def nested(self, values: list[Any]) -> list[Any]:
        """Values, one for each input, nested as the inputs."""
        made, start = [], 0
        for n, rebuild in zip(self.counts, self.rebuilds):
            made.append(rebuild(values[start : start + n]))
            start += n
        return made

    def finish(self, output: Any) -> None:
        """Looks whether a result depends on other leaves: then it stays in their graph."""
        if not self.tracked and output.requires_grad:
            own = {id(x.node) for x in self.plain}
            self.tracked = depends_on_others(output.node, own)

    def pulled(self, output: Any, cotangent: Any) -> list[Any]:
        """The gradients at the inputs, zeros where nothing depends on one."""
        found: Any = [None] * len(self.plain)
        if output.requires_grad:
            found = gradients_of(output, self.plain, cotangent, True, self.tracked, True)
        return [zeros(x) if g is None else g for g, x in zip(found, self.plain)]

    def shown(self, value: Any) -> Any:
        """A result for the caller: without our graph, unless there is one around."""
        return value if self.tracked else value.detach()


def zeros(x: Any) -> Any:
    return native.wrap(native.call(np.zeros, tuple(x.shape), x.dtype))


def depends_on_others(node: Any, own: set[int]) -> bool:
    """Whether a graph leads to a leaf that is not among ours."""
    seen, stack = {id(node)}, [node]
    while stack:
        node = stack.pop()
        if node.__class__ is native.Port:
            node = node.node
        if node.__class__ is AccumulateGrad:
            if id(node) not in own:
                return True
            continue
        for e in node.edges:
            if e is not None and id(e) not in seen:
                seen.add(id(e))
                stack.append(e)
    return False


class inside:
    """While a function runs: gradients are recorded, and inner ones are part of the outer graph."""

    def __enter__(self) -> None:
        self.mode = enable_grad()
        self.mode.__enter__()
        depth.now += 1

    def __exit__(self, *error: Any) -> None:
        depth.now -= 1
        self.mode.__exit__(*error)


def chosen(where: str, argnums: Argnums, args: tuple[Any, ...]) -> list[int]:
    """The positions of the arguments that are differentiated."""
    given = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for i in given:
        if not -len(args) <= i < len(args):
            raise RuntimeError(f"{where}: argnums {argnums} but only {len(args)} positional inputs")
    return [i % len(args) for i in given]


def replaced(args: tuple[Any, ...], at: list[int], values: list[Any]) -> list[Any]:
    made = list(args)
    for i, v in zip(at, values):
        made[i] = v
    return made


def apart(where: str, made: Any, has_aux: bool) -> tuple[Any, Any]:
    """(output, aux) of what the function returned."""
    if not has_aux:
        return made, None
    if not isinstance(made, tuple) or len(made) != 2:
        raise RuntimeError(f"{where}: with has_aux=True the function must return (output, aux)")
    return made


def freed(trial: Trial, tree: Any) -> Any:
    """aux for the caller: its tensors without our graph."""
    leaves, rebuild = flat(tree)
    return rebuild([trial.shown(x) if isinstance(x, native.TensorBase) else x for x in leaves])


def grad_and_value(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that gives (gradient, value), or (gradient, (value, aux)).

    Args: as `grad`.
    """

    @functools.wraps(func)
    def run(*args: Any, **named: Any) -> Any:
        at = chosen("grad", argnums, args)
        with inside():
            trial = Trial("grad", [args[i] for i in at])
            made = func(*replaced(args, at, trial.trees()), **named)
            output, aux = apart("grad", made, has_aux)
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
            plain = spread(value, trial.stack)
            trial.finish(plain)
            one = native.wrap(np.ones(tuple(plain.shape), plain.dtype))
            found = [unstack(g, trial.stack) for g in trial.pulled(plain, one)]
        slopes = trial.nested(found)
        result = slopes[0] if isinstance(argnums, int) else tuple(slopes)
        value = unstack(trial.shown(plain), trial.stack)
        return result, ((value, freed(trial, aux)) if has_aux else value)

    return run


def grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that gives the gradient of `func` at its arguments.

    Args:
        func: returns a tensor of no dimensions; with has_aux a pair of it and anything else.
        argnums: which arguments, a number or several; each is a tensor, or nested lists, tuples and
            dictionaries of tensors.
        has_aux: also give what the function returned besides.

    Returns:
        A function of the same arguments: the gradient, nested as the argument; for several argnums
        a tuple; with has_aux (gradient, aux).

    Raises:
        RuntimeError: the result has dimensions, an argument is no tensor of real numbers.

    Example:
        >>> import shmtensor as st
        >>> st.func.grad(st.func.grad(st.sin))(st.tensor(0.5))
        tensor(-0.4794)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def run(*args: Any, **named: Any) -> Any:
        slope, value = both(*args, **named)
        return (slope, value[1]) if has_aux else slope

    return run


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """(output, pull): the result, and a function from cotangents to gradients of all primals.

    Args:
        func: takes tensors, or nested containers, returns the same.
        has_aux: the function returns (output, aux); aux comes third.

    Returns:
        pull takes one argument nested as the output, and gives a tuple with an entry per primal (of
        a single primal, too). It may be called again and again.
    """
    if not primals:
        raise RuntimeError("vjp: at least one input is needed")
    with inside():
        trial = Trial("vjp", list(primals))
        output, aux = apart("vjp", func(*trial.trees()), has_aux)
        leaves, rebuild = flat(output)
        for y in leaves:
            if not isinstance(y, native.TensorBase):
                raise RuntimeError(f"vjp: the function must return tensors: {type(y).__name__}")
        plain = [spread(y, trial.stack) for y in leaves]
        for y in plain:
            trial.finish(y)

    def pull(cotangents: Any) -> Any:
        given, _ = flat(cotangents)
        if len(given) != len(plain):
            raise RuntimeError(
                f"vjp: as many cotangents as outputs are needed: {len(given)}, {len(plain)}"
            )
        total: list[Any] = [None] * len(trial.plain)
        with inside():
            for g, y in zip(given, plain):
                if isinstance(g, Batched) and g.level not in trial.stack:
                    raise NoRule("a cotangent of a vmap that is inside")
                wide = spread(g, trial.stack)
                if tuple(wide.shape) != tuple(y.shape):
                    raise RuntimeError(
                        "vjp: the cotangent has another shape than the output: "
                        f"{tuple(wide.shape)}, {tuple(y.shape)}"
                    )
                trial.tracked = trial.tracked or wide.requires_grad
                found = trial.pulled(y, wide)
                total = [p if t is None else t + p for t, p in zip(total, found)]
        made = trial.nested([unstack(g, trial.stack) for g in total])
        return tuple(made)

    result = rebuild([unstack(trial.shown(y), trial.stack) for y in plain])
    return (result, pull, freed(trial, aux)) if has_aux else (result, pull)


def pushes(trial: Trial, plain: list[Any]) -> Callable[[list[Any]], list[Any]]:
    """Tangents of the inputs to tangents of the outputs: the pullback is linear in its cotangent,
    and its own pullback by that is the Jacobian.
    """
    pulled = []
    for y in plain:
        u = zeros(y).requires_grad_()
        gs: Any = [None] * len(trial.plain)
        if y.requires_grad:
            gs = vjp_for_forward_mode(u, y, trial.plain)
        pulled.append((u, gs))

    def push(tangents: list[Any]) -> list[Any]:
        made = []
        for (u, gs), y in zip(pulled, plain):
            used = [(g, t) for g, t in zip(gs, tangents) if g is not None and g.requires_grad]
            g = None
            if used:
                tracked = trial.tracked or any(t.requires_grad for _, t in used)
                (g,) = gradients_of(
                    [g for g, _ in used], u, [t for _, t in used], True, tracked, True
                )
            made.append(zeros(y) if g is None else g)
        return made

    return push


def jvp(func: Function, primals: Any, tangents: Any, *, has_aux: bool = False) -> Any:
    """(output, tangent): the result, and its derivative in the direction of the tangents.

    Args:
        primals, tangents: tuples of tensors, or of nested containers, of the same shapes.
        has_aux: the function returns (output, aux); aux comes third.
    """
    for name, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, (tuple, list)) or not value:
            raise RuntimeError(f"jvp: {name} must be a tuple that is not empty: {value!r}")
    with inside():
        trial = Trial("jvp", list(primals))
        given = flat(list(tangents))[0]
        wide = [spread(t, trial.stack) for t in given]
        if [tuple(t.shape) for t in wide] != [tuple(x.shape) for x in trial.plain]:
            raise RuntimeError(
                "jvp: primals and tangents must have the same shapes: "
                f"{[tuple(x.shape) for x in trial.plain]}, {[tuple(t.shape) for t in wide]}"
            )
        output, aux = apart("jvp", func(*trial.trees()), has_aux)
        leaves, rebuild = flat(output)
        plain = [spread(y, trial.stack) for y in leaves]
        for y in plain:
            trial.finish(y)
        made = pushes(trial, plain)(wide)
        slope = rebuild([unstack(trial.shown(t), trial.stack) for t in made])
    result = rebuild([unstack(trial.shown(y), trial.stack) for y in plain])
    return (result, slope, freed(trial, aux)) if has_aux else (result, slope)
