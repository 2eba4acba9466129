"""The ops as callables: a rule for each row, the two tables of ops for pullbacks, Tensor's methods.

`table` has every op on Tensors, `table.arrays` the same on plain arrays. Both have the public
signatures, so a pullback runs on either. docs/design/ops.md follows a call step by step.
"""

from __future__ import annotations

import functools
import os
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ... import dtypes, native
from ...cupy_runtime import on_initialize
from ...ops import LATER, load
from ...ops.table.op_table import COMPOSITES, ROWS, Composite, Row
from ..engine import grad_buffer, views_and_inplace
from ..grad_mode import recording
from . import (
    autocast,
    autocast_lists,
    composite,
    convert_index,
    devices,
    explain_error,
    general_call,
    observers,
    plan,
    promote_operands,
)
from .cuda_device import use_cuda
from .out_argument import copy_to_out

# The forms of an op, and the attributes of Rule that hold them.
FORMS = {
    "function": "public",
    "method": "method",
    "operator": "operator",
    "reflected": "reflected",
    "inplace": "inplace",
    "array": "on_array",
}
AUTOCAST_FORMS = ("function", "method", "operator", "reflected")

plan_lock = threading.RLock()
os.register_at_fork(after_in_child=plan_lock._at_fork_reinit)  # type: ignore[attr-defined]


class Table(SimpleNamespace):
    """Ops by name; the first access to an op of a family in `LATER` loads the family."""

    def __getattr__(self, name: str) -> Any:
        prefix = name.lstrip("_").partition("_")[0]
        if prefix in LATER and prefix not in loaded:
            declare(prefix)
            return getattr(self, name)
        raise AttributeError(f"ops: there is no op {name!r}")


loaded: set[str] = set()  # the prefixes in `LATER` whose families are in the tables


def declare(prefix: str = "") -> None:
    """Loads later families into the tables: those of one prefix, or all."""
    with plan_lock:
        load(prefix)
        install()
        loaded.update([prefix] if prefix else LATER)


class DeviceOps:
    """The table of ops that a device's rules use: the one on Tensors, and `arrays`."""

    def __init__(self, table: Any, device: devices.DeviceType) -> None:
        self.table = table
        self.arrays = DeviceArrays(table, device)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.table, name)
        setattr(self, name, found)
        return found


class DeviceArrays:
    """Ops by name on a device's arrays, each made at its first use."""

    def __init__(self, table: Any, device: devices.DeviceType) -> None:
        self.table, self.device = table, device

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.table, name)
        if isinstance(found, native.OpFunction):
            found = found.rule.on(self.device).on_array
        elif isinstance(found, native.Composite):
            found = composite.callable_of(COMPOSITES[found.__name__], self, False)
        setattr(self, name, found)
        return found


arrays = Table()
table = Table(arrays=arrays)


DEVICE_OPS: dict[type, DeviceOps] = {}


def device_ops(array_class: type) -> DeviceOps:
    """The table of ops that the rules of a device use, by the class of its arrays."""
    found = DEVICE_OPS.get(array_class)
    if found is None:
        new = DeviceOps(table, devices.registered.types[array_class])
        found = DEVICE_OPS.setdefault(array_class, new)
    return found


class Rule:
    """The functions of a row, and the backward of its nodes.

    Attributes:
        public: the function on Tensors; method, operator, reflected, inplace: its other forms, or
            None.
        on_array: the function on plain arrays.
        arrays, tensors: `(node, g) -> gradients`, one for each edge of the node.
        device: the DeviceType whose arrays the functions take; None: NumPy's.
    """

    def __init__(self, row: Row, device: devices.DeviceType | None = None) -> None:
        self.row, self.name, self.device = row, row.name, device
        self.ops = table if device is None else device_ops(device.array_class)
        self.on_devices: dict[str, Rule] = {}
        sized = any(a.kind == "sizes" for a in row.attributes)
        binary = row.broadcast and len(row.inputs) == 2
        self.public = self.function("function")
        self.method = self.function("method") if sized else self.public
        self.operator = self.function("operator") if binary else self.public
        self.reflected = self.function("reflected") if binary else None
        self.inplace = self.function("inplace") if row.inplace else None
        self.on_array = self.function("array")

    def function(self, form: str) -> Any:
        """One form of the op; the first call fills in its columns."""
        name = f"{self.name}_" if form == "inplace" else self.name
        precisions = autocast_lists.NONE
        if form in AUTOCAST_FORMS:
            precisions = autocast_lists.precisions_of(self.row, form)
        return native.OpFunction(
            self, name, name, self.row.doc, form,
            autocast_lists.modes_of(precisions), precisions,
            None if self.device is None else self.device.array_class,
        )  # fmt: skip

    @functools.cached_property
    def kernel(self) -> Any:
        """The kernel of all forms."""
        if self.device is not None:
            return devices.kernel_of(self.row, self.device)
        return plan.kernel_of(self.row)

    def on(self, device: devices.DeviceType) -> Rule:
        """The rule of the same row for a device's arrays."""
        found = self.on_devices.get(device.name)
        if found is None:
            found = self.on_devices.setdefault(device.name, Rule(self.row, device))
        return found

    @functools.cached_property
    def arrays(self) -> Any:
        return self.gradients(False)

    @functools.cached_property
    def tensors(self) -> Any:
        return self.gradients(True)

    def gradients(self, tensors: bool) -> Any:
        xp = np if self.device is None else self.device.xp

        is_optional = bool(self.row.statistics) and self.device is not None

        def zeros(like: tuple[tuple[int, ...], Any]) -> Any:
            if is_optional and not tensors and len(like[0]) == 1:
                return None  # of statistics: the device's kernel needs no zeros for them
            return native.wrap(xp.zeros(*like)) if tensors else xp.zeros(*like)

        result = plan.gradients(self, tensors, grad_buffer.take_buffer, zeros)
        return result if self.device is None else self.device.guard_gradients(result)

    def form(self, name: str) -> Any:
        """The OpFunction of a form."""
        return getattr(self, FORMS[name])

    def replay(self, tensor: Any, attributes: tuple[Any, ...]) -> Any:
        """Calls the op on a tensor, with attributes in the row's order, to record a view again."""
        return self.public.call_bound((tensor, *attributes))

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def twin(op: Any) -> Any:
    """The OpFunction of a GPU that a call of `op` with its arrays runs."""
    return op.rule.on(devices.registered.device).form(op.form)


def array_ops(array: Any) -> Any:
    """The table of ops on arrays of this array's class."""
    is_on_device = type(array) in devices.registered.types
    return device_ops(type(array)).arrays if is_on_device else arrays


def rule_of_array(rule: Rule, array: Any) -> Rule:
    """The rule of the same row for arrays of this array's class."""
    device = devices.registered.types.get(type(array))
    return rule if device is None else rule.on(device)


def fill(op: Any) -> None:
    """Fills in the columns of an op, once."""
    with plan_lock:
        if op.kernel is None:
            plan.fill(op)


RULES: dict[str, Rule] = {}


def rule_of(name: str) -> Rule:
    """The rule of an op, created on first use."""
    rule = RULES.get(name)
    if rule is None:
        row = ROWS[name]
        rule = RULES[name] = Rule(row)
        setattr(table, name, rule.public)
        setattr(table, f"{name}_rule", rule)
        if rule.inplace is not None:
            setattr(table, f"{name}_", rule.inplace)
        setattr(arrays, name, rule.on_array)
    return rule


def install() -> None:
    """Fills both tables from the rows and composites declared so far."""
    for name in ROWS:
        if name in RULES:
            continue
        rule_of(name)
        for other in ROWS[name].aliases:
            setattr(table, other, getattr(table, name))
            setattr(arrays, other, getattr(arrays, name))
            if hasattr(table, f"{name}_"):
                setattr(table, f"{other}_", getattr(table, f"{name}_"))
    for declared in COMPOSITES.values():
        if declared.name in vars(table):
            continue
        on_tensors = composite.callable_of(declared, table, True)
        on_arrays = composite.callable_of(declared, arrays, False)
        for name in (declared.name, *declared.aliases):
            setattr(table, name, on_tensors)
            setattr(arrays, name, on_arrays)
    views_and_inplace.ops = autocast.ops = table
    views_and_inplace.array_ops = array_ops
    views_and_inplace.rule_of_array = rule_of_array


# ---------------------------------------------------------------- Tensor's methods


if TYPE_CHECKING:
    from .tensor_methods import Methods as Methods  # by generate_stubs.py
else:

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


def inplace_form(declared: Composite) -> Any:
    """The in-place form of a composite: by its `inplace`, or computed and then copied."""
    name, compute_inplace = declared.name, cast(Any, declared.inplace)
    if isinstance(compute_inplace, str):
        swapped = InplaceTable(compute_inplace)
        compute_inplace = lambda ops, *args, **kwargs: declared.compute(swapped, *args, **kwargs)  # noqa: E731

    def inplace(input: Any, *args: Any, **kwargs: Any) -> Any:
        function = getattr(table, name)
        if compute_inplace is not True and not autocast.active:
            result = compute_inplace(table, input, *args, **kwargs)
            if result is input:
                return result
            if result is not None:
                return table._overwrite_(input, result)
        # backward may need the input's old value
        x = table.clone(input) if input.requires_grad and recording.get() else input
        # in-place forms compute in the tensor's own dtype, inside autocast, too
        result = (
            autocast.without_autocast(function, x, *args, **kwargs)
            if autocast.active
            else function(x, *args, **kwargs)
        )
        promote_operands.check_castable(name, result, input)
        return table._overwrite_(input, result)

    inplace.__name__ = inplace.__qualname__ = f"{name}_"
    inplace.__doc__ = declared.doc
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
    for name, declared in COMPOSITES.items():
        if declared.function:
            for public in (name, *declared.aliases):
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
    for name, declared in COMPOSITES.items():
        if not declared.method:
            continue
        for public in (name, *declared.aliases):
            setattr(Methods, public, getattr(table, name))
            if declared.inplace:
                inplace = inplace_form(declared)
                setattr(Methods, f"{public}_", inplace)
                setattr(table, f"{public}_", inplace)
        if declared.operator:
            setattr(Methods, f"__{declared.operator}__", getattr(table, name))
    Methods.where = lambda self, condition, other: table.where(condition, self, other)  # type: ignore[method-assign]
    Methods.__rmatmul__ = lambda self, other: table.matmul(other, self)  # type: ignore[method-assign]
    Methods.__rdiv__ = Methods.__rtruediv__  # type: ignore[attr-defined]
    Methods.__hash__ = native.TensorBase.__hash__  # type: ignore[method-assign]


install()
attach()
native.set_op_hooks(
    plan=fill,
    signature=plan.signature,
    bind=general_call.bind,
    call_general=general_call.call_general,
    explain=explain_error.explain,
    copy_to_out=copy_to_out,
    as_index=convert_index.as_index,
    as_dtype=dtypes.as_dtype,
    view_node=views_and_inplace.view_node,
    recording=recording,
    check_recorded_write=views_and_inplace.check_recorded_write,
    check_unrecorded_write=views_and_inplace.check_unrecorded_write,
    rewrite_history=views_and_inplace.rewrite_history,
    common_dtype=promote_operands.common_of_two,
    cast=rule_of("_to_copy").public,
    twin=twin,
)
native.set_composite_hooks(
    signature=composite.signature,
    overloaded=composite.call_overloaded,
    out=composite.out,
    explain=composite.explain,
)
on_initialize(use_cuda)
native.set_mode_functions(autocast.run, observers.call_observed)
