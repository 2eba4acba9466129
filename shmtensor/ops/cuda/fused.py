"""Pointwise functions as one CUDA kernel, by tracing forwards, pullbacks and update rules.

`trace(name, function, kinds)` runs `function(f, *operands)` with symbols in place of arrays: their
operators and NumPy's functions write CUDA code, and `f` has the functions of the array module and
of the op table. Arrays are float16, float32 or float64, all of one dtype, or bool; the kernel
computes in float32 or float64 and rounds once. What cannot be traced, as a branch on values,
raises NotTraceable: then `fallback` computes, and `statistics()` says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import cupy
import numpy as np
from cupy._core._scalar import get_typename

from ... import native
from ..table.op_table import ROWS
from .pointwise import Routine

FLOATS = {np.dtype(c): np.dtype("d" if c == "d" else "f") for c in "efd"}  # dtype: computed in
BOOL, FLOAT64 = np.dtype(np.bool_), np.dtype(np.float64)
VALUE, TRUTH = "acc_t", "bool"  # the C types of symbols


class NotTraceable(Exception):
    """The function does with a symbol what no expression has."""


class NoAttribute(NotTraceable, AttributeError):
    """A symbol or `f` has no such attribute, as `hasattr` asks."""


class NeedsFloat64(Exception):
    """The function computes float32 in float64."""


def refuse(what: str) -> Callable[..., Any]:
    """A method that is not traceable."""

    def method(*operands: Any, **keywords: Any) -> Any:
        raise NotTraceable(what)

    return method


class Placeholder:
    """Stands for an array or a number of which no value is known."""

    __hash__ = None  # type: ignore[assignment]
    __bool__ = refuse("a branch on a value")
    __float__ = __int__ = __index__ = refuse("a Python number of a value")
    __array__ = __iter__ = __len__ = __getitem__ = refuse("an array of a value")
    __array_function__ = refuse("a function of arrays")

    def __getattr__(self, name: str) -> Any:
        raise NoAttribute(f"attribute {name}")


# Operators and NumPy's functions: C, where {0} and {1} are the operands, and its type.
BINARY = {
    "add": ("{0} + {1}", VALUE), "subtract": ("{0} - {1}", VALUE),
    "multiply": ("{0} * {1}", VALUE), "divide": ("{0} / {1}", VALUE),
    "less": ("{0} < {1}", TRUTH), "less_equal": ("{0} <= {1}", TRUTH),
    "greater": ("{0} > {1}", TRUTH), "greater_equal": ("{0} >= {1}", TRUTH),
    "equal": ("{0} == {1}", TRUTH), "not_equal": ("{0} != {1}", TRUTH),
    "arctan2": ("atan2({0}, {1})", VALUE), "copysign": ("copysign({0}, {1})", VALUE),
    "hypot": ("hypot({0}, {1})", VALUE),
    "maximum": ("isnan({0}) || isnan({1}) ? acc_t(NAN) : max({0}, {1})", VALUE),
    "minimum": ("isnan({0}) || isnan({1}) ? acc_t(NAN) : min({0}, {1})", VALUE),
}  # fmt: skip


def operator(name: str) -> Callable[[Symbol, Any], Symbol]:
    return lambda x, y: x.trace.emit(BINARY[name][0], (x, y), BINARY[name][1])


def reflected(name: str) -> Callable[[Symbol, Any], Symbol]:
    return lambda y, x: y.trace.emit(BINARY[name][0], (x, y), BINARY[name][1])


class Symbol(Placeholder):
    """A number or a truth value in a kernel. Its operators add statements to the trace."""

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
        if dtype is FLOAT64 and self.trace.wide is not FLOAT64:
            raise NeedsFloat64
        if dtype not in (self.trace.dtype, FLOAT64):
            raise NotTraceable(f"a cast to {dtype}")
        return self.trace.value(self)

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **keywords: Any) -> Any:
        if method != "__call__" or keywords:
            raise NotTraceable(f"{ufunc.__name__}.{method}")
        return getattr(self.trace, ufunc.__name__)(*operands)

    def __array_function__(self, function: Any, types: Any, operands: Any, keywords: Any) -> Any:
        return getattr(self.trace, function.__name__)(*operands, **keywords)

    __add__, __radd__ = operator("add"), reflected("add")
    __sub__, __rsub__ = operator("subtract"), reflected("subtract")
    __mul__, __rmul__ = operator("multiply"), reflected("multiply")
    __truediv__, __rtruediv__ = operator("divide"), reflected("divide")
    __lt__, __le__ = operator("less"), operator("less_equal")
    __gt__, __ge__ = operator("greater"), operator("greater_equal")
    __eq__ = operator("equal")  # type: ignore[assignment]
    __ne__ = operator("not_equal")  # type: ignore[assignment]

    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = refuse("an integer quotient")

    def __pow__(self, y: Any) -> Symbol:
        return self.trace.power(self, y)

    def __rpow__(self, x: Any) -> Symbol:
        return self.trace.emit("pow({}, {})", (x, self), VALUE)

    def __neg__(self) -> Symbol:
        return self.trace.emit("-{}", (self,), VALUE)

    def __abs__(self) -> Symbol:
        return self.trace.emit("fabs({})", (self,), VALUE)

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
        raise NoAttribute("dtype")


class Trace:
    """The statements of a kernel, and the functions of `f`.

    Attributes:
        dtype: of the floating-point arrays.
        wide: the dtype that is computed in.
    """

    inf, nan, pi, e = math.inf, math.nan, math.pi, math.e
    float64 = np.float64
    literal = "static_cast<acc_t>"

    def __init__(self, dtype: Any, wide: Any) -> None:
        self.dtype, self.wide = dtype, wide
        self.statements: list[str] = []
        self.rows: list[str] = []  # of the op table, whose forwards are running

    def symbol(self, x: Any) -> Symbol:
        if isinstance(x, Symbol):
            return x
        if isinstance(x, (bool, np.bool_)):
            return Symbol(self, "true" if x else "false", TRUTH)
        if isinstance(x, (int, float, np.integer, np.floating)):
            x = float(x)
            text = repr(x) if math.isfinite(x) else "NAN" if x != x else "INFINITY"
            sign = "-" if x == -math.inf else ""
            symbol = Symbol(self, f"{self.literal}({sign}{text})", VALUE)
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
        condition = self.symbol(condition)
        if condition.kind is not TRUTH:
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

    def power(self, x: Any, y: Any) -> Symbol:
        if y.__class__ in (int, float) and y == 2:
            return self.emit("{0} * {0}", (x,), VALUE)
        power = "{1} == acc_t(2) ? {0} * {0} : pow({0}, {1})"
        if self.symbol(y).is_number:  # a root of -inf is NaN, but its power by an array is not
            roots = "{1} == acc_t(0.5) ? sqrt({0}) : {1} == acc_t(-0.5) ? acc_t(1) / sqrt({0}) : "
            power = roots + power
        return self.emit(power, (x, y), VALUE)

    def clip(self, x: Any, low: Any, high: Any) -> Any:
        x = self.value(x) if low is None else self.maximum(x, low)
        return x if high is None else self.minimum(x, high)

    _clamp = clip

    def logaddexp(self, x: Any, y: Any) -> Symbol:
        x, y = self.value(x), self.value(y)
        d = self.emit("{} - {}", (x, y), VALUE)
        larger = "{0} > 0 ? {1} + log1p(exp(-{0})) : {0} <= 0 ? {2} + log1p(exp({0})) : {1} + {2}"
        different = self.emit(larger, (d, x, y), VALUE)
        equal = self.emit("{} + log(acc_t(2))", (x,), VALUE)
        return self.where(x == y, equal, different)

    def sinc(self, x: Any) -> Symbol:
        a = math.pi * x
        return self.where(x == 0, 1.0, self.sin(a) / a)

    def sign(self, x: Any) -> Symbol:
        """The sign; NaN of NaN, as the array module's."""
        return self.where(x > 0, 1.0, self.where(x < 0, -1.0, self.where(x == 0, 0.0, x)))

    def zeros(self, shape: Any, dtype: Any) -> Symbol:
        if shape != ():
            raise NotTraceable("an array of a shape")
        return self.symbol(0.0)

    def zeros_like(self, x: Any) -> Symbol:
        return self.symbol(0.0)

    def isnan(self, x: Any) -> Symbol:
        return self.emit("isnan({}) != 0", (x,), TRUTH)

    def isinf(self, x: Any) -> Symbol:
        return self.emit("isinf({}) != 0", (x,), TRUTH)

    def isfinite(self, x: Any) -> Symbol:
        return self.emit("isfinite({}) != 0", (x,), TRUTH)

    def asarray(self, x: Any, dtype: Any = None) -> Symbol:
        symbol = self.symbol(x)
        return symbol if dtype is None else symbol.astype(dtype)

    def _to_copy(self, x: Any, dtype: Any) -> Symbol:
        return self.symbol(x).astype(dtype)

    def __getattr__(self, name: str) -> Any:
        if name in FUNCTIONS:
            text = FUNCTIONS[name] + "({})"
            return lambda x: self.emit(text, (x,), VALUE)
        if name in BINARY:
            return lambda x, y: self.emit(BINARY[name][0], (x, y), BINARY[name][1])
        if name not in ROWS or name in self.rows:
            raise NoAttribute(f"function {name}")

        def forward(*operands: Any) -> Any:
            self.rows.append(name)
            result = ROWS[name].forward(self, *operands)
            self.rows.remove(name)
            return result

        return forward


class OpsTrace(Trace):
    """The functions of the op table, where they differ from the array module's."""

    def sign(self, x: Any) -> Symbol:
        """The sign; 0 of NaN."""
        return self.where(x > 0, 1.0, self.where(x < 0, -1.0, 0.0))


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
        "sinh", "cosh", "tanh", "erf", "erfc", "floor", "ceil", "trunc", "rint",
    )
} | {
    "abs": "fabs", "absolute": "fabs", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
}  # fmt: skip


def trace(
    name: str, function: Callable[..., Any], kinds: tuple[Any, ...], scope: type[Trace] = Trace
) -> Routine:
    """The routine of a function for kinds of operands: dtypes of arrays, classes of numbers, and
    the values of others.

    Args:
        name: the kernel's, and the row's if it is its forward: then that does not call itself.

    Raises:
        NotTraceable: it has none, or needs none.
    """
    floats = {kind for kind in kinds if isinstance(kind, np.dtype)} - {BOOL}
    if len(floats) != 1 or not floats <= FLOATS.keys():
        raise NotTraceable("dtypes")
    dtype = floats.pop()
    try:
        return trace_in(name, function, kinds, scope(dtype, FLOATS[dtype]))
    except NeedsFloat64:
        return trace_in(name, function, kinds, scope(dtype, FLOAT64))


def trace_in(name: str, function: Callable[..., Any], kinds: tuple[Any, ...], f: Trace) -> Routine:
    operands: list[Any] = []
    in_dtypes: list[Any] = []
    for i, kind in enumerate(kinds):
        if isinstance(kind, np.dtype):
            operands.append(Symbol(f, f"in{i}", TRUTH if kind == BOOL else VALUE))
            in_dtypes.append(BOOL if kind == BOOL else f.wide)
        elif kind in (int, float):
            operands.append(Number(f, f"in{i}", VALUE))
            in_dtypes.append(f.wide)
        elif kind is None or isinstance(kind, (bool, str)):
            operands.append(kind)
            in_dtypes.append(None)
        else:
            raise NotTraceable(f"an operand {kind}")
    f.rows.append(name)
    result = function(f, *operands)
    if not isinstance(result, Symbol) or any(result is x for x in operands):
        raise NotTraceable("no new array")
    out_dtype = BOOL if result.kind is TRUTH else f.dtype
    text = "\n".join([*f.statements, f"out0 = static_cast<out0_type>({result.text})"])
    preamble = f"{CONSTANTS}typedef {get_typename(f.wide)} acc_t;\n"
    return TracedRoutine(f"shmtensor_{name}", text, tuple(in_dtypes), out_dtype, preamble)


class TracedRoutine(Routine):
    """A routine that was traced."""

    def elementwise(self, kinds: tuple[Any, ...]) -> Any:
        parameters, casts = [], []
        for i, dtype in enumerate(self.in_dtypes):
            if dtype is not None:
                source = kinds[i] if isinstance(kinds[i], np.dtype) else dtype
                parameters.append(f"{source.name} x{i}")
                casts.append(f"const {'bool' if dtype == BOOL else 'acc_t'} in{i} = x{i};\n")
        return cupy.ElementwiseKernel(
            ", ".join(parameters),
            f"{self.out_dtype.name} out0",
            "".join(casts) + self.text,
            f"{self.name}_strided",
            preamble=f"{self.preamble}typedef {get_typename(self.out_dtype)} out0_type;\n",
        )


def float64_code(function: Callable[..., Any], *names: str) -> tuple[str, str]:
    """A function of numbers in C: statements, and the result. `acc_t` must be double."""
    f = Trace(FLOAT64, FLOAT64)
    result = function(*(Symbol(f, name, VALUE) for name in names))
    return "\n".join(f.statements), result.text


# ---- functions of arrays


class Statistics(NamedTuple):
    """What this process has traced.

    Attributes:
        kernels: kernels that were made, each for one kind of operands.
        fallbacks: by function, why it was not traced, the last time.
    """

    kernels: int
    fallbacks: dict[str, str]


counts = {"kernels": 0}
reasons: dict[str, str] = {}


def statistics() -> Statistics:
    """The kernels and fallbacks so far."""
    return Statistics(counts["kernels"], dict(reasons))


class Fused:
    """A function of n operands as one kernel, for each kind of operands.

    Args:
        routine: `routine(kinds)`: what the kernel computes; raises NotTraceable.
        plain: computes what has none; it gets the same arguments, and keywords.
        skip: the first arguments that are no operands.
    """

    def __init__(
        self, name: str, routine: Callable[..., Routine], plain: Callable[..., Any], n: int,
        skip: int = 0,
    ) -> None:  # fmt: skip
        self.name, self.routine, self.plain, self.n, self.skip = name, routine, plain, n, skip
        self.kernels: dict[tuple[Any, ...], Any] = {}

    def make(self, kinds: tuple[Any, ...], finish: Callable[[Routine], Any]) -> Any:
        """A kernel of operands; None: `plain` computes."""
        try:
            kernel = finish(self.routine(kinds))
        except NotTraceable as reason:
            reasons[self.name] = str(reason)
            return None
        counts["kernels"] += kernel is not None
        return kernel

    def find(self, key: tuple[Any, ...]) -> Any:
        """The `find` of `native.DevicePointwise`."""
        *kinds, out, singles = key
        return self.make(tuple(kinds), lambda routine: routine.kernel(tuple(kinds), out, singles))

    def fallback(self, *arguments: Any, **keywords: Any) -> Any:
        """One kernel for operands of other shapes and strides, if there is one."""
        operands = arguments[self.skip :]
        if keywords or len(operands) != self.n:
            return self.plain(*arguments, **keywords)
        kinds = tuple(map(kind_of, operands))
        if kinds not in self.kernels:
            self.kernels[kinds] = self.make(kinds, lambda routine: routine.elementwise(kinds))
        kernel = self.kernels[kinds]
        if kernel is None:
            return self.plain(*arguments)
        return kernel(*(x for x in operands if not (x is None or x.__class__ in (bool, str))))

    def function(self) -> Any:
        return native.DevicePointwise(self.fallback, self.find, self.n, self.skip, cupy.ndarray)


def kind_of(x: Any) -> Any:
    """What an operand is in a key: as `native.DevicePointwise`'s."""
    if isinstance(x, cupy.ndarray):
        return x.dtype
    return x if x is None or x.__class__ in (bool, str) else x.__class__


def fused(
    name: str, function: Callable[..., Any], n: int, plain: Callable[..., Any], skip: int = 0,
    scope: type[Trace] = Trace,
) -> Any:  # fmt: skip
    """`function(f, *operands)` of n operands as one kernel. The arguments are those of Fused."""

    def routine(kinds: tuple[Any, ...]) -> Routine:
        return trace(name, function, kinds, scope)

    return Fused(name, routine, plain, n, skip).function()
