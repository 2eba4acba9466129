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
from .batched_tensor import spread, unstack
from .grad_vjp_jvp import Argnums, Trial, apart, chosen, freed, inside, jvp, pushes, replaced, zeros
from .pytree import flat

__all__ = ["hessian", "jacfwd", "jacrev", "linearize"]

Function = Callable[..., Any]


def unit(trial: Trial, like: Any, place: int) -> Any:
    """For every example zeros with a one at an element."""
    n = len(trial.stack)
    array = np.zeros(tuple(like.shape), like.dtype)
    array.reshape(*like.shape[:n], -1)[..., place] = 1
    return native.wrap(array)


def elements(trial: Trial, x: Any) -> int:
    """How many elements one example has."""
    return int(np.prod(x.shape[len(trial.stack) :], dtype=np.int64))


def jacobian(func: Function, argnums: Argnums, has_aux: bool, forward: bool) -> Function:
    """jacrev and jacfwd."""
    where = "jacfwd" if forward else "jacrev"

    @functools.wraps(func)
    def run(*args: Any, **named: Any) -> Any:
        at = chosen(where, argnums, args)
        with inside():
            trial = Trial(where, [args[i] for i in at])
            made = func(*replaced(args, at, trial.trees()), **named)
            output, aux = apart(where, made, has_aux)
            leaves, rebuild = flat(output)
            plain = [spread(y, trial.stack) for y in leaves]
            for y in plain:
                trial.finish(y)
            blocks = (columns if forward else rows)(trial, plain)
            found = []
            for y, row in zip(plain, blocks):
                shape = tuple(y.shape[len(trial.stack) :])
                made_row = []
                for x, block in zip(trial.plain, row):
                    own = tuple(x.shape[len(trial.stack) :])
                    parts = [unstack(trial.shown(b), trial.stack) for b in block]
                    if not parts:
                        empty = native.wrap(np.zeros(shape + own, x.dtype))
                        made_row.append(empty)
                        continue
                    whole = table.stack(parts, -1 if forward else 0)
                    made_row.append(table.reshape(whole, (*shape, *own)))
                nested = trial.nested(made_row)
                found.append(nested[0] if isinstance(argnums, int) else tuple(nested))
        result = rebuild(found)
        return (result, freed(trial, aux)) if has_aux else result

    return run


def rows(trial: Trial, plain: list[Any]) -> list[list[list[Any]]]:
    """For each output and input, the gradients of each element of the output."""
    blocks = []
    for y in plain:
        per_input: list[list[Any]] = [[] for _ in trial.plain]
        for i in range(elements(trial, y)):
            for parts, g in zip(per_input, trial.pulled(y, unit(trial, y, i))):
                parts.append(g)
        blocks.append(per_input)
    return blocks


def columns(trial: Trial, plain: list[Any]) -> list[list[list[Any]]]:
    """For each output and input, the derivatives by each element of the input."""
    push = pushes(trial, plain)
    blocks: list[list[list[Any]]] = [[[] for _ in trial.plain] for _ in plain]
    for k, x in enumerate(trial.plain):
        for i in range(elements(trial, x)):
            tangents = [
                unit(trial, t, i) if j == k else zeros(t) for j, t in enumerate(trial.plain)
            ]
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
    """A function that gives the Jacobian of `func`, a pullback per element of the outputs.

    Args:
        argnums, has_aux: as `grad`.
        chunk_size: accepted; pullbacks run one by one anyway.

    Returns:
        A function of the same arguments: (*output, *input), nested as the outputs, and in them as
        the inputs.
    """
    return jacobian(func, argnums, has_aux, False)


def jacfwd(
    func: Function, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Function:
    """A function that gives the Jacobian of `func`, a push forward per element of the inputs.

    Args and Returns: as `jacrev`.
    """
    return jacobian(func, argnums, has_aux, True)


def hessian(func: Function, argnums: Argnums = 0) -> Function:
    """A function that gives the second derivatives of `func`: `jacfwd` of `jacrev`."""
    return jacfwd(jacrev(func, argnums), argnums)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """(output, push): the function's result, and its derivative there as a linear function.

    `push(*tangents)` is `jvp(func, primals, tangents)[1]`: the function runs again in each call.

    Args:
        primals: tensors, or nested containers of them.

    Raises:
        RuntimeError: in push: other shapes than the primals'.
    """

    def push(*tangents: Any) -> Any:
        return jvp(func, primals, tangents)[1]

    return func(*primals), push
