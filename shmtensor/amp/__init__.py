"""Mixed precision, `torch.amp` by name: `autocast`, `GradScaler`, custom Functions inside it."""

from .context import autocast as autocast
from .context import is_autocast_available as is_autocast_available
from .function import custom_bwd as custom_bwd
from .function import custom_fwd as custom_fwd
from .scaler import GradScaler as GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
