"""Jacobians, Hessians, and their products with vectors, of functions of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import native
from ..cuda_arrays import device_of, new_array
from .dispatch.op_function import table
from .engine.current_backward import backward_state
from .engine.grad import grad
from .grad_mode import enable_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Function = Callable[..., Any]


def as_tuple(where: str, value: Any) -> tuple[tuple[Any, ...], bool]:
    """Tensors as a tuple, and whether they came as one."""
    several = isinstance(value, (tuple, list))
    tensors = tuple(value) if several else (value,)
    for i, t in enumerate(tensors):
        if not isinstance(t, native.TensorBase):
            raise TypeError(
                f"{where}: must be either a Tensor or a tuple of Tensors: element {i} is a "
                f"{type(t).__name__}"
            )
    return tensors, several


def unwrap_single(tensors: Any, several: bool) -> Any:
    return tuple(tensors) if several else tensors[0]


def fresh_inputs(inputs: tuple[Any, ...], create_graph: bool) -> tuple[Any, ...]:
    """New tensors of the inputs that require grad; with history under `create_graph`."""
    results = []
    for x in inputs:
        if create_graph and x.requires_grad:
            results.append(table.view_as(x, x))
        else:
            results.append(x.detach().requires_grad_())
    return tuple(results)


def filled_like(name: str, shape: tuple[int, ...], x: Any) -> Any:
    """A tensor of a shape, of a tensor's dtype and device, by the name of NumPy's function."""
    return native.wrap(native.call(new_array, name, shape, x.array.dtype, device_of(x.array)))


def zeros_like(x: Any) -> Any:
    return filled_like("zeros", x.array.shape, x)


def one_like(x: Any) -> Any:
    """A 1 without dimensions, of a tensor's dtype and device."""
    return filled_like("ones", (), x)


def call_function(
    where: str, func: Function, inputs: tuple[Any, ...]
) -> tuple[tuple[Any, ...], bool]:
    return as_tuple(f"{where}: the outputs of the function", func(*inputs))


def gradients(
    where: str,
    outputs: Any,
    inputs: Any,
    grad_outputs: Any,
    create_graph: bool,
    strict: bool,
    retain_graph: bool = True,
) -> list[Any]:
    """`grad`, with zeros for an input that no output depends on; under `strict` an error."""
    pairs = [(o, g) for o, g in zip(outputs, grad_outputs) if o.requires_grad]
    grads: Any = [None] * len(inputs)
    if pairs:
        grads = grad(
            [o for o, _ in pairs], inputs, [g for _, g in pairs], retain_graph, create_graph,
            allow_unused=True,
        )  # fmt: skip
    for i, g in enumerate(grads):
        if strict and (g is None or (create_graph and not g.requires_grad)):
            raise RuntimeError(
                f"{where}: Output of your user-provided function is independent of input {i} (or "
                "its gradient is): this is not allowed in strict mode"
            )
    return [zeros_like(x) if g is None else g for g, x in zip(grads, inputs)]


def detach_unless(tensors: Any, create_graph: bool) -> list[Any]:
    return list(tensors) if create_graph else [t.detach() for t in tensors]


def vectors(where: str, v: Any, like: tuple[Any, ...], verb: str) -> tuple[Any, ...]:
    """The vectors v, checked; by default ones for a single element."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"{where}: The vector v can only be None if the user-provided function {verb} a "
                f"single Tensor with a single element: shapes {[t.array.shape for t in like]}"
            )
        return (filled_like("ones", like[0].array.shape, like[0]),)
    vs, _ = as_tuple(f"{where}: v", v)
    if len(vs) != len(like):
        raise RuntimeError(f"{where}: v is of invalid length: {len(vs)}, not {len(like)}")
    for i, (a, b) in enumerate(zip(vs, like)):
        if a.array.shape != b.array.shape:
            raise RuntimeError(
                f"{where}: v has invalid size: entry {i} should be {b.array.shape} but is "
                f"{a.array.shape}"
            )
    return vs


def vjp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The outputs, and the product of a vector with the Jacobian: v^T J.

    Parameters
    ----------
    func : callable
        Takes tensors, returns a tensor or a tuple.
    inputs : Tensor or tuple of Tensor
        Where.
    v : Tensor or tuple, optional
        In the shapes of the outputs; optional for one output of one element.
    create_graph : bool, optional
        Whether the results are differentiable.
    strict : bool, optional
        Whether an output that does not depend on an input is an error, not zeros.

    Returns
    -------
    (outputs, product)
        The product in the shapes of the inputs.

    See Also
    --------
    jvp, func.vjp

    Examples
    --------
    >>> st.autograd.functional.vjp(lambda x: x * x, st.tensor([1., 2.]), st.tensor([1., 10.]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    xs, several = as_tuple("vjp: inputs", inputs)
    with enable_grad():
        xs = fresh_inputs(xs, create_graph)
        ys, several_out = call_function("vjp", func, xs)
        vs = vectors("vjp", v, ys, "returns")
        grads = gradients("vjp", ys, xs, vs, create_graph, strict)
    outputs = detach_unless(ys, create_graph)
    return unwrap_single(outputs, several_out), unwrap_single(
        detach_unless(grads, create_graph), several
    )


def jvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The outputs, and the product of the Jacobian with a vector, J v, by a double pullback.

    Parameters
    ----------
    func : callable
        Takes tensors, returns a tensor or a tuple.
    inputs : Tensor or tuple of Tensor
        Where.
    v : Tensor or tuple, optional
        In the shapes of the inputs; optional for one input of one element.
    create_graph : bool, optional
        Whether the results are differentiable.
    strict : bool, optional
        Whether an output that does not depend on an input is an error, not zeros.

    Returns
    -------
    (outputs, product)
        The product in the shapes of the outputs.

    See Also
    --------
    vjp, func.jvp

    Examples
    --------
    >>> st.autograd.functional.jvp(lambda x: x * x, st.tensor([1., 2.]), st.tensor([1., 10.]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    xs, _ = as_tuple("jvp: inputs", inputs)
    with enable_grad():
        xs = fresh_inputs(xs, create_graph)
        vs = vectors("jvp", v, xs, "takes")
        ys, several_out = call_function("jvp", func, xs)
        tangents = jvp_by_double_backward("jvp", ys, xs, vs, create_graph, strict)
    outputs = detach_unless(ys, create_graph)
    return unwrap_single(outputs, several_out), unwrap_single(
        detach_unless(tangents, create_graph), several_out
    )


def vjp_for_forward_mode(u: Any, y: Any, xs: Any) -> tuple[Any, ...]:
    """The pullback of the cotangent u, to be differentiated by u. The derivative of a custom
    Function with `jvp` is that `jvp`.
    """
    former, backward_state.forward_mode = backward_state.forward_mode, True
    try:
        gradients: tuple[Any, ...] = grad(y, xs, u, True, True, allow_unused=True)
        return gradients
    finally:
        backward_state.forward_mode = former


def jvp_by_double_backward(
    where: str, ys: Any, xs: Any, tangents: Any, create_graph: bool, strict: bool
) -> list[Any]:
    """J v: the pullback is linear in its cotangent u, and its own pullback by u is J."""
    results = []
    for y in ys:
        if not y.requires_grad:
            if strict:
                raise RuntimeError(f"{where}: an output is independent of the inputs")
            results.append(zeros_like(y))
            continue
        u = zeros_like(y).requires_grad_()
        gradients = vjp_for_forward_mode(u, y, xs)
        pairs = [(g, t) for g, t in zip(gradients, tangents) if g is not None and g.requires_grad]
        if strict and len(pairs) < len(gradients):
            raise RuntimeError(f"{where}: an output is independent of an input: strict mode")
        (g,) = grad(
            [g for g, _ in pairs], u, [t for _, t in pairs], True, create_graph, allow_unused=True
        ) if pairs else (None,)  # fmt: skip
        results.append(zeros_like(y) if g is None else g)
    return results


def jacobian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of a function: the derivative of each output by each input.

    Parameters
    ----------
    func : callable
        Takes tensors, returns a tensor or a tuple.
    inputs : Tensor or tuple of Tensor
        Where.
    create_graph : bool, optional
        Whether the result is differentiable.
    strict : bool, optional
        Whether an output that does not depend on an input is an error, not zeros.
    vectorize : bool, optional
        Ignored; rows are computed one by one.
    strategy : str, optional
        "reverse-mode", a row per element of the outputs, or "forward-mode", a column per element of
        the inputs.

    Returns
    -------
    Tensor or tuple
        Of shape `(*output, *input)`; for tuples, a tuple (per output) of tuples (per input).

    Raises
    ------
    ValueError
        Another strategy.
    NotImplementedError
        "forward-mode" with create_graph.

    See Also
    --------
    hessian, func.jacrev

    Examples
    --------
    >>> st.autograd.functional.jacobian(lambda x: x * x, st.tensor([1., 2.]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(f"jacobian: strategy is one of reverse-mode, forward-mode: {strategy!r}")
    if strategy == "forward-mode" and create_graph:
        raise NotImplementedError("jacobian: forward-mode does not support create_graph=True")
    xs, several = as_tuple("jacobian: inputs", inputs)
    with enable_grad():
        xs = fresh_inputs(xs, create_graph)
        ys, several_out = call_function("jacobian", func, xs)
        by_rows = strategy == "reverse-mode"
        rows = [
            (vjp_rows if by_rows else jvp_columns)(y, xs, create_graph, strict) for y in ys
        ]  # fmt: skip
    results = [unwrap_single(detach_unless(row, create_graph), several) for row in rows]
    return unwrap_single(results, several_out)


def unit(like: Any, index: int) -> Any:
    """Zeros with a one at a flat index."""
    result = zeros_like(like)
    flat = result.array.reshape(-1)
    if isinstance(flat, np.ndarray):
        flat[index] = 1
        return result
    with flat.device:
        flat[index] = 1
    return result


def vjp_rows(y: Any, xs: tuple[Any, ...], create_graph: bool, strict: bool) -> list[Any]:
    """dy/dx for each x, a pullback per element of y."""
    if strict and not y.requires_grad:
        raise RuntimeError("jacobian: an output is independent of the inputs: strict mode")
    rows: list[list[Any]] = [[] for _ in xs]
    for i in range(y.numel()):
        grads = gradients("jacobian", (y,), xs, (unit(y, i),), create_graph, strict)
        for row, g in zip(rows, grads):
            row.append(g)
    results = []
    for x, row in zip(xs, rows):
        shape = (*y.array.shape, *x.array.shape)
        flat = table.stack(row) if row else filled_like("zeros", (0, *x.array.shape), x)
        results.append(flat.reshape(shape))
    return results


def jvp_columns(y: Any, xs: tuple[Any, ...], create_graph: bool, strict: bool) -> list[Any]:
    """dy/dx for each x, a push forward per element of x."""
    results = []
    for k, x in enumerate(xs):
        columns = []
        for i in range(x.numel()):
            tangents = [unit(t, i) if j == k else zeros_like(t) for j, t in enumerate(xs)]
            columns += jvp_by_double_backward("jacobian", (y,), xs, tangents, create_graph, strict)
        shape = (*y.array.shape, *x.array.shape)
        if columns:
            results.append(table.stack(columns, -1).reshape(shape))
        else:
            results.append(filled_like("zeros", shape, y))
    return results


def scalar(where: str, func: Function) -> Function:
    """The function, checked to return a single number."""

    def checked(*inputs: Any) -> Any:
        out: Any = func(*inputs)
        if not isinstance(out, native.TensorBase) or out.array.size != 1:
            description = (
                out.array.shape if isinstance(out, native.TensorBase) else type(out).__name__
            )
            raise RuntimeError(
                f"{where}: The Tensor returned by the function should contain a single element: "
                f"{description}"
            )
        result: Any = out
        return result.squeeze()

    return checked


def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The matrix of second derivatives of a function that returns a single number.

    Parameters
    ----------
    func : callable
        Takes tensors, returns a tensor of one element.
    inputs : Tensor or tuple of Tensor
        Where.
    create_graph : bool, optional
        Whether the result is differentiable.
    strict : bool, optional
        Whether an output that does not depend on an input is an error, not zeros.
    vectorize : bool, optional
        Ignored; rows are computed one by one.
    outer_jacobian_strategy : str, optional
        "reverse-mode" or "forward-mode", as in `jacobian`.

    Returns
    -------
    Tensor or tuple
        Of shape `(*input, *input)`; for several inputs, a tuple of tuples.

    See Also
    --------
    jacobian, hvp

    Examples
    --------
    >>> st.autograd.functional.hessian(lambda x: (x * x * x).sum(), st.tensor([1., 2.]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    xs, several = as_tuple("hessian: inputs", inputs)
    scalar_function = scalar("hessian", func)

    def gradient(*inner: Any) -> tuple[Any, ...]:
        if outer_jacobian_strategy == "forward-mode":
            inner = tuple(table.view_as(x, x) for x in inner)
        y = scalar_function(*inner)
        one = one_like(y)
        return tuple(gradients("hessian", (y,), inner, (one,), True, strict))

    result = jacobian(gradient, xs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return result if several else result[0][0]


def vhp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The output, and the product of a vector with the Hessian of a scalar function: v^T H.

    Parameters
    ----------
    func : callable
        Takes tensors, returns a tensor of one element.
    inputs : Tensor or tuple of Tensor
        Where.
    v : Tensor or tuple, optional
        In the shapes of the inputs; optional for one input of one element.
    create_graph : bool, optional
        Whether the results are differentiable.
    strict : bool, optional
        Whether an output that does not depend on an input is an error, not zeros.

    Returns
    -------
    (output, product)
        The product in the shapes of the inputs.

    See Also
    --------
    hvp, hessian

    Examples
    --------
    >>> def cubes(x):
    ...     return (x * x * x).sum()
    >>> st.autograd.functional.vhp(cubes, st.tensor([1., 2.]), st.tensor([1., 1.]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    xs, several = as_tuple("vhp: inputs", inputs)
    scalar_function = scalar("vhp", func)
    with enable_grad():
        xs = fresh_inputs(xs, create_graph)
        vs = vectors("vhp", v, xs, "takes")
        y = scalar_function(*xs)
        one = one_like(y)
        first = gradients("vhp", (y,), xs, (one,), True, strict)
        products = gradients("vhp", first, xs, vs, create_graph, strict)
    output = detach_unless([y], create_graph)[0]
    return output, unwrap_single(detach_unless(products, create_graph), several)


def hvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The output, and the product of the Hessian with a vector, H v; `vhp` costs less for the same
    product.

    Parameters
    ----------
    func : callable
        Takes tensors, returns a tensor of one element.
    inputs : Tensor or tuple of Tensor
        Where.
    v : Tensor or tuple, optional
        In the shapes of the inputs; optional for one input of one element.
    create_graph : bool, optional
        Whether the results are differentiable.
    strict : bool, optional
        Whether an output that does not depend on an input is an error, not zeros.

    Returns
    -------
    (output, product)
        The product in the shapes of the inputs.

    See Also
    --------
    vhp

    Examples
    --------
    >>> def cubes(x):
    ...     return (x * x * x).sum()
    >>> st.autograd.functional.hvp(cubes, st.tensor([1., 2.]), st.tensor([1., 1.]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    xs, several = as_tuple("hvp: inputs", inputs)
    scalar_function = scalar("hvp", func)
    with enable_grad():
        xs = fresh_inputs(xs, create_graph)
        vs = vectors("hvp", v, xs, "takes")
        y = scalar_function(*xs)
        one = one_like(y)
        first = gradients("hvp", (y,), xs, (one,), True, strict)
        products = jvp_by_double_backward("hvp", first, xs, vs, create_graph, strict)
    output = detach_unless([y], create_graph)[0]
    return output, unwrap_single(detach_unless(products, create_graph), several)
