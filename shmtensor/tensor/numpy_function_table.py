"""NumPy's functions as ops on tensors, with NumPy's names, defaults and checks of axes.

An entry returns NotImplemented where NumPy's own function must run: on integers, if NumPy's result
dtype differs from PyTorch's, and for arguments that no op has. (`np.var` divides by n, `np.cumsum`
flattens.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from .. import native
from ..autograd.dispatch.op_function import table
from ..autograd.dispatch.promote_operands import as_canonical
from .numpy_ufunc import cast_to_common_dtype


def tensor(value: Any) -> Any:
    """An operand as a tensor. Copies: none, except for lists and numbers."""
    if isinstance(value, native.TensorBase):
        return value
    return native.wrap(as_canonical(np.asarray(value)))


def tensors(values: Any) -> list[Any]:
    return [tensor(v) for v in values]


def flatten(x: Any) -> Any:
    return table.reshape(x, (-1,))


def is_integral(x: Any) -> bool:
    """Whether NumPy converts it to float64, where PyTorch refuses it or uses the default dtype."""
    return x.array.dtype.kind in "iub"


def is_unsigned(x: Any) -> bool:
    """Whether NumPy's sums of it are unsigned, where PyTorch's are int64."""
    return bool(x.array.dtype.kind == "u")


def normalize_axis(x: Any, axis: Any) -> Any:
    """One or several axes, checked and normalized by NumPy: an int or a tuple; None stays.

    Raises: numpy.exceptions.AxisError or ValueError, as NumPy does.
    """
    if axis is None:
        return None
    if isinstance(axis, int):
        return normalize_axis_index(axis, x.array.ndim)
    return normalize_axis_tuple(axis, x.array.ndim)


def normalize_reduced_axis(x: Any, axis: Any) -> Any:
    """As `normalize_axis`, for reductions that allow axis 0 of a scalar."""
    return None if not x.array.ndim and axis in (0, -1) else normalize_axis(x, axis)


def concatenate(arrays: Any, axis: Any = 0) -> Any:
    xs = tensors(arrays)
    return table.cat([flatten(x) for x in xs]) if axis is None else table.cat(xs, axis)


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None or y is None:
        return NotImplemented
    condition = tensor(condition)
    mask = condition if condition.array.dtype.kind == "b" else table.ne(condition, 0)
    return table.where(mask, tensor(x), tensor(y))


def sum(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    x = tensor(a)
    if axis == () or is_unsigned(x):
        return NotImplemented
    return table.sum(x, normalize_reduced_axis(x, axis), keepdims)


def mean(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    x = tensor(a)
    if axis == () or is_integral(x):
        return NotImplemented
    return table.mean(x, normalize_axis(x, axis), keepdims)


def prod(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    x = tensor(a)
    if isinstance(axis, tuple) or (axis is None and keepdims) or is_unsigned(x):
        return NotImplemented
    dim = normalize_reduced_axis(x, axis)
    return table.prod(x) if dim is None else table.prod(x, dim, keepdims)


def minmax(op: str) -> Any:
    def function(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        x = tensor(a)
        if axis == ():
            return NotImplemented
        dim = normalize_reduced_axis(x, axis)
        return getattr(table, op)(x, () if dim is None else dim, keepdims)

    return function


def variance(op: str) -> Any:
    def function(a: Any, axis: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Any:
        x = tensor(a)
        if axis == () or is_integral(x):
            return NotImplemented
        return getattr(table, op)(x, normalize_axis(x, axis), correction=ddof, keepdim=keepdims)

    return function


def cumulative(op: str) -> Any:
    def function(a: Any, axis: Any = None) -> Any:
        x = tensor(a)
        if not x.array.ndim or is_unsigned(x):
            return NotImplemented
        compute = getattr(table, op)
        return compute(flatten(x), 0) if axis is None else compute(x, normalize_axis(x, axis))

    return function


def transpose(a: Any, axes: Any = None) -> Any:
    x = tensor(a)
    return table.permute(x, tuple(range(x.array.ndim))[::-1] if axes is None else tuple(axes))


def expand_dims(a: Any, axis: Any) -> Any:
    x, axes = tensor(a), axis if isinstance(axis, (tuple, list)) else (axis,)
    for dim in sorted(normalize_axis_tuple(axes, x.array.ndim + len(axes))):
        x = table.unsqueeze(x, dim)
    return x


def squeeze(a: Any, axis: Any = None) -> Any:
    x = tensor(a)
    if normalize_reduced_axis(x, axis) is None:
        return table.squeeze(x)
    shape, dims = x.array.shape, normalize_axis_tuple(axis, x.array.ndim)
    if any(shape[dim] != 1 for dim in dims):
        raise ValueError(
            f"squeeze: only axes of size 1 can be removed: axis {axis} of shape {shape}"
        )
    return table.squeeze(x, dims)


def reshape(a: Any, shape: Any) -> Any:
    return table.reshape(tensor(a), (shape,) if isinstance(shape, int) else tuple(shape))


def flip(m: Any, axis: Any = None) -> Any:
    x = tensor(m)
    dims = range(x.array.ndim) if axis is None else normalize_axis_tuple(axis, x.array.ndim)
    return table.flip(x, tuple(dims))


def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    x = flatten(tensor(a)) if axis is None else tensor(a)
    if not x.array.ndim:
        return NotImplemented
    times = repeats if isinstance(repeats, int) else tensor(repeats)
    return table.repeat_interleave(x, times, 0 if axis is None else normalize_axis(x, axis))


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    return list(table.tensor_split(tensor(ary), indices_or_sections, axis))


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    n = tensor(ary).array.shape[axis]
    if isinstance(indices_or_sections, int) and n % indices_or_sections:
        return NotImplemented  # NumPy's own error
    return array_split(ary, indices_or_sections, axis)


def take(a: Any, indices: Any, axis: Any = None) -> Any:
    x, index = tensor(a), tensor(indices)
    if index.array.dtype.kind not in "iu" or not x.array.ndim:
        return NotImplemented
    if axis is None:
        return table.take(x, index)
    return x[(slice(None),) * normalize_axis(x, axis) + (index,)]


def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    x, index = tensor(arr), tensor(indices)
    if axis is None:
        return table.take(x, index) if index.array.ndim == 1 else NotImplemented
    dim = normalize_axis(x, axis)
    n = x.array.shape[dim]
    if (out_of_range := index.array[(index.array < -n) | (index.array >= n)]).size:
        raise IndexError(
            f"take_along_axis: index {out_of_range[0]} is out of bounds for axis {dim} of size {n}"
        )
    return table.take_along_dim(x, table.remainder(index, n), dim)


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return sum(table.diagonal(tensor(a), offset, axis1, axis2), -1)


def dot(a: Any, b: Any) -> Any:
    x, y = cast_to_common_dtype(tensors((a, b)))
    if not x.array.ndim or not y.array.ndim:
        return table.mul(x, y)
    if y.array.ndim <= 2:
        return table.matmul(x, y)
    return table.tensordot(x, y, ([-1], [-2]))


def vdot(a: Any, b: Any) -> Any:
    return table.vdot(*cast_to_common_dtype([flatten(tensor(a)), flatten(tensor(b))]))


def outer(a: Any, b: Any) -> Any:
    return table.outer(flatten(tensor(a)), flatten(tensor(b)))


def einsum(subscripts: Any, *operands: Any, optimize: Any = False) -> Any:
    if not isinstance(subscripts, str):
        return NotImplemented
    return table.einsum(subscripts, *cast_to_common_dtype(tensors(operands)))


def cross(a: Any, b: Any, axis: int = -1) -> Any:
    x, y = cast_to_common_dtype(tensors((a, b)))
    if x.array.shape[axis] != 3 or y.array.shape[axis] != 3:
        return NotImplemented
    return table.linalg_cross(x, y, dim=axis)


def clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = a_min if min is None else min, a_max if max is None else max
    return table.clone(tensor(a)) if low is high is None else table.clamp(tensor(a), low, high)


def nan_to_num(x: Any, *, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    return table.nan_to_num(tensor(x), nan, posinf, neginf)


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    values = tensor(y)
    if is_integral(values) or not values.array.size:
        return NotImplemented
    if x is None:
        return table.trapezoid(values, dx=dx, dim=axis)
    return table.trapezoid(values, tensor(x), dim=axis)


def sort(a: Any, axis: Any = -1) -> Any:
    x = flatten(tensor(a)) if axis is None else tensor(a)
    return table.sort(x, -1 if axis is None else normalize_axis(x, axis))[0]


def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    x = tensor(a)
    return table.movedim(x, normalize_axis(x, source), normalize_axis(x, destination))


def triangle(op: str) -> Any:
    def function(m: Any, k: int = 0) -> Any:
        x = tensor(m)
        return NotImplemented if x.array.ndim < 2 else getattr(table, op)(x, k)

    return function


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    values = tensor(x)
    if is_integral(values):
        return NotImplemented
    return table.linalg_norm(values, ord, normalize_axis(values, axis), keepdims)


def pinv(a: Any) -> Any:
    x = tensor(a)
    return NotImplemented if is_integral(x) else table.linalg_pinv(x)


def transform(op: str) -> Any:
    def function(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
        x = tensor(a)
        return NotImplemented if is_integral(x) else getattr(table, op)(x, n, axis, norm)

    return function


def by_name(entries: Any) -> dict[str, Any]:
    return {f"numpy.{entry.__name__}": entry for entry in entries}


TABLE: dict[str, Any] = {
    **by_name((
        concatenate, where, sum, mean, prod, transpose, expand_dims, squeeze, reshape, flip, repeat,
        array_split, split, take, take_along_axis, trace, dot, vdot, outer, einsum, cross, clip,
        nan_to_num, trapezoid, sort, moveaxis,
    )),
    "numpy.max": minmax("amax"),
    "numpy.min": minmax("amin"),
    "numpy.amax": minmax("amax"),
    "numpy.amin": minmax("amin"),
    "numpy.var": variance("var"),
    "numpy.std": variance("std"),
    "numpy.cumsum": cumulative("cumsum"),
    "numpy.cumprod": cumulative("cumprod"),
    "numpy.tril": triangle("tril"),
    "numpy.triu": triangle("triu"),
    "numpy.stack": lambda arrays, axis=0: table.stack(tensors(arrays), axis),
    "numpy.vstack": lambda tup: table.vstack(tensors(tup)),
    "numpy.hstack": lambda tup: table.hstack(tensors(tup)),
    "numpy.dstack": lambda tup: table.dstack(tensors(tup)),
    "numpy.column_stack": lambda tup: table.column_stack(tensors(tup)),
    "numpy.ravel": lambda a: flatten(tensor(a)),
    "numpy.swapaxes": lambda a, axis1, axis2: table.transpose(tensor(a), axis1, axis2),
    "numpy.broadcast_to": lambda array, shape: table.broadcast_to(tensor(array), shape),
    "numpy.roll": lambda a, shift, axis=None: table.roll(tensor(a), shift, axis),
    "numpy.rot90": lambda m, k=1, axes=(0, 1): table.rot90(tensor(m), k, axes),
    "numpy.diagonal": lambda a, offset=0, axis1=0, axis2=1: table.diagonal(
        tensor(a), offset, axis1, axis2
    ),
    "numpy.diag": lambda v, k=0: table.diag(tensor(v), k),
    "numpy.diff": lambda a, n=1, axis=-1: table.diff(tensor(a), n, axis),
    "numpy.inner": lambda a, b: table.inner(*cast_to_common_dtype(tensors((a, b)))),
    "numpy.kron": lambda a, b: table.kron(tensor(a), tensor(b)),
    "numpy.tensordot": lambda a, b, axes=2: table.tensordot(
        *cast_to_common_dtype(tensors((a, b))), axes
    ),
    "numpy.linalg.norm": norm,
    "numpy.linalg.inv": lambda a: table.linalg_inv(tensor(a)),
    "numpy.linalg.det": lambda a: table.linalg_det(tensor(a)),
    "numpy.linalg.slogdet": lambda a: table.linalg_slogdet(tensor(a)),
    "numpy.linalg.cholesky": lambda a: table.linalg_cholesky(tensor(a)),
    "numpy.linalg.solve": lambda a, b: table.linalg_solve(tensor(a), tensor(b)),
    "numpy.linalg.pinv": pinv,
    "numpy.linalg.eigvalsh": lambda a: table.linalg_eigvalsh(tensor(a)),
    "numpy.fft.fft": transform("fft_fft"),
    "numpy.fft.ifft": transform("fft_ifft"),
    "numpy.fft.rfft": transform("fft_rfft"),
    "numpy.fft.irfft": transform("fft_irfft"),
}  # fmt: skip
