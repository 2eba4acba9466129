"""Window functions of signal processing: symmetric, or a period without its last point."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...native import elementwise
from ..creation.device_forms import new_tensor, on_cuda
from ..creation.zeros_full_arange import dtype_or_default
from ..table.op_table import ROWS, composite

i0 = elementwise("i0")


def new_window(
    name: str, formula: Any, n: int, periodic: bool, dtype: Any, device: Any, requires_grad: bool
) -> Any:
    """A window of n points; `formula` takes the array module and positions from 0 to 1 of a
    symmetric one.
    """
    dtype = dtype_or_default(dtype)
    if n < 0:
        raise RuntimeError(f"{name}: window_length must not be negative: {n}")
    if dtype.kind != "f":
        raise RuntimeError(f"{name}: dtype must be floating point: {dtype}")
    arguments = formula, n, max(n - (not periodic), 1), dtype
    return new_tensor(points, *arguments, device=device, requires_grad=requires_grad)


def points(formula: Any, n: int, period: int, dtype: Any) -> Any:
    """The values of a formula at n points."""
    return points_of(np, formula, n, period, dtype)


@on_cuda(points, meta=lambda xp, formula, n, period, dtype: xp.empty(n, dtype))
def points_of(xp: Any, formula: Any, n: int, period: int, dtype: Any) -> Any:
    """`points` by an array module."""
    if n == 1:
        return xp.ones(1, dtype)
    return formula(xp, xp.arange(n) / period).astype(dtype)


def cosines(*weights: float) -> Any:
    """w0 - w1 cos(2 pi t) + w2 cos(4 pi t)."""
    return lambda xp, t: (
        sum((-1) ** k * w * xp.cos(2 * np.pi * k * t) for k, w in enumerate(weights))
        + xp.zeros_like(t)
    )


@composite(method=False)
def hann_window(
    ops, window_length, periodic=True, *, dtype=None, layout=None, device=None, requires_grad=False
):
    """Hann's window: (1 - cos(2 pi n / N)) / 2.

    Parameters
    ----------
    window_length : int
        The number of points.
    periodic : bool, optional
        Whether N is the length, for Fourier transforms; else the window is symmetric, and N one
        less.
    dtype : dtype, optional
        Of the result; the default dtype (float32 unless set) if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(window_length,)`.

    Raises
    ------
    RuntimeError
        The length is negative, or the dtype is not floating point.

    See Also
    --------
    hamming_window, signal.windows.hann, stft

    Examples
    --------
    >>> st.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    >>> st.hann_window(5, periodic=False)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    name = "hann_window"
    return new_window(
        name, cosines(0.5, 0.5), window_length, periodic, dtype, device, requires_grad
    )


@composite(method=False)
def hamming_window(
    ops,
    window_length,
    periodic=True,
    alpha=0.54,
    beta=0.46,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
):
    """Hamming's window: alpha - beta cos(2 pi n / N).

    Parameters
    ----------
    window_length : int
        The number of points.
    periodic : bool, optional
        Whether N is the length, for Fourier transforms; else the window is symmetric, and N one
        less.
    alpha, beta : float, optional
        The weights.
    dtype : dtype, optional
        Of the result; the default dtype (float32 unless set) if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(window_length,)`.

    Raises
    ------
    RuntimeError
        The length is negative, or the dtype is not floating point.

    See Also
    --------
    hann_window, signal.windows.general_hamming

    Examples
    --------
    >>> st.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    name = "hamming_window"
    return new_window(
        name, cosines(alpha, beta), window_length, periodic, dtype, device, requires_grad
    )


@composite(method=False)
def blackman_window(
    ops, window_length, periodic=True, *, dtype=None, layout=None, device=None, requires_grad=False
):
    """Blackman's window: 0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N).

    Parameters
    ----------
    window_length : int
        The number of points.
    periodic : bool, optional
        Whether N is the length, for Fourier transforms; else the window is symmetric, and N one
        less.
    dtype : dtype, optional
        Of the result; the default dtype (float32 unless set) if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(window_length,)`.

    Raises
    ------
    RuntimeError
        The length is negative, or the dtype is not floating point.

    See Also
    --------
    hann_window, signal.windows.blackman

    Examples
    --------
    >>> st.blackman_window(4)[1:]
    tensor([0.3400, 1.0000, 0.3400])
    """
    formula = cosines(0.42, 0.5, 0.08)
    name = "blackman_window"
    return new_window(name, formula, window_length, periodic, dtype, device, requires_grad)


@composite(method=False)
def bartlett_window(
    ops, window_length, periodic=True, *, dtype=None, layout=None, device=None, requires_grad=False
):
    """A triangle: 1 - abs(2 n / N - 1).

    Parameters
    ----------
    window_length : int
        The number of points.
    periodic : bool, optional
        Whether N is the length, for Fourier transforms; else the window is symmetric, and N one
        less.
    dtype : dtype, optional
        Of the result; the default dtype (float32 unless set) if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(window_length,)`.

    Raises
    ------
    RuntimeError
        The length is negative, or the dtype is not floating point.

    See Also
    --------
    hann_window, signal.windows.bartlett

    Examples
    --------
    >>> st.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    name = "bartlett_window"
    triangle = lambda xp, t: 1 - xp.abs(2 * t - 1)  # noqa: E731
    return new_window(name, triangle, window_length, periodic, dtype, device, requires_grad)


@composite(method=False)
def kaiser_window(
    ops,
    window_length,
    periodic=True,
    beta=12.0,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
):
    """Kaiser's window: I0(beta sqrt(1 - (2 n / N - 1)^2)) / I0(beta).

    Parameters
    ----------
    window_length : int
        The number of points.
    periodic : bool, optional
        Whether N is the length, for Fourier transforms; else the window is symmetric, and N one
        less.
    beta : float, optional
        The shape: 0 gives a rectangle, a larger number a narrower window.
    dtype : dtype, optional
        Of the result; the default dtype (float32 unless set) if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(window_length,)`.

    Raises
    ------
    RuntimeError
        The length is negative, or the dtype is not floating point.

    See Also
    --------
    hann_window, signal.windows.kaiser, special.i0

    Notes
    -----
    I0 is the modified Bessel function of the first kind of order 0.

    Examples
    --------
    >>> st.kaiser_window(3, periodic=False, beta=0.)
    tensor([1., 1., 1.])
    """

    def formula(xp: Any, t: Any) -> Any:
        at = beta * xp.sqrt(xp.maximum(1 - (2 * t - 1) ** 2, 0))
        values = i0(at) if xp is np else ROWS["i0"].forward_on("cuda")(xp, at)
        return values / float(i0(np.float64(beta)))

    name = "kaiser_window"
    return new_window(name, formula, window_length, periodic, dtype, device, requires_grad)
