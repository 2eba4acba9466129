"""Products of matrices by cuBLAS, without copies of transposed or broadcast operands.

CuPy's `matmul` copies what is not contiguous, multiplies a batch of 16-bit floats in float32, and
multiplies a batch by one matrix as many small products. Here 16-bit floats stay so (cuBLAS adds in
float32), a batch times one matrix is one product, and a bias is what the sum begins with.
"""

from __future__ import annotations

import math
from typing import Any

import cupy
import numpy as np

from ... import cupy_runtime
from ...dtypes import bfloat16
from ..linalg import matmul as rows

__all__ = ["product"]

cublas, runtime = cupy.cuda.cublas, cupy.cuda.runtime
TF32 = cublas.CUBLAS_COMPUTE_32F_FAST_TF32
# dtype -> type of the elements, of the sums, dtype of alpha and beta.
TYPES: dict[Any, tuple[int, int, Any]] = {
    np.dtype(np.float16): (runtime.CUDA_R_16F, cublas.CUBLAS_COMPUTE_32F, np.float32),
    bfloat16: (runtime.CUDA_R_16BF, cublas.CUBLAS_COMPUTE_32F, np.float32),
    np.dtype(np.float32): (runtime.CUDA_R_32F, cublas.CUBLAS_COMPUTE_32F, np.float32),
    np.dtype(np.float64): (runtime.CUDA_R_64F, cublas.CUBLAS_COMPUTE_64F, np.float64),
    np.dtype(np.complex64): (runtime.CUDA_C_32F, cublas.CUBLAS_COMPUTE_32F, np.complex64),
    np.dtype(np.complex128): (runtime.CUDA_C_64F, cublas.CUBLAS_COMPUTE_64F, np.complex128),
}
SINGLE = (runtime.CUDA_R_32F, runtime.CUDA_C_32F)
NUMBERS = {t: (np.zeros((), t), np.ones((), t)) for _, _, t in TYPES.values()}


def leading_dimension(x: Any) -> tuple[int, int] | None:
    """(transposed, leading dimension) of the matrices of x as BLAS reads them; None: it cannot."""
    n, m = x.shape[-2:]
    row, column = (stride // x.itemsize for stride in x.strides[-2:])
    if (column == 1 or m == 1) and (row >= max(m, 1) or n == 1):
        return 0, max(row, m) if n > 1 else m
    if (row == 1 or n == 1) and (column >= max(n, 1) or m == 1):
        return 1, max(column, n) if m > 1 else n
    return None


def batch_stride(x: Any, batch: tuple[int, ...]) -> int | None:
    """The elements from one matrix of a broadcast batch to the next; None: there is no such
    number.
    """
    strides = (0,) * (len(batch) + 2 - x.ndim) + x.strides[:-2]
    sizes = (1,) * (len(batch) + 2 - x.ndim) + x.shape[:-2]
    step: int | None = None
    count = 1
    for size, stride, n in zip(reversed(sizes), reversed(strides), reversed(batch)):
        if n == 1:
            continue
        stride = 0 if size == 1 else stride
        if step is None:
            step = stride
        elif stride != step * count:
            return None
        count *= n
    itemsize: int = x.itemsize
    return (step or 0) // itemsize


def operand(x: Any, batch: tuple[int, ...]) -> tuple[Any, int, int, int]:
    """x or a copy, whether it is transposed, its leading dimension, and its batch stride."""
    layout, stride = leading_dimension(x), batch_stride(x, batch)
    if layout is None or stride is None:
        x = cupy.ascontiguousarray(
            x if stride is not None else cupy.broadcast_to(x, (*batch, *x.shape[-2:]))
        )
        layout, stride = leading_dimension(x), batch_stride(x, batch)
    assert layout is not None
    assert stride is not None
    return x, *layout, stride


def product(x: Any, y: Any, bias: Any = None) -> Any:
    """x @ y + bias, of arrays (..., n, k) and (..., k, m) of one dtype, or of vectors. Copies: an
    operand that BLAS cannot read.

    Raises:
        ValueError: the shapes do not fit.
    """
    if x.dtype not in TYPES or x.dtype is not y.dtype or not (x.ndim and y.ndim):
        out = cupy.matmul(x, y)
        return out if bias is None else out + bias
    a = x[None] if x.ndim == 1 else x
    b = y[:, None] if y.ndim == 1 else y
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"matmul: the shapes do not fit: {x.shape}, {y.shape}")
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = (*batch, a.shape[-2], b.shape[-1])
    if b.ndim == 2 < a.ndim:  # one product
        a = a.reshape(math.prod(a.shape[:-1]), a.shape[-1])
    out = multiply(a, b, batch if b.ndim > 2 else (), bias).reshape(shape)
    out = out[..., 0] if y.ndim == 1 else out
    return out[..., 0, :] if x.ndim == 1 and y.ndim > 1 else out[..., 0] if x.ndim == 1 else out


def multiply(a: Any, b: Any, batch: tuple[int, ...], bias: Any) -> Any:
    """The products of two batches of matrices, and a bias that is broadcast to them."""
    (n, k), m = a.shape[-2:], b.shape[-1]
    out = cupy.empty((*batch, n, m), a.dtype)
    if bias is not None:
        out[...] = bias
    elif not k:
        out[...] = 0
    if not (out.size and k):
        return out
    kind, sums, number = TYPES[a.dtype]
    if cupy_runtime.state.precision != "highest" and kind in SINGLE:
        sums = TF32
    zero, one = NUMBERS[number]
    a, a_transposed, a_ld, a_stride = operand(a, batch)
    b, b_transposed, b_ld, b_stride = operand(b, batch)
    start = (zero if bias is None else one).ctypes.data
    handle = cupy.cuda.device.get_cublas_handle()
    # BLAS has columns where we have rows: out.T = b.T @ a.T
    if (count := math.prod(batch)) == 1:
        cublas.gemmEx(
            handle, b_transposed, a_transposed, m, n, k, one.ctypes.data,
            b.data.ptr, kind, b_ld, a.data.ptr, kind, a_ld, start,
            out.data.ptr, kind, m, sums, cublas.CUBLAS_GEMM_DEFAULT,
        )  # fmt: skip
    else:
        cublas.gemmStridedBatchedEx(
            handle, b_transposed, a_transposed, m, n, k, one.ctypes.data,
            b.data.ptr, kind, b_ld, b_stride, a.data.ptr, kind, a_ld, a_stride, start,
            out.data.ptr, kind, m, n * m, count, sums, cublas.CUBLAS_GEMM_DEFAULT,
        )  # fmt: skip
    return out


@rows.matmul.on("cuda")
def matmul(xp, x, y, /):
    """By cuBLAS."""
    return product(x, y)


@rows.bmm.on("cuda")
def bmm(xp, x, mat2, /):
    """By cuBLAS."""
    rows.check_batches(x, mat2)
    return product(x, mat2)


@rows.linear.on("cuda")
def linear(xp, x, weight, bias=None, /):
    """By cuBLAS; the bias is what the sum begins with.

    Raises:
        RuntimeError: the bias does not have the weight's first size.
        ValueError: the shapes of x and weight do not fit.
    """
    if weight.ndim != 2:
        out = product(x, weight)
        return out if bias is None else out + bias
    fits = x.ndim and x.shape[-1] == weight.shape[1]  # else `product` says so
    if bias is not None and fits and bias.shape != weight.shape[:1]:
        raise RuntimeError(
            f"linear: the bias does not match the weight: {bias.shape}, weight {weight.shape}"
        )
    return product(x, weight.swapaxes(0, 1), bias)
