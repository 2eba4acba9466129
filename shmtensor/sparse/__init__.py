"""Sparse tensors, `torch.sparse` by name: in coordinate form (COO), and compressed (CSR, CSC)."""

from .compressed import SparseCompressedTensor as SparseCompressedTensor
from .compressed import sparse_compressed_tensor as sparse_compressed_tensor
from .compressed import sparse_csc as sparse_csc
from .compressed import sparse_csc_tensor as sparse_csc_tensor
from .compressed import sparse_csr as sparse_csr
from .compressed import sparse_csr_tensor as sparse_csr_tensor
from .coo import SparseTensor as SparseTensor
from .coo import addmm as addmm
from .coo import mm as mm
from .coo import sparse_coo as sparse_coo
from .coo import sparse_coo_tensor as sparse_coo_tensor
from .coo import spmm as spmm
from .scipy_matrices import from_scipy as from_scipy
from .scipy_matrices import to_scipy as to_scipy

__all__ = [
    "SparseCompressedTensor",
    "SparseTensor",
    "addmm",
    "from_scipy",
    "mm",
    "sparse_compressed_tensor",
    "sparse_coo",
    "sparse_coo_tensor",
    "sparse_csc",
    "sparse_csc_tensor",
    "sparse_csr",
    "sparse_csr_tensor",
    "spmm",
    "to_scipy",
]
