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
    """Whether there is no GPU.

    Returns
    -------
    bool
        The opposite of `cuda.is_available`.

    Examples
    --------
    >>> st.cuda.amp.amp_definitely_not_available() == (not st.cuda.is_available())
    True
    """
    return not cupy_runtime.is_available()


def deprecated(name: str) -> None:
    warnings.warn(
        f"cuda.amp.{name} is deprecated, use amp.{name}('cuda', ...)", FutureWarning, stacklevel=3
    )


def autocast(
    enabled: bool = True, dtype: dtypes.Dtype = dtypes.float16, cache_enabled: bool = True
) -> context:
    """The older name of `amp.autocast("cuda", ...)`, with a FutureWarning; without a GPU it warns
    again and does nothing.

    Parameters
    ----------
    enabled : bool, optional
        False: ops compute in the dtypes of their operands.
    dtype : dtype, optional
        That of products and convolutions within.
    cache_enabled : bool, optional
        Whether converted parameters are kept until the end of the outermost context.

    Returns
    -------
    amp.autocast
        A context manager and decorator.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     context = st.cuda.amp.autocast(enabled=False)
    >>> with context:
    ...     y = st.ones(2, 3) @ st.ones(3, 2)
    >>> y.dtype == st.float32
    True
    """
    deprecated("autocast")
    return context("cuda", dtype, enabled, cache_enabled)


def GradScaler(
    init_scale: float = 2.0**16,
    growth_factor: float = 2.0,
    backoff_factor: float = 0.5,
    growth_interval: int = 2000,
    enabled: bool = True,
) -> Scaler:
    """The older name of `amp.GradScaler("cuda", ...)`, with a FutureWarning; without a GPU it warns
    again and does nothing.

    Parameters
    ----------
    init_scale : float, optional
        The first factor of the loss.
    growth_factor : float, optional
        The factor grows by it after `growth_interval` steps without an infinity or NaN.
    backoff_factor : float, optional
        The factor is multiplied by it after a step with one.
    growth_interval : int, optional
        A number of steps.
    enabled : bool, optional
        False: nothing is scaled.

    Returns
    -------
    amp.GradScaler
        For GPUs.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     scaler = st.cuda.amp.GradScaler(enabled=False)
    >>> scaler.scale(st.tensor(2.0))
    tensor(2.)
    """
    deprecated("GradScaler")
    return Scaler("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
