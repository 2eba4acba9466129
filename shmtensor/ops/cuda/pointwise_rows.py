"""The pointwise rows on CUDA, one kernel each, and in place without a copy.

Most are traced (`fused.py`); those that are one CuPy ufunc keep its values and dtypes, for all
dtypes (`pointwise.py`). What neither takes (broadcasting, strides, other dtypes) is computed by the
row's own forward.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from ... import native
from ...cuda_arrays import check_bfloat16, check_writable, device_of
from ...dtypes import bfloat16
from ..loss.pointwise_loss import POINTWISE_LOSSES, loss_weight
from ..nn.activation_backward import ARGUMENT_COUNTS, DERIVATIVES
from ..table.op_definition import ROWS, Row
from .fused import OpsTrace, find_fused, fused
from .pointwise import Routine, cuda_ufunc, find_ufunc

UFUNCS = {
    "add": cupy.add, "sub": cupy.subtract, "mul": cupy.multiply, "div": cupy.true_divide,
    "neg": cupy.negative, "eq": cupy.equal, "ne": cupy.not_equal, "lt": cupy.less,
    "le": cupy.less_equal, "gt": cupy.greater, "ge": cupy.greater_equal, "isnan": cupy.isnan,
    "isinf": cupy.isinf, "isfinite": cupy.isfinite, "maximum": cupy.maximum,
    "minimum": cupy.minimum, "fmax": cupy.fmax, "fmin": cupy.fmin, "abs": cupy.abs,
    "exp": cupy.exp, "exp2": cupy.exp2, "expm1": cupy.expm1, "log": cupy.log, "log2": cupy.log2,
    "log10": cupy.log10, "log1p": cupy.log1p, "sqrt": cupy.sqrt, "sin": cupy.sin, "cos": cupy.cos,
    "tan": cupy.tan, "sinh": cupy.sinh, "cosh": cupy.cosh, "tanh": cupy.tanh,
    "logical_and": cupy.logical_and, "logical_or": cupy.logical_or,
    "logical_xor": cupy.logical_xor, "logical_not": cupy.logical_not,
    "_clamp_min": cupy.maximum, "_clamp_max": cupy.minimum,
}  # fmt: skip
# CuPy orders complex numbers, and compiles the others for them; the CPU and PyTorch refuse them.
REAL = (
    "lt", "le", "gt", "ge", "maximum", "minimum", "fmax", "fmin", "_clamp", "_clamp_min",
    "_clamp_max", "_clamp_tensor", "relu", "_gelu", "atan2", "copysign", "hypot", "nextafter",
)  # fmt: skip
COMPLEX = {np.dtype("F"), np.dtype("D"), complex}
# Of float16 and a number, these are computed in float32: the number may be beyond float16.
ARITHMETIC = ("add", "sub", "mul", "div")
# Round a number to float16 anyway, or depend on the dtype of the operand.
SELECTING = ("_where", "_where_other", "_clamp", "threshold", "nan_to_num")
FLOAT16, FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)
NUMBERS = (int, float)
ROOT_HALF, ROOT_2_PI = math.sqrt(0.5), math.sqrt(2 / math.pi)


# ---- functions whose row's own forward cannot be traced


def gelu(f: Any, x: Any, tanh: bool) -> Any:
    if tanh:
        return 0.5 * x * (1 + f.tanh(ROOT_2_PI * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + f.erf(x * ROOT_HALF))


def gelu_backward(f: Any, x: Any, y: Any, tanh: bool) -> Any:
    from ..nn.activation import gelu_derivative

    return x * gelu_derivative(f, f.erf, y, tanh)


def activation_backward(f: Any, x: Any, y: Any, name: str, *numbers: Any) -> Any:
    derivatives = DERIVATIVES[name]
    derivative = derivatives.first(f, y, *numbers[: ARGUMENT_COUNTS.get(name, 0)])
    out = x * derivative
    return f.where(derivative == 0, 0.0, out) if derivatives.excludes else out


OWN: dict[str, Callable[..., Any]] = {
    "_gelu": gelu,
    "_gelu_backward": gelu_backward,
    "_activation_backward": activation_backward,
    "threshold": lambda f, x, threshold, value: f.where(x <= threshold, value, x),
    "addcmul": lambda f, x, y, z, value: x + value * y * z,
    "addcdiv": lambda f, x, y, z, value: x + value * y / z,
    "sign": lambda f, x: f.signs(x),
    "sgn": lambda f, x: f.signs(x),
    "_clamp": lambda f, x, low, high: f._clamp(x, low, high),
    "erf": lambda f, x: f.erf(x),
    "erfc": lambda f, x: f.erfc(x),
    "sinc": lambda f, x: f.where(x == 0, 1.0, f.sin(math.pi * x) / (math.pi * x)),
    "square": lambda f, x: x * x,
    "reciprocal": lambda f, x: 1 / x,
    "pow": lambda f, x, y: f.power(x, y),
    "_masked_scale": lambda f, x, mask, scale: f.where(mask, x * scale, 0.0),
}
REPLACED = ("erf", "erfc", "pow")  # have a forward, which takes other operands


def loss_value(f: Any, x: Any, y: Any, name: str, a: float, b: float) -> Any:
    return POINTWISE_LOSSES[name].value(f, x, y, a, b)


def loss_backward(
    f: Any, x: Any, left: Any, right: Any, name: str, is_right: bool, weight: float, a: Any, b: Any
) -> Any:
    derivative = POINTWISE_LOSSES[name].derivatives[is_right](f, left, right, a, b)
    return x * weight * derivative


def traced(row: Row) -> Callable[..., Any]:
    """The function of a row for `fused`, with all attributes by position."""
    own = OWN.get(row.name)
    if own is not None:
        return own
    names = [a.name for a in row.attributes if a.keyword_only]
    n = len(row.inputs) + len(row.attributes) - len(names)

    def function(f: Any, *operands: Any) -> Any:
        return row.forward(f, *operands[:n], **dict(zip(names, operands[n:])))

    return function


# ---- losses of two tensors of one shape

losses = fused("loss", loss_value, 5, lambda *operands: loss_value(cupy, *operands))
loss_gradients = fused(
    "loss_gradient", loss_backward, 8,
    lambda x, *operands: loss_backward(cupy, x, *operands).astype(operands[0].dtype, copy=False),
)  # fmt: skip


@ROWS["_pointwise_loss"].on("cuda")
def _pointwise_loss(
    xp: Any, x: Any, y: Any, name: str, reduction: str = "mean", a: float = 0.0, b: float = 0.0
) -> Any:
    if x.shape != y.shape or x.dtype != y.dtype or not x.size:
        return ROWS["_pointwise_loss"].forward(xp, x, y, name, reduction, a, b)
    values = losses(x, y, name, a, b)
    if reduction != "none":
        values = values.mean() if reduction == "mean" else values.sum()
    return values.astype(values.dtype if x.dtype.kind == "c" else x.dtype, copy=False)


@ROWS["_pointwise_loss_backward"].on("cuda")
def _pointwise_loss_backward(
    xp: Any, x: Any, left: Any, right: Any, name: str, side: int, reduction: str = "mean",
    a: float = 0.0, b: float = 0.0,
) -> Any:  # fmt: skip
    is_one_dtype = x.dtype == left.dtype == right.dtype
    if left.shape != right.shape or not is_one_dtype or x.dtype.kind != "f":
        row = ROWS["_pointwise_loss_backward"]
        return row.forward(xp, x, left, right, name, side, reduction, a, b)
    weight = loss_weight(left.size, reduction)
    return loss_gradients(x, left, right, name, bool(side), weight, a, b)


# ---- copies and casts

COPIED = "out0 = static_cast<out0_type>(in0)"


def find_cast(key: tuple[Any, ...]) -> Any:
    """The kernel that copies an array to one of this dtype; None: CuPy does it."""
    source, out, singles = key
    if singles or not isinstance(source, np.dtype) or out is None:
        return None
    kinds = source.kind + out.kind
    if source is not out and (kinds not in ("ff", "ii", "uu", "iu", "ui", "bf", "bi", "bu", "if")):
        return None
    if source is not out and out.itemsize < 4 and kinds == "if":
        return None
    return Routine("shmtensor_cast", COPIED, (source,), out).kernel((source,), out, 0)


def write_slowly(source: Any, out: Any) -> Any:
    check_writable(out)
    out[...] = source
    return out


# write_array(source, out): all elements of an array, cast; ValueError if several are one in memory
write_array = native.DevicePointwise(write_slowly, find_cast, 1, 0, cupy.ndarray)


def assign(target: Any, source: Any) -> Any:
    """Writes source to all elements of a device's array.

    Raises:
        ValueError: several elements are one in memory, as after `expand`.
    """
    return write_array(source, target)


def copy_array(x: Any) -> Any:
    """The same values in new memory, in the same order. Copies: one."""
    if not x._c_contiguous:
        return x.copy(order="K")
    return write_array(x, cupy.ndarray(x.shape, x.dtype))


def cast_array(x: Any, dtype: Any) -> Any:
    """A copy in another dtype. Copies: one."""
    if not x._c_contiguous:
        return x.astype(dtype)
    return write_array(x, cupy.ndarray(x.shape, dtype))


add_arrays = cuda_ufunc(cupy.add)  # of 16-bit floats, a sum rounded once


ROWS["clone"].on("cuda")(lambda xp, x: copy_array(x))


@ROWS["_to_copy"].on("cuda")
def _to_copy(xp: Any, x: Any, dtype: Any) -> Any:
    if dtype is bfloat16:
        check_bfloat16("to", device_of(x))
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x != 0 if dtype.kind == "b" else x.real
    return cast_array(x, dtype)


# ---- forwards for the operands that kernels do not take


def refusing_complex(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A forward that raises TypeError, as the CPU's kernels do, if an operand is complex."""

    def run(xp: Any, *operands: Any, **keywords: Any) -> Any:
        for x in operands:
            if getattr(x, "dtype", x.__class__) in COMPLEX:
                raise TypeError("not supported for complex numbers")
        return forward(xp, *operands, **keywords)

    return run


def has_half_and_number(operands: tuple[Any, ...]) -> bool:
    """Whether numbers are among the operands, and their floating-point arrays are float16."""
    dtypes = [x.dtype for x in operands if hasattr(x, "dtype")]
    return (
        FLOAT16 in dtypes
        and all(dtype.kind == "b" or dtype == FLOAT16 for dtype in dtypes)
        and any(x.__class__ in NUMBERS for x in operands)
    )


def arithmetic_in_float32(ufunc: Any, forward: Callable[..., Any], xp: Any, x: Any, y: Any) -> Any:
    """The forward of a row in ARITHMETIC: of float16 and a number in one pass, rounded once."""
    if not has_half_and_number((x, y)):
        return forward(xp, x, y)
    out = cupy.empty_like(x if hasattr(x, "dtype") else y)
    return ufunc(x, y, out=out, dtype=FLOAT32, casting="unsafe")


def in_float32(function: Callable[..., Any], skip: int = 1) -> Callable[..., Any]:
    """A function that computes float16 with numbers in float32, and rounds the result once.

    Args:
        skip: the first arguments that are no operands.
    """

    def run(*arguments: Any, **keywords: Any) -> Any:
        operands = arguments[skip:]
        if not has_half_and_number((*operands, *keywords.values())):
            return function(*arguments, **keywords)
        wide = (x.astype(FLOAT32) if getattr(x, "dtype", 0) == FLOAT16 else x for x in operands)
        out = function(*arguments[:skip], *wide, **keywords)
        return out.astype(FLOAT16) if getattr(out, "dtype", None) == FLOAT32 else out

    return run


def fallback_of(row: Row) -> Callable[..., Any]:
    """The forward of a row for operands that its kernels do not take."""
    forward = row.device_forwards.get("cuda", row.forward)
    if row.name in REAL:
        forward = refusing_complex(forward)
    if row.name in ARITHMETIC:
        return functools.partial(arithmetic_in_float32, UFUNCS[row.name], forward)
    return forward if row.name in UFUNCS or row.name in SELECTING else in_float32(forward)


# ---- declaration


def with_out(row: Row, forward: Callable[..., Any]) -> Callable[..., Any]:
    """A forward, by position, that may have one more argument: the array for the result."""
    names = [a.name for a in row.attributes if a.keyword_only]
    n = 1 + len(row.inputs) + len(row.attributes)
    split = n - len(names)

    def run(*operands: Any, **keywords: Any) -> Any:
        by_name = dict(zip(names, operands[split:n])) | keywords
        result = forward(*operands[:split], **by_name)
        return write_array(result, operands[n]) if len(operands) > n else result

    return run


def find_row(row: Row) -> Callable[[tuple[Any, ...]], Any]:
    ufunc = UFUNCS.get(row.name)
    fused = find_fused(row.name, traced(row))
    if ufunc is None:
        return fused
    by_ufunc = find_ufunc(ufunc)
    if row.name in REAL:
        return lambda key: by_ufunc(key) if COMPLEX.isdisjoint(key) else None
    if row.name not in ARITHMETIC:
        return by_ufunc

    def find(key: tuple[Any, ...]) -> Any:
        has_number = int in key or float in key
        return fused(key) if has_number and FLOAT16 in key else by_ufunc(key)

    return find


def is_pointwise(row: Row) -> bool:
    """Whether each element of the row's one result depends on one element of each input."""
    simple = row.outputs == ("out",) and not (row.listed or row.saves or row.view)
    by_layout = row.layout == "pointwise" or (row.broadcast and not row.layout)
    return (simple and by_layout) or row.name in UFUNCS or row.name in OWN


def declare() -> None:
    """Declares the forwards of all pointwise rows."""
    for row in ROWS.values():
        replaceable = "cuda" not in row.device_forwards or row.name in REPLACED
        n = len(row.inputs) + len(row.attributes)
        if not (is_pointwise(row) and replaceable and n <= 8):
            continue
        forward = with_out(row, fallback_of(row))
        twin = native.DevicePointwise(forward, find_row(row), n, 1, cupy.ndarray)
        twin.takes_out = True  # type: ignore[attr-defined]
        row.on("cuda")(twin)


def pullback_of(row: Row, name: str) -> Callable[..., Any]:
    """The gradient of an input on arrays: one kernel, if it is pointwise and can be traced."""
    pullback = row.pullbacks[name]
    needs = pullback.needs
    names = {x.name for x in row.inputs} | {a.name for a in row.attributes} | {"g", "out"}
    skip = int(needs[:1] == ("ops",))
    if not is_pointwise(row) or not set(needs[skip:]) <= names or not 1 <= len(needs) - skip <= 8:
        return pullback.function

    def function(f: Any, *operands: Any) -> Any:
        return pullback.function(*([f] if skip else []), *operands)

    return native.DevicePointwise(
        in_float32(pullback.function, skip), find_fused(f"{row.name}_gradient", function, OpsTrace),
        len(needs) - skip, skip, cupy.ndarray,
    )  # fmt: skip


declare()
