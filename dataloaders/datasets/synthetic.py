"""Synthetic data for tests: sample i is a function of the seed and i."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shmtensor.autograd import wrap

from ..dataset import Dataset
from ..loader.batch_block import allocate_parts, checked_rows
from ..tensor_dataset import Rows
from ..transforms.sample_rng import hash_keys, integers, make_keys, normal
from .in_memory_images import Array

Part = tuple[tuple[int, ...], Any]


class Synthetic(Dataset[Any]):
    """Base of the synthetic sets: nothing is stored, a batch is computed into its block.

    Args:
        size: how many samples.
        seed: the same seed, the same samples.
    """

    def __init__(self, size: int, seed: int = 0) -> None:
        if size < 0:
            raise ValueError(f"{type(self).__name__}: size is negative: {size}")
        self.size = size
        self.seed = seed

    def fields(self) -> list[Part]:
        """Shape and dtype of each field of a sample."""
        raise NotImplementedError(f"{type(self).__name__}: fields is not implemented")

    def fill(self, keys: Array, *parts: Array) -> None:
        """Writes the samples of `keys` `(N,)` into `fields`."""
        raise NotImplementedError(f"{type(self).__name__}: fill is not implemented")

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> Sequence[Any]:
        """The samples of `indices`, computed at once."""
        keys = make_keys(self.seed, checked_rows(type(self).__name__, indices, self.size))
        out = allocate_parts(((len(keys), *shape), np.dtype(t)) for shape, t in self.fields())
        self.fill(keys, *out)
        return Rows([wrap(part) for part in out], len(keys))


class SyntheticRegression(Synthetic):
    """Samples (x float32 `(features,)`, y float32 `()`), y linear in x with noise.

    Parameters
    ----------
    size : int, optional
        How many samples.
    features : int, optional
        How long x is; its entries are standard normal.
    noise : float, optional
        Standard deviation of what is added to y.
    seed : int, optional
        The same seed, the same samples and the same `weight` and `bias`.

    Examples
    --------
    >>> from shmtensor.dataloaders.datasets import SyntheticRegression
    >>> x, y = SyntheticRegression(size=100, features=4)[0]
    >>> x.shape, y.shape
    (Size([4]), Size([]))
    """

    def __init__(
        self, size: int = 1000, features: int = 10, noise: float = 0.1, seed: int = 0
    ) -> None:
        super().__init__(size, seed)
        self.features = features
        self.noise = noise
        keys = make_keys(seed, np.arange(-features - 1, 0))
        self.weight: Array = normal(keys[1:], 0).astype(np.float32)
        self.bias = float(np.float32(normal(keys[:1], 0)[0]))

    def fields(self) -> list[Part]:
        return [((self.features,), np.float32), ((), np.float32)]

    def fill(self, keys: Array, *parts: Array) -> None:
        x, y = parts
        x[...] = normal_rows(keys, self.features)
        # Not x @ weight: the order of BLAS's sums depends on the number of rows.
        mean = (x.astype(np.float64) * self.weight).sum(1)
        y[...] = mean + self.bias + self.noise * normal(hash_keys(keys, 1), 0)


class SyntheticClassification(Synthetic):
    """Samples (x float32 `(features,)`, class number): a normal cloud around each class's centre.

    Parameters
    ----------
    size : int, optional
        How many samples.
    features : int, optional
        How long x is.
    num_classes : int, optional
        How many classes; drawn with equal probability.
    spread : float, optional
        Standard deviation of the clouds; the centres' entries are standard normal.
    seed : int, optional
        The same seed, the same samples and `centres`.

    Examples
    --------
    >>> from shmtensor.dataloaders.datasets import SyntheticClassification
    >>> x, label = SyntheticClassification(size=100, features=4)[0]
    >>> x.shape, label.dtype
    (Size([4]), shmtensor.int64)
    """

    def __init__(
        self,
        size: int = 1000,
        features: int = 10,
        num_classes: int = 3,
        spread: float = 0.3,
        seed: int = 0,
    ) -> None:
        super().__init__(size, seed)
        self.features = features
        self.num_classes = num_classes
        self.spread = spread
        keys = make_keys(seed, np.arange(-num_classes, 0))
        self.centres: Array = normal_rows(keys, features).astype(np.float32)

    def fields(self) -> list[Part]:
        return [((self.features,), np.float32), ((), np.int64)]

    def fill(self, keys: Array, *parts: Array) -> None:
        x, y = parts
        y[...] = integers(hash_keys(keys, 1), 0, self.num_classes)
        np.multiply(normal_rows(keys, self.features), self.spread, out=x, casting="unsafe")
        x += self.centres[y]


class FakeData(Synthetic):
    """Samples (image of random bytes, class number), as torchvision's, as uint8 tensors.

    Parameters
    ----------
    size : int, optional
        How many images.
    image_size : (int, int, int), optional
        (C, H, W).
    num_classes : int, optional
        How many classes.
    random_offset : int, optional
        The seed.

    Examples
    --------
    >>> from shmtensor.dataloaders.datasets import FakeData
    >>> image, label = FakeData(10, (3, 8, 8))[0]
    >>> image.shape, image.dtype
    (Size([3, 8, 8]), shmtensor.uint8)
    """

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10,
        random_offset: int = 0,
    ) -> None:
        super().__init__(size, random_offset)
        self.image_size = tuple(image_size)
        self.num_classes = num_classes

    def fields(self) -> list[Part]:
        return [(self.image_size, np.uint8), ((), np.int64)]

    def fill(self, keys: Array, *parts: Array) -> None:
        images, labels = parts
        labels[...] = integers(hash_keys(keys, 1), 0, self.num_classes)
        count = int(np.prod(self.image_size))
        for image, key in zip(images, hash_keys(keys, 2)):  # one at a time: words of 8 pixels each
            words = hash_keys(key + np.arange(-(-count // 8), dtype=np.uint64), 0)
            image[...] = words.view(np.uint8)[:count].reshape(self.image_size)


class SyntheticTokens(Synthetic):
    """Samples (tokens, targets), int64 `(block_size,)` each: sequences that can be learnt.

    Each token is the previous one plus a step that is constant in the sequence (modulo
    `vocabulary`), so the first two tokens determine the others.

    Parameters
    ----------
    size : int, optional
        How many windows.
    block_size : int, optional
        Tokens in a window.
    vocabulary : int, optional
        How many tokens there are.
    seed : int, optional
        The same seed, the same samples.

    Examples
    --------
    >>> from shmtensor.dataloaders.datasets import SyntheticTokens
    >>> tokens, targets = SyntheticTokens(size=10, block_size=8)[0]
    >>> bool((tokens[1:] == targets[:-1]).all())
    True
    """

    def __init__(
        self, size: int = 1000, block_size: int = 32, vocabulary: int = 64, seed: int = 0
    ) -> None:
        super().__init__(size, seed)
        self.block_size = block_size
        self.vocabulary = vocabulary

    def fields(self) -> list[Part]:
        return [((self.block_size,), np.int64)] * 2

    def fill(self, keys: Array, *parts: Array) -> None:
        first = integers(keys, 0, self.vocabulary)[:, None]
        step = integers(keys, 1, self.vocabulary)[:, None]
        for shift, part in enumerate(parts):
            part[...] = (first + step * (np.arange(self.block_size) + shift)) % self.vocabulary


def normal_rows(keys: Array, count: int) -> Array:
    """Standard normal numbers `(N, count)`, a row for each key."""
    entry_keys = hash_keys(keys[:, None] + np.arange(count, dtype=np.uint64), 3)
    return normal(entry_keys, 0)
