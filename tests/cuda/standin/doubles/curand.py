"""A double of cuRAND, by NumPy: the pseudo-random generators, each a Philox with its seed.

The numbers are not cuRAND's. One seed and offset give the same numbers again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.cuda.standin.doubles.library import (
    Array,
    Misuse,
    array,
    attach,
    create,
    destroy,
    double,
    handle_of,
    queue,
    store,
)

TYPE_ERROR, OUT_OF_RANGE, LENGTH_NOT_MULTIPLE = 103, 104, 105
PSEUDO = range(100, 162)  # curandRngType_t; from 200 on, quasi-random ones


def install() -> None:
    attach("curand", "cupy_backends/cuda/libs/curand", OUT_OF_RANGE)


@double("curandGetVersion")
def _version(version: int) -> None:
    store(version, 10400)


@double("curandCreateGenerator")
def _create(generator: int, rng_type: int) -> int | None:
    if rng_type not in PSEUDO:
        return TYPE_ERROR
    create(generator)
    return None


@double("curandDestroyGenerator")
def _destroy(generator: int) -> None:
    destroy(generator)


@double("curandSetStream")
def _set_stream(generator: int, stream: int) -> None:
    handle_of(generator).stream = stream


@double("curandSetPseudoRandomGeneratorSeed")
def _set_seed(generator: int, seed: int) -> None:
    handle_of(generator).options.update(seed=seed % 2**64, source=None)


@double("curandSetGeneratorOffset")
def _set_offset(generator: int, offset: int) -> None:
    handle_of(generator).options.update(offset=offset % 2**64, source=None)


@double("curandSetGeneratorOrdering")
def _set_ordering(generator: int, order: int) -> None:
    handle_of(generator).options["order"] = order


def draw(
    generator: int, place: int, t: Any, n: int, sample: Callable[[np.random.Generator], Array]
) -> None:
    """Queues a sample of n numbers. The generator's state is that of the work done before."""
    h = handle_of(generator)
    out = array(place, t, n)
    options = h.options
    if options.get("source") is None:
        bits = np.random.Philox(options.get("seed", 0))
        options["source"] = np.random.Generator(bits.advance(options.get("offset", 0)))
    source = options["source"]

    def work() -> None:
        out[...] = sample(source)

    queue(h.stream, work)


def whole(t: Any, n: int) -> Callable[[np.random.Generator], Array]:
    return lambda source: source.integers(0, np.iinfo(t).max, n, t, endpoint=True)


@double("curandGenerate")
def _generate(generator: int, outputPtr: int, num: int) -> None:
    draw(generator, outputPtr, np.uint32, num, whole(np.uint32, num))


@double("curandGenerateLongLong")
def _generate_long_long(generator: int, outputPtr: int, num: int) -> None:
    draw(generator, outputPtr, np.uint64, num, whole(np.uint64, num))


@double("curandGenerateUniform")
def _uniform(generator: int, outputPtr: int, num: int) -> None:
    """Above 0, up to 1."""
    draw(generator, outputPtr, np.float32, num, lambda s: 1 - s.random(num, np.float32))


@double("curandGenerateUniformDouble")
def _uniform_double(generator: int, outputPtr: int, num: int) -> None:
    draw(generator, outputPtr, np.float64, num, lambda s: 1 - s.random(num))


def normal(
    generator: int, place: int, t: Any, n: int, mean: float, deviation: float, log: bool
) -> int | None:
    if n % 2:
        return LENGTH_NOT_MULTIPLE

    def sample(source: np.random.Generator) -> Array:
        x = mean + deviation * source.standard_normal(n)
        return np.exp(x) if log else x

    draw(generator, place, t, n, sample)
    return None


@double("curandGenerateNormal")
def _normal(generator: int, outputPtr: int, num: int, mean: float, stddev: float) -> int | None:
    return normal(generator, outputPtr, np.float32, num, mean, stddev, False)


@double("curandGenerateNormalDouble")
def _normal_double(
    generator: int, outputPtr: int, n: int, mean: float, stddev: float
) -> int | None:
    return normal(generator, outputPtr, np.float64, n, mean, stddev, False)


@double("curandGenerateLogNormal")
def _log_normal(generator: int, outputPtr: int, n: int, mean: float, stddev: float) -> int | None:
    return normal(generator, outputPtr, np.float32, n, mean, stddev, True)


@double("curandGenerateLogNormalDouble")
def _log_normal_double(
    generator: int, outputPtr: int, n: int, mean: float, stddev: float
) -> int | None:
    return normal(generator, outputPtr, np.float64, n, mean, stddev, True)


@double("curandGeneratePoisson")
def _poisson(generator: int, outputPtr: int, n: int, lam: float) -> None:
    if lam <= 0:
        raise Misuse(f"the rate is {lam}")
    draw(generator, outputPtr, np.uint32, n, lambda s: s.poisson(lam, n).astype(np.uint32))
