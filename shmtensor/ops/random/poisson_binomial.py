"""Poisson and binomial random numbers.

Each element has a stream of its own, whose first counter is the offset and the element's position
(`philox`); attempts that are rejected go on in it. The native kernels have the algorithms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ..table.constants import zero_gradient
from ..table.op_table import composite, op
from ..table.samples import reals
from .rand_multinomial import claim, numel


def in_kernel_dtype(x: Any) -> Any:
    """The array, or a copy in float32 of 16-bit floats."""
    return native.recast(x, np.dtype(np.float32)) if x.dtype.itemsize == 2 else x


@op(samples=[(reals((3, 4), 0.0, 9.0), 3, 0)])
def _poisson(xp, x, /, seed, offset):
    """Poisson counts with the rate x."""
    if x.size and not (x.min() >= 0 and xp.isfinite(x.max())):
        raise RuntimeError(f"poisson: rates must be finite and not negative: {x.min()}, {x.max()}")
    return native.recast(native.poisson(in_kernel_dtype(x), seed, offset), x.dtype)


_poisson.pullback(x=zero_gradient)


@op(samples=[(reals((3, 4), 5.0, 9.0), reals((3, 4), 0.1, 0.9), 3, 0)])
def _binomial(xp, x, y, /, seed, offset):
    """The number of successes in x trials (truncated to an integer) of probability y."""
    if x.size and not x.min() >= 0:
        raise RuntimeError(f"binomial: counts must not be negative: {x.min()}")
    if y.size and not (y.min() >= 0 and y.max() <= 1):
        raise RuntimeError(f"binomial: chances must lie in [0, 1]: {y.min()} to {y.max()}")
    numbers = native.binomial(in_kernel_dtype(x), in_kernel_dtype(y), seed, offset)
    return native.recast(numbers, y.dtype)


_binomial.pullback(x=zero_gradient, y=zero_gradient)


@composite(method=False)
def poisson(ops, input, generator=None):
    """Random numbers with Poisson distributions.

    Parameters
    ----------
    input : Tensor
        The rate of each element, of a floating-point dtype, not negative.
    generator : Generator, optional
        The source of random numbers; by default that of the device.

    Returns
    -------
    Tensor
        Whole numbers, of the shape and dtype of `input`.

    Raises
    ------
    RuntimeError
        The dtype is not floating point, or a rate is negative.

    See Also
    --------
    binomial

    Examples
    --------
    >>> st.poisson(st.tensor([0., 0.]))
    tensor([0., 0.])
    """
    if input.dtype.kind != "f":
        raise RuntimeError(f"poisson: rates must be floating point: {input.dtype.name}")
    return ops._poisson(input, *claim(generator, 4 * numel(input), False, input))


@composite(method=False)
def binomial(ops, count, prob, generator=None):
    """The number of successes in repeated trials with a given probability, at random.

    Parameters
    ----------
    count : Tensor
        The number of trials of each element, of a floating-point dtype, not negative.
    prob : Tensor
        The probability of success, of the same dtype; broadcast against `count`.
    generator : Generator, optional
        The source of random numbers; by default that of the device.

    Returns
    -------
    Tensor
        Whole numbers of that dtype, of the broadcast shape.

    Raises
    ------
    RuntimeError
        The dtypes differ, or a count or probability is out of range.

    See Also
    --------
    bernoulli, poisson

    Examples
    --------
    >>> st.binomial(st.tensor([5., 7.]), st.tensor([1., 0.]))
    tensor([5., 0.])
    """
    if prob.dtype.kind != "f" or count.dtype != prob.dtype:
        raise RuntimeError(
            f"binomial: count and prob must be of one floating dtype: {count.dtype.name}, "
            f"{prob.dtype.name}"
        )
    count, prob = ops.broadcast_tensors(count, prob)
    return ops._binomial(count, prob, *claim(generator, 4 * numel(count), False, count))
