"""`x[index] = value`: conversion and checks of the value."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import native
from ..autograd.dispatch.convert_index import as_index, part_kind
from ..autograd.dispatch.explain_error import is_writable
from ..autograd.dispatch.foreign_operands import refuse_foreign
from ..autograd.dispatch.numpy_messages import translate
from ..autograd.dispatch.promote_operands import UnsupportedOperand, as_operand
from ..autograd.engine import views_and_inplace
from ..cuda_arrays import device_of
from ..ops.table.python_scalars import as_assigned
from ..profiler import profiling
from .data_elements import check_depth, check_elements

if TYPE_CHECKING:
    from .tensor import Tensor


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """Writes a value at an index. It is `Tensor.__setitem__` itself, because the warnings below
    count frames up to the user's line.
    """
    began = profiling.begin() if profiling.on else 0
    is_tensor = isinstance(value, native.TensorBase)
    if isinstance(value, (list, tuple)):
        check_depth(value)
        elements = value
        value = native.wrap(np.asarray(elements, self.array.dtype))
        check_elements(elements, "setitem")
    try:
        value = as_operand(value)
    except UnsupportedOperand:
        refuse_foreign("index assignment", (value,))
        raise TypeError(
            f"index assignment: can't assign a {type(value).__name__} to a {self.array.dtype} "
            "tensor"
        ) from None
    if not isinstance(value, native.TensorBase):
        value = native.wrap(as_assigned(value, self.array.dtype))
    converted_index = as_index(index, self.array)
    if is_tensor and value.array.dtype is not self.array.dtype:
        check_dtypes(self.array, converted_index, value.array)
    if not (isinstance(self.array, np.ndarray) and isinstance(value.array, np.ndarray)):
        check_devices(self.array, converted_index, value.array)
    if value.array.dtype.kind == "c" and self.array.dtype.kind not in "bc":
        value = real_part(value, converted_index, self.array.dtype)
    try:
        views_and_inplace.set_item(self, converted_index, value)
    except IndexError as error:
        text = translate(str(error)).removeprefix("indexing: ")
        raise IndexError(f"index assignment: {text}: shape {tuple(self.shape)}") from None
    except ValueError as error:
        if not is_writable(self.array):
            raise RuntimeError(
                f"index assignment: the memory cannot be written: shape {tuple(self.shape)}, it is "
                "expanded or read-only; write to a clone()"
            ) from None
        raise RuntimeError(
            f"index assignment: {translate(str(error))}: value of shape {value.array.shape} into "
            f"shape {tuple(self.shape)}"
        ) from None
    if began:
        profiling.end(began, "setitem", profiling.OP)


def check_dtypes(array: Any, index: Any, value: Any) -> None:
    """Checks an assignment of another dtype. The value is converted if the index has only numbers
    and slices, or if it is one mask and the value has one element.
    """
    parts = index if isinstance(index, tuple) else (index,)
    advanced_kinds = [kind for kind in map(part_kind, parts) if kind in "ab?"]
    converts = isinstance(index, bool) or (advanced_kinds == ["b"] and value.size == 1)
    if advanced_kinds and not converts:
        raise RuntimeError(
            "index assignment: Index put requires the source and destination dtypes match, got "
            f"{array.dtype} for the destination and {value.dtype} for the source, hint: "
            f"value.to({array.dtype})"
        )


def check_devices(array: Any, index: Any, value: Any) -> None:
    """Checks an assignment of a value with dimensions on another device."""
    if not value.ndim or device_of(value) == device_of(array):
        return
    parts = index if isinstance(index, tuple) else (index,)
    if any(part_kind(part) in "ab" for part in parts):
        raise RuntimeError(
            "index assignment: Expected all tensors to be on the same device: the destination of "
            f"shape {array.shape} is on {device_of(array)}, the value of shape {value.shape} on "
            f"{device_of(value)}, hint: value.to({str(device_of(array))!r})"
        )


def real_part(value: Any, index: Any, dtype: Any) -> Any:
    """The real part of complex numbers, with PyTorch's warning."""
    parts = index if isinstance(index, tuple) else (index,)
    if any(hasattr(i, "dtype") for i in parts):
        raise RuntimeError(
            f"index assignment: the dtypes of source and destination must match: a "
            f"{value.array.dtype} value does not fit into a {dtype} tensor, hint: value.real"
        )
    warnings.warn(
        "index assignment: casting complex values to real discards the imaginary part: "
        f"{value.array.dtype} into {dtype}",
        stacklevel=3,
    )
    return value.real
