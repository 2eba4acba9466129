"""The pointwise rows on CUDA, one kernel each, and in place without a copy.

A row has no text of its own here: its forward is traced (`fused.py`), or, where it is one ufunc, is
CuPy's ufunc with its values and dtypes (`pointwise.py`). What neither takes is computed by the
row's forward on CuPy's arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from ... import native
from ...cuda_arrays import check_bfloat16, check_writable, device_of
from ...dtypes import bfloat16
from ..loss.pointwise_loss import POINTWISE_LOSSES, loss_weight
from ..table.op_table import ROWS, Row
from .fused import Fused, NotTraceable, OpsTrace, Placeholder, fused, trace
from .pointwise import Routine, cuda_ufunc, routine_of_ufunc

COMPLEX = {np.dtype("F"), np.dtype("D"), complex}
FLOAT16, FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)
NUMBERS = (int, float)


def loss_value(f: Any, x: Any, y: Any, name: str, a: float, b: float) -> Any:
    return POINTWISE_LOSSES[name].value(f, x, y, a, b)


def loss_backward(
    f: Any, x: Any, left: Any, right: Any, name: str, is_right: bool, weight: float, a: Any, b: Any
) -> Any:
    derivative = POINTWISE_LOSSES[name].derivatives[is_right](f, left, right, a, b)
    return x * weight * derivative


# ---- what a row computes, by its own forward


class Operand(Placeholder, np.lib.mixins.NDArrayOperatorsMixin):
    """An operand of a forward, or what one of NumPy's ufuncs makes of operands."""

    def __init__(self, dtype: Any = None, ufunc: Any = None, operands: Any = ()) -> None:
        if dtype is not None:
            self.dtype = dtype
        self.ufunc, self.operands = ufunc, operands

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **keywords: Any) -> Any:
        if method != "__call__" or keywords or self.ufunc is not None:
            raise NotTraceable("several ufuncs")
        return Operand(None, ufunc, operands)


def own_forward(row: Row) -> Callable[..., Any]:
    """`(f, *operands)`: the row's forward, with all attributes by position."""
    names = [a.name for a in row.attributes if a.keyword_only]
    n = len(row.inputs) + len(row.attributes) - len(names)
    if not names:
        return row.forward
    return lambda f, *operands: row.forward(f, *operands[:n], **dict(zip(names, operands[n:])))


def ufunc_of(row: Row, kinds: tuple[Any, ...]) -> Any:
    """The ufunc of NumPy that the row's forward is for these operands; None: it is not one."""
    if row.attributes or row.cuda_fallback is not None:
        return None
    operands = [Operand(kind if isinstance(kind, np.dtype) else None) for kind in kinds]
    try:
        result = row.forward(np, *operands)
    except NotTraceable:
        return None
    is_one = isinstance(result, Operand) and len(operands) == len(result.operands)
    if is_one and all(x is y for x, y in zip(operands, result.operands)):
        return result.ufunc
    return None


def empty_operand(kind: Any) -> Any:
    """An operand of a kind, without elements."""
    if isinstance(kind, np.dtype):
        return np.empty(0, kind)
    return kind(0) if isinstance(kind, type) else kind


def routine_of(row: Row, kinds: tuple[Any, ...]) -> Routine:
    """What a kernel of the row computes: CuPy's ufunc of the same name, with its values and dtypes,
    where the forward is one, else the forward, traced.

    Raises:
        NotTraceable: neither takes the operands. What the CPU's kernel raises for complex numbers.
    """
    if row.numpy is not None and not COMPLEX.isdisjoint(kinds):  # CuPy orders them: see the CPU's
        row.numpy(*map(empty_operand, kinds))
    ufunc = ufunc_of(row, kinds)
    in_float32 = FLOAT16 in kinds and not set(NUMBERS).isdisjoint(kinds)
    if ufunc is not None and (not in_float32 or row.comparison or row.selects):
        routine = routine_of_ufunc(getattr(cupy, ufunc.__name__), kinds)
        if routine is None:
            raise NotTraceable(f"not one expression: {ufunc.__name__}")
        return routine
    return trace(row.name, own_forward(row), kinds)


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


# ---- declaration


def has_half_and_number(operands: tuple[Any, ...]) -> bool:
    """Whether numbers are among the operands, and their floating-point arrays are float16."""
    dtypes = [x.dtype for x in operands if hasattr(x, "dtype")]
    return (
        FLOAT16 in dtypes
        and all(dtype.kind == "b" or dtype == FLOAT16 for dtype in dtypes)
        and any(x.__class__ in NUMBERS for x in operands)
    )


def in_float32(function: Callable[..., Any], skip: int = 1) -> Callable[..., Any]:
    """A function that computes float16 with numbers in float32, and rounds the result once: for
    what cannot be traced.

    Args:
        skip: the first arguments that are no operands.
    """

    def run(*arguments: Any) -> Any:
        operands = arguments[skip:]
        if not has_half_and_number(operands):
            return function(*arguments)
        wide = (x.astype(FLOAT32) if getattr(x, "dtype", 0) == FLOAT16 else x for x in operands)
        out = function(*arguments[:skip], *wide)
        return out.astype(FLOAT16) if getattr(out, "dtype", None) == FLOAT32 else out

    return run


def is_pointwise(row: Row) -> bool:
    """Whether each element of the row's one result depends on one element of each input."""
    simple = row.outputs == ("out",) and not (row.listed or row.saves or row.view)
    by_layout = row.layout == "pointwise" or (row.broadcast and not row.layout)
    return simple and (by_layout or isinstance(row.numpy, np.ufunc))


def pointwise_forward(row: Row) -> Any:
    """The forward of a row for CUDA, which may have one more argument: the array for the result."""
    n = len(row.inputs) + len(row.attributes)
    plain = row.cuda_fallback or own_forward(row)
    wide = in_float32(plain)

    def compute(xp: Any, *operands: Any) -> Any:
        is_wide = has_half_and_number(operands) and not (row.comparison or row.selects)
        return (wide if is_wide else plain)(xp, *operands)

    kernels = Fused(row.name, functools.partial(routine_of, row), compute, n, 1)

    def fallback(xp: Any, *operands: Any, **keywords: Any) -> Any:
        rest = row.attributes[len(operands) - len(row.inputs) :] if len(operands) < n else ()
        values = [keywords.get(a.name, a.default) for a in rest]
        result = kernels.fallback(xp, *operands[:n], *values)
        return write_array(result, operands[n]) if len(operands) > n else result

    forward = native.DevicePointwise(fallback, kernels.find, n, 1, cupy.ndarray)
    forward.takes_out = True  # type: ignore[attr-defined]
    return forward


def declare() -> None:
    """Declares the forwards of all pointwise rows."""
    for row in ROWS.values():
        is_free = "cuda" not in row.device_forwards
        if is_pointwise(row) and is_free and len(row.inputs) + len(row.attributes) <= 8:
            row.on("cuda")(pointwise_forward(row))


def pullback_of(row: Row, name: str) -> Any:
    """The gradient of an input on arrays: one kernel, if it is pointwise and can be traced."""
    pullback = row.pullbacks[name]
    needs = pullback.needs
    names = {x.name for x in row.inputs} | {a.name for a in row.attributes} | {"g", "out"}
    skip = int(needs[:1] == ("ops",))
    if not is_pointwise(row) or not set(needs[skip:]) <= names or not 1 <= len(needs) - skip <= 8:
        return pullback.function

    def function(f: Any, *operands: Any) -> Any:
        return pullback.function(*([f] if skip else []), *operands)

    plain = in_float32(pullback.function, skip)
    return fused(f"{row.name}_{name}_gradient", function, len(needs) - skip, plain, skip, OpsTrace)


declare()
