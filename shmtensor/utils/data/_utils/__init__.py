"""`torch.utils.data._utils`: private there, and imported by programs."""

from . import collate as collate
from . import worker as worker

__all__ = ["MP_STATUS_CHECK_INTERVAL", "collate", "worker"]

# Programs set it; workers are watched without it.
MP_STATUS_CHECK_INTERVAL = 5.0
