"""Sparse tensors in coordinate form (COO): creation, conversion, arithmetic, products. The file is
long because the tensor is one class with PyTorch's methods.

A sparse tensor is its indices and a tensor of values, on one device; the values carry the history,
so all functions here are differentiable by the values and by dense operands.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes, native
from ..autograd.dispatch.op_function import table
from ..autograd.engine.sparse_grad import register_sparse_class
from ..autograd.grad_mode import recording
from ..device import Device
from ..ops.table.constants import array_module, at_operands, computed, on_device
from ..ops.table.op_table import ROWS
from ..ops.table.sparse_gradient import SparseGradient
from ..tensor import Tensor, from_data
from ..tensor.torch_constants import layout as Layout
from ..tensor.torch_constants import sparse_coo

__all__ = ["SparseTensor", "addmm", "mm", "sparse_coo", "sparse_coo_tensor", "spmm"]


@register_sparse_class
class SparseTensor(SparseGradient):
    """A tensor that stores only some of its elements, with their indices (COO).

    Parameters
    ----------
    indices : Tensor
        int64, `(sparse dimensions, nnz)`.
    values : Tensor
        `(nnz, *dense dimensions)`.
    shape : tuple of int
        Of the dense tensor: sparse dimensions first, then dense ones.
    is_coalesced : bool, optional
        Whether the indices are unique and in order.

    See Also
    --------
    sparse_coo_tensor

    Notes
    -----
    `sparse_coo_tensor` checks its arguments; this does not. The attributes `places` and `numbers`
    are the indices and values, `ordered` is `is_coalesced`.

    Examples
    --------
    >>> x = st.sparse.SparseTensor(st.tensor([[0, 2]]), st.tensor([5., 6.]), (3,))
    >>> x.to_dense()
    tensor([5., 0., 6.])
    """

    places: Tensor
    numbers: Tensor
    ordered: bool
    to_sparse_csr: Any  # methods of compressed.py, where their class is
    to_sparse_csc: Any

    is_sparse = True
    is_sparse_csr = False
    array: Any = NotImplemented  # there is none, and no gradient buffer
    is_leaf = True
    layout: Layout = sparse_coo

    def __init__(
        self, indices: Tensor, values: Tensor, shape: tuple[int, ...], is_coalesced: bool = False
    ) -> None:
        super().__init__(indices, values, native.Size(shape))
        self.ordered = is_coalesced

    # ------------------------------------------------------------ properties

    @property
    def dtype(self) -> native.dtype:
        return self.numbers.dtype

    @property
    def device(self) -> Device:
        return self.numbers.device

    @property
    def is_cuda(self) -> bool:
        return self.numbers.is_cuda

    @property
    def is_cpu(self) -> bool:
        return self.numbers.is_cpu

    @property
    def is_meta(self) -> bool:
        return self.numbers.is_meta

    def get_device(self) -> int:
        """The number of the GPU that the tensor is on.

        Returns
        -------
        int
            -1 for the CPU.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.get_device()
        -1
        """
        return self.numbers.get_device()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def requires_grad(self) -> bool:
        return self.numbers.requires_grad

    @property
    def grad(self) -> SparseTensor | None:
        """The gradient of the values, at the same indices.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.requires_grad_().sum().backward()
        >>> x.grad.to_dense()
        tensor([[0., 1.],
                [1., 0.]])
        """
        g = self.numbers.grad
        return None if g is None else self.with_values(g)

    def dim(self) -> int:
        """The number of dimensions, sparse and dense ones.

        Returns
        -------
        int
            As of the dense tensor.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.dim()
        2
        """
        return self.ndim

    def sparse_dim(self) -> int:
        """The number of sparse dimensions.

        Returns
        -------
        int
            How many indices an element has.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.sparse_dim()
        2
        """
        return self.places.shape[0]

    def dense_dim(self) -> int:
        """The number of dense dimensions of each value.

        Returns
        -------
        int
            0 if the values are numbers.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.dense_dim()
        0
        """
        return self.numbers.ndim - 1

    def size(self, dim: int | None = None) -> Any:
        """The shape of the dense tensor, or the size of one dimension.

        Parameters
        ----------
        dim : int, optional
            The dimension.

        Returns
        -------
        Size or int
            The shape without `dim`.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.size(0)
        2
        """
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        """The number of elements of the dense tensor.

        Returns
        -------
        int
            The product of the sizes.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.numel()
        4
        """
        return int(np.prod(self.shape))

    def _nnz(self) -> int:
        return self.places.shape[1]

    def is_coalesced(self) -> bool:
        """Whether the indices are known to be unique and in order.

        Returns
        -------
        bool
            False for a new tensor, unless it was said.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.is_coalesced(), x.coalesce().is_coalesced()
        (False, True)
        """
        return self.ordered

    def indices(self) -> Tensor:
        """The indices of the elements that are stored.

        Returns
        -------
        Tensor
            int64, `(sparse dimensions, nnz)`.

        Raises
        ------
        RuntimeError
            It is not coalesced.

        Notes
        -----
        Copies: none.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.coalesce().indices()
        tensor([[0, 1],
                [1, 0]])
        """
        self.must_be_coalesced("indices")
        return self.places

    def values(self) -> Tensor:
        """The elements that are stored.

        Returns
        -------
        Tensor
            `(nnz, *dense dimensions)`.

        Raises
        ------
        RuntimeError
            It is not coalesced.

        Notes
        -----
        Copies: none.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.coalesce().values()
        tensor([3., 4.])
        """
        self.must_be_coalesced("values")
        return self.numbers

    def parts(self) -> dict[str, Tensor]:
        """The tensors that it is made of, by their names in its `repr`."""
        return {"indices": self.places, "values": self.numbers}

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
        """Starts, or stops, recording what is computed from the values.

        Parameters
        ----------
        requires_grad : bool, optional
            False stops.

        Returns
        -------
        SparseTensor
            The tensor itself.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.requires_grad_().requires_grad
        True
        """
        self.numbers.requires_grad_(requires_grad)
        return self

    # ------------------------------------------------------------ other forms

    def coalesce(self) -> SparseTensor:
        """The tensor with unique indices, in order; values with the same index are added.

        Returns
        -------
        SparseTensor
            The tensor itself if it is coalesced.

        Notes
        -----
        Copies: none or one.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[2, 0, 2]], [1., 5., 2.], (3,))
        >>> x.coalesce().values()
        tensor([5., 3.])
        """
        if self.ordered:
            return self
        if on_device(self.numbers):
            return self.coalesce_on_device()
        sizes, places = self.shape[: self.sparse_dim()], self.places.array
        flat = places[0] if len(sizes) == 1 else np.ravel_multi_index(tuple(places), sizes)
        unique, where = np.unique(flat, return_inverse=True)
        empty = native.wrap(np.zeros((len(unique), *self.numbers.shape[1:]), self.dtype))
        values = table.index_add(empty, 0, native.wrap(where.reshape(-1)), self.numbers)
        places = np.stack(np.unravel_index(unique, sizes)).astype(np.int64)
        return SparseTensor(native.wrap(places), values, self.shape, True)

    def coalesce_on_device(self) -> SparseTensor:
        """`coalesce` by sorting. It waits for the number of different indices."""
        sizes, dense = self.shape[: self.sparse_dim()], self.numbers.shape[1:]
        places, order, runs = runs_of_places(self.places, sizes)
        ones = computed(lambda xp: xp.ones(order.size, self.dtype), self.numbers)
        matrix = self.numbers.reshape(self._nnz(), math.prod(dense))
        where, order = native.wrap(runs), native.wrap(order)
        sums = table._sparse_mm(ones, matrix, where, order, places.shape[1], True)
        values = sums.reshape(places.shape[1], *dense)
        return SparseTensor(native.wrap(places), values, self.shape, True)

    def to_dense(self, dtype: Any = None, **unused: Any) -> Tensor:
        """The dense tensor, with 0 where no element is stored.

        Parameters
        ----------
        dtype : dtype, optional
            Of the result; by default the tensor's.
        **unused : Any
            Accepted; have no effect.

        Returns
        -------
        Tensor
            Of the same shape.

        Notes
        -----
        Copies: one.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.to_dense()
        tensor([[0., 3.],
                [4., 0.]])
        """
        shape = tuple(self.shape)
        if not self.sparse_dim():
            return self.numbers.sum(0, dtype=self.dtype if dtype is None else dtype)
        if on_device(self.numbers):
            empty = computed(lambda xp: xp.zeros(shape, self.dtype), self.numbers)
        else:
            empty = native.wrap(native.call(np.zeros, shape, self.dtype))
        result = table.index_put(empty, tuple(self.places), self.numbers, True)
        return result if dtype is None else result.to(dtype)  # type: ignore[no-any-return]

    def to_sparse(self, *unused: Any) -> SparseTensor:
        """The tensor itself, which is sparse.

        Parameters
        ----------
        *unused : Any
            Accepted; have no effect.

        Returns
        -------
        SparseTensor
            The tensor itself.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.to_sparse() is x
        True
        """
        return self

    def to_sparse_coo(self) -> SparseTensor:
        """The tensor in coordinate form: itself.

        Returns
        -------
        SparseTensor
            The tensor itself; of a compressed one another, with the same values.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.to_sparse_coo() is x
        True
        """
        return self.to_sparse()

    def detach(self) -> SparseTensor:
        """The same elements without history.

        Returns
        -------
        SparseTensor
            Over the same memory.

        Notes
        -----
        Copies: none.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.requires_grad_().detach().requires_grad
        False
        """
        return self.with_values(self.numbers.detach())

    def clone(self) -> SparseTensor:
        """A copy of the tensor.

        Returns
        -------
        SparseTensor
            Indices and values in memory of their own.

        Notes
        -----
        Copies: one.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.clone().to_dense()
        tensor([[0., 3.],
                [4., 0.]])
        """
        return SparseTensor(self.places.clone(), self.numbers.clone(), self.shape, self.ordered)

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        return self.detach().clone()

    def share_memory_(self) -> SparseTensor:
        """Moves indices and values into shared memory, where they usually are already.

        Returns
        -------
        SparseTensor
            The tensor itself.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.share_memory_().is_shared()
        True
        """
        for part in self.parts().values():
            part.share_memory_()
        return self

    def is_shared(self) -> bool:
        """Whether other processes can see the tensor's memory.

        Returns
        -------
        bool
            True if indices and values are in shared memory.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.share_memory_().is_shared()
        True
        """
        return all(part.is_shared() for part in self.parts().values())

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """The tensor with another dtype or on another device, in the forms of `Tensor.to`.

        Parameters
        ----------
        *args : dtype, Device, str or Tensor
            As for `Tensor.to`.
        **kwargs : Any
            As for `Tensor.to`.

        Returns
        -------
        SparseTensor
            At the same indices.

        Notes
        -----
        Copies: none or one.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.to(st.float64).dtype
        shmtensor.float64
        """
        args = tuple(a.numbers if isinstance(a, SparseTensor) else a for a in args)
        return self.with_values(self.numbers.to(*args, **kwargs))

    def cpu(self) -> SparseTensor:
        """The tensor on the CPU.

        Returns
        -------
        SparseTensor
            At the same indices.

        Notes
        -----
        Copies: none or one.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.cpu().device
        device(type='cpu')
        """
        return self.with_values(self.numbers.cpu())

    def cuda(self, device: Any = None, non_blocking: bool = False) -> SparseTensor:
        """The tensor on a GPU, by default the current one. Copies: none or one."""
        return self.with_values(self.numbers.cuda(device, non_blocking))

    def with_values(self, values: Tensor) -> SparseTensor:
        """Other values at the same indices.

        Parameters
        ----------
        values : Tensor
            `(nnz, *dense dimensions)`; the indices go to its device.

        Returns
        -------
        SparseTensor
            Of the same shape.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.with_values(st.tensor([1., 2.])).to_dense()
        tensor([[0., 1.],
                [2., 0.]])
        """
        places = self.places
        if places.device != values.device:
            places = places.to(values.device)
        return SparseTensor(places, values, self.shape, self.ordered)

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

    def in_layout(self, result: Any) -> Any:
        """A result in coordinate form, in the tensor's layout."""
        return result

    # ------------------------------------------------------------ arithmetic

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, SparseTensor):
            return self.to_dense() + other
        check_device("add", self, other)
        check_shapes("add", self, other)
        places = table.cat([self.places, other.places], 1)
        values = table.cat([self.numbers, other.numbers], 0)
        return self.in_layout(SparseTensor(places, values, self.shape).coalesce())

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> SparseTensor:
        if isinstance(other, SparseTensor):
            if not other.ndim:
                return self * other.to_dense()
            return self.in_layout(intersection_product(self, other))  # type: ignore[no-any-return]
        if isinstance(other, native.TensorBase) and other.array.ndim:
            check_device("mul", self, other)
            other = table._getitem(table.broadcast_to(other, self.shape), tuple(self.places))
        return self.with_values(self.numbers * other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> SparseTensor:
        return self.div(other)

    def __neg__(self) -> SparseTensor:
        return self.with_values(-self.numbers)

    def add(self, other: Any, *, alpha: Any = 1) -> Any:
        """The sum with another tensor.

        Parameters
        ----------
        other : Tensor or SparseTensor
            Of the same shape.
        alpha : number, optional
            A factor of `other`.

        Returns
        -------
        Tensor or SparseTensor
            self + alpha * other: sparse if `other` is sparse, else dense.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.add(x, alpha=2).to_dense()
        tensor([[ 0.,  9.],
                [12.,  0.]])
        """
        return self + (other if alpha == 1 else other * alpha)

    def sub(self, other: Any, *, alpha: Any = 1) -> Any:
        """The difference from another tensor.

        Parameters
        ----------
        other : Tensor or SparseTensor
            Of the same shape.
        alpha : number, optional
            A factor of `other`.

        Returns
        -------
        Tensor or SparseTensor
            self - alpha * other: sparse if `other` is sparse, else dense.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.sub(x, alpha=2).to_dense()
        tensor([[ 0., -3.],
                [-4.,  0.]])
        """
        return self - (other if alpha == 1 else other * alpha)

    def mul(self, other: Any) -> SparseTensor:
        """The product, element by element.

        Parameters
        ----------
        other : Tensor, SparseTensor or number
            A number, a sparse tensor of this shape, or a dense one that broadcasts to it.

        Returns
        -------
        SparseTensor
            Elements that are not stored are 0, even times infinity.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.mul(10).to_dense()
        tensor([[ 0., 30.],
                [40.,  0.]])
        """
        return self.__mul__(other)

    def div(self, other: Any, *, rounding_mode: str | None = None) -> SparseTensor:
        """The quotient by a number.

        Parameters
        ----------
        other : number or Tensor
            A number or a dense tensor without dimensions.
        rounding_mode : str, optional
            "floor" or "trunc": the values are added at equal indices first.

        Returns
        -------
        SparseTensor
            At the same indices.

        Raises
        ------
        RuntimeError
            `other` is sparse, or has dimensions.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.div(2).to_dense()
        tensor([[0.0000, 1.5000],
                [2.0000, 0.0000]])
        """
        ndim: int = getattr(other, "ndim", 0)
        if ndim or isinstance(other, SparseTensor):
            raise RuntimeError(
                "div: Sparse division requires a scalar or zero-dim dense tensor divisor: shape "
                f"{tuple(other.shape)}"
            )
        if rounding_mode is None:
            return self.with_values(self.numbers / other)
        x = self.coalesce()
        values = x.numbers.div(other, rounding_mode=rounding_mode)
        return self.in_layout(x.with_values(values))  # type: ignore[no-any-return]

    def neg(self) -> SparseTensor:
        """Each element with the opposite sign.

        Returns
        -------
        SparseTensor
            At the same indices.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.neg().to_dense()
        tensor([[ 0., -3.],
                [-4.,  0.]])
        """
        return -self

    def add_(self, other: Any, *, alpha: Any = 1) -> SparseTensor:
        """Adds a sparse tensor, in place.

        Parameters
        ----------
        other : SparseTensor
            Of the same shape.
        alpha : number, optional
            A factor of `other`.

        Returns
        -------
        SparseTensor
            The tensor itself.

        Raises
        ------
        RuntimeError
            `other` is dense, or of a dtype that cannot be cast to this one.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.add_(x).to_dense()
        tensor([[0., 6.],
                [8., 0.]])
        """
        return self.assign("add_", self.add(other, alpha=alpha))

    def sub_(self, other: Any, *, alpha: Any = 1) -> SparseTensor:
        """Subtracts a sparse tensor, in place.

        Parameters
        ----------
        other : SparseTensor
            Of the same shape.
        alpha : number, optional
            A factor of `other`.

        Returns
        -------
        SparseTensor
            The tensor itself.

        Raises
        ------
        RuntimeError
            `other` is dense, or of a dtype that cannot be cast to this one.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.sub_(x, alpha=2).to_dense()
        tensor([[ 0., -3.],
                [-4.,  0.]])
        """
        return self.assign("sub_", self.sub(other, alpha=alpha))

    def mul_(self, other: Any) -> SparseTensor:
        """Multiplies by what `mul` takes, in place.

        Parameters
        ----------
        other : Tensor, SparseTensor or number
            The factor.

        Returns
        -------
        SparseTensor
            The tensor itself.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.mul_(10).to_dense()
        tensor([[ 0., 30.],
                [40.,  0.]])
        """
        if getattr(other, "ndim", 0):
            return self.assign("mul_", self * other)
        self.numbers.mul_(other.to_dense() if isinstance(other, SparseTensor) else other)
        return self

    def div_(self, other: Any, *, rounding_mode: str | None = None) -> SparseTensor:
        """Divides by a number, in place.

        Parameters
        ----------
        other : number or Tensor
            A number or a dense tensor without dimensions.
        rounding_mode : str, optional
            "floor" or "trunc".

        Returns
        -------
        SparseTensor
            The tensor itself.

        Raises
        ------
        RuntimeError
            `other` is sparse, or has dimensions.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.div_(2).to_dense()
        tensor([[0.0000, 1.5000],
                [2.0000, 0.0000]])
        """
        return self.assign("div_", self.div(other, rounding_mode=rounding_mode))

    def neg_(self) -> SparseTensor:
        """Changes the sign of each element, in place.

        Returns
        -------
        SparseTensor
            The tensor itself.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.neg_().to_dense()
        tensor([[ 0., -3.],
                [-4.,  0.]])
        """
        self.numbers.neg_()
        return self

    __iadd__ = add_
    __isub__ = sub_
    __imul__ = mul_
    __itruediv__ = div_

    def assign(self, where: str, result: Any) -> SparseTensor:
        """Takes over the elements of a result, for an in-place op.

        Raises:
            RuntimeError: the result is dense, or of a dtype that cannot be cast to this one; a leaf
                that requires grad.
        """
        if not isinstance(result, SparseTensor):
            raise RuntimeError(
                f"{where}: a sparse tensor cannot hold the sum with a dense one: shape "
                f"{tuple(self.shape)}, use {where.rstrip('_')}()"
            )
        if self.requires_grad and self.numbers.is_leaf and recording.get():
            raise RuntimeError(
                f"{where}: a leaf Variable that requires grad is being used in an in-place "
                f"operation: shape {tuple(self.shape)}, write under no_grad()"
            )
        if not dtypes.can_cast(result.numbers.array.dtype, self.numbers.array.dtype):
            raise RuntimeError(
                f"{where}: result type {result.dtype} can't be cast to the desired output type "
                f"{self.dtype}: use {where.rstrip('_')}()"
            )
        self.take_over(result, result.numbers.to(self.dtype))
        return self

    def take_over(self, other: SparseTensor, values: Tensor) -> None:
        """Changes the indices and values to those indices of another tensor, and values for it."""
        self.places, self.numbers, self.ordered = other.places, values, other.ordered

    def sparse_mask(self, mask: SparseTensor) -> SparseTensor:
        """The elements at the indices of another sparse tensor, 0 where there is none.

        Parameters
        ----------
        mask : SparseTensor
            Of the same shape.

        Returns
        -------
        SparseTensor
            At the indices of `mask`.

        Raises
        ------
        RuntimeError
            The shapes differ.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> mask = st.sparse_coo_tensor([[0, 1], [1, 1]], [1., 1.], (2, 2))
        >>> x.sparse_mask(mask).to_dense()
        tensor([[0., 3.],
                [0., 0.]])
        """
        return sparse_mask(self, mask)

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Computes the gradients of the leaves that the values were computed from, and adds them to
        `.grad`.

        Parameters
        ----------
        gradient : Tensor or SparseTensor, optional
            Of this shape; of it count the elements that are stored here.
        retain_graph : bool, optional
            Whether another backward can follow; by default as `create_graph`.
        create_graph : bool, optional
            Whether the gradients have a history themselves.
        inputs : sequence of Tensor, optional
            The leaves whose `.grad` is computed; by default all.

        See Also
        --------
        Tensor.backward

        Examples
        --------
        >>> values = st.tensor([3., 4.], requires_grad=True)
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], values, (2, 2))
        >>> x.mul(2).backward(gradient=st.ones(2, 2))
        >>> values.grad
        tensor([2., 2.])
        """
        if gradient is not None:
            gradient = sparse_mask(gradient, self).numbers
        self.numbers.backward(gradient, retain_graph, create_graph, inputs)

    def clamp_(self, min: Any = None, max: Any = None) -> SparseTensor:
        """Limits each element that is stored to a range, in place; values at equal indices are
        added first.

        Parameters
        ----------
        min, max : number, optional
            The bounds.

        Returns
        -------
        SparseTensor
            The tensor itself.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.clamp_(max=3.5).to_dense()
        tensor([[0.0000, 3.0000],
                [3.5000, 0.0000]])
        """
        coalesced = self.coalesce()
        self.take_over(coalesced, coalesced.numbers)
        self.numbers.clamp_(min, max)
        return self

    def zero_(self) -> SparseTensor:
        """Removes all elements, in place.

        Returns
        -------
        SparseTensor
            The tensor itself.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.zero_().to_dense()
        tensor([[0., 0.],
                [0., 0.]])
        """
        nothing = SparseTensor(self.places[:, :0], self.numbers[:0], self.shape, True)
        self.take_over(nothing, nothing.numbers)
        return self

    def norm(self, p: Any = 2) -> Tensor:
        """The norm of all elements as one vector.

        Parameters
        ----------
        p : number, optional
            The order.

        Returns
        -------
        Tensor
            0-d.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.norm()
        tensor(5.)
        """
        result: Tensor = self.coalesce().numbers.norm(p)
        return result

    __array_ufunc__ = None  # `array @ self` is `__rmatmul__`

    def __matmul__(self, other: Any) -> Any:
        return matmul(self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __rmatmul__(self, other: Any) -> Any:
        return matmul(other, self) if isinstance(other, OPERANDS) else NotImplemented

    def matmul(self, other: Any) -> Any:
        """The product with a matrix or a vector.

        Parameters
        ----------
        other : Tensor or SparseTensor
            The other factor.

        Returns
        -------
        Tensor or SparseTensor
            Dense, but for two sparse matrices sparse.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.matmul(st.tensor([1., 2.]))
        tensor([6., 4.])
        """
        return matmul(self, other)

    def mm(self, mat2: Any) -> Any:
        """The product with a matrix.

        Parameters
        ----------
        mat2 : Tensor or SparseTensor
            The other factor.

        Returns
        -------
        Tensor or SparseTensor
            Dense, but for two sparse matrices sparse.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.mm(st.eye(2))
        tensor([[0., 3.],
                [4., 0.]])
        """
        return mm(self, mat2)

    def mv(self, vec: Any) -> Tensor:
        """The product with a vector.

        Parameters
        ----------
        vec : Tensor
            The vector.

        Returns
        -------
        Tensor
            Dense.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.mv(st.tensor([1., 2.]))
        tensor([6., 4.])
        """
        return table.mv(self, vec)  # type: ignore[no-any-return]

    def bmm(self, mat2: Any) -> Tensor:
        """The products of two batches of matrices."""
        return bmm(self, mat2)

    def sum(self) -> Tensor:
        """The sum of all elements.

        Returns
        -------
        Tensor
            0-d.

        Examples
        --------
        >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
        >>> x.sum()
        tensor(7.)
        """
        return self.numbers.sum()

    def __repr__(self) -> str:
        indent = " " * 7
        notes = ", requires_grad=True" if self.requires_grad and self.numbers.is_leaf else ""
        texts = []
        for name, part in self.parts().items():
            part = part.detach() if part.is_leaf else part
            # Further lines are aligned below the first bracket.
            text = repr(part.cpu()).replace("\n", "\n" + " " * len(f"{indent}{name}="))
            texts.append(f"{name}={text}")
        device = f"device='{self.device}', " if self.is_cuda else ""
        texts.append(
            f"{device}size={tuple(self.shape)}, nnz={self._nnz()}, layout={self.layout}{notes})"
        )
        return "tensor(" + f",\n{indent}".join(texts)


@at_operands
def runs_of_places(places: Any, sizes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """On a GPU: the different places in order (sparse dimensions, n), the order of the elements by
    place, and for each in that order the number of its place.

    Raises:
        RuntimeError: positions in a tensor of this size do not fit in 64 bits.
    """
    xp = array_module(places)
    if math.prod(sizes) >= 2**63:
        raise RuntimeError(
            f"coalesce: the size is too large: {tuple(sizes)}, 2**63 elements or more"
        )
    flat = xp.zeros(places.shape[1], xp.int64)
    for row, size in zip(places, sizes, strict=True):
        flat = flat * size + row
    order = xp.argsort(flat, kind="stable")
    flat = flat[order]
    is_first = xp.ones(flat.shape, bool)
    is_first[1:] = flat[1:] != flat[:-1]
    runs = xp.cumsum(is_first) - 1
    flat = flat[is_first]
    rows = []
    for size in reversed(sizes):
        rows.append(flat % max(size, 1))
        flat = flat // max(size, 1)
    different = xp.stack(rows[::-1]) if rows else xp.zeros((0, flat.size), xp.int64)
    return different, order.astype(xp.int64, copy=False), runs.astype(xp.int64, copy=False)


def check_device(where: str, x: Any, y: Any) -> None:
    """Raises RuntimeError if two operands, sparse or dense, are on different devices."""
    if x.device != y.device:
        raise RuntimeError(
            f"{where}: Expected all tensors to be on the same device, but found at least two "
            f"devices, {x.device} (shape {tuple(x.shape)}) and {y.device} (shape {tuple(y.shape)})"
        )


def check_shapes(where: str, x: SparseTensor, y: SparseTensor) -> None:
    """Raises RuntimeError if two sparse tensors differ in shape or in their sparse dimensions."""
    if x.shape != y.shape:
        raise RuntimeError(
            f"{where}: shapes of sparse tensors differ: {tuple(x.shape)}, {tuple(y.shape)}"
        )
    if x.sparse_dim() != y.sparse_dim():
        raise RuntimeError(
            f"{where}: numbers of sparse dimensions differ: {x.sparse_dim()}, {y.sparse_dim()}, "
            f"shape {tuple(x.shape)}"
        )


def matches(x: SparseTensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """Which of the places (sparse dimensions, n) are stored in a coalesced tensor, and the number
    of its element for each of these.
    """
    stored: Any = x.places.new_zeros(x._nnz())
    sought: Any = places.new_zeros(places.shape[1])
    for row, other, size in zip(x.places, places, x.shape):
        stored, sought = stored * size + row, sought * size + other
    if not x._nnz():
        return sought[:0], sought[:0]
    position = table.clamp(table.searchsorted(stored, sought), max=x._nnz() - 1)
    which = table.nonzero(stored[position] == sought)[:, 0]
    return which, position[which]


def intersection_product(x: SparseTensor, y: SparseTensor) -> SparseTensor:
    """The product of two sparse tensors, element by element, where both have one."""
    check_device("mul", x, y)
    check_shapes("mul", x, y)
    x, y = x.coalesce(), y.coalesce()
    which, position = matches(y, x.places)
    values = x.numbers[which] * y.numbers[position]
    return SparseTensor(x.places[:, which], values, x.shape, True)


def sparse_mask(input: Any, mask: SparseTensor) -> SparseTensor:
    """The elements of a tensor, dense or sparse, at the indices of a sparse one. Copies: one.

    Raises:
        TypeError: mask is not sparse.
        RuntimeError: shapes differ; the tensors are on different devices.
    """
    if not isinstance(mask, SparseTensor):
        raise TypeError(f"sparse_mask: mask must be a sparse tensor: a {type(mask).__name__}")
    check_device("sparse_mask", input, mask)
    if tuple(input.shape) != tuple(mask.shape):
        raise RuntimeError(
            f"sparse_mask: operands have incompatible sizes: self has {tuple(input.shape)}, mask "
            f"has {tuple(mask.shape)}"
        )
    if not isinstance(input, SparseTensor):
        if not mask.sparse_dim():
            return mask.with_values(input.expand(mask.numbers.shape))
        return mask.with_values(table._getitem(input, tuple(mask.places)))
    check_shapes("sparse_mask", input, mask)
    x = input.coalesce()
    which, position = matches(x, mask.places)
    values = x.numbers.new_zeros(mask.numbers.shape)
    return mask.with_values(table.index_copy(values, 0, which, x.numbers[position]))


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool = False,
) -> SparseTensor:
    """A sparse tensor from indices and values; values with the same index are added.

    Parameters
    ----------
    indices : array_like
        Integers, `(sparse dimensions, nnz)`; or only the size, of a tensor without elements.
    values : array_like, optional
        `(nnz, *dense dimensions)`.
    size : sequence of int, optional
        Of the dense tensor; by default the smallest possible.
    dtype : dtype, optional
        By default that of the values.
    device : Device or str, optional
        By default that of the values; the indices are moved there.
    requires_grad : bool, optional
        Whether operations on the tensor are recorded for its gradient.
    check_invariants : bool, optional
        On a GPU, whether indices are compared with a size that is given, which waits for the
        device; by default they are not. On the CPU they always are.
    is_coalesced : bool, optional
        Whether the indices are known to be unique and in order.

    Returns
    -------
    SparseTensor
        Its `to_dense()` is the tensor with all elements.

    Raises
    ------
    RuntimeError
        The shapes do not fit, or an index is out of range.

    See Also
    --------
    sparse.mm

    Examples
    --------
    >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
    >>> x.to_dense()
    tensor([[0., 3.],
            [4., 0.]])
    """
    if values is None:
        size = indices if size is None else size
        if size is None:
            raise TypeError("sparse_coo_tensor: indices and values, or a size, are needed")
        indices, values = np.empty((len(size), 0), np.int64), []
    numbers: Tensor = from_data.as_tensor(values, dtype=dtype, device=device)
    where = numbers.device if numbers.is_cuda or on_device(indices) else None
    places: Tensor = from_data.as_tensor(indices, dtype=dtypes.int64, device=where)
    if places.ndim != 2 or numbers.ndim < 1 or places.shape[1] != numbers.shape[0]:
        raise RuntimeError(
            "sparse_coo_tensor: number of dimensions must be sparse_dim + dense_dim, and indices "
            f"and values must have the same nnz: {places.shape} and {numbers.shape}"
        )
    n = places.shape[0]
    low: list[int] = []
    high: list[int] = []
    if size is None or check_invariants or not numbers.is_cuda:
        low, high = bounds_of(places)
    if size is None:
        size = (*(i + 1 for i in high), *numbers.shape[1:])
    shape = tuple(int(n) for n in size)
    is_wrong = len(shape) != n + numbers.ndim - 1 or shape[n:] != numbers.shape[1:]
    if places.shape[1] and not is_wrong and low:
        is_wrong = min(low) < 0 or any(i >= m for i, m in zip(high, shape))
    if is_wrong:
        raise RuntimeError(
            f"sparse_coo_tensor: size is inconsistent with indices and values: {shape}, indices "
            f"up to {high if places.shape[1] else []}, values {numbers.shape}"
        )
    result = SparseTensor(places, numbers, shape, is_coalesced)
    return result.requires_grad_() if requires_grad else result


def bounds_of(places: Tensor) -> tuple[list[int], list[int]]:
    """The smallest and the largest index of each dimension; 0 and -1 without elements. Waits for
    the device.
    """
    if not places.shape[1]:
        return [0] * places.shape[0], [-1] * places.shape[0]
    low, high = table.stack([table.amin(places, 1), table.amax(places, 1)]).tolist()
    return low, high


OPERANDS = (native.TensorBase, SparseTensor, np.ndarray)


def as_operands(where: str, x: Any, y: Any) -> tuple[Any, Any]:
    """The operands of a product, NumPy arrays as tensors.

    Raises:
        TypeError: one is neither a tensor nor an array.
    """
    for value in (x, y):
        if not isinstance(value, OPERANDS):
            raise TypeError(f"{where}: the operands must be tensors: got a {type(value).__name__}")
    x, y = (from_data.from_numpy(v) if isinstance(v, np.ndarray) else v for v in (x, y))
    return x, y


def mm(mat1: Any, mat2: Any) -> Any:
    """The product of two matrices of which one or both are sparse.

    Parameters
    ----------
    mat1 : Tensor or SparseTensor
        `(n, m)`.
    mat2 : Tensor or SparseTensor
        `(m, k)`.

    Returns
    -------
    Tensor or SparseTensor
        `(n, k)`: dense, but for two sparse ones sparse.

    Raises
    ------
    RuntimeError
        The shapes do not fit, or the operands are on different devices.

    See Also
    --------
    sparse_coo_tensor, sparse.addmm

    Notes
    -----
    Copies: none; one of the result if only `mat2` is sparse. `sparse.mm`, `sparse.spmm` and `spmm`
    are the same function.

    Examples
    --------
    >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
    >>> st.sparse.mm(x, st.tensor([[1.], [2.]]))
    tensor([[6.],
            [4.]])
    """
    mat1, mat2 = as_operands("mm", mat1, mat2)
    if mat1.ndim != 2 or mat2.ndim != 2 or mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(f"mm: inner sizes differ: {mat1.shape} @ {mat2.shape}")
    check_device("mm", mat1, mat2)
    mat1, mat2 = (
        x.to_dense() if isinstance(x, SparseTensor) and x.dense_dim() else x for x in (mat1, mat2)
    )
    if not isinstance(mat2, SparseTensor):
        return sparse_by_dense(mat1, mat2) if isinstance(mat1, SparseTensor) else mat1 @ mat2
    if isinstance(mat1, SparseTensor):
        return mat1.in_layout(sparse_by_sparse(mat1, mat2))
    return sparse_by_dense(mat2.t(), mat1.t()).t().contiguous()


def sparse_by_dense(mat1: SparseTensor, mat2: Tensor) -> Tensor:
    """The dense product of a sparse matrix (n, m) and a dense one (m, k)."""
    rows, columns = mat1.places
    return table._sparse_mm(  # type: ignore[no-any-return]
        mat1.numbers, mat2, rows, columns, mat1.shape[0], mat1.ordered
    )


def sparse_by_sparse(mat1: SparseTensor, mat2: SparseTensor) -> SparseTensor:
    """The sparse product of two sparse matrices: a product for each pair of an element of mat1 and
    one of mat2 in the row that is its column; those at one place are summed.
    """
    rows, columns = mat1.places
    rows2, columns2 = mat2.places
    order = table.argsort(rows2)
    in_order = rows2[order]
    first = table.searchsorted(in_order, columns)
    counts = table.searchsorted(in_order, columns, right=True) - first  # pairs of each element
    left = table.repeat_interleave(table.arange(counts.shape[0], device=rows.device), counts)
    before = (table.cumsum(counts, 0) - counts)[left]  # pairs of the elements before it
    right = order[first[left] + table.arange(left.shape[0], device=rows.device) - before]
    values = mat1.numbers[left] * mat2.numbers[right]
    places = table.stack([rows[left], columns2[right]])
    return SparseTensor(places, values, (mat1.shape[0], mat2.shape[1])).coalesce()


def matmul(x: Any, y: Any) -> Any:
    """`x @ y`, of which one or both are sparse: matrices, vectors (sparse ones as dense), batches
    of matrices, or a matrix and a dense batch. Two sparse matrices give a sparse one.

    Raises:
        TypeError: one is not a tensor.
        RuntimeError: shapes do not fit; the operands are on different devices.
    """
    x, y = as_operands("matmul", x, y)
    x, y = (v.to_dense() if isinstance(v, SparseTensor) and v.ndim < 2 else v for v in (x, y))
    if not x.ndim or not y.ndim or not (isinstance(x, SparseTensor) or isinstance(y, SparseTensor)):
        return table.matmul(x, y)
    if y.ndim == 1:
        return mm(x, y.unsqueeze(1)).squeeze(1) if x.ndim == 2 else matmul(x, y[:, None])[..., 0]
    if x.ndim == 1:
        return mm(x.unsqueeze(0), y).squeeze(0) if y.ndim == 2 else matmul(x[None], y)[..., 0, :]
    if x.ndim == y.ndim == 2:
        return mm(x, y)
    if y.ndim == 2:  # dense matrices by a sparse one, or sparse ones by one matrix
        if isinstance(x, SparseTensor):
            return bmm(x, dense(y).expand(x.shape[0], *y.shape))
        return mm(x.reshape(-1, x.shape[-1]), y).reshape(*x.shape[:-1], y.shape[1])
    if x.ndim == 2:
        if isinstance(y, SparseTensor):
            return bmm(dense(x).expand(y.shape[0], *x.shape), y)
        columns = table.movedim(y, -2, 0)
        out = mm(x, columns.reshape(y.shape[-2], -1))
        return table.movedim(out.reshape(x.shape[0], *columns.shape[1:]), 0, -2).contiguous()
    return bmm(x, y)


def dense(x: Any) -> Tensor:
    return x.to_dense()  # type: ignore[no-any-return]


def bmm(x: Any, y: Any) -> Tensor:
    """Products of two batches of matrices, (B, n, m) and (B, m, k), of which one or both are
    sparse: dense. It is the product of one matrix (B n, B m) that has the batch on its diagonal.
    """
    x, y = as_operands("bmm", x, y)
    if x.ndim != 3 or y.ndim != 3 or (x.shape[0], x.shape[2]) != tuple(y.shape[:2]):
        raise RuntimeError(f"bmm: the batches do not fit: {tuple(x.shape)}, {tuple(y.shape)}")
    if not isinstance(x, SparseTensor):
        return bmm(y.transpose(1, 2), x.transpose(1, 2)).transpose(1, 2).contiguous()
    n, rows, inner = x.shape
    if x.dense_dim():
        return table.bmm(x.to_dense(), dense(y))  # type: ignore[no-any-return]
    which, row, column = x.places
    places = table.stack([which * rows + row, which * inner + column])
    diagonal = SparseTensor(places, x.numbers, (n * rows, n * inner))
    out = sparse_by_dense(diagonal, dense(y).reshape(n * inner, y.shape[2]))
    return out.reshape(n, rows, y.shape[2])


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """x @ weight.T + bias, with a sparse input or weight."""
    out = matmul(x, weight.t())
    return out if bias is None else out + bias


def quotient(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    """x / y, of which one is sparse; y must not be."""
    if isinstance(x, SparseTensor):
        return x.div(y, rounding_mode=rounding_mode)
    raise RuntimeError(f"div: Sparse division requires a dense divisor: shape {tuple(y.shape)}")


_forwards: dict[str, Any] = {
    "matmul": matmul,
    "bmm": bmm,
    "linear": linear,
    "add": lambda x, y: x + y,
    "_add_alpha": lambda x, y, alpha: x + y * alpha,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": quotient,
    "floor_divide": lambda x, y: quotient(x, y, "floor"),
    "_trunc_divide": lambda x, y: quotient(x, y, "trunc"),
    "neg": lambda x: -x,
    "_to_copy": lambda x, dtype: x.to(dtype),
}
for _name, _forward in _forwards.items():
    ROWS[_name].on("sparse")(_forward)

spmm = mm


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """A product of two matrices added to a third, of which any may be sparse.

    Parameters
    ----------
    mat : Tensor or SparseTensor
        What the product is added to.
    mat1, mat2 : Tensor or SparseTensor
        `(n, m)` and `(m, k)`.
    beta : number, optional
        A factor of `mat`.
    alpha : number, optional
        A factor of the product.

    Returns
    -------
    Tensor or SparseTensor
        beta * mat + alpha * (mat1 @ mat2).

    Raises
    ------
    RuntimeError
        The shapes do not fit.

    See Also
    --------
    sparse.mm

    Examples
    --------
    >>> x = st.sparse_coo_tensor([[0, 1], [1, 0]], [3., 4.], (2, 2))
    >>> st.sparse.addmm(st.ones(2, 1), x, st.tensor([[1.], [2.]]), alpha=10)
    tensor([[61.],
            [41.]])
    """
    return mat * beta + mm(mat1, mat2) * alpha


def to_sparse(input: Tensor, sparse_dim: int | None = None) -> SparseTensor:
    """The elements that are not zero, with their indices. Copies: one."""
    n = input.ndim if sparse_dim is None else sparse_dim
    if on_device(input):
        places = places_of_nonzero(input, n)
        rows = tuple(native.wrap(row) for row in places)
        values = table._getitem(input, rows) if rows else input.reshape(1)[: places.shape[1]]
        return SparseTensor(native.wrap(places), values, input.shape, True)
    array = input.detach().numpy()
    mask = array != 0
    if n < array.ndim:
        mask = mask.any(tuple(range(n, array.ndim)))
    places = np.stack(np.nonzero(mask)) if array.ndim else np.zeros((0, int(mask)), np.int64)
    values = table._getitem(input, tuple(places)) if array.ndim else input.reshape(1)[: int(mask)]
    return SparseTensor(native.wrap(places), values, input.shape, True)


@at_operands
def places_of_nonzero(array: Any, n: int) -> Any:
    """The indices (n, nnz) of the first n dimensions where an element is not zero. It waits for
    their number.
    """
    xp = array_module(array)
    mask = array != 0
    if n < array.ndim:
        mask = mask.any(axis=tuple(range(n, array.ndim)))
    if not n:
        return xp.zeros((0, int(mask)), xp.int64)
    return xp.stack(xp.nonzero(mask)).astype(xp.int64, copy=False)


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


def sparse_dim(input: Tensor) -> int:
    """The number of sparse dimensions: 0, because the tensor is dense."""
    return 0


def dense_dim(input: Tensor) -> int:
    """The number of dense dimensions: all."""
    return input.ndim


for _name, _method in (
    ("to_sparse", to_sparse),
    ("to_sparse_coo", to_sparse),
    ("to_dense", to_dense),
    ("sparse_mask", sparse_mask),
    ("sparse_dim", sparse_dim),
    ("dense_dim", dense_dim),
):
    setattr(Tensor, _name, _method)
for _name in ("coalesce", "indices", "values", "is_coalesced"):
    setattr(Tensor, _name, refuse_strided(_name))
