"""Transform, the base class of transforms of whole batches, and Compose, a sequence of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shmtensor.autograd import wrap
from shmtensor.tensor import Tensor

from ..loader.batch_block import allocate_parts
from .sample_rng import Array, hash_keys, sample_keys, uniform


class Transform:
    """The base of the transforms of a batch of images `(N, C, H, W)`, or of one image `(C, H, W)`;
    the input stays as it is.

    `transform(images)` returns the images; `transform(images, labels)` both. A random transform
    draws for each sample independently, from the sample's key. Arguments of a call are `images`, a
    tensor or NumPy array; `*labels` of the samples, which most transforms return unchanged; `keys`,
    uint64 `(N,)`, one for each sample (`make_keys`): the same keys, the same numbers. They are
    drawn from shmtensor's default generator if None.

    See Also
    --------
    Compose, Lambda, make_keys

    Notes
    -----
    Copies: one (into a block of shared memory).

    Examples
    --------
    >>> from shmtensor.dataloaders import transforms
    >>> isinstance(transforms.RandomCrop(4), transforms.Transform)
    True
    """

    is_random = False

    def __call__(self, images: Any, *labels: Any, keys: Array | None = None) -> Any:
        x = images.array if isinstance(images, Tensor) else np.asarray(images)
        is_single = x.ndim == 3 and not isinstance(self, LabelTransform)
        if is_single:
            x, labels = x[None], tuple(np.asarray(as_array(y))[None] for y in labels)
        if keys is None and self.is_random:
            keys = sample_keys(len(x))
        parts = self.apply([x, *(as_array(y) for y in labels)], keys)
        if is_single:
            parts = [part[0] for part in parts]
        inputs = (images, *labels)
        outputs = [
            wrap(np.asarray(part)) if isinstance(old, Tensor) else part
            for old, part in zip(inputs, parts, strict=True)
        ]
        return tuple(outputs) if labels else outputs[0]

    def apply(self, parts: list[Any], keys: Array | None) -> list[Any]:
        """The transformed `parts`: images `(N, C, H, W)` first, then labels, as arrays."""
        return [self.change(parts[0], keys), *parts[1:]]

    def change(self, x: Array, keys: Array | None) -> Array:
        """Transforms the images only; most transforms implement this."""
        raise NotImplementedError(f"{type(self).__name__}: change is not implemented")

    def __repr__(self) -> str:
        attributes = ", ".join(f"{k}={v!r}" for k, v in vars(self).items() if not k.startswith("_"))
        return f"{type(self).__name__}({attributes})"


class LabelTransform(Transform):
    """Changes the labels, the last argument; images before them stay unchanged."""

    def apply(self, parts: list[Any], keys: Array | None) -> list[Any]:
        return [*parts[:-1], self.change(np.asarray(parts[-1]), keys)]


class Compose(Transform):
    """Several transforms, one after another.

    Parameters
    ----------
    transforms : sequence of callable
        Instances of `Transform`, which get independent keys, or functions of a batch of tensors.

    Examples
    --------
    >>> from shmtensor.dataloaders import transforms
    >>> augment = transforms.Compose(
    ...     [transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip()]
    ... )
    >>> augment(np.zeros((8, 3, 32, 32), np.uint8)).shape
    (8, 3, 32, 32)
    """

    def __init__(self, transforms: Sequence[Callable[..., Any]]) -> None:
        self.transforms = list(transforms)
        self.is_random = any(getattr(t, "is_random", False) for t in self.transforms)

    def apply(self, parts: list[Any], keys: Array | None) -> list[Any]:
        for i, transform in enumerate(self.transforms):
            if isinstance(transform, Transform):
                transform_keys = None if keys is None else hash_keys(keys, i)
                parts = transform.apply(parts, transform_keys)
            else:
                result = transform(*(wrap_arrays(part) for part in parts))
                parts = [as_array(part) for part in (result if len(parts) > 1 else (result,))]
        return parts

    def __repr__(self) -> str:
        return f"Compose({self.transforms!r})"


class Lambda(Transform):
    """A function of a batch of images, as a transform; labels stay unchanged.

    Parameters
    ----------
    function : callable
        Tensor `(N, C, H, W)` -> tensor or array.

    Examples
    --------
    >>> from shmtensor.dataloaders import transforms
    >>> images = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
    >>> int(transforms.Lambda(lambda x: x * 0)(images).max())
    0
    """

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        self.function = function

    def change(self, x: Array, keys: Array | None) -> Array:
        return np.asarray(as_array(self.function(wrap(x))))


class RandomApply(Transform):
    """Applies a transform that keeps shape and dtype to each sample with probability `p`.

    Parameters
    ----------
    transform : Transform
        What is applied.
    p : float, optional
        How likely.

    Examples
    --------
    >>> from shmtensor.dataloaders import transforms
    >>> images = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
    >>> flip = transforms.RandomHorizontalFlip(p=1.0)
    >>> transforms.RandomApply(flip, p=0.0)(images)[0, 0, 0]
    array([0, 1, 2, 3], dtype=uint8)
    """

    is_random = True

    def __init__(self, transform: Transform, p: float = 0.5) -> None:
        self.transform = transform
        self.p = probability("RandomApply", p)

    def change(self, x: Array, keys: Array | None) -> Array:
        assert keys is not None
        mask = uniform(keys, 0) < self.p
        out = empty(x.shape, x.dtype)
        out[...] = x
        if mask.any():
            out[mask] = self.transform.apply([x[mask]], hash_keys(keys[mask], 1))[0]
        return out


def empty(shape: tuple[int, ...], dtype: Any) -> Array:
    """An uninitialised array in shared memory, so that a batch of it is sent as a handle."""
    return allocate_parts([(shape, np.dtype(dtype))])[0]


def as_array(value: Any) -> Any:
    """A tensor's array; anything else as it is."""
    return value.array if isinstance(value, Tensor) else value


def wrap_arrays(value: Any) -> Any:
    """Arrays as tensors; anything else as it is."""
    return wrap(value) if isinstance(value, np.ndarray) else value


def probability(where: str, p: float) -> float:
    if not 0 <= p <= 1:
        raise ValueError(f"{where}: p is not a probability: {p}")
    return p


def pair(where: str, size: Any) -> tuple[int, int]:
    """Height and width, of a number or of two."""
    sizes = (size, size) if isinstance(size, (int, np.integer)) else tuple(size)
    if len(sizes) == 1:
        sizes = sizes * 2
    if len(sizes) != 2 or any(int(n) != n or n <= 0 for n in sizes):
        raise ValueError(f"{where}: size is not one or two positive whole numbers: {size!r}")
    return int(sizes[0]), int(sizes[1])
