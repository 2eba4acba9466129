"""`shmtensor.utils.checkpoint`: the names of `torch.utils.checkpoint`."""

from __future__ import annotations

from ..autograd.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)
from ..autograd.selective_checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "CheckpointError",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]
