"""TransformedDataset: a data set whose batches go through a transform, the same for any worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from shmtensor.tensor import Tensor
from shmtensor.tensor.from_data import as_tensor

from ..collate import default_collate
from ..dataset import Dataset, fetch_samples, length_of
from ..loader.seeding import new_seed
from ..tensor_dataset import Rows
from ..transforms import Transform, make_keys

__all__ = ["TransformedDataset"]


class TransformedDataset(Dataset[Any]):
    """The samples of another data set after a transform of whole batches.

    A loader asks for a batch at once: the samples are collated into a block, the transform runs
    over all of them in one call, and what it returns is the batch.

    Args:
        dataset: a map-style data set; samples are tensors, tuples or dicts of them.
        transform: called with the parts of the batch, `transform(images, labels)` for tuples of
            two, `transform(batch)` for others; gives as many.
        seed: of the random transforms: sample i of epoch e is augmented by (seed, e, i), whatever
            batch and worker it comes in. None: by one draw from shmtensor's default generator for
            each batch.

    `set_epoch` before each epoch, or every epoch has the same augmentation (as with
    `DistributedSampler`). It reaches workers that already run, as the number lies in shared memory.

    Copies: those of the data set and the transform.

    Example:
        >>> from dataloaders import TensorDataset, datasets, transforms
        >>> images = TensorDataset(np.zeros((10, 1, 28, 28), np.uint8), np.arange(10))
        >>> scaled = datasets.TransformedDataset(images, transforms.ToDtype(scale=True))
        >>> scaled[3][0].dtype, int(scaled[3][1])
        (dtype('float32'), 3)
    """

    def __init__(
        self, dataset: Dataset[Any], transform: Callable[..., Any], seed: int | None = None
    ) -> None:
        self.dataset = dataset
        self.transform = transform
        self.seed = seed
        self.epoch: Tensor = as_tensor(np.zeros(1, np.int64)).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """Makes the next samples those of `epoch`, in this process and all that have the set."""
        self.epoch.array[0] = epoch

    def __len__(self) -> int:
        return length_of(self.dataset)

    def __getitem__(self, index: int) -> Any:
        if index < 0:
            index += len(self)
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> Sequence[Any]:
        """The samples of `indices`, transformed in one call."""
        batch = default_collate(fetch_samples(self.dataset, indices))
        if self.seed is None:
            seed = new_seed()
            keys = make_keys(seed, np.arange(len(indices)))
        else:
            n = len(self)
            places = np.asarray(indices, np.int64)
            epoch = make_keys(self.seed, self.epoch.array)
            keys = make_keys(int(epoch[0]), np.where(places < 0, places + n, places))
        extra = {"keys": keys} if isinstance(self.transform, Transform) else {}
        if isinstance(batch, list):
            changed = self.transform(*batch, **extra)
            columns = list(changed) if isinstance(changed, (tuple, list)) else [changed]
            return Rows(columns, len(indices))
        changed = self.transform(batch, **extra)
        if isinstance(changed, Mapping):
            names = list(changed)
            return Rows([changed[name] for name in names], len(indices), Named(names))
        return Rows([changed], len(indices), only)


class Named:
    """Parts to a dict."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def __call__(self, parts: list[Any]) -> dict[str, Any]:
        return dict(zip(self.names, parts, strict=True))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)


def only(parts: list[Any]) -> Any:
    """The single part of a sample that is neither tuple nor dict."""
    return parts[0]
