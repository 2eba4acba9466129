"""Sparse matrices in compressed form, by rows (CSR) or by columns (CSC).

A compressed matrix has the memory of SciPy's: the values, in order, with the column of each (CSR),
and for each row where its values begin. Arithmetic and products are those of coordinate form: the
rows of the values are computed when they are first needed.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from .. import dtypes, native
from ..autograd.dispatch.op_function import table
from ..tensor import Tensor, from_data
from ..tensor.torch_constants import layout as Layout
from ..tensor.torch_constants import sparse_csc, sparse_csr
from .coo import SparseTensor

__all__ = [
    "SparseCompressedTensor",
    "sparse_compressed_tensor",
    "sparse_csc",
    "sparse_csc_tensor",
    "sparse_csr",
    "sparse_csr_tensor",
]

# The names of the two tensors of indices, and the other layout's.
NAMES = {sparse_csr: ("crow_indices", "col_indices"), sparse_csc: ("ccol_indices", "row_indices")}


class SparseCompressedTensor(SparseTensor):
    """A matrix that stores only some of its elements, compressed by rows (CSR) or columns (CSC).

    Parameters
    ----------
    compressed_indices : Tensor
        int64 or int32, `(n + 1,)`: where the elements of each row (CSC: column) begin, and their
        number.
    plain_indices : Tensor
        Of the same dtype, `(nnz,)`: the column (CSC: row) of each element.
    values : Tensor
        `(nnz,)`.
    shape : tuple of int
        Of the matrix.
    layout : layout
        `sparse_csr` or `sparse_csc`.

    See Also
    --------
    sparse_csr_tensor

    Notes
    -----
    It has the arithmetic and the products of `SparseTensor`; sums and products with sparse ones
    have its layout. `sparse_csr_tensor` checks its arguments; this does not. The first product, or
    other operation that needs it, computes the row and column of each element, `(2, nnz)`, which
    the tensor keeps.

    Examples
    --------
    >>> parts = st.tensor([0, 1, 2]), st.tensor([1, 0]), st.tensor([3., 4.])
    >>> x = st.sparse.SparseCompressedTensor(*parts, (2, 2), st.sparse_csr)
    >>> x.to_dense()
    tensor([[0., 3.],
            [4., 0.]])
    """

    is_sparse = False  # as PyTorch's: it is of coordinate form alone
    compressed: Tensor
    plain: Tensor
    numbers: Tensor
    shape: native.Size
    layout: Layout
    ordered: bool
    is_sparse_csr: bool

    def __init__(
        self,
        compressed_indices: Tensor,
        plain_indices: Tensor,
        values: Tensor,
        shape: tuple[int, ...],
        layout: Layout,
    ) -> None:
        self.compressed, self.plain, self.numbers = compressed_indices, plain_indices, values
        self.shape, self.layout = native.Size(shape), layout
        self.ordered = self.is_sparse_csr = layout is sparse_csr

    @cached_property
    def places(self) -> Tensor:  # type: ignore[override]
        """The row and the column of each element: int64, (2, nnz)."""
        starts = self.compressed.long()
        n = table.arange(starts.shape[0] - 1, device=starts.device)
        major = table.repeat_interleave(n, starts[1:] - starts[:-1])
        both = [major, self.plain.long()]
        return table.stack(both if self.layout is sparse_csr else both[::-1])  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        parts = (*self.parts().values(), tuple(self.shape), self.layout)
        return SparseCompressedTensor, parts

    # ------------------------------------------------------------ properties

    def sparse_dim(self) -> int:
        return 2

    def _nnz(self) -> int:
        return int(self.numbers.shape[0])

    def parts(self) -> dict[str, Tensor]:
        tensors = (self.compressed, self.plain, self.numbers)
        return dict(zip((*NAMES[self.layout], "values"), tensors, strict=True))

    def part_of(self, layout: Layout, i: int) -> Tensor:
        """One of the two tensors of indices.

        Raises:
            RuntimeError: the tensor has the other layout.
        """
        name = NAMES[layout][i]
        if self.layout is not layout:
            kind = "row" if layout is sparse_csr else "column"
            raise RuntimeError(
                f"{name}: expected sparse {kind} compressed tensor layout but got {self.layout}: "
                f"shape {tuple(self.shape)}, use {NAMES[self.layout][i]}()"
            )
        return self.plain if i else self.compressed

    def crow_indices(self) -> Tensor:
        """Where the elements of each row begin, and their number: of CSR.

        Returns
        -------
        Tensor
            int64 or int32, `(rows + 1,)`.

        Raises
        ------
        RuntimeError
            The layout is CSC.

        Notes
        -----
        Copies: none.

        Examples
        --------
        >>> st.tensor([[0., 3.], [4., 0.]]).to_sparse_csr().crow_indices()
        tensor([0, 1, 2])
        """
        return self.part_of(sparse_csr, 0)

    def col_indices(self) -> Tensor:
        """The column of each element: of CSR.

        Returns
        -------
        Tensor
            int64 or int32, `(nnz,)`.

        Raises
        ------
        RuntimeError
            The layout is CSC.

        Notes
        -----
        Copies: none.

        Examples
        --------
        >>> st.tensor([[0., 3.], [4., 0.]]).to_sparse_csr().col_indices()
        tensor([1, 0])
        """
        return self.part_of(sparse_csr, 1)

    def ccol_indices(self) -> Tensor:
        """Where the elements of each column begin, and their number: of CSC.

        Returns
        -------
        Tensor
            int64 or int32, `(columns + 1,)`.

        Raises
        ------
        RuntimeError
            The layout is CSR.

        Notes
        -----
        Copies: none.

        Examples
        --------
        >>> st.tensor([[0., 3.], [4., 0.]]).to_sparse_csc().ccol_indices()
        tensor([0, 1, 2])
        """
        return self.part_of(sparse_csc, 0)

    def row_indices(self) -> Tensor:
        """The row of each element: of CSC.

        Returns
        -------
        Tensor
            int64 or int32, `(nnz,)`.

        Raises
        ------
        RuntimeError
            The layout is CSR.

        Notes
        -----
        Copies: none.

        Examples
        --------
        >>> st.tensor([[0., 3.], [4., 0.]]).to_sparse_csc().row_indices()
        tensor([1, 0])
        """
        return self.part_of(sparse_csc, 1)

    def indices(self) -> Tensor:
        """An error: the tensor has `crow_indices` and `col_indices`, or `ccol_indices` and
        `row_indices`.
        """
        raise RuntimeError(
            f"indices: expected sparse coordinate tensor layout but got {self.layout}: shape "
            f"{tuple(self.shape)}, use {' and '.join(NAMES[self.layout])}, or to_sparse_coo()"
        )

    def values(self) -> Tensor:
        return self.numbers

    # ------------------------------------------------------------ other forms

    def to_sparse(self, *unused: Any) -> SparseTensor:
        """The matrix in coordinate form. Copies: none of the values."""
        return SparseTensor(self.places, self.numbers, self.shape, self.ordered)

    def to_sparse_coo(self) -> SparseTensor:
        """The matrix in coordinate form. Copies: none of the values."""
        return self.to_sparse()

    def coalesce(self) -> SparseTensor:
        return self if self.ordered else self.to_sparse().coalesce()

    def clone(self) -> SparseCompressedTensor:
        compressed, plain, values = (x.clone() for x in self.parts().values())
        return SparseCompressedTensor(compressed, plain, values, self.shape, self.layout)

    def with_values(self, values: Tensor) -> SparseCompressedTensor:
        compressed, plain = (x.to(values.device) for x in (self.compressed, self.plain))
        result = SparseCompressedTensor(compressed, plain, values, self.shape, self.layout)
        if "places" in vars(self) and self.device == values.device:
            vars(result)["places"] = self.places
        return result

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        """The transpose, of the other layout. Copies: none."""
        if (dim0 % 2, dim1 % 2) not in ((0, 1), (1, 0)):
            return self
        layout = sparse_csc if self.layout is sparse_csr else sparse_csr
        shape = self.shape[::-1]
        return SparseCompressedTensor(self.compressed, self.plain, self.numbers, shape, layout)

    def in_layout(self, result: Any) -> Any:
        if type(result) is not SparseTensor:
            return result
        return compress("to_sparse", result, self.layout)

    def take_over(self, other: SparseTensor, values: Tensor) -> None:
        x = self.in_layout(other.to_sparse().with_values(values))
        self.compressed, self.plain, self.numbers = x.parts().values()
        vars(self).pop("places", None)


def compress(where: str, x: SparseTensor, layout: Layout) -> SparseCompressedTensor:
    """A matrix in coordinate form, compressed. Copies: none of the values if it is coalesced, and
    `layout` is CSR.

    Raises:
        RuntimeError: it is no matrix, or has dense dimensions.
    """
    if x.ndim != 2 or x.dense_dim():
        raise RuntimeError(
            f"{where}: only matrices of numbers can be compressed: shape {tuple(x.shape)}, "
            f"{x.dense_dim()} dense dimensions"
        )
    y = (x if layout is sparse_csr else x.t()).coalesce()
    major, plain = y.places
    starts = table.arange(y.shape[0] + 1, device=y.device)
    compressed = table.searchsorted(major.contiguous(), starts)
    return SparseCompressedTensor(compressed, plain, y.numbers, x.shape, layout)


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Layout | None = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseCompressedTensor:
    """A compressed sparse matrix of a given layout: `sparse_csr_tensor` or `sparse_csc_tensor`.

    Parameters
    ----------
    compressed_indices : array_like
        Integers, `(n + 1,)`: where the elements of each row (CSC: column) begin, and their number.
    plain_indices : array_like
        Integers, `(nnz,)`: the column (CSC: row) of each element, in increasing order in each row.
    values : array_like
        `(nnz,)`.
    size : sequence of int, optional
        Of the matrix; by default the smallest possible.
    dtype : dtype, optional
        By default that of the values.
    layout : layout
        `sparse_csr` or `sparse_csc`.
    device : Device or str, optional
        By default that of the values; the indices are moved there.
    requires_grad : bool, optional
        Whether operations on the tensor are recorded for its gradient.
    check_invariants : bool, optional
        On a GPU, whether the indices are checked, which waits for the device; by default they are
        not. On the CPU they always are.

    Returns
    -------
    SparseCompressedTensor
        Its `to_dense()` is the tensor with all elements.

    Raises
    ------
    RuntimeError
        The shapes do not fit, or the indices are not those of a matrix.
    ValueError
        There is no such layout.

    See Also
    --------
    sparse_csr_tensor, sparse_csc_tensor

    Notes
    -----
    Copies: none of tensors. Indices of int32 stay as they are, those of other dtypes become int64.

    Examples
    --------
    >>> parts = [0, 1, 2], [1, 0], [3., 4.]
    >>> st.sparse_compressed_tensor(*parts, layout=st.sparse_csc).to_dense()
    tensor([[0., 4.],
            [3., 0.]])
    """
    if layout not in NAMES:
        raise ValueError(
            "sparse_compressed_tensor: expected compressed sparse tensor layout, sparse_csr or "
            f"sparse_csc, but got {layout}"
        )
    where = f"{str(layout).rpartition('.')[2]}_tensor"
    numbers: Tensor = from_data.as_tensor(values, dtype=dtype, device=device)
    indices = [from_data.as_tensor(x) for x in (compressed_indices, plain_indices)]
    for x in indices:
        if x.numel() and (x.is_floating_point() or x.is_complex() or x.dtype == dtypes.bool):
            raise RuntimeError(f"{where}: the indices must be int32 or int64: {x.dtype}")
    if not all(x.dtype == dtypes.int32 for x in indices):
        indices = [from_data.as_tensor(x, dtype=dtypes.int64) for x in indices]
    compressed, plain = (x.to(numbers.device) for x in indices)
    names = NAMES[layout]
    if (compressed.ndim, plain.ndim, numbers.ndim) != (1, 1, 1) or not compressed.shape[0]:
        raise RuntimeError(
            f"{where}: {names[0]} of shape (n + 1,), {names[1]} and values of shape (nnz,) are "
            f"needed: {tuple(compressed.shape)}, {tuple(plain.shape)}, {tuple(numbers.shape)}, "
            "batches and dense dimensions are not there"
        )
    if plain.shape != numbers.shape:
        raise RuntimeError(
            f"{where}: {names[1]} and values must have the same nnz: {plain.shape[0]} and "
            f"{numbers.shape[0]}"
        )
    n = compressed.shape[0] - 1
    if size is None:
        m = int(plain.max()) + 1 if plain.shape[0] else 0
        size = (n, m) if layout is sparse_csr else (m, n)
    shape = tuple(int(i) for i in size)
    major, minor = (shape if layout is sparse_csr else shape[::-1]) if len(shape) == 2 else (-1, -1)
    if major != n:
        raise RuntimeError(
            f"{where}: size is inconsistent with {names[0]}: {shape}, {n + 1} of these"
        )
    if check_invariants or not numbers.is_cuda:
        check_indices(where, names, compressed.cpu().array, plain.cpu().array, minor)
    result = SparseCompressedTensor(compressed, plain, numbers, shape, layout)
    if requires_grad:
        result.requires_grad_()
    return result


def check_indices(
    where: str, names: tuple[str, str], compressed: Any, plain: Any, minor: int
) -> None:
    """Raises RuntimeError if arrays are not the indices of a matrix with rows of size minor."""
    first, second = names

    def require(is_so: bool, what: str, found: Any) -> None:
        if not is_so:
            raise RuntimeError(f"{where}: `{what}` is not satisfied: {found}")

    nnz, lengths = len(plain), np.diff(compressed)
    require(compressed[0] == 0, f"{first}[..., 0] == 0", compressed[0])
    require(compressed[-1] == nnz, f"{first}[..., -1] == nnz", f"{compressed[-1]}, nnz {nnz}")
    # Indices may be so large that their difference overflows: what decreases is compared itself.
    wrong = np.flatnonzero((compressed[1:] < compressed[:-1]) | (lengths > minor))[:1]
    what = f"0 <= {first}[..., 1:] - {first}[..., :-1] <= {minor}"
    require(not wrong.size, what, [f"{lengths[i]} at {i}" for i in wrong])
    wrong = np.flatnonzero((plain < 0) | (plain >= minor))[:1]
    require(not wrong.size, f"0 <= {second} < {minor}", [f"{plain[i]} at {i}" for i in wrong])
    does_not_increase, starts = np.diff(plain) <= 0, compressed[1:-1]
    does_not_increase[starts[(starts > 0) & (starts < nnz)] - 1] = False  # a new row begins
    wrong = np.flatnonzero(does_not_increase)[:1]
    what = f"{second}[..., {first}[..., i - 1]:{first}[..., i]] are sorted and distinct"
    require(not wrong.size, what, [f"{plain[i : i + 2].tolist()} at {i}" for i in wrong])


def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseCompressedTensor:
    """A sparse matrix that is compressed by rows (CSR).

    Parameters
    ----------
    crow_indices : array_like
        Integers, `(rows + 1,)`: where the elements of each row begin, and their number.
    col_indices : array_like
        Integers, `(nnz,)`: the column of each element, in increasing order in each row.
    values : array_like
        `(nnz,)`.
    size : sequence of int, optional
        Of the matrix; by default the smallest possible.
    dtype, device, requires_grad, check_invariants : optional
        As for `sparse_compressed_tensor`.

    Returns
    -------
    SparseCompressedTensor
        Its `to_dense()` is the tensor with all elements.

    Raises
    ------
    RuntimeError
        The shapes do not fit, or the indices are not those of a matrix.

    See Also
    --------
    Tensor.to_sparse_csr, sparse.from_scipy, sparse.mm

    Notes
    -----
    Copies: none of tensors. Indices of int32 stay as they are, those of other dtypes become int64.

    Examples
    --------
    >>> x = st.sparse_csr_tensor([0, 1, 3], [1, 0, 1], [3., 4., 5.], (2, 2))
    >>> x.to_dense()
    tensor([[0., 3.],
            [4., 5.]])
    >>> x @ st.tensor([1., 10.])
    tensor([30., 54.])
    """
    return sparse_compressed_tensor(
        crow_indices,
        col_indices,
        values,
        size,
        dtype=dtype,
        layout=sparse_csr,
        device=device,
        requires_grad=requires_grad,
        check_invariants=check_invariants,
    )


def sparse_csc_tensor(
    ccol_indices: Any,
    row_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseCompressedTensor:
    """A sparse matrix that is compressed by columns (CSC).

    Parameters
    ----------
    ccol_indices : array_like
        Integers, `(columns + 1,)`: where the elements of each column begin, and their number.
    row_indices : array_like
        Integers, `(nnz,)`: the row of each element, in increasing order in each column.
    values : array_like
        `(nnz,)`.
    size : sequence of int, optional
        Of the matrix; by default the smallest possible.
    dtype, device, requires_grad, check_invariants : optional
        As for `sparse_compressed_tensor`.

    Returns
    -------
    SparseCompressedTensor
        Its `to_dense()` is the tensor with all elements.

    Raises
    ------
    RuntimeError
        The shapes do not fit, or the indices are not those of a matrix.

    See Also
    --------
    sparse_csr_tensor

    Notes
    -----
    Copies: none of tensors. Indices of int32 stay as they are, those of other dtypes become int64.

    Examples
    --------
    >>> st.sparse_csc_tensor([0, 1, 3], [1, 0, 1], [3., 4., 5.], (2, 2)).to_dense()
    tensor([[0., 4.],
            [3., 5.]])
    """
    return sparse_compressed_tensor(
        ccol_indices,
        row_indices,
        values,
        size,
        dtype=dtype,
        layout=sparse_csc,
        device=device,
        requires_grad=requires_grad,
        check_invariants=check_invariants,
    )


def to_sparse_csr(
    input: Tensor | SparseTensor, dense_dim: int | None = None
) -> SparseCompressedTensor:
    """The elements of a matrix that are not zero, compressed by rows: CSR.

    Parameters
    ----------
    input : Tensor or SparseTensor
        A matrix of numbers; also `input.to_sparse_csr()`.
    dense_dim : int, optional
        0, the only one that is there.

    Returns
    -------
    SparseCompressedTensor
        `input` itself if it has this layout; of another sparse tensor all elements that it stores.

    Raises
    ------
    RuntimeError
        It is no matrix of numbers.

    Notes
    -----
    Copies: one; of a coalesced tensor none of the values.

    Examples
    --------
    >>> st.tensor([[0., 3.], [4., 0.]]).to_sparse_csr()
    tensor(crow_indices=tensor([0, 1, 2]),
           col_indices=tensor([1, 0]),
           values=tensor([3., 4.]),
           size=(2, 2), nnz=2, layout=shmtensor.sparse_csr)
    """
    return compressed_of("to_sparse_csr", input, dense_dim, sparse_csr)


def to_sparse_csc(
    input: Tensor | SparseTensor, dense_dim: int | None = None
) -> SparseCompressedTensor:
    """The elements of a matrix that are not zero, compressed by columns: CSC.

    Parameters
    ----------
    input : Tensor or SparseTensor
        A matrix of numbers; also `input.to_sparse_csc()`.
    dense_dim : int, optional
        0, the only one that is there.

    Returns
    -------
    SparseCompressedTensor
        `input` itself if it has this layout; of another sparse tensor all elements that it stores.

    Raises
    ------
    RuntimeError
        It is no matrix of numbers.

    Notes
    -----
    Copies: one.

    Examples
    --------
    >>> st.tensor([[0., 3.], [4., 0.]]).to_sparse_csc()
    tensor(ccol_indices=tensor([0, 1, 2]),
           row_indices=tensor([1, 0]),
           values=tensor([4., 3.]),
           size=(2, 2), nnz=2, layout=shmtensor.sparse_csc)
    """
    return compressed_of("to_sparse_csc", input, dense_dim, sparse_csc)


def compressed_of(
    where: str, input: Tensor | SparseTensor, dense_dim: int | None, layout: Layout
) -> SparseCompressedTensor:
    """`to_sparse_csr` or `to_sparse_csc`."""
    if dense_dim or input.ndim != 2:
        raise RuntimeError(
            f"{where}: only matrices of numbers can be compressed: shape {tuple(input.shape)}, "
            f"{dense_dim or 0} dense dimensions"
        )
    if isinstance(input, SparseCompressedTensor) and input.layout is layout:
        return input
    return compress(where, input.to_sparse(), layout)


for _name, _method in (("to_sparse_csr", to_sparse_csr), ("to_sparse_csc", to_sparse_csc)):
    for _class in (Tensor, SparseTensor):
        setattr(_class, _name, _method)
