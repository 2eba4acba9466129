"""Matrices, Fourier transforms, special functions: results with names."""

from __future__ import annotations

from typing_extensions import reveal_type

import shmtensor as st
from shmtensor import fft, linalg, special

A = st.randn(3, 3, dtype=st.float64)
b = st.randn(3)
reveal_type(linalg.inv(A) @ b)  # -> Tensor
reveal_type(linalg.solve(A, b))  # -> Tensor
U, S, Vh = linalg.svd(A, full_matrices=False)
reveal_type(S)  # -> Tensor
reveal_type(linalg.eigh(A).eigenvalues)  # -> Tensor
reveal_type(linalg.qr(A).Q)  # -> Tensor
reveal_type(linalg.lstsq(A, b).solution)  # -> Tensor
reveal_type(linalg.slogdet(A).logabsdet)  # -> Tensor
reveal_type(linalg.norm(A, ord="fro", dim=(0, 1)))  # -> Tensor
reveal_type(linalg.cholesky_ex(A).info)  # -> Tensor
reveal_type(linalg.matrix_rank(A))  # -> Tensor
reveal_type(st.linalg.det(A))  # -> Tensor
reveal_type(st.svd(A).V)  # -> Tensor
reveal_type(A.svd().U)  # -> Tensor
reveal_type(A.qr()[0])  # -> Tensor
reveal_type(fft.rfft(b, n=8, norm="ortho"))  # -> Tensor
reveal_type(fft.fftfreq(8, d=0.1))  # -> Tensor
reveal_type(st.fft.ifft2(A))  # -> Tensor
reveal_type(special.erf(b) + special.xlogy(b, 2.0))  # -> Tensor
reveal_type(st.signal.windows.hann(8))  # -> Tensor
reveal_type(st.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2)).to_dense())  # -> Tensor
reveal_type(A.to_sparse().values())  # -> Tensor
reveal_type(st.histogram(b, 4).hist)  # -> Tensor
reveal_type(st.cdist(A, A))  # -> Tensor
try:
    linalg.cholesky(A)
except linalg.LinAlgError as error:
    print(error)
