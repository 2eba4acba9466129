"""`shmtensor.utils.data`, `.checkpoint`, `.dlpack` and `.tensorboard`, by PyTorch's names."""

from . import checkpoint as checkpoint
from . import data as data
from . import dlpack as dlpack
from . import tensorboard as tensorboard

__all__ = ["checkpoint", "data", "dlpack", "tensorboard"]
