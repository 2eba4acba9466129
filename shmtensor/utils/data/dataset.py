"""`torch.utils.data.dataset`: the names that programs import from there."""

from ...dataloaders import ChainDataset as ChainDataset
from ...dataloaders import ConcatDataset as ConcatDataset
from ...dataloaders import Dataset as Dataset
from ...dataloaders import IterableDataset as IterableDataset
from ...dataloaders import StackDataset as StackDataset
from ...dataloaders import Subset as Subset
from ...dataloaders import TensorDataset as TensorDataset
from ...dataloaders import random_split as random_split

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]
