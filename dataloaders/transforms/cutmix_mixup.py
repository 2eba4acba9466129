"""Transforms of samples with their labels: one-hot, CutMix, MixUp."""

from __future__ import annotations

from typing import Any

import numpy as np

from .compose import LabelTransform, Transform, empty
from .sample_rng import Array, generator_of, integers


class OneHot(LabelTransform):
    """Class numbers `(N,)` as rows `(N, num_classes)` of 0 and a single 1.

    With several arguments it changes the last one, the labels.

    Parameters
    ----------
    num_classes : int
        How many there are.
    dtype : dtype, optional
        Of the rows.

    Raises
    ------
    ValueError
        A label outside 0 .. num_classes - 1, on the call.

    Examples
    --------
    >>> from shmtensor.dataloaders import transforms
    >>> transforms.OneHot(3)(np.array([2, 0]))
    array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """

    def __init__(self, num_classes: int, dtype: Any = np.float32) -> None:
        if num_classes < 1:
            raise ValueError(f"OneHot: num_classes is not positive: {num_classes}")
        self.num_classes = num_classes
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    def change(self, x: Array, keys: Array | None) -> Array:
        if x.dtype.kind not in "iu":
            raise TypeError(f"OneHot: labels are not whole numbers: {x.dtype}")
        if x.size and not 0 <= x.min() <= x.max() < self.num_classes:
            raise ValueError(
                f"OneHot: labels are not in 0 .. {self.num_classes - 1}: from {x.min()} to "
                f"{x.max()}"
            )
        out = empty((*x.shape, self.num_classes), self.dtype)
        np.equal(x[..., None], np.arange(self.num_classes), out=out, casting="unsafe")
        return out


class Mixing(Transform):
    """Mixes each sample with the one before it in the batch; labels become shares of classes."""

    is_random = True

    def __init__(self, alpha: float = 1.0, num_classes: int | None = None) -> None:
        if alpha <= 0:
            raise ValueError(f"{type(self).__name__}: alpha is not positive: {alpha}")
        self.alpha = alpha
        self.num_classes = num_classes

    def apply(self, parts: list[Any], keys: Array | None) -> list[Any]:
        where = type(self).__name__
        if len(parts) != 2:
            raise TypeError(f"{where}: images and labels are needed: {len(parts)} arguments")
        assert keys is not None
        x, y = parts[0], np.asarray(parts[1])
        if y.ndim == 1:
            if self.num_classes is None:
                raise ValueError(f"{where}: num_classes is needed where labels are class numbers")
            y = OneHot(self.num_classes).change(y, None)
        shares = np.array([generator_of(key).beta(self.alpha, self.alpha) for key in keys.tolist()])
        mixed, shares = self.mix(x, shares, keys)
        shares = shares.astype(y.dtype)[:, None]
        labels = empty(y.shape, y.dtype)
        np.multiply(y, shares, out=labels)
        labels += np.roll(y, 1, axis=0) * (1 - shares)
        return [mixed, labels]

    def mix(self, x: Array, shares: Array, keys: Array) -> tuple[Array, Array]:
        """The mixed images, and the share of each that is from the sample itself."""
        raise NotImplementedError(f"{type(self).__name__}: mix is not implemented")


class MixUp(Mixing):
    """Each sample is an average with the one before it in the batch, and so is its label.

    Parameters
    ----------
    alpha : float, optional
        The weight is drawn from Beta(alpha, alpha), for each sample.
    num_classes : int, optional
        How many there are; needed where labels are class numbers.

    See Also
    --------
    CutMix

    Notes
    -----
    Called with images and labels; returns both, labels `(N, num_classes)`. The partner depends on
    the batch, so unlike other transforms a sample's augmentation depends on its batch. Source: H.
    Zhang et al., "mixup: beyond empirical risk minimization", ICLR 2018.

    Examples
    --------
    >>> from shmtensor.dataloaders import transforms
    >>> images, labels = np.zeros((4, 3, 8, 8), np.float32), np.array([0, 1, 2, 0])
    >>> mixed, rows = transforms.MixUp(num_classes=3)(images, labels)
    >>> mixed.shape, rows.shape
    ((4, 3, 8, 8), (4, 3))
    """

    def mix(self, x: Array, shares: Array, keys: Array) -> tuple[Array, Array]:
        if x.dtype.kind != "f":
            raise TypeError(f"MixUp: the images are not floats: {x.dtype}, put ToDtype before it")
        weights = shares.astype(x.dtype).reshape(-1, *([1] * (x.ndim - 1)))
        out = empty(x.shape, x.dtype)
        np.multiply(x, weights, out=out)
        out += np.roll(x, 1, axis=0) * (1 - weights)
        return out, shares


class CutMix(Mixing):
    """A box of each image is that of the one before it in the batch; labels mix by area.

    Parameters
    ----------
    alpha : float, optional
        The box's share is drawn from Beta(alpha, alpha), for each sample.
    num_classes : int, optional
        How many there are; needed where labels are class numbers.

    See Also
    --------
    MixUp

    Notes
    -----
    Called with images and labels; returns both, labels `(N, num_classes)`. The partner depends on
    the batch, as in `MixUp`. Source: S. Yun et al., "CutMix", ICCV 2019.

    Examples
    --------
    >>> from shmtensor.dataloaders import transforms
    >>> images, labels = np.zeros((4, 3, 8, 8), np.float32), np.array([0, 1, 2, 0])
    >>> mixed, rows = transforms.CutMix(num_classes=3)(images, labels)
    >>> mixed.shape, rows.shape
    ((4, 3, 8, 8), (4, 3))
    """

    def mix(self, x: Array, shares: Array, keys: Array) -> tuple[Array, Array]:
        height, width = x.shape[2:]
        half = 0.5 * np.sqrt(1 - shares)
        center_y, center_x = integers(keys, 0, height), integers(keys, 1, width)
        tops = np.clip(center_y - (half * height).astype(np.int64), 0, height)
        ends = np.clip(center_y + (half * height).astype(np.int64), 0, height)
        lefts = np.clip(center_x - (half * width).astype(np.int64), 0, width)
        rights = np.clip(center_x + (half * width).astype(np.int64), 0, width)
        out = empty(x.shape, x.dtype)
        out[...] = x
        for n, (top, end, left, right) in enumerate(zip(tops, ends, lefts, rights)):
            out[n, :, top:end, left:right] = x[n - 1, :, top:end, left:right]
        return out, 1 - (ends - tops) * (rights - lefts) / (height * width)
