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
    """The older name of `amp.autocast("cpu", ...)`, with a FutureWarning.

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
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     context = st.cpu.amp.autocast()
    >>> caught[0].category
    <class 'FutureWarning'>
    >>> with context:
    ...     y = st.ones(2, 3) @ st.ones(3, 2)
    >>> y.dtype == st.bfloat16
    True
    """
    deprecated("autocast")
    return context("cpu", dtype, enabled, cache_enabled)


def GradScaler(
    init_scale: float = 2.0**16,
    growth_factor: float = 2.0,
    backoff_factor: float = 0.5,
    growth_interval: int = 2000,
    enabled: bool = True,
) -> Scaler:
    """The older name of `amp.GradScaler("cpu", ...)`, with a FutureWarning.

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
        For the CPU.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     scaler = st.cpu.amp.GradScaler(init_scale=8.0)
    >>> scaler.get_scale(), caught[0].category
    (8.0, <class 'FutureWarning'>)
    """
    deprecated("GradScaler")
    return Scaler("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
