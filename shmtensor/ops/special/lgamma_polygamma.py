"""lgamma and its derivatives, and the modified Bessel functions I0 and I1."""

from __future__ import annotations

import math
from typing import Any

from ...native import elementwise
from ..table.op_table import IN_NAMESPACE, composite, op
from ..table.samples import reals, unary

# Lanczos' approximation with g = 607 / 128, 15 terms (P. Godfrey 2001): full precision in float64.
LANCZOS = (
    0.99999999999999709182,
    57.156235665862923517,
    -59.597960355475491248,
    14.136097974741747174,
    -0.49191381609762019978,
    0.33994649984811888699e-4,
    0.46523628927048575665e-4,
    -0.98374475304879564677e-4,
    0.15808870322491248884e-3,
    -0.21026444172410488319e-3,
    0.21743961811521264320e-3,
    -0.16431810653676389022e-3,
    0.84418223983852743293e-4,
    -0.26190838401581408670e-4,
    0.36899182659531622704e-5,
)
# Bernoulli numbers B2, B4, ...
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
SHIFTS = 10  # arguments are shifted to at least this, where the asymptotic series are exact


def log_gamma(xp: Any, x: Any) -> Any:
    """log(gamma(x)) for x >= 0.5, in float64."""
    total = LANCZOS[0]
    for i, c in enumerate(LANCZOS[1:]):
        total = total + c / (x + i)
    t = x + (607 / 128 - 0.5)
    return (x - 0.5) * xp.log(t) - t + xp.log(total * math.sqrt(2 * math.pi))


@op(
    numpy=elementwise("lgamma"),
    promote="float",
    samples=[*unary(0.2, 4.0), (reals((5,), -0.8, -0.2),)],
)
def lgamma(xp, x, /):
    """The logarithm of the absolute value of the gamma function.

    Parameters
    ----------
    input : Tensor
        Of a real dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        log(abs(gamma(x))): infinite at 0, at negative integers and at infinity.

    See Also
    --------
    digamma, polygamma, mvlgamma

    Notes
    -----
    gamma(n) = (n - 1)! for positive integers. The gradient is `digamma`.

    Examples
    --------
    >>> st.lgamma(st.tensor([1., 2., 0.]))
    tensor([0., 0., inf])
    >>> st.exp(st.lgamma(st.tensor(5.))).round()
    tensor(24.)
    """
    wide = x.astype(xp.float64)
    low = wide < 0.5
    right = log_gamma(xp, xp.where(low, 1 - wide, wide))
    sine = xp.abs(xp.sin(math.pi * (wide - xp.floor(wide))))
    out = xp.where(low, math.log(math.pi) - xp.log(sine) - right, right)
    out = xp.where((wide == 1) | (wide == 2), 0.0, out)
    return xp.where(xp.isinf(wide), xp.inf, out).astype(x.dtype)


lgamma.pullback(x=lambda ops, g, x: g * ops.digamma(x))


@op(
    numpy=elementwise("digamma"),
    promote="float",
    samples=[*unary(0.2, 4.0), (reals((5,), -0.8, -0.2),)],
)
def digamma(xp, x, /):
    """The derivative of the logarithm of the gamma function.

    Parameters
    ----------
    input : Tensor
        Of a real dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        -inf at 0, NaN at negative integers.

    See Also
    --------
    lgamma, polygamma

    Notes
    -----
    digamma(x + 1) = digamma(x) + 1 / x. Also `special.psi`.

    Examples
    --------
    >>> x = st.tensor([2.5])
    >>> st.allclose(st.digamma(x + 1) - st.digamma(x), 1 / x, atol=1e-5)
    True
    """
    wide = x.astype(xp.float64)
    low = wide < 0
    y = xp.where(low, 1 - wide, wide)
    total = xp.zeros_like(y)
    for _ in range(SHIFTS):
        small = y < SHIFTS
        total = xp.where(small, total - 1 / y, total)
        y = xp.where(small, y + 1, y)
    inverse = 1 / (y * y)
    series = 0.0
    for k, b in reversed(list(enumerate(BERNOULLI, 1))):
        series = (series + b / (2 * k)) * inverse
    total = total + xp.log(y) - 0.5 / y - series
    fraction = wide - xp.trunc(wide)
    out = xp.where(low, total - math.pi / xp.tan(math.pi * fraction), total)
    out = xp.where(low & (fraction == 0), xp.nan, out)
    return xp.where(wide == 0, xp.copysign(xp.inf, -wide), out).astype(x.dtype)


digamma.pullback(x=lambda ops, g, x: g * ops._polygamma(x, 1))


def hurwitz(xp: Any, s: int, x: Any) -> Any:
    """The sum of (x + k) ** -s over k = 0, 1, ..., by Euler and Maclaurin."""
    total = xp.zeros_like(x)
    lowest = float(xp.min(xp.where(xp.isfinite(x), x, 0.0), initial=0.0))
    shifts = min(SHIFTS + math.ceil(-lowest), 10_000)
    for k in range(shifts):
        total = total + (x + k) ** -float(s)
    y = x + shifts
    total = total + y ** (1.0 - s) / (s - 1) + 0.5 * y ** -float(s)
    factor = float(s)
    for k, b in enumerate(BERNOULLI, 1):
        total = total + b * factor * y ** (-float(s) - 2 * k + 1) / math.factorial(2 * k)
        factor *= (s + 2 * k - 1) * (s + 2 * k)
    return total


native_trigamma = elementwise("trigamma")


def polygamma_kernel(x: Any, n: int) -> Any:
    """The native kernel for n = 1."""
    return native_trigamma(x) if n == 1 else None


@op(
    native=polygamma_kernel,
    promote="float",
    inplace=False,
    samples=[
        (reals((3, 4), 0.3, 4.0), 1),
        (reals((5,), -0.8, -0.2), 1),
        (reals((5,), 0.3, 2.0), 2),
    ],
    layout="pointwise",
)
def _polygamma(xp, x, /, n):
    """The n-th derivative of `digamma`, n >= 1."""
    wide = x.astype(xp.float64)
    if n == 1:  # for negative arguments by reflection
        low = wide < 0.5
        right = hurwitz(xp, 2, xp.where(low, 1 - wide, wide))
        sine = xp.sin(math.pi * wide)
        return xp.where(low, (math.pi / sine) ** 2 - right, right).astype(x.dtype)
    sign = 1.0 if n % 2 else -1.0
    return (sign * math.factorial(n) * hurwitz(xp, n + 1, wide)).astype(x.dtype)


_polygamma.pullback(x=lambda ops, g, x, n: g * ops._polygamma(x, n + 1))


@composite(method=False)
def polygamma(ops, n, input):
    """The n-th derivative of `digamma`.

    Parameters
    ----------
    n : int
        Which derivative; 0 is `digamma` itself.
    input : Tensor
        Of a real dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    RuntimeError
        n is negative.

    See Also
    --------
    digamma, special.zeta

    Notes
    -----
    For n from 1 on it is (-1) ** (n + 1) n! times the sum of (x + k) ** -(n + 1) over k = 0, 1, ...

    Examples
    --------
    >>> x = st.tensor([2.])
    >>> st.allclose(st.polygamma(1, x) - st.polygamma(1, x + 1), st.tensor([0.25]), atol=1e-5)
    True
    """
    if n < 0:
        raise RuntimeError(f"polygamma: n must not be negative: {n}")
    return ops.digamma(input) if n == 0 else ops._polygamma(input, n)


def bessel_i_scaled(xp: Any, order: int, x: Any) -> Any:
    """exp(-|x|) I_order(x): the mean of exp(|x| (cos t - 1)) cos(order t) over a half turn.

    The trapezoidal rule is exact to rounding there, since the integrand is smooth and periodic.
    """
    size = xp.abs(x.astype(xp.float64))
    top = float(xp.max(xp.where(xp.isfinite(size), size, 0.0))) if x.size else 0.0
    n = 32 + int(8 * math.sqrt(top))
    total = 0.5 * (1 + (-1) ** order * xp.exp(-2 * size))
    for k in range(1, n):
        t = math.pi * k / n
        total = total + xp.exp(size * (math.cos(t) - 1)) * math.cos(order * t)
    out = total / n
    if order == 1:  # the power series for small arguments, where the mean cancels
        half, term, near = 0.5 * xp.minimum(size, 1.0), 1.0, 0.0
        for k in range(1, 12):
            near, term = near + term, term * half * half / (k * (k + 1))
        out = xp.copysign(xp.where(size < 1, near * half * xp.exp(-size), out), x)
    return out


@op(numpy=elementwise("i0"), promote="float", samples=unary(-3.0, 3.0))
def i0(xp, x, /):
    """The modified Bessel function of the first kind of order 0.

    Parameters
    ----------
    input : Tensor
        Of a real dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        At least 1; infinite where it exceeds the dtype's range.

    See Also
    --------
    special.i0e, special.i1, kaiser_window

    Notes
    -----
    I0(x) is the mean of exp(x cos t) over a full turn of t. The gradient is I1(x).

    Examples
    --------
    >>> st.i0(st.tensor([0.]))
    tensor([1.])
    """
    return (bessel_i_scaled(xp, 0, x) * xp.exp(xp.abs(x.astype(xp.float64)))).astype(x.dtype)


@op(
    out_argument=True,
    numpy=elementwise("i1"),
    promote="float",
    **IN_NAMESPACE,
    inplace=False,
    samples=unary(-3.0, 3.0),
)
def i1(xp, x, /):
    """The modified Bessel function of the first kind of order 1.

    Parameters
    ----------
    input : Tensor
        Of a real dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        An odd function, 0 at 0; infinite where it exceeds the dtype's range.

    See Also
    --------
    i0, i1e

    Notes
    -----
    I1(x) is the mean of exp(x cos t) cos t over a full turn of t.

    Examples
    --------
    >>> st.special.i1(st.tensor([0.]))
    tensor([0.])
    """
    return (bessel_i_scaled(xp, 1, x) * xp.exp(xp.abs(x.astype(xp.float64)))).astype(x.dtype)


i0.pullback(x=lambda ops, g, x: g * ops.i1(x))
i1.pullback(
    x=lambda ops, g, x, out: (
        g * (ops.i0(x) - ops._where_other(x == 0, out / ops._where_other(x == 0, x, 1.0), 0.5))
    )
)
