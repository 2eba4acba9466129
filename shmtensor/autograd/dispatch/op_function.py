"""The ops as callables: a rule for each row, and the two tables that pullbacks name.

`table` has every op on Tensors, `table.arrays` the same on plain arrays; both have the public
signatures, so a pullback runs on either. docs/design/ops.md follows a call hop by hop.
"""

from __future__ import annotations

import functools
import os
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import dtypes, native
from ...ops import LATER, load
from ...ops.table.op_definition import COMPOSITES, ROWS, Row
from ..engine import grad_buffer, views_and_inplace
from ..grad_mode import recording
from . import (
    autocast,
    composite,
    convert_index,
    explain_error,
    observers,
    plan,
    promote_operands,
    slow,
)
from .out_argument import put

__all__ = ["Rule", "declare", "rule_of", "table"]

AUTOCAST_FORMS = ("function", "method", "operator", "reflected")

planning = threading.RLock()
os.register_at_fork(after_in_child=planning._at_fork_reinit)  # type: ignore[attr-defined]


class Table(SimpleNamespace):
    """Ops by name, those of later families when they are first asked for. Unknown names say so."""

    def __getattr__(self, name: str) -> Any:
        word = name.lstrip("_").partition("_")[0]
        if word in LATER and word not in loaded:
            declare(word)
            return getattr(self, name)
        raise AttributeError(f"ops: there is no op {name!r}")


loaded: set[str] = set()  # the words of later families that are in the tables


def declare(word: str = "") -> None:
    """Puts later families into the tables: those of a word, or all."""
    with planning:
        load(word)
        install()
        loaded.update([word] if word else LATER)


arrays = Table()
table = Table(arrays=arrays)


class Rule:
    """What the engine knows of a row: its functions, and what a node of it does in a backward.

    Attributes:
        public: the function on Tensors; method, operator, reflected, inplace: its other forms, or
            None.
        on_array: the same on plain arrays.
        arrays, tensors: `(node, g) -> gradients`, aligned with the node's edges.
    """

    def __init__(self, row: Row) -> None:
        self.row, self.name, self.ops = row, row.name, table
        sized = any(a.kind == "sizes" for a in row.attributes)
        binary = row.broadcast and len(row.inputs) == 2
        self.public = self.function("function")
        self.method = self.function("method") if sized else self.public
        self.operator = self.function("operator") if binary else self.public
        self.reflected = self.function("reflected") if binary else None
        self.inplace = self.function("inplace") if row.inplace else None
        self.on_array = self.function("array")

    def function(self, form: str) -> Any:
        """One form of the op; its columns are filled in at the first call."""
        name = f"{self.name}_" if form == "inplace" else self.name
        kind = self.row.autocast if form in AUTOCAST_FORMS else ""
        modes = plan.OBSERVED | plan.AUTOCAST * bool(kind)
        return native.OpFunction(
            self, name, name, self.row.doc, plan.FORMS.index(form), modes, kind
        )

    @functools.cached_property
    def kernel(self) -> Any:
        """What all forms call."""
        return plan.kernel_of(self.row)

    @functools.cached_property
    def arrays(self) -> Any:
        return plan.gradients(self, False, grad_buffer.offered, array_zeros)

    @functools.cached_property
    def tensors(self) -> Any:
        return plan.gradients(self, True, grad_buffer.offered, tensor_zeros)

    def again(self, tensor: Any, attributes: tuple[Any, ...]) -> Any:
        """The op on a tensor, with attributes in the row's order."""
        return self.public.call_bound((tensor, *attributes))

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def array_zeros(like: tuple[tuple[int, ...], Any]) -> Any:
    return np.zeros(*like)


def tensor_zeros(like: tuple[tuple[int, ...], Any]) -> Any:
    return native.wrap(np.zeros(*like))


def fill(op: Any) -> None:
    """Gives an op its columns, once."""
    with planning:
        if op.kernel is None:
            plan.fill(op)


RULES: dict[str, Rule] = {}


def rule_of(name: str) -> Rule:
    """The rule of an op, made when first asked for."""
    found = RULES.get(name)
    if found is None:
        row = ROWS[name]
        found = RULES[name] = Rule(row)
        setattr(table, name, found.public)
        setattr(table, f"{name}_rule", found)
        if found.inplace is not None:
            setattr(table, f"{name}_", found.inplace)
        setattr(arrays, name, found.on_array)
    return found


def install() -> None:
    """Fills both tables from the rows and composites that are declared now."""
    for name in ROWS:
        if name in RULES:
            continue
        rule_of(name)
        for other in ROWS[name].aliases:
            setattr(table, other, getattr(table, name))
            setattr(arrays, other, getattr(arrays, name))
            if hasattr(table, f"{name}_"):
                setattr(table, f"{other}_", getattr(table, f"{name}_"))
    for made in COMPOSITES.values():
        if made.name in vars(table):
            continue
        on_tensors = composite.callable_of(made, table, True)
        on_arrays = composite.callable_of(made, arrays, False)
        for name in (made.name, *made.aliases):
            setattr(table, name, on_tensors)
            setattr(arrays, name, on_arrays)
    views_and_inplace.ops = autocast.ops = table


install()
native.set_op_hooks(
    plan=fill,
    signature=plan.signature,
    bind=slow.bind,
    odd=slow.odd,
    failed=explain_error.failed,
    put=put,
    as_index=convert_index.as_index,
    as_dtype=dtypes.as_dtype,
    history=views_and_inplace.history,
    recording=recording,
    may_write=views_and_inplace.may_write,
    may_forget=views_and_inplace.may_forget,
    written=views_and_inplace.rewrite_history,
    common=promote_operands.common_of_pair,
    cast=rule_of("_to_copy").public,
)
native.set_composite_hooks(
    signature=composite.signature,
    foreign=composite.foreign,
    out=composite.out,
    failed=composite.failed,
)
native.set_mode_functions(autocast.run, observers.observed)
