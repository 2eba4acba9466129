"""Random numbers written to a tensor in place."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import native
from ..table.constants import zero_gradient
from ..table.op_table import composite, op
from ..table.samples import reals
from . import philox
from .bounds import check_random_bounds, check_random_dtype, check_uniform_bounds, max_exact_integer
from .rand_multinomial import claim, numel, parallel_less

parallel_exp, parallel_log = native.parallel(np.exp), native.parallel(np.log)

# ---- rows in place; their gradient is 0, because the old values are overwritten


def native_fill(kernel: Any) -> Any:
    """A kernel that fills the array itself, or a new one like it."""

    def fill(x: Any, seed: int, offset: int, low: float, high: float, out: Any = None) -> Any:
        out = np.empty_like(x) if out is None else out
        if out.dtype.kind == "f" and out.dtype.itemsize == 2:
            return philox.fill_half(kernel, out, seed, offset, low, high)
        return kernel(out, seed, offset, low, high)

    return fill


@op(
    numpy=native_fill(native.uniform_),
    out=True,
    inplace=True,
    samples=[((3, 4), 5, 0, 0.0, 1.0)],
    halves="checks",
)
def _uniform(xp, x, /, seed, offset, low, high):
    """Uniformly distributed numbers in the shape of x."""
    return philox.fill_uniform(xp.empty_like(x), seed, offset, low, high)


@op(
    numpy=native_fill(native.normal_),
    out=True,
    inplace=True,
    samples=[((3, 4), 5, 0, 0.0, 1.0)],
    halves="checks",
)
def _normal(xp, x, /, seed, offset, mean, std):
    """Normally distributed numbers in the shape of x."""
    return philox.fill_normal(xp.empty_like(x), seed, offset, mean, std)


# Of the flat float64 numbers of a stream, uniform ones from [0, 1).
DISTRIBUTIONS: dict[str, Callable[[Any, float, float], Any]] = {
    "uniform": lambda u, low, high: low + (high - low) * u,
    "bernoulli": lambda u, p, _: parallel_less(u, p),
    "exponential": lambda u, lambd, _: (0.0 - parallel_log(1.0 - u)) / lambd,  # 1 - u is exact
    "cauchy": lambda u, median, sigma: median + sigma * np.tan(math.pi * (u - 0.5)),
    "geometric": lambda u, p, _: np.maximum(np.ceil(np.log1p(-u) / math.log1p(-p)), 1),
}


@op(
    inplace=True,
    samples=[
        ((3, 4), 5, 0, "bernoulli", 0.3),
        ((3, 4), 5, 0, "exponential", 2.0),
        ((3, 4), 5, 0, "cauchy", 1.0, 2.0),
        ((3, 4), 5, 0, "geometric", 0.3),
        ((3, 4), 5, 0, "log_normal", 0.0, 0.5),
    ],
)
def _distribution(xp, x, /, seed, offset, name, a=0.0, b=0.0):
    """Numbers of a distribution in the shape and dtype of x; "normal" is for complex dtypes."""
    u = np.empty(x.size * (2 if x.dtype.kind == "c" else 1))
    if name in DISTRIBUTIONS:
        values = DISTRIBUTIONS[name](native.uniform_(u, seed, offset, 0.0, 1.0), a, b)
    elif name == "log_normal":
        values = parallel_exp(native.normal_(u, seed, offset, a, b))
    else:  # normal parts; the mean is that of the number
        values = a + b * philox.normal(seed, offset, u.size, u.dtype).view(np.complex128)
    if x.dtype.kind == "c":
        values = values.view(np.complex128)
    return values.astype(x.dtype).reshape(x.shape)


@op(inplace=True, samples=[((3, 4), reals((4,), 0.0, 1.0), 5, 0)])
def _bernoulli_of(xp, x, y, /, seed, offset):
    """1 with probability y, which is broadcast, else 0, in the shape and dtype of x."""
    if y.size and not (y.min() >= 0 and y.max() <= 1):
        raise RuntimeError(f"bernoulli_: probabilities must lie in [0, 1]: {y}")
    u = native.uniform_(np.empty(x.shape), seed, offset, 0.0, 1.0)
    return parallel_less(u, y).astype(x.dtype)


@op(inplace=True, samples=[((3, 4), 5, 0, -3, 9)])
def _random(xp, x, /, seed, offset, low, span):
    """Integers from [low, low + span) in the shape and dtype of x; span 0 is 2**64."""
    return native.randint(x.size, seed, offset, low, span).astype(x.dtype).reshape(x.shape)


for row in (_uniform, _normal, _distribution, _bernoulli_of, _random):
    row.pullback(x=zero_gradient)


@composite(function=False)
def uniform_(ops, input, low=0.0, high=1.0, *, generator=None):
    """Fills the tensor with uniformly distributed random numbers from [low, high).

    Parameters
    ----------
    low, high : float, optional
        The range.
    generator : Generator, optional
        The source of random numbers; by default that of the device.

    Returns
    -------
    Tensor
        The tensor itself.

    Raises
    ------
    RuntimeError
        `low` exceeds `high`, or the dtype cannot hold the range.

    See Also
    --------
    rand, normal_

    Examples
    --------
    >>> x = st.empty(3).uniform_(-1, 1)
    >>> bool(((x >= -1) & (x < 1)).all())
    True
    """
    check_uniform_bounds("uniform_", low, high, input.dtype)
    if input.dtype.kind == "c":
        stream = claim(generator, 2 * numel(input), True, input)
        return ops._distribution_(input, *stream, "uniform", low, high)
    stream = claim(generator, numel(input), input.dtype == np.float64, input)
    return ops._uniform_(input, *stream, low, high)


@composite(function=False)
def normal_(ops, input, mean=0.0, std=1.0, *, generator=None):
    """Fills the tensor with normally distributed random numbers.

    Parameters
    ----------
    mean : float, optional
        Their mean.
    std : float, optional
        Their standard deviation; of complex numbers half of the variance is in each part.
    generator : Generator, optional
        The source of random numbers; by default that of the device.

    Returns
    -------
    Tensor
        The tensor itself.

    Raises
    ------
    RuntimeError
        `std` is negative.

    See Also
    --------
    randn, normal

    Examples
    --------
    >>> st.empty(3).normal_(mean=5., std=0.)
    tensor([5., 5., 5.])
    """
    check_random_dtype("normal_", input.dtype)
    if std < 0:
        raise RuntimeError(f"normal_: std must not be negative: {std}")
    if input.dtype.kind == "c":  # half of the variance in each part
        stream = claim(generator, 2 * numel(input), True, input)
        return ops._distribution_(input, *stream, "normal", mean, std * math.sqrt(0.5))
    stream = claim(generator, numel(input), input.dtype == np.float64, input)
    return ops._normal_(input, *stream, mean, std)


@composite(function=False)
def bernoulli_(ops, input, p=0.5, *, generator=None):
    """Fills the tensor with ones, each with a given probability, and zeros.

    Parameters
    ----------
    p : float or Tensor, optional
        The probability, or that of each element.
    generator : Generator, optional
        The source of random numbers; by default that of the device.

    Returns
    -------
    Tensor
        The tensor itself, of any real dtype.

    Raises
    ------
    RuntimeError
        A probability is outside [0, 1].

    See Also
    --------
    bernoulli

    Examples
    --------
    >>> st.empty(3).bernoulli_(1.)
    tensor([1., 1., 1.])
    """
    check_random_dtype("bernoulli_", input.dtype, "biuf")
    number = isinstance(p, (int, float))
    array = getattr(p, "array", p)
    if number or isinstance(array, np.ndarray):  # elsewhere the check would wait for the device
        low, high = (p, p) if number else (np.min(array), np.max(array))
        if low < 0 or high > 1:
            raise RuntimeError(f"bernoulli_: probabilities must lie in [0, 1]: {array}")
    stream = claim(generator, numel(input), True, input)
    if number:
        return ops._distribution_(input, *stream, "bernoulli", p)
    return ops._bernoulli_of_(input, p, *stream)


@composite(function=False)
def exponential_(ops, input, lambd=1.0, *, generator=None):
    """Fills the tensor with exponentially distributed random numbers.

    Parameters
    ----------
    lambd : float, optional
        The rate: their mean is 1 / lambd.
    generator : Generator, optional
        The source of random numbers; by default that of the device.

    Returns
    -------
    Tensor
        The tensor itself.

    Raises
    ------
    RuntimeError
        `lambd` is not positive, or the dtype is not floating point.

    See Also
    --------
    uniform_

    Examples
    --------
    >>> bool((st.empty(3).exponential_() >= 0).all())
    True
    """
    check_random_dtype("exponential_", input.dtype, "f", RuntimeError)
    if lambd <= 0:
        raise RuntimeError(f"exponential_: lambd must be positive: {lambd}")
    stream = claim(generator, numel(input), True, input)
    return ops._distribution_(input, *stream, "exponential", lambd)


@composite(function=False)
def cauchy_(ops, input, median=0.0, sigma=1.0, *, generator=None):
    """Fills the tensor with Cauchy-distributed random numbers.

    Parameters
    ----------
    median : float, optional
        Their median.
    sigma : float, optional
        The half width at half of the density's height.
    generator : Generator, optional
        The source of random numbers; by default that of the device.

    Returns
    -------
    Tensor
        The tensor itself.

    Raises
    ------
    RuntimeError
        `sigma` is not positive, or the dtype is not floating point.

    See Also
    --------
    normal_

    Examples
    --------
    >>> st.empty(3).cauchy_().shape
    Size([3])
    """
    check_random_dtype("cauchy_", input.dtype, "f", RuntimeError)
    if sigma <= 0:
        raise RuntimeError(f"cauchy_: sigma must be positive: {sigma}")
    stream = claim(generator, numel(input), True, input)
    return ops._distribution_(input, *stream, "cauchy", median, sigma)


@composite(function=False)
def geometric_(ops, input, p, *, generator=None):
    """Fills the tensor with the numbers of trials up to and with the first success, at random.

    Parameters
    ----------
    p : float
        The probability of success, in (0, 1).
    generator : Generator, optional
        The source of random numbers; by default that of the device.

    Returns
    -------
    Tensor
        The tensor itself; the numbers are 1 at least.

    Raises
    ------
    RuntimeError
        p is not between 0 and 1.

    See Also
    --------
    bernoulli_

    Examples
    --------
    >>> bool((st.empty(3).geometric_(0.5) >= 1).all())
    True
    """
    check_random_dtype("geometric_", input.dtype, "fiu")
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_: p must lie between 0 and 1: {p}")
    return ops._distribution_(input, *claim(generator, numel(input), True, input), "geometric", p)


@composite(function=False)
def log_normal_(ops, input, mean=1.0, std=2.0, *, generator=None):
    """Fills the tensor with random numbers whose logarithms are normally distributed.

    Parameters
    ----------
    mean, std : float, optional
        The mean and the standard deviation of the logarithms.
    generator : Generator, optional
        The source of random numbers; by default that of the device.

    Returns
    -------
    Tensor
        The tensor itself.

    Raises
    ------
    RuntimeError
        `std` is not positive.

    See Also
    --------
    normal_

    Examples
    --------
    >>> bool((st.empty(3).log_normal_() > 0).all())
    True
    """
    check_random_dtype("log_normal_", input.dtype, "f")
    if std <= 0:
        raise RuntimeError(f"log_normal_: std must be positive: {std}")
    stream = claim(generator, numel(input), True, input)
    return ops._distribution_(input, *stream, "log_normal", mean, std)


@composite(function=False)
def random_(ops, input, low=None, high=..., *, generator=None):
    """Fills the tensor with random integers.

    Parameters
    ----------
    low : int, optional
        The smallest one, 0 by default; `random_(high)` is `random_(0, high)`.
    high : int or None, optional
        The end of the range, which is not one of them. None, and by default without `low`: up to
        the dtype's largest number, of a floating-point dtype the one up to which it has all
        integers.
    generator : Generator, optional
        The source of random numbers; by default that of the device.

    Returns
    -------
    Tensor
        The tensor itself.

    Raises
    ------
    RuntimeError
        The range is empty, or the dtype cannot hold it.

    See Also
    --------
    randint

    Examples
    --------
    >>> st.empty(3, dtype=st.int64).random_(5, 6)
    tensor([5, 5, 5])
    """
    if low is None:
        low, high = 0, None
    elif high is ...:
        low, high = 0, low
    check_random_dtype("random_", input.dtype, "biuf")
    low = operator.index(low)
    high = max_exact_integer(input.dtype) + 1 if high is None else operator.index(high)
    check_random_bounds("random_", low, high, input.dtype)
    span = high - low
    stream = claim(generator, numel(input), span >= 2**32, input)
    return ops._random_(input, *stream, low, span % 2**64)
