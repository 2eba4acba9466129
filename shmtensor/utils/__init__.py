"""`shmtensor.utils.data`, `.checkpoint` and `.tensorboard`, for those who type PyTorch's names."""

from . import checkpoint as checkpoint
from . import data as data
from . import tensorboard as tensorboard

__all__ = ["checkpoint", "data", "tensorboard"]
