"""Datasets, samplers, collation into shared blocks, and the DataLoader.

Imported as `shmtensor.dataloaders`, by the link shmtensor/dataloaders to this folder.
"""

if __name__ == "dataloaders":  # a second copy, whose classes are others
    raise ImportError(
        f"import dataloaders: this is the source folder of shmtensor.dataloaders: {__path__[0]}, "
        "write `import shmtensor.dataloaders`; a folder of your own needs an __init__.py to be "
        "imported by this name",
        name=__name__,
    )

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .bucket_sampler import BucketBatchSampler as BucketBatchSampler
from .bucket_sampler import DistributedWeightedSampler as DistributedWeightedSampler
from .collate import collate as collate
from .collate import default_collate as default_collate
from .collate import default_collate_fn_map as default_collate_fn_map
from .collate import default_convert as default_convert
from .cuda.device_prefetcher import DevicePrefetcher as DevicePrefetcher
from .data_loader import DataLoader as DataLoader
from .data_loader import StatefulDataLoader as StatefulDataLoader
from .dataset import ChainDataset as ChainDataset
from .dataset import ConcatDataset as ConcatDataset
from .dataset import Dataset as Dataset
from .dataset import IterableDataset as IterableDataset
from .dataset import StackDataset as StackDataset
from .dataset import Subset as Subset
from .dataset import random_split as random_split
from .datasets.uci_digits import digits as digits
from .distributed import DistributedSampler as DistributedSampler
from .loader.batch_block import allocate_parts as allocate_parts
from .loader.statistics import LoaderStatistics as LoaderStatistics
from .loader.statistics import WorkerStatistics as WorkerStatistics
from .loader.worker_info import WorkerInfo as WorkerInfo
from .loader.worker_info import get_worker_info as get_worker_info
from .sampler import BatchSampler as BatchSampler
from .sampler import RandomSampler as RandomSampler
from .sampler import Sampler as Sampler
from .sampler import SequentialSampler as SequentialSampler
from .sampler import SubsetRandomSampler as SubsetRandomSampler
from .sampler import WeightedRandomSampler as WeightedRandomSampler
from .tensor_dataset import Rows as Rows
from .tensor_dataset import TensorDataset as TensorDataset

if TYPE_CHECKING:
    from . import datasets as datasets
    from . import transforms as transforms
else:

    def __getattr__(name: str) -> Any:
        """`dataloaders.datasets` and `dataloaders.transforms`, imported at first use."""
        if name in ("datasets", "transforms"):
            return import_module(f".{name}", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "BatchSampler",
    "BucketBatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DevicePrefetcher",
    "DistributedSampler",
    "DistributedWeightedSampler",
    "IterableDataset",
    "LoaderStatistics",
    "RandomSampler",
    "Rows",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "StatefulDataLoader",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "WorkerStatistics",
    "allocate_parts",
    "collate",
    "default_collate",
    "default_collate_fn_map",
    "default_convert",
    "digits",
    "get_worker_info",
    "random_split",
]
