"""`torch.utils.data.dataloader`: the names that programs import from there."""

from ...dataloaders import DataLoader as DataLoader
from ...dataloaders import default_collate as default_collate
from ...dataloaders import default_convert as default_convert
from ...dataloaders import get_worker_info as get_worker_info
from . import _utils as _utils

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]
