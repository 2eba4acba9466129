"""Jacobians and Hessians of functions, as functions: a pullback per element of the outputs, or a
push forward per element of the inputs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import native
from ..autograd import table
from ..cuda_arrays import device_of, move_array, new_array
from .batched_tensor import unwrap_levels, wrap_levels
from .grad_vjp_jvp import (
    Argnums,
    DifferentiatedCall,
    argument_positions,
    detach_aux,
    differentiating,
    jvp,
    jvp_function,
    replace_at,
    split_aux,
    zeros,
)
from .pytree import flatten

Function = Callable[..., Any]


def unit(call: DifferentiatedCall, like: Any, index: int) -> Any:
    """Zeros with a one at a flat index, for every example."""
    n = len(call.levels)
    array = np.zeros(tuple(like.shape), like.dtype)
    array.reshape(*like.shape[:n], -1)[..., index] = 1
    return native.wrap(move_array(array, device_of(like.array)))


def elements(call: DifferentiatedCall, x: Any) -> int:
    """The number of elements of one example."""
    return int(np.prod(x.shape[len(call.levels) :], dtype=np.int64))


def jacobian(func: Function, argnums: Argnums, has_aux: bool, forward: bool) -> Function:
    """Implements jacrev and jacfwd."""
    where = "jacfwd" if forward else "jacrev"

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        positions = argument_positions(where, argnums, args)
        with differentiating():
            call = DifferentiatedCall(where, [args[i] for i in positions])
            returned = func(*replace_at(args, positions, call.arguments()), **kwargs)
            output, aux = split_aux(where, returned, has_aux)
            leaves, rebuild = flatten(output)
            outputs = [unwrap_levels(y, call.levels) for y in leaves]
            for y in outputs:
                call.check_outer_graph(y)
            blocks = (columns if forward else rows)(call, outputs)
            results = []
            for y, row in zip(outputs, blocks):
                shape = tuple(y.shape[len(call.levels) :])
                jacobians = []
                for x, block in zip(call.inputs, row):
                    input_shape = tuple(x.shape[len(call.levels) :])
                    parts = [wrap_levels(call.as_result(b), call.levels) for b in block]
                    if not parts:
                        sizes = shape + input_shape
                        empty = new_array("zeros", sizes, x.dtype, device_of(x.array))
                        jacobians.append(native.wrap(empty))
                        continue
                    stacked = table.stack(parts, -1 if forward else 0)
                    jacobians.append(table.reshape(stacked, (*shape, *input_shape)))
                nested = call.unflatten(jacobians)
                results.append(nested[0] if isinstance(argnums, int) else tuple(nested))
        result = rebuild(results)
        return (result, detach_aux(call, aux)) if has_aux else result

    return run


def rows(call: DifferentiatedCall, outputs: list[Any]) -> list[list[list[Any]]]:
    """For each output and input, the gradients of each element of the output."""
    blocks = []
    for y in outputs:
        per_input: list[list[Any]] = [[] for _ in call.inputs]
        for i in range(elements(call, y)):
            for parts, g in zip(per_input, call.vjp(y, unit(call, y, i))):
                parts.append(g)
        blocks.append(per_input)
    return blocks


def columns(call: DifferentiatedCall, outputs: list[Any]) -> list[list[list[Any]]]:
    """For each output and input, the derivatives by each element of the input."""
    push = jvp_function(call, outputs)
    blocks: list[list[list[Any]]] = [[[] for _ in call.inputs] for _ in outputs]
    for k, x in enumerate(call.inputs):
        for i in range(elements(call, x)):
            tangents = [unit(call, t, i) if j == k else zeros(t) for j, t in enumerate(call.inputs)]
            for row, d in zip(blocks, push(tangents)):
                row[k].append(d)
    return blocks


def jacrev(
    func: Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """A function that returns the Jacobian of `func`, by a pullback per element of the outputs.

    Parameters
    ----------
    func : callable
        Returns a tensor, or nested containers of them.
    argnums : int or tuple of int, optional
        The positions of the arguments.
    has_aux : bool, optional
        Whether func returns (output, aux); then (jacobian, aux) is returned.
    chunk_size : int, optional
        Ignored; pullbacks run one by one.

    Returns
    -------
    callable
        A function of the same arguments that returns tensors of shape `(*output, *input)`, nested
        as the outputs, and inside them as the inputs.

    See Also
    --------
    jacfwd, hessian

    Examples
    --------
    >>> st.func.jacrev(lambda x: x * x)(st.tensor([1., 2.]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    return jacobian(func, argnums, has_aux, False)


def jacfwd(
    func: Function, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Function:
    """A function that returns the Jacobian of `func`, by a push forward per element of the inputs.

    Parameters
    ----------
    func : callable
        Returns a tensor, or nested containers of them.
    argnums : int or tuple of int, optional
        The positions of the arguments.
    has_aux : bool, optional
        Whether func returns (output, aux); then (jacobian, aux) is returned.
    randomness : str, optional
        Accepted; has no effect: columns are computed one by one.

    Returns
    -------
    callable
        A function of the same arguments that returns tensors of shape `(*output, *input)`, nested
        as the outputs, and inside them as the inputs.

    See Also
    --------
    jacrev, hessian

    Examples
    --------
    >>> st.func.jacfwd(lambda x: x * x)(st.tensor([1., 2.]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    return jacobian(func, argnums, has_aux, True)


def hessian(func: Function, argnums: Argnums = 0) -> Function:
    """A function that returns the second derivatives of `func`: `jacfwd` of `jacrev`.

    Parameters
    ----------
    func : callable
        Returns a tensor.
    argnums : int or tuple of int, optional
        The positions of the arguments.

    Returns
    -------
    callable
        A function of the same arguments that returns tensors of shape `(*output, *input, *input)`.

    See Also
    --------
    jacrev, jacfwd

    Examples
    --------
    >>> st.func.hessian(lambda x: (x * x * x).sum())(st.tensor([1., 2.]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The result of a function, and its derivative there as a linear function.

    Parameters
    ----------
    func : callable
        Takes and returns tensors, or nested containers of them.
    *primals
        Where: tensors, or nested containers of them.

    Returns
    -------
    (output, push) : any, callable
        `push(*tangents)` is `jvp(func, primals, tangents)[1]`, and runs the function again in each
        call.

    Raises
    ------
    RuntimeError
        In push: the tangents' shapes are not the primals'.

    See Also
    --------
    jvp

    Examples
    --------
    >>> output, push = st.func.linearize(lambda x: x * x, st.tensor([1., 2.]))
    >>> output, push(st.tensor([1., 10.]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """

    def push(*tangents: Any) -> Any:
        return jvp(func, primals, tangents)[1]

    return func(*primals), push
