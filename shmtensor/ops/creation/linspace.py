"""New tensors of evenly spaced numbers, and of powers of them."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ... import native
from ...dtypes import as_dtype, default_complex, get_default_dtype
from ..random.bounds import check_random_dtype
from ..table.op_table import composite
from .device_forms import new_tensor, on_cuda
from .zeros_full_arange import as_number, copy_into_out, dtype_or_default, dtype_or_out

parallel_power = native.parallel(np.power)
parallel_multiply = native.parallel(np.multiply)
RUN = 1024  # numbers whose powers are products of one


def linspace_array(start: Any, end: Any, n: int, dtype: Any) -> Any:
    """Evenly spaced numbers; for an integer dtype they are truncated."""
    if n > 1 and dtype.kind in "iuf":
        if dtype.kind in "iu":
            start, end = int(start), int(end)
        out = native.linspace(start, end, (end - start) / (n - 1), n, dtype.num)
        if out is not None:
            return out
    return linspace_float64(start, end, n, dtype).astype(dtype)


def linspace_float64(start: Any, end: Any, n: int, dtype: Any, xp: Any = np) -> Any:
    """n numbers in float64: the first half counted from the start, the second from the end, as
    PyTorch does.
    """
    if dtype.kind in "iu":
        start, end = int(start), int(end)
    i = xp.arange(n)
    step = (end - start) / (n - 1) if n > 1 else 0.0
    return (
        xp.where(i < n // 2, start + step * i, end - step * (n - 1 - i))
        if n != 1
        else xp.array([start])
    )


@on_cuda(linspace_array)
def linspace_on_cuda(cupy: Any, start: Any, end: Any, n: int, dtype: Any) -> Any:
    return linspace_float64(start, end, n, dtype, cupy).astype(dtype, copy=False)


def logspace_array(base: float, start: Any, end: Any, n: int, dtype: Any) -> Any:
    """Powers of one base."""
    with np.errstate(all="ignore"):
        if dtype == np.float32 and n > 2 * RUN and within_double(base, start, end):
            return power_runs(float(base), start, end, n)
        return parallel_power(float(base), linspace_float64(start, end, n, dtype)).astype(dtype)


@on_cuda(logspace_array)
def logspace_on_cuda(cupy: Any, base: float, start: Any, end: Any, n: int, dtype: Any) -> Any:
    exponents = linspace_float64(start, end, n, dtype, cupy)
    return cupy.power(float(base), exponents).astype(dtype, copy=False)


def within_double(base: Any, start: Any, end: Any) -> bool:
    """Whether every product of two of the powers, and of their quotients, is a normal double."""
    if isinstance(start, complex) or isinstance(end, complex) or not 0 < base < math.inf:
        return False
    return bool((abs(start) + abs(end)) * abs(math.log2(base)) < 500)


def power_runs(base: float, start: float, end: float, n: int) -> Any:
    """Powers in float32, as products in double: of each run's first power and those of the
    distances from it. The second half is counted from the end.
    """
    step, half = (end - start) / (n - 1), n // 2
    out = np.empty(n, np.float32)
    for part, first, signed_step in ((out[:half], start, step), (out[half:][::-1], end, -step)):
        runs = -(-len(part) // RUN)
        firsts = parallel_power(base, first + signed_step * (np.arange(runs) * RUN))[:, None]
        products = parallel_multiply(
            firsts, parallel_power(base, signed_step * np.arange(RUN))
        ).reshape(-1)
        part[...] = native.cast(products[: len(part)], part.dtype.num)
    return out


# ---- public


@composite(method=False)
def arange(
    ops,
    start=0,
    end=None,
    step=1,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """Evenly spaced numbers: start, start + step, ... up to end, which is excluded.

    Parameters
    ----------
    start : number, optional
        The first number. A single argument is `end`, and the numbers start at 0.
    end : number, optional
        Where the numbers end; it is not one of them.
    step : number, optional
        The distance of two numbers; negative for descending ones.
    dtype : dtype, optional
        By default int64 if all three numbers are integers, otherwise the default dtype.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(ceil((end - start) / step),)`.

    Raises
    ------
    RuntimeError
        `step` is 0 or leads away from `end`, or a bound is not finite.

    See Also
    --------
    linspace, range

    Notes
    -----
    A step such as 0.1 is not exact in binary: whether a number close to `end` belongs to the result
    depends on the rounding. `linspace` takes the number of elements instead.

    Examples
    --------
    >>> st.arange(5)
    tensor([0, 1, 2, 3, 4])
    >>> st.arange(1, 2, 0.25)
    tensor([1.0000, 1.2500, 1.5000, 1.7500])
    >>> st.arange(5, 0, -2)
    tensor([5, 3, 1])
    """
    if out is dtype is layout is device is None and not (requires_grad or pin_memory):
        fast_result = native.arange(start, end, step, get_default_dtype())
        if fast_result is not None:
            return fast_result
    start, end, step = as_number(start), as_number(end), as_number(step)
    if end is None:
        start, end = 0, start
    dtype = dtype_or_out("arange", out, dtype)
    if dtype is None:
        is_integer = all(isinstance(v, int) for v in (start, end, step))
        dtype = np.dtype(np.int64) if is_integer else get_default_dtype()
    if step == 0:
        raise RuntimeError("arange: step must not be 0: 0")
    check_random_dtype("arange", as_dtype(dtype), "iuf")
    if as_dtype(dtype) == np.int64 and all(math.isfinite(v) for v in (start, end, step)):
        if not int(step):
            raise ValueError(f"arange: step must be nonzero: {step} as int64")
        start, end, step = int(start), int(end), int(step)
    if not all(math.isfinite(v) for v in (start, end)):
        raise RuntimeError(f"arange: bounds must be finite: {start}, {end}")
    if (end - start) * step < 0:
        raise RuntimeError(f"arange: step leads away from end: {start}, {end}, step={step}")
    n = -(-(end - start) // step) if isinstance(step, int) else math.ceil((end - start) / step)
    if as_dtype(dtype).kind in "iu":
        start, step = int(start), int(step)
    if out is not None and out.numel() not in (0, n):
        warnings.warn(
            f"arange: the number of elements in the out tensor of shape {tuple(out.shape)} is "
            f"{out.numel()}, which does not match the computed number of elements {n}: it is "
            f"resized to shape ({n},)",
            stacklevel=2,
        )
    result = new_tensor(
        arange_array,
        start,
        step,
        int(n),
        as_dtype(dtype),
        device=device,
        requires_grad=requires_grad,
        like=out,
    )
    return copy_into_out(out, result, keeps_shape=True)


def arange_array(start: Any, step: Any, n: int, dtype: Any) -> Any:
    """n numbers start + i * step."""
    out = native.steps(start, step, n, dtype.num)
    if out is not None:
        return out
    return (start + np.arange(n) * step).astype(dtype)


@on_cuda(arange_array)
def arange_on_cuda(cupy: Any, start: Any, step: Any, n: int, dtype: Any) -> Any:
    """Integers in int64, others in float64, as on the CPU; then in the dtype."""
    wide = np.int64 if isinstance(start, int) and isinstance(step, int) else np.float64
    return (start + cupy.arange(n, dtype=wide) * step).astype(dtype, copy=False)


@composite(method=False)
def range(
    ops,
    start=0,
    end=None,
    step=1,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
):
    """Evenly spaced numbers from start to end, which is included: the older form of `arange`.

    Parameters
    ----------
    start : number, optional
        The first number. A single argument is `end`, and the numbers start at 0.
    end : number, optional
        The last number, if a whole number of steps leads to it.
    step : number, optional
        The distance of two numbers.
    dtype : dtype, optional
        Of the result; the default dtype (float32 unless set) if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(floor((end - start) / step) + 1,)`, of the default dtype also for integers.

    See Also
    --------
    arange

    Examples
    --------
    >>> st.range(1, 4)
    tensor([1., 2., 3., 4.])
    >>> st.range(0, 1, 0.5)
    tensor([0.0000, 0.5000, 1.0000])
    """
    start, end = (0, start) if end is None else (start, end)
    n = math.floor((end - start) / step) + 1
    dtype = dtype_or_default(dtype_or_out("range", out, dtype))
    check_random_dtype("range", dtype, "iuf")
    result = new_tensor(
        arange_array, start, step, n, dtype, device=device, requires_grad=requires_grad, like=out
    )
    return copy_into_out(out, result, keeps_shape=True)


def check_steps(name: str, start: Any, end: Any, steps: Any) -> None:
    """Raises unless the ends are numbers or 0-d, and steps is a number of them."""
    if isinstance(steps, float):
        raise TypeError(f"{name}: steps must be a whole number: {steps}")
    if steps < 0:
        raise RuntimeError(f"{name}: steps must not be negative: {steps}")
    if getattr(start, "ndim", 0) or getattr(end, "ndim", 0):
        raise RuntimeError(f"{name}: start and end must be numbers or 0-d: {start}, {end}")


def dtype_of_ends(name: str, ends: tuple[Any, Any], dtype: Any) -> Any:
    """The argument `dtype`, or the default one; the default complex one if an end is complex."""
    is_complex = any(isinstance(end, complex) for end in ends)
    if dtype is None:
        return default_complex() if is_complex else get_default_dtype()
    dtype = as_dtype(dtype)
    if is_complex and dtype.kind != "c":
        raise RuntimeError(
            f"{name}: inferred dtype {default_complex()} can't be safely cast to passed dtype "
            f"{dtype}: {ends[0]} to {ends[1]}"
        )
    check_random_dtype(name, dtype, "iufc")
    return dtype


@composite(method=False)
def linspace(
    ops, start, end, steps, *, out=None, dtype=None, layout=None, device=None, requires_grad=False
):
    """Numbers from start to end, both included, evenly spaced.

    Parameters
    ----------
    start, end : number or Tensor
        The ends: numbers or 0-d tensors.
    steps : int
        How many numbers.
    dtype : dtype, optional
        By default the default dtype, or the default complex one if an end is complex.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(steps,)`. With one step it holds `start`.

    Raises
    ------
    RuntimeError
        `steps` is negative.
    TypeError
        `steps` is a float.

    See Also
    --------
    arange, logspace

    Notes
    -----
    Element i is start + i * (end - start) / (steps - 1).

    Examples
    --------
    >>> st.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    >>> st.linspace(10, 0, 3, dtype=st.int64)
    tensor([10,  5,  0])
    """
    check_steps("linspace", start, end, steps)
    ends = as_number(start), as_number(end)
    dtype = dtype_of_ends("linspace", ends, dtype_or_out("linspace", out, dtype))
    result = new_tensor(
        linspace_array, *ends, steps, dtype, device=device, requires_grad=requires_grad, like=out
    )
    return copy_into_out(out, result, keeps_shape=True)


@composite(method=False)
def logspace(
    ops,
    start,
    end,
    steps,
    base=10.0,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
):
    """Powers of a base whose exponents are evenly spaced: from base ** start to base ** end.

    Parameters
    ----------
    start, end : number or Tensor
        The first and the last exponent: numbers or 0-d tensors.
    steps : int
        How many numbers.
    base : float, optional
        The base of the powers.
    dtype : dtype, optional
        By default the default dtype, or the default complex one if an end is complex.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(steps,)`.

    Raises
    ------
    RuntimeError
        `steps` is negative.

    See Also
    --------
    linspace

    Examples
    --------
    >>> st.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    >>> st.logspace(0, 4, 5, base=2)
    tensor([ 1.,  2.,  4.,  8., 16.])
    """
    check_steps("logspace", start, end, steps)
    ends = as_number(start), as_number(end)
    dtype = dtype_of_ends("logspace", ends, dtype_or_out("logspace", out, dtype))
    result = new_tensor(
        logspace_array,
        base,
        *ends,
        steps,
        dtype,
        device=device,
        requires_grad=requires_grad,
        like=out,
    )
    return copy_into_out(out, result, keeps_shape=True)
