"""`shmtensor.utils.data` and `shmtensor.utils.checkpoint`, for those who type PyTorch's names."""

from . import checkpoint as checkpoint
from . import data as data

__all__ = ["checkpoint", "data"]
