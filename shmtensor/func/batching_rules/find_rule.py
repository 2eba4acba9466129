"""Finds the batching rule of an op: by its row's column `vmap`, or by its other columns.

A rule runs the op once on all examples, which are stacked along a new first dimension: it
broadcasts pointwise rows, shifts dimensions in attributes by one, and leaves ops on the last
dimensions alone. An op without a rule runs example by example, and the results are stacked; that is
right for all ops, and as slow as a loop. Composites need no rule, because the ops that they call
have rules.
"""

from __future__ import annotations

from typing import Any

from ...autograd import table
from ...autograd.dispatch.op_function import RULES
from ...autograd.dispatch.promote_operands import NUMBERS, common_dtype
from ...autograd.dispatch.torch_function import flatten
from ...ops import Row
from ..batched_tensor import Batched, Level, NoBatchingRule, add_batch_dim, all_examples
from .rules_by_op_kind import Call, alone, rule_of


def call_batched(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Calls an op on examples of batches, by the rule of the innermost vmap."""
    examples = [x for x in flatten((*args, *kwargs.values())) if isinstance(x, Batched)]
    if not examples:
        return NotImplemented
    level = max((x.level for x in examples), key=lambda x: x.depth)
    name = func.__name__
    rule = RULES.get(name) or RULES.get(name.removesuffix("_"))
    if rule is None:
        return call_each(level, func, args, kwargs)
    if func is rule.inplace:
        return call_inplace(level, rule.row, func, args, kwargs)
    row = rule.row
    batching_rule = rule_of(row.vmap) if row.vmap else rule_from_columns(row)
    if batching_rule is None:
        return call_each(level, func, args, kwargs)
    result = batching_rule(Call(level, rule.row, func, args, kwargs))
    if result is NotImplemented:
        return call_each(level, func, args, kwargs)
    return wrap_results(result, level)


def wrap_results(result: Any, level: Level) -> Any:
    """The results as examples of this level, also in tuples."""
    if isinstance(result, (tuple, list)):
        parts = [wrap_results(m, level) for m in result]
        cls: Any = type(result)
        return cls(*parts) if hasattr(cls, "_fields") else cls(parts)
    return add_batch_dim(result, level) if hasattr(result, "requires_grad") else result


def rule_from_columns(row: Row) -> Any:
    """The rule that follows from a row's columns; rows with a reduction are not pointwise."""
    if row.broadcast:
        return pointwise if all(a.name != "reduction" for a in row.attributes) else None
    return alone if row.layout == "pointwise" or hasattr(row.numpy, "nin") else None


def promote_inputs(call: Call) -> list[Any]:
    """The inputs in the common dtype of single examples. A batch of 0-d tensors has a dimension,
    and would promote differently.
    """
    row, inputs = call.row, list(call.inputs)
    if row.promote is None:
        return inputs
    positions = [
        i for i, x in enumerate(row.inputs) if x.name in row.promoted and inputs[i] is not None
    ]
    tensors = [inputs[i] for i in positions if not isinstance(inputs[i], NUMBERS)]
    if len({t.dtype for t in tensors}) > 1:
        dtype = common_dtype([inputs[i] for i in positions])
        for i in positions:
            if not isinstance(inputs[i], NUMBERS) and inputs[i].dtype != dtype:
                inputs[i] = table._to_copy(inputs[i], dtype)
    return inputs


def pad_rank(x: Any, rank: int, level: Level) -> Any:
    """A batch with examples of `rank` dimensions; other operands stay."""
    if not (isinstance(x, Batched) and x.level is level):
        return x
    missing = rank - (x.value.ndim - 1)
    if missing <= 0:
        return x.value
    return x.value[(slice(None), *(None,) * missing)]


def pointwise(call: Call) -> Any:
    """Broadcasts with the batch as one more dimension."""
    inputs = promote_inputs(call)
    rank = max(x.ndim for x in inputs if hasattr(x, "ndim"))
    return call.func(
        *(pad_rank(x, rank, call.level) for x in inputs), *call.attributes, **call.kwargs
    )


def call_each(level: Level, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Calls the op on each example, and stacks the results."""
    if not level.size:
        raise NoBatchingRule("there is no example to call it on")

    def example(x: Any, i: int) -> Any:
        if isinstance(x, Batched) and x.level is level:
            return table.select(x.value, 0, i)
        if isinstance(x, (list, tuple)):
            parts = [example(v, i) for v in x]
            return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
        return x

    outputs = [
        func(*(example(x, i) for x in args), **{k: example(v, i) for k, v in kwargs.items()})
        for i in range(level.size)
    ]
    return stack_results(outputs, level)


def stack_results(outputs: list[Any], level: Level) -> Any:
    """Stacks the results of the examples."""
    first = outputs[0]
    if isinstance(first, (tuple, list)):
        parts = [stack_results([m[k] for m in outputs], level) for k in range(len(first))]
        cls: Any = type(first)
        return cls(*parts) if hasattr(cls, "_fields") else cls(parts)
    if not hasattr(first, "requires_grad"):
        return first
    shapes = {tuple(m.shape) for m in outputs}
    if len(shapes) > 1:
        raise RuntimeError(
            f"vmap: the examples' results differ in shape, they cannot be one batch: "
            f"{sorted(shapes)[:3]}"
        )
    return add_batch_dim(table.stack(outputs), level)


def call_inplace(level: Level, row: Row, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Calls the in-place form on all examples at once if it is pointwise, else on each."""
    x = args[0]
    if not (isinstance(x, Batched) and x.level is level):
        raise RuntimeError(
            f"vmap: inplace arithmetic {func.__name__}(self, ...) is not possible because self is "
            "not a batch, and another operand is: use the out-of-place form"
        )
    other_batches = [o for o in args[1:] if isinstance(o, Batched) and o.level is level]
    if row.broadcast and all(o.ndim <= x.ndim for o in other_batches):
        func(*(pad_rank(a, x.ndim, level) for a in args), **kwargs)
        return x
    for i in range(level.size):
        func(
            *(
                table.select(a.value, 0, i) if isinstance(a, Batched) and a.level is level else a
                for a in args
            ),
            **kwargs,
        )
    return x


def setitem(x: Batched, index: Any, value: Any) -> None:
    """`x[index] = value` for all examples."""
    level, full = x.level, slice(None)
    parts = index if isinstance(index, tuple) else (index,)
    is_basic = all(p is None or isinstance(p, (int, slice)) or p is Ellipsis for p in parts)
    if is_basic:
        target = x.value[(full, *parts)]
        if isinstance(value, Batched) and value.level is level:
            target.copy_(pad_rank(value, target.ndim - 1, level))
        else:
            target.copy_(value if hasattr(value, "ndim") else table.full((), value))
        return
    for i in range(level.size):
        row = table.select(x.value, 0, i)
        row[index] = (
            table.select(all_examples(value, level), 0, i) if hasattr(value, "ndim") else value
        )
