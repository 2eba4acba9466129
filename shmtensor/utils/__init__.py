"""`shmtensor.utils.data`, for those who type `torch.utils.data`."""

from . import data as data

__all__ = ["data"]
