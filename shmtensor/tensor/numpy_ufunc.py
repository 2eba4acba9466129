"""NumPy's ufuncs on tensors: a ufunc that is an op runs as that op, with its gradient."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import native
from ..autograd.dispatch.foreign_operands import library_of
from ..autograd.dispatch.op_function import table
from ..autograd.dispatch.promote_operands import as_canonical
from ..dtypes import complex128, float64, is_bfloat16, of_number, promote_types
from ..ops.table.op_table import ROWS

# NumPy's names that differ from ours; "" if our op of that name has another meaning.
NAMES = {
    "conjugate": "conj", "invert": "bitwise_not", "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift", "rint": "round", "degrees": "rad2deg",
    "radians": "deg2rad", "float_power": "float_power", "vecdot": "", "equal": "eq", "power": "pow",
}  # fmt: skip


# Ops that take only tensors, by all names; ldexp is a composite.
TENSORS_ONLY = {"ldexp"} | {
    n for row in ROWS.values() if row.tensors for n in (row.name, *row.aliases)
}


def array_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a ufunc on operands of which at least one is a tensor.

    A plain call of a ufunc that is in the op table runs that op, with PyTorch's rules for dtypes,
    and in the graph. Anything else (`out=`, `where=`, `np.add.reduce`, SciPy's ufuncs) runs on the
    arrays; as `numpy()`, that refuses tensors that require grad. The results are tensors.
    """
    name = NAMES.get(ufunc.__name__, ufunc.__name__)
    if method == "__call__" and not kwargs and name in vars(table):
        try:
            operands = [x.item() if is_number(x) else x for x in inputs]
            if name in TENSORS_ONLY:
                is_double = any(getattr(x, "dtype", 0) in (float64, complex128) for x in operands)
                operands = [number_as_tensor(x, is_double) for x in operands]
            return vars(table)[name](*cast_if_needed(name, operands))
        except TypeError:
            if not any(map(is_unsupported, inputs)):
                raise
    arrays = [x.numpy() if isinstance(x, native.TensorBase) else x for x in inputs]  # type: ignore[attr-defined]
    outs = kwargs.get("out", ())
    if outs:
        kwargs = {**kwargs, "out": tuple(as_array(o) for o in outs)}
    token = native.gate_open()
    try:
        result = getattr(ufunc, method)(*arrays, **kwargs)
    finally:
        native.gate_close(token)
    if outs:
        for o in outs:
            if isinstance(o, native.TensorBase):
                native.wrote(o)
        return outs if len(outs) > 1 else outs[0]
    return (
        tuple(as_tensor_or_array(m) for m in result)
        if isinstance(result, tuple)
        else as_tensor_or_array(result)
    )


def is_number(value: Any) -> bool:
    """Whether it is a NumPy scalar that a tensor can hold; no date, text or long double."""
    return isinstance(value, np.generic) and value.dtype.kind in "biufc" and not is_long(value)


def is_long(value: Any) -> bool:
    """Whether it is a long double, which is a dtype of NumPy alone."""
    return value.dtype.char in "gG"


def is_unsupported(value: Any) -> bool:
    """Whether NumPy's functions take it and no tensor can hold it: None, text, dates, long
    doubles, arrays of these, and other objects, but no array of another library."""
    if isinstance(value, (native.TensorBase, bool, float, complex)):
        return False
    if isinstance(value, (list, tuple)):
        return any(map(is_unsupported, value))
    if not isinstance(value, (np.ndarray, np.generic)):
        if library_of(value) is not None:
            return False
        value = np.asarray(value)
    return is_long(value) or (value.dtype.kind in "OSTUVmM" and not is_bfloat16(value.dtype))


def number_as_tensor(value: Any, is_double: bool) -> Any:
    """A Python number as a 0-d tensor, for ops that take only tensors."""
    if not isinstance(value, (bool, int, float, complex)):
        return value
    dtype = of_number(type(value))
    if is_double and dtype.kind in "fc":
        dtype = float64 if dtype.kind == "f" else complex128
    return native.wrap(np.asarray(value, dtype))


def cast_if_needed(name: str, operands: list[Any]) -> list[Any]:
    """Casts the operands of an op that does not promote; NumPy's functions do."""
    row = ROWS.get(name)
    if row is None or row.check_dtypes is None or name == "sub":
        return operands
    return cast_to_common_dtype(operands)


def cast_to_common_dtype(operands: Sequence[Any]) -> list[Any]:
    """Casts the tensors to their common dtype, whatever their numbers of dimensions."""
    dtypes = [x.array.dtype for x in operands if isinstance(x, native.TensorBase)]
    if all(d is dtypes[0] for d in dtypes):
        return list(operands)
    dtype = functools.reduce(promote_types, dtypes)
    return [
        table._to_copy(x, dtype)
        if isinstance(x, native.TensorBase) and x.array.dtype is not dtype
        else x
        for x in operands
    ]


def as_array(out: Any) -> Any:
    return out.numpy() if isinstance(out, native.TensorBase) else out  # type: ignore[attr-defined]


def as_tensor_or_array(array: Any) -> Any:
    """An array as a tensor; an array that no tensor can hold stays."""
    try:
        return native.wrap(as_canonical(array))
    except TypeError:
        return array
