"""`shmtensor.utils.checkpoint`, for those who type `torch.utils.checkpoint`."""

from __future__ import annotations

from ..autograd.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)

__all__ = [
    "CheckpointError",
    "checkpoint",
    "checkpoint_sequential",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]
