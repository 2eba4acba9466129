"""Mixed precision on the CPU by its older names: `shmtensor.amp` with the device "cpu"."""

from __future__ import annotations

import warnings

from .. import dtypes
from ..amp import GradScaler as Scaler
from ..amp import autocast as context

__all__ = ["GradScaler", "autocast"]


def deprecated(name: str) -> None:
    warnings.warn(
        f"cpu.amp.{name} is deprecated, use amp.{name}('cpu', ...)", FutureWarning, stacklevel=3
    )


def autocast(
    enabled: bool = True, dtype: dtypes.Dtype = dtypes.bfloat16, cache_enabled: bool = True
) -> context:
    """`amp.autocast("cpu", ...)`."""
    deprecated("autocast")
    return context("cpu", dtype, enabled, cache_enabled)


def GradScaler(
    init_scale: float = 2.0**16,
    growth_factor: float = 2.0,
    backoff_factor: float = 0.5,
    growth_interval: int = 2000,
    enabled: bool = True,
) -> Scaler:
    """`amp.GradScaler("cpu", ...)`."""
    deprecated("GradScaler")
    return Scaler("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
