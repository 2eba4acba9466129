"""`torch.utils.data.distributed`: the sampler of each rank's samples."""

from ...dataloaders import DistributedSampler as DistributedSampler

__all__ = ["DistributedSampler"]
