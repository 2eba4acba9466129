"""Writes that are no op's in-place form: copy_, fill_, assignment to an index, resizing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dtypes, native
from ..autograd.dispatch.convert_index import as_index, kind_of
from ..autograd.dispatch.op_function import table
from ..autograd.dispatch.promote_operands import Unknown, as_canonical, as_operand
from ..autograd.engine import views_and_inplace as view
from ..device import as_device
from ..ops.table.python_scalars import as_written, fits_dtype
from .to_dtype import Casting

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["Writing", "as_plain"]


def fits(value: Any, dtype: Any) -> bool:
    """Is it a number that any such dtype can hold, and float64 exactly?"""
    if dtype.kind in "iu":
        return value.__class__ is int and 0 <= value < 128
    if dtype.kind != "f":
        return False
    if value.__class__ is float and dtype.itemsize == 8:
        return True
    return (value.__class__ is float or value.__class__ is int) and -6e4 < value < 6e4


class Writing(Casting):
    """What changes a tensor's values in place, and new ones like it."""

    __slots__ = ()

    def copy_(self, src: Any, non_blocking: bool = False) -> Tensor:
        """Writes another tensor's values over this one's, with broadcasting and conversion."""
        return table.copy_(self, src)  # type: ignore[no-any-return]

    def fill_(self, value: Any) -> Tensor:
        """Writes one value everywhere."""
        if isinstance(value, native.TensorBase) and value.array.ndim:
            raise RuntimeError(
                f"fill_: only supports 0-dimension value tensor but got tensor of shape "
                f"{value.array.shape}"
            )
        if isinstance(value, (int, float, complex)) and value:
            fits_dtype("fill_", value, self.array.dtype)
        if fits(value, self.array.dtype):  # the usual operands, which need no search
            value = native.wrap(np.array(value, self.array.dtype))
        return table.copy_(self, value)  # type: ignore[no-any-return]

    def zero_(self) -> Tensor:
        """Writes zeros."""
        return self.fill_(0)

    def __delitem__(self, index: Any) -> None:
        raise TypeError(f"delitem: a Tensor cannot lose items: {index!r}")

    def __setitem__(self, index: Any, value: Any) -> None:
        is_tensor = isinstance(value, native.TensorBase)
        if isinstance(value, (list, tuple)):
            value = native.wrap(np.asarray(value, self.array.dtype))
        try:
            value = as_operand(value)
        except Unknown:
            raise TypeError(
                f"setitem: can't assign a {type(value).__name__} to a {self.array.dtype} tensor"
            ) from None
        if not isinstance(value, native.TensorBase):
            value = native.wrap(as_written(value, self.array.dtype))
        place = as_index(index, self.array)
        if is_tensor and value.array.dtype is not self.array.dtype:
            check_dtypes(self.array, place, value.array)
        if value.array.dtype.kind == "c" and self.array.dtype.kind not in "bc":
            value = real_part(value, place, self.array.dtype)
        try:
            view.set_item(self, place, value)
        except IndexError as error:
            raise IndexError(f"setitem: {error}: shape {tuple(self.shape)}") from None
        except ValueError as error:
            if not self.array.flags.writeable:
                raise RuntimeError(
                    f"setitem: the memory cannot be written: shape "
                    f"{tuple(self.shape)}, it is stretched "
                    f"(expand) or came read-only; write to a clone()"
                ) from None
            raise RuntimeError(
                f"setitem: {error}: value of shape {value.array.shape} into shape "
                f"{tuple(self.shape)}"
            ) from None

    def polygamma(self, n: int) -> Tensor:
        """The n-th derivative of `digamma`."""
        return table.polygamma(n, self)  # type: ignore[no-any-return]

    def polygamma_(self, n: int) -> Tensor:
        """`polygamma` in place."""
        # what backward needs of it must outlive the write
        return table.overwrite_(self, table.polygamma(n, self.clone()))  # type: ignore[no-any-return]

    def apply_(self, callable: Callable[[Any], Any]) -> Tensor:
        """Writes `callable(x)` over each element; slow, in Python."""
        flat = [callable(v) for v in self.array.reshape(-1).tolist()]
        return self.copy_(native.wrap(np.array(flat, self.dtype).reshape(self.shape)))

    def map2_(
        self, tensor1: Tensor, tensor2: Tensor, callable: Callable[[Any, Any, Any], Any]
    ) -> Tensor:
        """Writes `callable(x, y, z)` over each element; slow, in Python."""
        others = [
            np.broadcast_to(t.array, self.shape).reshape(-1).tolist() for t in (tensor1, tensor2)
        ]
        flat = [callable(*values) for values in zip(self.array.reshape(-1).tolist(), *others)]
        return self.copy_(native.wrap(np.array(flat, self.dtype).reshape(self.shape)))

    def fill_diagonal_(self, fill_value: Any, wrap: bool = False) -> Tensor:
        """Writes a number on the main diagonal.

        Args:
            wrap: a matrix with more rows than columns gets further diagonals, as NumPy's.

        Raises:
            RuntimeError: fewer than two dimensions; more than two that differ in size.
        """
        shape = self.array.shape
        if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
            raise RuntimeError(
                "fill_diagonal_: all dimensions of input must be of equal length, and at least "
                f"two: shape {shape}"
            )
        if len(shape) == 2 and not (wrap and shape[0] > shape[1]):
            table.diagonal(self).fill_(fill_value)
            return self  # type: ignore[return-value]
        mask = np.zeros(shape, bool)
        np.fill_diagonal(mask, True, wrap=wrap)
        return self.masked_fill_(native.wrap(mask), fill_value)

    def map_(self, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
        """Writes `callable(x, y)` over each element; slow, in Python."""
        other = np.broadcast_to(tensor.array, self.shape).reshape(-1).tolist()
        flat = [callable(a, b) for a, b in zip(self.array.reshape(-1).tolist(), other)]
        return self.copy_(native.wrap(np.array(flat, self.dtype).reshape(self.shape)))

    def new_tensor(
        self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: Any = False
    ) -> Tensor:
        """A tensor of the same dtype from data. Copies: one."""
        as_device(device)
        made: Tensor = native.wrap(
            as_canonical(
                native.call(
                    np.array,
                    as_plain(data),
                    self.dtype if dtype is None else dtypes.as_dtype(dtype),
                )
            )
        )
        return made.requires_grad_() if requires_grad else made

    def new(self, *sizes: int) -> Tensor:
        return native.wrap(native.call(np.empty, sizes, self.dtype))  # type: ignore[no-any-return]


def check_dtypes(array: Any, index: Any, value: Any) -> None:
    """Nothing, if values of another dtype can be assigned to an index: to numbers and slices, and
    one value to a mask, which are converted.

    Raises:
        RuntimeError: they cannot, at places that tensors or lists name.
    """
    parts = index if isinstance(index, tuple) else (index,)
    advanced = [kind for kind in map(kind_of, parts) if kind in "ab?"]
    converts = isinstance(index, bool) or (advanced == ["b"] and value.size == 1)
    if advanced and not converts:
        raise RuntimeError(
            "setitem: Index put requires the source and destination dtypes match, got "
            f"{array.dtype} for the destination and {value.dtype} for the source, hint: "
            f"value.to({array.dtype})"
        )


def real_part(value: Any, index: Any, dtype: Any) -> Any:
    """What of complex numbers is written into real ones, with a warning as PyTorch's.

    Raises:
        RuntimeError: at places that a tensor names.
    """
    parts = index if isinstance(index, tuple) else (index,)
    if any(hasattr(i, "dtype") for i in parts):
        raise RuntimeError(
            f"setitem: the dtypes of source and destination must match: a {value.array.dtype} "
            f"value does not fit into a {dtype} tensor, hint: value.real"
        )
    warnings.warn(
        "setitem: casting complex values to real discards the imaginary part: "
        f"{value.array.dtype} into {dtype}",
        stacklevel=3,
    )
    return value.real


def as_plain(data: Any) -> Any:
    """Data without tensors in it."""
    if isinstance(data, native.TensorBase):
        return data.array
    if isinstance(data, (list, tuple)):
        return [as_plain(d) for d in data]
    return data
