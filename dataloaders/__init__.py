"""Datasets, samplers, collation into shared blocks, and the DataLoader."""

from .collate import collate as collate
from .collate import default_collate as default_collate
from .collate import default_collate_fn_map as default_collate_fn_map
from .collate import default_convert as default_convert
from .column import TensorDataset as TensorDataset
from .combination import ChainDataset as ChainDataset
from .combination import ConcatDataset as ConcatDataset
from .combination import StackDataset as StackDataset
from .combination import Subset as Subset
from .combination import random_split as random_split
from .dataset import Dataset as Dataset
from .dataset import IterableDataset as IterableDataset
from .distributed import DistributedSampler as DistributedSampler
from .loader import DataLoader as DataLoader
from .sampler import BatchSampler as BatchSampler
from .sampler import RandomSampler as RandomSampler
from .sampler import Sampler as Sampler
from .sampler import SequentialSampler as SequentialSampler
from .sampler import SubsetRandomSampler as SubsetRandomSampler
from .sampler import WeightedRandomSampler as WeightedRandomSampler
from .uci import digits as digits
from .worker import WorkerInfo as WorkerInfo
from .worker import get_worker_info as get_worker_info

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "collate",
    "default_collate",
    "default_collate_fn_map",
    "default_convert",
    "digits",
    "get_worker_info",
    "random_split",
]
