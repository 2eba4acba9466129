"""NumPy's functions on tensors: a ufunc that is an op runs as that op, with its gradient."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import native
from ..autograd.dispatch.op_function import table
from ..autograd.dispatch.promote_operands import as_canonical
from ..dtypes import complex128, float64, of_number, promote_types
from ..ops.table.op_definition import ROWS

__all__ = ["array_ufunc", "in_common"]

# Where NumPy's name is another one than ours, or ours means something else.
NAMES = {
    "conjugate": "conj", "invert": "bitwise_not", "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift", "rint": "round", "degrees": "rad2deg",
    "radians": "deg2rad", "float_power": "float_power", "vecdot": "", "equal": "eq", "power": "pow",
}  # fmt: skip


# What takes tensors alone, by all names; a composition among them.
NO_NUMBERS = {"ldexp"} | {
    n for row in ROWS.values() if row.tensors for n in (row.name, *row.aliases)
}


def array_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The result of a ufunc on operands of which at least one is a tensor.

    A plain call of a ufunc that is in the op table is that op, with PyTorch's rules for dtypes, and
    in the graph. Anything else (`out=`, `where=`, `np.add.reduce`, SciPy's ufuncs) runs on the
    arrays, which a tensor that requires grad refuses as `numpy()` does; results are tensors.
    """
    name = NAMES.get(ufunc.__name__, ufunc.__name__)
    if method == "__call__" and not named and name in vars(table):
        operands = [x.item() if isinstance(x, np.generic) else x for x in inputs]
        if name in NO_NUMBERS:
            precise = any(getattr(x, "dtype", None) in (float64, complex128) for x in operands)
            operands = [as_tensor(x, precise) for x in operands]
        return vars(table)[name](*common(name, operands))
    arrays = [x.numpy() if isinstance(x, native.TensorBase) else x for x in inputs]  # type: ignore[attr-defined]
    outs = named.get("out", ())
    if outs:
        named = {**named, "out": tuple(plain(o) for o in outs)}
    token = native.gate_open()
    try:
        made = getattr(ufunc, method)(*arrays, **named)
    finally:
        native.gate_close(token)
    if outs:
        for o in outs:
            if isinstance(o, native.TensorBase):
                native.wrote(o)
        return outs if len(outs) > 1 else outs[0]
    return tuple(wrapped(m) for m in made) if isinstance(made, tuple) else wrapped(made)


def as_tensor(value: Any, precise: bool) -> Any:
    """A Python number as a 0-d tensor: NumPy's functions take numbers where some ops do not."""
    if not isinstance(value, (bool, int, float, complex)):
        return value
    dtype = of_number(type(value))
    if precise and dtype.kind in "fc":
        dtype = float64 if dtype.kind == "f" else complex128
    return native.wrap(np.asarray(value, dtype))


def common(name: str, operands: list[Any]) -> list[Any]:
    """Tensors of one dtype for an op that mixes none: NumPy's functions do."""
    row = ROWS.get(name)
    if row is None or row.check_dtypes is None or name == "sub":
        return operands
    return in_common(operands)


def in_common(operands: Sequence[Any]) -> list[Any]:
    """The same, tensors cast to their common dtype, however many dimensions they have."""
    found = [x.array.dtype for x in operands if isinstance(x, native.TensorBase)]
    if all(d is found[0] for d in found):
        return list(operands)
    dtype = functools.reduce(promote_types, found)
    return [
        table._to_copy(x, dtype)
        if isinstance(x, native.TensorBase) and x.array.dtype is not dtype
        else x
        for x in operands
    ]


def plain(out: Any) -> Any:
    return out.numpy() if isinstance(out, native.TensorBase) else out  # type: ignore[attr-defined]


def wrapped(made: Any) -> Any:
    """An array as a tensor; what no tensor can hold stays an array."""
    try:
        return native.wrap(as_canonical(made))
    except TypeError:
        return made
