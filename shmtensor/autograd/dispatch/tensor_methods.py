"""The methods of Tensor from the op table. generate_stubs.py writes their types,
tensor_methods.pyi.
"""

from __future__ import annotations

from typing import Any

from ... import native
from ...ops.table.op_table import COMPOSITES, ROWS, Composite
from ..grad_mode import recording
from .autocast import active, without_autocast
from .op_function import rule_of, table
from .promote_operands import check_castable


class Methods(native.TensorBase):
    """The methods of every Tensor from the op table."""

    __slots__ = ()


class InplaceTable:
    """The table, with the in-place forms of some rows under the names of the rows."""

    def __init__(self, rows: str) -> None:
        for row in rows.split():
            setattr(self, row, getattr(table, f"{row}_"))

    def __getattr__(self, name: str) -> Any:
        return getattr(table, name)


def inplace_form(composite: Composite) -> Any:
    """The in-place form of a composite: by its `inplace`, or computed and then copied."""
    name, compute_inplace = composite.name, composite.inplace
    if isinstance(compute_inplace, str):
        swapped = InplaceTable(compute_inplace)
        compute_inplace = lambda ops, *args, **kwargs: composite.compute(swapped, *args, **kwargs)  # noqa: E731

    def inplace(input: Any, *args: Any, **kwargs: Any) -> Any:
        function = getattr(table, name)
        if compute_inplace is not True and not active:
            result = compute_inplace(table, input, *args, **kwargs)
            if result is input:
                return result
            if result is not None:
                return table._overwrite_(input, result)
        # backward may need the input's old value
        x = table.clone(input) if input.requires_grad and recording.get() else input
        # in-place forms compute in the tensor's own dtype, inside autocast, too
        result = (
            without_autocast(function, x, *args, **kwargs)
            if active
            else function(x, *args, **kwargs)
        )
        check_castable(name, result, input)
        return table._overwrite_(input, result)

    inplace.__name__ = inplace.__qualname__ = f"{name}_"
    inplace.__doc__ = composite.doc
    return inplace


def functions() -> dict[str, Any]:
    """The public functions of the table, by name."""
    result: dict[str, Any] = {}
    for name, row in ROWS.items():
        if row.function:
            rule = rule_of(name)
            for public in (name, *row.aliases):
                result[public] = rule.public
                if rule.inplace is not None:
                    result[f"{public}_"] = rule.inplace
    for name, composite in COMPOSITES.items():
        if composite.function:
            for public in (name, *composite.aliases):
                result[public] = getattr(table, name)
    return result


def attach() -> None:
    """Sets the functions of Methods."""
    for name, row in ROWS.items():
        rule = rule_of(name)
        if row.method:
            for public in (name, *row.aliases):
                setattr(Methods, public, rule.method)
                if rule.inplace is not None:
                    setattr(Methods, f"{public}_", rule.inplace)
        if row.operator:
            setattr(Methods, f"__{row.operator}__", rule.operator)
            if len(row.inputs) == 2 and not row.comparison:
                if rule.reflected is not None:
                    setattr(Methods, f"__r{row.operator}__", rule.reflected)
                if rule.inplace is not None:
                    setattr(Methods, f"__i{row.operator}__", rule.inplace)
    for name, composite in COMPOSITES.items():
        if not composite.method:
            continue
        for public in (name, *composite.aliases):
            setattr(Methods, public, getattr(table, name))
            if composite.inplace:
                inplace = inplace_form(composite)
                setattr(Methods, f"{public}_", inplace)
                setattr(table, f"{public}_", inplace)
        if composite.operator:
            setattr(Methods, f"__{composite.operator}__", getattr(table, name))
    Methods.where = lambda self, condition, other: table.where(condition, self, other)  # type: ignore[attr-defined]
    Methods.__rmatmul__ = lambda self, other: table.matmul(other, self)  # type: ignore[attr-defined]
    Methods.__rdiv__ = Methods.__rtruediv__  # type: ignore[attr-defined]
    Methods.__hash__ = native.TensorBase.__hash__  # type: ignore[method-assign]


attach()
