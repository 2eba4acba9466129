"""Transforms of pixel values: dtype, normalisation, erasing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .compose import Transform, empty, probability
from .crop_flip_resize import ATTEMPTS
from .sample_rng import Array, generator_of, hash_keys, integers, uniform


class ToDtype(Transform):
    """Images of another dtype.

    Parameters
    ----------
    dtype : dtype, optional
        The new one.
    scale : bool, optional
        Whether bytes 0 .. 255 become floats 0 .. 1 (other whole numbers by their own limits) and
        the other way round; without it values stay as they are.

    See Also
    --------
    Normalize

    Examples
    --------
    >>> from shmtensor.dataloaders import transforms
    >>> transforms.ToDtype(np.float32, scale=True)(np.full((1, 1, 1, 2), 255, np.uint8))
    array([[[[1., 1.]]]], dtype=float32)
    """

    def __init__(self, dtype: Any = np.float32, scale: bool = False) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.scale = scale

    def change(self, x: Array, keys: Array | None) -> Array:
        out = empty(x.shape, self.dtype)
        before, after = limit_of(x.dtype), limit_of(self.dtype)
        if not self.scale or before == after:
            np.copyto(out, x, casting="unsafe")
        elif after == 1:
            np.multiply(x, self.dtype.type(1 / before), out=out, dtype=self.dtype, casting="unsafe")
        elif before == 1:
            # As torchvision does: each whole number gets a share of [0, 1) of the same size.
            np.copyto(out, x * (after + 1 - 1e-3), casting="unsafe")
        else:
            np.copyto(out, x.astype(np.float64) * (after / before), casting="unsafe")
        return out


class Normalize(Transform):
    """`(x - mean) / std`, channel by channel.

    Parameters
    ----------
    mean : float or sequence of float
        One number, or one for each channel (dimension 1 of a batch).
    std : float or sequence of float
        The same.

    Raises
    ------
    TypeError
        Images of whole numbers, on the call.

    See Also
    --------
    ToDtype

    Examples
    --------
    >>> from shmtensor.dataloaders import transforms
    >>> transforms.Normalize(mean=1.0, std=2.0)(np.full((1, 1, 1, 2), 5.0, np.float32))
    array([[[[2., 2.]]]], dtype=float32)
    """

    def __init__(self, mean: float | Sequence[float], std: float | Sequence[float]) -> None:
        self.mean: Array = np.atleast_1d(np.asarray(mean, np.float64))
        self.std: Array = np.atleast_1d(np.asarray(std, np.float64))
        if self.mean.ndim != 1 or self.std.ndim != 1 or (self.std == 0).any():
            raise ValueError(f"Normalize: a mean and a std other than 0 are needed: {mean}, {std}")

    def change(self, x: Array, keys: Array | None) -> Array:
        if x.dtype.kind != "f":
            raise TypeError(
                f"Normalize: the images are not floats: {x.dtype}, put ToDtype(np.float32, "
                "scale=True) before it"
            )
        for values in (self.mean, self.std):
            if len(values) not in (1, x.shape[1]):
                raise ValueError(
                    f"Normalize: {len(values)} numbers for {x.shape[1]} channels of {x.shape}"
                )
        shape = (1, -1, *([1] * (x.ndim - 2)))
        scale = (1 / self.std).astype(x.dtype).reshape(shape)
        shift = (-self.mean / self.std).astype(x.dtype).reshape(shape)
        out = empty(x.shape, x.dtype)
        np.multiply(x, scale, out=out)
        np.add(out, shift, out=out)
        return out


class RandomErasing(Transform):
    """Overwrites a random box of each image with probability `p` (Zhong et al. 2020).

    Parameters
    ----------
    p : float, optional
        How likely.
    scale : (float, float), optional
        The box's area as a share of the image's, from and to.
    ratio : (float, float), optional
        The box's height over its width, from and to.
    value : float, sequence of float or str, optional
        The new value: a number, one for each channel, or "random" (standard normal).

    Notes
    -----
    Source: Z. Zhong et al., "Random erasing data augmentation", AAAI 2020.

    Examples
    --------
    >>> from shmtensor.dataloaders import transforms
    >>> images = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
    >>> transforms.RandomErasing(p=0.0)(images)[0, 0, 1]
    array([4, 5, 6, 7], dtype=uint8)
    """

    is_random = True

    def __init__(
        self,
        p: float = 0.5,
        scale: tuple[float, float] = (0.02, 0.33),
        ratio: tuple[float, float] = (0.3, 3.3),
        value: float | Sequence[float] | str = 0,
    ) -> None:
        self.p = probability("RandomErasing", p)
        self.scale = scale
        self.ratio = ratio
        if isinstance(value, str) and value != "random":
            raise ValueError(f"RandomErasing: value is not a number or 'random': {value!r}")
        self.value = value

    def change(self, x: Array, keys: Array | None) -> Array:
        assert keys is not None
        height, width = x.shape[2:]
        out = empty(x.shape, x.dtype)
        out[...] = x
        pending = uniform(keys, 0) < self.p
        low, high = np.log(self.ratio)
        for attempt in range(ATTEMPTS):
            if not pending.any():
                break
            attempt_keys = hash_keys(keys, attempt + 1)
            area = height * width * (self.scale[0] + np.ptp(self.scale) * uniform(attempt_keys, 0))
            shape = np.exp(low + (high - low) * uniform(attempt_keys, 1))
            hs, ws = np.rint(np.sqrt(area * shape)), np.rint(np.sqrt(area / shape))
            fits = pending & (hs < height) & (ws < width)
            tops = integers(attempt_keys, 2, np.maximum(height - hs + 1, 1).astype(np.int64))
            lefts = integers(attempt_keys, 3, np.maximum(width - ws + 1, 1).astype(np.int64))
            for n in np.flatnonzero(fits).tolist():
                rows = slice(int(tops[n]), int(tops[n] + hs[n]))
                columns = slice(int(lefts[n]), int(lefts[n] + ws[n]))
                box = out[n, :, rows, columns]
                box[...] = self.fill_values(box.shape, int(keys[n]))
            pending &= ~fits
        return out

    def fill_values(self, shape: tuple[int, ...], key: int) -> Any:
        if isinstance(self.value, str):
            return generator_of(key).standard_normal(shape)
        return np.reshape(self.value, (-1, 1, 1))


def limit_of(dtype: np.dtype[Any]) -> float:
    """The largest value of whole numbers; 1 for floats."""
    if dtype.kind == "b":
        return 1
    return 1 if dtype.kind == "f" else np.iinfo(dtype).max
