"""`from_dlpack` and `to_dlpack`: PyTorch's older names."""

from ..tensor.from_data import from_dlpack as from_dlpack
from ..tensor.from_data import to_dlpack as to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
