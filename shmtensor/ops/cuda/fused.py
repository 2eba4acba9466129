"""Rows of several pointwise steps as one CUDA kernel, by tracing their forwards and pullbacks.

`fused(function, n, fallback)` runs `function(f, *operands)` once for each kind of operands, with
symbols in place of arrays: their operators write CUDA code, and `f` has the functions of the array
module and of the op table. Arrays are float16, float32 or float64, all of one dtype, or bool; the
kernel computes in float32 or float64 and rounds once. What cannot be traced, as a branch on
values, and all other operands are a call of `fallback`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from ... import native
from ..table.op_definition import ROWS
from .pointwise import Routine

FLOATS = {np.dtype(c): np.dtype("d" if c == "d" else "f") for c in "efd"}  # dtype: computed in
BOOL = np.dtype(np.bool_)
VALUE, TRUTH = "acc_t", "bool"  # the C types of symbols


class NotTraceable(Exception):
    """The function does with a symbol what no expression has."""


def binary(text: str, kind: str = VALUE) -> Callable[[Symbol, Any], Symbol]:
    """An operator of symbols: {0} is the symbol, {1} the other operand."""

    def operator(x: Symbol, y: Any) -> Symbol:
        return x.trace.emit(text, (x, y), kind)

    return operator


class Symbol:
    """A number or a truth value in a kernel. Its operators add statements to the trace."""

    __array_ufunc__ = None
    is_number = False  # whether it depends on Python numbers only

    def __init__(self, trace: Trace, text: str, kind: str) -> None:
        self.trace, self.text, self.kind = trace, text, kind

    @property
    def dtype(self) -> Any:
        return BOOL if self.kind is TRUTH else self.trace.dtype

    @property
    def real(self) -> Symbol:
        return self

    def conjugate(self) -> Symbol:
        return self

    def astype(self, dtype: Any, copy: bool = True) -> Symbol:
        dtype = np.dtype(dtype)
        if dtype is self.dtype:
            return self
        if dtype is BOOL:
            return self != 0
        if dtype is not self.trace.dtype:
            raise NotTraceable(f"a cast to {dtype}")
        return self.trace.value(self)

    def __bool__(self) -> bool:
        raise NotTraceable("a branch on a value")

    __add__, __radd__ = binary("{0} + {1}"), binary("{1} + {0}")
    __sub__, __rsub__ = binary("{0} - {1}"), binary("{1} - {0}")
    __mul__, __rmul__ = binary("{0} * {1}"), binary("{1} * {0}")
    __truediv__, __rtruediv__ = binary("{0} / {1}"), binary("{1} / {0}")
    __rpow__ = binary("pow({1}, {0})")
    __lt__, __le__ = binary("{0} < {1}", TRUTH), binary("{0} <= {1}", TRUTH)
    __gt__, __ge__ = binary("{0} > {1}", TRUTH), binary("{0} >= {1}", TRUTH)
    __eq__ = binary("{0} == {1}", TRUTH)  # type: ignore[assignment]
    __ne__ = binary("{0} != {1}", TRUTH)  # type: ignore[assignment]

    def __pow__(self, y: Any) -> Symbol:
        if y.__class__ in (int, float) and y == 2:
            return self * self
        return self.trace.power(self, y)

    def __neg__(self) -> Symbol:
        return self.trace.emit("-{}", (self,), VALUE)

    def __abs__(self) -> Symbol:
        return self.trace.abs(self)

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, y: Any) -> Symbol:
        return self.trace.logical("{} && {}", self, y)

    __rand__ = __and__

    def __or__(self, y: Any) -> Symbol:
        return self.trace.logical("{} || {}", self, y)

    __ror__ = __or__

    def __invert__(self) -> Symbol:
        return self.trace.logical("!{}", self)


class Number(Symbol):
    """A Python number that is an argument of the kernel. As a number it has no dtype."""

    is_number = True

    @property
    def dtype(self) -> Any:
        raise AttributeError("dtype")


class Trace:
    """The statements of a kernel, and the functions of `f`.

    Attributes:
        dtype: of the floating-point arrays.
    """

    inf, nan, pi, e = math.inf, math.nan, math.pi, math.e

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self.statements: list[str] = []

    def symbol(self, x: Any) -> Symbol:
        if isinstance(x, Symbol):
            return x
        if isinstance(x, (bool, np.bool_)):
            return Symbol(self, "true" if x else "false", TRUTH)
        if isinstance(x, (int, float, np.integer, np.floating)):
            x = float(x)
            text = repr(x) if math.isfinite(x) else "NAN" if x != x else "INFINITY"
            sign = "-" if x == -math.inf else ""
            symbol = Symbol(self, f"static_cast<acc_t>({sign}{text})", VALUE)
            symbol.is_number = True
            return symbol
        raise NotTraceable(f"an operand of {type(x)}")

    def value(self, x: Any) -> Symbol:
        symbol = self.symbol(x)
        if symbol.kind is VALUE:
            return symbol
        return self.emit_text(f"{symbol.text} ? acc_t(1) : acc_t(0)", VALUE)

    def emit_text(self, text: str, kind: str) -> Symbol:
        name = f"_t{len(self.statements)}"
        self.statements.append(f"const {kind} {name} = {text};")
        return Symbol(self, name, kind)

    def emit(self, text: str, operands: tuple[Any, ...], kind: str) -> Symbol:
        symbols = [self.value(x) for x in operands]
        out = self.emit_text(text.format(*(x.text for x in symbols)), kind)
        out.is_number = all(x.is_number for x in symbols)
        return out

    def logical(self, text: str, *operands: Any) -> Symbol:
        symbols = [self.symbol(x) for x in operands]
        if any(x.kind is not TRUTH for x in symbols):
            raise NotTraceable("a bitwise operation on numbers")
        return self.emit_text(text.format(*(x.text for x in symbols)), TRUTH)

    # ---- functions of the array module, and of the op table

    def where(self, condition: Any, x: Any, y: Any) -> Symbol:
        if self.symbol(condition).kind is not TRUTH:
            raise NotTraceable("a condition that is not bool")
        symbols = self.symbol(x), self.symbol(y)
        if all(s.kind is TRUTH for s in symbols):
            texts = [s.text for s in symbols]
            return self.emit_text(f"{condition.text} ? {texts[0]} : {texts[1]}", TRUTH)
        out = self.emit(condition.text + " ? {} : {}", symbols, VALUE)
        out.is_number = out.is_number and condition.is_number
        return out

    def _where(self, condition: Any, x: Any, y: Any) -> Symbol:
        return self.where(condition, x, y)

    def _where_other(self, condition: Any, x: Any, y: Any) -> Symbol:
        return self.where(condition, y, x)

    def maximum(self, x: Any, y: Any) -> Symbol:
        return self.emit("isnan({0}) || isnan({1}) ? acc_t(NAN) : max({0}, {1})", (x, y), VALUE)

    def minimum(self, x: Any, y: Any) -> Symbol:
        return self.emit("isnan({0}) || isnan({1}) ? acc_t(NAN) : min({0}, {1})", (x, y), VALUE)

    def power(self, x: Any, y: Any) -> Symbol:
        power = "{1} == acc_t(2) ? {0} * {0} : pow({0}, {1})"
        if self.symbol(y).is_number:  # a root of -inf is NaN, but its power by an array is not
            roots = "{1} == acc_t(0.5) ? sqrt({0}) : {1} == acc_t(-0.5) ? acc_t(1) / sqrt({0}) : "
            power = roots + power
        return self.emit(power, (x, y), VALUE)

    def clip(self, x: Any, low: Any, high: Any) -> Symbol:
        return self.minimum(self.maximum(x, low), high)

    def logaddexp(self, x: Any, y: Any) -> Symbol:
        x, y = self.value(x), self.value(y)
        d = self.emit("{} - {}", (x, y), VALUE)
        larger = "{0} > 0 ? {1} + log1p(exp(-{0})) : {0} <= 0 ? {2} + log1p(exp({0})) : {1} + {2}"
        different = self.emit(larger, (d, x, y), VALUE)
        equal = self.emit("{} + log(acc_t(2))", (x,), VALUE)
        return self.where(x == y, equal, different)

    def sigmoid(self, x: Any) -> Symbol:
        e = self.exp(-abs(x))
        return self.where(x >= 0, 1 / (1 + e), e / (1 + e))

    def softplus(self, x: Any) -> Symbol:
        return self.logaddexp(x, 0)

    def sign(self, x: Any) -> Symbol:
        return self.where(x > 0, 1.0, self.where(x < 0, -1.0, self.where(x == 0, 0.0, x)))

    def signs(self, x: Any) -> Symbol:
        """The sign; 0 of NaN."""
        return self.where(x > 0, 1.0, self.where(x < 0, -1.0, 0.0))

    sgn = signs

    def zeros(self, shape: Any, dtype: Any) -> Symbol:
        if shape != ():
            raise NotTraceable("an array of a shape")
        return self.symbol(0.0)

    def isnan(self, x: Any) -> Symbol:
        return self.emit("isnan({}) != 0", (x,), TRUTH)

    def isfinite(self, x: Any) -> Symbol:
        return self.emit("isfinite({}) != 0", (x,), TRUTH)

    def _to_copy(self, x: Any, dtype: Any) -> Symbol:
        return self.symbol(x).astype(dtype)

    def abs(self, x: Any) -> Symbol:
        return self.emit("fabs({})", (x,), VALUE)

    def _clamp(self, x: Any, low: Any, high: Any) -> Symbol:
        x = self.value(x) if low is None else self.maximum(x, low)
        return x if high is None else self.minimum(x, high)

    def __getattr__(self, name: str) -> Any:
        if name in FUNCTIONS:
            text = FUNCTIONS[name] + "({})"
            return lambda x: self.emit(text, (x,), VALUE)
        if name in ROWS:
            return lambda *operands: ROWS[name].forward(self, *operands)
        raise NotTraceable(f"no function {name}")


class OpsTrace(Trace):
    """The functions of the op table, where they differ from the array module's."""

    sign = Trace.signs


CONSTANTS = """
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
"""
FUNCTIONS = {
    name: name
    for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan",
        "sinh", "cosh", "tanh", "erf", "erfc", "floor", "ceil", "trunc",
    )
} | {"absolute": "fabs", "arcsin": "asin", "arccos": "acos", "arctan": "atan"}  # fmt: skip


def trace(
    name: str, function: Callable[..., Any], kinds: tuple[Any, ...], scope_class: type[Trace]
) -> Routine | None:
    """The routine of a function for operands; None if it is not traceable, or needs no kernel."""
    dtypes = {kind for kind in kinds if isinstance(kind, np.dtype)}
    floats = dtypes - {BOOL}
    if len(floats) != 1 or not floats <= FLOATS.keys():
        return None
    dtype = floats.pop()
    wide = FLOATS[dtype]
    scope = scope_class(dtype)
    operands: list[Any] = []
    in_dtypes: list[Any] = []
    for i, kind in enumerate(kinds):
        if isinstance(kind, np.dtype):
            operands.append(Symbol(scope, f"in{i}", TRUTH if kind == BOOL else VALUE))
            in_dtypes.append(BOOL if kind == BOOL else wide)
        elif kind in (int, float):
            operands.append(Number(scope, f"in{i}", VALUE))
            in_dtypes.append(wide)
        elif kind is None or isinstance(kind, (bool, str)):
            operands.append(kind)
            in_dtypes.append(None)
        else:
            return None
    result = function(scope, *operands)
    if not isinstance(result, Symbol) or any(result is x for x in operands):
        return None
    out_dtype = BOOL if result.kind is TRUTH else dtype
    number = "double" if wide.char == "d" else "float"
    text = "\n".join([*scope.statements, f"out0 = static_cast<out0_type>({result.text})"])
    preamble = f"{CONSTANTS}typedef {number} acc_t;\n"
    return Routine(name, text, tuple(in_dtypes), out_dtype, preamble)


def find_fused(
    name: str, function: Callable[..., Any], scope_class: type[Trace] = Trace
) -> Callable[[tuple[Any, ...]], Any]:
    """The `find` of `native.DevicePointwise` for a traced function."""

    def find(key: tuple[Any, ...]) -> Any:
        *kinds, out, singles = key
        try:
            routine = trace(f"shmtensor_{name}", function, tuple(kinds), scope_class)
        except Exception:  # of any kind: then the fallback computes, or raises it for the arrays
            return None
        return None if routine is None else routine.kernel(tuple(kinds), out, singles)

    return find


def fused(
    name: str, function: Callable[..., Any], n: int, fallback: Callable[..., Any], skip: int = 0
) -> Any:
    """A function of n operands as one kernel.

    Args:
        function: `function(f, *operands)`.
        fallback: computes all other calls; it gets the same arguments.
        skip: the first arguments that are no operands.
    """
    return native.DevicePointwise(fallback, find_fused(name, function), n, skip, cupy.ndarray)
