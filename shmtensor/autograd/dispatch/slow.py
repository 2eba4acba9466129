"""What is odd about a call of an op, and how it is made usual.

`native.OpFunction` carries out what is usual: arguments in their places, plain tensors of one dtype
(or two of two dtypes), Python numbers. Any other call comes here and goes on as a usual one:

    bind     arguments that its parser does not know, or that are wrong
    odd      operands of other classes, dtypes and devices, and `out=` that takes a copy
    failed   (explain_error.py) the kernel raised
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ...ops.table.op_definition import EMPTY, Row
from ..engine.views_and_inplace import node_of
from . import devices, promote_operands
from .out_argument import put
from .plan import FORMS, is_operator, is_sized, numpy_names, takes_out
from .torch_function import ask, overriders

__all__ = ["bind", "odd", "wrong_call"]


class Binder:
    """What binding needs of an op, worked out at the first such call.

    Attributes:
        positional: the names of arguments that may be given by position.
        names: of all arguments, in the row's order.
        spellings: NumPy's names of attributes, with ours.
        rarely: rare keywords and their defaults.
    """

    def __init__(self, op: Any) -> None:
        row: Row = op.rule.row
        form = FORMS[op.form]
        inputs = [x.public for x in row.inputs]
        self.name = op.__name__
        self.names = [*inputs, *(a.name for a in row.attributes)]
        self.positional = [*inputs, *(a.name for a in row.attributes if not a.keyword_only)]
        if form == "reflected":
            self.positional[:2] = self.positional[1::-1]
        self.spellings = {}
        self.rarely: dict[str, Any] = {}
        if not is_operator(form):
            self.spellings = {other: name for name, other in numpy_names(row).items()}
            self.rarely = row.rare_defaults
        self.takes_out = form == "function" and takes_out(row)
        self.defaults: dict[str, Any] = {x.public: None for x in row.inputs if x.optional}
        self.defaults |= {a.name: a.default for a in row.attributes if a.default is not EMPTY}
        self.sized = next((a.name for a in row.attributes if is_sized(row, form, a)), None)

    def with_sizes_as_tuple(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """Positional arguments with sizes that were given one by one as a tuple."""
        if self.sized is None:
            return args
        at = self.positional.index(self.sized)
        sizes = args[at:]
        if not sizes:
            return args if self.sized in named else (*args, ())
        lone = len(sizes) == 1 and sizes[0].__class__ is not int
        return (*args[:at], sizes[0] if lone else sizes)

    def __call__(
        self, args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
        """(values in the row's order, rare keywords, out)."""
        args = self.with_sizes_as_tuple(args, named)
        for other, name in self.spellings.items():
            if other in named:
                if name in named:
                    raise wrong_twice(self.name, name)
                named[name] = named.pop(other)
        out = named.pop("out", None) if self.takes_out else None
        rare = {key: named.pop(key, default) for key, default in self.rarely.items()}
        values = self.defaults | dict(zip(self.positional, args)) | named
        if (
            len(args) > len(self.positional)
            or not named.keys() <= set(self.names)
            or not named.keys().isdisjoint(self.positional[: len(args)])
            or len(values) < len(self.names)
        ):
            required = [n for n in self.names if n not in self.defaults]
            raise wrong_call(self.name, self.positional, required, self.names, args, named)
        if all(rare[key] is default for key, default in self.rarely.items()):
            rare = {}
        return tuple(values[n] for n in self.names), rare, out


def wrong_call(
    name: str,
    positional: list[str],
    required: list[str],
    known: list[str],
    args: tuple[Any, ...],
    named: dict[str, Any],
) -> TypeError:
    """The error of a call whose arguments do not fit, in Python's own words."""
    if len(args) > len(positional):
        n = len(positional)
        return TypeError(
            f"{name}() takes {n} positional argument{'s' * (n != 1)} but {len(args)} "
            f"{'was' if len(args) == 1 else 'were'} given"
        )
    for key in named:
        if key not in known:
            return TypeError(f"{name}() got an unexpected keyword argument {key!r}")
        if key in positional[: len(args)]:
            return wrong_twice(name, key)
    given = {*positional[: len(args)], *named}
    missing = [repr(n) for n in required if n not in given]
    *others, last = missing
    shown = f"{', '.join(others)} and {last}" if others else last
    return TypeError(
        f"{name}() missing {len(missing)} required positional argument{'s' * bool(others)}: {shown}"
    )


def wrong_twice(name: str, argument: str) -> TypeError:
    return TypeError(f"{name}() got multiple values for argument {argument!r}")


BINDERS: dict[Any, Binder] = {}


def bind(op: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """A call whose arguments the parser does not know: NumPy's names and ours at once, names that
    are not interned, defaults of sizes.

    Raises:
        TypeError: arguments that the op does not have, or that are missing.
    """
    binder = BINDERS.get(op)
    if binder is None:
        binder = BINDERS[op] = Binder(op)
    values, rare, out = binder(args, named)
    if not rare:
        return op.call_bound(values, out)
    row, form = op.rule.row, FORMS[op.form]
    n = len(row.inputs)
    attributes = {a.name: v for a, v in zip(row.attributes, values[n:])}
    ops = op.rule.ops.arrays if form == "array" else op.rule.ops
    if form == "inplace" and row.rare_form_inplace is not None:
        return row.rare_form_inplace(ops, *values[:n], **attributes, **rare)
    result = row.rare_form(ops, *values[:n], **attributes, **rare)
    if form == "inplace":
        return ops._overwrite_(values[0], result)
    return result if out is None else put(out, row.name, result)


def odd(op: Any, values: tuple[Any, ...], out: Any = None) -> Any:
    """A call with operands that are not usual: they are made so, and the op is called again.

    Args:
        values: the arguments in the row's order.
        out: the tensor that the result goes to, or None.

    Raises:
        TypeError: an operand is of a class that no op takes.
    """
    rule, form = op.rule, FORMS[op.form]
    row: Row = rule.row
    n = len(row.inputs)
    inputs, attributes = values[:n], values[n:]
    function = rule.inplace if form == "inplace" else rule.public

    # 1. A class with a __torch_function__ of its own takes the op over.
    if takers := overriders(inputs):
        plain = [v for a, v in zip(row.attributes, attributes) if not a.keyword_only]
        named = {a.name: v for a, v in zip(row.attributes, attributes) if a.keyword_only}
        if out is not None:
            named["out"] = out
        return ask(takers, function, (*inputs, *plain), named)

    # 2. An array is another device's, or (gradcheck makes such) a NumPy scalar.
    if (device := devices.of(inputs)) is not None:
        if out is not None:
            raise NotImplementedError(f"{row.label}: there is no out= on device {device.name} yet")
        return devices.compute(op, device, inputs, attributes, form == "inplace")
    if any(isinstance(x, native.TensorBase) and isinstance(x.array, np.generic) for x in inputs):
        for x in inputs:
            if isinstance(x, native.TensorBase):
                x.array = np.asarray(x.array)
        return op.call_bound(values, out)

    # 3. The kernel cannot write to `out` itself.
    if out is not None:
        return put(out, row.name, function.call_bound(values))

    # 4. In place, where nothing flows back through the op: out of place, and a recorded copy.
    if form == "inplace" and not row.pullbacks and has_history(inputs[0]):
        return rule.ops._overwrite_(inputs[0], rule.public.call_bound(values))

    # 5. Other dtypes, NumPy's arrays, numbers.
    return promote_operands.usual(rule, form, inputs, attributes)


def has_history(x: Any) -> bool:
    return isinstance(x, native.TensorBase) and node_of(x) is not None
