"""Poisson and binomial random numbers.

They come from NumPy's Philox generator, whose key is our generator's seed and offset: the same seed
gives the same numbers with the same NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ..table.op_definition import composite, op
from ..table.samples import reals
from .rand_multinomial import claim


def numpy_generator(seed: int, offset: int) -> Any:
    """NumPy's generator. The first use imports its module: with the heap's gate shut, because the
    module's arrays would stay in shared memory for ever.
    """
    token = native.gate_shut()
    try:
        return np.random.Generator(np.random.Philox(key=[seed, offset]))
    finally:
        native.gate_close(token)


@op(method=False, function=False, samples=[(reals((3, 4), 0.0, 9.0), 3, 0)])
def _poisson(xp, x, /, seed, offset):
    """Poisson counts with the rate x."""
    if x.size and not (x.min() >= 0 and xp.isfinite(x.max())):
        raise RuntimeError(f"poisson: rates must be finite and not negative: {x.min()}, {x.max()}")
    return numpy_generator(seed, offset).poisson(x).astype(x.dtype)


_poisson.pullback(x=lambda g: g * 0)


@op(
    method=False,
    function=False,
    samples=[(reals((3, 4), 5.0, 9.0), reals((3, 4), 0.1, 0.9), 3, 0)],
)
def _binomial(xp, x, y, /, seed, offset):
    """The number of successes in x trials (truncated to an integer) of probability y."""
    if x.size and not x.min() >= 0:
        raise RuntimeError(f"binomial: counts must not be negative: {x.min()}")
    if y.size and not (y.min() >= 0 and y.max() <= 1):
        raise RuntimeError(f"binomial: chances must lie in [0, 1]: {y.min()} to {y.max()}")
    return numpy_generator(seed, offset).binomial(x.astype(np.int64), y).astype(y.dtype)


_binomial.pullback(x=lambda g: g * 0, y=lambda g: g * 0)


@composite(method=False)
def poisson(ops, input, generator=None):
    """Poisson numbers whose rates are the elements; same shape and dtype."""
    if input.dtype.kind != "f":
        raise RuntimeError(f"poisson: rates must be floating point: {input.dtype}")
    return ops._poisson(input, *claim(generator, 1))


@composite(method=False)
def binomial(ops, count, prob, generator=None):
    """The number of successes in `count` trials of probability `prob`; tensors of one dtype."""
    if prob.dtype.kind != "f" or count.dtype != prob.dtype:
        raise RuntimeError(
            f"binomial: count and prob must be of one floating dtype: {count.dtype}, {prob.dtype}"
        )
    return ops._binomial(*ops.broadcast_tensors(count, prob), *claim(generator, 1))
