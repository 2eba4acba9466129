"""`torch.utils.data.sampler`: the names that programs import from there."""

from ...dataloaders import BatchSampler as BatchSampler
from ...dataloaders import RandomSampler as RandomSampler
from ...dataloaders import Sampler as Sampler
from ...dataloaders import SequentialSampler as SequentialSampler
from ...dataloaders import SubsetRandomSampler as SubsetRandomSampler
from ...dataloaders import WeightedRandomSampler as WeightedRandomSampler

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]
