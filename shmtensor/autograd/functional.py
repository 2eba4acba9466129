"""Jacobians, Hessians, and their products with vectors, of functions of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import native
from .dispatch.op_function import table
from .engine.backward import grad
from .engine.running import walks
from .grad_mode import enable_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Function = Callable[..., Any]


def listed(where: str, given: Any) -> tuple[tuple[Any, ...], bool]:
    """Tensors as a tuple, and whether they were one."""
    several = isinstance(given, (tuple, list))
    tensors = tuple(given) if several else (given,)
    for i, t in enumerate(tensors):
        if not isinstance(t, native.TensorBase):
            raise TypeError(
                f"{where}: must be either a Tensor or a tuple of Tensors: element {i} is a "
                f"{type(t).__name__}"
            )
    return tensors, several


def one_or_all(tensors: Any, several: bool) -> Any:
    return tuple(tensors) if several else tensors[0]


def tracked(inputs: tuple[Any, ...], create_graph: bool) -> tuple[Any, ...]:
    """The inputs as fresh tensors that require grad; with history under `create_graph`."""
    made = []
    for x in inputs:
        if create_graph and x.requires_grad:
            made.append(table.view_as(x, x))
        else:
            made.append(x.detach().requires_grad_())
    return tuple(made)


def zeros_like(x: Any) -> Any:
    return native.wrap(native.call(np.zeros, x.array.shape, x.array.dtype))


def run(where: str, func: Function, inputs: tuple[Any, ...]) -> tuple[tuple[Any, ...], bool]:
    return listed(f"{where}: the outputs of the function", func(*inputs))


def gradients(
    where: str,
    outputs: Any,
    inputs: Any,
    grad_outputs: Any,
    create_graph: bool,
    strict: bool,
    keep: bool = True,
) -> list[Any]:
    """`grad`, with zeros for what the outputs do not depend on; under `strict` an error."""
    pairs = [(o, g) for o, g in zip(outputs, grad_outputs) if o.requires_grad]
    found: Any = [None] * len(inputs)
    if pairs:
        found = grad([o for o, _ in pairs], inputs, [g for _, g in pairs], keep, create_graph, True)
    for i, g in enumerate(found):
        if strict and (g is None or (create_graph and not g.requires_grad)):
            raise RuntimeError(
                f"{where}: Output of your user-provided function is independent of input {i} (or "
                "its gradient is): this is not allowed in strict mode"
            )
    return [zeros_like(x) if g is None else g for g, x in zip(found, inputs)]


def finished(tensors: Any, create_graph: bool) -> list[Any]:
    return list(tensors) if create_graph else [t.detach() for t in tensors]


def vectors(where: str, v: Any, like: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    """The given vectors, checked; ones for a single element."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"{where}: The vector v can only be None if the user-provided function {what} a "
                f"single Tensor with a single element: shapes {[t.array.shape for t in like]}"
            )
        return (native.wrap(np.ones(like[0].array.shape, like[0].array.dtype)),)
    given, _ = listed(f"{where}: v", v)
    if len(given) != len(like):
        raise RuntimeError(f"{where}: v is of invalid length: {len(given)}, not {len(like)}")
    for i, (a, b) in enumerate(zip(given, like)):
        if a.array.shape != b.array.shape:
            raise RuntimeError(
                f"{where}: v has invalid size: entry {i} should be {b.array.shape} but is "
                f"{a.array.shape}"
            )
    return given


def vjp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(outputs, v^T J): the product of a vector with the Jacobian.

    Args:
        func: takes tensors, returns a tensor or a tuple.
        inputs: a tensor or a tuple.
        v: shaped as the outputs; may be left out for one output of one element.
        create_graph: the results are differentiable.
        strict: an output that does not depend on an input is an error, not zeros.
    """
    xs, several = listed("vjp: inputs", inputs)
    with enable_grad():
        xs = tracked(xs, create_graph)
        ys, several_out = run("vjp", func, xs)
        given = vectors("vjp", v, ys, "returns")
        found = gradients("vjp", ys, xs, given, create_graph, strict)
    outputs = finished(ys, create_graph)
    return one_or_all(outputs, several_out), one_or_all(finished(found, create_graph), several)


def jvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(outputs, J v): the product of the Jacobian with a vector, by a double pullback.

    Args: as `vjp`; v is shaped as the inputs.
    """
    xs, _ = listed("jvp: inputs", inputs)
    with enable_grad():
        xs = tracked(xs, create_graph)
        given = vectors("jvp", v, xs, "takes")
        ys, several_out = run("jvp", func, xs)
        made = pushed("jvp", ys, xs, given, create_graph, strict)
    outputs = finished(ys, create_graph)
    return one_or_all(outputs, several_out), one_or_all(finished(made, create_graph), several_out)


def pulled_by(u: Any, y: Any, xs: Any) -> tuple[Any, ...]:
    """The pullback as a function of the cotangent u, to be differentiated by it. A custom
    Function's `jvp` is the derivative of its part.
    """
    former, walks.pushing = walks.pushing, True
    try:
        return grad(y, xs, u, True, True, True)
    finally:
        walks.pushing = former


def pushed(
    where: str, ys: Any, xs: Any, tangents: Any, create_graph: bool, strict: bool
) -> list[Any]:
    """J v: the pullback is linear in its cotangent u, and its own pullback by u is J."""
    made = []
    for y in ys:
        if not y.requires_grad:
            if strict:
                raise RuntimeError(f"{where}: an output is independent of the inputs")
            made.append(zeros_like(y))
            continue
        u = zeros_like(y).requires_grad_()
        pulled = pulled_by(u, y, xs)
        used = [(g, t) for g, t in zip(pulled, tangents) if g is not None and g.requires_grad]
        if strict and len(used) < len(pulled):
            raise RuntimeError(f"{where}: an output is independent of an input: strict mode")
        (g,) = grad(
            [g for g, _ in used], u, [t for _, t in used], True, create_graph, True
        ) if used else (None,)  # fmt: skip
        made.append(zeros_like(y) if g is None else g)
    return made


def jacobian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of a function.

    Args:
        func: takes tensors, returns a tensor or a tuple.
        inputs: a tensor or a tuple.
        create_graph, strict: as `vjp`.
        vectorize: accepted; rows are computed one by one.
        strategy: "reverse-mode", a row per element of the outputs, or "forward-mode", a column per
            element of the inputs.

    Returns:
        A tensor of shape (*output, *input); of tuples, a tuple (per output) of tuples (per input).
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(f"jacobian: strategy is one of reverse-mode, forward-mode: {strategy!r}")
    if strategy == "forward-mode" and create_graph:
        raise NotImplementedError("jacobian: forward-mode does not support create_graph=True")
    xs, several = listed("jacobian: inputs", inputs)
    with enable_grad():
        xs = tracked(xs, create_graph)
        ys, several_out = run("jacobian", func, xs)
        by_rows = strategy == "reverse-mode"
        rows = [
            (rows_of if by_rows else jvp_columns)(y, xs, create_graph, strict) for y in ys
        ]  # fmt: skip
    made = [one_or_all(finished(row, create_graph), several) for row in rows]
    return one_or_all(made, several_out)


def unit(like: Any, place: int) -> Any:
    """Zeros with a one at an element."""
    array = np.zeros(like.array.shape, like.array.dtype)
    array.reshape(-1)[place] = 1
    return native.wrap(array)


def rows_of(y: Any, xs: tuple[Any, ...], create_graph: bool, strict: bool) -> list[Any]:
    """dy/dx for each x, a pullback per element of y."""
    if strict and not y.requires_grad:
        raise RuntimeError("jacobian: an output is independent of the inputs: strict mode")
    rows: list[list[Any]] = [[] for _ in xs]
    for i in range(y.numel()):
        found = gradients("jacobian", (y,), xs, (unit(y, i),), create_graph, strict)
        for row, g in zip(rows, found):
            row.append(g)
    made = []
    for x, row in zip(xs, rows):
        shape = (*y.array.shape, *x.array.shape)
        flat = table.stack(row) if row else native.wrap(np.zeros((0, *x.shape), x.array.dtype))
        made.append(flat.reshape(shape))
    return made


def jvp_columns(y: Any, xs: tuple[Any, ...], create_graph: bool, strict: bool) -> list[Any]:
    """dy/dx for each x, a push forward per element of x."""
    made = []
    for k, x in enumerate(xs):
        columns = []
        for i in range(x.numel()):
            tangents = [unit(t, i) if j == k else zeros_like(t) for j, t in enumerate(xs)]
            columns += pushed("jacobian", (y,), xs, tangents, create_graph, strict)
        shape = (*y.array.shape, *x.array.shape)
        if columns:
            made.append(table.stack(columns, -1).reshape(shape))
        else:
            made.append(native.wrap(np.zeros(shape, y.array.dtype)))
    return made


def scalar(where: str, func: Function) -> Function:
    """The function, whose result must be one number."""

    def run(*inputs: Any) -> Any:
        out: Any = func(*inputs)
        if not isinstance(out, native.TensorBase) or out.array.size != 1:
            shown = out.array.shape if isinstance(out, native.TensorBase) else type(out).__name__
            raise RuntimeError(
                f"{where}: The Tensor returned by the function should contain a single element: "
                f"{shown}"
            )
        made: Any = out
        return made.squeeze()

    return run


def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The matrix of second derivatives of a function with one number as its result.

    Args: as `jacobian`.

    Returns:
        A tensor of shape (*input, *input); of several inputs, a tuple of tuples.
    """
    xs, several = listed("hessian: inputs", inputs)
    numeric = scalar("hessian", func)

    def gradient(*inner: Any) -> tuple[Any, ...]:
        if outer_jacobian_strategy == "forward-mode":
            inner = tuple(table.view_as(x, x) for x in inner)
        y = numeric(*inner)
        one = native.wrap(np.ones((), y.array.dtype))
        return tuple(gradients("hessian", (y,), inner, (one,), True, strict))

    made = jacobian(gradient, xs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return made if several else made[0][0]


def vhp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(output, v^T H): the product of a vector with the Hessian of a function of one number.

    Args: as `vjp`; v is shaped as the inputs.
    """
    xs, several = listed("vhp: inputs", inputs)
    numeric = scalar("vhp", func)
    with enable_grad():
        xs = tracked(xs, create_graph)
        given = vectors("vhp", v, xs, "takes")
        y = numeric(*xs)
        one = native.wrap(np.ones((), y.array.dtype))
        first = gradients("vhp", (y,), xs, (one,), True, strict)
        found = gradients("vhp", first, xs, given, create_graph, strict)
    output = finished([y], create_graph)[0]
    return output, one_or_all(finished(found, create_graph), several)


def hvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(output, H v): the Hessian times a vector; `vhp` does the same for less.

    Args: as `vhp`.
    """
    xs, several = listed("hvp: inputs", inputs)
    numeric = scalar("hvp", func)
    with enable_grad():
        xs = tracked(xs, create_graph)
        given = vectors("hvp", v, xs, "takes")
        y = numeric(*xs)
        one = native.wrap(np.ones((), y.array.dtype))
        first = gradients("hvp", (y,), xs, (one,), True, strict)
        made = pushed("hvp", first, xs, given, create_graph, strict)
    output = finished([y], create_graph)[0]
    return output, one_or_all(finished(made, create_graph), several)
