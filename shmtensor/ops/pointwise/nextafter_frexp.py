"""nextafter, frexp and nan_to_num, which depend on the floating-point format."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ... import native
from ...dtypes import bfloat16, finfo, float32
from ...native import parallel
from ..table.native_or_numpy import copy_to_out
from ..table.op_table import op
from ..table.samples import PAIR, unary

parallel_nextafter = parallel(np.nextafter, "biu")


def nextafter_kernel(x: Any, y: Any, out: Any = None) -> Any:
    """NumPy's ufunc; for bfloat16 the bits plus or minus 1: they grow with the magnitude."""
    if x.dtype is not bfloat16:
        return parallel_nextafter(x, y, out)
    result = nextafter_of_bfloat16(np, x, y)
    if out is None:
        return result
    out[...] = result
    return out


def nextafter_of_bfloat16(xp: Any, x: Any, y: Any) -> Any:
    """The bits plus or minus 1."""
    x, y = xp.broadcast_arrays(x.astype(float32), y.astype(float32))
    bits = x.astype(bfloat16).view(np.int16)
    bits = bits + xp.where((x < y) == (x > 0), 1, -1).astype(np.int16)
    bits = xp.where(x == 0, xp.where(xp.signbit(y), -32767, 1).astype(np.int16), bits)
    steps = xp.where(x == y, y, x + y).astype(bfloat16)  # equal, or one is NaN
    return xp.where((x == y) | xp.isnan(x + y), steps.view(np.int16), bits).view(bfloat16)


@op(
    numpy=nextafter_kernel,
    out=True,
    broadcast=True,
    promote="common",
    samples=PAIR,
    tensors="x y",
    halves="checks",
)
def nextafter(xp, x, y, /):
    """The next number of the dtype from one element towards another.

    Parameters
    ----------
    input, other : Tensor
        Of a floating-point dtype, broadcast against each other.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    See Also
    --------
    finfo

    Examples
    --------
    >>> x = st.nextafter(st.tensor([1.]), st.tensor([2.]))
    >>> x - 1 == st.finfo(st.float32).eps
    tensor([True])
    """
    return nextafter_of_bfloat16(xp, x, y) if x.dtype is bfloat16 else xp.nextafter(x, y)


nextafter.pullback(
    x=lambda ops, g, x, y: ops._where_other(x == y, g, 0.0),
    y=lambda ops, g, x, y: ops._where(x == y, g, 0.0),
)


@op(outputs="mantissa exponent", method=True, samples=unary(0.2, 2.0), layout="pointwise")
def frexp(xp, x, /):
    """Each element as a mantissa times a power of two.

    Parameters
    ----------
    input : Tensor
        Of a floating-point dtype.

    Returns
    -------
    (mantissa, exponent) : Tensor, Tensor
        mantissa * 2 ** exponent is `input`; the mantissa's absolute value is in [0.5, 1), and the
        exponent is int32.

    Raises
    ------
    RuntimeError
        The tensor is not floating point.

    See Also
    --------
    ldexp

    Examples
    --------
    >>> st.frexp(st.tensor([6., 0.25]))
    shmtensor.return_types.frexp(
    mantissa=tensor([0.7500, 0.5000]),
    exponent=tensor([ 3, -1], dtype=shmtensor.int32))
    """
    if x.dtype.kind != "f":
        raise RuntimeError(f"frexp: the tensor must be floating point: {x.dtype.name}")
    return xp.frexp(x)


frexp.pullback(x=lambda g, x, mantissa: g * (mantissa / x))


@functools.cache
def finite_range(dtype: Any) -> tuple[float, float]:
    """The least and the largest number of a floating-point dtype."""
    limits = finfo(dtype)
    return limits.min, limits.max


def nan_to_num_kernel(x: Any, nan: Any, posinf: Any, neginf: Any, out: Any = None) -> Any:
    """The native kernel for float32 and float64, also into `out`."""
    if x.dtype.kind == "f":
        smallest, largest = finite_range(x.dtype)
        largest = largest if posinf is None else posinf
        smallest = smallest if neginf is None else neginf
        nan = 0.0 if nan is None else nan
        result = native.nan_to_num(x, nan, largest, smallest, out)
        if result is not None:
            return result
        if x.dtype.itemsize == 2:  # the numbers are rounded to the dtype as the results are
            wide = nan_to_num_kernel(native.recast(x, float32), nan, largest, smallest)
            return copy_to_out(native.recast(wide, x.dtype), out)
    if x.dtype.kind in "iub":
        return native.clone(x) if out is None else out  # x itself
    with np.errstate(all="ignore"):
        return copy_to_out(nan_to_num.forward(np, x, nan, posinf, neginf), out)


@op(
    numpy=nan_to_num_kernel,
    selects=True,
    inplace=True,
    out=True,
    samples=[((3, 4),), ((3, 4), 1.0, 2.0, -2.0)],
    layout="pointwise",
    halves="checks",
)
def nan_to_num(xp, x, /, nan=0.0, posinf=None, neginf=None):
    """Each element, with numbers in place of NaN and the infinities.

    Parameters
    ----------
    input : Tensor
        Any dtype; integers are copied.
    nan : float, optional
        In place of NaN.
    posinf, neginf : float, optional
        In place of the infinities; by default the dtype's largest and smallest number.

    Returns
    -------
    Tensor
        Of the same dtype; `nan_to_num_` writes into the tensor itself.

    See Also
    --------
    isnan, isfinite

    Notes
    -----
    The gradient is 0 at elements that are replaced.

    Examples
    --------
    >>> st.nan_to_num(st.tensor([1., float("nan"), -float("inf")]), neginf=-100)
    tensor([   1.,    0., -100.])
    """
    if x.dtype.kind in "iub":
        return x.copy()
    nan = 0.0 if nan is None else nan
    if x.dtype is not bfloat16:
        return xp.nan_to_num(x, True, nan, posinf, neginf)
    limits = finfo(bfloat16)
    posinf = limits.max if posinf is None else posinf
    neginf = limits.min if neginf is None else neginf
    wide = xp.asarray(xp.nan_to_num(x.astype(float32), True, nan, posinf, neginf))
    return wide.astype(bfloat16)


nan_to_num.pullback(x=lambda ops, g, x: ops._where(ops.isfinite(x), g, 0.0))
