"""Turns rows into functions: a rule per row, compiled at the first call, and the two tables that
pullbacks name.

`table` has every op on Tensors, `table.arrays` the same on plain arrays; both have the public
signatures, so a pullback runs on either.
"""

from __future__ import annotations

import functools
import linecache
import os
import threading
from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from .. import dtypes, native
from ..ops import LATER, load, precision, results
from ..ops.kernels import of_halves
from ..ops.memory_format import lay_out
from ..ops.storage import AS_STORED
from ..ops.table import COMPOSITES, ROWS, Composite, Row
from . import autocast, composition, explain, home, indices, operands, source, view
from .into import put, straight
from .mode import recording
from .quiet import quiet

__all__ = ["Rule", "declare", "rule_of", "table"]

Function = Callable[..., Any]

FORMS = ("function", "method", "operator", "reflected")  # those that autocast concerns

compiling = threading.RLock()
os.register_at_fork(after_in_child=compiling._at_fork_reinit)  # type: ignore[attr-defined]


class Table(SimpleNamespace):
    """Ops by name, those of later families when they are first asked for. Unknown names say so."""

    def __getattr__(self, name: str) -> Any:
        word = name.partition("_")[0]
        if word in LATER and word not in loaded:
            declare(word)
            return getattr(self, name)
        raise AttributeError(f"ops: there is no op {name!r}")


loaded: set[str] = set()  # the words of later families that are in the tables


def declare(word: str = "") -> None:
    """Puts later families into the tables: those of a word, or all."""
    with compiling:
        load(word)
        install()
        loaded.update([word] if word else LATER)


arrays = Table()
table = Table(arrays=arrays)


class Missing:
    """The default of an argument that may be given by either of two names."""

    def __repr__(self) -> str:
        return "<required>"


MISSING = Missing()


def stub(*args: Any, _made: Function, **named: Any) -> Any:
    """The first call of a generated function: compiles it and calls it again."""
    return _made()(*args, **named)


class Rule:
    """A row's compiled side: its functions, and what a node of it does in a backward.

    Attributes:
        public: the function on Tensors; method, operator, reflected, inplace: its other forms, or
            None.
        on_array: the same on plain arrays.
        arrays, tensors: `(node, g) -> gradients`, aligned with the node's edges.
    """

    __slots__ = (
        "arrays", "inplace", "method", "name", "on_array", "operator", "ops", "public", "reflected",
        "row", "shared", "tensors",
    )  # fmt: skip

    def __init__(self, row: Row) -> None:
        self.row, self.name, self.ops = row, row.name, table
        self.shared: dict[str, Any] = {}
        self.public = self.lazily(row.name, "function")
        sized = any(a.kind == "sizes" for a in row.attributes)
        self.method = self.lazily(row.name, "method") if sized else self.public
        binary = row.broadcast and len(row.inputs) == 2
        self.operator = self.lazily(row.name, "operator") if binary else self.public
        self.reflected = self.lazily(row.name, "reflected") if binary else None
        self.inplace = self.lazily(f"{row.name}_", "inplace") if row.inplace else None
        self.on_array = self.lazily(row.name, "array")
        self.arrays = self.lazily(f"{row.name}_backward", "arrays")
        self.tensors = self.lazily(f"{row.name}_backward", "tensors")

    def globals(self) -> dict[str, Any]:
        """What generated code refers to."""
        row = self.row
        forward = positional(row) if row.view else quiet(positional(row))
        kernel = row.numpy[0] if isinstance(row.numpy, tuple) else row.numpy
        if not row.view and row.name not in AS_STORED:
            native.widens(kernel or forward, len(row.outputs), of_halves(kernel))
        lay_out(row, kernel or forward, kernel is None)
        return {
            **COMMON,
            **source.attribute_defaults(row),
            **{f"_p_{name}": p.function for name, p in row.pullbacks.items()},
            "_rule": self,
            "_kernel": kernel,
            "_forward": forward,
            "_diverted": row.diverted,
            "_diverted_in_place": row.diverted_in_place,
        }

    def lazily(self, name: str, variant: str) -> Any:
        make = functools.partial(self.compiled, name, variant)
        kind = precision.kind(self.name) if variant in FORMS else ""
        return lazily(name, self.row.doc, self.shared, make, kind)

    def compiled(self, name: str, variant: str) -> Any:
        """Writes and compiles one of the functions."""
        if not self.shared:
            self.shared.update(self.globals())
        if len(self.row.outputs) > 1 and "_Result" not in self.shared:
            function = self.row.name.removesuffix("_along")  # max_along is what max(dim) runs
            self.shared["_Result"] = results.shape_of(function, self.row.outputs)
        text = self.text(name, variant)
        return generate(text, f"<shmtensor op {self.name}: {variant}>", self.shared)

    def text(self, name: str, variant: str) -> str:
        if variant == "inplace":
            return source.inplace_source(self.row, name)
        if variant == "array":
            return source.array_source(self.row)
        if variant in ("arrays", "tensors"):
            return source.backward_source(self.row, variant == "tensors")
        return source.public_source(self.row, name, variant)

    def again(self, tensor: Any, attributes: tuple[Any, ...]) -> Any:
        """The op on a tensor, with attributes in the row's order."""
        named = {a.name: v for a, v in zip(self.row.attributes, attributes) if a.keyword_only}
        plain = [v for a, v in zip(self.row.attributes, attributes) if not a.keyword_only]
        return self.public(tensor, *plain, **named)

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def lazily(name: str, doc: str, shared: dict[str, Any], make: Function, kind: str = "") -> Any:
    """A function that is made when it is first called.

    It keeps its identity (it may be a method of Tensor by then): the made function's code is put
    into it. `shared` is the namespace of the code to come, `kind` what autocast does with it.
    """
    function: Any = FunctionType(stub.__code__, shared, name)
    function.__kwdefaults__ = {"_made": functools.partial(finish, function, make, kind)}
    function.__doc__ = doc
    function.__module__ = "shmtensor"
    function.__qualname__ = name
    return function


def finish(function: Any, make: Function, kind: str) -> Any:
    """Puts the made code into a lazy function, once."""
    with compiling:
        if function.__code__ is stub.__code__:
            made = make()
            # Another thread may call the stub between these lines: it keeps finding `_made`.
            function.__kwdefaults__ = {**function.__kwdefaults__, **(made.__kwdefaults__ or {})}
            function.__defaults__ = made.__defaults__
            function.__code__ = made.__code__
            if kind:
                autocast.enlist(function, kind)
    return function


def generate(text: str, filename: str, shared: dict[str, Any]) -> Any:
    """The function that the source defines; its lines show in tracebacks."""
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    found: dict[str, Any] = {}
    exec(compile(text, filename, "exec"), shared, found)
    (made,) = found.values()
    return made


def positional(row: Row) -> Function:
    """Forward, taking all attributes by position."""
    if not any(a.keyword_only for a in row.attributes):
        return row.forward
    names = ["xp", *(x.name for x in row.inputs)]
    given = [f"{a.name}={a.name}" if a.keyword_only else a.name for a in row.attributes]
    text = (
        f"def forward({', '.join([*names, *(a.name for a in row.attributes)])}):\n"
        f"    return _function({', '.join([*names, *given])})\n"
    )
    return generate(text, f"<shmtensor op {row.name}: forward>", {"_function": row.forward})  # type: ignore[no-any-return]


# ---------------------------------------------------------------- what generated code calls


def again(value: Any, edge: Any) -> Any:
    """A saved array as a tensor again, with its history; numbers stay."""
    if not isinstance(value, np.ndarray):
        return value
    tensor = native.wrap(value)
    tensor.node = edge
    return tensor


def array(value: Any) -> Any:
    """NumPy numbers become 0-d arrays; anything else stays."""
    return np.asarray(value) if isinstance(value, np.generic) else value


def first(results: tuple[Any, ...], n: int) -> Any:
    """Forward's outputs as Tensors, without what it kept for pullbacks."""
    return native.wrap(results[0]) if n == 1 else tuple(native.wrap(r) for r in results[:n])


def first_arrays(results: tuple[Any, ...], n: int) -> Any:
    return results[0] if n == 1 else results[:n]


def shape_of(value: Any) -> tuple[int, ...]:
    return getattr(value, "shape", ())


def dtype_of(value: Any) -> Any:
    return getattr(value, "dtype", None)


def marked(tensors: tuple[Any, ...], parent: Any) -> tuple[Any, ...]:
    """Several outputs that are views of one tensor: they may not be written in grad mode."""
    for t in tensors:
        native.mark(t, parent, None, ())
    return tensors


def array_zeros(like: tuple[tuple[int, ...], Any]) -> Any:
    return np.zeros(*like)


def tensor_zeros(like: tuple[tuple[int, ...], Any]) -> Any:
    return native.wrap(np.zeros(*like))


def stored(tensor: Any, value: Any) -> Any:
    """What an in-place form with rare arguments computed out of place, copied in."""
    return table.overwrite_(tensor, value)


COMMON: dict[str, Any] = {
    "_ops": table,
    "_array_ops": arrays,
    "__name__": "shmtensor.ops",
    "_again": again,
    "_array": array,
    "_as_dtype": dtypes.as_dtype,
    "_as_index": indices.as_index,
    "_call": native.call,
    "_compute": native.compute,
    "_compute_view": native.compute_view,
    "_copyto": np.copyto,
    "_dtype_of": dtype_of,
    "_failed": explain.failed,
    "_first": first,
    "_first_arrays": first_arrays,
    "_float": float,
    "_history": view.history,
    "_into": home.offered,
    "_int": int,
    "_marked": marked,
    "_may_forget": view.may_forget,
    "_may_write": view.may_write,
    "_missing": MISSING,
    "_mode": recording.get,
    "_ndarray": np.ndarray,
    "_needs": explain.needs,
    "_new": tuple.__new__,
    "_np": np,
    "_port": native.Port,
    "_put": put,
    "_straight": straight,
    "_record": native.record,
    "_record_many": native.record_many,
    "_record_view": native.record_view,
    "_shape_of": shape_of,
    "_slice": slice,
    "_sorted": operands.sort_out,
    "_stored": stored,
    "_write": native.write,
    "_written": view.written,
    "_tensor_zeros": tensor_zeros,
    "_zeros": array_zeros,
}

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
        on_tensors = composite_function(made, table)
        on_arrays = composite_function(made, arrays)
        for name in (made.name, *made.aliases):
            setattr(table, name, on_tensors)
            setattr(arrays, name, on_arrays)
    view.ops = autocast.ops = table


def composite_function(made: Composite, ops: Any) -> Any:
    """The public function of a composite: `def f(input, dim): return compute(ops, input, dim)`."""
    shared: dict[str, Any] = {"__name__": "shmtensor.ops", "_ops": ops}

    def make() -> Any:
        text = composition.written(made, shared, ops is table)
        return generate(text, f"<shmtensor composite {made.name}>", shared)

    kind = precision.kind(made.name) if ops is table else ""
    shared["_public"] = found = lazily(made.name, made.doc, shared, make, kind)
    return found
