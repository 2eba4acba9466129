"""Products of matrices by cuBLAS, without copies of transposed or broadcast operands.

CuPy's `matmul` copies what is not contiguous, multiplies a batch of 16-bit floats in float32, and
multiplies a batch by one matrix as many small products. Here 16-bit floats stay so (cuBLAS adds in
float32), a batch times one matrix is one product, and a bias is what the sum begins with.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple

import cupy
import cupy_backends.cuda.stream as backend_stream
import numpy as np

from ... import native
from ...cupy_runtime import state as cupy_state
from ...dtypes import bfloat16
from ..linalg import matmul as rows
from .copies import fill_rows

cublas, runtime = cupy.cuda.cublas, cupy.cuda.runtime
ndarray, get_handle = cupy.ndarray, cupy.cuda.device.get_cublas_handle
TF32, DEFAULT = cublas.CUBLAS_COMPUTE_32F_FAST_TF32, cublas.CUBLAS_GEMM_DEFAULT


class Kind(NamedTuple):
    """How cuBLAS multiplies matrices of a dtype.

    Attributes:
        elements, sums: types of the elements, and of the sums where all bits are wanted.
        fast_sums: of the sums where they are not.
        zero, one: host addresses of alpha and beta.
    """

    elements: int
    sums: int
    fast_sums: int
    zero: int
    one: int


def constants(dtype: Any) -> tuple[int, int]:
    """The addresses of 0 and 1 in host memory that is never freed."""
    numbers = CONSTANTS.setdefault(dtype, np.array([0, 1], dtype))
    return numbers.ctypes.data, numbers.ctypes.data + numbers.itemsize


CONSTANTS: dict[Any, Any] = {}
SINGLE, DOUBLE = cublas.CUBLAS_COMPUTE_32F, cublas.CUBLAS_COMPUTE_64F
KINDS: dict[Any, Kind] = {
    np.dtype(dtype): Kind(elements, sums, fast, *constants(number))
    for dtype, elements, sums, fast, number in (
        (np.float16, runtime.CUDA_R_16F, SINGLE, SINGLE, np.float32),
        (bfloat16, runtime.CUDA_R_16BF, SINGLE, SINGLE, np.float32),
        (np.float32, runtime.CUDA_R_32F, SINGLE, TF32, np.float32),
        (np.float64, runtime.CUDA_R_64F, DOUBLE, DOUBLE, np.float64),
        (np.complex64, runtime.CUDA_C_32F, SINGLE, TF32, np.complex64),
        (np.complex128, runtime.CUDA_C_64F, DOUBLE, DOUBLE, np.complex128),
    )
}


def find_gemm() -> Any:
    """cublas.gemmEx of CuPy, or a faster function with the same arguments: that of cublas.cc, with
    cuBLAS's functions as CuPy's module is linked with them.
    """
    names = ("cublasGemmEx", "cublasGetStream_v2", "cublasSetStream_v2")
    stream = getattr(backend_stream, "__pyx_capi__", {}).get("get_current_stream_ptr")
    try:
        library = ctypes.CDLL(cublas.__file__)  # which is loaded, with its dependencies
        functions = [ctypes.cast(getattr(library, name), ctypes.c_void_p) for name in names]
    except (AttributeError, OSError):
        return cublas.gemmEx
    gemm_at, get_at, set_at = (function.value or 0 for function in functions)
    if not native.set_cublas(stream, gemm_at, get_at, set_at):
        return cublas.gemmEx
    gemm_ex, check = native.gemm_ex, cublas.check_status

    def gemm(*arguments: int) -> None:
        if status := gemm_ex(*arguments):
            check(status)

    return gemm


gemm = find_gemm()


def layout_of(n: int, m: int, row: int, column: int) -> tuple[int, int] | None:
    """(transposed, leading dimension) of a matrix (n, m) as BLAS reads it; None: it cannot.

    Args:
        row, column: its strides, in elements.
    """
    if (column == 1 or m == 1) and (row >= max(m, 1) or n == 1):
        return 0, max(row, m) if n > 1 else m
    if (row == 1 or n == 1) and (column >= max(n, 1) or m == 1):
        return 1, max(column, n) if m > 1 else n
    return None


def leading_dimension(x: Any) -> tuple[int, int] | None:
    """`layout_of` of the matrices of an array (..., n, m)."""
    itemsize = x.itemsize
    (n, m), (row, column) = x.shape[-2:], x.strides[-2:]
    return layout_of(n, m, row // itemsize, column // itemsize)


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
    """x @ y, of arrays (..., n, k) and (..., k, m) of one dtype, or of vectors. Copies: an operand
    that BLAS cannot read.

    Args:
        bias: (m,), added; only if y has two dimensions.

    Raises:
        ValueError: the shapes do not fit.
    """
    dtype = x.dtype
    kind = KINDS.get(dtype)
    if kind is None or dtype is not y.dtype or not (x.ndim and y.ndim):
        out = cupy.matmul(x, y)
        return out if bias is None else out + bias
    if y.ndim == 2 and x.ndim > 1:
        (k, m), (row, column) = y.shape, y.strides
        if x.shape[-1] == k:
            return rows_by_matrix(kind, x, y, k, m, row, column, bias)
    a = x[None] if x.ndim == 1 else x
    b = y[:, None] if y.ndim == 1 else y
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"matmul: the shapes do not fit: {x.shape}, {y.shape}")
    if b.ndim == 2:
        (k, m), (row, column) = b.shape, b.strides
        out = rows_by_matrix(kind, a, b, k, m, row, column, bias)
    else:
        out = multiply(kind, a, b, np.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    out = out[..., 0] if y.ndim == 1 else out
    return out[..., 0, :] if x.ndim == 1 and y.ndim > 1 else out[..., 0] if x.ndim == 1 else out


def rows_by_matrix(
    kind: Kind, x: Any, y: Any, k: int, m: int, row: int, column: int, bias: Any
) -> Any:
    """x (..., n, k) times y, a matrix (k, m) with strides (row, column) in bytes, as one product:
    y itself may be its transpose.
    """
    shape, dtype = x.shape, x.dtype
    itemsize = dtype.itemsize
    out = ndarray((*shape[:-1], m), dtype)
    size = out.size
    if bias is not None:
        if size:
            fill_rows(out, bias)
    elif not k:
        out.fill(0)
    if not (size and k):
        return out
    n = size // m
    if len(shape) > 2:
        if not x.flags.c_contiguous:
            x = x.reshape(n, k)
            x_row, x_column = x.strides
        else:
            x_row, x_column = k * itemsize, itemsize
    else:
        x_row, x_column = x.strides
    if x_column == itemsize and x_row == k * itemsize:
        transposed, leading = 0, k
    elif (layout := layout_of(n, k, x_row // itemsize, x_column // itemsize)) is not None:
        transposed, leading = layout
    else:
        x = cupy.ascontiguousarray(x)
        transposed, leading = 0, k
    if column == itemsize and row == m * itemsize:
        y_transposed, y_leading = 0, m
    elif row == itemsize and column == k * itemsize:
        y_transposed, y_leading = 1, k
    elif (layout := layout_of(k, m, row // itemsize, column // itemsize)) is not None:
        y_transposed, y_leading = layout
    else:
        is_in_order = y.shape == (k, m) and y.strides == (row, column)
        y = cupy.ascontiguousarray(y if is_in_order else y.swapaxes(0, 1))
        y_transposed, y_leading = 0, m
    elements = kind.elements
    # BLAS has columns where we have rows: out.T = y.T @ x.T
    gemm(
        get_handle(), y_transposed, transposed, m, n, k, kind.one,
        y.data.ptr, elements, y_leading, x.data.ptr, elements, leading,
        kind.zero if bias is None else kind.one, out.data.ptr, elements, m,
        kind.sums if cupy_state.precision == "highest" else kind.fast_sums, DEFAULT,
    )  # fmt: skip
    return out


def multiply(kind: Kind, a: Any, b: Any, batch: tuple[int, ...]) -> Any:
    """The products of two batches of matrices."""
    (n, k), m = a.shape[-2:], b.shape[-1]
    out = ndarray((*batch, n, m), a.dtype)
    if not k:
        out.fill(0)
    if not (out.size and k):
        return out
    a, a_transposed, a_leading, a_stride = operand(a, batch)
    b, b_transposed, b_leading, b_stride = operand(b, batch)
    elements = kind.elements
    cublas.gemmStridedBatchedEx(
        get_handle(), b_transposed, a_transposed, m, n, k, kind.one,
        b.data.ptr, elements, b_leading, b_stride, a.data.ptr, elements, a_leading, a_stride,
        kind.zero, out.data.ptr, elements, m, n * m, math.prod(batch),
        kind.sums if cupy_state.precision == "highest" else kind.fast_sums,
        DEFAULT,
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
    shape, dtype = weight.shape, weight.dtype
    fits = x.ndim and x.shape[-1] == shape[1]  # else `product` says so
    if bias is not None and fits and bias.shape != shape[:1]:
        raise RuntimeError(
            f"linear: the bias does not match the weight: {bias.shape}, weight {shape}"
        )
    kind = KINDS.get(dtype)
    if not fits or x.ndim == 1 or kind is None or x.dtype is not dtype:
        return product(x, weight.swapaxes(0, 1), bias)
    if bias is not None and bias.dtype is not dtype:
        bias = bias.astype(dtype)
    m, k = shape
    column, row = weight.strides
    return rows_by_matrix(kind, x, weight, k, m, row, column, bias)
