"""The UCI handwritten digits: 1,797 real images of 8 x 8 pixels, as scikit-learn has them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from shmtensor.tensor.from_data import from_numpy

from ..loader.batch_block import allocate_parts
from ..tensor_dataset import TensorDataset

Array = np.ndarray[Any, Any]
HELD_OUT = 0.2
LARGEST_PIXEL = 16


def digits(train: bool = True, image: bool = False, seed: int = 0) -> TensorDataset:
    """The UCI digits, as a `TensorDataset` of pixels and labels.

    A fixed, stratified fifth is held out: the same samples for the same `seed`, on every machine,
    and each class in proportion.

    Parameters
    ----------
    train : bool, optional
        The 1,438 samples to train on; the 359 held-out ones if False.
    image : bool, optional
        Whether pixels are of shape `(N, 1, 8, 8)` instead of `(N, 64)`.
    seed : int, optional
        Which samples are held out.

    Returns
    -------
    TensorDataset
        Samples (float32 pixels between 0 and 1, int64 label).

    Raises
    ------
    ModuleNotFoundError
        scikit-learn is not installed.

    Notes
    -----
    Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine
    Learning Repository, 1998 (CC BY 4.0); the test part, as scikit-learn has it.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from shmtensor.dataloaders.datasets import digits
    >>> train, test = digits(), digits(train=False, image=True)
    >>> len(train) + len(test) == len(load_digits().target)
    True
    >>> test[0][0].shape, test[0][1].dtype
    (Size([1, 8, 8]), shmtensor.int64)
    """
    pixels, labels = read()
    indices = split(labels, train, seed)
    x, y = allocate_parts(
        [((len(indices), 64), np.dtype(np.float32)), ((len(indices),), np.dtype(np.int64))]
    )
    np.divide(pixels[indices], LARGEST_PIXEL, out=x, casting="same_kind")
    y[...] = labels[indices]
    return TensorDataset(from_numpy(x.reshape(-1, 1, 8, 8) if image else x), from_numpy(y))


@lru_cache(maxsize=1)
def read() -> tuple[Array, Array]:
    """All pixels `(1797, 64)` and labels `(1797,)`."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ModuleNotFoundError(
            "digits: the data set is part of scikit-learn, which is not installed: "
            "pip install scikit-learn (or shmtensor's extra 'examples')"
        ) from error
    data = load_digits()
    return data.data.astype(np.float32), data.target


def split(labels: Array, train: bool, seed: int) -> Array:
    """The indices of one part, in the order of the data set."""
    random = np.random.Generator(np.random.PCG64(seed))
    held_out = np.zeros(len(labels), dtype=bool)
    # Each class is permuted, its samples get evenly spaced keys in [0, 1), and the lowest fifth of
    # all keys is held out: exact in total, and within one sample of exact in each class.
    key = np.empty(len(labels))
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        key[members] = (np.arange(len(members)) + 0.5) / len(members)
    held_out[np.argsort(key, kind="stable")[: round(HELD_OUT * len(labels))]] = True
    return np.flatnonzero(held_out != train)
