"""Sparse tensors in coordinate form (COO): creation, conversion, products.

A sparse tensor is its indices and a tensor of values; the values carry the history, so all
functions here are differentiable by the values and by dense operands.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes, native
from .autograd.dispatch.op_function import table
from .autograd.engine import sparse_grad
from .cuda_arrays import array_module
from .device import CPU, Device
from .tensor import Tensor, from_data
from .tensor.torch_constants import sparse_coo

__all__ = ["SparseTensor", "addmm", "mm", "sparse_coo", "sparse_coo_tensor", "spmm"]


@sparse_grad.register_sparse_class
class SparseTensor(sparse_grad.SparseGradient):
    """A tensor that stores only some of its elements.

    Args:
        indices: int64, (sparse dimensions, nnz).
        values: (nnz, *dense dimensions).
        shape: of the dense tensor: sparse dimensions first, then dense ones.
        is_coalesced: the indices are unique and in order.

    The attributes `places` and `numbers` are the indices and values, `ordered` is is_coalesced.
    """

    places: Tensor
    numbers: Tensor

    is_sparse = True
    array: Any = NotImplemented  # there is none, and no gradient buffer
    is_leaf = True
    layout = sparse_coo

    def __init__(
        self, indices: Tensor, values: Tensor, shape: tuple[int, ...], is_coalesced: bool = False
    ) -> None:
        super().__init__(indices, values, native.Size(shape))
        self.ordered = is_coalesced

    # ------------------------------------------------------------ properties

    @property
    def dtype(self) -> dtypes.Dtype:
        return self.numbers.dtype

    @property
    def device(self) -> Device:
        return CPU

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def requires_grad(self) -> bool:
        return self.numbers.requires_grad

    @property
    def grad(self) -> SparseTensor | None:
        """The gradient of the values, at the same indices."""
        g = self.numbers.grad
        return None if g is None else SparseTensor(self.places, g, self.shape, self.ordered)

    def dim(self) -> int:
        return self.ndim

    def sparse_dim(self) -> int:
        """The number of sparse dimensions."""
        return self.places.shape[0]

    def dense_dim(self) -> int:
        """The number of dense dimensions of each value."""
        return self.numbers.ndim - 1

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        return int(np.prod(self.shape))

    def _nnz(self) -> int:
        return self.places.shape[1]

    def is_coalesced(self) -> bool:
        """Whether the indices are unique and in order."""
        return self.ordered

    def indices(self) -> Tensor:
        """The indices, (sparse dimensions, nnz). Copies: none.

        Raises:
            RuntimeError: it is not coalesced.
        """
        self.must_be_coalesced("indices")
        return self.places

    def values(self) -> Tensor:
        """The values, (nnz, *dense dimensions). Copies: none.

        Raises:
            RuntimeError: it is not coalesced.
        """
        self.must_be_coalesced("values")
        return self.numbers

    def _indices(self) -> Tensor:
        return self.places

    def _values(self) -> Tensor:
        return self.numbers

    def must_be_coalesced(self, name: str) -> None:
        if not self.ordered:
            raise RuntimeError(
                f"{name}: Cannot get {name} on an uncoalesced tensor, please call .coalesce() "
                f"first: shape {tuple(self.shape)}"
            )

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        """Starts, or stops, recording what is computed from the values."""
        self.numbers.requires_grad_(requires_grad)
        return self

    # ------------------------------------------------------------ other forms

    def coalesce(self) -> SparseTensor:
        """Unique indices, in order; values with the same index are summed. Copies: one."""
        if self.ordered:
            return self
        sizes, places = self.shape[: self.sparse_dim()], self.places.array
        xp = array_module(places)
        flat = places[0] if len(sizes) == 1 else xp.ravel_multi_index(tuple(places), sizes)
        unique, where = xp.unique(flat, return_inverse=True)
        empty = native.wrap(xp.zeros((len(unique), *self.numbers.shape[1:]), self.dtype))
        values = table.index_add(empty, 0, native.wrap(where.reshape(-1)), self.numbers)
        places = xp.stack(xp.unravel_index(unique, sizes)).astype(np.int64)
        return SparseTensor(native.wrap(places), values, self.shape, True)

    def to_dense(self, dtype: Any = None, **unused: Any) -> Tensor:
        """The dense tensor. Copies: one."""
        xp = array_module(self.numbers.array)
        empty = native.wrap(native.call(xp.zeros, tuple(self.shape), self.dtype))
        result = table.index_put(empty, tuple(self.places), self.numbers, True)
        return result if dtype is None else result.to(dtype)  # type: ignore[no-any-return]

    def to_sparse(self, *unused: Any) -> SparseTensor:
        return self

    def detach(self) -> SparseTensor:
        return self.with_values(self.numbers.detach())

    def clone(self) -> SparseTensor:
        return SparseTensor(self.places.clone(), self.numbers.clone(), self.shape, self.ordered)

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        return self.detach().clone()

    def share_memory_(self) -> SparseTensor:
        """Moves indices and values into shared memory, where they usually are already."""
        self.places.share_memory_()
        self.numbers.share_memory_()
        return self

    def is_shared(self) -> bool:
        """Whether other processes can see it."""
        return self.places.is_shared() and self.numbers.is_shared()

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        return self.with_values(self.numbers.to(*args, **kwargs))

    def with_values(self, values: Tensor) -> SparseTensor:
        return SparseTensor(self.places, values, self.shape, self.ordered)

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        """Two sparse dimensions swapped."""
        order = list(range(self.sparse_dim()))
        shape = list(self.shape)
        order[dim0], order[dim1] = order[dim1], order[dim0]
        shape[dim0], shape[dim1] = shape[dim1], shape[dim0]
        return SparseTensor(self.places[order], self.numbers, tuple(shape))

    def t(self) -> SparseTensor:
        """The transpose of a matrix."""
        return self.transpose(0, 1)

    # ------------------------------------------------------------ arithmetic

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, SparseTensor):
            return self.to_dense() + other
        if other.shape != self.shape:
            raise RuntimeError(
                f"add: shapes of sparse tensors differ: {tuple(self.shape)}, {tuple(other.shape)}"
            )
        places = table.cat([self.places, other.places], 1)
        values = table.cat([self.numbers, other.numbers], 0)
        return SparseTensor(places, values, self.shape).coalesce()

    __radd__ = __add__

    def __mul__(self, other: Any) -> SparseTensor:
        if isinstance(other, native.TensorBase) and other.array.ndim:
            elements = table._getitem(other, tuple(p for p in self.places.numpy()))
            return self.with_values(self.numbers * elements)
        return self.with_values(self.numbers * other)

    __rmul__ = __mul__

    def mul_(self, other: Any) -> SparseTensor:
        """Multiplies each value by a number, in place."""
        self.numbers.mul_(other)
        return self

    def div_(self, other: Any) -> SparseTensor:
        """Divides each value by a number, in place."""
        self.numbers.div_(other)
        return self

    __imul__, __itruediv__ = mul_, div_

    def clamp_(self, min: Any = None, max: Any = None) -> SparseTensor:
        """Clamps each value in place, after coalescing."""
        coalesced = self.coalesce()
        self.places, self.numbers, self.ordered = coalesced.places, coalesced.numbers, True
        self.numbers.clamp_(min, max)
        return self

    def zero_(self) -> SparseTensor:
        """Removes all elements, in place."""
        self.places, self.numbers, self.ordered = self.places[:, :0], self.numbers[:0], True
        return self

    def norm(self, p: Any = 2) -> Tensor:
        """The norm of all elements as one vector."""
        result: Tensor = self.coalesce().numbers.norm(p)
        return result

    def __neg__(self) -> SparseTensor:
        return self.with_values(-self.numbers)

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __truediv__(self, other: Any) -> SparseTensor:
        return self.with_values(self.numbers / other)

    def __matmul__(self, other: Tensor) -> Tensor:
        if other.ndim == 1:
            return mm(self, other.unsqueeze(1)).squeeze(1)
        return mm(self, other)

    matmul = mm = __matmul__

    def sum(self) -> Tensor:
        """The sum of all elements."""
        return self.numbers.sum()

    def __repr__(self) -> str:
        indent = " " * 7
        notes = ", requires_grad=True" if self.requires_grad and self.numbers.is_leaf else ""
        # Further lines of the indices are aligned below their first bracket.
        places = repr(self.places).replace("\n", "\n" + " " * len("tensor(indices="))
        values = self.numbers.detach() if self.numbers.is_leaf else self.numbers
        numbers = repr(values).replace("\n", "\n" + " " * len("       values="))
        return (
            f"tensor(indices={places},\n{indent}values={numbers},\n{indent}"
            f"size={tuple(self.shape)}, "
            f"nnz={self._nnz()}, layout=shmtensor.sparse_coo{notes})"
        )


def refuse_device(where: str, x: Tensor) -> None:
    """Checks that a part of a sparse tensor is on the CPU.

    Raises:
        NotImplementedError: it is on a GPU.
    """
    if x.is_cuda:
        raise NotImplementedError(
            f"{where}: sparse tensors are on the CPU only: shape {tuple(x.shape)} on {x.device}, "
            "use x.cpu(), or dense tensors"
        )


def sparse_coo_tensor(
    indices: Any,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool = False,
) -> SparseTensor:
    """A sparse tensor from indices and values; values with the same index are summed.

    Args:
        indices: (sparse dimensions, nnz), integers; or only the size, of a tensor without elements.
        values: (nnz, *dense dimensions).
        size: of the dense tensor; by default the smallest possible.

    Raises:
        RuntimeError: shapes do not fit, or an index is out of range.
    """
    if values is None:
        indices, values, size = np.empty((len(indices), 0), np.int64), [], indices
    places: Tensor = from_data.as_tensor(indices, dtype=dtypes.int64)
    numbers: Tensor = from_data.as_tensor(values, dtype=dtype, device=device)
    if places.ndim != 2 or numbers.ndim < 1 or places.shape[1] != numbers.shape[0]:
        raise RuntimeError(
            "sparse_coo_tensor: number of dimensions must be sparse_dim + dense_dim, and indices "
            f"and values must have the same nnz: {places.shape} and {numbers.shape}"
        )
    for x in (places, numbers):
        refuse_device("sparse_coo_tensor", x)
    array = places.numpy()
    if size is None:
        size = (*(array.max(1) + 1 if array.size else [0] * len(array)), *numbers.shape[1:])
    shape = tuple(int(n) for n in size)
    is_wrong = len(shape) != len(array) + numbers.ndim - 1
    for d, row in enumerate(array if not is_wrong else ()):
        is_wrong = is_wrong or bool(row.size and (row.min() < 0 or row.max() >= shape[d]))
    if is_wrong or shape[len(array) :] != numbers.shape[1:]:
        raise RuntimeError(
            f"sparse_coo_tensor: size is inconsistent with indices and values: {shape}, indices "
            f"up to {array.max(1).tolist() if array.size else []}, values {numbers.shape}"
        )
    result = SparseTensor(places, numbers, shape, is_coalesced)
    return result.requires_grad_() if requires_grad else result


def mm(mat1: SparseTensor, mat2: Tensor) -> Tensor:
    """The product of a sparse matrix (n, m) and a dense one (m, k).

    Raises:
        RuntimeError: shapes do not fit.
    """
    if mat1.ndim != 2 or mat2.ndim != 2 or mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(f"mm: inner sizes differ: {mat1.shape} @ {mat2.shape}")
    rows, columns = mat1.places
    terms = mat1.numbers.unsqueeze(1) * mat2.index_select(0, columns)
    empty = native.wrap(np.zeros((mat1.shape[0], mat2.shape[1]), terms.dtype))
    return table.index_add(empty, 0, rows, terms)  # type: ignore[no-any-return]


spmm = mm


def addmm(
    mat: Tensor, mat1: SparseTensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """`beta * mat + alpha * (mat1 @ mat2)` with a sparse mat1."""
    result: Tensor = mat * beta + mm(mat1, mat2) * alpha
    return result


def to_sparse(input: Tensor, sparse_dim: int | None = None) -> SparseTensor:
    """The elements that are not zero, with their indices. Copies: one."""
    refuse_device("to_sparse", input)
    n = input.ndim if sparse_dim is None else sparse_dim
    array = input.detach().numpy()
    mask = array != 0
    if n < array.ndim:
        mask = mask.any(tuple(range(n, array.ndim)))
    places = np.stack(np.nonzero(mask)) if array.ndim else np.zeros((0, int(mask)), np.int64)
    values = table._getitem(input, tuple(places)) if array.ndim else input.reshape(1)[: int(mask)]
    return SparseTensor(native.wrap(places), values, input.shape, True)


def refuse_strided(name: str) -> Any:
    def refuse(input: Tensor) -> Any:
        raise RuntimeError(
            f"{name}: expected sparse coordinate tensor layout but got Strided: shape "
            f"{tuple(input.shape)}, to_sparse() makes one"
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Of a sparse tensor only."
    return refuse


def to_dense(input: Tensor, dtype: Any = None, **unused: Any) -> Tensor:
    """The tensor itself, which is dense."""
    return input if dtype is None else input.to(dtype)


for _name, _method in (
    ("to_sparse", to_sparse),
    ("to_sparse_coo", to_sparse),
    ("to_dense", to_dense),
):
    setattr(Tensor, _name, _method)
for _name in ("coalesce", "indices", "values", "is_coalesced", "sparse_dim", "dense_dim"):
    setattr(Tensor, _name, refuse_strided(_name))
