"""`torch.utils.data._utils.worker`: what a worker knows of itself, by that path."""

from ....dataloaders import WorkerInfo as WorkerInfo
from ....dataloaders import get_worker_info as get_worker_info

__all__ = ["WorkerInfo", "get_worker_info"]
