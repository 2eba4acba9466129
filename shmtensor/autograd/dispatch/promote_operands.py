"""Operands that `native.OpFunction` does not take as they are: numbers in front, other dtypes,
NumPy's arrays and numbers.

Whatever is given is turned into tensors of PyTorch's common dtype, and the op is called again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ... import dtypes, native
from ...ops.table.op_definition import Row
from ...ops.table.python_scalars import check_64_bits
from ..grad_mode import recording

__all__ = ["as_operand", "common_dtype", "common_of_pair", "usual"]

ASTYPE = np.ndarray.astype
NUMBERS = (bool, int, float, complex)


class Unknown(Exception):
    """An operand that no op takes."""


def as_canonical(array: Any) -> Any:
    """The array as a plain ndarray with the canonical dtype instance; a view of the same memory.

    Note [Canonical dtypes]: an unpickled array has another instance of the same dtype, and the fast
    path's test is `is`. So arrays are re-viewed wherever they enter. Another byte order is
    converted: a copy.
    """
    array = np.asarray(array)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    dtype = dtypes.SPELLINGS.get(array.dtype)
    if dtype is None and dtypes.is_bfloat16(array.dtype):  # ml_dtypes'
        return array.view(np.uint16).view(dtypes.bfloat16)
    if dtype is None:
        raise TypeError(
            f"tensor: no tensor can hold this array: dtype {array.dtype}, shape {array.shape}"
        )
    if array.dtype is dtype:
        return array
    return array.view(dtype)


def as_operand(value: Any) -> Any:
    """A Tensor or a Python number.

    Raises:
        Unknown: neither, and not convertible.
    """
    if isinstance(value, native.TensorBase) or value.__class__ in NUMBERS:
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        try:
            return native.wrap(as_canonical(value))
        except TypeError:
            raise Unknown from None
    if isinstance(value, NUMBERS):  # a subclass: IntEnum
        number: Any = value
        return next(c for c in NUMBERS if isinstance(value, c))(number)
    raise Unknown


def common_dtype(operands: Sequence[Any]) -> dtypes.Dtype:
    """PyTorch's result type of tensors and Python numbers.

    Tensors with dimensions decide; 0-d tensors, and then numbers, count only if their category
    (bool, integer, float, complex) is higher.
    """
    groups: list[dtypes.Dtype | None] = [None, None, None]
    for x in operands:
        if isinstance(x, NUMBERS):
            i, d = 2, dtypes.of_number(type(x))
        else:
            i, d = int(x.array.ndim == 0), x.array.dtype
        old = groups[i]
        groups[i] = d if old is None or old is d else dtypes.promote_types(old, d)
    result, *weaker = [d for d in groups if d is not None]
    for d in weaker:
        if dtypes.category(d) > dtypes.category(result):
            if result.kind == "f":  # complex, of the same precision
                d = dtypes.complex128 if result is dtypes.float64 else dtypes.complex64
            result = dtypes.promote_types(result, d)
    return result


def usual(rule: Any, form: str, inputs: tuple[Any, ...], attributes: tuple[Any, ...]) -> Any:
    """The op on operands of one dtype that are tensors, or numbers where a number fits.

    Raises:
        TypeError: an operand is of a class that no op takes, or not a tensor where one is needed.
    """
    row: Row = rule.row
    if row.tensors and form not in ("operator", "reflected"):
        for x, value in zip(row.inputs, inputs):
            if x.name in row.tensors and isinstance(value, NUMBERS):
                raise wrong_operand(row, inputs)
    if row.check_dtypes is not None:
        row.check_dtypes(*inputs)
    if form == "inplace" and row.promote is not None:
        written = elsewhere(rule, inputs, attributes)
        if written is not None:
            return written
    try:
        made = normalised(rule, inputs)
    except Unknown:
        if form in ("operator", "reflected"):
            return NotImplemented
        raise wrong_operand(row, inputs) from None
    function = rule.inplace if form == "inplace" else rule.public
    return function.call_bound((*made, *attributes))


def elsewhere(rule: Any, inputs: tuple[Any, ...], attributes: tuple[Any, ...]) -> Any:
    """An in-place op whose common dtype is not the written tensor's: computed in the common one,
    then copied in; None if it is.
    """
    row: Row = rule.row
    target, *rest = inputs
    promoted = [v for x, v in zip(row.inputs, inputs) if x.name in row.promoted]
    if not all(isinstance(v, (native.TensorBase, *NUMBERS)) for v in promoted):
        return None
    dtype = common_dtype(promoted)
    if row.promote == "float" and dtype.kind not in "fc":
        dtype = dtypes.get_default_dtype()
    if dtype is target.array.dtype:
        return None
    if target.requires_grad and recording.get():
        target = rule.ops.clone(target)  # what backward needs must outlive the write
    made = rule.public.call_bound((target, *rest, *attributes))
    if not dtypes.can_cast(made.array.dtype, target.array.dtype):
        raise RuntimeError(
            f"{row.label}_: result type {made.array.dtype} can't be cast to the desired output "
            f"type {target.array.dtype}: use the out-of-place {row.label}, or convert the tensor "
            "first"
        )
    return rule.ops._overwrite_(inputs[0], made)


def common_of_pair(promote: str, x: Any, y: Any) -> dtypes.Dtype:
    """The dtype that an op computes in with two operands; Note [A pair's dtype] in
    native/dispatch/op_operands.cc.
    """
    dtype = common_dtype((x, y))
    if promote == "float" and dtype.kind not in "fc":
        return dtypes.get_default_dtype()
    return dtype


def wrong_operand(row: Row, inputs: tuple[Any, ...]) -> TypeError:
    shown = ", ".join(
        f"{x.public} is a {type(value).__name__}" for x, value in zip(row.inputs, inputs)
    )
    wanted = "tensors or numbers" if row.broadcast else "tensors"
    where = ""
    if row.tensors:
        wanted = "tensors"
        where = f" ({', '.join(x.public for x in row.inputs if x.name in row.tensors)})"
    return TypeError(f"{row.label}: the operands{where} must be {wanted}: {shown}")


def normalised(rule: Any, inputs: tuple[Any, ...]) -> list[Any]:
    row: Row = rule.row
    made: list[Any] = []
    for x, value in zip(row.inputs, inputs):
        if value is None and x.optional:
            made.append(None)
        elif x.listed:
            if isinstance(value, native.TensorBase):
                value = iter(value)  # type: ignore[call-overload]
            if not isinstance(value, Iterable):
                raise Unknown
            made.append([tensor_only(row, as_operand(v), x.name) for v in value])
            if not made[-1]:
                kind = ValueError if row.name == "cat" else RuntimeError  # as PyTorch has it
                raise kind(f"{row.label}: expected a non-empty list of tensors: {value!r}")
        else:
            operand = as_operand(value)
            number_fits = row.promote is not None and row.broadcast and x.name in row.promoted
            made.append(operand if number_fits else tensor_only(row, operand, x.name))
    if row.promote is None:
        return made
    flat: list[Any] = []
    for x, value in zip(row.inputs, made):
        if x.name in row.promoted and value is not None:
            flat += value if x.listed else [value]
    if all(isinstance(v, NUMBERS) for v in flat):
        raise Unknown
    dtype = common_dtype(flat)
    if row.promote == "float" and dtype.kind not in "fc":
        dtype = dtypes.get_default_dtype()
    for i, (x, value) in enumerate(zip(row.inputs, made)):
        if x.name not in row.promoted or value is None:
            continue
        first = i == first_promoted(row)
        made[i] = (
            [cast(rule, v, dtype, True) for v in value]
            if x.listed
            else cast(rule, value, dtype, first)
        )
    return made


def first_promoted(row: Row) -> int:
    return next(i for i, x in enumerate(row.inputs) if x.name in row.promoted)


def tensor_only(row: Row, value: Any, name: str) -> Any:
    """A number is no tensor here; except for a bare bool or number where a broadcast op takes a
    condition.
    """
    if isinstance(value, NUMBERS):
        if not row.broadcast:
            raise Unknown
        return native.wrap(np.asarray(value, dtypes.of_number(type(value))))
    return value


def cast(rule: Any, value: Any, dtype: dtypes.Dtype, first: bool) -> Any:
    """The operand in the common dtype. A number stays one where the fast path takes it."""
    if isinstance(value, NUMBERS):
        kind = dtype.kind
        usual = (value.__class__ is float and kind in "fc") or (
            value.__class__ is int and kind in "fc"
        )
        if usual and not first:
            return value
        if kind in "iu" and isinstance(value, int):
            return native.wrap(wrapped(value, dtype))
        return native.wrap(np.asarray(value, dtype))
    if value.array.dtype is dtype:
        return value
    if value.node is None and value.base is None:
        return native.compute(ASTYPE, value.array, dtype)
    return rule.ops._to_copy(value, dtype)


def wrapped(value: int, dtype: dtypes.Dtype) -> Any:
    """A Python integer as that dtype, modulo its size, as PyTorch stores it."""
    bits = 8 * dtype.itemsize
    check_64_bits(value)
    value &= (1 << bits) - 1
    if dtype.kind == "i" and value >> (bits - 1):
        value -= 1 << bits
    return np.asarray(value, dtype)
