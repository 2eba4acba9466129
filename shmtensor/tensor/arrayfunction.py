"""NumPy's functions that are no ufuncs, on tensors: an op runs as that op, with its gradient.

Imported by the first such call. `TABLE` has the functions that people differentiate through, each
with NumPy's names and defaults (`np.var` divides by n, `np.cumsum` flattens). Any other function,
and any argument that an entry does not take, runs on the arrays, which a tensor that requires grad
refuses as `numpy()` does. Results are tensors either way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.ma  # NumPy imports it when needed: what it makes then must not lie in shared memory

from .. import native
from ..autograd.dispatch import table
from ..autograd.operands import as_canonical
from .ufunc import wrapped

__all__ = ["TABLE", "array_function"]

# Functions whose first argument is written.
WRITERS = {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"}


def array_function(func: Any, types: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The result of a NumPy function on operands of which at least one is a tensor."""
    if not all(issubclass(t, (native.TensorBase, np.ndarray, np.generic)) for t in types):
        return NotImplemented
    entry = TABLE.get(f"{func.__module__}.{func.__name__}")
    if entry is not None and takes(entry, args, named):
        made = entry(*args, **named)
        if made is not NotImplemented:
            return made
    return on_arrays(func, args, named)


def takes(entry: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Whether a table entry has these arguments."""
    code = entry.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    several = bool(code.co_flags & 4)  # *args
    return (several or len(args) <= code.co_argcount) and all(n in names for n in named)


def on_arrays(func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The function on the tensors' arrays; arrays in its result become tensors. Copies: none."""
    outs = named.get("out")
    outs = outs if isinstance(outs, tuple) else (outs,)
    given = {id(out): out for out in outs}  # by array: `out=` comes back as it was given
    plain_args, plain_named = plain(args, given), plain(named, given)
    token = native.gate_open()
    try:
        made = func(*plain_args, **plain_named)
    finally:
        native.gate_close(token)
    for tensor in (*outs, *(args[:1] if func.__name__ in WRITERS else ())):
        if isinstance(tensor, native.TensorBase):
            native.wrote(tensor)
    return shown(made, given)


def plain(value: Any, given: dict[int, Any]) -> Any:
    """Tensors inside as their arrays."""
    if isinstance(value, native.TensorBase):
        array = value.numpy()  # type: ignore[attr-defined]
        given[id(array)] = value
        return array
    if isinstance(value, dict):
        return {k: plain(v, given) for k, v in value.items()}
    if value.__class__ in (list, tuple):
        return value.__class__(plain(v, given) for v in value)
    return value


def shown(made: Any, given: dict[int, Any]) -> Any:
    """Arrays inside as tensors, those that were given as the tensors that they are."""
    if isinstance(made, (np.ndarray, np.generic)):
        return given[id(made)] if id(made) in given else wrapped(made)
    if isinstance(made, (list, tuple)):
        parts = [shown(v, given) for v in made]
        kind: Any = type(made)
        return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
    return made


# ---------------------------------------------------------------- the table


def tensor(value: Any) -> Any:
    """An operand as a tensor. Copies: none, but for lists and numbers."""
    if isinstance(value, native.TensorBase):
        return value
    return native.wrap(as_canonical(np.asarray(value)))


def tensors(values: Any) -> list[Any]:
    return [tensor(v) for v in values]


def flat(x: Any) -> Any:
    return table.reshape(x, (-1,))


def is_whole(x: Any) -> bool:
    """Whether NumPy's rules make a float of it where PyTorch's refuse."""
    return x.array.dtype.kind in "iub"


def concatenate(arrays: Any, axis: Any = 0) -> Any:
    xs = tensors(arrays)
    return table.cat([flat(x) for x in xs]) if axis is None else table.cat(xs, axis)


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None or y is None:
        return NotImplemented
    condition = tensor(condition)
    mask = condition if condition.array.dtype.kind == "b" else table.ne(condition, 0)
    return table.where(mask, tensor(x), tensor(y))


def sum(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return table.sum(tensor(a), axis, keepdims)


def mean(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    x = tensor(a)
    return NotImplemented if is_whole(x) else table.mean(x, axis, keepdims)


def prod(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    if axis is None or isinstance(axis, tuple):
        return NotImplemented if keepdims or axis is not None else table.prod(tensor(a))
    return table.prod(tensor(a), axis, keepdims)


def max(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return table.amax(tensor(a), () if axis is None else axis, keepdims)


def min(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return table.amin(tensor(a), () if axis is None else axis, keepdims)


def var(a: Any, axis: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Any:
    x = tensor(a)
    return NotImplemented if is_whole(x) else table.var(x, axis, correction=ddof, keepdim=keepdims)


def std(a: Any, axis: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Any:
    x = tensor(a)
    return NotImplemented if is_whole(x) else table.std(x, axis, correction=ddof, keepdim=keepdims)


def cumsum(a: Any, axis: Any = None) -> Any:
    x = tensor(a)
    return table.cumsum(flat(x), 0) if axis is None else table.cumsum(x, axis)


def cumprod(a: Any, axis: Any = None) -> Any:
    x = tensor(a)
    return table.cumprod(flat(x), 0) if axis is None else table.cumprod(x, axis)


def transpose(a: Any, axes: Any = None) -> Any:
    x = tensor(a)
    return table.permute(x, tuple(range(x.array.ndim))[::-1] if axes is None else tuple(axes))


def expand_dims(a: Any, axis: Any) -> Any:
    x, axes = tensor(a), axis if isinstance(axis, (tuple, list)) else (axis,)
    n = x.array.ndim + len(axes)
    for dim in sorted(d % n for d in axes):
        x = table.unsqueeze(x, dim)
    return x


def squeeze(a: Any, axis: Any = None) -> Any:
    return table.squeeze(tensor(a)) if axis is None else table.squeeze(tensor(a), axis)


def reshape(a: Any, shape: Any) -> Any:
    return table.reshape(tensor(a), (shape,) if isinstance(shape, int) else tuple(shape))


def flip(m: Any, axis: Any = None) -> Any:
    x = tensor(m)
    dims = range(x.array.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return table.flip(x, tuple(dims))


def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    x = flat(tensor(a)) if axis is None else tensor(a)
    times = repeats if isinstance(repeats, int) else tensor(repeats)
    return table.repeat_interleave(x, times, 0 if axis is None else axis)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    return list(table.tensor_split(tensor(ary), indices_or_sections, axis))


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    n = tensor(ary).array.shape[axis]
    if isinstance(indices_or_sections, int) and n % indices_or_sections:
        return NotImplemented  # NumPy's own error
    return array_split(ary, indices_or_sections, axis)


def take(a: Any, indices: Any, axis: Any = None) -> Any:
    x, at = tensor(a), tensor(indices)
    if axis is None:
        return table.take(x, at)
    return x[(slice(None),) * (axis % x.array.ndim) + (at,)]


def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    x, at = tensor(arr), tensor(indices)
    if axis is None:
        return table.take(x, flat(at))
    return table.take_along_dim(x, table.remainder(at, x.array.shape[axis]), axis)


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return table.sum(table.diagonal(tensor(a), offset, axis1, axis2), -1)


def dot(a: Any, b: Any) -> Any:
    x, y = tensor(a), tensor(b)
    if not x.array.ndim or not y.array.ndim:
        return table.mul(x, y)
    if y.array.ndim <= 2:
        return table.matmul(x, y)
    return table.tensordot(x, y, ([-1], [-2]))


def vdot(a: Any, b: Any) -> Any:
    return table.vdot(flat(tensor(a)), flat(tensor(b)))


def outer(a: Any, b: Any) -> Any:
    return table.outer(flat(tensor(a)), flat(tensor(b)))


def einsum(subscripts: Any, *operands: Any, optimize: Any = False) -> Any:
    if not isinstance(subscripts, str):
        return NotImplemented
    return table.einsum(subscripts, *tensors(operands))


def cross(a: Any, b: Any, axis: int = -1) -> Any:
    x, y = tensor(a), tensor(b)
    if x.array.shape[axis] != 3 or y.array.shape[axis] != 3:
        return NotImplemented
    return table.linalg_cross(x, y, dim=axis)


def clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    return table.clamp(tensor(a), a_min if min is None else min, a_max if max is None else max)


def nan_to_num(x: Any, *, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    return table.nan_to_num(tensor(x), nan, posinf, neginf)


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    if x is None:
        return table.trapezoid(tensor(y), dx=dx, dim=axis)
    return table.trapezoid(tensor(y), tensor(x), dim=axis)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    return table.linalg_norm(tensor(x), ord, axis, keepdims)


def named(entries: Any) -> dict[str, Any]:
    return {f"numpy.{entry.__name__}": entry for entry in entries}


TABLE: dict[str, Any] = {
    **named((
        concatenate, where, sum, mean, prod, max, min, var, std, cumsum, cumprod, transpose,
        expand_dims, squeeze, reshape, flip, repeat, array_split, split, take, take_along_axis,
        trace, dot, vdot, outer, einsum, cross, clip, nan_to_num, trapezoid,
    )),
    "numpy.amax": max,
    "numpy.amin": min,
    "numpy.stack": lambda arrays, axis=0: table.stack(tensors(arrays), axis),
    "numpy.vstack": lambda tup: table.vstack(tensors(tup)),
    "numpy.hstack": lambda tup: table.hstack(tensors(tup)),
    "numpy.dstack": lambda tup: table.dstack(tensors(tup)),
    "numpy.column_stack": lambda tup: table.column_stack(tensors(tup)),
    "numpy.ravel": lambda a: flat(tensor(a)),
    "numpy.moveaxis": lambda a, source, destination: table.movedim(tensor(a), source, destination),
    "numpy.swapaxes": lambda a, axis1, axis2: table.transpose(tensor(a), axis1, axis2),
    "numpy.broadcast_to": lambda array, shape: table.broadcast_to(tensor(array), shape),
    "numpy.broadcast_arrays": lambda *args: table.broadcast_tensors(*tensors(args)),
    "numpy.roll": lambda a, shift, axis=None: table.roll(tensor(a), shift, axis),
    "numpy.rot90": lambda m, k=1, axes=(0, 1): table.rot90(tensor(m), k, axes),
    "numpy.diagonal": lambda a, offset=0, axis1=0, axis2=1: table.diagonal(
        tensor(a), offset, axis1, axis2
    ),
    "numpy.diag": lambda v, k=0: table.diag(tensor(v), k),
    "numpy.tril": lambda m, k=0: table.tril(tensor(m), k),
    "numpy.triu": lambda m, k=0: table.triu(tensor(m), k),
    "numpy.diff": lambda a, n=1, axis=-1: table.diff(tensor(a), n, axis),
    "numpy.sort": lambda a, axis=-1: table.sort(tensor(a), axis)[0],
    "numpy.inner": lambda a, b: table.inner(tensor(a), tensor(b)),
    "numpy.kron": lambda a, b: table.kron(tensor(a), tensor(b)),
    "numpy.tensordot": lambda a, b, axes=2: table.tensordot(tensor(a), tensor(b), axes),
    "numpy.linalg.norm": norm,
    "numpy.linalg.inv": lambda a: table.linalg_inv(tensor(a)),
    "numpy.linalg.det": lambda a: table.linalg_det(tensor(a)),
    "numpy.linalg.slogdet": lambda a: table.linalg_slogdet(tensor(a)),
    "numpy.linalg.cholesky": lambda a: table.linalg_cholesky(tensor(a)),
    "numpy.linalg.solve": lambda a, b: table.linalg_solve(tensor(a), tensor(b)),
    "numpy.linalg.pinv": lambda a: table.linalg_pinv(tensor(a)),
    "numpy.linalg.eigvalsh": lambda a: table.linalg_eigvalsh(tensor(a)),
    "numpy.fft.fft": lambda a, n=None, axis=-1, norm=None: table.fft_fft(tensor(a), n, axis, norm),
    "numpy.fft.ifft": lambda a, n=None, axis=-1, norm=None: table.fft_ifft(
        tensor(a), n, axis, norm
    ),
    "numpy.fft.rfft": lambda a, n=None, axis=-1, norm=None: table.fft_rfft(
        tensor(a), n, axis, norm
    ),
    "numpy.fft.irfft": lambda a, n=None, axis=-1, norm=None: table.fft_irfft(
        tensor(a), n, axis, norm
    ),
}  # fmt: skip
