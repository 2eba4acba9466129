"""Window functions, `torch.signal.windows` by name (Harris 1978; Nuttall 1981).

All take the number of points M first, then keyword arguments for the shape, and `sym`: symmetric
(the default), or the first M points of a window with M + 1 points, for Fourier transforms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dtypes import as_dtype, get_default_dtype
from ..ops.creation.device_forms import new_tensor
from ..ops.table.sizes import check_size

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def window(
    name: str,
    M: int,
    sym: bool,
    dtype: Any,
    device: Any,
    requires_grad: bool,
    shape: Callable[[Any, int], Any],
) -> Tensor:
    """The tensor of a window whose points 0, 1, ... of n are `shape(points, n)`.

    Raises: ValueError, a negative number of points; RuntimeError, another dtype than float.
    """
    if M < 0:
        raise ValueError(f"{name}: requires non-negative window length, got M={M}")
    window_dtype = get_default_dtype() if dtype is None else as_dtype(dtype)
    if window_dtype not in (np.float32, np.float64):
        raise ValueError(f"{name}: expects float32 or float64 dtypes, got: {window_dtype}")
    check_size(name, (M,))
    n = M if sym else M + 1
    values = np.ones(M) if M <= 1 else shape(np.arange(n, dtype=np.float64), n)[:M]
    return new_tensor(  # type: ignore[no-any-return]
        np.array, values, window_dtype, device=device, requires_grad=requires_grad
    )


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """An exponential window: exp(-abs(n - center) / tau).

    Parameters
    ----------
    M : int
        The number of points.
    center : float, optional
        By default the middle; another one only with `sym=False`.
    tau : float, optional
        How fast it decays.
    sym : bool, optional
        Whether the window is symmetric; False: the first M points of one with M + 1 points.
    dtype : dtype, optional
        float32 or float64; the default dtype if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(M,)`.

    Raises
    ------
    ValueError
        M is negative, tau is not positive, or a center is given for a symmetric window.

    See Also
    --------
    gaussian, cosine

    Examples
    --------
    >>> st.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    if tau <= 0:
        raise ValueError(f"exponential: tau must be positive, got: {tau}")
    if sym and center is not None:
        raise ValueError("exponential: center must be None for symmetric windows")
    middle = center

    def shape(x: Any, n: int) -> Any:
        return np.exp(-np.abs(x - ((n - 1) / 2 if middle is None else middle)) / tau)

    return window("exponential", M, sym, dtype, device, requires_grad, shape)


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Half a period of the sine: sin(pi (n + 1/2) / M).

    Parameters
    ----------
    M : int
        The number of points.
    sym : bool, optional
        Whether the window is symmetric; False: the first M points of one with M + 1 points.
    dtype : dtype, optional
        float32 or float64; the default dtype if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(M,)`.

    Raises
    ------
    ValueError
        M is negative.

    See Also
    --------
    hann

    Examples
    --------
    >>> st.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    return window(
        "cosine", M, sym, dtype, device, requires_grad,
        lambda x, n: np.sin(math.pi * (x + 0.5) / n),
    )  # fmt: skip


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A Gaussian window: exp(-((n - middle) / std) ** 2 / 2).

    Parameters
    ----------
    M : int
        The number of points.
    std : float, optional
        The standard deviation, in points.
    sym : bool, optional
        Whether the window is symmetric; False: the first M points of one with M + 1 points.
    dtype : dtype, optional
        float32 or float64; the default dtype if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(M,)`.

    Raises
    ------
    ValueError
        M is negative, or std is not positive.

    See Also
    --------
    exponential

    Examples
    --------
    >>> st.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    if std <= 0:
        raise ValueError(f"gaussian: standard deviation must be positive, got: {std}")
    return window(
        "gaussian", M, sym, dtype, device, requires_grad,
        lambda x, n: np.exp(-(((x - (n - 1) / 2) / std) ** 2) / 2),
    )  # fmt: skip


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Kaiser's window: I0(beta sqrt(1 - ((n - middle) / middle) ** 2)) / I0(beta).

    Parameters
    ----------
    M : int
        The number of points.
    beta : float, optional
        The shape: 0 gives a rectangle, a larger number a narrower window.
    sym : bool, optional
        Whether the window is symmetric; False: the first M points of one with M + 1 points.
    dtype : dtype, optional
        float32 or float64; the default dtype if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(M,)`.

    Raises
    ------
    ValueError
        M or beta is negative.

    See Also
    --------
    hann, gaussian

    Examples
    --------
    >>> st.signal.windows.kaiser(3, beta=0.)
    tensor([1., 1., 1.])
    """
    if beta < 0:
        raise ValueError(f"kaiser: beta must be non-negative, got: {beta}")

    def shape(x: Any, n: int) -> Any:
        part = 1 - ((x - (n - 1) / 2) / ((n - 1) / 2)) ** 2
        return np.i0(beta * np.sqrt(np.maximum(part, 0))) / np.i0(beta)

    return window("kaiser", M, sym, dtype, device, requires_grad, shape)


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A sum of cosines: the sum of (-1) ** i a[i] cos(2 pi i n / (M - 1)).

    Parameters
    ----------
    M : int
        The number of points.
    a : iterable of float
        The weights.
    sym : bool, optional
        Whether the window is symmetric; False: the first M points of one with M + 1 points.
    dtype : dtype, optional
        float32 or float64; the default dtype if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(M,)`.

    Raises
    ------
    ValueError
        M is negative, or there are no weights.

    See Also
    --------
    general_hamming, hann, blackman, nuttall

    Examples
    --------
    >>> st.signal.windows.general_cosine(5, a=[0.5, 0.5])
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    weights = list(a)
    if not weights:
        raise ValueError("general_cosine: coefficients cannot be empty")

    def shape(x: Any, n: int) -> Any:
        angle = 2 * math.pi * x / (n - 1)
        return sum((-1) ** i * w * np.cos(i * angle) for i, w in enumerate(weights))

    return window("general_cosine", M, sym, dtype, device, requires_grad, shape)


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Hamming's window with any weight: alpha - (1 - alpha) cos(2 pi n / (M - 1)).

    Parameters
    ----------
    M : int
        The number of points.
    alpha : float, optional
        The weight.
    sym : bool, optional
        Whether the window is symmetric; False: the first M points of one with M + 1 points.
    dtype : dtype, optional
        float32 or float64; the default dtype if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(M,)`.

    Raises
    ------
    ValueError
        M is negative.

    See Also
    --------
    hamming, general_cosine

    Examples
    --------
    >>> st.signal.windows.general_hamming(5, alpha=0.75)
    tensor([0.5000, 0.7500, 1.0000, 0.7500, 0.5000])
    """
    return general_cosine(
        M, a=[alpha, 1 - alpha], sym=sym, dtype=dtype, device=device, requires_grad=requires_grad
    )


def cosines(name: str, a: list[float], doc: str, example: str) -> Callable[..., Tensor]:
    """A named window of cosines. example: its values, for the docstring."""

    def window_function(
        M: int,
        *,
        sym: bool = True,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Any:
        return general_cosine(
            M, a=a, sym=sym, dtype=dtype, device=device, requires_grad=requires_grad
        )

    window_function.__name__ = window_function.__qualname__ = name
    window_function.__doc__ = f"""{doc}: a sum of cosines.

    Parameters
    ----------
    M : int
        The number of points.
    sym : bool, optional
        Whether the window is symmetric; False: the first M points of one with M + 1 points.
    dtype : dtype, optional
        float32 or float64; the default dtype if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(M,)`.

    Raises
    ------
    ValueError
        M is negative, or another dtype.

    See Also
    --------
    general_cosine

    Notes
    -----
    `general_cosine` with the weights {", ".join(map(str, a))}.

    Examples
    --------
    >>> st.signal.windows.{name}(4, sym=False)[1:]
    tensor([{example}])
    """
    return window_function


hamming = cosines("hamming", [0.54, 0.46], "Hamming's window", "0.5400, 1.0000, 0.5400")
hann = cosines("hann", [0.5, 0.5], "Hann's window", "0.5000, 1.0000, 0.5000")
blackman = cosines("blackman", [0.42, 0.5, 0.08], "Blackman's window", "0.3400, 1.0000, 0.3400")
nuttall = cosines(
    "nuttall",
    [0.3635819, 0.4891775, 0.1365995, 0.0106411],
    "The minimum 4-term window of Blackman and Harris, according to Nuttall",
    "0.2270, 1.0000, 0.2270",
)


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle: 1 - abs(2 n / (M - 1) - 1).

    Parameters
    ----------
    M : int
        The number of points.
    sym : bool, optional
        Whether the window is symmetric; False: the first M points of one with M + 1 points.
    dtype : dtype, optional
        float32 or float64; the default dtype if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(M,)`.

    Raises
    ------
    ValueError
        M is negative.

    See Also
    --------
    hann

    Examples
    --------
    >>> st.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return window(
        "bartlett", M, sym, dtype, device, requires_grad,
        lambda x, n: 1 - np.abs(2 * x / (n - 1) - 1),
    )  # fmt: skip
