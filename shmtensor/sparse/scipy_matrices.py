"""Sparse tensors from SciPy's sparse arrays and to them, on the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import from_data
from .compressed import SparseCompressedTensor, sparse_compressed_tensor, sparse_csc, sparse_csr
from .coo import SparseTensor, sparse_coo_tensor

__all__ = ["from_scipy", "to_scipy"]


def from_scipy(matrix: Any) -> SparseTensor:
    """A sparse tensor of a SciPy sparse array or matrix, in the same form.

    Parameters
    ----------
    matrix : sparse array
        CSR, CSC or COO, of two dimensions; others have `tocsr()`.

    Returns
    -------
    SparseTensor
        Of CSR and CSC a `SparseCompressedTensor`.

    Raises
    ------
    TypeError
        Not a sparse array of SciPy's, or of another form.
    RuntimeError
        The indices of a row are not in order, or occur twice: SciPy's `sum_duplicates()` sorts and
        adds them.

    See Also
    --------
    sparse.to_scipy, from_numpy

    Notes
    -----
    Copies: none; of COO one of the indices. Tensor and array see each other's changes of values.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> matrix = csr_array([[0., 3.], [4., 0.]])
    >>> x = st.sparse.from_scipy(matrix)
    >>> x.values().mul_(10)
    tensor([30., 40.], dtype=shmtensor.float64)
    >>> matrix.toarray()
    array([[ 0., 30.],
           [40.,  0.]])
    """
    form = getattr(matrix, "format", None) if hasattr(matrix, "tocsr") else None
    if form not in ("csr", "csc", "coo") or matrix.ndim != 2:
        raise TypeError(
            "from_scipy: a sparse array of SciPy's of two dimensions is needed, CSR, CSC or COO: "
            f"a {type(matrix).__name__}"
        )
    values = from_data.from_numpy(matrix.data)
    if form == "coo":
        places = np.stack([matrix.row, matrix.col])
        return sparse_coo_tensor(places, values, matrix.shape)
    indptr, indices = (from_data.from_numpy(x) for x in (matrix.indptr, matrix.indices))
    layout = sparse_csr if form == "csr" else sparse_csc
    return sparse_compressed_tensor(indptr, indices, values, matrix.shape, layout=layout)


def to_scipy(input: SparseTensor) -> Any:
    """A SciPy sparse array of a sparse matrix, in the same form.

    Parameters
    ----------
    input : SparseTensor
        A matrix of numbers on the CPU.

    Returns
    -------
    sparse array
        `csr_array`, `csc_array` or `coo_array`.

    Raises
    ------
    RuntimeError
        It is no matrix of numbers, or requires grad: `detach()` first.
    TypeError
        It is not sparse, or on a GPU: `cpu()` first.
    ImportError
        SciPy is not installed.

    See Also
    --------
    sparse.from_scipy

    Notes
    -----
    Copies: none; of COO one of the indices. Tensor and array see each other's changes of values.

    Examples
    --------
    >>> x = st.tensor([[0., 3.], [4., 0.]]).to_sparse_csr()
    >>> matrix = st.sparse.to_scipy(x)
    >>> matrix.data *= 10
    >>> x.values()
    tensor([30., 40.])
    """
    import scipy.sparse

    if not isinstance(input, SparseTensor):
        raise TypeError(f"to_scipy: a sparse tensor is needed: a {type(input).__name__}")
    if input.ndim != 2 or input.dense_dim():
        raise RuntimeError(
            f"to_scipy: a matrix of numbers is needed: shape {tuple(input.shape)}, "
            f"{input.dense_dim()} dense dimensions"
        )
    shape, values = tuple(input.shape), input._values().numpy()
    if not isinstance(input, SparseCompressedTensor):
        rows, columns = input._indices().numpy()
        return scipy.sparse.coo_array((values, (rows, columns)), shape=shape, copy=False)
    cls = scipy.sparse.csr_array if input.layout is sparse_csr else scipy.sparse.csc_array
    indptr, indices, _ = input.parts().values()
    return cls((values, indices.numpy(), indptr.numpy()), shape=shape, copy=False)
