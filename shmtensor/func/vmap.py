"""vmap: a function of one example, on a batch of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import native
from ..autograd import table
from ..ops.random import philox
from . import batched_tensor
from .batched_tensor import Batched, Level, NoRule, levels, lifted, wrapped
from .batching_rules import find_rule
from .pytree import flat, prefixed

__all__ = ["vmap"]

Function = Callable[..., Any]
batched_tensor.rules = find_rule

RANDOMNESS = ("error", "different", "same")


@contextmanager
def innermost(level: Level) -> Iterator[None]:
    """In this block the vmap is the innermost one."""
    before, guard = list(levels.now), philox.guard
    levels.now = [*before, level]
    philox.guard = guarded
    try:
        yield
    finally:
        levels.now = before
        philox.guard = guard if before else None


def guarded() -> None:
    """Raises RuntimeError if the innermost vmap of this thread allows no random numbers."""
    if levels.now and levels.now[-1].randomness == "error":
        raise RuntimeError(
            "vmap: called random operation while in randomness error mode. Please either use the "
            "'same' or 'different' randomness flags on vmap or perform the randomness operation "
            "out of vmap"
        )


def vmap(
    func: Function,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Function:
    """A function that does to a batch what `func` does to one example.

    Each op runs once on all examples where it has a batching rule (docs/design/func.md); an op
    without one runs example by example. Where the numbers of one example are asked for (`item()`,
    `if x > 0`, an index that depends on the example), and wherever random numbers are allowed, the
    whole function runs example by example instead; what it does besides, it may then do twice.

    Args:
        func: takes tensors, or nested lists, tuples and dictionaries of them, returns the same.
        in_dims: which dimension of each argument is the batch, None for what all examples share; a
            number, or nested as the arguments. Keyword arguments are shared.
        out_dims: where the batch goes in the results; a number, or nested as the results.
        randomness: "error": random ops raise; "different": each example has numbers of its own;
            "same": all have the same.
        chunk_size: at most so many examples at once, to bound memory.

    Returns:
        A function of the arguments with their batches.

    Raises:
        ValueError: nothing to map over, batches of different sizes, a result that is no tensor.

    Example:
        >>> import shmtensor as st
        >>> st.func.vmap(st.dot)(st.ones(3, 5), st.ones(3, 5))
        tensor([5., 5., 5.])
    """
    if randomness not in RANDOMNESS:
        raise RuntimeError(
            f"vmap: Only allowed values for randomness are {RANDOMNESS}: {randomness!r}"
        )
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0: {chunk_size}")

    @functools.wraps(func)
    def mapped(*args: Any, **named: Any) -> Any:
        leaves, rebuild = flat(list(args))
        dims = normal(in_dims, args, leaves)
        sizes = {leaf.shape[d] for leaf, d in zip(leaves, dims) if d is not None}
        if len(sizes) != 1:
            shown = [tuple(x.shape) for x, d in zip(leaves, dims) if d is not None]
            raise ValueError(
                "vmap: Expected all tensors to have the same size in the mapped dimension, got "
                f"sizes {sorted(sizes)}: shapes {shown}, in_dims={in_dims}"
                if sizes
                else "vmap: at least one argument must be mapped: in_dims is None for all"
            )
        (size,) = sizes

        def part(start: int, stop: int) -> Any:
            found = [
                x if d is None else table.movedim(x, d, 0)[start:stop] for x, d in zip(leaves, dims)
            ]
            call = lambda given: func(*rebuild(given), **named)  # noqa: E731
            return at_once(call, found, dims, stop - start, randomness)

        if chunk_size is None or chunk_size >= size:
            return with_batch_dims(part(0, size), out_dims, size)
        parts = [part(start, min(start + chunk_size, size)) for start in range(0, size, chunk_size)]
        return with_batch_dims(together(parts), out_dims, size)

    return mapped


def normal(in_dims: Any, args: tuple[Any, ...], leaves: list[Any]) -> list[int | None]:
    """The batch dimension of each leaf, counted from the front.

    Raises:
        ValueError: a dimension that a leaf does not have.
    """
    if not args:
        raise ValueError("vmap: got no inputs: nothing to map over")
    given = in_dims if not isinstance(in_dims, list) else tuple(in_dims)
    if not isinstance(given, (int, tuple)):
        raise ValueError(
            f"vmap: expected in_dims to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {in_dims!r}"
        )
    whole = list(args)
    found = prefixed(given, whole, "vmap: in_dims")
    dims: list[int | None] = []
    for x, d in zip(leaves, found):
        if d is None or (isinstance(given, int) and not isinstance(x, native.TensorBase)):
            dims.append(None)
            continue
        if not isinstance(x, native.TensorBase):
            raise ValueError(
                f"vmap: Got in_dim={d} for an input but the input is of type {type(x).__name__}: "
                "only Tensors can be mapped, use None"
            )
        n = x.ndim  # type: ignore[attr-defined]
        if not isinstance(d, int) or not -n <= d < n:
            raise ValueError(
                f"vmap: Got in_dim={d} for some input, but that input is a Tensor of "
                f"dimensionality {n} so expected in_dim to satisfy -{n} <= in_dim < {n}"
            )
        dims.append(d % n)
    return dims


def at_once(call: Any, found: list[Any], dims: list[int | None], size: int, mode: str) -> Any:
    """(leaves, batches or shared, and rebuild) of the function's results on all examples."""
    if mode == "error" and size:
        level = Level(size, len(levels.now), mode)
        try:
            with innermost(level):
                made = call([x if d is None else wrapped(x, level) for x, d in zip(found, dims)])
                leaves, rebuild = flat(made)
                return [collected(x, level) for x in leaves], rebuild
        except NoRule:
            pass
    return one_by_one(call, found, dims, size, mode)


def collected(x: Any, level: Level) -> tuple[Any, bool]:
    """A result's batch, or what all examples share; and which of the two.

    Raises:
        ValueError: it is no tensor.
    """
    insist(x)
    if isinstance(x, Batched) and x.level is level:
        return x.value, True
    return x, False


def insist(x: Any) -> None:
    if not isinstance(x, native.TensorBase):
        raise ValueError(
            f"vmap: `func` must only return Tensors, got type {type(x).__name__}: did you mean to "
            "return a Tensor?"
        )


def one_by_one(call: Any, found: list[Any], dims: list[int | None], size: int, mode: str) -> Any:
    """As `at_once`, a call for each example."""
    if not size:
        raise ValueError("vmap: a batch of no examples can only be mapped by ops with a rule")
    rows, rebuild = [], None
    state = philox.default_generator.read()
    level = Level(1, len(levels.now), "any" if mode != "error" else mode)
    for i in range(size):
        if mode == "same":
            philox.default_generator.write(state)
        with innermost(level):
            made = call([x if d is None else table.select(x, 0, i) for x, d in zip(found, dims)])
        leaves, rebuild = flat(made)
        for x in leaves:
            insist(x)
        rows.append(leaves)
    return [(table.stack([row[k] for row in rows]), True) for k in range(len(rows[0]))], rebuild


def together(parts: list[Any]) -> Any:
    """The results of chunks as one."""
    rebuild = parts[0][1]
    made = []
    for k, (first, is_batch) in enumerate(parts[0][0]):
        made.append((table.cat([p[0][k][0] for p in parts]) if is_batch else first, is_batch))
    return made, rebuild


def with_batch_dims(found: Any, out_dims: Any, size: int) -> Any:
    """The results with their batch dimensions where they are asked for.

    Raises:
        ValueError: a dimension that a result does not have; None for a batch.
    """
    leaves, rebuild = found
    outputs = rebuild([value for value, _ in leaves])
    given = tuple(out_dims) if isinstance(out_dims, list) else out_dims
    single = isinstance(outputs, native.TensorBase)
    if single and isinstance(given, tuple):
        if len(given) != 1:
            raise ValueError(f"vmap: out_dims has {len(given)} entries for one result: {out_dims}")
        given = given[0]
    dims = prefixed(given, outputs, "vmap: out_dims")
    made = []
    for (value, is_batch), d in zip(leaves, dims):
        if d is None:
            if is_batch:
                raise ValueError(
                    "vmap: `func` can not return a BatchedTensor when out_dim is None: the result "
                    f"depends on the example, shape {tuple(value.shape[1:])}"
                )
            made.append(value)
            continue
        n = value.ndim if is_batch else value.ndim + 1
        if not isinstance(d, int) or not -n <= d < n:
            raise ValueError(f"vmap: out_dim {d} is not in the range of a result of {n} dimensions")
        whole = value if is_batch else lifted(value, Level(size, 0, "error"))
        made.append(table.movedim(whole, 0, d) if d % n else whole)
    return rebuild(made)
