"""Bessel functions and Airy's, by methods that are exact to rounding in their ranges.

J and Y: below 1 their power series, up to 25 Miller's downward recurrence with Neumann's series,
above 25 Hankel's asymptotic series (Abramowitz and Stegun 9.1, 9.2). K: the trapezoidal rule on its
integral, which converges faster than any power of the step.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...native import elementwise
from ..table.op_table import IN_NAMESPACE, op
from ..table.samples import unary
from .ndtr_zeta_gammainc import as_float64

GAMMA = 0.57721566490153286061  # Euler's constant
TOP = 80  # where Miller's recurrence starts
COLUMNS: dict[str, Any] = {"method": False, "function": False, "promote": "float", "inplace": False}


def miller(x: Any) -> tuple[Any, Any, Any, Any]:
    """J0, J1, and the sums of Neumann's series of Y0 and Y1, for 1 <= x <= 25."""
    next_value, value = np.zeros_like(x), np.full_like(x, 1e-280)
    total, first, second, j1 = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x), value
    for k in range(TOP, 0, -1):
        if k % 2 == 0:
            total = total + 2 * value
            first = first + (1 - k % 4) * value / (k // 2)
        elif k > 1:
            n = k // 2
            second = second + (-1) ** n * (2 * n + 1) / (n * (n + 1)) * value
        else:
            j1 = value
        next_value, value = value, 2 * k / x * value - next_value
    total = total + value
    return value / total, j1 / total, first / total, second / total


def series(x: Any) -> tuple[Any, Any, Any, Any]:
    """J0, J1, Y0, Y1 for 0 < x <= 1 by their power series."""
    q = -(x * x) / 4
    j0, j1, y0, y1 = (np.zeros_like(x) for _ in range(4))
    t0, t1, h = np.ones_like(x), x / 2, 0.0
    log = np.log(np.where(x > 0, x, 1.0) / 2)
    for k in range(14):
        j0, j1 = j0 + t0, j1 + t1
        y0 = y0 - h * t0
        y1 = y1 - (h + h + 1 / (k + 1)) / 2 * t1
        h += 1 / (k + 1)
        t0, t1 = t0 * q / (k + 1) ** 2, t1 * q / ((k + 1) * (k + 2))
    y0 = 2 / math.pi * ((log + GAMMA) * j0 + y0)
    y1 = 2 / math.pi * ((log + GAMMA) * j1 + y1) - 2 / (math.pi * np.where(x > 0, x, 1.0))
    return j0, j1, y0, y1


def hankel(x: Any, order: int) -> tuple[Any, Any]:
    """(J, Y) of an order for x >= 25."""
    mu, term = 4.0 * order * order, np.ones_like(x)
    p, q = np.ones_like(x), np.zeros_like(x)
    for k in range(1, 20):
        term = term * (mu - (2 * k - 1) ** 2) / (k * 8 * x)
        if k % 2:
            q = q + (1 if k % 4 == 1 else -1) * term
        else:
            p = p + (1 if k % 4 == 0 else -1) * term
    phase = x - (2 * order + 1) * math.pi / 4
    size = np.sqrt(2 / (math.pi * x))
    cos, sin = np.cos(phase), np.sin(phase)
    return size * (p * cos - q * sin), size * (p * sin + q * cos)


def bessel_jy(x: Any) -> tuple[Any, Any, Any, Any]:
    """J0, J1, Y0, Y1 for x >= 0, in float64."""
    near = series(np.clip(x, 0, 1))
    mid = np.clip(x, 1, 25)
    j0, j1, first, second = miller(mid)
    log = np.log(mid / 2) + GAMMA
    y0 = 2 / math.pi * log * j0 - 4 / math.pi * first
    y1 = -2 / (math.pi * mid) * j0 + 2 / math.pi * (log - 1) * j1 - 2 / math.pi * second
    far = np.clip(x, 25, 1e300)
    zero, one = hankel(far, 0), hankel(far, 1)
    ranges = zip(near, (j0, j1, y0, y1), (zero[0], one[0], zero[1], one[1]))
    results = [np.where(x < 1, a, np.where(x <= 25, b, c)) for a, b, c in ranges]
    results[2:] = [np.where(x == 0, -np.inf, np.where(x < 0, np.nan, v)) for v in results[2:]]
    return tuple(np.where(np.isinf(x), 0.0, np.where(np.isnan(x), x, v)) for v in results)  # type: ignore[return-value]


@op(numpy=elementwise("j0"), samples=unary(-9.0, 9.0), **COLUMNS)
def special_bessel_j0(xp, x, /):
    """The Bessel function of the first kind of order 0.

    Parameters
    ----------
    input : Tensor
        Of a real dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        J0(x): 1 at 0, and 0 at infinity.

    See Also
    --------
    bessel_j1, bessel_y0, spherical_bessel_j0

    Notes
    -----
    The gradient is -J1(x).

    Examples
    --------
    >>> st.special.bessel_j0(st.tensor([0., float("inf")]))
    tensor([1., 0.])
    """
    return bessel_jy(np.abs(as_float64(x)))[0].astype(x.dtype)


@op(numpy=elementwise("j1"), samples=unary(-9.0, 9.0), **COLUMNS)
def special_bessel_j1(xp, x, /):
    """The Bessel function of the first kind of order 1.

    Parameters
    ----------
    input : Tensor
        Of a real dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        J1(x): an odd function, 0 at 0 and at infinity.

    See Also
    --------
    bessel_j0, bessel_y1

    Notes
    -----
    The gradient is J0(x) - J1(x) / x.

    Examples
    --------
    >>> st.special.bessel_j1(st.tensor([0.]))
    tensor([0.])
    """
    v = as_float64(x)
    return (np.sign(v) * bessel_jy(np.abs(v))[1]).astype(x.dtype)


@op(numpy=elementwise("y0"), samples=unary(0.5, 9.0), **COLUMNS)
def special_bessel_y0(xp, x, /):
    """The Bessel function of the second kind of order 0.

    Parameters
    ----------
    input : Tensor
        Of a real dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        Y0(x): -inf at 0, NaN for negative numbers.

    See Also
    --------
    bessel_y1, bessel_j0

    Notes
    -----
    The gradient is -Y1(x).

    Examples
    --------
    >>> st.special.bessel_y0(st.tensor([0., -1.]))
    tensor([-inf, nan])
    """
    v = as_float64(x)
    return np.where(v < 0, np.nan, bessel_jy(np.abs(v))[2]).astype(x.dtype)


@op(numpy=elementwise("y1"), samples=unary(0.5, 9.0), **COLUMNS)
def special_bessel_y1(xp, x, /):
    """The Bessel function of the second kind of order 1.

    Parameters
    ----------
    input : Tensor
        Of a real dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        Y1(x): -inf at 0, NaN for negative numbers.

    See Also
    --------
    bessel_y0, bessel_j1

    Notes
    -----
    The gradient is Y0(x) - Y1(x) / x.

    Examples
    --------
    >>> st.special.bessel_y1(st.tensor([0., -1.]))
    tensor([-inf, nan])
    """
    v = as_float64(x)
    return np.where(v < 0, np.nan, bessel_jy(np.abs(v))[3]).astype(x.dtype)


def divide_or_limit(ops: Any, y: Any, x: Any, limit: float) -> Any:
    """y / x, and its limit where x is 0."""
    return ops._where_other(x == 0, y / ops._where_other(x == 0, x, 1.0), limit)


special_bessel_j0.pullback(x=lambda ops, g, x: -g * ops.special_bessel_j1(x))
special_bessel_y0.pullback(x=lambda ops, g, x: -g * ops.special_bessel_y1(x))
special_bessel_j1.pullback(
    x=lambda ops, g, x, out: g * (ops.special_bessel_j0(x) - divide_or_limit(ops, out, x, 0.5))
)
special_bessel_y1.pullback(x=lambda ops, g, x, out: g * (ops.special_bessel_y0(x) - out / x))


# ---- modified ones of the second kind


STEP = 0.2


def bessel_k_scaled(order: float, x: Any) -> Any:
    """exp(x) K_order(x) for x > 0: the integral of exp(-x (cosh t - 1)) cosh(order t)."""
    finite = np.where((x > 0) & np.isfinite(x), x, 1.0)
    lowest = float(np.min(finite, initial=1.0))
    highest = float(np.max(finite, initial=1.0))
    step = STEP / max(1.0, math.sqrt(highest / 20))
    stop = math.acosh(1 + 760 / lowest) if lowest > 1e-150 else math.log(1520) - math.log(lowest)
    total = np.full_like(finite, 0.5)
    for k in range(1, math.ceil(stop / step) + 1):
        t = k * step
        cosh_minus_1 = math.cosh(t) - 1 if t < 700 else math.inf
        total = total + np.exp(-finite * cosh_minus_1 + order * t) * (
            0.5 + 0.5 * math.exp(-2 * order * t)
        )
    out = total * step
    out = np.where(np.isinf(x), 0.0, np.where(x == 0, np.inf, np.where(x < 0, np.nan, out)))
    return np.where(np.isnan(x), x, out)


def declare_bessel_k(order: int, scaled: bool) -> Any:
    """Declares K0 or K1, or one of them times exp(x)."""
    name = f"special_{'scaled_' if scaled else ''}modified_bessel_k{order}"

    def forward(xp, x, /):
        v = as_float64(x)
        out = bessel_k_by_range(order, v)
        out = out if scaled else out * np.exp(-v)
        return np.where(np.isinf(v) & (v > 0), 0.0, out).astype(x.dtype)

    start, weight = "exp(input) times the" if scaled else "The", " cosh t" if order else ""
    forward.__doc__ = f"""{start} modified Bessel function of the second kind of order {order}.

    Parameters
    ----------
    input : Tensor
        Of a real dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        Infinite at 0, NaN for negative numbers; it vanishes at infinity.

    Notes
    -----
    K{order}(x) is the integral of exp(-x cosh t){weight} over t from 0 to infinity.

    Examples
    --------
    >>> st.special.{name.removeprefix("special_")}(st.tensor([0., -1.]))
    tensor([inf, nan])
    """
    kernel = elementwise(f"k{order}e" if scaled else f"k{order}")
    return op(name=name, numpy=kernel, samples=unary(0.3, 5.0), **COLUMNS)(forward)


def bessel_k_by_range(order: int, v: Any) -> Any:
    """`bessel_k_scaled`, separately for ranges of arguments, which need different steps."""
    small = bessel_k_scaled(order, np.where(v <= 20, v, 1.0))
    large = bessel_k_scaled(order, np.where(v > 20, np.minimum(v, 700.0), 21.0))
    term, total = np.ones_like(v), np.ones_like(v)
    far = np.maximum(v, 50.0)
    for k in range(1, 12):
        term = term * (4.0 * order * order - (2 * k - 1) ** 2) / (k * 8 * far)
        total = total + term
    asymptotic = np.sqrt(math.pi / (2 * far)) * total
    return np.where(np.isnan(v), v, np.where(v > 50, asymptotic, np.where(v > 20, large, small)))


K0, K1 = declare_bessel_k(0, False), declare_bessel_k(1, False)
K0E, K1E = declare_bessel_k(0, True), declare_bessel_k(1, True)
K0.pullback(x=lambda ops, g, x: -g * ops.special_modified_bessel_k1(x))
K1.pullback(x=lambda ops, g, x, out: -g * (ops.special_modified_bessel_k0(x) + out / x))
K0E.pullback(x=lambda ops, g, x, out: g * (out - ops.special_scaled_modified_bessel_k1(x)))
K1E.pullback(
    x=lambda ops, g, x, out: g * (out - out / x - ops.special_scaled_modified_bessel_k0(x))
)


@op(numpy=elementwise("spherical_j0"), samples=unary(0.5, 9.0), **COLUMNS)
def special_spherical_bessel_j0(xp, x, /):
    """The spherical Bessel function of the first kind of order 0: sin(x) / x.

    Parameters
    ----------
    input : Tensor
        Of a real dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        1 at 0, and 0 at infinity.

    See Also
    --------
    sinc, bessel_j0

    Examples
    --------
    >>> st.special.spherical_bessel_j0(st.tensor([0., float("inf")]))
    tensor([1., 0.])
    """
    v = as_float64(x)
    safe = np.where((v == 0) | np.isinf(v), 1.0, v)
    return np.where(v == 0, 1.0, np.where(np.isinf(v), 0.0, np.sin(safe) / safe)).astype(x.dtype)


special_spherical_bessel_j0.pullback(
    x=lambda ops, g, x, out: g * divide_or_limit(ops, ops.cos(x) - out, x, 0.0)
)


# ---- Airy's function

START = 0.35502805388781723926, -0.25881940379280679841  # Ai and Ai' at 0
TAYLOR_RANGE = 12  # Taylor's series, each around an integer, are used down to -TAYLOR_RANGE


def taylor(c: float, value: Any, derivative: Any, h: Any, terms: int = 40) -> tuple[Any, Any]:
    """(y, y') at c + h of the solution of y'' = x y with this value and derivative at c."""
    a = [value, derivative, c * value / 2]
    for n in range(1, terms):
        a.append((c * a[n] + a[n - 1]) / ((n + 2) * (n + 1)))
    y = dy = 0.0 * h
    for n in reversed(range(len(a))):
        y = y * h + a[n]
    for n in reversed(range(1, len(a))):
        dy = dy * h + n * a[n]
    return y, dy


def airy(x: Any) -> Any:
    """Ai: from 1 on by K of order 1/3, down to -12 by Taylor's series, below by its asymptotics."""
    positive = np.clip(x, 1.0, 110.0)
    zeta = 2 / 3 * positive**1.5
    k = np.where(
        zeta > 20,
        bessel_k_scaled(1 / 3, np.maximum(zeta, 20)),
        bessel_k_scaled(1 / 3, np.minimum(zeta, 20)),
    )
    out = np.sqrt(positive / 3) / math.pi * k * np.exp(-zeta)
    start = START
    for c in range(TAYLOR_RANGE + 1):
        mask = (x < (1 if c == 0 else -c + 0.5)) & (x >= -c - 0.5)
        if np.any(mask):
            h = np.where(mask, x + c, 0.0)
            out = np.where(mask, taylor(-c, *start, h)[0], out)
        start = taylor(-c, *start, -1.0)
    negative = np.maximum(-x, TAYLOR_RANGE)
    zeta = 2 / 3 * negative**1.5
    even, odd, term = np.ones_like(zeta), np.zeros_like(zeta), np.ones_like(zeta)
    for n in range(1, 14):
        term = term * (6 * n - 5) * (6 * n - 3) * (6 * n - 1) / (216 * n * (2 * n - 1)) / zeta
        if n % 2:
            odd = odd + (1 if n % 4 == 1 else -1) * term
        else:
            even = even + (1 if n % 4 == 0 else -1) * term
    phase = zeta - math.pi / 4
    wave = (np.cos(phase) * even + np.sin(phase) * odd) / (math.sqrt(math.pi) * negative**0.25)
    out = np.where(x < -TAYLOR_RANGE - 0.5, wave, out)
    return np.where(np.isnan(x), x, np.where(x > 110, 0.0, np.where(np.isinf(x), 0.0, out)))


@op(**IN_NAMESPACE, promote="float", inplace=False, samples=unary(-4.0, 4.0), layout="pointwise")
def special_airy_ai(xp, x, /):
    """Airy's function Ai: the solution of y'' = x y that vanishes for large x.

    Parameters
    ----------
    input : Tensor
        Of a real dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        It oscillates for negative numbers, and decays for positive ones.

    Notes
    -----
    From 1 on by a modified Bessel function of order 1/3, down to -12 by Taylor's series, below by
    its asymptotic series. No gradient.

    Examples
    --------
    >>> st.special.airy_ai(st.tensor([0., float("inf")]))
    tensor([0.3550, 0.0000])
    """
    return airy(as_float64(x)).astype(x.dtype)
