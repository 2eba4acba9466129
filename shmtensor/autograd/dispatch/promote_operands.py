"""Operands that the fast path of `native.OpFunction` does not take: numbers first, other dtypes,
NumPy's arrays and numbers.

They are converted to tensors of PyTorch's common dtype, and the op is called again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from ... import dtypes, native
from ...ops.table.op_table import Row
from ...ops.table.python_scalars import check_64_bits
from ...ops.table.sparse_gradient import SparseGradient
from ..grad_mode import recording
from .foreign_operands import refuse_foreign

ASTYPE = np.ndarray.astype
NUMBERS = (bool, int, float, complex)


class UnsupportedOperand(Exception):
    """An operand that no op takes."""


def as_canonical(array: Any) -> Any:
    """The array as a plain ndarray with the canonical dtype instance; a view of the same memory.

    Note [Canonical dtypes]: an unpickled array has another instance of the same dtype, but the fast
    path compares dtypes by `is`. So every array is viewed with the canonical instance when it
    becomes a tensor. Another byte order is converted by a copy.
    """
    if native.is_array(array) and not isinstance(array, np.ndarray):  # a device's
        dtype = dtypes.SPELLINGS.get(array.dtype)
        if dtype is None:
            refuse_dtype(array)
        return array if array.dtype is dtype else array.view(dtype)
    array = np.asarray(array)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    dtype = dtypes.SPELLINGS.get(array.dtype)
    if dtype is None and dtypes.is_bfloat16(array.dtype):  # of ml_dtypes
        return array.view(np.uint16).view(dtypes.bfloat16)
    if dtype is None:
        refuse_dtype(array)
    if array.dtype is dtype:
        return array
    return array.view(dtype)


def refuse_dtype(array: Any) -> NoReturn:
    raise TypeError(
        f"tensor: no tensor can hold this array: dtype {array.dtype}, shape {array.shape}"
    )


def as_operand(value: Any) -> Any:
    """A Tensor or a Python number."""
    if isinstance(value, native.TensorBase) or value.__class__ in NUMBERS:
        return value
    if isinstance(value, np.generic) and value.dtype.kind not in "mM":  # dates have no number
        if value.dtype.char in "gG":  # a long double is its own item
            return float(value) if value.dtype.kind == "f" else complex(value)
        return value.item()
    if native.is_array(value):
        try:
            return native.wrap(as_canonical(value))
        except TypeError:
            raise UnsupportedOperand from None
    if isinstance(value, NUMBERS):  # a subclass: IntEnum
        number: Any = value
        return next(c for c in NUMBERS if isinstance(value, c))(number)
    raise UnsupportedOperand


def common_dtype(operands: Sequence[Any]) -> dtypes.Dtype:
    """PyTorch's result type of tensors and Python numbers.

    Tensors with dimensions decide; 0-d tensors, and then numbers, only count if their category
    (bool, integer, float, complex) is higher.
    """
    groups: list[dtypes.Dtype | None] = [None, None, None]
    for x in operands:
        if isinstance(x, NUMBERS):
            i, d = 2, dtypes.of_number(type(x))
        else:
            i, d = int(x.array.ndim == 0), x.array.dtype
        other = groups[i]
        groups[i] = d if other is None or other is d else dtypes.promote_types(other, d)
    result, *weaker = [d for d in groups if d is not None]
    for d in weaker:
        if dtypes.category(d) > dtypes.category(result):
            if result.kind == "f":  # complex, of the same precision
                d = dtypes.complex128 if result is dtypes.float64 else dtypes.complex64
            result = dtypes.promote_types(result, d)
    return result


def call_promoted(
    rule: Any, form: str, inputs: tuple[Any, ...], attributes: tuple[Any, ...]
) -> Any:
    """Calls the op with operands converted to tensors of one dtype, or numbers where allowed.

    Raises:
        TypeError: an operand is of a class that no op takes, of another library, or not a tensor
            where one is needed.
    """
    row: Row = rule.row
    refuse_foreign(row.label, inputs)
    is_single = (
        bool(row.inputs) and row.inputs[0].listed and isinstance(inputs[0], native.TensorBase)
    )
    if is_single and any(isinstance(x, native.TensorBase) for x in attributes):
        raise TypeError(f"{row.label}: the tensors must be in one list: {row.label}([x, y])")
    if row.tensors and form not in ("operator", "reflected"):
        for x, value in zip(row.inputs, inputs):
            if x.name in row.tensors and isinstance(value, NUMBERS):
                raise wrong_operand(row, inputs)
    if row.check_dtypes is not None:
        row.check_dtypes(*inputs)
    if form == "inplace" and row.promote is not None:
        result = inplace_by_copy(rule, inputs, attributes)
        if result is not None:
            return result
    try:
        operands = convert_operands(rule, inputs)
    except UnsupportedOperand:
        if form in ("operator", "reflected"):
            return NotImplemented
        if "sparse" in row.device_forwards and any(isinstance(x, SparseGradient) for x in inputs):
            return call_sparse(rule, form, inputs, attributes)
        raise wrong_operand(row, inputs) from None
    function = rule.inplace if form == "inplace" else rule.public
    return function.call_bound((*operands, *attributes))


def call_sparse(rule: Any, form: str, inputs: tuple[Any, ...], attributes: tuple[Any, ...]) -> Any:
    """Calls an op with sparse operands. In place, a dense tensor gets the result's elements."""
    row: Row = rule.row
    result = row.forward_on("sparse")(*inputs, *attributes)
    if form != "inplace":
        return result
    if not isinstance(inputs[0], native.TensorBase):
        raise wrong_operand(row, inputs)
    result = result.to_dense()
    check_castable(row.label, result, inputs[0])
    return rule.ops._overwrite_(inputs[0], result)


def check_castable(name: str, result: Any, target: Any) -> None:
    """Raises RuntimeError if the target of an in-place op cannot hold the result's dtype."""
    if not dtypes.can_cast(result.array.dtype, target.array.dtype):
        raise RuntimeError(
            f"{name}_: result type {result.array.dtype} can't be cast to the desired output type "
            f"{target.array.dtype}: use the out-of-place {name}, or convert the tensor first"
        )


def inplace_by_copy(rule: Any, inputs: tuple[Any, ...], attributes: tuple[Any, ...]) -> Any:
    """An in-place op whose common dtype differs from the written tensor's: computes in the common
    dtype, then copies. None if the dtypes are equal.
    """
    row: Row = rule.row
    target, *operands = inputs
    promoted = [v for x, v in zip(row.inputs, inputs) if x.name in row.promoted]
    if not all(isinstance(v, (native.TensorBase, *NUMBERS)) for v in promoted):
        return None
    dtype = common_dtype(promoted)
    if row.promote == "float" and dtype.kind not in "fc":
        dtype = dtypes.get_default_dtype()
    if dtype is target.array.dtype:
        return None
    if target.requires_grad and recording.get():
        target = rule.ops.clone(target)  # backward needs the old value
    result = rule.public.call_bound((target, *operands, *attributes))
    check_castable(row.label, result, target)
    return rule.ops._overwrite_(inputs[0], result)


def common_of_two(promote: str, x: Any, y: Any) -> dtypes.Dtype:
    """The dtype that an op with two operands computes in: Note [Common dtype of two operands] in
    native/dispatch/promote_operands.cc.
    """
    dtype = common_dtype((x, y))
    if promote == "float" and dtype.kind not in "fc":
        return dtypes.get_default_dtype()
    return dtype


def wrong_operand(row: Row, inputs: tuple[Any, ...]) -> TypeError:
    description = ", ".join(
        part for x, value in zip(row.inputs, inputs) for part in classes_of(x.public, value)
    )
    expected = "tensors or numbers" if row.broadcast else "tensors"
    where = ""
    if row.tensors:
        expected = "tensors"
        where = f" ({', '.join(x.public for x in row.inputs if x.name in row.tensors)})"
    return TypeError(f"{row.label}: the operands{where} must be {expected}: {description}")


def classes_of(name: str, value: Any) -> list[str]:
    """Of which class an operand is, or the first element of a list that is no tensor."""
    if isinstance(value, (list, tuple)):
        for i, x in enumerate(value):
            if isinstance(value[0], native.TensorBase) and not isinstance(x, native.TensorBase):
                return [f"{name}[{i}] is a {type(x).__name__}"]
    return [f"{name} is a {type(value).__name__}"]


def convert_operands(rule: Any, inputs: tuple[Any, ...]) -> list[Any]:
    row: Row = rule.row
    operands: list[Any] = []
    for x, value in zip(row.inputs, inputs):
        if value is None and x.optional:
            operands.append(None)
        elif x.listed:
            if isinstance(value, native.TensorBase):
                value = iter(value)  # type: ignore[call-overload]
            if not isinstance(value, Iterable):
                raise UnsupportedOperand
            operands.append([require_tensor(row, as_operand(v), x.name) for v in value])
            if not operands[-1]:
                raise row.empty_error(
                    f"{row.label}: expected a non-empty list of tensors: {value!r}"
                )
        else:
            operand = as_operand(value)
            number_fits = row.promote is not None and row.broadcast and x.name in row.promoted
            operands.append(operand if number_fits else require_tensor(row, operand, x.name))
    if row.promote is None:
        return operands
    flat: list[Any] = []
    for x, value in zip(row.inputs, operands):
        if x.name in row.promoted and value is not None:
            flat += value if x.listed else [value]
    if not row.numbers and all(isinstance(v, NUMBERS) for v in flat):
        raise UnsupportedOperand
    dtype = common_dtype(flat)
    if row.promote == "float" and dtype.kind not in "fc":
        dtype = dtypes.get_default_dtype()
    for i, (x, value) in enumerate(zip(row.inputs, operands)):
        if x.name not in row.promoted or value is None:
            continue
        first = i == first_promoted(row)
        operands[i] = (
            [cast(rule, v, dtype, True) for v in value]
            if x.listed
            else cast(rule, value, dtype, first)
        )
    return operands


def first_promoted(row: Row) -> int:
    return next(i for i, x in enumerate(row.inputs) if x.name in row.promoted)


def require_tensor(row: Row, value: Any, name: str) -> Any:
    """Refuses a number; a broadcast op converts it, for example as a condition."""
    if isinstance(value, NUMBERS):
        if not row.broadcast:
            raise UnsupportedOperand
        return native.wrap(np.asarray(value, dtypes.of_number(type(value))))
    return value


def cast(rule: Any, value: Any, dtype: dtypes.Dtype, first: bool) -> Any:
    """The operand in the common dtype. A number stays if the fast path takes it."""
    if isinstance(value, NUMBERS):
        kind = dtype.kind
        stays_number = (value.__class__ is float and kind in "fc") or (
            value.__class__ is int and kind in "fc"
        )
        if stays_number and not first:
            return value
        if kind in "iu" and isinstance(value, int):
            return native.wrap(wrap_integer(value, dtype))
        return native.wrap(np.asarray(value, dtype))
    if value.array.dtype is dtype:
        return value
    if value.node is None and value.base is None and isinstance(value.array, np.ndarray):
        return native.compute(ASTYPE, value.array, dtype)
    return rule.ops._to_copy(value, dtype)


def wrap_integer(value: int, dtype: dtypes.Dtype) -> Any:
    """A Python integer in that dtype, modulo its range, as in PyTorch."""
    bits = 8 * dtype.itemsize
    check_64_bits(value)
    value &= (1 << bits) - 1
    if dtype.kind == "i" and value >> (bits - 1):
        value -= 1 << bits
    return np.asarray(value, dtype)
