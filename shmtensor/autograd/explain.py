"""Why an op failed, said well: looked into only after NumPy or a kernel raised, so right use pays
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import dtypes, native
from ..errors import ShmTensorError
from .plan import FORMS

__all__ = ["failed", "mistaken"]

AxisError = np.exceptions.AxisError


def mistaken(name: str, error: AttributeError, arguments: dict[str, Any]) -> None:
    """Raises TypeError if an argument was asked for what only a tensor has, and is none."""
    wrong = error.obj
    if isinstance(wrong, native.TensorBase) or hasattr(wrong, "__torch_function__"):
        return
    for argument, value in arguments.items():
        if any(x is wrong for x in within(value)):
            part = f"argument {argument!r}" if value is wrong else f"the elements of {argument!r}"
            raise TypeError(
                f"{name}: {part} must be Tensor, not {type(wrong).__name__}: {wrong!r:.80}"
            ) from None


def within(value: Any) -> Iterator[Any]:
    """The value, and if it is a list, what is in it."""
    yield value
    if isinstance(value, (list, tuple)):
        for x in value:
            yield from within(x)
    elif isinstance(value, str):
        yield from value


def failed(op: Any, values: tuple[Any, ...], error: Exception) -> Any:
    """Raises what the caller should see of a kernel's error; or, for a number too large for an
    integer dtype, tries again.

    Args:
        values: the op's arguments in the row's order.

    Raises:
        RuntimeError: shapes that do not match, memory that cannot be written.
        IndexError: a dimension or index out of range.
    """
    rule = op.rule
    row, variant = rule.row, FORMS[op.form]
    n = len(row.inputs)
    inputs, attributes = values[:n], values[n:]
    if isinstance(error, OverflowError) and any(i.__class__ is int for i in inputs):
        first = next(i.array.dtype for i in inputs if isinstance(i, native.TensorBase))
        if first.kind in "iu":
            from .operands import wrapped

            again = [native.wrap(wrapped(i, first)) if i.__class__ is int else i for i in inputs]
            function = rule.inplace if variant == "inplace" else rule.public
            return function.call_bound((*again, *attributes))
    if isinstance(error, (ShmTensorError, MemoryError)):
        raise error
    name = row.name + ("_" if variant == "inplace" else "")
    shown = shapes_of(inputs)
    told = f"{name}: "
    message = str(error)
    if SAID.match(message) and "gufunc" not in message:  # the kernel has said it already
        if type(error) is ValueError and row.numpy is not None and row.name not in CLASSES:
            raise RuntimeError(message) from None  # as PyTorch has it for shapes
        raise error
    if isinstance(error, AxisError):
        ndim = error.ndim
        if ndim is None:
            raise IndexError(f"{told}{message}: {shown}") from None
        low, high = -max(ndim, 1), max(ndim, 1) - 1
        raise IndexError(
            f"{told}Dimension out of range (expected to be in range of [{low}, {high}], but got "
            f"{error.axis}): {shown}"
        ) from None
    if isinstance(error, IndexError):
        raise IndexError(f"{told}{message}: {shown}") from None
    if isinstance(error, ValueError):
        if "read-only" in message:
            raise RuntimeError(
                f"{told}the memory cannot be written: {shown}, it is stretched (expand) or came "
                f"read-only; "
                "write to a clone()"
            ) from None
        if "slice step" in message:
            raise ValueError(f"{told}{message}: {shown}") from None
        raise RuntimeError(told + reason(row, variant, message, inputs, shown)) from None
    if isinstance(error, TypeError) and NO_LOOP.search(message):
        raise NotImplementedError(
            f"{told}not implemented for {dtypes_of(inputs)}: {shown}"
        ) from None
    if isinstance(error, TypeError) and "numpy boolean" in message:
        raise RuntimeError(f"{told}not implemented for {dtypes_of(inputs)}: {shown}") from None
    if isinstance(error, ZeroDivisionError):
        raise RuntimeError(f"{told}ZeroDivisionError: {message}: {shown}") from None
    if isinstance(error, AttributeError):
        for a, value in zip(row.attributes, attributes):
            if value is error.obj:
                raise TypeError(
                    f"{told}argument {a.name!r} cannot be a {type(value).__name__}: {value!r:.80}"
                ) from None
    if isinstance(error, (TypeError, np.exceptions.DTypePromotionError)):
        raise TypeError(f"{told}{message}: {shown}") from None
    raise error


# What NumPy says where a ufunc has no loop for a dtype.
NO_LOOP = re.compile("not supported for the input types|did not contain a loop|Cannot cast ufunc")

# `<where>: <what is wrong>`, as kernels and forwards of ours write it.
SAID = re.compile(r"[a-z_0-9]+: ")
CLASSES = ("class_entropy", "picked")  # whose shapes are wrong values in PyTorch, too


def reason(row: Any, variant: str, message: str, inputs: Sequence[Any], shown: str) -> str:
    """What is wrong with the shapes."""
    shapes = [i.array.shape for i in inputs if isinstance(i, native.TensorBase)]
    if row.name in ("matmul", "mm", "bmm", "mv", "dot", "linear") and len(shapes) >= 2:
        return mismatched_product(shapes[0], shapes[1])
    if row.broadcast and len(shapes) >= 2:
        for a in shapes:
            for b in shapes:
                for i in range(1, 1 + min(len(a), len(b))):
                    if a[-i] != b[-i] and 1 not in (a[-i], b[-i]):
                        return (
                            f"shapes cannot be broadcast: {a} and {b}, {a[-i]} is not {b[-i]} at "
                            f"dimension -{i} "
                            f"(The size of tensor a ({a[-i]}) must match the size of tensor b "
                            f"({b[-i]}))"
                        )
        if variant == "inplace":
            return (
                f"the result does not fit into the tensor that is written: {shown}, the output "
                f"with shape "
                f"{list(shapes[0])} doesn't match the broadcast shape "
                f"{list(np.broadcast_shapes(*shapes))}"
            )
    return f"{message}: {shown}"


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
    found = {str(i.array.dtype) for i in inputs if isinstance(i, native.TensorBase)}
    return ", ".join(sorted(found)) or str(dtypes.get_default_dtype())
