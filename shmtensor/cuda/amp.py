"""Mixed precision by its older names: `shmtensor.amp` with the device "cuda"."""

from __future__ import annotations

import functools
import warnings

from .. import cupy_runtime, dtypes
from ..amp import GradScaler as Scaler
from ..amp import autocast as context
from ..amp import custom_bwd as backward
from ..amp import custom_fwd as forward

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]

custom_fwd = functools.partial(forward, device_type="cuda")
custom_bwd = functools.partial(backward, device_type="cuda")


def amp_definitely_not_available() -> bool:
    """Whether there is no GPU."""
    return not cupy_runtime.is_available()


def deprecated(name: str) -> None:
    warnings.warn(
        f"cuda.amp.{name} is deprecated, use amp.{name}('cuda', ...)", FutureWarning, stacklevel=3
    )


def autocast(
    enabled: bool = True, dtype: dtypes.Dtype = dtypes.float16, cache_enabled: bool = True
) -> context:
    """`amp.autocast("cuda", ...)`: without a GPU it warns and does nothing."""
    deprecated("autocast")
    return context("cuda", dtype, enabled, cache_enabled)


def GradScaler(
    init_scale: float = 2.0**16,
    growth_factor: float = 2.0,
    backoff_factor: float = 0.5,
    growth_interval: int = 2000,
    enabled: bool = True,
) -> Scaler:
    """`amp.GradScaler("cuda", ...)`: without a GPU it warns and does nothing."""
    deprecated("GradScaler")
    return Scaler("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
