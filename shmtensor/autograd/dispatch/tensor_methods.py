"""The methods of Tensor that come from the op table. Their types are in tensor_methods.pyi, which a
script writes.
"""

from __future__ import annotations

from typing import Any

from ... import native
from ...dtypes import can_cast
from ...ops.table.op_definition import COMPOSITES, ROWS, Composite
from ..grad_mode import recording
from .autocast import active, apart
from .op_function import rule_of, table

__all__ = ["Methods", "functions"]


class Methods(native.TensorBase):
    """What every Tensor can do by the op table."""

    __slots__ = ()


OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "truediv", "pow": "pow", "matmul": "matmul",
    "floor_divide": "floordiv", "remainder": "mod", "eq": "eq", "ne": "ne", "lt": "lt", "le": "le",
    "gt": "gt", "ge": "ge", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor",
    "bitwise_left_shift": "lshift", "bitwise_right_shift": "rshift",
}  # fmt: skip
UNARY = {"neg": "neg", "abs": "abs", "bitwise_not": "invert", "positive": "pos"}
COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}


class Swapped:
    """The table, with the in-place forms of some rows under the names of the rows."""

    def __init__(self, rows: str) -> None:
        for row in rows.split():
            setattr(self, row, getattr(table, f"{row}_"))

    def __getattr__(self, name: str) -> Any:
        return getattr(table, name)


def overwriting(made: Composite) -> Any:
    """The in-place form of a composite: as its `inplace` says, or computed, then copied in."""
    name, quick = made.name, made.inplace
    if isinstance(quick, str):
        swapped = Swapped(quick)
        quick = lambda ops, *args, **named: made.compute(swapped, *args, **named)  # noqa: E731

    def inplace(input: Any, *args: Any, **named: Any) -> Any:
        function = getattr(table, name)
        if quick is not True and not active:
            done = quick(table, input, *args, **named)
            if done is input:
                return done
            if done is not None:
                return table._overwrite_(input, done)
        # what `function` keeps of the input for backward must outlive the write
        given = table.clone(input) if input.requires_grad and recording.get() else input
        # in place is in the tensor's own dtype, inside autocast too
        made = apart(function, given, *args, **named) if active else function(given, *args, **named)
        target = input.array.dtype
        if not can_cast(made.array.dtype, target):
            raise RuntimeError(
                f"{name}_: result type {made.array.dtype} can't be cast to the desired output type "
                f"{target}: use the out-of-place {name}, or convert the tensor first"
            )
        return table._overwrite_(input, made)

    inplace.__name__ = inplace.__qualname__ = f"{name}_"
    inplace.__doc__ = made.doc
    return inplace


def functions() -> dict[str, Any]:
    """The public functions of the table, by name."""
    found: dict[str, Any] = {}
    for name, row in ROWS.items():
        if row.function:
            rule = rule_of(name)
            for public in (name, *row.aliases):
                found[public] = rule.public
                if rule.inplace is not None:
                    found[f"{public}_"] = rule.inplace
    for name, made in COMPOSITES.items():
        if made.function:
            for public in (name, *made.aliases):
                found[public] = getattr(table, name)
    return found


def attach() -> None:
    """Gives Methods its functions."""
    for name, row in ROWS.items():
        rule = rule_of(name)
        if row.method:
            for public in (name, *row.aliases):
                setattr(Methods, public, rule.method)
                if rule.inplace is not None:
                    setattr(Methods, f"{public}_", rule.inplace)
        if name in OPERATORS:
            special = OPERATORS[name]
            setattr(Methods, f"__{special}__", rule.operator)
            if rule.reflected is not None and name not in COMPARISONS:
                setattr(Methods, f"__r{special}__", rule.reflected)
            if rule.inplace is not None and name not in COMPARISONS:
                setattr(Methods, f"__i{special}__", rule.inplace)
        if name in UNARY:
            setattr(Methods, f"__{UNARY[name]}__", rule.public)
    for name, made in COMPOSITES.items():
        if not made.method:
            continue
        if name in UNARY:
            setattr(Methods, f"__{UNARY[name]}__", getattr(table, name))
        for public in (name, *made.aliases):
            setattr(Methods, public, getattr(table, name))
            if made.inplace:
                inplace = overwriting(made)
                setattr(Methods, f"{public}_", inplace)
                setattr(table, f"{public}_", inplace)
        if name in OPERATORS:
            setattr(Methods, f"__{OPERATORS[name]}__", getattr(table, name))
        if name in UNARY:
            setattr(Methods, f"__{UNARY[name]}__", getattr(table, name))
    Methods.where = lambda self, condition, other: table.where(condition, self, other)  # type: ignore[attr-defined]
    Methods.__rmatmul__ = lambda self, other: table.matmul(other, self)  # type: ignore[attr-defined]
    Methods.__rdiv__ = Methods.__rtruediv__  # type: ignore[attr-defined]
    Methods.__hash__ = native.TensorBase.__hash__  # type: ignore[method-assign]


attach()
