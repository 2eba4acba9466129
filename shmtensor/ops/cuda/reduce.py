"""Reductions and cumulative ops for CUDA: sums and means by our kernels, others where CuPy's ufuncs
have no `reduce` or `accumulate`.

A cumulative op of n elements is log2(n) passes (Hillis and Steele 1986): in the pass of `shift`
each element is combined with the one `shift` places before it, which covers as many elements.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from ..pointwise.exp_log_erf import complex_logaddexp
from ..reduce.histogram import histc_range
from ..reduce.sum_mean_var import check_mean_dtype, nonempty_axes
from ..table.cast_copy_sum_to_size import broadcast_dims
from ..table.check_dtypes import check_floating
from ..table.dims import axes, axes_of_all_any, axis, check_ordered
from ..table.op_table import ROWS
from .launch import ACC, PACK, PLANS, WARP, as_acc, blocks_for, even_chunks, prepare

# ---- sums: (outer, n, inner) along n, for each run of neighbouring dimensions that are summed

BLOCKS = 1024  # that a sum is shared by, where there are fewer rows or columns
CHUNK = 16 * 1024  # elements of a row that a block adds up at least, if others share the row
Launch = Callable[..., None]


def power_of_two(n: int, largest: int) -> int:
    """The smallest one that is n or more, but at most `largest`."""
    return min(1 << (n - 1).bit_length(), largest)


def prepare_stage(
    dtype: Any, types: str, sizes: tuple[int, int, int], factor: float, aligned: bool
) -> tuple[Launch, int]:
    """A launch (x, out), and the number of chunks that it leaves.

    Args:
        types: the suffix of the kernel, which says what it reads and writes.
        sizes: (outer, n, inner).
    """
    outer, n, inner = sizes
    numbers: tuple[Any, ...]
    scale = as_acc(dtype, factor)
    if inner > 1:
        x = power_of_two(inner, 32)
        y = max(power_of_two(-(-n // 8), 1024 // x), 32 // x)
        x = max(x, power_of_two(inner, 256 // y))
        groups = -(-inner // x)
        chunks, size = even_chunks(n, 32 * y, BLOCKS // (groups * outer))
        grid, numbers = (groups, chunks, min(outer, 65535)), (outer, n, inner, size, scale)
        return prepare("reduce", f"sum_columns{types}", dtype, grid, (x, y, 1), numbers), chunks
    itemsize = (ACC[dtype] if types in ("_acc", "_of_acc") else dtype).itemsize
    packed = np.int32(aligned and n * itemsize % PACK == 0)
    if n <= WARP and (outer > 64 or n <= 128):
        numbers = outer, n, scale, packed
        return prepare("reduce", f"sum_warp{types}", dtype, blocks_for(outer, 8), 256, numbers), 1
    chunks, size = even_chunks(n, CHUNK, BLOCKS // outer)
    if chunks > 1:
        size = -(-size // PACK) * PACK  # so that all begin at multiples of 16 bytes
        chunks = -(-n // size)
    if outer == 1:
        packed = np.int32(aligned)
    threads = max(32, power_of_two(-(-size // 8), 1024 if chunks == 1 else 512))
    grid, numbers = (blocks_for(outer, 1), chunks, 1), (outer, n, size, scale, packed)
    return prepare("reduce", f"sum_block{types}", dtype, grid, (threads, 1, 1), numbers), chunks


def runs_of(shape: tuple[int, ...], dims: set[int]) -> list[tuple[int, int, int]]:
    """(outer, n, inner) of each run of neighbouring dimensions, the last one first, each for what
    the sums over the runs after it have left. Dimensions of size 1 are in any run.
    """
    runs, sizes, inner, dim = [], list(shape), 1, len(shape) - 1
    while dim >= 0:
        n = 1
        while dim >= 0 and (dim in dims or sizes[dim] == 1):
            n, dim = n * sizes[dim], dim - 1
        if n > 1:
            runs.append((math.prod(sizes[: dim + 1]), n, inner))
        while dim >= 0 and dim not in dims:
            inner, dim = inner * sizes[dim], dim - 1
    return runs


@functools.lru_cache(PLANS)
def prepare_sum(
    shape: tuple[int, ...], dtype: Any, dim: Any, keepdim: bool, is_mean: bool, aligned: bool
) -> tuple[tuple[int, ...], Launch, list[tuple[int, Launch]]] | None:
    """The shape of the result, the first launch, and for each further launch the size of what it
    reads. None if nothing is to be added up, or a dim is wrong.
    """
    dims = (
        range(len(shape)) if dim is None or dim == () else (dim,) if dim.__class__ is int else dim
    )
    if not all(-len(shape) <= d < len(shape) for d in dims):
        return None
    wanted = {d % len(shape) for d in dims}
    runs = runs_of(shape, wanted)
    if not runs or len(wanted) < len(dims):
        return None
    factor = 1 / math.prod(n for _, n, _ in runs) if is_mean else 1.0
    launches: list[tuple[int, Launch]] = []
    read, pending = "", runs
    while pending:
        (outer, n, inner), *pending = pending
        size = outer * n * inner
        # whether it is the last launch is known once its chunks are
        last = not pending
        types = {"": "" if last else "_to_acc", "acc": "_of_acc" if last else "_acc"}[read]
        run, chunks = prepare_stage(
            dtype, types, (outer, n, inner), factor if last else 1.0, aligned
        )
        if chunks > 1:
            types = "_acc" if read else "_to_acc"
            run, chunks = prepare_stage(dtype, types, (outer, n, inner), 1.0, aligned)
            pending = [(outer, chunks, inner), *pending]
        launches.append((size, run))
        read, aligned = "acc", True
    result = tuple(
        1 if d in wanted else n for d, n in enumerate(shape) if keepdim or d not in wanted
    )
    return result, launches[0][1], launches[1:]


def sum_of_dims(x: Any, dim: Any, keepdim: bool = False, is_mean: bool = False) -> Any:
    """The sum or mean along dimensions (None, an int, a tuple), in float32 for float16. None if the
    kernels do not take x: of another dtype, not in C order, or empty.
    """
    dtype = x.dtype
    if dtype not in ACC or not x._c_contiguous or not x.size:
        return None
    plan = prepare_sum(x.shape, dtype, dim, keepdim, is_mean, not x.data.ptr % PACK)
    if plan is None:
        return None
    shape, launch, further = plan
    for size, following in further:
        parts = cupy.ndarray((size,), ACC[dtype])
        launch(x, parts)
        x, launch = parts, following
    out = cupy.ndarray(shape, dtype)
    launch(x, out)
    return out


@ROWS["sum"].on("cuda")
def sum_on_cuda(xp: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if dim.__class__ is list:
        dim = tuple(dim)
    out = sum_of_dims(x, dim, keepdim)
    return ROWS["sum"].forward(xp, x, dim, keepdim) if out is None else out


@ROWS["mean"].on("cuda")
def mean_on_cuda(
    xp: Any, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    if dim.__class__ is list:
        dim = tuple(dim)
    if dtype is not None:
        x = check_mean_dtype("mean", x, dtype)
    out = sum_of_dims(x, dim, keepdim, True)
    return ROWS["mean"].forward(xp, x, dim, keepdim) if out is None else out


@ROWS["_sum_to_size"].on("cuda")
def sum_to_size_on_cuda(xp: Any, x: Any, shape: tuple[int, ...]) -> Any:
    shape = tuple(shape)
    dims = broadcast_dims(x.shape, shape)
    out = sum_of_dims(x, dims) if dims else None
    if out is None:
        return ROWS["_sum_to_size"].forward(xp, x, shape)
    return out if out.shape == shape else out.reshape(shape)


# ---- all, any, hash_tensor


@ROWS["all"].on("cuda")
def all_on_cuda(xp: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return truth(xp.all, x, dim, keepdim)


@ROWS["any"].on("cuda")
def any_on_cuda(xp: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return truth(xp.any, x, dim, keepdim)


def truth(kernel: Any, x: Any, dim: Any, keepdim: bool) -> Any:
    """`all` or `any`: bool, or uint8 for uint8; dim=(): of each element alone."""
    over = axes_of_all_any(x, dim)
    out = x != 0 if over == () else kernel(x, over, keepdims=keepdim)
    return out.astype(x.dtype) if x.dtype == "uint8" else out


xor = cupy.ReductionKernel("uint64 x", "uint64 out", "x", "a ^ b", "out = a", "0", "hash_tensor")


@ROWS["hash_tensor"].on("cuda")
def hash_tensor(xp: Any, x: Any, dim: Any = None, keepdim: bool = False, *, mode: int = 0) -> Any:
    check_ordered("hash_tensor", x)
    if mode != 0:
        raise RuntimeError(f"hash_tensor: no such mode: {mode}, 0 is needed")
    if dim is None and not x.size:
        raise RuntimeError(f"hash_tensor: a dim is needed for an empty tensor: shape {x.shape}")
    wide = x.astype(xp.int64 if x.dtype.kind in "iub" else xp.float64)
    return xor(wide.view(xp.uint64), axis=axes(x, dim), keepdims=keepdim)


# ---- counts

count_in_bins = cupy.ElementwiseKernel(
    "S x, raw T edges, int64 n",
    "raw U counts",
    """
    if (x >= edges[0] && x <= edges[n]) {  // not a NaN
      long long low = 0, high = n;
      while (high - low > 1) {
        const long long middle = (low + high) / 2;
        if (edges[middle] <= x) low = middle;
        else high = middle;
      }
      atomicAdd(&counts[low], U(1));
    }
    """,
    "histc",
)


@ROWS["_histc"].on("cuda")
def histc(xp: Any, x: Any, n: int, low: float, high: float) -> Any:
    """By the CPU's edges. `xp.histogram` is CUB's on a GPU, which takes an upper edge that does not
    belong to the bin: CuPy adds 1 to the last edge of whole numbers, so that 1 is in [0, 0.5], and
    takes the next float after it, which it finds on the way to edge + 1: from 2**24 on (float32)
    there is none, and the elements at the edge are not counted.
    """
    dtype = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
    edges = np.linspace(*histc_range(x, n, low, high), n + 1).astype(dtype)
    counts = xp.zeros(n, np.int64)
    count_in_bins(x, xp.asarray(edges), n, counts)
    return counts.astype(x.dtype)


# ---- cumulative ops


def extreme_pass(name: str, comparison: str) -> Any:
    """A pass of `cummax` or `cummin`: of equal elements the last counts, and a NaN always."""
    return cupy.ElementwiseKernel(
        "raw T values, raw int64 indices, int64 n, int64 inner, int64 shift",
        "T value, int64 index",
        f"""
        value = values[i];
        index = indices[i];
        if (i / inner % n >= shift) {{
          T before = values[i - shift * inner];
          if (!(value {comparison} before || value != value)) {{
            value = before;
            index = indices[i - shift * inner];
          }}
        }}
        """,
        name,
    )


max_pass, min_pass = extreme_pass("cummax_pass", ">="), extreme_pass("cummin_pass", "<=")


def scan(x: Any, dim: int, results: tuple[Any, ...], kernel: Any) -> tuple[Any, ...]:
    """The passes of a kernel `(results..., n, inner, shift, new results...)` over arrays in C
    order.
    """
    n, inner, shift = x.shape[dim], math.prod(x.shape[dim + 1 :]), 1
    spare = tuple(cupy.empty_like(r) for r in results)
    while shift < n:
        kernel(*results, n, inner, shift, *spare)
        results, spare = spare, results
        shift *= 2
    return results


def cumulative_extreme(xp: Any, x: Any, dim: int, kernel: Any) -> Any:
    """The extreme so far along dim and its index."""
    dim = axis(x, dim)
    if not x.ndim:
        return x.copy(), xp.zeros((), xp.int64)
    places = xp.arange(x.shape[dim]).reshape(-1, *(1,) * (x.ndim - 1 - dim))
    indices = xp.array(xp.broadcast_to(places, x.shape), order="C")
    return scan(x, dim, (xp.array(x, order="C"), indices), kernel)


def cumulative_max(xp: Any, x: Any, dim: int) -> Any:
    """`numpy.maximum.accumulate`."""
    return cumulative_extreme(xp, x, dim, max_pass)[0]


@ROWS["cummax"].on("cuda")
def cummax(xp: Any, x: Any, dim: int) -> Any:
    return cumulative_extreme(xp, check_ordered("cummax", x), dim, max_pass)


@ROWS["cummin"].on("cuda")
def cummin(xp: Any, x: Any, dim: int) -> Any:
    return cumulative_extreme(xp, check_ordered("cummin", x), dim, min_pass)


logsumexp_pass = cupy.ElementwiseKernel(
    "raw T values, int64 n, int64 inner, int64 shift",
    "T value",
    """
    T here = values[i];
    value = here;
    if (i / inner % n >= shift) {
      T before = values[i - shift * inner];
      if (before != before) {
        value = before;
      } else if (here == here) {
        T low = min(before, here);
        value = max(before, here);
        if (low - low == 0) value += log1p(exp(low - value));
      }
    }
    """,
    "logcumsumexp_pass",
)


@ROWS["logcumsumexp"].on("cuda")
def logcumsumexp(xp: Any, x: Any, dim: int) -> Any:
    dim = axis(x, dim)
    check_floating("logcumsumexp", x)
    if not x.ndim or not x.size:
        return x.copy()
    if x.dtype.kind == "c":
        return complex_logcumsumexp(xp, x, dim)
    wide = xp.array(x, "float32" if x.dtype.itemsize == 2 else None, order="C")
    return scan(x, dim, (wide,), logsumexp_pass)[0].astype(x.dtype, copy=False)


def complex_logcumsumexp(xp: Any, x: Any, dim: int) -> Any:
    """The same passes by array functions."""
    rows, shift = xp.moveaxis(x, dim, 0), 1
    while shift < len(rows):
        sums = complex_logaddexp(xp, rows[:-shift], rows[shift:])
        rows = xp.concatenate([rows[:shift], sums])
        shift *= 2
    return xp.moveaxis(rows, 0, dim).copy()


# ---- the indices of extremes: of several NaN, CuPy's argmax returns any


def first_index(xp: Any, x: Any, extreme: Any, dim: Any, keepdim: bool) -> Any:
    """The index of the first element that equals the extreme of its row, or is NaN as it is."""
    mask = x == extreme
    if x.dtype.kind == "f":
        mask |= (x != x) & (extreme != extreme)
    return xp.argmax(mask, dim, keepdims=keepdim)


def argument_of_extreme(name: str) -> Any:
    """The forward of argmax or argmin."""
    largest = name == "argmax"

    def forward(xp: Any, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        nonempty_axes(name, x, dim)
        if not x.ndim:
            axes(x, dim)
            return xp.zeros((), xp.int64)
        extreme = x.max(dim, keepdims=True) if largest else x.min(dim, keepdims=True)
        return first_index(xp, x, extreme, dim, keepdim)

    return forward


def extreme_along(name: str) -> Any:
    """The forward of max or min along a dimension: (values, indices)."""

    def forward(xp: Any, x: Any, dim: int, keepdim: bool = False) -> Any:
        check_ordered(name, x)
        if not x.ndim:
            axis(x, dim)
            return x.copy(), xp.zeros((), xp.int64)
        dim = axis(x, dim)
        if not x.shape[dim]:
            raise IndexError(f"{name}: no elements to reduce: shape {x.shape}, dim={dim}")
        extreme = x.max(dim, keepdims=True) if name == "max" else x.min(dim, keepdims=True)
        indices = first_index(xp, x, extreme, dim, keepdim)
        return extreme if keepdim else extreme.squeeze(dim), indices

    return forward


for _name in ("argmax", "argmin"):
    ROWS[_name].on("cuda")(argument_of_extreme(_name))
for _name in ("max", "min"):
    ROWS[f"_{_name}"].on("cuda")(extreme_along(_name))
