"""Random numbers per sample: a key for each sample, and any number of random numbers per key.

    seed, index --> key of the sample --> number 0, number 1, ...

All are functions of the key alone, so a sample gets the same augmentation in any batch, worker and
run. The hash is SplitMix64's: G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom
number generators", OOPSLA 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..loader.seeding import new_seed

Array = np.ndarray[Any, Any]

GOLDEN = 0x9E3779B97F4A7C15
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
WORD = 2**64


def hash_keys(keys: Array, number: int) -> Array:
    """The `number`-th word of each key, uint64 `(N,)`: words of one key look independent."""
    z = keys + np.uint64((number + 1) * GOLDEN % WORD)
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    words: Array = z ^ (z >> np.uint64(31))
    return words


def make_keys(seed: int, indices: Sequence[int] | Array) -> Array:
    """The keys of samples in an epoch, from which random transforms draw.

    Parameters
    ----------
    seed : int
        Of the epoch.
    indices : sequence of int
        The samples, `(N,)`.

    Returns
    -------
    ndarray
        uint64 `(N,)`.

    See Also
    --------
    Transform

    Examples
    --------
    >>> from shmtensor.dataloaders import transforms
    >>> images = np.arange(32, dtype=np.uint8).reshape(2, 1, 4, 4)
    >>> keys = transforms.make_keys(0, [5, 6])
    >>> crop = transforms.RandomCrop(2)
    >>> bool((crop(images, keys=keys) == crop(images, keys=keys)).all())
    True
    """
    rows = np.asarray(indices, dtype=np.int64).astype(np.uint64)
    return hash_keys(hash_keys(rows, 0) ^ np.uint64(seed % WORD), 1)


def sample_keys(count: int) -> Array:
    """Keys `(count,)` of one draw from shmtensor's default generator."""
    return make_keys(new_seed(), np.arange(count))


def uniform(keys: Array, number: int) -> Array:
    """The `number`-th number of each key, float64 in [0, 1)."""
    fraction: Array = (hash_keys(keys, number) >> np.uint64(11)) * 2.0**-53
    return fraction


def integers(keys: Array, number: int, high: int | Array) -> Array:
    """The `number`-th number of each key, int64 in 0 .. high - 1."""
    numbers: Array = (uniform(keys, number) * high).astype(np.int64)
    return numbers


def normal(keys: Array, number: int) -> Array:
    """The `number`-th number of each key, standard normal (Box and Muller, 1958)."""
    radius = np.sqrt(-2 * np.log1p(-uniform(keys, 2 * number)))
    numbers: Array = radius * np.cos(2 * np.pi * uniform(keys, 2 * number + 1))
    return numbers


def generator_of(key: int) -> np.random.Generator:
    """NumPy's generator for one key, for what takes many numbers or other distributions."""
    return np.random.Generator(np.random.PCG64(int(key)))
