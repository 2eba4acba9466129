"""The normal distribution, entropy, zeta and the incomplete gamma functions."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...dtypes import HALVES, float32
from ...native import elementwise, parallel
from ..pointwise.exp_log_erf import erfc
from ..table.op_table import IN_NAMESPACE, composite, op
from ..table.samples import PAIR, reals, unary
from .lgamma_polygamma import BERNOULLI, bessel_i_scaled, lgamma

ROOT = math.sqrt(2)


def as_float64(x: Any) -> Any:
    """x in float64."""
    return x.astype(np.float64) if hasattr(x, "dtype") else np.asarray(x, np.float64)


def erfc_float64(x: Any) -> Any:
    """erfc in float64."""
    return erfc.numpy(as_float64(x))


def scaled_erfc(x: Any) -> Any:
    """exp(x * x) erfc(x): from 4 on Laplace's continued fraction, below -26 infinite."""
    x = as_float64(x)
    size = np.abs(x)
    near = np.minimum(size, 5.0)
    out = np.exp(near * near) * erfc_float64(near)
    far = np.maximum(size, 4.0)
    fraction = far
    for k in range(60, 0, -1):
        fraction = far + (k / 2) / fraction
    out = np.where(size < 4, out, 1 / (math.sqrt(math.pi) * fraction))
    return np.where(x < 0, 2 * np.exp(np.minimum(x * x, 800.0)) - out, out)


# ---- the normal distribution


of_one = functools.partial(op, **IN_NAMESPACE, promote="float")


@of_one(numpy=elementwise("ndtr"), samples=unary(-3.0, 3.0))
def special_ndtr(xp, x, /):
    """The distribution function of the standard normal distribution.

    Parameters
    ----------
    input : Tensor
        Of a real dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        The probability of a number that is not above x, in [0, 1].

    See Also
    --------
    ndtri, log_ndtr, erf

    Notes
    -----
    ndtr(x) = (1 + erf(x / sqrt(2))) / 2.

    Examples
    --------
    >>> st.special.ndtr(st.tensor([0., float("inf")]))
    tensor([0.5000, 1.0000])
    """
    return (0.5 * erfc_float64(-as_float64(x) / ROOT)).astype(x.dtype)


special_ndtr.pullback(x=lambda ops, g, x: g * ops.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi)))


@of_one(numpy=elementwise("log_ndtr"), samples=unary(-5.0, 3.0))
def special_log_ndtr(xp, x, /):
    """The logarithm of `ndtr`, exact far into the left tail.

    Parameters
    ----------
    input : Tensor
        Of a real dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        Not positive.

    See Also
    --------
    ndtr

    Notes
    -----
    ndtr(-20) is 0 in float32; its logarithm is -203.9.

    Examples
    --------
    >>> st.special.log_ndtr(st.tensor([-20.])).round()
    tensor([-204.])
    """
    v = as_float64(x)
    low = np.minimum(v, -1.0)
    tail = np.log(scaled_erfc(-low / ROOT) / 2) - low * low / 2
    center = np.log1p(-erfc_float64(np.maximum(v, -1.0) / ROOT) / 2)
    return np.where(v < -1, tail, center).astype(x.dtype)


special_log_ndtr.pullback(
    x=lambda ops, g, x: g / ops.special_erfcx(x * (-1 / ROOT)) * math.sqrt(2 / math.pi)
)


@of_one(numpy=elementwise("erfcx"), samples=[*unary(-2.0, 2.0), (reals((4,), 3, 9),)])
def special_erfcx(xp, x, /):
    """The complementary error function times exp(x * x).

    Parameters
    ----------
    input : Tensor
        Of a real dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        It decays as 1 / (x sqrt(pi)), where erfc itself underflows.

    See Also
    --------
    erfc

    Examples
    --------
    >>> st.special.erfcx(st.tensor([0., float("inf")]))
    tensor([1., 0.])
    """
    return scaled_erfc(x).astype(x.dtype)


def erfcx_backward(ops: Any, g: Any, x: Any, out: Any) -> Any:
    """2 x out - 2 / sqrt(pi), which cancels for large x, so that 16 bits are not enough."""
    if x.dtype in HALVES:
        x = ops._to_copy(x, float32)
        out = ops.special_erfcx(x)
    return g * (2 * x * out - 2 / math.sqrt(math.pi))


special_erfcx.pullback(x=erfcx_backward)

# The quantile function by three ratios of polynomials, highest powers last (Wichura 1988, AS 241).
MIDDLE = (
    (3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
     1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
     3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
     5.2264952788528545610e3),
)  # fmt: skip
TAIL = (
    (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
     3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
     2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
     1.05075007164441684324e-9),
)  # fmt: skip
FAR = (
    (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
     2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
     2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15),
)  # fmt: skip


def horner(coefficients: Any, x: Any) -> Any:
    """A polynomial, its constant first."""
    total: Any = 0.0
    for c in reversed(coefficients):
        total = total * x + c
    return total


def rational(parts: Any, x: Any) -> Any:
    """One polynomial over the other."""
    above, below = (horner(c, x) for c in parts)
    return above / below


@of_one(numpy=elementwise("ndtri"), samples=unary(0.05, 0.95))
def special_ndtri(xp, x, /):
    """The quantile function of the standard normal distribution: the inverse of `ndtr`.

    Parameters
    ----------
    input : Tensor
        Probabilities; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        -inf at 0, inf at 1, NaN outside [0, 1].

    See Also
    --------
    ndtr, erfinv

    Notes
    -----
    By ratios of polynomials (Wichura 1988, AS 241).

    Examples
    --------
    >>> st.special.ndtri(st.tensor([0., 0.5, 1.]))
    tensor([-inf, 0., inf])
    """
    p = as_float64(x)
    q = p - 0.5
    r = np.sqrt(-np.log(np.where(q < 0, p, 1 - p)))
    outer = np.where(r <= 5, rational(TAIL, r - 1.6), rational(FAR, r - 5)) * np.sign(q)
    out = np.where(np.abs(q) <= 0.425, q * rational(MIDDLE, 0.180625 - q * q), outer)
    out = np.where((p == 0) | (p == 1), np.copysign(np.inf, q), out)
    return np.where((p < 0) | (p > 1), np.nan, out).astype(x.dtype)


special_ndtri.pullback(x=lambda ops, g, out: g * math.sqrt(2 * math.pi) * ops.exp(out * out * 0.5))


# ---- entropy, Bessel functions scaled


def entr_kernel(x: Any) -> Any:
    """-x * log(x) in parallel if all elements are positive."""
    if x.dtype.kind == "f" and not parallel_less_equal(x, 0).any():
        out = parallel_multiply(x, parallel_log(x))
        return parallel_negative(out, out)
    return None


@of_one(native=entr_kernel, samples=unary(0.1, 2.0), layout="pointwise")
def special_entr(xp, x, /):
    """The entropy of a part: -x log(x).

    Parameters
    ----------
    input : Tensor
        Of a real dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        0 at 0, -inf for negative numbers.

    See Also
    --------
    xlogy

    Notes
    -----
    The sum over the probabilities of a distribution is its entropy.

    Examples
    --------
    >>> st.special.entr(st.tensor([0., -1.]))
    tensor([0., -inf])
    """
    out = xp.where(x > 0, -x * xp.log(xp.where(x > 0, x, 1)), 0)
    return xp.where(xp.isnan(x), x, xp.where(x < 0, -xp.inf, out)).astype(x.dtype)


parallel_less_equal, parallel_negative = parallel(np.less_equal), parallel(np.negative)
parallel_multiply, parallel_log = parallel(np.multiply), parallel(np.log)
special_entr.pullback(x=lambda ops, g, x: g * (-ops.log(x) - 1))


of_two = functools.partial(op, **IN_NAMESPACE, broadcast=True, inplace=False, promote="float")


@of_two(samples=[(a, reals(b, -0.5, 2.0)) for a, b in PAIR])
def special_xlog1py(xp, x, y, /):
    """The product x log(1 + y), which is 0 where x is 0.

    Parameters
    ----------
    input, other : Tensor or number
        x and y, broadcast against each other; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        x log1p(y); 0 where x is 0, but NaN where y is NaN.

    See Also
    --------
    xlogy, log1p

    Examples
    --------
    >>> st.special.xlog1py(st.tensor([0., 2.]), st.tensor([-1., 0.]))
    tensor([0., 0.])
    """
    if y.__class__ in (int, float):
        y = xp.asarray(y, x.dtype)
    return xp.where((x == 0) & ~xp.isnan(y), xp.zeros((), x.dtype), x * xp.log1p(y))


special_xlog1py.pullback(
    x=lambda ops, g, x, y: g * ops._where_other((x == 0) & (y <= -1), ops.log1p(y), 0.0),
    y=lambda g, x, y: g * x / (y + 1),
)


@of_one(numpy=elementwise("i0e"), samples=unary(-3.0, 3.0))
def special_i0e(xp, x, /):
    """The modified Bessel function of the first kind of order 0, times exp(-abs(x)).

    Parameters
    ----------
    input : Tensor
        Of a real dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        In [0, 1]: it does not overflow.

    See Also
    --------
    i0, i1e

    Examples
    --------
    >>> st.special.i0e(st.tensor([0., float("inf")]))
    tensor([1., 0.])
    """
    return xp.where(xp.isinf(x), 0.0, bessel_i_scaled(xp, 0, x)).astype(x.dtype)


@of_one(numpy=elementwise("i1e"), samples=unary(-3.0, 3.0))
def special_i1e(xp, x, /):
    """The modified Bessel function of the first kind of order 1, times exp(-abs(x)).

    Parameters
    ----------
    input : Tensor
        Of a real dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        An odd function, in (-1, 1): it does not overflow.

    See Also
    --------
    i1, i0e

    Examples
    --------
    >>> st.special.i1e(st.tensor([0., float("inf")]))
    tensor([0., 0.])
    """
    return xp.where(xp.isinf(x), 0.0, bessel_i_scaled(xp, 1, x)).astype(x.dtype)


special_i0e.pullback(x=lambda ops, g, x, out: g * (ops.special_i1e(x) - ops.sign(x) * out))
special_i1e.pullback(
    x=lambda ops, g, x, out: (
        g
        * (
            ops.special_i0e(x)
            - ops.sign(x) * out
            - ops._where_other(x == 0, out / ops._where_other(x == 0, x, 1.0), 0.5)
        )
    )
)


# ---- zeta and gamma


@of_two(
    samples=[
        (reals((3, 4), 1.5, 4.0), reals((3, 4), 0.4, 3.0)),
        (reals((), 2, 3), reals((3,), 1, 2)),
    ]
)
def special_zeta(xp, x, q, /):
    """Hurwitz' zeta function: the sum of (q + k) ** -x over k = 0, 1, ...

    Parameters
    ----------
    input : Tensor or number
        x: the exponent.
    q : Tensor or number
        Where the sum begins, broadcast against it; 1 gives Riemann's zeta function.

    Returns
    -------
    Tensor
        inf at x = 1, NaN below.

    See Also
    --------
    polygamma

    Notes
    -----
    By the formula of Euler and Maclaurin. No gradient by `input`.

    Examples
    --------
    >>> st.allclose(st.special.zeta(st.tensor([2.]), 1.), st.tensor([st.pi ** 2 / 6]), atol=1e-5)
    True
    """
    s, a = np.broadcast_arrays(as_float64(x), as_float64(q))
    safe = np.where(s > 1, s, 2.0)
    is_pole = (a <= 0) & (a == np.floor(a))
    base = np.where(is_pole, 1.0, a)
    lowest = float(np.min(np.where(np.isfinite(base), base, 1.0), initial=1.0))
    shifts = int(min(10_000, max(10, math.ceil(10 - lowest))))
    total = np.zeros_like(safe)
    for k in range(shifts):
        near = base + k
        total = total + np.where(near < 0, negative_power(near, safe), np.abs(near) ** -safe)
    y = base + shifts
    total = total + y ** (1.0 - safe) / (safe - 1) + 0.5 * y**-safe
    factor = safe
    for k, b in enumerate(BERNOULLI, 1):
        total = total + b * factor * y ** (-safe - 2 * k + 1) / math.factorial(2 * k)
        factor = factor * (safe + 2 * k - 1) * (safe + 2 * k)
    out = np.where(is_pole, np.inf, total)
    out = np.where((a < 0) & ~is_pole & (s != np.floor(s)), np.nan, out)
    out = np.where(s == 1, np.inf, np.where(s < 1, np.nan, out))
    return np.where(np.isnan(s) | np.isnan(a), np.nan, out).astype(x.dtype)


def negative_power(base: Any, s: Any) -> Any:
    """base ** -s for negative bases and integer s."""
    return np.abs(base) ** -s * np.where(np.mod(s, 2) == 1, -1.0, 1.0)


special_zeta.pullback(q=lambda ops, g, x, q: g * -x * ops.special_zeta(x + 1, q))


def incomplete_gamma(a: Any, x: Any, upper: bool) -> Any:
    """P(a, x), or Q: by its series for x < a + 1, else by Legendre's continued fraction (Press et
    al. 2007, 6.2).
    """
    a, x = np.broadcast_arrays(as_float64(a), as_float64(x))
    valid = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    a1, x1 = np.where(valid, a, 1.0), np.where(valid, x, 1.0)
    front = np.exp(a1 * np.log(x1) - x1 - lgamma.numpy(a1))
    low = x1 < a1 + 1
    term = 1 / a1
    total, n = term, a1
    for _ in range(20_000):
        n = n + 1
        term = np.where(low, term * x1 / n, 0.0)
        total = total + term
        if not np.any(term > np.abs(total) * 1e-17):
            break
    p = front * total
    tiny = 1e-300
    b = x1 + 1 - a1
    c = np.full_like(b, 1 / tiny)
    d = 1 / np.where(b == 0, tiny, b)
    h = d
    for i in range(1, 20_000):
        an = -i * (i - a1)
        b = b + 2
        d = an * d + b
        d = 1 / np.where(np.abs(d) < tiny, tiny, d)
        c = b + an / c
        c = np.where(np.abs(c) < tiny, tiny, c)
        h = np.where(low, h, h * d * c)
        if not np.any(~low & (np.abs(d * c - 1) > 5e-16)):
            break
    q = front * h
    out = np.where(low, 1 - p, q) if upper else np.where(low, p, 1 - q)
    zero, one = (1.0, 0.0) if upper else (0.0, 1.0)
    out = np.where((x == 0) & (a > 0), zero, out)
    out = np.where((a == 0) & (x > 0), one, out)
    out = np.where(np.isinf(x) & (x > 0) & np.isfinite(a) & (a >= 0), one, out)
    out = np.where(np.isinf(a) & (a > 0) & np.isfinite(x) & (x >= 0), zero, out)
    is_invalid = (a < 0) | (x < 0) | ((a == 0) & (x == 0)) | (np.isinf(a) & np.isinf(x))
    return np.where(is_invalid | np.isnan(a) | np.isnan(x), np.nan, out)


GAMMAS = [
    (reals((3, 4), 0.5, 3.0), reals((3, 4), 0.3, 6.0)),
    (reals((2, 1), 0.5, 3.0), reals((3,), 0.3, 6.0)),
]


@of_two(numpy=elementwise("gammainc"), samples=GAMMAS)
def special_gammainc(xp, x, y, /):
    """The regularised lower incomplete gamma function P(a, x).

    Parameters
    ----------
    input, other : Tensor or number
        a and x, not negative, broadcast against each other; integers are converted to the default
        dtype.

    Returns
    -------
    Tensor
        In [0, 1]; NaN for negative numbers.

    See Also
    --------
    gammaincc, gammaln

    Notes
    -----
    The integral of exp(-t) t ** (a - 1) from 0 to x, over gamma(a). No gradient by `input`.

    Examples
    --------
    >>> st.special.gammainc(st.tensor([1.]), st.tensor([0., float("inf")]))
    tensor([0., 1.])
    """
    return incomplete_gamma(x, y, False).astype(x.dtype)


@of_two(numpy=elementwise("gammaincc"), samples=GAMMAS)
def special_gammaincc(xp, x, y, /):
    """The regularised upper incomplete gamma function Q(a, x).

    Parameters
    ----------
    input, other : Tensor or number
        a and x, not negative, broadcast against each other; integers are converted to the default
        dtype.

    Returns
    -------
    Tensor
        In [0, 1]: 1 - P(a, x), exact where it is small; NaN for negative numbers.

    See Also
    --------
    gammainc, gammaln

    Notes
    -----
    The integral of exp(-t) t ** (a - 1) from x to infinity, over gamma(a). No gradient by `input`.

    Examples
    --------
    >>> st.special.gammaincc(st.tensor([1.]), st.tensor([0., float("inf")]))
    tensor([1., 0.])
    """
    return incomplete_gamma(x, y, True).astype(x.dtype)


def density(ops: Any, a: Any, x: Any) -> Any:
    """exp(-x) x ** (a - 1) / gamma(a)."""
    return ops.exp((a - 1) * ops.log(x) - x - ops.lgamma(a))


special_gammainc.pullback(y=lambda ops, g, x, y: g * density(ops, x, y))
special_gammaincc.pullback(y=lambda ops, g, x, y: -g * density(ops, x, y))


MAX_DIMENSION = 100_000  # of multigammaln, which adds one logarithm for each


@composite(**IN_NAMESPACE)
def special_multigammaln(ops, input, p):
    """The logarithm of the multivariate gamma function of dimension p.

    Parameters
    ----------
    input : Tensor
        Numbers above (p - 1) / 2; integers are converted to the default dtype.
    p : int
        The dimension.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    RuntimeError
        p is less than 1, or too large.

    See Also
    --------
    gammaln

    Notes
    -----
    p (p - 1) / 4 log(pi) plus the sum of lgamma(x - j / 2) over j = 0 to p - 1.

    Examples
    --------
    >>> st.special.multigammaln(st.tensor([1., 2.]), 1)
    tensor([0., 0.])
    """
    if p < 1:
        raise RuntimeError(f"mvlgamma: p has to be greater than or equal to 1: {p}")
    if p > MAX_DIMENSION:
        raise RuntimeError(f"mvlgamma: p has to be at most {MAX_DIMENSION}: {p}")
    total: Any = p * (p - 1) / 4 * math.log(math.pi)
    for j in range(p):
        total = ops.lgamma(input - j / 2) + total
    return total
