"""Mixed precision, `torch.amp` by name: `autocast`, `GradScaler`, custom Functions inside it."""

from .autocast_mode import autocast as autocast
from .autocast_mode import is_autocast_available as is_autocast_available
from .custom_function import custom_bwd as custom_bwd
from .custom_function import custom_fwd as custom_fwd
from .grad_scaler import GradScaler as GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
