"""vmap: maps a function of one example over a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from .. import native
from ..autograd import function, table
from ..autograd.function import Function as AutogradFunction
from ..ops.random import philox
from ..ops.random.generators import read_states, write_states
from . import batched_tensor
from .batched_tensor import Batched, Level, NoBatchingRule, add_batch_dim, all_examples, levels
from .batching_rules import find_rule
from .pytree import broadcast_prefix, flatten

Function = Callable[..., Any]
batched_tensor.rules = find_rule

RANDOMNESS = ("error", "different", "same")


@contextmanager
def running_level(level: Level) -> Iterator[None]:
    """In this block the vmap is the innermost running one."""
    former = list(levels.active)
    levels.active = [*former, level]
    try:
        yield
    finally:
        levels.active = former


def check_randomness() -> None:
    """Raises RuntimeError if the innermost vmap of this thread allows no random numbers."""
    if levels.active and levels.active[-1].randomness == "error":
        raise RuntimeError(
            "vmap: called random operation while in randomness error mode. Please either use the "
            "'same' or 'different' randomness flags on vmap or perform the randomness operation "
            "out of vmap"
        )


class VmapInfo(NamedTuple):
    """What the `vmap` of a Function is told."""

    batch_size: int
    randomness: str


def call_function_rule(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The outputs of a Function by its own rule, or NotImplemented: it has none, or no argument is
    a batch of a running vmap. The rule is for the innermost vmap that has one, and runs outside it.

    Raises:
        RuntimeError: the Function has a rule, and says that none is needed.
    """
    if cls.vmap is AutogradFunction.vmap:
        return NotImplemented
    active = levels.active
    for depth in reversed(range(len(active))):
        level = active[depth]
        batched = [isinstance(x, Batched) and x.level is level for x in args]
        if any(batched):
            break
    else:
        return NotImplemented
    if cls.generate_vmap_rule:
        raise RuntimeError(
            f"vmap: {cls.__name__} has both generate_vmap_rule=True and an overridden vmap "
            "staticmethod: set generate_vmap_rule=False, or delete the method"
        )
    values = [x.value if is_batch else x for x, is_batch in zip(args, batched)]
    in_dims = tuple(0 if is_batch else None for is_batch in batched)
    levels.active = active[:depth]
    try:
        info = VmapInfo(level.size, level.randomness)
        outputs, out_dims = cls.vmap(info, in_dims, *values, **kwargs)
    finally:
        levels.active = active
    leaves, rebuild = flatten(outputs)
    dims = broadcast_prefix(out_dims, outputs, f"vmap: out_dims of {cls.__name__}.vmap")
    return rebuild(
        [
            x if d is None else add_batch_dim(table.movedim(x, d, 0), level)
            for x, d in zip(leaves, dims)
        ]
    )


philox.guard = check_randomness
function.batching_rule = call_function_rule


def vmap(
    func: Function,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Function:
    """A function that applies `func` to each example of a batch.

    An op with a batching rule (docs/design/func.md) runs once on all examples; an op without one
    runs example by example. If the data of one example is needed (`item()`, `if x > 0`, an index
    that depends on the example), or if random numbers are allowed, `func` itself runs example by
    example; its side effects may then happen twice.

    Parameters
    ----------
    func : callable
        Takes and returns tensors, or nested lists, tuples and dictionaries of them.
    in_dims : int, None or nested, optional
        The batch dimension of each argument, None if all examples share it; a number, or nested as
        the arguments. Keyword arguments are shared.
    out_dims : int or nested, optional
        The batch dimension of the results; a number, or nested as the results.
    randomness : str, optional
        "error": random ops raise; "different": examples get different random numbers; "same": all
        examples get the same.
    chunk_size : int, optional
        The maximal number of examples at once, to bound memory.

    Returns
    -------
    callable
        A function of the arguments with their batches.

    Raises
    ------
    ValueError
        No argument is mapped, batches have different sizes, or a result is not a tensor.
    RuntimeError
        A batch has no examples, and an op has no batching rule.

    See Also
    --------
    jacrev, functional_call, stack_module_state

    Examples
    --------
    >>> st.func.vmap(st.dot)(st.ones(3, 5), st.ones(3, 5))
    tensor([5., 5., 5.])
    >>> st.func.vmap(st.mv, in_dims=(None, 0))(st.ones(2, 5), st.ones(3, 5)).shape
    Size([3, 2])
    """
    if randomness not in RANDOMNESS:
        raise RuntimeError(
            f"vmap: Only allowed values for randomness are {RANDOMNESS}: {randomness!r}"
        )
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0: {chunk_size}")

    @functools.wraps(func)
    def call_with_batches(*args: Any, **kwargs: Any) -> Any:
        leaves, rebuild = flatten(list(args))
        dims = normalize_in_dims(in_dims, args, leaves)
        sizes = {leaf.shape[d] for leaf, d in zip(leaves, dims) if d is not None}
        if len(sizes) != 1:
            shapes = [tuple(x.shape) for x, d in zip(leaves, dims) if d is not None]
            raise ValueError(
                "vmap: Expected all tensors to have the same size in the mapped dimension, got "
                f"sizes {sorted(sizes)}: shapes {shapes}, in_dims={in_dims}"
                if sizes
                else "vmap: at least one argument must be mapped: in_dims is None for all"
            )
        (size,) = sizes

        def run_chunk(start: int, stop: int) -> Any:
            chunk = [
                x if d is None else table.movedim(x, d, 0)[start:stop] for x, d in zip(leaves, dims)
            ]
            call = lambda values: func(*rebuild(values), **kwargs)  # noqa: E731
            return call_batched(call, chunk, dims, stop - start, randomness)

        if chunk_size is None or chunk_size >= size:
            return with_batch_dims(run_chunk(0, size), out_dims, size)
        starts = range(0, size, chunk_size)
        chunks = [run_chunk(start, min(start + chunk_size, size)) for start in starts]
        return with_batch_dims(concatenate_chunks(chunks), out_dims, size)

    return call_with_batches


def normalize_in_dims(in_dims: Any, args: tuple[Any, ...], leaves: list[Any]) -> list[int | None]:
    """The batch dimension of each leaf, counted from the front.

    Raises:
        ValueError: a dimension that a leaf does not have.
    """
    if not args:
        raise ValueError("vmap: got no inputs: nothing to map over")
    prefix = in_dims if not isinstance(in_dims, list) else tuple(in_dims)
    if not isinstance(prefix, (int, tuple)):
        raise ValueError(
            f"vmap: expected in_dims to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {in_dims!r}"
        )
    tree = list(args)
    leaf_dims = broadcast_prefix(prefix, tree, "vmap: in_dims")
    dims: list[int | None] = []
    for x, d in zip(leaves, leaf_dims):
        if d is None or (isinstance(prefix, int) and not isinstance(x, native.TensorBase)):
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


def call_batched(
    call: Any, inputs: list[Any], dims: list[int | None], size: int, randomness: str
) -> Any:
    """([(leaf, is it a batch?)], rebuild) of the function's results on all examples."""
    if randomness == "error" or not size:
        level = Level(size, len(levels.active), randomness)
        try:
            with running_level(level):
                outputs = call(
                    [x if d is None else add_batch_dim(x, level) for x, d in zip(inputs, dims)]
                )
                leaves, rebuild = flatten(outputs)
                return [split_result(x, level) for x in leaves], rebuild
        except NoBatchingRule:
            pass
    return call_each(call, inputs, dims, size, randomness)


def split_result(x: Any, level: Level) -> tuple[Any, bool]:
    """(A result's batch, True), or (the value that all examples share, False).

    Raises:
        ValueError: it is not a tensor.
    """
    require_tensor(x)
    if isinstance(x, Batched) and x.level is level:
        return x.value, True
    return x, False


def require_tensor(x: Any) -> None:
    if not isinstance(x, native.TensorBase):
        raise ValueError(
            f"vmap: `func` must only return Tensors, got type {type(x).__name__}: did you mean to "
            "return a Tensor?"
        )


def call_each(
    call: Any, inputs: list[Any], dims: list[int | None], size: int, randomness: str
) -> Any:
    """As `call_batched`, with one call for each example."""
    if not size:
        raise RuntimeError(
            "vmap: an op without a batching rule does not support vmap over dims of size 0: give "
            "at least one example"
        )
    results, rebuild = [], None
    states = read_states()
    level = Level(1, len(levels.active), "any" if randomness != "error" else randomness)
    for i in range(size):
        if randomness == "same":
            write_states(states)
        with running_level(level):
            outputs = call(
                [x if d is None else table.select(x, 0, i) for x, d in zip(inputs, dims)]
            )
        leaves, rebuild = flatten(outputs)
        for x in leaves:
            require_tensor(x)
        results.append(leaves)
    return [
        (table.stack([row[k] for row in results]), True) for k in range(len(results[0]))
    ], rebuild


def concatenate_chunks(chunks: list[Any]) -> Any:
    """Concatenates the results of chunks."""
    rebuild = chunks[0][1]
    results = []
    for k, (first, is_batch) in enumerate(chunks[0][0]):
        results.append(
            (table.cat([chunk[0][k][0] for chunk in chunks]) if is_batch else first, is_batch)
        )
    return results, rebuild


def with_batch_dims(result: Any, out_dims: Any, size: int) -> Any:
    """The results with their batch dimensions moved to `out_dims`.

    Raises:
        ValueError: a dimension is out of range, or None for a batch.
    """
    leaves, rebuild = result
    outputs = rebuild([value for value, _ in leaves])
    prefix = tuple(out_dims) if isinstance(out_dims, list) else out_dims
    is_single = isinstance(outputs, native.TensorBase)
    if is_single and isinstance(prefix, tuple):
        if len(prefix) != 1:
            raise ValueError(f"vmap: out_dims has {len(prefix)} entries for one result: {out_dims}")
        prefix = prefix[0]
    dims = broadcast_prefix(prefix, outputs, "vmap: out_dims")
    results = []
    for (value, is_batch), d in zip(leaves, dims):
        if d is None:
            if is_batch:
                raise ValueError(
                    "vmap: `func` can not return a BatchedTensor when out_dim is None: the result "
                    f"depends on the example, shape {tuple(value.shape[1:])}"
                )
            results.append(value)
            continue
        n = value.ndim if is_batch else value.ndim + 1
        if not isinstance(d, int) or not -n <= d < n:
            raise ValueError(f"vmap: out_dim {d} is not in the range of a result of {n} dimensions")
        batch = value if is_batch else all_examples(value, Level(size, 0, "error"))
        results.append(table.movedim(batch, 0, d) if d % n else batch)
    return rebuild(results)
