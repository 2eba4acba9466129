"""TransformedDataset: applies a transform to a data set's batches, the same in any worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from shmtensor.tensor import Tensor
from shmtensor.tensor.from_data import as_tensor

from ..collate import default_collate
from ..dataset import Dataset, fetch_samples, length_of
from ..loader.batch_block import checked_rows
from ..loader.seeding import new_seed
from ..tensor_dataset import Rows, as_dict, first_part
from ..transforms import Transform, make_keys


class TransformedDataset(Dataset[Any]):
    """The samples of another data set after a transform of whole batches.

    A loader fetches a whole batch: the samples are collated into a block, the transform runs over
    all of them in one call, and its result is the batch.

    Parameters
    ----------
    dataset : Dataset
        A map-style data set; samples are tensors, tuples or dicts of them.
    transform : callable
        Called with the parts of the batch, `transform(images, labels)` for tuples of two,
        `transform(batch)` for others; gives as many.
    seed : int, optional
        Of the random transforms: (seed, e, i) determines the augmentation of sample i in epoch e,
        in any batch and worker. None: each batch draws a seed from shmtensor's default generator.

    Notes
    -----
    Call `set_epoch` before each epoch, or every epoch has the same augmentation (as with
    `DistributedSampler`). It reaches running workers, since the number is in shared memory.

    Copies: those of the data set and the transform.

    Examples
    --------
    >>> from shmtensor.dataloaders import TensorDataset, datasets, transforms
    >>> images = TensorDataset(np.zeros((10, 1, 28, 28), np.uint8), np.arange(10))
    >>> scaled = datasets.TransformedDataset(images, transforms.ToDtype(scale=True))
    >>> scaled[3][0].dtype, int(scaled[3][1])
    (shmtensor.float32, 3)
    """

    def __init__(
        self, dataset: Dataset[Any], transform: Callable[..., Any], seed: int | None = None
    ) -> None:
        self.dataset = dataset
        self.transform = transform
        self.seed = seed
        self.epoch: Tensor = as_tensor(np.zeros(1, np.int64)).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """Makes the next samples those of `epoch`, in this process and in running workers."""
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
            epoch = make_keys(self.seed, self.epoch.array)
            rows = checked_rows("TransformedDataset", indices, len(self))
            keys = make_keys(int(epoch[0]), rows)
        extra = {"keys": keys} if isinstance(self.transform, Transform) else {}
        if isinstance(batch, list):
            result = self.transform(*batch, **extra)
            columns = list(result) if isinstance(result, (tuple, list)) else [result]
            return Rows(columns, len(indices))
        result = self.transform(batch, **extra)
        if isinstance(result, Mapping):
            names = list(result)
            return Rows([result[name] for name in names], len(indices), partial(as_dict, names))
        return Rows([result], len(indices), first_part)
