"""`torch.utils.data.sampler`: the names that programs import from there."""

from ...dataloaders.sampler import *  # noqa: F403
from ...dataloaders.sampler import __all__ as __all__
