"""Datasets, samplers, collation into shared blocks, and the DataLoader."""

from importlib import import_module
from typing import Any

from .block import allocate_parts as allocate_parts
from .bucket import BucketBatchSampler as BucketBatchSampler
from .bucket import DistributedWeightedSampler as DistributedWeightedSampler
from .collate import collate as collate
from .collate import default_collate as default_collate
from .collate import default_collate_fn_map as default_collate_fn_map
from .collate import default_convert as default_convert
from .column import Rows as Rows
from .column import TensorDataset as TensorDataset
from .combination import ChainDataset as ChainDataset
from .combination import ConcatDataset as ConcatDataset
from .combination import StackDataset as StackDataset
from .combination import Subset as Subset
from .combination import random_split as random_split
from .dataset import Dataset as Dataset
from .dataset import IterableDataset as IterableDataset
from .distributed import DistributedSampler as DistributedSampler
from .info import WorkerInfo as WorkerInfo
from .info import get_worker_info as get_worker_info
from .loader import DataLoader as DataLoader
from .loader import StatefulDataLoader as StatefulDataLoader
from .prefetcher import DevicePrefetcher as DevicePrefetcher
from .sampler import BatchSampler as BatchSampler
from .sampler import RandomSampler as RandomSampler
from .sampler import Sampler as Sampler
from .sampler import SequentialSampler as SequentialSampler
from .sampler import SubsetRandomSampler as SubsetRandomSampler
from .sampler import WeightedRandomSampler as WeightedRandomSampler
from .statistics import LoaderStatistics as LoaderStatistics
from .statistics import WorkerStatistics as WorkerStatistics
from .uci import digits as digits


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
