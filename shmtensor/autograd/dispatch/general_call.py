"""The general path of an op's call.

`native.OpFunction` carries out the fast path: arguments in their places, plain tensors of one dtype
(or two of two dtypes), Python numbers. Any other call comes here, is converted, and takes the fast
path:

    bind           arguments that its parser does not handle, or that are wrong
    call_general   operands of other classes, dtypes and devices, and `out=` by a copy
    explain        (explain_error.py) the kernel raised
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ...cuda_arrays import device_of
from ...ops.table.op_table import EMPTY, Row
from ..engine.views_and_inplace import node_of
from . import devices, promote_operands
from .out_argument import copy_to_out
from .plan import is_operator, is_sized, numpy_names, takes_out
from .torch_function import call_torch_function, overloaded_args


class Binder:
    """The arguments of an op, for binding.

    Attributes:
        positional: the names of positional arguments.
        names: the names of all arguments, in the row's order.
        spellings: NumPy's names of attributes -> ours.
        rare_defaults: rare keywords and their defaults.
    """

    def __init__(self, op: Any) -> None:
        row: Row = op.rule.row
        form = op.form
        inputs = [x.public for x in row.inputs]
        self.name = op.__name__
        self.names = [*inputs, *(a.name for a in row.attributes)]
        self.positional = [*inputs, *(a.name for a in row.attributes if not a.keyword_only)]
        if form == "reflected":
            self.positional[:2] = self.positional[1::-1]
        self.spellings = {}
        self.rare_defaults: dict[str, Any] = {}
        if not is_operator(form):
            self.spellings = {other: name for name, other in numpy_names(row).items()}
            self.rare_defaults = row.rare_defaults
        self.takes_out = form == "function" and takes_out(row)
        self.defaults: dict[str, Any] = {x.public: None for x in row.inputs if x.optional}
        self.defaults |= {a.name: a.default for a in row.attributes if a.default is not EMPTY}
        self.sized = next((a.name for a in row.attributes if is_sized(row, form, a)), None)

    def with_sizes_as_tuple(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The positional arguments, with separate sizes as a tuple."""
        if self.sized is None:
            return args
        start = self.positional.index(self.sized)
        sizes = args[start:]
        if not sizes:
            return args if self.sized in kwargs else (*args, ())
        is_single = len(sizes) == 1 and sizes[0].__class__ is not int
        return (*args[:start], sizes[0] if is_single else sizes)

    def __call__(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
        """(values in the row's order, rare keywords, out)."""
        args = self.with_sizes_as_tuple(args, kwargs)
        for other, name in self.spellings.items():
            if other in kwargs:
                if name in kwargs:
                    raise multiple_values(self.name, name)
                kwargs[name] = kwargs.pop(other)
        out = kwargs.pop("out", None) if self.takes_out else None
        rare = {key: kwargs.pop(key, default) for key, default in self.rare_defaults.items()}
        values = self.defaults | dict(zip(self.positional, args)) | kwargs
        if (
            len(args) > len(self.positional)
            or not kwargs.keys() <= set(self.names)
            or not kwargs.keys().isdisjoint(self.positional[: len(args)])
            or len(values) < len(self.names)
        ):
            required = [n for n in self.names if n not in self.defaults]
            raise wrong_call(self.name, self.positional, required, self.names, args, kwargs)
        if all(rare[key] is default for key, default in self.rare_defaults.items()):
            rare = {}
        return tuple(values[n] for n in self.names), rare, out


def wrong_call(
    name: str,
    positional: list[str],
    required: list[str],
    names: list[str],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> TypeError:
    """The error of a call with wrong arguments, in Python's own words."""
    if len(args) > len(positional):
        n = len(positional)
        return TypeError(
            f"{name}() takes {n} positional argument{'s' * (n != 1)} but {len(args)} "
            f"{'was' if len(args) == 1 else 'were'} given"
        )
    for key in kwargs:
        if key not in names:
            return TypeError(f"{name}() got an unexpected keyword argument {key!r}")
        if key in positional[: len(args)]:
            return multiple_values(name, key)
    present = {*positional[: len(args)], *kwargs}
    missing = [repr(n) for n in required if n not in present]
    *first, last = missing
    listed = f"{', '.join(first)} and {last}" if first else last
    return TypeError(
        f"{name}() missing {len(missing)} required positional argument{'s' * bool(first)}: {listed}"
    )


def multiple_values(name: str, argument: str) -> TypeError:
    return TypeError(f"{name}() got multiple values for argument {argument!r}")


BINDERS: dict[Any, Binder] = {}


def bind(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls an op with arguments that the C++ parser does not handle: NumPy's names together with
    ours, names that are not interned, defaults of sizes.

    Raises:
        TypeError: arguments that the op does not have, or that are missing.
    """
    binder = BINDERS.get(op)
    if binder is None:
        binder = BINDERS[op] = Binder(op)
    values, rare, out = binder(args, kwargs)
    if not rare:
        return op.call_bound(values, out)
    row, form = op.rule.row, op.form
    n = len(row.inputs)
    attributes = {a.name: v for a, v in zip(row.attributes, values[n:])}
    ops = op.rule.ops.arrays if form == "array" else op.rule.ops
    if form == "inplace" and row.rare_form_inplace is not None:
        return row.rare_form_inplace(ops, *values[:n], **attributes, **rare)
    result = row.rare_form(ops, *values[:n], **attributes, **rare)
    if form == "inplace":
        return ops._overwrite_(values[0], result)
    return result if out is None else copy_to_out(out, row.name, result)


def call_general(op: Any, values: tuple[Any, ...], out: Any = None) -> Any:
    """Converts operands that the fast path does not take, and calls the op again.

    Args:
        values: the arguments in the row's order.
        out: the tensor for the result, or None.

    Raises:
        TypeError: an operand is of a class that no op takes.
    """
    rule, form = op.rule, op.form
    row: Row = rule.row
    n = len(row.inputs)
    inputs, attributes = values[:n], values[n:]
    function = rule.inplace if form == "inplace" else rule.public

    # 1. A class with its own __torch_function__ overrides the op.
    if overloaded := overloaded_args(inputs):
        plain = [v for a, v in zip(row.attributes, attributes) if not a.keyword_only]
        kwargs = {a.name: v for a, v in zip(row.attributes, attributes) if a.keyword_only}
        if out is not None:
            kwargs["out"] = out
        return call_torch_function(overloaded, function, (*inputs, *plain), kwargs)

    # 2. An array is on another device, or is a NumPy scalar (from gradcheck).
    if (device := devices.device_of(inputs)) is not None:
        if is_between_devices(row, inputs):
            places = [device_of(x.array) for x in inputs]
            source = rule.ops._to_device(inputs[1], *places)
            return getattr(rule.ops, f"{row.name}_")(inputs[0], source)
        if rule.device is None:
            return rule.on(device).form(op.form).call_bound(values, out)
        operands = devices.on_one_device(row, device, inputs, rule.ops._to_device)
        if any(a is not b for a, b in zip(flat(operands), flat(inputs))):
            return op.call_bound((*operands, *attributes), out)
    elif any(isinstance(x, native.TensorBase) and isinstance(x.array, np.generic) for x in inputs):
        for x in inputs:
            if isinstance(x, native.TensorBase):
                x.array = np.asarray(x.array)
        return op.call_bound(values, out)

    # 3. The kernel cannot write to `out` itself.
    if out is not None:
        return copy_to_out(out, row.name, function.call_bound(values))

    # 4. In place, and no gradient flows through the op: out of place, and a recorded copy.
    if form == "inplace" and not row.pullbacks and has_history(inputs[0]):
        return rule.ops._overwrite_(inputs[0], rule.public.call_bound(values))

    # 5. Other dtypes, NumPy's arrays, numbers.
    return promote_operands.call_promoted(rule, form, inputs, attributes)


def is_between_devices(row: Row, inputs: Any) -> bool:
    """Whether a call is a copy of a tensor to a tensor on another device."""
    if not row.between_devices or not all(isinstance(x, native.TensorBase) for x in inputs):
        return False
    return any(device_of(x.array) != device_of(inputs[0].array) for x in inputs[1:])


def flat(values: Any) -> Any:
    """The values, with those of lists in their places."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


def has_history(x: Any) -> bool:
    return isinstance(x, native.TensorBase) and node_of(x) is not None
