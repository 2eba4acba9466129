"""`torch.utils.data._utils`: private there, and imported by programs."""

from . import collate as collate
from . import worker as worker

__all__ = ["collate", "worker"]
