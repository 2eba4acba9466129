"""Explains why an op failed. It runs only after NumPy or a kernel raised, so right use pays
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ... import dtypes, native
from ...cuda_arrays import check_writable
from ...errors import ShmTensorError, is_explained
from ...ops.table.op_table import EMPTY, ROWS
from .foreign_operands import refuse_foreign
from .numpy_messages import translate
from .plan import is_public

AxisError = np.exceptions.AxisError
DIM = "dims?[0-2]?|axis"  # names of arguments that are dimensions


def explain_missing_attribute(name: str, error: AttributeError, arguments: dict[str, Any]) -> None:
    """Raises TypeError if the error is a missing tensor attribute of an argument that is not a
    tensor.
    """
    wrong = error.obj
    if isinstance(wrong, native.TensorBase) or hasattr(wrong, "__torch_function__"):
        return
    for argument, value in arguments.items():
        if any(x is wrong for x in nested_values(value)):
            part = f"argument {argument!r}" if value is wrong else f"the elements of {argument!r}"
            raise TypeError(
                f"{name}: {part} must be Tensor, not {type(wrong).__name__}: {wrong!r:.80}"
            ) from None


def nested_values(value: Any) -> Iterator[Any]:
    """The value and the elements of a list, a tuple or a string, also of nested ones."""
    yield value
    if isinstance(value, (list, tuple)):
        for x in value:
            yield from nested_values(x)
    elif isinstance(value, str):
        yield from value


def explain(op: Any, values: tuple[Any, ...], error: Exception) -> Any:
    """Raises the error that the caller sees after a kernel's error.

    Its text comes from the operands, not from NumPy's message. A kernel may not take integers of
    NumPy among the attributes: then this is the result of the call with ints.

    Args:
        values: the op's arguments in the row's order.
    """
    row, form = op.rule.row, op.form
    n = len(row.inputs)
    inputs, attributes = values[:n], values[n:]
    if has_numpy_integers(attributes) and not isinstance(error, (ShmTensorError, MemoryError)):
        names = [a.name for a in row.attributes]
        return op(*inputs, **dict(zip(names, map(as_int, attributes), strict=True)))
    name, shapes = op.event.lstrip("_"), shapes_of(inputs)
    name = PUBLIC_NAMES.get(name, name)
    if isinstance(error, (ShmTensorError, MemoryError)):
        raise error
    if isinstance(error, RuntimeError) or is_explained(error):
        rename(error, name, is_public(row))
        raise error
    refuse_foreign(name, attributes)
    if isinstance(error, (TypeError, ValueError)):
        check_attributes(name, row, attributes)
    if isinstance(error, AxisError) and error.ndim is not None:
        low, high = -max(error.ndim, 1), max(error.ndim, 1) - 1
        raise IndexError(
            f"{name}: Dimension out of range (expected to be in range of [{low}, {high}], but got "
            f"{error.axis}): {shapes}"
        ) from None
    if isinstance(error, IndexError):
        raise IndexError(described(name, row, error, shapes)) from None
    if form == "inplace" and not is_writable(inputs[0].array):
        raise RuntimeError(
            f"{name}: the memory cannot be written: {shapes}, it is expanded or read-only; "
            "write to a clone()"
        ) from None
    if row.diagnose is not None and (diagnosis := row.diagnose(inputs, attributes)) is not None:
        raise diagnosis from None
    if isinstance(error, ValueError):
        message = mismatch(row, form, inputs, shapes)
        text = f"{name}: {message}" if message else described(name, row, error, shapes)
        raise RuntimeError(text) from None
    if isinstance(error, ZeroDivisionError):
        raise RuntimeError(f"{name}: ZeroDivisionError: {error}: {shapes}") from None
    if isinstance(error, AttributeError):
        for a, value in zip(row.attributes, attributes):
            if value is error.obj:
                raise TypeError(
                    f"{name}: argument {a.name!r} cannot be a {type(value).__name__}: {value!r:.80}"
                ) from None
    if isinstance(error, (TypeError, np.exceptions.DTypePromotionError)):
        if is_dtype_error(op.kernel, inputs):
            raise NotImplementedError(
                f"{name}: not implemented for {dtypes_of(inputs)}: {shapes}"
            ) from None
        raise TypeError(described(name, row, error, shapes)) from None
    raise error


def is_numpy_integer(value: Any) -> bool:
    return isinstance(value, np.integer) and not isinstance(value, np.timedelta64)


def has_numpy_integers(values: Iterable[Any]) -> bool:
    return any(map(is_numpy_integer, values))


def as_int(value: Any) -> Any:
    """An int in place of NumPy's integer; any other value."""
    return int(value) if is_numpy_integer(value) else value


def rename(error: Exception, name: str, public: bool) -> None:
    """Puts the name of the op that the user calls where an error names a row that it uses."""
    text = str(error.args[0]) if error.args else ""
    where, separator, what = text.partition(": ")
    if public and where in ROWS and where != name:
        error.args = (f"{name}{separator}{what}", *error.args[1:])


# What the user calls, where a row has another name.
PUBLIC_NAMES = {"getitem": "indexing", "native_layer_norm": "layer_norm", "view_dtype": "view"}


def described(name: str, row: Any, error: Exception, shapes: str) -> str:
    """The text of an error: where, once, what is wrong, and the shapes if it does not have them."""
    message = translate(str(error)).removeprefix(f"{row.name}: ").removeprefix(f"{name}: ")
    return f"{name}: {message}" if shapes in message else f"{name}: {message}: {shapes}"


def check_attributes(name: str, row: Any, attributes: Sequence[Any]) -> None:
    """Raises TypeError for an argument that is of no class that its name or default allows."""
    for attribute, value in zip(row.attributes, attributes):
        if value is None and attribute.default is None:
            continue
        if re.fullmatch(DIM, attribute.name):
            numbers = value if isinstance(value, (tuple, list)) else (value,)
            wrong = next((x for x in numbers if not hasattr(x, "__index__")), EMPTY)
            if wrong is not EMPTY:
                raise TypeError(
                    f"{name}: argument {attribute.name!r} must be int, not "
                    f"{type(wrong).__name__}: {value!r:.80}"
                )
        elif isinstance(attribute.default, (int, float)) and isinstance(value, (str, type(None))):
            raise TypeError(
                f"{name}: argument {attribute.name!r} must be a number, not "
                f"{type(value).__name__}: {value!r:.80}"
            )


def is_writable(array: Any) -> bool:
    """Whether an array may be written."""
    if isinstance(array, np.ndarray):
        return array.flags.writeable
    try:
        check_writable(array)
    except ValueError:
        return False
    return True


def is_dtype_error(kernel: Any, inputs: Sequence[Any]) -> bool:
    """Whether a kernel's TypeError is about the operands' dtypes: a ufunc has no other arguments,
    and all kernels support float32 and float64.
    """
    floats = (dtypes.float32, dtypes.float64)
    return isinstance(kernel, np.ufunc) or any(
        t.array.dtype not in floats for t in tensors_of(inputs)
    )


def mismatch(row: Any, form: str, inputs: Sequence[Any], description: str) -> str:
    """What is wrong with the shapes; "" if unknown."""
    shapes = [t.array.shape for t in tensors_of(inputs)]
    if len(shapes) < 2:
        return ""
    if row.product:
        is_transposed = row.product == "x @ y.T"
        return (mismatched_linear if is_transposed else mismatched_product)(*shapes[:2])
    if not row.broadcast:
        return ""
    for a in shapes:
        for b in shapes:
            for i in range(1, 1 + min(len(a), len(b))):
                if a[-i] != b[-i] and 1 not in (a[-i], b[-i]):
                    return (
                        f"shapes cannot be broadcast: {a} and {b}, {a[-i]} is not {b[-i]} at "
                        f"dimension -{i} (The size of tensor a ({a[-i]}) must match the size of "
                        f"tensor b ({b[-i]}))"
                    )
    if form != "inplace":
        return ""
    return (
        f"the result does not fit into the written tensor: {description}, the output with shape "
        f"{list(shapes[0])} doesn't match the broadcast shape {list(np.broadcast_shapes(*shapes))}"
    )


def tensors_of(inputs: Sequence[Any]) -> list[Any]:
    return [i for i in inputs if isinstance(i, native.TensorBase)]


def mismatched_linear(x: tuple[int, ...], weight: tuple[int, ...]) -> str:
    if not x or not weight:
        return f"input and weight need at least one dimension: {x}, {weight}"
    difference = f", {x[-1]} is not {weight[-1]}" if x[-1] != weight[-1] else ""
    return f"sizes differ: input {x}, weight {weight}{difference}"


def mismatched_product(a: tuple[int, ...], b: tuple[int, ...]) -> str:
    if not a or not b:
        return f"both operands need at least one dimension: {a} @ {b}"
    left, right = a[-1], b[-2] if len(b) > 1 else b[0]
    if left != right:
        return f"inner sizes differ: {a} @ {b}, {left} is not {right}"
    return f"leading sizes cannot be broadcast: {a} @ {b}"


def shapes_of(inputs: Sequence[Any]) -> str:
    parts = []
    for i in inputs:
        if isinstance(i, native.TensorBase):
            parts.append(f"shape {i.array.shape}")
        elif isinstance(i, (list, tuple)):
            inner = [str(t.array.shape) for t in i if isinstance(t, native.TensorBase)]
            parts.append(f"shapes {', '.join(inner)}")
        elif i is not None:
            parts.append(repr(i))
    return " and ".join(parts)


def dtypes_of(inputs: Sequence[Any]) -> str:
    names = {str(t.array.dtype) for t in tensors_of(inputs)}
    return ", ".join(sorted(names)) or str(dtypes.get_default_dtype())
