"""What a tensor is: shape, dtype, strides, the place of its elements in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dtypes
from ..autograd.dispatch.op_function import table
from ..autograd.dispatch.tensor_methods import Methods
from ..device import CPU, Device
from . import torch_constants as formats

if TYPE_CHECKING:
    from typing_extensions import Self

    from .tensor import Tensor

__all__ = ["Geometry"]


def stepped(steps: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, with those of dimensions of size 1 that NumPy inserted (0), and all of memory
    without elements, as PyTorch has them: one step further than the dimension behind.
    """
    empty = 0 in shape
    found: list[int] = []
    behind = 1
    for step, size in zip(reversed(steps), reversed(shape)):
        found.append(behind if (size == 1 or empty) and not step else step)
        behind = found[-1] * max(size, 1)
    return tuple(reversed(found))


class Geometry(Methods):
    """Shape, dtype, strides, and the views that are written as attributes."""

    __slots__ = ()

    @property
    def dtype(self) -> dtypes.Dtype:
        return self.array.dtype  # type: ignore[no-any-return]

    @property
    def device(self) -> Device:
        return CPU

    @property
    def ndim(self) -> int:
        return self.array.ndim  # type: ignore[no-any-return]

    @property
    def itemsize(self) -> int:
        return self.array.itemsize  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        return self.array.nbytes  # type: ignore[no-any-return]

    @property
    def is_cuda(self) -> bool:
        return False

    @property
    def is_cpu(self) -> bool:
        return True

    is_meta = is_mkldnn = is_mps = is_mtia = is_nested = is_quantized = is_sparse_csr = False
    is_ipu = is_maia = is_vulkan = is_xla = is_xpu = False

    @property
    def is_sparse(self) -> bool:
        return False

    @property
    def layout(self) -> formats.layout:
        return formats.strided

    @property
    def T(self) -> Tensor:
        """The dimensions in reverse order. Copies: none."""
        return self.permute(tuple(range(self.ndim))[::-1])

    @property
    def mT(self) -> Tensor:
        """The last two dimensions swapped. Copies: none."""
        if self.array.ndim < 2:
            return self.only("mT", "matrices or batches of matrices", not self.array.ndim)
        return self.transpose(-1, -2)

    @property
    def H(self) -> Tensor:
        """The conjugate transpose of a matrix."""
        if self.array.ndim != 2:
            return self.only("H", "matrices (2 dimensions); mH takes batches", not self.array.ndim)
        return self.mT.conj()  # type: ignore[no-any-return]

    @property
    def mH(self) -> Tensor:
        """The conjugate transpose of a matrix, or of each of a batch."""
        if self.array.ndim < 2:
            return self.only("mH", "matrices or batches of matrices", not self.array.ndim)
        return self.mT.conj()  # type: ignore[no-any-return]

    def only(self, name: str, what: str, allowed: bool) -> Tensor:
        """The tensor itself where that is allowed.

        Raises:
            RuntimeError: where it is not.
        """
        if not allowed:
            raise RuntimeError(f"{name}: only of {what}: shape {tuple(self.shape)}")
        return self  # type: ignore[return-value]

    @property
    def real(self) -> Tensor:
        if self.array.dtype.kind != "c":  # as it is, and a leaf remains one
            return self  # type: ignore[return-value]
        return table.real(self)  # type: ignore[no-any-return]

    @real.setter
    def real(self, value: Any) -> None:
        table.real(self).copy_(value)

    @property
    def imag(self) -> Tensor:
        return table.imag(self)  # type: ignore[no-any-return]

    @imag.setter
    def imag(self, value: Any) -> None:
        table.imag(self).copy_(value)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one of its sizes."""
        if dim is None:
            return self.shape
        try:
            return self.array.shape[dim]
        except IndexError:
            n = max(self.ndim, 1)
            raise IndexError(
                f"size: Dimension out of range (expected to be in range of [{-n}, {n - 1}], but "
                f"got {dim}): "
                f"shape {tuple(self.shape)}"
            ) from None

    def dim(self) -> int:
        return self.array.ndim  # type: ignore[no-any-return]

    ndimension = dim

    def numel(self) -> int:
        return self.array.size  # type: ignore[no-any-return]

    nelement = numel

    def element_size(self) -> int:
        return self.array.itemsize  # type: ignore[no-any-return]

    def stride(self, dim: int | None = None) -> Any:
        """Steps between elements, counted in elements."""
        steps = tuple(s // self.array.itemsize for s in self.array.strides)
        if 0 in steps:
            steps = stepped(steps, self.array.shape)
        return steps if dim is None else steps[dim]

    def storage_offset(self) -> int:
        """Elements between the start of the memory's owner and the first element."""
        owner = self.array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        offset: int = self.array.ctypes.data - owner.ctypes.data
        itemsize: int = self.array.itemsize
        return offset // itemsize

    def data_ptr(self) -> int:
        return self.array.ctypes.data  # type: ignore[no-any-return]

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie in order: of rows, or of channels last if that is asked for."""
        name = getattr(memory_format, "name", "contiguous_format")
        wanted = {"channels_last": 4, "channels_last_3d": 5}.get(name)
        if wanted is None:
            return self.array.flags.c_contiguous  # type: ignore[no-any-return]
        array = self.array
        return array.ndim == wanted and bool(np.moveaxis(array, 1, -1).flags.c_contiguous)

    def is_floating_point(self) -> bool:
        return self.array.dtype.kind == "f"  # type: ignore[no-any-return]

    def is_complex(self) -> bool:
        return self.array.dtype.kind == "c"  # type: ignore[no-any-return]

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers."""
        return self.array.dtype.kind in "ifc"

    def get_device(self) -> int:
        """The number of its GPU: -1, it is on the CPU."""
        return -1

    def is_pinned(self) -> bool:
        return False

    def pin_memory(self) -> Self:
        return self

    def is_conj(self) -> bool:
        """Whether the conjugation is yet to be done; here it never is."""
        return False

    def is_neg(self) -> bool:
        """Whether the negation is yet to be done; here it never is."""
        return False

    def is_nonzero(self) -> bool:
        """Whether the one element is not zero.

        Raises:
            RuntimeError: there is not exactly one.
        """
        return bool(self)

    def is_distributed(self) -> bool:
        """No: PyTorch has the name from an older design."""
        return False

    def const_data_ptr(self) -> int:
        return self.data_ptr()

    name: Any = None

    def dim_order(self) -> tuple[int, ...]:
        """The dimensions from the outermost to the innermost in memory."""
        steps = self.array.strides
        return tuple(sorted(range(len(steps)), key=lambda i: -steps[i]))

    def is_set_to(self, tensor: Tensor) -> bool:
        """Whether both are the same view of the same memory."""
        a, b = self.array, tensor.array
        return bool(
            a.ctypes.data == b.ctypes.data and a.shape == b.shape and a.strides == b.strides
        )

    def is_same_size(self, other: Tensor) -> bool:
        """Whether the shapes are equal."""
        return self.shape == other.shape
