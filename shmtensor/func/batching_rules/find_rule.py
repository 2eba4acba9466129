"""What an op does with batches: a rule by the kind of its row, and one for every other op.

Every rule runs the op once on all examples, which lie along a new first dimension: pointwise rows
are broadcast with it, a dimension in an attribute is counted one further, what works on the last
dimensions is left alone. An op without a rule runs example by example, and the results are stacked;
that is right for all ops, and as slow as a loop. So compositions need no rule: their parts have.
"""

from __future__ import annotations

from typing import Any

from ...autograd import table
from ...autograd.dispatch.op_function import RULES
from ...autograd.dispatch.promote_operands import NUMBERS, common_dtype
from ...ops import Row
from ..batched_tensor import Batched, Level, lifted, wrapped
from .rules_by_op_kind import Call, alone, rule_of

__all__ = ["assigned", "batched"]


def flat(values: Any) -> Any:
    """The operands, those in lists too."""
    for v in values:
        if isinstance(v, (list, tuple)):
            yield from flat(v)
        else:
            yield v


def batched(func: Any, args: Any, named: dict[str, Any]) -> Any:
    """An op on examples of batches; nested batches go by the innermost vmap first."""
    examples = [x for x in flat((*args, *named.values())) if isinstance(x, Batched)]
    if not examples:
        return NotImplemented
    level = max((x.level for x in examples), key=lambda found: found.depth)
    name = func.__name__
    rule = RULES.get(name) or RULES.get(name.removesuffix("_"))
    if rule is None:
        return one_by_one(level, func, args, named)
    if func is rule.inplace:
        return in_place(level, rule.row, func, args, named)
    row = rule.row
    kind = rule_of(row.vmap) if row.vmap else by_columns(row)
    if kind is None:
        return one_by_one(level, func, args, named)
    made = kind(Call(level, rule.row, func, args, named))
    if made is NotImplemented:
        return one_by_one(level, func, args, named)
    return results(made, level)


def results(made: Any, level: Level) -> Any:
    """Batches as examples; in tuples, too."""
    if isinstance(made, (tuple, list)):
        parts = [results(m, level) for m in made]
        kind: Any = type(made)
        return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
    return wrapped(made, level) if hasattr(made, "requires_grad") else made


def by_columns(row: Row) -> Any:
    """The kind of a row that its columns tell: those with a reduction are not pointwise."""
    if row.broadcast:
        return pointwise if all(a.name != "reduction" for a in row.attributes) else None
    return alone if row.layout == "pointwise" or hasattr(row.numpy, "nin") else None


def promoted(call: Call) -> list[Any]:
    """The inputs in the dtype that one example of each would give: a batch of 0-d tensors has a
    dimension, and would count for more.
    """
    row, inputs = call.row, list(call.inputs)
    if row.promote is None:
        return inputs
    at = [i for i, x in enumerate(row.inputs) if x.name in row.promoted and inputs[i] is not None]
    tensors = [inputs[i] for i in at if not isinstance(inputs[i], NUMBERS)]
    if len({t.dtype for t in tensors}) > 1:
        dtype = common_dtype([inputs[i] for i in at])
        for i in at:
            if not isinstance(inputs[i], NUMBERS) and inputs[i].dtype is not dtype:
                inputs[i] = table._to_copy(inputs[i], dtype)
    return inputs


def padded(x: Any, rank: int, level: Level) -> Any:
    """A batch whose examples have `rank` dimensions; what is not of the batch stays."""
    if not (isinstance(x, Batched) and x.level is level):
        return x
    missing = rank - (x.value.ndim - 1)
    if missing <= 0:
        return x.value
    return x.value[(slice(None), *(None,) * missing)]


def pointwise(call: Call) -> Any:
    """Broadcast with the batch as one more dimension."""
    inputs = promoted(call)
    rank = max(x.ndim for x in inputs if hasattr(x, "ndim"))
    return call.func(*(padded(x, rank, call.level) for x in inputs), *call.attributes, **call.named)


def one_by_one(level: Level, func: Any, args: Any, named: dict[str, Any]) -> Any:
    """The op on each example, and the results stacked."""

    def example(x: Any, i: int) -> Any:
        if isinstance(x, Batched) and x.level is level:
            return table.select(x.value, 0, i)
        if isinstance(x, (list, tuple)):
            parts = [example(v, i) for v in x]
            return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
        return x

    made = [
        func(*(example(x, i) for x in args), **{k: example(v, i) for k, v in named.items()})
        for i in range(level.size)
    ]
    return stacked(made, level)


def stacked(made: list[Any], level: Level) -> Any:
    """Results of the examples as one."""
    first = made[0]
    if isinstance(first, (tuple, list)):
        parts = [stacked([m[k] for m in made], level) for k in range(len(first))]
        kind: Any = type(first)
        return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
    if not hasattr(first, "requires_grad"):
        return first
    shapes = {tuple(m.shape) for m in made}
    if len(shapes) > 1:
        raise RuntimeError(
            f"vmap: the examples' results differ in shape, they cannot be one batch: "
            f"{sorted(shapes)[:3]}"
        )
    return wrapped(table.stack(made), level)


def in_place(level: Level, row: Row, func: Any, args: Any, named: dict[str, Any]) -> Any:
    """The in-place form on all examples at once where it is pointwise, else on each."""
    x = args[0]
    if not (isinstance(x, Batched) and x.level is level):
        raise RuntimeError(
            f"vmap: inplace arithmetic {func.__name__}(self, ...) is not possible because self is "
            "not a batch, and another operand is: use the out-of-place form"
        )
    others = [o for o in args[1:] if isinstance(o, Batched) and o.level is level]
    if row.broadcast and all(o.ndim <= x.ndim for o in others):
        func(*(padded(a, x.ndim, level) for a in args), **named)
        return x
    for i in range(level.size):
        func(
            *(
                table.select(a.value, 0, i) if isinstance(a, Batched) and a.level is level else a
                for a in args
            ),
            **named,
        )
    return x


def assigned(x: Batched, index: Any, value: Any) -> None:
    """`x[index] = value` for all examples."""
    level, full = x.level, slice(None)
    parts = index if isinstance(index, tuple) else (index,)
    plain = all(p is None or isinstance(p, (int, slice)) or p is Ellipsis for p in parts)
    if plain:
        target = x.value[(full, *parts)]
        if isinstance(value, Batched) and value.level is level:
            target.copy_(padded(value, target.ndim - 1, level))
        else:
            target.copy_(value if hasattr(value, "ndim") else table.full((), value))
        return
    for i in range(level.size):
        row = table.select(x.value, 0, i)
        row[index] = table.select(lifted(value, level), 0, i) if hasattr(value, "ndim") else value
